//! The share of all samples that a part has, and how accurately it is known.
//!
//! A sample is in a part or not, so the number of samples in it is binomial. The bounds are
//! Wilson's score interval (E. B. Wilson, Probable inference, the law of succession, and
//! statistical inference, J. Am. Stat. Assoc. 22, 1927), which keeps its 95 % even for few samples
//! and for shares near 0 and 1 (Brown, Cai and DasGupta, Interval estimation for a binomial
//! proportion, Statistical Science 16, 2001). It assumes independent samples: code that runs in
//! step with the period is sampled more or less often than it runs, and no bound shows that.

/// The 97.5th percentile of the normal distribution.
const Z: f64 = 1.959_963_985;

/// A share of all samples, as fractions from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The part's samples divided by all.
    pub value: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
}

impl Share {
    /// The share of `part` samples in `whole`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share needs no 53 bits")]
    pub fn of(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self {
                value: 0.0,
                low: 0.0,
                high: 1.0,
            };
        }
        Self::with(part as f64 / whole as f64, whole as f64)
    }

    /// The same if the counts are not independent but come in groups. Each group counts as a single
    /// sample, so that the bounds are never too narrow.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share needs no 53 bits")]
    pub fn of_groups(part: u64, whole: u64, groups: u64) -> Self {
        if whole == 0 || groups == 0 {
            return Self::of(0, 0);
        }
        Self::with(part as f64 / whole as f64, whole.min(groups) as f64)
    }

    /// Wilson's interval for a share of `n` samples.
    fn with(value: f64, n: f64) -> Self {
        let square = Z * Z;
        let middle = (value + square / (2.0 * n)) / (1.0 + square / n);
        let spread = value * (1.0 - value) / n + square / (4.0 * n * n);
        let half = Z * spread.max(0.0).sqrt() / (1.0 + square / n);
        Self {
            value,
            low: (middle - half).clamp(0.0, value),
            high: (middle + half).clamp(value, 1.0),
        }
    }

    /// The distance to the farther end of the interval.
    #[must_use]
    pub fn bound(&self) -> f64 {
        (self.high - self.value).max(self.value - self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals that R's `prop.test(x, n, correct = FALSE)` prints.
    #[test]
    fn the_interval_is_wilson_s() {
        for (part, whole, low, high) in [
            (0, 10, 0.0, 0.277_532_8),
            (1, 10, 0.017_875_7, 0.404_150_0),
            (50, 100, 0.403_832_5, 0.596_167_5),
            (1000, 10_000, 0.094_272_8, 0.106_033_6),
            (10, 10, 0.722_467_2, 1.0),
        ] {
            let share = Share::of(part, whole);
            assert!((share.low - low).abs() < 1e-5, "{part}/{whole}: {share:?}");
            assert!(
                (share.high - high).abs() < 1e-5,
                "{part}/{whole}: {share:?}"
            );
        }
        assert_eq!(Share::of_groups(500, 1000, 100), Share::of(50, 100));
        assert_eq!(Share::of_groups(5, 10, 100), Share::of(5, 10));
        let nothing = Share::of(0, 0).bound();
        assert!((nothing - 1.0).abs() < f64::EPSILON, "{nothing}");
    }
}
