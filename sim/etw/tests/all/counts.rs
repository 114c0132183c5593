//! Are the counts of threads those that are in the trace, and is all time accounted for?

use fastrand::Rng;
use halprof_etw::payload::process::Process;
use halprof_etw::payload::processor::Switch;
use halprof_etw::payload::thread::Thread;
use halprof_etw::payload::{Change, EventKind, counters};
use halprof_measure::Error;
use halprof_measure::tracing::analysis::counts::{Cell, CountedThread, Query, Sums, TraceCounts};
use serde_json::{Value, json};
use sim_etw::write::{self, Origin, Session};
use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Where the vectors are, with the traces in a folder beside them.
fn vectors_path() -> PathBuf {
    let usual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/etw/vectors.json");
    std::env::var_os("HALPROF_ETW_VECTORS").map_or_else(|| usual.into(), PathBuf::from)
}

/// What an independent reader found in the trace whose switches have values.
fn expected() -> Option<(PathBuf, Value)> {
    let path = vectors_path();
    let Ok(vectors) = fs::read(&path) else {
        eprintln!("skipped: no {}", path.display());
        return None;
    };
    let vectors: Value = serde_json::from_slice(&vectors).expect("JSON");
    let file = path.with_file_name("files").join("artificial_pmc.etl");
    Some((file, vectors["artificial_file"].clone()))
}

/// The sums of each thread over the cells that pass, in the order of threads.
fn by_thread(counts: &TraceCounts, passes: impl Fn(&Cell) -> bool) -> Vec<Sums> {
    let mut sums = vec![Sums::default(); counts.threads.len()];
    for cell in counts.cells.iter().filter(|cell| passes(cell)) {
        sums[cell.thread].add(&cell.sums);
    }
    sums
}

/// The time of all threads and of nobody is all that there is.
fn assert_all_time_is_there(counts: &TraceCounts) {
    let known: u64 = counts.cells.iter().map(|cell| cell.sums.time_ns).sum();
    let all = counts.elapsed_ns * counts.processors.len() as u64;
    assert_eq!(known + counts.unknown.total_ns(), all);
}

#[test]
fn counts_are_those_of_an_independent_reader() {
    let Some((file, expected)) = expected() else { return };
    let counts = TraceCounts::read(&file, &Query::default()).expect("counts");
    assert_eq!(json!(counts.sources), expected["counters"]);
    let sums = by_thread(&counts, |_| true);
    let switches: u64 = sums.iter().map(|sums| sums.switches).sum();
    assert_eq!(switches, expected["switches"]);
    for row in expected["threads"].as_array().expect("threads") {
        let same = counts.threads.iter().enumerate().filter(|(_, one)| row["tid"] == one.thread.id);
        let instance = row["instance"].as_u64().expect("a number") as usize;
        let (number, thread) = same.into_iter().nth(instance).expect("the thread");
        let sums = &sums[number];
        assert_eq!(sums.switches, row["switches"], "{row}");
        // Its clock has ticks of 100 ns.
        assert_eq!(sums.time_ns / 100, row["ticks"], "{row}");
        assert_eq!(thread.complete, row["unknown"] == 0, "{row}");
        let found: Vec<u64> = sums.counts.iter().map(|&count| count as u64).collect();
        assert_eq!(json!(found), row["counts"], "{row}");
    }
    assert_all_time_is_there(&counts);
    assert_eq!((counts.unknown.lost_ns, counts.unknown.lost_switches), (0, 0));
}

/// Whatever the intervals and processors, their parts are the whole.
#[test]
fn parts_add_up_to_the_whole() {
    let Some((file, _)) = expected() else { return };
    let read = |query: &Query| TraceCounts::read(&file, query).expect("counts");
    let whole = by_thread(&read(&Query::default()), |_| true);
    let interval_ns = NonZeroU64::new(1_000_000);
    let sliced = read(&Query { interval_ns, ..Query::default() });
    assert!(sliced.cells.last().expect("cells").interval > 5);
    assert_eq!(by_thread(&sliced, |_| true), whole);
    let mut sums = vec![Sums::default(); whole.len()];
    for processor in 0..2 {
        let one = read(&Query { processors: vec![processor], interval_ns });
        assert!(one.cells.iter().all(|cell| u32::from(cell.processor) == processor));
        assert_all_time_is_there(&one);
        for cell in &one.cells {
            let own = &one.threads[cell.thread].thread;
            let same = |other: &CountedThread| {
                (other.thread.id, other.thread.started_ns) == (own.id, own.started_ns)
            };
            let number = sliced.threads.iter().position(same).expect("the thread");
            sums[number].add(&cell.sums);
        }
    }
    assert_eq!(sums, whole);
}

