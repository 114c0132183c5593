//! Are the counts of a program's regions those of what its threads did, whatever Windows does with
//! them?

use crate::windows::threads::{Habits, Loss, Threads, count_of};
use crate::windows::{FakeWindows, INTEL};
use fastrand::Rng;
use halprof_measure::regions::{
    Discard, Method, Pass, Passage, RegionRow, Regions, Report, Thread, sweep,
};
use halprof_measure::tracing::live::Live;
use halprof_measure::tracing::session::{Properties, Tracer};
use halprof_measure::{Connection, Error, Machine, Result, Sources};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Two sources of Windows' list.
const SOURCES: &str = "instructions,TotalCycles";
/// The first thread of the program.
const MAIN: u32 = 100;

/// A machine on which nobody traces, and its threads.
struct Machines {
    folder: TempDir,
    windows: FakeWindows,
    threads: Threads,
}

impl Machines {
    fn new(processors: u16, seed: u64, habits: Habits) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let windows = FakeWindows::new(INTEL, folder.path());
        let threads = Threads::new(processors, seed, habits);
        windows.machine().threads = Some(threads.clone());
        threads.choose(MAIN);
        Self { folder, windows, threads }
    }

    fn connection(&self) -> Connection<Machine> {
        let live = Live {
            tracing: Arc::new(Mutex::new(Tracer::new(self.windows.clone()))),
            scheduler: Arc::new(self.threads.clone()),
        };
        Connection::new(Machine::Traced(live)).expect("nobody is greeted")
    }

    /// The calls since the last time, but for what is undone at the end.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.windows.machine().calls)
    }
}

fn regions(connection: &mut Connection<Machine>) -> Result<Regions<'_, Machine>> {
    let sources = Sources::named(connection, SOURCES)?;
    Regions::open(connection, &sources)
}

fn row<'a>(report: &'a Report, region: &str, source: &str) -> Option<&'a RegionRow> {
    report.regions.iter().find(|row| row.name == region && row.source == source)
}

/// The count of each source in a region of one passage; empty if it was discarded.
fn counts(report: &Report, region: &str) -> Vec<u64> {
    let sources = SOURCES.split(',').filter_map(|source| row(report, region, source));
    sources.inspect(|row| assert_eq!(row.n, 1, "{region}")).map(|row| row.min).collect()
}

fn of_work(units: u64) -> Vec<u64> {
    (0..2).map(|source| count_of(source, units)).collect()
}

fn causes(report: &Report) -> Vec<(&str, Discard)> {
    report.discarded.iter().map(|one| (one.name.as_str(), one.cause)).collect()
}

const USUAL: Habits = Habits {
    preempts_one_in: 3,
    interrupts_one_in: 5,
    switch_cost: 700,
    switch_noise: 0,
    first_without_values: 0,
    never_waits: false,
};

/// A region of a random program that has begun.
struct Open {
    name: String,
    passage: Passage,
    done: u64,
}

