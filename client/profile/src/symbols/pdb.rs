//! Functions and lines from a PDB.
//!
//! The streams and their lists are read by `pdb2`. What grows with the code, and may say that it grows
//! without end, is read here: modules, types, and where functions are.

mod directory;
mod fields;
mod modules;
mod types;

use super::bytes;
use super::demangle::{Demangler, with_variable_arguments, without_decoration};
use super::function_name::FunctionName;
use super::functions::{ALSO_MAX, Function};
use super::paths::Paths;
use super::symbol_match::{InlineFrame, SymbolMatch};
use super::unwind::Unwinding;
use crate::budget;
use crate::file::Identity;
use directory::Directory;
use fields::Fields;
use modules::{Module, ModuleInfo, Modules, Place, Procedure};
use pdb2::{
    AddressMap, DebugInformation, FallibleIterator, MachineType, PDB, PdbInternalSectionOffset,
    Rva, StreamIndex, SymbolIndex, SymbolTable,
};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use types::Types;

/// A public symbol (cvinfo.h).
const S_PUB32: u16 = 0x110E;

/// Code that an object file has in a section.
#[derive(Debug)]
struct Contribution {
    section: u16,
    range: Range<u32>,
    module: usize,
}

/// Where something begins: what a public symbol names, or an object file's code, or the end of a
/// section.
#[derive(Debug)]
struct Start {
    place: Place,
    symbol: Option<SymbolIndex>,
}

/// What a function is called after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// The index in a module's list.
    Procedure(usize, usize),
    /// The index of a start.
    Start(usize),
}

/// A function without its name.
struct Located<'a> {
    origin: Origin,
    module: Option<&'a Module>,
    module_index: usize,
    /// In the PDB's own addresses.
    place: Place,
    length: Option<u32>,
}

/// A name, and whether it is that of a procedure, with its parameters.
#[derive(Clone, Debug)]
struct Name {
    text: Arc<str>,
    has_parameters: bool,
}

pub(super) struct Pdb {
    addresses: AddressMap<'static>,
    symbols: SymbolTable<'static>,
    /// In the order of their places.
    contributions: Vec<Contribution>,
    /// Contributions that were left out: they overlap an earlier one.
    left_out: usize,
    /// In the order of their places, each place once.
    starts: Vec<Start>,
    /// Further public symbols at these places, in the same order.
    others: Vec<Start>,
    modules: Modules,
    types: Types,
    demangler: Demangler,
    names: RefCell<FxHashMap<Origin, Option<Name>>>,
    /// The other names of functions, by their places.
    also: RefCell<FxHashMap<Place, Arc<[Arc<str>]>>>,
    /// Names of inlined functions, by the module and the identifier.
    inlined: RefCell<FxHashMap<(usize, u32), Arc<str>>>,
    /// The paths of source files, by the module and the number of the file in it.
    paths: Paths<(usize, u32)>,
    pub(super) has_lines: bool,
    /// Whether it was linked with /DEBUG:FASTLINK.
    pub(super) is_partial: bool,
    is_32_bit: bool,
}

impl Pdb {
    /// Opens it, if it is of the recorded build.
    pub(super) fn open(path: &Path, recorded: &Identity) -> Result<Self, String> {
        let text = |error: pdb2::Error| error.to_string();
        let mut file = bytes::open(path)?;
        let length = file.metadata().map_err(|error| error.to_string())?.len();
        let directory = Directory::read(&mut file, length)?;
        let mut pdb = PDB::open(file).map_err(text)?;
        let actual = identity(&mut pdb, recorded).map_err(text)?;
        if !actual.is_same_build(recorded) {
            return Err(format!("build mismatch: file has {actual}, recording needs {recorded}"));
        }
        let is_partial = is_partial(&mut pdb).map_err(text)?;
        let is_partial = is_partial.ok_or("it is damaged: names of its streams are cut off")?;
        Self::of(pdb, &directory, is_partial, length)
    }

