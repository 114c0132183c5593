//! Does a processor's description match CPUID and its registers, without a register that is not
//! proven to exist?

use hal_profile::cpu::capabilities::{Apic, Capabilities, Global, Layout};
use hal_profile::cpu::counter::{Counter, CounterWidth};
use hal_profile::cpu::discover::apic_page;
use hal_profile::plan::counter_config::{Active, CounterConfig};
use hal_profile::run::pmu;
use hal_profile::source::encode::Encoding;
use halprof_measure::{Connection, InProcess};
use halprof_tests::machines_from_table;
use halprof_tests::silicon::{HV1, Silicon, signature};
use shared_types::{Delivery, ProfileInterface, Reason};

/// Leaf 0x0A: version, counters, their width, seven events; three fixed counters of 48 bits.
fn leaf_0a(version: u32, counters: u32, width: u32) -> [u32; 4] {
    [7 << 24 | width << 16 | counters << 8 | version, 0, 0, 0x603]
}

fn intel(version: u32, counters: u32, width: u32) -> Silicon {
    Silicon::intel(6, 0x5E, leaf_0a(version, counters, width))
}

/// From version 4 on the status register has CTR_FRZ, bit 59 (SDM, "Freezing Counters on PMI").
const CTR_FRZ: u64 = 1 << 59;
const NO_GLOBAL: Global =
    Global { control: 0, acknowledge: 0, status: 0, conditions: 0, freeze: 0, freeze_control: 0 };
const INTEL_GLOBAL: Global = Global {
    control: 0x38F,
    acknowledge: 0x390,
    status: 0x38E,
    // Bits 48, 55, 59, 61, 62 and 63 (SDM vol. 4, IA32_PERF_GLOBAL_STATUS).
    conditions: 0xE881_0000_0000_0000,
    freeze: 0,
    freeze_control: 0,
};

fn width(bits: u8) -> CounterWidth {
    CounterWidth::new(bits).expect("a width")
}

fn general(index: u8) -> Counter {
    Counter::general(index).expect("below 32")
}

fn fixed(index: u8) -> Counter {
    Counter::fixed(index).expect("below 32")
}

#[test]
fn version_1_has_neither_fixed_counters_nor_global_registers() {
    let found = intel(1, 2, 40).discover();
    assert_eq!((found.interface(), found.pmu_version), (ProfileInterface::Emon, 1));
    assert_eq!((found.declared_counters, found.counters), (2, 0b11));
    assert_eq!(found.width, width(40));
    assert_eq!((found.declared_fixed, found.fixed, found.fixed_width), (0, 0, CounterWidth::NONE));
    assert_eq!((found.global, found.delivery), (NO_GLOBAL, Delivery::ByValue));
    assert!(found.masks_lvtpc);
    let layout = Layout { select: 0x186, counter: 0xC1, counter_write: 0xC1, stride: 1 };
    assert_eq!(found.layout, layout);
    assert_eq!(found.events, 0x7F);
}

#[test]
fn versions_2_and_later_have_both() {
    for version in [2, 3, 4, 5, 6, 7, 200, 255] {
        let found = intel(version, 4, 48).discover();
        assert_eq!(u32::from(found.pmu_version), version);
        assert_eq!((found.declared_fixed, found.fixed), (3, 0b111), "{version}");
        assert_eq!(found.fixed_width, width(48));
        let global = Global { freeze: if version >= 4 { CTR_FRZ } else { 0 }, ..INTEL_GLOBAL };
        assert_eq!(found.global, global, "{version}");
        assert_eq!(found.delivery, Delivery::Acknowledged);
    }
}

#[test]
fn version_0_has_nothing() {
    let found = intel(0, 4, 48).discover();
    assert_eq!(found.interface(), ProfileInterface::Default);
    assert_eq!((found.counters, found.fixed, found.global), (0, 0, NO_GLOBAL));
    assert_eq!((found.delivery, found.apic), (Delivery::None, Apic::None));
    assert_eq!((found.declared_counters, found.width), (0, CounterWidth::NONE));
}

