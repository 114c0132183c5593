//! Fakes of Windows: which method is chosen, what is subtracted, which passages are void, and
//! threads that migrate.

use super::row;
use crate::connection::Connection;
use crate::count::Sources;
use crate::error::Result;
use crate::in_process::InProcess;
use crate::in_process::modelled;
use crate::platform::{Platform, Profile, ThreadData};
use crate::regions::sweep::sweep_on;
use crate::regions::{Discard, Method, RegionRow, Regions, Report, Thread as RegionThread};
use crate::session::SessionConnection;
use crate::transport::Transport;
use shared_types::request::RequestCode;
use std::sync::{Arc, Mutex, MutexGuard};

/// ERROR_NOT_SUPPORTED.
const NOT_SUPPORTED: u32 = 50;
const WIDTH: u32 = 48;

/// One thread, and what it has done; every reading costs some events, before and after.
#[derive(Clone, Debug, Default)]
struct State {
    counters: [u64; 16],
    ticks: u64,
    switches: u32,
    slept_ms: u64,
    cost: u64,
    refuses_counters: bool,
    refuses_all: bool,
}

#[derive(Clone, Debug, Default)]
struct FakeWindows(Arc<Mutex<State>>);

impl FakeWindows {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panicked")
    }

    /// What the code under measurement does.
    fn work(&self, instructions: u64, branches: u64) {
        let mut state = self.state();
        state.counters[0] += instructions;
        state.counters[1] += branches;
        state.ticks += instructions;
    }

    fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        let cost = self.state().cost;
        self.work(cost, 0);
        let seen = look(&self.state());
        self.work(cost, 0);
        seen
    }
}

impl Platform for FakeWindows {
    fn profile(&self, counters: u64) -> std::result::Result<Box<dyn Profile>, u32> {
        let state = self.state();
        if state.refuses_all || (state.refuses_counters && counters != 0) {
            return Err(NOT_SUPPORTED);
        }
        Ok(Box::new(Thread(self.clone())))
    }

    fn rdpmc(&self, ecx: u32) -> u64 {
        self.look(|state| state.counters[ecx as usize] & ((1 << WIDTH) - 1))
    }

    fn ticks_before(&self) -> u64 {
        self.look(|state| state.ticks)
    }

    fn ticks_after(&self) -> u64 {
        self.look(|state| state.ticks)
    }

    fn clock(&self) -> String {
        "a fake clock".to_owned()
    }

    fn slept_ms(&self) -> u64 {
        self.state().slept_ms
    }
}

struct Thread(FakeWindows);

impl Profile for Thread {
    fn read(&mut self, counters: bool) -> std::result::Result<ThreadData, u32> {
        Ok(self.0.look(|state| ThreadData {
            switches: state.switches,
            counters: if counters { state.counters } else { [0; 16] },
        }))
    }
}

/// A model, whose driver refuses RDPMC under a hypervisor.
fn driver(rdpmc: bool) -> Connection<InProcess> {
    modelled(if rdpmc { "skylake" } else { "hyperv-guest-intel" })
}

fn sources(connection: &mut Connection<InProcess>) -> Sources {
    Sources::named(connection, "TotalIssues:u,BranchInstructions:u").expect("sources")
}

