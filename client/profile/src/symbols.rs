//! Names for addresses: functions and source lines of PE files from their PDB, of ELF files from
//! DWARF, and where there is neither, the names in the file's own tables.
//!
//! A module's files are opened when one of its addresses is first looked up. Every file must be of
//! the build that was recorded ([`Identity`](crate::file::Identity)); others are skipped, and
//! [`Symbols::opened`] says so. No path from untrusted data is opened, and no server is contacted
//! unless the user wants that ([`SymbolPath::downloading`]).

mod arm64ec;
mod bytes;
pub(crate) mod code_location;
mod code_path;
mod demangle;
mod dwarf;
mod executable;
mod folders;
mod function_name;
mod functions;
mod identity;
mod image;
mod lookup;
mod methods;
mod module_names;
mod name;
mod paths;
mod pattern;
mod pdb;
mod search;
mod sections;
mod store;
mod store_file;
mod symbol_match;
mod trust;
mod unwind;

pub use crate::file::origin::{origin, seal};
use crate::file::{Module, ProcessIds, Recording, Stamp, Times, loaded};
use code_location::CodeLocation;
pub use code_path::{CodePath, PathBranch};
pub use executable::Executable;
pub(crate) use function_name::FunctionName;
pub use function_name::shortened;
pub use functions::Function;
pub(crate) use identity::ModuleBuild;
pub use image::{build_of, build_where_loaded, identity_of};
use lookup::Lookup;
use methods::{MethodMatch, Methods};
use module_names::ModuleNames;
pub use pattern::{FunctionNames, FunctionPattern, Meaning, Pattern};
use rustc_hash::FxHashMap;
pub use search::{BuiltIn, SymbolPath};
use shared_types::Mode;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub use store::{Fetch, Server, TellFailure};

/// Shown for a sample without an address.
pub const NO_ADDRESS: &str = "no address";
/// Shown for an address that is in no module.
pub const UNKNOWN: &str = "unknown";

/// A function with its module, as views print it: `a.dll!name`, but `a.dll+0x1030` for code that no
/// symbol names, which has its module in its name.
pub fn qualified(module: &str, symbol: &str) -> String {
    if is_place(module, symbol) { symbol.to_owned() } else { format!("{module}!{symbol}") }
}

/// Whether what stands for a symbol is only where the code is in its module.
fn is_place(module: &str, symbol: &str) -> bool {
    symbol.strip_prefix(module).is_some_and(|offset| offset.starts_with("+0x"))
}

/// The code at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The module's name, [`NO_ADDRESS`] or [`UNKNOWN`].
    pub module: Arc<str>,
    /// The function whose code it is; `a.dll+0x1030` where no symbol names it, but the unwinding
    /// information bounds it.
    pub symbol: Option<Arc<str>>,
    /// Other names of `symbol`: aliases, and functions that the linker folded into it.
    pub also: Arc<[Arc<str>]>,
    /// The offset from the start of the function, or of the module if no function is known; `None` if no
    /// module is.
    pub offset: Option<u64>,
    /// The source file of the innermost function there.
    pub file: Option<Arc<str>>,
    /// The line in that file.
    pub line: Option<u32>,
    /// Functions that the compiler inlined into `symbol` there, innermost first.
    pub inlined: Arc<[Inlined]>,
}

/// A function that was inlined into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    pub function: Arc<str>,
    /// The file of the call.
    pub caller_file: Option<Arc<str>>,
    /// The line of the call.
    pub caller_line: Option<u32>,
}

/// A function of the source at an address: the one that exists, or one that was inlined into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceFunction<'a> {
    /// Its name, if it is known.
    pub name: Option<&'a Arc<str>>,
    pub is_inlined: bool,
    /// The source file of the address; in a function into which others were inlined, that of the call.
    pub file: Option<&'a Arc<str>>,
    /// The line in that file.
    pub line: Option<u32>,
}

