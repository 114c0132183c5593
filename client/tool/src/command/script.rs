//! `halprof script`: the samples of a recording, one per line, each with its call stack below.

use crate::cli::args;
use crate::output::csv::{Csv, no_formula};
use crate::output::error::{Error, Result};
use crate::output::escape::Escaped;
use crate::output::table::{Column, Layout, Width};
use crate::output::{JsonLines, Output};
use crate::results::recording_warnings;
use crate::select::filters;
use csv::Writer;
use halprof_profile::aggregate::key::INLINED;
use halprof_profile::file::{NO_PROCESS, Recording, mode_of};
use halprof_profile::symbols::{Frame, qualified};
use halprof_profile::views::script::{self, Caller, ScriptLine};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::iter::once;
use std::mem;

/// How many bytes are written at once.
const BLOCK: usize = 1 << 16;

/// One sample.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SampleLine<'a> {
    time_ns: u64,
    processor: u32,
    /// Null if nothing in a trace names it.
    process: Option<u32>,
    process_name: Option<&'a str>,
    thread: u32,
    /// The name that its program gave it; null if it has none.
    thread_name: Option<&'a str>,
    source: &'a str,
    /// The period with which it was taken, in events.
    period: u64,
    mode: &'static str,
    #[serde(serialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    address: u64,
    module: &'a str,
    symbol: Option<&'a str>,
    /// The offset of the address from the start of the symbol, or of the module if no symbol is known;
    /// null if no module is.
    offset: Option<u64>,
    /// The events that it stands for: its period, scaled to the whole time if its source took turns
    /// on the counters, rounded. Their sum is that of `report` but for half an event a sample.
    events: u64,
    /// The functions that the compiler inlined into the symbol there, innermost first. CSV has none of
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inlined: Vec<&'a str>,
    /// Who called it, innermost first, where there are call stacks. CSV has none of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    callers: Vec<CallerLine<'a>>,
}

/// A caller of a sample's code.
#[derive(JsonSchema, Serialize)]
struct CallerLine<'a> {
    /// The address that it is returned to. The module and the symbol are those of the call before it.
    #[serde(serialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    address: u64,
    module: &'a str,
    symbol: Option<&'a str>,
    /// The offset of the address, as that of a sample.
    offset: Option<u64>,
    /// The functions that the compiler inlined into the symbol there, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inlined: Vec<&'a str>,
}

pub(crate) fn run(options: &args::Script, output: &Output) -> Result<u32> {
    if output.is_json() && !options.jsonl {
        return Err(Error::usage(
            "`script` does not print one JSON object",
            "Use `--jsonl`: one object per sample.",
        ));
    }
    let path = options.naming.path(output)?;
    let files = std::slice::from_ref(&options.file);
    let filter = filters::settled(&options.filters, files, &path, output)?;
    let mut writer = LineWriter::new(output)?;
    let (mut going, mut passed) = (Ok(true), false);
    let query = script::Query { filter, callers: !output.is_csv() };
    let recording = script::each_sample(&options.file, &query, &path, |recording, line| {
        output.set_modelled(recording.metadata.modelled);
        passed = true;
        going = writer.add(line);
        matches!(going, Ok(true))
    })?;
    if going? {
        writer.print()?;
    }
    warn_of_slices(&recording, output);
    let mut warnings: Vec<String> =
        recording_warnings::without_samples(&recording, files).into_iter().collect();
    if !passed && recording.samples != 0 {
        warnings.extend(filters::explain_empty_result(&options.filters, files, &path));
    }
    Ok(recording_warnings::print_warnings(&recording, &warnings, &[], output))
}

/// Prints samples, many at once.
struct LineWriter<'a> {
    output: &'a Output,
    form: LineForm,
    /// What is not printed yet, unless it is CSV.
    block: Vec<u8>,
}

enum LineForm {
    Csv(Box<Writer<Vec<u8>>>),
    /// `None` before the first sample: its recording says whether a machine is modelled.
    Json(Option<JsonLines>),
    Text(Layout<'static>, CallerLines),
}

impl<'a> LineWriter<'a> {
    fn new(output: &'a Output) -> Result<Self> {
        let mut block = Vec::new();
        let form = if output.is_csv() {
            output.print_data(&columns().head()?)?;
            LineForm::Csv(Box::new(Writer::from_writer(Vec::new())))
        } else if output.is_json() {
            LineForm::Json(None)
        } else {
            let layout = Layout::new(output.width(), &COLUMNS);
            block.extend(layout.head().into_bytes());
            LineForm::Text(layout, CallerLines::default())
        };
        Ok(Self { output, form, block })
    }

