//! What is written is read again.

use halprof_etw::clock::ClockType;
use halprof_etw::payload::processor::{CounterSample, Sample, Switch};
use halprof_etw::payload::stack::{Frames, Half, Stack, StackDefinition, StackKey};
use halprof_etw::payload::{Change, counters, image, process, thread};
use halprof_etw::{EventKind, Guid, Losses, PointerSize, Trace};
use sim_etw::write::{Origin, Session, Writer};
use std::io::Cursor;

fn session(pointer_size: PointerSize, clock_type: ClockType) -> Session {
    Session {
        pointer_size,
        processors: 2,
        clock_type,
        origin: 1000,
        name: "a session".into(),
        file_name: "C:\\é𝄞.etl".into(),
        ..Session::default()
    }
}

fn addresses(pointer: PointerSize) -> Vec<u8> {
    let kernel: [u64; 2] = match pointer {
        PointerSize::Four => [0x8100_0000, 0x8100_0010],
        PointerSize::Eight => [0xFFFF_F800_0000_1000, 0xFFFF_F800_0000_2000],
    };
    let all = kernel.into_iter().chain([0x40_1000, 0x40_2000]);
    all.flat_map(|address| address.to_le_bytes().into_iter().take(pointer.bytes())).collect()
}

/// An event of each kind that can be written.
fn events(frames: Frames<'_>) -> Vec<EventKind<'_>> {
    let (process, thread) = (1000, 1004);
    let file = image::File { time_date_stamp: 7, signature_level: 12, ..image::File::default() };
    let image = |change| image::Image {
        change,
        base: 0x40_0000,
        size: 0x1000,
        process: Some(process),
        name: "\\Device\\HarddiskVolume3\\a.exe".into(),
        file: Some(file),
    };
    let a_process = |change| process::Process {
        unique_key: 0x8000_1234,
        directory_table_base: 0x1000,
        flags: 1,
        command_line: "a.exe \"b c\"".into(),
        package: "p".into(),
        ..process::Process::new(change, process, "a.exe")
    };
    let a_thread = |change, name: Option<&str>| thread::Thread {
        name: name.map(str::to_owned),
        ..thread::Thread::new(change, process, thread)
    };
    let key = |half| StackKey { event_time: 1000, process, thread, half, key: 9 };
    let interval = counters::Interval {
        source: 10,
        interval: 65536,
        old_interval: 65536,
        name: "InstructionRetired".into(),
    };
    let names = vec!["InstructionRetired".to_owned(), "CacheMisses".to_owned()];
    vec![
        EventKind::CounterNames(counters::CounterNames { names }),
        EventKind::Interval(Box::new(interval)),
        EventKind::Process(Box::new(a_process(Change::RundownStart))),
        EventKind::Process(Box::new(a_process(Change::Start))),
        EventKind::Thread(Box::new(a_thread(Change::RundownStart, None))),
        EventKind::Thread(Box::new(a_thread(Change::End, Some("worker")))),
        EventKind::Image(Box::new(image(Change::Start))),
        EventKind::Image(Box::new(image(Change::RundownEnd))),
        EventKind::Pdb(Box::new(image::Pdb {
            base: 0x40_0000,
            process,
            guid: Guid(0xec83d8df_5559_46e0_b630_133ebd979266),
            age: 2,
            name: "a.pdb".into(),
        })),
        EventKind::Sample(Sample { ip: 0x8100_0000, thread, count: 1, reserved: 0x48 }),
        EventKind::CounterSample(CounterSample { ip: 0x40_1000, thread, source: 10, reserved: 0 }),
        EventKind::Stack(Stack { event_time: 1000, process, thread, frames }),
        EventKind::StackKey(key(Half::Kernel)),
        EventKind::StackKey(key(Half::User)),
        EventKind::StackDefinition(StackDefinition { key: 9, frames }),
        EventKind::Switch(Switch {
            new_thread: thread,
            old_priority: -1,
            old_state: 5,
            new_wait_time: 3,
            ..Switch::default()
        }),
    ]
}

#[test]
fn each_event_is_read_as_it_was_written() {
    for pointer in [PointerSize::Four, PointerSize::Eight] {
        let addresses = addresses(pointer);
        let written = events(Frames::from_bytes(&addresses, pointer));
        let session = session(pointer, ClockType::ProcessorCycles);
        let mut writer = Writer::new(Cursor::new(Vec::new()), session).expect("a session");
        let values = [1, 2, u64::MAX];
        let mut expected = Vec::new();
        for (index, kind) in (0_u16..).zip(&written) {
            let time = 1000 + i64::from(index / 3);
            let processor = index / 3 % 2;
            let origin = Origin { time, processor, thread: 8, process: 4 };
            let counters = if matches!(kind, EventKind::Switch(_)) { &values[..] } else { &[] };
            writer.event(origin, kind, counters).expect("an event");
            expected.push((time, processor, counters.to_vec(), format!("{kind:?}")));
        }
        let file = writer.finish(133_000_000_000_000_001).expect("a file").into_inner();
        let mut trace = Trace::open(Cursor::new(file)).expect("a trace");
        assert_eq!(trace.header().file_name, "C:\\é𝄞.etl");
        assert_eq!(trace.header().end_time, 133_000_000_000_000_001);
        assert_eq!(trace.clock().frequency(), 3_000_000_000);
        assert_eq!(trace.pointer_size(), pointer);
        let first = trace.next_event().expect("bytes").expect("an event");
        assert!(matches!(first.kind, EventKind::TraceHeader(_)));
        let mut found = Vec::new();
        while let Some(event) = trace.next_event().expect("bytes") {
            let counters = event.counters.iter().collect();
            found.push((event.time, event.processor, counters, format!("{:?}", event.kind)));
        }
        assert_eq!(found, expected);
        assert!(trace.damage().is_empty());
        assert_eq!(trace.losses(), Losses::default());
    }
}

fn sample(thread: u32) -> EventKind<'static> {
    EventKind::Sample(Sample { ip: 0x40_1000, thread, count: 1, reserved: 0 })
}

