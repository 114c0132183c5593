//! What START tries and is refused, though CPUID promises it: does the session take the other way where
//! there is one, and say which register is in the way where there is none? And are counters left alone
//! on which an owner who is gone has left something on?

use crate::backend::Backend;
use crate::branches::with;
use crate::machines::{count, on, sample, specs, workload};
use crate::requests::{configure, spec};
use crate::wire::{RawClient, first, leaves, with_quirks};
use hal_profile::cpu::machine::CR4_PCE;
use shared_types::ErrorCode::{CountersLeft, RdpmcUnavailable};
use shared_types::ProfileSource;
use shared_types::request::rdpmc;
use shared_types::request::session::{self, SAMPLE, START, STOP, Spec, THREADS};
use sim::cpu::cpuid::Leaves;

scenarios![
    without_rdpmc_counters_are_read_by_rdmsr,
    without_rdpmc_user_mode_does_not_get_it,
    without_rdpmc_threads_are_not_counted,
    a_counter_that_cannot_be_hidden_is_shown,
    counters_of_threads_are_shown,
    other_counters_are_taken_than_those_that_are_left,
    a_set_that_needs_a_counter_that_is_left_is_refused,
    a_counter_that_is_left_after_the_configuration_is_refused_at_start,
];

const TOTAL_ISSUES: u32 = 2;
const BRANCHES: u32 = 6;
const FIXED_CYCLES: u32 = 0x8000_0101;
const WORK: &str =
    "instructions=1000000,cycles=3000000,branches=200000,branch-misses=5000,ref-cycles=2500000";

/// One of each way to stop counters and to find what overflowed.
const MODELS: [&str; 8] =
    ["skylake", "haswell", "sapphire-rapids", "core2", "hybrid", "zen2", "zen4", "pentium3"];

/// The self-test, the samples and the totals read the same way, and no RDPMC is left to fault.
fn without_rdpmc_counters_are_read_by_rdmsr<B: Backend>() {
    for model in MODELS {
        let mut connection = on::<B>(&format!("{model},processors=1,quirks=refused-pmc"));
        let wanted = specs(&mut connection, "TotalIssues,BranchInstructions");
        let counts = &count(&mut connection, wanted, &workload(WORK))[0];
        assert_eq!((counts[0].counted, counts[1].counted), (1_000_000, 200_000), "{model}");
        let wanted = specs(&mut connection, "TotalIssues:10007,BranchInstructions:10007");
        let sampled = sample(&mut connection, wanted, &workload(WORK));
        assert_eq!((sampled.of(0, 0), sampled.of(0, 1)), (99, 19), "{model}");
        assert_eq!(sampled.counts[0][0].counted, 1_000_000, "{model}");
    }
}

/// A program's own RDPMC would end the program.
fn without_rdpmc_user_mode_does_not_get_it<B: Backend>() {
    for model in ["skylake", "zen4", "pentium3"] {
        let mut client = last_refuse_rdpmc::<B>(model);
        let number = client.open();
        let refusal = client.about(rdpmc::ALLOW, number).refusal();
        assert_eq!(refusal, Some((RdpmcUnavailable, 1, 0)), "{model}");
        let cr4 = client.model.cpus().iter().any(|cpu| cpu.processor.cr4() & CR4_PCE != 0);
        assert!(!cr4, "{model}");
        client.end();
    }
}

/// Windows would read the counters of threads by RDPMC.
fn without_rdpmc_threads_are_not_counted<B: Backend>() {
    for model in ["skylake", "zen4"] {
        let mut client = last_refuse_rdpmc::<B>(model);
        let by_thread = client.configured(THREADS, &[by_select(0xC4)]);
        let refusal = client.about(START, by_thread).refusal();
        assert_eq!(refusal, Some((RdpmcUnavailable, 1, 0)), "{model}");
        assert!(client.model.counted_by_thread().is_empty());
        client.end();
    }
}

/// Three processors, of which the first alone has RDPMC.
fn last_refuse_rdpmc<B: Backend>(model: &str) -> RawClient<B> {
    let refuses = with_quirks(&first(model), "refused-pmc");
    RawClient::of(&[first(model), refuses.clone(), refuses])
}

/// A source on one general counter, as sessions by threads need it.
fn by_select(code: u64) -> Spec {
    Spec { raw: code, counters: 0xF, ..spec(ProfileSource::RAW.0) }
}

/// A processor that CPUID says can hide its counters from user mode.
fn hides() -> Leaves {
    with(&leaves("hybrid", 1)[0], 0x23, |leaf| leaf.ebx |= 1 << 2)
}

