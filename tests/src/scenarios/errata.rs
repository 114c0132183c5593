//! Are counts and samples right where the processor has the errata that halprof acts on? The
//! machines are dumps of the tests' own, with the quirk of the erratum.

use crate::backend::Backend;
use crate::machines::{Client, count, on_dump, sample, specs, workload, workload_of};
use halprof_measure::Connection;

scenarios![
    counter_3_is_given_last,
    counters_are_reset_before_they_count,
    counters_are_reset_before_they_sample,
    counters_are_not_reset_while_somebody_counts,
    short_reloads_are_rounded,
];

const SKYLAKE: &str = include_str!("../../data/cpuid/skylake-tsx-force-abort.txt");
const NEHALEM: &str = include_str!("../../data/cpuid/nehalem.txt");
const BROADWELL: &str = include_str!("../../data/cpuid/broadwell.txt");

const WORKLOAD: &str = "instructions=10000000,cycles=30000000,branches=1000000,\
    branch-misses=50000,llc-references=200000,llc-misses=40000";

fn counts<B: Backend>(connection: &mut Connection<Client<B>>, list: &str) -> Vec<u64> {
    let specs = specs(connection, list);
    let counts = count(connection, specs, &workload(WORKLOAD));
    counts[0].iter().map(|count| count.counted).collect()
}

/// Sources that others could move for are on other counters; where four are needed, one is wrong.
fn counter_3_is_given_last<B: Backend>() {
    let cases = [
        ("r00c4", vec![1_000_000]),
        ("BranchInstructions,BranchMispredictions,LLCMisses", vec![1_000_000, 50_000, 40_000]),
        // Fixed counters 0 and 1 take two of five.
        (
            "TotalIssues,TotalCycles,r00c4,r00c5,r412e",
            vec![10_000_000, 30_000_000, 1_000_000, 50_000, 40_000],
        ),
    ];
    for (list, expected) in cases {
        let mut connection = on_dump::<B>(SKYLAKE, "quirks=tsx-force-abort");
        assert_eq!(counts(&mut connection, list), expected, "{list}");
    }
    let mut connection = on_dump::<B>(SKYLAKE, "quirks=tsx-force-abort");
    let wrong = counts(&mut connection, "r00c4,r00c5,r412e,r4f2e");
    assert_eq!(wrong, [1_000_000, 50_000, 40_000, 30_000_000]);
}

/// Those of Linux's intel_pmu_nhm_enable_all, for which intel_pmu_init (arch/x86/events/intel/core.c)
/// has the cases NEHALEM, NEHALEM_EP, NEHALEM_EX, WESTMERE, WESTMERE_EP and WESTMERE_EX; and 1Fh,
/// which Intel's documents name and Linux does not (SDM vol. 4, "MSRs in Processors Based on Nehalem
/// Microarchitecture").
const RESET_MODELS: [u32; 7] = [0x1A, 0x1E, 0x1F, 0x25, 0x2C, 0x2E, 0x2F];

/// The dump of Nehalem with another model's signature.
fn nehalem_as(model: u32) -> String {
    const SIGNATURE: u32 = 0x0001_06A4;
    let other = SIGNATURE & !0x000F_00F0 | (model >> 4) << 16 | (model & 0xF) << 4;
    NEHALEM.replace(&format!("{SIGNATURE:08X}"), &format!("{other:08X}"))
}

/// Counting reserves the whole unit as sampling does.
fn counters_are_reset_before_they_count<B: Backend>() {
    for model in RESET_MODELS {
        let mut connection = on_dump::<B>(&nehalem_as(model), "quirks=nehalem-reset");
        let counted = counts(&mut connection, "TotalIssues,BranchInstructions,r00c5,r412e");
        assert_eq!(counted, [10_000_000, 1_000_000, 50_000, 40_000], "{model:X}h");
    }
}

fn counters_are_reset_before_they_sample<B: Backend>() {
    let list = "BranchInstructions:10007,BranchMispredictions:10007,r00c0:100003";
    for model in RESET_MODELS {
        let mut connection = on_dump::<B>(&nehalem_as(model), "quirks=nehalem-reset");
        let specs = specs(&mut connection, list);
        let sampled = sample(&mut connection, specs, &workload(WORKLOAD));
        let counted: Vec<u64> = sampled.counts[0].iter().map(|count| count.counted).collect();
        assert_eq!(counted, [1_000_000, 50_000, 10_000_000], "{model:X}h");
        assert_eq!(sampled.of(0, 0), 99, "{model:X}h");
    }
}

/// The count is then wrong, which the client tells.
fn counters_are_not_reset_while_somebody_counts<B: Backend>() {
    let mut connection = on_dump::<B>(NEHALEM, "quirks=nehalem-reset+fixed-taken");
    let specs = specs(&mut connection, "BranchInstructions:10007");
    let sampled = sample(&mut connection, specs, &workload(WORKLOAD));
    assert_eq!(sampled.counts[0][0].counted, 500_000);
}

/// Whatever the period, the total is what happened, and the samples stand for it.
fn short_reloads_are_rounded<B: Backend>() {
    for period in [4_096, 4_097, 5_003, 100_003] {
        let mut connection = on_dump::<B>(BROADWELL, "quirks=broadwell-period+late");
        let specs = specs(&mut connection, &format!("r01c0:{period}"));
        let events = 400 * period;
        let runs = format!("INST_RETIRED.PREC_DIST={events},instructions={events},cycles={events}");
        let runs = workload_of(&mut connection, &runs);
        let sampled = sample(&mut connection, specs, &runs);
        assert_eq!(sampled.counts[0][0].counted, events, "{period}");
        assert!((399..=400).contains(&sampled.statistics.generated), "{period}");
    }
}
