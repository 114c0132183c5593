//! The overflow loop, shared by all interfaces: find what overflowed, record, reload, acknowledge,
//! unmask, start.
//!
//! An interrupt is handled on the processor that received it, at PROFILE_LEVEL: no lock, no
//! allocation, no panic, no waiting. A counter overflows when it has counted its period of events
//! since its last sample; events beyond that are carried into the next preset, so that N periods
//! take N times the period in events, however late the interrupts come.
//!
//! `Local::look` finds overflows for which no interrupt came; their periods are counted as missed.

use crate::cpu::capabilities::Capabilities;
use crate::cpu::machine::Machine;
use crate::plan::counter_config::Active;
use crate::plan::index::{PerSource, SourceIndex};
use crate::plan::program::Program;
use crate::run::event_ring::Notes;
use crate::run::host::Local;
use crate::run::lbr::{NoBranches, Reader, Records};
use crate::run::pmu;
use crate::run::ring::{Ring, Word};
use crate::run::state::Recorded;
use crate::run::state::{MOST_DOUBLINGS, Phase, ProcessorState, Total, doubled};
use crate::run::statistics::SampleStatistics;
use crate::run::throttle::{Elapsed, Verdict};
use shared_types::{ErrorCode, LossCause, Mode, Sample};

/// A counter is never preset closer to its overflow than this many events: some processors miss the
/// overflows of very short presets (Linux's limits are 2 for all, and 32 or 128 for some).
const SHORTEST_RELOAD: u64 = 128;

/// What [`Local::collect`] is to do.
#[derive(Clone, Copy)]
struct Means {
    /// The counters are running: they are stopped first and started again afterwards.
    running: bool,
    /// LVTPC is to be unmasked: not after a storm.
    unmasks: bool,
    /// Branches are recorded: the first sample reads them.
    branches: bool,
    /// The status bits to acknowledge so that branch records thaw.
    thaws: u64,
}

impl Means {
    /// For a session without branches. After a storm nothing runs, so LVTPC may be unmasked.
    const USUAL: Self = Self { running: true, unmasks: true, branches: false, thaws: 0 };
}

/// What was interrupted, from the trap frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Address of the instruction that would have executed next.
    pub ip: u64,
    /// User, kernel, or not known, if there was no trap frame.
    pub mode: Mode,
    /// Process.
    pub process: u32,
    /// Thread.
    pub thread: u32,
}

/// Records the sample of a period, or the reason why there is none.
struct Recorder<'a> {
    statistics: &'a mut SampleStatistics,
    ring: &'a [Word],
    /// `None` if no interrupt came for the overflow.
    interrupted: Option<&'a Interrupted>,
    may_see_kernel: bool,
    doublings: u32,
    processor: u32,
    entry: u64,
}