fn at(time: i64, processor: u16) -> Origin {
    Origin { time, processor, thread: 0, process: 0 }
}

#[test]
fn what_is_lost_is_told() {
    let session = session(PointerSize::Eight, ClockType::PerformanceCounter);
    let mut writer = Writer::new(Cursor::new(Vec::new()), session).expect("a session");
    writer.event(at(1000, 0), &sample(1), &[]).expect("an event");
    writer.flush(0).expect("a buffer");
    writer.event(at(1001, 0), &sample(2), &[]).expect("an event");
    writer.lose_buffer(0);
    writer.event(at(1002, 0), &sample(3), &[]).expect("an event");
    writer.lose_event(1);
    writer.event(at(1003, 1), &sample(4), &[]).expect("an event");
    let file = writer.finish(0).expect("a file").into_inner();
    let mut trace = Trace::open(Cursor::new(file)).expect("a trace");
    let mut threads = Vec::new();
    while let Some(event) = trace.next_event().expect("bytes") {
        if let EventKind::Sample(sample) = event.kind {
            threads.push(sample.thread);
        }
    }
    assert_eq!(threads, [1, 3, 4]);
    let losses = trace.losses();
    assert_eq!((losses.events, losses.buffers, losses.missing_buffers), (1, 1, 1));
    assert_eq!((losses.buffers_after_lost_events, losses.buffers_after_lost_buffers), (1, 1));
    assert!(trace.damage().is_empty());
}

#[test]
fn what_cannot_be_written_is_refused() {
    let session = session(PointerSize::Eight, ClockType::PerformanceCounter);
    let small = Session { buffer_size: 1020, ..session.clone() };
    assert!(Writer::new(Cursor::new(Vec::new()), small).is_err());
    let mut writer = Writer::new(Cursor::new(Vec::new()), session).expect("a session");
    assert!(writer.event(at(0, 2), &sample(1), &[]).is_err(), "no such processor");
    assert!(writer.event(at(0, 0), &EventKind::Unknown, &[]).is_err());
    assert!(writer.event(at(0, 0), &sample(1), &[0; 8]).is_err());
    let names = counters::CounterNames { names: vec!["x".repeat(3000)] };
    assert!(writer.event(at(0, 0), &EventKind::CounterNames(names), &[]).is_err());
}