/// A program of some threads, which take turns to begin a region, to work, and to end one. Returns how
/// many passages were counted, and how many discarded.
fn random_program(seed: u64, loses: bool) -> (usize, usize) {
    let mut rng = Rng::with_seed(seed);
    let count = rng.usize(1..4);
    let habits = Habits {
        preempts_one_in: rng.u32(0..5),
        interrupts_one_in: rng.u32(0..5),
        first_without_values: rng.u32(0..6),
        ..USUAL
    };
    let machines = Machines::new(count as u16 + rng.u16(1..6), seed, habits);
    let threads = &machines.threads;
    let mut connection = machines.connection();
    let regions = regions(&mut connection).expect("regions");
    let ids: Vec<u32> = (0..count as u32).map(|number| MAIN + 4 * number).collect();
    let begun: Vec<Thread<'_>> = ids
        .iter()
        .map(|&id| {
            threads.choose(id);
            regions.thread(&id.to_string()).expect("a thread")
        })
        .collect();
    let mut open: Vec<Vec<Open>> = (0..count).map(|_| Vec::new()).collect();
    let mut truth: BTreeMap<String, u64> = BTreeMap::new();
    for step in 0..60 {
        let number = rng.usize(..count);
        let (id, thread, own) = (ids[number], &begun[number], &mut open[number]);
        threads.choose(id);
        match rng.u32(..4) {
            0 if own.len() < 4 => {
                let name = format!("region {step}");
                let passage = thread.begin(&name).expect("it begins");
                own.push(Open { name, passage, done: threads.done(id) });
            }
            1 => {
                // Regions may overlap, too.
                if !own.is_empty() {
                    let Open { name, passage, done } = own.remove(rng.usize(..own.len()));
                    truth.insert(name, threads.done(id) - done);
                    thread.end(passage);
                }
            }
            _ => threads.work(rng.u64(1..20_000)),
        }
        if loses && rng.u32(..40) == 0 {
            let losses = [Loss::Counted, Loss::Said, Loss::Silent];
            threads.lose(losses[rng.usize(..losses.len())]);
        }
    }
    for (number, thread) in begun.into_iter().enumerate() {
        threads.choose(ids[number]);
        drop(thread);
    }
    let report = regions.report();
    assert_eq!(report.method, Method::Tracing);
    let mut counted = 0;
    for (name, units) in &truth {
        let found = counts(&report, name);
        if found.is_empty() {
            assert!(report.discarded.iter().any(|one| one.name == *name), "{seed} {name}");
            continue;
        }
        assert_eq!(found, of_work(*units), "program {seed}, {name}: {report}");
        counted += 1;
    }
    (counted, truth.len() - counted)
}

#[test]
fn the_regions_of_random_programs_are_exact() {
    let mut all = 0;
    for seed in 0..200 {
        let (counted, discarded) = random_program(seed, false);
        assert_eq!(discarded, 0, "program {seed}: nothing is lost");
        all += counted;
    }
    assert!(all > 1000, "{all} passages");
}

/// Whatever is lost, a count is right or there is none.
#[test]
fn with_losses_no_count_is_wrong() {
    let (mut counted, mut discarded) = (0, 0);
    for seed in 1000..1060 {
        let of_program = random_program(seed, true);
        counted += of_program.0;
        discarded += of_program.1;
    }
    assert!(counted > 100 && discarded > 30, "{counted} counted, {discarded} discarded");
}

#[test]
fn a_session_is_made_in_the_known_order_and_ended() {
    let machines = Machines::new(2, 1, USUAL);
    let mut connection = machines.connection();
    let regions = regions(&mut connection).expect("regions");
    let properties = machines.windows.machine().session.clone().expect("it runs");
    assert!(properties.is_real_time() && properties.log_file_name_offset == 0);
    assert_eq!(
        machines.calls().join("; "),
        "start; count [2, 19]; hooks 1; mask [10000010, 4]; consume"
    );
    assert!(!machines.windows.machine().privileged);
    drop(regions);
    assert_eq!(machines.calls(), ["stop"]);
    assert!(machines.windows.machine().locked.is_empty());
    let left = std::fs::read_dir(machines.folder.path()).expect("a folder");
    assert_eq!(left.count(), 0, "no note");
}

#[test]
fn modes_are_refused_by_name_and_other_methods_by_theirs() {
    let machines = Machines::new(2, 1, USUAL);
    let mut connection = machines.connection();
    for list in ["instructions:u", "TotalCycles,instructions:k"] {
        let refused = Sources::named(&mut connection, list).expect_err(list).to_string();
        let name = list.split(',').next_back().expect("a name");
        assert!(refused.contains(name) && refused.contains("user and kernel mode"), "{refused}");
    }
    let sources = Sources::named(&mut connection, SOURCES).expect("sources");
    for method in [Method::ThreadProfiling, Method::Rdpmc, Method::Processors] {
        let refused = Regions::open_by(&mut connection, &sources, Some(method));
        assert_eq!(refused.expect_err("no driver").code(), "unavailable");
    }
    assert!(sources.start(&mut connection).is_err(), "whole processors");
    assert_eq!(machines.calls(), [""; 0], "no session was made");
    let regions = Regions::open(&mut connection, &sources).expect("regions");
    assert_eq!(regions.totals().expect_err("whole processors").code(), "unavailable");
}

