//! Does the guard keep interrupts within their time budget, and leave alone what stays within it?
//!
//! The model runs at 1 GHz and one instruction per nanosecond; an interrupt costs 1000 ns in the
//! handler and 500 ns that the handler does not see, 5000 ns under a hypervisor. The budget is a
//! tenth of a processor's time: 1,000,000 ns in a window of 10 ms, so 666 interrupts.

use crate::backend::Backend;
use crate::machines::{on, workload};
use crate::requests::spec;
use crate::stepped::Stepped;
use halprof_measure::{ModelledMachine, Session, Setup};
use shared_types::request::machine::Processor;
use shared_types::request::samples::Statistics;
use shared_types::request::session::{SAMPLE, Spec};
use shared_types::{ErrorCode, LossCause, Sample};
use sim::cpu::event::Event;

scenarios![
    within_the_budget_nothing_is_lengthened,
    above_the_budget_the_period_doubles,
    above_the_budget_drawn_periods_double_too,
    an_interrupt_costs_more_under_a_hypervisor,
    it_doubles_until_the_budget_is_kept,
    a_window_ends,
    a_period_shortens_again_when_the_load_is_gone,
    a_storm_ends_the_session,
    rare_spurious_interrupts_are_no_storm,
    after_sleep_a_session_that_a_storm_has_ended_stays_ended,
    sleep_ends_a_storm_whose_session_is_over,
    a_sleep_that_was_called_off_ends_no_storm,
    a_start_after_a_storm_acknowledges_what_it_sees,
    a_new_configuration_knows_nothing_of_the_run_before,
    a_hundred_calm_windows_halve_the_period,
    a_doubled_period_fits_a_sign_extended_write,
    an_exact_period_is_never_shortened,
];

const TOTAL_ISSUES: u32 = 0x02;

/// Samples a workload of this many instructions.
fn sample<B: Backend>(instructions: u64, period: u64) -> (Statistics, Vec<Sample>) {
    let work = format!("instructions={instructions},cycles={instructions}");
    sample_on::<B>("skylake,processors=1", period, &[&work])
}

/// Samples workloads one after the other.
fn sample_on<B: Backend>(machine: &str, period: u64, works: &[&str]) -> (Statistics, Vec<Sample>) {
    sample_spec::<B>(machine, Spec { interval: period, ..spec(TOTAL_ISSUES) }, works)
}

fn sample_spec<B: Backend>(machine: &str, spec: Spec, works: &[&str]) -> (Statistics, Vec<Sample>) {
    let mut connection = on::<B>(machine);
    let mut session = Session::open(&mut connection, true, false).expect("a session");
    let setup = Setup { specs: vec![spec], ..Setup::default() };
    let settled = session.configure(&setup, true).expect("a configuration");
    assert_eq!(settled.intervals[0].events, spec.interval);
    session.start().expect("a start");
    let mut samples = Vec::new();
    for work in works {
        session.transport().begin(&workload(work));
        while session.transport().advance(20_000_000).expect("no fault") {
            samples.extend(session.drain().expect("samples").0);
        }
    }
    session.stop().expect("a stop");
    samples.extend(session.drain().expect("samples").0);
    (session.statistics().expect("statistics"), samples)
}

const LENGTH: u64 = 40_000_000;

/// A window opens with an interrupt: 666 of them fill the budget, and together with the 665 periods
/// of 14,037 ns between them they fill the window too.
fn within_the_budget_nothing_is_lengthened<B: Backend>() {
    for period in [14_037, 20_000, 65_536] {
        let (statistics, samples) = sample::<B>(LENGTH, period);
        assert_eq!((statistics.throttled, statistics.longest_period), (0, period));
        assert_eq!(statistics.generated, LENGTH / period);
        assert_eq!(statistics.handler_ticks, statistics.generated * 1_000);
        assert_eq!(samples.len() as u64, statistics.stored);
        assert!(samples.iter().all(|sample| sample.period == period));
    }
}

