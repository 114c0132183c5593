//! The overflow loop, shared by all interfaces: find what overflowed, record, reload, acknowledge,
//! unmask, start.
//!
//! An interrupt is handled on the processor that received it, at PROFILE_LEVEL: no lock, no
//! allocation, no panic, no waiting. A counter overflows when it has counted its period of events
//! since its last sample; events beyond that are carried into the next preset, so that N periods
//! take N times the period in events, however late the interrupts come.
//!
//! `Local::poll` finds overflows for which no interrupt came; their periods are counted as missed.

use crate::cpu::errata::rounded_reload;
use crate::cpu::machine::Machine;
use crate::plan::counter_config::Active;
use crate::plan::index::SourceIndex;
use crate::run::event_ring::DeferredEvents;
use crate::run::host::Local;
use crate::run::lbr::Reader;
use crate::run::pmu;
use crate::run::ring::{Ring, Word};
use crate::run::state::{Due, Phase, ProcessorState, Refusals, Total};
use crate::run::statistics::SampleStatistics;
use crate::run::throttle::Decision;
use shared_types::{Branch, ErrorCode, LossCause, Mode, Sample};

/// A counter is never preset closer to its overflow than this many events: some processors miss the
/// overflows of very short presets (Linux's limits are 2 for all, and 32 or 128 for some).
const SHORTEST_RELOAD: u64 = 128;

/// What was interrupted, from the trap frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Address of the instruction that would have executed next.
    pub ip: u64,
    /// User, kernel, or not known, if there was no trap frame.
    pub mode: Mode,
    pub process: u32,
    pub thread: u32,
}

/// The last read of a counter that is halted, before its slice ends: its value if it has overflowed;
/// otherwise its events are added to the total.
#[cold]
fn drain_halted(
    machine: &mut impl Machine,
    refusals: Refusals,
    counter: &mut Active,
    total: &mut Total,
) -> Option<u64> {
    let value = pmu::read(machine, refusals, counter);
    if counter.overflowed(value) {
        return Some(value);
    }
    total.add_up(counter, value);
    None
}

/// Records the sample of a period, or the reason why there is none.
struct Recorder<'a> {
    statistics: &'a mut SampleStatistics,
    ring: &'a [Word],
    /// `None` if no interrupt came for the overflow.
    interrupted: Option<&'a Interrupted>,
    may_see_kernel: bool,
    processor: u32,
    entry: u64,
}

