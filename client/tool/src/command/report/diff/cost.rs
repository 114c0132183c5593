//! What a part of the samples stands for in the runs before and after, and how the two compare.

use super::BySource;
use crate::metrics::WorseWhen;
use crate::metrics::sampled::Sampled;
use crate::output::number::{seconds, thousands};
use crate::results::diff::{got_worse, is_worse};
use halprof_measure::float::float;
use halprof_measure::statistics::comparison::{Bounded, Comparison, SAME_WITHIN, Verdict};
use halprof_measure::statistics::proportion::NORMAL_95;
use halprof_measure::statistics::{Summary, deviations, rounded_mean};
use halprof_profile::aggregate::processor_time::UNIT_NS;
use halprof_profile::aggregate::totals::Totals;
use halprof_profile::views::report::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// The probability that a table of equal runs has any row that is called more or fewer. It is divided
/// among the rows by their share of the events, so that a table of many rows is wrong no more often than
/// one of few, and large rows need the least change.
const WRONG: f64 = 0.03;

/// From so many runs on, their own spread is the bound.
pub(super) const RUNS: usize = 3;

/// By how much two runs of one program usually differ, as a fraction. It is the default noise threshold
/// of criterion.rs (0.8), poop and tango, below which these take a difference for none. docs/methods.md
/// has what was measured.
pub(super) const RUNS_DIFFER: f64 = 0.01;

/// The events of a run; of several runs the mean.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub(super) struct Change {
    pub(super) events_before: u64,
    pub(super) events_after: u64,
    /// The processor time of the events; absent if the source does not sample time.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_before: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_after: Option<f64>,
    #[serde(flatten)]
    pub(super) compared: Comparison,
    /// Why the verdict is `unclear` whatever the bound is; null if the bound decides.
    reason: Option<Reason>,
    /// Whether there are more events by more than `--fail-above`, beyond the bound.
    pub(super) failed: bool,
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
enum Reason {
    /// One side is a single run, and the bound of sampling is smaller than what runs usually differ by.
    #[serde(rename = "one run")]
    OneRun,
}

/// One source in the runs of one side.
pub(super) struct Side {
    runs: Vec<Sampled>,
    /// Which part of its samples was lost; `None` if that is not known.
    lost: Option<f64>,
}

