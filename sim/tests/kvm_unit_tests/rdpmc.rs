//! RDPMC.

use crate::kvm_unit_tests::layout::{self, TestResult};
use sim::cpu::fault::Fault;

#[test]
fn an_arbitrary_value_in_a_stopped_counter_reads_back_by_rdmsr_and_rdpmc() -> TestResult {
    for layout in layout::all() {
        let mut processor = layout.processor();
        let value = |i| 0xDEAD + u64::from(i);
        for i in 0..layout.counters {
            processor.wrmsr(layout.counter(i), value(i))?;
        }
        for i in 0..layout.counters {
            assert_eq!(processor.rdmsr(layout.counter(i))?, value(i), "{}", layout.name);
            assert_eq!(processor.rdpmc(i)?, value(i), "{}", layout.name);
        }
    }
    Ok(())
}

#[test]
fn rdpmc_with_bit_30_reads_the_fixed_counter() -> TestResult {
    let mut processor = layout::V5.processor();
    for i in 0..4 {
        processor.wrmsr(0x309 + i, 2000 + u64::from(i))?;
        assert_eq!(processor.rdpmc(1 << 30 | i)?, 2000 + u64::from(i));
    }
    Ok(())
}

#[test]
fn rdpmc_with_bit_31_faults() {
    for layout in layout::all() {
        let counter = 1 << 31;
        let read = layout.processor().rdpmc(counter);
        assert_eq!(read, Err(Fault::ReadPmc { counter }), "{}", layout.name);
    }
}

#[test]
fn rdpmc_of_a_counter_that_is_not_there_faults() {
    for layout in layout::all() {
        let mut processor = layout.processor();
        // Six of the core, four of the northbridge, six of the L3 cache (APM vol. 3, RDPMC); in a guest
        // of KVM only the first.
        let present = if layout.name.starts_with("AMD") && layout.name != layout::K8.name {
            16
        } else {
            layout.counters
        };
        for counter in [present, 64, 1 << 29, 1 << 30 | 16, 1 << 30 | 1 << 29] {
            let read = processor.rdpmc(counter);
            assert_eq!(read, Err(Fault::ReadPmc { counter }), "{}", layout.name);
        }
    }
    // Fixed counters: none on version 1 and on AMD, 4 on this version 5, a hole at 3 in leaf 0x23.
    for (layout, i) in [(layout::V1, 0), (layout::K8, 0), (layout::V5, 4), (layout::V6, 3)] {
        assert!(layout.processor().rdpmc(1 << 30 | i).is_err(), "{}", layout.name);
    }
}
