//! Are estimates honest: if sources take turns, does the true count lie within the stated error?

use crate::backend::Backend;
use crate::machines::{Client, on, specs, workload};
use halprof_measure::estimate::Estimate;
use halprof_measure::{Connection, ModelledMachine, Session, Setup};
use shared_types::request::counts::Count;
use sim::cpu::event::Event;
use std::fmt::Write;

scenarios![
    the_truth_lies_within_the_error_in_95_of_100_estimates,
    ten_rotations_of_a_steady_workload_are_known_within_5_percent,
    slices_add_up_to_the_time_enabled,
    running_times_of_one_source_each_slice_are_the_whole,
    an_idle_processor_counts_nothing_in_all_its_slices,
    a_group_is_always_in_one_slice,
    configure_tells_the_slices_of_the_plan,
    who_has_a_fixed_counter_alone_is_counted_exactly_beside_slices,
    a_group_takes_its_fixed_counter_with_it,
    who_samples_in_every_slice_loses_no_period,
];

/// A rotation of many sources, and what each counts.
const ROTATIONS: [(&str, &str, &[Event], u32); 5] = [
    (
        "pentium3",
        "TotalIssues,TotalCycles,BranchInstructions,BranchMispredictions,DcacheAccesses",
        &[
            Event::Instructions,
            Event::Cycles,
            Event::Branches,
            Event::BranchMisses,
            Event::L1dAccesses,
        ],
        3,
    ),
    (
        "yonah",
        "InstructionRetired,LLCMisses,LLCReference,BranchInstructionRetired",
        &[Event::Instructions, Event::LlcMisses, Event::LlcReferences, Event::Branches],
        2,
    ),
    (
        "k8",
        "TotalIssues,BranchInstructions,BranchMispredictions,DcacheMisses,DcacheAccesses,\
         IcacheIssues,IcacheMisses,FpInstructions,Cycles",
        &[
            Event::Instructions,
            Event::Branches,
            Event::BranchMisses,
            Event::L1dMisses,
            Event::L1dAccesses,
            Event::L1iFetches,
            Event::L1iMisses,
            Event::FpOperations,
            Event::Cycles,
        ],
        3,
    ),
    // Only four general counters, because each core has two threads.
    (
        "skylake",
        "LLCMisses,LLCReference,BranchInstructions,BranchMispredictions,r00C4:u,r00C5:u",
        &[
            Event::LlcMisses,
            Event::LlcReferences,
            Event::Branches,
            Event::BranchMisses,
            Event::Branches,
            Event::BranchMisses,
        ],
        2,
    ),
    (
        "zen4",
        "TotalIssues,BranchInstructions,BranchMispredictions,L1dMisses,L1dAccesses,L1iFetches,\
         L1iMisses,FpOperations,Cycles,L2Misses",
        &[
            Event::Instructions,
            Event::Branches,
            Event::BranchMisses,
            Event::L1dMisses,
            Event::L1dAccesses,
            Event::L1iFetches,
            Event::L1iMisses,
            Event::FpOperations,
            Event::Cycles,
            Event::LlcMisses,
        ],
        2,
    ),
];

/// A tenth of a modelled second.
const AMOUNTS: &str = "instructions=80000000,cycles=100000000,branches=16000000,\
    branch-misses=900000,llc-references=3000000,llc-misses=700000,l1d-accesses=30000000,\
    l1d-misses=2000000,l1i-fetches=20000000,l1i-misses=800000,fp-operations=5000000";

/// 1 ms, in units of 100 ns.
const SLICE: u32 = 10_000;

fn machine<B: Backend>(model: &str, processors: usize) -> Connection<Client<B>> {
    on(&format!("{model},processors={processors}"))
}

/// Counts a workload in slices on this many processors, of which the first works; returns the counts
/// of each, and the reported number of slices.
fn rotate_on<B: Backend>(
    processors: usize,
    model: &str,
    list: &str,
    text: &str,
) -> (Vec<Vec<Count>>, u32) {
    let mut connection = machine::<B>(model, processors);
    let setup =
        Setup { specs: specs(&mut connection, list), slice_100ns: SLICE, ..Setup::default() };
    let mut session = Session::open(&mut connection, true, false).expect("a session");
    let settled = session.configure(&setup, false).expect("a configuration");
    assert_eq!(settled.head.slice_100ns, SLICE);
    session.start().expect("a start");
    session.transport().begin(&workload(text));
    while session.transport().advance(7_000_001).expect("no fault") {}
    session.stop().expect("a stop");
    let counts = session.snapshot().expect("a snapshot");
    (counts, settled.head.slices)
}

