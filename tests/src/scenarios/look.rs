//! Registers that someone else writes while a session counts with them: is the count that is left
//! right, and is the change told?

use crate::backend::Backend;
use crate::requests::spec;
use crate::stepped::Stepped;
use crate::wire::{first, with_quirks};
use fastrand::Rng;
use halprof_measure::estimate::Estimate;
use shared_types::request::counts::Changes;
use shared_types::request::session::{SAMPLE, Spec, THREADS};
use sim::cpu::event::Event;
use std::ops::Range;

scenarios![
    what_someone_changes_is_told_put_back_and_not_counted,
    a_select_that_is_changed_again_ends_its_source,
    a_value_that_a_counter_cannot_have_is_not_counted,
    a_pair_whose_upper_half_is_off_is_not_counted,
    no_count_is_wrong_without_the_warning,
    no_count_is_wrong_in_many_runs,
];

const TOTAL_ISSUES: u32 = 2;
const BRANCHES: u32 = 6;
/// What passes and happens in one step: a nanosecond is a tick of the models' time-stamp counter.
const STEP: u64 = 1_000_000;

/// A register that someone else writes, what it then holds, and which of the sources instructions
/// and branches are counted by it.
struct Written {
    model: &'static str,
    register: u32,
    value: u64,
    hits: [bool; 2],
}

const fn written(model: &'static str, register: u32, value: u64, hits: [bool; 2]) -> Written {
    Written { model, register, value, hits }
}

/// Unhalted core cycles, enabled in both modes: Intel's and AMD's select.
const CYCLES: u64 = 0x43_003C;
const AMD_CYCLES: u64 = 0x43_0076;

/// Global controls, Intel's fixed control, selects; AMD's also at the legacy addresses, which are
/// the same registers (AMD APM vol. 2, "Performance Monitoring Counters").
const WRITTEN: &[Written] = &[
    written("haswell", 0x38F, 0, [true, true]),
    written("haswell", 0x38F, 1, [true, false]),
    written("haswell", 0x38D, 0, [true, false]),
    written("skylake", 0x186, CYCLES, [false, true]),
    written("skylake", 0x186, 0, [false, true]),
    written("yonah", 0x187, CYCLES, [false, true]),
    written("zen2", 0xC001_0202, AMD_CYCLES, [false, true]),
    written("zen2", 0xC001_0001, AMD_CYCLES, [false, true]),
    written("k8", 0xC001_0000, 0, [true, false]),
    written("zen4", 0xC000_0301, 0, [true, true]),
    written("zen4", 0xC001_0000, AMD_CYCLES, [true, false]),
];

/// Lets one step pass on the only processor, with as many instructions as ticks, and half as many
/// branches.
fn step<B: Backend>(machine: &mut Stepped<B>, steps: &mut u64) {
    machine.pass(STEP);
    *steps += 1;
    let happened = *steps * STEP;
    machine.retire(
        0,
        &[
            (Event::Instructions, happened),
            (Event::Branches, happened / 2),
            (Event::Cycles, happened),
        ],
    );
}

/// Someone else writes a register that a counter of the session uses, and claims what it counts.
fn write<B: Backend>(machine: &mut Stepped<B>, register: u32, value: u64) {
    machine.client.write(0, register, value);
    machine.client.model.others_wrote_registers();
}

fn both<B: Backend>(model: &str) -> Stepped<B> {
    let mut machine = Stepped::<B>::new(model, 1);
    machine.run(0, &[TOTAL_ISSUES, BRANCHES].map(spec));
    machine
}

fn what_someone_changes_is_told_put_back_and_not_counted<B: Backend>() {
    for &Written { model, register, value, hits } in WRITTEN {
        {
            let mut machine = both::<B>(model);
            let mut steps = 0;
            step(&mut machine, &mut steps);
            assert_eq!(machine.counted(), [STEP, STEP / 2], "{model}");
            assert_eq!(machine.changes(), Changes::default(), "{model}");
            let before = machine.client.read(0, register);
            write(&mut machine, register, value);
            step(&mut machine, &mut steps);
            let counts = machine.snapshot();
            let known = |hit| if hit { 1 } else { 2 };
            let counted = [known(hits[0]) * STEP, known(hits[1]) * STEP / 2];
            let which = format!("{model}, {register:#x} = {value:#x}");
            assert_eq!(
                counts.iter().map(|one| one.counted).collect::<Vec<_>>(),
                counted,
                "{which}"
            );
            for (count, hit) in counts.iter().zip(hits) {
                let unknown = count.enabled - count.running;
                assert_eq!(unknown / STEP, u64::from(hit), "{which}");
            }
            let changes = machine.changes();
            assert_eq!((changes.number, changes.processor), (1, 0), "{which}");
            assert_ne!(changes.written, changes.found, "{which}");
            // Others' bits of a control stay as they were written.
            let now = machine.client.read(0, register);
            assert_eq!(now & changes.written, before & changes.written, "{which}: put back");
            step(&mut machine, &mut steps);
            assert_eq!(machine.counted(), [counted[0] + STEP, counted[1] + STEP / 2], "{which}");
            machine.stop();
            assert_eq!(machine.changes(), changes, "{which}");
        }
    }
}

