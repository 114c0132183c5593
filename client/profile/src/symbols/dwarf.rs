//! Functions and lines from DWARF.
//!
//! Files are read, not mapped: a mapped file that somebody shortens ends the process. Split DWARF,
//! which compilers write for ELF alone, is not read: its functions and lines are in the file itself,
//! and only the names of inlined functions are not.

mod entries;
mod limits;
mod lines;
mod unit;
mod units;

use super::bytes::Bytes;
use super::demangle::Demangler;
use super::functions::Function;
use super::image;
use super::paths::Paths;
use super::symbol_match::{InlineFrame, SymbolMatch};
use super::unwind::Unwinding;
use crate::budget;
use flate2::read::ZlibDecoder;
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId, UnitOffset};
use limits::Limits;
use object::read::ReadRef;
use object::{Object, ObjectSection};
use rustc_hash::FxHashMap;
use self_cell::self_cell;
use std::cell::{Cell, RefCell};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use unit::Unit;
use units::Units;

type Sections = DwarfSections<Vec<u8>>;
type Slice<'a> = EndianSlice<'a, LittleEndian>;

self_cell!(
    struct Opened {
        owner: Sections,
        #[not_covariant]
        dependent: Units,
    }
);

pub(super) struct Dwarf {
    opened: Opened,
    base: u64,
    demangler: Demangler,
    /// The names of functions that were looked up, by the offsets of their entries.
    names: RefCell<FxHashMap<usize, Arc<str>>>,
    /// The paths of source files, by the offset of the unit and the index of the file in it.
    paths: Paths<(Option<usize>, u64)>,
}

impl Dwarf {
    /// Opens a file whose tables place its start at the address `base`.
    pub(super) fn open(file: &Path, base: u64) -> Result<Self, String> {
        let (sections, length) = sections(file)?;
        let opened = Opened::try_new(sections, |sections| {
            let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
            Units::open(dwarf, Limits::of(length))
        })?;
        Ok(Self {
            opened,
            base,
            demangler: Demangler::of(length),
            names: RefCell::default(),
            paths: Paths::of(length),
        })
    }

    /// The code at an address relative to the module's start; `function` is the symbol table's
    /// function there. Without it, DWARF gives the bounds, or else the unwinding information.
    pub(super) fn find(
        &self,
        address: u64,
        function: Option<Function>,
        unwinding: Option<&Unwinding>,
    ) -> SymbolMatch {
        self.opened.with_dependent(|_, units| {
            let Some(found) = units.find(address.wrapping_add(self.base)) else {
                return SymbolMatch { function, ..SymbolMatch::default() };
            };
            let mut all = Vec::new();
            let (mut file, mut line) = found.location.unzip();
            let path = |file: Option<u64>| self.path(units, found.unit, file?);
            for call in found.inlined.iter().rev() {
                let name = self.name(units, found.unit, call.entry);
                all.push(InlineFrame { name, file: path(file), line });
                (file, line) = (call.file, Some(call.line));
            }
            let own = found.function.as_ref();
            let name = own.map(|&(_, entry)| self.name(units, found.unit, entry));
            let own_name = name.clone().unwrap_or_default();
            all.push(InlineFrame { name: Arc::clone(&own_name), file: path(file), line });
            let relative = |address: u64| address.wrapping_sub(self.base);
            let outer = || {
                let name = name.filter(|name| !name.is_empty())?.to_string();
                let own = own.map(|(code, _)| relative(code.start)..relative(code.end));
                let part = || Some(unwinding?.part(address)?.range.clone());
                let Range { start, end } =
                    own.or_else(part).unwrap_or(address..address.saturating_add(1));
                Some(Function { name, also: Arc::default(), start, end })
            };
            let function = function.map(|function| {
                // If the address has several names, the function gets the one that has these lines.
                let starts_there =
                    own.is_some_and(|(code, _)| relative(code.start) == function.start);
                if starts_there { function.called(&own_name) } else { function }
            });
            SymbolMatch::new(function.or_else(outer), &all)
        })
    }

