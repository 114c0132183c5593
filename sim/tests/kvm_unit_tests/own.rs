//! What the public tests do not cover: reset, edge, INV, the pin bit, reserved bits, status set,
//! guest and host bits, each family's own events, the processor without a unit.

use crate::kvm_unit_tests::layout::{
    self, EN, INT, Layout, TestResult, USR_OS, counts, everything, leaf,
};
use sim::Processor;
use sim::cpu::event::Event;
use sim::cpu::fault::Fault;

fn instructions(layout: Layout, extra: u64, n: u64) -> Result<u64, Fault> {
    let mut processor = layout.processor();
    processor.wrmsr(layout.select(0), layout.instructions | USR_OS | EN | extra)?;
    let mut now = counts(Event::Instructions, n);
    now.set(Event::Cycles, 100, 100);
    processor.retire(now);
    processor.rdmsr(layout.counter(0))
}

/// The bits of `candidates` that a register refuses, one at a time.
fn refused(processor: &mut Processor, msr: u32) -> u64 {
    (0..64)
        .map(|bit| 1 << bit)
        .filter(|&value| processor.wrmsr(msr, value).is_err())
        .fold(0, |bits, bit| bits | bit)
}

#[test]
fn warm_reset_clears_everything_and_enables_globally() -> TestResult {
    for layout in layout::all() {
        let mut processor = layout.processor();
        for i in 0..layout.counters {
            processor.wrmsr(layout.counter(i), layout.mask() & 0xFFFF)?;
            processor.wrmsr(layout.select(i), layout.instructions | USR_OS | EN | INT)?;
        }
        let fresh = match layout.global {
            Some(global) => Processor::new((layout.leaves)()).rdmsr(global.control)?,
            None => 0,
        };
        processor.retire(counts(Event::Instructions, 1 << 20));
        processor.reset();
        for i in 0..layout.counters {
            assert_eq!(processor.rdmsr(layout.counter(i))?, 0, "{}", layout.name);
            assert_eq!(processor.rdmsr(layout.select(i))?, 0, "{}", layout.name);
        }
        if let Some(global) = layout.global {
            assert_eq!(processor.rdmsr(global.status)?, 0, "{}", layout.name);
            assert_eq!(processor.rdmsr(global.control)?, fresh, "{}", layout.name);
        }
        assert_eq!(processor.read_apic(0x340)?, 0x0001_0000, "{}", layout.name);
        processor.retire(counts(Event::Instructions, 1 << 21));
        assert_eq!(processor.rdmsr(layout.counter(0))?, 0, "{}", layout.name);
        assert_eq!(processor.interrupt_pending(), None);
    }
    Ok(())
}

#[test]
fn a_counter_mask_counts_cycles_and_edge_is_one_of_at_least_1() -> TestResult {
    for layout in layout::all() {
        let edge = 1 << 18;
        // 42 events come as 10 cycles of 4 events and one of 2.
        for (extra, expected) in
            [(edge, 11), (1 << 24, 11), (2 << 24, 11), (edge | 1 << 24, 11), (edge | 3 << 24, 10)]
        {
            let value = instructions(layout, extra, 42)?;
            assert_eq!(value, expected, "{}: {extra:#x}", layout.name);
        }
    }
    Ok(())
}

#[test]
fn inv_turns_the_comparison_round_and_needs_a_counter_mask() -> TestResult {
    for layout in layout::all() {
        let inv = 1 << 23;
        for (extra, expected) in [(inv, 42), (inv | 1 << 24, 89), (inv | 3 << 24, 90)] {
            let value = instructions(layout, extra, 42)?;
            assert_eq!(value, expected, "{}: {extra:#x}", layout.name);
        }
    }
    Ok(())
}

#[test]
fn pin_control_is_taken_and_counts_the_same() -> TestResult {
    for layout in layout::all() {
        assert_eq!(instructions(layout, 1 << 19, 42)?, 42, "{}", layout.name);
    }
    Ok(())
}

#[test]
fn reserved_bits_of_the_selects_fault() {
    let high = 0xFFFF_FFFF_0000_0000;
    let umask2_and_eq = 0xFF << 40 | 1 << 36;
    for (layout, reserved) in [
        (layout::V1, high | 1 << 21),
        (layout::V2, high | 1 << 21),
        // Version 4 with AnyThread, and RTM in leaf 7: bits 32 and 33.
        (layout::V4, high & !(0b11 << 32)),
        (layout::V5, high | 1 << 21),
        (layout::V6, (high | 1 << 21) & !umask2_and_eq),
        (layout::K8, high | 1 << 21),
        (layout::ZEN1, 0xFFFF_FCF0_0020_0000),
        (layout::ZEN1_LEGACY, 0xFFFF_FCF0_0020_0000),
        (layout::ZEN5, 0xFFFF_FCF0_0020_0000),
    ] {
        let found = refused(&mut layout.processor(), layout.select(0));
        assert_eq!(found, reserved, "{}: {found:#x}", layout.name);
    }
}

