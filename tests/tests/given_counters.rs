//! Does a session use only its own counters, and show only what its client may see?

use hal_profile::run::overflow::Interrupted;
use halprof_tests::bare::Bare;
use halprof_tests::requests::spec;
use halprof_tests::wire::Wire;
use shared_types::request::session::{SAMPLE, STOP, Spec};
use shared_types::{ErrorCode, LossCause, Mode};
use sim::cpu::event::Event;

const TOTAL_ISSUES: u32 = 0x02;
const BRANCHES: u32 = 0x06;
const TOTAL_CYCLES: u32 = 0x13;
const FIXED_INSTRUCTIONS: u32 = 0x8000_0100;
const FIXED_CYCLES: u32 = 0x8000_0101;
const FIXED_REFERENCE_CYCLES: u32 = 0x8000_0102;
const FIXED_CTR_CTRL: u32 = 0x38D;
const PERIOD: u64 = 5_000;

fn sampled(source: u32) -> Spec {
    Spec { interval: PERIOD, ..spec(source) }
}

fn user(spec: Spec) -> Spec {
    Spec { filter: Spec::USER, ..spec }
}

fn fixed_control(bare: &mut Bare) -> u64 {
    let control = bare.cpu(0).processor.rdmsr(FIXED_CTR_CTRL);
    control.expect("version 2")
}

/// A Skylake on which someone has enabled fixed counters.
fn with_fixed_on(control: u64) -> Bare {
    let mut bare = Bare::new("skylake", 1);
    let write = bare.cpu(0).processor.wrmsr(FIXED_CTR_CTRL, control);
    write.expect("version 2");
    bare
}

/// Instructions and core cycles have event selects that count the same (SDM, "Architectural
/// Performance Monitoring Events": C0/00 and 3C/00).
#[test]
fn what_a_taken_fixed_counter_counts_a_general_one_counts_too() {
    let mut bare = with_fixed_on(0x033);
    let specs = [TOTAL_ISSUES, TOTAL_CYCLES, FIXED_INSTRUCTIONS, FIXED_CYCLES].map(spec);
    bare.configure(0, &specs, 0);
    bare.start();
    bare.retire(0, &[(Event::Instructions, 70_001), (Event::Cycles, 90_001)]);
    bare.stop();
    let counted: Vec<u64> = bare.snapshot().iter().map(|count| count.counted).collect();
    assert_eq!(counted, [70_001, 90_001, 70_001, 90_001]);
    assert_eq!(fixed_control(&mut bare), 0x033);
    assert_eq!(bare.cpu(0).faults, []);
}

/// Reference cycles at the rate of the time stamps do not have an event select on every processor.
#[test]
fn what_only_a_taken_fixed_counter_counts_is_refused() {
    let taken = ErrorCode::FixedCounterTaken as u32;
    let mut bare = with_fixed_on(0x300);
    for flags in [0, SAMPLE] {
        let reply = bare.try_configure(flags, &[sampled(FIXED_REFERENCE_CYCLES)], 0);
        let told = (reply.error, reply.subject, reply.detail);
        assert_eq!(told, (taken, FIXED_REFERENCE_CYCLES, 0));
    }
    // The others are free.
    bare.configure(0, &[FIXED_INSTRUCTIONS, FIXED_CYCLES].map(spec), 0);
    bare.start();
    assert_eq!(fixed_control(&mut bare), 0x333);
    bare.stop();
    assert_eq!(fixed_control(&mut bare), 0x300);
}

/// The counter was free when the session was configured.
#[test]
fn a_fixed_counter_that_was_taken_meanwhile_starts_nothing() {
    let mut bare = Bare::new("skylake", 1);
    bare.configure(0, &[spec(FIXED_INSTRUCTIONS)], 0);
    let on = 0x003;
    bare.cpu(0).processor.wrmsr(FIXED_CTR_CTRL, on).expect("version 2");
    let reply = bare.try_start();
    assert_eq!(reply.error, ErrorCode::FixedCounterTaken as u32);
    assert_eq!((reply.subject, reply.detail), (FIXED_INSTRUCTIONS, 0));
    assert_eq!(fixed_control(&mut bare), on);
    // When configured again, the source gets a general counter.
    bare.configure(0, &[spec(FIXED_INSTRUCTIONS)], 0);
    bare.start();
    bare.retire(0, &[(Event::Instructions, 1_234)]);
    assert_eq!(bare.snapshot()[0].counted, 1_234);
}

/// The refusal names the source and the processor, as START's does.
#[test]
fn a_fixed_counter_that_was_taken_during_sleep_ends_the_session() {
    let mut bare = Bare::new("skylake", 2);
    bare.configure(0, &[spec(BRANCHES), spec(FIXED_INSTRUCTIONS)], 0);
    bare.start();
    bare.service.suspend();
    let on = bare.cpu(1).processor.wrmsr(FIXED_CTR_CTRL, 0x003);
    on.expect("version 2");
    bare.service.resume();
    let reply = bare.try_about_session(STOP);
    let told = (reply.error, reply.subject, reply.detail);
    let taken = ErrorCode::FixedCounterTaken as u32;
    assert_eq!(told, (taken, FIXED_INSTRUCTIONS, 1));
    bare.configure(SAMPLE, &[sampled(TOTAL_CYCLES)], 0);
    bare.start();
    bare.service.suspend();
    let on = bare.cpu(1).processor.wrmsr(FIXED_CTR_CTRL, 0x030);
    on.expect("version 2");
    bare.service.resume();
    let statistics = bare.statistics();
    let told = (statistics.ended, statistics.ended_processor);
    assert_eq!(told, (taken, 1));
}