/// Above the budget the 667th interrupt of a window doubles the period, beginning with the next
/// preset: its own has already been written.
fn above_the_budget_the_period_doubles<B: Backend>() {
    for period in [7_500, 13_000, 14_036] {
        let (statistics, samples) = sample::<B>(LENGTH, period);
        assert_eq!((statistics.throttled, statistics.longest_period), (1, 2 * period));
        assert_eq!(statistics.lost, [0; LossCause::ALL.len()]);
        let (before, after) = samples.split_at(668);
        assert!(before.iter().all(|sample| sample.period == period), "{period}");
        assert!(after.iter().all(|sample| sample.period == 2 * period), "{period}");
        let stood_for: u64 = samples.iter().map(|sample| sample.period).sum();
        assert_eq!(stood_for, LENGTH - (LENGTH - 668 * period) % (2 * period));
    }
}

/// As they are wherever nobody gives an exact period. What is drawn is within a sixteenth of the mean.
fn above_the_budget_drawn_periods_double_too<B: Backend>() {
    const MEAN: u64 = 7_500;
    let spec = Spec { interval: MEAN, flags: Spec::MEAN, ..spec(TOTAL_ISSUES) };
    let work = format!("instructions={LENGTH},cycles={LENGTH}");
    let (statistics, samples) = sample_spec::<B>("skylake,processors=1", spec, &[&work]);
    assert_eq!((statistics.throttled, statistics.longest_period), (1, 2 * MEAN));
    let around = |mean: u64| mean - mean / 16..=mean + mean / 16;
    let (before, after) = samples.split_at(668);
    assert!(before.iter().all(|sample| around(MEAN).contains(&sample.period)));
    assert!(after.iter().all(|sample| around(2 * MEAN).contains(&sample.period)));
    // A microsecond each, and half of one that the handler does not see.
    let (spent, length) = (after.len() as u64 * 1_500, LENGTH - 668 * MEAN);
    assert!(spent * 100 < length * 11, "{spent} of {length}");
}

/// Under a hypervisor 166 interrupts of 6000 ns fill the budget, and together with 165 periods of
/// 59,600 ns they fill the window.
fn an_interrupt_costs_more_under_a_hypervisor<B: Backend>() {
    let virtualized = "skylake,processors=1,quirks=hypervisor-masks";
    let work = format!("instructions={LENGTH},cycles={LENGTH}");
    for (period, throttled) in [(59_599, 1), (59_600, 0)] {
        let (statistics, samples) = sample_on::<B>(virtualized, period, &[&work]);
        assert_eq!(statistics.throttled, throttled, "{period}");
        let before = samples.iter().filter(|sample| sample.period == period);
        if throttled == 1 {
            assert_eq!(before.count(), 168);
        }
        // The handler time reported does not include what the handler cannot see.
        assert_eq!(statistics.handler_ticks, statistics.generated * 1_000);
    }
}

/// Doubling 4096 once is not enough.
fn it_doubles_until_the_budget_is_kept<B: Backend>() {
    let (statistics, samples) = sample::<B>(LENGTH, 4_096);
    assert_eq!((statistics.throttled, statistics.longest_period), (2, 16_384));
    let of = |period| {
        let of_period = samples.iter().filter(|sample| sample.period == period);
        of_period.count() as u64
    };
    // The last preset of each period is written before the decision that ends it.
    let doubled = (668, 667);
    assert_eq!((of(4_096), of(8_192)), doubled);
    let left = LENGTH - doubled.0 * 4_096 - doubled.1 * 8_192;
    assert_eq!(of(16_384), left / 16_384);
}

/// Time spent in one window does not count in the next.
fn a_window_ends<B: Backend>() {
    let (statistics, _) = sample::<B>(2_720_000, 4_096);
    assert_eq!(statistics.throttled, 0, "664 interrupts");
    let (statistics, _) = sample::<B>(90_000_000, 14_040);
    assert_eq!(statistics.throttled, 0, "nine windows, each just kept");
}

