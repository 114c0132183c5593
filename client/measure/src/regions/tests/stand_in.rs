//! A stand-in of Windows and of the driver's session by thread: what is chosen, what is taken away,
//! and which passages are void.

use super::row;
use crate::regions::{
    Discard, EMPTY, EMPTY_NESTED, Method, Platform, Profile, Regions, TICKS, ThreadData,
};
use crate::{Connection, Modelled, Result, Sources, Transport};
use shared_types::request::RequestCode;
use shared_types::request::rdpmc::{ALLOW, Rdpmc};
use shared_types::request::session::{CONFIGURE, THREADS as BY_THREAD};
use shared_types::request::threads::{THREADS, ThreadCounter, Threads};
use shared_types::{ErrorCode, ReplyHeader};
use std::mem::size_of;
use std::sync::{Arc, Mutex, MutexGuard};
use zerocopy::IntoBytes;

/// ERROR_NOT_SUPPORTED.
const NOT_SUPPORTED: u32 = 50;
const WIDTH: u32 = 48;

/// A driver that counts by thread, on a model that does not.
#[derive(Debug)]
struct Driver {
    model: Modelled,
    rdpmc: bool,
}

impl Transport for Driver {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let size = |bytes: usize| ReplyHeader::done(bytes);
        match code {
            CONFIGURE => {
                // The flags are the third number of a request.
                let mut input = input.to_vec();
                let flags = u32::from_le_bytes(input[8..12].try_into().expect("flags"));
                input[8..12].copy_from_slice(&(flags & !BY_THREAD).to_le_bytes());
                self.model.request(code, &input, output)
            }
            THREADS => {
                let counters = [0, 1].map(|counter| ThreadCounter {
                    source: 0,
                    counter,
                    rdpmc: counter,
                    width: WIDTH,
                });
                let bytes = size_of::<Threads>() + size_of_val(&counters);
                let head = Threads {
                    header: size(bytes),
                    count: 2,
                    sleeps: 0,
                    mask: 0b11,
                };
                Ok(put(
                    output,
                    &[head.as_bytes(), counters.as_bytes()].concat(),
                ))
            }
            ALLOW if self.rdpmc => {
                let header = size(size_of::<Rdpmc>());
                let reply = Rdpmc {
                    header,
                    holders: 1,
                    processors: 8,
                    on: 8,
                    found: 0,
                };
                Ok(put(output, reply.as_bytes()))
            }
            ALLOW => {
                let refused = ReplyHeader::refused(ErrorCode::Hypervisor, 0, 0);
                Ok(put(output, refused.as_bytes()))
            }
            _ => self.model.request(code, input, output),
        }
    }
}

fn put(output: &mut [u8], reply: &[u8]) -> usize {
    output[..reply.len()].copy_from_slice(reply);
    reply.len()
}

/// One thread, and what it has done; every look at it costs some events, before and behind.
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
struct StandIn(Arc<Mutex<State>>);

impl StandIn {
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

impl Platform for StandIn {
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

    fn ticks_behind(&self) -> u64 {
        self.look(|state| state.ticks)
    }

    fn clock(&self) -> String {
        "a stand-in".to_owned()
    }

