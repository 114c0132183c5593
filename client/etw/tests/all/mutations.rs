//! Traces that are cut, flipped and put together wrong.

use crate::shared::trace;
use fastrand::Rng;
use halprof_etw::join::branches::BranchRecords;
use halprof_etw::join::stacks::Joiner;
use halprof_etw::names::SelfDescription;
use halprof_etw::payload::stack::Half;
use halprof_etw::{Cause, EventKind, Trace};
use std::io::Cursor;

/// Reads all of it, with no more memory than the file's length justifies.
fn read(bytes: &[u8]) -> Option<u64> {
    let mut events = None;
    let allocated = allocation_counter::measure(|| events = read_all(bytes));
    let most = 24 * bytes.len() as u64 + (20 << 20);
    assert!(allocated.bytes_max < most, "{} bytes for {}", allocated.bytes_max, bytes.len());
    events
}

fn read_all(bytes: &[u8]) -> Option<u64> {
    let mut trace = Trace::open(Cursor::new(bytes)).ok()?;
    let pointer = trace.pointer_size();
    let (mut joiner, mut branches) = (Joiner::new(20_000_000), BranchRecords::default());
    while let Some(event) = trace.next_event().expect("bytes in memory") {
        assert!(event.counters.iter().len() <= 8192);
        let _ = SelfDescription::of(event.items.clone());
        match &event.kind {
            EventKind::Sample(sample) => {
                let mode = Half::of(sample.ip, pointer);
                joiner.event(event.time, sample.thread, event.processor, mode, ());
            }
            EventKind::LastBranches(records) => branches.add(event.processor, records),
            _ => joiner.stacks_of(&event),
        }
    }
    Some(trace.events())
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, buffer_size: usize) {
    let at = rng.usize(..bytes.len());
    // Where structure is: a buffer's header, or the header of its first event.
    let near = (at / buffer_size * buffer_size + rng.usize(..160)).min(bytes.len() - 1);
    match rng.u8(..8) {
        0 => bytes.truncate(at.max(1)),
        1 => bytes[at] = rng.u8(..),
        2 | 3 => bytes[near] = rng.u8(..),
        4 => bytes[near] ^= 1 << rng.u8(..8),
        5 => {
            let end = (at + rng.usize(..64)).min(bytes.len());
            bytes[at..end].fill([0, 0xFF, rng.u8(..)][rng.usize(..3)]);
        }
        6 => {
            let other = rng.usize(..bytes.len());
            let length = rng.usize(..300).min(bytes.len() - at.max(other));
            bytes.copy_within(other..other + length, at);
        }
        _ => {
            bytes.remove(at);
        }
    }
}

#[test]
fn damaged_files_are_read_without_a_panic() {
    let files = [
        ("artificial_pmc.etl", 4096, 3000),
        ("smallEtlFile.etl", 512, 3000),
        ("SelfDescribingSingleEvent.etl", 1024, 3000),
        ("sawbuck_process_data_32_v2.etl", 65536, 1500),
        ("lxcore_kernel.etl", 8192, 1500),
        ("net.4.5.2.x64.etl", 65536, 4),
    ];
    for (name, buffer_size, cases) in files {
        let Some(bytes) = trace(name) else { return };
        let mut read_some = 0;
        for seed in 0..cases {
            let mut rng = Rng::with_seed(seed);
            let mut bytes = bytes.clone();
            for _ in 0..rng.usize(1..6) {
                mutate(&mut rng, &mut bytes, buffer_size);
            }
            read_some += u64::from(read(&bytes).is_some());
        }
        assert!(read_some > cases / 4, "{name}: {read_some} of {cases} were read at all");
    }
}

#[test]
fn every_prefix_of_a_file_is_refused_or_read_in_part() {
    let Some(bytes) = trace("smallEtlFile.etl") else { return };
    let whole = read(&bytes).expect("a trace");
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_none_or(|events| events <= whole), "{length}");
    }
    let Some(bytes) = trace("artificial_pmc.etl") else { return };
    let mut before = 0;
    for length in (4096..=bytes.len()).step_by(24) {
        let events = read(&bytes[..length]).expect("its first buffer is whole");
        assert!(events >= before, "{length} bytes give fewer events than less");
        before = events;
    }
    assert_eq!(before, 1475);
}

/// Buffers of a few bytes that claim to be as large as buffers can be.
fn bomb(processors: u16, buffers: u16) -> Option<Vec<u8>> {
    let mut bytes = trace("smallEtlFile.etl")?;
    let mut header = bytes[512..512 + 72].to_vec();
    bytes.truncate(512);
    // One byte, and the same again and again.
    let body = [0xFF, 0xFF, 0xFF, 0x7F, 1, 7, 0, 15, 255, 0, 0, 0xFF, 0xFF, 0xFF, 0];
    header[0..4].copy_from_slice(&(72 + body.len() as u32).to_le_bytes());
    header[48..52].copy_from_slice(&(16_u32 << 20).to_le_bytes());
    for buffer in 0..buffers {
        header[40..42].copy_from_slice(&(buffer % processors).to_le_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&body);
    }
    Some(bytes)
}

#[test]
fn few_bytes_do_not_become_many() {
    for (processors, buffers) in [(200, 200), (1, 1000)] {
        let Some(bytes) = bomb(processors, buffers) else { return };
        read(&bytes);
        let mut trace = Trace::open(Cursor::new(bytes)).expect("a trace");
        while trace.next_event().expect("bytes in memory").is_some() {}
        let left_out = trace.damage().count(Cause::Expansion);
        assert!(left_out > u64::from(buffers) / 2, "{left_out} of {buffers}");
    }
}
