//! The units of a file: which of them have an address, and the names of their entries.

use super::Slice;
use super::entries::{Root, taken, text};
use super::limits::Limits;
use super::lines::Lines;
use super::unit::{InlinedCall, Unit};
use gimli::{
    AttributeValue, DebugArangesOffset, DebugInfoOffset, EntriesRaw, Reader, Section, UnitOffset,
    UnitRef, UnitType,
};
use std::cell::OnceCell;
use std::ops::Range;

/// Names lead from the entry of a call to that of its function, and to the declaration of that.
const REFERENCES_MAX: usize = 16;

/// How many units that overlap are looked at for an address: those whose ranges of addresses begin
/// nearest before it. Functions that several units have, and code that the linker removed, overlap.
const OVERLAPPING: usize = 64;

/// A unit that others refer to, or that has code.
struct Place<'a> {
    offset: usize,
    unit: OnceCell<Option<Box<Unit<'a>>>>,
}

/// Addresses that a unit has.
struct UnitRange {
    range: Range<u64>,
    /// The highest end of all up to this one.
    reach: u64,
    unit: usize,
}

/// What was found at an address.
pub(super) struct Found<'u, 'a> {
    pub(super) unit: &'u Unit<'a>,
    /// The code and the entry of the function.
    pub(super) function: Option<(Range<u64>, UnitOffset)>,
    /// The functions that were inlined there, outermost first.
    pub(super) inlined: Vec<InlinedCall>,
    /// The index of the file, and the line.
    pub(super) location: Option<(u64, u32)>,
}

pub(super) struct Units<'a> {
    dwarf: gimli::Dwarf<Slice<'a>>,
    /// In the order of their offsets.
    places: Vec<Place<'a>>,
    ranges: Vec<UnitRange>,
    limits: Limits,
}

impl<'a> Units<'a> {
    pub(super) fn open(mut dwarf: gimli::Dwarf<Slice<'a>>, limits: Limits) -> Result<Self, String> {
        if !tables_are_apart(&dwarf) {
            return Err("its tables of abbreviations overlap".to_owned());
        }
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let mut units = Self { dwarf, places: Vec::new(), ranges: Vec::new(), limits };
        units.read().map_err(|error| error.to_string())?;
        units.ranges.sort_unstable_by_key(|one| (one.range.start, one.unit));
        let mut reach = 0;
        for one in &mut units.ranges {
            reach = one.range.end.max(reach);
            one.reach = reach;
        }
        Ok(units)
    }

    /// Finds the units and their addresses: by the ranges of a unit, else by `.debug_aranges`, else by
    /// its bounds, else by its lines.
    fn read(&mut self) -> gimli::Result<()> {
        let mut sets = Vec::new();
        let mut headers = self.dwarf.debug_aranges.headers();
        while let Ok(Some(header)) = headers.next() {
            sets.push((header.debug_info_offset().0, header.offset()));
        }
        sets.sort_unstable_by_key(|&(unit, _)| unit);
        let mut headers = self.dwarf.units();
        while let Some(header) = headers.next()? {
            let Some(DebugInfoOffset(offset)) = header.debug_info_offset() else {
                continue;
            };
            let is_compiled = match header.type_() {
                UnitType::Type { .. } | UnitType::SplitType { .. } => continue,
                UnitType::Partial => false,
                _ => true,
            };
            let unit = self.places.len();
            self.places.push(Place { offset, unit: OnceCell::new() });
            // A partial unit is only read where an entry of another unit refers to it.
            if !is_compiled {
                continue;
            }
            let Ok(root) = Root::read(&self.dwarf, header, &self.limits) else {
                continue;
            };
            let (ranges, opened) = self.addresses(root, offset, &sets);
            let ranges = ranges.into_iter().map(|range| UnitRange { range, reach: 0, unit });
            self.ranges.extend(ranges);
            if let (Some(opened), Some(place)) = (opened, self.places.last()) {
                place.unit.get_or_init(|| Some(Box::new(opened)));
            }
        }
        Ok(())
    }

    /// The addresses of a unit, and the unit if it had to be opened for that; `sets` are those of
    /// `.debug_aranges`, by the offsets of their units.
    fn addresses(
        &self,
        root: Root<'a>,
        offset: usize,
        sets: &[(usize, DebugArangesOffset)],
    ) -> (Vec<Range<u64>>, Option<Unit<'a>>) {
        let mut all = Vec::new();
        let add = |all: &mut Vec<Range<u64>>, range: Range<u64>| {
            let is_left = self.limits.entries(1);
            if is_left {
                all.push(range);
            }
            is_left
        };
        let first = sets.partition_point(|&(of, _)| of < offset);
        let own = sets.get(first..).unwrap_or_default().iter();
        let own = own.take_while(|&&(of, _)| of == offset && root.addresses.ranges.is_none());
        for set in own.filter_map(|&(_, set)| self.dwarf.debug_aranges.header(set).ok()) {
            let mut entries = set.entries();
            while let Some(entry) = entries.next().transpose() {
                // The sum of an address and a length may have no place.
                let range = entry.map(|entry| entry.range());
                let range = range.ok().filter(|range| range.begin < range.end);
                if range.is_some_and(|range| !add(&mut all, range.begin..range.end)) {
                    break;
                }
            }
        }
        if all.is_empty() {
            let reference = UnitRef::new(&self.dwarf, &root.unit);
            root.addresses.each(reference, |range| add(&mut all, range)).ok();
        }
        if !all.is_empty() || root.lines.is_none() {
            return (all, None);
        }
        let opened = Unit::new(root);
        let lines = opened.lines(&self.dwarf, &self.limits);
        for range in lines.into_iter().flat_map(Lines::ranges) {
            if !add(&mut all, range) {
                break;
            }
        }
        (all, Some(opened))
    }