#[test]
fn granted_high_bits_ask_for_what_the_model_has_not_and_count_nothing() -> TestResult {
    for bit in [32, 33] {
        assert_eq!(instructions(layout::V4, 1 << bit, 42)?, 0, "TSX, bit {bit}");
    }
    for bit in [36, 40, 47] {
        assert_eq!(instructions(layout::V6, 1 << bit, 42)?, 0, "bit {bit}");
    }
    Ok(())
}

#[test]
fn a_refused_write_changes_nothing() -> TestResult {
    for layout in layout::all() {
        let mut processor = layout.processor();
        let select = layout.instructions | USR_OS | EN;
        processor.wrmsr(layout.select(0), select)?;
        assert!(processor.wrmsr(layout.select(0), 1 << 63).is_err());
        assert_eq!(processor.rdmsr(layout.select(0))?, select);
        processor.retire(counts(Event::Instructions, 9));
        assert_eq!(processor.rdmsr(layout.counter(0))?, 9, "{}", layout.name);
    }
    Ok(())
}

#[test]
fn fixed_control_reserves_any_thread_by_version() {
    let nibbles = |mut processor: Processor| refused(&mut processor, 0x38D) & 0xF;
    assert_eq!(nibbles(layout::V2.processor()), 4);
    assert_eq!(nibbles(Processor::new(layout::nehalem())), 0);
    assert_eq!(nibbles(layout::V4.processor()), 0);
    assert_eq!(nibbles(layout::V5.processor()), 4);
}

#[test]
fn reserved_bits_of_the_status_reset_fault() {
    for (leaves, accepted) in [
        (layout::core2 as fn() -> _, 0xC000_0007_0000_0003),
        (layout::nehalem, 0xE000_0007_0000_000F),
        // Leaf 7's EBX[25], Processor Trace: bit 55.
        (layout::skylake, 0xFC80_0007_0000_000F),
        (layout::raptor_lake, 0xFC80_000F_0000_00FF),
    ] {
        let mut leaves = leaves();
        if leaves.get(7, 0).ebx != 0 {
            leaves.insert_subleaf(7, 0, leaf(0, 1 << 25, 0, 0));
        }
        let found = !refused(&mut Processor::new(leaves), 0x390);
        assert_eq!(found, accepted, "{found:#x}");
    }
    let accepted = !refused(&mut layout::ZEN5.processor(), 0xC000_0302);
    assert_eq!(accepted, 0x0C00_0000_0000_003F);
}

#[test]
fn read_only_registers() -> TestResult {
    let mut processor = layout::V5.processor();
    for (msr, value) in [(0x38E, 0), (0x392, 0), (0x345, 0)] {
        assert_eq!(processor.wrmsr(msr, value), Err(Fault::WriteMsr { msr, value }));
    }
    let misc = processor.rdmsr(0x1A0)?;
    assert_eq!(misc >> 7 & 1, 1);
    assert!(processor.wrmsr(0x1A0, misc & !(1 << 7)).is_err());
    processor.wrmsr(0x1A0, misc)?;
    let mut processor = layout::ZEN5.processor();
    processor.wrmsr(0xC000_0300, 1)?;
    assert_eq!(processor.rdmsr(0xC000_0300)?, 0);
    Ok(())
}

#[test]
fn intel_status_set_and_in_use_come_with_version_4() -> TestResult {
    for leaves in [layout::core2, layout::nehalem] {
        let mut processor = Processor::new(leaves());
        assert!(processor.rdmsr(0x391).is_err());
        assert!(processor.rdmsr(0x392).is_err());
    }
    let mut processor = layout::V5.processor();
    processor.wrmsr(0x391, 1 << 33 | 1 << 2)?;
    assert_eq!(processor.rdmsr(0x38E)?, 1 << 33 | 1 << 2);
    assert!(processor.wrmsr(0x391, 1 << 63).is_err());
    assert_eq!(processor.rdmsr(0x392)?, 0);
    processor.wrmsr(0x188, 0xC0)?;
    processor.wrmsr(0x38D, 0x20)?;
    assert_eq!(processor.rdmsr(0x392)?, 1 << 33 | 1 << 2);
    processor.wrmsr(0x188, 0xC0 | INT)?;
    assert_eq!(processor.rdmsr(0x392)?, 1 << 63 | 1 << 33 | 1 << 2);
    Ok(())
}

#[test]
fn amd_status_set_sets_and_clear_clears() -> TestResult {
    let mut processor = layout::ZEN5.processor();
    processor.wrmsr(0xC000_0303, 0b10_1001)?;
    assert_eq!(processor.rdmsr(0xC000_0300)?, 0b10_1001);
    processor.wrmsr(0xC000_0302, 0b1000)?;
    assert_eq!(processor.rdmsr(0xC000_0300)?, 0b10_0001);
    assert!(processor.wrmsr(0xC000_0303, 1 << 6).is_err());
    assert!(processor.wrmsr(0xC000_0301, 1 << 6).is_err());
    Ok(())
}