impl Frame {
    /// The functions at the address, the innermost first; the last is the one that exists.
    pub fn functions(&self) -> impl DoubleEndedIterator<Item = SourceFunction<'_>> {
        (0..=self.inlined.len()).map(|level| self.function(level))
    }

    /// The innermost function at the address.
    pub fn innermost(&self) -> SourceFunction<'_> {
        self.function(0)
    }

    /// The function of a level: 0 is the innermost.
    fn function(&self, level: usize) -> SourceFunction<'_> {
        let inlined = self.inlined.get(level);
        let (file, line) = match level.checked_sub(1).and_then(|callee| self.inlined.get(callee)) {
            Some(callee) => (callee.caller_file.as_ref(), callee.caller_line),
            None => (self.file.as_ref(), self.line),
        };
        let name = inlined.map_or(self.symbol.as_ref(), |inlined| Some(&inlined.function));
        SourceFunction { name, is_inlined: inlined.is_some(), file, line }
    }
}

/// The kind of symbols that name a module's functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    Pdb,
    /// DWARF, in the file or in a separate one.
    Dwarf,
    /// The file's symbol table, which has no lines.
    Table,
    /// The file's exports.
    Exports,
    #[default]
    None,
}

impl Kind {
    /// Whether it names functions.
    pub const fn names(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Its stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pdb => "pdb",
            Self::Dwarf => "dwarf",
            Self::Table => "table",
            Self::Exports => "exports",
            Self::None => "none",
        }
    }
}

/// A module whose symbols were looked for, and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub module: Module,
    /// What the module is called: its name, with more where several modules have it.
    pub name: Arc<str>,
    /// What names its functions.
    pub kind: Kind,
    /// The file with the symbols.
    pub file: Option<PathBuf>,
    /// The module's own file, if it was found.
    pub image: Option<PathBuf>,
    /// Files that could not be used and why, what is missing, and what to do about it.
    pub notes: Vec<String>,
    /// What of its symbols was cut or left out, because reading it would cost more than the file is
    /// worth ([`budget`](crate::budget)).
    pub limits: Vec<String>,
    /// Whether a symbol server might have more, and asking it was not allowed.
    pub download_might_help: bool,
    /// Samples in it; 0 where they are not counted.
    pub samples: u64,
}

impl Opened {
    /// Whether its functions have names that others than its exports have too, and lines.
    pub const fn has_symbols(&self) -> bool {
        matches!(self.kind, Kind::Pdb | Kind::Dwarf)
    }
}

/// A function and its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The name of the module it is in.
    pub module: Arc<str>,
    /// Its name; empty if no symbol covers it.
    pub symbol: Arc<str>,
    /// The address of its first byte, in the process that was sampled.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Its bytes; none if a runtime made it, and it is in no file.
    pub bytes: Vec<u8>,
    /// 32 or 64.
    pub bitness: u32,
    /// The file they were read from; empty without one.
    pub file: PathBuf,
}

/// Why there is no code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCode {
    /// Neither symbols nor unwinding information tell the bounds of the function.
    Unbounded,
    /// The file was not found, or does not have the code.
    Missing(String),
}

impl From<String> for NoCode {
    fn from(why: String) -> Self {
        Self::Missing(why)
    }
}

impl From<&str> for NoCode {
    fn from(why: &str) -> Self {
        Self::Missing(why.to_owned())
    }
}

impl fmt::Display for NoCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbounded => f.write_str("no symbol and no unwinding information covers it"),
            Self::Missing(why) => f.write_str(why),
        }
    }
}

/// The longest code that is read: 16 MiB.
const LONGEST: u64 = 1 << 24;

/// The symbols of all modules of a recording.
pub struct Symbols {
    path: SymbolPath,
    modules: Vec<Module>,
    names: ModuleNames,
    /// For each module, the index of its file in `files`.
    file_of: Vec<usize>,
    /// Files loaded in several processes are opened once.
    files: Vec<Option<Lookup>>,
    everywhere: ModuleIndex,
    of_process: FxHashMap<u32, ModuleIndex>,
    /// Code that is in no file.
    methods: Methods,
    process_ids: ProcessIds,
    texts: HashSet<Arc<str>>,
    chains: FxHashMap<ChainKey, Arc<[Inlined]>>,
    frames: FxHashMap<(usize, u64), Frame>,
}

