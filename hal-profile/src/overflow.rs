//! The one overflow loop: who overflowed, record, reload, acknowledge, unmask, start.
//!
//! An interrupt is answered here on the processor it came to, at PROFILE_LEVEL: no lock, no
//! allocation, no panic, nothing that waits. A counter has overflowed when it has come as many
//! events as its period since its last sample; what it came beyond that is carried into the next
//! preset, so that N periods take N times the period of events however late interrupts come.
//!
//! What no interrupt told of, a look finds (`Local::look`): its periods are counted as missed.

use crate::guard::{Handled, Verdict};
use crate::host::Local;
use crate::machine::Machine;
use crate::pmu::{self, Active};
use crate::program::MAX_COUNTERS;
use crate::ring::Ring;
use crate::state::{MOST_DOUBLINGS, Phase, ProcessorState, Total, doubled};
use crate::statistics::SampleStatistics;
use shared_types::{ErrorCode, LossCause, Mode, Sample};

/// A counter is never preset nearer to its overflow: some processors miss overflows of very short
/// presets (Linux' limits are 2 for all, 32 and 128 for some).
const SHORTEST_RELOAD: u64 = 128;

/// What was interrupted, from the trap frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Address of the instruction that would have come next.
    pub ip: u64,
    /// User, kernel, or not known (the HAL's callback gives no trap frame).
    pub mode: Mode,
    /// Process.
    pub process: u32,
    /// Thread.
    pub thread: u32,
}

/// What the HAL's callback knows of it.
const NOWHERE: Interrupted = Interrupted {
    ip: 0,
    mode: Mode::Unknown,
    process: 0,
    thread: 0,
};

/// Where a period's sample goes, or why there is none.
struct Recorder<'a> {
    statistics: &'a mut SampleStatistics,
    ring: Option<Ring<'a>>,
    /// `None` where no interrupt told of the overflow.
    interrupted: Option<&'a Interrupted>,
    may_see_kernel: bool,
    doublings: u32,
    processor: u32,
    entry: u64,
}

const _: () = assert!(MAX_COUNTERS == u32::BITS as usize);

