//! How a value compares with an earlier one: their ratio with its bound, and the verdict.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// What can be said of a value beside an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The value is larger than the earlier one: the bound of the ratio does not reach 1.
    More,
    /// The value is smaller than the earlier one: the bound of the ratio does not reach 1.
    Fewer,
    /// It differs by less than 5 %, bound included, or not at all.
    Same,
    /// The bound of the ratio reaches 1 and is too wide for [`Self::Same`], or is not known.
    Unclear,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::More => "more",
            Self::Fewer => "fewer",
            Self::Same => "same",
            Self::Unclear => "unclear",
        })
    }
}

/// Values that differ by no more than this fraction are the same.
pub const SAME_WITHIN: f64 = 0.05;

/// A value with half of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounded {
    /// The value, in any unit.
    pub value: f64,
    /// The bound in the same unit; 0 for an exact value, `None` if it is not known.
    pub bound: Option<f64>,
}

/// A value beside an earlier one, as results show it.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Comparison {
    /// The later value divided by the earlier one; null if that is not above 0.
    pub ratio: Option<f64>,
    /// Half of the 95 % interval of the ratio, of this value alone; null if it is not known.
    pub error: Option<f64>,
    /// Whether the interval reaches 1.
    pub verdict: Verdict,
}

impl Comparison {
    /// Compares independent values. The bound of the ratio is that of the first terms of its series,
    /// and no less than what makes the values themselves differ by more than their bounds: so it
    /// reaches 1 if either of the two may be chance.
    #[must_use]
    pub fn new(before: Bounded, after: Bounded) -> Self {
        let scale = ratio(before.value, after.value).unwrap_or(1.0).max(1.0);
        let bounds = before.bound.zip(after.bound);
        let bound = bounds.map(|(before, after)| (scale * before).hypot(after));
        Self::of_change(before.value, after.value, bound)
    }

    /// Compares values whose difference has this bound; `None` if it is not known.
    #[must_use]
    pub fn of_change(before: f64, after: f64, bound: Option<f64>) -> Self {
        let ratio = ratio(before, after);
        let error = ratio.and(bound).map(|bound| bound / before);
        let change = after - before;
        let verdict = match bound {
            Some(bound) if change > bound => Verdict::More,
            Some(bound) if -change > bound => Verdict::Fewer,
            Some(bound) if change.abs() + bound <= SAME_WITHIN * before.abs() => Verdict::Same,
            _ => Verdict::Unclear,
        };
        Self { ratio, error: error.filter(|error| error.is_finite()), verdict }
    }
}

/// `None` unless the earlier value is above 0.
fn ratio(before: f64, after: f64) -> Option<f64> {
    Some(after / before).filter(|ratio| before > 0.0 && ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(value: f64, bound: impl Into<Option<f64>>) -> Bounded {
        Bounded { value, bound: bound.into() }
    }

    #[test]
    fn the_verdict_is_by_the_bound_of_the_ratio() {
        use Verdict::{Fewer, More, Same, Unclear};
        for (before, after, ratio, error, verdict) in [
            // Exact values: any difference is one.
            (bounded(1000.0, 0.0), bounded(1000.0, 0.0), Some(1.0), Some(0.0), Same),
            (bounded(1000.0, 0.0), bounded(1001.0, 0.0), Some(1.001), Some(0.0), More),
            (bounded(1000.0, 0.0), bounded(999.0, 0.0), Some(0.999), Some(0.0), Fewer),
            // 3 and 4 percent are 5 together.
            (bounded(100.0, 3.0), bounded(100.0, 4.0), Some(1.0), Some(0.05), Same),
            (bounded(100.0, 3.0), bounded(101.0, 4.0), Some(1.01), Some(0.0502), Unclear),
            (bounded(100.0, 3.0), bounded(94.0, 4.0), Some(0.94), Some(0.05), Fewer),
            // The bound of what was before counts twice where twice as many are after.
            (bounded(100.0, 30.0), bounded(200.0, 0.0), Some(2.0), Some(0.6), More),
            (bounded(100.0, 60.0), bounded(200.0, 0.0), Some(2.0), Some(1.2), Unclear),
            // A ratio near 0 does not make an earlier value known that is not.
            (bounded(100.0, 90.0), bounded(20.0, 0.0), Some(0.2), Some(0.9), Unclear),
            (bounded(100.0, None), bounded(200.0, 0.0), Some(2.0), None, Unclear),
            (bounded(100.0, None), bounded(100.0, None), Some(1.0), None, Unclear),
            // Nothing before.
            (bounded(0.0, 0.0), bounded(0.0, 0.0), None, None, Same),
            (bounded(0.0, 0.0), bounded(7.0, 0.0), None, None, More),
            (bounded(0.0, 9.0), bounded(7.0, 0.0), None, None, Unclear),
            (bounded(-2.0, 0.0), bounded(-3.0, 0.0), None, None, Fewer),
            (bounded(5e-324, 0.0), bounded(1e308, 0.0), None, None, More),
        ] {
            let found = Comparison::new(before, after);
            let close = |one: Option<f64>, other: Option<f64>| match (one, other) {
                (Some(one), Some(other)) => (one - other).abs() < 1e-4,
                (one, other) => one.is_none() && other.is_none(),
            };
            let as_expected = close(found.ratio, ratio) && close(found.error, error);
            assert!(as_expected && found.verdict == verdict, "{before:?} {after:?}: {found:?}");
        }
    }
}