/// SDM vol. 2A, leaf 0x0A: a fixed counter exists if ECX has its bit or EDX\[4:0\] is above its
/// index.
#[test]
fn from_version_5_on_ecx_lists_fixed_counters_too() {
    for (version, ecx, fixed) in [
        (4, 0b1000, 0b0111),
        (5, 0b1000, 0b1111),
        (6, 0b0001, 0b0111),
        (7, 0b10_0000, 0b10_0111),
        // Fixed counters above 6 are not defined, so they are not used.
        (5, u32::MAX, 0b111_1111),
    ] {
        let [eax, ebx, _, edx] = leaf_0a(version, 4, 48);
        let found = Silicon::intel(6, 0x5E, [eax, ebx, ecx, edx]).discover();
        assert_eq!((found.fixed, found.declared_fixed), (fixed, 3), "{version} {ecx:#x}");
    }
}

#[test]
fn no_more_counters_than_have_registers() {
    for (declared, counters) in [
        (0, 0),
        (1, 1),
        (8, 0xFF),
        (9, 0x1FF),
        (10, 0x3FF),
        (11, 0x3FF),
        (31, 0x3FF),
        (32, 0x3FF),
        (255, 0x3FF),
    ] {
        let found = intel(3, declared, 48).discover();
        assert_eq!(u32::from(found.declared_counters), declared);
        assert_eq!(found.counters, counters, "{declared}");
    }
}

#[test]
fn no_counter_of_a_width_that_none_has() {
    for (width, known) in [
        (0, false),
        (31, false),
        (32, true),
        (33, true),
        (47, true),
        (63, true),
        (64, false),
        (255, false),
    ] {
        let found = intel(3, 4, width).discover();
        assert_eq!(found.counters != 0, known, "{width}");
        assert_eq!(found.width.bits(), if known { width as u8 } else { 0 });
        let [eax, ..] = leaf_0a(3, 4, 48);
        let found = Silicon::intel(6, 0x5E, [eax, 0, 0, width << 5 | 3]).discover();
        assert_eq!(found.fixed, if known { 0b111 } else { 0 }, "{width}");
        assert_eq!(found.fixed_width.bits(), if known { width as u8 } else { 0 });
        assert_eq!(found.counters, 0b1111);
    }
}

#[test]
fn each_kind_of_counter_has_its_width() {
    let found = Silicon::intel(6, 0x5E, [0x0730_0403, 0, 0, 40 << 5 | 3]).discover();
    assert_eq!(found.width_of(general(3)).bits(), 48);
    assert_eq!(found.width_of(fixed(2)).bits(), 40);
    let none = intel(1, 4, 48).discover();
    assert_eq!(none.width_of(fixed(0)), CounterWidth::NONE);
}

#[test]
fn events_are_those_within_the_length_whose_bit_is_clear() {
    for (length, ebx, events) in [
        (1, 0, 0b1),
        (7, 0, 0x7F),
        (7, 0b101_1010, 0b010_0101),
        (7, 0xFFFF_FF80, 0x7F),
        (13, 0x1FFE, 1),
        (31, 0, 0x7FFF_FFFF),
        (32, 0, u32::MAX),
        (255, 0x8000_0000, 0x7FFF_FFFF),
    ] {
        let found = Silicon::intel(6, 0x5E, [length << 24 | 0x30_0403, ebx, 0, 0x603]).discover();
        assert_eq!(found.events, events, "{length} {ebx:#x}");
    }
}

fn with_leaf_23(valid: u32) -> Silicon {
    Silicon::new(b"GenuineIntel", 0x23, signature(6, 0xC5))
        .leaf(0x0A, leaf_0a(5, 8, 48))
        .leaf(0x1A, [0x4000_0003, 0, 0, 0])
        .subleaf(7, 1, [1 << 8, 0, 0, 0])
        .subleaf(0x23, 0, [valid, 0, 0, 0])
        .subleaf(0x23, 1, [0b11_1010_0101, 0b101_0010, 0, 0])
        .subleaf(0x23, 3, [0b1010, 0, 0, 0])
}

