//! `halprof timeline`: a program's marks, with their times.

mod text;

use crate::cli::args;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::error_codes::INCOMPLETE;
use crate::output::escape::Escaped;
use crate::output::names::abbreviated;
use crate::output::number::thousands;
use crate::results::output_file::OutputFile;
use crate::run::interrupt::interrupted;
use crate::run::marking::{DRAIN_NS, Marking};
use crate::run::runner::{Every, Runner};
use crate::select::filters;
use crate::target::machine_id;
use crate::target::seal_key;
use halprof_measure::did_you_mean;
use halprof_measure::float::float;
use halprof_profile::aggregate::filter;
use halprof_profile::aggregate::marks::{
    Interval, MarkFilter, MarkRow, Marks, SpanStats, Strip, Summary,
};
use halprof_profile::file::{
    self, Background, Block, Metadata, Process, Recording, Sink, Statistics, Writer,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The number of columns of ticks when there is no terminal.
const COLUMNS: usize = 100;
/// How many of the longest intervals are listed.
const LONGEST: usize = 10;

#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct TimelineResult {
    recording: String,
    machine: String,
    command: Vec<String>,
    /// The exit status of the program that was run; null if it did not end by itself, and for a
    /// recording that is only read.
    exit_status: Option<u32>,
    clock: Clock,
    /// What a mark costs; null if no program has made one.
    cost: Option<Cost>,
    /// Processes that found the recorder.
    processes: u64,
    /// Marks of programs in the recording.
    recorded: u64,
    /// The driver's own events in the recording, each a mark on a channel `driver:KIND`.
    driver_events: u64,
    /// The selected marks and events, which everything below is about.
    marks: u64,
    /// The time from the first to the last.
    elapsed_ns: u64,
    /// Marks that were dropped, by cause.
    dropped: BTreeMap<String, u64>,
    /// Entries of the shared buffer that made no sense.
    invalid_entries: u64,
    channels: Vec<Summary>,
    rows: Vec<MarkRow>,
    rows_omitted: u64,
    ticks: Option<Strip>,
    between: Option<Between>,
    /// Why this is not the whole recording.
    damaged: Option<String>,
    warnings: Vec<String>,
}

/// The clock of the marks' times.
#[derive(Default, JsonSchema, Serialize)]
struct Clock {
    name: String,
    ticks_a_second: u64,
    /// The possible error of that rate, in millionths.
    rate_error_ppm: f64,
    /// How long it was compared with the system's clock.
    rate_over_ns: u64,
    /// The step of the clock.
    step_ns: f64,
}

/// The time between marks that follow each other immediately.
#[derive(JsonSchema, Serialize)]
struct Cost {
    min_ns: f64,
    median_ns: f64,
    /// How many distances were measured.
    distances: u64,
}

/// The marks of a channel in one column, for CSV.
#[derive(JsonSchema, Serialize)]
struct TickRow<'a> {
    channel: &'a str,
    time_ns: u64,
    marks: u64,
}

/// Intervals from one mark to another of the same thread.
#[derive(JsonSchema, Serialize)]
struct Between {
    from: String,
    to: String,
    /// Marks on the first channel that no mark on the second followed.
    without_end: u64,
    /// Marks on the second channel that no mark on the first preceded.
    without_begin: u64,
    /// Null if there are no intervals.
    lengths: Option<SpanStats>,
    longest: Vec<Interval>,
    #[serde(skip)]
    all: Vec<Interval>,
}

/// `machine`: what was given with `--machine`.
pub(crate) fn run(options: &args::Timeline, machine: Option<&str>, output: &Output) -> Result<u32> {
    if machine.is_some() {
        return Err(Error::usage(
            "`timeline` models no machine",
            "Leave out `--machine`: it shows the marks of a program that runs here, or of a recording.",
        ));
    }
    if !options.program.is_empty() {
        return record_and_show(options, output);
    }
    let is_damaged = show(options, &options.file, None, output)?;
    Ok(if is_damaged { INCOMPLETE } else { 0 })
}

fn record_and_show(options: &args::Timeline, output: &Output) -> Result<u32> {
    let target = OutputFile::of(&options.output, output)?;
    let status = record(options, target.path(), output)?;
    let path = target.path().to_owned();
    target.note_kept(output);
    if !target.send()? {
        output.note(&format!("written to {}", path.display()));
        show(options, &path, status, output)?;
    }
    Ok(status.unwrap_or(0))
}

