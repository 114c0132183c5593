//! Are process and image events of a trace those of a driver's clock?

use crate::windows::{FakeWindows, INTEL};
use halprof_etw::clock::ClockType;
use halprof_etw::payload::image::Image;
use halprof_etw::payload::process::Process;
use halprof_etw::payload::{Change, EventKind};
use halprof_measure::processes::{ProcessChange, ProcessEvent, ProcessEvents, ProcessSource};
use halprof_measure::tracing::analysis::TracedProcesses;
use halprof_measure::tracing::session::{Properties, Tracer};
use sim_etw::write::{self, Origin, Session};
use std::fs::File;
use std::path::Path;

const PATH: &str = r"\Device\HarddiskVolume3\short.exe";
const BASE: u64 = 0x7FF7_0000_0000;
/// A time-stamp counter that has passed 2^63: of a virtual machine whose offset is negative.
const TSC: u64 = (1 << 63) + 12_345_678_901;

fn process(change: Change) -> EventKind<'static> {
    EventKind::Process(Box::new(Process::new(change, 900, "short.exe")))
}

fn image(change: Change) -> EventKind<'static> {
    let name = PATH.to_owned();
    let process = Some(900);
    EventKind::Image(Box::new(Image {
        change,
        base: BASE,
        size: 0x8000,
        process,
        name,
        file: None,
    }))
}

/// A trace in which a process lives for 30 ticks; each event is on another processor than the last.
fn write(path: &Path, clock_type: ClockType, origin: i64) {
    let session =
        Session { processors: 2, clock_type, cpu_mhz: 2808, origin, ..Session::default() };
    let events = [
        // What was there before is none of what happened.
        process(Change::RundownStart),
        image(Change::RundownStart),
        process(Change::Start),
        image(Change::Start),
        image(Change::End),
        process(Change::End),
        process(Change::RundownEnd),
    ];
    let events = (1_u16..).zip(&events).map(|(number, event)| {
        let time = origin + 10 * i64::from(number);
        (Origin { time, processor: number % 2, ..Origin::default() }, event, &[][..])
    });
    write::trace(File::create(path).expect("a file"), session, events).expect("written");
}

/// Times of the trace are the values that the driver reads from the time-stamp counter, bit for bit.
#[test]
fn times_in_cycles_are_time_stamps() {
    use ProcessChange::{Ended, Loaded, Started, Unloaded};
    let folder = tempfile::tempdir().expect("a folder");
    let fake = FakeWindows::new(INTEL, folder.path());
    let mut source = TracedProcesses(Tracer::new(fake.clone()));
    source.start().expect("it starts");
    let machine = fake.machine();
    assert_eq!(machine.calls, ["start", "mask [10000007, 0]"], "no source, and no stacks");
    assert_eq!(machine.session.as_ref().map(|session| session.client_context), Some(3));
    drop(machine);
    let path = folder.path().join(format!("{}.etl", std::process::id()));
    write(&path, ClockType::ProcessorCycles, TSC.cast_signed());
    if let Some(session) = &mut fake.machine().session {
        session.events_lost = 5;
    }
    let stopped = source.stop().expect("it stops");
    let expected = [
        (30, Started("short.exe".to_owned())),
        (40, Loaded { path: PATH.to_owned(), start: BASE, end: BASE + 0x8000 }),
        (50, Unloaded(BASE)),
        (60, Ended),
    ];
    let expected = expected.map(|(ticks, change)| ProcessEvent {
        timestamp: TSC + ticks,
        process: 900,
        change,
    });
    let expected = ProcessEvents { events: expected.to_vec(), lost: 5, ended: None };
    assert_eq!(stopped, expected);
}

/// It may run for hours beside what is measured, and nobody looks at it meanwhile.
#[test]
fn a_session_that_ended_before_it_was_stopped_says_why() {
    type End = fn(&mut Option<Properties>);
    let ends: [(End, &str); 2] = [
        (|session| session.as_mut().expect("it runs").buffers_written = 1 << 16, "4096 MB"),
        (|session| *session = None, "another program"),
    ];
    for (end, why) in ends {
        let folder = tempfile::tempdir().expect("a folder");
        let fake = FakeWindows::new(INTEL, folder.path());
        let mut source = TracedProcesses(Tracer::new(fake.clone()));
        source.start().expect("it starts");
        let path = folder.path().join(format!("{}.etl", std::process::id()));
        write(&path, ClockType::ProcessorCycles, TSC.cast_signed());
        end(&mut fake.machine().session);
        let ProcessEvents { events, ended, .. } = source.stop().expect("it stops");
        assert_eq!(events.len(), 4, "what was written until then");
        assert!(ended.as_ref().is_some_and(|ended| ended.contains(why)), "{ended:?}");
    }
}

#[test]
fn another_clock_is_refused() {
    for clock_type in [ClockType::PerformanceCounter, ClockType::SystemTime] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut source = TracedProcesses(Tracer::new(FakeWindows::new(INTEL, folder.path())));
        source.start().expect("it starts");
        write(&folder.path().join(format!("{}.etl", std::process::id())), clock_type, 1000);
        let error = source.stop().expect_err("no time stamps");
        assert!(error.to_string().contains("cycle counter"), "{error}");
    }
}