/// Tells chains of inlined calls apart: for each call, where its name and its file are in memory, and
/// its line.
type ChainKey = Vec<(usize, usize, Option<u32>)>;

impl Symbols {
    /// The symbols for the modules of a recording; opens no file yet.
    pub fn open(recording: &Recording, path: &SymbolPath) -> Self {
        let modules = recording.modules.clone();
        let mut indices: FxHashMap<Option<u32>, Vec<usize>> = FxHashMap::default();
        for (index, module) in modules.iter().enumerate() {
            indices.entry(module.process).or_default().push(index);
        }
        let everywhere = indices.remove(&None).unwrap_or_default();
        let of_process = indices
            .into_iter()
            .filter_map(|(process, indices)| Some((process?, ModuleIndex::new(&modules, indices))));
        let mut known = FxHashMap::default();
        let mut file_of = Vec::with_capacity(modules.len());
        for module in &modules {
            let next = known.len();
            file_of.push(*known.entry(FileKey::of(module)).or_insert(next));
        }
        let files = file_of.iter().map(|_| None).collect();
        Self {
            path: path.for_recording(&recording.metadata),
            everywhere: ModuleIndex::new(&modules, everywhere),
            of_process: of_process.collect(),
            methods: Methods::new(recording),
            process_ids: recording.process_ids.clone(),
            file_of,
            files,
            texts: HashSet::new(),
            chains: FxHashMap::default(),
            frames: FxHashMap::default(),
            names: ModuleNames::of(&modules),
            modules,
        }
    }

    /// Changes to the modules of a later state of the recording. The files of those that are still
    /// there stay open.
    pub(crate) fn renew(&mut self, recording: &Recording) {
        let new = Self::open(recording, &self.path);
        let mut before = std::mem::replace(self, new);
        let mut open = FxHashMap::default();
        for (module, &file) in before.modules.iter().zip(&before.file_of) {
            if let Some(lookup) = before.files[file].take() {
                open.insert(FileKey::of(module), lookup);
            }
        }
        for (module, &file) in self.modules.iter().zip(&self.file_of) {
            if let Some(lookup) = open.remove(&FileKey::of(module)) {
                self.files[file] = Some(lookup);
            }
        }
    }

    /// The code at an address of a process, uncached, for a caller that asks for each address once.
    pub(crate) fn resolve(&mut self, process: u32, ip: u64, mode: Mode) -> Frame {
        let frame = match self.module(process, ip, mode) {
            Some(index) => self.look_up(index, ip - self.modules[index].start),
            None => self.unplaced(mode),
        };
        self.with_method(frame, process, ip, mode)
    }

    /// The code at an address of a process. The result is cached.
    pub fn frame(&mut self, process: u32, ip: u64, mode: Mode) -> Frame {
        let frame = match self.module(process, ip, mode) {
            Some(index) => self.frame_of_file(index, ip - self.modules[index].start),
            None => self.unplaced(mode),
        };
        self.with_method(frame, process, ip, mode)
    }

    /// The code at an address relative to a module's start, as the files of its build have it.
    fn frame_of_file(&mut self, index: usize, address: u64) -> Frame {
        let key = (self.file_of[index], address);
        if let Some(frame) = self.frames.get(&key) {
            return frame.clone();
        }
        let frame = self.look_up(index, address);
        self.frames.insert(key, frame.clone());
        frame
    }

    /// The method that a runtime has at an address of a process.
    pub(crate) fn method(&self, process: u32, ip: u64, mode: Mode) -> Option<MethodMatch> {
        let methods = (mode == Mode::User).then_some(&self.methods)?;
        methods.at(&self.process_ids, process, ip)
    }

    /// What the runtime says of code that no symbol names. Code that was compiled ahead of time is in
    /// an image, whose name stays.
    fn with_method(&self, mut frame: Frame, process: u32, ip: u64, mode: Mode) -> Frame {
        if frame.symbol.as_ref().is_none_or(|symbol| is_place(&frame.module, symbol))
            && let Some(method) = self.method(process, ip, mode)
        {
            if &*frame.module == UNKNOWN {
                frame.module = method.module;
            }
            frame.symbol = Some(method.name);
            frame.also = Arc::default();
            frame.offset = Some(ip - method.start);
        }
        frame
    }