impl<M: Machine> Local<'_, M> {
    /// Answers an overflow interrupt in own-handler mode. PROFILE_LEVEL.
    pub fn interrupt(&mut self, interrupted: &Interrupted) {
        let entry = self.machine.timestamp();
        if matches!(self.state.phase, Phase::Proving | Phase::Proved) {
            self.proof_interrupt();
            return;
        }
        let found = self.collect(entry, Some(interrupted));
        self.guard(entry, found == 0);
    }

    /// Answers the HAL's overflow callback: the HAL has stopped the counters, says which overflowed
    /// (bits of the global registers' layout), and clears and restarts them itself. PROFILE_LEVEL.
    pub fn callback(&mut self, overflowed: u64) {
        let entry = self.machine.timestamp();
        if matches!(self.state.phase, Phase::Proving | Phase::Proved) {
            self.state.proof_interrupts = self.state.proof_interrupts.saturating_add(1);
            return;
        }
        let (mut recorder, state, machine) = recorder(self, entry, Some(&NOWHERE));
        let mut spurious = true;
        for counter in state.active.get_mut() {
            if overflowed & counter.slot.bit() == 0 {
                continue;
            }
            pmu::read(machine, counter);
            if counter.has_overflowed()
                && let Some(total) = state.totals.get_mut(usize::from(counter.slot.source))
            {
                let late = state.capabilities.errata.interrupts_one_late;
                recorder.overflowed(counter, total, late);
                pmu::reload(machine, state.capabilities, counter);
                spurious = false;
            }
        }
        self.guard(entry, spurious);
    }

    /// Finds overflows that no interrupt has told of. The host has let pending ones in before.
    pub(crate) fn look(&mut self) {
        let entry = self.machine.timestamp();
        self.collect(entry, None);
    }

    /// Records and reloads every counter that has overflowed, and starts it again unless counters
    /// are halted. Answers them as a mask.
    fn collect(&mut self, entry: u64, interrupted: Option<&Interrupted>) -> u32 {
        let whole_pmu = !self.program.settings.no_address;
        let owns_lvtpc = whole_pmu && !self.state.storm;
        let (mut recorder, state, machine) = recorder(self, entry, interrupted);
        let capabilities = state.capabilities;
        let active = state.active.get_mut();
        let running = state.phase == Phase::Running;
        let control = if running {
            pmu::hold(machine, capabilities, active)
        } else {
            0
        };
        let overflowed = if running {
            pmu::overflowed(machine, capabilities, active)
        } else {
            halted(machine, active)
        };
        let late = capabilities.errata.interrupts_one_late;
        let mut reloaded = 0;
        for (index, counter) in active.iter_mut().enumerate() {
            if overflowed >> index & 1 != 0
                && let Some(total) = state.totals.get_mut(usize::from(counter.slot.source))
            {
                recorder.overflowed(counter, total, late);
                pmu::reload(machine, capabilities, counter);
                reloaded |= counter.slot.bit();
            }
        }
        if overflowed == 0 && interrupted.is_some() {
            // A bit of ours that is still set would raise the interrupt again.
            reloaded = active.iter().fold(0, |bits, one| bits | one.slot.bit());
        }
        if whole_pmu {
            pmu::acknowledge_freeze(machine, capabilities, reloaded);
        } else {
            pmu::acknowledge(machine, capabilities, reloaded);
        }
        if owns_lvtpc && interrupted.is_some() && capabilities.masks_lvtpc {
            pmu::set_lvtpc_mask(machine, capabilities, false);
        } else if owns_lvtpc && interrupted.is_none() && overflowed != 0 {
            pmu::unmask_lvtpc(machine, capabilities);
        }
        if running {
            pmu::resume(machine, capabilities, active, control, overflowed);
        }
        overflowed
    }

    /// Holds the handler against its budget of time.
    fn guard(&mut self, entry: u64, spurious: bool) {
        let exit = self.machine.timestamp();
        let state = &mut *self.state;
        let statistics = &mut state.statistics;
        let ticks = exit.wrapping_sub(entry);
        statistics.handler_ticks = statistics.handler_ticks.wrapping_add(ticks);
        statistics.spurious = statistics.spurious.wrapping_add(u64::from(spurious));
        let handled = Handled {
            entry,
            exit,
            // Whose interrupts the HAL handles cannot storm us.
            spurious: spurious && !self.program.settings.no_address,
            virtualized: state.capabilities.virtualized,
        };
        match state
            .guard
            .account(handled, self.program.settings.interrupt_time)
        {
            Verdict::Allow => {}
            Verdict::Throttle => {
                statistics.throttled = statistics.throttled.wrapping_add(1);
                state.doublings = (state.doublings + 1).min(MOST_DOUBLINGS);
            }
            Verdict::Relax => state.doublings = state.doublings.saturating_sub(1),
            Verdict::Storm => self.end_in_storm(),
        }
    }

    /// Interrupts come one after the other without an overflow of ours. Unmasking LVTPC would bring
    /// the next at once, so it stays masked, and the session ends here.
    fn end_in_storm(&mut self) {
        let state = &mut *self.state;
        let capabilities = &state.capabilities;
        if state.phase == Phase::Running {
            pmu::stop(self.machine, capabilities, state.active.get());
        }
        pmu::set_lvtpc_mask(self.machine, capabilities, true);
        state.lvtpc = pmu::lvtpc(self.machine, capabilities).into();
        state.storm = true;
        state.clock.halted = self.machine.timestamp();
        state.phase = Phase::Halted;
        self.end(ErrorCode::InterruptStorm);
    }

    /// The session ends here before its client asks for it; the client sees it with its next request.
    pub(crate) fn end(&mut self, cause: ErrorCode) {
        self.state.ended = cause as u32;
        if let Some(ring) = Ring::new(self.ring) {
            ring.end();
        }
    }

    /// Clears LVTPC's mask bit, now that no handler of ours can be called any more: not after a
    /// storm, which nobody would answer.
    pub fn unmask(&mut self) {
        if self.state.known && !self.state.storm {
            pmu::unmask_lvtpc(self.machine, &self.state.capabilities);
        }
    }
}