/// After each calm second the period is halved, down to the requested one.
fn a_period_shortens_again_when_the_load_is_gone<B: Backend>() {
    const BUSY: &str = "instructions=40000000,cycles=40000000";
    // Five instructions per microsecond.
    let calm = |seconds: u64| {
        let (instructions, cycles) = (seconds * 5_000_000, seconds * 1_000_000_000);
        format!("instructions={instructions},cycles={cycles}")
    };
    for (seconds, longest) in [(0, 16_384), (2, 8_192), (4, 4_096), (9, 4_096)] {
        let calm = calm(seconds);
        let works = [BUSY, &calm];
        let works = if seconds == 0 { &works[..1] } else { &works };
        let (statistics, samples) = sample_on::<B>("skylake,processors=1", 4_096, works);
        assert_eq!(statistics.longest_period, longest, "after {seconds} s");
        assert_eq!(statistics.throttled, 2, "after {seconds} s");
        let told: u64 = samples.iter().map(|sample| sample.period).sum();
        let happened = 40_000_000 + seconds * 5_000_000;
        assert!((happened - 16_384..=happened).contains(&told), "{told}");
    }
}

const LVTPC: u32 = 0x340;
const MASK: u32 = 1 << 16;
const STATUS_SET: u32 = 0x391;
const GLOBAL_STATUS: u32 = 0x38E;
const FIXED_CONTROL: u32 = 0x38D;

fn sampling<B: Backend>(model: &str) -> Stepped<B> {
    let mut machine = Stepped::<B>::new(model, 1);
    let spec = Spec { interval: 5_000, ..spec(TOTAL_ISSUES) };
    machine.run(SAMPLE, &[spec]);
    machine
}

const STORM: Option<ErrorCode> = Some(ErrorCode::InterruptStorm);

/// A hundred interrupts at once without an overflow.
fn storm<B: Backend>(machine: &mut Stepped<B>) {
    for _ in 0..100 {
        machine.spurious_interrupt(0);
    }
}

fn is_masked<B: Backend>(machine: &mut Stepped<B>) -> bool {
    let entry = machine.processor(0).read_apic(LVTPC);
    entry.expect("xAPIC") & MASK != 0
}

/// A hundred interrupts in a window without an overflow end the session; LVTPC stays masked until a
/// later start that has found the status clear.
fn a_storm_ends_the_session<B: Backend>() {
    for model in ["skylake", "core2", "zen2", "zen4", "pentium-m", "pentium4"] {
        let mut machine = sampling::<B>(model);
        for _ in 0..99 {
            machine.spurious_interrupt(0);
        }
        let statistics = machine.statistics();
        assert_eq!((statistics.ended, statistics.spurious), (0, 99), "{model}");
        machine.retire(0, &[(Event::Instructions, 5_001)]);
        assert!(machine.take_interrupt(0), "{model}");
        machine.spurious_interrupt(0);
        assert!(is_masked(&mut machine), "{model}");
        // Events that happen now belong to no session.
        machine.retire(0, &[(Event::Instructions, 50_001)]);
        let storm = ErrorCode::InterruptStorm as u32;
        let statistics = machine.statistics();
        assert_eq!((statistics.ended, statistics.spurious), (storm, 100), "{model}");
        assert_eq!((statistics.ended_processor, statistics.stored), (0, 1));
        assert_eq!(machine.drain().len(), 1, "what was sampled is still there");
        assert_eq!(machine.counted()[0], 5_001, "{model}");
        assert_eq!(machine.ended_by(), STORM, "{model}");
        assert!(is_masked(&mut machine), "{model}: nobody would answer");
        machine.start();
        assert!(!is_masked(&mut machine), "{model}");
        machine.stop();
        assert!(!is_masked(&mut machine), "{model}");
    }
}

