//! The scheduler: in each step the seed chooses a processor, which frame runs next there, and for how
//! many instructions; time passes when everything waits for it.

use super::{DISPATCH, Machine, PASSIVE, PROFILE, QueuedDpc, STEPS, State, ThreadId, Wait};
use crate::engine::Stop;
use crate::kernel;
use crate::kmdf;
use crate::rules::{Rule, Violation};

impl Machine {
    /// Calls a function of the driver in a system thread, and runs until it returns and everything
    /// is quiet.
    pub fn call(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
    ) -> Result<u64, Violation> {
        let thread = self.spawn(name, function, arguments)?;
        self.run_until_done(thread)
    }

    /// Runs until a thread is done and everything is quiet; returns its result.
    pub fn run_until_done(&mut self, thread: ThreadId) -> Result<u64, Violation> {
        self.settle()?;
        self.check_nobody_waits()?;
        self.result_of(thread).ok_or_else(|| Violation::new(Rule::Wait, "a thread is not done"))
    }

    /// Checks that no thread waits when everything is quiet.
    pub fn check_nobody_waits(&self) -> Result<(), Violation> {
        let waits = self.activities.iter().find_map(|activity| {
            let State::Waiting(wait) = activity.state else {
                return None;
            };
            Some(format!("{} waits for what nobody does: {wait:?}", activity.name))
        });
        waits.map_or(Ok(()), |what| Err(Violation::new(Rule::Wait, what)))
    }

