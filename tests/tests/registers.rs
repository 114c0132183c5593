//! Is each field of each register where its manual puts it? Checks the lowest and highest bit of
//! each field, and what is reserved.

use hal_profile::cpu::machine::CpuidResult;
use hal_profile::cpu::registers::amd::GLOBAL_STATUS_LBR_FROZEN;
use hal_profile::cpu::registers::apic::{ApicBase, LvtPc};
use hal_profile::cpu::registers::cpuid::{PerfMonEax, PerfMonEdx, Signature, available_events};
use hal_profile::cpu::registers::intel::{FixedControl, PerfCapabilities, PerfEvtSel};
use hal_profile::historic::registers::netburst::{CCCR_OFF, Cccr, Escr, escr_msrs};
use hal_profile::historic::registers::pentium::CesrHalf;

#[test]
fn perf_evt_sel() {
    let new = PerfEvtSel::new;
    for (register, bits) in [
        (new().with_event(0xFF), 0xFF),
        (new().with_unit_mask(0xFF), 0xFF00),
        (new().with_usr(true), 1 << 16),
        (new().with_os(true), 1 << 17),
        (new().with_edge(true), 1 << 18),
        (new().with_pin(true), 1 << 19),
        (new().with_int(true), 1 << 20),
        (new().with_any(true), 1 << 21),
        (new().with_en(true), 1 << 22),
        (new().with_inv(true), 1 << 23),
        (new().with_cmask(0xFF), 0xFF00_0000),
        (new().with_event_high(0xF), 0xF_0000_0000),
    ] {
        assert_eq!(register.into_bits(), bits);
        assert_eq!(PerfEvtSel::from_bits(bits), register);
    }
}

/// PerfCntrGlobalStatus, bit 58 (AMD PPR).
#[test]
fn global_status_of_amd() {
    assert_eq!(GLOBAL_STATUS_LBR_FROZEN, 0x0400_0000_0000_0000);
}

#[test]
fn fixed_control() {
    let new = FixedControl::new;
    let registers =
        [new().with_os(true), new().with_usr(true), new().with_any(true), new().with_pmi(true)];
    assert_eq!(registers.map(FixedControl::into_bits), [1, 2, 4, 8]);
}

#[test]
fn perf_capabilities() {
    for bit in 0..64 {
        assert_eq!(PerfCapabilities::from_bits(1 << bit).full_width_write(), bit == 13);
    }
}

#[test]
fn escr() {
    let new = Escr::new;
    for (register, bits) in [
        (new().with_t1_usr(true), 1 << 0),
        (new().with_t1_os(true), 1 << 1),
        (new().with_t0_usr(true), 1 << 2),
        (new().with_t0_os(true), 1 << 3),
        (new().with_tag_enable(true), 1 << 4),
        (new().with_tag_value(0xF), 0xF << 5),
        (new().with_event_mask(0xFFFF), 0xFFFF << 9),
        (new().with_event(0x3F), 0x3F << 25),
    ] {
        assert_eq!(register.into_bits(), bits);
    }
}

#[test]
fn cccr() {
    let new = Cccr::new;
    for (register, bits) in [
        (new().with_enable(true), 1 << 12),
        (new().with_escr_select(7), 7 << 13),
        (new().with_active_thread(3), 3 << 16),
        (new().with_compare(true), 1 << 18),
        (new().with_complement(true), 1 << 19),
        (new().with_threshold(0xF), 0xF << 20),
        (new().with_edge(true), 1 << 24),
        (new().with_force_ovf(true), 1 << 25),
        (new().with_ovf_pmi_t0(true), 1 << 26),
        (new().with_ovf_pmi_t1(true), 1 << 27),
        (new().with_cascade(true), 1 << 30),
        (new().with_ovf(true), 1_u32 << 31),
    ] {
        assert_eq!(register.into_bits(), bits);
    }
    assert_eq!(CCCR_OFF.into_bits(), 0x0003_0000);
}

