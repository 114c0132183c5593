//! Is a recording read back as it was written, and is the intact part of a damaged one read?

use super::*;
use halprof_measure::{Error, Result};
use proptest::prelude::*;
use serde_json::json;
use shared_types::Branch;
use shared_types::Mode;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

fn sample(ip: u64) -> Sample {
    Sample { ip, period: 1000, process: 4, ..Sample::default() }
}

fn module(process: Option<u32>, name: &str) -> Module {
    Module::named(process, name, 0x1000, 0x1000)
}

fn statistics(generated: u64) -> Statistics {
    Statistics {
        elapsed_ns: 5,
        generated,
        lost: BTreeMap::from([("ring-full".to_owned(), 1)]),
        ..Statistics::default()
    }
}

/// A new folder, and the path of a recording in it.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    (folder, path)
}

fn asleep() -> RecordedEvent {
    RecordedEvent { timestamp: 17, kind: "asleep".to_owned(), ..RecordedEvent::default() }
}

/// The recording that `write` makes.
fn written(metadata: &Metadata, write: impl FnOnce(&mut Writer) -> Result<()>) -> Vec<u8> {
    let (_folder, path) = folder();
    let mut writer = Writer::create(&path, metadata).expect("created");
    write(&mut writer).expect("written");
    let samples = writer.len();
    writer.finish(&statistics(samples + 1), false).expect("finished");
    std::fs::read(&path).expect("read")
}

/// The recording: each sample in a block of its own, a process and a module in between.
fn recording(samples: u64) -> Vec<u8> {
    let metadata = Metadata { machine: "a model".to_owned(), ..Metadata::default() };
    written(&metadata, |writer| {
        for ip in 0..samples {
            writer.samples(&[sample(ip)])?;
        }
        writer.processes(&[Process::named(4, "System")])?;
        writer.modules(&[module(None, "a.sys"), module(Some(4), "b.dll")])?;
        writer.events(&[asleep()])
    })
}

fn reread(bytes: &[u8]) -> (Result<Recording>, Vec<u64>) {
    let mut ips = Vec::new();
    let reader = Reader::new(Path::new("a.rec"), bytes);
    let result = reader.and_then(|reader| {
        reader.samples(|samples| ips.extend(samples.iter().map(|sample| sample.ip)))
    });
    (result, ips)
}

fn damaged(bytes: &[u8]) -> String {
    let (result, _) = reread(bytes);
    result.expect("readable").damaged().expect("damage")
}

fn blocks(bytes: &[u8]) -> Vec<usize> {
    let mut at = 12;
    let mut all = Vec::new();
    while at < bytes.len() {
        all.push(at);
        let length = bytes[at + 4..at + 8].try_into().expect("four bytes");
        at += HEAD_BYTES + u32::from_le_bytes(length) as usize;
    }
    all
}

fn with_block(bytes: &[u8], tag: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let head = writer::head(tag, payload).expect("not too long");
    [bytes, &head, payload].concat()
}

#[test]
fn what_is_written_is_read() {
    let (result, ips) = reread(&recording(3));
    let recording = result.expect("whole");
    assert_eq!(recording.damaged(), None);
    assert_eq!(recording.metadata.machine, "a model");
    assert_eq!((recording.samples, ips), (3, vec![0, 1, 2]));
    assert_eq!(recording.processes[0].name, "System");
    assert_eq!(recording.modules, [module(None, "a.sys"), module(Some(4), "b.dll")]);
    assert_eq!(recording.events, [asleep()]);
    assert_eq!(recording.statistics, Some(statistics(4)));
    let ending = recording.ending.expect("an end");
    assert_eq!((ending.samples, ending.interrupted), (3, false));
}

/// Two blocks of one sample each, whose stacks are the frames 1 and 2.
fn stacked() -> Vec<u8> {
    let outer = StackFrame::new(10, Mode::User, StackId::NONE);
    let mut table = StackTable::default();
    let outer = table.push(outer).expect("pushed");
    let inner = table.push(StackFrame::new(20, Mode::Kernel, outer)).expect("pushed");
    written(&Metadata::default(), |writer| {
        writer.frames(&table)?;
        writer.stacked(&[sample(1)], &[outer], RecordedBranches::default())?;
        writer.stacked(&[sample(2)], &[inner.marked(true)], RecordedBranches::default())
    })
}

