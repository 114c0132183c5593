//! How is a machine described: is each list complete whatever parts it is requested in, and is each
//! processor, register and source described correctly?

use halprof_measure::Source;
use halprof_measure::source::texts;
use halprof_tests::branches::with;
use halprof_tests::requests::{bytes, configure, header, spec};
use halprof_tests::wire::{Wire, first, rows};
use shared_types::request::machine::{self, From, Hello, Page, Processor, Register, Registers};
use shared_types::request::samples::{self, DRAIN_BYTES_MAX, Drained, Statistics};
use shared_types::request::session::{self, SAMPLE, Spec};
use shared_types::request::source;
use shared_types::request::{Plain, RequestCode};
use shared_types::{ErrorCode, LossCause, Sample, SourceNote, SourceTable};
use sim::machine::Model;
use std::collections::BTreeSet;
use zerocopy::{FromBytes, FromZeros};

const TIME: u32 = 0;
const TOTAL_ISSUES: u32 = 2;
const BRANCH_INSTRUCTIONS: u32 = 6;
const TOTAL_CYCLES: u32 = 0x13;
/// halprof's own sources of fixed counters.
const FIXED: u32 = 0x8000_0100;
const LOCAL_APIC: u32 = 0xFFFF_0000;
const LVTPC: u32 = LOCAL_APIC + 0x340;
const APIC_BASE: u32 = 0x1B;
const TIME_STAMP_COUNTER: u32 = 0x10;

fn from(first: u32, flags: u32) -> Vec<u8> {
    let request = From { header: header(flags), first, reserved: 0 };
    bytes(&request, &[])
}

fn sources(wire: &mut Wire, flags: u32) -> Vec<Source> {
    let sources = wire.send(source::ENUMERATE, &from(0, flags)).elements::<Page, _>();
    sources.iter().map(|one| Source::from_wire(one).expect("its texts")).collect()
}

fn processors(wire: &mut Wire) -> Vec<Processor> {
    wire.send(machine::PROCESSORS, &from(0, 0)).elements::<Page, _>()
}

fn registers(wire: &mut Wire, processor: u32) -> Vec<Register> {
    registers_and_overflows(wire, processor).0
}

/// Its registers, and the sources whose counters have overflowed.
fn registers_and_overflows(wire: &mut Wire, processor: u32) -> (Vec<Register>, Vec<u32>) {
    let reply = wire.send(machine::REGISTERS, &from(processor, 0));
    let head: Registers = reply.done();
    let at = head.overflow.sources as usize;
    let all = |bytes: &[u8], size, count: u32| {
        assert_eq!(bytes.len(), size * count as usize);
    };
    let (registers, sources) = (&reply.bytes[size_of::<Registers>()..at], &reply.bytes[at..]);
    all(registers, size_of::<Register>(), head.count);
    all(sources, size_of::<u32>(), head.overflow.number);
    let registers = registers
        .chunks(size_of::<Register>())
        .map(|one| Register::read_from_bytes(one).expect("a register"));
    let sources = sources.chunks(4).map(|one| u32::from_le_bytes(one.try_into().expect("4 bytes")));
    (registers.collect(), sources.collect())
}

/// Requests a list in parts of this many elements; returns the elements' bytes, concatenated.
fn in_parts<T>(wire: &mut Wire, code: RequestCode, part: usize) -> Vec<u8> {
    let room = size_of::<Page>() + part * size_of::<T>() + size_of::<T>() - 1;
    let mut all = Vec::new();
    loop {
        let first = (all.len() / size_of::<T>()) as u32;
        let reply = wire.send_with_room(code, &from(first, 0), room);
        let page: Page = reply.done();
        assert_eq!(page.count, (page.total - first).min(part as u32));
        if page.count == 0 {
            return all;
        }
        let elements = &reply.bytes[size_of::<Page>()..];
        assert_eq!(elements.len(), page.count as usize * size_of::<T>());
        all.extend_from_slice(elements);
    }
}

