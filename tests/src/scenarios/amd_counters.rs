//! AMD's counters that are not all alike: an event that takes two, and more counters than RDPMC
//! reaches.

use crate::backend::Backend;
use crate::machines::{Client, count, on, sample};
use crate::wire::{RawClient, leaves};
use halprof_measure::{Connection, Error, Setup};
use shared_types::ErrorCode;
use shared_types::request::session::Spec;
use shared_types::request::source::Placement;
use sim::cpu::cpuid::Leaves;
use sim::cpu::event::{Code, Event};
use sim::load::workload::{Known, Workload, parse_with};

scenarios![
    flops_are_counted_whole,
    a_third_of_the_counters_are_pairs_and_the_rest_take_turns,
    sampled_flops_have_all_their_periods,
    a_pair_that_cannot_be_had_is_refused,
    counters_beyond_the_sixth_are_not_read_with_rdpmc,
];

/// `fp_ret_sse_avx_ops.all`, which adds up to 64 in a cycle (PPR for AMD Family 17h, "Large Increment
/// per Cycle Events").
const FLOPS: u64 = 0xFF03;
/// Retired branches.
const BRANCHES: u64 = 0xC2;
/// A model without PerfMonV2, where each select starts its counter, and two with it.
const MODELS: [&str; 3] = ["zen2", "zen4", "zen6"];

fn flops(mask: u64) -> Spec {
    Spec::of_raw(mask << 8 | FLOPS & 0xFF)
}

/// A workload with this many FLOPs.
fn workload(flops: u64) -> Workload {
    let text = format!("instructions=1000000,cycles=40000000,branches=10000,flops={flops}");
    let code = Code {
        event: Event::Named(0),
        select: Some(FLOPS),
        fixed: None,
        architectural: None,
        core: None,
    };
    let known = |name: &str| (name == "flops").then(|| Known::Codes(vec![code]));
    parse_with(&text, &known).expect("a workload")
}

fn flops_are_counted_whole<B: Backend>() {
    for model in MODELS {
        let mut connection = on::<B>(&format!("{model},processors=1"));
        for amount in [1, 63, 64, 1_000_003] {
            let specs = vec![flops(0xFF), Spec::of_raw(BRANCHES)];
            let counts = &count(&mut connection, specs, &workload(amount))[0];
            assert_eq!((counts[0].counted, counts[1].counted), (amount, 10_000), "{model}");
        }
    }
}

/// The slice of each source, and its counter.
fn plan<B: Backend>(
    connection: &mut Connection<Client<B>>,
    specs: Vec<Spec>,
) -> Result<Vec<(u16, u16)>, Error> {
    let plan = connection.plan(&Setup { specs, ..Setup::default() })?;
    Ok(plan.placements[0].iter().map(|one| (one.slice, one.counter)).collect())
}

fn a_third_of_the_counters_are_pairs_and_the_rest_take_turns<B: Backend>() {
    const P: u16 = Placement::PAIR;
    let mut connection = on::<B>("zen4,processors=1");
    let pairs = |count: u64| (1..=count).map(flops).collect::<Vec<_>>();
    let placed = plan(&mut connection, pairs(4)).expect("slices");
    assert_eq!(placed, [(0, P), (0, P | 2), (0, P | 4), (1, P)]);
    let singles = [BRANCHES, 0xC3, 0xC0].map(Spec::of_raw);
    let placed = plan(&mut connection, [&singles[..2], &pairs(2)].concat()).expect("a slice");
    assert_eq!(placed.iter().map(|one| one.0).max(), Some(0));
    let placed = plan(&mut connection, [&singles[..], &pairs(2)].concat()).expect("slices");
    assert_eq!(placed[4].0, 1);
    // Each is counted in its slices, and only there.
    let specs: Vec<Spec> = pairs(3).into_iter().chain([flops(0xFF)]).collect();
    let counts = &count(&mut connection, specs, &workload(4_000_000))[0];
    assert_eq!(counts[..3].iter().map(|count| count.counted).collect::<Vec<_>>(), [0; 3]);
    assert!(counts[3].running < counts[3].enabled && counts[3].counted > 0);
}

fn sampled_flops_have_all_their_periods<B: Backend>() {
    for model in MODELS {
        let mut connection = on::<B>(&format!("{model},processors=1"));
        let specs = vec![Spec { interval: 10_007, ..flops(0xFF) }];
        let sampled = sample(&mut connection, specs, &workload(2_000_003));
        assert_eq!(sampled.unaccounted(10_007, 0), None, "{model}");
        assert_eq!(sampled.counts[0][0].counted, 2_000_003, "{model}");
    }
}

fn a_pair_that_cannot_be_had_is_refused<B: Backend>() {
    let mut connection = on::<B>("zen4,processors=1");
    let in_group = |spec| Spec { group: 1, ..spec };
    let odd = Spec { counters: 0b10_1010, ..flops(0xFF) };
    let four = (1..=4).map(flops).map(in_group).collect();
    for (specs, error) in [
        (vec![odd], ErrorCode::NeedsPair),
        (four, ErrorCode::NeedsPair),
        (vec![Spec { raw: 0xF_0000_00FF, ..flops(0xFF) }], ErrorCode::RawRefused),
    ] {
        let refusal = plan(&mut connection, specs.clone()).expect_err("a refusal");
        assert!(
            matches!(&refusal, Error::Refused(refused) if refused.code == error),
            "{specs:?}: {refusal:?}"
        );
    }
}

/// Eight core counters, as EBX of leaf 0x80000022 can say: from index 6 on RDPMC reads those of the
/// northbridge (APM vol. 3, RDPMC).
fn counters_beyond_the_sixth_are_not_read_with_rdpmc<B: Backend>() {
    let mut eight: Vec<Leaves> = leaves("zen4", 1);
    for leaves in &mut eight {
        let mut leaf = leaves.get(0x8000_0022, 0);
        leaf.ebx = leaf.ebx & !0xF | 8;
        leaves.insert(0x8000_0022, leaf);
    }
    let client = Client(RawClient::<B>::of(&eight));
    let mut connection = Connection::new(client).expect("a greeting");
    let specs = (0..8).map(|edge| Spec::of_raw(BRANCHES | edge << 24)).collect();
    let counts = &count(&mut connection, specs, &workload(0))[0];
    let counted: Vec<u64> = counts.iter().map(|count| count.counted).collect();
    // With a counter mask of 1 to 4: cycles in which as many of four branches retire.
    assert_eq!(counted, [10_000, 2_500, 2_500, 2_500, 2_500, 0, 0, 0]);
}
