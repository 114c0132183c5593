//! `halprof record`: samples to a file.

mod by_tracing;

use crate::cli::args;
use crate::metrics::{Metrics, rows};
use crate::output::Output;
use crate::output::changes;
use crate::output::error::{Error, Result};
use crate::output::number::{seconds, thousands, times};
use crate::output::table::{Record, Width, records_in};
use crate::results::errata::{self, EventErrata};
use crate::results::exported;
use crate::results::output_file::OutputFile;
use crate::results::recording::ExcludedCpus;
use crate::results::recording::{InPass, in_pass, metadata};
use crate::results::recording_warnings::{self, multiplexing_warning};
use crate::run::browser;
use crate::run::calibration::{Calibration, calibrate};
use crate::run::marking::Marking;
use crate::run::metric_periods;
use crate::run::recorder::{Recorded, Recorder, configured};
use crate::run::runner::Runner;
use crate::run::scope::Scope;
use crate::select::event_set::{EventSet, Purpose};
use crate::select::periods;
use crate::select::sample_size::{Advice, Can};
use crate::select::time::{nanoseconds, slice_length};
use crate::select::warnings::one_event_file;
use crate::target::context::Context;
use crate::target::{limits, seal_key};
use halprof_measure::float::float;
use halprof_measure::{Failure, Source};
use halprof_profile::file::branches::{KINDS, Kind, MODES};
use halprof_profile::file::{self, Background, Metadata, Writer, cannot_count};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::BranchRecords;
use shared_types::request::session::Configure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct RecordResult {
    machine: String,
    scope: Scope,
    file: String,
    /// The page that `--open` wrote.
    page: Option<String>,
    elapsed_ns: u64,
    /// Whether Ctrl-C ended it.
    interrupted: bool,
    passes: usize,
    periods: Vec<InPass>,
    samples: u64,
    /// Marks that the program made.
    marks: u64,
    /// Marks that were dropped.
    marks_dropped: u64,
    /// Null if no branches were recorded.
    branches: Option<Branched>,
    lost: BTreeMap<String, u64>,
    /// Events that the lost samples stand for.
    lost_events: BTreeMap<String, u64>,
    /// Why sampling ended early: the driver ended it by itself, or a request failed.
    ended: Option<Failure>,
    /// Sources that some of the processors cannot count.
    excluded_cpus: Vec<ExcludedCpus>,
    /// Sources that took turns on the counters; empty if all were sampled all the time.
    slices: Vec<SourceSlice>,
    generated: u64,
    spurious: u64,
    throttled: u64,
    longest_period: u64,
    /// Time that all processors together spent in the interrupt handler; null where a trace measures.
    handler_ns: Option<u64>,
    /// That time as a fraction of the time of all processors.
    handler_share: Option<f64>,
    missed_processes: u64,
    missed_samples: u64,
    /// Whether processes and images were reported as they came and went.
    notifications: bool,
    /// Why not.
    notifications_error: Option<String>,
    /// Whether reports by the same user know the recording again, and open modules where they were
    /// loaded.
    sealed: bool,
    /// System events that were lost.
    events_lost: u64,
    calibration: Option<Calibration>,
    advice: Vec<Advice>,
}

/// The branch records of the samples.
#[derive(JsonSchema, Serialize)]
struct Branched {
    /// The processor feature that records them.
    recorder: String,
    /// The largest number of records in a sample.
    depth: u32,
    /// The kinds that were recorded; empty for all.
    kinds: Vec<String>,
    records: u64,
}

/// A source that was not on a counter all the time.
#[derive(JsonSchema, Serialize)]
struct SourceSlice {
    source: String,
    /// For which fraction of the time it was on a counter.
    on_counter: f64,
}

/// Prints what was recorded, and sends the recording to standard output if that is its target. With
/// `--open` there is a page of it, too.
fn print(
    mut result: RecordResult,
    target: OutputFile,
    options: &args::Record,
    output: &Output,
) -> Result<()> {
    let page = options.open.then(|| write_page(&options.output, output)).flatten();
    result.page = page.as_ref().map(|page| page.display().to_string());
    let result = &result;
    output.warn_all(&warnings(result));
    for note in notes(result) {
        output.note(&note);
    }
    target.note_kept(output);
    if target.send()? {
        output.note(&summary(result));
        return Ok(());
    }
    let rows = result.periods.as_slice();
    output.rows("record", (result, rows), |result| text(result, output.width()))?;
    if let Some(page) = &page {
        browser::open(page, output);
    }
    Ok(())
}

