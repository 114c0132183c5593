//! Are rates the events per time that passed?

use super::*;
use crate::count::Sources;
use crate::in_process::ModelledMachine;
use crate::in_process::modelled;
use sim::load::workload;

const FREQUENCY: u64 = 2_000_000_000;

fn count(counted: u64, enabled: u64, running: u64) -> Count {
    Count { counted, enabled, running, ..Count::default() }
}

fn exact(per_second: f64) -> Rate {
    Rate { per_second, scaled: false, error: None }
}

#[test]
fn a_rate_is_the_difference_over_the_time_enabled() {
    let mut rates = Rates::new(FREQUENCY);
    let first = rates.take(vec![vec![count(1000, 1_000_000, 1_000_000)]]);
    assert_eq!(first.rate(0, 0), Some(exact(2_000_000.0)));
    // Twice as late as it should be: the same rate over twice the time.
    let second = rates.take(vec![vec![count(4000, 4_000_000, 4_000_000)]]);
    assert_eq!(second.rate(0, 0), Some(exact(2_000_000.0)));
    assert_eq!(second.counts()[0][0].counted, 3000);
    assert_eq!(rates.totals()[0][0].counted, 4000);
}

#[test]
fn counts_beyond_53_bits_keep_their_difference() {
    let mut rates = Rates::new(FREQUENCY);
    let large = 1 << 62;
    rates.take(vec![vec![count(large, large, large)]]);
    let interval = rates.take(vec![vec![count(large + 1, large + 2, large + 2)]]);
    assert_eq!(interval.rate(0, 0), Some(exact(1_000_000_000.0)));
}

#[test]
fn processors_are_added_up_by_their_own_times() {
    let mut rates = Rates::new(FREQUENCY);
    rates.take(vec![vec![count(0, 0, 0)]]);
    // One was enabled for half the time, another came later, and a third is not in the session.
    let interval = rates.take(vec![
        vec![count(100, 200, 200)],
        vec![count(100, 100, 100)],
        vec![count(0, 0, 0)],
    ]);
    assert_eq!(interval.sum(0), Some(exact(3_000_000_000.0)));
    assert_eq!(interval.rate(1, 0), Some(exact(2_000_000_000.0)));
    assert_eq!(interval.rate(2, 0), None);
}

/// Two types of core are two machines: what each does is a rate of its own.
#[test]
fn some_processors_are_added_up_without_the_others() {
    let mut rates = Rates::new(FREQUENCY);
    let interval = rates.take(vec![
        vec![count(100, 200, 200)],
        vec![count(100, 100, 100)],
        vec![count(0, 100, 0)],
    ]);
    for (processors, rate, scaled) in [
        (&[0, 1][..], Some(3e9), false),
        (&[1], Some(2e9), false),
        // The third had no slice on a counter: it is taken to be like the second.
        (&[1, 2], Some(4e9), true),
        (&[2], None, false),
        (&[], None, false),
    ] {
        assert_eq!(interval.sum_on(processors, 0), rate.map(|rate| Rate { scaled, ..exact(rate) }));
    }
}

#[test]
fn what_was_on_no_counter_has_no_rate() {
    let mut rates = Rates::new(FREQUENCY);
    rates.take(vec![vec![count(10, 100, 50)]]);
    let interval = rates.take(vec![vec![count(10, 200, 50)]]);
    assert_eq!((interval.rate(0, 0), interval.sum(0)), (None, None));
    assert_eq!((interval.rate(0, 1), interval.rate(1, 0)), (None, None));
    assert_eq!(interval.sum(1), None);
}

#[test]
fn the_bound_of_a_rate_is_that_of_its_events_per_second() {
    // Ten events in one slice and twenty in the other, each of a quarter of the time.
    let estimated = Count {
        slices: 2,
        count_squared: [500, 0],
        count_by_time: [3000, 0],
        time_squared: [20_000, 0],
        ..count(30, 400, 200)
    };
    let events = Estimate::new(&estimated).error.expect("a bound");
    let interval = Rates::new(FREQUENCY).take(vec![vec![estimated]]);
    let error = interval.rate(0, 0).and_then(|rate| rate.error);
    // 400 ticks are 200 nanoseconds.
    let expected = events / 200e-9;
    assert!((error.expect("a bound") / expected - 1.0).abs() < 1e-12);
}

/// One of two processors was added in the middle of the interval. How the bound in events is divided
/// between both times is not known: all of it in the shorter time is the most that it can be.
#[test]
fn the_bound_of_a_sum_is_over_the_shortest_time() {
    let of = |enabled| Count {
        slices: 2,
        count_squared: [500, 0],
        count_by_time: [3000, 0],
        time_squared: [20_000, 0],
        ..count(30, enabled, 200)
    };
    let (long, short) = (of(800), of(400));
    let events = Estimate::sum([long, short].iter().map(Estimate::new)).error.expect("a bound");
    let interval = Rates::new(FREQUENCY).take(vec![vec![long], vec![short]]);
    let error = interval.sum(0).and_then(|rate| rate.error).expect("a bound");
    // 400 ticks are 200 nanoseconds.
    assert!((error * 200e-9 / events - 1.0).abs() < 1e-12, "{error} of {events}");
}

/// Eight sources take slices on four general counters. The truth is the workload's.
#[test]
fn estimated_rates_hold_the_truth_in_their_bounds() {
    let mut connection = modelled("skylake,processors=4");
    let list = "BranchInstructions,BranchMispredictions,LLCReference,LLCMisses,\
        r00C0,r003C,r01C4,r02C4,r04C4,r08C4";
    let sources = Sources::named(&mut connection, list).expect("sources");
    let frequency = connection.machine().expect("described").timestamp_frequency;
    let mut session = sources.start(&mut connection).expect("started");
    let work = "instructions=2000000000,cycles=4000000000,branches=500000000,processors=all";
    session.transport().begin(&workload::parse(work).expect("a workload"));
    let mut rates = Rates::new(frequency);
    for _ in 0..3 {
        session.transport().advance(1_000_000_000).expect("no fault");
        let interval = rates.take(session.snapshot().expect("counts"));
        // Branches, instructions, cycles: per second on each of four processors.
        for (source, truth) in [(0, 125e6), (4, 500e6), (5, 1000e6)] {
            let sum = interval.sum(source).expect("counted");
            let error = sum.error.expect("enough slices");
            assert!(sum.scaled && (sum.per_second - 4.0 * truth).abs() <= error);
            assert!(error < 0.1 * sum.per_second, "{error} of {sum:?}");
            let one = interval.rate(3, source).expect("counted");
            assert!((one.per_second - truth).abs() <= one.error.expect("enough slices"));
        }
    }
}
