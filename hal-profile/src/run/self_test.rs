//! START's proof that the counters a session will use do count on every processor and, if it
//! samples, that their interrupt arrives. A PMU that CPUID reports may still be missing (in
//! guests), and nothing documents that every version of Windows leaves LVTPC as sampling needs it.
//!
//! Each try has three steps: [`Local::begin_proof`] starts the counters on an instruction event,
//! the host executes some instructions with interrupts enabled, and [`Local::end_proof`] checks the
//! result.

use crate::cpu::machine::Machine;
use crate::plan::counter_config::Seat;
use crate::plan::program::KindProgram;
use crate::run::host::Local;
use crate::run::pmu;
use crate::run::state::{Phase, Proof};
use crate::run::throttle::STORM;

/// Instructions that each try executes. An interrupt may be late, or lost once, so later tries wait
/// longer for it.
pub(crate) const TRIES: [u32; 3] = [300, 3_000, 13_000];
/// Events until the interrupt: fewer than a try executes, more than the shortest reload.
pub(crate) const PERIOD: u64 = 160;

impl<M: Machine> Local<'_, M> {
    /// Starts the counters, unless an earlier try passed or the proof cannot be made. `first`: this
    /// is the first try of a START.
    pub(crate) fn begin_proof(&mut self, first: bool) {
        if first {
            self.state.proof = Proof::Open;
            self.state.proof_interrupts = 0;
        }
        if matches!(
            self.state.proof,
            Proof::Passed | Proof::FixedTaken | Proof::BranchesTaken | Proof::Storm
        ) {
            return;
        }
        let Some(kind) = self.program.kind(self.state.kind) else {
            return;
        };
        if first && !self.take_over() {
            self.state.proof = Proof::FixedTaken;
            return;
        }
        self.state.phase = Phase::Proved;
        if first && self.branches_taken() {
            self.state.proof = Proof::BranchesTaken;
            return;
        }
        let samples = self.program.settings.samples;
        if kind.counters == 0 || (samples && !self.interrupt_is_clear()) {
            return;
        }
        let capabilities = &self.state.capabilities;
        pmu::set_up(self.machine, capabilities, &kind.proof);
        pmu::start(self.machine, capabilities, &kind.proof);
        self.state.phase = Phase::Proving;
    }

    /// Unmasks the overflow interrupt; `false` if a storm masked it and is not over.
    fn interrupt_is_clear(&mut self) -> bool {
        let state = &mut *self.state;
        // `take_over` has acknowledged what there was: what is still there holds the line active.
        let left = state.own_status();
        if state.storm && pmu::status(self.machine, &state.capabilities) & left != 0 {
            state.evidence = pmu::lvtpc(self.machine, &state.capabilities).into();
            state.proof = Proof::Storm;
            return false;
        }
        state.storm = false;
        pmu::unmask_lvtpc(self.machine, &state.capabilities);
        true
    }

    /// Handles an interrupt that comes during the proof, or just after a try that did not see it.
    /// Too many of them are a storm.
    pub(crate) fn proof_interrupt(&mut self) {
        let state = &mut *self.state;
        let capabilities = &state.capabilities;
        let Some(KindProgram { proof, .. }) = self.program.kind(state.kind) else {
            return;
        };
        state.proof_interrupts = state.proof_interrupts.saturating_add(1);
        if state.phase == Phase::Proving {
            pmu::stop(self.machine, capabilities, proof);
        }
        let ours = proof.bits() | capabilities.global.conditions;
        pmu::acknowledge_shown(self.machine, capabilities, ours);
        if state.proof_interrupts >= STORM {
            pmu::set_lvtpc_mask(self.machine, capabilities, true);
            state.storm = true;
        } else if capabilities.masks_lvtpc {
            pmu::set_lvtpc_mask(self.machine, capabilities, false);
        }
    }

    /// Stops the counters and checks them. Returns whether the proof has passed; if so, the
    /// counters stay taken over for [`Self::start`].
    pub(crate) fn end_proof(&mut self) -> bool {
        let state = &mut *self.state;
        if state.phase == Phase::Proved && state.proof == Proof::Open {
            state.proof = Proof::Passed;
        }
        let kind = self.program.kind(state.kind);
        let Some(KindProgram { proof, .. }) = kind.filter(|_| state.phase == Phase::Proving) else {
            return state.proof == Proof::Passed;
        };
        let capabilities = &state.capabilities;
        pmu::stop(self.machine, capabilities, proof);
        let mut alive = true;
        for counter in proof.get() {
            let value = pmu::read(self.machine, counter);
            // A missing counter reads as 0, but a working one may also have been stopped at 0: by
            // its interrupt, or by the freeze that came with an interrupt still to come.
            let absent = value == 0
                && state.proof_interrupts == 0
                && pmu::status(self.machine, capabilities) & counter.slot.bit() == 0;
            alive &= value != counter.preset && !absent;
        }
        pmu::clear(self.machine, capabilities, proof);
        let interrupts = proof.get().iter().any(|counter| counter.slot.interrupts);
        state.proof = if interrupts && state.storm {
            state.evidence = pmu::lvtpc(self.machine, capabilities).into();
            Proof::Storm
        } else if !alive {
            Proof::CountersDead
        } else if interrupts && state.proof_interrupts == 0 {
            state.evidence = pmu::lvtpc(self.machine, capabilities).into();
            Proof::InterruptsDead
        } else {
            Proof::Passed
        };
        let passed = state.proof == Proof::Passed;
        if !passed && interrupts {
            // A refused START leaves no freeze to other owners.
            pmu::acknowledge_shown(self.machine, capabilities, capabilities.global.freeze);
        }
        state.phase = Phase::Proved;
        passed
    }

    /// Gives the counters back when START is refused.
    pub(crate) fn abandon_proof(&mut self) {
        if self.state.phase == Phase::Proved {
            self.give_back();
            self.state.phase = Phase::Stopped;
        }
    }

    /// The program's first source on a fixed counter that another owner has enabled.
    pub(crate) fn taken_source(&self) -> u32 {
        let taken = u64::from(self.state.found.fixed) << 32;
        let slots = self.program.kind(self.state.kind).map(|kind| &kind.slots.each);
        let count = self.program.settings.count;
        let slot = slots
            .into_iter()
            .flatten()
            .take(count)
            .find(|slot| slot.seat == Seat::Counter && slot.bit() & taken != 0);
        let source = slot.map(|slot| &self.program.sources[slot.source]);
        source.map_or(0, |source| source.id)
    }
}
