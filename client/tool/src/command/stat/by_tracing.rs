//! `stat` by Windows' own tracing: a session writes a trace while the program runs, and its context
//! switches are counted by. With `--passes` the program runs again for each session.

use super::from_trace::{self, TraceMeasurement};
use super::interval_writer::owns_output;
use crate::cli::args::{self, Selection};
use crate::metrics::Metrics;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::names::abbreviated;
use crate::results::errata::EventErrata;
use crate::run::interrupt::interrupted;
use crate::run::runner::Runner;
use crate::run::tracing::{self, Traced};
use crate::select::event_set::{EventSet, Purpose};
use crate::select::trace_plan::TraceSources;
use crate::target::context::Context;
use halprof_measure::tracing::analysis::counts::TraceCounts;
use halprof_measure::tracing::session::plan::{TraceEvent, find, sessions};
use halprof_measure::tracing::session::{TraceRequest, Tracing};
use indicatif::ProgressBar;

pub(super) fn run(
    options: &args::Stat,
    tracing: &mut dyn Tracing,
    ctx: &mut Context,
    output: &Output,
) -> Result<u32> {
    let metrics = Metrics::with_file(options.metric_file.as_deref(), ctx.shares_cores())?;
    let requested = from_trace::requested(options, &metrics)?;
    let query = from_trace::query(options)?;
    let event_set = EventSet::new(&Selection::default(), ctx, Purpose::CountBeside)?;
    let mut runner = Runner::new(&options.work, ctx, &event_set, owns_output(options, output))?;
    let offer = TraceSources::of(tracing)?;
    let events = offer.counted(&options.selection).map_err(|error| ctx.without_counters(error))?;
    let may_drop = options.selection.is_default();
    if events.is_empty() {
        return Err(ctx.without_counters(Error::unavailable(
            "Windows' own tracing has no source to count here",
            "`halprof record` samples its timer; `halprof doctor` says what takes the counters.",
        )));
    }
    let progress = output.progress(runner.length_ns());
    let (mut passes, mut warnings) = (Vec::new(), Vec::new());
    warnings.extend(without_cycles(&offer).filter(|_| may_drop));
    for indexes in sessions(&events, offer.counters, options.passes)? {
        let mut counted: Vec<&TraceEvent> = indexes.iter().map(|&index| &events[index]).collect();
        let traced = count(tracing, &mut runner, &mut counted, may_drop, &progress)?;
        // The next session's trace has the same path.
        passes.push(TraceCounts::read(traced.file.path(), &query)?);
        warnings.extend(not_counted(&events[counted.len()..]).filter(|_| may_drop));
        // What the session lost is in its trace.
        warnings.extend(traced.ended_early());
        if interrupted() {
            break;
        }
    }
    progress.finish_and_clear();
    output.warn_all(&warnings);
    let sources = passes.iter().flat_map(|counts| &counts.sources);
    let errata = EventErrata::traced(&event_set, sources, &mut ctx.connection);
    let machine = (event_set.processors(), errata);
    let traces = TraceMeasurement::new(options, &passes, (&metrics, requested), machine, output);
    let traces = traces.requested(&events);
    let description = ctx.machine_info.description.clone();
    let status = traces.show((description, runner.scope(&event_set)), warnings, None)?;
    Ok(if status == 0 { runner.program_status() } else { status })
}

/// Counts in one session. If fewer counters are free, what `may_drop` is counted without its last
/// sources, of which as many are left in `events` as were counted.
fn count(
    tracing: &mut dyn Tracing,
    runner: &mut Runner,
    events: &mut Vec<&TraceEvent>,
    may_drop: bool,
    progress: &ProgressBar,
) -> Result<Traced> {
    loop {
        let counted = events.iter().map(|event| event.source).collect();
        let request = TraceRequest { counted, ..TraceRequest::default() };
        match tracing::trace(tracing, runner, &request, progress) {
            Err(Error::Measure(halprof_measure::Error::NoFreeCounters { .. }))
                if may_drop && events.len() > 1 =>
            {
                events.pop();
            }
            traced => return traced,
        }
    }
}

/// Warning about cycles that are usually counted, and that Windows does not list: on AMD.
fn without_cycles(offer: &TraceSources) -> Option<String> {
    find("cycles", &offer.sources).is_none().then(|| {
        "Windows lists no cycles here, so none are counted; `halprof list --event-format wprp` \
         writes a profile with the vendor's events, which Windows' own tools can count"
            .to_owned()
    })
}

/// Warning about what was left out because counters are in use.
fn not_counted(events: &[TraceEvent]) -> Option<String> {
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} not counted: counters are in use by another program; `halprof doctor` says which",
            abbreviated(&names)
        )
    })
}

#[cfg(test)]
mod tests;
