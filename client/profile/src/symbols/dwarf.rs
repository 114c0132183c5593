//! Functions and lines from DWARF.
//!
//! Files are read, not mapped: a mapped file that somebody shortens ends the process. Split DWARF,
//! which compilers write for ELF alone, is not read: its functions and lines are in the file itself,
//! and only the names of inlined functions are not.

use super::functions::Function;
use super::symbol_match::{InlineFrame, SymbolMatch};
use super::unwind::Unwinding;
use super::{demangle, image};
use addr2line::Context;
use addr2line::gimli::{
    AbbreviationsCacheStrategy, DW_TAG_subprogram, DwarfSections, EndianSlice, LittleEndian,
    SectionId, UnitRef,
};
use flate2::read::ZlibDecoder;
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection};
use rustc_hash::FxHashMap;
use self_cell::self_cell;
use std::cell::RefCell;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// The longest section that is read: 4 GiB, all that DWARF with offsets of 32 bits can use.
const SECTION_BYTES_MAX: u64 = 1 << 32;

const TOO_LONG: &str = "one of its sections is longer than any";

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
    /// The code of each unit's functions, in order, by the unit's offset.
    subprograms: RefCell<FxHashMap<usize, Vec<Range<u64>>>>,
}

impl Dwarf {
    /// Opens a file whose tables place its start at the address `base`.
    pub(super) fn open(file: &Path, base: u64) -> Result<Self, String> {
        let opened = Opened::try_new(sections(file)?, tables)?;
        Ok(Self { opened, base, subprograms: RefCell::default() })
    }

    /// The code at an address relative to the module's start; `function` is the symbol table's
    /// function there. Without it, DWARF gives the bounds, or else the unwinding information.
    pub(super) fn find(
        &self,
        address: u64,
        function: Option<&Function>,
        unwinding: Option<&Unwinding>,
    ) -> Option<SymbolMatch> {
        self.opened.with_dependent(|_, tables| {
            let probe = address.wrapping_add(self.base);
            let mut frames = tables.find_frames(probe).skip_all_loads().ok()?;
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
            let outer = || {
                let name = all.last().map(|outer| outer.name.clone());
                let name = name.filter(|name| !name.is_empty())?;
                let own = self.subprogram(tables, probe);
                let part = || Some(unwinding?.part(address)?.range.clone());
                let Range { start, end } =
                    own.or_else(part).unwrap_or(address..address.saturating_add(1));
                Some(Function { name, start, end })
            };
            Some(SymbolMatch::new(function.cloned().or_else(outer), &all))
        })
    }

    /// The code of the `DW_TAG_subprogram` at an address of the file.
    fn subprogram(&self, tables: &Tables<'_>, probe: u64) -> Option<Range<u64>> {
        let unit = tables.find_dwarf_and_unit(probe).skip_all_loads()?;
        let mut known = self.subprograms.borrow_mut();
        let all = known.entry(unit.header.offset().0).or_insert_with(|| subprograms(unit));
        let next = all.partition_point(|range| range.start <= probe);
        let Range { start, end } = all.get(next.checked_sub(1)?)?.clone();
        let relative = start.wrapping_sub(self.base)..end.wrapping_sub(self.base);
        (start..end).contains(&probe).then_some(relative)
    }
}

/// The code of all functions of a unit.
fn subprograms(unit: UnitRef<'_, EndianSlice<'_, LittleEndian>>) -> Vec<Range<u64>> {
    let mut all = Vec::new();
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.tag() != DW_TAG_subprogram {
            continue;
        }
        let Ok(mut ranges) = unit.die_ranges(entry) else {
            continue;
        };
        while let Ok(Some(range)) = ranges.next() {
            all.push(range.begin..range.end);
        }
    }
    all.sort_by_key(|range| range.start);
    all
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
    let text = |error: object::Error| error.to_string();
    if let Some(section) = object.section_by_name(name) {
        let data = section.compressed_data().map_err(text)?;
        if data.uncompressed_size > SECTION_BYTES_MAX {
            return Err(TOO_LONG.to_owned());
        }
        return Ok(data.decompress().map_err(text)?.into_owned());
    }
    match object.section_by_name(&image::zdebug(name)) {
        Some(section) => expanded(section.data().map_err(text)?),
        None => Ok(Vec::new()),
    }
}

/// The contents of a `.zdebug_` section: `ZLIB`, the length, the highest byte first, and what zlib
/// has compressed. Go writes them in PE files too.
fn expanded(data: &[u8]) -> Result<Vec<u8>, String> {
    let damaged = || "one of its compressed sections is damaged".to_owned();
    let rest = data.strip_prefix(b"ZLIB").ok_or_else(damaged)?;
    let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    let length = u64::from_be_bytes(*length);
    if length > SECTION_BYTES_MAX {
        return Err(TOO_LONG.to_owned());
    }
    let mut bytes = Vec::new();
    let mut reader = ZlibDecoder::new(rest).take(length);
    reader.read_to_end(&mut bytes).map_err(|_| damaged())?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;

    #[test]
    fn a_compressed_section_has_the_length_that_it_says() {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&[7; 1000]).expect("written");
        let bytes = encoder.finish().expect("compressed");
        let section = |length: u64| [&b"ZLIB"[..], &length.to_be_bytes(), &bytes].concat();
        assert_eq!(expanded(&section(1000)), Ok(vec![7; 1000]));
        assert_eq!(expanded(&section(10)), Ok(vec![7; 10]));
        for wrong in [section(1001), section(u64::MAX), b"ZLIB".to_vec(), bytes.clone(), vec![]] {
            assert!(expanded(&wrong).is_err());
        }
    }
}