    /// The code at an address of a process as far as its module says, without a function. Opens no
    /// file.
    pub(crate) fn module_alone(&mut self, process: u32, ip: u64, mode: Mode) -> Frame {
        let mut frame = self.unplaced(mode);
        if let Some(index) = self.module(process, ip, mode) {
            frame.module = self.names.shown(index);
        } else if let Some(method) = self.method(process, ip, mode) {
            frame.module = method.module;
        }
        frame
    }

    /// The code of the function that contains an address of a process. Where no symbol covers the
    /// address, the bounds are those of the unwinding information.
    ///
    /// # Errors
    /// The module's file or the function's bounds are not known.
    pub fn code(&mut self, process: u32, ip: u64, mode: Mode) -> Result<Code, NoCode> {
        let method = self.method(process, ip, mode);
        let Some(index) = self.module(process, ip, mode) else {
            return Ok(code_of_method(method.ok_or("it is in no module")?));
        };
        let (module, loaded) = (self.names.shown(index), self.modules[index].start);
        let lookup = self.lookup(index);
        let mut function = lookup.find(ip - loaded).function;
        // Unwinding information alone bounds code that was compiled ahead of time, and names
        // nothing.
        if function.as_ref().is_none_or(|function| is_place(&module, &function.name)) {
            function = method.map(|method| method.function(loaded)).or(function);
        }
        let image = lookup.image()?;
        let Function { name, start, end, .. } = function.ok_or(NoCode::Unbounded)?;
        let section = image.code.at(start).ok_or("its function is in no section of code")?;
        let range = start..end.min(section.range.end);
        self.read(index, &name, &range)
    }

    /// The code in a range of addresses of a process, which needs no symbols.
    ///
    /// # Errors
    /// The module's file is not known, or does not have this code.
    pub fn code_in(
        &mut self,
        process: u32,
        range: &Range<u64>,
        mode: Mode,
    ) -> Result<Code, NoCode> {
        let index = self.module(process, range.start, mode).ok_or("it is in no module")?;
        let start = self.modules[index].start;
        let range = range.start - start..range.end.max(range.start) - start;
        self.read(index, "", &range)
    }

    /// The code in a range relative to a module's start.
    fn read(&mut self, index: usize, name: &str, range: &Range<u64>) -> Result<Code, NoCode> {
        if range.end.saturating_sub(range.start) > LONGEST {
            return Err("it is longer than 16 MiB".into());
        }
        let lookup = self.lookup(index);
        let image = lookup.image()?;
        let bitness = image.bitness_of(range)?;
        let bytes = image.bytes(range)?;
        let file = lookup.image_file().unwrap_or(&image.path).to_owned();
        let module = &self.modules[index];
        Ok(Code {
            module: self.names.shown(index),
            symbol: intern(&mut self.texts, name),
            start: module.start.wrapping_add(range.start),
            end: module.start.wrapping_add(range.end),
            bytes,
            bitness,
            file,
        })
    }

    /// The offset of a module's first code section from the module's start; `None` if its file is
    /// not found, or is no PE file.
    pub(crate) fn code_section(&mut self, module: usize) -> Option<u64> {
        self.modules.get(module)?;
        let image = self.lookup(module).image.as_ref()?;
        image.stamp?;
        image.code.iter().map(|section| section.range.start).min()
    }

    /// The modules whose files have been looked for so far, each once.
    pub fn opened(&self) -> Vec<Opened> {
        let first = |file| self.file_of.iter().position(|&other| other == file);
        let files = self.files.iter().enumerate();
        let files = files.filter_map(|(file, lookup)| {
            let (lookup, module) = (lookup.as_ref()?, first(file)?);
            Some(Opened {
                module: self.modules[module].clone(),
                name: self.names.shown(module),
                kind: lookup.kind,
                file: lookup.file.clone(),
                image: lookup.image_file().map(Path::to_owned),
                notes: lookup.notes.clone(),
                limits: lookup.limits(),
                download_might_help: lookup.download_might_help,
                samples: 0,
            })
        });
        files.collect()
    }

