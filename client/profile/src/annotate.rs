//! The code of one function, and the samples of each of its instructions.

use crate::recording::Recording;
use crate::report::filter::{Filter, Pattern};
use crate::report::tally::Place;
use crate::report::{Hits, OfSource, Sum};
use crate::symbols::{Code, Frame, Opened, SymbolPath, Symbols};
use halprof_measure::{Error, Result};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use rustc_hash::FxHashMap;
use shared_types::Mode;
use std::path::Path;
use std::sync::Arc;

/// Which function is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one with the most samples.
    Hottest,
    /// One of that name; the one with the most samples, if there are several.
    Symbol(Pattern),
    /// The one that an address is in.
    Address(u64),
}

impl Target {
    /// Of what a user types: hexadecimal with `0x` is an address.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let address = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        address.map_or_else(|| Self::Symbol(Pattern::new(text)), Self::Address)
    }
}

/// A function with its samples.
#[derive(Clone, Debug)]
pub struct Annotated {
    /// What the file has beside its samples.
    pub recording: Recording,
    /// The sources that have samples in the recording, the one with the most first.
    pub sources: Vec<OfSource>,
    /// The function and its code.
    pub code: Code,
    /// All samples in the function, by source in the order of `sources`.
    pub sums: Vec<Sum>,
    /// Its instructions, in order.
    pub instructions: Vec<Instruction>,
    /// Samples at addresses where no instruction begins: the code is not what ran.
    pub between: u64,
    /// Other functions of that name that have samples, with their modules.
    pub others: Vec<String>,
    /// The modules whose symbols were needed.
    pub symbols: Vec<Opened>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// As an assembler reads it, in Intel's syntax.
    pub text: String,
    /// The source file and line, if they are known.
    pub line: Option<(Arc<str>, u32)>,
    /// The function that the compiler put there, innermost first.
    pub inlined: Vec<Arc<str>>,
    /// Its samples, by source.
    pub sums: Vec<Sum>,
}

/// A function that has samples, by its module and its name.
type Function = (Arc<str>, Arc<str>);

/// The samples of one function.
#[derive(Default)]
struct Found {
    /// An address in it.
    place: Option<Place>,
    samples: u64,
    /// By the offset from its start and the source.
    hits: FxHashMap<(u64, usize), Sum>,
}

impl Annotated {
    /// Reads a recording, and the code from the file that it ran from.
    pub fn read(
        path: &Path,
        target: &Target,
        filter: Filter,
        symbol_path: &SymbolPath,
    ) -> Result<Self> {
        let mut hits = Hits::read(path, filter, symbol_path)?;
        let mut functions = by_function(&mut hits);
        let (function, others) = chosen(target, &functions, &mut hits)?;
        let found = functions.remove(&function).unwrap_or_default();
        let (process, ip, mode) = match (target, found.place) {
            (_, Some(place)) => (place.process, place.ip, place.mode()),
            (&Target::Address(address), None) => owner(&hits.recording, address),
            _ => (0, 0, Mode::Unknown),
        };
        let code = hits.symbols.code(process, ip, mode);
        let code = code.map_err(|why| no_code(&function, &why, &hits))?;
        let sources = hits.sources.len();
        let mut instructions = disassembled(&code, sources);
        let between = distribute(&found, &code, &mut instructions);
        add_lines(&mut instructions, &mut hits.symbols, process, mode);
        let mut sums = vec![Sum::default(); sources];
        for (&(_, source), &sum) in &found.hits {
            if let Some(all) = sums.get_mut(source) {
                all.add(sum);
            }
        }
        Ok(Self {
            code,
            sums,
            instructions,
            between,
            others,
            symbols: hits.symbols.opened(),
            sources: hits.sources,
            recording: hits.recording,
        })
    }
}

/// All functions that have samples. What has no name is no function.
fn by_function(hits: &mut Hits) -> FxHashMap<Function, Found> {
    let mut functions: FxHashMap<Function, Found> = FxHashMap::default();
    for &(place, source, sum) in &hits.all {
        let frame = hits.symbols.frame(place.process, place.ip, place.mode());
        let Frame {
            module,
            symbol: Some(symbol),
            offset,
            ..
        } = frame
        else {
            continue;
        };
        let found = functions.entry((module, symbol)).or_default();
        found.place.get_or_insert(place);
        found.samples += sum.samples;
        found.hits.entry((offset, source)).or_default().add(sum);
    }
    functions
}

