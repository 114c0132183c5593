//! What does an interrupt do that is not a simple overflow of one counter: one that no one
//! requested, or one that the HAL handles for another counter?

use hal_profile::cpu::capabilities::Capabilities;
use hal_profile::cpu::counter::Counter;
use hal_profile::plan::counter_config::{Active, CounterConfig};
use hal_profile::run::pmu;
use hal_profile::source::encode::Encoding;
use halprof_tests::bare::Bare;
use halprof_tests::branches::with;
use halprof_tests::requests::spec;
use halprof_tests::wire::leaves;
use shared_types::LossCause;
use shared_types::request::samples::Statistics;
use shared_types::request::session::{SAMPLE, STOP, Spec};
use sim::cpu::event::{Counts, Event};
use sim::quirks::Quirks;

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
#[test]
fn an_interrupt_without_an_overflow_is_told_and_nothing_else() {
    for model in EVERY_DESIGN {
        let mut bare = Bare::new(model, 1);
        bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
        bare.start();
        bare.spurious_interrupt(0);
        for round in 1..=3 {
            bare.retire(0, &[(Event::Instructions, round * PERIOD)]);
            assert!(bare.take_interrupt(0), "{model} {round}");
        }
        bare.retire(0, &[(Event::Instructions, 3 * PERIOD + 7)]);
        bare.spurious_interrupt(0);
        let statistics = bare.statistics();
        assert_eq!(statistics.spurious, 2, "{model}");
        assert_eq!((statistics.generated, statistics.stored), (3, 3), "{model}");
        bare.stop();
        assert_eq!(bare.snapshot()[0].counted, 3 * PERIOD + 7, "{model}");
    }
}

/// At 1 GHz a window of the guard is 10 ms long, and interrupts may take 1 ms of it.
fn slow_interrupt(bare: &mut Bare, nanoseconds: u64) {
    bare.cpu(0).interrupt_cost = nanoseconds;
    bare.spurious_interrupt(0);
}

#[test]
fn an_interrupt_without_an_overflow_is_held_to_the_budget_too() {
    let mut bare = Bare::new("zen4", 1);
    bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
    bare.start();
    slow_interrupt(&mut bare, 600_000);
    slow_interrupt(&mut bare, 600_000);
    let statistics = bare.statistics();
    assert_eq!((statistics.throttled, statistics.handler_ticks), (1, 1_200_000));
    assert_eq!(statistics.longest_period, 2 * PERIOD);
}

#[test]
fn a_session_does_not_pay_for_the_one_before() {
    let mut bare = Bare::new("zen4", 1);
    bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
    for _ in 0..2 {
        bare.start();
        slow_interrupt(&mut bare, 600_000);
        let statistics = bare.statistics();
        assert_eq!((statistics.throttled, statistics.handler_ticks), (0, 600_000));
        bare.stop();
    }
}

/// SDM vol. 3B, "IA32_PERF_GLOBAL_CTRL": one bit for each general counter from bit 0, and for each
/// fixed counter from bit 32.
#[test]
fn the_handler_stops_our_counters_together_and_no_others() {
    const GLOBAL_CTRL: u32 = 0x38F;
    for model in ["skylake", "sapphire-rapids"] {
        let mut bare = Bare::new(model, 1);
        let cpu = bare.cpu(0);
        let capabilities = Capabilities::discover(cpu);
        let active = [Counter::general(1), Counter::fixed(0)].map(|counter| {
            let counter = counter.expect("below 32");
            Active::new(&CounterConfig::new(&capabilities, counter, &Encoding::default()), 0)
        });
        let found = 0x3_0000_0007;
        cpu.processor.wrmsr(GLOBAL_CTRL, found).expect("version 4");
        let control = pmu::hold(cpu, &capabilities, &active, 1 << 32 | 2);
        assert_eq!(control, found);
        let stopped = cpu.processor.rdmsr(GLOBAL_CTRL);
        assert_eq!(stopped, Ok(0x2_0000_0005), "{model}");
        pmu::resume(cpu, &capabilities, &active, control, 0);
        assert_eq!(cpu.processor.rdmsr(GLOBAL_CTRL), Ok(found), "{model}");
        assert_eq!(cpu.faults, []);
    }
}

/// An interrupt that was already on its way when the counters were stopped.
#[test]
fn an_interrupt_after_the_counters_were_stopped_starts_none() {
    const EN: u64 = 1 << 22;
    for (model, select) in [
        ("k8", 0xC001_0000),
        ("zen4", 0xC001_0200),
        ("pentium3", 0x186),
        ("yonah", 0x186),
        ("skylake", 0x186),
    ] {
        let mut bare = Bare::new(model, 1);
        bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
        bare.start();
        bare.service.suspend();
        let asleep = bare.cpu(0).processor.rdmsr(select);
        bare.spurious_interrupt(0);
        let woken = bare.cpu(0).processor.rdmsr(select);
        assert_eq!(woken, asleep, "{model}");
        assert_eq!(woken.expect("a select") & EN, 0, "{model}");
    }
}

