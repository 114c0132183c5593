//! Overflow, and writes to a running counter.

use crate::kvm_unit_tests::layout::{self, EN, INT, Layout, TestResult, USR_OS, VECTOR, counts};
use sim::Processor;
use sim::cpu::event::Event;
use sim::cpu::fault::Fault;

/// Presets counter `i` and starts it counting instructions.
fn start(layout: Layout, i: u32, preset: u64, extra: u64) -> Result<Processor, Fault> {
    let mut processor = layout.processor();
    processor.wrmsr(layout.counter(i), preset)?;
    processor.wrmsr(layout.select(i), layout.instructions | USR_OS | EN | extra)?;
    Ok(processor)
}

/// -n in the form that the layout's counters accept.
fn preset(layout: Layout, n: u64) -> u64 {
    match layout.counter {
        0x4C1 => layout.negative(n),
        _ => n.wrapping_neg(),
    }
}

#[test]
fn preset_1_minus_n_ends_at_exactly_1() -> TestResult {
    for layout in layout::all() {
        for n in [2, 1000, 1 << 30] {
            let mut processor = start(layout, 0, preset(layout, n - 1), 0)?;
            processor.retire(counts(Event::Instructions, n));
            assert_eq!(processor.rdmsr(layout.counter(0))?, 1, "{}", layout.name);
        }
    }
    Ok(())
}

#[test]
fn status_bit_is_set_whether_or_not_int_is() -> TestResult {
    for layout in layout::all() {
        let Some(global) = layout.global else {
            continue;
        };
        for i in 0..layout.counters {
            for int in [0, INT] {
                let mut processor = start(layout, i, preset(layout, 10), int)?;
                processor.retire(counts(Event::Instructions, 9));
                assert_eq!(processor.rdmsr(global.status)?, 0, "{}", layout.name);
                processor.retire(counts(Event::Instructions, 10));
                assert_eq!(processor.rdmsr(global.status)?, 1 << i, "{}", layout.name);
            }
        }
    }
    Ok(())
}

#[test]
fn status_bits_stay_until_they_are_cleared() -> TestResult {
    for layout in layout::all() {
        let Some(global) = layout.global else {
            continue;
        };
        let mut processor = start(layout, 0, preset(layout, 10), 0)?;
        processor.wrmsr(layout.counter(1), preset(layout, 20))?;
        let select = layout.instructions | USR_OS | EN;
        processor.wrmsr(layout.select(1), select)?;
        for (n, status) in [(10, 0b01), (15, 0b01), (20, 0b11), (30, 0b11)] {
            processor.retire(counts(Event::Instructions, n));
            let found = processor.rdmsr(global.status)?;
            assert_eq!(found, status, "{} at {n}", layout.name);
        }
    }
    Ok(())
}

#[test]
fn fixed_counters_set_the_status_bits_from_32_on() -> TestResult {
    for (i, event) in [Event::Instructions, Event::Cycles, Event::RefCycles].into_iter().enumerate()
    {
        let mut processor = layout::V5.processor();
        processor.wrmsr(0x309 + i as u32, layout::V5.negative(10))?;
        processor.wrmsr(0x38D, 3 << (4 * i))?;
        processor.wrmsr(0x38F, 1 << (32 + i))?;
        processor.retire(counts(event, 10));
        assert_eq!(processor.rdmsr(0x38E)?, 1 << (32 + i));
    }
    Ok(())
}

#[test]
fn writing_the_status_to_the_clear_register_clears_it() -> TestResult {
    for layout in layout::all() {
        let Some(global) = layout.global else {
            continue;
        };
        let mut processor = start(layout, 1, preset(layout, 1), 0)?;
        processor.retire(counts(Event::Instructions, 1));
        let status = processor.rdmsr(global.status)?;
        assert_eq!(status, 0b10, "{}", layout.name);
        processor.wrmsr(global.clear, !status & 0b11)?;
        assert_eq!(processor.rdmsr(global.status)?, status, "other bits only");
        processor.wrmsr(global.clear, status)?;
        assert_eq!(processor.rdmsr(global.status)?, 0, "{}", layout.name);
    }
    Ok(())
}

#[test]
fn interrupt_comes_if_and_only_if_int_is_set() -> TestResult {
    for layout in layout::all() {
        for (int, expected) in [(0, None), (INT, Some(VECTOR)), (0, None)] {
            let mut processor = start(layout, 0, preset(layout, 5), int)?;
            processor.retire(counts(Event::Instructions, 4));
            assert_eq!(processor.interrupt_pending(), None, "{}", layout.name);
            processor.retire(counts(Event::Instructions, 5));
            assert_eq!(processor.interrupt_pending(), expected, "{}", layout.name);
            assert_eq!(processor.acknowledge_interrupt(), expected);
            assert_eq!(processor.interrupt_pending(), None);
        }
    }
    Ok(())
}

