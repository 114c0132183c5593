//! The bounds of functions from the unwinding information, which stays in a file that is stripped:
//! `.pdata` of PE files for x64, `.eh_frame` of ELF files and of MinGW's for x86.

use super::sections::{Section, Sections};
use crate::budget::AUGMENTATION;
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use object::read::ReadRef;
use object::{Architecture, BinaryFormat, Object, ObjectSection, pe};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::ops::Range;

/// An entry's size: begin, end, and the unwinding data, three RVAs (PE Format, "The .pdata
/// Section").
const RUNTIME_FUNCTION: usize = 12;
/// The entry describes a part of a function; the entry of another part follows its codes (x64
/// exception handling, "struct `UNWIND_INFO`").
const UNW_FLAG_CHAININFO: u8 = 4;
/// The unwinding data is another entry, whose function this one is a part of.
const RUNTIME_FUNCTION_INDIRECT: u64 = 1;
/// The most entries that a chain may have: a file may have one that goes round.
const CHAIN_MAX: usize = 32;

/// A stretch of code that belongs to one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range<u64>,
    /// Where the first entry of its function begins: a chain of entries leads there.
    pub(super) function: u64,
}

/// The code that functions have by the unwinding information. Addresses are relative to the start of
/// the module.
#[derive(Debug, Default)]
pub(super) struct Unwinding {
    /// In order and apart from each other.
    parts: Vec<Part>,
    /// Entries that were left out: their augmentation is longer than any compiler's.
    left_out: usize,
}

impl Unwinding {
    /// What a file has; nothing if it cannot be read.
    pub(super) fn of<'a>(
        file: &object::File<'a, impl ReadRef<'a>>,
        base: u64,
        length: u64,
    ) -> Self {
        if file.format() == BinaryFormat::Pe && file.architecture() == Architecture::X86_64 {
            return Self::new(pdata(file, base, length).unwrap_or_default());
        }
        let (parts, left_out) = eh_frame(file, base).unwrap_or_default();
        Self { left_out, ..Self::new(parts) }
    }

    /// What was left out, if anything was.
    pub(super) fn note(&self) -> Option<String> {
        let left_out = self.left_out;
        (left_out > 0).then(|| {
            format!(
                "{left_out} entries of its unwinding information are left out: their augmentation has more than {AUGMENTATION} letters"
            )
        })
    }

    pub(super) fn new(mut parts: Vec<Part>) -> Self {
        parts.retain(|part| !part.range.is_empty());
        parts.sort_by_key(|part| (part.range.start, part.range.end));
        let mut apart: Vec<Part> = Vec::with_capacity(parts.len());
        for mut part in parts {
            if let Some(last) = apart.last_mut() {
                part.range.start = part.range.start.max(last.range.end);
                if part.range.is_empty() {
                    continue;
                }
                // Shrink-wrapped code has an entry for each change of the frame.
                if last.function == part.function && last.range.end == part.range.start {
                    last.range.end = part.range.end;
                    continue;
                }
            }
            apart.push(part);
        }
        Self { parts: apart, left_out: 0 }
    }

    /// The part that has an address.
    pub(super) fn part(&self, address: u64) -> Option<&Part> {
        let next = self.parts.partition_point(|part| part.range.start <= address);
        self.parts.get(next.checked_sub(1)?).filter(|part| part.range.contains(&address))
    }

    /// Where the first part behind an address begins.
    pub(super) fn next_start(&self, address: u64) -> Option<u64> {
        let next = self.parts.partition_point(|part| part.range.start <= address);
        Some(self.parts.get(next)?.range.start)
    }

    /// Whether an entry begins at an address.
    pub(super) fn begins_at(&self, address: u64) -> bool {
        self.part(address).is_some_and(|part| part.range.start == address)
    }

    /// Whether code at `address` is of another function than code at `first`, which lies before it.
    /// Code without an entry is a leaf function: it ends where an entry begins.
    pub(super) fn divides(&self, first: u64, address: u64) -> bool {
        match (self.part(first), self.part(address)) {
            (Some(own), Some(other)) => own.function != other.function,
            (None, None) => self.next_start(first).is_some_and(|next| next <= address),
            _ => true,
        }
    }
}