/// If no counter of ours is in use, P6's EN bit may belong to someone else.
#[test]
fn an_interrupt_where_nothing_of_ours_runs_changes_no_select() {
    for (model, select) in [("pentium3", 0x186), ("pentium-m", 0x186), ("yonah", 0x186)] {
        let mut bare = Bare::new(model, 1);
        bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
        bare.start();
        bare.service.suspend();
        let processor = &mut bare.cpu(0).processor;
        let another_s = 0x0041_0079;
        processor.wrmsr(select, another_s).expect("a select");
        bare.spurious_interrupt(0);
        assert_eq!(bare.cpu(0).processor.rdmsr(select), Ok(another_s), "{model}");
    }
}

/// A bit that stayed set would raise the interrupt again at once.
#[test]
fn an_interrupt_without_an_overflow_clears_the_bits_of_our_counters() {
    // Fixed counter 0 and general counter 0.
    for (model, set, status, bit) in
        [("skylake", 0x391, 0x38E, 1 << 32), ("zen4", 0xC000_0303, 0xC000_0300, 1)]
    {
        let mut bare = Bare::new(model, 1);
        bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
        bare.start();
        let processor = &mut bare.cpu(0).processor;
        processor.wrmsr(set, bit).expect("a status register");
        bare.spurious_interrupt(0);
        let left = bare.cpu(0).processor.rdmsr(status).expect("a register");
        assert_eq!(left & bit, 0, "{model}");
        assert_eq!(bare.statistics().stored, 0, "{model}");
    }
}

/// NetBurst's counters interrupt one event late, so they are preset one event early: what is found
/// in between is no period yet.
#[test]
fn an_overflow_one_event_early_is_no_sample() {
    let mut bare = Bare::new("pentium4", 1);
    bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
    bare.start();
    bare.retire(0, &[(Event::Instructions, PERIOD - 1)]);
    bare.spurious_interrupt(0);
    let statistics = bare.statistics();
    assert_eq!((statistics.generated, statistics.stored), (0, 0));
    bare.retire(0, &[(Event::Instructions, PERIOD + 200)]);
    bare.spurious_interrupt(0);
    let statistics = bare.statistics();
    assert_eq!((statistics.generated, statistics.stored), (1, 1));
    bare.stop();
    assert_eq!(bare.snapshot()[0].counted, PERIOD + 200);
}

/// A counter is never preset closer than 128 events to its overflow, so a late interrupt can leave a
/// period without one of its own.
#[test]
fn a_period_that_ends_without_an_overflow_is_told_as_missed() {
    for (late, more, generated) in [(4_990, 15, 2), (4_990, 5, 1), (4_500, 400, 1)] {
        let mut bare = Bare::new("skylake", 1);
        bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
        bare.start();
        bare.retire(0, &[(Event::Instructions, PERIOD + late)]);
        assert!(bare.take_interrupt(0));
        bare.retire(0, &[(Event::Instructions, PERIOD + late + more)]);
        assert!(!bare.take_interrupt(0), "no overflow");
        bare.stop();
        let statistics = bare.statistics();
        assert_eq!((statistics.generated, statistics.stored), (generated, 1));
        let missed = LossCause::Missed as usize;
        assert_eq!(statistics.lost[missed], generated - 1);
        assert_eq!(statistics.lost_events[missed], (generated - 1) * PERIOD);
    }
}

const LVTPC: u32 = 0x340;
const MASK: u32 = 1 << 16;

fn mask_lvtpc(bare: &mut Bare) {
    let processor = &mut bare.cpu(0).processor;
    let entry = processor.read_apic(LVTPC).expect("xAPIC mode");
    processor.write_apic(LVTPC, entry | MASK).expect("LVTPC");
}

fn is_masked(bare: &mut Bare) -> bool {
    let entry = bare.cpu(0).processor.read_apic(LVTPC);
    entry.expect("xAPIC mode") & MASK != 0
}

/// On a processor that is not used, because there are too many CPU types, another owner's counter may
/// interrupt.
#[test]
fn lvtpc_does_not_stay_masked_on_a_processor_of_an_eighth_kind() {
    let skylake = leaves("skylake", 1).remove(0);
    let counters = |n: u32| with(&skylake, 0xA, |leaf| leaf.eax = leaf.eax & !0xFF00 | n << 8);
    let machine: Vec<_> = (1..=8).map(counters).collect();
    let mut bare = Bare::of(&machine);
    bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
    bare.start();
    for index in [0, 7] {
        let processor = &mut bare.cpu(index).processor;
        let entry = processor.read_apic(LVTPC).expect("xAPIC mode");
        processor.write_apic(LVTPC, entry | MASK).expect("LVTPC");
        bare.spurious_interrupt(index);
        let now = bare.cpu(index).processor.read_apic(LVTPC);
        assert_eq!(now.expect("xAPIC mode"), entry, "{index}");
    }
}