/// The address of each sample with those of its callers.
fn callers(bytes: &[u8]) -> (Recording, Vec<(u64, Vec<u64>)>) {
    let mut all = Vec::new();
    let reader = Reader::new(Path::new("a.rec"), bytes).expect("a recording");
    let recording = reader.pass(
        &mut |samples, stacks| {
            all.extend(samples.iter().map(|sample| sample.ip).zip(stacks.iter().copied()));
        },
        &mut |_, _| {},
    );
    let recording = recording.expect("read");
    let addresses =
        |stack| recording.stacks.callers(stack).map(|(_, frame)| frame.address).collect();
    let all = all.into_iter().map(|(ip, stack)| (ip, addresses(stack))).collect();
    (recording, all)
}

/// Frames that are damaged or out of order cost all stacks, because others would have their numbers;
/// they cost no sample. A reader that does not know the blocks skips them.
#[test]
fn stacks_are_read_as_written_or_not_at_all() {
    let whole = stacked();
    let (recording, all) = callers(&whole);
    assert_eq!(all, [(1, vec![10]), (2, vec![20, 10])]);
    assert_eq!(recording.damaged(), None);
    let at = blocks(&whole);
    let [_, frames, first_stacks, first_samples] = at[..4] else { panic!("{at:?}") };
    let head = &whole[..frames];
    let (stack_bytes, rest) = (&whole[first_stacks..first_samples], &whole[first_samples..]);
    let payload = &whole[frames + HEAD_BYTES..first_stacks];
    let swapped = [&payload[16..], &payload[..16]].concat();
    let none = [(1, vec![]), (2, vec![])];
    for (what, frame_payload) in
        [("cut", &payload[..20]), ("the callee first", &swapped), ("nothing", &[0; 7])]
    {
        let with_frames = with_block(head, stacks::FRAMES, frame_payload);
        let (recording, all) = callers(&[&with_frames, stack_bytes, rest].concat());
        assert_eq!(all, none, "{what}");
        assert!(recording.damaged().is_some(), "{what}");
    }
    let unknown = with_block(head, *b"XXXX", payload);
    let (recording, all) = callers(&[&unknown, rest].concat());
    assert_eq!(all[0], (1, vec![]));
    assert_eq!(recording.skipped.get("XXXX"), Some(&1));
    let two = with_block(&whole[..first_stacks], stacks::STACKS, &[1, 0, 0, 0, 1, 0, 0, 0]);
    let (recording, _) = callers(&[&two, rest].concat());
    let damaged = recording.damaged().expect("damage");
    assert!(damaged.contains("more or fewer stacks than samples"), "{damaged}");
}

#[test]
fn what_is_known_later_takes_the_place_of_what_was_known_before() {
    let mut later = module(Some(4), "b.dll");
    later.identity = Some(Identity::Pdb {
        file: "b.pdb".to_owned(),
        guid: "00112233445566778899AABBCCDDEEFF".to_owned(),
        age: 1,
    });
    let another = Module { loaded: Some(7), ..module(Some(4), "c.dll") };
    let json = serde_json::to_vec(&[&later, &another]).expect("JSON");
    let whole = recording(1);
    let end = *blocks(&whole).last().expect("an end");
    let bytes = with_block(&whole[..end], MODULES, &json);
    let recording = reread(&bytes).0.expect("readable");
    assert_eq!(
        recording.modules,
        [module(None, "a.sys"), later, another],
        "a module at the same place, loaded later, is another one"
    );
}

#[test]
fn a_recording_cut_at_any_byte_is_read_as_far_as_it_is_whole() {
    let whole = recording(3);
    let starts = blocks(&whole);
    let head = starts[1];
    for length in 0..whole.len() {
        let (result, ips) = reread(&whole[..length]);
        if length < head {
            assert_eq!(result.expect_err("no head").code(), "bad-file");
            assert!(ips.is_empty());
            continue;
        }
        let recording = result.expect("readable");
        let samples = starts[2..5].iter().filter(|&&end| end <= length).count();
        assert_eq!(ips.len(), samples, "cut at {length}");
        assert_eq!(recording.samples, samples as u64);
        assert_eq!(recording.ending, None);
        assert_eq!(recording.damage.is_some(), !starts.contains(&length), "at {length}");
        let damaged = recording.damaged().expect("it has no end");
        assert!(damaged.contains(&format!("{samples} samples are whole")), "{damaged}");
    }
}

