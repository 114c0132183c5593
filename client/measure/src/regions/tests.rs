//! Regions on models are exact; method choice, overhead and discarded passages use a fake Windows.

mod fake_windows;

use super::*;
use crate::in_process::modelled;
use crate::in_process::{InProcess, ModelledMachine};
use crate::machine::Machine;

fn run(model: &mut InProcess, workload: &str) {
    model.begin(&sim::load::workload::parse(workload).expect("a workload"));
    while model.advance(1_000_000).expect("no fault") {}
}

fn row<'a>(report: &'a Report, region: &str, thread: &str, source: &str) -> &'a RegionRow {
    let mut rows = report.regions.iter();
    let found = rows.find(|row| row.name == region && row.thread == thread && row.source == source);
    found.unwrap_or_else(|| panic!("no {region} {thread} {source} in\n{report}"))
}

const SOURCES: &str = "FixedInstructions:u,TotalIssues:k,BranchInstructions:u";

#[test]
fn nested_regions_on_a_model_are_exact() {
    let mut connection = modelled("skylake");
    let sources = Sources::named(&mut connection, SOURCES).expect("sources");
    let regions = Regions::open(&mut connection, &sources).expect("regions");
    assert_eq!(regions.method(), Method::Processors);
    let thread = regions.thread("main").expect("a thread");
    for pass in 1..=10u32 {
        let outer = thread.enter("outer").expect("entered");
        regions.with_transport(|model| {
            run(model, "instructions=1000,cycles=1000,branches=10,user=80");
        });
        for _ in 0..3 {
            let _inner = thread.enter("inner").expect("entered");
            let workload = format!("instructions={},cycles=500,branches=7", 100 * pass);
            regions.with_transport(|model| run(model, &workload));
        }
        drop(outer);
    }
    drop(thread);
    let report = regions.report();
    let inner = row(&report, "inner", "main", "FixedInstructions:u");
    assert_eq!((inner.n, inner.min, inner.median), (30, 100, 550));
    assert!((inner.mean - 550.0).abs() < 1e-9);
    let outer = row(&report, "outer", "main", "FixedInstructions:u");
    assert_eq!((outer.n, outer.min, outer.culled), (10, 800 + 300, 0));
    assert!((outer.mean - (800.0 + 3.0 * 550.0)).abs() < 1e-9);
    let kernel = row(&report, "outer", "main", "TotalIssues:k");
    assert_eq!((kernel.min, kernel.mode, kernel.deviation), (200, Some(200), Some(0.0)));
    let branches = row(&report, "outer", "main", "BranchInstructions:u");
    assert_eq!((branches.min, branches.mode), (8 + 21, Some(29)));
    let empty = row(&report, RegionRow::EMPTY, "main", "FixedInstructions:u");
    assert_eq!((empty.n, empty.min), (64, 0));
    assert!(report.modelled && report.to_string().contains("not silicon"));
}

#[test]
fn threads_on_processors_of_their_own_are_exact() {
    let mut connection = modelled("skylake");
    let sources = Sources::named(&mut connection, SOURCES).expect("sources");
    let regions = Regions::open(&mut connection, &sources).expect("regions");
    std::thread::scope(|scope| {
        for processor in 0..4u32 {
            let regions = &regions;
            scope.spawn(move || {
                let name = format!("worker {processor}");
                let thread = regions.thread_on(&name, &[processor]).expect("a thread");
                let _all = thread.enter("all").expect("entered");
                for _ in 0..50 {
                    let _work = thread.enter("work").expect("entered");
                    let instructions = 1000 * (processor + 1);
                    let workload = format!(
                        "instructions={instructions},cycles=1,branches=3,processors={processor}"
                    );
                    regions.with_transport(|model| run(model, &workload));
                }
            });
        }
    });
    let report = regions.report();
    for processor in 0..4u64 {
        let name = format!("worker {processor}");
        let work = row(&report, "work", &name, "FixedInstructions:u");
        assert_eq!((work.n, work.min, work.culled), (50, 1000 * (processor + 1), 0));
        assert_eq!(work.mode, Some(work.min));
        let all = row(&report, "all", &name, "FixedInstructions:u");
        assert_eq!((all.n, all.min), (1, 50_000 * (processor + 1)));
    }
}