/// The function that is meant, and others that may be.
fn chosen(
    target: &Target,
    functions: &FxHashMap<Function, Found>,
    hits: &mut Hits,
) -> Result<(Function, Vec<String>)> {
    if let &Target::Address(address) = target {
        let (process, ip, mode) = owner(&hits.recording, address);
        let frame = hits.symbols.frame(process, ip, mode);
        let symbol = frame.symbol.unwrap_or_default();
        return Ok(((frame.module, symbol), Vec::new()));
    }
    let meant = |name: &str| match target {
        Target::Symbol(pattern) => pattern.matches_symbol(name),
        _ => true,
    };
    let mut meant: Vec<_> = functions
        .iter()
        .filter(|((_, name), _)| meant(name))
        .collect();
    meant.sort_by(|a, b| b.1.samples.cmp(&a.1.samples).then_with(|| a.0.cmp(b.0)));
    let Some((&(function, _), rest)) = meant.split_first() else {
        return Err(no_function(functions, hits));
    };
    let others = match target {
        Target::Symbol(_) => rest
            .iter()
            .map(|((module, name), _)| format!("{module}!{name}")),
        _ => return Ok((function.clone(), Vec::new())),
    };
    Ok((function.clone(), others.collect()))
}

/// A process that has a module at an address.
fn owner(recording: &Recording, address: u64) -> (u32, u64, Mode) {
    let mut modules = recording.modules.iter();
    let module = modules.find(|module| module.contains(address));
    let process = module.and_then(|module| module.process);
    let mode = match process {
        Some(_) => Mode::User,
        None => Mode::Kernel,
    };
    (process.unwrap_or(0), address, mode)
}

fn no_function(functions: &FxHashMap<Function, Found>, hits: &Hits) -> Error {
    let mut most: Vec<_> = functions.iter().collect();
    most.sort_by(|a, b| b.1.samples.cmp(&a.1.samples).then_with(|| a.0.cmp(b.0)));
    let most: Vec<String> = most
        .iter()
        .take(3)
        .map(|((module, name), _)| format!("{module}!{name}"))
        .collect();
    if most.is_empty() {
        let notes = notes(&hits.symbols);
        let hint = if hits.recording.metadata.modelled {
            "A model runs the code of a real file with `image=FILE` in `--workload`."
        } else {
            "Name the folder of the modules and their symbols with `--symbols`."
        };
        return Error::Unavailable {
            message: format!("no sample is in a function that has a name{notes}"),
            hint: hint.to_owned(),
        };
    }
    Error::usage(
        "no sample is in a function of that name",
        format!("The most are in {}.", most.join(", ")),
    )
}

fn no_code((module, name): &Function, why: &str, hits: &Hits) -> Error {
    let name = if name.is_empty() {
        "that address"
    } else {
        name
    };
    let modules = &hits.recording.modules;
    let path = modules.iter().find(|loaded| loaded.name == **module);
    let path = path.and_then(|loaded| loaded.path.clone());
    Error::BadFile {
        path: path.unwrap_or_else(|| module.to_string()).into(),
        why: format!("does not give the code of {name}: {why}"),
        hint: "The file that ran is needed, of the same build: put it into a folder that \
               `--symbols` names."
            .to_owned(),
    }
}

fn notes(symbols: &Symbols) -> String {
    let opened = symbols.opened();
    let notes = opened.iter().flat_map(|opened| &opened.notes);
    notes
        .take(3)
        .fold(String::new(), |text, note| text + "; " + note)
}

fn disassembled(code: &Code, sources: usize) -> Vec<Instruction> {
    let options = DecoderOptions::NONE;
    let mut decoder = Decoder::with_ip(code.bitness, &code.bytes, code.start, options);
    let mut formatter = intel();
    let mut all = Vec::new();
    while decoder.can_decode() {
        let at = decoder.position();
        let instruction = decoder.decode();
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let bytes = code.bytes.get(at..decoder.position()).unwrap_or_default();
        all.push(Instruction {
            address: instruction.ip(),
            bytes: bytes.to_vec(),
            text,
            line: None,
            inlined: Vec::new(),
            sums: vec![Sum::default(); sources],
        });
    }
    all
}

/// Intel's syntax with numbers as C writes them.
pub(crate) fn intel() -> IntelFormatter {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_space_after_operand_separator(true);
    formatter
}

/// Gives each instruction its samples; answers how many are at none.
fn distribute(found: &Found, code: &Code, instructions: &mut [Instruction]) -> u64 {
    let mut between = 0;
    for (&(offset, source), &sum) in &found.hits {
        let address = code.start.wrapping_add(offset);
        let at = instructions.binary_search_by_key(&address, |instruction| instruction.address);
        let sums = at
            .ok()
            .and_then(|at| instructions.get_mut(at)?.sums.get_mut(source));
        match sums {
            Some(sums) => sums.add(sum),
            None => between += sum.samples,
        }
    }
    between
}

fn add_lines(instructions: &mut [Instruction], symbols: &mut Symbols, process: u32, mode: Mode) {
    for instruction in instructions {
        let frame = symbols.frame(process, instruction.address, mode);
        instruction.line = frame.file.zip(frame.line);
        let inlined = frame
            .inlined
            .iter()
            .map(|inlined| Arc::clone(&inlined.function));
        instruction.inlined = inlined.collect();
    }
}
