//! The rules of NetBurst's counters, with one test each.

use super::*;
use crate::cpu::distinct_counts::{after, both_modes, kernel, only, user};
use crate::cpu::event::BURST;
use hal_profile::cpu::machine::CpuidResult;

const NORTHWOOD: u8 = 2;
const PRESCOTT: u8 = 3;

const T1_USR: u64 = 1;
const T1_OS: u64 = 1 << 1;
const USR: u64 = 1 << 2;
const OS: u64 = 1 << 3;

const ENABLE: u64 = 1 << 12;
const COMPARE: u64 = 1 << 18;
const COMPLEMENT: u64 = 1 << 19;
const THRESHOLD_SHIFT: u32 = 20;
const EDGE: u64 = 1 << 24;
const FORCE_OVF: u64 = 1 << 25;
const OVF_PMI_T0: u64 = 1 << 26;
const OVF_PMI_T1: u64 = 1 << 27;
const CASCADE: u64 = 1 << 30;
const OVF: u64 = 1 << 31;

/// instr_retired NBOGUSNTAG and NBOGUSTAG, without privilege levels.
const INSTRUCTIONS: u64 = 0x0400_0600;
/// The CCCR of the SDM's example: ENABLE, ESCR select 4, ACTIVE_THREAD 11b.
const IQ_ENABLED: u64 = 0x0003_9000;
const CRU_ESCR0: u32 = 0x3B8;
const CRU_ESCR1: u32 = 0x3B9;
const CRU_ESCR2: u32 = 0x3CC;
const FSB_ESCR0: u32 = 0x3A2;
const FIRM_ESCR0: u32 = 0x3A4;
/// Counter 12, the first that CRU_ESCR0 feeds.
const IQ: u32 = 12;

const fn counter(n: u32) -> u32 {
    0x300 + n
}

const fn cccr(n: u32) -> u32 {
    0x360 + n
}

fn netburst(model: u8, threads: u32) -> NetBurst {
    let mut leaves = Leaves::default();
    let version = CpuidResult {
        eax: 0x0000_0F00 | u32::from(model) << 4,
        ebx: threads << 16,
        edx: DS | HTT,
        ..CpuidResult::default()
    };
    leaves.insert(1, version);
    NetBurst::new(&leaves)
}

fn try_write(unit: &mut NetBurst, msr: u32, value: u64) -> Result<(), Fault> {
    let accepted = unit.write_msr(0, msr, value, &after(0)).expect("a register of the unit");
    accepted.then_some(()).ok_or(Fault::WriteMsr { msr, value })
}

fn write(unit: &mut NetBurst, writes: &[(u32, u64)]) {
    for &(msr, value) in writes {
        try_write(unit, msr, value).expect("no reserved bit");
    }
}

/// Writes after everything of thread 0 up to `now` has been counted.
fn write_at(unit: &mut NetBurst, msr: u32, value: u64, now: &Counts) {
    let written = unit.write_msr(0, msr, value, now);
    assert_eq!(written, Some(true), "{msr:#x}");
}

fn read(unit: &mut NetBurst, msr: u32) -> u64 {
    unit.read_msr(0, msr).expect("a register of the unit")
}

/// The value of counter `n` after one round of a single thread.
fn counted(n: u32, writes: &[(u32, u64)]) -> u64 {
    let mut unit = netburst(NORTHWOOD, 1);
    write(&mut unit, writes);
    unit.count(0, &after(1));
    read(&mut unit, counter(n))
}

/// The value of counter `n` after one round of thread 0 and two of thread 1.
fn counted_by_both(n: u32, writes: &[(u32, u64)]) -> u64 {
    let mut unit = netburst(PRESCOTT, 2);
    write(&mut unit, writes);
    unit.count(0, &after(1));
    unit.count(1, &after(2));
    read(&mut unit, counter(n))
}

/// A unit that counts user instructions on counter 12 from `-preset`, with these additional bits in
/// its CCCR.
fn sampling(preset: u64, bits: u64) -> NetBurst {
    let mut unit = netburst(NORTHWOOD, 1);
    let value = (1 << 40) - preset;
    write(
        &mut unit,
        &[(CRU_ESCR0, INSTRUCTIONS | USR), (counter(IQ), value), (cccr(IQ), IQ_ENABLED | bits)],
    );
    unit
}

