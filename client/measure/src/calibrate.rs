//! Chooses periods that give the wanted number of samples, and advises on the number that came.
//!
//! Too many interrupts a second disturb the processor that takes them; too few samples in total say
//! little. The guidance is Intel's for event-based sampling: about a thousand samples a second,
//! about ten thousand in total.

use crate::thousands;

/// Samples a second on each busy processor, of all sources together, that disturb little.
pub const RATE: u64 = 1_000;
/// Above this many samples a second a processor is disturbed. The value is Linux perf's default
/// limit.
pub const RATE_MAX: u64 = 4_000;
/// Fewer samples than this say little.
pub const SAMPLES: u64 = 10_000;

/// How many samples are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// At most this many a second on each processor, of all sources together.
    pub rate: u64,
    /// About this many in total, of all sources and processors together, where that matters.
    pub samples: Option<u64>,
}

impl Default for Aim {
    fn default() -> Self {
        Self {
            rate: RATE,
            samples: Some(SAMPLES),
        }
    }
}

impl Aim {
    /// The period for one of `together` sources that run at once, out of `all` sources, in a
    /// measurement of `elapsed_ns` in which each processor counts the given events; `None` if there
    /// were no events. The busiest processor stays within the rate.
    #[must_use]
    pub fn period(
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
#[must_use]
pub fn period(events: u128, samples: u64) -> Option<u64> {
    let samples = u128::from(samples.max(1));
    let shorter = events / samples;
    let period = match events.checked_div(shorter) {
        Some(given) if given <= samples => shorter,
        _ => events.div_ceil(samples),
    };
    let period = u64::try_from(period).unwrap_or(u64::MAX);
    (period != 0).then_some(period)
}

/// How many samples a period gives if each processor counts the given number of events.
#[must_use]
pub fn samples(events: impl IntoIterator<Item = u128>, period: u64) -> u128 {
    let each = events.into_iter();
    each.map(|events| events.checked_div(period.into()).unwrap_or(0))
        .fold(0, u128::saturating_add)
}

/// Whether two periods give nearly the same number of samples: within a tenth.
#[must_use]
pub const fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one / 10
}

/// The error of a share, in percent of all samples, that 95 of 100 measurements stay within. It is
/// that of a share of one half, which is the largest. `None` without samples.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "an error needs few digits")]
pub fn share_error(samples: u64) -> Option<f64> {
    (samples != 0).then(|| 1.959_963_985 * 50.0 / (samples as f64).sqrt())
}

/// What to do differently next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// There are too many samples a second.
    TooMany {
        /// Samples a second on the busiest processor.
        rate: u64,
    },
    /// There are too few samples in total.
    TooFew {
        /// Samples in total.
        samples: u64,
        /// How many seconds would give enough, at this rate or at [`RATE`].
        seconds: u64,
    },
}

impl Advice {
    /// The advice on `samples` samples in `elapsed_ns` nanoseconds, `busiest` of them on the
    /// processor that had most.
    #[must_use]
    pub fn on(samples: u64, busiest: u64, elapsed_ns: u64) -> Vec<Self> {
        let a_second = |samples: u64| {
            let rate = (u128::from(samples) * 1_000_000_000).div_ceil(elapsed_ns.max(1).into());
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let rate = a_second(busiest);
        let too_many = (rate > RATE_MAX).then_some(Self::TooMany { rate });
        let too_few = (samples < SAMPLES).then(|| {
            let rate = a_second(samples).min(if too_many.is_some() { RATE } else { u64::MAX });
            Self::TooFew {
                samples,
                seconds: SAMPLES.div_ceil(rate.max(1)),
            }
        });
        too_many.into_iter().chain(too_few).collect()
    }

    /// The stable name that programs may compare.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooMany { .. } => "too-many-samples",
            Self::TooFew { .. } => "too-few-samples",
        }
    }
}