impl<M: Machine> Local<'_, M> {
    /// Handles an overflow interrupt. PROFILE_LEVEL.
    #[inline]
    pub fn interrupt(&mut self, interrupted: &Interrupted) {
        let entry = self.machine.timestamp();
        if self.state.phase == Phase::Running && self.program.settings.branches == 0 {
            let overflowed = self.collect(entry, Some(interrupted), Means::USUAL);
            if overflowed == 0 {
                self.spurious(entry);
            }
            self.guard(entry);
        } else {
            self.other_interrupt(entry, interrupted);
        }
    }

    /// Handles an interrupt that comes while the counters are halted or START's proof is running,
    /// or in a session that records branches.
    #[cold]
    fn other_interrupt(&mut self, entry: u64, interrupted: &Interrupted) {
        if matches!(self.state.phase, Phase::Proving | Phase::Proved) {
            self.proof_interrupt();
            return;
        }
        if self.collect_by(entry, Some(interrupted)) == 0 {
            self.spurious(entry);
        }
        let branches = &self.state.branches;
        if branches.on && branches.changed && self.state.ended == 0 {
            self.end_early(ErrorCode::BranchesChanged);
        }
        // Elsewhere there is no program, and so no budget to exceed.
        if matches!(self.state.phase, Phase::Running | Phase::Halted) {
            self.guard(entry);
        }
    }

    /// Finds overflows for which no interrupt came. The host has let pending interrupts in
    /// beforehand.
    pub(crate) fn look(&mut self) {
        let entry = self.machine.timestamp();
        self.collect_by(entry, None);
    }

    /// Calls [`Self::collect`] as the present state requires.
    #[inline(never)]
    fn collect_by(&mut self, entry: u64, interrupted: Option<&Interrupted>) -> u64 {
        let means = Means {
            running: self.state.phase == Phase::Running,
            unmasks: !self.state.storm,
            branches: self.expect_branches() && interrupted.is_some(),
            thaws: self.branch_freeze(),
        };
        self.collect(entry, interrupted, means)
    }

    /// Records and reloads every counter that has overflowed, and starts it again unless counters
    /// are halted. Returns these counters as bits in the layout of the global registers.
    #[expect(clippy::inline_always, reason = "most of what a sample costs")]
    #[inline(always)]
    fn collect(&mut self, entry: u64, interrupted: Option<&Interrupted>, means: Means) -> u64 {
        let bits = self.state.active.bits();
        let control = if means.running {
            let active = self.state.active.get();
            pmu::hold(self.machine, &self.state.capabilities, active, bits)
        } else {
            0
        };
        // The usual case avoids a loop, which would make the compiler spill everything.
        let overflowed = if means.branches {
            self.with_branches(entry, interrupted, means.running, means.unmasks)
        } else if let (mut recorder, state, machine) = recorder(self, entry, interrupted)
            && let [only] = state.active.get_mut()
        {
            let (capabilities, totals) = (state.capabilities, state.totals);
            let none = &mut NoBranches;
            recorder.one(machine, capabilities, totals, only, true, means.running, none)
        } else {
            self.several(entry, interrupted, means.running, means.unmasks)
        };
        // Whoever records branches now has their freeze too.
        let thaws = if self.state.branches.changed { 0 } else { means.thaws };
        let freezes = self.state.found.freeze | thaws;
        if overflowed != 0 && interrupted.is_some() && freezes == 0 {
            pmu::acknowledge(self.machine, &self.state.capabilities, overflowed);
        } else if overflowed != 0 && interrupted.is_some() {
            // A hypervisor need not accept CTR_FRZ and LBR_FRZ where it has not shown them.
            self.acknowledge_shown(overflowed | freezes);
        } else if interrupted.is_some() || self.program.settings.samples {
            let conditions = self.state.capabilities.global.conditions;
            self.acknowledge_shown(bits | conditions | thaws);
        }
        let (machine, capabilities) = (&mut *self.machine, &self.state.capabilities);
        if means.unmasks && interrupted.is_some() && capabilities.masks_lvtpc {
            pmu::set_lvtpc_mask(machine, capabilities, false);
        } else if means.unmasks && interrupted.is_none() && overflowed != 0 {
            pmu::unmask_lvtpc(machine, capabilities);
        }
        if means.running {
            let active = self.state.active.get();
            pmu::resume(machine, capabilities, active, control | bits, overflowed);
        }
        overflowed
    }

    /// See [`Capabilities::unmasks_first`].
    #[inline]
    fn unmask_first(&mut self, interrupted: Option<&Interrupted>) {
        let capabilities = &self.state.capabilities;
        if interrupted.is_some() && capabilities.unmasks_first() {
            pmu::set_lvtpc_mask(self.machine, capabilities, false);
        }
    }

    /// [`Recorder::one`] for each of several counters.
    #[inline(never)]
    fn several(
        &mut self,
        entry: u64,
        interrupted: Option<&Interrupted>,
        running: bool,
        unmasks: bool,
    ) -> u64 {
        if unmasks {
            self.unmask_first(interrupted);
        }
        let (mut recorder, state, machine) = recorder(self, entry, interrupted);
        let (capabilities, totals) = (state.capabilities, state.totals);
        let active = state.active.get_mut().iter_mut();
        active.fold(0, |overflowed, counter| {
            let none = &mut NoBranches;
            overflowed | recorder.one(machine, capabilities, totals, counter, false, running, none)
        })
    }

    /// [`Recorder::one`] for each of one or more counters whose samples have branches.
    #[inline(never)]
    fn with_branches(
        &mut self,
        entry: u64,
        interrupted: Option<&Interrupted>,
        running: bool,
        unmasks: bool,
    ) -> u64 {
        if unmasks {
            self.unmask_first(interrupted);
        }
        let (mut recorder, state, machine) = recorder(self, entry, interrupted);
        let (capabilities, totals) = (state.capabilities, state.totals);
        let Some(mut reader) = state.branches.reader() else {
            return 0;
        };
        let active = state.active.get_mut();
        let alone = active.len() == 1;
        active.iter_mut().fold(0, |overflowed, counter| {
            let reader = &mut reader;
            overflowed
                | recorder.one(machine, capabilities, totals, counter, alone, running, reader)
        })
    }

    /// Checks the handler against its time budget.
    #[inline]
    fn guard(&mut self, entry: u64) {
        let exit = self.machine.timestamp();
        let state = &mut *self.state;
        let statistics = &mut state.statistics;
        let ticks = exit.wrapping_sub(entry);
        statistics.handler_ticks = statistics.handler_ticks.wrapping_add(ticks);
        // The proof's interrupts, and those behind the counters' stop, are in no enabled time.
        if state.phase == Phase::Running {
            state.clock.handled = state.clock.handled.wrapping_add(ticks);
        }
        let limits = &self.program.settings.interrupt_time;
        if let Some(elapsed) = state.guard.account(entry, exit, limits) {
            self.obey_guard(exit, elapsed);
        }
    }

    /// Accounts for an interrupt without an overflow of the session's counters.
    #[cold]
    fn spurious(&mut self, now: u64) {
        let state = &mut *self.state;
        state.statistics.spurious = state.statistics.spurious.wrapping_add(1);
        if state.guard.spurious(now, state.statistics.generated) {
            self.end_in_storm(now);
        }
    }

    /// Carries out the guard's decision at the end of a window.
    #[cold]
    fn obey_guard(&mut self, now: u64, elapsed: Elapsed) {
        let state = &mut *self.state;
        let limits = &self.program.settings.interrupt_time;
        match state.guard.decide(now, elapsed, limits) {
            Verdict::Allow => {}
            Verdict::Throttle => {
                state.statistics.throttled = state.statistics.throttled.wrapping_add(1);
                state.statistics.notes.throttled(now);
                state.doublings = (state.doublings + 1).min(MOST_DOUBLINGS);
            }
            Verdict::Relax => state.doublings = state.doublings.saturating_sub(1),
        }
    }

    /// Handles a storm: interrupts arrive one after another without an overflow of the session's
    /// counters. Unmasking LVTPC would bring the next at once, so it stays masked, and the session
    /// ends on this processor.
    fn end_in_storm(&mut self, now: u64) {
        let state = &mut *self.state;
        let capabilities = &state.capabilities;
        pmu::set_lvtpc_mask(self.machine, capabilities, true);
        state.evidence = pmu::lvtpc(self.machine, capabilities).into();
        state.storm = true;
        if matches!(self.state.phase, Phase::Running | Phase::Halted) {
            self.state.statistics.notes.storm(now);
        }
        self.end_early(ErrorCode::InterruptStorm);
    }

    /// Stops the counters, and ends a session that is running or halted.
    fn end_early(&mut self, cause: ErrorCode) {
        if self.state.phase == Phase::Running {
            self.stop_counters();
        }
        if self.state.phase == Phase::Halted {
            self.end(cause);
        }
    }

    /// Ends the session on this processor before its client stops it; the client learns of it from
    /// its next request.
    pub(crate) fn end(&mut self, cause: ErrorCode) {
        self.state.ended = cause as u32;
        if let Some(ring) = Ring::new(self.ring) {
            ring.end();
        }
    }

    /// Takes what interrupts have noted on this processor since the previous call.
    pub fn take_notes(&mut self) -> Notes {
        core::mem::take(&mut self.state.statistics.notes)
    }

    /// Clears LVTPC's mask bit, now that halprof's handler can no longer be called. Not after a
    /// storm, whose interrupts nothing would handle.
    pub fn unmask(&mut self) {
        if self.state.known && !self.state.storm {
            pmu::unmask_lvtpc(self.machine, &self.state.capabilities);
        }
    }
}

