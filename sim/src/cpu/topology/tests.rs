//! Which unit each processor has, and which processor it shares the unit with.

use super::processors;
use crate::cpu::cpuid::Leaves;
use crate::cpu::event::{Counts, Event};
use crate::cpu::processor::Processor;
use hal_profile::cpu::machine::CpuidResult;

const INTEL: [u32; 3] = [0x756E_6547, 0x4965_6E69, 0x6C65_746E];
/// MSR, TSC, APIC, debug store, more than one logical processor.
const FEATURES: u32 = 1 << 28 | 1 << 21 | 1 << 9 | 0b11 << 4;

/// Counter 12, its CCCR, and the ESCR that feeds it with instr_retired.
const IQ: u32 = 0x30C;
const IQ_CCCR: u32 = 0x36C;
const CRU_ESCR0: u32 = 0x3B8;
const INSTRUCTIONS: u64 = 0x0400_0600;
const T1_USR: u64 = 1;
const T0_USR: u64 = 1 << 2;
/// ENABLE, ESCR select 4, ACTIVE_THREAD 11b.
const ENABLED: u64 = 0x0003_9000;
const OVF_PMI_T0: u64 = 1 << 26;
const OVF_PMI_T1: u64 = 1 << 27;
const OVF: u64 = 1 << 31;
const LVTPC: u32 = 0x340;

fn intel(signature: u32, apic_id: u32, logical: u32) -> Leaves {
    let [ebx, edx, ecx] = INTEL;
    let mut leaves = Leaves::default();
    leaves.insert(0, CpuidResult { eax: 0xA, ebx, ecx, edx });
    leaves.insert(
        1,
        CpuidResult { eax: signature, ebx: apic_id << 24 | logical << 16, ecx: 0, edx: FEATURES },
    );
    leaves
}

/// A Prescott's logical processor of a package with two of them.
fn prescott(apic_id: u32) -> Leaves {
    intel(0xF41, apic_id, 2)
}

/// The two logical processors of a Prescott.
fn pair() -> [Processor; 2] {
    let pair = processors(&[prescott(0), prescott(1)]).try_into();
    pair.unwrap_or_else(|_| panic!("two processors"))
}

fn retire(processor: &mut Processor, instructions: u64) {
    let mut counts = Counts::default();
    counts.set(Event::Instructions, instructions, instructions);
    processor.retire(counts);
}

/// Whether one processor reads what the other writes to a counter.
fn share(leaves: &[Leaves; 2]) -> bool {
    let mut machine = processors(leaves);
    let [first, second] = machine.as_mut_slice() else {
        panic!("two processors");
    };
    first.wrmsr(IQ, 7).expect("any value");
    second.rdmsr(IQ) == Ok(7)
}

#[test]
fn old_intel_processors_have_the_unit_of_their_family() {
    // CESR, PerfEvtSel0, CCCR 0.
    for (signature, registers) in [
        (0x0543, [true, false, false]),
        (0x0611, [false, true, false]),
        (0x06D8, [false, true, false]),
        (0x10650, [false, true, false]),
        (0x0624, [false, false, false]),
        (0x06E8, [false, false, false]),
        (0x0F0A, [false, false, true]),
        (0x0F41, [false, false, true]),
        (0x0F65, [false, false, true]),
        (0x0F51, [false, false, false]),
        (0x0480, [false, false, false]),
    ] {
        let mut machine = processors(&[intel(signature, 0, 1)]);
        let there = [0x11, 0x186, 0x360].map(|msr| machine[0].rdmsr(msr).is_ok());
        assert_eq!(there, registers, "{signature:#x}");
    }
}

#[test]
fn what_leaf_0ah_declares_goes_before_the_family() {
    let mut core = intel(0x0F41, 0, 1);
    let declared = CpuidResult { eax: 0x0728_0201, ..CpuidResult::default() };
    core.insert(0xA, declared);
    let mut machine = processors(&[core]);
    assert!(machine[0].rdmsr(0x186).is_ok());
    assert!(machine[0].rdmsr(0x360).is_err());
}

#[test]
fn threads_of_one_core_share_its_unit() {
    assert!(share(&[prescott(6), prescott(7)]));
    assert!(share(&[prescott(7), prescott(6)]));
    assert!(!share(&[prescott(7), prescott(8)]));
    assert!(!share(&[prescott(6), prescott(6)]));
    assert!(!share(&[intel(0xF41, 0, 1), intel(0xF41, 1, 1)]));
}

#[test]
fn cores_without_hyper_threading_share_nothing() {
    let cores = [0, 1].map(|id| {
        let mut leaves = intel(0xF47, id, 2);
        let caches = CpuidResult { eax: 1 << 26 | 0x121, ..CpuidResult::default() };
        leaves.insert_subleaf(4, 0, caches);
        leaves
    });
    assert!(!share(&cores));
}

#[test]
fn a_thread_without_its_sibling_still_is_one_of_two() {
    let mut alone = processors(&[prescott(1)]);
    alone[0]
        .wrmsr(CRU_ESCR0, INSTRUCTIONS | T1_USR)
        .expect("T1 bits are there with Hyper-Threading");
    alone[0].wrmsr(IQ_CCCR, ENABLED).expect("no reserved bit");
    retire(&mut alone[0], 5);
    assert_eq!(alone[0].rdmsr(IQ), Ok(5));
}

