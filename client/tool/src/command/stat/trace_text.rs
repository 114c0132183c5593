//! The text of counts by a trace.

use super::by_process::ROWS;
use super::result::{ProcessRow, StatResult, Switched, ThreadRow};
use crate::output::escape::Escaped;
use crate::output::number::{optional, percent, seconds, thousands};
use crate::output::table::{Column, Field, Record, Width, records, records_in};

/// What a result of a trace is of, in a line.
pub(super) fn scope(result: &StatResult) -> Option<String> {
    let trace = result.trace.as_ref()?;
    let processors = result.scope.text().map(|text| match trace.processes.as_slice() {
        [] => format!("; {text}"),
        processes => {
            format!(
                "; {}",
                text.replace("all programs", &format!("process {}", processes.join(", ")))
            )
        }
    });
    let (switches, processors) = (thousands(trace.switches), processors.unwrap_or_default());
    Some(format!("trace of {}, {switches} context switches{processors}", Escaped(&result.machine)))
}

/// The tables of threads and processes, the largest first.
pub(super) fn text(result: &StatResult, width: Width) -> String {
    let mut text = String::new();
    let threads = &result.rows.by_thread;
    if !threads.is_empty() {
        let (shown, rest) = threads.split_at(shown(threads.iter().map(|row| &row.switched)));
        text += &format!("\n{}", records(width, shown));
        text += &more("threads", rest.iter().map(|row| &row.switched));
    }
    let processes = &result.rows.by_process;
    if !processes.is_empty() {
        let switched = |row: &'_ ProcessRow| row.switched.clone();
        let all: Vec<Switched> = processes.iter().filter_map(switched).collect();
        let (shown, rest) = processes.split_at(shown(all.iter()));
        text += &format!("\n{}", records_in(width, PROCESS_COLUMNS, shown));
        text += &more("processes", all[all.len() - rest.len()..].iter());
    }
    let mut all = threads
        .iter()
        .map(|row| &row.switched)
        .chain(processes.iter().filter_map(|row| row.switched.as_ref()));
    if all.any(|one| !one.complete) {
        let cut = "\n≥: without what was cut off by the ends of the trace, lost, or not counted\n";
        text += &width.fitted(cut);
    }
    text
}

/// How many rows are of the first threads or processes.
fn shown<'a>(mut rows: impl ExactSizeIterator<Item = &'a Switched>) -> usize {
    let all = rows.len();
    let mut firsts = rows.by_ref().enumerate().filter(|(_, one)| one.is_first);
    firsts.nth(ROWS).map_or(all, |(index, _)| index)
}

fn more<'a>(what: &str, rest: impl Iterator<Item = &'a Switched>) -> String {
    let rest: Vec<&Switched> = rest.filter(|one| one.is_first).collect();
    if rest.is_empty() {
        return String::new();
    }
    let share = rest.iter().map(|one| one.time_share).sum();
    let (n, share) = (thousands(rest.len() as u64), percent(share));
    format!("{n} other {what}: {share} of the time; `--json` and `--csv` have all\n")
}

impl Switched {
    /// A cell that only the first row of a thread or process has.
    fn once(&self, cell: impl Into<String>) -> String {
        if self.is_first { cell.into() } else { String::new() }
    }

    fn time(&self) -> String {
        self.once(seconds(self.time_ns))
    }

    fn share(&self) -> String {
        self.once(percent(self.time_share))
    }

    fn often(&self) -> String {
        self.once(thousands(self.switches))
    }

    fn count(&self, value: u128) -> String {
        let least = if self.complete { "" } else { "≥ " };
        format!("{least}{}", thousands(value))
    }

    fn metrics(&self) -> String {
        let metrics = self.metrics.iter().map(|row| format!("{} {}", row.metric, row.figure()));
        self.once(metrics.collect::<Vec<_>>().join(", "))
    }
}

impl Record for ThreadRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("id"), |row| row.switched.once(optional(row.id))),
        Field::new(Column::number("thread"), |row| row.switched.once(row.thread.to_string())),
        Field::new(Column::name("process"), |row| {
            row.switched.once(process_name(row.process.as_deref()))
        }),
        Field::new(Column::word("cores"), |row| optional(row.core_type)),
        Field::new(Column::number("time"), |row| row.switched.time()),
        Field::new(Column::number("share"), |row| row.switched.share()),
        Field::new(Column::number("switches").extra(), |row| row.switched.often()),
        Field::new(Column::number("count"), |row| row.switched.count(row.value)),
        Field::new(Column::name("source"), |row| row.source.clone()),
        Field::new(Column::prose("metrics"), |row| row.switched.metrics()),
    ];
}

pub(crate) fn process_name(name: Option<&str>) -> String {
    name.unwrap_or("unknown").to_owned()
}

/// The columns of processes whose counts are exact.
const PROCESS_COLUMNS: &[Field<ProcessRow>] = &[
    Field::new(Column::number("id"), |row| cell(row, |one| one.once(optional(row.id)))),
    Field::new(Column::name("process"), |row| {
        cell(row, |one| one.once(process_name(row.process.as_deref())))
    }),
    Field::new(Column::number("time"), |row| cell(row, Switched::time)),
    Field::new(Column::number("share"), |row| cell(row, Switched::share)),
    Field::new(Column::number("switches").extra(), |row| cell(row, Switched::often)),
    Field::new(Column::number("count"), |row| cell(row, |one| one.count(row.value))),
    Field::new(Column::name("source"), |row| row.source.clone()),
    Field::new(Column::prose("metrics"), |row| cell(row, Switched::metrics)),
];

fn cell(row: &ProcessRow, text: impl FnOnce(&Switched) -> String) -> String {
    row.switched.as_ref().map(text).unwrap_or_default()
}
