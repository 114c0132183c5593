//! Activities: how a thread, a DPC or an interrupt is created, and its registers.

use super::{Activity, Machine, PASSIVE, STACK, SYSTEM, State, ThreadId};
use crate::rules::Violation;

impl Machine {
    /// Starts a thread of the system that calls a function of the driver.
    pub fn spawn(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
    ) -> Result<ThreadId, Violation> {
        Ok(ThreadId(self.activity(name, function, arguments, PASSIVE, SYSTEM)?))
    }

    /// Starts a thread that calls one of the device's PnP or power callbacks, which the framework
    /// does in a critical region.
    pub fn spawn_in_critical_region(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
    ) -> Result<ThreadId, Violation> {
        let thread = self.spawn(name, function, arguments)?;
        self.activities[thread.0].critical = (1, 1);
        Ok(thread)
    }

    /// Starts a thread that serves a request with this code; no one waits for it.
    pub fn spawn_request(
        &mut self,
        code: u32,
        function: u64,
        arguments: &[u64],
        who: (u32, u32),
    ) -> Result<(), Violation> {
        let id = self.activity("EvtIoDeviceControl", function, arguments, PASSIVE, who)?;
        let request = self.budget.begin(code);
        let activity = &mut self.activities[id];
        (activity.detached, activity.request) = (true, Some(request));
        Ok(())
    }

    /// The return value of a thread that is done; the thread is then forgotten.
    pub fn result_of(&mut self, thread: ThreadId) -> Option<u64> {
        let State::Done(value) = self.activities[thread.0].state else {
            return None;
        };
        self.idle.push(thread.0);
        Some(value)
    }

    pub(super) fn activity(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
        irql: u8,
        who: (u32, u32),
    ) -> Result<usize, Violation> {
        let stack = self.engine.allocate(STACK, 0)?;
        // The call is begun in the engine's own registers, which may be another activity's.
        self.unload();
        self.engine.begin_call(function, arguments, stack + STACK);
        let mut activity = Activity {
            registers: self.engine.registers()?,
            stack,
            irql,
            masked: false,
            state: State::Ready,
            top: self.engine.stack_pointer() + 8,
            lowest: stack + STACK,
            ran: 0,
            ran_in_all: 0,
            who,
            name,
            critical: (0, 0),
            program: false,
            // Nobody waits for the end of a DPC or of an interrupt.
            detached: irql != PASSIVE,
            object: 0,
            frame: 0,
            request: None,
            began: None,
        };
        self.engine.save(&mut activity.registers);
        let Some(id) = self.idle.pop() else {
            self.activities.push(activity);
            return Ok(self.activities.len() - 1);
        };
        self.activities[id] = activity;
        Ok(id)
    }

    pub(super) fn pile(
        &mut self,
        index: usize,
        name: &'static str,
        function: u64,
        arguments: &[u64],
        irql: u8,
        who: (u32, u32),
    ) -> Result<usize, Violation> {
        let id = self.activity(name, function, arguments, irql, who)?;
        self.activities[id].state = State::Running;
        self.processors[index].pile.push(id);
        Ok(id)
    }

    pub(super) fn unload(&mut self) {
        if let Some(id) = self.loaded.take() {
            self.engine.save(&mut self.activities[id].registers);
        }
    }

    pub(super) fn load(&mut self, id: usize) {
        if self.loaded != Some(id) {
            self.unload();
            self.engine.load(&self.activities[id].registers);
            self.loaded = Some(id);
        }
    }
}
