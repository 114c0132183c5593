//! `halprof script`: the samples of a recording, one per line, each with its call stack below.

use crate::cli::args;
use crate::output::Output;
use crate::output::csv::Csv;
use crate::output::error::{Error, Result};
use crate::output::escape::Escaped;
use crate::output::table::{Column, Layout, Width};
use crate::select::filters;
use halprof_profile::file::Recording;
use halprof_profile::symbols::Frame;
use halprof_profile::views::script::{self, ScriptLine};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::Mode;

/// How many bytes are written at once.
const BLOCK: usize = 1 << 16;

/// One sample.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SampleLine<'a> {
    time_ns: u64,
    processor: u32,
    process: u32,
    process_name: Option<&'a str>,
    thread: u32,
    source: &'a str,
    /// The period with which it was taken, in events.
    period: u64,
    mode: &'static str,
    address: String,
    module: &'a str,
    symbol: Option<&'a str>,
    offset: u64,
    /// The events that it stands for: its period, scaled to the whole time if its source took turns
    /// on the counters, rounded. Their sum is that of `report` but for half an event a sample.
    events: u64,
    /// Who called it, innermost first, where there are call stacks. CSV has none of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    callers: Vec<CallerLine<'a>>,
}

/// A caller of a sample's code.
#[derive(JsonSchema, Serialize)]
struct CallerLine<'a> {
    /// The address that it is returned to. The rest is of the call before it.
    address: String,
    module: &'a str,
    symbol: Option<&'a str>,
    offset: u64,
}

pub(crate) fn run(options: &args::Script, output: &Output) -> Result<u32> {
    if output.is_json() && !options.jsonl {
        return Err(Error::usage(
            "`script` does not print one JSON object",
            "Use `--jsonl`: one object per sample.",
        ));
    }
    let filter = filters::filter(&options.filters, std::slice::from_ref(&options.file))?;
    let path = options.naming.path()?;
    let mut block = String::new();
    let csv = output.is_csv().then(|| Csv::new::<SampleLine<'_>>(&["callers"]));
    let lines = Layout::new(output.width(), &COLUMNS);
    if let Some(csv) = &csv {
        block += &csv.head()?;
    } else if !options.jsonl {
        block += &lines.head();
    }
    let mut going = Ok(true);
    let recording = script::each_sample(&options.file, &filter, &path, |recording, line| {
        output.set_modelled(recording.metadata.modelled);
        let text = match (&csv, options.jsonl) {
            (Some(csv), _) => csv.lines(&[row(&line)], output.is_modelled()),
            (_, true) => output.document("script", row(&line)),
            _ => Ok(lines.line(&cells(&line)) + &callers(&line, output.width())),
        };
        going = text.and_then(|text| {
            block += &text;
            if block.len() < BLOCK {
                return Ok(true);
            }
            output.print_stream(&std::mem::take(&mut block), csv.is_some())
        });
        matches!(going, Ok(true))
    })?;
    if going? {
        output.print_stream(&block, csv.is_some())?;
    }
    warn_of_slices(&recording, output);
    Ok(filters::introduce(&recording, &[], &[], output))
}

/// Says which sources took turns: a sum of their periods is too small.
fn warn_of_slices(recording: &Recording, output: &Output) {
    let slices = recording.slices();
    let parts = slices.iter().filter_map(|(&source, slices)| {
        let source = recording.metadata.sources.get(usize::from(source))?;
        Some((source.name.clone(), slices.running_share()))
    });
    let parts: Vec<(String, f64)> = parts.collect();
    let what = "`events` is scaled up, `period` is not";
    if let Some(warning) = filters::took_turns(&parts, what) {
        output.warn(&warning);
    }
}

fn row(line: &ScriptLine) -> SampleLine<'_> {
    let mode = Mode::from_wire(line.sample.mode.into()).unwrap_or(Mode::Unknown);
    SampleLine {
        time_ns: line.time_ns,
        processor: line.sample.processor,
        process: line.sample.process,
        process_name: line.process.as_deref(),
        thread: line.sample.thread,
        source: &line.source,
        period: line.sample.period,
        mode: mode.name(),
        address: format!("{:#x}", line.sample.ip),
        module: &line.frame.module,
        symbol: line.frame.symbol.as_deref(),
        offset: line.frame.offset,
        events: line.events,
        callers: line.callers.iter().map(caller_line).collect(),
    }
}

fn caller_line((address, frame): &(u64, Frame)) -> CallerLine<'_> {
    CallerLine {
        address: format!("{address:#x}"),
        module: &frame.module,
        symbol: frame.symbol.as_deref(),
        offset: frame.offset,
    }
}

/// The columns for people, and their widths.
const COLUMNS: [(Column, usize); 7] = [
    (Column::number("time, s"), 13),
    (Column::number("cpu"), 4),
    (Column::name("process"), 20),
    (Column::number("thread").extra(), 7),
    (Column::name("source"), 16),
    (Column::number("address").extra(), 18),
    (Column::name("symbol"), 24),
];

fn cells(line: &ScriptLine) -> [String; COLUMNS.len()] {
    let sample = &line.sample;
    let process = match &line.process {
        Some(name) => format!("{name} ({})", sample.process),
        None => sample.process.to_string(),
    };
    let (seconds, rest) = (line.time_ns / 1_000_000_000, line.time_ns % 1_000_000_000);
    [
        format!("{seconds}.{:06}", rest / 1000),
        sample.processor.to_string(),
        process,
        sample.thread.to_string(),
        line.source.to_string(),
        format!("{:#x}", sample.ip),
        location(&line.frame),
    ]
}

fn location(frame: &Frame) -> String {
    match &frame.symbol {
        Some(symbol) => format!("{}!{symbol}+{:#x}", frame.module, frame.offset),
        None => frame.module.to_string(),
    }
}

/// The lines below a sample: who called it, innermost first.
fn callers(line: &ScriptLine, width: Width) -> String {
    let lines = line.callers.iter().map(|(address, frame)| {
        let location = Escaped(location(frame)).to_string();
        format!("{address:>#INDENT$x}  {}\n", width.left(INDENT + 2, &location))
    });
    lines.collect()
}

/// Callers are indented so far that their addresses end there.
const INDENT: usize = 24;
