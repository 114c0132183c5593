//! Chooses periods that give the wanted number of samples.
//!
//! Too many interrupts a second disturb the processor that takes them; too few samples in total say
//! little. The guidance is Intel's for event-based sampling: about a thousand samples a second,
//! about ten thousand in total.

/// How many samples are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SamplingRate {
    /// At most this many a second on each processor, of all sources together.
    pub(crate) rate: u64,
    /// About this many in total, of all sources and processors together, where that matters.
    pub(crate) samples: Option<u64>,
}

impl Default for SamplingRate {
    fn default() -> Self {
        Self { rate: Self::RATE, samples: Some(Self::SAMPLES) }
    }
}

impl SamplingRate {
    /// Samples a second on each busy processor, of all sources together, that disturb little.
    pub(crate) const RATE: u64 = 1_000;
    /// Fewer samples than this say little.
    pub(crate) const SAMPLES: u64 = 10_000;

    /// Whether so many samples in total are [`SAMPLES`](Self::SAMPLES) within a tenth, the accuracy
    /// of a calibration.
    pub(crate) const fn is_reached(samples: u64) -> bool {
        samples >= Self::SAMPLES - Self::SAMPLES / 10
    }

    /// The period for one of `together` sources that run at once, out of `all` sources, in a
    /// measurement of `elapsed_ns` in which each processor counts the given events; `None` if there
    /// were no events. The busiest processor stays within the rate.
    pub(crate) fn period(
        &self,
        events: &[u128],
        elapsed_ns: u64,
        together: usize,
        all: usize,
    ) -> Option<u64> {
        let by_rate = u128::from(self.rate) * u128::from(elapsed_ns) / 1_000_000_000;
        let by_rate = u64::try_from(by_rate / together.max(1) as u128).unwrap_or(u64::MAX);
        let busiest = events.iter().copied().max()?;
        let in_all = self.samples.and_then(|samples| {
            let sum = events.iter().copied().fold(0, u128::saturating_add);
            period(sum, samples / all.max(1) as u64)
        });
        period(busiest, by_rate).max(in_all)
    }
}

/// The period that gives at most `samples` samples of `events` events; `None` without events.
fn period(events: u128, samples: u64) -> Option<u64> {
    let period = events.div_ceil(samples.max(1).into());
    let period = u64::try_from(period).unwrap_or(u64::MAX);
    (period != 0).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: u128 = 1_000_000_000_000;

    #[test]
    fn the_target_is_kept_by_the_rate_and_by_the_sum() {
        let target = SamplingRate::default();
        let second = 1_000_000_000;
        for (seconds, together, all, expected) in [
            (5, 1, 1, 5_000),
            (20, 1, 1, 10_000),
            (20, 2, 2, 5_000),
            (20, 2, 4, 2_500),
            (1, 2, 4, 500),
            (0, 1, 1, 1),
        ] {
            let period = target.period(&[EVENTS], seconds * second, together, all);
            let expected = u64::try_from(EVENTS / expected).ok();
            assert_eq!(period, expected, "{seconds} s, {together} of {all}");
        }
        let rate = SamplingRate { rate: 100, samples: None };
        assert_eq!(rate.period(&[EVENTS], 1000 * second, 1, 1), Some(10_000_000));
        assert_eq!(target.period(&[0, 0], second, 1, 1), None);
    }

    /// The rate is for each processor: sixty-four busy ones have as many samples each as a single
    /// one.
    #[test]
    fn a_rate_is_each_processors() {
        let rate = SamplingRate { rate: 1000, samples: None };
        let second = 1_000_000_000;
        let one = rate.period(&[3_000_000_000], second, 1, 1);
        assert_eq!(one, Some(3_000_000));
        assert_eq!(rate.period(&[3_000_000_000; 64], second, 1, 1), one);
        assert_eq!(rate.period(&[3_000_000_000, 5, 0], second, 1, 1), one);
        // The total that is wanted is that of all processors together.
        let all = SamplingRate::default().period(&[3_000_000_000; 64], second, 1, 1);
        assert_eq!(all, Some(19_200_000));
    }

    #[test]
    fn no_period_gives_more_samples_than_wanted() {
        for events in [1u128, 999, 1000, 1001, 123_456_789, 1 << 62] {
            for wanted in [1, 7, 10_000] {
                let got = events / u128::from(period(events, wanted).expect("a period"));
                assert!(got <= wanted.into(), "{events} / {wanted}: {got}");
            }
        }
        assert_eq!(period(19, 10), Some(2), "1 would give 19");
        assert_eq!(period(2_000_000_000, 198), Some(10_101_011));
        assert_eq!(period(0, 10), None);
    }
}