/// What the passages of one thread are measured to be by this method.
fn measured(
    method: Method,
    windows: &FakeWindows,
    passages: impl FnOnce(&RegionThread<'_>),
) -> Report {
    let mut connection = driver(true);
    let sources = sources(&mut connection);
    let regions = Regions::open_on(&mut connection, &sources, Some(method), Some(windows));
    let regions = regions.expect("regions");
    let thread = regions.thread("main").expect("a thread");
    passages(&thread);
    drop(thread);
    regions.report()
}

#[test]
fn the_best_way_that_works_is_taken_or_the_one_that_is_wanted() {
    use Method::{Processors, Rdpmc, ThreadProfiling};
    for (refuses_counters, refuses_all, rdpmc, wanted, expected) in [
        (false, false, false, None, Some((ThreadProfiling, 0))),
        (true, false, true, None, Some((Rdpmc, 1))),
        (true, false, false, None, Some((Processors, 2))),
        (true, true, true, None, Some((Processors, 2))),
        (false, false, true, Some(ThreadProfiling), Some((ThreadProfiling, 0))),
        (false, false, true, Some(Rdpmc), Some((Rdpmc, 0))),
        (false, false, false, Some(Rdpmc), None),
        (false, false, true, Some(Processors), Some((Processors, 0))),
    ] {
        let mut connection = driver(rdpmc);
        let sources = sources(&mut connection);
        let windows = FakeWindows::default();
        *windows.state() = State { refuses_counters, refuses_all, ..State::default() };
        let regions = Regions::open_on(&mut connection, &sources, wanted, Some(&windows)).ok();
        let method = regions.map(|regions| (regions.method(), regions.report().rejected.len()));
        assert_eq!(method, expected, "{wanted:?}");
    }
    // A model has neither threads nor a platform.
    let mut connection = driver(true);
    let sources = sources(&mut connection);
    let by_thread = Regions::open_by(&mut connection, &sources, Some(ThreadProfiling));
    assert_eq!(by_thread.expect_err("a model").code(), "unavailable");
}

#[test]
fn what_measuring_costs_is_taken_away_nested_regions_included() {
    for method in [Method::ThreadProfiling, Method::Rdpmc] {
        let windows = FakeWindows::default();
        windows.state().cost = 7;
        let report = measured(method, &windows, |thread| {
            for _ in 0..20 {
                let _outer = thread.enter("outer").expect("entered");
                windows.work(1000, 10);
                for _ in 0..3 {
                    let _middle = thread.enter("middle").expect("entered");
                    windows.work(100, 2);
                    let _inner = thread.enter("inner").expect("entered");
                    windows.work(10, 1);
                }
            }
        });
        let of = |region: &str, source: &str| {
            let row = row(&report, region, "main", source);
            assert_eq!(row.deviation, Some(0.0), "{region} {source}");
            row.median
        };
        for source in ["TotalIssues:u", RegionRow::TICKS] {
            assert_eq!(of("inner", source), 10, "{method:?} {source}");
            assert_eq!(of("middle", source), 110, "{method:?} {source}");
            assert_eq!(of("outer", source), 1330, "{method:?} {source}");
        }
        assert_eq!(of("outer", "BranchInstructions:u"), 19);
        let empty = of(RegionRow::EMPTY, "TotalIssues:u");
        assert!(empty > 0 && of(RegionRow::EMPTY_NESTED, "TotalIssues:u") > 2 * empty);
        assert_eq!(row(&report, "inner", "main", "TotalIssues:u").overhead, empty);
    }
}

#[test]
fn rdpmc_discards_what_was_switched_and_thread_profiling_does_not() {
    for (method, discarded) in [(Method::Rdpmc, 4), (Method::ThreadProfiling, 0)] {
        let windows = FakeWindows::default();
        let report = measured(method, &windows, |thread| {
            for pass in 0..10 {
                let _work = thread.enter("work").expect("entered");
                windows.work(500, 0);
                windows.state().switches += u32::from(pass % 4 == 1 || pass == 7);
            }
        });
        let work = row(&report, "work", "main", "TotalIssues:u");
        assert_eq!((work.n, work.mode), (10 - discarded, Some(500)));
        let told = report.discarded.iter().map(|one| (one.cause, one.passages));
        let expected = (discarded != 0).then_some((Discard::Switched, discarded));
        assert_eq!(told.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_counter_that_wraps_has_lost_nothing() {
    let windows = FakeWindows::default();
    windows.state().counters[0] = (1 << WIDTH) - 250;
    let report = measured(Method::Rdpmc, &windows, |thread| {
        for _ in 0..5 {
            let _work = thread.enter("work").expect("entered");
            windows.work(100, 0);
        }
    });
    let work = row(&report, "work", "main", "TotalIssues:u");
    assert_eq!((work.n, work.min, work.mode), (5, 100, Some(100)));
}

#[test]
fn a_region_over_a_sleep_is_void_by_every_method() {
    for method in [Method::ThreadProfiling, Method::Rdpmc, Method::Processors] {
        let windows = FakeWindows::default();
        let report = measured(method, &windows, |thread| {
            for pass in 0..4 {
                let _work = thread.enter("work").expect("entered");
                windows.state().slept_ms += if pass == 2 { 5000 } else { 16 };
            }
        });
        assert_eq!(row(&report, "work", "main", "TotalIssues:u").n, 3);
        assert_eq!(report.discarded[0].cause, Discard::Suspended, "{method:?}");
        assert!(report.to_string().contains("during which the machine slept"));
    }
}

/// What a thread is counted for over one read-and-subtract, by each method; the fake knows the truth.
fn since(
    method: Method,
    windows: &FakeWindows,
    work: impl FnOnce(),
) -> (Option<Vec<u64>>, Vec<u64>) {
    let mut connection = driver(true);
    let sources = sources(&mut connection);
    let regions = Regions::open_on(&mut connection, &sources, Some(method), Some(windows));
    let mut reader = regions.expect("regions").reader().expect("a reader");
    let before = reader.read().expect("read");
    work();
    let work = reader.read().expect("read").since(&before);
    (work.map(|work| work.values().to_vec()), reader.cost.values().to_vec())
}

#[test]
fn a_thread_reads_and_subtracts_by_each_method_and_knows_what_that_costs() {
    // A reading by thread profiling looks at the counters and at the clock; one by RDPMC at two
    // counters, at the clock, and twice at the switches. Each look takes 7 instructions twice.
    for (method, looks) in [(Method::ThreadProfiling, 2), (Method::Rdpmc, 5)] {
        let windows = FakeWindows::default();
        windows.state().cost = 7;
        windows.state().counters[0] = (1 << WIDTH) - 2000;
        let (work, cost) = since(method, &windows, || windows.work(1000, 10));
        assert_eq!(cost, [looks * 2 * 7, 0], "{method:?}");
        assert_eq!(work, Some(vec![1000 + cost[0], 10]), "{method:?}");
        let switched = since(method, &windows, || windows.state().switches += 1).0;
        assert_eq!(switched.is_none(), method == Method::Rdpmc);
        let slept = since(method, &windows, || windows.state().slept_ms += 5000).0;
        assert_eq!(slept, None, "{method:?}");
    }
}

#[test]
fn whole_processors_are_not_given_for_a_thread() {
    for (refuses_all, works) in [(false, true), (true, false)] {
        let windows = FakeWindows::default();
        windows.state().refuses_all = refuses_all;
        let mut connection = driver(true);
        let held = SessionConnection::Borrowed(&mut connection);
        let regions = Regions::of_threads(held, "TotalIssues:u", Some(&windows));
        assert_eq!(regions.is_ok(), works);
        let refused = regions.err().map_or_else(String::new, |error| error.to_string());
        assert_eq!(refused.contains("thread profiling") && refused.contains("RDPMC"), !works);
    }
}

#[test]
fn a_sweep_counts_by_thread_what_can_be() {
    let mut connection = driver(true);
    let windows = FakeWindows::default();
    let mut code = |_: &mut InProcess| windows.work(9000, 300);
    let swept = sweep_on(&mut connection, "all:u", 3, Some(&windows), &mut code).expect("a sweep");
    assert_eq!(swept.anchor.as_deref(), Some("TotalIssues:u"));
    for pass in &swept.passes {
        let by_thread = pass.method == Method::ThreadProfiling;
        assert!(!by_thread || pass.sources.len() <= 3, "four counters: {pass:?}");
        assert!(!by_thread || pass.instructions == Some(9000), "{pass:?}");
    }
    let method = |source: &str| row(&swept.report, "sweep", "sweep", source).method;
    assert_eq!(method("BranchMispredictions:u"), Method::ThreadProfiling);
    assert_eq!(method("Timer:u"), Method::Processors);
    for name in Sources::named(&mut connection, "all:u").expect("sources").names() {
        assert_eq!(swept.rows().filter(|row| row.source == name).count(), 1, "{name}");
    }
}

/// A model shared by the requests and the fake.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<InProcess>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, InProcess> {
        self.0.lock().expect("nobody panicked")
    }

    /// The counters of a processor that are in Windows' list.
    fn counters(&self, processor: usize) -> [u64; 16] {
        let mut model = self.lock();
        let list = model.model().host().by_thread.clone();
        let processor = model.model().processor(processor).expect("a processor");
        let mut values = [0; 16];
        for (value, counter) in values.iter_mut().zip(list) {
            *value = processor.rdpmc(counter).expect("a counter");
        }
        values
    }
}

impl Transport for Shared {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        self.lock().request(code, input, output)
    }
}

/// A thread that moves between processors of a model; Windows accumulates its counters at each
/// switch.
#[derive(Debug)]
struct Migrant {
    model: Shared,
    thread: Arc<Mutex<Scheduled>>,
}

#[derive(Debug, Default)]
struct Scheduled {
    processor: usize,
    /// Its processor's counters at its arrival.
    came: [u64; 16],
    sums: [u64; 16],
    switches: u32,
}

impl Migrant {
    fn thread(&self) -> MutexGuard<'_, Scheduled> {
        self.thread.lock().expect("nobody panicked")
    }

    fn sums(&self) -> [u64; 16] {
        let thread = self.thread();
        let now = self.model.counters(thread.processor);
        let since = now.iter().zip(thread.came).map(|(now, came)| now.wrapping_sub(came));
        let mut sums = thread.sums;
        for (sum, since) in sums.iter_mut().zip(since) {
            *sum += since & ((1 << WIDTH) - 1);
        }
        sums
    }

    fn switch_to(&self, processor: usize) {
        let sums = self.sums();
        let came = self.model.counters(processor);
        let switches = self.thread().switches + 1;
        *self.thread() = Scheduled { processor, came, sums, switches };
    }

    /// The thread works, and then another one does, on all processors but its own.
    fn work(&self, instructions: u32) {
        let own = self.thread().processor;
        let amount = format!("instructions={instructions},cycles=10,branches=5");
        super::run(&mut self.model.lock(), &format!("{amount},processors={own}"));
        for other in (0..4).filter(|&other| other != own) {
            let noise = format!("instructions=77777,cycles=10,branches=999,processors={other}");
            super::run(&mut self.model.lock(), &noise);
        }
    }
}

