//! `halprof annotate`: the code of a function with the samples of each instruction.

use crate::Result;
use crate::output::{Output, thousands};
use crate::shown::Shown;
use crate::{args, filters};
use halprof_profile::annotate::{Annotated, Instruction, Target};
use halprof_profile::report::share::Share;
use halprof_profile::report::skid::Skid;
use halprof_profile::symbols::SymbolPath;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Columns of percentages that fit beside the code.
const SOURCES_SHOWN: usize = 3;

/// The longest source file that is read to show its lines: 16 MiB.
const LONGEST: u64 = 1 << 24;

#[derive(Serialize)]
struct Body {
    file: String,
    machine: String,
    flaw: Option<String>,
    module: String,
    symbol: String,
    image: String,
    address: String,
    /// Samples at no instruction of this code.
    between: u64,
    others: Vec<String>,
    warnings: Vec<String>,
    sources: Vec<Source>,
    instructions: Vec<Row>,
}

#[derive(Serialize)]
#[expect(
    clippy::struct_field_names,
    reason = "`source` is the field's name in every JSON object"
)]
struct Source {
    source: String,
    /// In the function.
    samples: u64,
    events: u64,
    /// In all that counts.
    all_samples: u64,
    skid: &'static str,
}

#[derive(Serialize)]
struct Row {
    address: String,
    bytes: String,
    text: String,
    file: Option<String>,
    line: Option<u32>,
    inlined: Vec<String>,
    /// In the order of `sources`.
    samples: Vec<u64>,
    events: Vec<u64>,
}

pub(crate) fn run(options: &args::Annotate, output: &Output) -> Result<u8> {
    let target = options
        .place
        .as_deref()
        .map_or(Target::Hottest, Target::parse);
    let filter = filters::filter(&options.filters)?;
    let path = options.naming.path();
    let annotated = Annotated::read(&options.file, &target, filter, &path)?;
    let status = filters::introduce(&annotated.recording, output);
    let warnings = warnings(&annotated);
    for warning in &warnings {
        output.warn(warning);
    }
    filters::note_symbols(&annotated.symbols, output);
    let modelled = annotated.recording.metadata.modelled;
    let body = body(options, &annotated, warnings);
    let sources = SourceLines::below(&path, &options.sources);
    output.result("annotate", modelled, &body, |_| text(&annotated, sources))?;
    Ok(status)
}

fn warnings(annotated: &Annotated) -> Vec<String> {
    let mut warnings = Vec::new();
    if annotated.between != 0 {
        warnings.push(format!(
            "{} samples are at addresses where no instruction of {} begins: other code ran there",
            annotated.between,
            annotated.code.file.display()
        ));
    }
    if !annotated.others.is_empty() {
        warnings.push(format!(
            "the name is also that of {}; `--module` chooses",
            annotated.others.join(", ")
        ));
    }
    warnings
}

fn body(options: &args::Annotate, annotated: &Annotated, warnings: Vec<String>) -> Body {
    let interface = &annotated.recording.metadata.interface;
    let sources = annotated.sources.iter().zip(&annotated.sums);
    let sources = sources.map(|(source, sum)| Source {
        source: source.name.to_string(),
        samples: sum.samples,
        events: sum.events,
        all_samples: source.sum.samples,
        skid: Skid::of(interface, source.sum.samples, source.addressed)
            .0
            .name(),
    });
    Body {
        file: options.file.display().to_string(),
        machine: annotated.recording.metadata.machine.clone(),
        flaw: annotated.recording.flaw(),
        module: annotated.code.module.to_string(),
        symbol: annotated.code.symbol.to_string(),
        image: annotated.code.file.display().to_string(),
        address: format!("{:#x}", annotated.code.start),
        between: annotated.between,
        others: annotated.others.clone(),
        warnings,
        sources: sources.collect(),
        instructions: annotated.instructions.iter().map(row).collect(),
    }
}

