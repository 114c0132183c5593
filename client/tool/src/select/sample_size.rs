//! What a recording's number of samples advises for the next one.

use crate::output::number::thousands;
use crate::select::sampling_rate::Aim;
use halprof_profile::views::report::Totals;
use halprof_profile::views::report::share::Share;
use std::fmt;

/// Above this many samples a second a processor is disturbed. The value is Linux perf's default
/// limit.
const RATE_MAX: u64 = 4_000;

/// What to do differently next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// There are too many samples a second.
    TooMany {
        /// Samples a second on the busiest processor.
        rate: u64,
        /// How many seconds would give enough at [`Aim::RATE`], if there are too few in total too.
        seconds: Option<u64>,
    },
    /// There are too few samples in total.
    TooFew {
        /// Samples in total.
        samples: u64,
        /// How many seconds would give enough at this rate.
        seconds: u64,
    },
}

impl Advice {
    /// The advice, if any, on `samples` samples in `elapsed_ns` nanoseconds, `busiest` of them on the
    /// processor that had most.
    pub(crate) fn on(samples: u64, busiest: u64, elapsed_ns: u64) -> Option<Self> {
        let a_second = |samples: u64| {
            let rate = (u128::from(samples) * 1_000_000_000).div_ceil(elapsed_ns.max(1).into());
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let rate = a_second(busiest);
        let few = samples < Aim::SAMPLES;
        if rate > RATE_MAX {
            let seconds = few.then_some(Aim::SAMPLES.div_ceil(Aim::RATE));
            return Some(Self::TooMany { rate, seconds });
        }
        few.then(|| Self::TooFew {
            samples,
            seconds: Aim::SAMPLES.div_ceil(a_second(samples).max(1)),
        })
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
            Self::TooMany { rate, seconds } => {
                write!(
                    f,
                    "{} samples a second on one processor are more than {}: interrupts disturb what is \
                     measured; use longer periods",
                    thousands(*rate),
                    thousands(RATE_MAX)
                )?;
                if let Some(seconds) = seconds {
                    write!(f, " and about {seconds} s")?;
                }
                f.write_str(", or --rate auto")
            }
            Self::TooFew { samples: 0, .. } => f.write_str(
                "no samples: use shorter periods, measure for longer, or use --rate auto",
            ),
            Self::TooFew { samples, seconds } => write!(
                f,
                "{} samples are fewer than {}: a share of 10 % is accurate to ±{:.1} points; measure \
                 for about {seconds} s",
                thousands(*samples),
                thousands(Aim::SAMPLES),
                Share::of_a_tenth(Totals::alike(*samples, 1)).bound() * 100.0
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
            advice.as_ref().map(Advice::code)
        };
        assert_eq!(codes(10_000, 10_000, 10), None);
        assert_eq!(codes(640_000, 10_000, 10), None, "sixty-four processors");
        assert_eq!(codes(40_001, 40_001, 10), Some("too-many-samples"));
        assert_eq!(codes(9_999, 9_999, 10), Some("too-few-samples"));
        assert_eq!(codes(5_000, 5_000, 1), Some("too-many-samples"));
        assert_eq!(codes(0, 0, 0), Some("too-few-samples"));
        let text = |samples, seconds: u64| {
            let advice = Advice::on(samples, samples, seconds * 1_000_000_000);
            advice.expect("advice").to_string()
        };
        // As `report` says it: Wilson's interval for 250 of 2,500.
        let few = text(2_500, 25);
        assert!(few.contains("±1.2 points") && few.contains("100 s"), "{few}");
        let both = text(5_000, 1);
        assert!(both.contains("longer periods and about 10 s"), "{both}");
    }
}
