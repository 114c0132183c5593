//! `report --off-cpu`: how long threads waited, and for what; with `--stack` where.

use crate::cli::args::{self, joined};
use crate::output::error::{Error, Result};
use crate::output::error_codes::INCOMPLETE;
use crate::output::escape::Escaped;
use crate::output::names::process_name;
use crate::output::number::{optional, percent, seconds, thousands};
use crate::output::table::{Column, Field, Record, Width, records};
use crate::output::{MachineInfo, Output};
use crate::results::recording_warnings;
use crate::results::sample_rows::absent_fields;
use crate::select::filters::{self, Names};
use halprof_profile::aggregate::key::{Fields, INLINED, Value};
use halprof_profile::file::StackCounts;
use halprof_profile::symbols::qualified;
use halprof_profile::views::off_cpu::{By, EndedBy, EndedByRow, OffCpu, WaitRow, WakerRow};
use halprof_profile::views::report::{Call, CallTree};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct OffCpuResult {
    file: String,
    machine: String,
    elapsed_ns: u64,
    /// Context switches in the trace.
    switches: u64,
    /// The events that say who ended a wait; 0 where the trace has none.
    wakings: u64,
    /// Those that were lost, as far as the others show it.
    lost_switches: u64,
    /// What could not be read of the file.
    damaged: Option<String>,
    warnings: Vec<String>,
    rows: Vec<WaitRow>,
    /// The waits by who ended them, requested with `--by waker`.
    ended_by: Vec<EndedByRow>,
    /// How many of the waits that ended have call stacks; null without `--stack`.
    stacks: Option<StackCounts>,
    /// The call tree of these waits, requested with `--stack`: calls with at least 1 % of their time.
    stack: Vec<WaitCall>,
    /// How many calls have less.
    #[serde(skip)]
    omitted: usize,
}

/// A process, or a function as it was called, with what was waited there.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WaitCall {
    /// 0 for a process; a function is one deeper than what called it.
    depth: u32,
    #[serde(flatten)]
    #[schemars(with = "Fields")]
    value: Value,
    /// Whether the function was inlined into what is above it.
    inlined: bool,
    /// What was waited in its own code.
    self_ns: u64,
    /// The same with all that it called.
    total_ns: u64,
    /// The total as a part of all that was waited, from 0 to 1.
    share: f64,
}

impl From<Call> for WaitCall {
    fn from(call: Call) -> Self {
        let Call { depth, value, inlined, own, total, share, seconds: _ } = call;
        Self { depth, value, inlined, self_ns: own, total_ns: total, share: share.value }
    }
}