#[test]
fn fixed_counter_interrupts_if_and_only_if_its_pmi_bit_is_set() -> TestResult {
    for (nibble, expected) in [(3, None), (0xB, Some(VECTOR))] {
        let mut processor = layout::V2.processor();
        processor.wrmsr(0x30A, layout::V2.negative(5))?;
        processor.wrmsr(0x38D, nibble << 4)?;
        processor.wrmsr(0x38F, 1 << 33)?;
        processor.retire(counts(Event::Cycles, 5));
        assert_eq!(processor.interrupt_pending(), expected);
    }
    Ok(())
}

#[test]
fn intel_masks_lvtpc_on_delivery_and_amd_does_not() -> TestResult {
    for layout in layout::all() {
        let mut processor = start(layout, 0, preset(layout, 5), INT)?;
        processor.retire(counts(Event::Instructions, 5));
        let masked = layout.select == 0x186;
        let lvtpc = u32::from(VECTOR) | u32::from(masked) << 16;
        assert_eq!(processor.read_apic(0x340)?, lvtpc, "{}", layout.name);

        // Without unmasking, a second overflow is lost on Intel and arrives on AMD.
        assert_eq!(processor.acknowledge_interrupt(), Some(VECTOR));
        processor.wrmsr(layout.counter(0), preset(layout, 5))?;
        processor.retire(counts(Event::Instructions, 10));
        assert_eq!(processor.interrupt_pending().is_none(), masked);
        processor.write_apic(0x340, VECTOR.into())?;
        assert_eq!(processor.interrupt_pending().is_none(), masked, "lost");

        processor.acknowledge_interrupt();
        processor.wrmsr(layout.counter(0), preset(layout, 5))?;
        processor.retire(counts(Event::Instructions, 15));
        assert_eq!(processor.interrupt_pending(), Some(VECTOR), "{}", layout.name);
    }
    Ok(())
}

#[test]
fn lvtpc_is_rewritten_by_each_start() -> TestResult {
    for layout in layout::all() {
        for vector in [0x31, 0xD0] {
            let mut processor = start(layout, 0, preset(layout, 5), INT)?;
            processor.write_apic(0x340, vector)?;
            processor.retire(counts(Event::Instructions, 5));
            assert_eq!(processor.interrupt_pending().map(u32::from), Some(vector));
        }
    }
    Ok(())
}

#[test]
fn a_watch_tells_where_the_interrupt_comes() -> TestResult {
    for layout in layout::all() {
        let mut processor = start(layout, 0, preset(layout, 700), INT)?;
        processor.retire(counts(Event::Instructions, 100));
        let mut watches = Vec::new();
        processor.watches(|watch| watches.push((watch.feed.event, watch.at)));
        assert_eq!(watches, [(Event::Instructions, 700)], "{}", layout.name);
    }
    Ok(())
}

#[test]
fn writing_0_to_a_running_counter_takes_effect_at_once() -> TestResult {
    for layout in layout::all() {
        let mut processor = start(layout, 0, 0, 0)?;
        processor.retire(counts(Event::Instructions, 1000));
        processor.wrmsr(layout.counter(0), 0)?;
        processor.retire(counts(Event::Instructions, 1600));
        assert_eq!(processor.rdmsr(layout.counter(0))?, 600, "{}", layout.name);
    }
    Ok(())
}

#[test]
fn writing_all_ones_to_a_running_counter_overflows_at_the_next_event() -> TestResult {
    for layout in layout::all() {
        let mut processor = start(layout, 0, 0, INT)?;
        processor.retire(counts(Event::Instructions, 1000));
        processor.wrmsr(layout.counter(0), preset(layout, 1))?;
        assert_eq!(processor.interrupt_pending(), None, "{}", layout.name);
        processor.retire(counts(Event::Instructions, 1001));
        assert_eq!(processor.rdmsr(layout.counter(0))?, 0, "{}", layout.name);
        assert_eq!(processor.interrupt_pending(), Some(VECTOR), "{}", layout.name);
        if let Some(global) = layout.global {
            assert_eq!(processor.rdmsr(global.status)?, 1, "{}", layout.name);
        }
    }
    Ok(())
}