#[test]
fn a_flip_of_any_bit_is_found_and_costs_one_block_at_most_unless_it_is_in_a_head() {
    let whole = recording(2);
    let starts = blocks(&whole);
    for byte in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[byte] ^= 0x10;
        let (result, ips) = reread(&bytes);
        let Ok(recording) = result else {
            assert!(byte < starts[1], "byte {byte}");
            continue;
        };
        let block = starts.iter().rposition(|&start| start <= byte);
        let start = starts[block.expect("behind the version")];
        assert!(recording.damaged().is_some(), "byte {byte}");
        assert_eq!(recording.damage.expect("damage").offset, start as u64, "byte {byte}");
        if byte >= start + HEAD_BYTES {
            assert_eq!(ips.len(), 2 - usize::from(starts[1..3].contains(&start)), "byte {byte}");
        }
    }
}

#[test]
fn damage_says_how_much_is_missing() {
    let whole = recording(3);
    let starts = blocks(&whole);
    let mut bytes = whole.clone();
    bytes[starts[2] + HEAD_BYTES] ^= 1;
    let text = damaged(&bytes);
    assert!(text.contains("2 samples are whole, 1 are not"), "{text}");
    let end = starts[starts.len() - 1];
    let text = damaged(&whole[..end]);
    assert!(text.contains("the recorder ended before it had finished"), "{text}");
    // All that the statistics know of are there.
    assert!(text.contains("their number is not known"), "{text}");
    let more = serde_json::to_vec(&statistics(11)).expect("JSON");
    let text = damaged(&with_block(&whole[..end], STATISTICS, &more));
    assert!(text.contains("at least 7 are missing"), "{text}");
}

#[test]
fn a_hostile_length_allocates_nothing() {
    let whole = recording(1);
    let start = blocks(&whole)[1];
    for tag in [SAMPLES, MODULES, *b"????"] {
        for length in [0, 39, 40, 4_000_000, PAYLOAD_MAX, PAYLOAD_MAX + 1, u32::MAX] {
            let mut head = [&tag[..], &length.to_le_bytes(), &[0; 4]].concat();
            head.extend(crc32fast::hash(&head).to_le_bytes());
            let bytes = [&whole[..start], &head, &[0; 38]].concat();
            let recording = reread(&bytes).0.expect("its head is whole");
            let damaged = recording.damaged().expect("damage");
            let too_long = damaged.contains("longer than the format allows");
            assert_eq!(too_long, length > PAYLOAD_MAX, "{length}: {damaged}");
            assert_eq!(recording.samples, 0);
        }
    }
}

/// Rows without fields take three bytes of JSON and many times that in memory.
#[test]
fn a_block_of_rows_without_fields_is_refused() {
    let whole = recording(1);
    let start = blocks(&whole)[1];
    let with = |tag, rows: usize| {
        let payload = format!("[{}]", vec!["{}"; rows].join(","));
        let bytes = with_block(&whole[..start], tag, payload.as_bytes());
        reread(&[&bytes, &whole[start..]].concat()).0.expect("its head is whole")
    };
    for tag in [EVENTS, PROCESSES, MODULES] {
        let many = with(tag, 1000);
        let damaged = many.damaged().expect("damage");
        assert!(damaged.contains("makes no sense"), "{damaged}");
        assert_eq!(many.events.len(), 1, "the one of the whole block");
        assert_eq!(with(tag, 1).damaged(), None);
    }
}

#[test]
fn other_files_and_versions_are_distinguished() {
    let foreign = reread(b"something else").0;
    let text = foreign.expect_err("foreign").to_string();
    assert!(text.contains("not a halprof recording"), "{text}");
    for version in [0u8, 1, 3] {
        let mut bytes = recording(0);
        bytes[8] = version;
        let error = reread(&bytes).0.expect_err("another version");
        let text = error.to_string();
        let named = text.contains(&format!("version {version};")) && text.contains("version 2");
        assert!(named, "{text}");
        assert_eq!(error.code(), "bad-file");
    }
    // A description must come first.
    let json = serde_json::to_vec(&statistics(1)).expect("JSON");
    let headless = with_block(&recording(0)[..12], STATISTICS, &json);
    assert_eq!(reread(&headless).0.expect_err("no description").code(), "bad-file");
    let mut bytes = recording(1);
    bytes.push(0);
    assert!(reread(&bytes).0.expect("readable").damaged().is_some());
}

