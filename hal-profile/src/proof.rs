//! START's proof: the counters that a session will use count on every processor, and, where it
//! samples, their interrupt comes. A PMU that CPUID shows can be missing all the same (guests), and
//! nothing documents that every Windows leaves LVTPC as sampling needs it.
//!
//! Each try has three steps: [`Local::begin_proof`] starts the counters on instructions, the host
//! executes some with interrupts let in, and [`Local::end_proof`] looks.

use crate::host::Local;
use crate::machine::Machine;
use crate::pmu::{self, Active};
use crate::program::Seat;
use crate::state::{Phase, Proof};

/// Tries before a processor is given up: an interrupt may be late, or lost once.
pub(crate) const TRIES: usize = 3;
/// Events to the interrupt: fewer than are executed, more than the shortest reload.
const PERIOD: u64 = 256;

impl<M: Machine> Local<'_, M> {
    /// Starts the counters, unless the proof is made already. `first`: the first try of a START.
    pub(crate) fn begin_proof(&mut self, first: bool) {
        if first {
            self.state.proof = Proof::Open;
            self.state.proof_interrupts = 0;
        }
        if matches!(
            self.state.proof,
            Proof::Passed | Proof::FixedTaken | Proof::Storm
        ) {
            return;
        }
        let Some(kind) = self
            .program
            .kind(self.state.kind)
            .filter(|kind| kind.counters != 0)
        else {
            self.state.proof = Proof::Passed;
            return;
        };
        let state = &mut *self.state;
        let capabilities = &state.capabilities;
        let samples = self.program.settings.samples;
        let whole = !self.program.settings.no_address;
        state.found.fixed = pmu::enabled_fixed(self.machine, capabilities);
        if u64::from(state.found.fixed) << 32 & kind.counters != 0 {
            state.proof = Proof::FixedTaken;
            return;
        }
        let before = pmu::take_over(self.machine, capabilities, kind, whole);
        state.found.control = before.control;
        if samples && whole {
            if state.storm && pmu::status(self.machine, capabilities) != 0 {
                state.lvtpc = pmu::lvtpc(self.machine, capabilities).into();
                state.proof = Proof::Storm;
                let found = state.found.control;
                pmu::give_back(self.machine, capabilities, kind.counters, found);
                return;
            }
            state.storm = false;
            pmu::unmask_lvtpc(self.machine, capabilities);
        }
        state.active.clear();
        for slot in kind
            .proof
            .iter()
            .take_while(|slot| slot.seat == Seat::Counter)
        {
            let from = if slot.interrupts {
                slot.width.preset(PERIOD)
            } else {
                0
            };
            state.active.add(Active::new(slot, from));
        }
        pmu::set_up(self.machine, capabilities, state.active.get());
        pmu::start(self.machine, capabilities, state.active.get());
        state.phase = Phase::Proving;
    }

    /// An interrupt has come while the proof runs.
    pub(crate) fn proof_interrupt(&mut self) {
        let state = &mut *self.state;
        let capabilities = &state.capabilities;
        let active = state.active.get_mut();
        state.proof_interrupts = state.proof_interrupts.saturating_add(1);
        pmu::stop(self.machine, capabilities, active);
        let overflows = active.iter().fold(0, |bits, one| bits | one.slot.bit());
        pmu::acknowledge(self.machine, capabilities, overflows);
        if capabilities.masks_lvtpc {
            pmu::set_lvtpc_mask(self.machine, capabilities, false);
        }
    }

    /// Stops the counters and looks. Answers whether the proof is made.
    pub(crate) fn end_proof(&mut self) -> bool {
        let state = &mut *self.state;
        if state.phase != Phase::Proving {
            return state.proof == Proof::Passed;
        }
        let capabilities = &state.capabilities;
        let active = state.active.get_mut();
        pmu::stop(self.machine, capabilities, active);
        let mut alive = true;
        for counter in &mut *active {
            pmu::read(self.machine, counter);
            alive &= counter.value != counter.preset;
        }
        pmu::clear(self.machine, capabilities, active);
        let counters = active.iter().fold(0, |bits, one| bits | one.slot.bit());
        let interrupts = active.iter().any(|counter| counter.slot.interrupts);
        state.proof = if !alive {
            Proof::CountersDead
        } else if interrupts && state.proof_interrupts == 0 {
            state.lvtpc = pmu::lvtpc(self.machine, capabilities).into();
            Proof::InterruptsDead
        } else {
            Proof::Passed
        };
        state.active.clear();
        state.phase = Phase::Stopped;
        if let Some(kind) = self.program.kind(state.kind) {
            let (counters, found) = (counters | kind.counters, state.found.control);
            pmu::give_back(self.machine, &state.capabilities, counters, found);
        }
        self.state.proof == Proof::Passed
    }

    /// The program's first source on a fixed counter that somebody else has enabled.
    pub(crate) fn taken_source(&self) -> u32 {
        let taken = u64::from(self.state.found.fixed) << 32;
        let slots = self.program.kind(self.state.kind).map(|kind| &kind.slots);
        let count = self.program.settings.count;
        let slot = slots
            .into_iter()
            .flatten()
            .take(count)
            .find(|slot| slot.seat == Seat::Counter && slot.bit() & taken != 0);
        let source = slot.and_then(|slot| self.program.sources().get(usize::from(slot.source)));
        source.map_or(0, |source| source.id)
    }
}
