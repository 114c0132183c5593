//! What is left on a machine when a client ends, the machine sleeps, or something is missing?

use halprof_tests::bare::Bare;
use halprof_tests::branches::with;
use halprof_tests::machines::{self, specs};
use halprof_tests::requests::{configure, spec};
use halprof_tests::wire::{Wire, leaves, rows};
use shared_types::request::session::{self, Configure, Spec};
use shared_types::request::{counts, machine, samples, source};
use shared_types::{ErrorCode, ProfileSource};
use sim::Processor;
use sim::load::workload;
use sim::machine::Model;
use sim::quirks::Quirks;

const TOTAL_ISSUES: u32 = 2;
const BRANCH_INSTRUCTIONS: u32 = 6;
const TOTAL_CYCLES: u32 = 0x13;

/// A machine of each interface and register layout: its model, the first select register and the
/// distance to the next, their number, the value of one that is off, and the other registers that
/// hold bits of a session.
struct Layout {
    model: &'static str,
    select: u32,
    stride: u32,
    selects: u32,
    off: u64,
    others: &'static [u32],
}

/// The offset of the set of processors in CONFIGURE.
const PROCESSORS_AT: usize = std::mem::offset_of!(Configure, processors);
const GLOBAL_CTRL: u32 = 0x38F;
const FIXED_CTR_CTRL: u32 = 0x38D;
const AMD_GLOBAL_CTL: u32 = 0xC000_0301;
const CESR: u32 = 0x11;
const INTEL_GLOBAL: &[u32] = &[FIXED_CTR_CTRL, GLOBAL_CTRL];
/// CCCR with only ACTIVE_THREAD 11b, which the Pentium 4's manual requires.
const CCCR_OFF: u64 = 3 << 16;
/// CRU_ESCR0 and 1, where instr_retired is selected.
const ESCRS: &[u32] = &[0x3B8, 0x3B9];

const fn layout(model: &'static str, select: u32, stride: u32, selects: u32) -> Layout {
    Layout { model, select, stride, selects, off: 0, others: &[] }
}

const LAYOUTS: &[Layout] = &[
    layout("pentium", CESR, 1, 1),
    layout("pentium-mmx", CESR, 1, 1),
    layout("pentium3", 0x186, 1, 2),
    layout("pentium-m", 0x186, 1, 2),
    Layout { off: CCCR_OFF, others: ESCRS, ..layout("pentium4", 0x360, 1, 18) },
    Layout { off: CCCR_OFF, others: ESCRS, ..layout("pentium4-ht", 0x360, 1, 18) },
    layout("yonah", 0x186, 1, 2),
    Layout { others: INTEL_GLOBAL, ..layout("core2", 0x186, 1, 2) },
    Layout { others: INTEL_GLOBAL, ..layout("skylake", 0x186, 1, 4) },
    Layout { others: INTEL_GLOBAL, ..layout("sapphire-rapids", 0x186, 1, 8) },
    layout("k8", 0xC001_0000, 1, 4),
    layout("fam10h", 0xC001_0000, 1, 4),
    layout("bulldozer", 0xC001_0200, 2, 6),
    layout("zen2", 0xC001_0200, 2, 6),
    Layout { others: &[AMD_GLOBAL_CTL], ..layout("zen4", 0xC001_0200, 2, 6) },
];

impl Layout {
    /// The Pentium has no interrupt, so it can only count.
    fn samples(&self) -> bool {
        self.select != CESR
    }

    fn flags(&self) -> &'static [u32] {
        if self.samples() { &[0, session::SAMPLE] } else { &[0] }
    }

    fn off_values(&self) -> impl Iterator<Item = (u32, u64)> {
        let selects = (0..self.selects).map(|index| (self.select + index * self.stride, self.off));
        selects.chain(self.others.iter().map(|&msr| (msr, 0)))
    }
}

/// Two processors of the model, or one if the model has only one.
fn machine(layout: &Layout) -> Wire {
    Wire::new(layout.model, 2)
}

fn processor(wire: &mut Wire, index: usize) -> &mut Processor {
    wire.model.processor(index).expect("a processor")
}

fn read(wire: &mut Wire, index: usize, msr: u32) -> u64 {
    processor(wire, index).rdmsr(msr).expect("a register that is there")
}

