//! Counts as text.

use super::result::{Interval, Jitter, Row, StatResult, TopDownRow};
use super::{by_process, by_switches, topdown};
use crate::output::changes;
use crate::output::escape::Escaped;
use crate::output::number::{optional, rounded, seconds, thousands};
use crate::output::style::{WARNING, styled};
use crate::output::table::{Column, Layout, Width, records};
use crate::results::count_row::{CountRow, Repeats, relative};
use crate::results::diff;
use crate::results::errata;
use halprof_measure::float::float;
use halprof_profile::file::cannot_count;
use std::collections::BTreeSet;

/// The result; `begun` says that intervals were printed before it.
pub(super) fn result(result: &StatResult, begun: bool, width: Width) -> String {
    let mut text = String::new();
    if begun {
        text += "\ntotal\n";
    }
    if let Some(scope) = scope(result) {
        text += &width.fitted(&format!("{scope}\n\n"));
    }
    if !result.rows.counts.is_empty() {
        text += &records(width, &result.rows.counts);
    }
    if !result.rows.derived.is_empty() {
        text += "\n";
        text += &records(width, &result.rows.derived);
    }
    let parts = match result.trace {
        Some(_) => by_switches::text(&result.rows, width),
        None => by_process::text(&result.rows.by_process, width),
    };
    text += if text.is_empty() { parts.trim_start() } else { &parts };
    text += &topdown::text(&result.rows.topdown, &result.next, width);
    text += &diff::text(&result.earlier, &result.diff, width);
    text += &width.fitted(&remarks(result));
    text + &width.fitted(&ending(result))
}

/// What was counted, in a line.
fn scope(result: &StatResult) -> Option<String> {
    let scope = result.scope.text();
    let Some(trace) = &result.trace else {
        return scope;
    };
    let programs = match trace.processes.as_slice() {
        [] => "all programs".to_owned(),
        processes => format!("process {}", processes.join(", ")),
    };
    let scope = scope.map(|text| format!("; {}", text.replace("all programs", &programs)));
    Some(format!(
        "trace of {}, {} context switches{}",
        Escaped(&result.machine),
        thousands(trace.switches),
        scope.unwrap_or_default()
    ))
}

/// The remarks below the tables: what was left out, differs from the request, or is an outlier.
fn remarks(result: &StatResult) -> String {
    let mut text = String::new();
    let mut noted = BTreeSet::new();
    for note in result.trace.iter().flat_map(|trace| &trace.notes) {
        text += &format!("\n{note}\n");
    }
    if let Some(left) = result.scope.left_running() {
        text += &format!("\n{left}\n");
    }
    for row in result.all_counts() {
        // Top-down counts each CPU type by events of its own.
        let of_topdown = !result.rows.topdown.is_empty() && row.requested.is_none();
        if let Some(processors) = row.excluded_cpus.as_ref().filter(|_| !of_topdown) {
            text += &format!("\n{}\n", cannot_count(&row.source, processors));
        }
        if let Some(note) = row.note.as_ref().filter(|_| noted.insert(&row.source)) {
            text += &format!("\n{} counts {note}\n", row.source);
        }
        if let Some(repeats) = &row.repeats {
            text += &outliers(row, repeats);
        }
    }
    let rows = result.all_counts();
    text += &errata::text(rows.map(|row| (row.source.as_str(), row.errata.as_slice())));
    if result.all_counts().any(|row| row.scaled && row.error.is_none() && row.value.is_some()) {
        text += "\n± unknown: the measurement was too short for enough slices of time on the counters\n";
    }
    for period in result.periods.iter().filter(|period| period.time) {
        let tick = seconds(u128::from(period.used) * 100);
        text += &format!("\n{}: one tick every {tick}\n", period.source);
    }
    if !result.passes.is_empty() {
        text += &format!("\n{} passes, one run each: counts are exact\n", result.passes.len());
    }
    if let Some(jitter) = &result.jitter {
        text += &jittered(jitter);
    }
    text
}

fn outliers(row: &CountRow, repeats: &Repeats) -> String {
    if repeats.outliers.is_empty() {
        return String::new();
    }
    let outliers = repeats.outliers.iter();
    let outliers = outliers.map(|one| format!("{} in run {}", thousands(one.value), one.run));
    let outliers: Vec<String> = outliers.collect();
    format!("\n{}: outliers: {}\n", row.source, outliers.join(", "))
}

fn jittered(jitter: &Jitter) -> String {
    if jitter.intervals == 0 {
        return String::new();
    }
    format!(
        "\n{} interval{} of {}; deviation: mean {}, max {}\n",
        thousands(jitter.intervals),
        if jitter.intervals == 1 { "" } else { "s" },
        milliseconds(jitter.requested_ns),
        milliseconds(jitter.mean_ns),
        milliseconds(jitter.max_ns)
    )
}

