//! `halprof timeline`: a program's marks, with their times.

mod text;

use crate::cli::args;
use crate::command::record::Target;
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::error_codes::INCOMPLETE;
use crate::output::escape::Shown;
use crate::output::float::float;
use crate::output::number::thousands;
use crate::run::interrupt::interrupted;
use crate::run::marking::{DRAIN_NS, Marking};
use crate::run::runner::{Every, Runner};
use crate::target::machine_id;
use crate::target::seal_key;
use halprof_measure::did_you_mean;
use halprof_profile::aggregate::filter::{self, Pattern};
use halprof_profile::file::{
    Background, Block, Metadata, Process, Reader, Recording, Sink, Statistics, Writer,
};
use halprof_profile::symbols;
use halprof_profile::views::marks::{Interval, MarkFilter, MarkRow, Marks, SpanStats};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The number of columns of ticks when there is no terminal.
const COLUMNS: usize = 100;
/// How many of the longest intervals are listed.
const LONGEST: usize = 10;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
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
    /// Marks in the recording.
    recorded: u64,
    /// The chosen marks, which everything below is about.
    marks: u64,
    /// The time from the first to the last.
    elapsed_ns: u64,
    /// Marks that were dropped, by cause.
    dropped: BTreeMap<String, u64>,
    /// Invalid data found in the shared buffer.
    damaged: u64,
    channels: Vec<OnChannel>,
    rows: Vec<Marked>,
    rows_left_out: u64,
    ticks: Option<Ticks>,
    between: Option<Between>,
    /// Why this is not the whole recording.
    flaw: Option<String>,
    warnings: Vec<String>,
}

/// The clock of the marks' times.
#[derive(JsonSchema, Serialize)]
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

#[derive(JsonSchema, Serialize)]
struct OnChannel {
    channel: String,
    marks: u64,
    /// From one mark to the next; null for fewer than two marks.
    apart: Option<Apart>,
}

/// Statistics over many stretches of time.
#[derive(JsonSchema, Serialize)]
struct Apart {
    n: u64,
    min_ns: u64,
    median_ns: u64,
    mean_ns: f64,
    /// The most frequent value; null if no value occurs twice.
    mode_ns: Option<u64>,
    /// The standard deviation; null for a single value.
    deviation_ns: Option<f64>,
    max_ns: u64,
}

#[derive(JsonSchema, Serialize)]
struct Marked {
    number: u64,
    /// Since the first mark of the recording.
    time_ns: u64,
    channel: String,
    value: u64,
    process: u32,
    thread: u32,
    /// Time since the previous mark on this channel.
    on_channel_ns: Option<u64>,
    /// Time since the previous mark on any channel.
    on_any_ns: Option<u64>,
}

/// Marks counted in columns.
#[derive(JsonSchema, Serialize)]
struct Ticks {
    tick_ns: u64,
    from_ns: u64,
    rows: Vec<TickRow>,
    /// Further columns that are not shown.
    left_out: u64,
}

#[derive(JsonSchema, Serialize)]
struct TickRow {
    channel: String,
    marks: Vec<u64>,
}

/// One cell of these columns, for CSV.
#[derive(JsonSchema, Serialize)]
struct Cell<'a> {
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
    lengths: Option<Apart>,
    longest: Vec<Stretch>,
    #[serde(skip)]
    all: Vec<Stretch>,
}

#[derive(Clone, Copy, JsonSchema, Serialize)]
struct Stretch {
    /// Since the first mark of the recording.
    begin_ns: u64,
    length_ns: u64,
    value: u64,
    process: u32,
    thread: u32,
}

/// `machine`: what was given with `--machine`.
pub(crate) fn run(options: &args::Timeline, machine: Option<&str>, output: &Output) -> Result<u32> {
    if machine.is_some() {
        return Err(Error::usage(
            "`timeline` models no machine",
            "Leave out `--machine`: it shows the marks of a program that runs here, or of a recording.",
        ));
    }
    let Some(file) = &options.file else {
        return record_and_show(options, output);
    };
    let body = show(options, file, None, output)?;
    Ok(body.flaw.map_or(0, |_| INCOMPLETE.into()))
}

fn record_and_show(options: &args::Timeline, output: &Output) -> Result<u32> {
    let target = Target::of(&options.output, output)?;
    let own_output = output.is_json() || output.is_csv() || options.output.as_os_str() == "-";
    let status = record(options, target.path(), own_output, output)?;
    let path = target.path().to_owned();
    target.note_kept(output);
    if !target.send()? {
        output.note(&format!("written to {}", path.display()));
        show(options, &path, status, output)?;
    }
    Ok(status.unwrap_or(0))
}