impl<M: Machine> Local<'_, M> {
    /// Handles an overflow interrupt. PROFILE_LEVEL.
    pub fn interrupt(&mut self, interrupted: &Interrupted) {
        // The time is read first: it is the sample's time, and the throttle counts the handler's
        // time from here.
        let entry = self.machine.timestamp();
        // The test has counters of its own, and no totals or ring to record in.
        if matches!(self.state.phase, Phase::Testing | Phase::Tested) {
            self.self_test_interrupt();
            return;
        }
        // Another owner may share the vector, or the overflow was handled with that of an earlier
        // interrupt.
        if self.collect(entry, Some(interrupted)) == 0 {
            self.spurious(entry);
        }
        let branches = &self.state.branches;
        if branches.on && branches.changed && self.state.ended == 0 {
            self.end_early(ErrorCode::BranchesChanged);
        }
        // Other phases have no interrupt budget.
        if matches!(self.state.phase, Phase::Running | Phase::Halted) {
            self.throttle(entry);
        }
    }

    /// Finds overflows for which no interrupt came. The host has let pending interrupts in
    /// beforehand.
    pub(crate) fn poll(&mut self) {
        let entry = self.machine.timestamp();
        self.collect(entry, None);
    }

    /// Notes the numbers of the sources whose counters have overflowed, which an interrupt or the
    /// next poll will find, and returns how many there are. Changes nothing.
    ///
    /// Source: HAL design note "Performance Monitoring", CheckOverflowStatus: a counter has
    /// overflowed if its value is below its initial value.
    pub(crate) fn check_overflow_status(&mut self, sources: &mut [u32]) -> usize {
        let program = self.program;
        let mut room = sources.iter_mut();
        let mut number = 0;
        for counter in self.state.active.get() {
            let value = pmu::read(self.machine, self.state.refusals, counter);
            let overflowed = counter.overflowed(value);
            if let Some(source) = program.sources().get(counter.config.source.get())
                && overflowed
                && let Some(place) = room.next()
            {
                *place = source.id;
                number += 1;
            }
        }
        number
    }

    /// Records and reloads every counter that has overflowed, and starts it again unless counters
    /// are halted. Returns these counters as bits in the layout of the global registers.
    #[inline]
    fn collect(&mut self, entry: u64, interrupted: Option<&Interrupted>) -> u64 {
        let running = self.state.phase == Phase::Running;
        // In Halted the interrupt was pending when the counters were stopped, and they stay stopped.
        let control = if running {
            let (active, bits) = (self.state.active.get(), self.state.active.bits());
            pmu::hold(self.machine, &self.state.capabilities, active, bits)
        } else {
            0
        };
        // After a poll the newest records are those of the poll's own code.
        let branches = self.expect_branches() && interrupted.is_some();
        if interrupted.is_some() {
            self.unmask_first(branches);
        }
        let overflowed = self.record_overflows(entry, interrupted, running, branches);
        // The order matters: a status bit acknowledged after the start would hide an overflow that
        // came in between; an overflow while LVTPC is masked, as delivery leaves it (SDM vol. 3,
        // "Local Vector Table"), is lost. At PROFILE_LEVEL an interrupt that is let in here waits
        // in the local APIC until this one ends.
        self.acknowledge(overflowed, interrupted.is_some());
        self.unmask_after(overflowed, interrupted.is_some());
        if running {
            let state = &*self.state;
            let (active, control) = (state.active.get(), control | state.cleared_by_freeze);
            pmu::resume(self.machine, &state.capabilities, active, control, overflowed);
        }
        overflowed
    }

    /// See [`unmasks_first`](crate::cpu::capabilities::Capabilities::unmasks_first). A lone counter
    /// is stopped before it is examined, so it cannot overflow meanwhile.
    fn unmask_first(&mut self, branches: bool) {
        let state = &*self.state;
        let alone = state.active.get().len() == 1 && !branches;
        // Counters that run on may overflow while others are examined; with LVTPC masked, such an
        // overflow would be lost.
        if state.capabilities.unmasks_first() && !alone && !state.storm {
            pmu::set_lvtpc_mask(self.machine, &state.capabilities, false);
        }
    }

    /// Acknowledges what has been handled. The poll never acknowledges in a counting session: there
    /// the status bits belong to the owner of the handler.
    fn acknowledge(&mut self, overflowed: u64, interrupt: bool) {
        // The current owner of the branch records also owns their freeze bit.
        let thaws = if self.state.branches.changed { 0 } else { self.branch_freeze() };
        let freezes = self.state.saved.freeze | thaws;
        if interrupt && overflowed != 0 && freezes == 0 {
            pmu::acknowledge(self.machine, &self.state.capabilities, overflowed);
        } else if interrupt && overflowed != 0 {
            // A hypervisor need not accept CTR_FRZ and LBR_FRZ where it has not shown them.
            self.acknowledge_shown(overflowed | freezes);
        } else if interrupt || self.program.settings.samples {
            let conditions = self.state.capabilities.global.conditions;
            self.acknowledge_shown(self.state.active.bits() | conditions | thaws);
        }
    }

    /// Clears LVTPC's mask bit where delivery has set it, and where an interrupt that never came
    /// may have. After a storm the bit stays: the storm would begin anew.
    fn unmask_after(&mut self, overflowed: u64, interrupt: bool) {
        let (machine, state) = (&mut *self.machine, &*self.state);
        if state.storm {
            return;
        }
        if interrupt && state.capabilities.masks_lvtpc {
            pmu::set_lvtpc_mask(machine, &state.capabilities, false);
        } else if !interrupt && overflowed != 0 {
            let _ = pmu::unmask_lvtpc(machine, &state.capabilities);
        }
    }

    /// The loop over the counters. `branches`: the samples have some.
    fn record_overflows(
        &mut self,
        entry: u64,
        interrupted: Option<&Interrupted>,
        running: bool,
        branches: bool,
    ) -> u64 {
        let (program, machine) = (self.program, &mut *self.machine);
        let ProcessorState {
            capabilities,
            active,
            totals,
            statistics,
            periods,
            cpu_type,
            branches: recorded,
            register_value,
            refusals,
            ..
        } = &mut *self.state;
        let cpu_program = program.cpu_program(*cpu_type).filter(|_| branches);
        let mut reader = cpu_program.map(|cpu_program| Reader {
            recorded,
            recording: &cpu_program.recording,
            register_value,
            sees_kernel: program.settings.kernel,
        });
        let mut samples = Recorder {
            statistics,
            ring: self.ring,
            interrupted,
            may_see_kernel: program.settings.kernel,
            processor: self.index as u32,
            entry,
        };
        let one_late = cfg!(feature = "historic") && capabilities.errata.interrupts_one_late;
        let alone = active.get().len() == 1;
        let mut overflowed = 0;
        for counter in active.get_mut() {
            let total = &mut totals[counter.config.source];
            let value = if running {
                pmu::overflowed(machine, capabilities, *refusals, counter, alone)
            } else {
                drain_halted(machine, *refusals, counter, total)
            };
            let Some(value) = value else {
                continue;
            };
            // Every counter is examined, also after one was found: with LVTPC masked, two overflows
            // make one interrupt.
            let due = total.overflowed(counter, value, periods);
            let branches = match &mut reader {
                Some(reader) => reader.read(machine, capabilities),
                None => (0, &[] as &[Branch]),
            };
            samples.record(counter.config.source, &due, branches);
            let events = reload_events(due.remaining, one_late, counter.config.rounds);
            counter.start_from(counter.config.width.preset(events));
            pmu::reload(machine, capabilities, counter);
            // The overflows are acknowledged together, after all counters: one write instead of one
            // for each.
            overflowed |= counter.config.bit();
        }
        overflowed
    }

    /// Checks the handler against its time budget.
    #[inline]
    fn throttle(&mut self, entry: u64) {
        // The time-stamp counter may have gone back meanwhile, in a guest that was moved.
        let exit = self.machine.timestamp().max(entry);
        let state = &mut *self.state;
        let statistics = &mut state.statistics;
        let ticks = exit.wrapping_sub(entry);
        // Wrapping, so that no check can panic; 2^64 ticks are two centuries.
        statistics.handler_ticks = statistics.handler_ticks.wrapping_add(ticks);
        // Interrupts of the self-test, and those after the counters' stop, belong to no enabled
        // time.
        if state.phase == Phase::Running {
            state.clock.handled = state.clock.handled.wrapping_add(ticks);
        }
        match state.throttle.account(entry, exit) {
            Decision::Allow => {}
            Decision::Throttle => {
                statistics.throttled = statistics.throttled.wrapping_add(1);
                statistics.deferred.throttled.add(exit);
                state.periods.double();
            }
            Decision::Relax => state.periods.halve(),
        }
    }

    /// Accounts for an interrupt without an overflow of the session's counters.
    #[cold]
    fn spurious(&mut self, now: u64) {
        let state = &mut *self.state;
        state.statistics.spurious = state.statistics.spurious.wrapping_add(1);
        if state.throttle.spurious(now, state.statistics.generated) {
            self.end_in_storm(now);
        }
    }

    /// Handles a storm: interrupts arrive one after another without an overflow of the session's
    /// counters. Unmasking LVTPC would bring the next at once, so it stays masked, and the session
    /// ends on this processor.
    fn end_in_storm(&mut self, now: u64) {
        let state = &mut *self.state;
        let capabilities = &state.capabilities;
        // LVTPC is masked first, so that no further interrupt comes, whatever else happens here.
        pmu::set_lvtpc_mask(self.machine, capabilities, true);
        state.register_value = pmu::lvtpc(self.machine, capabilities).into();
        state.storm = true;
        if matches!(self.state.phase, Phase::Running | Phase::Halted) {
            self.state.statistics.deferred.storm.add(now);
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
        // The other processors are not stopped from here, because an interrupt handler never sends
        // work to another processor. They run on until a request finds the flag.
        self.state.ended = cause as u32;
        if let Some(ring) = Ring::new(self.ring) {
            // The consumer reads the ring without asking this processor: the flag is how it learns
            // of the end.
            ring.end();
        }
    }

    /// Takes what interrupts have noted on this processor since the previous call; nothing where no
    /// run goes on.
    pub fn take_deferred(&mut self) -> DeferredEvents {
        // A late tick may find the ring of the next session: START has attached it, and has not yet
        // cleared what the session before has left.
        // mistake: notes-of-a-run-that-is-over
        let runs = matches!(self.state.phase, Phase::Running | Phase::Halted);
        if runs {
            core::mem::take(&mut self.state.statistics.deferred)
        } else {
            DeferredEvents::default()
        }
    }

    /// Clears LVTPC's mask bit, now that halprof's handler can no longer be called. After a storm
    /// the bit stays: nothing would handle its interrupts.
    pub fn unmask(&mut self) {
        if self.state.known && !self.state.storm {
            // An entry that sends no interrupt is somebody else's, and stays as it is.
            let _ = pmu::unmask_lvtpc(self.machine, &self.state.capabilities);
        }
    }
}