fn instructions(n: u64) -> Counts {
    only(Event::Instructions, n)
}

fn watches(unit: &NetBurst, thread: usize) -> Vec<Watch> {
    let mut watches = Vec::new();
    unit.watches(thread, &mut |watch| watches.push(watch));
    watches
}

/// SDM vol. 4, "MSRs in Pentium 4": what each register keeps; every other bit faults.
#[test]
fn registers_take_the_bits_that_the_manual_gives_them() {
    let escr = 0x7FFF_FFFC;
    let escr_of_two = escr | T1_USR | T1_OS;
    let cccr_bits = 0xC7FF_F000;
    let cccr_of_two = cccr_bits | OVF_PMI_T1;
    let extended_cascade = 1 << 11;
    let mut rows = vec![
        (NORTHWOOD, 1, CRU_ESCR0, escr),
        (NORTHWOOD, 2, CRU_ESCR0, escr_of_two),
        (PRESCOTT, 2, CRU_ESCR1, escr_of_two),
        (NORTHWOOD, 1, cccr(0), cccr_bits),
        (1, 1, cccr(12), cccr_bits),
    ];
    for n in 0..18 {
        let cascades = [12, 15, 16, 17].contains(&n);
        let kept = cccr_of_two | if cascades { extended_cascade } else { 0 };
        rows.extend([(NORTHWOOD, 2, cccr(n), kept), (PRESCOTT, 2, cccr(n), kept)]);
    }
    for (model, threads, msr, kept) in rows {
        for value in (0..64).map(|bit| 1 << bit) {
            let mut unit = netburst(model, threads);
            let written = try_write(&mut unit, msr, value).is_ok();
            assert_eq!(written, value & kept != 0, "model {model}, {threads}: {msr:#x} {value:#x}");
            assert_eq!(read(&mut unit, msr), value & kept, "{msr:#x}");
        }
    }
}

#[test]
fn there_are_45_escrs_and_no_ssu_escr1() {
    let there = |model| {
        let mut unit = netburst(model, 1);
        (0x3A0..=0x3E1).filter(|&msr| unit.read_msr(0, msr).is_some()).count()
    };
    assert_eq!((there(NORTHWOOD), there(PRESCOTT)), (45, 43));
    assert_eq!(netburst(NORTHWOOD, 1).read_msr(0, 0x3BF), None);
}

#[test]
fn no_other_register_is_the_units() {
    let mut unit = netburst(NORTHWOOD, 1);
    for msr in [0x10, 0xC1, 0x186, 0x2FF, 0x312, 0x35F, 0x372, 0x38F, 0x3E2] {
        assert_eq!(unit.read_msr(0, msr), None, "{msr:#x}");
        assert_eq!(unit.write_msr(0, msr, 0, &after(0)), None, "{msr:#x}");
    }
}

/// Bit 7 announces the counters, bits 11 and 12 that there is no debug store; the limit of leaves,
/// bit 22, is the only one that software may change.
#[test]
fn misc_enable_announces_the_debug_store_and_is_mostly_read_only() {
    let mut unit = netburst(NORTHWOOD, 1);
    assert_eq!(read(&mut unit, MISC_ENABLE), 1 << 7);
    write(&mut unit, &[(MISC_ENABLE, 1 << 22 | 1 << 11)]);
    assert_eq!(read(&mut unit, MISC_ENABLE), 1 << 22 | 1 << 7);
    assert!(try_write(&mut unit, MISC_ENABLE, 1 << 63).is_err());
    let mut without = NetBurst::new(&Leaves::default());
    assert_eq!(read(&mut without, MISC_ENABLE), 1 << 7 | 1 << 11 | 1 << 12);
}