pub(crate) fn run(options: &args::Report, output: &Output) -> Result<u32> {
    let [file] = options.files.as_slice() else {
        return Err(Error::usage("`--off-cpu` with several files", "Report on one at a time."));
    };
    let (by, waiting) = by(options)?;
    let mut waits = OffCpu::read(file, waiting.unwrap_or(By::Thread))?;
    output.note_model(&MachineInfo::of_trace(waits.is_modelled, &waits.system));
    let processes = Names::new(&options.filters.process);
    waits.rows.retain(|row| processes.pass_process(row.process.as_deref(), row.id));
    let damaged = (!waits.damage.is_empty()).then(|| waits.damage.join("; "));
    let is_damaged = damaged.as_ref().map(|damage| format!("the trace is damaged: {damage}"));
    waits.warnings.extend(is_damaged);
    if !output.is_text() {
        waits.rows.truncate(options.rows_requested().unwrap_or(usize::MAX));
    }
    output.warn_all(&waits.warnings);
    waits.remarks.iter().for_each(|remark| output.note(remark));
    let passes = |name: Option<&str>, id| processes.pass_process(name, id);
    let ended_by = match by {
        Rows::Wakers => {
            let path = options.naming.path(output)?;
            Some(waits.ended_by(file, waiting, &passes, &path)?)
        }
        Rows::Waits if waits.wakings == 0 && !options.stack => {
            output.note(
                "the trace does not say who ended the waits; `halprof --machine etw record --off-cpu` records it (ReadyThread)",
            );
            None
        }
        Rows::Waits => None,
    };
    let status = if damaged.is_some() { INCOMPLETE } else { 0 };
    let mut result = OffCpuResult {
        file: file.display().to_string(),
        machine: waits.system,
        elapsed_ns: waits.elapsed_ns,
        switches: waits.switches,
        wakings: waits.wakings,
        lost_switches: waits.lost_switches,
        damaged,
        warnings: waits.warnings,
        rows: waits.rows,
        ..OffCpuResult::default()
    };
    let width = if options.verbose { Width::UNLIMITED } else { output.width() };
    if let Some(EndedBy { mut rows, waits, with_stack, symbols }) = ended_by {
        recording_warnings::note_symbols(&symbols, output);
        if !output.is_text() {
            rows.truncate(options.rows_requested().unwrap_or(usize::MAX));
        }
        result.ended_by = rows;
        output.rows("off-cpu", (&result, &result.ended_by), |result| {
            let head = format!(
                "{} who ended them; {} of {} waits have the call stack of who did",
                head(result),
                thousands(with_stack),
                thousands(waits)
            );
            table(&head, &result.ended_by, options.most_rows(), width)
        })?;
        return Ok(status);
    }
    if !options.stack {
        output.rows("off-cpu", (&result, &result.rows), |result| {
            text(result, options.most_rows(), width)
        })?;
        return Ok(status);
    }
    let filter = filters::filter(&options.filters, &options.files)?;
    let report = OffCpu::call_tree(file, filter, &options.naming.path(output)?)?;
    recording_warnings::note_symbols(&report.symbols, output);
    result.stacks = report.recording.stack_counts();
    for tree in &report.call_trees {
        let (calls, omitted) = tree.calls();
        result.stack.extend(calls.into_iter().map(WaitCall::from));
        result.omitted += omitted;
    }
    let absent = absent_fields(&CallTree::KEYS);
    let rows = (&result, &*result.stack);
    output.rows_without(&absent, "off-cpu", rows, |result| tree(result, width))?;
    Ok(status)
}

/// What has rows.
enum Rows {
    /// Who waited.
    Waits,
    /// Who ended the waits.
    Wakers,
}

/// What has rows, and whose waits are told apart.
fn by(options: &args::Report) -> Result<(Rows, Option<By>)> {
    let rows = match joined(&options.by).as_deref() {
        // Each reason has rows of its own, so that naming it changes nothing.
        None | Some("thread" | "thread,reason") => (Rows::Waits, Some(By::Thread)),
        Some("process" | "process,reason") => (Rows::Waits, Some(By::Process)),
        Some("waker") => (Rows::Wakers, None),
        Some("thread,waker" | "waker,thread") => (Rows::Wakers, Some(By::Thread)),
        Some("process,waker" | "waker,process") => (Rows::Wakers, Some(By::Process)),
        Some(keys) => {
            return Err(Error::usage(
                format!("`--off-cpu` by `{keys}`: only threads wait"),
                "`--by thread` has a row for each of them, `--by process` for each process, and \
                 `--by waker` for each function that ended waits.",
            ));
        }
    };
    if options.stack && matches!(rows.0, Rows::Wakers) {
        return Err(Error::usage(
            "`--stack` shows where threads went on, and `--by waker` who ended their waits",
            "Give one of them.",
        ));
    }
    Ok(rows)
}

fn head(result: &OffCpuResult) -> String {
    format!(
        "{}: {} context switches in {}; off the processors, by",
        Escaped(&result.machine),
        thousands(result.switches),
        seconds(result.elapsed_ns)
    )
}

fn text(result: &OffCpuResult, most_rows: usize, width: Width) -> String {
    table(&format!("{} reason", head(result)), &result.rows, most_rows, width)
}

