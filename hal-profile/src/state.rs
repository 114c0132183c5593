//! What the core keeps of one processor while it runs a program. All zeros: nobody has looked at it.
//!
//! It is touched only on its processor, with interrupts masked.

use crate::branches::Recorded;
use crate::capabilities::Capabilities;
use crate::guard::Guard;
use crate::pce::Pce;
use crate::pmu::Active;
use crate::program::{MAX_COUNTERS, MAX_SOURCES, Slot};
use crate::statistics::SampleStatistics;
use zerocopy::FromZeros;

/// The longest period of any source: what a 32-bit sign-extended counter write can take.
const LONGEST_PERIOD: u64 = i32::MAX as u64;
/// More doublings change nothing: the shortest period of any source is then above the longest.
pub(crate) const MOST_DOUBLINGS: u32 = 31;

/// One processor's state; its host keeps one for each.
#[derive(Debug, FromZeros)]
pub struct ProcessorState {
    /// What the processor can do; [`Self::known`] tells whether it has been looked at.
    pub(crate) capabilities: Capabilities,
    pub(crate) known: bool,
    /// Its kind, among those of this machine.
    pub(crate) kind: u8,
    pub(crate) phase: Phase,
    pub(crate) proof: Proof,
    /// Interrupts that have come during the proof.
    pub(crate) proof_interrupts: u32,
    pub(crate) active: ActiveCounters,
    pub(crate) totals: [Total; MAX_SOURCES],
    pub(crate) order: Order,
    pub(crate) guard: Guard,
    /// How often the guard has doubled the periods.
    pub(crate) doublings: u32,
    pub(crate) statistics: SampleStatistics,
    pub(crate) clock: Clock,
    pub(crate) found: Found,
    pub(crate) pce: Pce,
    /// A storm of interrupts has left LVTPC masked here.
    pub(crate) storm: bool,
    /// [`shared_types::ErrorCode`] for which the session has ended here, or 0.
    pub(crate) ended: u32,
    /// The register that told, when one was last looked at for a refusal: LVTPC, or where branch
    /// recording is switched.
    pub(crate) evidence: u64,
    pub(crate) branches: Recorded,
}

/// How far a program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing runs.
    Stopped = 0,
    /// Asleep: to be armed again.
    Suspended = 1,
    /// The session has ended here, for the cause in `ended`; totals stay.
    Ended = 2,
    /// Counters count.
    Running = 3,
    /// Counters are stopped and not yet read: interrupts that are on their way are let in first.
    Halted = 4,
    /// START's proof runs.
    Proving = 5,
    /// The proof is made: the counters are taken over, and stopped.
    Proved = 6,
}

/// What START's proof has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(crate) enum Proof {
    /// Not made yet.
    Open = 0,
    /// Counters count, and interrupts come where they are needed.
    Passed = 1,
    /// A counter does not count.
    CountersDead = 2,
    /// No interrupt came.
    InterruptsDead = 3,
    /// The storm of an earlier session is not over.
    Storm = 4,
    /// Somebody else has a fixed counter enabled that the program needs.
    FixedTaken = 5,
    /// Somebody else records branches.
    BranchesTaken = 6,
}

/// The counters of the rotation that runs now.
#[derive(Debug, FromZeros)]
pub(crate) struct ActiveCounters {
    counters: [Active; MAX_COUNTERS],
    count: usize,
    /// Their bits in the layout of the global registers.
    bits: u64,
}

/// The order in which rotations run: every cycle is a new permutation.
#[derive(Debug, FromZeros)]
pub(crate) struct Order {
    rotations: [u8; MAX_SOURCES],
    at: u16,
    count: u16,
    random: u64,
}

/// Running totals of one source on this processor.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Total {
    pub(crate) counted: u64,
    /// Ticks of the time-stamp counter in which its counter ran.
    pub(crate) running: u64,
    pub(crate) rotations: u64,
    pub(crate) at_rotation_start: u64,
    pub(crate) count_squared: u128,
    pub(crate) count_by_time: u128,
    pub(crate) time_squared: u128,
    /// Sampling: the period that the present preset is for.
    pub(crate) current_period: u64,
    /// Sampling: events since the last sample, as far as they are counted.
    pub(crate) carried: u64,
}