#[test]
fn a_list_is_whole_in_parts_of_any_length() {
    let mut wire = Wire::new("hybrid", 12);
    let whole = wire.send(source::ENUMERATE, &from(0, 0)).bytes;
    let processors = wire.send(machine::PROCESSORS, &from(0, 0)).bytes;
    for part in [1, 2, 5, 100] {
        let parts = in_parts::<source::Source>(&mut wire, source::ENUMERATE, part);
        assert_eq!(parts, whole[size_of::<Page>()..], "{part}");
        let parts = in_parts::<Processor>(&mut wire, machine::PROCESSORS, part);
        assert_eq!(parts, processors[size_of::<Page>()..], "{part}");
    }
    let end = wire.send_with_room(machine::PROCESSORS, &from(12, 0), size_of::<Page>());
    let end: Page = end.done();
    assert_eq!((end.count, end.total), (0, 12));
    let beyond = wire.send(machine::PROCESSORS, &from(13, 0)).refusal();
    assert_eq!(beyond, Some((ErrorCode::ProcessorUnknown, 13, 12)));
}

#[test]
fn who_answers_says_what_it_is() {
    let mut wire = Wire::new("skylake", 3);
    let request = bytes(&Plain { header: header(0) }, &[]);
    let hello: Hello = wire.send(machine::HELLO, &request).done();
    assert_eq!(hello.modelled, 1);
    assert!(hello.driver_name.as_str().contains("model"));
    let machine = wire.machine();
    assert_eq!(machine.processors, 3);
    assert_eq!(machine.timestamp_frequency, 1_000_000_000);
    assert_eq!(machine.interrupt_budget, 100, "10 % in thousandths");
    assert_eq!((machine.active_process, machine.active_ticks), (0, 0));
}

#[test]
fn processors_are_numbered_through_their_groups() {
    let mut wire = Wire::new("skylake", 300);
    let all = processors(&mut wire);
    assert_eq!(all.len(), 300);
    for (index, processor) in all.iter().enumerate() {
        assert_eq!(processor.index as usize, index);
        let place = (processor.group, processor.number);
        assert_eq!(place, ((index / 64) as u16, (index % 64) as u16));
    }
}

/// Leaf 0x23.1: 3FFh and 0Fh on performance cores, FFh and 77h on efficiency cores.
#[test]
fn processors_that_differ_are_of_different_kinds() {
    let all = processors(&mut Wire::new("hybrid", 12));
    for (index, one) in all.iter().enumerate() {
        let told = (one.cpu_type, one.core_type, one.counter_mask, one.fixed_mask);
        let expected = match index {
            0..4 => (0, 0x40, 0x3FF, 0xF),
            _ => (1, 0x20, 0xFF, 0x77),
        };
        assert_eq!(told, expected, "{index}");
    }
}

/// AnyThread is bit 21 of a select.
#[test]
fn a_processor_tells_the_optional_bits_of_its_selects_from_bit_16_on() {
    assert_eq!(processors(&mut Wire::new("skylake", 1))[0].select_bits, 1 << (21 - 16));
}

fn ranges(ranges: &[std::ops::RangeInclusive<u32>]) -> BTreeSet<u32> {
    ranges.iter().cloned().flatten().collect()
}

/// Each interface's registers, by its manual, and the local APIC's entry.
fn registers_of(model: &str) -> BTreeSet<u32> {
    let apic = || [APIC_BASE..=APIC_BASE, LVTPC..=LVTPC];
    let control = [Register::CR4..=Register::CR4, TIME_STAMP_COUNTER..=TIME_STAMP_COUNTER];
    let of = |own: &[std::ops::RangeInclusive<u32>]| ranges(&[own, &control, &apic()].concat());
    match model {
        "hyperv-masked" => BTreeSet::from([TIME_STAMP_COUNTER]),
        "pentium" => ranges(&[&[0x11..=0x13], &control[..]].concat()),
        "pentium3" => of(&[0x186..=0x187, 0xC1..=0xC2]),
        "skylake" => of(&[
            0x186..=0x189,
            0xC1..=0xC4,
            0x309..=0x30B,
            0x38D..=0x38F,
            0x1C8..=0x1C9,
            0x1D9..=0x1D9,
        ]),
        "k8" => of(&[0xC001_0000..=0xC001_0007]),
        "zen2" => of(&[0xC001_0200..=0xC001_020B]),
        "zen4" => of(&[
            0xC001_0200..=0xC001_020B,
            0xC000_0300..=0xC000_0301,
            0xC000_010E..=0xC000_010F,
            0x1D9..=0x1D9,
        ]),
        _ => of(&[
            0x1A0..=0x1A0,
            0x300..=0x311,
            0x360..=0x371,
            0x3A0..=0x3BE,
            0x3C0..=0x3C5,
            0x3C8..=0x3CD,
            0x3E0..=0x3E1,
        ]),
    }
}

