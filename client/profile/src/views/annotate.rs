//! The code of one function, and the samples of each of its instructions.

use crate::aggregate::by_address::ByAddress;
use crate::aggregate::filter::{Filter, addresses};
use crate::aggregate::share::Share;
use crate::aggregate::source_totals::SourceTotals;
use crate::aggregate::source_totals::merge;
use crate::aggregate::totals::Totals;
use crate::file::combined::no_recording;
use crate::file::{Module, Recording};
use crate::symbols::code_location::CodeLocation;
use crate::symbols::{
    Code, FunctionPattern, ModuleBuild, NO_ADDRESS, NoCode, Opened, SymbolPath, Symbols, UNKNOWN,
    qualified,
};
use crate::views::branches::code::CodeRuns;
use halprof_measure::selection::parse_hexadecimal;
use halprof_measure::{Error, Hint, Remedy, Result};
use iced_x86::{
    Decoder, DecoderError, DecoderOptions, FlowControl, Formatter, IntelFormatter, Mnemonic,
};
use rustc_hash::FxHashMap;
use shared_types::Mode;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use crate::aggregate::branches::RecordCounts;
pub use crate::views::branches::code::CodeRunSummary;
pub use crate::views::instruction::{Flow, Instruction, Jump};

/// Which function to annotate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one with the most events of the first source.
    Hottest,
    /// The function of that name; the one with the most events, if there are several.
    Symbol(FunctionPattern),
    /// The function that contains an address.
    Address(u64),
    /// The code in a range of addresses, whatever functions are there.
    Range(Range<u64>),
}

impl Target {
    /// Parses what a user types: hexadecimal with `0x` is an address, and with `-ADDRESS` or
    /// `+LENGTH` behind it a range.
    pub fn parse(text: &str) -> Self {
        let range = || addresses(text).map(Self::Range);
        let address = parse_hexadecimal(text).map(Self::Address);
        address.or_else(range).unwrap_or_else(|| Self::Symbol(FunctionPattern::new(text)))
    }

    /// Its address, or its first one.
    const fn address(&self) -> Option<u64> {
        match self {
            Self::Hottest | Self::Symbol(_) => None,
            Self::Address(address) => Some(*address),
            Self::Range(range) => Some(range.start),
        }
    }
}

/// A function with its samples.
#[derive(Clone, Debug)]
pub struct Annotated {
    /// The recording without its samples.
    pub recording: Recording,
    /// The sources that have samples in the recording, those with the most samples first.
    pub sources: Vec<SourceTotals>,
    /// The function and its code.
    pub code: Code,
    /// All samples in the function, by source in the order of `sources`.
    pub sums: Vec<Totals>,
    /// Its instructions, in order.
    pub instructions: Vec<Instruction>,
    /// Samples at addresses where no instruction begins: this code is not the code that ran.
    pub between: u64,
    /// Other names of the same code: aliases, and functions that the linker folded into it.
    pub also: Vec<Arc<str>>,
    /// Other functions with samples that the name means, as they can be named.
    pub others: Vec<String>,
    /// The modules whose symbols were needed.
    pub symbols: Vec<Opened>,
    /// What branch records show about the function; `None` if none of them show the code between
    /// branches.
    pub code_runs: Option<CodeRunSummary>,
}

/// A function that has samples. Each build of a module is separate, because its code differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Function {
    module: Arc<str>,
    /// Empty for code without a name.
    symbol: Arc<str>,
    build: Option<ModuleBuild>,
    /// Where it starts in its module: static functions may share a name.
    start: u64,
    /// Other names of its code.
    also: Arc<[Arc<str>]>,
}

impl Function {
    /// The function at a location.
    fn at(location: CodeLocation, recording: &Recording, symbols: &mut Symbols) -> Self {
        let (process, ip, mode) = (location.process, location.ip, location.mode());
        let frame = symbols.frame(process, ip, mode);
        let module = symbols.module(process, ip, mode);
        let module = module.and_then(|module| recording.modules.get(module));
        let build = module.map(Module::build);
        let loaded = module.map_or(0, |module| module.start);
        Self {
            module: frame.module,
            symbol: frame.symbol.unwrap_or_default(),
            build,
            start: ip.wrapping_sub(loaded).wrapping_sub(frame.offset.unwrap_or(0)),
            also: frame.also,
        }
    }
}