/// Runs the program and records its marks; returns its exit status if it ended by itself.
fn record(options: &args::Timeline, path: &Path, output: &Output) -> Result<Option<u32>> {
    let mut marking = Marking::begin()?;
    let metadata = metadata(options, marking.rate().ticks_a_second);
    let mut writer = Background::new(Writer::create(path, &metadata)?);
    let owns_output = OutputFile::owns_output(&options.output, output);
    let mut runner = Runner::of_program(&options.program, owns_output);
    runner.add_variable(marking.environment());
    runner.prepare()?;
    let progress = output.progress(None);
    runner.begin()?;
    writer.put(Block::Processes(process(&runner, options)))?;
    let elapsed_ns = runner.run(Every::step(DRAIN_NS), |_| {
        marking.drain(&mut writer)?;
        let marks = thousands(marking.marks());
        progress.set_message(format!("recording, {marks} marks"));
        Ok(ControlFlow::Continue(()))
    })?;
    runner.end_while(|| marking.drain(&mut writer))?;
    marking.finish(&mut writer)?;
    progress.finish_and_clear();
    let statistics = Statistics { elapsed_ns, ..Statistics::default() };
    writer.finish(&statistics, interrupted())?;
    Ok(runner.exit_status())
}

fn process(runner: &Runner, options: &args::Timeline) -> Vec<Process> {
    let name = options.program.first().map(PathBuf::from);
    let name = name.as_deref().and_then(Path::file_name);
    let name = name.unwrap_or_default().to_string_lossy().into_owned();
    let process = runner.process_id().map(|id| Process { id, name, ..Process::default() });
    process.into_iter().collect()
}

fn metadata(options: &args::Timeline, timestamp_frequency: u64) -> Metadata {
    let program = options.program.iter();
    let processors = std::thread::available_parallelism();
    let mut metadata = Metadata {
        machine: machine_id::processor(),
        timestamp_frequency,
        processors: processors.map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        began: machine_id::unix_seconds(),
        command: program.map(|part| part.to_string_lossy().into_owned()).collect(),
        ..Metadata::default()
    };
    machine_id::sign(&mut metadata, seal_key::key().as_deref());
    metadata
}

/// Prints the marks of a recording; returns whether it is damaged.
fn show(
    options: &args::Timeline,
    path: &Path,
    exit_status: Option<u32>,
    output: &Output,
) -> Result<bool> {
    let filter = MarkFilter {
        channels: filters::patterns(&options.channel),
        time: options.time.as_deref().map(filter::time).transpose()?,
    };
    let mut source = file::open(path)?;
    source.keep_marks();
    source.samples(&mut |_, _| {})?;
    let mut recording = source.take_recording();
    let marks = Marks::of(&mut recording, &filter);
    let columns = output.width().columns().unwrap_or(COLUMNS);
    let rows_max = match options.rows {
        Some(0) => usize::MAX,
        None if output.is_csv() => usize::MAX,
        rows => rows.unwrap_or(20),
    };
    let rows: Vec<MarkRow> = marks.rows().take(rows_max).collect();
    let result = TimelineResult {
        exit_status,
        rows_omitted: (marks.len() - rows.len()) as u64,
        rows,
        ticks: options.ticks.map(|width| ticks(&marks, width, columns)),
        between: between(&marks, options)?,
        ..TimelineResult::new(path, &recording, &marks)
    };
    output.warn_all(&result.warnings);
    output.set_modelled(recording.metadata.modelled);
    let text = |result: &TimelineResult| text::text(result, output.width());
    match (&result.between, &result.ticks) {
        (Some(between), _) => output.rows("timeline", (&result, &between.all), text)?,
        (None, Some(ticks)) => {
            output.rows("timeline", (&result, &tick_rows(ticks)), text)?;
        }
        (None, None) => output.rows("timeline", (&result, &result.rows), text)?,
    }
    Ok(result.damaged.is_some())
}

