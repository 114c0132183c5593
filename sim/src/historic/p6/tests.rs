//! The rules of the P6 family's counters, with one test each.

use super::*;
use crate::cpu::distinct_counts::{after, both_modes, only, user};
use crate::cpu::event::{BURST, Event};
use hal_profile::cpu::machine::CpuidResult;

const KLAMATH: u32 = 0x0000_0633;
const BANIAS: u32 = 0x0000_0695;
const DOTHAN: u32 = 0x0000_06D8;
const TOLAPAI: u32 = 0x0001_0650;

const USR: u64 = 1 << 16;
const OS: u64 = 1 << 17;
const EDGE: u64 = 1 << 18;
const INT: u64 = 1 << 20;
const EN: u64 = 1 << 22;
const INV: u64 = 1 << 23;
const CMASK_SHIFT: u32 = 24;

fn p6(signature: u32) -> P6 {
    let mut leaves = Leaves::default();
    let version = CpuidResult { eax: signature, ..CpuidResult::default() };
    leaves.insert(1, version);
    P6::new(&leaves)
}

fn write(unit: &mut P6, msr: u32, value: u64) -> Result<(), Fault> {
    let accepted = unit.write_msr(0, msr, value, &after(0)).expect("a register of the unit");
    accepted.then_some(()).ok_or(Fault::WriteMsr { msr, value })
}

fn read(unit: &mut P6, msr: u32) -> u64 {
    unit.read_msr(0, msr).expect("a register of the unit")
}

/// The values of both counters after `now` with these selects.
fn counted(selects: [u64; 2], now: &Counts) -> [u64; 2] {
    let mut unit = p6(KLAMATH);
    write(&mut unit, PERF_EVT_SEL0, selects[0]).expect("no reserved bit");
    write(&mut unit, PERF_EVT_SEL1, selects[1]).expect("no reserved bit");
    unit.count(0, now);
    [read(&mut unit, PERF_CTR0), read(&mut unit, PERF_CTR1)]
}

/// SDM vol. 3B, "PerfEvtSel0 and PerfEvtSel1 MSRs": EN is in the first alone, and bit 21 in neither.
#[test]
fn selects_keep_their_bits_and_refuse_every_other() {
    for (msr, kept) in [(PERF_EVT_SEL0, 0xFFDF_FFFF), (PERF_EVT_SEL1, 0xFF9F_FFFF)] {
        for value in (0..64).map(|bit| 1 << bit) {
            let mut unit = p6(KLAMATH);
            let fault = (value & kept == 0).then_some(Fault::WriteMsr { msr, value });
            assert_eq!(write(&mut unit, msr, value).err(), fault);
            assert_eq!(read(&mut unit, msr), value & kept);
        }
    }
}

#[test]
fn one_enable_gates_both_counters() {
    let instructions = 0xC0 | USR | OS;
    let amount = both_modes(Event::Instructions);
    let both = [instructions | EN, instructions];
    assert_eq!(counted(both, &after(1)), [amount; 2]);
    assert_eq!(counted([EN, instructions], &after(1)), [0, amount]);
    assert_eq!(counted([instructions; 2], &after(1)), [0, 0]);
}

#[test]
fn clearing_enable_stops_both() {
    let mut unit = p6(KLAMATH);
    write(&mut unit, PERF_EVT_SEL1, 0xC0 | USR).expect("no reserved bit");
    write(&mut unit, PERF_EVT_SEL0, 0xC4 | USR | EN).expect("no reserved bit");
    let stopped = unit.write_msr(0, PERF_EVT_SEL0, 0xC4 | USR, &after(1));
    assert_eq!(stopped, Some(true));
    unit.count(0, &after(2));
    assert_eq!(read(&mut unit, PERF_CTR0), user(Event::Branches));
    assert_eq!(read(&mut unit, PERF_CTR1), user(Event::Instructions));
}

#[test]
fn counter_writes_are_32_bits_sign_extended() {
    let rows = [
        (0x0000_0000, 0x0000_0000),
        (0x7FFF_FFFF, 0x7FFF_FFFF),
        (0x8000_0000, 0xFF_8000_0000),
        (0xFFFF_FF9C, 0xFF_FFFF_FF9C),
        (0x55_0000_0001, 0x0000_0001),
        (0xFFFF_FF00_0000_0001, 0x0000_0001),
    ];
    for (written, held) in rows {
        let mut unit = p6(KLAMATH);
        assert_eq!(write(&mut unit, PERF_CTR1, written), Ok(()));
        assert_eq!(read(&mut unit, PERF_CTR1), held, "{written:#x}");
    }
}

#[test]
fn rdpmc_reads_both_counters_in_40_bits() {
    let mut unit = p6(KLAMATH);
    write(&mut unit, PERF_CTR0, 0xFFFF_FFFF).expect("any value");
    write(&mut unit, PERF_CTR1, 7).expect("any value");
    assert_eq!(unit.read_pmc(0, 0), Ok(0xFF_FFFF_FFFF));
    assert_eq!(unit.read_pmc(0, 1), Ok(7));
    let fault = Fault::ReadPmc { counter: 2 };
    assert_eq!(unit.read_pmc(0, 2), Err(fault));
}

/// The first four are of the L2 cache, without a MESI state.
#[test]
fn undocumented_selects_count_nothing() {
    for code in [0x28, 0x29, 0x2A, 0x2E, 0x0000, 0x003C, 0x01C0, 0x80C4, 0x412E, 0x0179] {
        let select = code | USR | OS;
        assert_eq!(counted([select | EN, select], &after(1)), [0, 0], "{code:#x}");
    }
}

