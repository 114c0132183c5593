//! What entries say: addresses, texts, and what the first one of a unit says of all others.

use super::Slice;
use super::limits::Limits;
use crate::budget::NAME;
use gimli::{
    Abbreviation, AttributeValue, DebugAddrBase, DebugLineOffset, DebugLocListsBase,
    DebugRngListsBase, DebugStrOffsetsBase, Section, UnitHeader, UnitRef,
};
use std::ops::Range;

/// What an entry says of its addresses.
#[derive(Default)]
pub(super) struct Addresses<'a> {
    low: Option<AttributeValue<Slice<'a>>>,
    high: Option<AttributeValue<Slice<'a>>>,
    pub(super) ranges: Option<AttributeValue<Slice<'a>>>,
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
            && let Some(mut list) = unit.attr_ranges(*value)?
        {
            while let Some(range) = list.next()? {
                if !add(range.begin..range.end) {
                    break;
                }
            }
            return Ok(());
        }
        let Some(low) = self.low.map(|low| unit.attr_address(low)).transpose()?.flatten() else {
            return Ok(());
        };
        let high = match &self.high {
            // Beyond the last address for what the linker removed and marked so.
            Some(AttributeValue::Udata(length)) => Some(low.wrapping_add(*length)),
            Some(value) => unit.attr_address(*value)?,
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
    pub(super) addresses: Addresses<'a>,
}

impl<'a> Root<'a> {
    /// Reads it, but not the header of the unit's lines, which several units may share.
    pub(super) fn read(
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
        // A name or an address may be the index into a table whose base comes after it.
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
                    lines = Some(offset);
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
        if let Some(low) = addresses.low
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
    if limits.steps(1 + attributes.len() as u64) {
        Ok(attributes)
    } else {
        // Who reads entries stops at this as at the end of the section.
        Err(gimli::Error::UnexpectedEof(gimli::ReaderOffsetId(0)))
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