    /// Runs until nothing can go on; time passes when a thread waits for it.
    pub fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..STEPS {
            if !self.go_on()? {
                return Ok(());
            }
        }
        Err(Violation::new(Rule::Endless, "the machine does not settle"))
    }

    /// Runs one slice, or lets time pass if everything waits for it; `false` if nothing can go on.
    pub fn go_on(&mut self) -> Result<bool, Violation> {
        if self.step()? {
            return Ok(true);
        }
        let Some(next) = self.next_moment() else {
            return Ok(false);
        };
        self.pass_to(next);
        self.wake(|wait| matches!(wait, Wait::Time(at) if *at <= next));
        Ok(true)
    }

    pub(super) fn next_moment(&self) -> Option<u64> {
        let waits = self.activities.iter().filter_map(|activity| match activity.state {
            State::Waiting(Wait::Time(at)) => Some(at),
            _ => None,
        });
        waits.min()
    }

    /// Threads that wait for this become ready.
    pub fn wake(&mut self, over: impl Fn(&Wait) -> bool) {
        for activity in &mut self.activities {
            if let State::Waiting(wait) = &activity.state
                && over(wait)
            {
                activity.state = State::Ready;
            }
        }
    }

    /// One of the threads that wait for this, chosen by the seed, becomes ready.
    pub fn wake_one(&mut self, over: impl Fn(&Wait) -> bool) -> Option<usize> {
        let waiting: Vec<usize> = (0..self.activities.len())
            .filter(|&id| matches!(&self.activities[id].state, State::Waiting(w) if over(w)))
            .collect();
        let chosen = *waiting.get(self.rng.usize(0..waiting.len().max(1)))?;
        self.activities[chosen].state = State::Ready;
        Some(chosen)
    }

    /// Puts a DPC into a processor's queue.
    pub fn queue_dpc(&mut self, processor: usize, dpc: QueuedDpc) {
        let queue = &mut self.processors[processor].dpcs;
        if dpc.first {
            queue.push_front(dpc);
        } else {
            queue.push_back(dpc);
        }
    }

    /// Whether a DPC, or a timer's callback, is queued or runs.
    pub fn is_under_way(&self, object: u64) -> bool {
        self.processors.iter().any(|processor| {
            let queued = processor.dpcs.iter().any(|dpc| dpc.object == object);
            let mut pile = processor.pile.iter();
            queued || pile.any(|&id| self.activities[id].object == object)
        })
    }

    /// Whether a thread with this name has not yet ended.
    pub fn is_calling(&self, name: &str) -> bool {
        let mut activities = self.activities.iter();
        activities.any(|one| one.name == name && !matches!(one.state, State::Done(_)))
    }

    /// Whether any DPC is queued or runs.
    pub fn has_dpcs(&self) -> bool {
        self.processors.iter().any(|processor| {
            let mut pile = processor.pile.iter();
            !processor.dpcs.is_empty() || pile.any(|&id| self.activities[id].object != 0)
        })
    }

    /// The number of DPCs and timers' callbacks that are queued.
    pub fn queued_dpcs(&self) -> usize {
        self.processors.iter().map(|processor| processor.dpcs.len()).sum()
    }

    /// What is queued begins soon: once in so many steps, if its processor is not interrupted for it.
    pub fn hasten_dpcs(&mut self, patience: u16) {
        let queues = self.processors.iter_mut().flat_map(|processor| &mut processor.dpcs);
        queues.for_each(|dpc| dpc.patience = dpc.patience.min(patience));
    }

    /// Whether all processors could lose their registers now: nothing is above PASSIVE_LEVEL or has
    /// interrupts masked, and no interrupt or DPC is pending.
    pub fn can_halt(&self) -> bool {
        let calm = |&id: &usize| {
            let activity = &self.activities[id];
            activity.irql == PASSIVE && !activity.masked
        };
        self.processors.iter().all(|processor| {
            processor.interrupt.is_none()
                && processor.dpcs.is_empty()
                && processor.pile.iter().all(calm)
        })
    }

    /// Runs one slice of one processor; `false` if none has anything to do.
    pub(super) fn step(&mut self) -> Result<bool, Violation> {
        kmdf::present(self)?;
        if self.disturbed && self.rng.u8(0..16) == 0 {
            self.disturb();
        }
        let ready: Vec<usize> = (0..self.activities.len())
            .filter(|&id| self.activities[id].state == State::Ready)
            .collect();
        let busy = |&index: &usize| {
            let processor = &self.processors[index];
            !self.is_below_threads(index)
                || !processor.dpcs.is_empty()
                || processor.interrupt.is_some()
        };
        // Programs do not count: with nothing but programs the driver has come to rest.
        let quiet = ready.is_empty() && !(0..self.processors.len()).any(|index| busy(&index));
        let able: Vec<usize> = (0..self.processors.len())
            .filter(|&index| {
                if self.has_program(index) {
                    !quiet || self.program_may_run(index) > 0
                } else {
                    !ready.is_empty() || busy(&index)
                }
            })
            .collect();
        if able.is_empty() {
            return Ok(false);
        }
        let index = able[self.rng.usize(0..able.len())];
        self.only_late = ready.is_empty() && (0..self.processors.len()).all(|i| self.may_rest(i));
        self.choose_activity(index, &ready)?;
        let Some(&id) = self.processors[index].pile.last() else {
            return Ok(true);
        };
        self.load(id);
        let mut slice = self.slice();
        if quiet && self.activities[id].program {
            slice = slice.min(self.program_may_run(index));
        }
        self.running_on = index;
        self.engine.bus().stops_at_unmask = true;
        self.engine.bus().raised = self.activities[id].irql > PASSIVE;
        let stop = self.run(index, id, slice)?;
        self.activities[id].masked = self.engine.masked();
        if !self.is_guest() {
            // The workload's overflows wait in the local APIC; the guest feed reports its own.
            self.take_pending(index);
        }
        self.take_arrived(index);
        match stop {
            Stop::Stub(number) => self.called(index, id, number)?,
            Stop::Exit => self.program_returned(index, id)?,
            Stop::Slice => {}
        }
        Ok(true)
    }

    /// Whether a processor has nothing to do at once.
    fn may_rest(&self, index: usize) -> bool {
        let processor = &self.processors[index];
        let late = processor.dpcs.front().is_none_or(|dpc| dpc.patience > 1);
        late && processor.interrupt.is_none() && processor.pile.is_empty()
    }

    pub(super) fn slice(&mut self) -> u64 {
        // Short slices try what comes between two instructions, long ones let a call reach its end.
        let most = [4, 64, 1000, 20_000][if self.finely { 0 } else { self.rng.usize(0..4) }];
        self.rng.u64(1..=most)
    }

    /// Chooses what goes on top of a processor's pile: an interrupt, a DPC, a thread.
    pub(super) fn choose_activity(
        &mut self,
        index: usize,
        ready: &[usize],
    ) -> Result<(), Violation> {
        let top = self.processors[index].pile.last().copied();
        let (irql, masked) = top
            .map_or((PASSIVE, false), |id| (self.activities[id].irql, self.activities[id].masked));
        // Interrupts are masked: neither an interrupt nor a DPC's software interrupt gets through.
        if masked {
            return Ok(());
        }
        // What runs next goes by IRQL: an interrupt, a DPC, a thread.
        if irql < PROFILE
            && let Some(mut interrupted) = self.processors[index].interrupt.take()
        {
            if self.is_guest() {
                interrupted = self.interrupted_now(index);
            }
            self.wake_processor(index);
            return self.deliver(index, &interrupted);
        }
        let first = self.processors[index].dpcs.front();
        let late = match first {
            Some(&QueuedDpc { patience: patience @ 2.., .. }) => {
                !self.only_late && self.rng.u16(0..patience) != 0
            }
            // Windows requests the DPC's interrupt at once; some instructions may still run before
            // it arrives.
            _ => top.is_some() && self.rng.u8(0..4) == 0,
        };
        if irql < DISPATCH
            && !late
            && let Some(dpc) = self.processors[index].dpcs.pop_front()
        {
            let who = top.map_or((0, 0), |id| self.activities[id].who);
            self.wake_processor(index);
            kernel::dpc_begins(self, dpc)?;
            // KDEFERRED_ROUTINE: Dpc, DeferredContext, SystemArgument1 and 2.
            let [context, first, second] = dpc.arguments;
            let arguments = [dpc.object, context, first, second];
            let id = self.pile(index, "DPC", dpc.routine, &arguments, DISPATCH, who)?;
            self.activities[id].object = dpc.object;
            self.activities[id].request = dpc.request;
            return Ok(());
        }
        if self.is_below_threads(index) && !ready.is_empty() {
            self.wake_processor(index);
            let id = ready[self.rng.usize(0..ready.len())];
            self.activities[id].state = State::Running;
            self.processors[index].pile.push(id);
        }
        Ok(())
    }
}