#[test]
fn leaf_0x23_tells_this_processors_own_counters_holes_included() {
    let found = with_leaf_23(0b1011).discover();
    assert_eq!((found.counters, found.fixed), (0b11_1010_0101, 0b101_0010));
    assert_eq!(found.events, 0b1010);
    // The reported numbers remain leaf 0x0A's.
    assert_eq!((found.declared_counters, found.declared_fixed), (8, 3));
    assert_eq!(found.core_type, 0x40);
    let beyond = with_leaf_23(0b1011).subleaf(0x23, 1, [u32::MAX, u32::MAX, 0, 0]);
    let found = beyond.discover();
    assert_eq!((found.counters, found.fixed), (0x3FF, 0x7F));
}

#[test]
fn only_valid_sub_leaves_of_0x23_are_read() {
    let found = with_leaf_23(0b0010).discover();
    assert_eq!((found.counters, found.fixed, found.events), (0b11_1010_0101, 0b101_0010, 0x7F));
    let found = with_leaf_23(0b1000).discover();
    assert_eq!((found.counters, found.fixed, found.events), (0xFF, 0b111, 0b1010));
    for valid in [0, 0b0001, 0b0101] {
        let found = with_leaf_23(valid).discover();
        assert_eq!((found.counters, found.fixed, found.events), (0xFF, 0b111, 0x7F));
    }
}

#[test]
fn leaf_0x23_counts_only_where_leaf_7_announces_it() {
    let unannounced = with_leaf_23(0b1011).subleaf(7, 1, [!(1 << 8), 0, 0, 0]);
    let found = unannounced.discover();
    assert_eq!((found.counters, found.fixed, found.events), (0xFF, 0b111, 0x7F));
    let beyond_the_last = Silicon::new(b"GenuineIntel", 0x22, signature(6, 0xC5))
        .leaf(0x0A, leaf_0a(5, 8, 48))
        .subleaf(7, 1, [1 << 8, 0, 0, 0])
        .subleaf(0x23, 0, [0b1011, 0, 0, 0])
        .subleaf(0x23, 1, [1, 1, 0, 0]);
    assert_eq!(beyond_the_last.discover().counters, 0xFF);
}

#[test]
fn core_type_is_intels_leaf_0x1a() {
    let of = |vendor, max_leaf| {
        Silicon::new(vendor, max_leaf, signature(6, 0xBA))
            .leaf(0x0A, leaf_0a(5, 6, 48))
            .leaf(0x1A, [0x2000_0001, 0, 0, 0])
            .discover()
    };
    for (vendor, max_leaf, expected) in [
        (b"GenuineIntel", 0x1A, (0x20, 1)),
        (b"GenuineIntel", 0x19, (0, 0)),
        (b"AuthenticAMD", 0x1A, (0, 0)),
    ] {
        let found = of(vendor, max_leaf);
        assert_eq!((found.core_type, found.native_model), expected);
    }
}

#[test]
fn amd_has_four_legacy_counters_or_six_of_the_core_extension() {
    let legacy = Silicon::amd(0x10, 2).discover();
    assert_eq!((legacy.declared_counters, legacy.counters, legacy.pmu_version), (4, 0xF, 1));
    let layout =
        Layout { select: 0xC001_0000, counter: 0xC001_0004, counter_write: 0xC001_0004, stride: 1 };
    assert_eq!(legacy.layout, layout);
    let extended = Silicon::amd(0x17, 1).flip(0x8000_0001, [0, 0, 1 << 23, 0]).discover();
    assert_eq!((extended.declared_counters, extended.counters, extended.pmu_version), (6, 0x3F, 1));
    let layout =
        Layout { select: 0xC001_0200, counter: 0xC001_0201, counter_write: 0xC001_0201, stride: 2 };
    assert_eq!(extended.layout, layout);
    for found in [legacy, extended] {
        assert_eq!(found.width, width(48));
        assert_eq!((found.global, found.delivery), (NO_GLOBAL, Delivery::ByValue));
        assert_eq!(
            (found.fixed, found.fixed_width, found.declared_fixed),
            (0, CounterWidth::NONE, 0)
        );
        assert!(!found.masks_lvtpc);
    }
}

