//! The code of one function, and the samples of each of its instructions.

use crate::aggregate::filter::{Filter, Pattern};
use crate::aggregate::tally::Place;
use crate::file::{Module, Recording};
use crate::symbols::{Code, Frame, NO_ADDRESS, NoCode, Opened, SymbolPath, Symbols, UNKNOWN};
use crate::views::branches::code::Stretches;
use crate::views::report::share::Share;
use crate::views::report::{Hits, OfSource, Sum, no_recording, sources};
use halprof_measure::{Error, Result};
use iced_x86::{
    Decoder, DecoderError, DecoderOptions, FlowControl, Formatter, IntelFormatter, Mnemonic,
};
use rustc_hash::FxHashMap;
use shared_types::Mode;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use crate::views::branches::Kept;
pub use crate::views::instruction::{Flow, Instruction, Jump};

/// Which function to annotate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one with the most events of the first source.
    Hottest,
    /// The function of that name; the one with the most events, if there are several.
    Symbol(Pattern),
    /// The function that contains an address.
    Address(u64),
    /// The code in a range of addresses, whatever functions are there.
    Range(Range<u64>),
}

impl Target {
    /// Parses what a user types: hexadecimal with `0x` is an address, and with `-ADDRESS` or
    /// `+LENGTH` behind it a range.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let range = || range(text).map(Self::Range);
        let address = hexadecimal(text).map(Self::Address);
        address.or_else(range).unwrap_or_else(|| Self::Symbol(Pattern::new(text)))
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

fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok()
}

fn range(text: &str) -> Option<Range<u64>> {
    if let Some((start, end)) = text.split_once('-') {
        return Some(hexadecimal(start)?..hexadecimal(end)?);
    }
    let (start, length) = text.split_once('+')?;
    let length = hexadecimal(length).or_else(|| length.parse().ok())?;
    let start = hexadecimal(start)?;
    Some(start..start.saturating_add(length))
}

/// A function with its samples.
#[derive(Clone, Debug)]
pub struct Annotated {
    /// The recording without its samples.
    pub recording: Recording,
    /// The sources that have samples in the recording, those with the most samples first.
    pub sources: Vec<OfSource>,
    /// The function and its code.
    pub code: Code,
    /// All samples in the function, by source in the order of `sources`.
    pub sums: Vec<Sum>,
    /// Its instructions, in order.
    pub instructions: Vec<Instruction>,
    /// Samples at addresses where no instruction begins: this code is not the code that ran.
    pub between: u64,
    /// Other functions of that name with samples, and their modules.
    pub others: Vec<String>,
    /// The modules whose symbols were needed.
    pub symbols: Vec<Opened>,
    /// What branch records show about the function; `None` if none of them show the code between
    /// branches.
    pub stretches: Option<Told>,
}

/// What the branch records of a recording show about a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// How many records were kept and dropped.
    pub kept: Kept,
    /// For each source, the number of stretches between records in the function, and of samples
    /// with such stretches.
    pub of_sources: Vec<(u64, u64)>,
    /// Stretches that are impossible in this code: other code ran there.
    pub impossible: u64,
}

/// A function that has samples. Each build of a module is separate, because its code differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Function {
    module: Arc<str>,
    symbol: Arc<str>,
    build: Option<String>,
}

