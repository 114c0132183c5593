//! What a recording's number of samples advises for the next one.

use crate::output::changes;
use crate::output::number::{counted, thousands};
use crate::select::sampling_rate::{RATE, SAMPLES};
use halprof_profile::aggregate::share::Share;
use halprof_profile::aggregate::totals::Totals;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::counts::Changes;
use std::collections::BTreeMap;

/// Above this many samples a second a processor is disturbed. The value is Linux perf's default
/// limit.
const RATE_MAX: u64 = 4_000;

/// What the next recording can do differently.
#[derive(Clone, Copy)]
pub(crate) struct Can {
    /// `--rate` can choose the periods.
    pub(crate) rate: bool,
    /// It can last longer.
    pub(crate) last: bool,
}

// What to do differently next time.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Advice {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Advice {
    /// The code that there are too few samples in total.
    pub(crate) const TOO_FEW: &str = "too-few-samples";
    /// The advice that a period is in step with what it samples.
    pub(crate) const IN_STEP: &str = "in-step";

    /// The advice on the sources whose samples are in step with what they sampled, if any.
    pub(crate) fn in_step(sources: &BTreeMap<String, u64>) -> Option<Self> {
        (!sources.is_empty()).then(|| Self {
            code: Self::IN_STEP,
            message: format!(
                "the exact period of {} is in step with what ran, so shares may be further off \
                 than their bounds; if you leave out the period, each one is drawn at random",
                sources.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
        })
    }

    /// That others have changed counters, if they have.
    pub(crate) fn counters_changed(changes: &Changes) -> Option<Self> {
        changes::message(changes).map(|message| Self { code: changes::CODE, message })
    }

    /// That branch records had been cleared before `interrupts` samples were taken, if any had.
    pub(crate) fn branches_cleared(interrupts: u64) -> Option<Self> {
        (interrupts != 0).then(|| Self {
            code: "branches-cleared",
            message: format!(
                "the branch records had been cleared before {} (a processor may clear them in a deep \
                 sleep state): the samples there have fewer branches",
                counted(interrupts, "interrupt", "interrupts")
            ),
        })
    }

    /// The same as a warning, which has its code in front.
    pub(crate) fn warning(&self) -> String {
        format!("{}: {}", self.code, self.message)
    }

    /// The advice, if any, on `samples` samples in `elapsed_ns` nanoseconds, `busiest` of them on the
    /// processor that had most.
    pub(crate) fn on(samples: u64, busiest: u64, elapsed_ns: u64, can: Can) -> Option<Self> {
        let or_rate =
            |text: String| if can.rate { format!("{text}, or --rate {RATE}") } else { text };
        let a_second = |samples: u64| {
            let rate = (u128::from(samples) * 1_000_000_000).div_ceil(elapsed_ns.max(1).into());
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let rate = a_second(busiest);
        let few = samples < SAMPLES;
        if rate > RATE_MAX {
            let seconds = SAMPLES.div_ceil(RATE);
            let longer =
                if few && can.last { format!(" and about {seconds} s") } else { String::new() };
            return Some(Self {
                code: "too-many-samples",
                message: or_rate(format!(
                    "{} samples a second on one processor are more than {}: interrupts disturb what is \
                     measured; use longer periods{longer}",
                    thousands(rate),
                    thousands(RATE_MAX)
                )),
            });
        }
        let message = match samples {
            0 => match can {
                Can { last: false, .. } => or_rate("no samples: use shorter periods".to_owned()),
                Can { rate: true, .. } => {
                    or_rate("no samples: use shorter periods, measure for longer".to_owned())
                }
                Can { .. } => "no samples: use shorter periods, or measure for longer".to_owned(),
            },
            samples => {
                let longer = SAMPLES.div_ceil(a_second(samples).max(1));
                let longer = format!("; measure for about {longer} s");
                format!(
                    "{} samples are fewer than {}: a share of 10 % is accurate to ±{:.1} points{}",
                    thousands(samples),
                    thousands(SAMPLES),
                    Share::of_a_tenth(Totals::alike(samples, 1)).bound() * 100.0,
                    if can.last { &longer } else { "" }
                )
            }
        };
        few.then_some(Self { code: Self::TOO_FEW, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_by_rate_and_by_number() {
        let codes = |samples, busiest, seconds: u64| {
            let can = Can { rate: true, last: true };
            let advice = Advice::on(samples, busiest, seconds * 1_000_000_000, can);
            advice.map(|advice| advice.code)
        };
        assert_eq!(codes(10_000, 10_000, 10), None);
        assert_eq!(codes(640_000, 10_000, 10), None, "sixty-four processors");
        assert_eq!(codes(40_001, 40_001, 10), Some("too-many-samples"));
        assert_eq!(codes(9_999, 9_999, 10), Some("too-few-samples"));
        assert_eq!(codes(5_000, 5_000, 1), Some("too-many-samples"));
        assert_eq!(codes(0, 0, 0), Some("too-few-samples"));
        let said = |samples, seconds: u64, last| {
            let can = Can { rate: false, last };
            let advice = Advice::on(samples, samples, seconds * 1_000_000_000, can);
            advice.expect("advice").message
        };
        let text = |samples, seconds| said(samples, seconds, true);
        // As `report` says it: Wilson's interval for 250 of 2,500.
        let few = text(2_500, 25);
        assert!(few.contains("±1.2 points") && few.contains("100 s"), "{few}");
        let both = text(5_000, 1);
        assert!(both.ends_with("longer periods and about 10 s"), "{both}");
        // A workload whose amounts are given has its length.
        assert!(said(2_500, 25, false).ends_with("±1.2 points"));
        assert!(said(5_000, 1, false).ends_with("longer periods"));
        assert!(!said(0, 1, false).contains("longer"));
    }
}