#[test]
fn counts_of_threads_need_their_trace_and_processes_in_order() {
    let whole = recording(1);
    let end = *blocks(&whole).last().expect("blocks");
    let row = |number: u64| {
        let name = "a.exe";
        json!({"number": number, "name": name, "thread": 8, "complete": true, "counts": [7]})
    };
    for (head, numbers, why) in [
        (true, &[0, 0, 1][..], None),
        (true, &[0, 2], Some("threads are of no process")),
        (true, &[u64::MAX], Some("threads are of no process")),
        (false, &[0], Some("the trace of threads is missing")),
    ] {
        let counts = json!({"sources": ["TotalCycles"]}).to_string();
        let threads = json!(numbers.iter().map(|&number| row(number)).collect::<Vec<_>>());
        let mut bytes = whole[..end].to_vec();
        if head {
            bytes = with_block(&bytes, *b"CNTS", counts.as_bytes());
        }
        bytes = with_block(&bytes, *b"THRD", threads.to_string().as_bytes());
        let (result, ips) = reread(&[&bytes, &whole[end..]].concat());
        let recording = result.expect("readable");
        assert_eq!((recording.damage.map(|damage| damage.why), ips), (why, vec![0]));
        let threads = recording.counts.map(|counts| counts.threads.len());
        assert_eq!(threads, why.is_none().then_some(numbers.len()));
    }
}

/// Blocks that only a later version knows.
#[test]
fn what_is_not_known_is_skipped_and_counted() {
    let whole = recording(1);
    let behind_samples = blocks(&whole)[2];
    let more = with_block(&whole[..behind_samples], *b"NEXT", b"something happened");
    let more = with_block(&more, *b"\0\x1B[m", b"");
    let more = with_block(&more, *b"NEXT", b"");
    let (result, ips) = reread(&[&more[..], &whole[behind_samples..]].concat());
    let read = result.expect("whole");
    assert_eq!((read.damaged(), ips), (None, vec![0]));
    let skipped: Vec<(&str, u64)> = read.skipped.iter().map(|(tag, n)| (&**tag, *n)).collect();
    assert_eq!(skipped, [("NEXT", 2), (r"\x00\x1b[m", 1)]);
}

/// Samples with the given numbers of records, which cycle through a program of a thousand branches.
fn branched(of_samples: &[u8]) -> (Vec<Sample>, Vec<Branch>) {
    let with = |(ip, &branches): (u64, &u8)| Sample { branches, ..sample(ip) };
    let samples: Vec<Sample> = (0..).zip(of_samples).map(with).collect();
    let records = of_samples.iter().map(|&n| u64::from(n)).sum();
    let branch = |n: u64| Branch {
        from: 0x7FF6_0000_0000 + n % 1000 * 16,
        to: 0xFFFF_F800_0000_0000 + n % 7,
        cycles: if n.is_multiple_of(2) { (n % 65_536) as u16 } else { 0 },
        kind: (n % 1000 % 8) as u8,
        flags: if n.is_multiple_of(2) {
            Branch::CYCLES | Branch::PREDICTED
        } else {
            Branch::MISPREDICTED
        },
        reserved: 0,
    };
    (samples, (0..records).map(branch).collect())
}

fn recording_of(samples: &[Sample], branches: &[Branch]) -> Vec<u8> {
    written(&Metadata::default(), |writer| writer.branched(samples, branches))
}

/// The records that were read, each with the address of its sample.
fn reread_branches(bytes: &[u8]) -> (Result<Recording>, Vec<(u64, Vec<Branch>)>) {
    let mut all = Vec::new();
    let reader = Reader::new(Path::new("a.rec"), bytes);
    let result = reader.and_then(|reader| {
        reader.pass(&mut |_, _| {}, &mut |sample, own| all.push((sample.ip, own.branches.to_vec())))
    });
    (result, all)
}

#[test]
fn branches_come_back_with_their_samples_and_take_little_room() {
    // More than one block, including samples without branches.
    let of_samples: Vec<u8> = (0..20_000u32).map(|n| if n % 5 == 0 { 0 } else { 32 }).collect();
    let (samples, branches) = branched(&of_samples);
    let bytes = recording_of(&samples, &branches);
    let (result, all) = reread_branches(&bytes);
    let recording = result.expect("whole");
    assert_eq!((recording.damaged(), recording.samples), (None, 20_000));
    assert_eq!(recording.branches, branches.len() as u64);
    let with = (0..20_000).filter(|n| n % 5 != 0);
    assert!(all.iter().map(|&(ip, _)| ip).eq(with));
    assert!(all.iter().flat_map(|(_, own)| own).eq(&branches));
    let room = (bytes.len() - 20_000 * 40) / branches.len();
    assert!(room <= 6, "{room} bytes for a record");
    // Reading only samples gives the same samples.
    let (result, ips) = reread(&bytes);
    assert_eq!(result.expect("whole").branches, recording.branches);
    assert_eq!(ips.len(), 20_000);
}