/// Splits `local` into disjoint borrows: the recorder, the rest of the state, the machine.
#[inline]
fn recorder<'a, M: Machine>(
    local: &'a mut Local<'_, M>,
    entry: u64,
    interrupted: Option<&'a Interrupted>,
) -> (Recorder<'a>, Parts<'a>, &'a mut M) {
    let program = local.program;
    let ProcessorState {
        capabilities,
        active,
        totals,
        statistics,
        doublings,
        kind,
        branches,
        evidence,
        ..
    } = &mut *local.state;
    let recorder = Recorder {
        statistics,
        ring: local.ring,
        interrupted,
        may_see_kernel: program.settings.kernel,
        doublings: *doublings,
        processor: local.index as u32,
        entry,
    };
    let parts = Parts {
        capabilities,
        active,
        totals,
        branches: PartsOfBranches { program, kind: *kind, recorded: branches, evidence },
    };
    (recorder, parts, local.machine)
}

type Totals = PerSource<Total>;

/// The parts of a processor's state that the loop needs besides its statistics.
struct Parts<'a> {
    capabilities: &'a Capabilities,
    active: &'a mut crate::plan::counter_config::ActiveCounters,
    totals: &'a mut Totals,
    branches: PartsOfBranches<'a>,
}

/// The parts needed to read branch records.
struct PartsOfBranches<'a> {
    program: &'a Program,
    kind: u8,
    recorded: &'a mut Recorded,
    evidence: &'a mut u64,
}

