//! What the core keeps for one processor while it runs a program. All zeros: the processor has not
//! been examined yet.
//!
//! The state is touched only on its own processor, with interrupts masked: that is its lock. The
//! phases of a run, and who moves between them:
//!
//! ```text
//!    Stopped ----take_over----> Tested --start--> Running --halt, tick, end_early--> Halted
//!       ^                         |    ^              ^                                 | | |
//!       |          begin_self_test|    |end_self_test +---tick, settle: the next slice--+ | |
//!       |                         v    |              |                                   | |
//!       |                         Testing             |resume                             | |
//!       |                                             |                                   | |
//!       |                                         Suspended <------------suspend----------+ |
//!       +------------------------------------------------------finish-----------------------+
//! ```
//!
//! - Tested goes back to Stopped if START is refused (`abandon_self_test`).
//! - A session that takes no counter, and a processor that is added, go from Stopped to Running
//!   (`start`, `join`); a processor that is added during sleep begins as Suspended.
//! - Ended comes in place of Running if a register that is needed has another owner by then, and in
//!   place of Suspended if the session has ended here before sleep; after `finish` it is Stopped.
//! - In Halted the host lets pending interrupts in. They find their counters stopped, and are
//!   recorded.

use crate::cpu::capabilities::Capabilities;
use crate::plan::counter_config::{Active, ActiveCounters};
use crate::plan::index::{PerCounter, PerSource};
use crate::run::period::Periods;
use crate::run::statistics::SampleStatistics;
use crate::run::throttle::Throttle;
use crate::source::MAX_SOURCES;
use shared_types::request::counts::{Changes, Count};
use shared_types::{Branch, MAX_BRANCHES};
use zerocopy::FromZeros;

/// One processor's state; its host keeps one for each.
#[derive(Debug, FromZeros)]
pub struct ProcessorState {
    /// What the processor can do; valid once [`Self::known`] is set.
    pub(crate) capabilities: Capabilities,
    pub(crate) known: bool,
    /// The index of its type among the CPU types in this machine.
    pub(crate) cpu_type: u8,
    pub(crate) phase: Phase,
    pub(crate) self_test: SelfTest,
    /// Interrupts received during the self-test.
    pub(crate) test_interrupts: u32,
    /// The counters that are near their overflow in the self-test, and those of the kinds whose
    /// interrupt has come, in the layout of the global registers.
    pub(crate) tested: u64,
    pub(crate) proved: u64,
    pub(crate) active: ActiveCounters,
    /// The bits of the active counters that the handler sets again in the global control register,
    /// because a freeze may have cleared them.
    pub(crate) cleared_by_freeze: u64,
    pub(crate) totals: PerSource<Total>,
    pub(crate) selects: PerSource<Select>,
    pub(crate) looked: PerCounter<Looked>,
    /// The counts of each source at the end of its last slice, in the form of a reply. Sources in every
    /// slice have no running time there: see [`Local::count_now`](crate::run::host::Local).
    pub(crate) counts: PerSource<Count>,
    pub(crate) order: Order,
    pub(crate) throttle: Throttle,
    pub(crate) periods: Periods,
    pub(crate) statistics: SampleStatistics,
    pub(crate) clock: Clock,
    pub(crate) saved: SavedRegisters,
    /// What the session does without here.
    pub(crate) refusals: Refusals,
    /// What others have changed in the session's registers.
    pub(crate) changes: Changes,
    pub(crate) pce: Pce,
    /// An interrupt storm has left LVTPC masked here.
    pub(crate) storm: bool,
    /// The [`shared_types::ErrorCode`] with which the session ended here, or 0.
    pub(crate) ended: u32,
    /// What the last refusal was based on: the value of a register (LVTPC, the control of branch
    /// recording), the number of one that is not there, or the source that needs a fixed counter in
    /// use.
    pub(crate) register_value: u64,
    pub(crate) branches: Recorded,
}

/// How far a program has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing runs.
    Stopped = 0,
    /// Suspended for sleep; to be armed again.
    Suspended = 1,
    /// The session has ended here, for the cause in `ended`; its totals are kept.
    Ended = 2,
    /// The counters are counting.
    Running = 3,
    /// The counters are stopped and not yet read: pending interrupts are let in first.
    Halted = 4,
    /// START's self-test is running.
    Testing = 5,
    /// The counters are taken over and stopped: the self-test has passed or is between tries.
    Tested = 6,
}

/// The result of START's self-test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(crate) enum SelfTest {
    /// Not decided yet.
    Open = 0,
    /// The counters count, and interrupts arrive if they are needed.
    Passed = 1,
    /// A counter does not count.
    CountersDead = 2,
    /// No interrupt came.
    InterruptsDead = 3,
    /// An earlier session's storm is not over.
    Storm = 4,
    /// Another owner has enabled a fixed counter that the program needs.
    FixedTaken = 5,
    /// Another owner is recording branches.
    BranchesTaken = 6,
    /// A register of the program is not there.
    RegisterAbsent = 7,
    /// RDPMC is refused, and Windows would read the counters by it for threads.
    RdpmcRefused = 8,
    /// A counter of the program would still serve an earlier owner.
    CountersLeft = 9,
}

