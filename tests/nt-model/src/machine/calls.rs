//! Calls between the driver and the system: each slice, call and return is checked against the
//! rules.

use super::{
    APC, Activity, Function, Machine, Outcome, PASSIVE, PROFILE, STACK, State, Stub, Wait,
};
use crate::cost::Cost;
use crate::engine::{MASKED_LIMIT, Stack, Stop};
use crate::rules::{Rule, Violation};

/// The number of bytes of the driver's own stack that breaks [`Rule::Stack`]: half of a kernel stack
/// of 24 KB, less [`FRAMEWORK`]; the other half is for interrupts on top, and for what is below the
/// framework. The driver uses at most 9,512, in PrepareHardware.
const STACK_LIMIT: u64 = (12 << 10) - FRAMEWORK;
/// What the framework has below PrepareHardware: on Microsoft's own, a START reaches 11,028 bytes
/// (measured with the driver on KMDF built from its published source), of which 9,416 were the
/// driver's.
const FRAMEWORK: u64 = 11_028 - 9_416;
/// The number of instructions without a call to the system that breaks [`Rule::Spin`] in callbacks
/// that serve no request: [`crate::cost::Budget`] has the limits of requests.
const SPIN_LIMIT: u64 = 2_000_000;

impl Machine {
    /// Runs a slice of an activity, and checks it against the limits.
    pub(super) fn run(&mut self, index: usize, id: usize, slice: u64) -> Result<Stop, Violation> {
        let activity = &self.activities[id];
        let bus = self.engine.bus();
        let (before, calls) = (bus.executed, bus.calls);
        bus.stack =
            Stack { start: activity.stack, end: activity.stack + STACK, lowest: activity.lowest };
        let stop = self.engine.run(index, slice)?;
        let bus = self.engine.bus();
        let (executed, stack) = (bus.executed - before, bus.stack);
        let own = executed - (bus.calls - calls);
        // What Windows has put there for a handler is not the driver's.
        let in_handler = bus.in_handler.contains_key(&stack.end);
        let activity = &mut self.activities[id];
        activity.lowest = stack.lowest;
        activity.ran += executed;
        activity.ran_in_all += executed;
        // A program is no part of the driver: no limit holds for it.
        if activity.program {
            return Ok(stop);
        }
        if let Some(request) = activity.request {
            // The IRQL does not tell: the thread itself is at DISPATCH_LEVEL while it holds a spin
            // lock.
            let on = (activity.object != 0).then_some(index);
            let charged = self.budget.charge(request, on, own);
            charged.map_err(|violation| self.engine.with_stack(violation))?;
        }
        let (name, ran) = (activity.name, activity.ran);
        let broken = if stack.used() > STACK_LIMIT + self.more_stack && !in_handler {
            let what = format!("{name} uses {} bytes of its stack", stack.used());
            Some(Violation::new(Rule::Stack, what))
        } else if ran > SPIN_LIMIT {
            let what = format!("{name} runs {ran} instructions without calling the system");
            Some(Violation::new(Rule::Spin, what))
        } else if activity.irql == PROFILE {
            let ran = activity.ran_in_all;
            let what = format!("{name} runs {ran} instructions at PROFILE_LEVEL");
            (ran > MASKED_LIMIT).then(|| Violation::new(Rule::Masked, what))
        } else {
            None
        };
        broken.map_or(Ok(stop), |violation| Err(self.engine.with_stack(violation)))
    }

    /// The running activity has called a stub.
    pub(super) fn called(
        &mut self,
        index: usize,
        id: usize,
        number: usize,
    ) -> Result<(), Violation> {
        let stub = self.stubs.get(number).copied().unwrap_or(Stub::Return);
        match stub {
            Stub::Return => self.returned(index, id),
            Stub::Unmodelled(name) => {
                let name = self.unmodelled[name].clone();
                let violation = Violation::new(Rule::Unmodelled, format!("{name} is called"));
                Err(self.engine.with_stack(violation))
            }
            Stub::Function(function) => self.serve(index, id, function),
        }
    }

