//! LVTPC in both modes, and the transitions between them (SDM vol. 3, "Advanced Programmable
//! Interrupt Controller (APIC)").

use hal_profile::cpu::machine::CpuidResult;
use sim::Processor;
use sim::cpu::cpuid::Leaves;
use sim::cpu::event::{Counts, Event};
use sim::cpu::fault::Fault;

type TestResult = Result<(), Fault>;

const BASE: u32 = 0x1B;
const EXTD: u64 = 1 << 10;
const ENABLE: u64 = 1 << 11;
const X2APIC_LVTPC: u32 = 0x834;

/// A Skylake with this leaf 1.
fn processor(signature: u32, ebx: u32, ecx: u32, edx: u32) -> Processor {
    let leaf = |eax, ebx, ecx, edx| CpuidResult { eax, ebx, ecx, edx };
    let mut leaves = Leaves::default();
    leaves.insert(0, leaf(0x16, 0x756E_6547, 0x6C65_746E, 0x4965_6E69));
    leaves.insert(1, leaf(signature, ebx, ecx, edx));
    leaves.insert(0xA, leaf(0x0730_0404, 0, 0, 0x603));
    leaves.insert(0x8000_0008, leaf(0x3027, 0, 0, 0));
    Processor::new(leaves)
}

fn skylake() -> Processor {
    processor(0x506E3, 0, 0x7FFA_FBFF, 0xBFEB_FBFF)
}

fn x2apic() -> Result<Processor, Fault> {
    let mut processor = skylake();
    let base = processor.rdmsr(BASE)?;
    processor.wrmsr(BASE, base | EXTD)?;
    Ok(processor)
}

/// Makes one general counter overflow with INT set.
fn overflow(processor: &mut Processor) -> TestResult {
    let events = processor.counts().total(Event::Instructions);
    processor.wrmsr(0x186, 0x0053_00C0)?;
    processor.wrmsr(0xC1, u64::MAX)?;
    let mut counts = Counts::default();
    counts.set(Event::Instructions, events + 1, 0);
    processor.retire(counts);
    Ok(())
}

#[test]
fn reset_leaves_xapic_mode_with_lvtpc_masked() -> TestResult {
    let mut boot = skylake();
    assert_eq!(boot.rdmsr(BASE)?, 0xFEE0_0900);
    assert_eq!(boot.read_apic(0x340)?, 0x0001_0000);
    let mut other = processor(0x506E3, 0x0200_0000, 0x7FFA_FBFF, 0xBFEB_FBFF);
    assert_eq!(other.rdmsr(BASE)?, 0xFEE0_0800);
    assert_eq!(other.read_apic(0x20)?, 0x0200_0000);
    Ok(())
}

#[test]
fn the_page_has_lvtpc_id_and_version_only() -> TestResult {
    let mut processor = skylake();
    assert_eq!(processor.read_apic(0x30)? >> 16, 5, "LVT entries less one");
    for offset in [0, 0x80, 0xB0, 0x330, 0x341, 0x350, 0x1000] {
        assert_eq!(processor.read_apic(offset), Err(Fault::Apic { offset }));
        assert_eq!(processor.write_apic(offset, 0), Err(Fault::Apic { offset }));
    }
    for offset in [0x20, 0x30] {
        assert_eq!(processor.write_apic(offset, 0), Err(Fault::Apic { offset }));
    }
    Ok(())
}

#[test]
fn xapic_ignores_reserved_and_read_only_bits() -> TestResult {
    let mut processor = skylake();
    processor.write_apic(0x340, u32::MAX)?;
    assert_eq!(processor.read_apic(0x340)?, 0x0001_07FF);
    assert_eq!(processor.rdmsr(X2APIC_LVTPC), Err(Fault::ReadMsr { msr: X2APIC_LVTPC }));
    Ok(())
}

