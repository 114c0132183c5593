//! `stat` by Windows' own tracing: a session writes a trace while the program runs, and counts are by its
//! context switches. With intervals these are delivered while it runs. With `--passes` the program runs
//! again for each session.

use super::from_trace::{self, TraceMeasurement};
use super::interval_writer::{IntervalWriter, owns_output};
use super::live_trace::{self, LiveMeasurement};
use super::openmetrics::{Exposed, Exposition};
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
use crate::select::time;
use crate::select::trace_plan::TraceSources;
use crate::target::context::Context;
use halprof_measure::tracing::analysis::counts::{Query, TraceCounts};
use halprof_measure::tracing::session::plan::{TraceEvent, find, sessions};
use halprof_measure::tracing::session::{TraceRequest, Tracing};
use indicatif::ProgressBar;
use shared_types::request::machine::Processor;

/// The times of counts are in nanoseconds.
const NANOSECONDS: u64 = 1_000_000_000;

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
    let mut warnings: Vec<String> =
        without_cycles(&offer).filter(|_| may_drop).into_iter().collect();
    let errata_of = |events: &[TraceEvent], ctx: &mut Context| {
        EventErrata::traced(&event_set, events.iter().map(|one| &one.name), &mut ctx.connection)
    };
    let processors: Vec<Processor> = event_set.processors().to_vec();
    let mut live = match options.interval.map(time::interval).transpose()? {
        None => None,
        Some(interval_ns) => {
            if !runner.is_modelled() {
                tracing::check_interval(interval_ns, output)?;
            }
            let exposition = match options.openmetrics.clone() {
                Some(path) => {
                    let exposed = exposed(ctx, &processors, &query, &events);
                    Some(Exposition::new(path, exposed, output)?)
                }
                None => None,
            };
            Some(LiveMeasurement {
                options,
                metrics: (&metrics, requested.clone()),
                processors: &processors,
                query: Query { interval_ns: None, ..query.clone() },
                interval_ns,
                output,
                writer: IntervalWriter::new(options, output, Some(interval_ns))?,
                exposition,
            })
        }
    };
    let is_printing = live.as_ref().is_some_and(|live| live.writer.is_live());
    let progress = if is_printing || runner.runs_program() && live.is_some() {
        ProgressBar::hidden()
    } else {
        output.progress(runner.length_ns())
    };
    let mut passes = Vec::new();
    let sets = sessions(&events, offer.counters, options.passes)?;
    for (number, indexes) in (1..).zip(&sets) {
        let mut counted: Vec<&TraceEvent> = indexes.iter().map(|&index| &events[index]).collect();
        let number = (sets.len() > 1).then_some(number);
        let (counts, ended) = match &mut live {
            None => {
                let traced = count(tracing, &mut runner, &mut counted, may_drop, &progress)?;
                // The next session's trace has the same path.
                let counts = TraceCounts::read(traced.file.path(), &query)?;
                // What the session lost is in its trace.
                (counts, traced.ended_early())
            }
            Some(live) => {
                let mut session = |events: &[&TraceEvent]| {
                    let events: Vec<TraceEvent> = events.iter().copied().cloned().collect();
                    let errata = errata_of(&events, ctx);
                    let pass = live_trace::Pass { events: &events, number, errata };
                    live.count(tracing, &mut runner, &pass, &progress)
                };
                let (counts, ended) = fewer(&mut counted, may_drop, &mut session)?;
                (counts, ended.map(|end| format!("measuring ended early: {end}")))
            }
        };
        warnings.extend(not_counted(&events[counted.len()..]).filter(|_| may_drop));
        passes.push(counts);
        warnings.extend(ended);
        if interrupted() {
            break;
        }
    }
    progress.finish_and_clear();
    output.warn_all(&warnings);
    let writer = live.map(|live| live.writer);
    let sources = passes.iter().flat_map(|counts| &counts.sources);
    let errata = EventErrata::traced(&event_set, sources, &mut ctx.connection);
    let machine = (event_set.processors(), errata);
    let traces = TraceMeasurement::new(options, &passes, (&metrics, requested), machine, output);
    let traces = traces.requested(&events);
    let writer = match writer {
        Some(writer) => writer,
        None => IntervalWriter::new(options, output, None)?,
    };
    let description = ctx.machine_info.description.clone();
    let status = traces.show(writer, (description, runner.scope(&event_set)), warnings, None)?;
    Ok(if status == 0 { runner.program_status() } else { status })
}

/// What `--openmetrics` says of a session.
fn exposed(
    ctx: &Context,
    processors: &[Processor],
    query: &Query,
    events: &[TraceEvent],
) -> Exposed {
    let is_counted =
        |one: &&Processor| query.processors.is_empty() || query.processors.contains(&one.index);
    let processors: Vec<Processor> = processors.iter().filter(is_counted).copied().collect();
    let indexes: Vec<u32> = processors.iter().map(|one| one.index).collect();
    Exposed {
        info: ctx.machine_info.clone(),
        interface: "ETW",
        processors,
        sources: events.iter().map(|event| (event.name.clone(), indexes.clone())).collect(),
        frequency: NANOSECONDS,
    }
}

/// Counts in one session that writes a file.
fn count(
    tracing: &mut dyn Tracing,
    runner: &mut Runner,
    events: &mut Vec<&TraceEvent>,
    may_drop: bool,
    progress: &ProgressBar,
) -> Result<Traced> {
    fewer(events, may_drop, &mut |events| {
        let counted = events.iter().map(|event| event.source).collect();
        let request = TraceRequest { counted, ..TraceRequest::default() };
        tracing::trace(tracing, runner, &request, progress)
    })
}

/// Counts in a session. If fewer counters are free, what `may_drop` is counted without its last
/// sources, of which as many are left in `events` as were counted.
fn fewer<T>(
    events: &mut Vec<&TraceEvent>,
    may_drop: bool,
    count: &mut dyn FnMut(&[&TraceEvent]) -> Result<T>,
) -> Result<T> {
    loop {
        match count(events) {
            Err(Error::Measure(halprof_measure::Error::NoFreeCounters { .. }))
                if may_drop && events.len() > 1 =>
            {
                events.pop();
            }
            counted => return counted,
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