fn perfmon_v2(extension: u32, ebx: u32) -> Capabilities {
    perfmon_v2_silicon(extension, ebx).discover()
}

fn perfmon_v2_silicon(extension: u32, ebx: u32) -> Silicon {
    Silicon::amd(0x1A, 2)
        .flip(0x8000_0001, [0, 0, extension, 0])
        .leaf(0x8000_0000, [0x8000_0022, 0, 0, 0])
        .leaf(0x8000_0022, [1, ebx, 0, 0])
}

/// RDPMC 6 to 9 are the northbridge's counters: core counters from 6 on are read as MSRs, every
/// second register from 0xC0010201 on.
#[test]
fn core_counters_that_rdpmc_does_not_reach_are_registers() {
    let mut silicon = perfmon_v2_silicon(1 << 23, 15).msr(0xC001_020F, 77);
    let capabilities = silicon.discover();
    let slot = CounterConfig::new(&capabilities, general(7), &Encoding::default());
    let one = Active::new(&slot, 0);
    assert_eq!(pmu::read(&mut silicon, &one), 77);
}

#[test]
fn perfmon_v2_tells_its_number_of_counters() {
    for (ebx, counters) in [(1, 0b1), (6, 0x3F), (0x10, 0), (0xF6, 0x3F), (15, 0x7FFF)] {
        let found = perfmon_v2(1 << 23, ebx);
        assert_eq!(found.pmu_version, 2);
        assert_eq!(u32::from(found.declared_counters), ebx & 0xF);
        assert_eq!(found.counters, counters);
        let layout = (found.layout.select, found.layout.counter, found.layout.stride);
        assert_eq!(layout, (0xC001_0200, 0xC001_0201, 2));
        let global = Global {
            control: 0xC000_0301,
            acknowledge: 0xC000_0302,
            status: 0xC000_0300,
            conditions: 0,
            freeze: 0,
            freeze_control: 0,
        };
        assert_eq!((found.global, found.delivery), (global, Delivery::Acknowledged));
    }
}

/// PerfMonV2 gates the counters of the core extension: without that extension the legacy ones are
/// used, ungated.
#[test]
fn perfmon_v2_is_nothing_without_the_core_extension() {
    let found = perfmon_v2(0, 6);
    assert_eq!((found.pmu_version, found.declared_counters, found.counters), (2, 4, 0xF));
    assert_eq!((found.layout.select, found.layout.stride), (0xC001_0000, 1));
    assert_eq!((found.global, found.delivery), (NO_GLOBAL, Delivery::ByValue));
}

#[test]
fn version_of_the_unit_is_told_by_vendor() {
    assert_eq!(Silicon::amd(5, 7).discover().pmu_version, 0);
    assert_eq!(Silicon::amd(6, 6).discover().pmu_version, 1);
    let other = Silicon::new(b"CentaurHauls", 0x0A, signature(6, 15)).leaf(0x0A, leaf_0a(2, 2, 40));
    // Leaf 0x0A's version is reported although no interface uses it.
    assert_eq!(other.discover().pmu_version, 2);
    assert_eq!(Silicon::old_intel(6, 8).discover().pmu_version, 0);
}

#[test]
fn full_width_writes_where_the_capabilities_register_says_so() {
    let pdcm = intel(3, 4, 48).flip(1, [0, 0, 1 << 15, 0]);
    for (capabilities, base) in [(0, 0xC1), (1 << 13, 0x4C1), (!(1 << 13), 0xC1), (u64::MAX, 0x4C1)]
    {
        let found = pdcm.clone().msr(0x345, capabilities).discover();
        assert_eq!((found.layout.counter_write, found.layout.counter), (base, 0xC1));
    }
    // Without PDCM the register is not read: reading it would be a #GP.
    assert_eq!(intel(3, 4, 48).discover().layout.counter_write, 0xC1);
}

