//! What does an interrupt do that is not a simple overflow of one counter: one that no one
//! requested, or one that the HAL handles for another counter?

use crate::backend::Backend;
use crate::branches::with;
use crate::requests::spec;
use crate::stepped::Stepped;
use crate::wire::{first, with_quirks};
use shared_types::LossCause;
use shared_types::request::samples::Statistics;
use shared_types::request::session::{SAMPLE, Spec};
use sim::cpu::event::{Counts, Event};

scenarios![
    an_interrupt_without_an_overflow_is_told_and_nothing_else,
    an_interrupt_without_an_overflow_is_held_to_the_budget_too,
    a_session_does_not_pay_for_the_one_before,
    the_time_of_the_handler_is_not_the_programs,
    an_interrupt_after_the_counters_were_stopped_starts_none,
    an_interrupt_where_nothing_of_ours_runs_changes_no_select,
    an_interrupt_without_an_overflow_clears_the_bits_of_our_counters,
    an_overflow_one_event_early_is_no_sample,
    a_period_that_ends_without_an_overflow_is_told_as_missed,
    lvtpc_does_not_stay_masked_on_a_processor_of_an_eighth_kind,
    lvtpc_is_left_to_the_hal_without_a_handler_of_our_own,
    after_a_storm_lvtpc_stays_masked,
    two_overflows_in_one_interrupt_are_no_storm,
    an_interrupt_after_the_session_is_not_charged_to_it,
    an_overflow_behind_a_masked_lvtpc_is_not_lost,
    no_reload_is_shorter_than_a_counter_takes,
    a_freeze_that_begins_in_a_session_ends_with_each_overflow,
];

const TOTAL_ISSUES: u32 = 2;
const BRANCH_INSTRUCTIONS: u32 = 6;
const PERIOD: u64 = 5000;

const EVERY_DESIGN: [&str; 9] = [
    "yonah",
    "core2",
    "skylake",
    "sapphire-rapids",
    "k8",
    "zen4",
    "pentium3",
    "pentium-m",
    "pentium4",
];

fn sampled(source: u32) -> Spec {
    Spec { interval: PERIOD, ..spec(source) }
}

/// Three interrupts of ours and two that no counter has requested.
fn an_interrupt_without_an_overflow_is_told_and_nothing_else<B: Backend>() {
    for model in EVERY_DESIGN {
        let mut machine = Stepped::<B>::new(model, 1);
        machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
        machine.spurious_interrupt(0);
        for round in 1..=3 {
            machine.retire(0, &[(Event::Instructions, round * PERIOD)]);
            assert!(machine.take_interrupt(0), "{model} {round}");
        }
        machine.retire(0, &[(Event::Instructions, 3 * PERIOD + 7)]);
        machine.spurious_interrupt(0);
        let statistics = machine.statistics();
        assert_eq!(statistics.spurious, 2, "{model}");
        assert_eq!((statistics.generated, statistics.stored), (3, 3), "{model}");
        machine.stop();
        assert_eq!(machine.counted()[0], 3 * PERIOD + 7, "{model}");
    }
}

/// At 1 GHz a window of the guard is 10 ms long, and interrupts may take 1 ms of it.
fn slow_interrupt<B: Backend>(machine: &mut Stepped<B>, nanoseconds: u64) {
    machine.cpu(0).interrupt_cost = nanoseconds;
    machine.spurious_interrupt(0);
}

fn an_interrupt_without_an_overflow_is_held_to_the_budget_too<B: Backend>() {
    let mut machine = Stepped::<B>::new("zen4", 1);
    machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
    slow_interrupt(&mut machine, 600_000);
    slow_interrupt(&mut machine, 600_000);
    let statistics = machine.statistics();
    assert_eq!((statistics.throttled, statistics.handler_ticks), (1, 1_200_000));
    assert_eq!(statistics.longest_period, 2 * PERIOD);
}

fn a_session_does_not_pay_for_the_one_before<B: Backend>() {
    let mut machine = Stepped::<B>::new("zen4", 1);
    machine.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
    for _ in 0..2 {
        machine.start();
        slow_interrupt(&mut machine, 600_000);
        let statistics = machine.statistics();
        assert_eq!((statistics.throttled, statistics.handler_ticks), (0, 600_000));
        machine.stop();
    }
}