    /// Adds a sample; returns whether anybody reads on.
    fn add(&mut self, line: &ScriptLine<'_>) -> Result<bool> {
        let written = match &mut self.form {
            LineForm::Csv(writer) => {
                let written = row(line).write_cells(self.output.is_modelled(), writer);
                written.map_err(Error::internal)?;
                // But for the last few thousand, which it keeps to itself.
                writer.get_ref().len()
            }
            LineForm::Json(lines) => {
                let lines = match lines {
                    Some(lines) => lines,
                    None => lines.insert(self.output.json_lines("script")?),
                };
                lines.add(&row(line), &mut self.block)?;
                self.block.len()
            }
            LineForm::Text(layout, lines) => {
                self.block.extend(layout.line(&cells(line)).into_bytes());
                lines.add(line, self.output.width(), &mut self.block);
                self.block.len()
            }
        };
        if written < BLOCK { Ok(true) } else { self.print() }
    }

    fn print(&mut self) -> Result<bool> {
        let (block, is_csv) = match &mut self.form {
            LineForm::Csv(writer) => {
                let writer = mem::replace(&mut **writer, Writer::from_writer(Vec::new()));
                (writer.into_inner().map_err(Error::internal)?, true)
            }
            _ => (mem::take(&mut self.block), false),
        };
        let text = String::from_utf8(block).map_err(Error::internal)?;
        self.output.print_stream(&text, is_csv)
    }
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
    if let Some(warning) = recording_warnings::multiplexing_warning(&parts, what) {
        output.warn(&warning);
    }
}

fn row<'a>(line: &'a ScriptLine<'_>) -> SampleLine<'a> {
    let mode = mode_of(line.sample.mode);
    SampleLine {
        time_ns: line.time_ns,
        processor: line.sample.processor,
        process: Some(line.sample.process).filter(|&process| process != NO_PROCESS),
        process_name: line.process,
        thread: line.sample.thread,
        thread_name: line.thread,
        source: &line.source,
        period: line.sample.period,
        mode: mode.name(),
        address: line.sample.ip,
        module: &line.frame.module,
        symbol: line.frame.symbol.as_deref(),
        offset: line.frame.offset,
        events: line.events,
        inlined: inlined(line.frame),
        callers: line.callers.iter().map(caller_line).collect(),
    }
}

/// The columns of CSV: those of the type, but for what a sample has any number of.
fn columns() -> Csv {
    Csv::new::<SampleLine<'_>>(&["inlined", "callers"])
}

impl SampleLine<'_> {
    /// Writes the cells of [`columns`]. All other tables go by way of a tree of JSON, which knows the
    /// columns by itself; there are as many of these rows as samples, and for ten million of them the
    /// trees took 10 s of 11.
    fn write_cells(&self, modelled: bool, writer: &mut Writer<Vec<u8>>) -> csv::Result<()> {
        let mut number = itoa::Buffer::new();
        let (address, length) = hexadecimal_digits(self.address);
        writer.write_field(number.format(self.time_ns))?;
        writer.write_field(number.format(self.processor))?;
        writer.write_field(self.process.map_or("", |process| number.format(process)))?;
        writer.write_field(&*no_formula(self.process_name.unwrap_or_default()))?;
        writer.write_field(number.format(self.thread))?;
        writer.write_field(&*no_formula(self.thread_name.unwrap_or_default()))?;
        writer.write_field(&*no_formula(self.source))?;
        writer.write_field(number.format(self.period))?;
        writer.write_field(self.mode)?;
        writer.write_field(&address[..length])?;
        writer.write_field(&*no_formula(self.module))?;
        writer.write_field(&*no_formula(self.symbol.unwrap_or_default()))?;
        writer.write_field(self.offset.map_or("", |offset| number.format(offset)))?;
        writer.write_field(number.format(self.events))?;
        writer.write_field(if modelled { "true" } else { "false" })?;
        writer.write_record(None::<&[u8]>)
    }
}