#[test]
fn pentium_and_p6_have_two_counters_of_40_bits() {
    let pentium = Silicon::old_intel(5, 4).discover();
    let p6 = Silicon::old_intel(6, 8).discover();
    assert_eq!(
        (pentium.interface(), p6.interface()),
        (ProfileInterface::Pentium, ProfileInterface::P6)
    );
    for found in [&pentium, &p6] {
        assert_eq!((found.declared_counters, found.counters), (2, 0b11));
        assert_eq!(found.width, width(40));
        assert_eq!((found.global, found.fixed, found.masks_lvtpc), (NO_GLOBAL, 0, false));
    }
    assert_eq!(
        (pentium.layout.select, pentium.layout.counter, pentium.layout.counter_write),
        (0x11, 0x12, 0x12)
    );
    assert_eq!((p6.layout.select, p6.layout.counter, p6.layout.counter_write), (0x186, 0xC1, 0xC1));
    assert_eq!((pentium.layout.stride, p6.layout.stride), (1, 1));
    // The Pentium's APIC has no entry for the counters, and no IA32_APIC_BASE.
    assert_eq!((pentium.delivery, pentium.apic), (Delivery::None, Apic::None));
    assert_eq!((p6.delivery, p6.apic), (Delivery::ByValue, Apic::XApic));
}

#[test]
fn pentium_m_masks_lvtpc_and_tells_whether_it_monitors() {
    for model in [9, 0x0D, 0x15] {
        let pentium_m = Silicon::old_intel(6, model);
        let found = pentium_m.clone().msr(0x1A0, 1 << 7).discover();
        assert_eq!((found.interface(), found.masks_lvtpc), (ProfileInterface::P6, true));
        assert_disabled(&pentium_m.msr(0x1A0, !(1 << 7)).discover());
    }
}

fn assert_disabled(found: &Capabilities) {
    assert_eq!(found.interface(), ProfileInterface::Default);
    assert_eq!(found.selection.used.reason, Reason::MonitoringDisabled);
    assert_eq!((found.counters, found.delivery), (0, Delivery::None));
}

/// Leaf 1 EDX\[5\]: without RDMSR nothing can be monitored.
#[test]
fn no_msrs_no_monitoring() {
    for silicon in [intel(3, 4, 48), Silicon::amd(0x10, 2), Silicon::old_intel(6, 8)] {
        let edx = silicon.leaves().get(1, 0).edx;
        assert_ne!(edx & 1 << 5, 0);
        assert_disabled(&silicon.flip(1, [0, 0, 0, 1 << 5]).discover());
    }
    let masked = intel(3, 4, 48).under(HV1, 0).flip(1, [0, 0, 0, 1 << 5]);
    let reason = masked.discover().selection.used.reason;
    assert_eq!(reason, Reason::HypervisorMasks, "what is not used keeps its reason");
}

/// A Pentium 4 with leaf 1's EBX, with or without HTT, and with leaf 4's EAX if there is one.
fn netburst(ebx: u32, htt: bool, leaf_4: Option<u32>) -> Silicon {
    let leaf1 = [signature(15, 4), ebx, 0, u32::from(htt) << 28 | 1 << 9 | 1 << 5];
    let max_leaf = if leaf_4.is_some() { 5 } else { 2 };
    Silicon::new(b"GenuineIntel", max_leaf, signature(15, 4))
        .leaf(1, leaf1)
        .leaf(4, [leaf_4.unwrap_or(7 << 26), 0, 0, 0])
        .msr(0x1A0, 1 << 7)
}