#[test]
fn the_registers_shown_are_the_processors_own() {
    for model in
        ["hyperv-masked", "pentium", "pentium3", "pentium4", "skylake", "k8", "zen2", "zen4"]
    {
        let mut wire = Wire::new(model, 2);
        if model != "hyperv-masked" {
            wire.run(spec(TOTAL_ISSUES), 0);
        }
        wire.work("instructions=40000,cycles=50000");
        for index in 0..2 {
            let shown = registers(&mut wire, index);
            let numbers: BTreeSet<u32> = shown.iter().map(|register| register.number).collect();
            let expected = registers_of(model);
            // IQ_ESCR0 and 1 are not on every NetBurst model.
            let iq = ranges(&[0x3BA..=0x3BB]);
            let differ: Vec<u32> = numbers.symmetric_difference(&expected).copied().collect();
            assert!(differ.iter().all(|msr| iq.contains(msr)), "{model} {differ:x?}");
            assert_eq!(numbers.len(), shown.len(), "each once");
            let processor = wire.model.processor(index as usize).expect("a processor");
            for Register { number, value, .. } in shown {
                let is = match number {
                    Register::CR4 => processor.cr4(),
                    LVTPC => processor.read_apic(0x340).expect("xAPIC").into(),
                    _ => processor.rdmsr(number).expect("a register"),
                };
                assert_eq!(value, is, "{model} {number:#x} of processor {index}");
            }
        }
        assert_eq!(wire.model.faults(), []);
    }
}

fn one(sources: &[Source], id: u32) -> Source {
    *sources.iter().find(|source| source.id == id).expect("a source")
}

/// Selects as the HAL's own tables have them, ProfileTime's included (data/emon-sources.csv,
/// data/amd64-sources.csv).
#[test]
fn a_source_tells_what_it_can() {
    const S: u32 = Source::SUPPORTED;
    const HAL: u32 = S | Source::HAL;
    const SELECTED: u32 = HAL | Source::HAS_SELECT;
    const SAMPLED: u32 = SELECTED | Source::SAMPLING;
    const TIMER: u32 = Source::TIMER;
    for (model, id, flags, select, note) in [
        ("skylake", TIME, SAMPLED | TIMER, 0x3003C, ""),
        ("skylake", TOTAL_ISSUES, SAMPLED, 0x300C0, ""),
        ("skylake", FIXED, S | Source::SAMPLING, 0, ""),
        ("zen2", TOTAL_ISSUES, SAMPLED, 0x300C0, ""),
        ("k8", TIME, SAMPLED | TIMER, 0x30076, ""),
        ("yonah", TIME, SAMPLED | TIMER, 0x3003C, ""),
        ("hyperv-masked", TIME, HAL | TIMER, 0, "address"),
        ("pentium", TIME, HAL | TIMER, 0, "raise no interrupt"),
    ] {
        let source = one(&sources(&mut Wire::new(model, 1), 0), id);
        assert_eq!(source.flags, flags, "{model} {id:#x}");
        assert_eq!(source.select, select, "{model} {id:#x}");
        let told = source.note;
        assert!(told.contains(note), "{model} {id:#x}");
        let why_not = told.contains("only") || told.contains("no address");
        assert_eq!(why_not, flags & Source::SAMPLING == 0, "{model} {told}");
        assert_eq!(source.cpu_types, 1);
    }
    let pentium = one(&sources(&mut Wire::new("pentium", 1), 0), TOTAL_ISSUES);
    assert_eq!(pentium.flags, S | Source::HAS_SELECT);
    assert!(pentium.note.contains("raise no interrupt"));
    // ES in bits 5:0, CC bit 2 in bit 8 (data/mapping.csv).
    let cycles = one(&sources(&mut Wire::new("pentium-mmx", 1), 0), TOTAL_CYCLES);
    assert_eq!(cycles.select, 0x130);
    // P6's ProfileAlignmentFixup counts references, not fixups (data/mapping.csv).
    for (flags, supported) in [(0, 0), (source::APPROXIMATE, S)] {
        let fixups = one(&sources(&mut Wire::new("pentium3", 1), flags), 1);
        assert_eq!(fixups.flags & S, supported, "{flags}");
    }
    let time = one(&sources(&mut Wire::new("skylake", 1), 0), TIME);
    let limits = [time.min_interval, time.default_interval, time.max_interval];
    assert_eq!(limits, [1221, 10_000, 1_000_000]);
    assert_eq!(time.name, "Timer");
}

