//! What a recording's number of samples advises for the next one.

use crate::aim::Aim;
use crate::number::thousands;
use std::fmt;

/// Above this many samples a second a processor is disturbed. The value is Linux perf's default
/// limit.
const RATE_MAX: u64 = 4_000;

/// The error of a share, in percent of all samples, that 95 of 100 measurements stay within. It is
/// that of a share of one half, which is the largest. `None` without samples.
#[expect(clippy::cast_precision_loss, reason = "an error needs few digits")]
fn share_error(samples: u64) -> Option<f64> {
    (samples != 0).then(|| 1.959_963_985 * 50.0 / (samples as f64).sqrt())
}

/// What to do differently next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// There are too many samples a second.
    TooMany {
        /// Samples a second on the busiest processor.
        rate: u64,
    },
    /// There are too few samples in total.
    TooFew {
        /// Samples in total.
        samples: u64,
        /// How many seconds would give enough, at this rate or at [`Aim::RATE`].
        seconds: u64,
    },
}

impl Advice {
    /// The advice on `samples` samples in `elapsed_ns` nanoseconds, `busiest` of them on the
    /// processor that had most.
    pub(crate) fn on(samples: u64, busiest: u64, elapsed_ns: u64) -> Vec<Self> {
        let a_second = |samples: u64| {
            let rate = (u128::from(samples) * 1_000_000_000).div_ceil(elapsed_ns.max(1).into());
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let rate = a_second(busiest);
        let too_many = (rate > RATE_MAX).then_some(Self::TooMany { rate });
        let too_few = (samples < Aim::SAMPLES).then(|| {
            let rate = a_second(samples).min(if too_many.is_some() {
                Aim::RATE
            } else {
                u64::MAX
            });
            Self::TooFew {
                samples,
                seconds: Aim::SAMPLES.div_ceil(rate.max(1)),
            }
        });
        too_many.into_iter().chain(too_few).collect()
    }

    /// The stable name that programs may compare.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::TooMany { .. } => "too-many-samples",
            Self::TooFew { .. } => "too-few-samples",
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
                thousands(Aim::SAMPLES),
                share_error(*samples).unwrap_or(100.0)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
