//! Widths.

use crate::kvm_unit_tests::layout::{self, TestResult};

#[test]
fn writes_through_pmc_are_32_bits_sign_extended() -> TestResult {
    for layout in [layout::V1, layout::V2, layout::V4, layout::V5, layout::V6] {
        let mut processor = layout.processor();
        for (value, expected) in [
            (0x7FFF_FFFF, 0x7FFF_FFFF),
            (0x8000_0000, layout.mask() & !0x7FFF_FFFF),
            (0xFFFF_FFFF, layout.mask()),
            (0x1234_5678_0000_0001, 1),
            (u64::MAX, layout.mask()),
        ] {
            processor.wrmsr(0xC1, value)?;
            assert_eq!(processor.rdmsr(0xC1)?, expected, "{}: {value:#x}", layout.name);
        }
    }
    Ok(())
}

#[test]
fn both_aliases_read_the_same() -> TestResult {
    let mut processor = layout::V5.processor();
    for i in 0..8 {
        processor.wrmsr(0xC1 + i, 0x1234_5678)?;
        assert_eq!(processor.rdmsr(0x4C1 + i)?, 0x1234_5678);
        processor.wrmsr(0x4C1 + i, 0x8765_4321_0123)?;
        assert_eq!(processor.rdmsr(0xC1 + i)?, 0x8765_4321_0123);
    }
    Ok(())
}

#[test]
fn full_width_writes_refuse_every_bit_above_the_width() {
    let mut processor = layout::FULL_WIDTH.processor();
    for bit in 0..64 {
        let taken = processor.wrmsr(0x4C1, 1 << bit).is_ok();
        assert_eq!(taken, bit < 48, "bit {bit}");
    }
}

#[test]
fn fixed_counters_take_values_up_to_their_width() -> TestResult {
    for layout in [layout::V2, layout::V4, layout::V5] {
        let mut processor = layout.processor();
        processor.wrmsr(0x309, layout.mask())?;
        assert_eq!(processor.rdmsr(0x309)?, layout.mask());
        assert!(processor.wrmsr(0x309, layout.mask() + 1).is_err());
        assert_eq!(processor.rdmsr(0x309)?, layout.mask());
    }
    Ok(())
}

#[test]
fn amd_counters_take_48_bits_with_sign_or_zeros_above() -> TestResult {
    for layout in layout::AMD {
        let mut processor = layout.processor();
        for (value, expected) in [
            (0x7FFF_FFFF_FFFF, Some(0x7FFF_FFFF_FFFF)),
            (0xFFFF_FFFF_FFFF, Some(0xFFFF_FFFF_FFFF)),
            (u64::MAX, Some(0xFFFF_FFFF_FFFF)),
            (0xFFFF_8000_0000_0000, Some(0x8000_0000_0000)),
            (0xFFFF_7FFF_FFFF_FFFF, None),
            (0x0001_0000_0000_0000, None),
            (1 << 63, None),
        ] {
            let written = processor.wrmsr(layout.counter(0), value);
            assert_eq!(written.is_ok(), expected.is_some(), "{value:#x}");
            if let Some(expected) = expected {
                assert_eq!(processor.rdmsr(layout.counter(0))?, expected);
            }
        }
    }
    Ok(())
}