fn a_counter_that_cannot_be_hidden_is_shown<B: Backend>() {
    let processor = with_quirks(&hides(), "refused-user-disable");
    let mut client = RawClient::<B>::of(std::slice::from_ref(&processor));
    let sources = [TOTAL_ISSUES, BRANCHES, FIXED_CYCLES];
    let number = client.configured(0, &sources.map(spec));
    client.granted(START, number);
    client.work(WORK);
    assert_eq!(counted(&mut client, number), [1_000_000, 200_000, 3_000_000]);
    // Another session's hold ends: nothing is hidden then either.
    client.granted(rdpmc::ALLOW, number);
    client.granted(rdpmc::RELEASE, number);
    client.work(WORK);
    assert_eq!(counted(&mut client, number), [2_000_000, 400_000, 6_000_000]);
    client.granted(STOP, number);
    client.end();
}

/// What each source of a session has counted on the first processor.
fn counted<B: Backend>(client: &mut RawClient<B>, number: u32) -> Vec<u64> {
    client.snapshot(number)[0].iter().map(|count| count.counted).collect()
}

/// Windows reads them for the threads, nobody documents how: hidden, they would read as 0 in user mode
/// without a fault.
fn counters_of_threads_are_shown<B: Backend>() {
    let mut client = RawClient::<B>::of(&[hides()]);
    let number = client.configured(THREADS, &[by_select(0xC4)]);
    client.granted(START, number);
    client.work(WORK);
    let processor = client.processor(0);
    processor.set_cr4(processor.cr4() | CR4_PCE);
    let in_user = (0..8).map(|counter| processor.rdpmc_in_user_mode(counter).unwrap_or(0));
    assert_eq!(in_user.max(), Some(200_000));
    processor.set_cr4(processor.cr4() & !CR4_PCE);
    client.granted(STOP, number);
    client.end();
}

/// What was left on, the processor that has it, the register that shows it, and the counters.
fn left() -> [(&'static str, Leaves, u32, u64); 3] {
    let efficient = leaves("hybrid", 12).remove(11);
    [
        ("pebs-left", first("skylake"), 0x3F1, 1),
        ("adaptive-left", first("sapphire-rapids"), 0x3F1, 1 << 32),
        ("reload-left", efficient, 0x1902 + 4 * 3, 1 << 3 | 1 << 33),
    ]
}

/// The samples are there, and no counter starts again in between.
fn other_counters_are_taken_than_those_that_are_left<B: Backend>() {
    for (quirk, leaves, ..) in left() {
        let mut client = RawClient::<B>::of(&[with_quirks(&leaves, quirk)]);
        for flags in [0, SAMPLE] {
            let interval = if flags == SAMPLE { 10_007 } else { 0 };
            let specs = [TOTAL_ISSUES, BRANCHES].map(|source| Spec { interval, ..spec(source) });
            let number = client.configured(flags, &specs);
            client.granted(START, number);
            client.work(WORK);
            let counts = counted(&mut client, number);
            assert_eq!(counts, [1_000_000, 200_000], "{quirk}, {flags}");
            if flags == SAMPLE {
                let statistics = client.statistics(number);
                assert_eq!((statistics.generated, statistics.stored), (118, 118), "{quirk}");
            }
            client.granted(STOP, number);
        }
        client.end();
    }
}

fn a_set_that_needs_a_counter_that_is_left_is_refused<B: Backend>() {
    // Of fixed counter 0 a general one counts the same.
    for (quirk, leaves, register, counters) in left().into_iter().filter(|one| one.3 as u32 != 0) {
        let mut client = RawClient::<B>::of(&[with_quirks(&leaves, quirk)]);
        let number = client.open();
        let only = Spec { counters: 1 << counters.trailing_zeros(), ..by_select(0xC4) };
        let four = |number: u64| Spec { group: 1, ..by_select(0xC4 | number << 24) };
        for specs in [vec![only], (0..4).map(four).collect()] {
            let reply = client.send(session::CONFIGURE, &configure(number, 0, &specs));
            assert_eq!(reply.refusal(), Some((CountersLeft, register, counters)), "{quirk}");
        }
        client.end();
    }
}

/// The owner came and went in between.
fn a_counter_that_is_left_after_the_configuration_is_refused_at_start<B: Backend>() {
    let mut client = RawClient::<B>::of(&[with_quirks(&first("skylake"), "pebs-left")]);
    client.processor(0).wrmsr(0x3F1, 0).expect("the register");
    client.model.others_wrote_registers();
    let number = client.configured(0, &[Spec { counters: 1, ..by_select(0xC4) }]);
    client.processor(0).wrmsr(0x3F1, 1).expect("the register");
    client.model.others_wrote_registers();
    let refusal = client.about(START, number).refusal();
    assert_eq!(refusal, Some((CountersLeft, 0x3F1, 1)));
    client.processor(0).wrmsr(0x3F1, 0).expect("the register");
    client.model.others_wrote_registers();
    client.granted(START, number);
    client.granted(STOP, number);
    client.end();
}