/// Writes the page of a recording. The recording is there even if its page cannot be written.
fn write_page(recording: &Path, output: &Output) -> Option<PathBuf> {
    let page = exported::write_page(&args::Export::page_of(vec![recording.to_owned()]), output);
    page.map_err(|error| output.warn(&format!("there is no page: {error}"))).ok()
}

/// A page is beside a file.
fn check_has_page(options: &args::Record) -> Result<()> {
    if options.open && options.output.as_os_str() == "-" {
        return Err(Error::usage(
            "`--open` writes a page beside the recording, and `-o -` writes none",
            "Name a file with `-o`, or leave it out.",
        ));
    }
    Ok(())
}

pub(crate) fn run(options: &args::Record, ctx: &mut Context, output: &Output) -> Result<u32> {
    refuse_limits(options, ctx.method)?;
    check_has_page(options)?;
    if let Some(mut tracing) = ctx.tracing.take() {
        return by_tracing::run(options, tracing.as_mut(), ctx, output);
    }
    let slice_100ns = slice_length(options.work.rotate)?;
    let event_set = event_set(options, ctx)?;
    if options.rate.is_some() {
        refuse_periods(&event_set)?;
    }
    let branches = BranchOptions::of(options, &event_set)?;
    let mut event_set =
        event_set.in_slices(slice_100ns).with_branches(branches.depth, branches.filter);
    let owns_output = OutputFile::owns_output(&options.output, output);
    let mut runner = Runner::new(&options.work, ctx, &event_set, owns_output)?;
    runner.check_can_be_sampled()?;
    output.warn_all(&one_event_file(&options.selection, ctx));
    output.warn_all(&event_set.unknown_constraints());
    let target = OutputFile::of(&options.output, output)?;
    let order = RecordPlan { options, branches, path: target.path() };
    let made = record(&order, ctx, &mut event_set, &mut runner, output)
        .map_err(|error| event_set.explain(error))?;
    let (result, ended) = result(&order, made, ctx, &event_set, runner.scope(&event_set));
    print(result, target, options, output)?;
    // The file contains the samples taken until then.
    Ok(match ended {
        Some(error) => error.exit_status(),
        None => runner.program_status(),
    })
}

/// What is named and what the metrics need; without either, cycles.
fn event_set(options: &args::Record, ctx: &mut Context) -> Result<EventSet> {
    let metrics = Metrics::with_file(options.metric_file.as_deref(), ctx.shares_cores())?;
    let requested = metrics.requested(&options.metrics)?;
    if requested.is_empty() {
        return EventSet::new(&options.selection, ctx, Purpose::Sample);
    }
    requested.iter().try_for_each(rows::check)?;
    let mut event_set = EventSet::new(&options.selection, ctx, Purpose::SampleBeside)?;
    event_set.add_metrics(&metrics, &requested, (!options.passes, Source::SAMPLING), ctx)?;
    event_set.pace_by_clock(ctx);
    Ok(event_set)
}

/// Refuses what the backend cannot do.
fn refuse_limits(options: &args::Record, method: limits::MeasuredBy) -> Result<()> {
    let given = [
        ("--branches with a number", BranchRequest::of(options)?.depth.is_some()),
        ("--no-managed", options.no_managed),
        ("--off-cpu", options.off_cpu),
        ("--passes", options.passes),
        ("--rate", options.rate.is_some()),
        ("--rotate", options.work.rotate.is_some()),
        ("--process", options.process.is_some()),
        // With `--pin` it says where the program runs.
        ("--cpu", !options.selection.processors.is_empty() && !options.work.pin),
        ("--workload programs", options.work.has_programs()),
    ];
    limits::refuse(method, "record", &[&given, &options.selection.limited()[..]].concat())
}

