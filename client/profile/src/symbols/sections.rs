//! Sections by their addresses.

use crate::budget;
use object::ObjectSection;
use std::collections::BTreeMap;
use std::ops::Range;

/// Where a section is in memory, relative to the start of the module, and in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) range: Range<u64>,
    /// The offset and the length of its bytes in the file.
    pub(super) bytes: (u64, u64),
}

impl Section {
    /// Of a file whose tables place its start at the address `base`.
    pub(super) fn of<'a>(section: &impl ObjectSection<'a>, base: u64) -> Option<Self> {
        let start = section.address().checked_sub(base)?;
        let range = start..start.checked_add(section.size())?;
        Some(Self { range, bytes: section.file_range().unwrap_or_default() })
    }

    /// The offset in the file of a range that lies within the section and has bytes.
    pub(super) fn place(&self, range: &Range<u64>) -> Option<u64> {
        let (offset, length) = self.bytes;
        let start = range.start.checked_sub(self.range.start)?;
        let end = range.end.checked_sub(self.range.start)?;
        (start <= end && end <= length).then(|| offset.checked_add(start))?
    }
}

/// Sections in the order of their addresses, apart from each other.
///
/// No loader puts two sections at one address. But not all that a file lists is loaded: `.tbss`
/// overlaps in every ELF file that has it, and in an object file all sections begin at 0.
#[derive(Debug, Default)]
pub(super) struct Sections {
    all: Vec<Section>,
    /// How many were left out: because they overlap an earlier one, or because they have the bytes of
    /// others, again and again.
    pub(super) left_out: usize,
}

impl Sections {
    /// Takes sections in the order of a file of this length. Those without bytes come last: a file with
    /// separate symbols has only such, and they are where code is in the module.
    pub(super) fn new(sections: impl IntoIterator<Item = Section>, length: u64) -> Self {
        let mut apart: BTreeMap<u64, Section> = BTreeMap::new();
        let (mut left, mut left_out) = (budget::read(length), 0);
        let sections = sections.into_iter().filter(|section| !section.range.is_empty());
        let (filled, empty): (Vec<_>, Vec<_>) = sections.partition(|section| section.bytes.1 > 0);
        for section in filled.into_iter().chain(empty) {
            let Range { start, end } = section.range;
            let before = apart.range(..end).next_back();
            let is_apart = before.is_none_or(|(_, before)| before.range.end <= start);
            match left.checked_sub(section.bytes.1) {
                Some(rest) if is_apart => {
                    left = rest;
                    apart.insert(start, section);
                }
                _ => left_out += usize::from(section.bytes.1 > 0),
            }
        }
        Self { all: apart.into_values().collect(), left_out }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Section> {
        self.all.iter()
    }

    /// The section that has an address.
    pub(super) fn at(&self, address: u64) -> Option<&Section> {
        Some(&self.all[self.index(address)?])
    }

    /// The index, in their order, of the section that has an address.
    pub(super) fn index(&self, address: u64) -> Option<usize> {
        let next = self.all.partition_point(|section| section.range.start <= address);
        let index = next.checked_sub(1)?;
        self.all.get(index).filter(|section| section.range.contains(&address))?;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(start: u64, end: u64, length: u64) -> Section {
        Section { range: start..end, bytes: (1000, length) }
    }

    #[test]
    fn the_later_of_two_at_one_address_is_left_out() {
        let all = [
            section(0x20, 0x30, 16),
            section(0x10, 0x21, 16),
            section(0x2F, 0x40, 16),
            section(0x10, 0x20, 16),
            section(0x00, 0x50, 16),
            section(0x22, 0x23, 1),
            section(0x30, 0x40, 0),
            section(0x30, 0x40, 8),
            section(0x50, 0x50, 8),
        ];
        let sections = Sections::new(all, 1 << 20);
        let starts: Vec<u64> = sections.iter().map(|section| section.range.start).collect();
        assert_eq!(starts, [0x10, 0x20, 0x30]);
        assert_eq!(sections.left_out, 4);
        let at = |address| sections.at(address).map(|section| section.range.start);
        for (address, start) in [(0x0F, None), (0x1F, Some(0x10)), (0x30, Some(0x30)), (0x40, None)]
        {
            assert_eq!(at(address), start, "{address:#x}");
        }
    }

    #[test]
    fn sections_that_share_their_bytes_have_no_more_than_the_file_is_worth() {
        let many = (0..10_000).map(|n| section(n << 20, (n + 1) << 20, 1 << 20));
        let sections = Sections::new(many, 1 << 20);
        assert_eq!((sections.iter().count(), sections.left_out), (64, 9_936));
    }

    #[test]
    fn a_range_without_bytes_has_no_place() {
        let one = section(0x10, 0x30, 16);
        for (start, end, place) in [
            (0x10, 0x20, Some(1000)),
            (0x14, 0x20, Some(1004)),
            (0x14, 0x14, Some(1004)),
            (0x14, 0x21, None),
            (0x0F, 0x20, None),
            (0x18, 0x14, None),
        ] {
            assert_eq!(one.place(&(start..end)), place, "{start:#x} {end:#x}");
        }
    }
}