/// How many events before its overflow a counter must be preset in order to interrupt `events`
/// events later. `rounds`: see [`rounded_reload`].
#[inline]
pub(crate) fn reload_events(events: u64, one_late: bool, rounds: bool) -> u64 {
    let events = events.max(SHORTEST_RELOAD);
    // mistake: reload-not-rounded
    let events = if rounds { rounded_reload(events) } else { events };
    // Cannot underflow: the shortest reload is 128.
    events - u64::from(one_late)
}

impl Recorder<'_> {
    /// Puts one sample into the ring for the periods that elapsed at once; the others are counted
    /// as coalesced. `branches`: the most that a sample can have, and its own, newest first.
    fn record(&mut self, source: SourceIndex, due: &Due, branches: (u8, &[Branch])) {
        let Due { periods, period, .. } = *due;
        // Where interrupts are one late, the preset is one event nearer than the period, and a poll
        // may look between the two.
        if periods == 0 {
            return;
        }
        let statistics = &mut *self.statistics;
        statistics.generated = statistics.generated.wrapping_add(periods);
        let Some(interrupted) = self.interrupted else {
            // There is no address to record: the poll's own is not where the overflow was.
            statistics.lose(LossCause::Missed, periods, period);
            return;
        };
        if periods > 1 {
            statistics.lose(LossCause::Coalesced, periods - 1, period);
        }
        // This holds for a source of user mode too: the interrupt comes some instructions after the
        // overflow (skid), and by then the kernel may have been entered.
        if interrupted.mode == Mode::Kernel && !self.may_see_kernel {
            statistics.lose(LossCause::KernelHidden, 1, period);
            return;
        }
        let (depth, branches) = branches;
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
            statistics.deferred.lost.add(self.entry);
        }
    }
}

impl<M: Machine> Local<'_, M> {
    /// At the end of a session, counts as missed any period that elapsed without an overflow.
    pub(crate) fn finish_periods(&mut self) {
        if !self.program.settings.samples {
            return;
        }
        // A preset that was lengthened to the shortest reload ends up to 128 events late.
        let ProcessorState { totals, statistics, .. } = &mut *self.state;
        for total in totals.each.iter_mut().take(self.program.settings.count) {
            let period = total.current_period.max(1);
            let periods = total.carried / period;
            if periods > 0 {
                total.carried %= period;
                statistics.generated = statistics.generated.wrapping_add(periods);
                statistics.lose(LossCause::Missed, periods, period);
            }
        }
    }
}
