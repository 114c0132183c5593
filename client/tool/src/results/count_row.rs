//! A row of the result: what an event counted on a group of processors, over one run or several.

use crate::output::number::{bound, optional, rounded, thousands};
use crate::output::table::{Column, Field, Record};
use crate::results::counts::{Counts, CpuGroup};
use crate::select::time::nanoseconds;
use halprof_measure::errata::Erratum;
use halprof_measure::estimate::Estimate;
use halprof_measure::event_counts::EventCounts;
use halprof_measure::float::float;
use halprof_measure::selection::format_processors;
use halprof_measure::statistics::{Summary, rounded_mean};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// One count.
#[derive(Clone, Default, JsonSchema, Serialize)]
pub(crate) struct CountRow {
    pub(crate) source: String,
    /// As the user named it; null where halprof chose it, by itself or for a metric.
    pub(crate) requested: Option<String>,
    pub(crate) processor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) core_type: Option<&'static str>,
    /// The group it ran in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<u16>,
    /// The pass it was counted in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pass: Option<u32>,
    /// Null if it is not known: it was never on a counter, or was not on some processors and counted
    /// nothing on the others.
    #[schemars(schema_with = "integer_or_null")]
    pub(crate) value: Option<u128>,
    pub(crate) counted: u128,
    pub(crate) enabled_ns: u128,
    pub(crate) running_ns: u128,
    pub(crate) scaled: bool,
    pub(crate) error: Option<f64>,
    /// Standard deviation over repeated measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deviation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repeats: Option<Repeats>,
    /// Processors that cannot count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) excluded_cpus: Option<String>,
    /// Processors that can count it, but on which it was never on a counter: they are taken to be
    /// like the others, and the bound is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) never_scheduled_cpus: Option<String>,
    /// What it counts on this machine, if that is not just what its name says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// The vendor's errata that concern it.
    pub(crate) errata: Vec<Erratum>,
    /// Whether the trace lost part of it, so that it is a lower bound.
    #[serde(skip)]
    pub(crate) is_at_least: bool,
    /// The index of its event in the event set.
    #[serde(skip)]
    pub(crate) event: usize,
    /// The processors whose counts it adds up.
    #[serde(skip)]
    pub(crate) members: Vec<u32>,
}

/// Of any size: validators that read numbers beyond 64 bits as floats take them for integers only
/// where that is the only type.
fn integer_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "integer", "format": "uint128", "minimum": 0},
        {"type": "null"}
    ]})
}

/// Statistics over repeated measurements of a value, which is their mean.
#[derive(Clone, JsonSchema, Serialize)]
pub(crate) struct Repeats {
    /// How many runs the mean is over.
    pub(crate) runs: usize,
    pub(crate) deviation: f64,
    /// Half of the 95 % confidence interval of the mean.
    pub(crate) confidence: f64,
    pub(crate) min: u128,
    pub(crate) median: u128,
    pub(crate) max: u128,
    pub(crate) outliers: Vec<Outlier>,
}

/// A run that is an outlier.
#[derive(Clone, JsonSchema, Serialize)]
pub(crate) struct Outlier {
    /// The number of the run, from 1.
    pub(crate) run: usize,
    pub(crate) value: u128,
}

/// The complete runs, with their numbers; if there is none, the incomplete one.
pub(crate) fn complete(runs: &[Counts]) -> Vec<(usize, &Counts)> {
    let numbered = || (1..).zip(runs);
    let complete: Vec<_> = numbered().filter(|(_, run)| !run.interrupted).collect();
    if complete.is_empty() {
        return numbered().take(1).collect();
    }
    complete
}

