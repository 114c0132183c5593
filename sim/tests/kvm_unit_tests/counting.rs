//! Counting.

use crate::kvm_unit_tests::layout::{
    self, EN, Layout, TestResult, USR_OS, counts, everything, split,
};
use sim::cpu::event::{Counts, Event};
use sim::cpu::fault::Fault;

/// Counts `now` with one select on counter `i` of a new processor.
fn count(layout: Layout, i: u32, select: u64, now: &Counts) -> Result<u64, Fault> {
    let mut processor = layout.processor();
    processor.wrmsr(layout.select(i), select)?;
    processor.retire(*now);
    processor.rdmsr(layout.counter(i))
}

#[test]
fn each_event_counts_on_every_general_counter() -> TestResult {
    for layout in layout::all() {
        for i in 0..layout.counters {
            for &(code, event) in layout.events {
                let value = count(layout, i, code | USR_OS | EN, &everything())?;
                let expected = layout.expected(code, everything().total(event));
                assert_eq!(value, expected, "{}, counter {i}, {code:#x}", layout.name);
            }
        }
    }
    Ok(())
}

#[test]
fn an_undocumented_select_counts_nothing() -> TestResult {
    for layout in layout::all() {
        for code in [0x0000, 0x00FE, 0x7F3C, 0x01C0] {
            let value = count(layout, 0, code | USR_OS | EN, &everything())?;
            assert_eq!(value, 0, "{}, {code:#x}", layout.name);
        }
    }
    Ok(())
}

#[test]
fn counts_are_exact_for_the_enabled_stretch() -> TestResult {
    for layout in layout::all() {
        let mut processor = layout.processor();
        let select = layout.instructions | USR_OS;
        processor.retire(counts(Event::Instructions, 1000));
        processor.wrmsr(layout.select(0), select | EN)?;
        processor.retire(counts(Event::Instructions, 1022));
        processor.wrmsr(layout.select(0), select)?;
        processor.retire(counts(Event::Instructions, 5000));
        assert_eq!(processor.rdmsr(layout.counter(0))?, 22, "{}", layout.name);
    }
    Ok(())
}

#[test]
fn global_control_bounds_the_stretch_exactly() -> TestResult {
    for layout in layout::all() {
        let Some(global) = layout.global else {
            continue;
        };
        let mut processor = layout.processor();
        processor.wrmsr(global.control, 0)?;
        processor.wrmsr(layout.select(0), layout.instructions | USR_OS | EN)?;
        processor.retire(counts(Event::Instructions, 1000));
        processor.wrmsr(global.control, 1)?;
        processor.retire(counts(Event::Instructions, 1022));
        processor.wrmsr(global.control, 0)?;
        processor.retire(counts(Event::Instructions, 5000));
        assert_eq!(processor.rdmsr(layout.counter(0))?, 22, "{}", layout.name);
    }
    Ok(())
}

#[test]
fn fixed_counters_count_instructions_cycles_reference_cycles() -> TestResult {
    for layout in [layout::V2, layout::V4, layout::V5, layout::V6] {
        let mut processor = layout.processor();
        processor.wrmsr(0x38D, 0x333)?;
        processor.wrmsr(0x38F, 7 << 32)?;
        processor.retire(everything());
        let events = [Event::Instructions, Event::Cycles, Event::RefCycles];
        for (msr, event) in (0x309..).zip(events) {
            assert_eq!(processor.rdmsr(msr)?, everything().total(event));
        }
    }
    Ok(())
}

#[test]
fn fixed_control_nibbles_select_the_modes() -> TestResult {
    for (nibble, expected) in [(0, 0), (1, 300), (2, 700), (3, 1000), (8, 0)] {
        let mut processor = layout::V5.processor();
        processor.wrmsr(0x38D, nibble << 4)?;
        processor.wrmsr(0x38F, 1 << 33)?;
        processor.retire(split(Event::Cycles, 1000, 700));
        assert_eq!(processor.rdmsr(0x30A)?, expected, "nibble {nibble:#x}");
    }
    Ok(())
}

#[test]
fn all_counters_run_at_once() -> TestResult {
    for layout in layout::all() {
        let mut processor = layout.processor();
        let codes = || layout.events.iter().cycle();
        for (i, &(code, _)) in (0..layout.counters).zip(codes()) {
            processor.wrmsr(layout.select(i), code | USR_OS | EN)?;
        }
        processor.retire(everything());
        for (i, &(code, event)) in (0..layout.counters).zip(codes()) {
            let value = processor.rdmsr(layout.counter(i))?;
            let expected = layout.expected(code, everything().total(event));
            assert_eq!(value, expected, "{}, {i}", layout.name);
        }
    }
    Ok(())
}

#[test]
fn nothing_counts_without_enable_or_mode_bits() -> TestResult {
    for layout in layout::all() {
        for off in [USR_OS, EN] {
            let value = count(layout, 0, layout.instructions | off, &everything())?;
            assert_eq!(value, 0, "{}, {off:#x}", layout.name);
        }
        let user = layout.instructions | 1 << 16 | EN;
        let kernel = layout.instructions | 1 << 17 | EN;
        let now = split(Event::Instructions, 1000, 700);
        assert_eq!(count(layout, 0, user, &now)?, 700, "{}", layout.name);
        assert_eq!(count(layout, 0, kernel, &now)?, 300, "{}", layout.name);
    }
    Ok(())
}

#[test]
fn a_stopped_counter_keeps_its_value() -> TestResult {
    for layout in layout::all() {
        let mut processor = layout.processor();
        processor.wrmsr(layout.counter(0), 1234)?;
        processor.wrmsr(layout.select(0), layout.cycles | USR_OS)?;
        processor.retire(everything());
        assert_eq!(processor.rdmsr(layout.counter(0))?, 1234, "{}", layout.name);
    }
    Ok(())
}