/// The undocumented values take no room where they are all 0, and belong to the records after them.
#[test]
fn undocumented_values_come_back_with_their_branches() {
    let (samples, branches) = branched(&[3, 0, 2]);
    let reread = |raw: &[u64]| {
        let records = RecordedBranches { branches: &branches, raw };
        let bytes = written(&Metadata::default(), |writer| writer.branched(&samples, records));
        let mut all = Vec::new();
        let reader = Reader::new(Path::new("a.rec"), &bytes[..]).expect("a recording");
        let recording =
            reader.pass(&mut |_, _| {}, &mut |_, own| all.push(own.raw.to_vec())).expect("read");
        assert_eq!(recording.damaged(), None);
        (bytes.len(), all)
    };
    let raw = [0, u64::MAX, 1 << 63, 127, 128];
    let (length, all) = reread(&raw);
    assert_eq!(all, [&raw[..3], &raw[3..]]);
    let (shorter, none) = reread(&[0; 5]);
    assert_eq!(none, [[0; 0], [0; 0]]);
    assert!(shorter < length);
    assert_eq!(reread(&[]), (shorter, none));
    let records = RecordedBranches { branches: &branches, raw: &raw[..4] };
    let (_folder, path) = folder();
    let mut writer = Writer::create(&path, &Metadata::default()).expect("created");
    assert_eq!(writer.branched(&samples, records).expect_err("too few").code(), "internal");
}

#[test]
fn samples_say_how_many_branches_follow() {
    let (samples, branches) = branched(&[3, 2]);
    let (_folder, path) = folder();
    let mut writer = Writer::create(&path, &Metadata::default()).expect("created");
    assert_eq!(writer.branched(&samples, &branches[1..]).expect_err("too few").code(), "internal");
    writer.branched(&samples, &branches).expect("written");
}

#[test]
fn a_recording_with_branches_cut_at_any_byte_is_read_as_far_as_it_is_whole() {
    let (samples, branches) = branched(&[4, 0, 2]);
    let whole = recording_of(&samples, &branches);
    let behind_samples = blocks(&whole)[2];
    for end in behind_samples..whole.len() {
        let (result, all) = reread_branches(&whole[..end]);
        let recording = result.expect("readable");
        assert!(recording.damaged().is_some());
        assert_eq!(recording.samples, 3);
        assert_eq!(recording.branches, all.iter().map(|(_, own)| own.len() as u64).sum::<u64>());
    }
    // Another block is where they should be.
    let bytes = [&whole[..behind_samples], &whole[blocks(&whole)[3]..]].concat();
    assert!(damaged(&bytes).contains("the branches of samples are missing"), "{}", damaged(&bytes));
}

#[test]
fn branches_of_a_stranger_are_not_believed() {
    let with = |of_samples: u8, payload: &[u8]| {
        let samples = Sample { branches: of_samples, ..sample(1) };
        let whole = recording(1);
        let (at, behind) = (blocks(&whole)[1], blocks(&whole)[2]);
        let bytes = with_block(&whole[..at], SAMPLES, samples.as_bytes());
        let bytes = with_block(&bytes, BRANCHES, payload);
        reread_branches(&[&bytes[..], &whole[behind..]].concat())
    };
    let edge = [&1u32.to_le_bytes()[..], &[0x11; 17]].concat();
    let payload = |records: &[u8]| [&edge[..], records].concat();
    let (result, all) = with(1, &payload(&[0, 0]));
    assert_eq!(result.expect("whole").damaged(), None);
    assert_eq!(all[0].1[0].from, 0x1111_1111_1111_1111);
    for (of_samples, bad) in [
        // Truncated at any byte, or too long.
        (1, payload(&[])),
        (1, payload(&[0])),
        (1, payload(&[0, 0, 0])),
        (1, vec![]),
        (1, vec![1, 0]),
        (1, edge[..20].to_vec()),
        // No such edge, and one beyond the table of any machine.
        (1, payload(&[1, 0])),
        (1, payload(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0])),
        // Not a valid number.
        (1, payload(&[0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0])),
        (1, payload(&[0x80, 0x80, 0x80, 0x80, 0x80, 0, 0])),
        // More edges than fit into the file.
        (1, [&u32::MAX.to_le_bytes()[..], &[0; 40]].concat()),
        // More cycles than possible.
        (1, payload(&[0, Branch::CYCLES, 0xFF, 0xFF, 0x7F])),
        // More records than any sample has.
        (33, payload(&[0; 66])),
        (255, payload(&[0; 510])),
        // For samples without records.
        (0, payload(&[])),
    ] {
        let (result, _) = with(of_samples, &bad);
        let recording = result.expect("readable");
        let damaged = recording.damaged().expect("damage");
        assert!(damaged.contains("make no sense"), "{bad:?}: {damaged}");
        assert_eq!(recording.samples, 1);
    }
}