    fn unit(&self, index: usize) -> Option<&Unit<'a>> {
        let place = self.places.get(index)?;
        let open = || {
            let header = self.dwarf.unit_header(DebugInfoOffset(place.offset)).ok()?;
            let root = Root::read(&self.dwarf, header, &self.limits).ok()?;
            Some(Box::new(Unit::new(root)))
        };
        place.unit.get_or_init(open).as_deref()
    }

    /// What the first unit says that has a function or a line at an address.
    pub(super) fn find(&self, address: u64) -> Option<Found<'_, 'a>> {
        let next = self.ranges.partition_point(|one| one.range.start <= address);
        let before = self.ranges.get(..next)?.iter().rev().take_while(|one| address < one.reach);
        let there = before.take(OVERLAPPING).filter(|one| one.range.contains(&address));
        there.filter_map(|one| self.unit(one.unit)).find_map(|unit| {
            let function = unit.function(&self.dwarf, &self.limits, address);
            let lines = unit.lines(&self.dwarf, &self.limits);
            let location = lines.and_then(|lines| lines.at(address));
            if function.is_none() && location.is_none() {
                return None;
            }
            let inlined = function
                .map(|function| unit.inlined(function.index, &self.dwarf, &self.limits, address));
            Some(Found {
                unit,
                function: function.map(|one| (one.range.clone(), unit.entry(one.index))),
                inlined: inlined.unwrap_or_default(),
                location,
            })
        })
    }

    /// The path of a file of a unit's lines.
    pub(super) fn file(&self, unit: &Unit<'a>, index: u64) -> Option<String> {
        unit.lines(&self.dwarf, &self.limits)?.file(unit.reference(&self.dwarf), index)
    }

    /// The offset of an entry in its section.
    pub(super) fn offset(&self, unit: &Unit<'a>, entry: UnitOffset) -> Option<usize> {
        Some(entry.to_debug_info_offset(&unit.reference(&self.dwarf).header)?.0)
    }

    /// The name of a function's entry: how the linker knows it, else as in the source.
    pub(super) fn name<'u>(
        &'u self,
        mut unit: &'u Unit<'a>,
        mut entry: UnitOffset,
    ) -> Option<&'a [u8]> {
        for _ in 0..REFERENCES_MAX {
            let reference = unit.reference(&self.dwarf);
            let mut entries = reference.entries_raw(Some(entry)).ok()?;
            let (name, next) = self.name_of_entry(reference, &mut entries)?;
            if name.is_some() {
                return name;
            }
            (unit, entry) = match next? {
                AttributeValue::UnitRef(offset) => (unit, offset),
                AttributeValue::DebugInfoRef(offset) => {
                    let next = self.places.partition_point(|place| place.offset < offset.0);
                    let unit = self.unit(next.checked_sub(1)?)?;
                    (unit, offset.to_unit_offset(&unit.reference(&self.dwarf).header)?)
                }
                _ => return None,
            };
        }
        None
    }

    /// The name that an entry itself has, and the entry that may have it.
    #[expect(clippy::type_complexity, reason = "a pair")]
    fn name_of_entry(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        entries: &mut EntriesRaw<'_, Slice<'a>>,
    ) -> Option<(Option<&'a [u8]>, Option<AttributeValue<Slice<'a>>>)> {
        let abbreviation = entries.read_abbreviation().ok()??;
        let (mut name, mut next) = (None, None);
        for &specification in taken(abbreviation, &self.limits).ok()? {
            let attribute = entries.read_attribute(specification).ok()?;
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    if let Some(text) = text(unit, attribute.value()) {
                        return Some((Some(text), None));
                    }
                }
                gimli::DW_AT_name => name = text(unit, attribute.value()).or(name),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    next = Some(attribute.value());
                }
                _ => {}
            }
        }
        Some((name, next))
    }

    pub(super) const fn limits(&self) -> &Limits {
        &self.limits
    }
}

/// Whether the tables of abbreviations that units have lie behind each other. Each unit reads its
/// table; tables that begin at each byte of one would be read again and again.
fn tables_are_apart(dwarf: &gimli::Dwarf<Slice<'_>>) -> bool {
    let mut starts = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        starts.push(header.debug_abbrev_offset().0);
    }
    starts.sort_unstable();
    starts.dedup();
    let section = *dwarf.debug_abbrev.reader();
    let mut left = 2 * section.len();
    starts.into_iter().all(|start| {
        let mut table = section;
        if table.skip(start).is_err() {
            return true;
        }
        let length = table.len();
        // Up to the end of the table, or what is damaged there.
        skip_table(&mut table, length.saturating_sub(left)).ok();
        let read = length - table.len();
        left = left.saturating_sub(read);
        left > 0 || read == 0
    })
}

/// Skips a table of abbreviations (DWARF 5, 7.5.3), as long as more than `end` bytes are behind it.
fn skip_table(table: &mut Slice<'_>, end: usize) -> gimli::Result<()> {
    while table.len() > end && table.read_uleb128()? != 0 {
        table.skip_leb128()?;
        table.read_u8()?;
        loop {
            let (name, form) = (table.read_uleb128()?, table.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                table.skip_leb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
    }
    Ok(())
}
