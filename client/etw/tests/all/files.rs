//! Real traces of Windows 7 to 11, and what independent readers count in them.

use crate::shared::{manifest, number, text, trace};
use halprof_etw::clock::ClockType;
use halprof_etw::header::Header;
use halprof_etw::{EventKind, Losses, PointerSize, Trace};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Cursor;

#[derive(Default)]
struct Counted {
    kinds: BTreeMap<String, u64>,
    processes: BTreeMap<u32, String>,
    /// By process; version 0 names none.
    images: BTreeMap<i64, u64>,
    samples: BTreeMap<u32, u64>,
    switches: u64,
    processors: Vec<u16>,
    times: Vec<i64>,
}

fn count(trace: &mut Trace<Cursor<Vec<u8>>>) -> Counted {
    let mut counted = Counted::default();
    while let Some(event) = trace.next_event().expect("bytes") {
        *counted.kinds.entry(event.id.to_string()).or_default() += 1;
        counted.times.push(event.time);
        counted.processors.push(event.processor);
        match event.kind {
            EventKind::Process(process) => {
                counted.processes.insert(process.process, process.image);
            }
            EventKind::Image(image) => {
                *counted.images.entry(image.process.map_or(-1, i64::from)).or_default() += 1;
            }
            EventKind::Sample(_) => *counted.samples.entry(0).or_default() += 1,
            EventKind::CounterSample(sample) => {
                *counted.samples.entry(sample.source.into()).or_default() += 1;
            }
            EventKind::Switch(_) => counted.switches += 1,
            EventKind::Damaged => panic!("{} is damaged", event.id),
            _ => {}
        }
    }
    counted
}

