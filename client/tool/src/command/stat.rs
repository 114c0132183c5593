//! `halprof stat`: counts events.
//!
//! ```text
//! sessions (measurement)     ─┐
//! a trace made (by_tracing)  ─┼─> Counts ─(evaluate)─> intervals, result ─(interval_writer)─> text,
//! a trace read (from_trace)  ─┘                                                             CSV, JSON
//! ```

mod against;
mod by_process;
mod by_switches;
mod by_tracing;
mod csv;
mod diff;
mod evaluate;
pub(crate) mod from_trace;
mod interval_writer;
mod live_trace;
mod measurement;
mod openmetrics;
mod process_shares;
mod result;
mod text;
mod topdown;

use crate::cli::args::{self, DivideBy};
use crate::metrics::{Metrics, Requested};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::names::abbreviated;
use crate::results::count_row::CountRow;
use crate::results::counts::By;
use crate::results::errata::EventErrata;
use crate::results::view::{CountedEvent, RowBuilder};
use crate::select::event_set::{EventSet, Purpose};
use crate::select::periods;
use crate::select::time::slice_length;
use crate::select::warnings::warnings;
use crate::target::context::Context;
use crate::target::limits;
use against::Pairs;
use evaluate::Evaluation;
use halprof_measure::Failure;
use halprof_profile::file::cannot_count;
use measurement::Measurement;
use result::AgainstResult;
pub(crate) use result::{Interval, Method, StatResult};
use shared_types::request::machine::Processor;
use topdown::TopDown;

pub(crate) fn run(options: &args::Stat, ctx: &mut Context, output: &Output) -> Result<u32> {
    run_by(options, Method::Vendor, ctx, output)
}

/// Counts with another method of top-down analysis than the vendor's formulas, where there are any.
pub(crate) fn run_by(
    options: &args::Stat,
    method: Method,
    ctx: &mut Context,
    output: &Output,
) -> Result<u32> {
    refuse_limits(options, ctx.method)?;
    if let Some(mut tracing) = ctx.tracing.take() {
        return by_tracing::run(options, tracing.as_mut(), ctx, output);
    }
    let slice_100ns = slice_length(options.work.rotate)?;
    let metrics = Metrics::with_file(options.metric_file.as_deref(), ctx.shares_cores())?;
    let requested = metrics.requested(&options.metrics)?;
    let mut event_set = event_set(options, ctx, &metrics, &requested)?.in_slices(slice_100ns);
    let topdown = match options.topdown {
        Some(level) => Some(TopDown::add(&mut event_set, &metrics, level, method, ctx)?),
        None => None,
    };
    let mut warnings = warnings(&options.selection, ctx);
    warnings.extend(event_set.unknown_constraints());
    warnings.extend(partly_counted(&event_set, output, topdown.is_some()));
    output.warn_all(&warnings);
    let sets = event_set.sets(options.passes, false, &mut ctx.connection)?;
    let errata = EventErrata::new(&event_set, &sets, options.by.is_some(), &mut ctx.connection)
        .map_err(|error| event_set.explain(error))?;
    let processors: Vec<Processor> = event_set.selected().copied().collect();
    let by = By::new(&processors, options.per_cpu, options.per_core_type || output.is_text());
    let view = RowBuilder {
        events: CountedEvent::all_of(&event_set),
        processors,
        errata,
        metrics: &metrics,
        requested,
        frequency: ctx.machine.frequency(),
        by,
        trim: options.trim,
    };
    let evaluation = Evaluation { view, topdown };
    let machine = ctx.machine_info.description.clone();
    let mut measurement =
        Measurement::new(options, (&event_set, sets.len()), &evaluation, ctx, output)?;
    let (repeat, is_in_turns) = (options.repeat, measurement.before.is_some());
    let measured = if is_in_turns {
        measurement.pairs(&sets, repeat)
    } else {
        let runs = measurement.runs(&sets, repeat);
        runs.map(|after| Pairs { after, ..Pairs::default() })
    };
    let pairs = measured.map_err(|error| event_set.explain(error))?;
    let runs = &pairs.after;
    let Measurement { runner, before, mut writer, samples, changed, ended, .. } = measurement;
    let ended = ended.map(|error| event_set.explain(error));
    let scope = runner.scope(&event_set);
    let mut result = evaluation.result(runs, machine.clone(), scope.clone());
    result.ended = ended.as_ref().map(Error::failure);
    let mut later: Vec<String> = result.ended.iter().map(ended_early).collect();
    let mut program_status = runner.program_status();
    if let Some(before) = &before {
        let against = AgainstResult::new(options, &evaluation, &pairs, [before, &runner]);
        if pairs.after.len() < repeat as usize {
            later.push(against.incomplete(repeat));
        }
        // Ctrl-C ends a program too.
        match against.failure().filter(|_| !result.interrupted) {
            Some((status, why)) => {
                program_status = status;
                later.push(why);
            }
            None => {
                writer.pairs = against::each(&evaluation, &pairs, (&machine, &scope), output)?;
            }
        }
        result.against = Some(against);
    }
    if let Some(samples) = &samples {
        let rows = runs.iter().flat_map(|run| samples.rows(&evaluation.view, run));
        let mut rows: Vec<_> = rows.collect();
        later.extend(samples.warnings(&rows));
        if let Some(run) = runs.first().filter(|_| !options.process.is_empty()) {
            later.extend(samples.keep_only(&options.process, &mut rows, &evaluation.view, run));
            result.hide_totals();
        }
        result.rows.by_process = rows;
    }
    // A count that is not known for this cause needs no longer measurement.
    if changed.is_empty() {
        later.extend(never_scheduled(&result.rows.counts));
    }
    if output.is_modelled()
        && let Some(note) = not_in_workload(&result.rows.counts)
    {
        output.note(&note);
    }
    later.extend(changed);
    later.extend(of_periods(options.by, &result.periods));
    output.warn_all(&later);
    warnings.extend(later);
    result.warnings = warnings;
    let status = writer.finish(result)?;
    Ok(match (ended, program_status) {
        (Some(error), _) => error.exit_status(),
        // What a program that has failed counted says nothing.
        (None, own) if own != 0 => own,
        (None, _) => status,
    })
}