/// The order in which slices run: each cycle is a new permutation.
#[derive(Debug, FromZeros)]
pub(crate) struct Order {
    slices: [u8; MAX_SOURCES],
    at: u16,
    count: u16,
    random: u64,
}

/// Running totals of one source on one processor, including the current slice.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Total {
    pub(crate) counted: u64,
    /// Sampling: the period for which the current preset was computed; 0 before the first.
    pub(crate) current_period: u64,
    /// Sampling: events counted since the last sample.
    pub(crate) carried: u64,
}

/// What the last look at the registers has shown of a counter in the current slice.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Looked {
    /// Its source's total then: what it has counted up to there is known.
    pub(crate) total: u64,
    /// How long of the slice nobody knows what it counted, in ticks of the time-stamp counter.
    pub(crate) unknown: u64,
    /// The same of the slices that are over, for a counter that has one source in all of them.
    pub(crate) unknown_before: u64,
}

/// Whose the select of a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(crate) enum Select {
    /// The session's.
    Ours = 0,
    /// The session's again: somebody had written it once.
    PutBack = 1,
    /// Somebody has written it twice; it is left to them, and the source is not counted.
    Lost = 2,
}

/// Times, in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Clock {
    /// When the session started or was resumed.
    pub(crate) started: u64,
    /// When the current slice began.
    pub(crate) slice_began: u64,
    /// When the counters were stopped.
    pub(crate) halted: u64,
    /// The latest time that was looked at.
    pub(crate) latest: u64,
    /// How long the session had run before `started`.
    pub(crate) before: u64,
    /// How long the interrupt handler has run, whose events are not the programs': sources whose
    /// slices have more interrupts would else seem to count less. Where each counter is stopped by
    /// its own select, those of kernel mode that have not overflowed count the handler's too.
    pub(crate) handled: u64,
    /// `handled` when the current slice began.
    pub(crate) handled_before: u64,
    /// How long counters had run in the current slice at the last look at the registers.
    pub(crate) looked: u64,
}

impl Clock {
    /// Called with each time before it is compared with the others. Where the time-stamp counter has
    /// gone back, as in a guest that was restored or moved to another machine, they go back with it:
    /// time stands still from the last look to this one.
    pub(crate) const fn observe(&mut self, now: u64) {
        let back = self.latest.saturating_sub(now);
        // Wrapping: only differences are used.
        self.started = self.started.wrapping_sub(back);
        self.slice_began = self.slice_began.wrapping_sub(back);
        self.latest = now;
    }

    /// How long counters have run in the current slice.
    pub(crate) const fn in_slice(&self, now: u64) -> u64 {
        let handled = self.handled.wrapping_sub(self.handled_before);
        now.wrapping_sub(self.slice_began).saturating_sub(handled)
    }
}

/// Shared registers as they were when counters were last armed: at START, and after each sleep.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct SavedRegisters {
    /// The global control register.
    pub(crate) control: u64,
    /// General counters of the program that another owner had enabled, as a mask.
    pub(crate) counters: u32,
    /// Fixed counters that another owner had enabled, as a mask.
    pub(crate) fixed: u32,
    /// Counters that still serve an owner who is gone.
    pub(crate) left: CountersLeft,
    /// General counters 0 to 3 are nobody else's, and are reset before each slice
    /// ([`Errata::reset_at_start`](crate::cpu::capabilities::Errata)).
    pub(crate) resets: bool,
    /// Sampling: the status bit with which an overflow freezes the counters, if that was seen, now
    /// or since; acknowledged with every overflow.
    pub(crate) freeze: u64,
}

/// Counters on which an owner who is gone has left PEBS or auto counter reload on. PEBS takes their
/// interrupts, reload their counts.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct CountersLeft {
    /// In the layout of the global registers.
    pub(crate) counters: u64,
    /// The first register that shows it; 0 if none does.
    pub(crate) register: u32,
}

/// What START has tried on a processor, and found refused although CPUID promises it. The session then
/// takes the other way that there is.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Refusals {
    /// RDPMC, in ring 0: counters are read by RDMSR.
    pub(crate) rdpmc: bool,
    /// RDPMC user disable: counters cannot be hidden from user mode.
    pub(crate) user_disable: bool,
}

/// What the core remembers about CR4.PCE of a processor.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Pce {
    /// At least one session holds it.
    pub(crate) held: bool,
    /// It was already set before sessions held it.
    pub(crate) set_before: bool,
}

impl ProcessorState {
    /// The memory that a processor takes.
    pub(crate) const BYTES: u64 = size_of::<Self>() as u64;