#[test]
fn ds_area_exists_with_the_debug_store_one_for_each_thread() {
    let mut unit = netburst(PRESCOTT, 2);
    let canonical = 0xFFFF_8000_0000_1000;
    write_at(&mut unit, DS_AREA, canonical, &after(0));
    assert_eq!(unit.read_msr(0, DS_AREA), Some(canonical));
    assert_eq!(unit.read_msr(1, DS_AREA), Some(0));
    assert!(try_write(&mut unit, DS_AREA, 0x8000_0000_0000).is_err());
    let mut without = NetBurst::new(&Leaves::default());
    assert_eq!(without.read_msr(0, DS_AREA), None);
}

#[test]
fn counter_writes_are_full_40_bits() {
    for value in [0x80_0000_0000, 0x8000_0000, 0xFF_FFFF_FF9D, 1] {
        let mut unit = netburst(NORTHWOOD, 1);
        write(&mut unit, &[(counter(17), value)]);
        assert_eq!(read(&mut unit, counter(17)), value);
        write(&mut unit, &[(counter(17), value | 0xFFFF_FF00_0000_0000)]);
        assert_eq!(read(&mut unit, counter(17)), value);
    }
}

#[test]
fn rdpmc_reads_18_counters_in_full_or_fast() {
    let mut unit = netburst(NORTHWOOD, 1);
    for n in 0..18 {
        let value = 0xAB_0000_0000 + u64::from(n);
        write(&mut unit, &[(counter(n), value)]);
        assert_eq!(unit.read_pmc(0, n), Ok(value));
        assert_eq!(unit.read_pmc(0, 1 << 31 | n), Ok(u64::from(n)));
    }
    for counter in [0x12, 0x4000_0000, 0x8000_0012] {
        let fault = Fault::ReadPmc { counter };
        assert_eq!(unit.read_pmc(0, counter), Err(fault));
    }
}

/// Without Hyper-Threading no thread is ever a single one of two; with it both are always active.
#[test]
fn a_counter_needs_enable_and_active_threads() {
    let all = user(Event::Instructions);
    for active in 0..=3_u64 {
        let select = 4 << 13 | active << 16;
        let writes = |enable| [(CRU_ESCR0, INSTRUCTIONS | USR), (cccr(IQ), select | enable)];
        let amount = |counts| if counts { all } else { 0 };
        assert_eq!(counted(IQ, &writes(0)), 0, "{active:02b}");
        assert_eq!(counted(IQ, &writes(ENABLE)), amount(active == 3), "{active:02b}");
        assert_eq!(counted_by_both(IQ, &writes(ENABLE)), amount(active >= 2), "{active:02b}");
    }
}

/// Thread 1 does everything twice as often. Events of the package are of no thread.
#[test]
fn thread_bits_say_whose_events_count() {
    let (own, all) = (Event::Instructions, Event::FpOperations);
    let instructions = |modes| [(CRU_ESCR0, INSTRUCTIONS | modes), (cccr(IQ), IQ_ENABLED)];
    let operations = |modes| [(FIRM_ESCR0, 0x0900_0000 | modes), (cccr(8), 0x0003_2000 | ENABLE)];
    for (modes, of_thread, of_package) in [
        (USR, user(own), 3 * user(all)),
        (OS, kernel(own), 3 * kernel(all)),
        (T1_USR, 2 * user(own), 3 * user(all)),
        (T1_OS, 2 * kernel(own), 3 * kernel(all)),
        (USR | T1_OS, user(own) + 2 * kernel(own), 3 * both_modes(all)),
        (USR | OS | T1_USR | T1_OS, 3 * both_modes(own), 3 * both_modes(all)),
    ] {
        assert_eq!(counted_by_both(IQ, &instructions(modes)), of_thread, "{modes:04b}");
        assert_eq!(counted_by_both(8, &operations(modes)), of_package, "{modes:04b}");
    }
}

/// All counters at once: three look at one ESCR.
#[test]
fn a_select_that_leads_elsewhere_counts_nothing() {
    for select in 0..8 {
        let mut unit = netburst(NORTHWOOD, 1);
        write(&mut unit, &[(CRU_ESCR0, INSTRUCTIONS | USR)]);
        let enabled = ENABLE | 0x0003_0000 | select << 13;
        (0..18).for_each(|n| write(&mut unit, &[(cccr(n), enabled)]));
        unit.count(0, &after(1));
        for n in 0..18 {
            let leads = select == 4 && [12, 13, 16].contains(&n);
            let amount = if leads { user(Event::Instructions) } else { 0 };
            assert_eq!(read(&mut unit, counter(n)), amount, "select {select}, counter {n}");
        }
    }
}