/// Runs the program and records its marks; returns its exit status if it ended by itself.
fn record(
    options: &args::Timeline,
    path: &Path,
    own_output: bool,
    output: &Output,
) -> Result<Option<u32>> {
    let mut marking = Marking::begin()?;
    let metadata = metadata(options, marking.rate().ticks_a_second);
    let mut writer = Background::new(Writer::create(path, &metadata)?);
    let mut runner = Runner::of_program(&options.program, own_output);
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
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let program = options.program.iter();
    let processors = std::thread::available_parallelism();
    let mut metadata = Metadata {
        halprof: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine_id::processor(),
        host: machine_id::host(),
        timestamp_frequency,
        processors: processors.map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        began: now.map_or(0, |since| since.as_secs()),
        command: program.map(|part| part.to_string_lossy().into_owned()).collect(),
        ..Metadata::default()
    };
    metadata.origin =
        seal_key::key().map(|key| symbols::origin(&key, &metadata)).unwrap_or_default();
    metadata
}

fn show(
    options: &args::Timeline,
    path: &Path,
    status: Option<u32>,
    output: &Output,
) -> Result<Body> {
    let choice = MarkFilter {
        channels: options.channel.iter().map(|text| Pattern::new(text)).collect(),
        time: options.time.as_deref().map(filter::time).transpose()?,
    };
    let mut recording = Reader::open(path)?.with_marks().samples(|_| {})?;
    let marks = Marks::of(&mut recording, &choice);
    let columns = output.width().columns().unwrap_or(COLUMNS);
    let body = Body {
        exit_status: status,
        rows: rows(&marks, options, output),
        ticks: options.ticks.map(|width| ticks(&marks, width, columns)),
        between: between(&marks, options)?,
        ..body(path, &recording, &marks)
    };
    let body = Body { rows_left_out: body.marks - body.rows.len() as u64, ..body };
    for warning in &body.warnings {
        output.warn(warning);
    }
    let modelled = recording.metadata.modelled;
    let text = |body: &Body| text::text(body, output.width());
    match (&body.between, &body.ticks) {
        (Some(between), _) => {
            output.rows("timeline", modelled, (&body, &between.all), text)?;
        }
        (None, Some(ticks)) => output.rows("timeline", modelled, (&body, &cells(ticks)), text)?,
        (None, None) => output.rows("timeline", modelled, (&body, &body.rows), text)?,
    }
    Ok(body)
}

fn body(path: &Path, recording: &Recording, marks: &Marks) -> Body {
    let channels = &marks.channels;
    let ns = |ticks: u64| nanoseconds(ticks, channels.ticks_a_second);
    let metadata = &recording.metadata;
    Body {
        recording: path.display().to_string(),
        machine: metadata.machine.clone(),
        command: metadata.command.clone(),
        exit_status: None,
        clock: Clock {
            name: channels.clock.clone(),
            ticks_a_second: channels.ticks_a_second,
            rate_error_ppm: float(channels.rate_error_ppb) / 1e3,
            rate_over_ns: channels.rate_over_ns,
            step_ns: ns(channels.step_ticks),
        },
        cost: channels.cost.map(|cost| Cost {
            min_ns: ns(cost.min_ticks),
            median_ns: ns(cost.median_ticks),
            distances: cost.distances,
        }),
        processes: channels.processes,
        recorded: recording.marked.count,
        marks: marks.len() as u64,
        elapsed_ns: marks.elapsed_ns(),
        dropped: channels.dropped.clone(),
        damaged: channels.damaged,
        channels: summaries(marks),
        rows: Vec::new(),
        rows_left_out: 0,
        ticks: None,
        between: None,
        flaw: recording.damaged(),
        warnings: warnings(recording),
    }
}