/// An address, and the index of the recording that has it.
type RecordedLocation = (usize, CodeLocation);

/// Where a function has samples, and its events.
struct FunctionSamples {
    location: RecordedLocation,
    /// By source. The first decides which function is the hottest: events of different sources
    /// cannot be added up.
    events: Vec<u64>,
}

impl Annotated {
    /// Reads recordings, and the code from the file that ran. An address refers to the first
    /// recording.
    ///
    /// # Errors
    /// A recording cannot be read, none is given, no function matches, or its code is not
    /// available.
    pub fn read<P: AsRef<Path>>(
        paths: &[P],
        target: &Target,
        filter: &Filter,
        symbol_path: &SymbolPath,
    ) -> Result<Self> {
        let mut by_address = Vec::new();
        let (mut sources, mut functions) = (Vec::new(), FxHashMap::default());
        for (recording, path) in paths.iter().enumerate() {
            let mut one = ByAddress::read(path.as_ref(), filter, symbol_path)?;
            // Each recording numbers its sources for itself.
            let merged = merge(&mut sources, &one.sources);
            for (_, source, _) in &mut one.all {
                *source = merged.get(*source).copied().unwrap_or_default();
            }
            by_function(recording, &mut one, &mut functions);
            by_address.push(one);
        }
        // Code at an address can be shown where no sample is.
        if target.address().is_none() {
            with_samples(paths, &by_address)?;
        }
        let (function, (recording, location), others) =
            choose_function(target, &functions, &mut by_address)?;
        let own = by_address.get_mut(recording).ok_or_else(no_recording)?;
        let (process, ip, mode) = (location.process, location.ip, location.mode());
        let code = match target {
            Target::Range(range) => own.symbols.code_in(process, range, mode),
            Target::Address(_) | Target::Hottest | Target::Symbol(_) => {
                own.symbols.code(process, ip, mode)
            }
        };
        let code = code.map_err(|why| no_code(&function, &why, own))?;
        let mut instructions = disassembled(&code, sources.len());
        if let Target::Range(_) = target {
            check_end(&code, instructions.last())?;
        }
        add_lines(&mut instructions, &mut own.symbols, process, mode);
        let also = match target {
            Target::Range(_) => Vec::new(),
            _ => own.symbols.frame(process, code.start, mode).also.to_vec(),
        };
        let module = own.symbols.module(process, code.start, mode);
        let module = module.and_then(|module| own.recording.modules.get(module).cloned());
        let mut sums = vec![Totals::default(); sources.len()];
        let between =
            add_samples(&code, module.as_ref(), &by_address, &mut sums, &mut instructions);
        let code_runs =
            code_runs(paths, filter, module.as_ref(), &code, &sources, &mut by_address)?;
        let code_runs = code_runs.map(|all| all.apply_to(code.start, &mut instructions));
        Ok(Self {
            code,
            also,
            sums,
            instructions,
            between,
            others,
            code_runs,
            symbols: by_address.iter().flat_map(ByAddress::opened).collect(),
            sources,
            recording: Recording::combined(
                by_address.into_iter().map(|one| one.recording).collect(),
            )
            .ok_or_else(no_recording)?,
        })
    }

    /// How often a conditional jump was taken when it was executed, by the records of a source. The
    /// records of one sample are not independent, so the bounds are computed for as many executions
    /// as there would be with one run per sample.
    pub fn taken(&self, instruction: &Instruction, source: usize) -> Option<Share> {
        let summary = self.code_runs.as_ref()?;
        let flow = instruction.flows.get(source)?;
        let &(code_runs, samples) = summary.per_source.get(source)?;
        let groups = u128::from(flow.executed) * u128::from(samples);
        let groups = groups.checked_div(code_runs.into())?.max(1);
        let conditional = instruction.jump == Jump::Sometimes && flow.executed != 0;
        conditional.then(|| {
            let groups = u64::try_from(groups).unwrap_or(u64::MAX);
            Share::of_groups(flow.taken, flow.executed, groups)
        })
    }
}

