//! The share of all events that a part has, and how accurately it is known.
//!
//! A sample stands for the events of its period, and periods differ: the interrupt-time guard
//! lengthens them, and recordings of several machines have their own. So a share is one of events,
//! and its accuracy is that of as many samples of equal weight as would have its variance.
//!
//! A sample is in a part or not, so the number of samples in it is binomial. The bounds are
//! Wilson's score interval (E. B. Wilson, Probable inference, the law of succession, and
//! statistical inference, J. Am. Stat. Assoc. 22, 1927), which keeps its 95 % even for few samples
//! and for shares near 0 and 1 (Brown, Cai and DasGupta, Interval estimation for a binomial
//! proportion, Statistical Science 16, 2001). It assumes independent samples: code that runs in
//! step with the period is sampled more or less often than it runs, and no bound shows that.

use crate::aggregate::totals::Totals;
use halprof_measure::float::float;
use halprof_measure::statistics::proportion::wilson_interval;
use schemars::JsonSchema;
use serde::Serialize;

/// A share as fractions from 0 to 1, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Share {
    /// The part divided by the whole.
    pub value: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
    /// How many samples of equal weight would be as accurate.
    #[serde(skip)]
    pub effective: f64,
}

impl Share {
    /// The share of a part's events in those of the whole, whose samples the part's are among.
    ///
    /// Samples of periods p are worth (sum p)^2 / sum p^2 equal ones if the weights are the same in
    /// the part as elsewhere (L. Kish, Survey Sampling, 1965). Where the part's own samples
    /// are the heavy ones they are worth fewer: the share R is a ratio of sums, with the variance
    /// ((1 - R)^2 sum p^2 in the part + R^2 sum p^2 in the rest) / (sum p)^2, and as many equal
    /// samples have R (1 - R) / n. The smaller number is used.
    pub fn weighted(part: Totals, whole: Totals) -> Self {
        if whole.events == 0 {
            return Self::of(0, 0);
        }
        let events = float(whole.events);
        let value = (float(part.events) / events).min(1.0);
        let (own, rest) = (float(part.squares), float(whole.squares.saturating_sub(part.squares)));
        let alike = events * events / float(whole.squares);
        let spread = (1.0 - value).powi(2) * own + value.powi(2) * rest;
        let uneven = value * (1.0 - value) * events * events / spread;
        // `uneven` is NaN if all samples are in the part, or none; `min` then returns `alike`.
        let effective = alike.min(uneven);
        Self::with(value, effective.clamp(1.0, (float(whole.samples)).max(1.0)))
    }

    /// The share of one in ten samples: shows how accurate this many samples are.
    pub fn of_a_tenth(whole: Totals) -> Self {
        Self::with(0.1, Self::weighted(Totals::default(), whole).effective)
    }

    /// The share of `part` samples of equal weight in `whole`.
    pub fn of(part: u64, whole: u64) -> Self {
        Self::of_groups(part, whole, whole)
    }

    /// The share of samples that are not independent but come in groups. Each group counts as a single
    /// sample, so that the bounds are never too narrow.
    pub fn of_groups(part: u64, whole: u64, groups: u64) -> Self {
        if whole == 0 || groups == 0 {
            return Self { value: 0.0, low: 0.0, high: 1.0, effective: 0.0 };
        }
        Self::with(float(part) / float(whole), float(whole.min(groups)))
    }

    fn with(value: f64, effective: f64) -> Self {
        let (low, high) = wilson_interval(value, effective);
        Self { value, low, high, effective }
    }