/// A trace of two processors, whose clock ticks once a microsecond from 1000 on. Events are on the
/// processor beside them.
fn written(events: &[(i64, u16, EventKind<'_>, &[u64])]) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    let session = Session {
        buffer_size: 1024,
        processors: 2,
        perf_freq: 1_000_000,
        origin: 1000,
        ..Session::default()
    };
    let events = events.iter().map(|(time, processor, kind, values)| {
        let origin = Origin { time: 1000 + time, processor: *processor, ..Origin::default() };
        (origin, kind, *values)
    });
    write::trace(file.reopen().expect("opened"), session, events).expect("written");
    file
}

fn names(names: &[&str]) -> EventKind<'static> {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    EventKind::CounterNames(counters::CounterNames { names })
}

fn switch(old_thread: u32, new_thread: u32) -> EventKind<'static> {
    EventKind::Switch(Switch { new_thread, old_thread, old_state: 5, ..Switch::default() })
}

fn a_thread(change: Change, process: u32, thread: u32) -> EventKind<'static> {
    EventKind::Thread(Box::new(Thread::new(change, process, thread)))
}

fn a_process(change: Change, process: u32, image: &str) -> EventKind<'static> {
    EventKind::Process(Box::new(Process::new(change, process, image)))
}

/// A row for each thread: process, thread, microsecond of its start, switches, microseconds, counts,
/// whether they are complete.
type Row = (String, u32, Option<u64>, u64, u64, Vec<u128>, bool);

fn rows(counts: &TraceCounts) -> Vec<Row> {
    let sums = by_thread(counts, |_| true).into_iter();
    let rows = sums.zip(&counts.threads).map(|(sums, one)| {
        let thread = &one.thread;
        let process = &counts.processes[thread.process];
        let id = process.id.map_or("?".to_owned(), |id| id.to_string());
        let process = format!("{} {id}", process.name.as_deref().unwrap_or("?"));
        let started = thread.started_ns.map(|ns| ns / 1000);
        let time = sums.time_ns / 1000;
        (process, thread.id, started, sums.switches, time, sums.counts, one.complete)
    });
    rows.collect()
}

#[test]
fn identifiers_that_are_used_again_are_other_threads_and_processes() {
    let trace = written(&[
        (0, 0, names(&["TotalCycles"]), &[]),
        (1, 0, a_process(Change::RundownStart, 40, "old.exe"), &[]),
        (2, 0, a_thread(Change::RundownStart, 40, 8), &[]),
        (10, 0, switch(0, 8), &[100]),
        (20, 0, switch(8, 0), &[150]),
        (21, 0, a_thread(Change::End, 40, 8), &[]),
        (22, 0, a_process(Change::End, 40, "old.exe"), &[]),
        (30, 0, a_process(Change::Start, 40, "new.exe"), &[]),
        // The switch to a thread can come before its start.
        (31, 0, switch(0, 8), &[160]),
        (32, 0, a_thread(Change::Start, 40, 8), &[]),
        (40, 0, switch(8, 0), &[167]),
        (41, 0, a_thread(Change::RundownEnd, 40, 8), &[]),
        (42, 0, a_process(Change::RundownEnd, 40, "new.exe"), &[]),
    ]);
    let counts = TraceCounts::read(trace.path(), &Query::default()).expect("counts");
    let expected = [
        ("old.exe 40".to_owned(), 8, None, 1, 10, vec![50], true),
        ("Idle 0".to_owned(), 0, None, 2, 11, vec![10], false),
        ("new.exe 40".to_owned(), 8, Some(32), 1, 9, vec![7], true),
    ];
    assert_eq!(rows(&counts), expected);
    // Of processor 0 until 10 and from 40 to 42, and all of processor 1.
    let unknown = counts.unknown;
    let ns = (unknown.before_first_ns, unknown.after_last_ns, unknown.lost_ns);
    assert_eq!(ns, (52_000, 2000, 0));
    assert_all_time_is_there(&counts);
}

/// Its start is lost: its end says which of the processes with that identifier it was of.
#[test]
fn a_thread_without_a_start_is_of_the_process_that_ran_when_it_ended() {
    let trace = written(&[
        (0, 0, names(&["TotalCycles"]), &[]),
        (1, 0, a_process(Change::RundownStart, 40, "old.exe"), &[]),
        (22, 0, a_process(Change::End, 40, "old.exe"), &[]),
        (30, 0, a_process(Change::Start, 40, "new.exe"), &[]),
        (31, 0, switch(0, 8), &[160]),
        (40, 0, switch(8, 0), &[167]),
        (41, 0, a_thread(Change::End, 40, 8), &[]),
    ]);
    let counts = TraceCounts::read(trace.path(), &Query::default()).expect("counts");
    let of_8 = rows(&counts).into_iter().find(|&(_, thread, ..)| thread == 8);
    assert_eq!(of_8, Some(("new.exe 40".to_owned(), 8, None, 1, 9, vec![7], true)));
}

