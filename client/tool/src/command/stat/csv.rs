//! Intervals and the result as comma-separated values: counts, metrics, parts of the slots, and parts
//! of counts that processes and threads have. All of them have the same columns.

use super::result::{Interval, PartRow, Row, StatRows, TopDownRow};
use crate::metrics::MetricRow;
use crate::output::csv::columns::{self, Column};
use crate::output::error::Result;
use crate::results::count_row::CountRow;
use crate::results::diff::DiffRow;
use serde::Serialize;

/// The columns, each with the fields of [`Line`] that it has.
const COLUMNS: [Column; 43] = [
    ("time_ns", &["time_ns"]),
    ("source", &["count.source", "part.source"]),
    ("processor", &["count.processor", "metric.processor", "diff.processor"]),
    ("value", &["count.value", "part.value"]),
    ("counted", &["count.counted"]),
    ("enabled_ns", &["count.enabled_ns"]),
    ("running_ns", &["count.running_ns", "part.time_ns"]),
    ("scaled", &["count.scaled", "metric.scaled", "slots_scaled"]),
    ("error", &["count.error", "metric.error", "slots.error", "part.error"]),
    ("start_ns", &["start_ns"]),
    ("run", &["run"]),
    ("pass", &["pass", "count.pass"]),
    ("core_type", &["count.core_type", "of_part.core_type", "metric.core_type", "diff.core_type"]),
    ("group", &["count.group"]),
    ("deviation", &["count.deviation"]),
    ("confidence", &["count.repeats.confidence"]),
    ("min", &["count.repeats.min"]),
    ("median", &["count.repeats.median"]),
    ("max", &["count.repeats.max"]),
    ("outliers", &["count.repeats.outliers.run"]),
    ("metric", &["metric_name", "slots.metric", "diff.metric"]),
    ("figure", &["metric.value", "slots.value", "diff.after"]),
    ("unit", &["metric.unit", "slots_unit", "diff.unit"]),
    ("process", &["of_part.process"]),
    ("process_id", &["of_part.id", "nobody"]),
    ("requested", &["count.requested"]),
    ("excluded_cpus", &["count.excluded_cpus"]),
    ("note", &["count.note"]),
    ("never_scheduled_cpus", &["count.never_scheduled_cpus"]),
    ("cpu_type", &["slots.cpu_type"]),
    ("level", &["slots.level"]),
    ("reason", &["metric.reason", "slots.reason"]),
    ("thread", &["of_part.thread"]),
    ("started_ns", &["of_part.started_ns"]),
    ("switches", &["part.switches"]),
    ("complete", &["part.complete"]),
    ("method", &["slots.method"]),
    ("errata", &["count.errata.id"]),
    ("before", &["diff.before"]),
    ("ratio", &["diff.ratio"]),
    ("ratio_error", &["diff.error"]),
    ("verdict", &["diff.verdict"]),
    ("thread_name", &["of_part.thread_name"]),
];

/// A line: a row, when it was counted, and what no field of the row says.
#[derive(Clone, Copy, Default, Serialize)]
struct Line<'a> {
    time_ns: Option<u64>,
    start_ns: Option<u64>,
    run: Option<u32>,
    pass: Option<u32>,
    count: Option<&'a CountRow>,
    metric: Option<&'a MetricRow>,
    metric_name: Option<MetricName<'a>>,
    slots: Option<&'a TopDownRow>,
    slots_scaled: Option<bool>,
    slots_unit: Option<&'static str>,
    part: Option<&'a PartRow>,
    /// The process or the thread whose count or metric it is.
    of_part: Option<&'a PartRow>,
    /// Where no process has the count.
    nobody: Option<&'static str>,
    diff: Option<&'a DiffRow>,
}

/// A metric with its filter.
#[derive(Clone, Copy, Serialize)]
#[serde(into = "String")]
struct MetricName<'a>(&'a MetricRow);

impl From<MetricName<'_>> for String {
    fn from(MetricName(row): MetricName<'_>) -> Self {
        match row.filter {
            "" => row.metric.clone(),
            filter => format!("{}:{filter}", row.metric),
        }
    }
}

/// The names of the columns.
pub(super) fn head() -> Result<String> {
    columns::head(&COLUMNS)
}

/// The rows of a whole measurement; `metrics`: whether those of metrics are among them.
pub(super) fn rows(
    rows: &StatRows,
    diff: &[DiffRow],
    metrics: bool,
    modelled: bool,
) -> Result<String> {
    let mut lines = lines(rows, metrics, Line::default());
    lines.extend(diff.iter().map(|row| Line { diff: Some(row), ..Line::default() }));
    columns::lines(&COLUMNS, &lines, modelled)
}

/// The rows of an interval, each with its times.
pub(super) fn interval(interval: &Interval, metrics: bool, modelled: bool) -> Result<String> {
    let times = Line {
        time_ns: Some(interval.time_ns),
        start_ns: Some(interval.start_ns),
        run: interval.run,
        pass: interval.pass,
        ..Line::default()
    };
    columns::lines(&COLUMNS, &lines(&interval.rows, metrics, times), modelled)
}

fn lines<'a>(rows: &'a StatRows, metrics: bool, times: Line<'a>) -> Vec<Line<'a>> {
    rows.all(metrics).into_iter().map(|row| times.with(row)).collect()
}

impl<'a> Line<'a> {
    fn with(self, row: Row<'a>) -> Self {
        let part = row.part();
        let is_nobodys = part.is_some_and(|part| part.id.is_none() && part.thread.is_none());
        let line = Self { of_part: part, nobody: is_nobodys.then_some("none"), ..self };
        match row {
            Row::Count(count) => Self { count: Some(count), ..line },
            Row::Metric(metric, _) => {
                Self { metric: Some(metric), metric_name: Some(MetricName(metric)), ..line }
            }
            Row::Slots(slots) => Self {
                slots: Some(slots),
                slots_scaled: Some(slots.error.is_some()),
                slots_unit: Some("%"),
                ..line
            },
            Row::Part(part) => Self { part: Some(part), ..line },
        }
    }
}
