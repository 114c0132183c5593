//! Branch records: each is read as it was written, and goes to the event that it names.

use halprof_etw::bytes::{Layout, Output};
use halprof_etw::id::LAST_BRANCH_RECORD;
use halprof_etw::join::branches::BranchRecords;
use halprof_etw::payload::branches::{Entries, Entry, LastBranches};
use halprof_etw::payload::{self, EventKind};
use halprof_etw::{EventId, PointerSize};

const POINTERS: [PointerSize; 2] = [PointerSize::Four, PointerSize::Eight];

fn bytes(count: u64, pointer_size: PointerSize) -> Vec<u8> {
    let mut output = Output { bytes: Vec::new(), pointer_size };
    // The third field of Intel's processors may have its highest bit set.
    let highest = 1 << (8 * pointer_size.bytes() - 1);
    for n in 0..count {
        Entry { from: 0x1000 + n, to: 0x2000 + n, reserved: highest | n }.write(&mut output);
    }
    output.bytes
}

fn records(event_time: u64, thread: u32, process: u32, entries: Entries<'_>) -> LastBranches<'_> {
    LastBranches { event_time, process, thread, filter: 0x203, entries }
}

#[test]
fn records_are_read_as_they_are_written() {
    let id = |version| EventId::Classic { guid: LAST_BRANCH_RECORD, opcode: 32, version };
    for pointer in POINTERS {
        for count in [0, 1, 16, 32] {
            let bytes = bytes(count, pointer);
            let written = records(99, 8, 4, Entries::from_bytes(&bytes, pointer));
            let mut output = Output { bytes: Vec::new(), pointer_size: pointer };
            written.write(&mut output);
            let begin = if pointer == PointerSize::Eight { 24 } else { 20 };
            assert_eq!(output.bytes.len(), begin + 3 * pointer.bytes() * count as usize);
            for version in [2, 3] {
                let read = payload::decode(id(version), pointer, &output.bytes);
                assert_eq!(read, Some(EventKind::LastBranches(written)), "{pointer:?} {count}");
            }
            // Nobody knows older layouts.
            let read = payload::decode(id(1), pointer, &output.bytes);
            assert_eq!(read, Some(EventKind::Unknown));
            let read = payload::decode(id(2), pointer, &output.bytes[..begin - 1]);
            assert_eq!(read, None);
        }
    }
}

#[test]
fn records_go_to_the_event_that_they_name() {
    let pointer = PointerSize::Eight;
    // The number of entries says which records they are.
    let all: Vec<Vec<u8>> = (0..6).map(|count| bytes(count, pointer)).collect();
    let entries = |count: usize| Entries::from_bytes(&all[count], pointer);
    let mut joined = BranchRecords::default();
    assert!(joined.is_empty());
    for (processor, records) in [
        // Two events of one time, as idle threads and two hooks have them.
        (1, records(20, 8, 4, entries(1))),
        (0, records(20, 8, 4, entries(2))),
        // Before the records of an earlier event.
        (0, records(30, 8, 4, entries(3))),
        (0, records(10, 8, 4, entries(4))),
        (0, records(40, 12, 5, entries(5))),
    ] {
        joined.add(processor, &records);
    }
    let mut take = |time, thread, processor| {
        joined.take(time, thread, processor).map(|found| (found.process, found.entries.len()))
    };
    assert_eq!(take(10, 8, 3), Some((4, 4)), "the thread moved");
    assert_eq!(take(20, 8, 0), Some((4, 2)));
    assert_eq!(take(20, 8, 0), Some((4, 1)), "no records are of two events");
    assert_eq!(take(20, 8, 1), None);
    assert_eq!(take(30, 12, 0), None, "of another thread");
    assert_eq!(take(31, 8, 0), None);
    assert_eq!(joined.left().collect::<Vec<_>>(), [(4, 8), (5, 12)]);
}

/// A file may claim so for all its records: none of them is looked at again for each event.
#[test]
fn each_of_many_records_with_one_time_and_thread_goes_to_one_event() {
    const MANY: u32 = 200_000;
    let mut joined = BranchRecords::default();
    // The process numbers the records; three processors wrote them in turn.
    for number in 0..MANY {
        let entries = Entries::from_bytes(&[], PointerSize::Eight);
        joined.add((number % 3) as u16, &records(20, 8, number, entries));
    }
    let mut taken = vec![false; MANY as usize];
    for number in 0..MANY {
        // Processor 0 has a third of the records and asks for two thirds.
        let processor = (number % 3 / 2) as u16;
        let records = joined.take(20, 8, processor).expect("one for each");
        // For the first half there are enough from the event's own processor.
        assert!(number >= MANY / 2 || records.process % 3 == u32::from(processor), "{number}");
        assert!(!std::mem::replace(&mut taken[records.process as usize], true));
    }
    assert_eq!(joined.take(20, 8, 0), None);
}