/// The runs that the branch records of the recordings show in a function's code; `None` if
/// there are no records, or if they leave out some kinds of branches.
fn code_runs<P: AsRef<Path>>(
    paths: &[P],
    filter: &Filter,
    own: Option<&Module>,
    code: &Code,
    sources: &[SourceTotals],
    by_address: &mut [ByAddress],
) -> Result<Option<CodeRuns>> {
    let tells = |by_address: &ByAddress| {
        by_address.recording.branches != 0 && by_address.recording.metadata.has_straight_code()
    };
    let Some(own) = own.filter(|_| by_address.iter().any(tells)) else {
        return Ok(None);
    };
    let start = code.start.wrapping_sub(own.start);
    let end = start.saturating_add(code.bytes.len() as u64);
    let mut all = CodeRuns::new(start..end, sources.len());
    let is_own = |module: &Module| module.is_same_build(own);
    for (path, by_address) in
        paths.iter().zip(by_address).filter(|(_, by_address)| tells(by_address))
    {
        let ByAddress { recording, symbols, .. } = by_address;
        let source = |index: u16| {
            let own = recording.metadata.sources.get(usize::from(index))?;
            sources.iter().position(|source| *source.name == *own.name)
        };
        all.add(path.as_ref(), filter, (&*recording, symbols), source, is_own)?;
    }
    Ok(Some(all))
}

/// Adds the samples at the addresses of code, of all recordings that have the same build of its module,
/// to its instructions and to `sums`, by source; returns how many are where no instruction begins.
fn add_samples(
    code: &Code,
    own: Option<&Module>,
    by_address: &[ByAddress],
    sums: &mut [Totals],
    instructions: &mut [Instruction],
) -> u64 {
    let mut between = 0;
    let Some(own) = own else {
        add_samples_of_method(code, by_address, sums);
        return between;
    };
    let first = code.start.wrapping_sub(own.start);
    for one in by_address {
        for &(location, source, totals) in &one.all {
            let module = one.module(location).filter(|module| module.is_same_build(own));
            let Some(module) = module else {
                continue;
            };
            let offset = location.ip.wrapping_sub(module.start).wrapping_sub(first);
            if offset >= code.bytes.len() as u64 {
                continue;
            }
            if let Some(sum) = sums.get_mut(source) {
                sum.add(totals);
            }
            let address = code.start.wrapping_add(offset);
            let at = instructions.binary_search_by_key(&address, |instruction| instruction.address);
            match at.ok().and_then(|at| instructions.get_mut(at)?.sums.get_mut(source)) {
                Some(sum) => sum.add(totals),
                None => between += totals.samples,
            }
        }
    }
    between
}

/// Adds the samples in a method that is in no file to `sums`, by source: of all processes that have it
/// at these addresses.
fn add_samples_of_method(code: &Code, by_address: &[ByAddress], sums: &mut [Totals]) {
    for one in by_address {
        for &(location, source, totals) in &one.all {
            let method = one.symbols.method(location.process, location.ip, location.mode());
            let is_own = method.is_some_and(|method| {
                (method.start, method.end, &method.name) == (code.start, code.end, &code.symbol)
            });
            if let Some(sum) = sums.get_mut(source).filter(|_| is_own) {
                sum.add(totals);
            }
        }
    }
}

/// Refuses a range whose end cuts its last instruction.
fn check_end(code: &Code, last: Option<&Instruction>) -> Result<()> {
    let Some(last) = last else {
        return Err(Error::usage("the range is empty", RANGE));
    };
    let mut decoder = Decoder::new(code.bitness, &last.bytes, DecoderOptions::NONE);
    decoder.iter().for_each(drop);
    if decoder.last_error() != DecoderError::NoMoreBytes {
        return Ok(());
    }
    Err(Error::usage(
        format!("the range ends within the instruction at {:#x}", last.address),
        "End it there, or after that instruction.",
    ))
}

/// Adds all functions that have samples in a recording. Code without a name is not a function.
fn by_function(
    index: usize,
    by_address: &mut ByAddress,
    functions: &mut FxHashMap<Function, FunctionSamples>,
) {
    let ByAddress { recording, symbols, all, .. } = by_address;
    for &(location, source, totals) in &*all {
        let function = Function::at(location, recording, symbols);
        if function.symbol.is_empty() {
            continue;
        }
        let samples = functions.entry(function);
        let FunctionSamples { events, .. } = samples
            .or_insert_with(|| FunctionSamples { location: (index, location), events: Vec::new() });
        if events.len() <= source {
            events.resize(source + 1, 0);
        }
        if let Some(events) = events.get_mut(source) {
            *events = events.saturating_add(totals.events);
        }
    }
}