/// An address as `0x1000` and how long that is, digit by digit: every row has one.
fn hexadecimal_digits(address: u64) -> ([u8; 18], usize) {
    let mut text = *b"0x0000000000000000";
    let length = 3 + (address | 1).ilog2() as usize / 4;
    for (at, digit) in text[2..length].iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(address >> (4 * at)) as usize % 16];
    }
    (text, length)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn hexadecimal<S: Serializer>(
    address: &u64,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    let (text, length) = hexadecimal_digits(*address);
    serializer.serialize_str(std::str::from_utf8(&text[..length]).unwrap_or_default())
}

fn caller_line<'a>(&Caller { address, frame, at, .. }: &Caller<'a>) -> CallerLine<'a> {
    let (module, symbol) = (&*frame.module, frame.symbol.as_deref());
    let offset = frame.offset.map(|offset| offset.wrapping_add(address.wrapping_sub(at)));
    CallerLine { address, module, symbol, offset, inlined: inlined(frame) }
}

fn inlined(frame: &Frame) -> Vec<&str> {
    frame.inlined.iter().map(|inlined| &*inlined.function).collect()
}

/// The columns for people, and their widths.
const COLUMNS: [(Column<'static>, usize); 7] = [
    (Column::number("time, s"), 13),
    (Column::number("cpu"), 4),
    (Column::name("process"), 20),
    (Column::number("thread").extra(), 7),
    (Column::name("source"), 16),
    (Column::number("address").extra(), 18),
    (Column::name("symbol"), 24),
];

fn cells(line: &ScriptLine<'_>) -> [String; COLUMNS.len()] {
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
        functions(line.frame).next().unwrap_or_default(),
    ]
}

/// The functions at an address, the innermost first; the last is the one that exists.
fn functions(frame: &Frame) -> impl Iterator<Item = String> {
    let inlined = frame.inlined.iter();
    let inlined =
        inlined.map(|inlined| format!("{}{INLINED}", qualified(&frame.module, &inlined.function)));
    inlined.chain(once(location(frame)))
}

fn location(frame: &Frame) -> String {
    match &frame.symbol {
        Some(symbol) => {
            let offset = frame.offset.unwrap_or(0);
            format!("{}+{offset:#x}", qualified(&frame.module, symbol))
        }
        None => frame.module.to_string(),
    }
}

/// The lines of callers so far, each made once: samples have most of them in common.
#[derive(Default)]
struct CallerLines(HashMap<(usize, u64), String>);

impl CallerLines {
    /// Adds the lines below a sample: who called it, innermost first. What it was inlined into has
    /// called it, too.
    fn add(&mut self, line: &ScriptLine<'_>, width: Width, block: &mut Vec<u8>) {
        let below = |address: u64, function: String| {
            let function = Escaped(function).to_string();
            format!("{address:>#INDENT$x}  {}\n", width.left(INDENT + 2, &function))
        };
        for function in functions(line.frame).skip(1) {
            block.extend_from_slice(below(line.sample.ip, function).as_bytes());
        }
        for &Caller { address, frame, code, .. } in &line.callers {
            let text = self.0.entry((code, address)).or_insert_with(|| {
                functions(frame).map(|function| below(address, function)).collect()
            });
            block.extend_from_slice(text.as_bytes());
        }
    }
}

/// Callers are indented so far that their addresses end there.
const INDENT: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    /// The fast way and the general one may not differ, nor the order of the fields and of the cells.
    #[test]
    fn a_line_is_that_of_any_table() {
        let full = SampleLine {
            time_ns: 1,
            processor: 2,
            process: Some(3),
            process_name: Some("a,b"),
            thread: 4,
            thread_name: Some("=worker"),
            source: "=source",
            period: u64::MAX,
            mode: "user",
            address: 0xABC0_1234,
            module: "module \"x\"",
            symbol: Some("-[View draw]"),
            offset: Some(7),
            events: 8,
            inlined: Vec::new(),
            callers: Vec::new(),
        };
        let empty = SampleLine {
            process: None,
            process_name: None,
            thread_name: None,
            source: "",
            address: 0,
            module: "",
            symbol: None,
            offset: None,
            inlined: Vec::new(),
            callers: Vec::new(),
            ..full
        };
        for line in [full, empty] {
            for modelled in [false, true] {
                let mut writer = Writer::from_writer(Vec::new());
                line.write_cells(modelled, &mut writer).expect("written");
                let written = String::from_utf8(writer.into_inner().expect("bytes"));
                let expected = columns().lines(&[&line], modelled).expect("lines");
                assert_eq!(written.expect("text"), expected);
            }
        }
    }
}