fn the_time_of_the_handler_is_not_the_programs<B: Backend>() {
    let mut machine = Stepped::<B>::new("zen4", 1);
    machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
    let before = machine.snapshot()[0];
    machine.pass(1_000_000);
    slow_interrupt(&mut machine, 600_000);
    let after = machine.snapshot()[0];
    assert_eq!(after.enabled - before.enabled, 1_000_000);
    assert_eq!(after.running - before.running, 1_000_000);
}

/// An interrupt that was already on its way when the counters were stopped.
fn an_interrupt_after_the_counters_were_stopped_starts_none<B: Backend>() {
    const EN: u64 = 1 << 22;
    for (model, select) in [
        ("k8", 0xC001_0000),
        ("zen4", 0xC001_0200),
        ("pentium3", 0x186),
        ("yonah", 0x186),
        ("skylake", 0x186),
    ] {
        let mut machine = Stepped::<B>::new(model, 1);
        machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
        machine.sleep();
        let asleep = machine.processor(0).rdmsr(select);
        machine.spurious_interrupt(0);
        let woken = machine.processor(0).rdmsr(select);
        assert_eq!(woken, asleep, "{model}");
        assert_eq!(woken.expect("a select") & EN, 0, "{model}");
    }
}

/// If no counter of ours is in use, P6's EN bit may belong to someone else.
fn an_interrupt_where_nothing_of_ours_runs_changes_no_select<B: Backend>() {
    for (model, select) in [("pentium3", 0x186), ("pentium-m", 0x186), ("yonah", 0x186)] {
        let mut machine = Stepped::<B>::new(model, 1);
        machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
        machine.sleep();
        let another_s = 0x0041_0079;
        machine.client.write(0, select, another_s);
        machine.client.model.others_wrote_registers();
        machine.spurious_interrupt(0);
        assert_eq!(machine.client.read(0, select), another_s, "{model}");
    }
}

/// A bit that stayed set would raise the interrupt again at once.
fn an_interrupt_without_an_overflow_clears_the_bits_of_our_counters<B: Backend>() {
    // Fixed counter 0 and general counter 0.
    for (model, set, status, bit) in
        [("skylake", 0x391, 0x38E, 1 << 32), ("zen4", 0xC000_0303, 0xC000_0300, 1)]
    {
        let mut machine = Stepped::<B>::new(model, 1);
        machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
        let processor = machine.processor(0);
        processor.wrmsr(set, bit).expect("a status register");
        machine.spurious_interrupt(0);
        let left = machine.processor(0).rdmsr(status).expect("a register");
        assert_eq!(left & bit, 0, "{model}");
        assert_eq!(machine.statistics().stored, 0, "{model}");
    }
}

/// NetBurst's counters interrupt one event late, so they are preset one event early: what is found
/// in between is no period yet.
fn an_overflow_one_event_early_is_no_sample<B: Backend>() {
    let mut machine = Stepped::<B>::new("pentium4", 1);
    machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
    machine.retire(0, &[(Event::Instructions, PERIOD - 1)]);
    machine.spurious_interrupt(0);
    let statistics = machine.statistics();
    assert_eq!((statistics.generated, statistics.stored), (0, 0));
    machine.retire(0, &[(Event::Instructions, PERIOD + 200)]);
    machine.spurious_interrupt(0);
    let statistics = machine.statistics();
    assert_eq!((statistics.generated, statistics.stored), (1, 1));
    machine.stop();
    assert_eq!(machine.counted()[0], PERIOD + 200);
}

/// A counter is never preset closer than 128 events to its overflow, so a late interrupt can leave a
/// period without one of its own.
fn a_period_that_ends_without_an_overflow_is_told_as_missed<B: Backend>() {
    for (late, more, generated) in [(4_990, 15, 2), (4_990, 5, 1), (4_500, 400, 1)] {
        let mut machine = Stepped::<B>::new("skylake", 1);
        machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
        machine.retire(0, &[(Event::Instructions, PERIOD + late)]);
        assert!(machine.take_interrupt(0));
        machine.retire(0, &[(Event::Instructions, PERIOD + late + more)]);
        assert!(!machine.take_interrupt(0), "no overflow");
        machine.stop();
        let statistics = machine.statistics();
        assert_eq!((statistics.generated, statistics.stored), (generated, 1));
        let missed = LossCause::Missed as usize;
        assert_eq!(statistics.lost[missed], generated - 1);
        assert_eq!(statistics.lost_events[missed], (generated - 1) * PERIOD);
    }
}