impl std::fmt::Display for Advice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany { rate } => write!(
                f,
                "{} samples a second on one processor are more than {}: interrupts disturb what is measured; \
                 use longer periods, or --calibrate",
                thousands(*rate),
                thousands(RATE_MAX)
            ),
            Self::TooFew { samples: 0, .. } => f.write_str(
                "no samples: use shorter periods, measure for longer, or use --calibrate",
            ),
            Self::TooFew { samples, seconds } => write!(
                f,
                "{} samples are fewer than {}: a share of them is off by up to {:.1} % (95 %); \
                 measure for about {seconds} s",
                thousands(*samples),
                thousands(SAMPLES),
                share_error(*samples).unwrap_or(100.0)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: u128 = 1_000_000_000_000;

    #[test]
    fn the_aim_is_kept_by_the_rate_and_by_the_sum() {
        let aim = Aim::default();
        let second = 1_000_000_000;
        for (seconds, together, all, expected) in [
            (5, 1, 1, 5_000),
            (20, 1, 1, 10_000),
            (20, 2, 2, 5_000),
            (20, 2, 4, 2_500),
            (1, 2, 4, 500),
            (0, 1, 1, 1),
        ] {
            let period = aim.period(&[EVENTS], seconds * second, together, all);
            let expected = u64::try_from(EVENTS / expected).ok();
            assert_eq!(period, expected, "{seconds} s, {together} of {all}");
        }
        let rate = Aim {
            rate: 100,
            samples: None,
        };
        assert_eq!(
            rate.period(&[EVENTS], 1000 * second, 1, 1),
            Some(10_000_000)
        );
        assert_eq!(aim.period(&[0, 0], second, 1, 1), None);
    }

    /// The rate is for each processor: sixty-four busy ones have as many samples each as a single
    /// one.
    #[test]
    fn a_rate_is_each_processors() {
        let rate = Aim {
            rate: 1000,
            samples: None,
        };
        let second = 1_000_000_000;
        let one = rate.period(&[3_000_000_000], second, 1, 1);
        assert_eq!(one, Some(3_000_000));
        assert_eq!(rate.period(&[3_000_000_000; 64], second, 1, 1), one);
        assert_eq!(rate.period(&[3_000_000_000, 5, 0], second, 1, 1), one);
        // The total that is wanted is that of all processors together.
        let aim = Aim::default();
        let all = aim.period(&[3_000_000_000; 64], second, 1, 1);
        assert_eq!(all, Some(19_200_000));
    }

    #[test]
    fn no_period_gives_more_samples_than_wanted() {
        for events in [1u128, 999, 1000, 1001, 123_456_789, 1 << 62] {
            for wanted in [1, 7, 10_000] {
                let period = period(events, wanted).expect("a period");
                let got = samples([events], period);
                assert!(got <= wanted.into(), "{events} / {wanted}: {got}");
            }
        }
        assert_eq!(period(19, 10), Some(2), "1 would give 19");
        assert_eq!(period(2_000_000_000, 198), Some(10_101_010));
        assert_eq!(period(0, 10), None);
        assert_eq!(
            samples([10, 9, 20], 10),
            3,
            "each processor counts by itself"
        );
    }

    #[test]
    fn advice_is_by_rate_and_by_number() {
        let codes = |samples, busiest, seconds: u64| {
            let advice = Advice::on(samples, busiest, seconds * 1_000_000_000);
            let codes = advice.iter().map(Advice::code);
            codes.collect::<Vec<_>>()
        };
        assert!(codes(10_000, 10_000, 10).is_empty());
        assert!(
            codes(640_000, 10_000, 10).is_empty(),
            "sixty-four processors"
        );
        assert_eq!(codes(40_001, 40_001, 10), ["too-many-samples"]);
        assert_eq!(codes(9_999, 9_999, 10), ["too-few-samples"]);
        assert_eq!(
            codes(5_000, 5_000, 1),
            ["too-many-samples", "too-few-samples"]
        );
        assert_eq!(codes(0, 0, 0), ["too-few-samples"]);
        let text = Advice::on(2_500, 2_500, 25_000_000_000)[0].to_string();
        assert!(text.contains("2.0 %") && text.contains("100 s"), "{text}");
    }

    #[test]
    fn the_error_of_a_share_is_the_binomials() {
        let error = share_error(10_000).expect("samples");
        assert!((error - 0.98).abs() < 0.001, "{error}");
        assert_eq!(share_error(0), None);
    }
}