/// The same number over a longer time is not a storm.
fn rare_spurious_interrupts_are_no_storm<B: Backend>() {
    let mut machine = sampling::<B>("zen2");
    for _ in 0..10 {
        for _ in 0..99 {
            machine.spurious_interrupt(0);
        }
        machine.pass(40_000_000);
    }
    let statistics = machine.statistics();
    assert_eq!((statistics.ended, statistics.spurious), (0, 990));
    assert!(!is_masked(&mut machine));
}

/// Sleep ends the storm but not the refusal: only what was counted up to the storm remains.
fn after_sleep_a_session_that_a_storm_has_ended_stays_ended<B: Backend>() {
    for model in ["skylake", "zen2"] {
        let mut machine = sampling::<B>(model);
        machine.retire(0, &[(Event::Instructions, 5_001)]);
        assert!(machine.take_interrupt(0), "{model}");
        storm(&mut machine);
        machine.sleep();
        machine.lose_registers();
        machine.wake();
        machine.retire(0, &[(Event::Instructions, 50_001)]);
        assert!(!machine.take_interrupt(0), "{model}: nothing runs");
        let storm = ErrorCode::InterruptStorm as u32;
        assert_eq!(machine.statistics().ended, storm, "{model}");
        assert_eq!(machine.counted()[0], 5_001, "{model}");
        assert_eq!(machine.ended_by(), STORM, "{model}");
        assert!(!is_masked(&mut machine), "{model}");
        machine.start();
        machine.stop();
    }
}

/// Where no session runs, too: otherwise a later session on other processors would leave LVTPC
/// masked there, as after the storm.
fn sleep_ends_a_storm_whose_session_is_over<B: Backend>() {
    for model in ["skylake", "zen2"] {
        let mut machine = sampling::<B>(model);
        storm(&mut machine);
        assert_eq!(machine.ended_by(), STORM, "{model}");
        let is_told = |machine: &mut Stepped<B>| machine.described(0).flags & Processor::STORM != 0;
        assert!(is_told(&mut machine), "{model}");
        machine.sleep();
        machine.lose_registers();
        machine.wake();
        assert!(!is_told(&mut machine), "{model}");
        assert!(!is_masked(&mut machine), "{model}");
    }
}

/// Another driver has refused the sleep: registers have kept their contents, and LVTPC stays masked.
fn a_sleep_that_was_called_off_ends_no_storm<B: Backend>() {
    for (model, status) in [("skylake", Some(0x38E)), ("zen2", None)] {
        let mut machine = sampling::<B>(model);
        storm(&mut machine);
        if let Some(status) = status {
            // Of a counter that the session does not use.
            let processor = machine.processor(0);
            processor.wrmsr(STATUS_SET, 1 << 33).expect("version 4");
            assert_ne!(processor.rdmsr(status), Ok(0));
        }
        machine.sleep();
        machine.wake();
        assert!(is_masked(&mut machine), "{model}");
        let storm = machine.described(0).flags & Processor::STORM;
        assert_ne!(storm, 0, "{model}");
        assert_eq!(machine.ended_by(), STORM, "{model}");
        assert!(is_masked(&mut machine), "{model}");
    }
}

/// What held the line active is acknowledged by the START that sees it: otherwise nothing would start
/// until sleep or a restart. A counter of somebody else's is left alone, and so are the bits whose
/// owners need them: the overflow of metrics, and Intel PT's.
fn a_start_after_a_storm_acknowledges_what_it_sees<B: Backend>() {
    // Metrics overflow, Trace_ToPA_PMI, CTR_FRZ, OvfUncore, OvfBuf, CondChgd; counters that nobody
    // has; fixed counter 1.
    for (bits, left) in [
        (1 << 48, 1 << 48),
        (1 << 55, 1 << 55),
        (1 << 59, 0),
        (1 << 61, 0),
        (1 << 62, 0),
        (1 << 63, 0),
        (1 << 34 | 1 << 2, 0),
        (1 << 33 | 1, 1 << 33),
    ] {
        let mut machine = sampling::<B>("skylake");
        storm(&mut machine);
        assert_eq!(machine.ended_by(), STORM);
        let processor = machine.processor(0);
        processor.show_status(bits);
        processor.wrmsr(FIXED_CONTROL, 0xB0).expect("version 4");
        machine.start();
        assert!(!is_masked(&mut machine), "{bits:#x}");
        let processor = machine.processor(0);
        assert_eq!(processor.rdmsr(GLOBAL_STATUS), Ok(left), "{bits:#x}");
        machine.stop();
        let processor = machine.processor(0);
        assert_eq!(processor.rdmsr(GLOBAL_STATUS), Ok(left), "{bits:#x}");
    }
}

