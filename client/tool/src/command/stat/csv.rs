//! Intervals and the result as comma-separated values: counts, metrics, parts of the slots, and parts
//! of counts that processes and threads have. All of them have the same columns.

use super::result::{Interval, ProcessRow, StatRows, Switched, ThreadRow, TopDownRow};
use crate::metrics::MetricRow;
use crate::output::csv::chosen::{self, Column};
use crate::output::error::Result;
use crate::results::count_row::CountRow;
use crate::results::diff::DiffRow;
use serde::Serialize;

/// The columns, each with the fields of [`Line`] that it has.
const COLUMNS: [Column; 42] = [
    ("time_ns", &["time_ns"]),
    ("source", &["count.source", "process.source", "thread.source"]),
    ("processor", &["count.processor", "metric.processor", "diff.processor"]),
    ("value", &["count.value", "process.value", "thread.value"]),
    ("counted", &["count.counted"]),
    ("enabled_ns", &["count.enabled_ns"]),
    ("running_ns", &["count.running_ns", "process.time_ns", "thread.time_ns"]),
    ("scaled", &["count.scaled", "metric.scaled", "part_scaled"]),
    ("error", &["count.error", "metric.error", "part.error", "process.error"]),
    ("start_ns", &["start_ns"]),
    ("run", &["run"]),
    ("pass", &["pass", "count.pass"]),
    (
        "core_type",
        &["count.core_type", "of_thread.core_type", "metric.core_type", "diff.core_type"],
    ),
    ("group", &["count.group"]),
    ("deviation", &["count.deviation"]),
    ("confidence", &["count.repeats.confidence"]),
    ("min", &["count.repeats.min"]),
    ("median", &["count.repeats.median"]),
    ("max", &["count.repeats.max"]),
    ("outliers", &["count.repeats.outliers.run"]),
    ("metric", &["metric_name", "part.metric", "diff.metric"]),
    ("figure", &["metric.value", "part.value", "diff.after"]),
    ("unit", &["metric.unit", "part_unit", "diff.unit"]),
    ("process", &["of_process.process", "of_thread.process"]),
    ("process_id", &["of_process.id", "nobody", "of_thread.id"]),
    ("requested", &["count.requested"]),
    ("excluded_cpus", &["count.excluded_cpus"]),
    ("note", &["count.note"]),
    ("never_scheduled_cpus", &["count.never_scheduled_cpus"]),
    ("cpu_type", &["part.cpu_type"]),
    ("level", &["part.level"]),
    ("reason", &["metric.reason", "part.reason"]),
    ("thread", &["of_thread.thread"]),
    ("started_ns", &["of_thread.started_ns"]),
    ("switches", &["process.switches", "thread.switches"]),
    ("complete", &["process.complete", "thread.complete"]),
    ("method", &["part.method"]),
    ("errata", &["count.errata.id"]),
    ("before", &["diff.before"]),
    ("ratio", &["diff.ratio"]),
    ("ratio_error", &["diff.error"]),
    ("verdict", &["diff.verdict"]),
];

/// A line: one of the rows, and what it is of.
#[derive(Clone, Copy, Default, Serialize)]
struct Line<'a> {
    time_ns: Option<u64>,
    start_ns: Option<u64>,
    run: Option<u32>,
    pass: Option<u32>,
    count: Option<&'a CountRow>,
    metric: Option<&'a MetricRow>,
    metric_name: Option<MetricName<'a>>,
    part: Option<&'a TopDownRow>,
    part_scaled: Option<bool>,
    part_unit: Option<&'static str>,
    process: Option<&'a ProcessRow>,
    thread: Option<&'a ThreadRow>,
    /// The process whose count or metric it is.
    of_process: Option<&'a ProcessRow>,
    /// Where no process has the count.
    nobody: Option<&'static str>,
    /// The thread whose count or metric it is.
    of_thread: Option<&'a ThreadRow>,
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
    chosen::head(&COLUMNS)
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
    chosen::lines(&COLUMNS, &lines, modelled)
}

/// The rows of an interval, each with its times.
pub(super) fn interval(interval: &Interval, metrics: bool, modelled: bool) -> Result<String> {
    let of_all = Line {
        time_ns: Some(interval.time_ns),
        start_ns: Some(interval.start_ns),
        run: interval.run,
        pass: interval.pass,
        ..Line::default()
    };
    chosen::lines(&COLUMNS, &lines(&interval.rows, metrics, of_all), modelled)
}

fn lines<'a>(rows: &'a StatRows, metrics: bool, of_all: Line<'a>) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    lines.extend(rows.counts.iter().map(|count| Line { count: Some(count), ..of_all }));
    lines.extend(rows.derived.iter().filter(|_| metrics).map(|metric| of_all.metric(metric)));
    lines.extend(rows.topdown.iter().map(|part| of_all.part(part)));
    for process in &rows.by_process {
        let nobody = process.id.is_none().then_some("none");
        let of_process = Line { of_process: Some(process), nobody, ..of_all };
        lines.push(Line { process: Some(process), ..of_process });
        lines.extend(of_process.metrics(process.switched.as_ref().filter(|_| metrics)));
    }
    for thread in &rows.by_thread {
        let of_thread = Line { of_thread: Some(thread), ..of_all };
        lines.push(Line { thread: Some(thread), ..of_thread });
        lines.extend(of_thread.metrics(Some(&thread.switched).filter(|_| metrics)));
    }
    lines
}

impl<'a> Line<'a> {
    fn metric(self, metric: &'a MetricRow) -> Self {
        Self { metric: Some(metric), metric_name: Some(MetricName(metric)), ..self }
    }

    /// The metrics of a thread or a process, after its first count.
    fn metrics(self, switched: Option<&'a Switched>) -> impl Iterator<Item = Self> {
        let first = switched.into_iter().filter(|switched| switched.is_first);
        first.flat_map(|switched| &switched.metrics).map(move |metric| self.metric(metric))
    }

    fn part(self, part: &'a TopDownRow) -> Self {
        let part_scaled = Some(part.error.is_some());
        Self { part: Some(part), part_scaled, part_unit: Some("%"), ..self }
    }
}
