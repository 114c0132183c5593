//! `report --events`: what kinds of events a trace has.

use crate::cli::args;
use crate::output::error::{Error, Result};
use crate::output::error_codes::INCOMPLETE;
use crate::output::escape::Escaped;
use crate::output::number::{optional, seconds, thousands};
use crate::output::table::{Column, Field, Record, Width, records};
use crate::output::{MachineInfo, Output};
use halprof_profile::file;
use halprof_profile::views::trace_events::{EventRow, TraceEvents};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub(crate) struct TraceEventsResult {
    files: Vec<String>,
    machine: String,
    events: u64,
    /// Events of further kinds than those in `rows`: at most 65,536 are told apart.
    other_events: u64,
    lost_events: u64,
    lost_buffers: u64,
    /// What could not be read.
    damaged: Option<String>,
    warnings: Vec<String>,
    rows: Vec<EventRow>,
}

pub(crate) fn run(options: &args::Report, output: &Output) -> Result<u32> {
    let sessions = file::sessions(&options.files)?;
    let [session] = sessions.as_slice() else {
        return Err(Error::usage(
            "`--events` with traces of several sessions",
            "Show the events of one at a time.",
        ));
    };
    let mut events = TraceEvents::read(session)?;
    output.note_model(&MachineInfo::of_trace(events.is_modelled, &events.system));
    let damaged = (!events.damage.is_empty()).then(|| events.damage.join("; "));
    let warnings = warnings(&events, damaged.as_deref());
    output.warn_all(&warnings);
    events.remarks.iter().for_each(|remark| output.note(remark));
    let status = if damaged.is_some() { INCOMPLETE } else { 0 };
    if !output.is_text() {
        events.rows.truncate(options.rows_requested().unwrap_or(usize::MAX));
    }
    let result = TraceEventsResult {
        files: session.iter().map(|path| path.display().to_string()).collect(),
        machine: events.system,
        events: events.events,
        other_events: events.others,
        lost_events: events.lost_events,
        lost_buffers: events.lost_buffers,
        damaged,
        warnings,
        rows: events.rows,
    };
    let width = if options.verbose { Width::UNLIMITED } else { output.width() };
    output.rows("trace-events", (&result, &result.rows), |result| {
        text(result, options.most_rows(), width)
    })?;
    Ok(status)
}

fn warnings(events: &TraceEvents, damaged: Option<&str>) -> Vec<String> {
    let lost = (events.lost_events + events.lost_buffers != 0).then(|| {
        format!(
            "the session lost {} events, and {} buffers of events",
            thousands(events.lost_events),
            thousands(events.lost_buffers)
        )
    });
    let damaged = damaged.map(|damage| format!("the trace is damaged: {damage}"));
    lost.into_iter().chain(damaged).collect()
}

fn text(result: &TraceEventsResult, most_rows: usize, width: Width) -> String {
    let head = format!("{}: {} events", Escaped(&result.machine), thousands(result.events));
    let shown = &result.rows[..result.rows.len().min(most_rows)];
    let mut text = format!("{}\n\n{}", width.prose(0, &head), records(width, shown));
    if shown.len() < result.rows.len() {
        let rest = result.rows.len() - shown.len();
        text += &format!("{} more kinds; `--rows 0` shows all\n", thousands(rest as u64));
    }
    if result.other_events != 0 {
        text += &format!("{} events of further kinds\n", thousands(result.other_events));
    }
    text
}

impl Record for EventRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("events"), |row| thousands(row.events)),
        Field::new(Column::number("first"), |row| time(row.first_ns)),
        Field::new(Column::number("last"), |row| time(row.last_ns)),
        Field::new(Column::number("type, id"), |row| match (row.opcode, row.id) {
            (Some(opcode), _) => opcode.to_string(),
            (None, id) => optional(id),
        }),
        Field::new(Column::number("version").extra(), |row| optional(row.version)),
        Field::new(Column::word("event"), |row| row.name.clone().unwrap_or_default()),
        Field::new(Column::name("provider"), provider),
    ];
}

/// A time since the trace began. Events that a damaged trace has before it have none.
fn time(ns: i64) -> String {
    u64::try_from(ns).map_or_else(|_| "before".to_owned(), seconds)
}

fn provider(row: &EventRow) -> String {
    match (&row.provider_name, &row.provider, row.group, row.header) {
        (Some(name), ..) => name.clone(),
        (None, Some(guid), ..) => guid.clone(),
        (None, None, Some(group), _) => format!("the kernel's group {group}"),
        (None, None, None, header) => format!("header of type {}", optional(header)),
    }
}