/// From the exception directory: a `RUNTIME_FUNCTION` for each function, or for each part of one.
fn pdata<'a>(
    file: &object::File<'a, impl ReadRef<'a>>,
    base: u64,
    length: u64,
) -> Option<Vec<Part>> {
    let object::File::Pe64(pe) = file else {
        return None;
    };
    let directories = pe.data_directories();
    let directory = directories.get(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION)?;
    let data = directory.data(pe.data(), &pe.section_table()).ok()?;
    let (entries, _) = data.as_chunks::<RUNTIME_FUNCTION>();
    let sections = file.sections().filter_map(|section| Section::of(&section, base));
    let sections = Sections::new(sections, length);
    let unwind_data = UnwindData {
        read: |offset, length| pe.data().read_bytes_at(offset, length).ok(),
        known: RefCell::new(vec![None; sections.iter().count()]),
        sections,
    };
    let parts = entries.iter().map(|entry| {
        let [begin, end, _] = numbers(entry);
        Part { range: begin..end, function: unwind_data.first_entry(entry) }
    });
    Some(parts.collect())
}

fn numbers(entry: &[u8; RUNTIME_FUNCTION]) -> [u64; 3] {
    let (words, _) = entry.as_chunks::<4>();
    [0, 1, 2].map(|index| words.get(index).copied().map_or(0, u32::from_le_bytes).into())
}

/// The sections that may have unwinding data, by their RVAs.
struct UnwindData<'a, R> {
    sections: Sections,
    /// Reads a section's bytes from the file.
    read: R,
    /// What was read of each section.
    known: RefCell<Vec<Option<&'a [u8]>>>,
}

impl<'a, R: Fn(u64, u64) -> Option<&'a [u8]>> UnwindData<'a, R> {
    fn at(&self, rva: u64) -> Option<&'a [u8]> {
        let index = self.sections.index(rva)?;
        let section = self.sections.at(rva)?;
        let mut known = self.known.borrow_mut();
        let read = || (self.read)(section.bytes.0, section.bytes.1).unwrap_or_default();
        let bytes: &'a [u8] = known.get_mut(index)?.get_or_insert_with(read);
        bytes.get(usize::try_from(rva - section.range.start).ok()?..)
    }

    fn entry(&self, rva: u64) -> Option<[u8; RUNTIME_FUNCTION]> {
        self.at(rva)?.first_chunk().copied()
    }

    /// Where the function begins that an entry is a part of.
    fn first_entry(&self, entry: &[u8; RUNTIME_FUNCTION]) -> u64 {
        let mut current = *entry;
        for _ in 0..CHAIN_MAX {
            match self.next(numbers(&current)[2]) {
                Some(next) => current = next,
                None => break,
            }
        }
        numbers(&current)[0]
    }

    /// The entry that unwinding data leads to.
    fn next(&self, data: u64) -> Option<[u8; RUNTIME_FUNCTION]> {
        if data & RUNTIME_FUNCTION_INDIRECT != 0 {
            return self.entry(data - RUNTIME_FUNCTION_INDIRECT);
        }
        let [version_and_flags, _, codes, ..] = *self.at(data)?.first_chunk::<4>()?;
        if version_and_flags >> 3 & UNW_FLAG_CHAININFO == 0 {
            return None;
        }
        // The array of codes, of two bytes each, has an even length.
        let codes = u64::from(codes).next_multiple_of(2);
        self.entry(data + 4 + 2 * codes)
    }
}

/// From `.eh_frame`: a frame description entry for each function, or for each part of one, and how many
/// were left out.
fn eh_frame<'a>(
    file: &object::File<'a, impl ReadRef<'a>>,
    base: u64,
) -> Option<(Vec<Part>, usize)> {
    // An image without a table of strings has only eight letters of a section's name.
    let mut names = [".eh_frame", ".eh_fram"].into_iter();
    let section = names.find_map(|name| file.section_by_name(name))?;
    let mut frames = EhFrame::from(EndianSlice::new(section.data().ok()?, LittleEndian));
    frames.set_address_size(if file.is_64() { 8 } else { 4 });
    let bytes = section.data().ok()?;
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = frames.entries(&bases);
    let (mut parts, mut left_out) = (Vec::new(), 0);
    // Each function leads to one of a few.
    let mut cies = FxHashMap::default();
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let parsed = partial.parse(|frames, bases, offset| {
            if has_long_augmentation(bytes.get(offset.0..).unwrap_or_default()) {
                left_out += 1;
                return Err(gimli::Error::UnknownAugmentation);
            }
            let cie = cies.entry(offset.0);
            cie.or_insert_with(|| frames.cie_from_offset(bases, offset)).clone()
        });
        if let Ok(function) = parsed {
            let start = function.initial_address().wrapping_sub(base);
            let range = start..start.saturating_add(function.len());
            parts.push(Part { function: range.start, range });
        }
    }
    Some((parts, left_out))
}