    /// The path of a source file of a unit.
    fn path<'a>(&self, units: &Units<'a>, unit: &Unit<'a>, file: u64) -> Option<Arc<str>> {
        let key = (units.offset(unit, UnitOffset(0)), file);
        self.paths.get(key, || units.file(unit, file))
    }

    /// The name of an entry; empty if it has none.
    fn name<'a>(&self, units: &Units<'a>, unit: &Unit<'a>, entry: UnitOffset) -> Arc<str> {
        let name = || {
            let name = units.name(unit, entry).unwrap_or_default();
            self.demangler.shown(&String::from_utf8_lossy(name))
        };
        match units.offset(unit, entry) {
            Some(offset) => self.names.borrow_mut().entry(offset).or_insert_with(name).clone(),
            None => name(),
        }
    }

    /// What was left out, if anything was.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let limits = self.opened.with_dependent(|_, units| units.limits().note());
        limits.into_iter().chain(self.demangler.note()).chain(self.paths.note())
    }
}

/// The sections, and their length together.
fn sections(file: &Path) -> Result<(Sections, u64), String> {
    let bytes = Bytes::open(file)?;
    let object = object::File::parse(&bytes).map_err(|error| error.to_string())?;
    if !object.is_little_endian() {
        return Err("it is not of x86 or x64".to_owned());
    }
    let room = budget::expanded(bytes.length());
    let left = Cell::new(room);
    let sections = Sections::load(|id| match id {
        // Nothing here needs them, and they are long.
        SectionId::DebugLoc
        | SectionId::DebugLocLists
        | SectionId::DebugMacinfo
        | SectionId::DebugMacro
        | SectionId::DebugNames
        | SectionId::DebugTypes => Ok(Vec::new()),
        needed => section(&object, needed.name(), &left),
    })?;
    Ok((sections, room - left.get()))
}

/// A section, expanded if it is compressed; empty if the file has none of that name. All together may
/// have as many bytes as are `left`.
fn section<'a>(
    object: &object::File<'a, impl ReadRef<'a>>,
    name: &str,
    left: &Cell<u64>,
) -> Result<Vec<u8>, String> {
    let text = |error: object::Error| error.to_string();
    if let Some(section) = object.section_by_name(name) {
        let data = section.compressed_data().map_err(text)?;
        take(left, data.uncompressed_size)?;
        return Ok(data.decompress().map_err(text)?.into_owned());
    }
    match object.section_by_name(&image::zdebug(name)) {
        Some(section) => expanded(section.data().map_err(text)?, left),
        None => Ok(Vec::new()),
    }
}

fn take(left: &Cell<u64>, length: u64) -> Result<(), String> {
    let rest = left.get().checked_sub(length);
    left.set(
        rest.ok_or("its debug information is much longer than the file, once it is expanded")?,
    );
    Ok(())
}

/// The contents of a `.zdebug_` section: `ZLIB`, the length, the highest byte first, and what zlib
/// has compressed. Go writes them in PE files too.
fn expanded(data: &[u8], left: &Cell<u64>) -> Result<Vec<u8>, String> {
    let damaged = || "one of its compressed sections is damaged".to_owned();
    let rest = data.strip_prefix(b"ZLIB").ok_or_else(damaged)?;
    let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    let length = u64::from_be_bytes(*length);
    take(left, length)?;
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
        let expanded = |section: &[u8]| expanded(section, &Cell::new(1 << 20));
        assert_eq!(expanded(&section(1000)), Ok(vec![7; 1000]));
        assert_eq!(expanded(&section(10)), Ok(vec![7; 10]));
        for wrong in [section(1001), section(u64::MAX), b"ZLIB".to_vec(), bytes.clone(), vec![]] {
            assert!(expanded(&wrong).is_err());
        }
    }
}
