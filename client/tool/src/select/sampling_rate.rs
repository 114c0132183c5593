//! How many samples are wanted, and the period that gives them.
//!
//! Too many interrupts a second disturb the processor that takes them; too few samples in total say
//! little. The guidance is Intel's for event-based sampling: about a thousand samples a second,
//! about ten thousand in total.

/// Samples a second on each busy processor, of all sources together, that disturb little.
pub(crate) const RATE: u64 = 1_000;
/// Fewer samples than this in total say little.
pub(crate) const SAMPLES: u64 = 10_000;

/// The period for one of `together` sources that run at once, if all of them are to take `rate` samples
/// a second on a processor that counted `events` events in `elapsed_ns`; `None` without events. The
/// number of samples is rounded down and the period up: a rate is a limit.
pub(crate) fn period(events: u128, elapsed_ns: u64, rate: u64, together: usize) -> Option<u64> {
    let samples =
        u128::from(rate) * u128::from(elapsed_ns) / 1_000_000_000 / together.max(1) as u128;
    let period = events.div_ceil(samples.max(1));
    (period != 0).then(|| u64::try_from(period).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_rate_is_that_of_all_sources_together() {
        const EVENTS: u128 = 1_000_000_000_000;
        for (seconds, rate, together, samples) in [
            (5, 1_000, 1, 5_000),
            (20, 1_000, 2, 10_000),
            (1000, 100, 1, 100_000),
            (0, 1_000, 1, 1),
        ] {
            let period = period(EVENTS, seconds * SECOND, rate, together);
            let expected = u64::try_from(EVENTS / samples).ok();
            assert_eq!(period, expected, "{rate} a second for {seconds} s, {together} together");
        }
    }

    #[test]
    fn no_period_gives_more_samples_than_wanted() {
        for events in [1u128, 999, 1000, 1001, 123_456_789, 1 << 62] {
            for rate in [1, 7, 10_000] {
                let got = events / u128::from(period(events, SECOND, rate, 1).expect("a period"));
                assert!(got <= rate.into(), "{events} / {rate}: {got}");
            }
        }
        assert_eq!(period(19, SECOND, 10, 1), Some(2), "1 would give 19");
        assert_eq!(period(2_000_000_000, 2 * SECOND, 99, 1), Some(10_101_011));
        assert_eq!(period(0, SECOND, 10, 1), None);
    }
}