fn object<K: ToString, V: Into<Value> + Clone>(map: &BTreeMap<K, V>) -> Value {
    let pairs = map.iter().map(|(key, value)| (key.to_string(), value.clone().into()));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

#[test]
fn each_file_has_what_independent_readers_find() {
    let Some(manifest) = manifest() else { return };
    let files = manifest.as_object().expect("files");
    for (name, expected) in files {
        let Some(trace) = trace(name) else { continue };
        let mut trace = Trace::open(Cursor::new(trace)).expect(name);
        let counted = count(&mut trace);
        check_header(name, &trace, expected);
        assert_eq!(object(&counted.kinds), expected["kinds"], "{name}");
        assert_eq!(trace.events(), number(&expected["events"]), "{name}");
        assert_eq!(trace.buffers(), number(&expected["buffers"]), "{name}");
        assert!(counted.times.is_sorted(), "{name}");
        assert_eq!(json!(counted.times.first()), expected["first_time"], "{name}");
        assert_eq!(json!(counted.times.last()), expected["last_time"], "{name}");
        let mut processors = counted.processors;
        processors.sort_unstable();
        processors.dedup();
        assert_eq!(json!(processors), expected["processors_seen"], "{name}");
        // Its publisher cleared the pointers to users, which the other reader takes for no users:
        // it has empty names.
        let names = if name == "sawbuck_process_data_32_v2.etl" {
            json!({"0": "Idle", "4": "System", "264": "smss.exe", "1776": "notepad.exe"})
        } else {
            expected["processes"].clone()
        };
        assert_eq!(object(&counted.processes), names, "{name}");
        assert_eq!(object(&counted.images), expected["image_events_by_process"], "{name}");
        if let Some(samples) = expected.get("samples") {
            assert_eq!(object(&counted.samples), samples["by_source"], "{name}");
        }
        if let Some(switches) = expected.get("switches") {
            assert_eq!(json!(counted.switches), *switches, "{name}");
        }
        let damage: Vec<_> = trace.damage().counts().collect();
        assert_eq!(damage, [], "{name}");
    }
    assert!(!files.is_empty());
}

fn check_header(name: &str, trace: &Trace<Cursor<Vec<u8>>>, expected: &Value) {
    let header = trace.header();
    let mode = text(&expected["log_file_mode"]);
    let mode = u32::from_str_radix(mode.trim_start_matches("0x"), 16).expect("a mode");
    let found = json!({
        "pointer_size": header.pointer_size,
        "windows": format!("{}.{}.{}", header.major, header.minor, header.build),
        "processors": header.processors, "clock_type": header.clock_type,
        "clock_hz": trace.clock().frequency(), "start_filetime": header.start_time,
        "end_filetime": header.end_time, "events_lost": header.events_lost,
        "buffers_lost": header.buffers_lost, "session": header.session_name,
        "logged_as": header.file_name, "buffers_in_header": header.buffers_written,
    });
    for (field, value) in found.as_object().expect("fields") {
        assert_eq!(*value, expected[field], "{name}: {field}");
    }
    assert_eq!(header.log_file_mode, mode, "{name}");
    assert_eq!(header.is_compressed(), !expected["compression"].is_null(), "{name}");
    assert_eq!(trace.losses().events, number(&expected["events_lost"]), "{name}");
    assert_eq!(trace.losses().missing_buffers, 0, "{name}");
}

/// A driver's software tracing (WPP) writes messages between the events, also as the first of a buffer.
/// A message has its length in its first two bytes, zero in the third, and 0x90 in the fourth.
#[test]
fn a_message_is_skipped_by_its_length() {
    // A processor's first buffer begins behind that of the header, and its events behind 72 bytes.
    const FIRST: usize = 4096 + 72;
    let Some(mut bytes) = trace("artificial_pmc.etl") else { return };
    let count = |bytes: &[u8]| {
        let mut trace = Trace::open(Cursor::new(bytes.to_vec())).expect("a trace");
        let counted = count(&mut trace);
        let damage: Vec<_> = trace.damage().counts().collect();
        assert_eq!(damage, []);
        (counted.kinds.values().sum::<u64>(), counted.kinds)
    };
    let (all, kinds) = count(&bytes);
    let first = Header::parse(&bytes[FIRST..]).expect("an event");
    bytes[FIRST..FIRST + 2].copy_from_slice(&first.size.to_le_bytes());
    bytes[FIRST + 2..FIRST + 4].copy_from_slice(&[0, 0x90]);
    let (with_message, with_its_kind) = count(&bytes);
    assert_eq!(with_message, all);
    let first = first.id.to_string();
    assert_eq!(with_its_kind.get(&first).copied().unwrap_or(0) + 1, kinds[&first]);
}

/// The artificial file with its buffers in another order.
fn reordered(order: impl Fn(usize) -> usize) -> Option<Vec<u8>> {
    let bytes = trace("artificial_pmc.etl")?;
    let buffers: Vec<&[u8]> = bytes.chunks(4096).collect();
    let rest = (1..buffers.len()).map(|index| buffers[1 + order(index - 1)]);
    Some([buffers[0]].into_iter().chain(rest).flatten().copied().collect())
}

fn events_of(bytes: Vec<u8>) -> Vec<String> {
    let mut trace = Trace::open(Cursor::new(bytes)).expect("a trace");
    let mut events = Vec::new();
    while let Some(event) = trace.next_event().expect("bytes") {
        events.push(format!("{} {} {:?}", event.time, event.processor, event.kind));
    }
    assert!(trace.damage().is_empty());
    events
}

#[test]
fn the_order_of_buffers_in_the_file_does_not_matter() {
    let Some(straight) = reordered(|index| index) else { return };
    let expected = events_of(straight);
    assert_eq!(expected.len(), 1475);
    for step in [18, 7, 5] {
        let bytes = reordered(|index| index * step % 19).expect("a trace");
        assert_eq!(events_of(bytes), expected, "every {step}th");
    }
}

#[test]
fn a_lost_buffer_is_counted() {
    let Some(bytes) = trace("artificial_pmc.etl") else { return };
    let without = [&bytes[..4096 * 3], &bytes[4096 * 4..]].concat();
    let trace = Trace::open(Cursor::new(without)).expect("a trace");
    assert_eq!(trace.losses().missing_buffers, 1);
    assert_ne!(trace.losses(), Losses::default());
}

/// Numbers that were never written, where the header says that nothing was lost.
#[test]
fn an_unused_number_is_no_loss() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/");
    for name in ["etw/sequence-gap.etl", "reports/etl/j_unused_number.etl"] {
        let path = format!("{folder}{name}");
        let Ok(bytes) = std::fs::read(&path) else {
            eprintln!("skipped: no {path}");
            return;
        };
        let trace = Trace::open(Cursor::new(bytes)).expect("a trace");
        assert_eq!(trace.losses(), Losses { unused_numbers: 1, ..Losses::default() }, "{name}");
        assert!(trace.damage().is_empty(), "{name}");
    }
}