fn a_new_configuration_knows_nothing_of_the_run_before<B: Backend>() {
    let mut machine = sampling::<B>("skylake");
    storm(&mut machine);
    assert_eq!(machine.ended_by(), STORM);
    machine.configure(SAMPLE, &[spec(TOTAL_ISSUES)], 0);
    assert_eq!(machine.ended_by(), Some(ErrorCode::NotRunning));
}

/// An interrupt that costs this much ends at `now`: 500 ns of it are outside the handler.
fn costly<B: Backend>(machine: &mut Stepped<B>, now: u64, cost: u64) {
    let cpu = machine.cpu(0);
    cpu.processor.set_timestamp(now - (cost - 500));
    cpu.interrupt_cost = cost - 500;
    machine.spurious_interrupt(0);
}

/// A window is calm below a quarter of the budget, so that the doubled cost is at most half of it;
/// a rare interrupt ends several windows at once. What exactly reaches the budget is within it.
fn a_hundred_calm_windows_halve_the_period<B: Backend>() {
    const WINDOW: u64 = 10_000_000;
    for (windows, cost, longest) in
        [(1, 249_999, 5_000), (1, 250_000, 10_000), (4, 999_999, 5_000), (4, 1_000_000, 10_000)]
    {
        let mut machine = sampling::<B>("zen4");
        let mut now = 2 * WINDOW;
        costly(&mut machine, now, 1_000_001);
        let statistics = machine.statistics();
        assert_eq!((statistics.throttled, statistics.longest_period), (1, 10_000));
        for _ in 0..100 / windows {
            assert_eq!(machine.statistics().longest_period, 10_000);
            now += windows * WINDOW;
            costly(&mut machine, now, cost);
        }
        let statistics = machine.statistics();
        assert_eq!(statistics.throttled, 1, "{windows} {cost}");
        assert_eq!(statistics.longest_period, longest, "{windows} {cost}");
    }
}

/// Without full-width writes 32 bits are sign-extended (SDM vol. 3, "Full-Width Writes to Performance
/// Counter Registers"): a period of 2^31 and more would become another.
fn a_doubled_period_fits_a_sign_extended_write<B: Backend>() {
    let mut machine = Stepped::<B>::new("core2", 1);
    machine.run(SAMPLE, &[Spec { interval: 1_500_000_000, ..spec(TOTAL_ISSUES) }]);
    costly(&mut machine, 20_000_000, 1_000_001);
    let statistics = machine.statistics();
    assert_eq!(statistics.throttled, 1);
    let longest = statistics.longest_period;
    assert!((1_500_000_000..1 << 31).contains(&longest), "{longest}");
}

/// One that is longer than any doubling makes it stays as it is.
fn an_exact_period_is_never_shortened<B: Backend>() {
    const PERIOD: u64 = (1 << 31) - 1;
    let mut machine = Stepped::<B>::new("core2", 1);
    machine.run(SAMPLE, &[Spec { interval: PERIOD, ..spec(TOTAL_ISSUES) }]);
    costly(&mut machine, 20_000_000, 1_000_001);
    let statistics = machine.statistics();
    assert_eq!((statistics.throttled, statistics.longest_period), (1, PERIOD));
}
