//! `report --off-cpu`: how long threads waited, and for what.

use crate::cli::args::{self, Filters, joined};
use crate::command::stat::count_row::optional;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::error_codes::INCOMPLETE;
use crate::output::number::{percent, seconds, thousands};
use crate::output::table::{Column, Field, Record, Width, records};
use halprof_profile::aggregate::filter::Pattern;
use halprof_profile::views::off_cpu::{By, OffCpu, WaitRow};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub(crate) struct OffCpuResult {
    file: String,
    machine: String,
    elapsed_ns: u64,
    /// Context switches in the trace.
    switches: u64,
    /// Those that were lost, as far as the others show it.
    lost_switches: u64,
    warnings: Vec<String>,
    rows: Vec<WaitRow>,
}

pub(crate) fn run(options: &args::Report, output: &Output) -> Result<u8> {
    let [file] = options.files.as_slice() else {
        return Err(Error::usage("`--off-cpu` with several files", "Report on one at a time."));
    };
    let by = by(options)?;
    refuse_filters(&options.filters)?;
    let mut waits = OffCpu::read(file, by)?;
    keep_only(&options.filters.process, &mut waits.rows);
    for warning in &waits.warnings {
        output.warn(warning);
    }
    let status = if waits.warnings.is_empty() { 0 } else { INCOMPLETE };
    let result = OffCpuResult {
        file: file.display().to_string(),
        machine: waits.system,
        elapsed_ns: waits.elapsed_ns,
        switches: waits.switches,
        lost_switches: waits.lost_switches,
        warnings: waits.warnings,
        rows: waits.rows,
    };
    output.rows("off-cpu", false, (&result, &result.rows), |result| {
        text(
            result,
            options.most_rows(),
            if options.verbose { Width::WHOLE } else { output.width() },
        )
    })?;
    Ok(status)
}

fn by(options: &args::Report) -> Result<By> {
    match joined(&options.by).as_deref() {
        None | Some("thread") => Ok(By::Thread),
        Some("process") => Ok(By::Process),
        Some(keys) => Err(Error::usage(
            format!("`--off-cpu` by `{keys}`: only threads wait"),
            "`--by thread` has a row for each of them, `--by process` for each process.",
        )),
    }
}

fn refuse_filters(filters: &Filters) -> Result<()> {
    let Filters { source, process: _, module, symbol, processors, time } = filters;
    let given = [
        ("--source", !source.is_empty()),
        ("--module", !module.is_empty()),
        ("--symbol", !symbol.is_empty()),
        ("--cpu", !processors.is_empty()),
        ("--time", time.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Error::usage(
            format!("`{option}` with `--off-cpu`: it chooses samples, and waits have none"),
            "`--pid` chooses whose waits are shown.",
        )),
        None => Ok(()),
    }
}

/// Keeps only the waits of processes with these names or identifiers, if any is given.
fn keep_only(processes: &[String], rows: &mut Vec<WaitRow>) {
    let patterns: Vec<Pattern> = processes.iter().map(|text| Pattern::new(text)).collect();
    rows.retain(|row| {
        let id = row.id.map(|id| id.to_string());
        let names = || [&row.process, &id].into_iter().flatten();
        let matches = |pattern: &Pattern| names().any(|name| pattern.matches(name));
        patterns.is_empty() || patterns.iter().any(matches)
    });
}

fn text(result: &OffCpuResult, most_rows: usize, width: Width) -> String {
    let head = format!(
        "{}: {} context switches in {}; off the processors, by reason",
        result.machine,
        thousands(result.switches),
        seconds(result.elapsed_ns)
    );
    let shown = &result.rows[..result.rows.len().min(most_rows)];
    let mut text = format!("{}\n\n{}", width.prose(0, &head), records(width, shown));
    if shown.len() < result.rows.len() {
        let rest = result.rows.len() - shown.len();
        text += &format!("{} more; `--rows 0` shows all\n", thousands(rest as u64));
    }
    text
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
        Field::new(Column::number("id").extra(), |row| optional(row.id)),
        Field::new(Column::number("thread"), |row| optional(row.thread)),
        Field::new(Column::name("process"), |row| {
            row.process.clone().unwrap_or_else(|| "unknown".to_owned())
        }),
    ];
}