/// Whether the augmentation of a common information entry (its letters say what else is in it, Linux
/// Standard Base Core, "Exception Frames") is longer than any.
fn has_long_augmentation(entry: &[u8]) -> bool {
    let is_long_format = entry.starts_with(&[0xFF; 4]);
    // Behind the length, the number that says that it is common, and the version.
    let start = if is_long_format { 12 + 4 + 1 } else { 4 + 4 + 1 };
    let letters = entry.iter().skip(start).take(AUGMENTATION + 1);
    !letters.clone().any(|&letter| letter == 0) && letters.len() > AUGMENTATION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: u64, end: u64, function: u64) -> Part {
        Part { range: start..end, function }
    }

    #[test]
    fn parts_of_one_function_that_touch_are_one() {
        let parts = vec![
            part(0x30, 0x40, 0x10),
            part(0x20, 0x28, 0x10),
            part(0x10, 0x20, 0x10),
            part(0x26, 0x30, 0x26),
            part(0x50, 0x50, 0x50),
        ];
        let unwinding = Unwinding::new(parts);
        let expected = [part(0x10, 0x28, 0x10), part(0x28, 0x30, 0x26), part(0x30, 0x40, 0x10)];
        assert_eq!(unwinding.parts, expected);
        assert_eq!(unwinding.part(0x27), Some(&expected[0]));
        assert_eq!(unwinding.part(0x40), None);
        assert_eq!(unwinding.next_start(0x10), Some(0x28));
        assert!(unwinding.begins_at(0x28) && !unwinding.begins_at(0x11));
        for (first, address, divided) in [
            (0x10, 0x27, false),
            (0x10, 0x28, true),
            (0x10, 0x3F, false),
            (0x08, 0x0F, false),
            (0x08, 0x10, true),
            (0x30, 0x48, true),
            (0x10, 0x48, true),
            (0x44, 0x48, false),
        ] {
            assert_eq!(unwinding.divides(first, address), divided, "{first:x} {address:x}");
        }
    }

    /// Unwinding data at 0x100: two codes and a chain to the entry of 0x10; at 0x120 a chain to
    /// itself; at 0x140 none.
    #[test]
    fn a_chain_leads_to_the_function_s_first_entry() {
        let entry = |begin: u32, data: u32| {
            let numbers = [begin, begin + 0x10, data].map(u32::to_le_bytes);
            <[u8; RUNTIME_FUNCTION]>::try_from(numbers.concat()).expect("three numbers")
        };
        let mut data = [0; 0x80];
        data[..4].copy_from_slice(&[1 | UNW_FLAG_CHAININFO << 3, 0, 1, 0]);
        data[8..20].copy_from_slice(&entry(0x10, 0x140));
        data[0x20..0x24].copy_from_slice(&[1 | UNW_FLAG_CHAININFO << 3, 0, 0, 0]);
        data[0x24..0x30].copy_from_slice(&entry(0x20, 0x120));
        data[0x40..0x44].copy_from_slice(&[1, 0, 0, 0]);
        data[0x60..0x6C].copy_from_slice(&entry(0x10, 0x140));
        let section = Section { range: 0x100..0x180, bytes: (0, 0x80) };
        let sections = UnwindData {
            sections: Sections::new([section], 0),
            read: |_, _| Some(&data[..]),
            known: RefCell::new(vec![None]),
        };
        for (begin, data, function) in [
            (0x10, 0x140, 0x10),
            (0x30, 0x100, 0x10),
            (0x20, 0x120, 0x20),
            (0x40, 0x161, 0x10),
            (0x50, 0x9000, 0x50),
            (0x50, 0x17F, 0x50),
        ] {
            assert_eq!(sections.first_entry(&entry(begin, data)), function, "{begin:x} {data:x}");
        }
    }

    #[test]
    fn an_augmentation_has_a_few_letters() {
        let entry = |letters: &str| {
            [&[0x20, 0, 0, 0, 0, 0, 0, 0, 1][..], letters.as_bytes(), &[0, 1, 0x78, 16]].concat()
        };
        for (letters, is_long) in [
            ("", false),
            ("zPLRS", false),
            ("zRSSSSSSSSSSSSSS", false),
            ("zRSSSSSSSSSSSSSSS", true),
        ] {
            assert_eq!(has_long_augmentation(&entry(letters)), is_long, "{letters}");
        }
        assert!(!has_long_augmentation(&[]) && !has_long_augmentation(&[0xFF; 8]));
    }
}