/// SeDebugPrivilege is required where kernel addresses would be visible, and nowhere else.
#[test]
fn kernel_addresses_need_more_than_the_right_to_count_kernel_mode() {
    let mut bare = Bare::new("skylake", 1);
    bare.client.kernel_addresses = false;
    let refused = bare.try_configure(SAMPLE, &[sampled(TOTAL_ISSUES)], 0);
    let code = ErrorCode::KernelAddressesNotGranted as u32;
    assert_eq!((refused.error, refused.subject), (code, TOTAL_ISSUES));
    let kernel = Spec { filter: Spec::KERNEL, ..sampled(TOTAL_ISSUES) };
    assert_eq!(bare.try_configure(SAMPLE, &[kernel], 0).error, code);
    bare.configure(0, &[kernel], 0);
    bare.configure(SAMPLE, &[user(sampled(TOTAL_ISSUES))], 0);
    bare.client.kernel_addresses = true;
    bare.configure(SAMPLE, &[kernel], 0);
}

/// A late interrupt of user code can interrupt kernel code.
#[test]
fn a_late_interrupt_shows_no_kernel_address() {
    const IN_KERNEL: Interrupted =
        Interrupted { ip: 0xFFFF_F800_1234_5678, mode: Mode::Kernel, process: 4, thread: 8 };
    for (may, stored) in [(false, 0), (true, 1)] {
        let mut bare = Bare::new("skylake", 1);
        bare.client.kernel_addresses = may;
        bare.configure(SAMPLE, &[user(sampled(TOTAL_ISSUES))], 0);
        bare.start();
        bare.retire(0, &[(Event::Instructions, PERIOD + 1)]);
        assert!(bare.cpu(0).processor.acknowledge_interrupt().is_some());
        bare.service.processors().interrupt(0, &IN_KERNEL);
        let statistics = bare.statistics();
        assert_eq!((statistics.generated, statistics.stored), (1, stored));
        let hidden = LossCause::KernelHidden as usize;
        assert_eq!(statistics.lost[hidden], 1 - stored);
        assert_eq!(statistics.lost_events[hidden], PERIOD * (1 - stored));
        assert_eq!(bare.drain().len() as u64, stored);
    }
}

/// One fixed counter is taken, and the other source is on its own.
#[test]
fn a_taken_fixed_counter_says_nothing_of_the_others() {
    for (control, fixed) in [(0x003, 0x030), (0x030, 0x003)] {
        let mut bare = with_fixed_on(control);
        bare.configure(0, &[FIXED_INSTRUCTIONS, FIXED_CYCLES].map(spec), 0);
        bare.start();
        assert_eq!(fixed_control(&mut bare), control | fixed);
        bare.retire(0, &[(Event::Instructions, 70_001), (Event::Cycles, 90_001)]);
        bare.stop();
        let counted: Vec<u64> = bare.snapshot().iter().map(|count| count.counted).collect();
        assert_eq!(counted, [70_001, 90_001]);
    }
}

/// Whatever comes before it in the list, the source is named whose counter is taken, and the
/// processor.
#[test]
fn the_source_whose_counter_is_taken_is_named() {
    let specs = [BRANCHES, FIXED_REFERENCE_CYCLES].map(spec);
    let named = |reply: shared_types::ReplyHeader| {
        let error = ErrorCode::from_wire(reply.error).expect("a refusal");
        (error, reply.subject, reply.detail)
    };
    let expected = (ErrorCode::FixedCounterTaken, FIXED_REFERENCE_CYCLES, 0);
    let mut bare = with_fixed_on(0x300);
    assert_eq!(named(bare.try_configure(0, &specs, 0)), expected);
    let mut bare = Bare::new("skylake", 1);
    bare.configure(0, &specs, 0);
    let write = bare.cpu(0).processor.wrmsr(FIXED_CTR_CTRL, 0x300);
    write.expect("version 2");
    assert_eq!(named(bare.try_start()), expected);
}

/// What the running session uses is not somebody else's.
#[test]
fn a_running_session_takes_no_fixed_counter_from_another_configuration() {
    let mut wire = Wire::new("skylake", 1);
    wire.run(spec(FIXED_REFERENCE_CYCLES), 0);
    let second = wire.open();
    wire.configure(second, &[spec(FIXED_REFERENCE_CYCLES)]);
}

/// Of the program's counters only those that are on when it takes them: EN is bit 22.
#[test]
fn a_general_counter_that_was_off_is_not_told_as_found() {
    for (on, found) in [(None, 0), (Some(0x187), 0b10), (Some(0x189), 0)] {
        let mut bare = Bare::new("skylake", 1);
        let processor = &mut bare.cpu(0).processor;
        // Others are set up and off.
        processor.wrmsr(0x186, 0x0001_003C).expect("a select");
        if let Some(msr) = on {
            processor.wrmsr(msr, 0x0041_003C).expect("a select");
        }
        bare.configure(0, &[0, 1].map(|mask| Spec::of_raw(0xC4 | mask << 8)), 0);
        bare.start();
        assert_eq!(bare.described()[0].counters_in_use, found, "{on:x?}");
    }
}