impl TimelineResult {
    /// What a recording says of its marks, without the tables that the options select.
    fn new(path: &Path, recording: &Recording, marks: &Marks) -> Self {
        let channels = &marks.channels;
        let rate = channels.ticks_a_second;
        Self {
            recording: path.display().to_string(),
            machine: recording.metadata.machine.clone(),
            command: recording.metadata.command.clone(),
            clock: Clock {
                name: channels.clock.clone(),
                ticks_a_second: rate,
                rate_error_ppm: float(channels.rate_error_ppb) / 1e3,
                rate_over_ns: channels.rate_over_ns,
                step_ns: nanoseconds(channels.step_ticks, rate),
            },
            cost: channels.cost.map(|cost| Cost {
                min_ns: nanoseconds(cost.min_ticks, rate),
                median_ns: nanoseconds(cost.median_ticks, rate),
                distances: cost.distances,
            }),
            processes: channels.processes,
            recorded: recording.marked.count,
            driver_events: recording.events.len() as u64,
            marks: marks.len() as u64,
            elapsed_ns: marks.elapsed_ns(),
            dropped: channels.dropped.clone(),
            invalid_entries: channels.damaged,
            channels: marks.summaries(),
            damaged: recording.damaged(),
            warnings: warnings(recording),
            ..Self::default()
        }
    }
}

fn nanoseconds(ticks: u64, ticks_a_second: u64) -> f64 {
    float(ticks) * 1e9 / float(ticks_a_second.max(1))
}

fn warnings(recording: &Recording) -> Vec<String> {
    let mut warnings: Vec<String> = recording.damaged().into_iter().collect();
    let Some(channels) = &recording.marked.channels else {
        warnings.push(
            "the recording has no marks: halprof records those of programs that it starts"
                .to_owned(),
        );
        return warnings;
    };
    for (cause, n) in channels.dropped.iter().filter(|&(_, &n)| n != 0) {
        warnings.push(format!("{} marks were dropped: {cause}", thousands(*n)));
    }
    if channels.damaged != 0 {
        warnings.push(format!(
            "{} entries of the buffer that the program shares with its recorder made no sense and \
             are left out: something in the program wrote over it",
            thousands(channels.damaged)
        ));
    }
    if channels.processes == 0 {
        warnings.push(
            "no program found the recorder: none asked for a channel, or its library has marks of \
             another version"
                .to_owned(),
        );
    } else if recording.marked.count == 0 {
        warnings.push("the program made no mark".to_owned());
    }
    warnings
}

fn ticks(marks: &Marks, width: Duration, columns: usize) -> Strip {
    let names = marks.summaries().into_iter().map(|one| Escaped(one.channel).to_string());
    let name_width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    let room = columns.saturating_sub(name_width.min(text::NAME) + text::GAP);
    let tick_ns = u64::try_from(width.as_nanos()).unwrap_or(u64::MAX);
    marks.strip(tick_ns, room.max(text::LEAST))
}

fn tick_rows(ticks: &Strip) -> Vec<TickRow<'_>> {
    let mut rows = Vec::new();
    for track in &ticks.tracks {
        for (column, &marks) in (0..).zip(&track.marks) {
            let time_ns = ticks.from_ns.saturating_add(ticks.tick_ns.saturating_mul(column));
            rows.push(TickRow { channel: &track.channel, time_ns, marks });
        }
    }
    rows
}

fn between(marks: &Marks, options: &args::Timeline) -> Result<Option<Between>> {
    let Some(list) = args::joined(&options.between) else {
        return Ok(None);
    };
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    let &[from, to] = names.as_slice() else {
        return Err(Error::usage(
            format!("`--between {list}` does not name two channels"),
            "Name the channel at which an interval begins and the one at which it ends: `--between begin,end`.",
        ));
    };
    for name in [from, to] {
        if !marks.has(name) {
            return Err(no_channel(name, marks));
        }
    }
    let pairs = marks.between(from, to);
    let lengths: Vec<u64> = pairs.intervals.iter().map(|one| one.length_ns).collect();
    let mut longest = pairs.intervals.clone();
    longest.sort_by_key(|one| std::cmp::Reverse(one.length_ns));
    longest.truncate(LONGEST);
    Ok(Some(Between {
        from: from.to_owned(),
        to: to.to_owned(),
        without_end: pairs.without_end,
        without_begin: pairs.without_begin,
        lengths: SpanStats::from_lengths(&lengths),
        longest,
        all: pairs.intervals,
    }))
}

fn no_channel(name: &str, marks: &Marks) -> Error {
    let summaries = marks.summaries();
    let names: Vec<&str> = summaries.iter().map(|one| one.channel.as_str()).collect();
    let meant = did_you_mean(name, &names).map_or_else(String::new, |meant| meant + " ");
    let list = match names.as_slice() {
        [] => "There are no marks.".to_owned(),
        names => format!("There are marks on {}.", abbreviated(names)),
    };
    Error::usage(format!("`--between`: there is no mark on a channel `{name}`"), meant + &list)
}