#[test]
fn clocks_and_pointer_sizes_are_the_headers() {
    let Some(bytes) = trace("artificial_pmc.etl") else { return };
    // Where the trace header has its clock: behind the buffer's and the event's header.
    let clock_at = 72 + 32 + 56 + 16 + 176 + 24;
    for (number, clock_type, hz) in [
        (0, ClockType::PerformanceCounter, 10_000_000),
        (1, ClockType::PerformanceCounter, 10_000_000),
        (2, ClockType::SystemTime, 10_000_000),
    ] {
        let mut bytes = bytes.clone();
        bytes[clock_at] = number;
        let mut trace = Trace::open(Cursor::new(bytes)).expect("a trace");
        assert_eq!(trace.clock().clock_type(), clock_type);
        assert_eq!(trace.clock().frequency(), hz);
        let event = trace.next_event().expect("bytes").expect("an event");
        assert_eq!((event.time, event.ns), (1_000_000, 0));
    }
    let mut cycles = bytes.clone();
    cycles[clock_at] = 3;
    let mhz = &mut cycles[72 + 32 + 52..];
    mhz[..4].copy_from_slice(&2808_u32.to_le_bytes());
    let trace = Trace::open(Cursor::new(cycles)).expect("a trace");
    assert_eq!(trace.clock().frequency(), 2_808_000_000);
    let mut unknown = bytes;
    unknown[clock_at] = 4;
    assert!(Trace::open(Cursor::new(unknown)).is_err());
    let Some(small) = crate::shared::trace("smallEtlFile.etl") else { return };
    assert_eq!(Trace::open(Cursor::new(small)).expect("a trace").pointer_size(), PointerSize::Four);
}

#[test]
fn other_compressions_are_refused_by_name() {
    let Some(bytes) = trace("smallEtlFile.etl") else { return };
    for (number, name) in [(2, "LZNT1"), (4, "XPRESS Huffman"), (9, "number 9")] {
        let mut bytes = bytes.clone();
        bytes[44] = number;
        let error = Trace::open(Cursor::new(bytes)).err().expect("a refusal");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn what_is_no_trace_is_refused() {
    for bytes in [&b""[..], b"HALPROF\x1A", &[0; 72], &[0xFF; 10_000]] {
        assert!(Trace::open(Cursor::new(bytes)).is_err());
    }
}

/// The files of a session, one of the kernel and one of programs, have the events of both, in the order
/// of time.
#[test]
fn files_of_one_session_are_read_as_one_trace() {
    let names = ["diaghub.kernel.1.etl", "diaghub.user_injected.1.etl"];
    let Some(files) = names.map(trace).into_iter().collect::<Option<Vec<_>>>() else { return };
    let events = |trace: Trace<Cursor<Vec<u8>>>| {
        let (mut trace, mut events, mut last) = (trace, BTreeMap::new(), i64::MIN);
        while let Some(event) = trace.next_event().expect("bytes") {
            assert!(event.time >= last, "in the order of time");
            last = event.time;
            *events.entry(format!("{:?}", event.id)).or_insert(0_u64) += 1;
        }
        events
    };
    let readers = files.iter().cloned().map(Cursor::new).collect();
    let together = events(Trace::open_all(readers).expect("a session"));
    let mut alone = BTreeMap::new();
    for file in files {
        for (id, count) in events(Trace::open(Cursor::new(file)).expect("a trace")) {
            *alone.entry(id).or_insert(0) += count;
        }
    }
    assert_eq!(together, alone);
    // Of another machine.
    let others =
        ["diaghub.kernel.1.etl", "gcevents.etl"].map(|name| Cursor::new(trace(name).expect("it")));
    assert!(Trace::open_all(others.into()).is_err());
}