    /// The distance to the farther end of the interval.
    pub fn bound(&self) -> f64 {
        (self.high - self.value).max(self.value - self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependent_samples_are_as_accurate_as_their_groups() {
        assert_eq!(Share::of_groups(500, 1000, 100), Share::of(50, 100));
        assert_eq!(Share::of_groups(5, 10, 100), Share::of(5, 10));
        // The share of nothing may be any.
        for (part, whole, groups) in [(0, 0, 5), (1, 2, 0), (0, 0, 0)] {
            let share = Share::of_groups(part, whole, groups);
            assert_eq!((share.low, share.high), (0.0, 1.0), "{part}/{whole}");
        }
    }

    /// A small generator (Knuth's MMIX line), so that every run sees the same samples.
    struct Random(u64);

    impl Random {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are kept")]
        fn next(&mut self) -> f64 {
            let next = self.0.wrapping_mul(6364136223846793005);
            self.0 = next.wrapping_add(1442695040888963407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    fn both(mut one: Totals, other: Totals) -> Totals {
        one.add(other);
        one
    }

    #[test]
    fn samples_of_one_period_are_counted() {
        for period in [1, 100_000, 1_000_000_007] {
            for (part, whole) in [(0, 10), (1, 10), (50, 100), (1000, 10_000), (10, 10)] {
                let weighted =
                    Share::weighted(Totals::alike(part, period), Totals::alike(whole, period));
                let counted = Share::of(part, whole);
                let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
                assert!(close(weighted.value, counted.value), "{weighted:?}");
                assert!(close(weighted.low, counted.low), "{weighted:?}");
                assert!(close(weighted.high, counted.high), "{weighted:?}");
            }
        }
    }

    /// Ten thousand samples of 100,000 events and a thousand of 1,000,000 are worth
    /// (2 * 10^9)^2 / (10^14 + 10^15) = 3636 equal ones.
    #[test]
    fn equal_events_are_equal_shares_whatever_the_periods() {
        let (short, long) = (Totals::alike(10_000, 100_000), Totals::alike(1000, 1_000_000));
        let whole = both(short, long);
        for part in [short, long] {
            let share = Share::weighted(part, whole);
            assert!((share.value - 0.5).abs() < f64::EPSILON, "{share:?}");
            assert!((share.effective - 3636.363).abs() < 0.01, "{share:?}");
        }
        let tenth = Share::of_a_tenth(whole);
        assert!((tenth.value - 0.1).abs() < f64::EPSILON, "{tenth:?}");
        assert!((tenth.effective - 3636.363).abs() < 0.01, "{tenth:?}");
    }

    /// Random parts of samples with two weights: does the interval have the true share?
    #[test]
    fn the_interval_holds_where_weights_differ() {
        // The share of light samples, and how many of the light and of the heavy are in the part.
        for (light, in_light, in_heavy) in
            [(0.5, 0.3, 0.3), (0.9, 0.05, 0.2), (0.8, 0.2, 0.02), (0.9, 0.0, 0.1)]
        {
            let mut random = Random(26);
            let (one, ten) = (light * in_light, (1.0 - light) * in_heavy * 10.0);
            let truth = (one + ten) / (light + (1.0 - light) * 10.0);
            let mut held = 0;
            for _ in 0..1000 {
                let (mut part, mut whole) = (Totals::default(), Totals::default());
                for _ in 0..2000 {
                    let (period, rate) =
                        if random.next() < light { (1000, in_light) } else { (10_000, in_heavy) };
                    whole.add(Totals::alike(1, period));
                    if random.next() < rate {
                        part.add(Totals::alike(1, period));
                    }
                }
                let share = Share::weighted(part, whole);
                held += u32::from((share.low..=share.high).contains(&truth));
            }
            // 95 % less three standard deviations of a binomial of 1000.
            assert!(held >= 929, "{held} of 1000 at {light} {in_light} {in_heavy}");
        }
    }

    /// Of 1 sample in 10 Wilson's interval is 1.8 % to 40.4 %: a table that has one number says ±30.4 %.
    #[test]
    fn the_bound_reaches_the_farther_end() {
        for (part, value) in [(1, 0.1), (9, 0.9)] {
            let share = Share::of(part, 10);
            assert!((share.value - value).abs() < f64::EPSILON, "{share:?}");
            assert!((share.bound() - 0.304).abs() < 5e-4, "{share:?}");
        }
    }

    #[test]
    fn what_a_hostile_file_adds_up_to_is_a_share() {
        let most = Totals { samples: u64::MAX, events: u64::MAX, squares: u128::MAX };
        let heavy = both(Totals::alike(1, u64::MAX), Totals::alike(1000, 1));
        for (part, whole) in [
            (most, most),
            (Totals::alike(1, u64::MAX), heavy),
            (Totals::alike(1000, 1), heavy),
            (most, Totals::alike(1, 1)),
            (Totals::alike(1, 0), Totals::alike(2, 0)),
        ] {
            let Share { value, low, high, effective } = Share::weighted(part, whole);
            assert!(0.0 <= low && low <= value && value <= high && high <= 1.0);
            assert!(effective.is_finite());
        }
    }
}