fn a_select_that_is_changed_again_ends_its_source<B: Backend>() {
    for &Written { model, register, value, hits } in WRITTEN {
        if matches!(register, 0x38D | 0x38F | 0xC000_0301) {
            continue;
        }
        let mut machine = both::<B>(model);
        let mut steps = 0;
        for round in 0..2 {
            step(&mut machine, &mut steps);
            write(&mut machine, register, value | round);
            step(&mut machine, &mut steps);
            machine.snapshot();
        }
        step(&mut machine, &mut steps);
        machine.stop();
        for (count, hit) in machine.snapshot().iter().zip(hits) {
            let estimate = Estimate::new(count);
            let truth = if hit { None } else { Some(estimate.counted) };
            assert_eq!(estimate.value, truth, "{model}");
            assert_eq!(estimate.scaled, hit, "{model}");
        }
        assert_eq!(machine.client.read(0, register), value | 1, "{model}: it is another's");
    }
}

/// What a counter cannot hold: less than at the last look although it has not come round, and more
/// than it could have counted.
fn a_value_that_a_counter_cannot_have_is_not_counted<B: Backend>() {
    // Full-width counters, written at IA32_A_PMC0 and PERF_CTR0.
    for (model, register) in [("skylake", 0x4C1), ("zen2", 0xC001_0203)] {
        for value in [0, STEP / 4, 1 << 44] {
            let mut machine = both::<B>(model);
            let mut steps = 0;
            step(&mut machine, &mut steps);
            step(&mut machine, &mut steps);
            machine.snapshot();
            write(&mut machine, register, value);
            step(&mut machine, &mut steps);
            assert_eq!(machine.counted(), [3 * STEP, STEP], "{model}, {value}");
            let changes = machine.changes();
            assert_eq!((changes.number, changes.written), (1, STEP), "{model}, {value}");
            step(&mut machine, &mut steps);
            assert_eq!(machine.counted(), [4 * STEP, STEP * 3 / 2], "{model}, {value}");
            machine.stop();
        }
    }
}

/// Merge in the second of two counters is on only with its bit in the global control register.
fn a_pair_whose_upper_half_is_off_is_not_counted<B: Backend>() {
    let mut machine = Stepped::<B>::new("zen4", 1);
    machine.run(0, &[Spec::of_raw(0xFF03)]);
    machine.pass(STEP);
    machine.snapshot();
    write(&mut machine, 0xC000_0301, 0b01);
    machine.pass(STEP);
    let count = machine.snapshot()[0];
    assert_eq!((count.enabled - count.running) / STEP, 1);
    let changes = machine.changes();
    assert_eq!((changes.number, changes.written, changes.found), (1, 0b11, 0b01));
    machine.stop();
}

