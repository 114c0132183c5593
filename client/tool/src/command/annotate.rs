//! `halprof annotate`: the code of a function with the samples of each instruction.

use crate::cli::args;
use crate::output::Output;
use crate::output::error::Result;
use crate::output::escape::Escaped;
use crate::output::names::abbreviated;
use crate::output::number::{counted, percent, thousands};
use crate::output::style::styled;
use crate::output::table::{Column, Layout, Width, cut};
use crate::results::{recording_warnings, simulated};
use crate::select::branches::left_out;
use crate::select::filters;
use crate::target::built_in;
use anstyle::{AnsiColor, Style};
use halprof_profile::aggregate::key::short_path;
use halprof_profile::aggregate::share::Share;
use halprof_profile::aggregate::totals::Totals;
use halprof_profile::symbols::{Code, Opened, SymbolPath, qualified};
use halprof_profile::views::annotate::{Annotated, Flow, Instruction, Jump, Target};
use halprof_profile::views::report::skid::Skid;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The smallest width for addresses and instructions.
const CODE_COLUMNS: usize = 40;

const HOT: Style = AnsiColor::Red.on_default();
const WARM: Style = AnsiColor::Green.on_default();

/// The largest source file that is read to show its lines: 16 MiB.
const LONGEST: u64 = 1 << 24;

#[derive(JsonSchema, Serialize)]
pub(crate) struct AnnotateResult {
    file: String,
    machine: String,
    /// Why this is not the whole recording.
    damaged: Option<String>,
    module: String,
    symbol: String,
    image: String,
    address: String,
    /// Other names of the same code: aliases, and functions that the linker folded into it.
    also: Vec<String>,
    /// Samples at addresses where no instruction of this code begins.
    between: u64,
    others: Vec<String>,
    warnings: Vec<String>,
    sources: Vec<AnnotatedSource>,
    instructions: Vec<InstructionSamples>,
}

#[derive(JsonSchema, Serialize)]
struct AnnotatedSource {
    source: String,
    /// Samples in the function.
    samples: u64,
    events: u64,
    /// The processor time of the events; absent if the source does not sample time.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// All samples that count.
    all_samples: u64,
    skid: &'static str,
    /// Stretches of code between two branch records in the function, and the samples that have such
    /// stretches.
    stretches: u64,
    branched_samples: u64,
}

#[derive(JsonSchema, Serialize)]
struct InstructionSamples {
    address: String,
    bytes: String,
    text: String,
    file: Option<String>,
    line: Option<u32>,
    inlined: Vec<String>,
    /// In the order of `sources`.
    samples: Vec<u64>,
    events: Vec<u64>,
    /// How often it was executed between branch records; empty without these.
    executed: Vec<u64>,
    /// How often it branched.
    taken: Vec<u64>,
    /// How many of these branches were mispredicted; null if Windows' own tracing recorded them.
    mispredicted: Vec<Option<u64>>,
    /// How often a conditional jump was taken when it was executed; null for other instructions.
    taken_share: Vec<Option<Share>>,
}

/// The recordings that are summed up.
fn recordings(first: &Path, others: &[PathBuf]) -> Vec<PathBuf> {
    std::iter::once(first.to_owned()).chain(others.iter().cloned()).collect()
}

pub(crate) fn run(options: &args::Annotate, output: &Output) -> Result<u32> {
    let (file, location) = options.place();
    let target = location.map_or(Target::Hottest, Target::parse);
    let files = recordings(file, &options.with);
    let path = options.naming.path(output)?;
    let filter = filters::settled(&options.filters, &files, &path, output)?;
    let annotated = Annotated::read(&files, &target, &filter, &path);
    let annotated = annotated.inspect_err(|_| {
        if let [_, named @ ..] =
            filters::explain_empty_result(&options.filters, &files, &path).as_slice()
        {
            output.warn_all(named);
        }
    })?;
    let mut warnings = warnings(&annotated);
    warnings.extend(filters::given_twice(&files));
    let status = recording_warnings::print_warnings(
        &annotated.recording,
        &warnings,
        &annotated.symbols,
        output,
    );
    let result = result(&files, &annotated, warnings);
    let is_built_in = annotated.code.file == Path::new(built_in::NAME);
    let sources = SourceLines::below(&path, &options.sources, is_built_in);
    output.rows("annotate", (&result, &instruction_lines(&result)), |_| {
        text(&annotated, sources, output.width())
    })?;
    if let Some(line) = simulated(&annotated) {
        output.note(&format!("exact counts of each instruction: `{line}`"));
    }
    Ok(status)
}