#[test]
fn netburst_halves_its_counters_between_two_threads() {
    const ALL: u32 = 0x3_FFFD;
    const EVEN: u32 = 1 | 0b11 << 4 | 0b11 << 8 | 0b11 << 12 | 1 << 16;
    const ODD: u32 = 0b11 << 2 | 0b11 << 6 | 0b11 << 10 | 0b11 << 14 | 1 << 17;
    for (ebx, htt, leaf_4, threads, thread, counters) in [
        (0x0002_0800, false, None, false, 0, ALL),
        (0x0001_0800, true, None, false, 0, ALL),
        (0x0002_0800, true, None, true, 0, EVEN),
        (0x0102_0800, true, None, true, 1, ODD),
        (0x0602_0800, true, None, true, 0, EVEN),
        (0x0702_0800, true, None, true, 1, ODD),
        // One core with two threads; two cores without and with threads (Smithfield, Presler HT).
        (0x0102_0800, true, Some(0x0000_0121), true, 1, ODD),
        (0x0002_0800, true, Some(0x0400_0121), false, 0, ALL),
        (0x0102_0800, true, Some(0x0400_0121), false, 0, ALL),
        (0x0304_0800, true, Some(0x0400_0121), true, 1, ODD),
        (0x0100_0800, true, None, false, 0, ALL),
    ] {
        let found = netburst(ebx, htt, leaf_4).discover();
        assert_eq!(found.interface(), ProfileInterface::NetBurst);
        assert_eq!(
            (found.netburst.hyper_threading, found.netburst.thread),
            (threads, thread),
            "{ebx:#x}"
        );
        assert_eq!(found.counters, counters, "{ebx:#x}");
        assert_eq!((found.declared_counters, found.width), (18, width(40)));
        assert_eq!((found.delivery, found.masks_lvtpc), (Delivery::CccrFlag, true));
        let layout = Layout { select: 0x360, counter: 0x300, counter_write: 0x300, stride: 1 };
        assert_eq!(found.layout, layout);
    }
}

#[test]
fn netburst_tells_whether_it_monitors() {
    for value in [0, !(1 << 7)] {
        assert_disabled(&netburst(0, false, None).msr(0x1A0, value).discover());
    }
}

#[test]
fn two_cores_of_smithfield_are_no_threads() {
    let machines = machines_from_table();
    let (_, leaves) =
        machines.iter().find(|(file, _)| file.contains("Smithfield")).expect("the dump");
    let mut connection = Connection::new(InProcess::new(leaves)).expect("a model");
    let processors = connection.processors().expect("processors");
    let masks: Vec<_> = processors.iter().map(|processor| processor.counter_mask).collect();
    assert_eq!(masks, [0x3_FFFD, 0x3_FFFD]);
}

#[test]
fn overflows_need_a_local_apic_that_is_on() {
    for (base, apic, delivery) in [
        (0xFEE0_0900, Apic::XApic, Delivery::Acknowledged),
        (0xFEE0_0800, Apic::XApic, Delivery::Acknowledged),
        (0xFEE0_0C00, Apic::X2Apic, Delivery::Acknowledged),
        (0xFEE0_0100, Apic::None, Delivery::None),
        (0xFEE0_0500, Apic::None, Delivery::None),
        (0, Apic::None, Delivery::None),
    ] {
        let found = intel(3, 4, 48).msr(0x1B, base).discover();
        assert_eq!((found.apic, found.delivery), (apic, delivery), "{base:#x}");
        assert_eq!(found.counters, 0b1111);
    }
    // Without CPUID's bit the register is not even read.
    let without = Silicon::intel(6, 0x5E, leaf_0a(3, 4, 48)).flip(1, [0, 0, 0, 1 << 9]);
    let found = without.discover();
    assert_eq!((found.apic, found.delivery), (Apic::None, Delivery::None));
}

#[test]
fn the_eighth_kind_of_processor_is_not_used() {
    let kind = |counters: u32| intel(3, counters, 48).leaves().clone();
    let machine: Vec<_> = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 7].map(kind).into();
    let mut connection = Connection::new(InProcess::new(&machine)).expect("a model");
    let processors = connection.processors().expect("processors");
    assert_eq!(processors.len(), machine.len());
    for (processor, (kind, used)) in processors.iter().zip([
        (0, true),
        (1, true),
        (2, true),
        (3, true),
        (4, true),
        (5, true),
        (6, true),
        (7, false),
        (7, false),
        (0, true),
        (6, true),
    ]) {
        assert_eq!(processor.kind, kind, "{}", processor.index);
        let (interface, reason) = if used {
            (ProfileInterface::Emon, Reason::Architectural)
        } else {
            (ProfileInterface::Default, Reason::TooManyKinds)
        };
        assert_eq!(
            (ProfileInterface::from_wire(processor.interface), Reason::from_wire(processor.reason)),
            (Some(interface), Some(reason))
        );
        assert_eq!(processor.counter_mask == 0, !used);
    }
}

