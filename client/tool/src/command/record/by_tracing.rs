//! `record` by a trace: Windows' own tracing samples, and what it wrote becomes a recording.

use super::{BranchRequest, Branched, RecordResult, command, print};
use crate::cli::args::{self, Selection};
use crate::metrics::{Metrics, rows};
use crate::output::error::{Error, Result};
use crate::output::{MachineInfo, Output};
use crate::results::errata;
use crate::results::output_file::OutputFile;
use crate::results::recording::InPass;
use crate::run::interrupt::interrupted;
use crate::run::metric_periods::ChosenBy;
use crate::run::recorder::build;
use crate::run::runner::Runner;
use crate::run::scope::Scope;
use crate::run::system::System;
use crate::run::tracing::{Traced, trace};
use crate::select::event_set::{EventSet, Purpose};
use crate::select::periods::Period;
use crate::select::sample_size::{Advice, Can};
use crate::select::trace_plan::TraceSources;
use crate::target::backend::Backend;
use crate::target::context::Context;
use crate::target::{limits, machine_id, seal_key};
use halprof_measure::Connection;
use halprof_measure::tracing::session::plan::{IntervalFrom, TraceEvent, sampled_by_default};
use halprof_measure::tracing::session::{SampledSource, TIMER, TraceRequest, Tracing};
use halprof_profile::aggregate::in_step::InStep;
use halprof_profile::file::{self, Files, Metadata, Recording};
use std::collections::BTreeMap;
use std::path::Path;

/// The extension of a trace that is kept as Windows wrote it.
const TRACE: &str = "etl";

pub(super) fn run(
    options: &args::Record,
    tracing: &mut dyn Tracing,
    ctx: &mut Context,
    output: &Output,
) -> Result<u32> {
    let processors = options.selection.processors.clone();
    let everything = Selection { processors, ..Selection::default() };
    let event_set = EventSet::new(&everything, ctx, Purpose::CountBeside)?;
    if options.off_cpu && !is_trace(&options.output) {
        return Err(Error::usage(
            "a recording keeps no context switches",
            "Record to a trace: `record --off-cpu -o FILE.etl`, then `report --off-cpu FILE.etl`.",
        ));
    }
    let owns_output = OutputFile::owns_output(&options.output, output);
    let mut runner = Runner::new(&options.work, ctx, &event_set, owns_output)?;
    if let Some(process) = options.process {
        refuse_trace(&options.output)?;
        runner.follow(process)?;
    }
    let offer = TraceSources::of(tracing)?;
    let events = events(options, &offer).map_err(|error| ctx.without_counters(error))?;
    let target = OutputFile::of(&options.output, output)?;
    let progress = output.progress(runner.length_ns());
    let traced = trace(tracing, &mut runner, &request(&events, options)?, &progress);
    progress.finish_and_clear();
    let traced = traced?;
    let periods = periods(&events, &traced, &event_set, &mut ctx.connection);
    let recorded =
        write(&traced, target.path(), &ctx.machine_info, &periods, options, runner.system())?;
    let scope = Scope { process: options.process, ..runner.scope(&event_set) };
    let result = result(periods, &traced, &recorded, options, ctx, scope);
    output.warn_all(&traced.warnings());
    output.warn_all(&without_branches(&result));
    print(result, target, options, output)?;
    Ok(runner.program_status())
}

/// What is sampled, as many sources as there are counters for.
fn events(options: &args::Record, offer: &TraceSources) -> Result<Vec<TraceEvent>> {
    let metrics = Metrics::with_file(options.metric_file.as_deref(), false)?;
    let requested = metrics.requested(&options.metrics)?;
    let mut events = match offer.named(&options.selection)? {
        Some(events) => events,
        None if requested.is_empty() => sampled_by_default(&offer.sources).into_iter().collect(),
        None => Vec::new(),
    };
    for requested in &requested {
        rows::check(requested)?;
        offer.add_metric(&metrics, requested, &mut events)?;
    }
    offer.check_sampled(&events)?;
    Ok(events)
}

fn request(events: &[TraceEvent], options: &args::Record) -> Result<TraceRequest> {
    let sampled = |event: &TraceEvent| SampledSource { id: event.source, interval: event.interval };
    let branches = BranchRequest::of(options)?;
    Ok(TraceRequest {
        sampled: events.iter().map(sampled).collect(),
        stacks: true,
        branches: options.branches.as_ref().map(|_| branches.windows_filter()),
        waits: options.off_cpu,
        methods: !options.no_managed,
        ..TraceRequest::default()
    })
}

/// The periods that Windows sampled with.
fn periods(
    events: &[TraceEvent],
    traced: &Traced,
    event_set: &EventSet,
    connection: &mut Connection<Backend>,
) -> Vec<InPass> {
    let mut periods = Vec::new();
    for event in events {
        let used = traced.sampled.iter().find(|one| one.id == event.source);
        let used = used.map_or(event.interval, |one| one.interval);
        let is_time = event.source == TIMER;
        let requested = event.requested_interval;
        let period = Period::new(&event.name, requested, used.into(), is_time);
        let errata = errata::traced(event_set, event, connection);
        let meaning = event_set.catalog().meaning(&event.name);
        let chosen_by = match event.interval_from {
            IntervalFrom::Clock => Some(ChosenBy::Clock),
            // The user names what has an interval; only metrics need what no user named.
            IntervalFrom::Given => event.requested.is_none().then_some(ChosenBy::Table),
            IntervalFrom::Windows => None,
        };
        periods.push(InPass { period, pass: 0, chosen_by, meaning, errata });
    }
    periods
}

