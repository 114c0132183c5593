//! Does each option do at register level what its row says, and nothing without it?

use super::*;
use crate::cpu::event::{Counts, Event};
use crate::cpu::fault::Fault;
use crate::cpu::processor::Processor;
use crate::machines::models;

const GLOBAL_STATUS: u32 = 0x38E;
const GLOBAL_CTRL: u32 = 0x38F;
const STATUS_RESET: u32 = 0x390;
const LVTPC: u32 = 0x340;
const LVTPC_MASK: u32 = 1 << 16;
/// EN, INT, OS, USR and instructions retired, on Intel and on AMD.
const INSTRUCTIONS: u64 = 0x53_00C0;
const CTR_FRZ: u64 = 1 << 59;

/// The first processor of a model after boot.
fn booted(model: &str, quirks: &str) -> Processor {
    let leaves = models::find(model).expect("a model").processors();
    let quirks = match quirks {
        "" => Quirks::default(),
        names => Quirks::parse(names).expect("quirks"),
    };
    let mut processor = Processor::new(leaves[0].with_quirks(quirks));
    processor.boot_windows();
    processor
}

fn happened(instructions: u64) -> Counts {
    let mut counts = Counts::default();
    counts.set(Event::Instructions, instructions, instructions);
    counts.set(Event::Cycles, instructions, instructions);
    counts.set(Event::RefCycles, instructions, instructions);
    counts
}

fn write(processor: &mut Processor, msr: u32, value: u64) {
    processor.wrmsr(msr, value).expect("a register");
}

fn read(processor: &mut Processor, msr: u32) -> u64 {
    processor.rdmsr(msr).expect("a register")
}

fn is_masked(processor: &mut Processor) -> bool {
    processor.read_apic(LVTPC).expect("LVTPC") & LVTPC_MASK != 0
}

fn unmask(processor: &mut Processor) {
    let entry = processor.read_apic(LVTPC).expect("LVTPC");
    processor.write_apic(LVTPC, entry & !LVTPC_MASK).expect("LVTPC");
}

/// General counter 0 is to interrupt after this many instructions from now.
fn arm(processor: &mut Processor, intel: bool, period: u32) {
    let (select, counter) = if intel { (0x186, 0xC1) } else { (0xC001_0200, 0xC001_0201) };
    write(processor, select, 0);
    write(processor, counter, i64::from(period).wrapping_neg().cast_unsigned() & low(48));
    if intel {
        write(processor, counter, u64::from(period.wrapping_neg()));
    }
    write(processor, select, INSTRUCTIONS);
}

const fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[test]
fn rows_are_in_order_and_names_are_found_once() {
    for (index, row) in QUIRKS.iter().enumerate() {
        assert_eq!(row.quirk as usize, index);
        assert_eq!(Quirks::parse(row.name), Ok(Quirks::of(row.quirk)));
        assert!(!row.description.is_empty() && !row.source.is_empty());
    }
    let all = QUIRKS.iter().map(|row| row.name).collect::<Vec<_>>().join("+");
    assert_eq!(Quirks::parse(&all).map(|set| set.to_string()), Ok(all));
    assert_eq!(Quirks::parse("late+rude"), Err(QuirksError::Unknown("rude".into())));
    assert_eq!(Quirks::parse("late+LATE"), Err(QuirksError::Duplicate("late".into())));
}

/// SDM vol. 3, "Freezing LBR and Performance Counters on PMI": on an interrupt, not on an overflow.
#[test]
fn an_overflow_that_requests_no_interrupt_freezes_nothing() {
    const INT: u64 = 1 << 20;
    for model in ["core2", "haswell", "skylake"] {
        let mut processor = booted(model, "frozen");
        let control = read(&mut processor, GLOBAL_CTRL);
        arm(&mut processor, true, 1000);
        write(&mut processor, 0x186, INSTRUCTIONS & !INT);
        processor.retire(happened(1000));
        assert_eq!(read(&mut processor, GLOBAL_STATUS), 1, "{model}");
        assert_eq!(read(&mut processor, GLOBAL_CTRL), control, "{model}");
        processor.retire(happened(1007));
        assert_eq!(read(&mut processor, 0xC1), 7, "{model}");
    }
}

