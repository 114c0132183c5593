//! Statistics over repeated measurements: mean, spread, confidence interval, and outliers.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::erf::erfc;
use statrs::function::factorial::ln_binomial;

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
    #[must_use]
    pub fn of(values: &[u128], trim: bool) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let outliers = outliers(values, &sorted);
        let all = 0..values.len();
        let kept: Vec<usize> = all
            .filter(|index| !trim || !outliers.contains(index))
            .collect();
        let of = kept.iter().filter_map(|&index| values.get(index).copied());
        let (mean, deviation) = mean_and_deviation(&of.collect::<Vec<_>>());
        let deviation = deviation.unwrap_or(0.0);
        Some(Self {
            confidence: confidence(deviation, kept.len()),
            kept,
            mean,
            deviation,
            min: *sorted.first()?,
            median: median(&sorted),
            max: *sorted.last()?,
            outliers,
        })
    }
}

/// Half the width of the 95 % confidence interval of a mean.
fn confidence(deviation: f64, values: usize) -> f64 {
    let values = real(values as u128);
    if values < 2.0 {
        return 0.0;
    }
    student_t(0.975, values - 1.0) * deviation / values.sqrt()
}

/// A quantile of Student's t, for real degrees of freedom; fewer than 1 count as 1.
pub(crate) fn student_t(probability: f64, freedom: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom.max(1.0)) {
        Ok(t) => t.inverse_cdf(probability),
        Err(_) => f64::INFINITY,
    }
}

fn outliers(values: &[u128], sorted: &[u128]) -> Vec<usize> {
    let Some(&least) = sorted.first().filter(|_| sorted.len() >= QUARTILES_MIN) else {
        return Vec::new();
    };
    let (low, high) = (quantile(sorted, least, 0.25), quantile(sorted, least, 0.75));
    let reach = 1.5 * (high - low);
    let outside = |value: u128| {
        let above = real(value - least);
        above < low - reach || above > high + reach
    };
    let values = values.iter().enumerate();
    values
        .filter(|&(_, &value)| outside(value))
        .map(|(index, _)| index)
        .collect()
}

