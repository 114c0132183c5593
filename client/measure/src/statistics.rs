//! Statistics. Repeated measurements have a mean, a spread, a confidence interval and outliers. Samples
//! have the accuracy of [proportions](proportion), and of the means that [few] of them stand for. Both
//! have a [`comparison`] with earlier ones; runs of two programs may be [`paired`]. [`estimate`](crate::estimate) estimates what was multiplexed.

pub mod comparison;
pub mod few;
pub mod paired;
pub mod proportion;

use crate::float::float;
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::erf::erfc_inv;
use std::f64::consts::SQRT_2;

/// A summary of repeated measurements of one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The values that mean, deviation and confidence are computed from, by index.
    pub kept: Vec<usize>,
    /// The mean, rounded to the nearest integer.
    pub mean: u128,
    /// Standard deviation of one value.
    pub deviation: f64,
    /// The true mean is within this distance of `mean` in 95 of 100 cases (Student's t).
    pub confidence: f64,
    /// The smallest of all values.
    pub min: u128,
    /// The median of all values, rounded to the nearest integer.
    pub median: u128,
    /// The largest of all values.
    pub max: u128,
    /// Outliers, by index: values outside Tukey's fences, which lie 1.5 times the interquartile
    /// range beyond the quartiles. Fewer than five values have none.
    pub outliers: Vec<usize>,
}

/// The fewest values whose quartiles are meaningful.
const QUARTILES_MIN: usize = 5;

impl Summary {
    /// Summarises at least two values; `None` for fewer. With `trim`, mean, deviation and
    /// confidence exclude the outliers.
    pub fn from_values(values: &[u128], trim: bool) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let outliers = outliers(values, &sorted);
        let all = 0..values.len();
        let kept: Vec<usize> = all.filter(|index| !trim || !outliers.contains(index)).collect();
        let kept_values = kept.iter().filter_map(|&index| values.get(index).copied());
        let kept_values: Vec<u128> = kept_values.collect();
        let deviation = standard_deviation(&kept_values)?;
        let n = float(kept.len() as u128);
        Some(Self {
            kept,
            confidence: student_t(0.975, n - 1.0) * (deviation / n.sqrt()),
            mean: rounded_mean(&kept_values),
            deviation,
            min: *sorted.first()?,
            median: median(&sorted),
            max: *sorted.last()?,
            outliers,
        })
    }
}

/// Half of the 95 % confidence interval of the mean of values (Student's t); `None` for fewer than two.
pub fn confidence_of_mean(values: &[f64]) -> Option<f64> {
    let n = float(values.len() as u128);
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (n - 1.0)).sqrt();
    (values.len() > 1).then(|| student_t(0.975, n - 1.0) * deviation / n.sqrt())
}

/// A quantile of Student's t, for real degrees of freedom; fewer than 1 count as 1.
pub fn student_t(probability: f64, freedom: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom.max(1.0)) {
        Ok(t) => t.inverse_cdf(probability),
        Err(_) => f64::INFINITY,
    }
}

/// The number of standard deviations that a value exceeds, in either direction, with this probability:
/// by Student's t; from a thousand degrees of freedom on by the normal distribution, which is the same
/// to three digits.
pub fn deviations(probability: f64, freedom: f64) -> f64 {
    if freedom < 1_000.0 {
        student_t(1.0 - probability / 2.0, freedom)
    } else {
        SQRT_2 * erfc_inv(probability)
    }
}

fn outliers(values: &[u128], sorted: &[u128]) -> Vec<usize> {
    let Some(&least) = sorted.first().filter(|_| sorted.len() >= QUARTILES_MIN) else {
        return Vec::new();
    };
    let (low, high) = (quantile(sorted, least, 0.25), quantile(sorted, least, 0.75));
    let reach = 1.5 * (high - low);
    let outside = |value: u128| {
        let above = float(value - least);
        above < low - reach || above > high + reach
    };
    let values = values.iter().enumerate();
    values.filter(|&(_, &value)| outside(value)).map(|(index, _)| index).collect()
}

/// A quantile, linearly interpolated between its neighbours, as the distance from the smallest
/// value: a float has that exactly where it has not enough bits for the value.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank among the values"
)]
fn quantile(sorted: &[u128], least: u128, part: f64) -> f64 {
    let rank = part * float(sorted.len() as u128 - 1);
    let at = |index: usize| sorted.get(index).map_or(0.0, |&value| float(value - least));
    let below = at(rank.floor() as usize);
    below + (at(rank.ceil() as usize) - below) * rank.fract()
}

