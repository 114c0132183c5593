//! The bounds of functions from the unwinding information, which stays in a file that is stripped.

use super::image::open;
use addr2line::gimli::{
    BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection,
};
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, pe};
use std::ops::Range;
use std::path::Path;

/// The bounds of the function at `address`, which is relative to `base` as they are; `None` if the
/// file does not tell.
pub(super) fn bounds(path: &Path, base: u64, address: u64) -> Option<Range<u64>> {
    let cache = ReadCache::new(open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    match &file {
        object::File::Pe64(pe) => of_pe(pe, address),
        object::File::Elf32(_) => of_elf(&file, 4, base, address),
        object::File::Elf64(_) => of_elf(&file, 8, base, address),
        _ => None,
    }
}

/// From the exception directory: a `RUNTIME_FUNCTION` for each function, or for each part of one.
fn of_pe<'a>(
    file: &object::read::pe::PeFile64<'a, impl ReadRef<'a>>,
    address: u64,
) -> Option<Range<u64>> {
    let directory = file.data_directories();
    let directory = directory.get(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION)?;
    let data = directory.data(file.data(), &file.section_table()).ok()?;
    let (functions, _) = data.as_chunks::<12>();
    let mut bounds = functions.iter().map(|function| {
        let (numbers, _) = function.as_chunks::<4>();
        let number = |index: usize| numbers.get(index).copied().map(u32::from_le_bytes);
        u64::from(number(0).unwrap_or(0))..u64::from(number(1).unwrap_or(0))
    });
    bounds.find(|range| range.contains(&address))
}

/// From `.eh_frame`: a frame description entry for each function, or for each part of one.
fn of_elf<'a>(
    file: &object::File<'a, impl ReadRef<'a>>,
    address_size: u8,
    base: u64,
    address: u64,
) -> Option<Range<u64>> {
    let section = file.section_by_name(".eh_frame")?;
    let data = section.data().ok()?;
    let mut frames = EhFrame::from(EndianSlice::new(data, LittleEndian));
    frames.set_address_size(address_size);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = frames.entries(&bases);
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let parsed = partial.parse(EhFrame::cie_from_offset);
        let Ok(function) = parsed else {
            continue;
        };
        let start = function.initial_address().wrapping_sub(base);
        let range = start..start.saturating_add(function.len());
        if range.contains(&address) {
            return Some(range);
        }
    }
    None
}