fn ending(result: &StatResult) -> String {
    let mut text = format!("\nelapsed {}", seconds(result.elapsed_ns));
    if let Some(repeats) = &result.elapsed_repeats {
        let bound = match repeats.confidence {
            half if half > float(result.elapsed_ns) => {
                format!("≤ {}", seconds(result.elapsed_ns.saturating_add(rounded(half))))
            }
            half => relative(half, result.elapsed_ns),
        };
        text += &format!(" {bound} (mean of {} runs)", repeats.runs);
    }
    let mut warnings = String::new();
    if result.all_counts().any(|row| row.scaled) {
        let changed = result.warnings.iter().any(|warning| warning.starts_with(changes::CODE));
        let why = if changed { "" } else { "sources were multiplexed: " };
        warnings += &format!(", {why}counts are estimates");
    }
    if result.interrupted {
        warnings += ", interrupted";
        if result.elapsed_repeats.is_some() && result.runs.iter().any(|run| run.interrupted) {
            warnings += ": the last run is not in the mean";
        }
    }
    if result.ended.is_some() {
        warnings += ", ended early";
    }
    if !warnings.is_empty() {
        text += &styled(WARNING, &warnings);
    }
    text + "\n"
}

/// The lines of an interval, as it ends. The columns are wide enough for most values, because later
/// ones are not known yet. The first interval has a header, which says which columns there are.
pub(super) fn interval(interval: &Interval, first: bool, metrics: bool, width: Width) -> String {
    let shown = interval.rows.all(metrics).into_iter().filter(|row| is_shown(row, interval));
    let cells = |row| INTERVAL.map(|(.., cell)| cell(interval, &row));
    let rows: Vec<[String; INTERVAL.len()]> = shown.map(cells).collect();
    let is_used = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let used: Vec<usize> = (0..INTERVAL.len()).filter(is_used).collect();
    let names = rows.iter().filter_map(|row| row.last());
    let name_width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    let columns = used.iter().map(|&column| {
        let (column, width, _) = INTERVAL[column];
        (column, width.unwrap_or(name_width))
    });
    let layout = Layout::new(width, &columns.collect::<Vec<_>>());
    let mut text = if first { layout.head() } else { String::new() };
    for row in rows {
        let cells: Vec<String> = used.iter().map(|&column| row[column].clone()).collect();
        text += &layout.line(&cells);
    }
    text
}

fn is_shown(row: &Row<'_>, interval: &Interval) -> bool {
    match row {
        // Events that only top-down needs are not shown: its parts say the same.
        Row::Count(count) => interval.rows.topdown.is_empty() || count.requested.is_some(),
        // Metrics of processes and threads are in the tables at the end: a line of them below each count
        // would be more lines than counts.
        Row::Metric(_, part) => part.is_none(),
        Row::Slots(_) | Row::Part(_) => true,
    }
}

type CellOf = fn(&Interval, &Row<'_>) -> String;

/// The columns of intervals with their widths and cells; that of names is as wide as they are.
const INTERVAL: [(Column<'static>, Option<usize>, CellOf); 12] = [
    (Column::loose("start, s", 10), Some(12), |one, _| format!("{:.6}", in_seconds(one.start_ns))),
    (Column::number("length, s").extra(), Some(10), |one, _| {
        format!("{:.6}", in_seconds(one.length_ns))
    }),
    (Column::loose("run", 3), Some(4), |one, _| optional(one.run)),
    (Column::number("pass"), Some(4), |one, _| optional(one.pass)),
    (Column::number("processor"), Some(9), |_, row| match row {
        Row::Count(count) => optional(count.processor),
        Row::Metric(metric, _) => optional(metric.processor),
        Row::Slots(_) | Row::Part(_) => String::new(),
    }),
    (Column::word("cores"), Some(11), |_, row| match row {
        Row::Count(count) => optional(count.core_type),
        Row::Metric(metric, _) => optional(metric.core_type),
        Row::Slots(_) => String::new(),
        Row::Part(part) => optional(part.thread.as_ref().and_then(|thread| thread.core_type)),
    }),
    (Column::name("process"), Some(24), |_, row| {
        row.part().map_or_else(String::new, by_process::name)
    }),
    (Column::number("thread"), Some(6), |_, row| {
        optional(row.part().and_then(|part| part.thread.as_ref()).map(|thread| thread.id))
    }),
    (Column::loose("count", 13), Some(17), |_, row| match row {
        Row::Count(count) => count.count(),
        Row::Metric(metric, _) => metric.figure(),
        Row::Slots(slots) => slots.share(),
        Row::Part(part) => thousands(part.value),
    }),
    (Column::loose("95 %", 9), Some(10), |_, row| match row {
        Row::Count(count) => count.bound(),
        Row::Metric(metric, _) => metric.bound(),
        Row::Slots(slots) => slots.bound(),
        Row::Part(_) => String::new(),
    }),
    (Column::number("counted").extra(), Some(7), |_, row| match row {
        Row::Count(count) => count.coverage(),
        Row::Metric(..) | Row::Slots(_) | Row::Part(_) => String::new(),
    }),
    (Column::name("source"), None, |one, row| match row {
        Row::Count(count) => count.source.clone(),
        Row::Metric(metric, _) => metric.description(),
        Row::Slots(slots) => slots_name(slots, &one.rows.topdown),
        Row::Part(part) => part.source.clone(),
    }),
];

/// A part of the slots, with the CPU type if there are several.
fn slots_name(slots: &TopDownRow, all: &[TopDownRow]) -> String {
    let several = all.iter().any(|other| other.cpu_type != slots.cpu_type);
    let cpu_type = if several { slots.cpu_type.as_str() } else { "" };
    format!("{} {cpu_type}", slots.indented()).trim_end().to_owned()
}

fn in_seconds(nanoseconds: u64) -> f64 {
    float(nanoseconds) / 1e9
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3} ms", in_seconds(nanoseconds) * 1e3)
}