/// The command that counts the function exactly, if its file can be run.
fn simulated(annotated: &Annotated) -> Option<String> {
    let Code { symbol, file, .. } = &annotated.code;
    let is_its_file = |module: &&Opened| module.image.as_ref() == Some(file);
    let module = annotated.symbols.iter().find(is_its_file)?;
    simulated::command(symbol, module, &annotated.recording.metadata)
}

/// The samples of one source at one instruction, a line of comma-separated values.
#[derive(JsonSchema, Serialize)]
struct InstructionLine<'a> {
    address: &'a str,
    bytes: &'a str,
    text: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    /// The innermost function that was inlined there.
    inline: Option<&'a str>,
    source: &'a str,
    samples: u64,
    events: u64,
    executed: Option<u64>,
    taken: Option<u64>,
    mispredicted: Option<u64>,
}

fn instruction_lines(result: &AnnotateResult) -> Vec<InstructionLine<'_>> {
    let mut lines = Vec::new();
    for row in &result.instructions {
        let sums = row.samples.iter().zip(&row.events).enumerate();
        for (source, (index, (&samples, &events))) in result.sources.iter().zip(sums) {
            lines.push(InstructionLine {
                address: &row.address,
                bytes: &row.bytes,
                text: &row.text,
                file: row.file.as_deref(),
                line: row.line,
                inline: row.inlined.first().map(String::as_str),
                source: &source.source,
                samples,
                events,
                executed: row.executed.get(index).copied(),
                taken: row.taken.get(index).copied(),
                mispredicted: row.mispredicted.get(index).copied().flatten(),
            });
        }
    }
    lines
}

fn warnings(annotated: &Annotated) -> Vec<String> {
    let mut warnings = Vec::new();
    if annotated.between != 0 {
        let range = if annotated.code.symbol.is_empty() {
            ", or the first address is within an instruction"
        } else {
            ""
        };
        warnings.push(format!(
            "{} samples are at addresses where no instruction of {} starts: other code ran there{range}",
            annotated.between,
            annotated.code.file.display()
        ));
    }
    if !annotated.others.is_empty() {
        warnings.push(format!(
            "the name also means {}; choose by one of these names",
            abbreviated(&annotated.others)
        ));
    }
    if let Some(runs) = &annotated.code_runs {
        warnings.extend(left_out(&runs.records, &annotated.recording));
        if runs.impossible != 0 {
            warnings.push(format!(
                "{} stretches between branch records cannot have run in this code and are left out",
                thousands(runs.impossible)
            ));
        }
    }
    warnings
}

fn result(files: &[PathBuf], annotated: &Annotated, warnings: Vec<String>) -> AnnotateResult {
    let interface = &annotated.recording.metadata.interface;
    let sources = annotated.sources.iter().zip(&annotated.sums).enumerate();
    let sources = sources.map(|(index, (source, sum))| {
        let (stretches, branched_samples) = annotated
            .code_runs
            .as_ref()
            .and_then(|runs| runs.per_source.get(index).copied())
            .unwrap_or_default();
        AnnotatedSource {
            source: source.name.to_string(),
            samples: sum.samples,
            events: sum.events,
            seconds: source.time.map(|time| time.seconds(sum.events)),
            all_samples: source.totals.samples,
            skid: Skid::of(interface, source.totals.samples, source.addressed).direction,
            stretches,
            branched_samples,
        }
    });
    AnnotateResult {
        file: filters::names(files),
        machine: annotated.recording.metadata.machine.clone(),
        damaged: annotated.recording.damaged(),
        module: annotated.code.module.to_string(),
        symbol: annotated.code.symbol.to_string(),
        image: annotated.code.file.display().to_string(),
        address: format!("{:#x}", annotated.code.start),
        between: annotated.between,
        also: annotated.also.iter().map(ToString::to_string).collect(),
        others: annotated.others.clone(),
        warnings,
        sources: sources.collect(),
        instructions: annotated
            .instructions
            .iter()
            .map(|instruction| instruction_samples(annotated, instruction))
            .collect(),
    }
}