/// SDM vol. 3, "Processor State After Reset": a 1 for every general counter; the same on AMD.
#[test]
fn reset_leaves_general_counters_on_and_cleared_global_does_not() {
    for (model, msr, expected) in [
        ("skylake", GLOBAL_CTRL, 0xF),
        ("core2", GLOBAL_CTRL, 0x3),
        ("sapphire-rapids", GLOBAL_CTRL, 0xFF),
        ("zen4", 0xC000_0301, 0x3F),
    ] {
        assert_eq!(read(&mut booted(model, ""), msr), expected, "{model}");
        assert_eq!(read(&mut booted(model, "cleared-global"), msr), 0, "{model}");
    }
}

#[test]
fn legacy_freeze_clears_the_global_control_register() {
    for model in ["core2", "haswell"] {
        let mut processor = booted(model, "frozen");
        arm(&mut processor, true, 1000);
        processor.retire(happened(1000));
        assert_eq!(read(&mut processor, GLOBAL_CTRL), 0, "{model}");
        assert_eq!(read(&mut processor, GLOBAL_STATUS), 1, "{model}");
        processor.retire(happened(5000));
        assert_eq!(read(&mut processor, 0xC1), 0, "{model} counts on");
        write(&mut processor, GLOBAL_CTRL, 1);
        processor.retire(happened(5007));
        assert_eq!(read(&mut processor, 0xC1), 7, "{model}");
    }
}

#[test]
fn streamlined_freeze_lasts_until_it_is_acknowledged() {
    for model in ["skylake", "sapphire-rapids"] {
        let mut processor = booted(model, "frozen");
        let control = read(&mut processor, GLOBAL_CTRL);
        arm(&mut processor, true, 1000);
        processor.retire(happened(1000));
        assert_eq!(read(&mut processor, GLOBAL_STATUS), CTR_FRZ | 1, "{model}");
        assert_eq!(read(&mut processor, GLOBAL_CTRL), control, "{model}");
        write(&mut processor, STATUS_RESET, 1);
        write(&mut processor, GLOBAL_CTRL, control);
        processor.retire(happened(5000));
        assert_eq!(read(&mut processor, 0xC1), 0, "{model} counts on");
        write(&mut processor, STATUS_RESET, CTR_FRZ);
        processor.retire(happened(5007));
        assert_eq!(read(&mut processor, 0xC1), 7, "{model}");
    }
    let mut zen = booted("zen4", "frozen");
    arm(&mut zen, false, 1000);
    zen.retire(happened(1000));
    assert_eq!(read(&mut zen, 0xC000_0300), CTR_FRZ | 1);
    zen.retire(happened(5000));
    assert_eq!(read(&mut zen, 0xC001_0201), 0);
    write(&mut zen, 0xC000_0302, CTR_FRZ);
    zen.retire(happened(5007));
    assert_eq!(read(&mut zen, 0xC001_0201), 7);
}

/// A well-behaved processor has IA32_DEBUGCTL too, but freezes only when software requests it.
#[test]
fn freezing_is_debugctls_and_nobody_has_asked_a_kind_processor() {
    let mut processor = booted("skylake", "");
    assert_eq!(read(&mut processor, 0x1D9), 0);
    assert!(processor.wrmsr(0x1D9, 1 << 2).is_err());
    arm(&mut processor, true, 1000);
    processor.retire(happened(1500));
    assert_eq!(read(&mut processor, 0xC1), 500);
    assert!(booted("yonah", "frozen").rdmsr(0x1D9).is_err(), "version 1");
}