/// The error comes once, at the beginning, and not for each region.
#[test]
fn who_may_not_trace_is_told_once() {
    let machines = Machines::new(2, 1, USUAL);
    machines.windows.machine().elevated = Some(false);
    let mut connection = machines.connection();
    let refused = regions(&mut connection).expect_err("no rights");
    assert_eq!(refused.code(), "no-tracing");
    assert_eq!(machines.calls(), [""; 0]);
}

#[test]
fn a_second_process_is_told_who_measures() {
    let machines = Machines::new(2, 1, USUAL);
    let (mut first, mut second) = (machines.connection(), machines.connection());
    let running = regions(&mut first).expect("regions");
    let refused = regions(&mut second).expect_err("one at a time");
    let Error::Refused(refusal) = &refused else { panic!("{refused}") };
    assert_eq!((refused.code(), refusal.subject), ("busy", std::process::id()));
    assert!(machines.windows.machine().session.is_some(), "the first goes on");
    drop(running);
    assert!(regions(&mut second).is_ok());
}

#[test]
fn what_a_killed_process_left_is_ended() {
    let machines = Machines::new(2, 1, USUAL);
    let mut killed = machines.connection();
    std::mem::forget(regions(&mut killed).expect("regions"));
    machines.windows.machine().locked.clear();
    machines.calls();
    let mut next = machines.connection();
    drop(regions(&mut next).expect("nobody holds it"));
    assert_eq!(machines.calls()[..2], ["stop", "start"]);
    // A session without a note belongs to another account, which may be measuring.
    machines.windows.machine().session = Some(Properties::real_time(2));
    machines.calls();
    let refused = regions(&mut next).expect_err("it may be in use");
    assert_eq!(refused.code(), "unavailable");
    assert!(machines.windows.machine().session.is_some());
    assert_eq!(machines.calls(), [""; 0], "it is left alone");
}

#[test]
fn a_passage_with_losses_is_discarded_and_run_once_more() {
    for loss in [Loss::Counted, Loss::Said, Loss::Silent] {
        let cause = Discard::Lost;
        let machines = Machines::new(1, 3, Habits { preempts_one_in: 0, ..USUAL });
        let mut connection = machines.connection();
        let regions = regions(&mut connection).expect("regions");
        let thread = regions.thread("main").expect("a thread");
        let (mut runs, mut done) = (0, 0);
        thread
            .run("batch", || {
                runs += 1;
                let before = machines.threads.done(MAIN);
                machines.threads.work(50_000);
                done = machines.threads.done(MAIN) - before;
                if runs == 1 {
                    machines.threads.lose(loss);
                }
            })
            .expect("the second is counted");
        let mut always = 0;
        let refused = thread.run("lossy", || {
            always += 1;
            machines.threads.lose(loss);
        });
        assert_eq!(refused.expect_err("both are lost").code(), "unavailable");
        drop(thread);
        let report = regions.report();
        assert_eq!((runs, always), (2, 2));
        assert_eq!(counts(&report, "batch"), of_work(done));
        assert_eq!(causes(&report), [("batch", cause), ("lossy", cause)], "{loss:?}");
        assert_eq!(report.discarded[1].passages, 2);
    }
}