/// The median of sorted values, rounded to the nearest integer.
pub(crate) fn median(sorted: &[u128]) -> u128 {
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return at(half);
    }
    let (low, high) = (at(half.saturating_sub(1)), at(half));
    low + (high - low).div_ceil(2)
}

/// The most frequent of sorted values, the smallest if there are several; `None` if no value occurs
/// twice.
pub(crate) fn mode(sorted: &[u128]) -> Option<u128> {
    let runs = sorted.chunk_by(|one, next| one == next);
    // The last of equal ones is taken, and reversed that is the smallest value.
    let longest = runs.rev().max_by_key(|run| run.len())?;
    longest.first().filter(|_| longest.len() > 1).copied()
}

/// The median distance of sorted values from their median.
pub(crate) fn median_absolute_deviation(sorted: &[u128]) -> u128 {
    let middle = median(sorted);
    let mut distances: Vec<u128> = sorted.iter().map(|value| value.abs_diff(middle)).collect();
    distances.sort_unstable();
    median(&distances)
}

pub(crate) fn mean(values: &[u128]) -> f64 {
    let n = values.len().max(1) as u128;
    let sum = sum(values);
    float(sum / n) + float(sum % n) / float(n)
}

/// The mean without so many of the smallest and of the largest of sorted values.
pub(crate) fn trimmed_mean(sorted: &[u128], each_end: usize) -> f64 {
    mean(sorted.get(each_end..sorted.len().saturating_sub(each_end)).unwrap_or(sorted))
}

/// The mean, rounded to the nearest integer; 0 of no values.
pub fn rounded_mean(values: &[u128]) -> u128 {
    let n = values.len().max(1) as u128;
    sum(values).saturating_add(n / 2) / n
}

/// The standard deviation of one value, as the others show it; `None` for fewer than two.
pub(crate) fn standard_deviation(values: &[u128]) -> Option<f64> {
    // Differences from one of the values are exact even if the values themselves have too many
    // bits.
    let least = values.iter().copied().min().filter(|_| values.len() > 1)?;
    let n = float(values.len() as u128);
    let above: Vec<f64> = values.iter().map(|value| float(value - least)).collect();
    let mean_above = above.iter().sum::<f64>() / n;
    let squares: f64 = above.iter().map(|value| (value - mean_above).powi(2)).sum();
    Some((squares / (n - 1.0)).sqrt())
}