/// The chosen function, where it is, and others that the target means, as they can be named.
fn choose_function(
    target: &Target,
    functions: &FxHashMap<Function, FunctionSamples>,
    by_address: &mut [ByAddress],
) -> Result<(Function, RecordedLocation, Vec<String>)> {
    if let Some(address) = target.address() {
        let first = by_address.first_mut().ok_or_else(no_recording)?;
        let (process, ip, mode) = owner(&first.recording, address);
        let location = CodeLocation::new(process, ip, mode);
        let ByAddress { recording, symbols, .. } = first;
        let mut function = Function::at(location, recording, symbols);
        if let Target::Range(_) = target {
            // A range may lie across several functions.
            function.symbol = Arc::default();
        }
        return Ok((function, (0, location), Vec::new()));
    }
    let all = by_events(functions);
    let Target::Symbol(pattern) = target else {
        let (function, samples) = all.first().ok_or_else(|| no_function(functions, by_address))?;
        return Ok(((*function).clone(), samples.location, Vec::new()));
    };
    let meaning = |pattern: &FunctionPattern, (function, samples): &FunctionOf<'_>| {
        let own = by_address.get(samples.location.0)?;
        let paths = own.symbols.paths(&function.module);
        let names = std::iter::once(&function.symbol).chain(&*function.also);
        pattern.best_meaning(&function.module, paths, names)
    };
    let meant = pattern.clone().settle(all, meaning);
    let Some(&(function, samples)) = meant.first() else {
        return Err(no_function(functions, by_address));
    };
    Ok((function.clone(), samples.location, others(&meant, by_address)))
}

/// A function, and where it has samples.
type FunctionOf<'a> = (&'a Function, &'a FunctionSamples);

/// All functions but the first, as they can be named. Functions that share a name get an address.
fn others(meant: &[FunctionOf<'_>], by_address: &mut [ByAddress]) -> Vec<String> {
    let mut count: FxHashMap<String, usize> = FxHashMap::default();
    for (function, _) in meant {
        *count.entry(function.to_string()).or_default() += 1;
    }
    let mut named = |&(function, samples): &FunctionOf<'_>| {
        let name = function.to_string();
        let (recording, location) = samples.location;
        let one = by_address.get_mut(recording).filter(|_| count[&name] > 1);
        let offset = one.and_then(|one| {
            one.symbols.frame(location.process, location.ip, location.mode()).offset
        });
        match offset {
            Some(offset) => format!("{:#x} ({name})", location.ip.wrapping_sub(offset)),
            None => name,
        }
    };
    meant.iter().skip(1).map(&mut named).collect()
}

/// Functions, those with the most events first.
fn by_events(
    functions: &FxHashMap<Function, FunctionSamples>,
) -> Vec<(&Function, &FunctionSamples)> {
    let mut all: Vec<_> = functions.iter().collect();
    all.sort_by(|a, b| b.1.events.cmp(&a.1.events).then_with(|| a.0.cmp(b.0)));
    all
}

/// A process that has a module at an address.
fn owner(recording: &Recording, address: u64) -> (u32, u64, Mode) {
    let mut modules = recording.modules.iter();
    let module = modules.find(|module| module.contains(address));
    let own = module.and_then(|module| {
        let loaded = module.loaded.unwrap_or(0);
        Some(recording.process_ids.number(module.process?, loaded))
    });
    let mode = match own {
        Some(_) => Mode::User,
        None => Mode::Kernel,
    };
    (own.unwrap_or(0), address, mode)
}

/// Refuses recordings that have no samples, or none that count.
fn with_samples<P: AsRef<Path>>(paths: &[P], by_address: &[ByAddress]) -> Result<()> {
    if by_address.iter().any(|one| !one.all.is_empty()) {
        return Ok(());
    }
    let damaged_file = paths.iter().zip(by_address);
    let mut damaged_file =
        damaged_file.filter_map(|(path, one)| Some((path, one.recording.damaged()?)));
    let damaged_file = damaged_file.next();
    if by_address.iter().any(|one| one.recording.samples != 0) {
        let damaged = damaged_file.map_or_else(String::new, |(_, damaged)| format!("; {damaged}"));
        return Err(Error::usage(
            format!("no samples pass the filters{damaged}"),
            "A report without these filters shows which samples there are.",
        ));
    }
    Err(match damaged_file {
        Some((path, damaged)) => Error::BadFile {
            path: path.as_ref().into(),
            why: format!("has no whole sample: {damaged}"),
            hint: "Record again.".into(),
        },
        None => Error::unavailable(
            "the recording has no samples",
            "Record for longer, or with shorter periods.",
        ),
    })
}