#[test]
fn status_bits_are_there_before_anything_counts() {
    let mut stale = booted("skylake", "stale-status");
    assert_eq!(read(&mut stale, GLOBAL_STATUS), 0x7_0000_000F);
    assert_eq!(stale.interrupt_pending(), None);
    write(&mut stale, STATUS_RESET, 0x7_0000_000F);
    assert_eq!(read(&mut stale, GLOBAL_STATUS), 0);
    let mut foreign = booted("skylake", "foreign-status");
    assert_eq!(read(&mut foreign, GLOBAL_STATUS), FOREIGN_STATUS);
    assert!(foreign.wrmsr(STATUS_RESET, 1 << 30).is_err(), "undeclared");
    write(&mut foreign, STATUS_RESET, 1 << 62);
    arm(&mut foreign, true, 1000);
    foreign.retire(happened(1000));
    assert_eq!(read(&mut foreign, GLOBAL_STATUS), FOREIGN_STATUS | 1);
    let mut amd = booted("zen4", "stale-status");
    assert_eq!(read(&mut amd, 0xC000_0300), 0x3F);
    assert!(booted("zen2", "stale-status").rdmsr(0xC000_0300).is_err());
}

#[test]
fn counters_are_found_on() {
    for (model, select, counter) in [
        ("skylake", 0x186, 0xC1),
        ("pentium-m", 0x186, 0xC1),
        ("zen4", 0xC001_0200, 0xC001_0201),
        ("k8", 0xC001_0000, 0xC001_0004),
    ] {
        let mut processor = booted(model, "counters-on");
        processor.retire(happened(100));
        assert_eq!(read(&mut processor, select), 0x43_00C0, "{model}");
        assert_eq!(read(&mut processor, counter), 100, "{model}");
    }
    let mut processor = booted("skylake", "fixed-taken");
    processor.retire(happened(100));
    assert_eq!(read(&mut processor, 0x38D), 0x33);
    assert_eq!(read(&mut processor, GLOBAL_CTRL), 0x3_0000_000F);
    assert_eq!([0x309, 0x30A, 0x30B].map(|msr| read(&mut processor, msr)), [100, 100, 0]);
}

/// Where the interrupt of a counter preset for 1000 arrives, when it is armed again and again.
fn delays(quirks: &str, rounds: u64) -> Vec<Option<u64>> {
    let mut processor = booted("skylake", quirks);
    let mut now = 0;
    let mut one = || {
        arm(&mut processor, true, 1000);
        let overflow = now + 1000;
        for _ in 0..4001 {
            now += 1;
            processor.retire(happened(now));
            if processor.acknowledge_interrupt().is_some() {
                unmask(&mut processor);
                return now.checked_sub(overflow);
            }
        }
        None
    };
    (0..rounds).map(|_| one()).collect()
}

#[test]
fn late_interrupts_come_up_to_three_periods_late_and_again_alike() {
    assert_eq!(delays("", 3), [Some(0); 3]);
    let late = delays("late", 40);
    assert!(late.iter().all(|delay| delay.is_some_and(|delay| delay <= 3000)), "{late:?}");
    for period in 0..3 {
        let within = |delay: &&Option<u64>| delay.is_some_and(|delay| delay / 1000 == period);
        assert!(late.iter().filter(within).count() > 3, "{late:?}");
    }
    assert_eq!(late, delays("late", 40));
}

/// Watches say where the interrupt arrives, so that whoever runs the processor stops there.
#[test]
fn an_interrupt_under_way_is_watched() {
    let mut processor = booted("skylake", "late");
    arm(&mut processor, true, 1000);
    processor.retire(happened(1000));
    assert_eq!(processor.interrupt_pending(), None);
    let mut nearest = u64::MAX;
    processor.watches(|watch| nearest = nearest.min(watch.at));
    assert!((1001..=4000).contains(&nearest));
    write(&mut processor, 0x186, 0);
    processor.retire(happened(nearest - 1));
    assert_eq!(processor.interrupt_pending(), None);
    processor.retire(happened(nearest));
    assert_eq!(processor.interrupt_pending(), Some(0xFE));
}

#[test]
fn each_seventh_interrupt_is_lost_or_all_are() {
    let lost = delays("lost", 21);
    for (number, delay) in (1..).zip(lost) {
        let expected = (number % LOST_EACH != 0).then_some(0);
        assert_eq!(delay, expected, "interrupt {number}");
    }
    assert_eq!(delays("dead-interrupts", 5), [None; 5]);
}

