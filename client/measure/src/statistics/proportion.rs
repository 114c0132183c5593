//! Proportions: how accurately one is known, and whether two differ by more than chance.

use crate::float::float;
use statrs::function::erf::erfc;
use statrs::function::factorial::ln_binomial;

/// The 97.5th percentile of the normal distribution: 95 % of its values are within as many standard
/// deviations of the mean.
const NORMAL_95: f64 = 1.959_963_985;

/// The ends of Wilson's score interval, at 95 %, of a proportion of `n` independent observations.
pub fn wilson_interval(proportion: f64, n: f64) -> (f64, f64) {
    let square = NORMAL_95 * NORMAL_95;
    let middle = (proportion + square / (2.0 * n)) / (1.0 + square / n);
    let variance = proportion * (1.0 - proportion) / n + square / (4.0 * n * n);
    let half = NORMAL_95 * variance.max(0.0).sqrt() / (1.0 + square / n);
    ((middle - half).clamp(0.0, proportion), (middle + half).clamp(proportion, 1.0))
}

/// If fewer than this are expected in the smallest part, the normal approximation is too coarse.
const NORMAL_MIN: f64 = 10.0;

/// How likely it is that two proportions, each `(part, whole)`, differ at least as much as these by
/// chance alone: the two-sided p-value of the two-proportion z-test, or of Fisher's exact test if a
/// part is small.
pub fn two_proportion_p_value(
    (part, whole): (u64, u64),
    (other_part, other_whole): (u64, u64),
) -> f64 {
    if whole == 0 || other_whole == 0 {
        return 1.0;
    }
    let (n, m) = (float(whole), float(other_whole));
    let pooled = float(u128::from(part) + u128::from(other_part)) / (n + m);
    if pooled.min(1.0 - pooled) * n.min(m) < NORMAL_MIN {
        return fisher_exact((part, whole), (other_part, other_whole));
    }
    let deviation = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
    let distance = (float(part) / n - float(other_part) / m).abs();
    erfc(distance / deviation / std::f64::consts::SQRT_2)
}

/// Fisher's exact test: the total probability of all outcomes no likelier than this one.
fn fisher_exact((part, whole): (u64, u64), (other_part, other_whole): (u64, u64)) -> f64 {
    let parts = part.saturating_add(other_part);
    let all = whole.saturating_add(other_whole);
    // Being inside a part and being outside it are the same question; the smaller one has fewer
    // outcomes.
    if parts > all / 2 {
        let (outside, other) = (whole.saturating_sub(part), other_whole.saturating_sub(other_part));
        if outside.saturating_add(other) < parts {
            return fisher_exact((outside, whole), (other, other_whole));
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
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<bool> {
    const RATE: f64 = 0.05;
    let mut sorted = p_values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let each = RATE / float(sorted.len().max(1) as u128);
    let within = |&(rank, p): &(u128, f64)| p <= each * float(rank);
    let limit = (1..).zip(sorted).filter(within).last();
    let is_significant = |&p: &f64| limit.is_some_and(|(_, limit)| p <= limit);
    p_values.iter().map(is_significant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals that R's `prop.test(x, n, correct = FALSE)` prints.
    #[test]
    fn the_interval_is_wilson_s() {
        for (part, whole, low, high) in [
            (0.0, 10.0, 0.0, 0.277_532_8),
            (1.0, 10.0, 0.017_875_7, 0.404_150_0),
            (50.0, 100.0, 0.403_832_5, 0.596_167_5),
            (1000.0, 10_000.0, 0.094_272_8, 0.106_033_6),
            (10.0, 10.0, 0.722_467_2, 1.0),
        ] {
            let found = wilson_interval(part / whole, whole);
            let miss = (found.0 - low).abs().max((found.1 - high).abs());
            assert!(miss < 1e-5, "{part}/{whole}: {found:?}");
        }
    }

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
            let found = two_proportion_p_value(one, other);
            assert!((found - p).abs() < 1e-4, "{one:?} {other:?}: {found}");
        }
        assert!(two_proportion_p_value((5000, 10_000), (5500, 10_000)) < 1e-9);
        // A difference of sqrt(30) standard deviations: 4.3e-8.
        assert!(two_proportion_p_value((0, 1 << 40), (30, 1 << 40)) < 1e-7);
    }

    /// The example of Benjamini and Hochberg's own paper: four of fifteen.
    #[test]
    fn many_tests_are_corrected_for() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let clear = benjamini_hochberg(&p);
        assert_eq!(clear.iter().filter(|&&clear| clear).count(), 4);
        assert!(clear[..4].iter().all(|&clear| clear));
        assert!(benjamini_hochberg(&[]).is_empty());
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
        let p = pairs.map(|(a, b)| two_proportion_p_value((a, 100_000), (b, 100_000)));
        let p: Vec<f64> = p.collect();
        assert!(p.iter().filter(|&&p| p < 0.05).count() > 20);
        assert!(benjamini_hochberg(&p).iter().all(|&clear| !clear));
    }
}
