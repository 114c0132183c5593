//! The tables of threads and processes whose counts are by context switches.

use super::by_process::ROWS;
use super::result::{ProcessRow, StatRows, Switched, ThreadRow};
use crate::output::number::{optional, percent, seconds, thousands};
use crate::output::table::{Column, Width, table};
use crate::select::filters::process_name;

const COLUMNS: [Column; 10] = [
    Column::number("id"),
    Column::number("thread"),
    Column::name("process"),
    Column::word("cores"),
    Column::number("time"),
    Column::number("share"),
    Column::number("switches").extra(),
    Column::number("count"),
    Column::name("source"),
    Column::prose("metrics"),
];

/// The count of one source in a thread or a process.
struct PartRow<'a> {
    id: Option<u32>,
    process: Option<&'a str>,
    thread: Option<u32>,
    core_type: Option<&'static str>,
    source: &'a str,
    value: u128,
    switched: &'a Switched,
}

/// The tables, with the largest threads or processes first.
pub(super) fn text(rows: &StatRows, width: Width) -> String {
    let threads: Vec<PartRow<'_>> = rows.by_thread.iter().map(PartRow::of_thread).collect();
    let processes: Vec<PartRow<'_>> =
        rows.by_process.iter().filter_map(PartRow::of_process).collect();
    let mut text = first("threads", &threads, width) + &first("processes", &processes, width);
    if threads.iter().chain(&processes).any(|row| !row.switched.complete) {
        let cut = "\n≥: at least; part was cut off, lost or not counted\n";
        text += &width.fitted(cut);
    }
    text
}

impl<'a> PartRow<'a> {
    fn of_thread(row: &'a ThreadRow) -> Self {
        Self {
            id: row.id,
            process: row.process.as_deref(),
            thread: Some(row.thread),
            core_type: row.core_type,
            source: &row.source,
            value: row.value,
            switched: &row.switched,
        }
    }

    fn of_process(row: &'a ProcessRow) -> Option<Self> {
        Some(Self {
            id: row.id,
            process: row.process.as_deref(),
            thread: None,
            core_type: None,
            source: &row.source,
            value: row.value,
            switched: row.switched.as_ref()?,
        })
    }

    /// Only the first row of a thread or a process has what is the same in all.
    fn cells(&self) -> [String; COLUMNS.len()] {
        let once = |cell: String| if self.switched.is_first { cell } else { String::new() };
        let least = if self.switched.complete { "" } else { "≥ " };
        let metrics = self.switched.metrics.iter();
        let metrics: Vec<String> =
            metrics.map(|row| format!("{} {}", row.metric, row.figure())).collect();
        [
            once(optional(self.id)),
            once(optional(self.thread)),
            once(process_name(self.process)),
            optional(self.core_type),
            once(seconds(self.switched.time_ns)),
            once(percent(self.switched.time_share)),
            once(thousands(self.switched.switches)),
            format!("{least}{}", thousands(self.value)),
            self.source.to_owned(),
            once(metrics.join(", ")),
        ]
    }
}

/// The rows of the first threads or processes, and how many others there are.
fn first(what: &str, rows: &[PartRow<'_>], width: Width) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut firsts = rows.iter().enumerate().filter(|(_, row)| row.switched.is_first);
    let end = firsts.nth(ROWS).map_or(rows.len(), |(index, _)| index);
    let (listed, others) = rows.split_at(end);
    let mut text = format!("\n{}", table(width, &COLUMNS, listed.iter().map(PartRow::cells)));
    let others = others.iter().filter(|row| row.switched.is_first);
    let shares: Vec<f64> = others.map(|row| row.switched.time_share).collect();
    if !shares.is_empty() {
        let (n, share) = (thousands(shares.len() as u64), percent(shares.iter().sum()));
        text += &format!("{n} other {what}: {share} of the time; `--json` and `--csv` have all\n");
    }
    text
}