#[test]
fn lvtpc_is_found_masked_and_a_hypervisor_masks_it_on_delivery() {
    for (quirks, masked) in [("", false), ("masked", true)] {
        assert_eq!(is_masked(&mut booted("skylake", quirks)), masked);
        assert_eq!(is_masked(&mut booted("zen4", quirks)), masked);
    }
    for (quirks, masks) in [("", false), ("hypervisor-masks", true)] {
        let mut processor = booted("zen4", quirks);
        assert_eq!(processor.cpuid(1, 0).ecx >> 31 == 1, masks);
        assert_eq!(processor.cpuid(0x4000_0000, 0).ebx == 0x4B4D_564B, masks);
        arm(&mut processor, false, 1000);
        processor.retire(happened(1000));
        assert_eq!(processor.acknowledge_interrupt(), Some(0xFE));
        assert_eq!(is_masked(&mut processor), masks);
    }
}

#[test]
fn a_storm_begins_with_the_first_interrupt_and_ends_with_reset_only() {
    for (model, intel) in [("skylake", true), ("zen4", false)] {
        let mut processor = booted(model, "storm");
        unmask(&mut processor);
        assert_eq!(processor.interrupt_pending(), None, "{model}: too early");
        arm(&mut processor, intel, 1000);
        processor.retire(happened(1000));
        for _ in 0..200 {
            assert_eq!(processor.acknowledge_interrupt(), Some(0xFE), "{model}");
            unmask(&mut processor);
        }
        let entry = processor.read_apic(LVTPC).expect("LVTPC");
        processor.acknowledge_interrupt();
        processor.write_apic(LVTPC, entry | LVTPC_MASK).expect("LVTPC");
        assert_eq!(processor.interrupt_pending(), None, "{model}: masked");
        processor.reset();
        processor.boot_windows();
        unmask(&mut processor);
        assert_eq!(processor.interrupt_pending(), None, "{model}: after reset");
    }
    let mut processor = booted("skylake", "storm");
    arm(&mut processor, true, 1000);
    processor.retire(happened(1000));
    assert_eq!(read(&mut processor, GLOBAL_STATUS), STORM_STATUS | 1);
}

#[test]
fn dead_counters_keep_what_is_written() {
    for (model, intel, counter) in [("skylake", true, 0xC1), ("zen4", false, 0xC001_0201)] {
        let mut processor = booted(model, "dead-counters");
        arm(&mut processor, intel, 1000);
        processor.retire(happened(5000));
        assert_eq!(read(&mut processor, counter), low(48) - 999, "{model}");
        assert_eq!(processor.interrupt_pending(), None, "{model}");
        processor.watches(|watch| panic!("{model}: {watch:?}"));
    }
}

#[test]
fn a_counter_stops_four_events_late() {
    for (model, intel, select, counter) in [
        ("skylake", true, 0x186, 0xC1),
        ("pentium-m", true, 0x186, 0xC1),
        ("zen4", false, 0xC001_0200, 0xC001_0201),
    ] {
        for (quirks, more) in [("", 0), ("late-stop", LATE_STOP)] {
            let mut processor = booted(model, quirks);
            arm(&mut processor, intel, 1000);
            processor.retire(happened(1100));
            write(&mut processor, select, 0);
            assert_eq!(read(&mut processor, counter), 100, "{model}");
            processor.retire(happened(1103));
            assert_eq!(read(&mut processor, counter), 100 + more.min(3), "{model}");
            processor.retire(happened(1200));
            assert_eq!(read(&mut processor, counter), 100 + more, "{model}");
        }
    }
}

/// Even by counting past its overflow.
#[test]
fn a_counter_that_stops_late_can_interrupt() {
    let mut processor = booted("skylake", "late-stop");
    arm(&mut processor, true, 1000);
    processor.retire(happened(998));
    write(&mut processor, GLOBAL_CTRL, 0);
    processor.retire(happened(1100));
    assert_eq!(processor.interrupt_pending(), Some(0xFE));
}

