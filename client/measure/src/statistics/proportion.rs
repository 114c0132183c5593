//! Proportions: how accurately one is known.

/// The 97.5th percentile of the normal distribution: 95 % of its values are within as many standard
/// deviations of the mean.
pub const NORMAL_95: f64 = 1.959_963_985;

/// The ends of Wilson's score interval, at 95 %, of a proportion of `n` independent observations.
pub fn wilson_interval(proportion: f64, n: f64) -> (f64, f64) {
    wilson_interval_at(NORMAL_95, proportion, n)
}

/// Wilson's interval at this number of standard deviations.
pub fn wilson_interval_at(deviations: f64, proportion: f64, n: f64) -> (f64, f64) {
    let square = deviations * deviations;
    let middle = (proportion + square / (2.0 * n)) / (1.0 + square / n);
    let variance = proportion * (1.0 - proportion) / n + square / (4.0 * n * n);
    let half = deviations * variance.max(0.0).sqrt() / (1.0 + square / n);
    // At proportions of 0 and 1, rounding must not put an end on the wrong side.
    ((middle - half).clamp(0.0, proportion), (middle + half).clamp(proportion, 1.0))
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
}
