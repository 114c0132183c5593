//! Is a session made in the known order, and is everything undone?

use crate::windows::{FakeWindows, INTEL, list};
use halprof_measure::Error;
use halprof_measure::tracing::live::{Consumer, Record};
use halprof_measure::tracing::session::{
    CounterOwners, DeliverEvents, Properties, SampledSource, TIMER, TraceEnd, TraceRequest,
    TraceState, Tracer, Tracing,
};
use shared_types::ErrorCode;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn windows() -> (TempDir, FakeWindows) {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = FakeWindows::new(INTEL, folder.path());
    (folder, fake)
}

fn files(folder: &TempDir) -> usize {
    std::fs::read_dir(folder.path()).expect("a folder").count()
}

fn sampled(id: u32, interval: u32) -> SampledSource {
    SampledSource { id, interval }
}

fn cycles_and_timer() -> TraceRequest {
    TraceRequest {
        sampled: vec![sampled(19, 1_000_000), sampled(TIMER, 5000)],
        stacks: true,
        ..TraceRequest::default()
    }
}

fn counting() -> TraceRequest {
    TraceRequest { counted: vec![19, 2], ..TraceRequest::default() }
}

/// Each call in the order that others have working, and everything undone.
#[test]
fn calls_come_in_the_known_order_and_are_undone() {
    for (request, calls) in [
        (
            cycles_and_timer(),
            "start; stacks 2; interval [19, 1000000]; interval [0, 5000]; sample [19]; \
             mask [11000007, 402]; stop; interval [19, 65536]; interval [0, 10000]",
        ),
        (
            TraceRequest { methods: true, ..cycles_and_timer() },
            "start; enable e13c0d23 5 0x38 0; enable 57277741 5 0x1 0; \
             stacks 2; interval [19, 1000000]; interval [0, 5000]; sample [19]; \
             mask [11000007, 402]; enable a669021c 5 0xb8 10000; \
             stop; interval [19, 65536]; interval [0, 10000]",
        ),
        (
            TraceRequest { branches: Some(0x1), ..cycles_and_timer() },
            "start; stacks 2; interval [19, 1000000]; interval [0, 5000]; sample [19]; \
             mask [11000007, 402]; branches [1]; branch hooks [F2E, F2F]; \
             stop; interval [19, 65536]; interval [0, 10000]",
        ),
        (
            TraceRequest {
                sampled: vec![sampled(6, 65_536)],
                branches: Some(0x1FC),
                ..TraceRequest::default()
            },
            "start; interval [6, 65536]; sample [6]; mask [10000007, 400]; branches [1FC]; \
             branch hooks [F2F]; stop; interval [6, 65536]",
        ),
        (
            TraceRequest { waits: true, ..cycles_and_timer() },
            "start; stacks 4; interval [19, 1000000]; interval [0, 5000]; sample [19]; \
             mask [11000817, 606]; stop; interval [19, 65536]; interval [0, 10000]",
        ),
        (counting(), "start; count [19, 2]; hooks 1; mask [10000017, 4]; stop"),
        (
            TraceRequest { sampled: vec![sampled(26, 100_000)], stacks: true, ..counting() },
            "start; stacks 2; count [19, 2]; hooks 1; interval [26, 100000]; sample [26]; \
             mask [10000017, 404]; stop; interval [26, 65536]",
        ),
    ] {
        let (folder, fake) = windows();
        let mut tracer = Tracer::new(fake.clone());
        assert_eq!(tracer.start(&request).expect("it starts"), request.sampled);
        assert!(fake.machine().locked.len() == 1 && !fake.machine().privileged);
        assert_eq!(files(&folder), 2, "the file, and the note");
        let (file, state) = tracer.stop().expect("it stops");
        assert_eq!(state, TraceState::default());
        assert_eq!(fake.machine().calls.join("; "), calls);
        assert!(fake.machine().locked.is_empty() && !fake.machine().privileged);
        assert_eq!(files(&folder), 1, "the file");
        let copy = folder.path().join("kept.etl");
        file.copy_to(&copy).expect("copied");
        drop(file);
        assert_eq!(std::fs::read(&copy).expect("it is there"), b"a trace");
        assert_eq!(files(&folder), 1, "the copy");
    }
}