#[test]
fn half_of_cesr() {
    let new = CesrHalf::new;
    for (register, bits) in [
        (new().with_event(0x3F), 0x3F),
        (new().with_os(true), 1 << 6),
        (new().with_usr(true), 1 << 7),
        (new().with_clocks(true), 1 << 8),
        (new().with_pin(true), 1 << 9),
    ] {
        assert_eq!(register.into_bits(), bits);
    }
}

#[test]
fn local_apic() {
    for bit in 0..64 {
        let base = ApicBase::from_bits(1 << bit);
        assert_eq!((base.bsp(), base.extd(), base.en()), (bit == 8, bit == 10, bit == 11));
        let page = if (12..52).contains(&bit) { 1 << (bit - 12) } else { 0 };
        assert_eq!(base.base(), page, "{bit}");
    }
    for bit in 0..32 {
        let entry = LvtPc::from_bits(1 << bit);
        assert_eq!((entry.status(), entry.mask()), (bit == 12, bit == 16));
        let low = 1_u32 << bit;
        assert_eq!(u32::from(entry.vector()), low & 0xFF);
        assert_eq!(u32::from(entry.delivery_mode()), low >> 8 & 7);
    }
}

#[test]
fn leaves() {
    let eax = PerfMonEax::from_bits(0x0730_0805);
    assert_eq!((eax.version(), eax.counters(), eax.width(), eax.event_bits()), (5, 8, 48, 7));
    for bit in 0..32 {
        let value = 1_u32 << bit;
        let edx = PerfMonEdx::from_bits(value);
        assert_eq!(u32::from(edx.fixed_counters()), value & 0x1F);
        assert_eq!(u32::from(edx.fixed_width()), value >> 5 & 0xFF);
        let one = Signature::from_bits(value);
        assert_eq!(u32::from(one.stepping()), value & 0xF);
        assert_eq!(u32::from(one.base_model()), value >> 4 & 0xF);
        assert_eq!(u32::from(one.base_family()), value >> 8 & 0xF);
        assert_eq!(u32::from(one.processor_type()), value >> 12 & 3);
        assert_eq!(u32::from(one.extended_model()), value >> 16 & 0xF);
        assert_eq!(u32::from(one.extended_family()), value >> 20 & 0xFF);
    }
}

/// Every EBX of seven bits, with every length around them.
#[test]
fn an_event_is_there_below_the_length_and_with_a_clear_bit() {
    for ebx in 0..0x80 {
        for length in 0..=40 {
            let leaf = CpuidResult { eax: length << 24, ebx, ..CpuidResult::default() };
            for bit in 0..32 {
                let there = bit < length && ebx >> bit & 1 == 0;
                assert_eq!(
                    available_events(leaf) >> bit & 1 == 1,
                    there,
                    "{ebx:#x} {length} {bit}"
                );
            }
        }
    }
}

/// 45 ESCRs on models 0 to 2; later models lack IQ_ESCR0 and 1 (SDM vol. 4).
#[test]
fn escrs_of_each_model() {
    for (model, count) in [(0, 45), (1, 45), (2, 45), (3, 43), (4, 43), (6, 43)] {
        let msrs: Vec<_> = escr_msrs(model).collect();
        assert_eq!(msrs.len(), count, "{model}");
        assert_eq!(msrs.contains(&0x3BA), count == 45);
        assert_eq!(msrs.contains(&0x3BB), count == 45);
        assert!(msrs.is_sorted() && msrs.contains(&0x3A0) && msrs.contains(&0x3E1));
    }
    let facts = halprof_tests::source_data!("p4-escr");
    let mut known: Vec<u64> =
        facts.iter().map(|fact| halprof_tests::facts::number(&fact["msr"])).collect();
    known.sort_unstable();
    let msrs: Vec<u64> = escr_msrs(0).map(u64::from).collect();
    assert_eq!(msrs, known);
}