#[test]
fn what_is_lost_belongs_to_nobody() {
    let trace = written(&[
        (0, 0, names(&["TotalCycles", "CacheMisses"]), &[]),
        (10, 0, switch(0, 5), &[100, 1]),
        (20, 0, switch(5, 6), &[150, 2]),
        // The switch from 6 to 9 is lost.
        (40, 0, switch(9, 5), &[300, 3]),
        // This one has no values.
        (50, 0, switch(5, 0), &[]),
        (60, 0, switch(0, 5), &[400, 9]),
    ]);
    let counts = TraceCounts::read(trace.path(), &Query::default()).expect("counts");
    let rows: Vec<_> = rows(&counts)
        .into_iter()
        .map(|(_, thread, _, n, us, counts, complete)| (thread, n, us, counts, complete))
        .collect();
    let expected = [
        (0, 2, 10, vec![0, 0], false),
        (5, 2, 20, vec![50, 1], false),
        (6, 0, 0, vec![0, 0], false),
        (9, 1, 0, vec![0, 0], false),
    ];
    assert_eq!(rows, expected);
    let unknown = counts.unknown;
    assert_eq!((unknown.lost_ns, unknown.lost_switches), (20_000, 1));
    assert_eq!(unknown.slices_without_counts, 2);
    assert_all_time_is_there(&counts);
}

#[test]
fn a_trace_that_cannot_say_is_refused() {
    let no_values: &[u64] = &[];
    for (events, why) in [
        (vec![(0, 0, names(&["TotalCycles"]), no_values)], "no context switches"),
        (vec![(0, 0, switch(0, 5), no_values), (1, 0, switch(5, 0), no_values)], "no values of"),
        (
            vec![(0, 0, names(&["A"]), no_values), (1, 0, names(&["B"]), no_values)],
            "counters twice, for different sources",
        ),
    ] {
        let trace = written(&events);
        let error = TraceCounts::read(trace.path(), &Query::default()).expect_err("refused");
        assert!(error.to_string().contains(why), "{error}");
        assert!(
            matches!(&error, Error::BadFile { hint, .. } if hint.to_string().contains("xperf -on"))
        );
    }
}

/// The sums of all threads by source.
fn totals(counts: &TraceCounts) -> Vec<u128> {
    let mut all = Sums::default();
    counts.cells.iter().for_each(|cell| all.add(&cell.sums));
    all.counts
}

/// The flips of bit 6 at these places that make a total ten times too large without a warning.
fn wrong_totals(path: &Path, places: impl Iterator<Item = usize>) -> Vec<usize> {
    let bytes = fs::read(path).expect("a trace");
    let right = totals(&TraceCounts::read(path, &Query::default()).expect("counts"));
    let folder = tempfile::tempdir().expect("a folder");
    let flipped = folder.path().join("flipped.etl");
    let is_wrong = |place: &usize| {
        let mut bytes = bytes.clone();
        bytes[*place] ^= 0x40;
        fs::write(&flipped, &bytes).expect("written");
        let Ok(counts) = TraceCounts::read(&flipped, &Query::default()) else { return false };
        let is_warned = !(counts.damage.is_empty() && counts.doubts.is_empty())
            || counts.lost_events + counts.lost_buffers + counts.unknown.lost_switches != 0;
        let is_large = |(total, right): (&u128, &u128)| *total >= 10 * right;
        !is_warned && totals(&counts).iter().zip(&right).any(is_large)
    };
    places.filter(is_wrong).collect()
}

/// The places of the last values of both processors, whose flips no later value contradicts.
const LAST_VALUES: [usize; 2] = [76_474, 78_426];

/// With `HALPROF_ALL_FLIPS` each place is tried, in eight minutes.
#[test]
fn no_flip_makes_a_total_far_too_large_without_a_warning() {
    let Some((file, _)) = expected() else { return };
    let length = fs::metadata(&file).expect("a trace").len() as usize;
    let mut rng = Rng::with_seed(1);
    let places: Vec<usize> = match std::env::var_os("HALPROF_ALL_FLIPS") {
        Some(_) => (72..length).collect(),
        None => (0..300).map(|_| rng.usize(72..length)).chain(LAST_VALUES).collect(),
    };
    assert_eq!(wrong_totals(&file, places.into_iter()), [0; 0]);
}
