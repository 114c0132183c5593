//! Does a session use only its own counters, and show only what its client may see?

use crate::backend::Backend;
use crate::requests::spec;
use crate::stepped::Stepped;
use crate::wire::RawClient;
use hal_profile::run::overflow::Interrupted;
use shared_types::request::session::{SAMPLE, Spec};
use shared_types::{ErrorCode, LossCause, Mode};
use sim::cpu::event::Event;

scenarios![
    what_a_taken_fixed_counter_counts_a_general_one_counts_too,
    what_only_a_taken_fixed_counter_counts_is_refused_by_name,
    a_fixed_counter_that_was_taken_meanwhile_starts_nothing,
    a_fixed_counter_that_was_taken_during_sleep_ends_the_session,
    kernel_addresses_need_more_than_the_right_to_count_kernel_mode,
    a_late_interrupt_shows_no_kernel_address,
    a_running_session_takes_no_fixed_counter_from_another_configuration,
    a_general_counter_that_was_off_is_not_told_as_found,
];

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

/// A Skylake on which someone has enabled fixed counters.
fn with_fixed_on<B: Backend>(control: u64) -> Stepped<B> {
    let mut machine = Stepped::new("skylake", 1);
    machine.client.write(0, FIXED_CTR_CTRL, control);
    machine
}

/// Instructions and core cycles have event selects that count the same (SDM, "Architectural
/// Performance Monitoring Events": C0/00 and 3C/00). The owner's bits stay, and so does what they
/// leave free.
fn what_a_taken_fixed_counter_counts_a_general_one_counts_too<B: Backend>() {
    // The last owner counts kernel mode alone.
    for (theirs, ours) in [(0x033, 0x000), (0x003, 0x030), (0x030, 0x003), (0x001, 0x030)] {
        let mut machine = with_fixed_on::<B>(theirs);
        let sources = [TOTAL_ISSUES, TOTAL_CYCLES, FIXED_INSTRUCTIONS, FIXED_CYCLES];
        machine.run(0, &sources.map(spec));
        assert_eq!(machine.client.read(0, FIXED_CTR_CTRL), theirs | ours);
        machine.pass(90_001);
        machine.retire(0, &[(Event::Instructions, 70_001), (Event::Cycles, 90_001)]);
        machine.stop();
        assert_eq!(machine.counted(), [70_001, 90_001, 70_001, 90_001], "{theirs:#x}");
        assert_eq!(machine.client.read(0, FIXED_CTR_CTRL), theirs);
    }
}

/// Reference cycles at the rate of the time stamps do not have an event select on every processor.
/// Whatever comes before it in the list, the source is named, and the processor.
fn what_only_a_taken_fixed_counter_counts_is_refused_by_name<B: Backend>() {
    let taken = Some((ErrorCode::FixedCounterTaken, FIXED_REFERENCE_CYCLES, 0));
    let mut machine = with_fixed_on::<B>(0x300);
    for flags in [0, SAMPLE] {
        for specs in [&[FIXED_REFERENCE_CYCLES][..], &[BRANCHES, FIXED_REFERENCE_CYCLES]] {
            let specs: Vec<Spec> = specs.iter().copied().map(sampled).collect();
            assert_eq!(machine.try_configure(flags, &specs, 0), taken);
        }
    }
}

/// The counter was free when the session was configured.
fn a_fixed_counter_that_was_taken_meanwhile_starts_nothing<B: Backend>() {
    for before in [&[][..], &[BRANCHES]] {
        let mut machine = Stepped::<B>::new("skylake", 1);
        let specs: Vec<Spec> =
            before.iter().chain(&[FIXED_INSTRUCTIONS]).copied().map(spec).collect();
        machine.configure(0, &specs, 0);
        machine.client.write(0, FIXED_CTR_CTRL, 0x003);
        let taken = Some((ErrorCode::FixedCounterTaken, FIXED_INSTRUCTIONS, 0));
        assert_eq!(machine.try_start(), taken);
        assert_eq!(machine.client.read(0, FIXED_CTR_CTRL), 0x003);
        // When configured again, the source gets a general counter.
        machine.run(0, &specs);
        machine.retire(0, &[(Event::Instructions, 1_234)]);
        assert_eq!(machine.counted().last(), Some(&1_234));
    }
}