/// The regions of the ended thread are never counted, and what the next thread with its number does is
/// not added to them.
#[test]
fn a_thread_that_ends_in_a_region_leaves_nothing_to_the_next_of_its_number() {
    let machines = Machines::new(3, 4, USUAL);
    let threads = &machines.threads;
    let mut connection = machines.connection();
    let regions = regions(&mut connection).expect("regions");
    threads.choose(200);
    let ended = regions.thread("ended").expect("a thread");
    let _never = ended.begin("never left").expect("it begins");
    threads.work(10_000);
    threads.end_chosen();
    // Nobody else may use what belongs to it.
    std::mem::forget(ended);
    threads.choose(200);
    let next = regions.thread("next").expect("a thread");
    let done = threads.done(200);
    let passage = next.begin("own").expect("it begins");
    threads.work(3000);
    let done = threads.done(200) - done;
    next.end(passage);
    drop(next);
    let report = regions.report();
    assert_eq!(counts(&report, "own"), of_work(done));
    assert!(report.discarded.is_empty() && row(&report, "never left", "TotalCycles").is_none());
}

#[test]
fn a_session_without_regions_pauses_and_goes_on() {
    let machines = Machines::new(2, 5, USUAL);
    let threads = &machines.threads;
    let mut connection = machines.connection();
    let regions = regions(&mut connection).expect("regions");
    let thread = regions.thread("main").expect("a thread");
    let mut expected = Vec::new();
    let mut region = |name: &str, seconds: u32| {
        let passage = thread.begin(name).expect("it begins");
        let before = threads.done(MAIN);
        threads.work(8000);
        threads.pass(seconds);
        threads.work(1000);
        expected.push((name.to_owned(), threads.done(MAIN) - before));
        thread.end(passage);
    };
    let is_running = || machines.windows.machine().session.is_some();
    region("first", 0);
    threads.pass(3);
    assert!(is_running());
    region("long", 60);
    assert!(is_running(), "a region keeps it");
    drop(regions.thread("other").expect("what has ended is settled"));
    threads.pass(6);
    assert!(!is_running() && machines.windows.machine().locked.is_empty());
    machines.calls();
    region("later", 0);
    assert_eq!(machines.calls()[0], "start");
    drop(thread);
    let report = regions.report();
    for (name, units) in expected {
        assert_eq!(counts(&report, &name), of_work(units), "{name}: {report}");
    }
}

#[test]
fn a_session_that_another_program_stops_is_started_again() {
    let machines = Machines::new(2, 6, USUAL);
    let mut connection = machines.connection();
    let regions = regions(&mut connection).expect("regions");
    let thread = regions.thread("main").expect("a thread");
    let mut runs = 0;
    thread
        .run("batch", || {
            runs += 1;
            machines.threads.work(100);
            if runs == 1 {
                machines.windows.machine().session = None;
                machines.threads.stop();
            }
        })
        .expect("the second is counted");
    assert_eq!(runs, 2);
}

/// Windows tells the end of a session on another thread, at any time later.
#[test]
fn the_end_of_an_earlier_session_stops_no_later_one() {
    let machines = Machines::new(2, 6, USUAL);
    let threads = &machines.threads;
    let mut connection = machines.connection();
    let regions = regions(&mut connection).expect("regions");
    let thread = regions.thread("main").expect("a thread");
    let earlier = threads.consumer().expect("a session runs");
    threads.pass(6);
    let is_running = || machines.windows.machine().session.is_some();
    assert!(!is_running());
    let passage = thread.begin("own").expect("it begins");
    let before = threads.done(MAIN);
    threads.work(1000);
    earlier.ended();
    assert!(is_running());
    threads.work(1000);
    let units = threads.done(MAIN) - before;
    thread.end(passage);
    drop(thread);
    assert_eq!(counts(&regions.report(), "own"), of_work(units));
    threads.consumer().expect("it runs").ended();
    assert!(!is_running(), "its own end stops it");
}