const LVTPC: u32 = 0x340;
const MASK: u32 = 1 << 16;

fn mask_lvtpc<B: Backend>(machine: &mut Stepped<B>) {
    let processor = machine.processor(0);
    let entry = processor.read_apic(LVTPC).expect("xAPIC mode");
    processor.write_apic(LVTPC, entry | MASK).expect("LVTPC");
}

fn is_masked<B: Backend>(machine: &mut Stepped<B>) -> bool {
    let entry = machine.processor(0).read_apic(LVTPC);
    entry.expect("xAPIC mode") & MASK != 0
}

/// On a processor that is not used, because there are too many CPU types, another owner's counter may
/// interrupt.
fn lvtpc_does_not_stay_masked_on_a_processor_of_an_eighth_kind<B: Backend>() {
    let skylake = first("skylake");
    let counters = |n: u32| with(&skylake, 0xA, |leaf| leaf.eax = leaf.eax & !0xFF00 | n << 8);
    let eight: Vec<_> = (1..=8).map(counters).collect();
    let mut machine = Stepped::<B>::of(&eight);
    machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
    for index in [0, 7] {
        let processor = machine.processor(index);
        let entry = processor.read_apic(LVTPC).expect("xAPIC mode");
        processor.write_apic(LVTPC, entry | MASK).expect("LVTPC");
        machine.spurious_interrupt(index);
        let now = machine.processor(index).read_apic(LVTPC);
        assert_eq!(now.expect("xAPIC mode"), entry, "{index}");
    }
}

/// Only a session with a handler may unmask LVTPC: otherwise nothing would answer, or the HAL has
/// masked it for a reason.
fn lvtpc_is_left_to_the_hal_without_a_handler_of_our_own<B: Backend>() {
    for (flags, stays) in [(0, true), (SAMPLE, false)] {
        let mut machine = Stepped::<B>::new("skylake", 1);
        machine.configure(flags, &[sampled(TOTAL_ISSUES)], 0);
        mask_lvtpc(&mut machine);
        machine.start();
        assert_eq!(is_masked(&mut machine), stays, "start, {flags}");
        // An overflow for which no interrupt comes.
        mask_lvtpc(&mut machine);
        machine.retire(0, &[(Event::Instructions, PERIOD + 1)]);
        machine.tick();
        assert_eq!(is_masked(&mut machine), stays, "tick, {flags}");
        machine.sleep();
        machine.lose_registers();
        mask_lvtpc(&mut machine);
        machine.wake();
        assert_eq!(is_masked(&mut machine), stays, "waking, {flags}");
        mask_lvtpc(&mut machine);
        machine.stop();
        assert_eq!(is_masked(&mut machine), stays, "stop, {flags}");
    }
}

/// The counters that a storm has stopped may have just overflowed, and the storm may go on later.
fn after_a_storm_lvtpc_stays_masked<B: Backend>() {
    const FIXED_CTR0: u32 = 0x309;
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
    for _ in 0..100 {
        machine.spurious_interrupt(0);
    }
    assert!(is_masked(&mut machine));
    machine.pass(40_000_000);
    machine.spurious_interrupt(0);
    assert!(is_masked(&mut machine), "one more interrupt");
    let processor = machine.processor(0);
    processor.wrmsr(FIXED_CTR0, 5).expect("a counter");
    assert!(machine.try_stop().is_some());
    assert!(is_masked(&mut machine), "a last look at the counters");
}