    fn of(
        mut pdb: PDB<'static, File>,
        directory: &Directory,
        is_partial: bool,
        length: u64,
    ) -> Result<Self, String> {
        let text = |error: pdb2::Error| error.to_string();
        let information = pdb.debug_information().map_err(text)?;
        let is_32_bit = matches!(information.machine_type(), Ok(MachineType::X86));
        let modules = modules(&information, directory)?;
        let addresses = pdb.address_map().map_err(text)?;
        let sections = pdb.sections().map_err(text)?.unwrap_or_default();
        let is_code = |section: u16| {
            let section = usize::from(section).checked_sub(1);
            let section = section.and_then(|section| sections.get(section));
            section.is_some_and(|section| section.characteristics.execute())
        };
        let (contributions, left_out) = contributions(&information, is_code).map_err(text)?;
        let symbols = pdb.global_symbols().map_err(text)?;
        let mut starts = publics(&symbols, is_code).map_err(text)?;
        starts.extend(contributions.iter().map(|one| Start {
            place: Place { section: one.section, offset: one.range.start },
            symbol: None,
        }));
        for (section, number) in sections.iter().zip(1..=u16::MAX) {
            let place = Place { section: number, offset: section.virtual_size };
            starts.extend(is_code(number).then_some(Start { place, symbol: None }));
        }
        // Of several symbols at one place, the first stays.
        starts.sort_by_key(|start| (start.place, start.symbol.is_none()));
        let mut last = None;
        let is_first = |start: &Start| last.replace(start.place) != Some(start.place);
        let (starts, mut others): (Vec<Start>, Vec<Start>) = starts.into_iter().partition(is_first);
        others.retain(|start| start.symbol.is_some());
        let mut stream = |number: u16| {
            let stream = pdb.raw_stream(StreamIndex(number)).ok().flatten();
            stream.map(|stream| stream.as_slice().to_vec()).unwrap_or_default()
        };
        let (types, identifiers) = (stream(TYPES), stream(IDENTIFIERS));
        let names = pdb.named_stream(b"/names").map(|stream| stream.as_slice().to_vec());
        Ok(Self {
            addresses,
            symbols,
            contributions: merged(contributions),
            left_out,
            starts,
            others,
            also: RefCell::default(),
            has_lines: modules.iter().any(|module| module.lines != 0),
            modules: Modules::new(pdb, modules, names.unwrap_or_default(), budget::entries(length)),
            types: Types::of(types, identifiers, is_32_bit, budget::steps(length)),
            demangler: Demangler::of(length),
            names: RefCell::default(),
            inlined: RefCell::default(),
            paths: Paths::of(length),
            is_partial,
            is_32_bit,
        })
    }

    /// The code at an address relative to the module's start. A public symbol has no length: it ends
    /// where the unwinding information has another function.
    pub(super) fn find(&self, address: u64, unwinding: Option<&Unwinding>) -> Option<SymbolMatch> {
        let place = self.place(u32::try_from(address).ok()?)?;
        let located = self.locate(place)?;
        let (start, end) = self.bounds(&located)?;
        let name = self.name(&located);
        let is_other = |unwinding: &Unwinding| unwinding.divides(start.into(), address);
        let has_parameters = name.as_ref().is_some_and(|name| name.has_parameters);
        if !has_parameters && unwinding.is_some_and(is_other) {
            return None;
        }
        let module = located.module;
        let (file, line) = module.and_then(|module| module.line(located.place, place)).unzip();
        let calls = match (located.origin, module) {
            (Origin::Procedure(..), Some(module)) => module.inlined(place),
            _ => Vec::new(),
        };
        let own = name.as_ref().map(|name| Arc::clone(&name.text)).unwrap_or_default();
        let path = |file: Option<u32>| self.path(located.module_index, module?, file?);
        let inlined = calls.iter().rev().map(|call| InlineFrame {
            name: self.inlined(located.module_index, call.inlinee),
            file: path(call.file),
            line: call.line,
        });
        let mut all: Vec<_> = inlined.collect();
        all.push(InlineFrame { name: Arc::clone(&own), file: path(file), line });
        let function = (!own.is_empty()).then(|| Function {
            name: own.to_string(),
            also: self.also(&located, &own),
            start: start.into(),
            end: end.unwrap_or(u32::MAX).into(),
        });
        Some(SymbolMatch::new(function, &all))
    }

    /// The path of a source file of a module.
    fn path(&self, index: usize, module: &Module, file: u32) -> Option<Arc<str>> {
        let path = || {
            let path = self.modules.file(module, file)?;
            Some(String::from_utf8_lossy(path).into_owned())
        };
        self.paths.get((index, file), path)
    }

    pub(super) fn functions(&self) -> Vec<Function> {
        let mut all: Vec<u32> =
            self.starts.iter().filter_map(|start| self.address(start.place)).collect();
        for module in (0..self.modules.count()).filter_map(|module| self.modules.get(module)) {
            let places = module.procedures.iter().map(|procedure| procedure.place);
            all.extend(places.filter_map(|place| self.address(place)));
        }
        all.sort_unstable();
        all.dedup();
        let function = |address: u32| {
            let located = self.locate(self.place(address)?)?;
            let (start, end) = self.bounds(&located)?;
            let name = self.name(&located)?.text;
            Some(Function {
                also: self.also(&located, &name),
                name: name.to_string(),
                start: start.into(),
                end: end.unwrap_or(start).into(),
            })
        };
        all.into_iter().filter_map(function).collect()
    }

