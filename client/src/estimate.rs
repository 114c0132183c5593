//! From what was counted to what happened, where sources took turns on the counters.
//!
//! Each turn `i` counted `x[i]` events in `t[i]` ticks. The rate is the ratio estimator
//! `R = sum(x) / sum(t)`, and the estimate `R E`, with `E` the time enabled and `T = sum(t)` the
//! time on a counter. What a turn counts varies about `R t` with a variance in proportion to `t`:
//! turns may be cut short, the last one usually is. Then `sum((x - R t)^2)` is `T (1 - 1/n)` times
//! the variance for each tick, where `n = T^2 / sum(t^2)` is the number of turns if they are all
//! alike; and the estimate, which covers `E - T` by what was seen in `T`, has `E (E - T) / T` times
//! that variance. For turns that are alike this is the textbook's, finite population correction
//! included. The bound is as many standard deviations as Student's t has for `n - 1` degrees of
//! freedom, at 98 %: few turns are only nearly normal, and the 95 % that are promised shall be kept
//! for any workload, not met on the average of them.
//! Source: W. G. Cochran, Sampling Techniques, 3rd edition, 6.3, 6.7 (optimum of the ratio
//! estimator) and 6.13.

use shared_types::request::counts::Count;

/// What one source has counted, and what that says about all that happened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Events read from the counters.
    pub counted: u64,
    /// What happened: `counted`, or where that was scaled the estimate.
    pub value: u64,
    /// For how long the session was running, in ticks of the time-stamp counter.
    pub enabled: u64,
    /// For how long the source was on a counter.
    pub running: u64,
    /// Whether `value` is an estimate.
    pub scaled: bool,
    /// The 95 % bound of an estimate; `None` where nothing was scaled, and where there were too
    /// few turns to know.
    pub error: Option<f64>,
    /// Variance of the estimate, and the degrees of freedom behind it.
    spread: Option<Spread>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spread {
    variance: f64,
    /// Sum of each part's squared variance over its degrees of freedom (Satterthwaite).
    by_freedom: f64,
}

impl Estimate {
    /// What one processor's count says.
    #[must_use]
    pub fn new(count: &Count) -> Self {
        let exact = Self {
            counted: count.counted,
            value: count.counted,
            enabled: count.enabled,
            running: count.running,
            ..Self::default()
        };
        if count.running >= count.enabled {
            return exact;
        }
        let spread = spread(count);
        Self {
            value: scale(count.counted, count.enabled, count.running),
            scaled: true,
            error: spread.map(Spread::bound),
            spread,
            ..exact
        }
    }

    /// The sum over several processors; variances of independent estimates add up.
    #[must_use]
    pub fn sum(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut spread = Some(Spread::default());
        let mut sum = Self::default();
        for part in parts {
            sum.counted = sum.counted.saturating_add(part.counted);
            sum.value = sum.value.saturating_add(part.value);
            sum.enabled = sum.enabled.saturating_add(part.enabled);
            sum.running = sum.running.saturating_add(part.running);
            if part.scaled {
                sum.scaled = true;
                spread = spread.zip(part.spread).map(|(all, one)| all.and(one));
            }
        }
        if sum.scaled {
            sum.spread = spread;
            sum.error = spread.map(Spread::bound);
        }
        sum
    }

    /// Which part of the time the source was on a counter, from 0 to 1.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        match self.enabled {
            0 => 1.0,
            enabled => (real(self.running) / real(enabled)).min(1.0),
        }
    }
}

impl Spread {
    const fn and(self, other: Self) -> Self {
        Self {
            variance: self.variance + other.variance,
            by_freedom: self.by_freedom + other.by_freedom,
        }
    }

    fn bound(self) -> f64 {
        let freedom = if self.by_freedom > 0.0 {
            self.variance * self.variance / self.by_freedom
        } else {
            1.0
        };
        student_t(freedom) * self.variance.sqrt()
    }
}

/// Counted events for the whole time enabled, rounded to the nearest; 0 where nothing ran.
fn scale(counted: u64, enabled: u64, running: u64) -> u64 {
    if running == 0 {
        return 0;
    }
    let product = u128::from(counted) * u128::from(enabled) + u128::from(running / 2);
    u64::try_from(product / u128::from(running)).unwrap_or(u64::MAX)
}