/// Converts ticks to nanoseconds.
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
    let dropped = channels.dropped.iter().filter(|&(_, &n)| n != 0);
    for (cause, n) in dropped {
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

fn summaries(marks: &Marks) -> Vec<OnChannel> {
    let summaries = marks.summaries().into_iter();
    let summaries = summaries.map(|summary| OnChannel {
        channel: summary.channel.to_owned(),
        marks: summary.marks,
        apart: summary.gaps.as_ref().map(apart),
    });
    summaries.collect()
}

fn apart(stretches: &SpanStats) -> Apart {
    let found = &stretches.distribution;
    Apart {
        n: found.n,
        min_ns: found.min,
        median_ns: found.median,
        mean_ns: found.mean,
        mode_ns: found.mode,
        deviation_ns: found.deviation,
        max_ns: stretches.max,
    }
}

/// The marks that are listed: in output for programs all of them, unless a number is given.
fn rows(marks: &Marks, options: &args::Timeline, output: &Output) -> Vec<Marked> {
    let most = match options.rows {
        Some(0) => usize::MAX,
        None if output.is_csv() => usize::MAX,
        rows => rows.unwrap_or(20),
    };
    marks.rows().take(most).map(|row| Marked::of(&row)).collect()
}

impl Marked {
    fn of(row: &MarkRow<'_>) -> Self {
        Self {
            number: row.number,
            time_ns: row.time_ns,
            channel: row.channel.to_owned(),
            value: row.value,
            process: row.process,
            thread: row.thread,
            on_channel_ns: row.on_channel_ns,
            on_any_ns: row.on_any_ns,
        }
    }
}

fn ticks(marks: &Marks, width: Duration, columns: usize) -> Ticks {
    let summaries = marks.summaries();
    let names = summaries.iter().map(|summary| Shown(summary.channel).to_string().chars().count());
    let room = columns.saturating_sub(names.max().unwrap_or(0).min(text::NAME) + text::GAP);
    let tick_ns = u64::try_from(width.as_nanos()).unwrap_or(u64::MAX);
    let strip = marks.strip(tick_ns, room.max(text::LEAST));
    let rows = strip
        .tracks
        .into_iter()
        .map(|(channel, marks)| TickRow { channel: channel.to_owned(), marks });
    Ticks {
        tick_ns: strip.tick_ns,
        from_ns: strip.from_ns,
        rows: rows.collect(),
        left_out: strip.omitted_columns,
    }
}

fn cells(ticks: &Ticks) -> Vec<Cell<'_>> {
    let cells = ticks.rows.iter().flat_map(|row| {
        let cells = (0..).zip(&row.marks);
        cells.map(|(column, &marks)| Cell {
            channel: &row.channel,
            time_ns: ticks.from_ns.saturating_add(ticks.tick_ns.saturating_mul(column)),
            marks,
        })
    });
    cells.collect()
}

fn between(marks: &Marks, options: &args::Timeline) -> Result<Option<Between>> {
    let Some(asked) = args::joined(&options.between) else {
        return Ok(None);
    };
    let names: Vec<&str> = asked.split(',').map(str::trim).collect();
    let &[from, to] = names.as_slice() else {
        return Err(Error::usage(
            format!("`--between {asked}` does not name two channels"),
            "Name the channel at which an interval begins and the one at which it ends: `--between begin,end`.",
        ));
    };
    for name in [from, to] {
        if !marks.has(name) {
            return Err(no_channel(name, marks));
        }
    }
    let found = marks.between(from, to);
    let lengths: Vec<u64> = found.intervals.iter().map(|one| one.length_ns).collect();
    let all: Vec<Stretch> = found.intervals.iter().map(Stretch::of).collect();
    let mut longest = all.clone();
    longest.sort_by_key(|one| std::cmp::Reverse(one.length_ns));
    longest.truncate(LONGEST);
    Ok(Some(Between {
        from: from.to_owned(),
        to: to.to_owned(),
        without_end: found.without_end,
        without_begin: found.without_begin,
        lengths: SpanStats::of(&lengths).as_ref().map(apart),
        longest,
        all,
    }))
}

fn no_channel(name: &str, marks: &Marks) -> Error {
    const TOLD: usize = 12;
    let summaries = marks.summaries();
    let names: Vec<&str> = summaries.iter().map(|one| one.channel).collect();
    let meant = did_you_mean(name, &names).map_or_else(String::new, |meant| meant + " ");
    let told = names.iter().take(TOLD).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(TOLD);
    let list = match (names.len(), more) {
        (0, _) => "There are no marks.".to_owned(),
        (_, 0) => format!("There are marks on {told}."),
        _ => format!("There are marks on {told} and {more} others."),
    };
    Error::usage(
        format!("`--between`: there is no mark on a channel `{name}`"),
        format!("{meant}{list}"),
    )
}

impl Stretch {
    fn of(interval: &Interval) -> Self {
        Self {
            begin_ns: interval.begin_ns,
            length_ns: interval.length_ns,
            value: interval.value,
            process: interval.process,
            thread: interval.thread,
        }
    }
}