/// The refusal names the source and the processor, as START's does.
fn a_fixed_counter_that_was_taken_during_sleep_ends_the_session<B: Backend>() {
    let mut machine = Stepped::<B>::new("skylake", 2);
    let sleep = |machine: &mut Stepped<B>, control| {
        machine.sleep();
        machine.lose_registers();
        machine.client.write(1, FIXED_CTR_CTRL, control);
        machine.client.model.others_wrote_registers();
        machine.wake();
    };
    machine.run(0, &[spec(BRANCHES), spec(FIXED_INSTRUCTIONS)]);
    sleep(&mut machine, 0x003);
    let taken = Some((ErrorCode::FixedCounterTaken, FIXED_INSTRUCTIONS, 1));
    assert_eq!(machine.try_stop(), taken);
    machine.run(SAMPLE, &[sampled(TOTAL_CYCLES)]);
    sleep(&mut machine, 0x030);
    let statistics = machine.statistics();
    let ended = (statistics.ended, statistics.ended_processor);
    assert_eq!(ended, (ErrorCode::FixedCounterTaken as u32, 1));
}

/// A machine whose client lacks SeDebugPrivilege, unless it may see kernel addresses.
fn with_privilege<B: Backend>(may: bool) -> Stepped<B> {
    let mut machine = Stepped::<B>::new("skylake", 1);
    if !may {
        let handle = machine.client.handle.clone();
        machine.client.model.hide_kernel_addresses(&handle);
    }
    machine
}

/// SeDebugPrivilege is required where kernel addresses would be visible, and nowhere else.
fn kernel_addresses_need_more_than_the_right_to_count_kernel_mode<B: Backend>() {
    let both = sampled(TOTAL_ISSUES);
    let kernel = Spec { filter: Spec::KERNEL, ..both };
    for (may, flags, spec, granted) in [
        (false, SAMPLE, both, false),
        (false, SAMPLE, kernel, false),
        (false, SAMPLE, user(both), true),
        (false, 0, kernel, true),
        (true, SAMPLE, kernel, true),
    ] {
        let refused = with_privilege::<B>(may).try_configure(flags, &[spec], 0);
        let refused = refused.map(|(error, source, _)| (error, source));
        let hidden = (ErrorCode::KernelAddressesNotGranted, TOTAL_ISSUES);
        assert_eq!(refused, (!granted).then_some(hidden), "{may} {flags} {spec:?}");
    }
}

/// A late interrupt of user code can interrupt kernel code.
fn a_late_interrupt_shows_no_kernel_address<B: Backend>() {
    const IN_KERNEL: Interrupted =
        Interrupted { ip: 0xFFFF_F800_1234_5678, mode: Mode::Kernel, process: 4, thread: 8 };
    for (may, stored) in [(false, 0), (true, 1)] {
        let mut machine = with_privilege::<B>(may);
        machine.run(SAMPLE, &[user(sampled(TOTAL_ISSUES))]);
        machine.retire(0, &[(Event::Instructions, PERIOD + 1)]);
        assert!(machine.processor(0).acknowledge_interrupt().is_some());
        machine.interrupt(0, &IN_KERNEL);
        let statistics = machine.statistics();
        assert_eq!((statistics.generated, statistics.stored), (1, stored));
        let hidden = LossCause::KernelHidden as usize;
        assert_eq!(statistics.lost[hidden], 1 - stored);
        assert_eq!(statistics.lost_events[hidden], PERIOD * (1 - stored));
        assert_eq!(machine.drain().len() as u64, stored);
    }
}

/// What the running session uses is not somebody else's.
fn a_running_session_takes_no_fixed_counter_from_another_configuration<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    client.run(spec(FIXED_REFERENCE_CYCLES), 0);
    let second = client.open();
    client.configure(second, &[spec(FIXED_REFERENCE_CYCLES)]);
    client.end();
}

/// Of the program's counters only those that are on when it takes them: EN is bit 22.
fn a_general_counter_that_was_off_is_not_told_as_found<B: Backend>() {
    for (on, found) in [(None, 0), (Some(0x187), 0b10), (Some(0x189), 0)] {
        let mut machine = Stepped::<B>::new("skylake", 1);
        // Others are set up and off.
        machine.client.write(0, 0x186, 0x0001_003C);
        if let Some(msr) = on {
            machine.client.write(0, msr, 0x0041_003C);
        }
        machine.run(0, &[0, 1].map(|mask| Spec::of_raw(0xC4 | mask << 8)));
        assert_eq!(machine.described(0).counters_in_use, found, "{on:x?}");
    }
}