/// The same on one processor.
fn rotate<B: Backend>(model: &str, list: &str, text: &str) -> (Vec<Count>, u32) {
    let (mut counts, slices) = rotate_on::<B>(1, model, list, text);
    (counts.remove(0), slices)
}

fn within(estimate: &Estimate, truth: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "amounts are below 2^53")]
    let miss = estimate.value.expect("a slice").abs_diff(truth.into()) as f64;
    miss <= estimate.error.expect("slices enough for a bound")
}

fn the_truth_lies_within_the_error_in_95_of_100_estimates<B: Backend>() {
    let (mut held, mut all) = (0, 0);
    for seed in 0..100 {
        let (model, list, events, slices) = ROTATIONS[seed % ROTATIONS.len()];
        let text = format!("{AMOUNTS},seed={seed}");
        let (counts, told) = rotate::<B>(model, list, &text);
        assert_eq!(told, slices, "{model}");
        for (event, count) in events.iter().zip(&counts) {
            let estimate = Estimate::new(count);
            assert!(estimate.scaled, "{model} {event:?}");
            held += u32::from(within(&estimate, workload(&text).amount(*event)));
            all += 1;
        }
    }
    println!("{held} of {all} estimates hold");
    assert!(held * 100 >= all * 95, "{held} of {all}");
}

fn ten_rotations_of_a_steady_workload_are_known_within_5_percent<B: Backend>() {
    for (model, list, events, slices) in ROTATIONS {
        let cycles = u64::from(slices) * 10 * 1_000_000;
        let mut text = format!("cycles={cycles},instructions={}", cycles / 3);
        for event in events {
            if ![Event::Cycles, Event::Instructions].contains(event) && !text.contains(event.name())
            {
                write!(text, ",{}={}", event.name(), cycles / 10).expect("memory");
            }
        }
        let (counts, _) = rotate::<B>(model, list, &text);
        for (event, count) in events.iter().zip(&counts) {
            let estimate = Estimate::new(count);
            let truth = workload(&text).amount(*event);
            let error = estimate.error.expect("a bound");
            #[expect(clippy::cast_precision_loss, reason = "amounts are below 2^53")]
            let limit = truth as f64 * 0.05;
            assert!(error < limit, "{model} {event:?}: {error} of {truth}");
            assert!(within(&estimate, truth), "{model} {event:?}");
        }
    }
}

fn slices_add_up_to_the_time_enabled<B: Backend>() {
    for (model, list, events, slices) in ROTATIONS {
        let (counts, _) = rotate_on::<B>(2, model, list, AMOUNTS);
        for counts in &counts {
            let enabled = counts[0].enabled;
            assert_eq!(enabled, 100_000_000, "{model}: all of the workload's time");
            let mut running: Vec<u64> = counts.iter().map(|count| count.running).collect();
            assert!(counts.iter().all(|count| count.enabled == enabled));
            running.sort_unstable();
            running.dedup();
            let shortest = enabled / u64::from(slices) - 1_000_000;
            assert!(running[0] >= shortest, "{model}: a source starves, {running:?}");
            assert_eq!(counts.len(), events.len());
            let whole = counts.iter().map(|count| count.running).sum::<u64>();
            assert!(whole >= enabled, "{model}: at least one source runs all the time");
        }
    }
}

/// One source per counter in each slice: the running times add up to the whole.
fn running_times_of_one_source_each_slice_are_the_whole<B: Backend>() {
    let (counts, slices) = rotate::<B>(
        "pentium3",
        "{TotalIssues,TotalCycles},{BranchInstructions,BranchMispredictions}",
        AMOUNTS,
    );
    assert_eq!(slices, 2);
    assert_eq!(counts[0].running + counts[2].running, counts[0].enabled);
}

fn an_idle_processor_counts_nothing_in_all_its_slices<B: Backend>() {
    for (model, list, _, _) in ROTATIONS {
        let (counts, _) = rotate_on::<B>(2, model, list, AMOUNTS);
        for count in &counts[1] {
            let estimate = Estimate::new(count);
            assert_eq!((estimate.counted, estimate.value), (0, Some(0)), "{model}");
            assert!(count.slices >= 30 && count.running > 0, "{model}: {count:?}");
            assert_eq!(count.enabled, counts[0][0].enabled, "{model}");
        }
    }
}

