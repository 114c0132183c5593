//! The units of a file: which of them have an address, and the names of their entries.

use super::Slice;
use super::limits::Limits;
use super::lines::Lines;
use super::unit::{InlinedCall, Unit};
use crate::budget::NAME;
use gimli::{
    Abbreviation, AttributeValue, DebugAddrBase, DebugArangesOffset, DebugInfoOffset,
    DebugLineOffset, DebugLocListsBase, DebugRngListsBase, DebugStrOffsetsBase, EntriesRaw, Reader,
    Section, UnitHeader, UnitOffset, UnitRef, UnitType,
};
use std::cell::OnceCell;
use std::ops::Range;

/// Names lead from the entry of a call to that of its function, and to the declaration of that.
const REFERENCES_MAX: usize = 16;

/// How many units that overlap are looked at for an address: those whose ranges of addresses begin
/// nearest before it. Functions that several units have, and code that the linker removed, overlap.
const OVERLAPPING: usize = 64;

/// What an entry says of its addresses.
#[derive(Default)]
pub(super) struct Addresses<'a> {
    low: Option<AttributeValue<Slice<'a>>>,
    high: Option<AttributeValue<Slice<'a>>>,
    ranges: Option<AttributeValue<Slice<'a>>>,
}

impl<'a> Addresses<'a> {
    pub(super) fn take(&mut self, attribute: &gimli::Attribute<Slice<'a>>) {
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low = Some(attribute.value()),
            gimli::DW_AT_high_pc => self.high = Some(attribute.value()),
            gimli::DW_AT_ranges => self.ranges = Some(attribute.value()),
            _ => {}
        }
    }

    /// Calls `add` with each range that is not empty, as long as it wants more.
    pub(super) fn each(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        mut add: impl FnMut(Range<u64>) -> bool,
    ) -> gimli::Result<()> {
        let mut add = |range: Range<u64>| range.is_empty() || add(range);
        if let Some(value) = &self.ranges
            && let Some(mut list) = unit.attr_ranges(value.clone())?
        {
            while let Some(range) = list.next()? {
                if !add(range.begin..range.end) {
                    break;
                }
            }
            return Ok(());
        }
        let Some(low) = self.low.clone().map(|low| unit.attr_address(low)).transpose()?.flatten()
        else {
            return Ok(());
        };
        let high = match &self.high {
            // Beyond the last address for what the linker removed and marked so.
            Some(AttributeValue::Udata(length)) => Some(low.wrapping_add(*length)),
            Some(value) => unit.attr_address(value.clone())?,
            None => None,
        };
        if let Some(high) = high {
            add(low..high);
        }
        Ok(())
    }
}

/// What the first entry of a unit says.
pub(super) struct Root<'a> {
    pub(super) unit: gimli::Unit<Slice<'a>>,
    pub(super) lines: Option<DebugLineOffset>,
    addresses: Addresses<'a>,
}

impl<'a> Root<'a> {
    /// Reads it, but not the header of the unit's lines, which several units may share.
    fn read(
        dwarf: &gimli::Dwarf<Slice<'a>>,
        header: UnitHeader<Slice<'a>>,
        limits: &Limits,
    ) -> gimli::Result<Self> {
        let abbreviations = dwarf.abbreviations(&header)?;
        let (encoding, file_type) = (header.encoding(), dwarf.file_type);
        let mut unit = gimli::Unit {
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: DebugStrOffsetsBase::default_for_encoding_and_file(
                encoding, file_type,
            ),
            addr_base: DebugAddrBase(0),
            loclists_base: DebugLocListsBase::default_for_encoding_and_file(encoding, file_type),
            rnglists_base: DebugRngListsBase::default_for_encoding_and_file(encoding, file_type),
            line_program: None,
            dwo_id: None,
            header,
        };
        let (mut name, mut folder, mut lines) = (None, None, None);
        let mut addresses = Addresses::default();
        let mut entries = unit.header.entries_raw(&unit.abbreviations, None)?;
        let first = entries.read_abbreviation()?.ok_or(gimli::Error::MissingUnitDie)?;
        for &specification in taken(first, limits)? {
            let attribute = entries.read_attribute(specification)?;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_name, value) => name = Some(value),
                (gimli::DW_AT_comp_dir, value) => folder = Some(value),
                (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => {
                    lines = Some(offset)
                }
                (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                    unit.str_offsets_base = base;
                }
                (
                    gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base,
                    AttributeValue::DebugAddrBase(base),
                ) => unit.addr_base = base,
                (
                    gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                    AttributeValue::DebugRngListsBase(base),
                ) => unit.rnglists_base = base,
                _ => addresses.take(&attribute),
            }
        }
        let of = |value: Option<_>| {
            let text = text(UnitRef::new(dwarf, &unit), value?)?;
            Some(Slice::new(text, gimli::LittleEndian))
        };
        (unit.name, unit.comp_dir) = (of(name), of(folder));
        if let Some(low) = addresses.low.clone()
            && let Some(low) = dwarf.attr_address(&unit, low)?
        {
            unit.low_pc = low;
        }
        Ok(Self { unit, lines, addresses })
    }
}

/// The attributes of an entry, if there are steps for them: entries of one byte may have thousands.
pub(super) fn taken<'a>(
    abbreviation: &'a Abbreviation,
    limits: &Limits,
) -> gimli::Result<&'a [gimli::AttributeSpecification]> {
    let attributes = abbreviation.attributes();
    match limits.steps(1 + attributes.len() as u64) {
        true => Ok(attributes),
        false => Err(gimli::Error::UnexpectedEof(gimli::ReaderOffsetId(0))),
    }
}

/// A text of at most the length of a name: strings may be as long as their section, and each unit and
/// entry may have the same.
pub(super) fn text<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    value: AttributeValue<Slice<'a>>,
) -> Option<&'a [u8]> {
    let (section, offset) = match value {
        AttributeValue::String(text) => (text.slice(), 0),
        AttributeValue::DebugStrRef(offset) => (unit.dwarf.debug_str.reader().slice(), offset.0),
        AttributeValue::DebugLineStrRef(offset) => {
            (unit.dwarf.debug_line_str.reader().slice(), offset.0)
        }
        AttributeValue::DebugStrOffsetsIndex(index) => {
            let offset = unit.string_offset(index).ok()?;
            (unit.dwarf.debug_str.reader().slice(), offset.0)
        }
        _ => return None,
    };
    let rest = section.get(offset..)?;
    let rest = rest.get(..NAME).unwrap_or(rest);
    rest.get(..memchr::memchr(0, rest).unwrap_or(rest.len()))
}

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
                    next = Some(attribute.value())
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