/// The time that a run took, and its spread over several.
pub(crate) fn elapsed(runs: &[Counts], trim: bool) -> (u128, Option<Repeats>) {
    let runs = complete(runs);
    let values: Vec<u128> = runs.iter().map(|(_, run)| run.elapsed_ns().into()).collect();
    let numbers: Vec<usize> = runs.iter().map(|(number, _)| *number).collect();
    match Summary::from_values(&values, trim) {
        Some(summary) => (summary.mean, Some(Repeats::new(&summary, &values, &numbers))),
        None => (values.first().copied().unwrap_or(0), None),
    }
}

impl CountRow {
    /// What an event counted on a group of processors, by the counts of each run with its number: of
    /// one run as it is, of several the mean.
    pub(crate) fn new(
        runs: &[(usize, &EventCounts)],
        group: CpuGroup,
        frequency: u64,
        trim: bool,
    ) -> Self {
        let sums: Vec<(usize, Estimate)> =
            runs.iter().map(|&(number, counts)| (number, counts.sum(&group.members))).collect();
        let row = Self::of_runs(&sums, trim);
        let never_scheduled = runs.iter().find_map(|(_, counts)| {
            let processors = format_processors(counts.never_scheduled(&group.members));
            (!processors.is_empty()).then_some(processors)
        });
        Self {
            processor: group.processor,
            core_type: group.core_type,
            pass: runs.first().and_then(|(_, counts)| counts.pass),
            enabled_ns: nanoseconds(row.enabled_ns, frequency),
            running_ns: nanoseconds(row.running_ns, frequency),
            never_scheduled_cpus: never_scheduled,
            members: group.members,
            ..row
        }
    }

    /// The mean over runs, each with its number; times are in ticks.
    fn of_runs(runs: &[(usize, Estimate)], trim: bool) -> Self {
        let known: Vec<_> =
            runs.iter().filter_map(|&(n, sum)| Some((n, sum, sum.value?))).collect();
        let values: Vec<u128> = known.iter().map(|&(.., value)| value).collect();
        let numbers: Vec<usize> = known.iter().map(|&(number, ..)| number).collect();
        let Some(summary) = Summary::from_values(&values, trim) else {
            let only = known.first().map(|&(_, sum, _)| sum);
            return only.or_else(|| Some(runs.first()?.1)).map_or_else(Self::default, Self::of_one);
        };
        let kept = summary.kept.iter().filter_map(|&index| Some(known.get(index)?.1));
        let kept: Vec<Estimate> = kept.collect();
        let mean = |number: fn(&Estimate) -> u128| {
            rounded_mean(&kept.iter().map(number).collect::<Vec<_>>())
        };
        Self {
            value: Some(summary.mean),
            counted: mean(|sum| sum.counted),
            enabled_ns: mean(|sum| sum.enabled),
            running_ns: mean(|sum| sum.running),
            scaled: kept.iter().any(|sum| sum.scaled),
            error: Estimate::error_of_mean(&kept).map(f64::ceil),
            deviation: Some(summary.deviation),
            repeats: Some(Repeats::new(&summary, &values, &numbers)),
            ..Self::default()
        }
    }

    fn of_one(sum: Estimate) -> Self {
        Self {
            value: sum.value,
            counted: sum.counted,
            enabled_ns: sum.enabled,
            running_ns: sum.running,
            scaled: sum.scaled,
            error: sum.error.map(f64::ceil),
            ..Self::default()
        }
    }

    pub(crate) fn count(&self) -> String {
        match self.value {
            Some(value) if self.is_at_least => format!("≥ {}", thousands(value)),
            Some(value) => thousands(value),
            None if self.running_ns != 0 => "unknown".to_owned(),
            None => "not counted".to_owned(),
        }
    }

    pub(crate) fn bound(&self) -> String {
        let Some(value) = self.value else {
            return String::new();
        };
        match (&self.repeats, self.error) {
            // Each run's estimate may be off in the same direction, whatever the spread of the runs.
            (_, None) if self.scaled => UNKNOWN.to_owned(),
            (Some(repeats), error) => relative(repeats.confidence + error.unwrap_or(0.0), value),
            (None, Some(error)) => bound(value, error),
            (None, None) => String::new(),
        }
    }

