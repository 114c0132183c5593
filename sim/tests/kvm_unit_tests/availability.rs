//! Which registers exist (the selftest forces versions 0 to 5 through CPUID, and so do these
//! tests).

use crate::kvm_unit_tests::layout::{self, EN, TestResult, USR_OS, counts, leaf};
use sim::Processor;
use sim::cpu::event::Event;
use sim::cpu::fault::Fault;

/// A Raptor Lake with this leaf 0x0A.
fn forced(eax: u32, ebx: u32, ecx: u32, edx: u32) -> Processor {
    let mut leaves = layout::raptor_lake();
    leaves.insert(0xA, leaf(eax, ebx, ecx, edx));
    Processor::new(leaves)
}

#[test]
fn general_counters_beyond_the_number_fault() -> TestResult {
    for version in 1..=6 {
        for n in [0, 1, 4, 8] {
            let mut processor = forced(0x0830_0000 | n << 8 | version, 0, 0, 0);
            for i in 0..n {
                processor.rdmsr(0xC1 + i)?;
                processor.rdmsr(0x186 + i)?;
            }
            for msr in [0xC1 + n, 0x186 + n, 0x4C1 + n] {
                assert_eq!(processor.rdmsr(msr), Err(Fault::ReadMsr { msr }));
                let refused = Err(Fault::WriteMsr { msr, value: 0 });
                assert_eq!(processor.wrmsr(msr, 0), refused);
            }
        }
    }
    Ok(())
}

#[test]
fn version_0_has_no_register_at_all() {
    let mut processor = forced(0x0830_0800, 0, 0xF, 0x8604);
    for msr in [0xC1, 0x186, 0x309, 0x38D, 0x38E, 0x38F, 0x390, 0x4C1] {
        assert_eq!(processor.rdmsr(msr), Err(Fault::ReadMsr { msr }));
    }
    assert_eq!(processor.counter_width(), 0);
}

#[test]
fn global_control_after_reset_enables_the_general_counters() -> TestResult {
    for (n, expected) in [(0, 0), (1, 1), (4, 0xF), (8, 0xFF)] {
        let mut processor = forced(0x0830_0005 | n << 8, 0, 0xF, 0x8604);
        assert_eq!(processor.rdmsr(0x38F)?, expected);
    }
    assert_eq!(layout::V6.processor().rdmsr(0x38F)?, 0x3FF);
    assert_eq!(layout::ZEN5.processor().rdmsr(0xC000_0301)?, 0x3F);
    Ok(())
}

#[test]
fn fixed_counters_are_below_the_number_or_in_the_mask() {
    // Version, mask in ECX, count in EDX, existing counters.
    for (version, mask, count, there) in [
        (1, 0, 3, 0),
        (2, 0, 3, 0b0111),
        (4, 0xF, 3, 0b0111),
        (5, 0b1000, 2, 0b1011),
        (5, 0, 3, 0b0111),
        (6, 0b1_0000, 0, 0b1_0000),
    ] {
        let mut processor = forced(0x0830_0800 | version, 0, mask, 0x600 | count);
        let found = (0..8)
            .filter(|i| processor.rdmsr(0x309 + i).is_ok())
            .fold(0, |found, i| found | 1 << i);
        assert_eq!(found, there, "version {version}, mask {mask:#b}, count {count}");
    }
}

#[test]
fn leaf_0x23_overrides_which_counters_are_there() {
    let mut leaves = layout::version_6();
    leaves.insert_subleaf(0x23, 1, leaf(0b1010_0011, 0b0111_0111, 0, 0));
    let mut processor = Processor::new(leaves);
    for i in 0..10 {
        let there = 0b1010_0011 >> i & 1 == 1;
        assert_eq!(processor.rdmsr(0xC1 + i).is_ok(), there, "counter {i}");
        assert_eq!(processor.rdmsr(0x186 + i).is_ok(), there, "select {i}");
        assert_eq!(processor.rdpmc(i).is_ok(), there, "RDPMC {i}");
        assert_eq!(processor.wrmsr(0x38F, 1 << i).is_ok(), there, "control {i}");
        let fixed = 0b0111_0111 >> i & 1 == 1;
        assert_eq!(processor.rdmsr(0x309 + i).is_ok(), fixed, "fixed {i}");
    }
}

#[test]
fn bits_of_absent_fixed_counters_fault() -> TestResult {
    let mut processor = layout::V5.processor();
    for i in 0..16 {
        let there = i < 4;
        assert_eq!(processor.wrmsr(0x38D, 1 << (4 * i)).is_ok(), there, "{i}");
        assert_eq!(processor.wrmsr(0x38F, 1 << (32 + i)).is_ok(), there, "{i}");
    }
    processor.wrmsr(0x38D, 0xBBBB)?;
    processor.wrmsr(0x38F, 0xF_0000_00FF)
}

#[test]
fn events_not_enumerated_may_be_programmed_and_count_if_the_hardware_has_them() -> TestResult {
    // A vector of length 0 enumerates nothing, so it does not mark anything as absent either.
    let mut processor = forced(0x0030_0805, 0xFF, 0, 0x8604);
    processor.wrmsr(0x186, 0xC4 | USR_OS | EN)?;
    processor.retire(counts(Event::Branches, 77));
    assert_eq!(processor.rdmsr(0xC1)?, 77);
    Ok(())
}

#[test]
fn a_long_vector_and_any_mask_do_no_harm() -> TestResult {
    for length in [0, 7, 13, 32, 0xFF] {
        for mask in [0, 0xFF, u32::MAX] {
            let mut processor = forced(0x0030_0805 | length << 24, mask, 0, 0x8604);
            for code in [0x3C, 0xC0, 0x013C, 0x4F2E, 0x412E, 0xC4, 0xC5, 0x01A4] {
                processor.wrmsr(0x186, code | USR_OS | EN)?;
            }
            processor.retire(layout::everything());
        }
    }
    Ok(())
}

#[test]
fn a_contradictory_leaf_makes_no_counter_and_does_no_harm() {
    for (eax, edx) in [(0x0700_0404, 0x0003), (0xFFFF_FFFF, 0xFFFF_FFFF)] {
        let mut processor = forced(eax, u32::MAX, u32::MAX, edx);
        for msr in (0xC1..0xE7).chain(0x186..0x198).chain(0x309..0x320) {
            let _ = processor.wrmsr(msr, u64::MAX);
        }
        processor.retire(layout::everything());
    }
    assert!(forced(0x0700_0404, 0, 0, 0x0003).rdmsr(0xC1).is_err(), "no width");
}