/// The variance that the turns show; `None` for fewer than two.
fn spread(count: &Count) -> Option<Spread> {
    if count.turns < 2 || count.running == 0 {
        return None;
    }
    let (enabled, running) = (real(count.enabled), real(count.running));
    let rate = real(count.counted) / running;
    let turns = (running * running / wide(count.time_squared)).min(real(count.turns));
    let residuals = wide(count.count_squared) - 2.0 * rate * wide(count.count_by_time)
        + rate * rate * wide(count.time_squared);
    // Both ends of a turn are known to one event and one tick: each end's uniform rounding has a
    // variance of 1/12, which a very even workload's residuals do not show.
    let rounding = real(count.turns) / 6.0 * (1.0 + rate * rate);
    let squares = residuals.max(rounding) / (1.0 - 1.0 / turns);
    let variance = squares * enabled * (enabled - running) / (running * running);
    variance.is_finite().then(|| Spread {
        variance,
        by_freedom: variance * variance / (turns - 1.0),
    })
}

/// The 0.99 quantile of Student's t, for real degrees of freedom; less than 1 count as 1.
///
/// Up to 10 the published table, between its entries linear in the reciprocal; beyond it Fisher's
/// expansion about the normal quantile, which is exact to three decimals there.
fn student_t(freedom: f64) -> f64 {
    const TABLE: [f64; 10] = [
        31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764,
    ];
    const Z: f64 = 2.326_348;
    let freedom = freedom.max(1.0);
    for (pair, degrees) in TABLE.windows(2).zip(1u32..) {
        let (low, high) = (f64::from(degrees), f64::from(degrees + 1));
        if let [at_low, at_high] = *pair
            && freedom <= high
        {
            let part = (1.0 / low - 1.0 / freedom) / (1.0 / low - 1.0 / high);
            return at_low + part * (at_high - at_low);
        }
    }
    let first = (Z.powi(3) + Z) / 4.0;
    let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0;
    let third = (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / 384.0;
    Z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// What was counted between two snapshots of one session.
#[must_use]
pub fn since(now: &Count, before: &Count) -> Count {
    Count {
        counted: now.counted.saturating_sub(before.counted),
        enabled: now.enabled.saturating_sub(before.enabled),
        running: now.running.saturating_sub(before.running),
        turns: now.turns.saturating_sub(before.turns),
        count_squared: difference(now.count_squared, before.count_squared),
        count_by_time: difference(now.count_by_time, before.count_by_time),
        time_squared: difference(now.time_squared, before.time_squared),
    }
}

fn difference(now: [u64; 2], before: [u64; 2]) -> [u64; 2] {
    let difference = joined(now).saturating_sub(joined(before));
    [difference as u64, (difference >> 64) as u64]
}

const fn joined([low, high]: [u64; 2]) -> u128 {
    (high as u128) << 64 | low as u128
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a bound needs no more than 53 bits"
)]
const fn wide(halves: [u64; 2]) -> f64 {
    joined(halves) as f64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a bound needs no more than 53 bits"
)]
const fn real(value: u64) -> f64 {
    value as f64
}

/// Mean and standard deviation of repeated measurements; the deviation of one is `None`.
#[must_use]
pub fn mean_and_deviation(values: &[u64]) -> (f64, Option<f64>) {
    let n = real(values.len().max(1) as u64);
    let mean = values.iter().map(|&value| real(value)).sum::<f64>() / n;
    let squares: f64 = values
        .iter()
        .map(|&value| (real(value) - mean).powi(2))
        .sum();
    (
        mean,
        (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
    )
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "simulated counts are small"
)]
mod tests {
    use super::*;

