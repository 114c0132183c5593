//! How the measurements of a region are distributed, and which of them are anomalous.

use crate::float::float;
use crate::statistics::{
    mean, median, median_absolute_deviation, mode, standard_deviation, trimmed_mean,
};
use serde::{Deserialize, Serialize};

/// With fewer values than this, none is treated as anomalous: their spread says too little.
const CULLED_MIN: usize = 5;
/// Scales the median absolute deviation of normal values to their standard deviation: 1 divided by
/// the 3/4 quantile of the normal distribution.
const NORMAL: f64 = 1.4826;
/// The trimmed mean leaves out one in this many at either end.
const TRIMMED: usize = 5;

/// The number of spreads above the median that are still accepted. Of normally distributed values,
/// only one in 740 lies higher.
const SPREADS: f64 = 3.0;

/// Which measurements are anomalous: those that are too large. Whatever disturbs a measurement,
/// such as an interrupt or a cold cache, makes it larger.
pub const RULE: &str = "of 5 measurements and more, those are culled that exceed the median by more than 3 spreads; \
     a spread is 1.4826 times the median absolute deviation, but at least 1 % of the median and at least 1";

/// The largest value that [`RULE`] keeps, of sorted values.
fn limit(sorted: &[u128]) -> f64 {
    if sorted.len() < CULLED_MIN {
        return f64::INFINITY;
    }
    float(median(sorted)) + SPREADS * spread(sorted)
}

/// The spread of sorted values, as [`RULE`] says.
fn spread(sorted: &[u128]) -> f64 {
    let spread = NORMAL * float(median_absolute_deviation(sorted));
    spread.max(float(median(sorted)) / 100.0).max(1.0)
}

/// The median of some values and their spread, as [`RULE`] says; `None` if there are none.
pub(super) fn median_and_spread(values: &[u64]) -> Option<(u64, u64)> {
    let mut sorted: Vec<u128> = values.iter().map(|&value| value.into()).collect();
    sorted.sort_unstable();
    sorted.first()?;
    // Saturates, as `as` does; neither is negative.
    #[expect(clippy::cast_sign_loss, reason = "a spread is at least 1")]
    Some((median(&sorted) as u64, spread(&sorted).ceil() as u64))
}

/// A summary of measurements. All fields but `n` and `culled` describe those that were kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of measurements, including the culled ones.
    pub n: u64,
    /// The smallest.
    pub min: u64,
    /// The median; with an even count, the mean of the two middle values, rounded to the nearest
    /// integer.
    pub median: u64,
    /// The mean.
    pub mean: f64,
    /// The most frequent value, the smallest if there are several; `None` if no value occurs twice.
    pub mode: Option<u64>,
    /// The standard deviation of one measurement; `None` for a single one.
    pub deviation: Option<f64>,
    /// The mean without the lowest and the highest fifth.
    pub trimmed_mean: f64,
    /// The number of values that were left out as anomalous.
    pub culled: u64,
}

impl Distribution {
    /// Summarises these measurements; `None` if there are none.
    pub fn from_values(values: &[u64]) -> Option<Self> {
        Self::kept(values, |_| f64::INFINITY)
    }

    /// The same without those that are anomalous by [`RULE`].
    pub fn culled(values: &[u64]) -> Option<Self> {
        Self::kept(values, limit)
    }

    fn kept(values: &[u64], limit: impl Fn(&[u128]) -> f64) -> Option<Self> {
        let mut sorted: Vec<u128> = values.iter().map(|&value| value.into()).collect();
        sorted.sort_unstable();
        let limit = limit(&sorted);
        sorted.retain(|&value| float(value) <= limit);
        let &least = sorted.first()?;
        Some(Self {
            n: values.len() as u64,
            min: least as u64,
            median: median(&sorted) as u64,
            mean: mean(&sorted),
            mode: mode(&sorted).map(|mode| mode as u64),
            deviation: standard_deviation(&sorted),
            trimmed_mean: trimmed_mean(&sorted, sorted.len() / TRIMMED),
            culled: (values.len() - sorted.len()) as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Distribution {
        Distribution::culled(values).expect("values")
    }

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }

    #[test]
    fn a_distribution_made_by_hand_is_as_calculated_by_hand() {
        let found = of(&[4, 2, 4, 4, 5, 5, 7, 9, 3, 7]);
        assert_eq!((found.n, found.culled), (10, 0));
        assert_eq!((found.min, found.median, found.mode), (2, 5, Some(4)));
        near(found.mean, 5.0);
        // Squares of the distances: 1+9+1+1+0+0+4+16+4+4 = 40, over 9.
        near(found.deviation.expect("ten"), (40.0f64 / 9.0).sqrt());
        // Without 2, 3 and 7, 9: 4 4 4 5 5 7.
        near(found.trimmed_mean, 29.0 / 6.0);
    }

    #[test]
    fn passages_that_an_interrupt_disturbed_are_culled_and_counted() {
        // Median 1000, median absolute deviation 0: the spread is 1 % of the median.
        let mut values = vec![1000; 90];
        values.extend([1001; 7]);
        values.extend([1030, 1031, 25_000]);
        let found = of(&values);
        assert_eq!((found.n, found.culled), (100, 2), "1030 is just kept");
        assert_eq!((found.median, found.mode), (1000, Some(1000)));
        near(found.mean, (90_000.0 + 7007.0 + 1030.0) / 98.0);
        let all = Distribution::from_values(&values).expect("values");
        assert_eq!(all.culled, 0);
        near(all.mean, (90_000.0 + 7007.0 + 1030.0 + 1031.0 + 25_000.0) / 100.0);
    }

    #[test]
    fn wide_distributions_keep_their_width() {
        // Deviations from 500: 0, 100, 100, 200, 200, ...: median 300 of 11 values.
        let values: Vec<u64> = (0..=10).map(|step| step * 100).collect();
        assert_eq!(of(&values).culled, 0);
        // 500 + 3 x 1.4826 x 300 = 1834.3: the median absolute deviation is 300 of 0, 100, 100 .. 500.
        let with = |one: u64| {
            let values: Vec<u64> = (0..10).map(|step| step * 100).chain([one]).collect();
            of(&values).culled
        };
        assert_eq!((with(1834), with(1835)), (0, 1));
    }

    #[test]
    fn few_events_are_not_culled_to_none() {
        let mut values = vec![0; 95];
        values.extend([1, 2, 3, 3, 4]);
        let found = of(&values);
        assert_eq!((found.culled, found.mode, found.min), (1, Some(0), 0));
    }

    #[test]
    fn the_rule_is_what_is_done() {
        for words in [
            format!("of {CULLED_MIN} measurements"),
            format!("more than {SPREADS} spreads"),
            format!("{NORMAL} times the median"),
        ] {
            assert!(RULE.contains(&words), "{words}");
        }
    }

    #[test]
    fn edges() {
        assert_eq!(Distribution::culled(&[]), None);
        let one = of(&[7]);
        assert_eq!((one.n, one.min, one.median, one.mode), (1, 7, 7, None));
        assert_eq!(one.deviation, None);
        let four = of(&[1, 1, 1, 1_000_000]);
        assert_eq!(four.culled, 0, "four have no anomalous one");
        assert_eq!(of(&[8, 8, 3, 3, 5, 6]).mode, Some(3), "the least of several");
        let greatest = of(&[u64::MAX; 6]);
        assert_eq!((greatest.median, greatest.culled), (u64::MAX, 0));
    }
}