#[test]
fn masks_count_whole_and_undocumented_ones_not_at_all() {
    let all = both_modes(Event::Instructions);
    let branches = both_modes(Event::Branches);
    let rows = [
        // instr_retired: NBOGUSNTAG, NBOGUSTAG, both, none, and an additional undocumented bit.
        (12, CRU_ESCR0, 4, 0x0400_0200, all),
        (12, CRU_ESCR0, 4, 0x0400_0400, 0),
        (12, CRU_ESCR0, 4, 0x0400_0600, all),
        (12, CRU_ESCR0, 4, 0x0400_0000, 0),
        (12, CRU_ESCR0, 4, 0x0400_2600, 0),
        // branch_retired: all four, three.
        (12, CRU_ESCR2, 5, 0x0C00_1E00, branches),
        (12, CRU_ESCR2, 5, 0x0C00_0E00, 0),
        // No event.
        (12, CRU_ESCR0, 4, 0x0000_0200, 0),
    ];
    for (n, escr, select, value, amount) in rows {
        let enabled = ENABLE | 0x0003_0000 | select << 13;
        let writes = [(escr, value | USR | OS), (cccr(n), enabled)];
        assert_eq!(counted(n, &writes), amount, "ESCR {value:#x}");
    }
}

#[test]
fn replays_count_only_when_they_are_tagged() {
    let rows = [
        (0x0100_0001, 1, both_modes(Event::L1dMisses)),
        (0x0000_0001, 1, 0),
        (0x0100_0002, 1, 0),
        (0x0100_0001, 2, 0),
        (0, 0, 0),
    ];
    for (enable, matrix, amount) in rows {
        let writes = [
            (CRU_ESCR2, 0x1200_0200 | USR | OS),
            (cccr(IQ), 0x0003_A000 | ENABLE),
            (PEBS_ENABLE, enable),
            (PEBS_MATRIX_VERT, matrix),
        ];
        assert_eq!(counted(IQ, &writes), amount, "{enable:#x}, {matrix:#x}");
    }
}

#[test]
fn instr_completed_came_with_model_3() {
    let clocks = IQ_ENABLED | COMPARE | COMPLEMENT | 15 << THRESHOLD_SHIFT;
    for (model, amount) in [(NORTHWOOD, 0), (PRESCOTT, both_modes(Event::Cycles))] {
        let mut unit = netburst(model, 1);
        write(&mut unit, &[(CRU_ESCR0, 0x0E00_0200), (cccr(IQ), clocks)]);
        unit.count(0, &after(1));
        assert_eq!(read(&mut unit, counter(IQ)), amount, "model {model}");
    }
}

#[test]
fn compare_counts_above_the_threshold_and_complement_the_rest() {
    let mut now = instructions(10 * BURST + 1);
    now.set(Event::Cycles, 100, 100);
    let above = |n: u64| COMPARE | n << THRESHOLD_SHIFT;
    let rows = [
        (0, 10 * BURST + 1),
        // Without COMPARE none of these three has any meaning.
        (COMPLEMENT | EDGE | 3 << THRESHOLD_SHIFT, 10 * BURST + 1),
        (above(0), 11),
        (above(1), 10),
        (above(BURST), 0),
        (above(0) | COMPLEMENT, 89),
        (above(1) | COMPLEMENT, 90),
        (above(0) | EDGE, 11),
    ];
    for (bits, amount) in rows {
        let mut unit = sampling(0, bits);
        unit.count(0, &now);
        assert_eq!(read(&mut unit, counter(IQ)), amount, "{bits:#x}");
    }
}