fn row(instruction: &Instruction) -> Row {
    let line = instruction.line.as_ref();
    Row {
        address: format!("{:#x}", instruction.address),
        bytes: hexadecimal(&instruction.bytes),
        text: instruction.text.clone(),
        file: line.map(|(file, _)| file.to_string()),
        line: line.map(|&(_, line)| line),
        inlined: instruction
            .inlined
            .iter()
            .map(ToString::to_string)
            .collect(),
        samples: instruction.sums.iter().map(|sum| sum.samples).collect(),
        events: instruction.sums.iter().map(|sum| sum.events).collect(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn text(annotated: &Annotated, mut lines: SourceLines) -> String {
    let code = &annotated.code;
    let (module, symbol) = (Shown(&code.module), Shown(&code.symbol));
    let mut text = format!("{module}!{symbol} at {:#x}\n", code.start);
    let shown = annotated.sources.len().min(SOURCES_SHOWN);
    let interface = &annotated.recording.metadata.interface;
    for (source, sum) in annotated.sources.iter().zip(&annotated.sums) {
        let share = Share::of(sum.samples, source.sum.samples);
        let (_, skid) = Skid::of(interface, source.sum.samples, source.addressed);
        text += &format!(
            "{}: {} samples here, {:.2} % of all; {skid}\n",
            Shown(&source.name),
            thousands(sum.samples),
            share.value * 100.0,
        );
    }
    if shown < annotated.sources.len() {
        text += &format!(
            "the columns are the first {shown} of {} sources; `--source` chooses\n",
            annotated.sources.len()
        );
    }
    text += "\n";
    let mut last = None;
    for instruction in &annotated.instructions {
        if instruction.line != last && instruction.line.is_some() {
            text += &format!("{}\n", lines.heading(instruction));
        }
        last.clone_from(&instruction.line);
        for (sum, all) in instruction.sums.iter().zip(&annotated.sums).take(shown) {
            text += &match sum.samples {
                0 => " ".repeat(17),
                samples => {
                    let share = Share::of(samples, all.samples).value * 100.0;
                    format!("{share:6.2} % {:>8}", thousands(samples))
                }
            };
        }
        text += &format!("  {:x}  {}\n", instruction.address, instruction.text);
    }
    text
}

/// The lines of source files, as far as they are on this machine.
struct SourceLines {
    /// Folders that the user named: nothing outside them is opened.
    folders: SymbolPath,
    read: HashMap<String, Vec<String>>,
}

impl SourceLines {
    fn below(path: &SymbolPath, folders: &[PathBuf]) -> Self {
        let mut all = path.clone();
        for folder in folders {
            all.add_folder(folder);
        }
        Self {
            folders: all,
            read: HashMap::new(),
        }
    }

    /// The file, the line and what it says.
    fn heading(&mut self, instruction: &Instruction) -> String {
        let Some((file, line)) = &instruction.line else {
            return String::new();
        };
        let folders = &self.folders;
        let lines = self.read.entry(file.to_string());
        let lines =
            lines.or_insert_with(|| folders.below(file).map_or_else(Vec::new, |at| read(&at)));
        let index = usize::try_from(*line).unwrap_or(usize::MAX).wrapping_sub(1);
        let said = lines.get(index).map_or("", String::as_str);
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let inlined = instruction.inlined.first();
        let inlined = inlined.map_or_else(String::new, |name| format!(" ({name}, inlined)"));
        Shown(format!("{name}:{line}{inlined}  {}", said.trim()))
            .to_string()
            .trim_end()
            .to_owned()
    }
}

/// The lines of a text file; none where there is no such file, or where it is no text.
fn read(path: &Path) -> Vec<String> {
    let readable = fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= LONGEST);
    let text = readable.then(|| fs::read_to_string(path).ok()).flatten();
    text.map_or_else(Vec::new, |text| text.lines().map(str::to_owned).collect())
}
