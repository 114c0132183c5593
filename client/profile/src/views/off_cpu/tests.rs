//! Are the waits of threads those that are in the trace?

use super::{By, EndedByRow, OffCpu, WaitRow, WakerRow};
use crate::aggregate::filter::Filter;
use crate::file::StackCounts;
use crate::file::etl::tests::{a_stack, a_thread, an_image, frames, write_trace};
use crate::symbols::SymbolPath;
use halprof_etw::payload::processor::Switch;
use halprof_etw::payload::thread::{Ready, Thread, ThreadName};
use halprof_etw::payload::{Change, EventKind};
use sim_etw::write::Session;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A trace of two processors, whose clock ticks once a microsecond from 1000 on.
fn written(events: &[(i64, u16, EventKind<'_>)]) -> (TempDir, PathBuf) {
    let session =
        Session { processors: 2, perf_freq: 1_000_000, origin: 1000, ..Session::default() };
    let events = events.iter();
    write_trace(session, events.map(|(time, processor, kind)| (1000 + time, *processor, kind)))
}

/// A switch, with the state in which the old thread is left and why it waits.
fn switch(old_thread: u32, state: i8, reason: i8, new_thread: u32) -> EventKind<'static> {
    EventKind::Switch(Switch {
        new_thread,
        old_thread,
        old_wait_reason: reason,
        old_state: state,
        ..Switch::default()
    })
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

fn events() -> [(i64, u16, EventKind<'static>); 9] {
    [
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
    ]
}

#[test]
fn a_thread_has_the_last_of_its_own_names() {
    let named = |thread, name: &str| {
        let name = ThreadName { process: 40, thread, name: name.to_owned() };
        EventKind::ThreadName(Box::new(name))
    };
    let main = Thread { name: Some("main".to_owned()), ..Thread::new(Change::RundownStart, 40, 8) };
    let (_folder, path) = written(&[
        (1, 0, EventKind::Thread(Box::new(main))),
        (1, 0, a_thread(Change::RundownStart, 40, 12)),
        (2, 0, named(12, "first")),
        (3, 0, named(12, "worker")),
        (10, 0, switch(8, 5, 6, 0)),
        (10, 1, switch(12, 5, 6, 0)),
        (20, 0, switch(0, 2, 0, 8)),
        (20, 1, switch(0, 2, 0, 12)),
        (24, 1, switch(12, 4, 0, 0)),
        (25, 1, a_thread(Change::End, 40, 12)),
        // Another thread gets the number.
        (26, 1, a_thread(Change::Start, 40, 12)),
        (30, 1, switch(0, 2, 0, 12)),
        (35, 1, switch(12, 5, 6, 0)),
        (45, 1, switch(0, 2, 0, 12)),
    ]);
    let waits = OffCpu::read(&path, By::Thread).expect("waits");
    let mut names: Vec<_> = waits
        .rows
        .iter()
        .filter(|row| row.waits != 0)
        .map(|row| (row.thread, row.started_ns, row.thread_name.as_deref()))
        .collect();
    names.sort_unstable();
    let expected = [
        (Some(8), None, Some("main")),
        (Some(12), None, Some("worker")),
        (Some(12), Some(26_000), None),
    ];
    assert_eq!(names, expected);
    let by_process = OffCpu::read(&path, By::Process).expect("waits");
    assert!(by_process.rows.iter().all(|row| row.thread_name.is_none()));
}

#[test]
fn waits_are_from_one_switch_to_the_next_by_their_reason() {
    let there = [8, 12, 16].map(|thread| (1, 0, a_thread(Change::RundownStart, 40, thread)));
    let (_folder, path) = written(&[&there[..], &events()].concat());
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
    assert_eq!(by_process.rows, expected.map(|row| WaitRow { thread: None, ..row }));
}

/// Thread 8 waits three times: thread 12, which runs elsewhere, ends one wait, a DPC two of them. Nobody
/// is known who ends that of 12.
#[test]
fn who_ended_a_wait_is_what_ran_where_the_thread_was_made_ready() {
    let there = [8, 12].map(|thread| (1, 0, a_thread(Change::RundownStart, 40, thread)));
    let ready = |thread, flags| EventKind::Ready(Ready { thread, flags, ..Ready::default() });
    let events = [
        (5, 1, switch(0, 2, 0, 12)),
        (10, 0, switch(8, 5, 6, 0)),
        (15, 1, ready(8, 0)),
        // It is ready already.
        (16, 1, ready(8, 1)),
        (20, 0, switch(0, 2, 0, 8)),
        (25, 0, switch(8, 5, 6, 0)),
        // The idle thread made it ready, and no DPC did, so who ended the wait is unknown.
        (26, 0, ready(12, 0)),
        (30, 0, ready(8, 1)),
        (35, 0, switch(0, 2, 0, 8)),
        (40, 0, switch(8, 5, 6, 0)),
        (45, 1, ready(8, 1)),
        (50, 0, switch(0, 2, 0, 8)),
        (55, 1, switch(12, 5, 6, 0)),
        (60, 1, switch(0, 2, 0, 12)),
    ];
    let (_folder, path) = written(&[&there[..], &events].concat());
    let by_thread = OffCpu::read(&path, By::Thread).expect("waits");
    assert_eq!(by_thread.wakings, 5);
    let of = |thread| by_thread.rows.iter().find(|row| row.thread == Some(thread)).expect("a row");
    let dpc = WakerRow { dpc: true, waits: 2, ..WakerRow::default() };
    let thread = WakerRow { id: Some(40), thread: Some(12), waits: 1, ..WakerRow::default() };
    assert_eq!(of(8).wakers, [dpc.clone(), thread.clone()]);
    assert_eq!(of(12).wakers, []);
    let by_process = OffCpu::read(&path, By::Process).expect("waits");
    assert_eq!(by_process.rows[0].wakers, [dpc, WakerRow { thread: None, ..thread }]);
}

const KERNEL: u64 = 0xFFFF_F800_0000_0000;
const PROGRAM: u64 = 0x40_0000;
const LIBRARY: u64 = 0x50_0000;

/// Of the thread that was put on at this time.
fn stack_of(time: u64, frames: &[u8]) -> EventKind<'_> {
    a_stack(1000 + time, 40, 8, frames)
}

/// In microseconds: each call with what was waited in its own code, and with all that it called.
#[test]
fn waits_are_where_a_thread_goes_on() {
    let (in_wait, in_ready) = (frames(&[KERNEL + 0x10, KERNEL + 0x20]), frames(&[KERNEL + 0x30]));
    let (in_library, in_program) = (frames(&[LIBRARY + 1, PROGRAM + 1]), frames(&[PROGRAM + 1]));
    let events = [
        (1, 0, an_image(Change::RundownStart, KERNEL, 4, "ntoskrnl.exe")),
        (1, 0, an_image(Change::RundownStart, PROGRAM, 40, "a.exe")),
        (1, 0, an_image(Change::RundownStart, LIBRARY, 40, "b.dll")),
        (1, 0, a_thread(Change::RundownStart, 40, 8)),
        (10, 0, switch(8, 5, 6, 0)),
        (30, 1, switch(0, 2, 0, 8)),
        (31, 1, stack_of(30, &in_wait)),
        // The user half comes when the thread returns, here on another processor.
        (33, 0, stack_of(30, &in_library)),
        (40, 1, switch(8, 1, 0, 12)),
        (45, 1, switch(12, 5, 0, 8)),
        (46, 1, stack_of(45, &in_ready)),
        (47, 1, stack_of(45, &in_program)),
        // A stack of another event than a switch.
        (48, 1, stack_of(48, &in_ready)),
        (50, 1, switch(8, 5, 6, 0)),
        // Without a stack.
        (57, 0, switch(0, 2, 0, 8)),
        (60, 0, switch(8, 5, 6, 0)),
    ];
    let (_folder, path) = written(&events);
    let symbols = SymbolPath::default();
    let report = OffCpu::call_tree(&path, Filter::default(), &symbols).expect("stacks");
    let (calls, _) = report.call_trees[0].calls();
    let calls = calls.iter().map(|call| {
        format!("{}{} {} {}", " ".repeat(call.depth as usize), call.value, call.own, call.total)
    });
    let expected = [
        "40 0 32000",
        " a.exe 0 25000",
        "  b.dll 0 20000",
        // Neighbours without names are one.
        "   ntoskrnl.exe 20000 20000",
        "  ntoskrnl.exe 5000 5000",
        " no address 7000 7000",
    ];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
    let counts = StackCounts { samples: 3, both: 2, none: 1, ..StackCounts::default() };
    assert_eq!(report.recording.stack_counts(), Some(counts));
}

/// Thread 8 is woken by thread 12 of the same process, once without a stack, and by a DPC.
#[test]
fn waits_are_by_the_function_that_ended_them() {
    let (set_event, in_program) =
        (frames(&[KERNEL + 0x10, KERNEL + 0x20]), frames(&[LIBRARY + 1, PROGRAM + 0x31]));
    let in_driver = frames(&[KERNEL + 0x10, KERNEL + 0x1_0010]);
    let ready = |flags| EventKind::Ready(Ready { thread: 8, flags, ..Ready::default() });
    let events = [
        (1, 0, an_image(Change::RundownStart, KERNEL, 4, "ntoskrnl.exe")),
        (1, 0, an_image(Change::RundownStart, KERNEL + 0x1_0000, 4, "disk.sys")),
        (1, 0, an_image(Change::RundownStart, PROGRAM, 40, "a.exe")),
        (1, 0, an_image(Change::RundownStart, LIBRARY, 40, "KERNELBASE.dll")),
        (1, 0, a_thread(Change::RundownStart, 40, 8)),
        (1, 0, a_thread(Change::RundownStart, 40, 12)),
        (5, 1, switch(0, 2, 0, 12)),
        (10, 0, switch(8, 5, 6, 0)),
        (15, 1, ready(0)),
        (16, 1, a_stack(1015, 40, 12, &set_event)),
        (20, 0, switch(0, 2, 0, 8)),
        // The waker is back in its program when the thread that it woke runs already.
        (21, 1, a_stack(1015, 40, 12, &in_program)),
        (25, 0, switch(8, 5, 6, 0)),
        (30, 0, ready(1)),
        (31, 0, a_stack(1030, 40, 0, &in_driver)),
        (35, 0, switch(0, 2, 0, 8)),
        (40, 0, switch(8, 5, 6, 0)),
        (45, 1, ready(0)),
        (52, 0, switch(0, 2, 0, 8)),
        // It does not wait: nothing ends.
        (53, 1, ready(0)),
        (54, 1, a_stack(1053, 40, 12, &set_event)),
    ];
    let (_folder, path) = written(&events);
    let waits = OffCpu::read(&path, By::Thread).expect("waits");
    let ended = |by, passes: bool| {
        let passes = |_: Option<&str>, id| passes || id != Some(40);
        waits.ended_by(&path, by, &passes, &SymbolPath::default()).expect("wakers")
    };
    let ended_by = ended(None, true);
    let brief = |row: &EndedByRow| (row.waker_thread, row.module.clone(), row.waits, row.waited_ns);
    let found: Vec<_> = ended_by.rows.iter().map(brief).collect();
    let expected = [
        (Some(12), None, 1, 12_000),
        (Some(12), Some("a.exe".to_owned()), 1, 10_000),
        (None, Some("disk.sys".to_owned()), 1, 10_000),
    ];
    assert_eq!(found.len(), 3);
    assert!(expected.iter().all(|row| found.contains(row)), "{found:?}");
    assert_eq!((ended_by.waits, ended_by.with_stack), (3, 2));
    assert!(ended_by.rows.iter().all(|row| row.thread.is_none() && row.id.is_none()));
    let by_thread = ended(Some(By::Thread), true);
    assert!(by_thread.rows.iter().all(|row| (row.thread, row.id) == (Some(8), Some(40))));
    assert_eq!(ended(None, false).rows, []);
}

#[test]
fn a_trace_that_does_not_say_who_ended_waits_is_refused() {
    let (_folder, path) = written(&events());
    let waits = OffCpu::read(&path, By::Thread).expect("waits");
    let error = waits.ended_by(&path, None, &|_, _| true, &SymbolPath::default());
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("does not say who ended the waits"), "{error}");
}

#[test]
fn a_trace_without_stacks_of_switches_is_refused() {
    let (_folder, path) = written(&events());
    let error = OffCpu::call_tree(&path, Filter::default(), &SymbolPath::default());
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("has no call stacks of context switches"), "{error}");
}

