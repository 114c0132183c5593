//! Do counts and samples survive sleep, and does nothing start where something is missing?

use super::leftovers::{LAYOUTS, assert_all_off, assert_some_on, machine};
use crate::backend::Backend;
use crate::branches::with;
use crate::requests::{configure, spec};
use crate::wire::{RawClient, leaves, rows};
use shared_types::ErrorCode;
use shared_types::request::machine::Machine;
use shared_types::request::session::{self, Spec};

scenarios![
    totals_are_exact_across_sleep,
    no_sample_is_missing_across_sleep,
    asleep_nothing_starts_and_a_stop_is_a_stop,
    counters_that_somebody_else_owns_are_not_touched,
    counters_that_are_given_and_do_not_count_start_nothing,
    without_the_overflow_interrupt_counting_goes_on_and_sampling_does_not,
    a_handler_that_stays_keeps_samples_away_and_no_count,
    without_memory_for_rings_nothing_starts,
    a_session_starts_where_there_are_no_instructions_to_count,
];

const TOTAL_ISSUES: u32 = 2;
const BRANCH_INSTRUCTIONS: u32 = 6;

/// No session holds the counters.
fn assert_nobody_holds<B: Backend>(client: &mut RawClient<B>, model: &str) {
    assert_eq!(client.machine().active_session, 0, "{model}");
}

fn totals_are_exact_across_sleep<B: Backend>() {
    for layout in LAYOUTS {
        let mut client = machine::<B>(layout);
        let number = client.run(spec(TOTAL_ISSUES), 0);
        client.begin("instructions=900001,cycles=1000000,processors=all");
        let mut left = true;
        while left {
            left = client.advance(170_000);
            client.sleep();
            client.wake();
            // Counts that are read while it runs never go back, and stand still while it sleeps.
            let one = client.snapshot(number);
            assert_eq!(one, client.snapshot(number));
        }
        let counts = rows(&client.about(session::STOP, number));
        for (index, row) in counts.iter().enumerate() {
            assert_eq!(row[0].counted, 900_001, "{} processor {index}", layout.model);
        }
        assert_all_off(&mut client, layout, "after sleep");
        client.end();
    }
}

fn no_sample_is_missing_across_sleep<B: Backend>() {
    for layout in LAYOUTS.iter().filter(|layout| layout.samples()) {
        let mut client = machine::<B>(layout);
        let interval = Spec { interval: 10_000, ..spec(TOTAL_ISSUES) };
        let number = client.run(interval, session::SAMPLE);
        client.begin("instructions=905000,cycles=1000000,processors=all");
        while client.advance(173_456) {
            client.sleep();
            client.wake();
        }
        client.granted(session::STOP, number);
        let statistics = client.statistics(number);
        let lost: u64 = statistics.lost.iter().sum();
        assert_eq!(statistics.generated, 2 * 90, "{}", layout.model);
        assert_eq!(statistics.stored + lost, statistics.generated, "{}", layout.model);
        assert_all_off(&mut client, layout, "after sleep");
        client.end();
    }
}

fn asleep_nothing_starts_and_a_stop_is_a_stop<B: Backend>() {
    for layout in LAYOUTS {
        let mut client = machine::<B>(layout);
        let number = client.run(spec(TOTAL_ISSUES), 0);
        let other = client.open();
        client.work("instructions=400000,cycles=500000,processors=all");
        client.sleep();
        client.granted(session::CLOSE, other);
        assert_all_off(&mut client, layout, "asleep");
        let before = client.snapshot(number);
        assert_eq!(before[1][0].counted, 400_000, "{}", layout.model);
        let stopped = rows(&client.about(session::STOP, number));
        assert_eq!(stopped, before, "{}", layout.model);
        let start = client.about(session::START, number).refusal();
        assert_eq!(start, Some((ErrorCode::Suspended, number, 0)));
        assert_eq!(client.snapshot(number), before, "a refused start takes nothing");
        client.wake();
        assert_all_off(&mut client, layout, "what was stopped asleep stays stopped");
        client.granted(session::START, number);
        assert_some_on(&mut client, layout);
        client.end();
    }
}

fn counters_that_somebody_else_owns_are_not_touched<B: Backend>() {
    for layout in LAYOUTS {
        let mut client = machine::<B>(layout);
        let number = client.configured(0, &[spec(TOTAL_ISSUES)]);
        client.model.take_counters(true);
        client.processor(0).reset_accesses();
        let start = client.about(session::START, number);
        assert_eq!(start.error(), Some(ErrorCode::CountersReserved), "{}", layout.model);
        assert_eq!(client.processor(0).accesses().wrmsr, 0, "{}", layout.model);
        assert_nobody_holds(&mut client, layout.model);
        client.model.take_counters(false);
        client.granted(session::START, number);
        client.end();
    }
}