fn write(wire: &mut Wire, index: usize, msr: u32, value: u64) {
    processor(wire, index).wrmsr(msr, value).expect("a register that takes it");
}

fn assert_all_off(wire: &mut Wire, layout: &Layout, when: &str) {
    let mut untouched = machine(layout);
    for index in 0..2 {
        for (msr, off) in layout.off_values() {
            // The global control is as it was found. NetBurst's selects are 0 after reset.
            let off = match msr {
                GLOBAL_CTRL | AMD_GLOBAL_CTL => read(&mut untouched, index, msr),
                _ => off,
            };
            let value = read(wire, index, msr);
            assert!(
                value == off || (value == 0 && layout.off == CCCR_OFF),
                "{} {when}: {msr:#x} of processor {index} is {value:#x}",
                layout.model
            );
        }
    }
    assert_eq!(wire.model.faults(), [], "{} {when}", layout.model);
}

fn assert_some_on(wire: &mut Wire, layout: &Layout) {
    for index in 0..2 {
        let on = layout.off_values().any(|(msr, off)| {
            let value = read(wire, index, msr);
            value != off && value != 0
        });
        assert!(on, "{}: nothing is on on processor {index}", layout.model);
    }
}

#[test]
fn a_client_that_vanishes_leaves_nothing_on() {
    for layout in LAYOUTS {
        for &flags in layout.flags() {
            let mut wire = machine(layout);
            wire.run(spec(TOTAL_ISSUES), flags);
            let work = workload::parse("instructions=500000,cycles=600000,processors=all");
            wire.model.begin(&work.expect("a workload"));
            wire.model.advance(300_000);
            assert_some_on(&mut wire, layout);
            let next = wire.other(9);
            wire.model.close(wire.handle);
            wire.handle = next;
            assert_all_off(&mut wire, layout, "after its client");
            assert!(!wire.model.is_counting());
            let described = wire.machine();
            assert_eq!((described.ring_bytes, described.holder_session), (0, 0));
            let counted: Vec<u64> = general_counters(&mut wire, layout);
            while wire.model.advance(u64::MAX / 4) {}
            assert_eq!(general_counters(&mut wire, layout), counted, "{} goes on", layout.model);
            let number = wire.run(spec(TOTAL_ISSUES), flags);
            assert_eq!(wire.about(session::STOP, number).refusal(), None);
            assert_all_off(&mut wire, layout, "stopped");
        }
    }
}

fn first_counter(layout: &Layout) -> u32 {
    match layout.select {
        CESR => 0x12,
        0x186 => 0xC1,
        0x360 => 0x300,
        0xC001_0000 => 0xC001_0004,
        _ => 0xC001_0201,
    }
}

fn general_counters(wire: &mut Wire, layout: &Layout) -> Vec<u64> {
    let first = first_counter(layout);
    let counters = if layout.select == CESR { 2 } else { layout.selects };
    (0..2)
        .flat_map(|index| (0..counters).map(move |counter| (index, counter)))
        .map(|(index, counter)| read(wire, index, first + counter * layout.stride))
        .collect()
}