    /// What was left out, if anything was.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let types = self.types.is_cut().then(|| {
            "some of its names are cut: their types are too long, too deep or too complex"
                .to_owned()
        });
        let left_out = self.left_out;
        let code = (left_out > 0).then(|| {
            format!(
                "code of its object files is left out in {left_out} places: it overlaps others'"
            )
        });
        let others = self.modules.note().into_iter().chain(self.demangler.note());
        types.into_iter().chain(code).chain(others).chain(self.paths.note())
    }

    fn place(&self, address: u32) -> Option<Place> {
        let PdbInternalSectionOffset { section, offset } =
            Rva(address).to_internal_offset(&self.addresses)?;
        Some(Place { section, offset })
    }

    fn address(&self, Place { section, offset }: Place) -> Option<u32> {
        Some(PdbInternalSectionOffset { section, offset }.to_rva(&self.addresses)?.0)
    }

    /// The first address of a function, and the first after it.
    fn bounds(&self, located: &Located<'_>) -> Option<(u32, Option<u32>)> {
        let start = self.address(located.place)?;
        Some((start, located.length.and_then(|length| start.checked_add(length))))
    }

    /// The function at a place: the procedure of the module whose code it is, else what began last
    /// there.
    fn locate(&self, place: Place) -> Option<Located<'_>> {
        let Place { section, offset } = place;
        let next = self
            .contributions
            .partition_point(|one| (one.section, one.range.start) <= (section, offset));
        let own = self.contributions.get(next.checked_sub(1)?)?;
        if own.section != section || !own.range.contains(&offset) {
            return None;
        }
        let (module_index, module) = (own.module, self.modules.get(own.module));
        if let Some((index, procedure)) = module.and_then(|module| module.procedure(place)) {
            return Some(Located {
                origin: Origin::Procedure(module_index, index),
                module,
                module_index,
                place: procedure.place,
                length: Some(procedure.length),
            });
        }
        let next = self.starts.partition_point(|start| start.place <= place);
        let index = next.checked_sub(1)?;
        let start = self.starts.get(index)?.place;
        if start.section != section || start.offset < own.range.start {
            return None;
        }
        let following = self.starts.get(next).map(|start| start.place);
        let following = following.filter(|next| next.section == section);
        let length = following.map(|next| next.offset - start.offset);
        Some(Located { origin: Origin::Start(index), module, module_index, place: start, length })
    }

    fn name(&self, located: &Located<'_>) -> Option<Name> {
        if let Some(name) = self.names.borrow().get(&located.origin) {
            return name.clone();
        }
        let name = match (located.origin, located.module) {
            (Origin::Procedure(_, index), Some(module)) => {
                let procedure = module.procedures.get(index);
                procedure.map(|procedure| self.procedure(located, module, procedure))
            }
            (Origin::Start(index), _) => {
                let public = self.starts.get(index).and_then(|start| self.public(start));
                public.map(|name| self.plain(&name))
            }
            (Origin::Procedure(..), None) => None,
        };
        self.names.borrow_mut().insert(located.origin, name.clone());
        name
    }

    /// The other names of a function that is shown as `own`: further procedures and public symbols at
    /// its place. A public symbol without parameters is mostly that of a procedure with some.
    fn also(&self, located: &Located<'_>, own: &Arc<str>) -> Arc<[Arc<str>]> {
        if let Some(also) = self.also.borrow().get(&located.place) {
            return Arc::clone(also);
        }
        let mut all: Vec<Arc<str>> = Vec::new();
        if let Some(module) = located.module {
            let others = module.others(located.place).iter().take(ALSO_MAX);
            let named = others.map(|other| self.procedure(located, module, other));
            all.extend(named.map(|name| name.text));
        }
        let mut known: HashSet<Arc<str>> = HashSet::new();
        for name in std::iter::once(own).chain(&all) {
            let bare = FunctionName::of(name).without_arguments();
            known.extend([Arc::clone(name), bare.into()]);
        }
        let at = self.starts.binary_search_by_key(&located.place, |start| start.place);
        let first = self.others.partition_point(|other| other.place < located.place);
        let others = self.others.get(first..).unwrap_or_default();
        let others = others.iter().take_while(|other| other.place == located.place);
        let publics = at.ok().and_then(|at| self.starts.get(at)).into_iter().chain(others);
        for name in publics.filter_map(|start| self.public(start)).take(ALSO_MAX) {
            let text = self.plain(&name).text;
            if known.insert(Arc::clone(&text)) {
                all.push(text);
            }
        }
        all.retain(|name| name != own);
        all.sort_unstable();
        all.dedup();
        all.truncate(ALSO_MAX);
        let all: Arc<[Arc<str>]> = all.into();
        self.also.borrow_mut().insert(located.place, Arc::clone(&all));
        all
    }

    fn procedure(&self, located: &Located<'_>, module: &Module, procedure: &Procedure) -> Name {
        let name = String::from_utf8_lossy(module.name(procedure));
        if procedure.index == 0 && !name.starts_with('?') {
            // A decorated public symbol says more than a name without a type.
            let there = self.starts.binary_search_by_key(&located.place, |start| start.place);
            let public = there.ok().and_then(|start| self.public(self.starts.get(start)?));
            if let Some(public) = public.filter(|public| public.starts_with('?')) {
                return self.plain(&public);
            }
        }
        if procedure.index == 0 {
            return self.plain(&name);
        }
        let written =
            self.types.function(&self.modules, located.module_index, &name, procedure.index);
        let has_parameters = written.length() > name.len();
        let origin = [located.place.section.into(), located.place.offset].map(u32::to_le_bytes);
        let text = written.shown(&origin.concat());
        if !has_parameters && text.starts_with(['?', '_']) {
            return self.plain(&text);
        }
        let text = with_variable_arguments(text);
        Name { text: self.demangler.shown(&text), has_parameters }
    }

    /// The name of a public symbol, as the linker knows it.
    fn public(&self, start: &Start) -> Option<String> {
        let symbol = start.symbol?;
        let symbol = self.symbols.iter_at(symbol).next().ok()??;
        let mut fields = Fields(symbol.raw_bytes());
        // Its kind, its flags, and where it is, come before the name.
        fields.bytes(2 + 4 + 4 + 2)?;
        Some(String::from_utf8_lossy(fields.text()).into_owned())
    }

    /// A name without parameters.
    fn plain(&self, name: &str) -> Name {
        if name.contains('(') {
            let text = self.demangler.shown(&with_variable_arguments(name.into()));
            return Name { text, has_parameters: true };
        }
        let text = self.demangler.shown(without_decoration(name, self.is_32_bit));
        Name { text, has_parameters: false }
    }

    /// The name of an inlined function.
    fn inlined(&self, module: usize, inlinee: u32) -> Arc<str> {
        let mut names = self.inlined.borrow_mut();
        let name = || {
            let written = self.types.identifier(&self.modules, module, inlinee);
            let text = written.shown(&inlinee.to_le_bytes());
            if !text.contains('(') {
                return self.demangler.shown(without_decoration(&text, self.is_32_bit));
            }
            self.demangler.shown(&with_variable_arguments(text))
        };
        Arc::clone(names.entry((module, inlinee)).or_insert_with(name))
    }
}