fn sum(values: &[u128]) -> u128 {
    values.iter().fold(0, |sum, &value| sum.saturating_add(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST's Statistical Reference Datasets, univariate: certified means and deviations.
    #[test]
    fn certified_sets_come_out() {
        let alternating: Vec<u128> = (0..1001)
            .map(|index| match index {
                0 => 10_000_002,
                odd if odd % 2 == 1 => 10_000_001,
                _ => 10_000_003,
            })
            .collect();
        // NumAcc1, and NumAcc4 times ten.
        for (values, mean, deviation) in [
            (vec![10_000_001, 10_000_003, 10_000_002], 10_000_002, 1.0),
            (alternating.iter().map(|value| value * 10 - 9).collect(), 100_000_011, 10.0),
        ] {
            let summary = Summary::from_values(&values, false).expect("values");
            assert_eq!(summary.mean, mean);
            assert!((summary.deviation - deviation).abs() < 1e-9, "{summary:?}");
        }
        // The same values offset so far that doubles have no bits left for them.
        let far = [1u128, 3, 2].map(|value| (1 << 90) + value);
        let summary = Summary::from_values(&far, false).expect("values");
        assert_eq!((summary.mean, summary.deviation), ((1 << 90) + 2, 1.0));
    }

    /// Two-sided 95 % and one-sided 99 % quantiles, from any textbook's table.
    #[test]
    fn quantiles_are_the_tables() {
        for (freedom, at_95, at_98) in [
            (1.0, 12.706, 31.821),
            (2.0, 4.303, 6.965),
            (3.0, 3.182, 4.541),
            (4.0, 2.776, 3.747),
            (9.0, 2.262, 2.821),
            (29.0, 2.045, 2.462),
            (120.0, 1.980, 2.358),
            (1e6, 1.960, 2.326),
        ] {
            assert!((student_t(0.975, freedom) - at_95).abs() < 6e-4, "{freedom}");
            assert!((student_t(0.99, freedom) - at_98).abs() < 6e-4, "{freedom}");
        }
        for (probability, freedom, at) in [
            (0.05, 4.0, 2.776),
            (0.05, 1e3, 1.960),
            (0.01, 1e9, 2.576),
            (1e-6, f64::INFINITY, 4.892),
        ] {
            let found = deviations(probability, freedom);
            assert!((found - at).abs() < 1e-3, "{probability} {freedom}: {found}");
        }
        let inside = student_t(0.975, 3.5);
        assert!(inside > 2.776 && inside < 3.182, "{inside}");
    }

    #[test]
    fn the_confidence_of_a_mean_is_by_t() {
        for (values, confidence, range) in [
            // Deviation 10 / sqrt(2); t(1) = 12.706.
            (&[10, 20][..], 63.53, (10, 15, 20)),
            // Deviation sqrt(250); t(4) = 2.776: 2.776 * 15.811 / sqrt(5).
            (&[10, 20, 30, 40, 50], 19.63, (10, 30, 50)),
            // Deviation sqrt(15); t(3) = 3.182: 3.182 * 3.873 / sqrt(4). The median is rounded up.
            (&[7, 1, 4, 10], 6.16, (1, 6, 10)),
        ] {
            let summary = Summary::from_values(values, false).expect("values");
            assert!((summary.confidence - confidence).abs() < 0.01, "{summary:?}");
            let floats: Vec<f64> = values.iter().map(|&value| float(value)).collect();
            let of_floats = confidence_of_mean(&floats).expect("values");
            assert!((of_floats - summary.confidence).abs() < 1e-9, "{values:?}");
            assert_eq!((summary.min, summary.median, summary.max), range);
            assert!(summary.outliers.is_empty());
        }
        assert_eq!(Summary::from_values(&[7], false), None);
        assert_eq!(Summary::from_values(&[], true), None);
    }

    #[test]
    fn outliers_are_reported_and_can_be_left_out() {
        let values = [100, 101, 99, 100, 5000, 102, 98];
        let all = Summary::from_values(&values, false).expect("values");
        assert_eq!((all.outliers.as_slice(), all.kept.len()), (&[4][..], 7));
        assert_eq!(all.mean, 800);
        let trimmed = Summary::from_values(&values, true).expect("values");
        assert_eq!((trimmed.kept.len(), trimmed.mean, trimmed.max), (6, 100, 5000));
        // The six squares are 10: sqrt(10 / 5). t(5) = 2.571: 2.571 * 1.4142 / sqrt(6).
        assert!((trimmed.deviation - 2f64.sqrt()).abs() < 1e-9, "{trimmed:?}");
        assert!((trimmed.confidence - 1.484).abs() < 5e-4, "{trimmed:?}");
    }

    #[test]
    fn the_deviation_is_of_the_values_and_not_of_their_rounded_mean() {
        const BEYOND_64_BITS: u128 = (1 << 73) + 1;
        for (values, mean, deviation) in [
            (&[][..], 0, None),
            (&[7], 7, None),
            (&[1, 2], 2, Some(0.5f64.sqrt())),
            (&[2, 4, 4, 4, 5, 5, 7, 9], 5, Some((32.0f64 / 7.0).sqrt())),
            (&[BEYOND_64_BITS; 3], BEYOND_64_BITS, Some(0.0)),
            (&[BEYOND_64_BITS, BEYOND_64_BITS + 2], BEYOND_64_BITS + 1, Some(2f64.sqrt())),
        ] {
            let found = standard_deviation(values);
            assert_eq!(rounded_mean(values), mean, "{values:?}");
            assert_eq!(found.is_some(), deviation.is_some(), "{values:?}");
            let miss = found.unwrap_or(0.0) - deviation.unwrap_or(0.0);
            assert!(miss.abs() < 1e-12, "{values:?}: {found:?}");
        }
    }

    /// Values right at Tukey's fences, 1.5 times the distance of the quartiles beyond them, are no
    /// outliers; those beyond are.
    #[test]
    fn fences_are_where_tukey_puts_them() {
        let outliers =
            |values: &[u128]| Summary::from_values(values, false).expect("values").outliers;
        for (inside, outside, others) in [
            // Quartiles 110 and 130.
            (160, 161, &[100, 110, 120, 130][..]),
            (80, 79, &[110, 120, 130, 140]),
            // A quarter of the way from 110 to 120, and three from 130 to 140: 112.5 and 137.5.
            (175, 176, &[100, 110, 120, 130, 140]),
        ] {
            assert_eq!(outliers(&[&[inside], others].concat()), [0; 0], "{inside}");
            assert_eq!(outliers(&[&[outside], others].concat()), [0], "{outside}");
        }
    }
}