/// Parts what belongs to this processor: what records, its state, its registers.
#[inline]
fn recorder<'a, M: Machine>(
    local: &'a mut Local<'_, M>,
    entry: u64,
    interrupted: Option<&'a Interrupted>,
) -> (Recorder<'a>, Parts<'a>, &'a mut M) {
    let ProcessorState {
        capabilities,
        active,
        totals,
        statistics,
        doublings,
        phase,
        ..
    } = &mut *local.state;
    let recorder = Recorder {
        statistics,
        ring: Ring::new(local.ring),
        interrupted,
        may_see_kernel: local.program.settings.kernel,
        doublings: *doublings,
        processor: local.index as u32,
        entry,
    };
    let parts = Parts {
        capabilities,
        active,
        totals,
        phase: *phase,
    };
    (recorder, parts, local.machine)
}

/// What the loop needs of a processor's state besides its statistics.
struct Parts<'a> {
    capabilities: &'a crate::capabilities::Capabilities,
    active: &'a mut crate::state::ActiveCounters,
    totals: &'a mut [Total; crate::program::MAX_SOURCES],
    phase: Phase,
}

/// The counters that have overflowed, where all are stopped already.
fn halted(machine: &mut impl Machine, active: &mut [Active]) -> u32 {
    let mut overflowed = 0;
    for (index, counter) in active.iter_mut().enumerate() {
        pmu::read(machine, counter);
        overflowed |= u32::from(counter.has_overflowed()) << index;
    }
    overflowed
}

/// The value from which a counter interrupts so many events later.
pub(crate) fn preset(slot: &crate::program::Slot, events: u64, one_late: bool) -> u64 {
    let events = events.max(SHORTEST_RELOAD) - u64::from(one_late);
    slot.width.preset(events)
}

impl Recorder<'_> {
    /// A counter has overflowed: adds it up, records the periods that passed, and gives it its next
    /// preset.
    #[inline]
    fn overflowed(&mut self, counter: &mut Active, total: &mut Total, one_late: bool) {
        total.add_up(counter);
        let came = counter.slot.width.distance(counter.preset, counter.value);
        let since = total.carried.saturating_add(came);
        let period = total.current_period.max(1);
        let (periods, residue) = (since / period, since % period);
        total.carried = residue;
        total.current_period = doubled(counter.slot.period, self.doublings);
        let remaining = total.current_period.saturating_sub(residue);
        counter.start_from(preset(&counter.slot, remaining, one_late));
        if periods > 0 {
            self.record(counter.slot.source, periods, period);
        }
    }

    /// Puts one sample into the ring for `periods` elapsed at once; the rest are counted as coalesced.
    #[inline]
    fn record(&mut self, source: u16, periods: u64, period: u64) {
        let statistics = &mut *self.statistics;
        statistics.generated = statistics.generated.wrapping_add(periods);
        let Some(interrupted) = self.interrupted else {
            statistics.lose(LossCause::Missed, periods, period);
            return;
        };
        if periods > 1 {
            statistics.lose(LossCause::Coalesced, periods - 1, period);
        }
        if interrupted.mode == Mode::Kernel && !self.may_see_kernel {
            statistics.lose(LossCause::KernelHidden, 1, period);
            return;
        }
        let sample = Sample {
            timestamp: self.entry,
            ip: interrupted.ip,
            period,
            process: interrupted.process,
            thread: interrupted.thread,
            processor: self.processor,
            source,
            mode: interrupted.mode as u8,
            reserved: 0,
        };
        if self.ring.is_some_and(|ring| ring.push(&sample)) {
            statistics.stored = statistics.stored.wrapping_add(1);
        } else {
            statistics.lose(LossCause::RingFull, 1, period);
        }
    }

    /// Periods that have passed by the end of a session and were never told of.
    fn finish(&mut self, total: &mut Total) {
        let period = total.current_period.max(1);
        let periods = total.carried / period;
        if periods > 0 {
            total.carried %= period;
            self.statistics.generated = self.statistics.generated.wrapping_add(periods);
            self.statistics.lose(LossCause::Missed, periods, period);
        }
    }
}

impl<M: Machine> Local<'_, M> {
    /// The session ends: a period that a stretched reload or a lengthened preset has passed counts
    /// as missed.
    pub(crate) fn finish_periods(&mut self) {
        let entry = self.machine.timestamp();
        let count = self.program.settings.count;
        let (mut recorder, state, _) = recorder(self, entry, None);
        for total in state.totals.iter_mut().take(count) {
            if total.current_period != 0 {
                recorder.finish(total);
            }
        }
    }
}