/// Threads that are killed while they wait, and that end by themselves, wait for nothing more.
#[test]
fn a_thread_that_has_ended_waits_no_more() {
    let there = [8, 12, 16].map(|thread| (1, 0, a_thread(Change::RundownStart, 40, thread)));
    let killed = (20, 1, a_thread(Change::End, 40, 8));
    let ends = (25, 0, a_thread(Change::End, 40, 12));
    let (_folder, path) = written(
        &[
            &there[..],
            &[(10, 0, switch(8, 5, 6, 12)), killed, ends],
            &[
                (30, 0, switch(12, 4, 0, 16)),
                (40, 0, switch(16, 5, 6, 0)),
                (70, 0, switch(0, 2, 0, 0)),
            ],
        ]
        .concat(),
    );
    let waits = OffCpu::read(&path, By::Thread).expect("waits");
    assert_eq!(waits.rows, [row(Some(16), "UserRequest", [0, 0, 0, 30])]);
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

/// A bit of a time that is wrong makes a wait of hours: the trace is damaged, or the sum is about right.
/// With `HALPROF_ALL_FLIPS` each place is tried.
#[test]
fn no_flip_makes_waits_far_too_long_without_a_warning() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/etw/files/artificial_pmc.etl");
    let Ok(bytes) = std::fs::read(file) else {
        eprintln!("skipped: no {file}");
        return;
    };
    let sum = |waits: &OffCpu| waits.rows.iter().map(|row| row.waited_ns).sum::<u64>();
    let right = sum(&OffCpu::read(Path::new(file), By::Thread).expect("waits"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flipped.etl");
    let step = if std::env::var_os("HALPROF_ALL_FLIPS").is_some() { 1 } else { 331 };
    let is_wrong = |place: &usize| {
        let mut bytes = bytes.clone();
        bytes[*place] ^= 0x40;
        std::fs::write(&path, bytes).expect("written");
        let waits = OffCpu::read(&path, By::Thread);
        waits.is_ok_and(|waits| {
            let is_warned = !(waits.damage.is_empty() && waits.warnings.is_empty());
            !is_warned && sum(&waits) > 10 * right
        })
    };
    let wrong: Vec<usize> = (72..bytes.len()).step_by(step).filter(is_wrong).collect();
    assert_eq!(wrong, [0; 0]);
}