/// The hint of errors where the bounds of code are not known, or wrong.
const RANGE: &str =
    "Give a range of addresses, which needs no symbols: 0x1000-0x1040 or 0x1000+64.";

fn no_function(functions: &FxHashMap<Function, FunctionSamples>, all: &[ByAddress]) -> Error {
    let Some(by_address) = all.first() else { return no_recording() };
    let most = by_events(functions).into_iter().take(3);
    let most: Vec<String> = most.map(|(function, _)| function.to_string()).collect();
    let damaged = by_address.recording.damaged();
    let damaged = damaged.map_or_else(String::new, |damaged| format!("; {damaged}"));
    if !most.is_empty() {
        return Error::usage(
            format!("no sample is in a function of that name{damaged}"),
            format!("Functions with the most samples: {}.", most.join(", ")),
        );
    }
    let summary = notes(&by_address.symbols) + &damaged;
    let mut opened = by_address.symbols.opened().into_iter();
    let Some(opened) = opened.find(|opened| opened.module.path.is_some()) else {
        let hint = if by_address.recording.metadata.modelled {
            "A model runs the code of a real file if its workload names one: `image=FILE`.".into()
        } else {
            Hint::Remedy(Remedy::SameBuild)
        };
        return Error::unavailable(
            format!("no sample is in a function that has a name{summary}"),
            hint,
        );
    };
    match opened.image {
        Some(image) => Error::BadFile {
            path: image,
            why: format!("has no symbols for the functions that were sampled{summary}"),
            hint: Remedy::Symbols.into(),
        },
        None => Error::BadFile {
            path: opened.module.name.into(),
            why: format!("is needed to name the functions that were sampled{summary}"),
            hint: Remedy::SameBuild.into(),
        },
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&qualified(&self.module, &self.symbol))
    }
}

fn no_code(function: &Function, why: &NoCode, by_address: &ByAddress) -> Error {
    let module = &function.module;
    if module.as_ref() == UNKNOWN || module.as_ref() == NO_ADDRESS {
        return Error::usage(
            "no module of the recording has code at that address",
            "A report by `address` shows the addresses of the samples.",
        );
    }
    let name = match &*function.symbol {
        "" => "that address",
        name => name,
    };
    let modules = &by_address.recording.modules;
    let path = modules.iter().find(|loaded| loaded.name == **module);
    let path = path.and_then(|loaded| loaded.path.clone());
    Error::BadFile {
        path: path.unwrap_or_else(|| module.to_string()).into(),
        why: format!("does not give the code of {name}: {why}"),
        hint: match why {
            NoCode::Unbounded => RANGE.into(),
            NoCode::Missing(_) => Remedy::SameBuild.into(),
        },
    }
}

fn notes(symbols: &Symbols) -> String {
    let opened = symbols.opened();
    let mut notes: Vec<&String> = Vec::new();
    for note in opened.iter().flat_map(|opened| &opened.notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let summary = notes.iter().take(3);
    summary.fold(String::new(), |text, note| text + "; " + note)
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
            sums: vec![Totals::default(); sources],
            jump: jump(&instruction),
            flows: vec![Flow::default(); sources],
        });
    }
    all
}

fn jump(instruction: &iced_x86::Instruction) -> Jump {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Jump::Sometimes,
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => {
            Jump::Always
        }
        // System calls have this flow too, and are not always recorded.
        FlowControl::Call | FlowControl::IndirectCall
            if instruction.mnemonic() == Mnemonic::Call =>
        {
            Jump::Always
        }
        _ => Jump::Never,
    }
}

/// Intel's syntax with C's notation for numbers.
pub fn intel() -> IntelFormatter {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_space_after_operand_separator(true);
    formatter
}

fn add_lines(instructions: &mut [Instruction], symbols: &mut Symbols, process: u32, mode: Mode) {
    for instruction in instructions {
        let frame = symbols.frame(process, instruction.address, mode);
        instruction.line = frame.file.zip(frame.line);
        let inlined = frame.inlined.iter().map(|inlined| Arc::clone(&inlined.function));
        instruction.inlined = inlined.collect();
    }
}