fn table<R: Record>(head: &str, rows: &[R], most_rows: usize, width: Width) -> String {
    let shown = &rows[..rows.len().min(most_rows)];
    let mut text = format!("{}\n\n{}", width.prose(0, head), records(width, shown));
    if shown.len() < rows.len() {
        let rest = rows.len() - shown.len();
        text += &format!("{} more; `--rows 0` shows all\n", thousands(rest as u64));
    }
    text
}

fn tree(result: &OffCpuResult, width: Width) -> String {
    let StackCounts { samples, none, .. } = result.stacks.unwrap_or_default();
    let head = format!(
        "{} where they went on; {} of {} waits have call stacks",
        head(result),
        thousands(samples - none),
        thousands(samples)
    );
    let mut text = format!("{}\n\n{}", width.prose(0, &head), records(width, &result.stack));
    if result.omitted != 0 {
        let omitted = thousands(result.omitted as u64);
        text += &format!("{omitted} calls with less than 1 % of the time\n");
    }
    text
}

impl Record for WaitCall {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("waited"), |call| seconds(call.total_ns)),
        Field::new(Column::number("self"), |call| seconds(call.self_ns)),
        Field::new(Column::number("share"), |call| percent(call.share)),
        Field::new(Column::name("process, function"), |call| {
            let mark = if call.inlined { INLINED } else { "" };
            format!("{}{}{mark}", " ".repeat(call.depth as usize), call.value)
        }),
    ];
}

/// Who ended most waits, each with their number.
fn wakers(wakers: &[WakerRow]) -> String {
    let one = |one: &WakerRow| {
        let who = match (one.dpc, one.thread) {
            (true, _) => "DPC".to_owned(),
            (false, Some(thread)) => format!("{} {thread}", process_name(one.process.as_deref())),
            (false, None) => process_name(one.process.as_deref()),
        };
        format!("{who} ({})", thousands(one.waits))
    };
    wakers.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl Record for EndedByRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("waited"), |row| seconds(row.waited_ns)),
        Field::new(Column::number("of the time").extra(), |row| percent(row.share)),
        Field::new(Column::number("waits"), |row| thousands(row.waits)),
        Field::new(Column::number("longest").extra(), |row| seconds(row.longest_ns)),
        Field::new(Column::number("thread"), |row| optional(row.thread)),
        Field::new(Column::name("process"), |row| {
            if row.thread.or(row.id).is_none() && row.process.is_none() {
                return String::new();
            }
            process_name(row.process.as_deref())
        }),
        Field::new(Column::name("ended by"), |row| {
            let thread = row.waker_thread.filter(|_| !row.dpc);
            thread.map_or_else(
                || "DPC".to_owned(),
                |thread| format!("{} {thread}", process_name(row.waker_process.as_deref())),
            )
        }),
        Field::new(Column::name("in"), |row| match (&row.module, &row.symbol) {
            (Some(module), Some(symbol)) => qualified(module, symbol),
            (Some(module), None) => module.clone(),
            (None, _) => String::new(),
        }),
    ];
}

impl Record for WaitRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("waited"), |row| seconds(row.waited_ns)),
        Field::new(Column::number("of the time"), |row| percent(row.share)),
        Field::new(Column::number("waits"), |row| thousands(row.waits)),
        Field::new(Column::number("longest"), |row| seconds(row.longest_ns)),
        Field::new(Column::number("unfinished").extra(), |row| match row.unfinished_ns {
            0 => String::new(),
            ns => seconds(ns),
        }),
        Field::new(Column::word("reason"), |row| row.reason.clone()),
        Field::new(Column::word("ended by").extra(), |row| wakers(&row.wakers)),
        Field::new(Column::number("id").extra(), |row| optional(row.id)),
        Field::new(Column::number("thread"), |row| optional(row.thread)),
        Field::new(Column::name("name"), |row| optional(row.thread_name.as_deref())),
        Field::new(Column::name("process"), |row| process_name(row.process.as_deref())),
    ];
}