#[test]
fn two_recorders_of_one_file_do_not_meet() {
    let (folder, path) = folder();
    let mut one = Writer::create(&path, &Metadata::default()).expect("created");
    let mut two = Writer::create(&path, &Metadata::default()).expect("created");
    assert_ne!(one.partial(), two.partial());
    one.samples(&[sample(1)]).expect("written");
    two.samples(&[sample(2), sample(3)]).expect("written");
    one.finish(&Statistics::default(), false).expect("finished");
    two.finish(&Statistics::default(), false).expect("finished");
    assert_eq!(read(&path, |_| {}).expect("read").samples, 2);
    assert_eq!(read(&folder.path().join("a.rec.old"), |_| {}).expect("read").samples, 1);
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 2);
}

/// A source of bytes whose first read fails.
struct Failing<'a> {
    bytes: &'a [u8],
    with: Option<io::ErrorKind>,
}

impl io::Read for Failing<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.with.take() {
            Some(error) => Err(error.into()),
            None => self.bytes.read(room),
        }
    }
}

/// A signal interrupts a read, which is then repeated; other errors are reported.
#[test]
fn an_interrupted_read_is_repeated() {
    let whole = recording(3);
    for (with, readable) in [(io::ErrorKind::Interrupted, true), (io::ErrorKind::Other, false)] {
        let file = Failing { bytes: &whole, with: Some(with) };
        let reader = Reader::new(Path::new("a.rec"), file);
        let recording = reader.and_then(|reader| reader.samples(|_| {}));
        let samples = recording.ok().map(|recording| recording.samples);
        assert_eq!(samples, readable.then_some(3), "{with}");
    }
}

#[test]
fn an_error_says_where_what_was_written_is() {
    let folder = tempfile::tempdir().expect("a folder");
    for samples in [0, 2] {
        let path = folder.path().join(format!("{samples}.rec"));
        let mut writer = Writer::create(&path, &Metadata::default()).expect("created");
        writer.samples(&vec![sample(1); samples]).expect("written");
        // A folder cannot be replaced.
        std::fs::create_dir_all(path.join("full")).expect("made");
        let error = writer.finish(&Statistics::default(), false);
        let text = error.expect_err("a folder is there").to_string();
        assert_eq!(text.contains("samples and 0 marks are in"), samples != 0, "{text}");
    }
}

/// A link's target is relative to the folder of the link.
#[cfg(unix)]
#[test]
fn what_a_link_points_to_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink("pointed-to.txt", at("link")).expect("made");
    write_whole(&at("link"), b"new").expect("written");
    assert_eq!(std::fs::read(at("pointed-to.txt")).expect("read"), b"new");
    assert!(at("link").is_symlink());
}

#[test]
fn what_has_no_sample_leaves_nothing() {
    let (folder, path) = folder();
    drop(Writer::create(&path, &Metadata::default()).expect("created"));
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0);
    let mut writer = Writer::create(&path, &Metadata::default()).expect("created");
    writer.samples(&[sample(1)]).expect("written");
    let partial = writer.partial().expect("a file").to_owned();
    assert!(partial.exists() && !path.exists(), "half a recording has its final name");
    drop(writer);
    let recording = read(&partial, |_| {}).expect("readable");
    assert_eq!((recording.samples, recording.ending), (1, None));
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_written_to_and_never_replaced() {
    let full = Path::new("/dev/full");
    let error = Writer::create(full, &Metadata::default()).expect_err("it is full");
    assert!(matches!(error, Error::File { .. }), "{error}");
    let writer = Writer::create(Path::new("/dev/null"), &Metadata::default());
    let mut writer = writer.expect("a device");
    assert_eq!(writer.partial(), None);
    writer.samples(&[sample(1)]).expect("written");
    writer.finish(&Statistics::default(), false).expect("finished");
    assert!(!std::fs::metadata(full).expect("it is there").is_file());
}

