//! The rate of the time-stamp counter, measured against the system's clock.

use crate::rdpmc::timestamp;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The largest difference of the time-stamp counters of two processors: a millisecond at 4 GHz.
pub(super) const SKEW_TICKS: u64 = 1 << 22;

/// Pairs of readings at either end. The closest pair is used: an interrupt between its two readings
/// makes a pair wide.
const PAIRS: usize = 16;

/// A rate of the time-stamp counter, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Ticks per second of the system's clock.
    pub ticks_a_second: u64,
    /// The possible error of the rate, in billionths.
    pub error_ppb: u64,
    /// The time over which the two clocks were compared.
    pub over: Duration,
}

/// The same moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    ticks: u64,
    at: Instant,
    /// The longest time between the two readings.
    apart: u64,
}

impl Moment {
    pub(super) fn now() -> Self {
        let pair = || {
            let before = timestamp();
            let at = Instant::now();
            let apart = timestamp().saturating_sub(before);
            let ticks = before.saturating_add(apart / 2);
            Self { ticks, at, apart }
        };
        // Whatever comes between the two readings moves them apart.
        let tightest = (1..PAIRS).map(|_| pair()).min_by_key(|pair| pair.apart);
        tightest.unwrap_or_else(pair)
    }

    pub(super) fn step_ticks() -> u64 {
        const READINGS: usize = 1000;
        let readings: Vec<u64> = (0..READINGS).map(|_| timestamp()).collect();
        let pairs = readings.iter().zip(readings.iter().skip(1));
        step(pairs.filter_map(|(before, after)| after.checked_sub(*before)))
    }

    /// The time on the system's clock since then.
    pub(super) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }

    /// The rate from an earlier moment to this one.
    pub(super) fn rate_since(&self, earlier: &Self) -> Rate {
        let over = self.at.saturating_duration_since(earlier.at);
        let ticks = u128::from(self.ticks.saturating_sub(earlier.ticks));
        let nanoseconds = over.as_nanos().max(1);
        // Each moment lies within its pair, so taking the middle is wrong by half the width at
        // most. The system's clock adds its step at either end.
        let apart = u128::from(self.apart.midpoint(earlier.apart));
        let steps = 2 * system_step().as_nanos();
        let error = apart * 1_000_000_000 / ticks.max(1) + steps * 1_000_000_000 / nanoseconds;
        let narrow = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Rate {
            ticks_a_second: narrow((ticks * 1_000_000_000 + nanoseconds / 2) / nanoseconds),
            error_ppb: narrow(error),
            over,
        }
    }
}

/// The smallest difference of consecutive readings that a tenth of them show, or else the commonest;
/// 0 without any. A counter with coarse steps, as virtual machines and some processors have, is at
/// times read a tick beside a step, so that the smallest difference of all is not its step.
pub(super) fn step(distances: impl IntoIterator<Item = u64>) -> u64 {
    let mut often: BTreeMap<u64, usize> = BTreeMap::new();
    for distance in distances {
        *often.entry(distance).or_default() += 1;
    }
    often.remove(&0);
    let all: usize = often.values().sum();
    let smallest = often.iter().find(|&(_, &times)| times * 10 >= all);
    let commonest = || often.iter().max_by_key(|&(&distance, &times)| (times, Reverse(distance)));
    smallest.or_else(commonest).map_or(0, |(&distance, _)| distance)
}

/// The smallest difference between two different readings of the system's clock.
fn system_step() -> Duration {
    let distance = |_| {
        let before = Instant::now();
        loop {
            let after = Instant::now();
            if after != before {
                return after - before;
            }
        }
    };
    (0..PAIRS).map(distance).min().unwrap_or_default()
}
