//! The text of counts by a trace.

use super::by_process::ROWS;
use super::result::{StatResult, Switched};
use crate::output::escape::Escaped;
use crate::output::number::{optional, percent, seconds, thousands};
use crate::output::table::{Column, Width, table};
use crate::select::filters::process_name;

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
    let threads = result.rows.by_thread.iter().map(|row| {
        let thread = (Some(row.thread), row.core_type);
        cells((row.id, row.process.as_deref()), thread, (row.value, &row.source), &row.switched)
    });
    let processes = result.rows.by_process.iter().filter_map(|row| {
        let switched = row.switched.as_ref()?;
        Some(cells(
            (row.id, row.process.as_deref()),
            (None, None),
            (row.value, &row.source),
            switched,
        ))
    });
    let (threads, processes): (Vec<_>, Vec<_>) = (threads.collect(), processes.collect());
    let mut text = lines("threads", &threads, width) + &lines("processes", &processes, width);
    if threads.iter().chain(&processes).any(|(switched, _)| !switched.complete) {
        let cut = "\n≥: without what was cut off by the ends of the trace, lost, or not counted\n";
        text += &width.fitted(cut);
    }
    text
}

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
type Line<'a> = (&'a Switched, [String; COLUMNS.len()]);

/// Only the first line of a thread or a process has what is the same in all.
fn cells<'a>(
    (id, process): (Option<u32>, Option<&str>),
    (thread, core_type): (Option<u32>, Option<&str>),
    (value, source): (u128, &str),
    switched: &'a Switched,
) -> Line<'a> {
    let once = |cell: String| if switched.is_first { cell } else { String::new() };
    let least = if switched.complete { "" } else { "≥ " };
    let metrics = switched.metrics.iter().map(|row| format!("{} {}", row.metric, row.figure()));
    let cells = [
        once(optional(id)),
        once(optional(thread)),
        once(process_name(process)),
        optional(core_type),
        once(seconds(switched.time_ns)),
        once(percent(switched.time_share)),
        once(thousands(switched.switches)),
        format!("{least}{}", thousands(value)),
        source.to_owned(),
        once(metrics.collect::<Vec<_>>().join(", ")),
    ];
    (switched, cells)
}

/// The lines of the first threads or processes, and how many others there are.
fn lines(what: &str, lines: &[Line<'_>], width: Width) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut firsts = lines.iter().enumerate().filter(|(_, (switched, _))| switched.is_first);
    let end = firsts.nth(ROWS).map_or(lines.len(), |(index, _)| index);
    let (listed, others) = lines.split_at(end);
    let mut text =
        format!("\n{}", table(width, &COLUMNS, listed.iter().map(|(_, cells)| cells.clone())));
    let others = others.iter().filter(|(switched, _)| switched.is_first);
    let shares: Vec<f64> = others.map(|(switched, _)| switched.time_share).collect();
    if !shares.is_empty() {
        let (n, share) = (thousands(shares.len() as u64), percent(shares.iter().sum()));
        text += &format!("{n} other {what}: {share} of the time; `--json` and `--csv` have all\n");
    }
    text
}