    /// For which part of the time it was on a counter.
    pub(crate) fn coverage(&self) -> String {
        if !self.scaled {
            return String::new();
        }
        let thousandths = self.running_ns.saturating_mul(1000).checked_div(self.enabled_ns);
        let thousandths = thousandths.unwrap_or(0);
        format!("{}.{} %", thousandths / 10, thousandths % 10)
    }

    fn of_repeats(&self, text: fn(&Repeats) -> String) -> String {
        self.repeats.as_ref().map(text).unwrap_or_default()
    }
}

impl Record for CountRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("processor"), |row| optional(row.processor)),
        Field::new(Column::word("cores"), |row| optional(row.core_type)),
        Field::new(Column::number("count"), |row| match row.repeats {
            None => row.count(),
            Some(_) => String::new(),
        }),
        Field::new(Column::number("mean"), |row| match row.repeats {
            None => String::new(),
            Some(_) => row.count(),
        }),
        Field::new(Column::number("95 %"), Self::bound),
        Field::new(Column::number("counted"), Self::coverage),
        Field::new(Column::name("source"), |row| row.source.clone()),
        Field::new(Column::number("group"), |row| optional(row.group)),
        Field::new(Column::number("pass"), |row| optional(row.pass)),
        Field::new(Column::number("deviation").extra(), |row| {
            row.of_repeats(|repeats| thousands(rounded(repeats.deviation)))
        }),
        Field::new(Column::number("min").extra(), |row| row.of_repeats(|one| thousands(one.min))),
        Field::new(Column::number("median").extra(), |row| {
            row.of_repeats(|one| thousands(one.median))
        }),
        Field::new(Column::number("max").extra(), |row| row.of_repeats(|one| thousands(one.max))),
    ];
}

impl Repeats {
    fn new(summary: &Summary, values: &[u128], numbers: &[usize]) -> Self {
        let outlier = |&index: &usize| {
            let (run, value) = (numbers.get(index)?, values.get(index)?);
            Some(Outlier { run: *run, value: *value })
        };
        Self {
            runs: summary.kept.len(),
            deviation: summary.deviation,
            confidence: summary.confidence,
            min: summary.min,
            median: summary.median,
            max: summary.max,
            outliers: summary.outliers.iter().filter_map(outlier).collect(),
        }
    }
}

/// The bound of an estimate that has too few slices for one.
pub(crate) const UNKNOWN: &str = "± unknown";

/// Half of an interval, as a percentage of its middle if it does not reach below 0.
pub(crate) fn relative(half: f64, middle: u128) -> String {
    if middle == 0 || half > float(middle) {
        return bound(middle, half);
    }
    // Rounded up, never down.
    format!("±{:.2} %", (1e4 * half / float(middle)).ceil() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared_types::request::counts::Count;

    fn run(value: u128, error: Option<f64>) -> Estimate {
        let mut sum = Estimate::new(&Count::default());
        sum.value = Some(value);
        (sum.counted, sum.enabled, sum.running) = (value / 2, value * 2, value);
        (sum.scaled, sum.error) = (error.is_some(), error);
        sum
    }

    /// An outlier is in none of a row's numbers, or in all of them.
    #[test]
    fn all_numbers_of_a_row_are_of_the_same_runs() {
        let values = [100, 102, 98, 100, 102, 98, 5000];
        let runs: Vec<_> = (1..).zip(values.map(|value| run(value, Some(10.0)))).collect();
        for (trim, mean) in [(true, 100), (false, 5600_u128.div_ceil(7))] {
            let row = CountRow::of_runs(&runs, trim);
            let numbers = (row.value, row.counted, row.running_ns, row.enabled_ns);
            assert_eq!(numbers, (Some(mean), mean / 2, mean, 2 * mean), "{trim}");
        }
    }
}
