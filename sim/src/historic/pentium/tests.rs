//! The rules of the Pentium's counters, with one test each.

use super::*;
use crate::cpu::distinct_counts::{after, both_modes, only, user};
use crate::cpu::event::Event;
use hal_profile::cpu::machine::CpuidResult;

const P5: u32 = 0x0000_01BF;
const P55C: u32 = 0x0080_01BF;

/// CC bit 0, 1 and 2.
const KERNEL: u64 = 1 << 6;
const USER: u64 = 1 << 7;
const CLOCKS: u64 = 1 << 8;

fn pentium(features: u32) -> Pentium {
    let mut leaves = Leaves::default();
    let version = CpuidResult { eax: 0x0000_0543, edx: features, ..CpuidResult::default() };
    leaves.insert(1, version);
    Pentium::new(&leaves)
}

fn write(unit: &mut Pentium, msr: u32, value: u64) -> Result<(), Fault> {
    let accepted = unit.write_msr(0, msr, value, &after(0)).expect("a register of the unit");
    accepted.then_some(()).ok_or(Fault::WriteMsr { msr, value })
}

fn read(unit: &mut Pentium, msr: u32) -> u64 {
    unit.read_msr(0, msr).expect("a register of the unit")
}

/// The values of both counters after one round with `cesr`.
fn counted(features: u32, cesr: u64) -> [u64; 2] {
    let mut unit = pentium(features);
    write(&mut unit, CESR, cesr).expect("no reserved bit");
    unit.count(0, &after(1));
    [read(&mut unit, CTR0), read(&mut unit, CTR1)]
}

#[test]
fn cesr_keeps_its_bits_pins_included_and_refuses_every_other() {
    for value in (0..64).map(|bit| 1 << bit) {
        let (mut unit, kept) = (pentium(P55C), 0x03FF_03FF);
        let fault = (value & kept == 0).then_some(Fault::WriteMsr { msr: CESR, value });
        assert_eq!(write(&mut unit, CESR, value).err(), fault);
        assert_eq!(read(&mut unit, CESR), value & kept);
    }
}

#[test]
fn a_code_may_mean_something_else_on_the_other_counter() {
    let clocks = 0x30 | USER | KERNEL | CLOCKS;
    let cycles = both_modes(Event::Cycles);
    assert_eq!(counted(P55C, clocks << 16 | clocks), [cycles, 0]);
    let flushes = 0x35 | USER | KERNEL;
    let misses = both_modes(Event::BranchMisses);
    assert_eq!(counted(P55C, flushes << 16 | flushes), [misses, 0]);
}

/// Cycles need the clock bit, all others its absence; two codes came with MMX.
#[test]
fn every_other_code_counts_nothing() {
    let counting = [0x0C, 0x0E, 0x12, 0x15, 0x16, 0x22, 0x28, 0x29, 0x30, 0x35];
    for features in [P5, P55C] {
        for (code, clocks) in (0..0x40).flat_map(|code| [(code, 0), (code, CLOCKS)]) {
            let half = code | USER | KERNEL | clocks;
            let there = counting.contains(&code) && (features == P55C || code < 0x30);
            let counts = there && (clocks != 0) == (code == 0x30);
            let [first, _] = counted(features, half << 16 | half);
            assert_eq!(first != 0, counts, "{features:#x} {half:#x}");
        }
    }
}

#[test]
fn counters_wrap_at_40_bits_without_an_interrupt() {
    let mut unit = pentium(P5);
    write(&mut unit, CTR0, (1 << 40) - 10).expect("40 bits");
    write(&mut unit, CESR, 0x16 | USER).expect("no reserved bit");
    assert_eq!(unit.count(0, &only(Event::Instructions, 13)), 0);
    assert_eq!(read(&mut unit, CTR0), 3);
    assert_eq!(unit.asserted(), 0);
    unit.watches(0, &mut |watch| panic!("{watch:?}"));
    assert_eq!(unit.counter_width(), 40);
}

#[test]
fn counter_writes_are_40_bits_and_not_sign_extended() {
    let mut unit = pentium(P5);
    write(&mut unit, CTR1, 0x80_8000_0001).expect("40 bits");
    assert_eq!(read(&mut unit, CTR1), 0x80_8000_0001);
    write(&mut unit, CTR1, 0x8000_0001).expect("40 bits");
    assert_eq!(read(&mut unit, CTR1), 0x8000_0001);
    assert!(write(&mut unit, CTR1, 1 << 40).is_err());
}

#[test]
fn events_before_a_write_count_by_the_registers_as_they_were() {
    let mut unit = pentium(P5);
    write(&mut unit, CESR, 0x16 | USER).expect("no reserved bit");
    let changed = unit.write_msr(0, CESR, 0x12 | USER, &after(1));
    assert_eq!(changed, Some(true));
    unit.count(0, &after(2));
    let sum = user(Event::Instructions) + user(Event::Branches);
    assert_eq!(read(&mut unit, CTR0), sum);
}

#[test]
fn rdpmc_came_with_mmx() {
    let mut old = pentium(P5);
    assert_eq!(old.read_pmc(0, 0), Err(Fault::InvalidOpcode));
    let mut mmx = pentium(P55C);
    write(&mut mmx, CTR1, 0xAB_1234_5678).expect("40 bits");
    assert_eq!(mmx.read_pmc(0, 0), Ok(0));
    assert_eq!(mmx.read_pmc(0, 1), Ok(0xAB_1234_5678));
    let fault = Fault::ReadPmc { counter: 2 };
    assert_eq!(mmx.read_pmc(0, 2), Err(fault));
}

#[test]
fn no_other_register_is_the_units() {
    let mut unit = pentium(P55C);
    for msr in [0x10, 0x14, 0xC1, 0x186, 0x1A0] {
        assert_eq!(unit.read_msr(0, msr), None, "{msr:#x}");
        assert_eq!(unit.write_msr(0, msr, 0, &after(0)), None, "{msr:#x}");
    }
}

#[test]
fn reset_clears_cesr() {
    let mut unit = pentium(P5);
    write(&mut unit, CESR, 0x16 | USER).expect("no reserved bit");
    unit.reset();
    unit.count(0, &after(1));
    assert_eq!((read(&mut unit, CESR), read(&mut unit, CTR0)), (0, 0));
}

#[test]
fn rows_agree_with_the_published_events() {
    let mut published =
        csv::Reader::from_reader(include_str!("../../../../facts/p5-events.csv").as_bytes());
    let records: Vec<csv::StringRecord> =
        published.records().collect::<Result<_, _>>().expect("well-formed");
    for row in &events::ROWS {
        let code = format!("0x{:02X}", row.code);
        let record = records
            .iter()
            .find(|record| record[0] == code && record[1] == *row.name)
            .expect(row.name);
        let kind = if row.clocks { "duration" } else { "occurrence" };
        let counters = if row.counters == [0] { "0" } else { "0|1" };
        let processors = if row.mmx_only { "P5MMX" } else { "P5;P5MMX" };
        let facts = [&record[2], &record[3], &record[4]];
        assert_eq!(facts, [kind, counters, processors], "{}", row.name);
    }
}
