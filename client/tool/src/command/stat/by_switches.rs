//! The tables of threads and processes whose counts are by context switches.

use super::by_process::ROWS;
use super::result::{PartRow, StatRows, Switched};
use crate::output::names::process_name;
use crate::output::number::{optional, percent, seconds, thousands};
use crate::output::table::{Column, Width, table};

const COLUMNS: [Column; 11] = [
    Column::number("id"),
    Column::number("thread"),
    Column::name("name").extra(),
    Column::name("process"),
    Column::word("cores"),
    Column::number("time"),
    Column::number("share"),
    Column::number("switches").extra(),
    Column::number("count"),
    Column::name("source"),
    Column::prose("metrics"),
];

/// The tables, with the largest threads or processes first.
pub(super) fn text(rows: &StatRows, width: Width) -> String {
    let mut text = first("threads", &rows.by_thread, width);
    text += &first("processes", &rows.by_process, width);
    let mut switched = rows.by_thread.iter().chain(&rows.by_process).flat_map(|row| &row.switched);
    if switched.any(|switched| !switched.complete) {
        let cut = "\n≥: at least; part was cut off, lost or not counted\n";
        text += &width.fitted(cut);
    }
    text
}

/// Only the first row of a thread or a process has what is the same in all.
fn cells(row: &PartRow, switched: &Switched) -> [String; COLUMNS.len()] {
    let once = |cell: String| if switched.is_first { cell } else { String::new() };
    let least = if switched.complete { "" } else { "≥ " };
    let metrics = switched.metrics.iter();
    let metrics: Vec<String> =
        metrics.map(|row| format!("{} {}", row.metric, row.figure())).collect();
    let thread = row.thread.as_ref();
    [
        once(optional(row.id)),
        once(optional(thread.map(|thread| thread.id))),
        once(optional(thread.and_then(|thread| thread.name.as_deref()))),
        once(process_name(row.process.as_deref())),
        optional(thread.and_then(|thread| thread.core_type)),
        once(seconds(switched.time_ns)),
        once(percent(switched.time_share)),
        once(thousands(switched.switches)),
        format!("{least}{}", thousands(row.value)),
        row.source.clone(),
        once(metrics.join(", ")),
    ]
}

/// The rows of the first threads or processes, and how many others there are.
fn first(what: &str, rows: &[PartRow], width: Width) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut firsts = rows.iter().enumerate().filter(|(_, row)| row.is_first());
    let end = firsts.nth(ROWS).map_or(rows.len(), |(index, _)| index);
    let (listed, others) = rows.split_at(end);
    let listed = listed.iter().filter_map(|row| Some(cells(row, row.switched.as_ref()?)));
    let mut text = format!("\n{}", table(width, &COLUMNS, listed));
    let others = others.iter().filter_map(|row| row.switched.as_ref());
    let others = others.filter(|switched| switched.is_first);
    let shares: Vec<f64> = others.map(|switched| switched.time_share).collect();
    if !shares.is_empty() {
        let (n, share) = (thousands(shares.len() as u64), percent(shares.iter().sum()));
        text += &format!("{n} other {what}: {share} of the time; `--json` and `--csv` have all\n");
    }
    text
}