/// What has ended inside a long region does not wait for the end of the region.
#[test]
fn passages_in_a_region_are_settled_before_they_fill_memory() {
    const INNER: u64 = 20_000;
    let machines = Machines::new(2, 6, USUAL);
    let mut connection = machines.connection();
    let regions = regions(&mut connection).expect("regions");
    let thread = regions.thread("main").expect("a thread");
    let outer = thread.enter("outer").expect("entered");
    let before = machines.windows.machine().flushes;
    for _ in 0..INNER {
        let _inner = thread.enter("inner").expect("entered");
        machines.threads.work(1);
    }
    assert!(machines.windows.machine().flushes > before);
    drop(outer);
    drop(thread);
    let report = regions.report();
    let inner = row(&report, "inner", "TotalCycles").expect("a row");
    assert_eq!(inner.n, INNER, "{report}");
}

#[test]
fn a_sweep_counts_every_source_with_instructions_in_each_pass() {
    const UNITS: u64 = 1_000_000;
    let machines = Machines::new(2, 6, Habits { switch_cost: 10, ..USUAL });
    let threads = machines.threads.clone();
    let mut connection = machines.connection();
    let list = "CacheMisses,BranchMispredictions,{LLCReference,LLCMisses},instructions,TotalCycles";
    let swept = sweep(&mut connection, list, 3, |_| threads.work(UNITS)).expect("it is counted");
    assert_eq!(swept.anchor.as_deref(), Some("instructions"));
    let mut sources: Vec<&str> = Vec::new();
    for pass in &swept.passes {
        assert!((1..=3).contains(&pass.sources.len()) && pass.differs.is_none(), "{swept}");
        let instructions = pass.instructions.expect("beside the others");
        assert!(instructions.abs_diff(count_of(0, UNITS)) < count_of(0, UNITS) / 100, "{swept}");
        sources.extend(pass.sources.iter().map(String::as_str));
    }
    let together = |pass: &Pass| pass.sources.iter().any(|name| name == "LLCReference");
    let group = swept.passes.iter().find(|pass| together(pass)).expect("a pass");
    assert!(group.sources.iter().any(|name| name == "LLCMisses"), "{swept}");
    sources.sort_unstable();
    let all = ["BranchMispredictions", "CacheMisses", "LLCMisses", "LLCReference", "TotalCycles"];
    assert_eq!(sources, all);
    for source in all.into_iter().chain(["instructions"]) {
        let mut rows = swept.rows().filter(|row| row.source == source);
        assert!(rows.next().is_some_and(|row| row.n == 3) && rows.next().is_none(), "{swept}");
    }
}

#[test]
fn a_session_whose_switches_say_nothing_is_refused() {
    for habits in
        [Habits { never_waits: true, ..USUAL }, Habits { first_without_values: u32::MAX, ..USUAL }]
    {
        let machines = Machines::new(2, 7, habits);
        let mut connection = machines.connection();
        let refused = regions(&mut connection).expect_err("no counts");
        assert!(refused.to_string().contains("without counts"), "{refused}");
        assert!(machines.windows.machine().session.is_none());
    }
}

/// What the kernel does at either end varies: the spread says by how much.
#[test]
fn counts_below_twenty_spreads_have_a_warning() {
    let machines = Machines::new(2, 8, Habits { switch_noise: 400, ..USUAL });
    let mut connection = machines.connection();
    let regions = regions(&mut connection).expect("regions");
    let thread = regions.thread("main").expect("a thread");
    for (name, units) in [("short", 1000), ("long", 1_000_000)] {
        let passage = thread.begin(name).expect("it begins");
        machines.threads.work(units);
        thread.end(passage);
    }
    drop(thread);
    let report = regions.report();
    let empty = row(&report, RegionRow::EMPTY, "instructions").expect("a row");
    assert_eq!(empty.n, 16);
    let long = row(&report, "long", "instructions").expect("a row");
    assert_eq!(long.overhead, empty.median);
    assert!((1400..2200).contains(&empty.median) && (20..800).contains(&long.spread), "{report}");
    let warned: Vec<bool> = ["short", "long"]
        .map(|name| report.warnings.iter().any(|warning| warning.starts_with(name)))
        .to_vec();
    assert_eq!(warned, [true, false], "{report}");
    assert!(report.to_string().contains("warning: short (main)"), "{report}");
}