/// Only a session with a handler may unmask LVTPC: otherwise nothing would answer, or the HAL has
/// masked it for a reason.
#[test]
fn lvtpc_is_left_to_the_hal_without_a_handler_of_our_own() {
    for (flags, stays) in [(0, true), (SAMPLE, false)] {
        let mut bare = Bare::new("skylake", 1);
        bare.configure(flags, &[sampled(TOTAL_ISSUES)], 0);
        mask_lvtpc(&mut bare);
        bare.start();
        assert_eq!(is_masked(&mut bare), stays, "start, {flags}");
        // An overflow for which no interrupt comes.
        mask_lvtpc(&mut bare);
        bare.retire(0, &[(Event::Instructions, PERIOD + 1)]);
        bare.service.processors().tick(0);
        assert_eq!(is_masked(&mut bare), stays, "tick, {flags}");
        bare.service.suspend();
        let processor = &mut bare.cpu(0).processor;
        processor.reset();
        processor.boot_windows();
        mask_lvtpc(&mut bare);
        bare.service.resume();
        assert_eq!(is_masked(&mut bare), stays, "waking, {flags}");
        mask_lvtpc(&mut bare);
        bare.stop();
        assert_eq!(is_masked(&mut bare), stays, "stop, {flags}");
    }
}

/// The counters that a storm has stopped may have just overflowed, and the storm may go on later.
#[test]
fn after_a_storm_lvtpc_stays_masked() {
    const FIXED_CTR0: u32 = 0x309;
    let mut bare = Bare::new("skylake", 1);
    bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
    bare.start();
    for _ in 0..100 {
        bare.spurious_interrupt(0);
    }
    assert!(is_masked(&mut bare));
    let processor = &mut bare.cpu(0).processor;
    processor.set_timestamp(processor.timestamp() + 40_000_000);
    bare.spurious_interrupt(0);
    assert!(is_masked(&mut bare), "one more interrupt");
    let processor = &mut bare.cpu(0).processor;
    processor.wrmsr(FIXED_CTR0, 5).expect("a counter");
    assert_ne!(bare.try_about_session(STOP).error, 0);
    assert!(is_masked(&mut bare), "a last look at the counters");
}

/// AMD's local APIC does not mask LVTPC on delivery: a second counter that overflows before the
/// handler looks leaves an interrupt pending that finds nothing. Under load this happens often.
#[test]
fn two_overflows_in_one_interrupt_are_no_storm() {
    const ROUNDS: u64 = 300;
    for model in ["k8", "zen2", "zen4"] {
        let mut bare = Bare::new(model, 1);
        bare.configure(SAMPLE, &[TOTAL_ISSUES, BRANCH_INSTRUCTIONS].map(sampled), 0);
        bare.start();
        let before = bare.statistics().spurious;
        for round in 1..=ROUNDS {
            let to = round * PERIOD + 1000;
            bare.retire(0, &[(Event::Instructions, to)]);
            let accepted = bare.cpu(0).processor.acknowledge_interrupt();
            assert!(accepted.is_some(), "{model}, {round}");
            bare.retire(0, &[(Event::Branches, to)]);
            bare.spurious_interrupt(0);
            assert!(bare.take_interrupt(0), "{model}, {round}");
        }
        let statistics = bare.statistics();
        let told = (statistics.generated, statistics.ended);
        assert_eq!(told, (2 * ROUNDS, 0), "{model}");
        assert_eq!(statistics.spurious - before, ROUNDS, "{model}");
        bare.stop();
    }
}

/// What comes when no session runs belongs to nobody: there is no budget that it could exceed.
#[test]
fn an_interrupt_after_the_session_is_not_charged_to_it() {
    for model in EVERY_DESIGN {
        let mut bare = Bare::new(model, 1);
        bare.configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
        bare.start();
        bare.stop();
        let before = bare.statistics();
        bare.spurious_interrupt(0);
        let after = bare.statistics();
        let limits = |one: &Statistics| (one.throttled, one.longest_period);
        assert_eq!(limits(&before), (0, PERIOD), "{model}");
        assert_eq!(limits(&after), (0, PERIOD), "{model}");
    }
}

/// A hypervisor that masks LVTPC on AMD: the second counter overflows while the handler examines the
/// first, before LVTPC is unmasked.
#[test]
fn an_overflow_behind_a_masked_lvtpc_is_not_lost() {
    for model in ["zen2", "zen4", "yonah"] {
        let model = sim::machines::models::find(model).expect("a model");
        let masks = Quirks::parse("hypervisor-masks").expect("one");
        let leaves = model.processors()[0].with_quirks(masks);
        let mut bare = Bare::of(&[leaves]);
        bare.configure(SAMPLE, &[TOTAL_ISSUES, BRANCH_INSTRUCTIONS].map(sampled), 0);
        bare.start();
        for round in 1..=20 {
            let to = round * PERIOD + 1000;
            bare.retire(0, &[(Event::Instructions, to)]);
            let cpu = bare.cpu(0);
            let accepted = cpu.processor.acknowledge_interrupt();
            assert!(accepted.is_some(), "{}, {round}", model.name);
            let mut counts: Counts = *cpu.processor.counts();
            counts.set(Event::Branches, to, to);
            cpu.before_lvtpc = Some(counts);
            bare.spurious_interrupt(0);
            while bare.take_interrupt(0) {}
            let generated = bare.statistics().generated;
            assert_eq!(generated, 2 * round, "{}", model.name);
        }
        bare.stop();
    }
}