#[test]
fn threshold_15_complemented_counts_every_clock_in_any_mode() {
    let clocks = IQ_ENABLED | COMPARE | COMPLEMENT | 15 << THRESHOLD_SHIFT;
    // uops_retired, which is not an event of the model, without privilege levels.
    let writes = [(CRU_ESCR0, 0x0200_0200), (cccr(IQ), clocks)];
    assert_eq!(counted(IQ, &writes), both_modes(Event::Cycles));
    // Select 0 is no event: the counter is powered off.
    assert_eq!(counted(IQ, &[(CRU_ESCR0, 0), (cccr(IQ), clocks)]), 0);
}

#[test]
fn clocks_compare_as_one_a_cycle() {
    let running = (FSB_ESCR0, 0x2600_0200 | USR | OS);
    let all = both_modes(Event::Cycles);
    let rows = [
        (0, all),
        (COMPARE, all),
        (COMPARE | 1 << THRESHOLD_SHIFT, 0),
        (COMPARE | COMPLEMENT, 0),
        (COMPARE | EDGE, 0),
    ];
    for (bits, amount) in rows {
        let writes = [running, (cccr(0), 0x0003_C000 | ENABLE | bits)];
        assert_eq!(counted(0, &writes), amount, "{bits:#x}");
    }
}

#[test]
fn preset_minus_99_interrupts_at_the_100th_event() {
    let mut unit = sampling(99, OVF_PMI_T0);
    assert_eq!(unit.count(0, &instructions(98)), 0);
    assert_eq!(read(&mut unit, cccr(IQ)) & OVF, 0);
    assert_eq!(unit.count(0, &instructions(99)), 0);
    assert_eq!(read(&mut unit, cccr(IQ)) & OVF, OVF);
    assert_eq!(unit.asserted(), 0);
    assert_eq!(unit.count(0, &instructions(100)), 0b01);
    assert_eq!(unit.asserted(), 0b01);
    assert_eq!(read(&mut unit, counter(IQ)), 1);
}

#[test]
fn a_watch_names_the_count_after_the_overflow() {
    let mut unit = sampling(99, OVF_PMI_T0);
    assert_eq!(watches(&unit, 0)[0].at, 100);
    unit.count(0, &instructions(40));
    assert_eq!(watches(&unit, 0)[0].at, 100);
    unit.count(0, &instructions(99));
    assert_eq!(watches(&unit, 0)[0].at, 100);
    assert_eq!(watches(&sampling(99, 0), 0), []);
}

#[test]
fn one_long_stretch_counts_as_many_short_ones_do() {
    let mut long = sampling(99, OVF_PMI_T0);
    assert_eq!(long.count(0, &instructions(250)), 0b01);
    let mut short = sampling(99, OVF_PMI_T0);
    let interrupts: u8 = (1..=250).map(|n| short.count(0, &instructions(n))).sum();
    assert_eq!(interrupts, 1);
    for msr in [counter(IQ), cccr(IQ)] {
        assert_eq!(read(&mut long, msr), read(&mut short, msr));
    }
}

#[test]
fn overflow_stays_until_software_clears_it() {
    let mut unit = sampling(9, OVF_PMI_T0);
    assert_eq!(unit.count(0, &instructions(10)), 0b01);
    let now = instructions(20);
    assert_eq!(unit.count(0, &now), 0);
    assert_eq!((read(&mut unit, cccr(IQ)) & OVF, unit.asserted()), (OVF, 1));
    // Disabling alone leaves the line active.
    write_at(&mut unit, cccr(IQ), 0x0003_8000 | OVF_PMI_T0 | OVF, &now);
    assert_eq!(unit.asserted(), 0b01);
    write_at(&mut unit, cccr(IQ), 0x0003_8000 | OVF_PMI_T0, &now);
    assert_eq!((read(&mut unit, cccr(IQ)) & OVF, unit.asserted()), (0, 0));
}

#[test]
fn the_line_follows_the_interrupt_enable() {
    let mut unit = sampling(9, 0);
    let now = instructions(10);
    assert_eq!((unit.count(0, &now), unit.asserted()), (0, 0));
    write_at(&mut unit, cccr(IQ), IQ_ENABLED | OVF | OVF_PMI_T0, &now);
    assert_eq!(unit.asserted(), 0b01);
}