/// `--rate` chooses the periods; a given period would be ignored.
fn refuse_periods(event_set: &EventSet) -> Result<()> {
    let is_given = |&index: &usize| event_set.period(index) != 0 && !event_set.is_drawn(index);
    let given = event_set.indexes().into_iter().find(is_given);
    match given.and_then(|index| event_set.events.get(index)) {
        Some(given) => Err(Error::usage(
            format!("{} has a period, and `--rate` chooses the periods", given.label),
            "Leave out the period or `--rate`.",
        )),
        None => Ok(()),
    }
}

/// Which branches are recorded for each sample.
#[derive(Clone, Copy, Default)]
struct BranchOptions {
    depth: u16,
    /// Bits of [`Configure::branch_filter`]; 0 for all.
    filter: u16,
    recorder: &'static str,
}

/// What `--branches` says.
#[derive(Clone, Debug, Default)]
struct BranchRequest {
    /// How many branches; `None` for as many as the processors record.
    depth: Option<u16>,
    /// The only kinds and modes; none for all.
    kinds: Vec<&'static Kind>,
    modes: Vec<&'static Kind>,
}

impl BranchRequest {
    fn of(options: &args::Record) -> Result<Self> {
        let mut request = Self::default();
        let value = options.branches.as_deref().unwrap_or_default();
        for (index, part) in value.split('+').enumerate().filter(|(_, part)| !part.is_empty()) {
            let find = |known: &'static [Kind]| known.iter().find(|known| known.name == part);
            match (part.parse(), find(&KINDS), find(&MODES)) {
                (Ok(8 | 16 | 32), ..) if index == 0 => request.depth = part.parse().ok(),
                (_, Some(kind), _) => request.kinds.push(kind),
                (_, _, Some(mode)) => request.modes.push(mode),
                _ => return Err(wrong_branches(value, part)),
            }
        }
        Ok(request)
    }

    /// What the driver is to record.
    fn driver_filter(&self) -> u16 {
        self.kinds.iter().chain(&self.modes).fold(0, |bits, kind| bits | kind.driver)
    }

    /// What Windows is to leave out. The bit of one mode leaves out the other mode.
    fn windows_filter(&self) -> u32 {
        let is_named = |kind: &Kind| self.kinds.is_empty() || self.kinds.contains(&kind);
        let kinds = KINDS.iter().filter(|kind| !is_named(kind));
        let mode = match self.modes.as_slice() {
            [mode] => mode.windows,
            _ => 0,
        };
        kinds.fold(mode, |bits, kind| bits | kind.windows)
    }
}

impl BranchOptions {
    fn of(options: &args::Record, event_set: &EventSet) -> Result<Self> {
        if options.branches.is_none() {
            return Ok(Self::default());
        }
        let request = BranchRequest::of(options)?;
        let (depth, filter) = (request.depth, request.driver_filter());
        let most = event_set.selected().map(|one| one.branch_depth).min();
        let most = most.unwrap_or(0);
        let first = event_set.selected().next().map_or(0, |one| one.branch_records);
        let recorder = BranchRecords::from_wire(first.into()).map_or("", BranchRecords::name);
        // If one of them records no branches, the driver says why.
        let depth = depth.unwrap_or(if most < 8 { 8 } else { most });
        Ok(Self { depth, filter, recorder })
    }

    /// What the file says about them; `None` if there are none.
    fn recorded(self) -> Option<file::Branches> {
        let kinds = self.filter & Configure::KINDS;
        let kinds =
            KINDS.iter().filter(|kind| kinds & kind.driver != 0 && kinds != Configure::KINDS);
        (self.depth != 0).then(|| file::Branches {
            depth: self.depth.into(),
            kinds: kinds.map(|kind| kind.name.to_owned()).collect(),
            recorder: self.recorder.to_owned(),
        })
    }
}

fn wrong_branches(value: &str, part: &str) -> Error {
    let names: Vec<&str> = KINDS.iter().chain(&MODES).map(|kind| kind.name).collect();
    Error::usage(
        format!(
            "`--branches={value}`: `{part}` is neither a number of branches nor a kind of branch"
        ),
        format!(
            "Give 8, 16 or 32, or no number for as many as the processors record; then, with a `+` before \
             each, the kinds to record: {}.",
            names.join(", ")
        ),
    )
}