fn instruction_samples(annotated: &Annotated, instruction: &Instruction) -> InstructionSamples {
    let line = instruction.line.as_ref();
    let flows = match annotated.code_runs {
        Some(_) => instruction.flows.as_slice(),
        None => &[],
    };
    let shares = (0..flows.len()).map(|source| annotated.taken(instruction, source));
    let has_predictions = annotated.recording.metadata.has_predictions();
    let mispredicted = |flow: &Flow| has_predictions.then_some(flow.mispredicted);
    InstructionSamples {
        address: format!("{:#x}", instruction.address),
        bytes: hexadecimal(&instruction.bytes),
        text: instruction.text.clone(),
        file: line.map(|(file, _)| file.to_string()),
        line: line.map(|&(_, line)| line),
        inlined: instruction.inlined.iter().map(ToString::to_string).collect(),
        samples: instruction.sums.iter().map(|sum| sum.samples).collect(),
        events: instruction.sums.iter().map(|sum| sum.events).collect(),
        executed: flows.iter().map(|flow| flow.executed).collect(),
        taken: flows.iter().map(|flow| flow.taken).collect(),
        mispredicted: flows.iter().map(mispredicted).collect(),
        taken_share: shares.collect(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// The sources that have room, the width of each one's columns, and the columns of all of them before
/// the code.
fn layout(annotated: &Annotated, width: Width) -> (usize, usize, Layout<'static>) {
    let mut columns =
        vec![(Column::number("share").coloured(), 8), (Column::number("samples").coloured(), 8)];
    if annotated.code_runs.is_some() {
        columns.extend([(Column::number("executed"), 9), (Column::number("taken").extra(), 7)]);
    }
    let of_source = columns.iter().map(|(_, width)| width + 2).sum();
    let sources = annotated.sources.len().min(width.room_for(of_source, CODE_COLUMNS));
    let mut columns = columns.repeat(sources);
    let last = annotated.instructions.last();
    let address = last.map_or(0, |last| format!("{:x}", last.address).len());
    let texts = annotated.instructions.iter().map(|instruction| instruction.text.len());
    let texts = texts.max().unwrap_or(0);
    columns.push((Column::word("address"), address));
    columns.push((Column::name("instruction"), texts));
    let remarks = annotated.instructions.iter().map(|one| remarks(annotated, one, sources).len());
    let remarks = remarks.max().unwrap_or(0);
    if remarks != 0 {
        // The code matters more than the remarks on it.
        columns.push((Column::name("remarks").extra(), remarks));
    }
    (sources, of_source, Layout::new(width, &columns))
}

fn text(annotated: &Annotated, mut lines: SourceLines, width: Width) -> String {
    let (sources, of_source, layout) = layout(annotated, width);
    let mut text = head(annotated, width);
    let all = annotated.sources.len();
    if sources < all {
        let columns =
            format!("The columns are those of {sources} of {all} sources: `--source` chooses.");
        text += &format!("{}\n", width.prose(0, &columns));
    }
    if annotated.code.file.as_os_str().is_empty() {
        return text;
    }
    text += "\n";
    if all > 1 {
        let names = annotated.sources.iter().take(sources).map(|source| {
            let name = Escaped(&source.name).to_string();
            format!("{:>1$}  ", cut(of_source - 2, &name), of_source - 2)
        });
        text += &format!("{}\n", names.collect::<String>().trim_end());
    }
    text += &layout.head();
    let mut last = None;
    for instruction in &annotated.instructions {
        let place = (&instruction.line, instruction.inlined.first());
        if last != Some(place) && instruction.line.is_some() {
            text += &width.left(0, &lines.heading(instruction));
            text += "\n";
        }
        last = Some(place);
        let mut cells = Vec::new();
        let sums = instruction.sums.iter().zip(&annotated.sums);
        for (source, (sum, all)) in sums.enumerate().take(sources) {
            cells.extend(heat(*sum, *all));
            if annotated.code_runs.is_some() {
                cells.extend(executions(annotated, instruction, source));
            }
        }
        cells.extend([format!("{:x}", instruction.address), instruction.text.clone()]);
        cells.push(remarks(annotated, instruction, sources));
        text += &layout.line(&cells);
    }
    text
}

/// How often an instruction was executed and, if it is a conditional jump, how often it was then
/// taken.
fn executions(annotated: &Annotated, instruction: &Instruction, source: usize) -> [String; 2] {
    let flow = instruction.flows.get(source).copied().unwrap_or_default();
    let times = if flow.executed == 0 { String::new() } else { thousands(flow.executed) };
    let taken = annotated.taken(instruction, source);
    [times, taken.map_or_else(String::new, |share| format!("{:.1} %", share.value * 100.0))]
}

/// How accurate that is, and how much was mispredicted: for each source shown, if the records say.
fn remarks(annotated: &Annotated, instruction: &Instruction, shown: usize) -> String {
    let mut remarks = Vec::new();
    for (source, flow) in instruction.flows.iter().enumerate().take(shown) {
        let taken = annotated.taken(instruction, source);
        let taken = taken.map(|share| format!("taken ±{:.1}", share.bound() * 100.0));
        let known = flow.predicted + flow.mispredicted;
        let mispredicted = (known != 0 && instruction.jump != Jump::Never).then(|| {
            let share = Share::of(flow.mispredicted, known).value * 100.0;
            format!("mispredicted {share:.1} %")
        });
        remarks.extend(taken.into_iter().chain(mispredicted));
    }
    remarks.join(", ")
}

/// What is annotated, and how many of each source's samples are in it.
fn head(annotated: &Annotated, width: Width) -> String {
    let code = &annotated.code;
    let name = match &*code.symbol {
        "" => Escaped(&code.module).to_string(),
        symbol => Escaped(qualified(&code.module, symbol)).to_string(),
    };
    let mut text = format!("{} at {:#x}\n", width.left(24, &name), code.start);
    if let Some(also) = also(annotated) {
        text += &format!("{}\n", width.prose(0, &also));
    }
    let interface = &annotated.recording.metadata.interface;
    let mut explanations = Vec::new();
    for (source, sum) in annotated.sources.iter().zip(&annotated.sums) {
        let share = Share::weighted(*sum, source.totals);
        let skid = Skid::of(interface, source.totals.samples, source.addressed).explanation;
        let all = format!(
            "{}: {} here, {:.2} % of all events\n",
            Escaped(&source.name),
            counted(sum.samples, "sample", "samples"),
            share.value * 100.0,
        );
        text += &width.fitted(&all);
        if !explanations.contains(&skid) {
            explanations.push(skid);
        }
    }
    if code.file.as_os_str().is_empty() {
        explanations.push("A runtime made this code while the program ran: it is in no file, and its instructions are not known.");
    }
    if annotated.code_runs.is_some() {
        explanations.push(
            "Executed: how often, as branch records prove, without skid. Mispredicted: share of \
             the times that it branched.",
        );
    }
    explanations.iter().fold(text, |text, line| text + &width.prose(0, line) + "\n")
}

/// The other names of the code: aliases, and functions that the linker folded into it.
fn also(annotated: &Annotated) -> Option<String> {
    let names: Vec<String> = annotated.also.iter().map(|name| Escaped(name).to_string()).collect();
    (!names.is_empty()).then(|| format!("also {}", abbreviated(&names)))
}

/// The share of a source's events at an instruction, and its samples, coloured by heat: red from 5 %,
/// green from 0.5 %, as in perf.
fn heat(sum: Totals, all: Totals) -> [String; 2] {
    if sum.samples == 0 {
        return Default::default();
    }
    let share = Share::weighted(sum, all).value;
    let cells = [percent(share), thousands(sum.samples)];
    match share {
        0.05.. => cells.map(|cell| styled(HOT, &cell)),
        0.005.. => cells.map(|cell| styled(WARM, &cell)),
        _ => cells,
    }
}

/// The lines of source files, if they are on this machine.
struct SourceLines {
    /// Folders that the user named: nothing outside them is opened.
    folders: SymbolPath,
    /// Whether they are of the program that modelled machines run.
    is_built_in: bool,
    read: HashMap<String, Vec<String>>,
}

impl SourceLines {
    fn below(path: &SymbolPath, folders: &[PathBuf], is_built_in: bool) -> Self {
        let mut all = path.clone();
        for folder in folders {
            all.add_folder(folder);
        }
        Self { folders: all, is_built_in, read: HashMap::new() }
    }

    /// The file, the line number and the line's text.
    fn heading(&mut self, instruction: &Instruction) -> String {
        let Some((file, line)) = &instruction.line else {
            return String::new();
        };
        let folders = &self.folders;
        let lines = self.read.entry(file.to_string());
        let own = || built_in::source(file).filter(|_| self.is_built_in);
        let lines = lines.or_insert_with(|| match own() {
            Some(text) => text.lines().map(str::to_owned).collect(),
            None => folders.below(file).map_or_else(Vec::new, |at| read(&at)),
        });
        let index = usize::try_from(*line).unwrap_or(usize::MAX).wrapping_sub(1);
        let said = lines.get(index).map_or("", String::as_str);
        let name = short_path(file);
        let inlined = instruction.inlined.first();
        let inlined = inlined.map_or_else(String::new, |name| format!(" ({name}, inlined)"));
        Escaped(format!("{name}:{line}{inlined}  {}", said.trim()))
            .to_string()
            .trim_end()
            .to_owned()
    }
}

/// The lines of a text file; none if there is no such file, or if it is no text.
fn read(path: &Path) -> Vec<String> {
    let readable = fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= LONGEST);
    let text = readable.then(|| fs::read_to_string(path).ok()).flatten();
    text.map_or_else(Vec::new, |text| text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style::plain;
    use crate::screen::{WIDTHS, assert_screen};
    use halprof_profile::aggregate::source_totals::SourceTotals;
    use halprof_profile::file::{Metadata, Recording};
    use halprof_profile::views::annotate::{CodeRunSummary, Flow};

    /// A loop of four instructions, one of them hot and one cold.
    fn example(names: &[&str]) -> Annotated {
        let sum = |samples| Totals::alike(samples, 1000);
        let source = |name: &&str| SourceTotals {
            name: (*name).into(),
            period: Some(1000),
            totals: sum(20_000),
            addressed: 20_000,
            ..SourceTotals::default()
        };
        let code = [
            (0x0000_7ff6_1234_1000, 41, "mov       eax, [rcx+8]", 90),
            (
                0x0000_7ff6_1234_1003,
                42,
                "vfmadd231pd ymm0, ymm1, [rdx+rax*8+0000000000001234h]",
                8000,
            ),
            (0x0000_7ff6_1234_100c, 42, "dec       eax", 0),
            (0x0000_7ff6_1234_100e, 43, "jne       short 00007FF612341003h", 20),
        ];
        let instructions = code.map(|(address, line, text, samples)| Instruction {
            address,
            bytes: Vec::new(),
            text: text.to_owned(),
            line: Some(("solver.cpp".into(), line)),
            inlined: Vec::new(),
            sums: vec![sum(samples); names.len()],
            jump: Jump::Never,
            flows: vec![Flow::default(); names.len()],
        });
        Annotated {
            recording: Recording {
                metadata: Metadata {
                    interface: "Emon".to_owned(),
                    ..Metadata::default()
                },
                ..Recording::default()
            },
            sources: names.iter().map(source).collect(),
            code: Code {
                module: "game.exe".into(),
                symbol: "world::physics::Solver<world::physics::Contact<double, 3>>::step(std::chrono::duration<float>)".into(),
                start: 0x0000_7ff6_1234_1000,
                end: 0x0000_7ff6_1234_1000 + 8,
                bytes: Vec::new(),
                bitness: 64,
                file: "game.exe".into(),
            },
            sums: vec![sum(8110); names.len()],
            instructions: instructions.to_vec(),
            between: 0,
            also: Vec::new(),
            others: Vec::new(),
            symbols: Vec::new(),
            code_runs: None,
        }
    }

    /// The same, with branch records: the loop branches back 15,000 times out of 16,000.
    fn branched(names: &[&str]) -> Annotated {
        let mut annotated = example(names);
        for (index, instruction) in annotated.instructions.iter_mut().enumerate() {
            instruction
                .flows
                .fill(Flow { executed: if index == 0 { 1000 } else { 16_000 }, ..Flow::default() });
        }
        if let Some(last) = annotated.instructions.last_mut() {
            last.jump = Jump::Sometimes;
            last.flows.fill(Flow {
                executed: 16_000,
                taken: 15_000,
                predicted: 14_700,
                mispredicted: 300,
            });
        }
        annotated.code_runs = Some(CodeRunSummary {
            per_source: vec![(31_000, 1000); names.len()],
            ..CodeRunSummary::default()
        });
        annotated
    }

    fn drawn(annotated: &Annotated, columns: usize) -> String {
        text(
            annotated,
            SourceLines::below(&SymbolPath::default(), &[], false),
            Width::of(Some(columns)),
        )
    }

    #[test]
    fn screens_are_as_expected() {
        for columns in WIDTHS {
            for (name, annotated) in [
                ("annotate", example(&["TotalCycles", "CacheMisses"])),
                ("annotate-branches", branched(&["TotalCycles"])),
            ] {
                let text = plain(&drawn(&annotated, columns));
                assert_screen(&format!("{name}-{columns}"), &text, columns);
            }
        }
    }

    #[test]
    fn what_is_hot_is_red_and_what_is_cold_is_plain() {
        let text = drawn(&example(&["TotalCycles"]), 120);
        let line = |part: &str| text.lines().find(|line| line.contains(part)).expect("a line");
        assert!(line("vfmadd").contains(&HOT.render().to_string()), "{text:?}");
        assert!(line("mov ").contains(&WARM.render().to_string()), "{text:?}");
        for cold in ["dec ", "jne "] {
            assert!(!line(cold).contains('\u{1b}'), "{text:?}");
        }
    }
}