#[test]
fn x2apic_refuses_reserved_bits_and_ignores_the_status() -> TestResult {
    let mut processor = x2apic()?;
    for bit in 0..64 {
        let taken = processor.wrmsr(X2APIC_LVTPC, 1 << bit).is_ok();
        assert_eq!(taken, matches!(bit, 0..=10 | 12 | 16), "bit {bit}");
    }
    processor.wrmsr(X2APIC_LVTPC, 0x1_10FE)?;
    assert_eq!(processor.rdmsr(X2APIC_LVTPC)?, 0x1_00FE);
    assert_eq!(processor.rdmsr(0x802)?, 0);
    assert!(processor.rdmsr(0x80B).is_err());
    assert_eq!(processor.read_apic(0x340), Err(Fault::Apic { offset: 0x340 }));
    Ok(())
}

#[test]
fn mode_transitions() -> TestResult {
    // Disabled, xAPIC, x2APIC, and EXTD without EN, which is not a mode.
    let modes = [0, ENABLE, ENABLE | EXTD, EXTD];
    let allowed =
        [[true, true, false, false], [true, true, true, false], [true, false, true, false]];
    for (from, row) in modes.into_iter().zip(allowed) {
        for (to, may) in modes.into_iter().zip(row) {
            let mut processor = if from & EXTD == 0 { skylake() } else { x2apic()? };
            processor.wrmsr(BASE, 0xFEE0_0000 | from)?;
            let taken = processor.wrmsr(BASE, 0xFEE0_0000 | to).is_ok();
            assert_eq!(taken, may, "{from:#x} to {to:#x}");
        }
    }
    Ok(())
}

#[test]
fn base_refuses_reserved_bits() {
    for bit in (0..64).filter(|&bit| bit != 10 && bit != 11) {
        let value = 0xFEE0_0800 ^ 1 << bit;
        let taken = skylake().wrmsr(BASE, value).is_ok();
        assert_eq!(taken, bit == 8 || (12..39).contains(&bit), "bit {bit}");
    }
}

#[test]
fn x2apic_needs_its_cpuid_bit() -> TestResult {
    let mut processor = processor(0x506E3, 0, 0x7FFA_FBFF & !(1 << 21), 0xBFEB_FBFF);
    let value = processor.rdmsr(BASE)? | EXTD;
    let refused = Err(Fault::WriteMsr { msr: BASE, value });
    assert_eq!(processor.wrmsr(BASE, value), refused);
    Ok(())
}

#[test]
fn cpuid_hides_a_disabled_apic_which_sends_nothing() -> TestResult {
    let mut processor = skylake();
    processor.boot_windows();
    assert_eq!(processor.cpuid(1, 0).edx >> 9 & 1, 1);
    processor.wrmsr(BASE, 0xFEE0_0100)?;
    assert_eq!(processor.cpuid(1, 0).edx >> 9 & 1, 0);
    assert!(processor.read_apic(0x340).is_err());
    overflow(&mut processor)?;
    assert_eq!(processor.interrupt_pending(), None);
    processor.wrmsr(BASE, 0xFEE0_0900)?;
    assert_eq!(processor.read_apic(0x340)?, 0x0001_0000);
    Ok(())
}

#[test]
fn without_an_apic_there_is_no_register_and_no_interrupt() -> TestResult {
    let mut processor = processor(0x506E3, 0, 0x7FFA_FBFF, 0xBFEB_FBFF & !(1 << 9));
    processor.boot_windows();
    assert_eq!(processor.rdmsr(BASE), Err(Fault::ReadMsr { msr: BASE }));
    assert!(processor.wrmsr(BASE, 0xFEE0_0900).is_err());
    assert!(processor.read_apic(0x340).is_err());
    overflow(&mut processor)?;
    assert_eq!(processor.interrupt_pending(), None);
    Ok(())
}

#[test]
fn the_pentiums_apic_has_neither_base_nor_lvtpc() -> TestResult {
    let mut processor = processor(0x543, 0, 0, 0x0080_03BF);
    assert!(processor.rdmsr(BASE).is_err());
    assert_eq!(processor.read_apic(0x30)? >> 16, 3);
    assert!(processor.read_apic(0x340).is_err());
    assert!(processor.write_apic(0x340, 0xFE).is_err());
    Ok(())
}