#[test]
fn cmask_and_inv_compare_with_the_events_of_a_cycle() {
    let mut now = only(Event::Instructions, 10 * BURST + 1);
    now.set(Event::Cycles, 100, 100);
    let cmask = |n: u64| n << CMASK_SHIFT;
    let rows = [
        (0, 10 * BURST + 1),
        (INV, 10 * BURST + 1),
        (cmask(1), 11),
        (cmask(2), 10),
        (cmask(BURST + 1), 0),
        (cmask(1) | INV, 89),
        (cmask(2) | INV, 90),
        (EDGE, 11),
    ];
    for (bits, amount) in rows {
        let select = 0xC0 | USR | EN | bits;
        assert_eq!(counted([select, 0], &now), [amount, 0], "{bits:#x}");
    }
}

#[test]
fn overflow_interrupts_iff_int_is_set() {
    for (int, threads) in [(INT, 1), (0, 0)] {
        let mut unit = p6(KLAMATH);
        write(&mut unit, PERF_CTR0, 0xFFFF_FF9C).expect("any value");
        write(&mut unit, PERF_EVT_SEL0, 0xC0 | USR | EN | int).expect("no reserved bit");
        assert_eq!(unit.count(0, &only(Event::Instructions, 99)), 0);
        assert_eq!(read(&mut unit, PERF_CTR0), 0xFF_FFFF_FFFF);
        assert_eq!(unit.count(0, &only(Event::Instructions, 100)), threads);
        assert_eq!(read(&mut unit, PERF_CTR0), 0);
        assert_eq!(unit.count(0, &only(Event::Instructions, 150)), 0);
        assert_eq!(unit.asserted(), 0);
    }
}

#[test]
fn an_overflow_met_by_a_register_access_is_not_lost() {
    let mut unit = p6(KLAMATH);
    write(&mut unit, PERF_CTR0, 0xFFFF_FFFF).expect("any value");
    write(&mut unit, PERF_EVT_SEL0, 0xC0 | USR | EN | INT).expect("no reserved bit");
    let now = only(Event::Instructions, 1);
    assert_eq!(unit.write_msr(0, PERF_EVT_SEL0, 0, &now), Some(true));
    assert_eq!((unit.count(0, &now), unit.count(0, &now)), (1, 0));
}

#[test]
fn a_watch_names_the_count_that_interrupts() {
    let mut unit = p6(KLAMATH);
    write(&mut unit, PERF_CTR1, 0xFFFF_FF9C).expect("any value");
    write(&mut unit, PERF_EVT_SEL1, 0xC4 | USR | OS | INT).expect("no reserved bit");
    write(&mut unit, PERF_EVT_SEL0, 0xC0 | USR | EN).expect("no reserved bit");
    let mut watches = Vec::new();
    unit.watches(0, &mut |watch| watches.push(watch));
    assert_eq!(watches.len(), 1);
    assert_eq!(watches[0].feed.event, Event::Branches);
    assert_eq!(watches[0].at, 100);
}

#[test]
fn pentium_m_masks_on_delivery_and_has_misc_enable() {
    for (signature, pentium_m) in [
        (0x0000_0619, false),
        (KLAMATH, false),
        (0x0000_06B1, false),
        (BANIAS, true),
        (DOTHAN, true),
        (TOLAPAI, true),
    ] {
        let mut unit = p6(signature);
        assert_eq!(unit.masks_on_delivery(), pentium_m, "{signature:#x}");
        let misc_enable = unit.read_msr(0, MISC_ENABLE);
        assert_eq!(misc_enable, pentium_m.then_some(1 << 7));
    }
}

#[test]
fn no_later_register_is_there() {
    let mut unit = p6(KLAMATH);
    for msr in [0xC0, 0xC3, 0x188, 0x309, 0x38F, 0x1A0] {
        assert_eq!(unit.read_msr(0, msr), None, "{msr:#x}");
        assert_eq!(unit.write_msr(0, msr, 0, &after(0)), None, "{msr:#x}");
    }
}

#[test]
fn reset_clears_everything() {
    let mut unit = p6(BANIAS);
    write(&mut unit, PERF_CTR0, 5).expect("any value");
    write(&mut unit, PERF_EVT_SEL0, 0xC0 | USR | EN).expect("no reserved bit");
    unit.reset();
    unit.count(0, &after(1));
    assert_eq!(read(&mut unit, PERF_EVT_SEL0), 0);
    assert_eq!(read(&mut unit, PERF_CTR0), 0);
    assert!(unit.masks_on_delivery());
}

#[test]
fn rows_agree_with_the_published_events_on_every_processor() {
    let mut published =
        csv::Reader::from_reader(include_str!("../../../../facts/p6-events.csv").as_bytes());
    let records: Vec<csv::StringRecord> =
        published.records().collect::<Result<_, _>>().expect("well-formed");
    for row in &events::ROWS {
        let code = format!("0x{:02X}", row.event_select);
        let record = records.iter().find(|record| record[0] == code).expect(row.name);
        let counters = if row.counters == [0] { "0" } else { "0|1" };
        let facts = [&record[1], &record[4], &record[5]];
        let everywhere = "PPro;PII;Celeron;PIII;PM";
        assert_eq!(facts, [row.name, counters, everywhere]);
        let has_states = record[3].contains("M E S I");
        assert_eq!(row.unit_mask != 0, has_states, "{}", row.name);
    }
}