    pub(super) fn returned(&mut self, index: usize, id: usize) -> Result<(), Violation> {
        let value = self.engine.returned();
        if let Some(violation) = self.broken_at_return(id) {
            return Err(self.engine.with_stack(violation));
        }
        if let Some(request) = self.activities[id].request.take()
            && self.activities[id].irql == PASSIVE
        {
            self.budget.end(request);
        }
        self.processors[index].pile.pop();
        self.loaded = None;
        if let Some(began) = self.activities[id].began.take() {
            let cost = Cost::so_far(self) - began;
            self.overflow_costs.push(cost);
        }
        let activity = &mut self.activities[id];
        activity.state = State::Done(value);
        let (stack, frame, object) = (activity.stack, activity.frame, activity.object);
        if activity.detached {
            self.idle.push(id);
        }
        if object != 0 {
            self.wake(|wait| *wait == Wait::Dpc);
        }
        self.wake(|wait| *wait == Wait::ProcessorCallback);
        if frame != 0 {
            self.engine.bus().arena.free(frame, 0)?;
        }
        self.engine.bus().arena.free(stack, 0)
    }

    /// What an activity must have given back when it returns.
    fn broken_at_return(&self, id: usize) -> Option<Violation> {
        let Activity { name, top, critical: (critical, entered), .. } = self.activities[id];
        let moved = (self.engine.stack_pointer() != top).then(|| "RSP".to_owned());
        if let Some(what) = self.engine.not_kept().or(moved) {
            return Some(Violation::new(Rule::Convention, format!("{name} does not keep {what}")));
        }
        let (rule, how) = if self.framework.holds_a_lock(id) || self.kernel.holds_a_spin_lock(id) {
            (Rule::LockHeld, "with a lock held")
        } else if critical != entered {
            (Rule::CriticalRegion, "in a critical region")
        } else if self.engine.masked() {
            (Rule::Masked, "with interrupts masked")
        } else {
            return None;
        };
        Some(Violation::new(rule, format!("{name} ends {how}")))
    }

    pub(super) fn serve(
        &mut self,
        index: usize,
        id: usize,
        function: &'static Function,
    ) -> Result<(), Violation> {
        let irql = self.activities[id].irql;
        // A loop that calls the system is not a spin.
        self.activities[id].ran = 0;
        let broken = |what: String| Violation::new(Rule::Irql, what);
        if irql > function.irql {
            let what =
                format!("{} is called at IRQL {irql}, at most {}", function.name, function.irql);
            return Err(self.engine.with_stack(broken(what)));
        }
        // With interrupts masked a processor is as good as at HIGH_LEVEL.
        if self.engine.masked() && function.irql < PROFILE {
            let what = format!("{} is called with interrupts masked", function.name);
            return Err(self.engine.with_stack(broken(what)));
        }
        self.kernel.calling = function.name;
        self.calls.add(function.name.as_bytes());
        self.calls.add(&[index as u8, id as u8]);
        let outcome = (function.run)(self);
        match outcome.map_err(|violation| self.engine.with_stack(violation))? {
            Outcome::Return(value) => self.engine.return_from_stub(value),
            Outcome::Wait(wait) => {
                self.engine.return_from_stub(0);
                self.wait(index, id, function, wait)?;
            }
            Outcome::Again(wait) => {
                self.engine.repeat_stub();
                self.wait(index, id, function, wait)?;
            }
            Outcome::Spin => self.engine.repeat_stub(),
        }
        Ok(())
    }

    pub(super) fn wait(
        &mut self,
        index: usize,
        id: usize,
        function: &Function,
        wait: Wait,
    ) -> Result<(), Violation> {
        let irql = self.activities[id].irql;
        if irql > APC {
            let what = format!("{} waits at IRQL {irql}", function.name);
            return Err(self.engine.with_stack(Violation::new(Rule::Wait, what)));
        }
        self.contended += u64::from(matches!(wait, Wait::Lock(_)));
        self.unload();
        self.activities[id].state = State::Waiting(wait);
        self.processors[index].pile.pop();
        Ok(())
    }
}