/// A recording without methods is better than none, if it says so; and a process that is about to end
/// waits for no rundown.
#[test]
fn methods_that_windows_does_not_give_are_told() {
    const TIMEOUT: u32 = 1460;
    for at_start in [true, false] {
        let (_folder, fake) = windows();
        let mut tracer = Tracer::new(fake.clone());
        if at_start {
            fake.machine().refused.insert("enable", TIMEOUT);
        }
        let request = TraceRequest { methods: true, ..cycles_and_timer() };
        tracer.start(&request).expect("it starts");
        fake.machine().refused.insert("enable", TIMEOUT);
        let (_file, state) = tracer.stop().expect("it stops");
        assert_eq!(state, TraceState { methods_missing: Some(TIMEOUT), ..TraceState::default() });
        fake.machine().refused.clear();
        tracer.start(&request).expect("it starts");
        fake.machine().calls.clear();
        drop(tracer);
        assert_eq!(fake.machine().calls[0], "stop");
    }
}

#[test]
fn whatever_windows_refuses_everything_is_undone() {
    for (step, error, code) in [
        ("folder", 0, "no-tracing"),
        ("privilege", 1300, "no-tracing"),
        ("start", 5, "no-tracing"),
        ("start", 1450, "unavailable"),
        ("stacks", 87, "unavailable"),
        ("count", 170, "counters-reserved"),
        ("count", 87, "unavailable"),
        ("hooks", 50, "unavailable"),
        ("interval", 1314, "no-tracing"),
        ("sample", 5, "no-tracing"),
        ("mask", 1, "unavailable"),
        ("branches", 50, "unavailable"),
        ("branches", 5, "no-tracing"),
        ("branch hooks", 87, "unavailable"),
    ] {
        let (folder, fake) = windows();
        fake.machine().refused.insert(step, error);
        let mut tracer = Tracer::new(fake.clone());
        let request = TraceRequest {
            counted: vec![2],
            stacks: true,
            branches: Some(0),
            ..cycles_and_timer()
        };
        let refused = tracer.start(&request).expect_err(step);
        assert_eq!(refused.code(), code, "{step}: {refused}");
        let machine = fake.machine();
        assert!(
            machine.locked.is_empty() && !machine.privileged && machine.session.is_none(),
            "{step}"
        );
        assert_eq!(machine.interval(19), 65_536, "{step}");
        assert_eq!(files(&folder), 0, "{step}");
    }
}

/// A machine without them is of use for everything else.
#[test]
fn who_wants_no_branches_is_not_refused_any() {
    for step in ["branches", "branch hooks"] {
        let (_folder, fake) = windows();
        fake.machine().refused.insert(step, 50);
        let mut tracer = Tracer::new(fake.clone());
        let branched = TraceRequest { branches: Some(0), ..cycles_and_timer() };
        let error = tracer.start(&branched).expect_err(step).to_string();
        assert!(error.contains("no branch records here") && error.contains("50"), "{error}");
        tracer.start(&cycles_and_timer()).expect("it starts");
    }
}

#[test]
fn the_owner_that_holds_the_session_is_named() {
    let (_folder, fake) = windows();
    let mut first = Tracer::new(fake.clone());
    first.start(&counting()).expect("it starts");
    let mut second = Tracer::new(fake.clone());
    let error = second.start(&counting()).expect_err("one at a time");
    let Error::Refused(refusal) = error else { panic!("{error}") };
    assert_eq!((refusal.code, refusal.subject), (ErrorCode::Busy, std::process::id()));
    assert!(fake.machine().session.is_some(), "the first goes on");
    drop(first);
    assert!(second.start(&counting()).is_ok());
}

/// An account without elevation has a folder of its own. What it does there keeps no administrator from
/// tracing; a session of its that runs does, until its owner has died.
#[test]
fn accounts_that_trace_do_not_lock_each_other_out() {
    const OTHER: u32 = 4242;
    let (folder, fake) = windows();
    let user = folder.path().join("user");
    fake.machine().locked.insert(user.clone());
    let mut tracer = Tracer::new(fake.clone());
    tracer.start(&counting()).expect("nobody traces");
    drop(tracer);
    let left = |file: &Path| {
        let properties = Properties::into_file(file, 10, 8, &counting());
        fake.machine().session = Some(properties.expect("it fits"));
        fake.machine().calls.clear();
    };
    fake.machine().running.insert(OTHER);
    left(&user.join(format!("{OTHER}.etl")));
    let error = Tracer::new(fake.clone()).start(&counting()).expect_err("it runs");
    let Error::Refused(refusal) = error else { panic!("{error}") };
    assert_eq!((refusal.code, refusal.subject), (ErrorCode::Busy, OTHER));
    assert_eq!(fake.machine().calls, [""; 0], "it goes on");
    assert_eq!(files(&folder), 0, "no note is left");
    // The number of a process is given again. Whose session is in the own folder is dead.
    for (file, runs) in [(user.join(format!("{OTHER}.etl")), false), (user.join("a.etl"), true)]
        .into_iter()
        .chain([(folder.path().join(format!("{OTHER}.etl")), true)])
    {
        if runs {
            fake.machine().running.insert(OTHER);
        } else {
            fake.machine().running.clear();
        }
        left(&file);
        let mut tracer = Tracer::new(fake.clone());
        tracer.start(&counting()).expect("the owner is dead");
        assert_eq!(fake.machine().calls[..2], ["stop", "start"], "{}", file.display());
    }
}