    /// The same with the samples of each, those without symbols and with the most samples first.
    /// Counts only where the order of several matters.
    pub(crate) fn opened_by(
        &self,
        samples: impl FnOnce(&mut dyn FnMut(CodeLocation, u64)),
    ) -> Vec<Opened> {
        let mut opened = self.opened();
        if opened.iter().filter(|one| !one.has_symbols()).count() < 2 {
            return opened;
        }
        let mut of_file = vec![0_u64; self.files.len()];
        samples(&mut |location, samples| {
            let module = self.module(location.process, location.ip, location.mode());
            let file = module.and_then(|module| self.file_of.get(module));
            if let Some(sum) = file.and_then(|&file| of_file.get_mut(file)) {
                *sum = sum.saturating_add(samples);
            }
        });
        let looked_for = self.files.iter().zip(of_file).filter(|(file, _)| file.is_some());
        for (one, (_, samples)) in opened.iter_mut().zip(looked_for) {
            one.samples = samples;
        }
        opened.sort_by_key(|one| (one.has_symbols(), Reverse(one.samples)));
        opened
    }

    /// What a module of the recording is called.
    pub(crate) fn module_name(&self, module: usize) -> Arc<str> {
        self.names.shown(module)
    }

    /// The paths from which the modules with this name were loaded.
    pub(crate) fn paths(&self, module: &str) -> &[Arc<str>] {
        self.names.paths(module)
    }

    /// The index in the recording of the module that contains an address of a process.
    pub fn module(&self, process: u32, ip: u64, mode: Mode) -> Option<usize> {
        if mode == Mode::Unknown {
            return None;
        }
        let own = self.of_process.get(&self.process_ids.id(process));
        let own = own.and_then(|locations| match self.process_ids.times(process) {
            Some(times) => locations.at_time(&self.modules, ip, &times),
            None => Some(locations.at(&self.modules, ip).next()?.0),
        });
        own.or_else(|| Some(self.everywhere.at(&self.modules, ip).next()?.0))
    }

    fn unplaced(&mut self, mode: Mode) -> Frame {
        let name = match mode {
            Mode::Unknown => NO_ADDRESS,
            Mode::User | Mode::Kernel => UNKNOWN,
        };
        Frame {
            module: intern(&mut self.texts, name),
            symbol: None,
            also: Arc::default(),
            offset: None,
            file: None,
            line: None,
            inlined: Arc::default(),
        }
    }

    fn lookup(&mut self, index: usize) -> &Lookup {
        let (module, path) = (&self.modules[index], &self.path);
        let name = || self.names.shown(index);
        self.files[self.file_of[index]].get_or_insert_with(|| Lookup::open(module, &name(), path))
    }

    fn look_up(&mut self, index: usize, address: u64) -> Frame {
        let symbol_match = self.lookup(index).find(address);
        let inlined =
            if self.path.has_inlined() { self.chain(symbol_match.inlined) } else { Arc::default() };
        let texts = &mut self.texts;
        let start = symbol_match.function.as_ref().map_or(0, |function| function.start);
        Frame {
            module: self.names.shown(index),
            symbol: symbol_match.function.as_ref().map(|function| intern(texts, &function.name)),
            also: symbol_match.function.map(|function| function.also).unwrap_or_default(),
            offset: Some(address.saturating_sub(start)),
            file: symbol_match.file.map(|file| intern(texts, &file)),
            line: symbol_match.line,
            inlined,
        }
    }

    /// A shared copy of a chain of inlined calls: all addresses of the innermost call have it.
    fn chain(&mut self, inlined: Vec<Inlined>) -> Arc<[Inlined]> {
        let place = |text: &Arc<str>| Arc::as_ptr(text).cast::<u8>().addr();
        let key = inlined.iter().map(|call| {
            let file = call.caller_file.as_ref().map_or(0, place);
            (place(&call.function), file, call.caller_line)
        });
        // The readers keep all names and paths, so none of these places is used again.
        let known = self.chains.entry(key.collect());
        Arc::clone(known.or_insert_with(|| inlined.into()))
    }
}