/// A session in which someone else writes registers at random: what it counted, and whether that was
/// told.
fn random_run<B: Backend>(seed: u64) -> (Vec<(Estimate, u64)>, Changes) {
    let mut random = Rng::with_seed(seed);
    let models = ["core2", "haswell", "skylake", "sapphire-rapids", "zen2", "zen4"];
    let model = models[random.usize(..models.len())];
    let quirks = if random.bool() { "fixed-interrupts" } else { "counters-on" };
    let mut machine = Stepped::<B>::of(&[with_quirks(&first(model), quirks)]);
    let sampled = |source| Spec { interval: 300_000, ..spec(source) };
    let both = [BRANCHES, TOTAL_ISSUES];
    // More than there are counters: branches, and what a model does not count.
    let code = if model.starts_with("zen") { 0xC2 } else { 0xC4 };
    let turns = [0, 1, 2, 3, 4, 5, 6, 7].map(|unit| Spec::of_raw(code | unit << 8));
    let kind = random.u8(..4);
    match kind {
        0 => machine.configure(0, &both.map(spec), 0),
        1 => machine.configure(0, &turns, 40_000),
        2 => machine.configure(SAMPLE, &both.map(sampled), 0),
        _ => machine.configure(THREADS, &both.map(spec), 0),
    };
    machine.start();
    let mut steps = 0;
    let writes = [random.u64(2..20), random.u64(2..40)];
    for now in 0..40 {
        step(&mut machine, &mut steps);
        machine.take_interrupt(0);
        if random.u8(..4) == 0 {
            machine.snapshot();
        }
        machine.tick();
        if writes.contains(&now) {
            // Beside what the handler undoes: a freeze by the session's own overflow, which would
            // last for the rest of a step.
            let unseen: &[u8] = match (kind, model) {
                (2, "zen2") => &[0, 1, 2, 4],
                (2, "zen4") => &[1, 2, 4],
                (2, "core2" | "haswell") => &[0, 4],
                (2, _) => &[4],
                _ => &[],
            };
            let way = random.u8(..5);
            if !unseen.contains(&way) {
                disturb(&mut machine, model, way, &mut random);
            }
        }
    }
    machine.stop();
    let counts = machine.snapshot();
    let known = if counts.len() == 2 { 2 } else { 1 };
    let truths = [steps * STEP / 2, steps * STEP];
    let estimates = counts[..known].iter().map(Estimate::new).zip(truths);
    (estimates.collect(), machine.changes())
}

/// Someone else writes one of the registers that make counters count, or switches the freeze on.
fn disturb<B: Backend>(machine: &mut Stepped<B>, model: &str, way: u8, random: &mut Rng) {
    let amd = model.starts_with("zen");
    let one = random.u32(..2);
    let (register, value) = match (way, amd) {
        (0, true) if model == "zen2" => (0xC001_0000 | one, 0),
        (0, true) => (0xC000_0301, random.u64(..) & 0b111),
        // Not what others have there: up to version 3, a register of which nothing of theirs is left is
        // taken for the work of a freeze, and put back.
        (0, false) => (0x38F, machine.client.read(0, 0x38F) & !0b11 | random.u64(..) & 0b11),
        (1, true) => (0xC001_0000 | one, AMD_CYCLES),
        (1, false) => (0x38D, 0),
        (2, true) => (0xC001_0200 | (2 * one), random.u64(..2) * AMD_CYCLES),
        (2, false) => (0x186 + one, random.u64(..2) * CYCLES),
        // Lowered, it might have passed its last value again by the next look.
        (3, true) => (0xC001_0201 | (2 * one), 1 << 44),
        (3, false) if model == "core2" => return,
        (3, false) => (0x4C1 + one, 1 << 44),
        // FREEZE_PERFMON_ON_PMI; AMD's needs LbrAndPmcFreeze.
        (_, true) if model == "zen2" => return,
        _ => (0x1D9, 1 << 12),
    };
    write(machine, register, value);
}

fn no_count_is_wrong_without_the_warning<B: Backend>() {
    assert_right::<B>(0..B::RANDOM_RUNS);
}

/// `cargo xtask prove` runs it.
fn no_count_is_wrong_in_many_runs<B: Backend>() {
    assert_right::<B>(B::RANDOM_RUNS..20 * B::RANDOM_RUNS);
}

/// A count is exact or within the little that the slices' times may be off, or it is null, or its
/// session says that something was changed; and what is known of a changed one is right too.
fn assert_right<B: Backend>(seeds: Range<u64>) {
    let (mut warned, runs) = (0, seeds.end - seeds.start);
    for seed in seeds {
        let (estimates, changes) = random_run::<B>(seed);
        warned += u64::from(changes.number != 0);
        for (estimate, truth) in estimates {
            let Some(value) = estimate.value else {
                assert_ne!(changes.number, 0, "run {seed}");
                continue;
            };
            let off = value.abs_diff(truth.into());
            assert!(
                off <= u128::from(truth) / 50,
                "run {seed}: {estimate:?}, not {truth}; {changes:?}"
            );
            assert!(off == 0 || estimate.scaled, "run {seed}: {value}, not {truth}");
        }
    }
    assert!(warned > runs / 4, "{warned} of {runs} runs were disturbed");
}