impl<'a> PartsOfBranches<'a> {
    fn reader(self) -> Option<Reader<'a>> {
        let kind = self.program.kind(self.kind)?;
        Some(Reader {
            recorded: self.recorded,
            recording: &kind.recording,
            evidence: self.evidence,
            sees_kernel: self.program.settings.kernel,
        })
    }
}

/// How many events before its overflow a counter must be preset in order to interrupt `events`
/// events later.
#[inline]
pub(crate) fn reload_events(events: u64, one_late: bool) -> u64 {
    events.max(SHORTEST_RELOAD) - u64::from(one_late)
}

impl Recorder<'_> {
    /// Records and reloads a counter if it has overflowed. If so, returns its bit in the layout of
    /// the global registers, otherwise 0. `alone`: no other counter can have interrupted.
    #[expect(clippy::inline_always, reason = "most of what a sample costs")]
    #[expect(clippy::too_many_arguments, reason = "parts of one processor, borrowed apart")]
    #[inline(always)]
    fn one(
        &mut self,
        machine: &mut impl Machine,
        capabilities: &Capabilities,
        totals: &mut Totals,
        counter: &mut Active,
        alone: bool,
        running: bool,
        branches: &mut impl Records,
    ) -> u64 {
        let total = &mut totals[counter.slot.source];
        let value = if running {
            pmu::overflowed(machine, capabilities, counter, alone)
        } else {
            let value = pmu::read(machine, counter);
            if !counter.overflowed(value) {
                total.add_up(counter, value);
            }
            counter.overflowed(value).then_some(value)
        };
        let Some(value) = value else {
            return 0;
        };
        branches.read(machine, capabilities);
        self.overflowed(counter, value, total, capabilities, branches);
        pmu::reload(machine, capabilities, counter);
        counter.slot.bit()
    }

    /// Handles a counter that has overflowed: updates its total, records the periods that elapsed,
    /// and computes its next preset.
    #[expect(clippy::inline_always, reason = "most of what a sample costs")]
    #[inline(always)]
    fn overflowed(
        &mut self,
        counter: &mut Active,
        value: u64,
        total: &mut Total,
        capabilities: &Capabilities,
        branches: &impl Records,
    ) {
        let came = counter.advance(value);
        total.counted = total.counted.wrapping_add(came);
        let since = total.carried.wrapping_add(came);
        let period = total.current_period.max(1);
        let (periods, residue) = (since / period, since % period);
        total.carried = residue;
        total.current_period = doubled(counter.slot.period.into(), self.doublings);
        let remaining = total.current_period.saturating_sub(residue);
        let one_late = capabilities.errata.interrupts_one_late;
        counter.start_from(reload_events(remaining, one_late).wrapping_neg() & counter.mask);
        if periods > 0 {
            self.record(counter.slot.source, periods, period, branches);
        }
    }

    /// Puts one sample into the ring for `periods` periods that elapsed at once; the rest are
    /// counted as coalesced.
    #[expect(clippy::inline_always, reason = "most of what a sample costs")]
    #[inline(always)]
    fn record(&mut self, source: SourceIndex, periods: u64, period: u64, branches: &impl Records) {
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
        let (depth, branches) = branches.those_read();
        let sample = Sample {
            timestamp: self.entry,
            ip: interrupted.ip,
            period,
            process: interrupted.process,
            thread: interrupted.thread,
            processor: self.processor,
            source: source.get() as u16,
            mode: interrupted.mode as u8,
            branches: branches.len() as u8,
        };
        if let Some(ring) = Ring::with_branches(self.ring, depth)
            && ring.push_with(&sample, branches)
        {
            statistics.stored = statistics.stored.wrapping_add(1);
        } else {
            statistics.lose(LossCause::RingFull, 1, period);
            statistics.notes.lost(self.entry);
        }
    }

    /// Counts as missed the periods that had elapsed by the end of a session without an interrupt.
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
    /// At the end of a session, counts as missed any period that elapsed without an overflow
    /// because a reload or preset had been lengthened to the shortest one allowed.
    pub(crate) fn finish_periods(&mut self) {
        if !self.program.settings.samples {
            return;
        }
        let entry = self.machine.timestamp();
        let count = self.program.settings.count;
        let (mut recorder, state, _) = recorder(self, entry, None);
        for total in state.totals.each.iter_mut().take(count) {
            if total.current_period != 0 {
                recorder.finish(total);
            }
        }
    }
}
