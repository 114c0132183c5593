//! Functions and lines from DWARF.
//!
//! Files are read, not mapped: a mapped file that somebody shortens ends the process. Split DWARF
//! is read from where [`SymbolPath::split_files`] allows, not from where the program names it.

use super::functions::Function;
use super::search::SymbolPath;
use super::symbol_match::SymbolMatch;
use super::{Inlined, demangle, image};
use addr2line::gimli::{
    AbbreviationsCacheStrategy, Dwarf as Sections, DwarfPackage, EndianSlice, LittleEndian,
    SectionId,
};
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use object::read::ReadCache;
use object::{Object, ObjectSection};
use self_cell::self_cell;
use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use typed_arena::Arena;

/// The longest section that is read: 4 GiB, all that DWARF with offsets of 32 bits can use.
const SECTION_BYTES_MAX: u64 = 1 << 32;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Unit<'a> = Arc<Sections<Slice<'a>>>;

/// The files that were opened and the sections that were expanded, from which the tables borrow.
#[derive(Default)]
struct Kept {
    files: Arena<ReadCache<File>>,
    expanded: Arena<Vec<u8>>,
}

struct Tables<'a> {
    context: Context<Slice<'a>>,
    /// The split DWARF of all units, beside the file.
    package: Option<DwarfPackage<Slice<'a>>>,
}

self_cell!(
    struct Opened {
        owner: Kept,
        #[not_covariant]
        dependent: Tables,
    }
);

pub(super) struct Dwarf {
    opened: Opened,
    base: u64,
    file: PathBuf,
    path: SymbolPath,
    /// The split DWARF that was not found.
    missing: RefCell<Vec<String>>,
}

impl Dwarf {
    /// Opens a file whose tables place its start at the address `base`.
    pub(super) fn open(file: &Path, base: u64, path: &SymbolPath) -> Result<Self, String> {
        let opened = Opened::try_new(Kept::default(), |kept| tables(kept, file))?;
        Ok(Self {
            opened,
            base,
            file: file.to_owned(),
            path: path.clone(),
            missing: RefCell::default(),
        })
    }

    /// The code at an address relative to the module's start; `function` is the symbol table's
    /// function there, which alone gives its bounds.
    pub(super) fn find(&self, address: u64, function: Option<&Function>) -> Option<SymbolMatch> {
        self.opened.with_dependent(|kept, tables| {
            let mut lookup = tables.context.find_frames(address.wrapping_add(self.base));
            let mut frames = loop {
                match lookup {
                    LookupResult::Output(frames) => break frames.ok()?,
                    LookupResult::Load { load, continuation } => {
                        lookup = continuation.resume(self.split(kept, tables, &load));
                    }
                }
            };
            let mut symbol_match =
                SymbolMatch { function: function.cloned(), ..SymbolMatch::default() };
            let mut inner: Option<Inlined> = None;
            let mut first = true;
            while let Ok(Some(frame)) = frames.next() {
                let location = frame.location.as_ref();
                let file = location.and_then(|location| location.file);
                let line = location.and_then(|location| location.line);
                if first {
                    (symbol_match.file, symbol_match.line) = (file.map(str::to_owned), line);
                    first = false;
                }
                if let Some(mut inlined) = inner.take() {
                    inlined.caller_file = file.map(Into::into);
                    inlined.caller_line = line;
                    symbol_match.inlined.push(inlined);
                }
                let name = frame.function.as_ref();
                let name = name.and_then(|name| name.raw_name().ok());
                inner = Some(Inlined {
                    function: demangle::demangle(&name.unwrap_or_default()).into(),
                    caller_file: None,
                    caller_line: None,
                });
            }
            if let (None, Some(outer)) = (&symbol_match.function, inner) {
                symbol_match.function = unbounded(&outer.function, address);
            }
            Some(symbol_match)
        })
    }