/// The warning that a request has failed, and the counts are older.
fn ended_early(failure: &Failure) -> String {
    let Failure { message, hint, .. } = failure;
    format!(
        "the measurement ended early: {message}; these are the last counts that were read. {hint}"
    )
}

/// Refuses what the backend cannot do.
fn refuse_limits(options: &args::Stat, method: limits::MeasuredBy) -> Result<()> {
    let by_process = options.by == Some(DivideBy::Process);
    let given = [
        ("--topdown", options.topdown.is_some()),
        ("--against", options.against.is_some()),
        ("--repeat", options.repeat != 1),
        ("--rotate", options.work.rotate.is_some()),
        ("--workload programs", options.work.has_programs()),
        ("--by thread", options.by == Some(DivideBy::Thread)),
        ("--process without --by", !options.process.is_empty() && options.by.is_none()),
        ("--by process with --interval", by_process && options.interval.is_some()),
        ("--by process with --metric", by_process && !options.metrics.is_empty()),
    ];
    limits::refuse(method, "stat", &[&given, &options.selection.limited()[..]].concat())
}

/// Warnings about the periods of the sources that were sampled.
fn of_periods(by: Option<DivideBy>, periods: &[periods::Period]) -> Vec<String> {
    if by.is_some() {
        return periods::notes(periods);
    }
    let time = periods.iter().filter(|period| period.time);
    periods::notes(time).into_iter().chain(periods::unused(periods)).collect()
}

fn event_set(
    options: &args::Stat,
    ctx: &mut Context,
    metrics: &Metrics,
    requested: &[Requested<'_>],
) -> Result<EventSet> {
    let purpose = match options.by {
        Some(_) => Purpose::Divide,
        None if requested.is_empty() && options.topdown.is_none() => Purpose::Count,
        None => Purpose::CountBeside,
    };
    let mut event_set = EventSet::new(&options.selection, ctx, purpose)?;
    event_set.add_metrics(metrics, requested, (!options.passes, 0), ctx)?;
    Ok(event_set)
}

/// Warnings about sources that some of the processors cannot count; text has them below its table.
/// Top-down counts each CPU type by events of its own, which needs no warning.
fn partly_counted(event_set: &EventSet, output: &Output, topdown: bool) -> Vec<String> {
    if output.is_text() {
        return Vec::new();
    }
    let requested = |name: &str| {
        let mut events = event_set.events.iter();
        events.any(|one| one.label == name && one.requested.is_some())
    };
    let excluded = event_set.excluded_cpus().into_iter();
    excluded
        .filter(|(source, _)| !topdown || requested(source))
        .map(|(source, processors)| cannot_count(&source, &processors))
        .collect()
}

/// A remark on sources of which a model's workload has no events.
fn not_in_workload(rows: &[CountRow]) -> Option<String> {
    let is_absent =
        |own: &&[CountRow]| own.iter().all(|row| row.requested.is_some() && row.value == Some(0));
    let by_source = rows.chunk_by(|one, next| one.source == next.source);
    let names: Vec<&str> = by_source.filter(is_absent).map(|own| own[0].source.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the modelled workload has no events of {}; `--workload` takes amounts of the vendor's \
             events by their names: EVENT=N",
            abbreviated(&names)
        )
    })
}

/// Warnings about sources that were never on a counter on some processors: those whose count is
/// taken from the other processors, and those of which nothing is known.
fn never_scheduled(rows: &[CountRow]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (is_known, then) in [
        (true, "these processors are assumed to behave like the others, and the bound is unknown"),
        (false, "their counts are not known"),
    ] {
        let rows = rows.iter().filter(|row| row.never_scheduled_cpus.is_some());
        let rows = rows.filter(|row| row.value.is_some() == is_known);
        let mut names: Vec<&str> = rows.map(|row| row.source.as_str()).collect();
        names.dedup();
        if !names.is_empty() {
            warnings.push(format!(
                "too short to count these on every processor; {then}: {}. Measure for longer, or \
                 count fewer sources at once",
                abbreviated(&names)
            ));
        }
    }
    warnings
}
