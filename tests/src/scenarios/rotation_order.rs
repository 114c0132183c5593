//! In which order do rotations run? In an order that no periodic workload can stay in step with,
//! and that a seed reproduces.

use crate::backend::Backend;
use crate::requests::spec;
use crate::stepped::Stepped;
use shared_types::request::counts::Count;

scenarios![
    every_cycle_is_a_permutation_and_not_always_the_same,
    a_seed_repeats_its_order_and_another_has_its_own,
    any_rotation_can_be_the_first,
    processors_do_not_run_in_step,
    two_rotations_do_not_always_alternate,
];

/// Eight sources on the two counters of a Core Duo: four rotations.
const SOURCES: [u32; 8] = [0x02, 0x06, 0x0B, 0x13, 0x1B, 0x1C, 0x1D, 0x1E];
const ROTATIONS: usize = 4;
const CYCLES: usize = 12;
/// 4 ms at 1 GHz.
const ROTATION: u64 = 4_000_000;

/// The first source of each rotation, in the order in which they ran.
fn order<B: Backend>(seed: u32) -> Vec<usize> {
    order_of::<B, { SOURCES.len() }>(seed, CYCLES * ROTATIONS)
}

/// The same of as many of the sources, and of as many rotations.
fn order_of<B: Backend, const COUNT: usize>(seed: u32, rotations: usize) -> Vec<usize> {
    let mut machine = Stepped::<B>::new("yonah", 1);
    machine.settings.slice_seed = seed;
    let sources: Vec<_> = SOURCES[..COUNT].iter().copied().map(spec).collect();
    let configured = machine.configure(0, &sources, 40_000);
    assert_eq!(configured.slices as usize, COUNT / 2);
    machine.start();
    let mut before = [0; COUNT];
    let mut order = Vec::new();
    for _ in 0..rotations {
        machine.pass(ROTATION);
        machine.tick();
        let counts = machine.snapshot();
        let ran: Vec<usize> =
            (0..COUNT).filter(|&index| counts[index].slices > before[index]).collect();
        assert_eq!(ran.len(), 2, "two counters");
        order.push(ran[0]);
        before = std::array::from_fn(|index| counts[index].slices);
    }
    order
}

fn every_cycle_is_a_permutation_and_not_always_the_same<B: Backend>() {
    for seed in [0, 1, 2, 77, u32::MAX] {
        let order = order::<B>(seed);
        let cycles: Vec<&[usize]> = order.chunks(ROTATIONS).collect();
        for cycle in &cycles {
            let mut sorted = cycle.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 2, 4, 6], "seed {seed}: {cycles:?}");
        }
        let differ = cycles.iter().filter(|&cycle| cycle != &cycles[0]);
        assert!(differ.count() >= CYCLES / 2, "seed {seed}: {cycles:?}");
    }
}

fn a_seed_repeats_its_order_and_another_has_its_own<B: Backend>() {
    let orders: Vec<_> = (0..8).map(order::<B>).collect();
    assert_eq!(orders[3], order::<B>(3));
    for (index, one) in orders.iter().enumerate() {
        assert!(!orders[..index].contains(one), "seed {index}");
    }
}

/// The first rotation is random too: short runs do not always begin with the same sources.
fn any_rotation_can_be_the_first<B: Backend>() {
    let mut first: Vec<usize> =
        (0..64).map(|seed| order_of::<B, { SOURCES.len() }>(seed, 1)[0]).collect();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first, [0, 2, 4, 6]);
}

/// Each processor has an order of its own, from the first rotation on, so that not all always count
/// the same sources at the same time.
fn processors_do_not_run_in_step<B: Backend>() {
    const PROCESSORS: usize = 16;
    for seed in [0, u32::MAX] {
        let mut machine = Stepped::<B>::new("yonah", PROCESSORS);
        machine.settings.slice_seed = seed;
        machine.configure(0, &SOURCES.map(spec), 40_000);
        machine.start();
        // The sources of the first rotation have had a turn; at the end of a cycle those of its
        // last rotation have had one less than the others.
        for ticks in [1, CYCLES * ROTATIONS - 2] {
            for _ in 0..ticks {
                machine.pass(ROTATION);
                machine.tick();
            }
            let turns = |count: &Count| count.slices;
            let counts: Vec<u64> = machine.snapshot().iter().map(turns).collect();
            let mut rows: Vec<&[u64]> = counts.chunks(SOURCES.len()).collect();
            rows.sort_unstable();
            rows.dedup();
            assert_eq!(rows.len(), ROTATIONS, "seed {seed}, after {ticks} more");
        }
    }
}

fn two_rotations_do_not_always_alternate<B: Backend>() {
    for seed in [0, 1, 2, 77, u32::MAX] {
        let order = order_of::<B, 4>(seed, 2 * CYCLES);
        let cycles: Vec<&[usize]> = order.chunks(2).collect();
        for cycle in [[0, 2], [2, 0]] {
            assert!(cycles.contains(&&cycle[..]), "seed {seed}: {cycles:?}");
        }
    }
}