impl Platform for Migrant {
    fn profile(&self, _counters: u64) -> std::result::Result<Box<dyn Profile>, u32> {
        Ok(Box::new(Self { model: self.model.clone(), thread: Arc::clone(&self.thread) }))
    }

    fn rdpmc(&self, ecx: u32) -> u64 {
        let processor = self.thread().processor;
        let mut model = self.model.lock();
        model.model().processor(processor).expect("a processor").rdpmc(ecx).expect("a counter")
    }

    fn ticks_before(&self) -> u64 {
        0
    }

    fn ticks_after(&self) -> u64 {
        0
    }

    fn clock(&self) -> String {
        "a fake clock".to_owned()
    }

    fn slept_ms(&self) -> u64 {
        0
    }
}

impl Profile for Migrant {
    fn read(&mut self, counters: bool) -> std::result::Result<ThreadData, u32> {
        let switches = self.thread().switches;
        Ok(ThreadData { switches, counters: if counters { self.sums() } else { [0; 16] } })
    }
}

/// The driver programs the counters of a model, and only the thread's own events are counted.
#[test]
fn a_thread_that_migrates_has_exactly_its_own_counts() {
    for (method, switched) in [(Method::ThreadProfiling, 0), (Method::Rdpmc, 10)] {
        let spec = crate::in_process::spec("skylake").expect("a machine");
        let model = Shared(Arc::new(Mutex::new(InProcess::new(&spec.leaves))));
        let mut connection = Connection::new(model.clone()).expect("it answers");
        let list = "TotalIssues:u,BranchInstructions:u";
        let sources = Sources::named(&mut connection, list).expect("sources");
        let windows = Migrant { model, thread: Arc::default() };
        let regions = Regions::open_on(&mut connection, &sources, Some(method), Some(&windows));
        let regions = regions.expect("regions");
        let thread = regions.thread("main").expect("a thread");
        for pass in 0..40 {
            let _outer = thread.enter("outer").expect("entered");
            windows.work(1000);
            if pass % 4 == 3 {
                windows.switch_to((pass / 4 + 1) % 4);
            }
            let _inner = thread.enter("inner").expect("entered");
            windows.work(300);
        }
        drop(thread);
        let report = regions.report();
        for (region, instructions, branches, lost) in
            [("outer", 1300, 10, switched), ("inner", 300, 5, 0)]
        {
            let found = row(&report, region, "main", "TotalIssues:u");
            assert_eq!((found.n, found.min), (40 - lost, instructions), "{method:?}");
            assert_eq!((found.mode, found.deviation), (Some(instructions), Some(0.0)));
            let found = row(&report, region, "main", "BranchInstructions:u");
            assert_eq!((found.min, found.mode), (branches, Some(branches)), "{method:?}");
        }
    }
}