/// Times, in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Clock {
    /// When the session started or was resumed.
    pub(crate) started: u64,
    /// When the rotation began.
    pub(crate) rotation_began: u64,
    /// When the counters were stopped.
    pub(crate) halted: u64,
    /// For how long the session had been running before `started`.
    pub(crate) before: u64,
}

/// Shared registers as they were when counters were last armed: at START, and after each sleep.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Found {
    /// The global control register.
    pub(crate) control: u64,
    /// General counters of the program that somebody else had enabled, as a mask.
    pub(crate) counters: u32,
    /// Fixed counters that somebody else had enabled, as a mask.
    pub(crate) fixed: u32,
}

impl ProcessorState {
    /// Whether a program runs here, so that its interrupts and ticks are for it.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(
            self.phase,
            Phase::Running | Phase::Halted | Phase::Proving | Phase::Proved
        )
    }

    /// What became of this processor's samples.
    #[must_use]
    pub fn statistics(&self) -> &SampleStatistics {
        &self.statistics
    }
}

/// The period that a source is sampled with after so many doublings, in events.
#[inline]
pub(crate) fn doubled(period: u64, doublings: u32) -> u64 {
    #[cold]
    #[inline(never)]
    fn lengthened(period: u64, doublings: u32) -> u64 {
        period
            .saturating_mul(1 << doublings.min(MOST_DOUBLINGS))
            .min(LONGEST_PERIOD)
    }
    if doublings == 0 {
        period
    } else {
        lengthened(period, doublings)
    }
}

impl ActiveCounters {
    #[inline]
    pub(crate) fn get(&self) -> &[Active] {
        self.counters.get(..self.count).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut [Active] {
        self.counters.get_mut(..self.count).unwrap_or_default()
    }

    /// Their bits in the layout of the global registers.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    pub(crate) fn clear(&mut self) {
        (self.count, self.bits) = (0, 0);
    }

    /// A counter that starts from `preset`.
    pub(crate) fn add(&mut self, slot: &Slot, preset: u64) {
        if let Some(counter) = self.counters.get_mut(self.count) {
            counter.slot = *slot;
            counter.mask = slot.width.mask();
            counter.start_from(preset);
            self.count += 1;
            self.bits |= slot.bit();
        }
    }
}

impl Order {
    /// A new order of so many rotations.
    pub(crate) fn begin(&mut self, count: u16, seed: u64) {
        for (index, rotation) in self.rotations.iter_mut().enumerate().take(count.into()) {
            *rotation = index as u8;
        }
        (self.at, self.count) = (0, count);
        // xorshift has no way out of 0.
        self.random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        self.draw();
    }

    /// The rotation that is due.
    pub(crate) fn now(&self) -> u16 {
        let rotation = self.rotations.get(usize::from(self.at));
        rotation.copied().unwrap_or(0).into()
    }

    /// Goes on to the next.
    pub(crate) fn advance(&mut self) {
        self.at = if self.at + 1 < self.count {
            self.at + 1
        } else {
            0
        };
        self.draw();
    }

    /// Draws the rotation that is due from those that this cycle has not had yet (Fisher and Yates).
    fn draw(&mut self) {
        let left = u64::from(self.count.saturating_sub(self.at));
        if left < 2 {
            return;
        }
        let at = usize::from(self.at);
        let drawn = at + (self.next_random() % left) as usize;
        if drawn < self.rotations.len() {
            self.rotations.swap(at, drawn);
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

impl Total {
    /// Adds how far a counter has come since this was last done.
    #[inline]
    pub(crate) fn add_up(&mut self, active: &mut Active, value: u64) {
        let came = active.advance(value);
        self.counted = self.counted.wrapping_add(came);
        self.carried = self.carried.wrapping_add(came);
    }

    /// The rotation is over that ran for so many ticks.
    pub(crate) fn end_rotation(&mut self, ticks: u64) {
        let count = self.counted.wrapping_sub(self.at_rotation_start);
        let (count, ticks) = (u128::from(count), u128::from(ticks));
        self.running = self.running.wrapping_add(ticks as u64);
        self.rotations = self.rotations.wrapping_add(1);
        self.count_squared = self.count_squared.saturating_add(count * count);
        self.count_by_time = self.count_by_time.saturating_add(count * ticks);
        self.time_squared = self.time_squared.saturating_add(ticks * ticks);
        self.at_rotation_start = self.counted;
    }
}