/// AMD's local APIC does not mask LVTPC on delivery: a second counter that overflows before the
/// handler looks leaves an interrupt pending that finds nothing. Under load this happens often.
fn two_overflows_in_one_interrupt_are_no_storm<B: Backend>() {
    const ROUNDS: u64 = 300;
    for model in ["k8", "zen2", "zen4"] {
        let mut machine = Stepped::<B>::new(model, 1);
        machine.run(SAMPLE, &[TOTAL_ISSUES, BRANCH_INSTRUCTIONS].map(sampled));
        let before = machine.statistics().spurious;
        for round in 1..=ROUNDS {
            let to = round * PERIOD + 1000;
            machine.retire(0, &[(Event::Instructions, to)]);
            let accepted = machine.processor(0).acknowledge_interrupt();
            assert!(accepted.is_some(), "{model}, {round}");
            machine.retire(0, &[(Event::Branches, to)]);
            machine.spurious_interrupt(0);
            while machine.take_interrupt(0) {}
        }
        let statistics = machine.statistics();
        let told = (statistics.generated, statistics.ended);
        assert_eq!(told, (2 * ROUNDS, 0), "{model}");
        assert_eq!(statistics.spurious - before, ROUNDS, "{model}");
        machine.stop();
    }
}

/// What comes when no session runs belongs to nobody: there is no budget that it could exceed.
fn an_interrupt_after_the_session_is_not_charged_to_it<B: Backend>() {
    for model in EVERY_DESIGN {
        let mut machine = Stepped::<B>::new(model, 1);
        machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
        machine.stop();
        let before = machine.statistics();
        machine.spurious_interrupt(0);
        let after = machine.statistics();
        let limits = |one: &Statistics| (one.throttled, one.longest_period);
        assert_eq!(limits(&before), (0, PERIOD), "{model}");
        assert_eq!(limits(&after), (0, PERIOD), "{model}");
    }
}

/// A hypervisor that masks LVTPC on AMD: the second counter overflows while the handler examines the
/// first, before LVTPC is unmasked.
fn an_overflow_behind_a_masked_lvtpc_is_not_lost<B: Backend>() {
    for model in ["zen2", "zen4", "yonah"] {
        let mut machine = Stepped::<B>::of(&[with_quirks(&first(model), "hypervisor-masks")]);
        machine.run(SAMPLE, &[TOTAL_ISSUES, BRANCH_INSTRUCTIONS].map(sampled));
        for round in 1..=20 {
            let to = round * PERIOD + 1000;
            machine.retire(0, &[(Event::Instructions, to)]);
            let cpu = machine.cpu(0);
            let accepted = cpu.processor.acknowledge_interrupt();
            assert!(accepted.is_some(), "{model}, {round}");
            let mut counts: Counts = *cpu.processor.counts();
            counts.set(Event::Branches, to, to);
            cpu.before_lvtpc = Some(counts);
            machine.spurious_interrupt(0);
            while machine.take_interrupt(0) {}
            let generated = machine.statistics().generated;
            assert_eq!(generated, 2 * round, "{model}");
        }
        machine.stop();
    }
}

/// A late interrupt leaves 110 events of the next period, and Nehalem's counters lose interrupts
/// below 128 (Linux, arch/x86/events/intel/core.c, nhm_limit_period).
fn no_reload_is_shorter_than_a_counter_takes<B: Backend>() {
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.run(SAMPLE, &[sampled(BRANCH_INSTRUCTIONS)]);
    machine.retire(0, &[(Event::Branches, 2 * PERIOD - 110)]);
    assert!(machine.take_interrupt(0));
    assert_eq!(machine.client.read(0, 0xC1), (1 << 48) - 128);
}

/// Somebody sets FREEZE_PERFMON_ON_PMI in the middle, and the first interrupt is lost: the poll finds
/// the freeze, and from then on each interrupt ends its own.
fn a_freeze_that_begins_in_a_session_ends_with_each_overflow<B: Backend>() {
    const DEBUGCTL: u32 = 0x1D9;
    const FREEZE_PERFMON_ON_PMI: u64 = 1 << 12;
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.run(SAMPLE, &[sampled(TOTAL_ISSUES)]);
    machine.client.write(0, DEBUGCTL, FREEZE_PERFMON_ON_PMI);
    machine.client.model.others_wrote_registers();
    machine.pass(PERIOD);
    machine.retire(0, &[(Event::Instructions, PERIOD)]);
    let _lost = machine.processor(0).acknowledge_interrupt();
    machine.tick();
    assert_eq!(machine.statistics().lost[LossCause::Missed as usize], 1);
    for round in 2..=5 {
        machine.pass(PERIOD);
        machine.retire(0, &[(Event::Instructions, round * PERIOD)]);
        assert!(machine.take_interrupt(0), "{round}");
    }
    assert_eq!(machine.statistics().generated, 5);
}