#[test]
fn a_request_that_finds_lvtpc_masked_is_lost() -> TestResult {
    let mut processor = skylake();
    processor.write_apic(0x340, 0x1_00FE)?;
    overflow(&mut processor)?;
    processor.write_apic(0x340, 0xFE)?;
    assert_eq!(processor.interrupt_pending(), None);
    overflow(&mut processor)?;
    assert_eq!(processor.interrupt_pending(), Some(0xFE));
    Ok(())
}

#[test]
fn delivery_modes() -> TestResult {
    for (lvtpc, expected) in [
        (0x0FE, Some(0xFE)),
        (0x010, Some(0x10)),
        (0x00F, None),
        (0x400, Some(2)),
        (0x4FE, Some(2)),
        (0x2FE, None),
        (0x5FE, None),
        (0x7FE, None),
    ] {
        let mut processor = skylake();
        processor.write_apic(0x340, lvtpc)?;
        overflow(&mut processor)?;
        assert_eq!(processor.interrupt_pending(), expected, "{lvtpc:#x}");
        assert_eq!(processor.acknowledge_interrupt(), expected);
        assert_eq!(processor.acknowledge_interrupt(), None);
    }
    Ok(())
}

#[test]
fn the_time_stamp_counter_and_a_processor_without_msrs() -> TestResult {
    let mut processor = skylake();
    processor.set_timestamp(77);
    assert_eq!(processor.rdmsr(0x10)?, 77);
    processor.wrmsr(0x10, 5)?;
    assert_eq!(processor.timestamp(), 5);
    let mut old = self::processor(0x480, 0, 0, 0x0000_0003);
    assert_eq!(old.rdmsr(0x10), Err(Fault::InvalidOpcode));
    assert_eq!(old.wrmsr(0xC1, 0), Err(Fault::InvalidOpcode));
    assert_eq!(old.rdpmc(0), Err(Fault::InvalidOpcode));
    Ok(())
}

/// A processor with this id in leaf 0x0B, of which leaf 1 has the low 8 bits.
fn with_id(id: u32) -> Processor {
    let leaf = |eax, ebx, ecx, edx| CpuidResult { eax, ebx, ecx, edx };
    let mut leaves = Leaves::default();
    leaves.insert(0, leaf(0x16, 0x756E_6547, 0x6C65_746E, 0x4965_6E69));
    leaves.insert(1, leaf(0x506E3, id << 24, 0x7FFA_FBFF, 0xBFEB_FBFF));
    leaves.insert_subleaf(0xB, 0, leaf(1, 2, 0x100, id));
    Processor::new(leaves)
}

#[test]
fn windows_boots_in_x2apic_mode_only_where_the_id_needs_it() -> TestResult {
    for (id, base) in
        [(0, 0xFEE0_0900), (254, 0xFEE0_0800), (255, 0xFEE0_0C00), (0x300, 0xFEE0_0C00)]
    {
        let mut processor = with_id(id);
        processor.boot_windows();
        assert_eq!(processor.rdmsr(BASE)?, base, "id {id}");
        if base & EXTD == 0 {
            assert_eq!(processor.read_apic(0x20)?, id << 24);
            assert_eq!(processor.read_apic(0x340)?, 0xFE);
        } else {
            assert_eq!(processor.rdmsr(0x802)?, u64::from(id));
            assert_eq!(processor.rdmsr(X2APIC_LVTPC)?, 0xFE);
        }
    }
    Ok(())
}

#[test]
fn a_test_may_boot_in_x2apic_mode_where_there_is_one() -> TestResult {
    let mut with = skylake();
    assert!(with.boot_x2apic());
    assert_eq!(with.rdmsr(BASE)?, 0xFEE0_0D00);
    assert_eq!(with.rdmsr(X2APIC_LVTPC)?, 0xFE);
    let mut without = processor(0x506E3, 0, 0x7FFA_FBFF & !(1 << 21), 0xBFEB_FBFF);
    assert!(!without.boot_x2apic());
    assert_eq!(without.rdmsr(BASE)?, 0xFEE0_0900);
    assert_eq!(without.read_apic(0x340)?, 0xFE);
    Ok(())
}