/// A process that was killed leaves session, intervals, note and file; its lock is free.
#[test]
fn the_next_session_undoes_what_a_killed_process_left() {
    let (folder, fake) = windows();
    let mut killed = Tracer::new(fake.clone());
    killed.start(&cycles_and_timer()).expect("it starts");
    std::mem::forget(killed);
    fake.machine().locked.clear();
    fake.machine().calls.clear();
    let mut next = Tracer::new(fake.clone());
    next.start(&counting()).expect("it starts");
    assert_eq!(
        fake.machine().calls[..4],
        ["stop", "interval [19, 65536]", "interval [0, 10000]", "start"]
    );
    drop(next);
    assert_eq!(files(&folder), 0);
    // Without a note only the session is left.
    let mut killed = Tracer::new(fake.clone());
    killed.start(&counting()).expect("it starts");
    std::mem::forget(killed);
    fake.machine().locked.clear();
    std::fs::remove_file(folder.path().join("session.json")).expect("the note");
    Tracer::new(fake.clone()).start(&counting()).expect("it starts");
    // A session of that name that is somebody else's stays.
    let mut others = Properties::named();
    others.guid[0] ^= 1;
    fake.machine().session = Some(others);
    let error = Tracer::new(fake.clone()).start(&counting()).expect_err("it is not ours");
    assert!(error.to_string().contains("183"), "{error}");
    assert!(fake.machine().session.is_some());
}

#[test]
fn an_end_is_found_whoever_made_it() {
    let (_folder, fake) = windows();
    let megabytes = 1_u64 << 20;
    fake.machine().free_bytes = 220 * megabytes + 1;
    let mut tracer = Tracer::new(fake.clone());
    for (buffers, lost, gone, end) in [
        (16, 0, false, None),
        (16, 3, false, None),
        (160, 0, false, Some(TraceEnd::Full(10 * megabytes))),
        (150, 0, true, Some(TraceEnd::Full(10 * megabytes))),
        (16, 0, true, Some(TraceEnd::Stopped)),
    ] {
        tracer.start(&counting()).expect("it starts");
        if let Some(session) = &mut fake.machine().session {
            assert_eq!(session.maximum_file_mb, 10, "half of what may be taken");
            (session.buffers_written, session.events_lost) = (buffers, lost);
        }
        let state = tracer.state().expect("it is there");
        assert_eq!((state.bytes, state.events_lost), (u64::from(buffers) << 16, lost.into()));
        if gone {
            fake.machine().session = None;
            assert_eq!(tracer.state().expect("it was there").ended, end);
        }
        let (_, state) = tracer.stop().expect("it ends");
        assert_eq!(state.ended, end, "{buffers}");
    }
}

/// Windows keeps 200 MB of its drive free. A disk that fills up meanwhile is told as one.
#[test]
fn little_free_disk_is_enough_or_is_told_as_a_full_disk() {
    let (folder, fake) = windows();
    for (free_mb, largest_mb) in [(202, Some(1)), (399, Some(99)), (201, None), (1, None)] {
        fake.machine().free_bytes = free_mb << 20;
        let mut tracer = Tracer::new(fake.clone());
        let started = tracer.start(&counting());
        let session = fake.machine().session.clone();
        assert_eq!(session.map(|session| session.maximum_file_mb), largest_mb, "{free_mb} MB");
        if let Err(error) = started {
            assert_eq!(error.code(), "file", "{error}");
        }
    }
    fake.machine().free_bytes = 1 << 40;
    fake.machine().refused.insert("start", 112);
    let error = Tracer::new(fake.clone()).start(&counting()).expect_err("it is full");
    assert_eq!(error.code(), "file", "{error}");
    assert_eq!(files(&folder), 0);
}

/// A buffer is written as a whole, however little is in it.
#[test]
fn an_idle_machine_writes_hardly_anything() {
    let (_folder, fake) = windows();
    let mut tracer = Tracer::new(fake.clone());
    tracer.start(&counting()).expect("it starts");
    fake.machine().pass(3600);
    let state = tracer.state().expect("it is there");
    assert!(state.bytes < 2 << 20, "{} bytes in an hour", state.bytes);
}