#[test]
fn a_thread_writes_all_that_it_is_given() {
    let (_folder, path) = folder();
    let writer = Writer::create(&path, &Metadata::default()).expect("created");
    let mut background = Background::new(writer);
    for first in (0..100_000).step_by(1000) {
        let samples = (first..first + 1000).map(sample).collect();
        background.put(Block::Samples(samples)).expect("written");
    }
    background.finish(&statistics(100_001), true).expect("finished");
    let mut ips = Vec::new();
    let recording = read(&path, |samples| {
        ips.extend(samples.iter().map(|one| one.ip));
    });
    let recording = recording.expect("whole");
    assert!(ips.into_iter().eq(0..100_000), "in order, once each");
    assert!(recording.ending.is_some_and(|ending| ending.interrupted));
    assert_eq!(recording.statistics, Some(statistics(100_001)));
}

#[test]
fn a_thread_that_is_left_keeps_what_it_was_given() {
    let (_folder, path) = folder();
    let writer = Writer::create(&path, &Metadata::default()).expect("created");
    let partial = writer.partial().expect("a file").to_owned();
    let mut background = Background::new(writer);
    background.put(Block::Samples(vec![sample(1)])).expect("written");
    drop(background);
    assert!(!path.exists());
    assert_eq!(read(&partial, |_| {}).expect("readable").samples, 1);
}

fn at(timestamp: u64) -> Sample {
    let ip = 0x1000;
    Sample { timestamp, ..sample(ip) }
}

/// A process with a module, that ends at 10.
fn ending() -> Live {
    let mut live = Live::new(Metadata::default());
    let process = |ended| Process { id: 4, name: "a.exe".to_owned(), ended, ..Process::default() };
    let put = |live: &mut Live, block| live.put(block).expect("kept");
    put(&mut live, Block::Processes(vec![process(None)]));
    put(&mut live, Block::Modules(vec![module(None, "a.sys"), module(Some(4), "a.exe")]));
    put(&mut live, Block::Processes(vec![process(Some(10))]));
    live
}

#[test]
fn a_live_recording_has_what_came_since_the_last_time() {
    let mut live = ending();
    for (more, generated) in [(2, 3), (5, 9), (0, 9)] {
        let samples = vec![at(5); more];
        live.put(Block::Samples(samples)).expect("kept");
        live.put(Block::Statistics(Box::new(statistics(generated)))).expect("kept");
        let (recording, samples) = live.take();
        assert_eq!((samples.len(), recording.samples), (more, more as u64));
        assert_eq!(recording.damaged(), None);
        assert_eq!((recording.processes.len(), recording.modules.len()), (1, 2));
    }
    let told = Block::Statistics(Box::new(statistics(20)));
    live.put(told).expect("kept");
    let (recording, _) = live.take();
    let told = recording.statistics.expect("statistics");
    assert_eq!((told.generated, told.elapsed_ns), (11, 0));
    assert_eq!(told.lost, BTreeMap::from([("ring-full".to_owned(), 0)]));
}

#[test]
fn a_live_recording_forgets_what_has_ended_when_later_samples_come() {
    let mut live = ending();
    for (timestamp, processes) in [(5, 1), (20, 1), (30, 0)] {
        live.put(Block::Samples(vec![at(timestamp)])).expect("kept");
        let (recording, _) = live.take();
        assert_eq!(recording.processes.len(), processes, "{timestamp}");
        // The kernel's module stays.
        assert_eq!(recording.modules.len(), 1 + processes, "{timestamp}");
    }
}

#[test]
fn samples_of_a_live_recording_are_of_the_process_that_ran_then() {
    let mut live = ending();
    let process =
        Process { id: 4, name: "b.exe".to_owned(), started: Some(15), ..Process::default() };
    live.put(Block::Processes(vec![process])).expect("kept");
    live.put(Block::Samples(vec![at(5), at(20)])).expect("kept");
    let (recording, samples) = live.take();
    assert_ne!(samples[0].process, samples[1].process);
    assert!(samples.iter().map(|one| recording.process_ids.id(one.process)).eq([4, 4]));
}

proptest! {
    #[test]
    fn any_branches_are_answered(
        of_samples in proptest::collection::vec(0u8..40, 0..20),
        payload in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let (samples, _) = branched(&of_samples);
        let whole = recording(1);
        let bytes = with_block(&whole[..blocks(&whole)[1]], SAMPLES, samples.as_bytes());
        let bytes = with_block(&bytes, BRANCHES, &payload);
        let (result, all) = reread_branches(&bytes);
        let recording = result.expect("readable");
        let records = all.iter().map(|(_, own)| own.len() as u64).sum::<u64>();
        prop_assert!(records <= recording.branches);
        prop_assert!(all.iter().all(|(_, own)| own.len() <= 32));
    }
}