/// The truth is the workloads', added up by hand.
#[test]
fn what_a_thread_opens_reads_the_same_totals_until_the_last_is_dropped() {
    let open = || ThreadCounts::open(Some("zen4"), "TotalIssues:u,BranchInstructions:u");
    let run = |counts: &ThreadCounts, workload: &str| {
        counts.with_machine(|machine| machine.run(workload)).expect("a workload");
    };
    let outer = open().expect("counts");
    run(&outer, "instructions=1000,cycles=1,branches=100");
    let begin = outer.read().expect("read");
    assert_eq!(begin.values(), [1000, 100]);
    let inner = open().expect("counts");
    run(&inner, "instructions=300,cycles=1,branches=30");
    assert_eq!(inner.read().expect("read").values(), [1300, 130]);
    drop(inner);
    std::thread::scope(|scope| {
        scope.spawn(|| run(&open().expect("counts"), "instructions=50,cycles=1,branches=7"));
    });
    assert_eq!(outer.read().expect("read").since(&begin).expect("no gap").values(), [350, 37]);
    assert_eq!((outer.cost().values(), outer.read().expect("read").gaps()), (&[0, 0][..], 0));
    drop(outer);
    assert_eq!(open().expect("counts").read().expect("read").values(), [0, 0]);
}

/// Without the driver: the work of each thread is its own, and what a region costs is subtracted.
#[test]
fn regions_of_threads_that_are_traced_are_exact() {
    let traced = Machine::open(Some("skylake,backend=etw")).expect("a machine");
    let mut connection = Connection::new(traced).expect("nobody is greeted");
    let sources = Sources::named(&mut connection, "instructions,BranchInstructions");
    let regions = Regions::open(&mut connection, &sources.expect("sources")).expect("regions");
    assert_eq!(regions.method(), Method::Tracing);
    std::thread::scope(|scope| {
        for worker in 1..=3u32 {
            let regions = &regions;
            scope.spawn(move || {
                let run = |instructions: u32| {
                    let workload = format!("instructions={instructions},cycles=900,branches=7");
                    regions.with_transport(|machine| machine.run(&workload)).expect("a workload");
                };
                let thread = regions.thread(&worker.to_string()).expect("a thread");
                for _ in 0..5 {
                    let _outer = thread.enter("outer").expect("entered");
                    run(2000 * worker);
                    let _inner = thread.enter("inner").expect("entered");
                    run(100 * worker);
                }
            });
        }
    });
    let report = regions.report();
    for worker in 1..=3u32 {
        let thread = worker.to_string();
        for (region, instructions, branches) in [("outer", 2100, 14), ("inner", 100, 7)] {
            let row = |source| row(&report, region, &thread, source);
            let instructions = u64::from(instructions * worker);
            assert_eq!((row("instructions").n, row("instructions").min), (5, instructions));
            assert_eq!(row("instructions").mode, Some(instructions));
            assert_eq!(row("BranchInstructions").mode, Some(branches), "{report}");
        }
        let empty = row(&report, RegionRow::EMPTY, &thread, "instructions");
        assert_eq!((empty.n, empty.median), (16, 3000), "the kernel's work at both ends");
    }
    assert!(report.modelled && report.discarded.is_empty());
    assert!(report.to_string().contains("note: the counts include the kernel's work"), "{report}");
}

#[test]
fn counts_of_a_thread_that_is_traced_have_the_cost_of_reading_subtracted() {
    let open = || ThreadCounts::open(Some("zen4,backend=etw"), "instructions,branches");
    let counts = open().expect("counts");
    let run = |workload: &str| {
        counts.with_machine(|machine| machine.run(workload)).expect("a workload");
    };
    let begin = counts.read().expect("read");
    run("instructions=5000,cycles=1,branches=100");
    let middle = open().expect("shared").read().expect("read");
    run("instructions=70,cycles=1,branches=2");
    let end = counts.read().expect("read");
    assert_eq!(middle.since(&begin).expect("no gap").values(), [5000, 100]);
    assert_eq!(end.since(&begin).expect("no gap").values(), [5070, 102]);
    assert_eq!(
        (counts.cost().values(), counts.subtracted().values()),
        (&[0, 0][..], &[3000, 600][..])
    );
    assert!(counts.modelled() && counts.method() == Method::Tracing);
    assert_eq!(counts.spread().values(), [30, 6], "a hundredth of the median");
    let other = ThreadCounts::open(Some("zen4,backend=etw"), "instructions:u").err();
    assert!(other.expect("refused").to_string().contains("`instructions:u`"));
}