/// Writes the trace as it is, or as a recording; returns what is in it.
fn write(
    traced: &Traced,
    path: &Path,
    machine: &MachineInfo,
    periods: &[InPass],
    options: &args::Record,
    mut system: Box<dyn System>,
) -> Result<Recorded> {
    if is_trace(path) {
        traced.file.copy_to(path)?;
        return read(path);
    }
    let key = seal_key::key();
    let complete = |metadata: &mut Metadata| {
        metadata.modelled = machine.modelled;
        if machine.modelled {
            metadata.machine.clone_from(&machine.description);
        }
        metadata.command = match options.process {
            Some(process) => vec![format!("process {process} alone")],
            None => command(&options.work),
        };
        for source in &mut metadata.sources {
            let mut periods = periods.iter();
            let own = periods.find(|one| one.period.source == source.name);
            if let Some(own) = own {
                source.meaning.clone_from(&own.meaning);
                source.errata.clone_from(&own.errata);
            }
        }
        machine_id::sign(metadata, key.as_deref());
    };
    let files = Files { system: &mut *system, build: &build };
    file::convert(traced.file.path(), path, options.process, complete, Some(files), key.clone())?;
    let recorded = read(path)?;
    match options.process {
        Some(process) if recorded.recording.processes.is_empty() => {
            let hint = "`halprof stat --by process` shows the processes that run.";
            // It says nothing, and the next `report` would read it.
            let _ = std::fs::remove_file(path);
            Err(Error::usage(format!("no process {process} ran while it was recorded"), hint))
        }
        _ => Ok(recorded),
    }
}

fn is_trace(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(TRACE))
}

/// Windows traces every process, whoever is asked for.
fn refuse_trace(output: &Path) -> Result<()> {
    if is_trace(output) {
        return Err(Error::usage(
            "a trace that is kept as Windows wrote it has every process",
            "Record to a file with another extension, or leave out `--process` and give it to `halprof report`.",
        ));
    }
    Ok(())
}

/// What was recorded, and how many samples the processor has that has most.
struct Recorded {
    recording: Recording,
    busiest: u64,
}

/// What is in a recording, and which of its sources are in step with what ran.
fn read(path: &Path) -> Result<Recorded> {
    let mut in_step = InStep::default();
    let mut by_processor: BTreeMap<u32, u64> = BTreeMap::new();
    let mut recording = file::read(path, |samples| {
        in_step.add(samples);
        for sample in samples {
            *by_processor.entry(sample.processor).or_default() += 1;
        }
    })?;
    recording.in_step = in_step.sources(&recording.metadata);
    Ok(Recorded { recording, busiest: by_processor.into_values().max().unwrap_or(0) })
}

fn result(
    periods: Vec<InPass>,
    traced: &Traced,
    Recorded { recording, busiest }: &Recorded,
    options: &args::Record,
    ctx: &Context,
    scope: Scope,
) -> RecordResult {
    let statistics = recording.statistics.clone().unwrap_or_default();
    let (samples, elapsed_ns) = (recording.samples, traced.elapsed_ns);
    // How often an event happens is known only when the trace has been read, so there is no `--rate`.
    let rate = limits::allows(ctx.method, "record", "--rate");
    let can = Can { rate, last: scope.can_last() };
    let advice = Advice::on(samples, *busiest, elapsed_ns, can).into_iter();
    RecordResult {
        machine: ctx.machine_info.description.clone(),
        scope,
        file: options.output.display().to_string(),
        elapsed_ns,
        interrupted: interrupted(),
        passes: 1,
        periods,
        samples: recording.samples + recording.idle_samples(),
        branches: options.branches.as_ref().map(|_| branched(recording)),
        lost: recording.lost(),
        generated: statistics.generated,
        notifications: true,
        sealed: true,
        events_lost: traced.state.events_lost,
        advice: advice.chain(Advice::in_step(&recording.in_step)).collect(),
        ..RecordResult::default()
    }
}

/// The branch records of a recording for which they were asked.
fn branched(recording: &Recording) -> Branched {
    let file::Branches { depth, kinds, recorder } =
        recording.metadata.branches.clone().unwrap_or_default();
    Branched { recorder, depth, kinds, records: recording.branches }
}

/// The warning that Windows took the request for branches, and recorded none.
fn without_branches(result: &RecordResult) -> Option<String> {
    let branches = result.branches.as_ref()?;
    (branches.records == 0 && result.samples != 0).then(|| {
        "no sample has branch records: Windows accepted the request for them and recorded none"
            .to_owned()
    })
}

#[cfg(test)]
mod tests;