/// The stream with the names of other streams, that of the types, and that of what has a name and a
/// type.
const INFORMATION: u16 = 1;
const TYPES: u16 = 2;
const IDENTIFIERS: u16 = 4;

/// The list of modules, if each has a stream of its own that is as long as the list says: the stream
/// is copied for each of them.
fn modules(
    information: &DebugInformation<'_>,
    directory: &Directory,
) -> Result<Vec<ModuleInfo>, String> {
    let text = |error: pdb2::Error| error.to_string();
    let mut streams = vec![false; 1 << 16];
    let mut all = Vec::new();
    let mut modules = information.modules().map_err(text)?;
    while let Some(module) = modules.next().map_err(text)? {
        let info = module.info();
        let StreamIndex(number) = info.stream;
        let length = u64::from(directory.length(number));
        let stated = u64::from(info.symbols_size)
            + u64::from(info.lines_size)
            + u64::from(info.c13_lines_size);
        if info.stream.is_none() {
            // An import library has none.
        } else if length < stated {
            return Err("it is damaged: it has parts that are shorter than it says".to_owned());
        } else if length > 0 && std::mem::replace(&mut streams[usize::from(number)], true) {
            return Err("it is damaged: two of its modules share a stream".to_owned());
        }
        all.push(ModuleInfo {
            name: module.module_name().into_owned(),
            stream: info.stream,
            symbols: info.symbols_size,
            old_lines: info.lines_size,
            lines: info.c13_lines_size,
        });
    }
    Ok(all)
}