/// A method that is in no file: where it is, without its bytes.
fn code_of_method(method: MethodMatch) -> Code {
    let MethodMatch { module, name, start, end } = method;
    let (bytes, file) = (Vec::new(), PathBuf::new());
    Code { module, symbol: name, start, end, bytes, bitness: 64, file }
}

/// What modules of one file have in common.
#[derive(PartialEq, Eq, Hash)]
struct FileKey<'a> {
    name: &'a str,
    path: Option<&'a str>,
    identity: Option<String>,
    stamp: Option<Stamp>,
    size: u64,
}

impl<'a> FileKey<'a> {
    fn of(module: &'a Module) -> Self {
        Self {
            name: &module.name,
            path: module.path.as_deref(),
            identity: module.identity.as_ref().map(ToString::to_string),
            stamp: module.stamp,
            size: module.end.saturating_sub(module.start),
        }
    }
}

/// Modules of one address space.
#[derive(Debug)]
struct ModuleIndex {
    /// In order of their starts.
    indices: Vec<usize>,
    /// The highest end of all modules up to each one: ranges may overlap if modules were loaded one
    /// after the other.
    reach: Vec<u64>,
    /// In order of their starts, and of one start in the order in which they were loaded: a plug-in may
    /// be loaded thousands of times.
    by_load: Vec<usize>,
    /// The last time at which any of the modules up to each one of `by_load` was loaded.
    latest: Vec<u64>,
}

impl ModuleIndex {
    fn new(modules: &[Module], mut indices: Vec<usize>) -> Self {
        indices.sort_by_key(|&index| modules[index].start);
        let reach = highest(indices.iter().map(|&index| modules[index].end));
        let mut by_load = indices.clone();
        by_load.sort_by_key(|&index| (modules[index].start, loaded(&modules[index])));
        let latest = highest(by_load.iter().map(|&index| loaded(&modules[index])));
        Self { indices, reach, by_load, latest }
    }

    /// The modules that contain an address: those with the highest start first, of these the one that
    /// was seen last.
    fn at<'a>(
        &'a self,
        modules: &'a [Module],
        address: u64,
    ) -> impl Iterator<Item = (usize, &'a Module)> {
        let next = self.indices.partition_point(|&index| modules[index].start <= address);
        let before = self.indices.iter().zip(&self.reach).take(next).rev();
        before
            .take_while(move |&(_, &reach)| address < reach)
            .map(|(&index, _)| (index, &modules[index]))
            .filter(move |(_, module)| module.contains(address))
    }

    /// The best of the process's own modules that contain an address: one that was there at the time,
    /// loaded last; otherwise the one that was loaded last. Modules of one start, which are mostly
    /// loads of one file, are found in a few steps.
    fn at_time(&self, modules: &[Module], address: u64, times: &Times) -> Option<usize> {
        let Times { lived, span } = times;
        let loaded = |&index: &usize| loaded(&modules[index]);
        let mut best: Option<((bool, u64), usize)> = None;
        let mut end = self.by_load.partition_point(|&index| modules[index].start <= address);
        while let Some(last) = end.checked_sub(1) {
            let is_best =
                best.is_some_and(|((is_there, at), _)| is_there && self.latest[last] <= at);
            // Both have the modules up to a start, so that they have the same ones here.
            if address >= self.reach[last] || is_best {
                break;
            }
            let start = modules[self.by_load[last]].start;
            let first = self.by_load[..end].partition_point(|&index| modules[index].start < start);
            let alike = &self.by_load[first..end];
            let own = &alike[alike.partition_point(|index| loaded(index) < lived.start)..];
            let own = &own[..own.partition_point(|index| loaded(index) < lived.end)];
            let so_far = &own[..own.partition_point(|index| loaded(index) < span.end)];
            let is_at = |index: &&usize| modules[**index].contains(address);
            let is_there =
                |index: &&usize| modules[**index].unloaded.is_none_or(|at| at > span.start);
            let there = so_far.iter().rev().find(|index| is_at(index) && is_there(index));
            let other = || own.iter().rev().find(is_at);
            if let Some(index) = there.or_else(other) {
                let rank = (there.is_some(), loaded(index));
                if best.is_none_or(|(known, _)| rank > known) {
                    best = Some((rank, *index));
                }
            }
            end = first;
        }
        best.map(|(_, index)| index)
    }
}