/// The samples of one function.
#[derive(Default)]
struct Found {
    /// An address in it, and the index of the recording that has it.
    place: Option<(usize, Place)>,
    /// By source. The first decides which function is the hottest: events of different sources
    /// cannot be added up.
    events: Vec<u64>,
    /// By offset from its start and by source.
    hits: FxHashMap<(u64, usize), Sum>,
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
        let hits = paths.iter().map(|path| Hits::read(path.as_ref(), filter.clone(), symbol_path));
        let mut hits = hits.collect::<Result<Vec<Hits>>>()?;
        let sources = sources(hits.iter().flat_map(|one| &one.sources));
        let mut functions = FxHashMap::default();
        for (recording, one) in hits.iter_mut().enumerate() {
            by_function(recording, one, &sources, &mut functions);
        }
        if target.address().is_none() {
            with_samples(paths, &hits)?;
        }
        let first = hits.first_mut().ok_or_else(no_recording)?;
        let (function, others) = chosen(target, &functions, first)?;
        let mut found = functions.remove(&function).unwrap_or_default();
        let (recording, process, ip, mode) = match (target.address(), found.place) {
            (Some(address), _) => {
                let (process, ip, mode) = owner(&first.recording, address);
                (0, process, ip, mode)
            }
            (None, Some((recording, place))) => (recording, place.process, place.ip, place.mode()),
            (None, None) => (0, 0, 0, Mode::Unknown),
        };
        let own = hits.get_mut(recording).ok_or_else(no_recording)?;
        let code = match target {
            Target::Range(range) => own.symbols.code_in(process, range, mode),
            Target::Address(_) => own.symbols.code_around(process, ip, mode),
            Target::Hottest | Target::Symbol(_) => own.symbols.code(process, ip, mode),
        };
        let code = code.map_err(|why| no_code(&function, &why, own))?;
        let mut instructions = disassembled(&code, sources.len());
        if let Target::Range(_) = target {
            check_end(&code, instructions.last())?;
        }
        if target.address().is_some() {
            found = in_code(&code, (recording, process, mode), &sources, &hits);
        }
        let own = hits.get_mut(recording).ok_or_else(no_recording)?;
        let between = distribute(&found, &code, &mut instructions);
        add_lines(&mut instructions, &mut own.symbols, process, mode);
        let stretches =
            stretches(paths, filter, (recording, process, mode), &code, &sources, &hits)?;
        let stretches = stretches.map(|all| Told {
            impossible: all.tell(code.start, &mut instructions),
            kept: all.kept,
            of_sources: all.of_sources().to_vec(),
        });
        let mut sums = vec![Sum::default(); sources.len()];
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
            stretches,
            symbols: hits.iter().flat_map(|one| one.symbols.opened()).collect(),
            sources,
            recording: Recording::combined(hits.into_iter().map(|one| one.recording).collect())
                .ok_or_else(no_recording)?,
        })
    }

    /// How often a conditional jump was taken when it was executed, by the records of a source. The
    /// records of one sample are not independent, so the bounds are computed for as many executions
    /// as there would be with one stretch per sample.
    #[must_use]
    pub fn taken(&self, instruction: &Instruction, source: usize) -> Option<Share> {
        let told = self.stretches.as_ref()?;
        let flow = instruction.flows.get(source)?;
        let &(stretches, samples) = told.of_sources.get(source)?;
        let groups = u128::from(flow.executed) * u128::from(samples);
        let groups = groups.checked_div(stretches.into())?.max(1);
        let conditional = instruction.jump == Jump::Sometimes && flow.executed != 0;
        conditional.then(|| {
            let groups = u64::try_from(groups).unwrap_or(u64::MAX);
            Share::of_groups(flow.taken, flow.executed, groups)
        })
    }
}

/// The stretches that the branch records of the recordings show in a function's code; `None` if
/// there are no records, or if they leave out some kinds of branches.
fn stretches<P: AsRef<Path>>(
    paths: &[P],
    filter: &Filter,
    (recording, process, mode): (usize, u32, Mode),
    code: &Code,
    sources: &[OfSource],
    hits: &[Hits],
) -> Result<Option<Stretches>> {
    let own = module_of(code, (recording, process, mode), hits);
    let tells =
        |hits: &Hits| hits.recording.branches != 0 && hits.recording.metadata.has_straight_code();
    let Some(own) = own.filter(|_| hits.iter().any(tells)) else {
        return Ok(None);
    };
    let start = code.start.wrapping_sub(own.start);
    let end = start.saturating_add(code.bytes.len() as u64);
    let mut all = Stretches::new(start..end, sources.len());
    let is_own = |module: &Module| is_same_build(module, own);
    for (path, hits) in paths.iter().zip(hits).filter(|(_, hits)| tells(hits)) {
        let source = |index: u16| {
            let own = hits.recording.metadata.sources.get(usize::from(index))?;
            sources.iter().position(|source| *source.name == *own.name)
        };
        let of = (&hits.recording, &hits.symbols);
        all.add(path.as_ref(), filter, of, source, is_own)?;
    }
    Ok(Some(all))
}

/// The module of one recording that has this code.
fn module_of<'a>(
    code: &Code,
    (recording, process, mode): (usize, u32, Mode),
    hits: &'a [Hits],
) -> Option<&'a Module> {
    let own = hits.get(recording)?;
    let module = own.symbols.module(process, code.start, mode)?;
    own.recording.modules.get(module)
}

fn is_same_build(module: &Module, other: &Module) -> bool {
    module.name == other.name && module.identity == other.identity
}