#[test]
fn a_register_written_takes_nothing_from_the_sibling() {
    let [mut first, mut second] = pair();
    first.wrmsr(CRU_ESCR0, INSTRUCTIONS | T0_USR | T1_USR).expect("no reserved bit");
    first.wrmsr(IQ_CCCR, ENABLED).expect("no reserved bit");
    retire(&mut second, 40);
    first.wrmsr(IQ_CCCR, 0).expect("no reserved bit");
    retire(&mut second, 100);
    first.wrmsr(IQ_CCCR, ENABLED).expect("no reserved bit");
    retire(&mut second, 103);
    retire(&mut first, 1000);
    assert_eq!(second.rdmsr(IQ), Ok(1043));
}

#[test]
fn what_happens_is_counted_from_0_again_and_added_up_on() {
    let [mut first, mut second] = pair();
    first.wrmsr(CRU_ESCR0, INSTRUCTIONS | T0_USR | T1_USR).expect("no reserved bit");
    first.wrmsr(IQ_CCCR, ENABLED).expect("no reserved bit");
    for processor in [&mut first, &mut second] {
        retire(processor, 100);
        processor.begin_anew();
        assert_eq!(processor.counts(), &Counts::default());
        retire(processor, 10);
    }
    assert_eq!(first.rdmsr(IQ), Ok(220));
}

/// A pair whose counter 12 counts instructions of the first; its tenth interrupts the second.
fn crossed() -> [Processor; 2] {
    let mut machine = pair();
    machine.iter_mut().for_each(Processor::boot_windows);
    for (msr, value) in
        [(CRU_ESCR0, INSTRUCTIONS | T0_USR), (IQ, (1 << 40) - 9), (IQ_CCCR, ENABLED | OVF_PMI_T1)]
    {
        machine[0].wrmsr(msr, value).expect("no reserved bit");
    }
    machine
}

/// Delivery masks LVTPC, and the line is held while OVF is set.
#[test]
fn a_line_held_active_is_seen_again_when_lvtpc_is_unmasked() {
    let [mut first, mut second] = crossed();
    retire(&mut first, 10);
    assert_eq!(first.interrupt_pending(), None);
    assert_eq!(second.acknowledge_interrupt(), Some(0xFE));
    assert_eq!(second.interrupt_pending(), None);
    assert_eq!(second.read_apic(LVTPC), Ok(0x1_00FE));
    assert_eq!(second.write_apic(LVTPC, 0xFE), Ok(()));
    assert_eq!(second.acknowledge_interrupt(), Some(0xFE));
    assert_eq!(second.wrmsr(IQ_CCCR, ENABLED | OVF_PMI_T1), Ok(()));
    assert_eq!(second.write_apic(LVTPC, 0xFE), Ok(()));
    assert_eq!(second.interrupt_pending(), None);
}

#[test]
fn a_request_to_a_masked_sibling_waits_only_while_the_line_is_held() {
    let [mut first, mut second] = crossed();
    assert_eq!(second.write_apic(LVTPC, 0x1_00FE), Ok(()));
    retire(&mut first, 10);
    assert_eq!(second.interrupt_pending(), None);
    assert_eq!(second.write_apic(LVTPC, 0xFE), Ok(()));
    assert_eq!(second.interrupt_pending(), Some(0xFE));
}

#[test]
fn reset_drops_the_lines_of_both_threads() {
    let [mut first, mut second] = crossed();
    retire(&mut first, 10);
    first.reset();
    assert_eq!(second.interrupt_pending(), None);
}

#[test]
fn an_unflagged_overflow_interrupts_without_ovf() {
    let mut machine = processors(&[prescott(0)]);
    let processor = &mut machine[0];
    processor.boot_windows();
    processor.unflag_overflows();
    for (msr, value) in
        [(CRU_ESCR0, INSTRUCTIONS | T0_USR), (IQ, (1 << 40) - 9), (IQ_CCCR, ENABLED | OVF_PMI_T0)]
    {
        processor.wrmsr(msr, value).expect("no reserved bit");
    }
    retire(processor, 10);
    assert_eq!(processor.acknowledge_interrupt(), Some(0xFE));
    assert_eq!(processor.rdmsr(IQ_CCCR).map(|cccr| cccr & OVF), Ok(0));
}

/// SDM vol. 3, "Determining IA-32 Processor Configuration": with more than 255 logical processors
/// firmware leaves every local APIC in x2APIC mode.
#[test]
fn processors_of_one_machine_have_their_local_apics_in_one_mode() {
    const IA32_APIC_BASE: u32 = 0x1B;
    let leaves = crate::machines::models::find("zen4").expect("a model").processors();
    for (count, x2apic) in [(255, false), (256, true), (384, true)] {
        let mut processors = processors(&crate::machines::models::repeat(&leaves, count));
        for (index, processor) in processors.iter_mut().enumerate() {
            processor.boot_windows();
            let base = processor.rdmsr(IA32_APIC_BASE).expect("it has one");
            assert_eq!(base >> 10 & 1 == 1, x2apic, "{index} of {count}");
        }
    }
}