/// The highest of all values up to each one.
fn highest(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let highest = values.scan(0, |highest, value| {
        *highest = value.max(*highest);
        Some(*highest)
    });
    highest.collect()
}

/// Returns a shared copy of a text.
fn intern(texts: &mut HashSet<Arc<str>>, text: &str) -> Arc<str> {
    if let Some(known) = texts.get(text) {
        return Arc::clone(known);
    }
    let new: Arc<str> = text.into();
    texts.insert(Arc::clone(&new));
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, the same in each run (Knuth, MMIX).
    fn next(state: &mut u64, below: u64) -> u64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    /// Of all modules at the address that the process loaded: one that was there in the span, loaded last;
    /// of these the one with the highest start, seen last.
    fn best(modules: &[Module], address: u64, Times { lived, span }: &Times) -> Option<usize> {
        let own = modules
            .iter()
            .enumerate()
            .filter(|(_, module)| module.contains(address) && lived.contains(&loaded(module)));
        let best = own.max_by_key(|&(index, module)| {
            let unloaded = module.unloaded.unwrap_or(u64::MAX);
            let is_there = loaded(module) < span.end && unloaded > span.start;
            (is_there, loaded(module), module.start, index)
        });
        best.map(|(index, _)| index)
    }

    #[test]
    fn the_functions_at_an_address_have_their_own_places() {
        let call = |function: &str, line| Inlined {
            function: function.into(),
            caller_file: Some("a.h".into()),
            caller_line: line,
        };
        let mut frame = Frame {
            symbol: Some("f".into()),
            file: Some("b.h".into()),
            line: Some(1),
            inlined: [call("inner", Some(2)), call("outer", None)].into(),
            ..Frame::default()
        };
        let found = |frame: &Frame| {
            let all = frame.functions().map(|function| {
                let [name, file] =
                    [function.name, function.file].map(|text| text.map(ToString::to_string));
                (name.unwrap_or_default(), function.is_inlined, file, function.line)
            });
            all.collect::<Vec<_>>()
        };
        let (own, header) = (Some("b.h".to_owned()), Some("a.h".to_owned()));
        let inlined = [
            ("inner".to_owned(), true, own.clone(), Some(1)),
            ("outer".to_owned(), true, header.clone(), Some(2)),
            ("f".to_owned(), false, header, None),
        ];
        assert_eq!(found(&frame), inlined);
        frame.inlined = Arc::default();
        assert_eq!(found(&frame), [("f".to_owned(), false, own, Some(1))]);
    }

    #[test]
    fn the_module_of_a_time_is_found_among_any_that_overlap() {
        let mut state = 7;
        for round in 0..2000 {
            let count = 1 + next(&mut state, 12);
            let module = |state: &mut u64| {
                let start = next(state, 6);
                let loaded = next(state, 8);
                Module {
                    start,
                    end: start + 1 + next(state, 5),
                    loaded: (next(state, 4) != 0).then_some(loaded),
                    unloaded: (next(state, 3) != 0).then(|| loaded + next(state, 4)),
                    ..Module::default()
                }
            };
            let modules: Vec<Module> = (0..count).map(|_| module(&mut state)).collect();
            let index = ModuleIndex::new(&modules, (0..modules.len()).collect());
            for address in 0..12 {
                let begin = next(&mut state, 8);
                let lived = begin..begin + next(&mut state, 9);
                let span = begin + next(&mut state, 3)..begin + next(&mut state, 9);
                let times = Times { lived, span };
                let found = index.at_time(&modules, address, &times);
                assert_eq!(
                    found,
                    best(&modules, address, &times),
                    "{round}: {modules:?} {address} {times:?}"
                );
            }
        }
    }
}