/// The numbers of sources belong to one start of Windows. The clock may be set a little meanwhile.
#[test]
fn intervals_of_another_start_of_windows_are_not_put_back() {
    for (later, restored) in [(0, true), (5, true), (300, false)] {
        let (_folder, fake) = windows();
        let mut killed = Tracer::new(fake.clone());
        killed.start(&cycles_and_timer()).expect("it starts");
        std::mem::forget(killed);
        let mut machine = fake.machine();
        machine.boot_time += later;
        machine.locked.clear();
        machine.session = None;
        machine.calls.clear();
        drop(machine);
        Tracer::new(fake.clone()).start(&counting()).expect("it starts");
        let calls = fake.machine().calls.join("; ");
        assert_eq!(calls.contains("interval [19, 65536]"), restored, "{later} s: {calls}");
    }
}

/// A token that is not elevated lacks the privilege, and neither is a policy's doing. Who has the
/// rights needs no elevation, and has files of his own.
#[test]
fn elevation_comes_before_a_policy() {
    let (folder, fake) = windows();
    for (elevated, granted, reason) in [
        (Some(false), false, Some("not elevated")),
        (Some(true), false, None),
        (None, false, None),
        (Some(false), true, None),
    ] {
        (fake.machine().elevated, fake.machine().granted) = (elevated, granted);
        let mut tracer = Tracer::new(fake.clone());
        let started = tracer.start(&counting());
        let error = started.as_ref().err().map(ToString::to_string);
        assert_eq!(error.is_some(), reason.is_some(), "{elevated:?} {granted}: {error:?}");
        if let (Some(error), Some(reason)) = (error, reason) {
            assert!(error.contains(reason), "{error}");
        } else {
            let own = folder.path().join("user").join(format!("{}.etl", std::process::id()));
            assert_eq!(own.exists(), granted, "{elevated:?} {granted}");
        }
    }
    fake.machine().elevated = Some(true);
    fake.machine().refused.insert("privilege", 1300);
    let error = Tracer::new(fake.clone()).start(&counting()).expect_err("a policy");
    assert!(error.hint().is_some_and(|hint| hint.to_string().contains("policy")), "{error}");
}

#[test]
fn what_windows_lists_is_read_with_the_intervals_in_force() {
    let (_folder, fake) = windows();
    let mut tracer = Tracer::new(fake.clone());
    assert_eq!(tracer.sources().expect("a list"), list(INTEL));
    assert_eq!(tracer.counters().expect("a number"), Some(4));
    assert_eq!(tracer.counter_owners(), CounterOwners::default(), "it does not say");
}

/// Takes nothing.
#[derive(Debug)]
struct Nobody;

impl Consumer for Nobody {
    fn record(&self, _: &Record<'_>) {}

    fn goes_on(&self) -> bool {
        true
    }

    fn ended(&self) {}
}

/// A session whose events are delivered has its consumer before its first event, and is undone as one
/// that writes a file.
#[test]
fn a_session_that_delivers_is_made_and_undone_as_one_with_a_file() {
    let (folder, fake) = windows();
    let request = TraceRequest { sampled: vec![sampled(26, 100_000)], ..counting() };
    let mut tracer = Tracer::new(fake.clone());
    let started = tracer.start_delivery(&request, Arc::new(Nobody)).expect("it starts");
    assert_eq!(started.sampled, request.sampled);
    assert!(fake.machine().session.as_ref().is_some_and(Properties::is_real_time));
    let flushed = tracer.flush_delivery().expect("flushed");
    assert!(flushed.time >= started.clock.origin() && !flushed.is_delivered);
    assert!(tracer.stop_delivery().expect("stopped").ended.is_none());
    let calls = "start; count [19, 2]; hooks 1; interval [26, 100000]; sample [26]; consume; \
                 mask [10000017, 404]; stop; interval [26, 65536]";
    assert_eq!(fake.machine().calls.join("; "), calls);
    assert_eq!((files(&folder), fake.machine().locked.len()), (0, 0));
    // A process that is killed leaves a note, by which the next one ends the session.
    let mut killed = Tracer::new(fake.clone());
    killed.start_delivery(&request, Arc::new(Nobody)).expect("it starts");
    std::mem::forget(killed);
    fake.machine().locked.clear();
    fake.machine().calls.clear();
    let mut next = Tracer::new(fake.clone());
    next.start(&counting()).expect("it starts");
    let calls = "stop; interval [26, 65536]; start; count [19, 2]; hooks 1; mask [10000017, 4]";
    assert_eq!(fake.machine().calls.join("; "), calls);
}
