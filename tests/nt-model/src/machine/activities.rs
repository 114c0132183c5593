//! Activities: how a thread, a DPC or an interrupt is created, and its registers.

use super::{Activity, Machine, PASSIVE, STACK, SYSTEM, State, ThreadId};
use crate::rules::{Rule, Violation};
use anyhow::{Context, Result};

impl Machine {
    /// Starts a thread that calls a function of the driver.
    pub fn spawn(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
        who: (u32, u32),
    ) -> Result<ThreadId> {
        let id = self.activity(name, function, arguments, PASSIVE, who)?;
        Ok(ThreadId(id))
    }

    /// Starts a thread that calls one of the device's PnP or power callbacks, which the framework
    /// does in a critical region.
    pub fn spawn_in_critical_region(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
    ) -> Result<ThreadId, Violation> {
        let thread = self
            .spawn(name, function, arguments, SYSTEM)
            .map_err(|error| Violation::new(Rule::Unmodelled, error.to_string()))?;
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
        let thread = self
            .spawn("EvtIoDeviceControl", function, arguments, who)
            .map_err(|error| Violation::new(Rule::Unmodelled, error.to_string()))?;
        let request = self.budget.begin(code);
        let activity = &mut self.activities[thread.0];
        (activity.detached, activity.request) = (true, Some(request));
        Ok(())
    }

    /// Starts a thread that no one waits for.
    pub fn spawn_detached(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
        who: (u32, u32),
    ) -> Result<(), Violation> {
        let thread = self
            .spawn(name, function, arguments, who)
            .map_err(|error| Violation::new(Rule::Unmodelled, error.to_string()))?;
        self.activities[thread.0].detached = true;
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
    ) -> Result<usize> {
        let stack = self.engine.allocate(STACK, 0).context("no stack")?;
        self.unload();
        self.engine.begin_call(function, arguments, stack + STACK);
        let top = self.engine.stack_pointer() + 8;
        let id = self.idle_activity()?;
        let activity = &mut self.activities[id];
        self.engine.save(&mut activity.registers);
        activity.stack = stack;
        activity.irql = irql;
        activity.masked = false;
        activity.state = State::Ready;
        (activity.lowest, activity.ran, activity.ran_in_all) = (stack + STACK, 0, 0);
        activity.top = top;
        activity.who = who;
        activity.name = name;
        activity.critical = (0, 0);
        activity.request = None;
        activity.program = false;
        activity.detached = irql != PASSIVE;
        activity.object = 0;
        activity.frame = 0;
        activity.began = None;
        Ok(id)
    }

    /// A slot for an activity, reused or new.
    pub(super) fn idle_activity(&mut self) -> Result<usize> {
        if let Some(id) = self.idle.pop() {
            return Ok(id);
        }
        self.activities.push(Activity {
            registers: self.engine.registers()?,
            stack: 0,
            irql: PASSIVE,
            masked: false,
            state: State::Done(0),
            top: 0,
            lowest: 0,
            ran: 0,
            ran_in_all: 0,
            who: (0, 0),
            name: "",
            request: None,
            critical: (0, 0),
            program: false,
            detached: false,
            object: 0,
            frame: 0,
            began: None,
        });
        Ok(self.activities.len() - 1)
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
        let id = self
            .activity(name, function, arguments, irql, who)
            .map_err(|error| Violation::new(Rule::Unmodelled, error.to_string()))?;
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
