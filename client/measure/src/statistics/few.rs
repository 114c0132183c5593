//! The interval that contains the mean of a few independent events.

/// From this many events on, the logarithm of their mean is nearly normal.
pub const ENOUGH: usize = 10;

/// The 95 % interval of the mean of a Poisson distribution of which 1 to 9 events were seen: half of the
/// 2.5th percentile of chi-squared of 2 n degrees of freedom, and of the 97.5th of 2 n + 2 (F. Garwood,
/// Fiducial limits for the Poisson distribution, Biometrika 28, 1936).
const LIMITS: [(f64, f64); ENOUGH - 1] = [
    (0.025_318, 5.571_643),
    (0.242_209, 7.224_688),
    (0.618_672, 8.767_273),
    (1.089_865, 10.241_589),
    (1.623_486, 11.668_332),
    (2.201_894, 13.059_474),
    (2.814_363, 14.422_675),
    (3.453_832, 15.763_189),
    (4.115_373, 17.084_803),
];

/// The interval, if there is at least one event and there are fewer than [`ENOUGH`].
pub fn limits(events: usize) -> Option<(f64, f64)> {
    LIMITS.get(events.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{DiscreteCDF, Poisson};

    /// With the mean at the lower end, n or more events have a chance of 2.5 %; with the mean at the upper
    /// end, n or fewer have it.
    #[test]
    fn each_end_is_beyond_what_chance_explains() {
        for n in 1..ENOUGH {
            let (low, high) = limits(n).expect("few");
            let at = |mean| Poisson::new(mean).expect("a mean");
            let (least, most) = (at(low).sf(n as u64 - 1), at(high).cdf(n as u64));
            assert!(
                (least - 0.025).abs() < 1e-4 && (most - 0.025).abs() < 1e-4,
                "{n}: {least} {most}"
            );
        }
        assert_eq!((limits(0), limits(ENOUGH)), (None, None));
    }
}
