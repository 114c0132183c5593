//! Discovery and setup.

use crate::kvm_unit_tests::layout::{self, Layout, TestResult, counts, leaf};
use sim::Processor;
use sim::cpu::event::Event;
use sim::cpu::fault::Fault;

#[test]
fn leaf_0x0a_declares_counters_and_width() -> TestResult {
    for layout in layout::INTEL {
        let mut processor = layout.processor();
        assert_eq!(processor.counter_width(), layout.width, "{}", layout.name);
        let last = layout.counters - 1;
        processor.rdmsr(layout.counter(last))?;
        let beyond = layout.counter(layout.counters);
        assert!(processor.rdmsr(beyond).is_err(), "{}", layout.name);
    }
    Ok(())
}

#[test]
fn event_bits_count_only_within_the_vectors_length() -> TestResult {
    // EBX marks instructions (1) and branches (5) as unavailable; the vector has 7 or 3 bits.
    for (length, instructions, branches) in [(7, 0, 0), (3, 0, 900), (1, 900, 900)] {
        let mut leaves = layout::skylake();
        leaves.insert(0xA, leaf(0x0030_0404 | length << 24, 0b10_0010, 0, 0x603));
        let mut processor = Processor::new(leaves);
        processor.wrmsr(0x186, 0x4300C0)?;
        processor.wrmsr(0x187, 0x4300C4)?;
        let mut now = counts(Event::Instructions, 900);
        now.set(Event::Branches, 900, 900);
        processor.retire(now);
        assert_eq!(processor.rdmsr(0xC1)?, instructions, "length {length}");
        assert_eq!(processor.rdmsr(0xC2)?, branches, "length {length}");
    }
    Ok(())
}

#[test]
fn fixed_counters_only_above_version_1() -> TestResult {
    let mut leaves = layout::yonah();
    leaves.insert(0xA, leaf(0x0728_0201, 0, 0, 0x0503));
    let mut processor = Processor::new(leaves);
    for msr in [0x309, 0x30A, 0x30B, 0x38D] {
        assert_eq!(processor.rdmsr(msr), Err(Fault::ReadMsr { msr }));
    }
    assert_eq!(layout::V2.processor().rdmsr(0x30B)?, 0);
    Ok(())
}

#[test]
fn global_registers_only_above_version_1_or_with_perfmonv2() -> TestResult {
    for layout in [layout::V1, layout::K8, layout::ZEN1] {
        let mut processor = layout.processor();
        for msr in [0x38E, 0x38F, 0x390, 0xC000_0300, 0xC000_0301, 0xC000_0302] {
            let read = processor.rdmsr(msr);
            assert_eq!(read, Err(Fault::ReadMsr { msr }), "{}", layout.name);
        }
    }
    for layout in layout::all() {
        let Some(global) = layout.global else {
            continue;
        };
        let mut processor = layout.processor();
        for msr in [global.status, global.control, global.clear] {
            processor.rdmsr(msr)?;
        }
    }
    Ok(())
}

#[test]
fn amd_core_extension_has_six_interleaved_counters() -> TestResult {
    let mut processor = layout::ZEN1.processor();
    for msr in 0xC001_0200..0xC001_020C {
        processor.rdmsr(msr)?;
    }
    assert!(processor.rdmsr(0xC001_020C).is_err());
    assert!(layout::K8.processor().rdmsr(0xC001_0200).is_err());
    Ok(())
}

#[test]
fn amd_perfmonv2_counters_come_from_leaf_0x80000022() -> TestResult {
    for counters in [4, 6, 8] {
        let mut leaves = layout::zen5();
        leaves.insert(0x8000_0022, leaf(1, 0x0010_4100 | counters, 0, 0));
        let mut processor = Processor::new(leaves);
        processor.rdmsr(0xC001_0200 + 2 * (counters - 1))?;
        assert!(processor.rdmsr(0xC001_0200 + 2 * counters).is_err());
    }
    Ok(())
}

#[test]
fn amd_without_extension_has_four_counters_of_48_bits() -> TestResult {
    let mut processor = layout::K8.processor();
    assert_eq!(processor.counter_width(), 48);
    for msr in 0xC001_0000..0xC001_0008 {
        processor.rdmsr(msr)?;
    }
    assert!(processor.rdmsr(0xC001_0008).is_err());
    Ok(())
}

#[test]
fn selects_and_counters_take_0_at_start() -> TestResult {
    for layout in layout::all() {
        let mut processor = layout.processor();
        for i in 0..layout.counters {
            processor.wrmsr(layout.select(i), 0)?;
            processor.wrmsr(layout.counter(i), 0)?;
        }
    }
    layout::V5.processor().wrmsr(0x38D, 0)
}

#[test]
fn legacy_window_aliases_the_extended_one() -> TestResult {
    for Layout { leaves, .. } in [layout::ZEN1, layout::ZEN5] {
        let mut processor = Processor::new(leaves());
        for i in 0..4 {
            processor.wrmsr(0xC001_0000 + i, 0x4300C0)?;
            assert_eq!(processor.rdmsr(0xC001_0200 + 2 * i)?, 0x4300C0);
            processor.wrmsr(0xC001_0201 + 2 * i, 0x1234)?;
            assert_eq!(processor.rdmsr(0xC001_0004 + i)?, 0x1234);
        }
    }
    Ok(())
}

#[test]
fn full_width_alias_only_with_perf_capabilities_bit_13() -> TestResult {
    assert_eq!(layout::V5.processor().rdmsr(0x345)? >> 13 & 1, 1);
    layout::V5.processor().rdmsr(0x4C1)?;
    // Nehalem and Core 2 have the register but not the bit, and so does Yonah (which has PDCM too).
    for leaves in [layout::nehalem, layout::core2, layout::yonah] {
        let mut processor = Processor::new(leaves());
        assert_eq!(processor.rdmsr(0x345)? >> 13 & 1, 0);
        assert!(processor.rdmsr(0x4C1).is_err());
    }
    let mut leaves = layout::raptor_lake();
    leaves.insert(1, leaf(0xB06A2, 0, 0, 0xBFEB_FBFF));
    let mut processor = Processor::new(leaves);
    assert!(processor.rdmsr(0x345).is_err(), "no PDCM");
    assert!(processor.rdmsr(0x4C1).is_err(), "no PDCM");
    Ok(())
}
