//! Functions and lines from DWARF.
//!
//! Files are read, not mapped: a mapped file that somebody shortens ends the process. Split DWARF,
//! which compilers write for ELF alone, is not read: its functions and lines are in the file itself,
//! and only the names of inlined functions are not.

use super::functions::Function;
use super::symbol_match::{InlineFrame, SymbolMatch};
use super::{demangle, image};
use addr2line::Context;
use addr2line::gimli::{
    AbbreviationsCacheStrategy, DwarfSections, EndianSlice, LittleEndian, SectionId,
};
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection};
use self_cell::self_cell;
use std::path::Path;

/// The longest section that is read: 4 GiB, all that DWARF with offsets of 32 bits can use.
const SECTION_BYTES_MAX: u64 = 1 << 32;

type Sections = DwarfSections<Vec<u8>>;
type Tables<'a> = Context<EndianSlice<'a, LittleEndian>>;

self_cell!(
    struct Opened {
        owner: Sections,
        #[not_covariant]
        dependent: Tables,
    }
);

pub(super) struct Dwarf {
    opened: Opened,
    base: u64,
}

impl Dwarf {
    /// Opens a file whose tables place its start at the address `base`.
    pub(super) fn open(file: &Path, base: u64) -> Result<Self, String> {
        Ok(Self { opened: Opened::try_new(sections(file)?, tables)?, base })
    }

    /// The code at an address relative to the module's start; `function` is the symbol table's
    /// function there, which alone gives its bounds.
    pub(super) fn find(&self, address: u64, function: Option<&Function>) -> Option<SymbolMatch> {
        self.opened.with_dependent(|_, tables| {
            let frames = tables.find_frames(address.wrapping_add(self.base));
            let mut frames = frames.skip_all_loads().ok()?;
            let mut all = Vec::new();
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref();
                let name = name.and_then(|name| name.raw_name().ok()).unwrap_or_default();
                let location = frame.location.as_ref();
                all.push(InlineFrame {
                    name: demangle::demangle(&name),
                    file: location.and_then(|location| location.file),
                    line: location.and_then(|location| location.line),
                });
            }
            let outer = || unbounded(&all.last()?.name, address);
            Some(SymbolMatch::new(function.cloned().or_else(outer), &all))
        })
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

fn tables(sections: &Sections) -> Result<Tables<'_>, String> {
    let mut dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    Context::from_dwarf(dwarf).map_err(|error| error.to_string())
}

fn sections(file: &Path) -> Result<Sections, String> {
    let cache = ReadCache::new(image::open(file)?);
    let object = object::File::parse(&cache).map_err(|error| error.to_string())?;
    if !object.is_little_endian() {
        return Err("it is not of x86 or x64".to_owned());
    }
    Sections::load(|id| match id {
        // Nothing here needs them, and they are long.
        SectionId::DebugLoc
        | SectionId::DebugLocLists
        | SectionId::DebugMacinfo
        | SectionId::DebugMacro
        | SectionId::DebugNames
        | SectionId::DebugTypes => Ok(Vec::new()),
        needed => section(&object, needed.name()),
    })
}

/// A section, expanded if it is compressed; empty if the file has none of that name.
fn section<'a>(object: &object::File<'a, impl ReadRef<'a>>, name: &str) -> Result<Vec<u8>, String> {
    let Some(section) = object.section_by_name(name) else {
        return Ok(Vec::new());
    };
    let data = section.compressed_data().map_err(|error| error.to_string())?;
    if data.uncompressed_size > SECTION_BYTES_MAX {
        return Err("one of its sections is longer than any".to_owned());
    }
    let bytes = data.decompress().map_err(|error| error.to_string())?;
    Ok(bytes.into_owned())
}
