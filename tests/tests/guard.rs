//! Does the guard hold interrupts to their budget of time, and leave alone what keeps to it?
//!
//! The model runs at 1 GHz and one instruction a nanosecond; an interrupt costs 1000 ns. The budget
//! is a tenth of a processor's time: 1,000,000 ns in a window of 10 ms, so 1000 interrupts.

use halprof_measure::{Connection, Modelled, Session, Setup};
use halprof_tests::requests::spec;
use shared_types::Sample;
use shared_types::request::samples::Statistics;
use shared_types::request::session::Spec;
use sim::models;
use sim::workload::parse;

const TOTAL_ISSUES: u32 = 0x02;

/// Samples a workload of so many instructions.
fn sample(instructions: u64, period: u64) -> (Statistics, Vec<Sample>) {
    let processors = models::find("skylake").expect("a model").processors();
    let mut connection = Connection::new(Modelled::new(&processors[..1])).expect("a machine");
    let mut session = Session::open(&mut connection, true, false).expect("a session");
    let setup = Setup {
        specs: vec![Spec {
            interval: period,
            ..spec(TOTAL_ISSUES)
        }],
        ..Setup::default()
    };
    let settled = session.configure(&setup, true).expect("a configuration");
    assert_eq!(settled.intervals[0].events, period);
    session.start().expect("a start");
    let workload = parse(&format!(
        "instructions={instructions},cycles={instructions}"
    ));
    session.transport().begin(&workload.expect("a workload"));
    let mut samples = Vec::new();
    while session.transport().advance(20_000_000).expect("no fault") {
        samples.extend(session.drain().expect("samples").0);
    }
    session.stop().expect("a stop");
    samples.extend(session.drain().expect("samples").0);
    (session.statistics().expect("statistics"), samples)
}

const LENGTH: u64 = 40_000_000;

/// A window opens with an interrupt: 1000 interrupts fill the budget, and with the 999 periods of
/// 9010 ns between them they fill the window too.
#[test]
fn within_the_budget_nothing_is_lengthened() {
    for period in [9_010, 10_000, 65_536] {
        let (statistics, samples) = sample(LENGTH, period);
        assert_eq!(
            (statistics.throttled, statistics.longest_period),
            (0, period)
        );
        assert_eq!(statistics.generated, LENGTH / period);
        assert_eq!(statistics.handler_ticks, statistics.generated * 1_000);
        assert_eq!(samples.len() as u64, statistics.stored);
        assert!(samples.iter().all(|sample| sample.period == period));
    }
}

/// Above it the 1001st interrupt of a window doubles the period, at once.
#[test]
fn above_the_budget_the_period_doubles() {
    for period in [5_000, 8_900, 9_009] {
        let (statistics, samples) = sample(LENGTH, period);
        assert_eq!(
            (statistics.throttled, statistics.longest_period),
            (1, 2 * period)
        );
        assert_eq!(statistics.lost, [0; 4]);
        let (before, after) = samples.split_at(1_001);
        assert!(
            before.iter().all(|sample| sample.period == period),
            "{period}"
        );
        assert!(
            after.iter().all(|sample| sample.period == 2 * period),
            "{period}"
        );
        let stood_for: u64 = samples.iter().map(|sample| sample.period).sum();
        assert_eq!(stood_for, LENGTH - (LENGTH - 1_001 * period) % (2 * period));
    }
}

/// Twice 4096 is not enough.
#[test]
fn it_doubles_until_the_budget_is_kept() {
    let (statistics, samples) = sample(LENGTH, 4_096);
    assert_eq!(
        (statistics.throttled, statistics.longest_period),
        (2, 16_384)
    );
    let of = |period| {
        samples
            .iter()
            .filter(|sample| sample.period == period)
            .count()
    };
    assert_eq!(of(4_096), 1_001);
    assert!(of(8_192) > 990 && of(16_384) > 1_000);
}

/// What was spent in one window does not count in the next.
#[test]
fn a_window_ends() {
    let (statistics, _) = sample(4_000_000, 4_096);
    assert_eq!(statistics.throttled, 0, "976 interrupts");
    let (statistics, _) = sample(90_000_000, 9_100);
    assert_eq!(statistics.throttled, 0, "ten windows, each just kept");
}