    /// A small generator (Knuth's MMIX line), so that every run sees the same workloads.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    fn halves(value: u128) -> [u64; 2] {
        [value as u64, (value >> 64) as u64]
    }

    /// A source that is on a counter in every `share`-th of `stretches`; answers its count and the
    /// truth.
    fn simulate(rates: &[f64], share: usize, ticks: u64) -> (Count, u64) {
        let (mut count, mut truth) = (Count::default(), 0u64);
        let (mut xx, mut xt, mut tt) = (0u128, 0u128, 0u128);
        for (index, rate) in rates.iter().enumerate() {
            let events = (rate * ticks as f64) as u64;
            truth += events;
            count.enabled += ticks;
            if index % share == 0 {
                count.counted += events;
                count.running += ticks;
                count.turns += 1;
                xx += u128::from(events) * u128::from(events);
                xt += u128::from(events) * u128::from(ticks);
                tt += u128::from(ticks) * u128::from(ticks);
            }
        }
        count.count_squared = halves(xx);
        count.count_by_time = halves(xt);
        count.time_squared = halves(tt);
        (count, truth)
    }

    #[test]
    fn what_ran_all_the_time_is_exact() {
        let count = Count {
            counted: 1 << 62,
            enabled: 7,
            running: 7,
            turns: 1,
            ..Count::default()
        };
        let estimate = Estimate::new(&count);
        assert_eq!(
            (estimate.value, estimate.scaled, estimate.error),
            (1 << 62, false, None)
        );
    }

    #[test]
    fn scaling_survives_the_largest_amounts() {
        let count = Count {
            counted: 1 << 61,
            enabled: 1 << 62,
            running: 1 << 61,
            turns: 1,
            ..Count::default()
        };
        let estimate = Estimate::new(&count);
        assert_eq!((estimate.value, estimate.scaled), (1 << 62, true));
        let count = Count {
            counted: u64::MAX,
            enabled: u64::MAX,
            running: 1,
            ..Count::default()
        };
        assert_eq!(Estimate::new(&count).value, u64::MAX);
    }

    #[test]
    fn one_turn_and_none_have_no_bound() {
        for (running, turns) in [(5, 1), (0, 0)] {
            let count = Count {
                counted: running,
                enabled: 10,
                running,
                turns,
                ..Count::default()
            };
            let estimate = Estimate::new(&count);
            assert!(estimate.scaled);
            assert_eq!(estimate.error, None);
            let exact = Estimate::new(&Count {
                counted: 3,
                enabled: 1,
                running: 1,
                ..Count::default()
            });
            assert_eq!(Estimate::sum([estimate, exact]).error, None);
        }
    }

    #[test]
    fn the_bound_holds_in_more_than_95_of_100_random_workloads() {
        for (share, stretches) in [(2, 20), (3, 30), (4, 200), (8, 80)] {
            let mut held = 0;
            for seed in 0..1000 {
                let mut random = Random(seed * 7919 + 1);
                let rates: Vec<f64> = (0..stretches).map(|_| 0.5 + random.next()).collect();
                let (count, truth) = simulate(&rates, share, 100_000);
                let estimate = Estimate::new(&count);
                let miss = (estimate.value as f64 - truth as f64).abs();
                held += u32::from(miss <= estimate.error.expect("a bound"));
            }
            // Three standard deviations below 98 %, of a binomial of 1000.
            assert!(held >= 965, "{held} of 1000 at 1/{share} of {stretches}");
        }
    }

    #[test]
    fn a_sum_over_processors_holds_as_well() {
        let mut held = 0;
        for seed in 0..1000 {
            let mut random = Random(seed * 104_729 + 3);
            let (mut parts, mut truth) = (Vec::new(), 0);
            for processor in 1..=4 {
                let rates: Vec<f64> = (0..24)
                    .map(|_| random.next() * f64::from(processor))
                    .collect();
                let (count, true_count) = simulate(&rates, 3, 50_000);
                parts.push(Estimate::new(&count));
                truth += true_count;
            }
            let sum = Estimate::sum(parts);
            let miss = (sum.value as f64 - truth as f64).abs();
            held += u32::from(miss <= sum.error.expect("a bound"));
        }
        assert!(held >= 965, "{held} of 1000");
    }

    #[test]
    fn a_steady_workload_of_ten_rotations_is_bounded_within_five_percent() {
        let (count, truth) = simulate(&[0.7; 30], 3, 4_000_000);
        let estimate = Estimate::new(&count);
        let error = estimate.error.expect("a bound");
        assert!((estimate.value as f64 - truth as f64).abs() <= error);
        assert!(error < 0.05 * truth as f64, "{error} of {truth}");
    }

    #[test]
    fn student_t_is_the_published_table() {
        for (freedom, quantile) in [
            (1.0, 31.821),
            (2.0, 6.965),
            (5.0, 3.365),
            (10.0, 2.764),
            (12.0, 2.681),
            (15.0, 2.602),
            (20.0, 2.528),
            (30.0, 2.457),
            (60.0, 2.390),
            (120.0, 2.358),
            (1e9, 2.326),
        ] {
            let error = (student_t(freedom) - quantile).abs();
            assert!(error < 0.004, "{freedom}: {}", student_t(freedom));
        }
        assert!(student_t(0.3) > 31.0);
        assert!(student_t(3.5) < 4.541 && student_t(3.5) > 3.747);
    }

    #[test]
    fn differences_of_snapshots_borrow_across_halves() {
        let before = Count {
            count_squared: [5, 0],
            ..Count::default()
        };
        let now = Count {
            count_squared: [3, 1],
            ..Count::default()
        };
        assert_eq!(since(&now, &before).count_squared, [u64::MAX - 1, 0]);
    }

    #[test]
    fn deviation_is_of_a_sample() {
        assert!((mean_and_deviation(&[2, 4, 4, 4, 5, 5, 7, 9]).0 - 5.0).abs() < 1e-9);
        let deviation = mean_and_deviation(&[2, 4, 4, 4, 5, 5, 7, 9])
            .1
            .expect("many");
        assert!((deviation - 2.138).abs() < 0.001);
        assert_eq!(mean_and_deviation(&[3]).1, None);
    }
}