    /// Whether a program is running here, so that interrupts and ticks on this processor belong to
    /// it.
    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Halted | Phase::Testing | Phase::Tested)
    }

    /// The status bits that belong to a session that samples: those of counters that nobody else
    /// has enabled, and the conditions.
    pub(crate) fn own_status(&self) -> u64 {
        let others = u64::from(self.saved.fixed) << 32;
        self.capabilities.all_counters() & !others | self.capabilities.global.conditions
    }

    /// Counts of this processor's samples and interrupts.
    pub fn statistics(&self) -> &SampleStatistics {
        &self.statistics
    }
}

impl Order {
    /// Starts a new order of `count` slices.
    pub(crate) fn begin(&mut self, count: u16, seed: u64) {
        for (index, slice) in self.slices.iter_mut().enumerate().take(count.into()) {
            *slice = index as u8;
        }
        (self.at, self.count) = (0, count);
        // xorshift never leaves state 0.
        self.random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        self.draw();
    }

    /// The slice that is due.
    pub(crate) fn now(&self) -> u16 {
        let slice = self.slices.get(usize::from(self.at));
        slice.copied().unwrap_or(0).into()
    }

    /// Moves on to the next slice.
    pub(crate) fn advance(&mut self) {
        self.at = if self.at + 1 < self.count { self.at + 1 } else { 0 };
        self.draw();
    }

    /// Draws the next slice from those that have not run in this cycle yet (Fisher-Yates
    /// shuffle).
    fn draw(&mut self) {
        let left = u64::from(self.count.saturating_sub(self.at));
        // The last slice of a cycle is not drawn: it is the one that is left.
        if left < 2 {
            return;
        }
        let at = usize::from(self.at);
        let drawn = at + (self.next_random() % left) as usize;
        if drawn < self.slices.len() {
            self.slices.swap(at, drawn);
        }
    }

    /// xorshift64 (G. Marsaglia, "Xorshift RNGs").
    fn next_random(&mut self) -> u64 {
        let mut random = self.random;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random = random;
        random >> 16
    }
}

/// What an overflow is worth.
pub(crate) struct Due {
    /// How many periods have elapsed.
    pub(crate) periods: u64,
    /// Their length, in events.
    pub(crate) period: u64,
    /// Events until the next has.
    pub(crate) remaining: u64,
}

impl Total {
    /// Accounts for an overflow that was seen at `value`. What came after it is carried into the
    /// next period, so that N periods take N times the period, however late interrupts come.
    pub(crate) fn overflowed(
        &mut self,
        active: &mut Active,
        value: u64,
        next: &mut Periods,
    ) -> Due {
        let came = active.advance(value);
        self.counted = self.counted.wrapping_add(came);
        // A late interrupt finds more than one period gone: those are coalesced, the rest is
        // carried.
        let since = self.carried.wrapping_add(came);
        let period = self.current_period.max(1);
        let (periods, residue) = (since / period, since % period);
        self.carried = residue;
        self.current_period = next.next(&active.config);
        Due { periods, period, remaining: self.remaining() }
    }

    /// Events until the current period ends.
    #[inline]
    pub(crate) fn remaining(&self) -> u64 {
        self.current_period.saturating_sub(self.carried)
    }

    /// Adds the events that a counter has counted since the previous call.
    #[inline]
    pub(crate) fn add_up(&mut self, active: &mut Active, value: u64) {
        let came = active.advance(value);
        self.counted = self.counted.wrapping_add(came);
        self.carried = self.carried.wrapping_add(came);
    }

    /// Adds a slice of which `ticks` are known to `count`, which holds the slices before it, but for
    /// the running time.
    pub(crate) fn end_slice(&self, count: &mut Count, ticks: u64) {
        let came = u128::from(self.counted.wrapping_sub(count.counted));
        let time = u128::from(ticks);
        count.counted = self.counted;
        count.slices = count.slices.wrapping_add(1);
        add(&mut count.count_squared, came * came);
        add(&mut count.count_by_time, came * time);
        add(&mut count.time_squared, time * time);
    }
}

/// Adds to a sum that is held as its low and its high half.
fn add(sum: &mut [u64; 2], more: u128) {
    let [low, high] = *sum;
    let all = (u128::from(high) << 64 | u128::from(low)).saturating_add(more);
    *sum = [all as u64, (all >> 64) as u64];
}

/// What one processor has recorded, and the register values found before recording. All zeros: it
/// does not record.
#[derive(Debug, FromZeros)]
pub(crate) struct Recorded {
    pub(crate) on: bool,
    /// Another owner has changed how branches are recorded.
    pub(crate) changed: bool,
    /// The records for the interrupt being handled have been read.
    pub(crate) read: bool,
    pub(crate) count: u8,
    /// The most records that an interrupt has found, each of a branch or not. They only become more,
    /// unless something clears them.
    pub(crate) most: u8,
    /// Interrupts that found fewer than that.
    pub(crate) cleared: u64,
    /// The filter, the depth and DebugCtl's freeze bit as they were found.
    pub(crate) found_control: u64,
    pub(crate) found_depth: u64,
    pub(crate) found_freeze: u64,
    pub(crate) records: [Branch; MAX_BRANCHES],
}