#[test]
fn clearing_overflow_before_the_next_count_cancels_the_interrupt() {
    let mut unit = sampling(9, OVF_PMI_T0);
    let now = instructions(9);
    assert_eq!(unit.count(0, &now), 0);
    write_at(&mut unit, cccr(IQ), IQ_ENABLED | OVF_PMI_T0, &now);
    assert_eq!(unit.count(0, &instructions(10)), 0);
}

#[test]
fn an_overflow_met_by_a_register_access_is_not_lost() {
    let mut unit = sampling(9, OVF_PMI_T0);
    let now = instructions(10);
    write_at(&mut unit, counter(0), 0, &now);
    assert_eq!((unit.count(0, &now), unit.count(0, &now)), (0b01, 0));
}

#[test]
fn interrupts_go_to_the_threads_that_ask() {
    for (bits, threads) in [(OVF_PMI_T0, 0b01), (OVF_PMI_T1, 0b10), (OVF_PMI_T0 | OVF_PMI_T1, 0b11)]
    {
        let mut unit = netburst(PRESCOTT, 2);
        write(
            &mut unit,
            &[
                (CRU_ESCR1, INSTRUCTIONS | T1_USR),
                (counter(14), (1 << 40) - 9),
                (cccr(14), IQ_ENABLED | bits),
            ],
        );
        assert_eq!(unit.count(0, &instructions(50)), 0);
        assert_eq!(watches(&unit, 0), []);
        assert_eq!(watches(&unit, 1)[0].at, 10);
        assert_eq!(unit.count(1, &instructions(10)), threads);
        assert_eq!(unit.asserted(), threads);
    }
}

#[test]
fn forced_overflow_interrupts_at_every_count() {
    let mut unit = sampling(1000, OVF_PMI_T0 | FORCE_OVF);
    for n in 1..=3 {
        assert_eq!(watches(&unit, 0)[0].at, n);
        assert_eq!(unit.count(0, &instructions(n)), 0b01);
        assert_eq!(read(&mut unit, cccr(IQ)) & OVF, OVF);
        let bits = IQ_ENABLED | OVF_PMI_T0 | FORCE_OVF;
        write_at(&mut unit, cccr(IQ), bits, &instructions(n));
    }
    assert_eq!(read(&mut unit, counter(IQ)), (1 << 40) - 997);
}

#[test]
fn hyper_threading_is_more_logical_processors_than_cores() {
    // The package's logical processors, its cores, threads of a core.
    for (htt, logical, cores, expected) in
        [(HTT, 1, 1, 1), (HTT, 2, 1, 2), (0, 2, 1, 1), (HTT, 2, 2, 1), (HTT, 4, 2, 2)]
    {
        let mut leaves = Leaves::default();
        let version = CpuidResult { ebx: logical << 16, edx: htt, ..CpuidResult::default() };
        let caches = CpuidResult { eax: (cores - 1) << 26 | 0x121, ..CpuidResult::default() };
        leaves.insert(1, version);
        if cores > 1 {
            leaves.insert_subleaf(4, 0, caches);
        }
        assert_eq!(NetBurst::new(&leaves).threads(), expected);
    }
}

#[test]
fn cascading_starts_nothing() {
    let mut unit = netburst(PRESCOTT, 1);
    write(
        &mut unit,
        &[
            (CRU_ESCR0, INSTRUCTIONS | USR),
            (CRU_ESCR1, INSTRUCTIONS | USR),
            (counter(12), (1 << 40) - 1),
            (cccr(12), IQ_ENABLED),
            (cccr(14), 0x0003_8000 | CASCADE),
        ],
    );
    unit.count(0, &instructions(50));
    assert_eq!(read(&mut unit, counter(14)), 0);
}

#[test]
fn reset_clears_everything() {
    let mut unit = sampling(9, OVF_PMI_T0);
    unit.count(0, &instructions(10));
    unit.reset();
    unit.count(0, &instructions(50));
    assert_eq!(read(&mut unit, cccr(IQ)), 0);
    assert_eq!(read(&mut unit, counter(IQ)), 0);
    assert_eq!(read(&mut unit, CRU_ESCR0), 0);
    assert_eq!(unit.asserted(), 0);
}