#[test]
fn a_preset_of_fewer_than_128_does_not_interrupt() {
    for (period, comes) in [(127, false), (1, false), (128, true), (4096, true)] {
        let mut processor = booted("skylake", "smallest-reload");
        arm(&mut processor, true, period);
        processor.retire(happened(period.into()));
        assert_eq!(processor.interrupt_pending().is_some(), comes, "{period}");
        assert_eq!(read(&mut processor, GLOBAL_STATUS), 1, "{period}");
    }
}

/// Whether the first general counter, the first fixed one, and the global registers exist.
#[test]
fn what_is_not_declared_is_refused() {
    for (model, quirks, general, fixed) in [
        ("skylake", "no-general", false, true),
        ("skylake", "no-fixed", true, false),
        ("skylake", "no-general+no-fixed", false, false),
        ("hybrid", "no-general", false, true),
        ("hybrid", "no-fixed", true, false),
    ] {
        let mut processor = booted(model, quirks);
        let what = format!("{model} {quirks}");
        for msr in [0x186, 0xC1] {
            assert_eq!(processor.wrmsr(msr, 0).is_ok(), general, "{what}");
        }
        assert_eq!(processor.wrmsr(0x309, 0).is_ok(), fixed, "{what}");
        assert_eq!(processor.wrmsr(0x38D, 3).is_ok(), fixed, "{what}");
        assert_eq!(processor.wrmsr(GLOBAL_CTRL, 1).is_ok(), general, "{what}");
        assert_eq!(processor.wrmsr(GLOBAL_CTRL, 1 << 32).is_ok(), fixed, "{what}");
        assert_eq!(processor.rdpmc(0).is_ok(), general, "{what}");
        assert_eq!(processor.rdpmc(1 << 30).is_ok(), fixed, "{what}");
    }
    let mut amd = booted("zen4", "no-general");
    assert_eq!(read(&mut amd, 0xC000_0301), 0);
    assert!(amd.rdmsr(0xC001_0200).is_err());
}

#[test]
fn fixed_counters_alone_count_and_interrupt() {
    let mut processor = booted("skylake", "no-general");
    write(&mut processor, 0x309, low(48) - 999);
    write(&mut processor, 0x38D, 0xB);
    write(&mut processor, GLOBAL_CTRL, 1 << 32);
    processor.retire(happened(1007));
    assert_eq!(processor.interrupt_pending(), Some(0xFE));
    assert_eq!(read(&mut processor, 0x309), 7);
    assert_eq!(read(&mut processor, GLOBAL_STATUS), 1 << 32);
}

#[test]
fn narrow_counters_wrap_at_32_bits() {
    let mut processor = booted("skylake", "narrow-counters");
    assert_eq!(processor.counter_width(), 32);
    assert!(processor.wrmsr(0x309, 1 << 32).is_err());
    write(&mut processor, 0x186, INSTRUCTIONS & !(1 << 20));
    processor.retire(happened((1 << 32) + 5));
    assert_eq!(read(&mut processor, 0xC1), 5);
}

/// SDM vol. 3, "Pre-defined Architectural Performance Events": the event has its own clock.
#[test]
fn reference_cycles_of_a_general_counter_are_not_the_fixed_ones() {
    let models = [
        ("skylake", 10, true),
        ("haswell", 10, true),
        ("core2", 10, false),
        ("yonah", 10, false),
        ("sapphire-rapids", 1, true),
    ];
    for (model, ratio, has_fixed) in models {
        let mut processor = booted(model, "");
        write(&mut processor, 0x186, 0x43_013C);
        processor.retire(happened(1_000_009));
        assert_eq!(read(&mut processor, 0xC1), 1_000_009 / ratio, "{model}");
        if has_fixed {
            write(&mut processor, 0x38D, 0x300);
            write(&mut processor, GLOBAL_CTRL, 1 << 34);
            processor.retire(happened(1_001_009));
            assert_eq!(read(&mut processor, 0x30B), 1000, "{model}");
        }
    }
}