/// 28,000 samples of 40 bytes are more than a reply may hold.
#[test]
fn a_drain_keeps_its_limit_and_names_every_processor() {
    let mut wire = Wire::new("skylake", 2);
    let every = Spec { interval: 20_000, ..spec(TOTAL_ISSUES) };
    let number = wire.run(every, SAMPLE);
    wire.work("instructions=280000000,cycles=280000000,processors=all");
    let counts = rows(&wire.about(session::STOP, number));
    assert!(counts.iter().all(|row| row[0].counted == 280_000_000));
    let statistics: Statistics = wire.about(samples::STATISTICS, number).done();
    assert_eq!((statistics.generated, statistics.stored), (28_000, 28_000));
    assert_eq!(statistics.lost, [0; LossCause::ALL.len()]);
    assert_eq!((statistics.spurious, statistics.throttled), (0, 0));
    assert_eq!(statistics.longest_period, 20_000);
    // Each modelled interrupt costs 1 us, at 1 GHz.
    assert!(statistics.handler_ticks > 0);
    let most = (DRAIN_BYTES_MAX - size_of::<Drained>()) / size_of::<Sample>();
    let request = halprof_tests::wire::about(number);
    let mut seen = [0; 2];
    for count in [most, 28_000 - most, 0] {
        let reply = wire.send_with_room(samples::DRAIN, &request, 2 * DRAIN_BYTES_MAX);
        let head: Drained = reply.done();
        assert_eq!(head.count as usize, count);
        for bytes in reply.bytes[size_of::<Drained>()..].chunks_exact(size_of::<Sample>()) {
            let sample = Sample::read_from_bytes(bytes).expect("a sample");
            seen[sample.processor as usize] += 1;
        }
        assert_eq!(head.left, 28_000 - seen.iter().sum::<u64>());
    }
    assert_eq!(seen, [14_000; 2]);
}

/// Each round three processors produce more than a reply holds: none is drained at the others'
/// expense.
#[test]
fn a_drain_goes_on_after_the_processor_where_it_was_cut_off() {
    let mut wire = Wire::new("skylake", 4);
    let every = Spec { interval: 20_000, ..spec(TOTAL_ISSUES) };
    let number = wire.run(every, SAMPLE);
    let request = halprof_tests::wire::about(number);
    let mut seen = [0_u64; 4];
    for _ in 0..3 {
        wire.work("instructions=280000000,cycles=280000000,processors=all");
        let reply = wire.send_with_room(samples::DRAIN, &request, 2 * DRAIN_BYTES_MAX);
        for bytes in reply.bytes[size_of::<Drained>()..].chunks_exact(size_of::<Sample>()) {
            let sample = Sample::read_from_bytes(bytes).expect("a sample");
            seen[sample.processor as usize] += 1;
        }
    }
    assert!(seen.iter().all(|&seen| seen > 10_000), "{seen:?}");
}

