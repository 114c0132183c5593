//! The list of sources that Windows offers (TraceQueryInformation, class 7).

use crate::profile_source::ProfileSource;
use zerocopy::FromBytes;

/// PROFILE_SOURCE_INFO (evntrace.h) before its name.
const NAME: usize = 24;

/// Parses the list: entries of PROFILE_SOURCE_INFO, each of which says where the next one is. It ends
/// at the first that does not fit.
pub(super) fn parse(bytes: &[u8]) -> Vec<ProfileSource> {
    let mut sources = Vec::new();
    let mut rest = bytes;
    while let Some((name, [next, id, min_interval, max_interval])) = entry(rest) {
        sources.push(ProfileSource { id, name, min_interval, max_interval, interval: 0 });
        // An offset that is shorter than an entry would lead back into this one, again and again.
        match rest.get(next as usize..) {
            Some(following) if next as usize >= NAME => rest = following,
            _ => break,
        }
    }
    sources
}

/// The name of the first entry, and its first four fields.
fn entry(bytes: &[u8]) -> Option<(String, [u32; 4])> {
    let (fields, _) = <[u32; 4]>::read_from_prefix(bytes).ok()?;
    let [next, ..] = fields;
    let end = if next == 0 { bytes.len() } else { bytes.len().min(next as usize) };
    let (units, _) = bytes.get(NAME..end)?.as_chunks();
    let units = units.iter().map(|&unit| u16::from_le_bytes(unit));
    let name: Vec<u16> = units.take_while(|&unit| unit != 0).collect();
    Some((String::from_utf16_lossy(&name), fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_list_is_read_as_evntrace_h_lays_it_out() {
        // NextEntryOffset 0x30, Source 0, 1,221..1,000,000, Reserved, "Timer"; then the last, whose
        // offset is 0: Source 2, 4,096..2,147,483,647, "TotalIssues".
        let mut bytes = Vec::new();
        for word in [0x30_u32, 0, 0x4C5, 0xF_4240, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend("Timer\0".encode_utf16().flat_map(u16::to_le_bytes));
        bytes.resize(0x30, 0xAA);
        for word in [0_u32, 2, 0x1000, 0x7FFF_FFFF, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend("TotalIssues\0".encode_utf16().flat_map(u16::to_le_bytes));
        let source = |id, name: &str, min_interval, max_interval| ProfileSource {
            id,
            name: name.to_owned(),
            min_interval,
            max_interval,
            interval: 0,
        };
        let timer = source(0, "Timer", 1221, 1_000_000);
        let issues = source(2, "TotalIssues", 4096, 2_147_483_647);
        assert_eq!(parse(&bytes), [timer.clone(), issues]);
        assert_eq!(parse(&bytes[..0x30]), [timer], "cut before the second");
    }

    #[test]
    fn offsets_that_lead_nowhere_end_the_list() {
        for next in [1_u32, 8, 23, 0x7FFF_FFFF, u32::MAX] {
            let mut bytes = vec![0; 64];
            bytes[..4].copy_from_slice(&next.to_le_bytes());
            assert!(parse(&bytes).len() <= 1, "{next}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_list(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&bytes).len() <= bytes.len() / NAME + 1);
        }
    }
}
