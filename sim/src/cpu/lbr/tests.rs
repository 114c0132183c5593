//! Do the registers match the manuals, and are they as strict?

use super::*;
use crate::cpu::processor::Processor;
use crate::machines::models;
use crate::quirks::Quirks;

const IA32_DEBUGCTL: u32 = 0x1D9;

fn booted(leaves: &Leaves) -> Processor {
    let mut processor = Processor::new(leaves.clone());
    processor.boot_windows();
    processor
}

fn model(name: &str) -> Processor {
    booted(&models::find(name).expect("a model").processors()[0])
}

fn taken(number: u64) -> Taken {
    Taken {
        from: 0x1000 + number,
        to: 0x2000 + number,
        kind: BranchKind::Conditional,
        mispredicted: false,
        cycles: 7,
    }
}

fn write(processor: &mut Processor, msr: u32, value: u64) {
    processor.wrmsr(msr, value).expect("a register");
}

fn read(processor: &mut Processor, msr: u32) -> u64 {
    processor.rdmsr(msr).expect("a register")
}

/// TOS wraps around after 32 records and points to the newest.
#[test]
fn model_specific_records_go_round() {
    let mut processor = model("skylake");
    write(&mut processor, IA32_DEBUGCTL, LBR);
    for number in 1..=40 {
        processor.branch(&taken(number));
    }
    assert_eq!(read(&mut processor, LBR_TOS), 40 % 32);
    assert_eq!(read(&mut processor, 0x680 + 40 % 32), 0x1000 + 40);
    assert_eq!(read(&mut processor, 0x6C0 + 9), 0x2000 + 9);
    assert_eq!(read(&mut processor, 0xDC0 + 10), 7);
    // While off, nothing is recorded.
    write(&mut processor, IA32_DEBUGCTL, 0);
    processor.branch(&taken(41));
    assert_eq!(read(&mut processor, LBR_TOS), 8);
}

/// Writing the depth clears the records; registers beyond it do not exist.
#[test]
fn architectural_records_have_a_depth() {
    let mut processor = model("sapphire-rapids");
    assert_eq!(read(&mut processor, IA32_LBR_DEPTH), 32);
    write(&mut processor, IA32_LBR_CTL, LBR_CTL_ALL);
    processor.branch(&taken(1));
    processor.branch(&taken(2));
    assert_eq!(read(&mut processor, 0x1500), 0x1002);
    assert_eq!(read(&mut processor, 0x1501), 0x1001);
    assert_eq!(read(&mut processor, 0x1200), 7 | CYCLES_VALID);
    write(&mut processor, IA32_LBR_DEPTH, 8);
    assert_eq!(read(&mut processor, 0x1500), 0);
    assert!(processor.rdmsr(0x1507).is_ok());
    assert!(processor.rdmsr(0x1508).is_err());
    // Leaf 0x1C offers 8, 16 and 32.
    for depth in [0, 4, 24, 64] {
        assert!(processor.wrmsr(IA32_LBR_DEPTH, depth).is_err(), "{depth}");
    }
    // IA32_DEBUGCTL.LBR is ignored.
    write(&mut processor, IA32_DEBUGCTL, LBR | FREEZE_LBRS_ON_PMI);
    assert_eq!(read(&mut processor, IA32_DEBUGCTL), FREEZE_LBRS_ON_PMI);
}

/// Valid and speculative bits: a wrong-path record follows each mispredicted branch.
#[test]
fn amds_records_have_wrong_paths() {
    let mut processor = model("zen4");
    write(&mut processor, DBG_EXTN_CFG, AMD_ENABLE);
    processor.branch(&Taken { from: 0xFFFF_F800_0000_1000, mispredicted: true, ..taken(1) });
    let records: Vec<u64> = (0..6).map(|i| read(&mut processor, AMD_FROM0 + i)).collect();
    assert_eq!(records[1] & (AMD_VALID | AMD_SPECULATIVE), AMD_SPECULATIVE);
    assert_eq!(records[2], 0xFFFF_F800_0000_1000 & AMD_ADDRESS | MISPREDICTED);
    assert_eq!(records[3], 0x2001 | AMD_VALID);
    assert_eq!(records[5], 0);
    assert!(processor.rdmsr(AMD_FROM0 + 32).is_err());
}

#[test]
fn reserved_bits_are_refused() {
    for (name, msr, values) in [
        ("skylake", LBR_SELECT, &[1 << 10][..]),
        ("skylake", LBR_TOS, &[32]),
        ("skylake", 0x680, &[1 << 62]),
        ("skylake", 0xDC0, &[1 << 16, 1 << 60]),
        ("sapphire-rapids", IA32_LBR_CTL, &[1 << 4, 1 << 15, 1 << 23]),
        ("zen4", AMD_LBR_SELECT, &[1 << 9]),
    ] {
        let mut processor = model(name);
        for &value in values {
            assert!(processor.wrmsr(msr, value).is_err(), "{name} {msr:#x}");
        }
    }
}

/// Under KVM, and under Hyper-V if it does not offer them, whatever CPUID leaf 7 says.
#[test]
fn hypervisors_hide_them() {
    let kvm = Quirks::parse("hypervisor-masks").expect("one");
    for name in ["skylake", "sapphire-rapids", "zen4"] {
        let leaves = &models::find(name).expect("a model").processors()[0];
        let mut processor = booted(&leaves.with_quirks(kvm));
        for msr in [LBR_SELECT, IA32_LBR_CTL, DBG_EXTN_CFG, 0x680, 0x1500, AMD_FROM0] {
            assert!(processor.rdmsr(msr).is_err(), "{name} {msr:#x}");
        }
    }
    let mut processor = model("hyperv-root-intel");
    assert!(processor.rdmsr(IA32_LBR_CTL).is_err());
}

/// The other models have none of these forms.
#[test]
fn older_processors_have_none() {
    for name in ["haswell", "core2", "zen2", "k8", "pentium4"] {
        let mut processor = model(name);
        for msr in [LBR_SELECT, IA32_LBR_CTL, DBG_EXTN_CFG, AMD_FROM0] {
            assert!(processor.rdmsr(msr).is_err(), "{name} {msr:#x}");
        }
    }
}