#[test]
fn guest_only_or_host_only_alone_counts_nothing_without_svm() -> TestResult {
    for layout in [layout::ZEN1, layout::ZEN5] {
        for (bits, expected) in [(0b00, 42), (0b01, 0), (0b10, 0), (0b11, 42)] {
            let value = instructions(layout, bits << 40, 42)?;
            assert_eq!(value, expected, "{}: {bits:#b}", layout.name);
        }
    }
    Ok(())
}

#[test]
fn twelve_bit_events_need_the_high_bits() -> TestResult {
    let mut processor = layout::ZEN5.processor();
    processor.wrmsr(0xC001_0200, 0x1_0000_0000 | 0x1F8E | USR_OS | EN)?;
    processor.wrmsr(0xC001_0202, 0x1F8E | USR_OS | EN)?;
    processor.retire(everything());
    let fetches = everything().total(Event::L1iFetches);
    assert_eq!(processor.rdmsr(0xC001_0201)?, fetches);
    assert_eq!(processor.rdmsr(0xC001_0203)?, 0);
    Ok(())
}

#[test]
fn family_15h_ties_cycles_to_the_first_three_counters() -> TestResult {
    let mut processor = Processor::new(layout::bulldozer());
    for i in 0..6 {
        processor.wrmsr(0xC001_0200 + 2 * i, 0x76 | USR_OS | EN)?;
    }
    processor.retire(counts(Event::Cycles, 50));
    for i in 0..6 {
        let expected = if i < 3 { 50 } else { 0 };
        assert_eq!(processor.rdmsr(0xC001_0201 + 2 * i)?, expected, "counter {i}");
    }
    Ok(())
}

/// SDM and APM, "RDPMC": #GP where CPL is not 0 and CR4.PCE is 0.
#[test]
fn user_mode_reads_counters_only_with_pce() {
    const PCE: u64 = 1 << 8;
    let refused = Err(Fault::ReadPmc { counter: 0 });
    for layout in layout::all() {
        let mut processor = layout.processor();
        for (cr4, read) in [(0, refused), (PCE, Ok(0)), (!PCE, refused)] {
            processor.set_cr4(cr4);
            assert_eq!(processor.rdpmc_in_user_mode(0), read, "{}: {cr4:#x}", layout.name);
            assert_eq!(processor.rdpmc(0), Ok(0), "{}: {cr4:#x}", layout.name);
        }
    }
}

#[test]
fn k7_counts_and_without_a_local_apic_never_interrupts() -> TestResult {
    let mut leaves = layout::k7();
    leaves.insert(1, leaf(0x612, 0, 0, 0x0183_F9FF));
    let mut processor = Processor::new(leaves);
    processor.boot_windows();
    processor.wrmsr(0xC001_0004, 5_u64.wrapping_neg())?;
    processor.wrmsr(0xC001_0000, 0xC0 | USR_OS | EN | INT)?;
    processor.retire(counts(Event::Instructions, 12));
    assert_eq!(processor.rdmsr(0xC001_0004)?, 7);
    assert_eq!(processor.interrupt_pending(), None);
    assert_eq!(processor.rdmsr(0x1B), Err(Fault::ReadMsr { msr: 0x1B }));
    assert!(processor.read_apic(0x340).is_err());
    Ok(())
}

#[test]
fn no_unit_before_k7_or_for_other_vendors() {
    let mut k6 = layout::k7();
    k6.insert(1, leaf(0x570, 0, 0, 0x0080_21BF));
    let mut centaur = layout::skylake();
    centaur.insert(0, leaf(0x16, 0x746E_6543, 0x736C_7561, 0x4872_7561));
    let mut short = layout::skylake();
    short.insert(0, leaf(5, 0x756E_6547, 0x6C65_746E, 0x4965_6E69));
    for leaves in [k6, centaur, short] {
        let mut processor = Processor::new(leaves);
        assert_eq!(processor.counter_width(), 0);
        assert!(processor.rdmsr(0xC1).is_err());
        assert!(processor.rdmsr(0xC001_0000).is_err());
        assert!(processor.rdpmc(0).is_err());
    }
}

#[test]
fn hygon_counts_as_zen() -> TestResult {
    let mut leaves = layout::zen1();
    leaves.insert(0, leaf(1, 0x6F67_7948, 0x656E_6975, 0x6E65_476E));
    leaves.insert(1, leaf(0x0091_0F00, 0, 0, 0x178B_FBFF));
    let mut processor = Processor::new(leaves);
    processor.wrmsr(0xC001_0200, 0x76 | USR_OS | EN)?;
    processor.retire(counts(Event::Cycles, 50));
    assert_eq!(processor.rdpmc(0)?, 50);
    Ok(())
}