fn counters_that_are_given_and_do_not_count_start_nothing<B: Backend>() {
    for layout in LAYOUTS {
        for &flags in layout.flags() {
            let mut client = machine::<B>(layout);
            let number = client.configured(flags, &[spec(TOTAL_ISSUES)]);
            (0..48).for_each(|bit| client.processor(0).break_counter_bit(bit));
            // The second time: the counters were given back, and are given again.
            for _ in 0..2 {
                let refusal = client.about(session::START, number).refusal();
                let (error, processor, _) = refusal.expect("dead");
                assert_eq!((error, processor), (ErrorCode::CountersDead, 0), "{}", layout.model);
                assert_nobody_holds(&mut client, layout.model);
                assert_eq!(client.machine().ring_bytes, 0);
            }
            client.end();
        }
    }
}

fn without_the_overflow_interrupt_counting_goes_on_and_sampling_does_not<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 2);
    client.model.take_interrupt(true);
    let number = client.configured(session::SAMPLE, &[spec(TOTAL_ISSUES)]);
    let start = client.about(session::START, number);
    assert_eq!(start.error(), Some(ErrorCode::InterruptTaken));
    assert_nobody_holds(&mut client, "skylake");
    client.configure(number, &[spec(TOTAL_ISSUES)]);
    client.granted(session::START, number);
    client.granted(session::STOP, number);
    client.model.take_interrupt(false);
    client.end();
}

/// Windows did not remove our own handler: it is asked again at each START, and counting, which
/// needs none, goes on with what is still reserved.
fn a_handler_that_stays_keeps_samples_away_and_no_count<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 2);
    let number = client.open();
    let sample = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
    let count = configure(number, 0, &[spec(TOTAL_ISSUES)]);
    assert_eq!(client.send(session::CONFIGURE, &sample).error(), None);
    client.granted(session::START, number);
    client.model.keep_handler(true);
    client.granted(session::STOP, number);
    for _ in 0..2 {
        assert_eq!(client.machine().flags, Machine::HANDLER_STUCK);
        let stuck = Some((ErrorCode::HandlerStuck, 0, 0xC000_0001));
        assert_eq!(client.about(session::START, number).refusal(), stuck);
        for processor in 0..2 {
            client.spurious_interrupt(processor);
        }
        assert_eq!(client.send(session::CONFIGURE, &count).error(), None);
        client.granted(session::START, number);
        client.granted(session::STOP, number);
        assert_eq!(client.send(session::CONFIGURE, &sample).error(), None);
    }
    client.model.keep_handler(false);
    assert_eq!(client.machine().flags, Machine::HANDLER_STUCK, "a description changes nothing");
    client.granted(session::START, number);
    assert_eq!(client.machine().flags, 0);
    client.end();
}

fn without_memory_for_rings_nothing_starts<B: Backend>() {
    for layout in LAYOUTS.iter().filter(|layout| layout.samples()) {
        let mut client = machine::<B>(layout);
        let number = client.configured(session::SAMPLE, &[spec(TOTAL_ISSUES)]);
        client.processor(0).reset_accesses();
        client.model.refuse_rings(true);
        let start = client.about(session::START, number);
        assert_eq!(start.error(), Some(ErrorCode::NoMemory), "{}", layout.model);
        assert_nobody_holds(&mut client, layout.model);
        assert_eq!(client.machine().ring_bytes, 0);
        assert_eq!(client.processor(0).accesses().wrmsr, 0, "{}", layout.model);
        client.configure(number, &[spec(TOTAL_ISSUES)]);
        // Counting needs no ring.
        client.granted(session::START, number);
        client.end();
    }
}

/// Where instructions cannot be counted (CPUID leaf 0x0A EBX 1), cycles prove that counters count.
fn a_session_starts_where_there_are_no_instructions_to_count<B: Backend>() {
    let without = with(&leaves("skylake", 1)[0], 0xA, |leaf| leaf.ebx |= 1 << 1);
    for flags in [0, session::SAMPLE] {
        let mut client = RawClient::<B>::of(std::slice::from_ref(&without));
        client.run(spec(BRANCH_INSTRUCTIONS), flags);
        client.end();
    }
}