/// Silicon takes every bit that the SDM gives its version; a hypervisor only those of counters and
/// those that it shows.
#[test]
fn a_hypervisor_takes_no_status_bit_that_it_does_not_show() {
    let conditions = 0x3F << 58;
    for (model, reset, counters) in [
        ("sapphire-rapids", STATUS_RESET, 0xF_0000_00FF),
        ("hyperv-root-intel", STATUS_RESET, 0xF),
        ("zen4", 0xC000_0302, 0x3F),
    ] {
        let hypervisor = booted(model, "hypervisor-masks").cpuid(1, 0).ecx >> 31;
        assert_eq!(hypervisor, 1, "{model}");
        let mut processor = booted(model, "hypervisor-masks");
        write(&mut processor, reset, counters);
        for bit in (0..64).filter(|bit| conditions >> bit & 1 == 1) {
            assert!(processor.wrmsr(reset, 1 << bit).is_err(), "{model}: {bit}");
        }
        let mut frozen = booted(model, "hypervisor-masks+frozen");
        arm(&mut frozen, reset == STATUS_RESET, 1000);
        frozen.retire(happened(1000));
        write(&mut frozen, reset, CTR_FRZ | 1);
        assert!(frozen.wrmsr(reset, CTR_FRZ | 1).is_err(), "{model}: again");
    }
    let mut silicon = booted("sapphire-rapids", "");
    write(&mut silicon, STATUS_RESET, conditions);
    assert!(silicon.wrmsr(STATUS_RESET, 1 << 57).is_err());
}

#[test]
fn somebodys_fixed_counter_interrupts_once() {
    let mut processor = booted("skylake", "fixed-interrupts");
    processor.retire(happened(9_999));
    assert_eq!(processor.interrupt_pending(), None);
    processor.retire(happened(10_000));
    assert_eq!(processor.acknowledge_interrupt(), Some(0xFE));
    assert_eq!(read(&mut processor, GLOBAL_STATUS), 1 << 33);
    unmask(&mut processor);
    processor.retire(happened(1_000_000));
    assert_eq!(processor.interrupt_pending(), None);
}

#[test]
fn what_is_not_acknowledged_is_raised_again() {
    for (quirks, again) in [("", None), ("raised-again", Some(0xFE))] {
        let mut processor = booted("skylake", quirks);
        arm(&mut processor, true, 1000);
        processor.retire(happened(1000));
        for _ in 0..3 {
            processor.acknowledge_interrupt();
            unmask(&mut processor);
            assert_eq!(processor.interrupt_pending(), again, "{quirks}");
        }
        processor.acknowledge_interrupt();
        write(&mut processor, STATUS_RESET, 1);
        unmask(&mut processor);
        assert_eq!(processor.interrupt_pending(), None, "{quirks}");
    }
}

/// By read or by write alone, whatever the other does; no other register is concerned.
#[test]
fn an_absent_register_is_refused() {
    for (model, msr) in [("skylake", 0x186), ("zen4", 0xC001_0201)] {
        let mut whole = booted(model, "");
        let value = read(&mut whole, msr);
        let mut unreadable = booted(model, &format!("unreadable-{msr:#x}"));
        assert_eq!(unreadable.rdmsr(msr), Err(Fault::ReadMsr { msr }), "{model}");
        write(&mut unreadable, msr, value);
        let mut unwritable = booted(model, &format!("late+UNWRITABLE-{msr:#X}"));
        assert_eq!(unwritable.wrmsr(msr, value), Err(Fault::WriteMsr { msr, value }), "{model}");
        assert_eq!(read(&mut unwritable, msr), value, "{model}");
        read(&mut unreadable, 0x1B);
    }
    let both = Quirks::parse("unwritable-0x38f+late+unreadable-0x38f").expect("quirks");
    assert_eq!(both.to_string(), "late+unreadable-0x38f+unwritable-0x38f");
    for wrong in ["unreadable-", "unreadable-38f", "unreadable-0x1+unreadable-0x2"] {
        assert!(Quirks::parse(wrong).is_err(), "{wrong}");
    }
}