/// The design note's CheckOverflowStatus: counters whose value is below their initial value, from
/// the overflow until it is handled.
#[test]
fn overflowed_sources_are_shown_until_their_interrupt_is_handled() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.open();
    let specs =
        [TOTAL_ISSUES, BRANCH_INSTRUCTIONS].map(|source| Spec { interval: 10_000, ..spec(source) });
    let request = configure(number, SAMPLE, &specs);
    assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
    assert_eq!(wire.about(session::START, number).refusal(), None);
    let shown = |wire: &mut Wire| registers_and_overflows(wire, 0).1;
    assert_eq!(shown(&mut wire), [0_u32; 0]);
    // An overflow while LVTPC is masked interrupts nobody: STOP finds it.
    let processor = wire.model.processor(0).expect("a processor");
    let entry = processor.read_apic(LVTPC - LOCAL_APIC).expect("xAPIC mode");
    processor.write_apic(LVTPC - LOCAL_APIC, entry | 1 << 16).expect("xAPIC mode");
    wire.work("instructions=12000,branches=8000,cycles=12000");
    assert_eq!(shown(&mut wire), [TOTAL_ISSUES]);
    assert_eq!(wire.about(session::STOP, number).refusal(), None);
    assert_eq!(shown(&mut wire), [0_u32; 0]);
    let statistics: Statistics = wire.about(samples::STATISTICS, number).done();
    assert_eq!((statistics.generated, statistics.lost[LossCause::Missed as usize]), (1, 1));
}

/// Hypervisor Top-Level Functional Specification, leaf 0x40000003: a root partition may create
/// partitions (EBX 0) and manage processors (EBX 12); EDX 2 offers the counters, ECX 7 the
/// architectural ones.
#[test]
fn a_processor_tells_what_its_hypervisor_says() {
    const HV1: u32 = Processor::HV1;
    const ROOT: u32 = HV1 | Processor::HV1_ROOT;
    let root = first("hyperv-root-intel");
    for ([ebx, ecx, edx], flags) in [
        ([0, 0, 0], HV1),
        ([1, 0, 0], HV1),
        ([1 << 12, 0, 0], HV1),
        ([1 << 12 | 1, 0, 0], ROOT),
        ([!(1 << 12 | 1), !(1 << 7), !(1 << 2)], HV1),
        ([1 << 12 | 1, 0, 1 << 2], ROOT | Processor::HV1_COUNTERS),
        ([0, 1 << 7, 0], HV1 | Processor::HV1_ARCHITECTURAL),
    ] {
        let leaves = with(&root, 0x4000_0003, |leaf| {
            (leaf.ebx, leaf.ecx, leaf.edx) = (ebx, ecx, edx);
        });
        let one = processors(&mut Wire::on(Model::new(&[leaves])))[0];
        let mask = ROOT | Processor::HV1_COUNTERS | Processor::HV1_ARCHITECTURAL;
        assert_eq!(one.flags & mask, flags, "{ebx:#x} {ecx:#x} {edx:#x}");
    }
    let none = processors(&mut Wire::new("skylake", 1))[0];
    assert_eq!(none.flags & HV1, 0);
}

/// Without a local APIC, CPUID leaf 1 EDX 9, nothing can be interrupted.
#[test]
fn a_source_tells_why_it_cannot_be_sampled() {
    let no_apic = with(&first("skylake"), 1, |leaf| leaf.edx &= !(1 << 9));
    let all = sources(&mut Wire::on(Model::new(&[no_apic])), 0);
    for id in [TIME, TOTAL_ISSUES] {
        let source = one(&all, id);
        let can = source.flags & (Source::SUPPORTED | Source::SAMPLING);
        assert_eq!(can, Source::SUPPORTED, "{id:#x}");
        let note = source.note;
        assert!(note.contains("local APIC"), "{id:#x} {note}");
    }
}

#[test]
fn a_client_refuses_a_source_that_no_table_of_its_has() {
    let source = |id, table, note| source::Source { id, table, note, ..FromZeros::new_zeroed() };
    let (emon, default) = (SourceTable::Emon as u32, SourceTable::Default as u32);
    let known = source(TOTAL_ISSUES, emon, 0);
    assert_eq!(Source::from_wire(&known).map(|one| one.name), Some("TotalIssues"));
    for unknown in [
        source(TOTAL_ISSUES, default, 0),
        source(TOTAL_ISSUES, u32::MAX, 0),
        source(TOTAL_ISSUES, emon, u32::MAX),
    ] {
        assert_eq!(Source::from_wire(&unknown), None, "{unknown:?}");
    }
    for &note in SourceNote::ALL {
        let words = !texts::note(note).is_empty();
        assert_eq!(words, note != SourceNote::OfTable, "{note:?}");
    }
}