#[test]
fn counts_that_a_thread_cannot_read_are_refused_by_their_reason() {
    if cfg!(not(windows)) {
        let refused = ThreadCounts::open(Some("etw"), "TotalIssues").err().expect("refused");
        assert_eq!(refused.code(), "no-tracing");
    }
    for (machine, list, why) in [
        ("skylake", "all", "do not run at once"),
        ("hybrid", "ARITH.DIV_ACTIVE:u", "in its own way"),
    ] {
        let refused = ThreadCounts::open(Some(machine), list).err().expect("refused");
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

#[test]
fn sources_that_need_turns_are_refused_and_swept() {
    let mut connection = modelled("skylake");
    let all = Sources::named(&mut connection, "all").expect("sources");
    assert_eq!(Regions::open(&mut connection, &all).expect_err("turns").code(), "unavailable");
    let swept = sweep(&mut connection, "all:u", 5, |model| {
        run(model, "instructions=9000,cycles=6000,branches=300,branch-misses=20");
    });
    let swept = swept.expect("a sweep");
    assert_eq!(swept.anchor.as_deref(), Some("FixedInstructions:u"));
    let counters = 4;
    let others: usize = swept.passes.iter().map(|pass| pass.sources.len()).sum();
    assert!(swept.passes.len() <= others.div_ceil(counters), "{:?}", swept.passes);
    for pass in &swept.passes {
        assert_eq!((pass.instructions, pass.differs), (Some(9000), None));
    }
    let of = |source: &str| row(&swept.report, "sweep", "sweep", source).median;
    assert_eq!(of("BranchInstructions:u"), 300);
    assert_eq!(of("BranchMispredictions:u"), 20);
    assert_eq!(of("FixedInstructions:u"), 9000);
}

#[test]
fn every_model_can_be_swept() {
    for model in sim::machines::models::MODELS {
        let mut connection = modelled(model.name);
        let swept = sweep(&mut connection, "all:u", 2, |model| {
            run(model, "instructions=9000,cycles=6000");
        });
        let swept = swept.unwrap_or_else(|error| panic!("{}: {error}", model.name));
        for name in Sources::named(&mut connection, "all:u").expect("sources").names() {
            let rows = swept.rows().filter(|row| row.source == name).count();
            assert_eq!(rows, 1, "{}: {name}", model.name);
        }
        let without = swept.passes.iter().filter(|pass| pass.instructions.is_none());
        assert!(
            swept.anchor.is_none() || without.count() * 2 < swept.passes.len(),
            "{}",
            model.name
        );
    }
}

#[test]
fn passes_that_differ_are_reported() {
    let mut connection = modelled("skylake");
    let mut runs = 0;
    let swept = sweep(&mut connection, "all:u", 1, |model| {
        runs += 1;
        let instructions = if runs == 2 { 10_103 } else { 10_000 + runs };
        run(model, &format!("instructions={instructions},cycles=6000"));
    });
    let swept = swept.expect("a sweep");
    let differing: Vec<usize> =
        (0..swept.passes.len()).filter(|&pass| swept.passes[pass].differs.is_some()).collect();
    assert_eq!(differing, [1]);
    assert!(swept.to_string().contains("warning: pass 2 "), "{swept}");
}

#[test]
fn a_report_goes_through_json_and_csv() {
    let mut connection = modelled("zen4");
    let sources = Sources::named(&mut connection, "TotalIssues:u").expect("sources");
    let regions = Regions::open(&mut connection, &sources).expect("regions");
    let thread = regions.thread("a \"quoted\", thread").expect("a thread");
    drop(thread.enter("nothing").expect("entered"));
    drop(thread);
    let report = regions.report();
    let json = serde_json::to_string(&report).expect("JSON");
    assert_eq!(serde_json::from_str::<Report>(&json).expect("JSON"), report);
    let csv = report.csv().expect("CSV");
    let rows: Vec<RegionRow> = csv::Reader::from_reader(csv.as_bytes())
        .deserialize()
        .collect::<std::result::Result<_, _>>()
        .expect("CSV");
    assert_eq!(rows, report.regions);
    assert!(csv.starts_with(
        "name,thread,source,method,n,min,median,mean,mode,deviation,trimmed_mean,culled,overhead,spread\n"
    ));
}
