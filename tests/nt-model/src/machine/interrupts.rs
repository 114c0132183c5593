//! Overflow interrupts: how they are delivered, and what comes at any moment on a disturbed
//! machine.

use super::{Machine, PROFILE, STEPS};
use crate::cost::Cost;
use crate::kernel;
use crate::memory::{IMAGE, PAGE};
use crate::rules::{Rule, Violation};
use hal_profile::run::overflow::Interrupted;
use shared_types::Mode;
use sim::cpu::event::{Counts, Event};
use sim::quirks::Quirk;
use std::collections::VecDeque;

/// This many interrupts within this many nanoseconds may be taken for a storm: the driver's own
/// limits, as the modelled time-stamp counters run at 1 GHz.
const STORM: usize = 100;
const STORM_NS: u64 = 1 << 25;

/// The interrupts of a processor since its LVTPC was last found unmasked.
#[derive(Default)]
pub(super) struct Storm {
    /// The times of the latest ones.
    recent: VecDeque<u64>,
    /// Whether there was a storm.
    was: bool,
    /// Whether an interrupt came when there was no handler that would unmask LVTPC.
    unhandled: bool,
}

impl Storm {
    fn interrupted(&mut self, now: u64) {
        self.recent.push_back(now);
        if self.recent.len() < STORM {
            return;
        }
        let first = self.recent.pop_front();
        self.was |= first.is_some_and(|first| now.wrapping_sub(first) < STORM_NS);
    }
}

/// What happens at moments that the seed chooses, while a machine is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    /// An overflow interrupt although no counter has overflowed.
    Spurious,
    /// Events that make counters advance, perhaps past their overflow.
    Events,
    /// The timer, before its time.
    Timer,
}

impl Machine {
    /// An overflow interrupt arrives at a processor, and is handled.
    pub fn interrupt(
        &mut self,
        processor: usize,
        interrupted: Interrupted,
    ) -> Result<(), Violation> {
        self.processors[processor].interrupt = Some(interrupted);
        for _ in 0..STEPS {
            if !self.is_interrupted(processor) || !self.step()? {
                return Ok(());
            }
        }
        let what = "an interrupt is not handled to its end";
        Err(Violation::new(Rule::Endless, what))
    }

    pub(super) fn is_interrupted(&self, processor: usize) -> bool {
        let processor = &self.processors[processor];
        let handles = |&id: &usize| self.activities[id].irql == PROFILE;
        processor.interrupt.is_some() || processor.pile.iter().any(handles)
    }

    /// The HAL takes an overflow interrupt: it calls the handler that is registered at this moment,
    /// or no one. Windows' own sampling handles its counter's itself.
    pub(super) fn deliver(
        &mut self,
        index: usize,
        interrupted: &Interrupted,
    ) -> Result<(), Violation> {
        if self.engine.bus().cpus[index].processor.unclaimed_nmis() > 0 {
            let what = "an overflow was an NMI, which nobody claims: bug check 0x80";
            return Err(Violation::new(Rule::BugCheck, what));
        }
        let who = (interrupted.process, interrupted.thread);
        if let Some(handler) = self.kernel.interrupt_handler {
            let now = self.engine.bus().cpus[index].processor.timestamp();
            self.processors[index].storm.interrupted(now);
            let frame = kernel::trap_frame(self, interrupted)?;
            let id = self.pile(index, "interrupt", handler, &[frame, 0], PROFILE, who)?;
            self.activities[id].frame = frame;
            self.activities[id].began = Some(Cost::so_far(self));
            self.interrupts += 1;
            return Ok(());
        }
        // No handler is registered.
        let processor = &mut self.engine.bus().cpus[index].processor;
        if processor.quirks().has(Quirk::FixedInterrupts) {
            processor.handled_by_windows();
        } else {
            self.processors[index].storm.unhandled = true;
        }
        Ok(())
    }

    /// An owner that had a handler has released the counters, and LVTPC was found masked on some
    /// processors. That is allowed after a storm, that of an earlier session included as long as the
    /// driver has found nothing else, and where an interrupt came when the handler was gone: its
    /// delivery masks LVTPC.
    pub fn left_masked(&mut self, masked: &[usize]) -> Result<(), Violation> {
        for (index, processor) in self.processors.iter_mut().enumerate() {
            if !masked.contains(&index) {
                processor.storm = Storm::default();
            }
        }
        let registers = &self.engine.bus_ref().registers;
        let may_be = |index: usize| {
            let storm = &self.processors[index].storm;
            storm.was || storm.unhandled || registers.is_old_storm(index)
        };
        let Some(index) = masked.iter().find(|&&index| !may_be(index)) else {
            return Ok(());
        };
        let what = format!("LVTPC is left masked on processor {index}, where there was no storm");
        Err(Violation::new(Rule::BitsLeft, what))
    }

    /// Something happens at this moment.
    pub(super) fn disturb(&mut self) {
        const KINDS: [Disturbance; 3] =
            [Disturbance::Spurious, Disturbance::Events, Disturbance::Timer];
        let index = self.rng.usize(0..self.processors.len());
        match KINDS[self.rng.usize(0..KINDS.len())] {
            Disturbance::Spurious => {
                self.processors[index].interrupt = Some(self.interrupted(index));
            }
            Disturbance::Events => {
                let mut events = Counts::default();
                for event in [Event::Instructions, Event::Cycles] {
                    let bits = self.rng.u32(1..21);
                    let many = self.rng.u64(0..1 << bits);
                    events.set(event, many, many / 2);
                }
                self.engine.bus().cpus[index].processor.exercise(events);
                self.take_pending(index);
            }
            Disturbance::Timer => kernel::expire_timers(self),
        }
    }

    /// An overflow that the processor's local APIC reports becomes a pending interrupt.
    pub(super) fn take_pending(&mut self, index: usize) {
        let cpu = &mut self.engine.bus().cpus[index];
        if cpu.processor.acknowledge_interrupt().is_some() {
            self.processors[index].interrupt = Some(self.interrupted(index));
        }
    }

    /// What an interrupt would interrupt on a processor: code of this driver.
    pub(super) fn interrupted(&self, index: usize) -> Interrupted {
        let top = self.processors[index].pile.last();
        let (process, thread) = top.map_or((0, 0), |&id| self.activities[id].who);
        Interrupted { ip: IMAGE + PAGE, mode: Mode::Kernel, process, thread }
    }
}