/// SDM vol. 2A, leaf 0x0B: EBX\[15:0\] of the first level is the number of threads of a core.
#[test]
fn threads_of_a_core_are_told_by_leaf_0x0b() {
    for (max_leaf, ebx, shares) in [
        (0xB, 2, true),
        (0xB, 8, true),
        (0xB, 1, false),
        (0xB, 0, false),
        (0xB, 0x1_0001, false),
        (0xA, 2, false),
    ] {
        let found = Silicon::new(b"GenuineIntel", max_leaf, signature(6, 0x5E))
            .leaf(0x0A, leaf_0a(4, 4, 48))
            .leaf(0x0B, [0, ebx, 0, 0])
            .discover();
        assert_eq!(found.shares_core, shares, "{max_leaf:#x} {ebx:#x}");
    }
}

/// AnyThread (bit 21) is there from version 3 on, unless EDX\[15\] of leaf 0x0A deprecates it; EBX of
/// leaf 0x23 announces UMASK2 (bits 47:40) and EQ (bit 36).
#[test]
fn select_bits_beyond_the_first_versions_are_announced() {
    const ANY: u64 = 1 << 21;
    for (version, deprecated, bits) in
        [(1, 0, 0), (2, 0, 0), (2, 1 << 15, 0), (3, 0, ANY), (4, 0, ANY), (4, 1 << 15, 0)]
    {
        let [eax, ebx, ecx, edx] = leaf_0a(version, 4, 48);
        let found = Silicon::intel(6, 0x5E, [eax, ebx, ecx, edx | deprecated]).discover();
        assert_eq!(found.select_bits, bits, "{version} {deprecated:#x}");
    }
    for (ebx, bits) in [(0, 0), (1, 0xFF << 40), (2, 1 << 36), (3, 0xFF << 40 | 1 << 36), (!3, 0)] {
        let found = with_leaf_23(0b1011).subleaf(0x23, 0, [0b1011, ebx, 0, 0]).discover();
        assert_eq!(found.select_bits, ANY | bits, "{ebx:#x}");
    }
}

#[test]
fn all_counters_are_in_the_layout_of_the_global_registers() {
    assert_eq!(intel(4, 4, 48).discover().all_counters(), 0x7_0000_000F);
    assert_eq!(intel(1, 2, 48).discover().all_counters(), 0b11);
}

/// For the driver to map: bits 12 and above of IA32_APIC_BASE.
#[test]
fn the_local_apics_page_is_where_its_register_says() {
    for (base, page) in [
        (0xFEE0_0900, Some(0xFEE0_0000)),
        (0x12_3456_7900, Some(0x12_3456_7000)),
        (0xFEE0_0C00, None),
        (0xFEE0_0100, None),
    ] {
        let mut silicon = intel(3, 4, 48).msr(0x1B, base);
        assert_eq!(apic_page(&mut silicon), page, "{base:#x}");
    }
}

/// AMD's core extension alternates selects and counters (APM vol. 2, "Core Performance Event-Select
/// Registers").
#[test]
fn each_counter_has_its_registers() {
    let extended = Silicon::amd(0x17, 1).flip(0x8000_0001, [0, 0, 1 << 23, 0]);
    for (found, last, select, counter) in [
        (Silicon::amd(0x10, 2).discover(), 3, 0xC001_0003, 0xC001_0007),
        (extended.discover(), 5, 0xC001_020A, 0xC001_020B),
        (intel(4, 4, 48).discover(), 3, 0x189, 0xC4),
    ] {
        let last = general(last);
        assert_eq!((found.select_msr(last), found.write_msr(last)), (select, counter));
    }
}