impl Side {
    /// A source by its name in each of these runs, which have [`lost`] so many samples.
    pub(super) fn new(runs: &[(&BySource<'_>, &str)], lost: Option<f64>) -> Self {
        let sampled = |(run, name): &(&BySource<'_>, &str)| run.sampled(name);
        Self { runs: runs.iter().map(sampled).collect(), lost }
    }

    /// The runs as one.
    pub(super) fn sum(&self) -> Sampled {
        Sampled::sum(&self.runs)
    }

    /// Exact values, one of each run.
    pub(super) fn exact(values: &[Totals]) -> Self {
        Self { runs: values.iter().copied().map(Sampled::exact).collect(), lost: Some(0.0) }
    }

    /// The bound that sampling alone gives the mean over runs.
    fn by_samples(&self, parts: &[Totals], deviations: f64) -> Option<f64> {
        let mut bounds =
            self.runs.iter().zip(parts).map(|(run, &part)| run.bound(part, deviations));
        let sum = bounds.try_fold(0.0, |sum: f64, bound| Some(sum.hypot(bound?)))?;
        Some(sum / float(parts.len() as u64))
    }

    /// The mean over runs with its bound at a probability: `t` is how many standard errors that is
    /// where runs have a spread.
    fn mean(&self, parts: &[Totals], probability: f64, t: f64) -> Bounded {
        let value = float(rounded_mean(&events(parts)));
        let by_samples = self.by_samples(parts, deviations(probability, f64::INFINITY));
        let bound = match spread(parts) {
            // Runs that are alike by chance are no more accurate than their samples.
            Some((error, _)) => Some((t * error).max(by_samples.unwrap_or(0.0))),
            None => by_samples,
        };
        // As large a part of these may be lost as of all.
        let lost = self.lost.map(|lost| value * lost / (1.0 - lost));
        Bounded { value, bound: bound.zip(lost).map(|(bound, lost)| bound + lost) }
    }
}

/// Which part of the samples of these runs was lost; `None` if that is not known.
pub(super) fn lost(runs: &[Report]) -> Option<f64> {
    let (mut samples, mut lost) = (0_u64, Some(0_u64));
    for Report { recording, .. } in runs {
        samples = samples.saturating_add(recording.samples);
        samples = samples.saturating_add(recording.idle_samples());
        lost = lost.zip(recording.all_lost()).map(|(sum, more)| sum.saturating_add(more));
    }
    lost.map(|lost| float(lost) / float(samples.saturating_add(lost).max(1)))
}

/// The standard error of the mean over runs, and its degrees of freedom.
fn spread(parts: &[Totals]) -> Option<(f64, f64)> {
    let summary = Summary::from_values(&events(parts), false)?;
    let n = float(parts.len() as u64);
    (parts.len() >= RUNS).then(|| (summary.deviation / n.sqrt(), n - 1.0))
}

fn events(parts: &[Totals]) -> Vec<u128> {
    parts.iter().map(|part| part.events.into()).collect()
}

/// The degrees of freedom of the difference of two means (B. L. Welch, The generalization of Student's
/// problem when several different population variances are involved, Biometrika 34, 1947).
fn freedom(sides: [&Side; 2], parts: [&[Totals]; 2]) -> f64 {
    let (mut sum, mut weighted) = (0.0, 0.0);
    for (side, parts) in sides.into_iter().zip(parts) {
        let (error, freedom) = spread(parts).unwrap_or_else(|| {
            let by_samples = side.by_samples(parts, NORMAL_95).unwrap_or(0.0);
            (by_samples / NORMAL_95, f64::INFINITY)
        });
        sum += error.powi(2);
        weighted += error.powi(4) / freedom;
    }
    if weighted > 0.0 { sum.powi(2) / weighted } else { f64::INFINITY }
}

impl Change {
    /// The events of `parts`, one of each run, before and after. `share` is what the row has of all
    /// events.
    pub(super) fn new(sides: [&Side; 2], parts: [&[Totals]; 2], share: f64) -> Self {
        let freedom = freedom(sides, parts);
        let at = |probability: f64| {
            let t = deviations(probability, freedom);
            let ([before, after], [parts_before, parts_after]) = (sides, parts);
            Comparison::new(
                before.mean(parts_before, probability, t),
                after.mean(parts_after, probability, t),
            )
        };
        let (plain, strict) = (at(0.05), at((WRONG * share).max(f64::MIN_POSITIVE)));
        let is_same = plain
            .ratio
            .zip(plain.error)
            .is_some_and(|(ratio, error)| (ratio - 1.0).abs() + error <= SAME_WITHIN);
        let [events_before, events_after] =
            parts.map(|parts| u64::try_from(rounded_mean(&events(parts))).unwrap_or(u64::MAX));
        let is_one_run = parts.iter().any(|parts| parts.len() == 1);
        // All events have no bound of sampling worth the name.
        let is_within_runs = share >= 1.0 || plain.error.is_some_and(|error| error < RUNS_DIFFER);
        let reason = (is_one_run && is_within_runs).then_some(Reason::OneRun);
        let verdict = match strict.verdict {
            _ if reason.is_some() => Verdict::Unclear,
            clear @ (Verdict::More | Verdict::Fewer) => clear,
            _ if is_same => Verdict::Same,
            _ => Verdict::Unclear,
        };
        Self {
            events_before,
            events_after,
            seconds_before: None,
            seconds_after: None,
            compared: Comparison { verdict, ..plain },
            reason,
            failed: false,
        }
    }

    /// Judged by `--fail-above`. The verdict is strict because a table has many rows. What is new has no
    /// ratio and does not fail: the whole has its events too.
    pub(super) fn judged(self, limit: Option<f64>) -> Self {
        let Self { compared, .. } = self;
        let is_clear = compared.verdict == Verdict::More && compared.ratio.is_some();
        let failed =
            limit.is_some_and(|limit| is_clear && is_worse(&compared, WorseWhen::More, limit));
        Self { failed, ..self }
    }

    /// What got worse by more than the limit, and by how much.
    pub(super) fn failure(&self, what: &str, limit: f64) -> String {
        got_worse(what, self.events(), &self.compared, limit)
    }

    /// With the seconds of events that are units of 100 ns.
    pub(super) fn of_time(self) -> Self {
        let seconds = |units: u64| Some(float(units) * float(UNIT_NS) / 1e9);
        Self {
            seconds_before: seconds(self.events_before),
            seconds_after: seconds(self.events_after),
            ..self
        }
    }

    /// So many events, or their time.
    pub(super) fn amount(&self, events: u128) -> String {
        match self.seconds_before {
            Some(_) => seconds(events.saturating_mul(UNIT_NS.into())),
            None => thousands(events),
        }
    }

    /// The events before and after, or their time.
    pub(super) fn events(&self) -> [String; 2] {
        [self.events_before, self.events_after].map(|events| self.amount(events.into()))
    }

    /// How many events more there are after.
    pub(super) fn more(&self) -> i128 {
        i128::from(self.events_after) - i128::from(self.events_before)
    }

    pub(super) fn ratio_with_bound(&self) -> [String; 2] {
        if self.events_before == 0 && self.events_after != 0 {
            return ["new".to_owned(), String::new()];
        }
        ratio_with_bound(self.compared.ratio, self.compared.error)
    }
}

/// A ratio and its bound, in three digits after the point, or fewer if it is large.
pub(super) fn ratio_with_bound(ratio: Option<f64>, error: Option<f64>) -> [String; 2] {
    let digits = if ratio.is_some_and(|ratio| ratio >= 100.0) { 0 } else { 3 };
    let scale = 10_f64.powi(digits);
    // Rounded up, never down.
    let error = error.map(|error| (error * scale).ceil() / scale);
    let digits = digits.unsigned_abs() as usize;
    let number = |value: f64| format!("{value:.digits$}");
    [ratio.map(number), error.map(|error| format!("±{}", number(error)))]
        .map(Option::unwrap_or_default)
}
