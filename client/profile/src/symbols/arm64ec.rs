//! Finds Arm64 code in PE files that claim to be x64: ARM64EC and ARM64X, such as the system's DLLs in
//! an x64 program on Windows on Arm.
//!
//! The load configuration points to metadata (winnt.h, `IMAGE_ARM64EC_METADATA`), which has a map of the
//! code: ranges, each of one architecture.

use crate::budget;
use object::LittleEndian as LE;
use object::pe::{IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG, ImageNtHeaders64};
use object::read::ReadRef;
use object::read::pe::PeFile;
use std::ops::Range;

/// `IMAGE_LOAD_CONFIG_DIRECTORY64.CHPEMetadataPointer`.
const METADATA_POINTER: u64 = 0xC8;
/// The metadata up to its map: version, where the map is, how many ranges it has.
const METADATA: u64 = 12;
/// `IMAGE_CHPE_RANGE_ENTRY`: where a range begins, and its length. The start has the architecture in its
/// two lowest bits: 0 and 1 are Arm64, 2 is x64.
const ENTRY: u64 = 8;

/// The ranges of Arm64 code relative to the file's start, in order; none in a file of x64 alone.
pub(super) fn arm_code<'a, R: ReadRef<'a>>(
    file: &PeFile<'a, ImageNtHeaders64, R>,
    base: u64,
    length: u64,
) -> Vec<Range<u64>> {
    let mut ranges = ranges(file, base, length).unwrap_or_default();
    ranges.sort_by_key(|range| range.start);
    ranges
}

fn ranges<'a, R: ReadRef<'a>>(
    file: &PeFile<'a, ImageNtHeaders64, R>,
    base: u64,
    length: u64,
) -> Option<Vec<Range<u64>>> {
    let sections = file.section_table();
    let read = |address: u64, size: u64| {
        let (offset, room) = sections.pe_file_range_at(address.try_into().ok()?)?;
        let size = size.min(room.into());
        file.data().read_bytes_at(offset.into(), size).ok()
    };
    let config = file.data_directory(IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG)?.virtual_address.get(LE);
    let pointer = read(u64::from(config).checked_add(METADATA_POINTER)?, 8)?.first_chunk()?;
    let metadata = u64::from_le_bytes(*pointer).checked_sub(base)?;
    let metadata = read(metadata, METADATA)?;
    let map = u32::from_le_bytes(*metadata.get(4..)?.first_chunk()?);
    let count = u32::from_le_bytes(*metadata.get(8..)?.first_chunk()?);
    let size = u64::from(count).min(budget::entries(length)) * ENTRY;
    let (entries, _) = read(map.into(), size)?.as_chunks::<8>();
    let arm = entries.iter().filter_map(|entry| {
        let (start, length) = entry.split_first_chunk::<4>()?;
        let (start, length) =
            (u32::from_le_bytes(*start), u32::from_le_bytes(*length.first_chunk()?));
        let first = u64::from(start & !3);
        (start & 3 < 2).then(|| first..first + u64::from(length))
    });
    Some(arm.collect())
}
