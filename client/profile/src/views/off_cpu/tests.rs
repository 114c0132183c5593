//! Are the waits of threads those that are in the trace?

use super::{By, OffCpu, WaitRow};
use halprof_etw::PointerSize;
use halprof_etw::clock::ClockType;
use halprof_etw::payload::{Change, EventKind, processor, thread};
use halprof_etw::write::{Origin, Session, Writer};
use std::fs::File;
use std::path::PathBuf;
use tempfile::TempDir;

/// A trace of two processors, whose clock ticks once a microsecond from 1000 on.
fn written(events: &[(i64, u16, EventKind<'_>)]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.etl");
    let session = Session {
        pointer_size: PointerSize::Eight,
        buffer_size: 1024,
        processors: 2,
        clock_type: ClockType::PerformanceCounter,
        perf_freq: 1_000_000,
        cpu_mhz: 3000,
        origin: 1000,
        start_time: 133_000_000_000_000_000,
        name: String::new(),
        file_name: String::new(),
    };
    let mut writer = Writer::new(File::create(&path).expect("a file"), session).expect("begun");
    for (time, processor, kind) in events {
        let origin = Origin { time: 1000 + time, processor: *processor, thread: 0, process: 0 };
        writer.event(origin, kind, &[]).expect("written");
    }
    writer.finish(1200).expect("finished");
    (folder, path)
}

/// A switch, with the state in which the old thread is left and why it waits.
const fn switch(old_thread: u32, state: i8, reason: i8, new_thread: u32) -> EventKind<'static> {
    EventKind::Switch(processor::Switch {
        new_thread,
        old_thread,
        new_priority: 8,
        old_priority: 8,
        previous_c_state: 0,
        spare: 0,
        old_wait_reason: reason,
        old_wait_mode: 0,
        old_state: state,
        old_ideal_processor: 0,
        new_wait_time: 0,
        reserved: 0,
    })
}

fn a_thread(change: Change, process: u32, thread: u32) -> EventKind<'static> {
    let details = thread::Details::Version3(thread::Details3::default());
    EventKind::Thread(Box::new(thread::Thread { change, process, thread, details, name: None }))
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn row(thread: Option<u32>, reason: &str, times: [u64; 4]) -> WaitRow {
    let [waits, waited, longest, unfinished] = times;
    WaitRow {
        id: Some(40),
        thread,
        reason: reason.to_owned(),
        waits,
        waited_ns: 1000 * waited,
        share: waited as f64 / 70.0,
        longest_ns: 1000 * longest,
        unfinished_ns: 1000 * unfinished,
        ..WaitRow::default()
    }
}

const EVENTS: [(i64, u16, EventKind<'static>); 9] = [
    (10, 0, switch(8, 5, 6, 0)),
    // Elsewhere it goes on.
    (30, 1, switch(0, 2, 0, 8)),
    (35, 1, switch(8, 1, 0, 12)),
    (36, 1, switch(12, 5, 99, 8)),
    (40, 1, switch(8, 5, 6, 0)),
    (45, 0, switch(0, 2, 0, 8)),
    (50, 0, switch(8, 4, 0, 16)),
    (60, 0, switch(16, 5, 37, 0)),
    (70, 0, switch(0, 2, 0, 0)),
];

#[test]
fn waits_are_from_one_switch_to_the_next_by_their_reason() {
    let there = [8, 12, 16].map(|thread| (1, 0, a_thread(Change::RundownStart, 40, thread)));
    let (_folder, path) = written(&[&there[..], &EVENTS].concat());
    let by_thread = OffCpu::read(&path, By::Thread).expect("waits");
    let expected = [
        row(Some(8), "UserRequest", [2, 25, 20, 0]),
        row(Some(8), "ready", [1, 1, 1, 0]),
        row(Some(12), "wait reason 99", [0, 0, 0, 34]),
        row(Some(16), "WrAlertByThreadId", [0, 0, 0, 10]),
    ];
    assert_eq!(by_thread.rows, expected);
    assert_eq!((by_thread.switches, by_thread.lost_switches), (9, 0));
    assert_eq!(by_thread.warnings, Vec::<String>::new());
    let by_process = OffCpu::read(&path, By::Process).expect("waits");
    let of_process = expected.map(|row| WaitRow { thread: None, ..row });
    assert_eq!(by_process.rows, of_process);
}

#[test]
fn after_a_lost_switch_nobody_knows_how_long_it_was() {
    let (_folder, path) = written(&[
        (10, 0, switch(8, 5, 6, 0)),
        (20, 0, switch(0, 2, 0, 8)),
        // 8 was taken off, and nobody saw it.
        (30, 0, switch(12, 5, 6, 8)),
    ]);
    let waits = OffCpu::read(&path, By::Thread).expect("waits");
    let of_8: Vec<_> = waits.rows.iter().filter(|row| row.thread == Some(8)).collect();
    assert_eq!((of_8.len(), of_8[0].waits, of_8[0].waited_ns), (1, 1, 10_000));
    assert_eq!(waits.lost_switches, 1);
    assert!(waits.warnings[0].starts_with("1 context switches were lost"), "{waits:?}");
}

#[test]
fn a_trace_without_switches_is_refused() {
    let (_folder, path) = written(&[(1, 0, a_thread(Change::RundownStart, 40, 8))]);
    let error = OffCpu::read(&path, By::Thread).expect_err("refused").to_string();
    assert!(error.contains("has no context switches"), "{error}");
}