/// A quantile, linearly interpolated between its neighbours, as the distance from the smallest
/// value.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place among the values"
)]
fn quantile(sorted: &[u128], least: u128, part: f64) -> f64 {
    let place = part * real(sorted.len() as u128 - 1);
    let at = |index: usize| sorted.get(index).map_or(0.0, |&value| real(value - least));
    let below = at(place.floor() as usize);
    below + (at(place.ceil() as usize) - below) * place.fract()
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

/// Mean, rounded to the nearest integer, and standard deviation, which is `None` for a single
/// value.
#[must_use]
pub fn mean_and_deviation(values: &[u128]) -> (u128, Option<f64>) {
    let n = values.len().max(1) as u128;
    let sum = values
        .iter()
        .fold(0u128, |sum, &value| sum.saturating_add(value));
    let mean = sum.saturating_add(n / 2) / n;
    // Differences from one of the values are exact even if the values themselves have too many
    // bits.
    let least = values.iter().copied().min().unwrap_or(0);
    let above: Vec<f64> = values.iter().map(|value| real(value - least)).collect();
    let mean_above = above.iter().sum::<f64>() / real(n);
    let squares: f64 = above.iter().map(|value| (value - mean_above).powi(2)).sum();
    let deviation = (values.len() > 1).then(|| (squares / (real(n) - 1.0)).sqrt());
    (mean, deviation)
}

/// If fewer than this are expected in the smallest part, the normal approximation is too coarse.
const NORMAL_MIN: f64 = 10.0;

/// How likely it is that two shares, each `(part, whole)`, differ at least as much as these by
/// chance alone: the two-sided p-value of the two-proportion z-test, or of Fisher's exact test if a
/// part is small.
#[must_use]
pub fn by_chance((part, whole): (u64, u64), (other_part, other_whole): (u64, u64)) -> f64 {
    if whole == 0 || other_whole == 0 {
        return 1.0;
    }
    let (n, m) = (real(whole.into()), real(other_whole.into()));
    let pooled = real(u128::from(part) + u128::from(other_part)) / (n + m);
    if pooled.min(1.0 - pooled) * n.min(m) < NORMAL_MIN {
        return fisher((part, whole), (other_part, other_whole));
    }
    let deviation = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
    let distance = (real(part.into()) / n - real(other_part.into()) / m).abs();
    erfc(distance / deviation / std::f64::consts::SQRT_2)
}

/// Fisher's exact test: the total probability of all outcomes no likelier than this one.
fn fisher((part, whole): (u64, u64), (other_part, other_whole): (u64, u64)) -> f64 {
    let parts = part.saturating_add(other_part);
    let all = whole.saturating_add(other_whole);
    // Being inside a part and being outside it are the same question; the smaller one has fewer
    // outcomes.
    if parts > all / 2 {
        let (outside, other) = (
            whole.saturating_sub(part),
            other_whole.saturating_sub(other_part),
        );
        if outside.saturating_add(other) < parts {
            return fisher((outside, whole), (other, other_whole));
        }
    }
    let outcome = |k: u64| {
        ln_binomial(whole, k) + ln_binomial(other_whole, parts - k) - ln_binomial(all, parts)
    };
    // Equal probabilities may differ in their last bits.
    let here = outcome(part) + 1e-6;
    let least = parts.saturating_sub(other_whole);
    let outcomes = (least..=parts.min(whole)).map(outcome);
    let sum: f64 = outcomes.filter(|&one| one <= here).map(f64::exp).sum();
    sum.min(1.0)
}

/// Which of many p-values are significant: on average at most 5 % of those reported are chance (Y.
/// Benjamini and Y. Hochberg, Controlling the false discovery rate, J. R. Statist. Soc. B 57,
/// 1995).
#[must_use]
pub fn clear_of_chance(by_chance: &[f64]) -> Vec<bool> {
    const RATE: f64 = 0.05;
    let mut sorted = by_chance.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let each = RATE / real(sorted.len().max(1) as u128);
    let within = |&(rank, p): &(u128, f64)| p <= each * real(rank);
    let limit = (1..).zip(sorted).filter(within).last();
    let is_clear = |&p: &f64| limit.is_some_and(|(_, limit)| p <= limit);
    by_chance.iter().map(is_clear).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a spread needs no more bits")]
const fn real(value: u128) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by R: `fisher.test(rbind(c(8, 2), c(1, 5)))`, Fisher's tea, and `prop.test(...,
    /// correct = FALSE)`.
    #[test]
    fn differences_by_chance_are_as_likely_as_tables_say() {
        for (one, other, p) in [
            ((8, 10), (1, 6), 0.034_965_03),
            ((3, 4), (1, 4), 0.485_714_3),
            ((1, 4), (3, 4), 0.485_714_3),
            ((0, 5), (0, 5), 1.0),
            ((5, 5), (5, 5), 1.0),
            ((0, 0), (5, 10), 1.0),
            ((50, 100), (55, 100), 0.478_950_0),
        ] {
            let found = by_chance(one, other);
            assert!((found - p).abs() < 1e-4, "{one:?} {other:?}: {found}");
        }
        assert!(by_chance((5000, 10_000), (5500, 10_000)) < 1e-9);
        // A difference of sqrt(30) standard deviations: 4.3e-8.
        assert!(by_chance((0, 1 << 40), (30, 1 << 40)) < 1e-7);
    }

    /// The example of Benjamini and Hochberg's own paper: four of fifteen.
    #[test]
    fn many_tests_are_corrected_for() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let clear = clear_of_chance(&p);
        assert_eq!(clear.iter().filter(|&&clear| clear).count(), 4);
        assert!(clear[..4].iter().all(|&clear| clear));
        assert!(clear_of_chance(&[]).is_empty());
    }

    /// Two recordings of the same workload: a thousand functions, all alike.
    #[test]
    fn what_is_alike_is_not_called_clear() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut sampled = || {
            let mut functions = vec![0; 1000];
            (0..100_000).for_each(|_| functions[random.usize(..1000)] += 1);
            functions
        };
        let (before, after): (Vec<u64>, Vec<u64>) = (sampled(), sampled());
        let pairs = before.into_iter().zip(after);
        let p = pairs.map(|(a, b)| by_chance((a, 100_000), (b, 100_000)));
        let p: Vec<f64> = p.collect();
        assert!(p.iter().filter(|&&p| p < 0.05).count() > 20);
        assert!(clear_of_chance(&p).iter().all(|&clear| !clear));
    }

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
            (
                alternating.iter().map(|value| value * 10 - 9).collect(),
                100_000_011,
                10.0,
            ),
        ] {
            let summary = Summary::of(&values, false).expect("values");
            assert_eq!(summary.mean, mean);
            assert!((summary.deviation - deviation).abs() < 1e-9, "{summary:?}");
        }
        // The same values offset so far that doubles have no bits left for them.
        let far = [1u128, 3, 2].map(|value| (1 << 90) + value);
        let summary = Summary::of(&far, false).expect("values");
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
            assert!(
                (student_t(0.975, freedom) - at_95).abs() < 6e-4,
                "{freedom}"
            );
            assert!((student_t(0.99, freedom) - at_98).abs() < 6e-4, "{freedom}");
        }
        let inside = student_t(0.975, 3.5);
        assert!(inside > 2.776 && inside < 3.182, "{inside}");
    }

    #[test]
    fn the_confidence_of_five_values_is_by_t() {
        // Mean 30, deviation sqrt(250); t(4) = 2.776: 2.776 * 15.811 / sqrt(5).
        let summary = Summary::of(&[10, 20, 30, 40, 50], false).expect("values");
        assert!((summary.confidence - 19.63).abs() < 0.01, "{summary:?}");
        assert_eq!((summary.min, summary.median, summary.max), (10, 30, 50));
        assert!(summary.outliers.is_empty());
        let even = Summary::of(&[7, 1, 4, 10], false).expect("values");
        assert_eq!(even.median, 6);
        assert_eq!(Summary::of(&[7], false), None);
        assert_eq!(Summary::of(&[], true), None);
    }

    #[test]
    fn what_is_unlike_the_others_is_told_and_can_be_left_out() {
        let values = [100, 101, 99, 100, 5000, 102, 98];
        let all = Summary::of(&values, false).expect("values");
        assert_eq!((all.outliers.as_slice(), all.kept.len()), (&[4][..], 7));
        assert_eq!(all.mean, 800);
        let trimmed = Summary::of(&values, true).expect("values");
        assert_eq!(
            (trimmed.kept.len(), trimmed.mean, trimmed.max),
            (6, 100, 5000)
        );
        assert!(trimmed.deviation < 2.0 && trimmed.confidence < all.confidence);
    }

    #[test]
    fn the_deviation_is_of_the_values_and_not_of_their_rounded_mean() {
        for (values, mean, deviation) in [
            (&[][..], 0, None),
            (&[7], 7, None),
            (&[1, 2], 2, Some(0.5f64.sqrt())),
            (&[2, 4, 4, 4, 5, 5, 7, 9], 5, Some((32.0f64 / 7.0).sqrt())),
        ] {
            let (found_mean, found) = mean_and_deviation(values);
            assert_eq!(found_mean, mean, "{values:?}");
            assert_eq!(found.is_some(), deviation.is_some(), "{values:?}");
            let miss = found.unwrap_or(0.0) - deviation.unwrap_or(0.0);
            assert!(miss.abs() < 1e-12, "{values:?}: {found:?}");
        }
    }

    #[test]
    fn means_are_exact_beyond_64_bits() {
        let large = (1u128 << 73) + 1;
        assert_eq!(mean_and_deviation(&[large; 3]), (large, Some(0.0)));
        assert_eq!(mean_and_deviation(&[large, large + 2]).0, large + 1);
    }
}