/// A register, bits of it that belong to someone else, and the bits that are compared.
type Foreign = (&'static str, u32, u64, u64);

/// Bits that a session with one source on the first counter has nothing to do with.
const FOREIGN: &[Foreign] = &[
    // General counters 2 and 3 and fixed counter 2.
    ("skylake", GLOBAL_CTRL, 0x4_0000_000C, 0x4_0000_000C),
    // Fixed counter 2 counts in user mode.
    ("skylake", FIXED_CTR_CTRL, 0x200, 0xF00),
    ("skylake", 0x189, 0x0041_003C, u64::MAX),
    ("core2", 0x187, 0x0041_003C, u64::MAX),
    ("yonah", 0x187, 0x0041_003C, u64::MAX),
    // The other half, which counts instructions in user mode, and both pins.
    ("pentium", CESR, 0x0096_0000, 0x03FF_0000),
    ("k8", 0xC001_0003, 0x0041_0076, u64::MAX),
    ("zen2", 0xC001_020A, 0x0041_0076, u64::MAX),
    ("zen4", AMD_GLOBAL_CTL, 0x20, 0x20),
    ("zen4", 0xC001_020A, 0x0041_0076, u64::MAX),
    ("pentium3", 0x187, 0x0001_0079, u64::MAX),
    // CCCR of counter 2, which is on the other thread's side: ESCR select 1, thread any.
    ("pentium4-ht", 0x362, 0x0003_2000, u64::MAX),
];

#[test]
fn what_others_have_set_stays_as_it_is() {
    for &(model, msr, value, mask) in FOREIGN {
        let sampled = if model == "pentium" { 0 } else { session::SAMPLE };
        for flags in [0, sampled] {
            let mut wire = Wire::new(model, 1);
            write(&mut wire, 0, msr, value);
            let value = read(&mut wire, 0, msr) & mask;
            assert_ne!(value, 0);
            let look = |wire: &mut Wire, when: &str| {
                let now = read(wire, 0, msr) & mask;
                assert_eq!(now, value, "{model} {msr:#x} {when}, flags {flags}");
            };
            let number = wire.run(spec(TOTAL_ISSUES), flags);
            look(&mut wire, "while it counts");
            wire.work("instructions=500000,cycles=600000");
            look(&mut wire, "after interrupts");
            assert_eq!(wire.about(counts::SNAPSHOT, number).refusal(), None);
            look(&mut wire, "after a snapshot");
            assert_eq!(wire.about(session::STOP, number).refusal(), None);
            look(&mut wire, "afterwards");
            assert_eq!(wire.model.faults(), []);
        }
    }
}

#[test]
fn the_local_apics_entry_stays_the_hals() {
    const LVTPC: u32 = 0x340;
    const MASK: u32 = 1 << 16;
    for layout in LAYOUTS.iter().filter(|layout| layout.samples()) {
        let mut wire = machine(layout);
        let before = processor(&mut wire, 0).read_apic(LVTPC).expect("xAPIC mode");
        assert_eq!(before, 0xFE, "as Windows leaves it");
        let number = wire.run(spec(TOTAL_ISSUES), session::SAMPLE);
        wire.work("instructions=500000,cycles=600000,processors=all");
        let statistics = wire.about(samples::STATISTICS, number);
        let statistics: samples::Statistics = statistics.done();
        assert!(statistics.generated >= 10, "{}: it was interrupted", layout.model);
        let during = processor(&mut wire, 0).read_apic(LVTPC).expect("xAPIC mode");
        assert_eq!(during & !MASK, before, "{}", layout.model);
        assert_eq!(wire.about(session::STOP, number).refusal(), None);
        let after = processor(&mut wire, 0).read_apic(LVTPC).expect("xAPIC mode");
        assert_eq!(after, before, "{}", layout.model);
    }
}

#[test]
fn the_local_apics_entry_stays_the_hals_in_x2apic_mode_too() {
    const LVTPC: u32 = 0x834;
    // An id above 255 requires x2APIC mode.
    let all = leaves("skylake", 300);
    let mut wire = Wire::on(Model::new(&all[299..]));
    assert_eq!(read(&mut wire, 0, LVTPC), 0xFE, "as Windows leaves it");
    let number = wire.run(spec(TOTAL_ISSUES), session::SAMPLE);
    wire.work("instructions=500000,cycles=600000");
    let statistics: samples::Statistics = wire.about(samples::STATISTICS, number).done();
    assert_eq!(statistics.generated, 7, "every interrupt came: 500,000 / 65,536");
    assert_eq!(wire.about(session::STOP, number).refusal(), None);
    assert_eq!(read(&mut wire, 0, LVTPC), 0xFE);
    assert_eq!(wire.model.faults(), []);
}

#[test]
fn totals_are_exact_across_sleep() {
    for layout in LAYOUTS {
        let mut wire = machine(layout);
        let number = wire.run(spec(TOTAL_ISSUES), 0);
        let work = workload::parse("instructions=900001,cycles=1000000,processors=all");
        wire.model.begin(&work.expect("a workload"));
        let mut left = true;
        while left {
            left = wire.model.advance(170_000);
            wire.model.sleep_and_wake();
            // Counts that are read while it runs never go back, and stand still while it sleeps.
            let one = wire.snapshot(number);
            assert_eq!(one, wire.snapshot(number));
        }
        let counts = rows(&wire.about(session::STOP, number));
        for (index, row) in counts.iter().enumerate() {
            assert_eq!(row[0].counted, 900_001, "{} processor {index}", layout.model);
        }
        assert_all_off(&mut wire, layout, "after sleep");
    }
}

#[test]
fn no_sample_is_missing_across_sleep() {
    for layout in LAYOUTS.iter().filter(|layout| layout.samples()) {
        let mut wire = machine(layout);
        let interval = Spec { interval: 10_000, ..spec(TOTAL_ISSUES) };
        let number = wire.run(interval, session::SAMPLE);
        let work = workload::parse("instructions=905000,cycles=1000000,processors=all");
        wire.model.begin(&work.expect("a workload"));
        while wire.model.advance(173_456) {
            wire.model.sleep_and_wake();
        }
        assert_eq!(wire.about(session::STOP, number).refusal(), None);
        let statistics: samples::Statistics = wire.about(samples::STATISTICS, number).done();
        let lost: u64 = statistics.lost.iter().sum();
        assert_eq!(statistics.generated, 2 * 90, "{}", layout.model);
        assert_eq!(statistics.stored + lost, statistics.generated, "{}", layout.model);
        assert_all_off(&mut wire, layout, "after sleep");
    }
}

#[test]
fn asleep_nothing_starts_and_a_stop_is_a_stop() {
    for layout in LAYOUTS {
        let mut wire = machine(layout);
        let number = wire.run(spec(TOTAL_ISSUES), 0);
        wire.work("instructions=400000,cycles=500000,processors=all");
        wire.model.sleep();
        assert_all_off(&mut wire, layout, "asleep");
        let before = wire.snapshot(number);
        assert_eq!(before[1][0].counted, 400_000, "{}", layout.model);
        let stopped = rows(&wire.about(session::STOP, number));
        assert_eq!(stopped, before, "{}", layout.model);
        let start = wire.about(session::START, number).refusal();
        assert_eq!(start, Some((ErrorCode::Suspended, number, 0)));
        assert_eq!(wire.snapshot(number), before, "a refused start takes nothing");
        wire.model.wake();
        assert!(!wire.model.is_counting(), "what was stopped asleep stays stopped");
        assert_eq!(wire.about(session::START, number).refusal(), None);
        assert_some_on(&mut wire, layout);
    }
}

#[test]
fn a_client_may_vanish_asleep() {
    for layout in LAYOUTS {
        for &flags in layout.flags() {
            let mut wire = machine(layout);
            wire.run(spec(TOTAL_ISSUES), flags);
            let next = wire.other(9);
            wire.model.sleep();
            wire.model.close(wire.handle);
            wire.model.wake();
            wire.handle = next;
            assert_eq!(wire.machine().ring_bytes, 0);
            assert!(!wire.model.is_counting());
            for index in 0..2 {
                processor(&mut wire, index).reset_accesses();
            }
            wire.work("instructions=400000,cycles=500000,processors=all");
            for index in 0..2 {
                let accesses = processor(&mut wire, index).accesses();
                assert_eq!((accesses.wrmsr, accesses.rdpmc), (0, 0), "{}", layout.model);
            }
            wire.run(spec(TOTAL_ISSUES), flags);
        }
    }
}

#[test]
fn a_processor_that_is_added_joins() {
    for layout in LAYOUTS.iter().filter(|layout| layout.model != "pentium4-ht") {
        let all = leaves(layout.model, 2);
        let mut wire = Wire::on(Model::new(&all[..1]));
        let number = wire.run(spec(TOTAL_ISSUES), 0);
        assert_eq!(wire.snapshot(number).len(), 1);
        wire.model.add_processor(&all[1]);
        assert_eq!(wire.machine().processors, 2);
        wire.work("instructions=400000,cycles=500000,processors=all");
        let counts = wire.snapshot(number);
        let counted: Vec<u64> = counts.iter().map(|row| row[0].counted).collect();
        assert_eq!(counted, [400_000, 400_000], "{}", layout.model);
        assert_eq!(wire.about(session::STOP, number).refusal(), None);
        assert_all_off(&mut wire, layout, "with one added");
    }
}

#[test]
fn a_processor_that_is_added_asleep_joins_at_waking() {
    let all = leaves("skylake", 2);
    let mut wire = Wire::on(Model::new(&all[..1]));
    let number = wire.run(spec(TOTAL_ISSUES), 0);
    wire.model.sleep();
    wire.model.add_processor(&all[1]);
    wire.model.wake();
    wire.work("instructions=400000,cycles=500000,processors=all");
    let counts = wire.snapshot(number);
    let counted: Vec<u64> = counts.iter().map(|row| row[0].counted).collect();
    assert_eq!(counted, [400_000, 400_000]);
}

/// It gets its own ring, if there is room; otherwise its samples are counted as lost.
#[test]
fn a_processor_that_is_added_samples_too() {
    let all = leaves("skylake", 2);
    for (ring_samples, stored) in [(64, 12), (1 << 14, 12), (1 << 22, 6)] {
        let mut wire = Wire::on(Model::new(&all[..1]));
        let number = wire.open();
        let mut request = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
        request[28..32].copy_from_slice(&u32::to_le_bytes(ring_samples));
        assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
        assert_eq!(wire.about(session::START, number).refusal(), None);
        let one = wire.machine().ring_bytes;
        wire.model.add_processor(&all[1]);
        let room = 2 * one <= wire.machine().ring_bytes_max;
        assert_eq!(room, stored == 12);
        assert_eq!(wire.machine().ring_bytes, if room { 2 * one } else { one });
        wire.work("instructions=400000,cycles=500000,processors=all");
        let statistics: samples::Statistics = wire.about(samples::STATISTICS, number).done();
        // 400,000 / 65,536 on each.
        assert_eq!((statistics.generated, statistics.stored), (12, stored));
        assert_eq!(statistics.lost.iter().sum::<u64>(), 12 - stored);
        let drained: samples::Drained = wire.about(samples::DRAIN, number).done();
        assert_eq!(u64::from(drained.count), stored);
    }
}

#[test]
fn a_processor_that_is_added_to_a_session_that_counts_takes_no_ring() {
    let all = leaves("skylake", 2);
    let mut wire = Wire::on(Model::new(&all[..1]));
    wire.run(spec(TOTAL_ISSUES), 0);
    wire.model.add_processor(&all[1]);
    assert_eq!(wire.machine().ring_bytes, 0);
}

#[test]
fn a_processor_that_is_added_and_does_not_join_takes_no_ring() {
    let all = leaves("hybrid", 12);
    for (named, added) in [(1, 1), (0, 4)] {
        let mut wire = Wire::on(Model::new(&all[..1]));
        let number = wire.open();
        let mut request = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
        request[PROCESSORS_AT] = named;
        assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
        assert_eq!(wire.about(session::START, number).refusal(), None);
        let one = wire.machine().ring_bytes;
        wire.model.add_processor(&all[added]);
        assert_eq!(wire.machine().processors, 2);
        assert_eq!(wire.machine().ring_bytes, one, "{named} {added}");
    }
}

#[test]
fn a_processor_that_is_added_asleep_samples_too() {
    let all = leaves("skylake", 2);
    let mut wire = Wire::on(Model::new(&all[..1]));
    let interval = Spec { interval: 10_000, ..spec(TOTAL_ISSUES) };
    let number = wire.run(interval, session::SAMPLE);
    wire.model.sleep();
    wire.model.add_processor(&all[1]);
    wire.model.wake();
    wire.work("instructions=405000,cycles=500000,processors=all");
    let statistics: samples::Statistics = wire.about(samples::STATISTICS, number).done();
    assert_eq!(statistics.generated, 2 * 40);
}

#[test]
fn a_session_on_named_processors_keeps_to_them() {
    let all = leaves("skylake", 2);
    let mut wire = Wire::on(Model::new(&all[..1]));
    let number = wire.open();
    let mut request = configure(number, 0, &[spec(TOTAL_ISSUES)]);
    request[PROCESSORS_AT] = 1;
    assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
    assert_eq!(wire.about(session::START, number).refusal(), None);
    wire.model.add_processor(&all[1]);
    wire.work("instructions=400000,cycles=500000,processors=all");
    assert_eq!(read(&mut wire, 1, 0x186), 0);
    let counted: Vec<u64> = wire.snapshot(number).iter().map(|row| row[0].counted).collect();
    assert_eq!(counted, [400_000, 0]);
}

#[test]
fn rings_stay_below_the_cap_where_processors_come_after_the_configuration() {
    let all = leaves("skylake", 2);
    let mut wire = Wire::on(Model::new(&all[..1]));
    let number = wire.open();
    let mut request = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
    request[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
    let most = wire.machine().ring_bytes_max;
    wire.model.add_processor(&all[1]);
    let start = wire.about(session::START, number);
    let (error, _, bytes) = start.refusal().expect("a refusal");
    assert_eq!(error, ErrorCode::NoMemory);
    assert!(bytes > most);
    assert!(!wire.model.is_counting());
    assert_eq!(wire.machine().ring_bytes, 0);
}

#[test]
fn counters_that_somebody_else_owns_are_not_touched() {
    for layout in LAYOUTS {
        let mut wire = machine(layout);
        let number = wire.open();
        wire.configure(number, &[spec(TOTAL_ISSUES)]);
        wire.model.take_counters(true);
        processor(&mut wire, 0).reset_accesses();
        let start = wire.about(session::START, number);
        assert_eq!(start.error(), Some(ErrorCode::CountersReserved), "{}", layout.model);
        assert_eq!(processor(&mut wire, 0).accesses().wrmsr, 0, "{}", layout.model);
        assert!(!wire.model.is_counting());
        wire.model.take_counters(false);
        assert_eq!(wire.about(session::START, number).refusal(), None);
    }
}

#[test]
fn counters_that_are_given_and_do_not_count_start_nothing() {
    let ways =
        LAYOUTS.iter().flat_map(|layout| layout.flags().iter().map(move |&flags| (layout, flags)));
    for (layout, flags) in ways {
        let mut wire = machine(layout);
        let number = wire.open();
        let request = configure(number, flags, &[spec(TOTAL_ISSUES)]);
        assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
        for bit in 0..48 {
            processor(&mut wire, 0).break_counter_bit(bit);
        }
        let (error, subject, _) = wire.about(session::START, number).refusal().expect("dead");
        assert_eq!((error, subject), (ErrorCode::CountersDead, 0), "{}", layout.model);
        assert!(!wire.model.is_counting());
        assert_eq!(wire.machine().ring_bytes, 0);
        let again = wire.about(session::START, number);
        assert_eq!(
            again.error(),
            Some(ErrorCode::CountersDead),
            "the counters were given back, and are given again"
        );
    }
}

#[test]
fn without_the_overflow_interrupt_counting_goes_on_and_sampling_does_not() {
    let mut wire = Wire::new("skylake", 2);
    wire.model.take_interrupt(true);
    let number = wire.open();
    let request = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
    assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
    let start = wire.about(session::START, number);
    assert_eq!(start.error(), Some(ErrorCode::InterruptTaken));
    assert!(!wire.model.is_counting());
    wire.configure(number, &[spec(TOTAL_ISSUES)]);
    assert_eq!(wire.about(session::START, number).refusal(), None);
}

/// Windows did not remove our own handler: it is asked again at each START, and counting, which
/// needs none, goes on with what is still reserved.
#[test]
fn a_handler_that_stays_keeps_samples_away_and_no_count() {
    let mut wire = Wire::new("skylake", 2);
    let number = wire.open();
    let sample = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
    let count = configure(number, 0, &[spec(TOTAL_ISSUES)]);
    assert_eq!(wire.send(session::CONFIGURE, &sample).error(), None);
    assert_eq!(wire.about(session::START, number).error(), None);
    wire.model.keep_handler(true);
    assert_eq!(wire.about(session::STOP, number).error(), None);
    for _ in 0..2 {
        assert_eq!(wire.machine().flags, machine::Machine::HANDLER_STUCK);
        let stuck = Some((ErrorCode::HandlerStuck, 0, 0xC000_0001));
        assert_eq!(wire.about(session::START, number).refusal(), stuck);
        assert_eq!(wire.send(session::CONFIGURE, &count).error(), None);
        assert_eq!(wire.about(session::START, number).error(), None);
        assert_eq!(wire.about(session::STOP, number).error(), None);
        assert_eq!(wire.send(session::CONFIGURE, &sample).error(), None);
    }
    wire.model.keep_handler(false);
    assert_eq!(wire.about(session::START, number).error(), None);
    assert_eq!(wire.machine().flags, 0);
}

#[test]
fn without_memory_for_rings_nothing_starts() {
    for layout in LAYOUTS.iter().filter(|layout| layout.samples()) {
        let mut wire = machine(layout);
        wire.model.limit_ring_memory(1 << 10);
        let number = wire.open();
        let request = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
        assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
        processor(&mut wire, 0).reset_accesses();
        let start = wire.about(session::START, number);
        assert_eq!(start.error(), Some(ErrorCode::NoMemory), "{}", layout.model);
        assert!(!wire.model.is_counting());
        assert_eq!(wire.machine().ring_bytes, 0);
        assert_eq!(processor(&mut wire, 0).accesses().wrmsr, 0, "{}", layout.model);
        wire.configure(number, &[spec(TOTAL_ISSUES)]);
        let start = wire.about(session::START, number);
        assert_eq!(start.refusal(), None, "counting needs no ring");
    }
}

#[test]
fn without_memory_for_sessions_no_source_is_supported() {
    for layout in LAYOUTS {
        let mut wire = Wire::on(Model::with_sessions(&leaves(layout.model, 2), 0));
        let first = halprof_tests::requests::bytes(
            &machine::From {
                header: halprof_tests::requests::header(source::APPROXIMATE),
                first: 0,
                reserved: 0,
            },
            &[],
        );
        let reply = wire.send(source::ENUMERATE, &first);
        let sources: Vec<source::Source> = reply.elements::<machine::Page, _>();
        assert!(sources.len() > 10, "{}", layout.model);
        for source in sources {
            assert_eq!(source.flags & source::Source::SUPPORTED, 0, "{}", source.id);
            assert!(source.note.as_str().contains("memory"), "{}", source.note.as_str());
        }
        let open = halprof_tests::requests::header(0);
        let open = halprof_tests::requests::bytes(&open, &[]);
        let refusal = wire.send(session::OPEN, &open).refusal();
        assert_eq!(refusal, Some((ErrorCode::TooManySessions, 0, 0)));
        let plan = configure(0, 0, &[spec(TOTAL_ISSUES)]);
        assert_eq!(wire.send(source::PLAN, &plan).error(), Some(ErrorCode::NoMemory));
        assert_eq!(wire.model.faults(), []);
    }
}

#[test]
fn raw_counters_are_off_after_their_client_too() {
    let layout = &LAYOUTS[8];
    let mut wire = machine(layout);
    let raw = Spec { raw: 0xC0, ..spec(ProfileSource::RAW.0) };
    wire.run(raw, session::SAMPLE);
    assert_some_on(&mut wire, layout);
    wire.model.close(wire.handle);
    assert_all_off(&mut wire, layout, "after its client");
}

/// Both halves of CESR are off afterwards.
#[test]
fn both_counters_of_a_pentium_are_off_afterwards() {
    for model in ["pentium", "pentium-mmx"] {
        let mut bare = Bare::new(model, 1);
        let cesr = |bare: &mut Bare| bare.cpu(0).processor.rdmsr(CESR);
        let before = cesr(&mut bare);
        bare.configure(0, &[spec(TOTAL_ISSUES), spec(BRANCH_INSTRUCTIONS)], 0);
        bare.start();
        let half = |value: u64, index: u32| value >> (16 * index) & 0x1FF;
        let on = cesr(&mut bare).expect("CESR");
        assert!(half(on, 0) != 0 && half(on, 1) != 0, "{model}: {on:#x}");
        bare.stop();
        assert_eq!(cesr(&mut bare), before, "{model}");
    }
}

/// Reset leaves CCCRs 0; a session turns off all that it may use, in the way that the manual
/// requires. Counter 1 is not used.
#[test]
fn a_pentium_4_is_left_with_every_cccr_off() {
    let mut bare = Bare::new("pentium4", 1);
    bare.configure(0, &[spec(TOTAL_ISSUES), spec(TOTAL_CYCLES)], 0);
    bare.start();
    bare.stop();
    for cccr in (0x360..0x372).filter(|&cccr| cccr != 0x361) {
        let value = bare.cpu(0).processor.rdmsr(cccr);
        assert_eq!(value, Ok(CCCR_OFF), "{cccr:#x}");
    }
}

#[test]
fn every_fixed_counter_is_off_afterwards() {
    let mut bare = Bare::new("skylake", 1);
    let list = "FixedInstructions,FixedCycles,FixedReferenceCycles";
    bare.configure(0, &specs(&mut machines::machine("skylake", 1), list), 0);
    let control = |bare: &mut Bare| bare.cpu(0).processor.rdmsr(FIXED_CTR_CTRL);
    let before = control(&mut bare);
    bare.start();
    assert_eq!(control(&mut bare), Ok(0x333), "in user and kernel mode");
    bare.stop();
    assert_eq!(control(&mut bare), before);
}

/// Another of the second kind.
#[test]
fn a_processor_of_any_known_kind_joins() {
    let all = leaves("hybrid", 12);
    let mut wire = Wire::on(Model::new(&all[3..5]));
    let number = wire.run(spec(TOTAL_ISSUES), 0);
    wire.model.add_processor(&all[5]);
    wire.work("instructions=400000,cycles=500000,processors=all");
    let counts = wire.snapshot(number);
    let counted: Vec<u64> = counts.iter().map(|row| row[0].counted).collect();
    assert_eq!(counted, [400_000; 3]);
}

/// The device goes while a session runs.
#[test]
fn a_device_that_is_removed_leaves_nothing_on() {
    let mut bare = Bare::new("skylake", 2);
    bare.configure(session::SAMPLE, &[spec(TOTAL_ISSUES)], 0);
    bare.start();
    bare.service.end_all();
    assert!(!bare.service.is_running());
    for index in 0..2 {
        let control = bare.cpu(index).processor.rdmsr(FIXED_CTR_CTRL);
        assert_eq!(control, Ok(0));
    }
}

/// Counters that do not count prevent every session, and interrupts that do not come those that
/// sample.
#[test]
fn a_refused_start_leaves_the_registers_as_they_were() {
    for layout in LAYOUTS {
        for option in ["dead-counters", "dead-interrupts"] {
            for &flags in layout.flags() {
                let one = &leaves(layout.model, 1)[0];
                let quirks = Quirks::parse(option).expect("one");
                let mut wire = Wire::on(Model::new(&[one.with_quirks(quirks)]));
                let before: Vec<u64> = all_registers(&mut wire, layout);
                let number = wire.open();
                let request = configure(number, flags, &[spec(TOTAL_ISSUES)]);
                assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
                let case = format!("{} {option} {flags}", layout.model);
                let refused = wire.about(session::START, number).error().is_some();
                let prevents = option == "dead-counters" || flags == session::SAMPLE;
                assert_eq!(refused, prevents, "{case}");
                if !refused {
                    continue;
                }
                let after = all_registers(&mut wire, layout);
                let left = before.iter().zip(&after);
                let mut differ = left.filter(|&(was, is)| is != was && *is != layout.off);
                assert_eq!(differ.next(), None, "{case}");
            }
        }
    }
}

fn all_registers(wire: &mut Wire, layout: &Layout) -> Vec<u64> {
    let msrs: Vec<u32> = layout.off_values().map(|(msr, _)| msr).collect();
    let counters = first_counter(layout);
    let stride = layout.stride;
    let counters = (0..layout.selects).map(|counter| counters + counter * stride);
    let globals: &[u32] = match layout.model {
        "zen4" => &[AMD_GLOBAL_CTL],
        _ => layout.others,
    };
    let all = msrs.into_iter().chain(counters).chain(globals.iter().copied());
    all.map(|msr| read(wire, 0, msr)).collect()
}

/// Where instructions cannot be counted (CPUID leaf 0x0A EBX 1), cycles prove that counters count.
#[test]
fn a_session_starts_where_there_are_no_instructions_to_count() {
    let without = with(&leaves("skylake", 1)[0], 0xA, |leaf| leaf.ebx |= 1 << 1);
    for flags in [0, session::SAMPLE] {
        let mut wire = Wire::on(Model::new(std::slice::from_ref(&without)));
        wire.run(spec(BRANCH_INSTRUCTIONS), flags);
        assert_eq!(wire.model.faults(), []);
    }
}