/// The samples at the addresses of code, in all recordings that have the same build of its module.
fn in_code(code: &Code, place: (usize, u32, Mode), sources: &[OfSource], hits: &[Hits]) -> Found {
    let mut found = Found::default();
    let Some(own) = module_of(code, place, hits) else {
        return found;
    };
    let first = code.start.wrapping_sub(own.start);
    for one in hits {
        let index = indexes(one, sources);
        for &(place, source, sum) in &one.all {
            let module = one.symbols.module(place.process, place.ip, place.mode());
            let module = module.and_then(|module| one.recording.modules.get(module));
            let Some(module) = module.filter(|module| is_same_build(module, own)) else {
                continue;
            };
            let address = place.ip.wrapping_sub(module.start);
            let offset = address.wrapping_sub(first);
            if offset < code.bytes.len() as u64 {
                let source = index.get(source).copied().unwrap_or(0);
                found.hits.entry((offset, source)).or_default().add(sum);
            }
        }
    }
    found
}

/// For each source of a recording, its index among all sources.
fn indexes(hits: &Hits, sources: &[OfSource]) -> Vec<usize> {
    let index = |own: &OfSource| sources.iter().position(|source| source.name == own.name);
    let indexes = hits.sources.iter().map(|own| index(own).unwrap_or(0));
    indexes.collect()
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
    recording: usize,
    hits: &mut Hits,
    sources: &[OfSource],
    functions: &mut FxHashMap<Function, Found>,
) {
    let index = indexes(hits, sources);
    for &(place, source, sum) in &hits.all {
        let module = hits.symbols.module(place.process, place.ip, place.mode());
        let module = module.and_then(|module| hits.recording.modules.get(module));
        let build = module.and_then(|module| module.identity.as_ref().map(ToString::to_string));
        let source = index.get(source).copied().unwrap_or(0);
        let frame = hits.symbols.frame(place.process, place.ip, place.mode());
        let Frame { module, symbol: Some(symbol), offset, .. } = frame else {
            continue;
        };
        let function = Function { module, symbol, build };
        let found = functions.entry(function).or_default();
        found.place.get_or_insert((recording, place));
        found.events.resize(sources.len(), 0);
        if let Some(events) = found.events.get_mut(source) {
            *events = events.saturating_add(sum.events);
        }
        found.hits.entry((offset, source)).or_default().add(sum);
    }
}

/// The chosen function, and others that match.
fn chosen(
    target: &Target,
    functions: &FxHashMap<Function, Found>,
    hits: &mut Hits,
) -> Result<(Function, Vec<String>)> {
    if let Some(address) = target.address() {
        let (process, ip, mode) = owner(&hits.recording, address);
        let frame = hits.symbols.frame(process, ip, mode);
        let module = hits.symbols.module(process, ip, mode);
        let module = module.and_then(|module| hits.recording.modules.get(module));
        let symbol = frame.symbol.filter(|_| !matches!(target, Target::Range(_)));
        let function = Function {
            module: frame.module,
            symbol: symbol.unwrap_or_default(),
            build: module.and_then(|module| module.identity.as_ref().map(ToString::to_string)),
        };
        return Ok((function, Vec::new()));
    }
    let meant = |name: &str| match target {
        Target::Symbol(pattern) => pattern.matches_symbol(name),
        _ => true,
    };
    let mut meant: Vec<_> =
        functions.iter().filter(|(function, _)| meant(&function.symbol)).collect();
    meant.sort_by(|a, b| b.1.events.cmp(&a.1.events).then_with(|| a.0.cmp(b.0)));
    let Some((&(function, _), rest)) = meant.split_first() else {
        return Err(no_function(functions, hits));
    };
    let others = match target {
        Target::Symbol(_) => rest.iter().map(|(function, _)| function.to_string()),
        _ => return Ok((function.clone(), Vec::new())),
    };
    Ok((function.clone(), others.collect()))
}

/// A process that has a module at an address.
fn owner(recording: &Recording, address: u64) -> (u32, u64, Mode) {
    let mut modules = recording.modules.iter();
    let module = modules.find(|module| module.contains(address));
    let own = module.and_then(|module| {
        let loaded = module.loaded.unwrap_or(0);
        Some(recording.spaces.number(module.process?, loaded))
    });
    let mode = match own {
        Some(_) => Mode::User,
        None => Mode::Kernel,
    };
    (own.unwrap_or(0), address, mode)
}

/// The hint of errors where the file that ran was not found.
pub const OF_SAME_BUILD: &str =
    "The file that ran is needed, of the same build: put it into a folder of the symbol path.";