/// What is to be recorded.
struct RecordPlan<'a> {
    options: &'a args::Record,
    branches: BranchOptions,
    path: &'a Path,
}

/// A recording that was made.
struct RecordOutcome {
    passes: usize,
    periods: Vec<InPass>,
    metadata: Metadata,
    /// Whether it has a seal.
    sealed: bool,
    calibration: Option<Calibration>,
    recorded: Recorded,
}

fn record(
    order: &RecordPlan<'_>,
    ctx: &mut Context,
    event_set: &mut EventSet,
    runner: &mut Runner,
    output: &Output,
) -> Result<RecordOutcome> {
    let RecordPlan { options, branches, path } = order;
    let passes = event_set.sets(options.passes, true, &mut ctx.connection)?;
    let (mut calibration, mut chosen) = (None, BTreeMap::new());
    if let Some(rate) = options.rate {
        calibration = Some(calibrate(rate, ctx, event_set, &passes, runner, output)?);
    } else if !options.metrics.is_empty() {
        let runs = options.work.program.is_empty();
        chosen = metric_periods::choose(event_set, &passes, runs, ctx, runner, output)?;
    } else {
        chosen = metric_periods::paced(event_set);
    }
    let (first, others) = passes.split_first().ok_or_else(|| Error::internal("no pass"))?;
    let machine = ctx.machine.description;
    // The head of the file has the periods of every pass. The session that tells those of the first
    // is the one that samples it.
    let mut periods = effective_periods(ctx, event_set, others)?;
    let errata = EventErrata::new(event_set, &passes, true, &mut ctx.connection)?;
    let (session, effective) = configured(&mut ctx.connection, event_set, first, true)?;
    periods.extend(in_pass(event_set, first, &effective, 0));
    for (&index, row) in &mut periods {
        row.errata = errata.of(index, event_set.selected());
        row.chosen_by = chosen.get(&index).copied();
    }
    let periods: Vec<InPass> = periods.into_values().collect();
    let metadata = Metadata {
        branches: branches.recorded(),
        ..metadata(&machine, &ctx.machine_info, event_set, &periods, command(&options.work))
    };
    let key = seal_key::key();
    let sealed = key.is_some();
    let writer = Background::new(Writer::create(path, &metadata)?.sealing(key));
    let progress = output.progress(None);
    let marking = listen(runner, output);
    let mut recorder =
        Recorder::new(writer, event_set, runner.system(), runner.process_source(), marking)?;
    recorder.sample(session, first, runner, &progress)?;
    for indexes in others {
        if recorder.has_ended() {
            break;
        }
        match configured(&mut ctx.connection, event_set, indexes, true) {
            Ok((session, _)) => recorder.sample(session, indexes, runner, &progress)?,
            Err(error) => recorder.end_early(error)?,
        }
    }
    let finished = recorder.finish()?;
    progress.finish_and_clear();
    let passes = passes.len();
    Ok(RecordOutcome { passes, periods, metadata, sealed, calibration, recorded: finished })
}