    fn slept_ms(&self) -> u64 {
        self.state().slept_ms
    }
}

struct Thread(StandIn);

impl Profile for Thread {
    fn read(&mut self, counters: bool) -> std::result::Result<ThreadData, u32> {
        Ok(self.0.look(|state| ThreadData {
            switches: state.switches,
            counters: if counters { state.counters } else { [0; 16] },
        }))
    }
}

fn driver(rdpmc: bool) -> Connection<Driver> {
    let spec = crate::spec("skylake").expect("a machine");
    let model = Modelled::new(&spec.leaves);
    Connection::new(Driver { model, rdpmc }).expect("it answers")
}

fn sources(connection: &mut Connection<Driver>) -> Sources {
    Sources::named(connection, "TotalIssues:u,BranchInstructions:u").expect("sources")
}

#[test]
fn the_best_way_that_works_is_taken_and_the_others_are_told() {
    for (refuses_counters, refuses_all, rdpmc, method, rejected) in [
        (false, false, false, Method::ThreadProfiling, 0),
        (true, false, true, Method::Rdpmc, 1),
        (true, false, false, Method::Processors, 2),
        (true, true, true, Method::Processors, 2),
    ] {
        let mut connection = driver(rdpmc);
        let sources = sources(&mut connection);
        let windows = StandIn::default();
        windows.state().refuses_counters = refuses_counters;
        windows.state().refuses_all = refuses_all;
        let regions = Regions::open_on(&mut connection, &sources, None, Some(&windows));
        let regions = regions.expect("regions");
        assert_eq!(regions.method(), method);
        let report = regions.report();
        assert_eq!(report.rejected.len(), rejected, "{report}");
    }
}

#[test]
fn a_way_that_is_wanted_is_taken_or_refused() {
    for (wanted, rdpmc, works) in [
        (Method::ThreadProfiling, true, true),
        (Method::Rdpmc, true, true),
        (Method::Rdpmc, false, false),
        (Method::Processors, true, true),
    ] {
        let mut connection = driver(rdpmc);
        let sources = sources(&mut connection);
        let windows = StandIn::default();
        let regions = Regions::open_on(&mut connection, &sources, Some(wanted), Some(&windows));
        assert_eq!(
            regions
                .as_ref()
                .is_ok_and(|regions| regions.method() == wanted),
            works
        );
        assert_eq!(regions.is_err(), !works);
    }
    // A model has no threads, and no platform.
    let mut connection = driver(true);
    let sources = sources(&mut connection);
    let by_thread = Regions::open_by(&mut connection, &sources, Some(Method::ThreadProfiling));
    assert_eq!(by_thread.expect_err("a model").code(), "unavailable");
}

#[test]
fn what_measuring_costs_is_taken_away_nested_regions_included() {
    for method in [Method::ThreadProfiling, Method::Rdpmc] {
        let mut connection = driver(true);
        let sources = sources(&mut connection);
        let windows = StandIn::default();
        windows.state().cost = 7;
        let regions = Regions::open_on(&mut connection, &sources, Some(method), Some(&windows));
        let regions = regions.expect("regions");
        let thread = regions.thread("main").expect("a thread");
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
        drop(thread);
        let report = regions.report();
        let of = |region: &str, source: &str| {
            let row = row(&report, region, "main", source);
            assert_eq!(row.deviation, Some(0.0), "{region} {source}");
            row.median
        };
        for source in ["TotalIssues:u", TICKS] {
            assert_eq!(of("inner", source), 10, "{method:?} {source}");
            assert_eq!(of("middle", source), 110, "{method:?} {source}");
            assert_eq!(of("outer", source), 1330, "{method:?} {source}");
        }
        assert_eq!(of("outer", "BranchInstructions:u"), 19);
        let empty = of(EMPTY, "TotalIssues:u");
        assert!(empty > 0 && of(EMPTY_NESTED, "TotalIssues:u") > 2 * empty);
        let inner = row(&report, "inner", "main", "TotalIssues:u");
        assert_eq!(inner.overhead, empty);
    }
}

#[test]
fn rdpmc_discards_what_was_switched_and_thread_profiling_does_not() {
    for (method, discarded) in [(Method::Rdpmc, 4), (Method::ThreadProfiling, 0)] {
        let mut connection = driver(true);
        let sources = sources(&mut connection);
        let windows = StandIn::default();
        let regions = Regions::open_on(&mut connection, &sources, Some(method), Some(&windows));
        let regions = regions.expect("regions");
        let thread = regions.thread("main").expect("a thread");
        for pass in 0..10 {
            let _work = thread.enter("work").expect("entered");
            windows.work(500, 0);
            windows.state().switches += u32::from(pass % 4 == 1 || pass == 7);
        }
        drop(thread);
        let report = regions.report();
        let work = row(&report, "work", "main", "TotalIssues:u");
        assert_eq!((work.n, work.mode), (10 - discarded, Some(500)));
        let told = report.discarded.iter().map(|one| (one.cause, one.passages));
        let expected = (discarded != 0).then_some((Discard::Switched, discarded));
        assert_eq!(
            told.collect::<Vec<_>>(),
            expected.into_iter().collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_counter_that_wraps_has_lost_nothing() {
    let mut connection = driver(true);
    let sources = sources(&mut connection);
    let windows = StandIn::default();
    windows.state().counters[0] = (1 << WIDTH) - 250;
    let wanted = Some(Method::Rdpmc);
    let regions = Regions::open_on(&mut connection, &sources, wanted, Some(&windows));
    let regions = regions.expect("regions");
    let thread = regions.thread("main").expect("a thread");
    for _ in 0..5 {
        let _work = thread.enter("work").expect("entered");
        windows.work(100, 0);
    }
    drop(thread);
    let report = regions.report();
    let work = row(&report, "work", "main", "TotalIssues:u");
    assert_eq!((work.n, work.min, work.mode), (5, 100, Some(100)));
}

#[test]
fn a_region_over_a_sleep_is_void_by_every_method() {
    for method in [Method::ThreadProfiling, Method::Rdpmc, Method::Processors] {
        let mut connection = driver(true);
        let sources = sources(&mut connection);
        let windows = StandIn::default();
        let regions = Regions::open_on(&mut connection, &sources, Some(method), Some(&windows));
        let regions = regions.expect("regions");
        let thread = regions.thread("main").expect("a thread");
        for pass in 0..4 {
            let _work = thread.enter("work").expect("entered");
            windows.state().slept_ms += if pass == 2 { 5000 } else { 16 };
        }
        drop(thread);
        let report = regions.report();
        assert_eq!(row(&report, "work", "main", "TotalIssues:u").n, 3);
        assert_eq!(report.discarded[0].cause, Discard::Suspended, "{method:?}");
        assert!(
            report
                .to_string()
                .contains("during which the machine slept")
        );
    }
}