fn a_group_is_always_in_one_slice<B: Backend>() {
    for (model, list, pair) in [
        ("pentium3", "TotalCycles,{TotalIssues,BranchInstructions},DcacheMisses", [1, 2]),
        (
            "k8",
            "IcacheIssues,IcacheMisses,DcacheMisses,{TotalIssues,BranchInstructions},DcacheAccesses",
            [3, 4],
        ),
        (
            "skylake",
            "LLCMisses,LLCReference,BranchMispredictions,{r00C0,r00C4},r00C5,r412E",
            [3, 4],
        ),
    ] {
        let (counts, slices) = rotate::<B>(model, list, AMOUNTS);
        assert!(slices > 1, "{model}");
        let [first, second] = pair.map(|index| counts[index]);
        assert_eq!(first.running, second.running, "{model}");
        assert_eq!(first.slices, second.slices, "{model}");
        assert_eq!(first.time_squared, second.time_squared, "{model}");
        let mut connection = machine::<B>(model, 1);
        let setup = Setup { specs: specs(&mut connection, list), ..Setup::default() };
        let fit = connection.plan(&setup).expect("a plan");
        assert!(!fit.fits);
        let [first, second] = pair.map(|index| fit.placements[0][index].slice);
        assert_eq!(first, second, "{model}");
    }
}

fn configure_tells_the_slices_of_the_plan<B: Backend>() {
    for (model, list, _, slices) in ROTATIONS {
        let mut connection = machine::<B>(model, 1);
        let setup = Setup { specs: specs(&mut connection, list), ..Setup::default() };
        let fit = connection.plan(&setup).expect("a plan");
        let last = fit.placements[0].iter().map(|placement| placement.slice).max();
        assert_eq!(u32::from(last.expect("sources")) + 1, slices, "{model}");
    }
}

/// A source with its own fixed counter takes no room from others.
fn who_has_a_fixed_counter_alone_is_counted_exactly_beside_slices<B: Backend>() {
    let list = "FixedCycles,FixedInstructions,TotalIssues,CacheMisses,LLCReference,\
        BranchInstructions,BranchMispredictions";
    let (counts, slices) = rotate::<B>("skylake", list, AMOUNTS);
    assert_eq!(slices, 2);
    let exact: Vec<Estimate> = counts.iter().take(2).map(Estimate::new).collect();
    let values: Vec<_> = exact.iter().map(|exact| exact.value).collect();
    assert_eq!(values, [100_000_000, 80_000_000].map(Some));
    assert!(exact.iter().all(|exact| !exact.scaled));
    assert!(counts.iter().skip(2).any(|count| Estimate::new(count).scaled));
}

/// The members of a group are counted at the same time.
fn a_group_takes_its_fixed_counter_with_it<B: Backend>() {
    let list = "{FixedInstructions,r00C4:u},r00C5:u,r412E:u,r4F2E:u,r00C4:k";
    let (counts, slices) = rotate::<B>("skylake", list, AMOUNTS);
    assert_eq!(slices, 2);
    assert!(counts[0].running < counts[0].enabled);
    assert_eq!(counts[0].running, counts[1].running);
}

/// Every period is accounted for from one slice to the next.
fn who_samples_in_every_slice_loses_no_period<B: Backend>() {
    let list = "FixedInstructions:10000,r00C4,r00C5,r412E,r4F2E,r01C4";
    let mut connection = machine::<B>("skylake", 1);
    let setup =
        Setup { specs: specs(&mut connection, list), slice_100ns: SLICE, ..Setup::default() };
    let mut session = Session::open(&mut connection, true, false).expect("a session");
    let settled = session.configure(&setup, true).expect("a configuration");
    assert_eq!(settled.head.slices, 2);
    session.start().expect("a start");
    session.transport().begin(&workload(AMOUNTS));
    let mut samples = Vec::new();
    while session.transport().advance(1_000_001).expect("no fault") {
        samples.append(&mut session.drain().expect("samples").0);
    }
    session.stop().expect("a stop");
    samples.append(&mut session.drain().expect("samples").0);
    let own = samples.iter().filter(|sample| sample.source == 0);
    let left = 80_000_000 - own.map(|sample| sample.period).sum::<u64>();
    assert!(left < 10_000, "{left}");
}