/// The code that modules have, in the order of its places; of what overlaps, the later is left out, and
/// counted.
fn contributions(
    information: &DebugInformation<'_>,
    is_code: impl Fn(u16) -> bool,
) -> pdb2::Result<(Vec<Contribution>, usize)> {
    let mut all = Vec::new();
    let mut contributions = information.section_contributions()?;
    while let Some(one) = contributions.next()? {
        let PdbInternalSectionOffset { section, offset } = one.offset;
        if one.size != 0 && is_code(section) {
            let range = offset..offset.saturating_add(one.size);
            all.push(Contribution { section, range, module: one.module });
        }
    }
    all.sort_by_key(|one| (one.section, one.range.start));
    let count = all.len();
    let mut end = (0, 0);
    all.retain(|one| {
        let is_apart = (one.section, one.range.start) >= end;
        if is_apart {
            end = (one.section, one.range.end);
        }
        is_apart
    });
    let left_out = count - all.len();
    Ok((all, left_out))
}

/// Neighbours of one module are one: between them is what fills them up.
fn merged(contributions: Vec<Contribution>) -> Vec<Contribution> {
    let mut merged: Vec<Contribution> = Vec::new();
    for one in contributions {
        match merged.last_mut() {
            Some(last) if (last.section, last.module) == (one.section, one.module) => {
                last.range.end = one.range.end;
            }
            _ => merged.push(one),
        }
    }
    merged
}

/// Where public symbols of code are.
fn publics(symbols: &SymbolTable<'_>, is_code: impl Fn(u16) -> bool) -> pdb2::Result<Vec<Start>> {
    let mut all = Vec::new();
    let mut symbols = symbols.iter();
    while let Some(symbol) = symbols.next()? {
        let mut fields = Fields(symbol.raw_bytes());
        let (kind, _flags) = (fields.u16(), fields.u32());
        if let (Some(S_PUB32), Some(offset), Some(section)) = (kind, fields.u32(), fields.u16())
            && is_code(section)
        {
            let place = Place { section, offset };
            all.push(Start { place, symbol: Some(symbol.index()) });
        }
    }
    Ok(all)
}

/// Whether it is of /DEBUG:FASTLINK; `None` if a name of a stream does not begin within the names,
/// where the parser panics.
fn is_partial(pdb: &mut PDB<'_, File>) -> pdb2::Result<Option<bool>> {
    let names = pdb.raw_stream(StreamIndex(INFORMATION))?;
    let names = names.as_ref().and_then(|stream| Names::of(stream.as_slice()));
    let Some(Names { are_whole, features }) = names else {
        return Ok(Some(false));
    };
    Ok(are_whole.then(|| features.contains(&MINIMAL)))
}

/// The feature of a PDB that /DEBUG:FASTLINK made, `MINI` (LLVM, "The PDB Info Stream",
/// `MinimalDebugInfo`).
const MINIMAL: u32 = 0x494E_494D;

/// The end of the stream with the names of other streams.
struct Names {
    /// Whether each name begins within the names.
    are_whole: bool,
    /// The numbers behind the names, which say what the PDB has.
    features: Vec<u32>,
}

impl Names {
    /// `None` if the stream ends before its tables do.
    fn of(stream: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = stream.get(at..at.checked_add(4)?)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes) as usize)
        };
        // Behind the version, the time, the age and the GUID: the names, the number of entries and
        // their room, two arrays of words, and the entries.
        let size = number(28)?;
        let map = 32 + size;
        let first = map + 12 + 4 * number(map + 8)?;
        let entries = first + 4 + 4 * number(first)?;
        let count = number(map)?;
        let mut are_whole = true;
        for entry in 0..count {
            are_whole &= number(entries + 8 * entry)? <= size;
        }
        let (features, _) = stream.get(entries + 8 * count..)?.as_chunks::<4>();
        let features = features.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        Some(Self { are_whole, features })
    }
}

/// The identity of a PDB. It holds two ages: linkers copy the second one into the image, and tools
/// that add to a PDB raise only the first.
fn identity(pdb: &mut PDB<'_, File>, recorded: &Identity) -> pdb2::Result<Identity> {
    let information = pdb.pdb_information()?;
    let second = pdb.debug_information()?.age();
    let age = match recorded {
        Identity::Pdb { age, .. } if *age == information.age => *age,
        _ => second.unwrap_or(information.age),
    };
    let guid = information.guid.simple().to_string().to_ascii_uppercase();
    Ok(Identity::Pdb { guid, age, file: String::new() })
}