    /// What of its split DWARF was needed and not found.
    pub(super) fn note(&self) -> Option<String> {
        let missing = self.missing.borrow();
        let first = missing.first()?;
        let more = match missing.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "inlined functions have no names where split DWARF is missing: {first}{more} was not \
             found in the folders of the symbol path or beside the module"
        ))
    }

    /// The part of a unit that its compiler has put into another file.
    fn split<'a>(
        &self,
        kept: &'a Kept,
        tables: &Tables<'a>,
        load: &SplitDwarfLoad<Slice<'a>>,
    ) -> Option<Unit<'a>> {
        let package = tables.package.as_ref();
        let packed = package.and_then(|package| package.find_cu(load.dwo_id, &load.parent).ok()?);
        if let Some(unit) = packed {
            return Some(Arc::new(unit));
        }
        let [folder, name] =
            [load.comp_dir, load.path].map(|part| part.unwrap_or_default().slice());
        let [folder, name] = [folder, name].map(String::from_utf8_lossy);
        let locations = self.path.split_files(&folder, &name, &self.file);
        let mut locations = locations.iter().filter(|place| place.is_file());
        let symbol_match = locations.find_map(|place| unit(kept, place, load));
        if symbol_match.is_none() {
            self.missing.borrow_mut().push(name.into_owned());
        }
        symbol_match
    }
}

/// A function of which only the name is known.
fn unbounded(name: &str, address: u64) -> Option<Function> {
    (!name.is_empty()).then(|| Function {
        name: name.to_owned(),
        start: address,
        end: address.saturating_add(1),
    })
}

fn tables<'a>(kept: &'a Kept, file: &Path) -> Result<Tables<'a>, String> {
    let mut sections = sections(kept, file)?;
    sections.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    let context = Context::from_dwarf(sections).map_err(|error| error.to_string())?;
    let mut packed = file.as_os_str().to_owned();
    packed.push(".dwp");
    Ok(Tables { context, package: package(kept, Path::new(&packed)) })
}

fn package<'a>(kept: &'a Kept, file: &Path) -> Option<DwarfPackage<Slice<'a>>> {
    let object = Parsed::open(kept, file).ok()?;
    let section = |id: SectionId| {
        let read = object.section(id.dwo_name());
        read.map_err(|_| addr2line::gimli::Error::Io)
    };
    DwarfPackage::load(section, Slice::default()).ok()
}

/// A file with the split DWARF of one unit, if it is the one that is wanted.
fn unit<'a>(kept: &'a Kept, file: &Path, wanted: &SplitDwarfLoad<Slice<'a>>) -> Option<Unit<'a>> {
    let object = Parsed::open(kept, file).ok()?;
    let mut sections = Sections::load(|id| object.section(id.dwo_name())).ok()?;
    let head = sections.units().next().ok()??;
    if sections.unit(head).ok()?.dwo_id != Some(wanted.dwo_id) {
        return None;
    }
    sections.make_dwo(&wanted.parent);
    Some(Arc::new(sections))
}

fn sections<'a>(kept: &'a Kept, file: &Path) -> Result<Sections<Slice<'a>>, String> {
    let object = Parsed::open(kept, file)?;
    Sections::load(|id| match id {
        // Nothing here needs them, and they are long.
        SectionId::DebugLoc
        | SectionId::DebugLocLists
        | SectionId::DebugMacinfo
        | SectionId::DebugMacro
        | SectionId::DebugNames
        | SectionId::DebugTypes => Ok(Slice::default()),
        needed => object.section(Some(needed.name())),
    })
}

struct Parsed<'a> {
    kept: &'a Kept,
    object: object::File<'a, &'a ReadCache<File>>,
}

impl<'a> Parsed<'a> {
    fn open(kept: &'a Kept, file: &Path) -> Result<Self, String> {
        let file = &*kept.files.alloc(ReadCache::new(image::open(file)?));
        let object = object::File::parse(file).map_err(|error| error.to_string())?;
        if object.is_little_endian() {
            Ok(Self { kept, object })
        } else {
            Err("it is not of x86 or x64".to_owned())
        }
    }

    /// A section, expanded if it is compressed; empty if the file has none of that name.
    fn section(&self, name: Option<&str>) -> Result<Slice<'a>, String> {
        let Some(section) = name.and_then(|name| self.object.section_by_name(name)) else {
            return Ok(Slice::default());
        };
        let data = section.compressed_data().map_err(|error| error.to_string())?;
        if data.uncompressed_size > SECTION_BYTES_MAX {
            return Err("one of its sections is longer than any".to_owned());
        }
        Ok(match data.decompress().map_err(|error| error.to_string())? {
            Cow::Borrowed(bytes) => Slice::new(bytes, LittleEndian),
            Cow::Owned(bytes) => Slice::new(self.kept.expanded.alloc(bytes), LittleEndian),
        })
    }
}