/// What there is to say of a recording, and the error that ended it early.
fn result(
    order: &RecordPlan<'_>,
    made: RecordOutcome,
    ctx: &Context,
    event_set: &EventSet,
    scope: Scope,
) -> (RecordResult, Option<Error>) {
    let RecordOutcome { passes, periods, metadata, sealed, calibration, recorded } = made;
    let statistics = recorded.statistics;
    let handler_ns = nanoseconds(statistics.handler_ticks, ctx.machine.frequency());
    let handler_ns = u64::try_from(handler_ns).unwrap_or(u64::MAX);
    let elapsed_ns = statistics.elapsed_ns;
    let rate = limits::allows(ctx.method, "record", "--rate");
    let can = Can { rate, last: scope.can_last() };
    let advice = Advice::on(statistics.generated, recorded.busiest, elapsed_ns, can)
        .into_iter()
        .chain(Advice::in_step(&recorded.in_step.sources(&metadata)))
        .chain(recorded.changes.iter().filter_map(Advice::counters_changed))
        .chain(Advice::branches_cleared(statistics.branches_cleared))
        .collect();
    let ended = recorded.ended.map(|error| event_set.explain(error));
    let result = RecordResult {
        machine: ctx.machine_info.description.clone(),
        scope,
        file: order.options.output.display().to_string(),
        page: None,
        elapsed_ns,
        interrupted: recorded.interrupted,
        passes,
        periods,
        samples: recorded.samples,
        marks: recorded.marks,
        marks_dropped: recorded.marks_dropped,
        branches: order.branches.recorded().map(|branches| Branched {
            recorder: branches.recorder,
            depth: branches.depth,
            kinds: branches.kinds,
            records: recorded.branches,
        }),
        lost: statistics.lost,
        lost_events: statistics.lost_events,
        ended: ended.as_ref().map(Error::failure),
        excluded_cpus: metadata.excluded_cpus().into_iter().map(Into::into).collect(),
        slices: source_slices(&statistics.slices, event_set),
        generated: statistics.generated,
        spurious: statistics.spurious,
        throttled: statistics.throttled,
        longest_period: statistics.longest_period,
        handler_ns: Some(handler_ns),
        handler_share: Some(share(handler_ns, elapsed_ns, event_set.selected().count())),
        missed_processes: recorded.missed.processes,
        missed_samples: recorded.missed.samples,
        notifications: recorded.source_error.is_none(),
        notifications_error: recorded.source_error.map(|error| error.to_string()),
        sealed,
        events_lost: statistics.events_lost,
        calibration,
        advice,
    };
    (result, ended)
}

/// A recorder for the marks of the program that will run.
fn listen(runner: &mut Runner, output: &Output) -> Option<Marking> {
    if !runner.runs_program() {
        return None;
    }
    match Marking::begin() {
        Ok(marking) => {
            runner.add_variable(marking.environment());
            Some(marking)
        }
        Err(error) => {
            output.warn(&format!("marks are not recorded: {error}"));
            None
        }
    }
}

fn source_slices(all: &[file::Slices], event_set: &EventSet) -> Vec<SourceSlice> {
    let slice = |slices: &file::Slices| {
        let event = event_set.events.get(slices.source as usize)?;
        Some(SourceSlice { source: event.label.clone(), on_counter: slices.running_share() })
    };
    all.iter().filter_map(slice).collect()
}

/// The periods of the passes after the first, by the indexes of their sources in the event set.
fn effective_periods(
    ctx: &mut Context,
    event_set: &EventSet,
    passes: &[Vec<usize>],
) -> Result<BTreeMap<usize, InPass>> {
    let mut periods = BTreeMap::new();
    for (pass, indexes) in (1..).zip(passes) {
        let (_, effective) = configured(&mut ctx.connection, event_set, indexes, false)?;
        periods.extend(in_pass(event_set, indexes, &effective, pass));
    }
    Ok(periods)
}

/// The program with its arguments, or the workload.
fn command(work: &args::Work) -> Vec<String> {
    let program = work.program.iter();
    let program = program.map(|part| part.to_string_lossy().into_owned());
    work.workload.iter().cloned().chain(program).collect()
}

/// A part as a fraction of the time of all processors together.
fn share(part_ns: u64, elapsed_ns: u64, processors: usize) -> f64 {
    float(part_ns) / float((u128::from(elapsed_ns) * processors as u128).max(1))
}