/// An identifier means something else where a module comes to be where another is or was.
#[test]
fn modules_that_share_addresses_part_the_time_of_their_process() {
    let at = |start, end, loaded| Module { start, end, loaded, ..module(Some(4), "a.dll") };
    for (modules, parted) in [
        (vec![at(0x1000, 0x2000, Some(100))], false),
        // They only touch, in either order.
        (vec![at(0x1000, 0x2000, None), at(0x2000, 0x3000, Some(100))], false),
        (vec![at(0x1000, 0x2000, Some(100)), at(0x2000, 0x3000, None)], false),
        // One byte is of both.
        (vec![at(0x1000, 0x2000, None), at(0x1FFF, 0x3000, Some(100))], true),
        (vec![at(0x1000, 0x2000, Some(100)), at(0x1FFF, 0x3000, None)], true),
        // It is in the first, but not in its neighbour.
        (
            vec![at(0x1000, 0x9000, None), at(0x2000, 0x3000, None), at(0x4000, 0x5000, Some(100))],
            true,
        ),
    ] {
        let recording = Recording { modules, ..Recording::default() };
        let process_ids = ProcessIds::of(&recording);
        let [before, after] = [99, 100].map(|time| process_ids.number(4, time));
        assert_eq!(before != after, parted, "{:x?}", recording.modules);
        assert_eq!(process_ids == ProcessIds::default(), !parted);
    }
}

#[test]
fn the_bound_of_samples_in_turns_has_one_period_of_each_processor() {
    let slices =
        Slices { source: 0, enabled: 400, running: 100, error_ppm: Some(10_000), processors: 8 };
    // No sample: eight processors may each be just below a period of 1,000, a quarter of the time.
    assert_eq!(slices.error(0, 0, 0, 1_000), Some(32_000));
    // Four samples: 1 % of 16,000, and eight times 4,000.
    let squares = 4 * 4_000 * 4_000;
    assert_eq!(slices.error(16_000, 4, squares, 1_000), Some(160 + 32_000));
    // Many: 1 % of 40 million, and 1.96 times 4,000 times the root of 10,000.
    assert_eq!(
        slices.error(40_000_000, 10_000, 10_000 * 4_000 * 4_000, 1_000),
        Some(400_000 + 784_000)
    );
    // Half of the events in samples of ten times the others' period: as many events have less to tell.
    let unequal = 9_091 * 2_200 * 2_200 + 909 * 22_000 * 22_000;
    assert_eq!(slices.error(40_000_000, 10_000, unequal, 1_000), Some(400_000 + 1_363_513));
    let unknown = Slices { error_ppm: None, ..slices };
    assert_eq!(unknown.error(16_000, 4, squares, 1_000), None);
}

#[test]
fn what_was_there_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let path = at("a.rec");
    assert_eq!(backup_path(&path), None);
    for machine in ["first", "second", "third"] {
        let metadata = Metadata { machine: machine.to_owned(), ..Metadata::default() };
        assert_eq!(backup_path(&path), (machine != "first").then(|| at("a.rec.old")));
        let writer = Writer::create(&path, &metadata).expect("created");
        let finished = writer.finish(&Statistics::default(), false);
        finished.expect("finished");
    }
    let machine = |path: &Path| read(path, |_| {}).expect("readable").metadata.machine;
    assert_eq!(machine(&path), "third");
    assert_eq!(machine(&at("a.rec.old")), "second");
    let names = std::fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(names.count(), 2, "no more than one is kept");
}

#[test]
fn a_file_that_is_written_as_a_whole_keeps_what_was_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let text = |name: &str| std::fs::read_to_string(at(name)).ok();
    let write = |content: &str| {
        replace_keeping_old(&at("a"), |file| file.write_all(content.as_bytes())).expect("written")
    };
    assert_eq!(write("first"), None);
    assert_eq!(write("second"), Some(at("a.old")));
    assert_eq!((text("a").as_deref(), text("a.old").as_deref()), (Some("second"), Some("first")));
    let failed = replace_keeping_old(&at("a"), |_| Err(io::ErrorKind::StorageFull.into()));
    assert!(failed.is_err());
    assert_eq!((text("a").as_deref(), text("a.old").as_deref()), (Some("second"), Some("first")));
}