/// Refuses recordings that have no samples, or none that count.
fn with_samples<P: AsRef<Path>>(paths: &[P], hits: &[Hits]) -> Result<()> {
    if hits.iter().any(|one| !one.all.is_empty()) {
        return Ok(());
    }
    let flawed = paths.iter().zip(hits);
    let mut flawed = flawed.filter_map(|(path, one)| Some((path, one.recording.flaw()?)));
    let flawed = flawed.next();
    if hits.iter().any(|one| one.recording.samples != 0) {
        let flaw = flawed.map_or_else(String::new, |(_, flaw)| format!("; {flaw}"));
        return Err(Error::usage(
            format!("no samples pass the filters{flaw}"),
            "`halprof report` shows which samples there are.",
        ));
    }
    Err(match flawed {
        Some((path, flaw)) => Error::BadFile {
            path: path.as_ref().into(),
            why: format!("has no whole sample: {flaw}"),
            hint: "Record again.".to_owned(),
        },
        None => Error::unavailable(
            "the recording has no samples",
            "Record for longer, or with shorter periods.",
        ),
    })
}

/// The hint of errors where the file that ran was found, but no symbols.
pub const SYMBOLS: &str = "An address or a range of addresses needs no symbols. A name needs those of the same build: put its PDB, or a copy that is not stripped, into a folder of the symbol path.";

/// The hint of errors where the bounds of code are not known, or wrong.
const RANGE: &str =
    "Give a range of addresses, which needs no symbols: 0x1000-0x1040 or 0x1000+64.";

fn no_function(functions: &FxHashMap<Function, Found>, hits: &Hits) -> Error {
    let mut most: Vec<_> = functions.iter().collect();
    most.sort_by(|a, b| b.1.events.cmp(&a.1.events).then_with(|| a.0.cmp(b.0)));
    let most: Vec<String> = most.iter().take(3).map(|(function, _)| function.to_string()).collect();
    let flaw = hits.recording.flaw();
    let flaw = flaw.map_or_else(String::new, |flaw| format!("; {flaw}"));
    if !most.is_empty() {
        return Error::usage(
            format!("no sample is in a function of that name{flaw}"),
            format!("Functions with the most samples: {}.", most.join(", ")),
        );
    }
    let told = notes(&hits.symbols) + &flaw;
    let mut opened = hits.symbols.opened().into_iter();
    let Some(opened) = opened.find(|opened| opened.module.path.is_some()) else {
        let hint = if hits.recording.metadata.modelled {
            "A model runs the code of a real file if its workload names one: `image=FILE`."
        } else {
            OF_SAME_BUILD
        };
        return Error::unavailable(
            format!("no sample is in a function that has a name{told}"),
            hint,
        );
    };
    match opened.image {
        Some(image) => Error::BadFile {
            path: image,
            why: format!("has no symbols for the functions that were sampled{told}"),
            hint: SYMBOLS.to_owned(),
        },
        None => Error::BadFile {
            path: opened.module.name.into(),
            why: format!("is needed to name the functions that were sampled{told}"),
            hint: OF_SAME_BUILD.to_owned(),
        },
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}!{}", self.module, self.symbol)
    }
}

fn no_code(function: &Function, why: &NoCode, hits: &Hits) -> Error {
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
    let modules = &hits.recording.modules;
    let path = modules.iter().find(|loaded| loaded.name == **module);
    let path = path.and_then(|loaded| loaded.path.clone());
    Error::BadFile {
        path: path.unwrap_or_else(|| module.to_string()).into(),
        why: format!("does not give the code of {name}: {why}"),
        hint: match why {
            NoCode::Unbounded => RANGE.to_owned(),
            NoCode::Missing(_) => OF_SAME_BUILD.to_owned(),
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
    let told = notes.iter().take(3);
    told.fold(String::new(), |text, note| text + "; " + note)
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
#[must_use]
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

/// Assigns the samples to the instructions; returns how many belong to none.
fn distribute(found: &Found, code: &Code, instructions: &mut [Instruction]) -> u64 {
    let mut between = 0;
    for (&(offset, source), &sum) in &found.hits {
        let address = code.start.wrapping_add(offset);
        let at = instructions.binary_search_by_key(&address, |instruction| instruction.address);
        let sums = at.ok().and_then(|at| instructions.get_mut(at)?.sums.get_mut(source));
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
        let inlined = frame.inlined.iter().map(|inlined| Arc::clone(&inlined.function));
        instruction.inlined = inlined.collect();
    }
}