/// Warnings about what differs from the request.
fn warnings(result: &RecordResult) -> Vec<String> {
    let mut warnings = periods::notes(result.periods.iter().map(|row| &row.period));
    if let Some(ended) = &result.ended {
        warnings.push(format!(
            "sampling ended early: {}; the file has what was sampled until then. {}",
            ended.message, ended.hint
        ));
    }
    for excluded in &result.excluded_cpus {
        warnings.push(cannot_count(&excluded.source, &excluded.processors));
    }
    let slices = result.slices.iter();
    let slices: Vec<(String, f64)> =
        slices.map(|slice| (slice.source.clone(), slice.on_counter)).collect();
    warnings.extend(multiplexing_warning(&slices, "`report` scales their events"));
    if result.throttled != 0 {
        warnings.push(format!(
            "interrupts took too much time: periods were lengthened {}, up to {}",
            times(result.throttled),
            thousands(result.longest_period)
        ));
    }
    if let Some(error) = &result.notifications_error {
        warnings.push(format!(
            "processes and images were not reported when they started and ended: {error}; \
             halprof looked for them once a second, so short-lived ones may have no name"
        ));
    }
    if !result.sealed {
        warnings.push(seal_key::UNSEALED.to_owned());
    }
    if result.events_lost != 0 {
        warnings.push(recording_warnings::events_lost(result.events_lost));
    }
    let few = result.advice.iter().filter(|advice| advice.code == Advice::TOO_FEW);
    warnings.extend(few.map(|advice| advice.message.clone()));
    let warned = [Advice::IN_STEP, changes::CODE];
    let warned = result.advice.iter().filter(|advice| warned.contains(&advice.code));
    warnings.extend(warned.map(Advice::warning));
    let lost = all_lost(result);
    if lost != 0 {
        warnings.push(format!(
            "{} of {} samples were lost",
            thousands(lost),
            thousands(result.generated)
        ));
    }
    if result.marks_dropped != 0 {
        let dropped = thousands(result.marks_dropped);
        warnings.push(format!("{dropped} marks were dropped"));
    }
    warnings
}

/// Further notes, with advice for the next recording.
fn notes(result: &RecordResult) -> Vec<String> {
    let mut notes = Vec::new();
    if result.missed_processes != 0 {
        notes.push(format!(
            "{} samples are without modules: {} processes ended before these could be read",
            thousands(result.missed_samples),
            thousands(result.missed_processes)
        ));
    }
    if result.interrupted {
        notes.push("ended by Ctrl-C: the recording has what was sampled until then".to_owned());
    }
    let warned = [Advice::TOO_FEW, Advice::IN_STEP];
    let advice = result.advice.iter().filter(|advice| !warned.contains(&advice.code));
    notes.extend(advice.map(|advice| format!("advice: {}", advice.message)));
    notes
}

/// The driver's figures are believed as little as a file's.
fn all_lost(result: &RecordResult) -> u64 {
    result.lost.values().copied().fold(0, u64::saturating_add)
}

fn summary(result: &RecordResult) -> String {
    let lost = all_lost(result);
    let branches = result.branches.as_ref();
    let branches = branches.map_or_else(String::new, |branches| {
        format!(" with {} branch records", thousands(branches.records))
    });
    let mut text = format!(
        "{} samples{branches} in {}, {} lost, written to {}",
        thousands(result.samples),
        seconds(result.elapsed_ns),
        thousands(lost),
        result.file
    );
    if result.marks != 0 {
        let marks = thousands(result.marks);
        text += &format!("\n{marks} marks: `halprof timeline` shows them");
    }
    for line in [result.scope.text(), result.scope.left_running()].into_iter().flatten() {
        text += &format!("\n{line}");
    }
    text
}

fn text(result: &RecordResult, width: Width) -> String {
    // A number is needed only where there are several passes.
    let columns = InPass::COLUMNS.len() - usize::from(result.passes == 1);
    let periods = records_in(width, &InPass::COLUMNS[..columns], &result.periods);
    let mut text = format!("{}\n\n{periods}\n", width.fitted(&summary(result)));
    let rows = result.periods.iter();
    text += &width
        .fitted(&errata::text(rows.map(|row| (row.period.source.as_str(), row.errata.as_slice()))));
    for (cause, n) in &result.lost {
        let events = result.lost_events.get(cause).copied().unwrap_or(0);
        if *n != 0 {
            text += &format!("lost, {cause}: {} ({} events)\n", thousands(*n), thousands(events));
        }
    }
    if let Some((handler_ns, share)) = result.handler_ns.zip(result.handler_share) {
        text += &width.fitted(&format!(
            "interrupt handler: {} total, {:.2} % of the processors' time\n",
            seconds(handler_ns),
            share * 100.0
        ));
    }
    text
}
