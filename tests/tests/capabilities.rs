//! Does a processor's description match CPUID and its registers, without a register that is not
//! proven to exist?
//!
//! The snapshots have each case's lines: compare a change with the manual that is named here before
//! accepting it (`INSTA_UPDATE=always`).

use hal_profile::cpu::capabilities::Capabilities;
use hal_profile::cpu::discover::apic_page;
use halprof_measure::{Connection, InProcess};
use halprof_tests::silicon::{HV1, Silicon, signature};
use shared_types::{ProfileInterface, Reason};
use std::fmt::Write;

/// Leaf 0x0A: version, counters, their width, seven events; three fixed counters of 48 bits.
fn leaf_0a(version: u32, counters: u32, width: u32) -> [u32; 4] {
    [7 << 24 | width << 16 | counters << 8 | version, 0, 0, 0x603]
}

fn intel(version: u32, counters: u32, width: u32) -> Silicon {
    Silicon::intel(6, 0x5E, leaf_0a(version, counters, width))
}

fn with_leaf_0a(leaf_0a: [u32; 4]) -> Silicon {
    Silicon::intel(6, 0x5E, leaf_0a)
}

/// A processor with leaf 0x23, of which the sub-leaves in this mask are valid.
fn with_leaf_23(valid: u32) -> Silicon {
    Silicon::new(b"GenuineIntel", 0x23, signature(6, 0xC5))
        .leaf(0x0A, leaf_0a(5, 8, 48))
        .leaf(0x1A, [0x4000_0003, 0, 0, 0])
        .subleaf(7, 1, [1 << 8, 0, 0, 0])
        .subleaf(0x23, 0, [valid, 0, 0, 0])
        .subleaf(0x23, 1, [0b11_1010_0101, 0b101_0010, 0, 0])
        .subleaf(0x23, 3, [0b1010, 0, 0, 0])
}

/// An AMD processor with leaf 0x80000022, with these bits of 0x80000001 ECX.
fn perfmon_v2(extension: u32, ebx: u32) -> Silicon {
    Silicon::amd(0x1A, 2)
        .flip(0x8000_0001, [0, 0, extension, 0])
        .leaf(0x8000_0000, [0x8000_0022, 0, 0, 0])
        .leaf(0x8000_0022, [1, ebx, 0, 0])
}

/// ECX bit 23 of leaf 0x80000001: the counters of the core extension.
const CORE_EXTENSION: u32 = 1 << 23;

/// A Pentium 4 with leaf 1's EBX, with or without HTT, and with leaf 4's EAX if there is one.
fn netburst(ebx: u32, htt: bool, leaf_4: Option<u32>) -> Silicon {
    let leaf1 = [signature(15, 4), ebx, 0, u32::from(htt) << 28 | 1 << 9 | 1 << 5];
    let max_leaf = if leaf_4.is_some() { 5 } else { 2 };
    Silicon::new(b"GenuineIntel", max_leaf, signature(15, 4))
        .leaf(1, leaf1)
        .leaf(4, [leaf_4.unwrap_or(7 << 26), 0, 0, 0])
        .msr(0x1A0, 1 << 7)
}

/// What a case asks, in its manual's words, and the processor.
type Case = (String, Silicon);

fn architectural() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: String, silicon| cases.push((name, silicon));
    // SDM vol. 3B, "Architectural Performance Monitoring": fixed counters and global registers from
    // version 2 on, CTR_FRZ (bit 59 of the status) from version 4 on. Newer versions than known are
    // used as the newest known.
    for version in [3, 0, 1, 2, 4, 7, 255] {
        case(format!("version {version}"), intel(version, 4, 48));
    }
    // SDM vol. 2A, leaf 0x0A: from version 5 on a fixed counter exists if ECX has its bit or
    // EDX[4:0] is above its index. Those above 6 are not defined.
    for (version, ecx) in [(4, 0b1000), (5, 0b1000), (6, 0b0001), (7, 0b10_0000), (5, u32::MAX)] {
        let [eax, ebx, _, edx] = leaf_0a(version, 4, 48);
        let name = format!("version {version}, ECX of leaf 0x0A {ecx:#x}");
        case(name, with_leaf_0a([eax, ebx, ecx, edx]));
    }
    // Ten selects have registers (IA32_PERFEVTSEL0 to 9).
    for declared in [0, 1, 9, 10, 11, 32, 255] {
        case(format!("{declared} general counters declared"), intel(3, declared, 48));
    }
    // Counters are 32 to 63 bits wide; of another width none is used.
    for width in [0, 31, 32, 33, 47, 63, 64, 255] {
        case(format!("general counters of {width} bits"), intel(3, 4, width));
        let [eax, ..] = leaf_0a(3, 4, 48);
        let fixed = with_leaf_0a([eax, 0, 0, width << 5 | 3]);
        case(format!("fixed counters of {width} bits"), fixed);
    }
    // An event exists if its bit is below EAX[31:24] and clear in EBX.
    for (length, ebx) in [
        (1, 0),
        (7, 0b101_1010),
        (7, 0xFFFF_FF80),
        (13, 0x1FFE),
        (31, 0),
        (32, 0),
        (255, 0x8000_0000),
    ] {
        let name = format!("{length} events, EBX {ebx:#x}");
        case(name, with_leaf_0a([length << 24 | 0x30_0403, ebx, 0, 0x603]));
    }
    // Leaf 0x23 says which counters this processor has, holes included, in sub-leaves that sub-leaf
    // 0 declares valid; leaf 7.1 EAX bit 8 announces it.
    for valid in [0b1011, 0b0010, 0b1000, 0, 0b0001, 0b0101] {
        case(format!("leaf 0x23, valid {valid:#b}"), with_leaf_23(valid));
    }
    let beyond = with_leaf_23(0b1011).subleaf(0x23, 1, [u32::MAX, u32::MAX, 0, 0]);
    case("leaf 0x23 with every counter".to_owned(), beyond);
    let unannounced = with_leaf_23(0b1011).subleaf(7, 1, [!(1 << 8), 0, 0, 0]);
    case("leaf 0x23 that leaf 7 does not announce".to_owned(), unannounced);
    let above = with_leaf_23(0b1011).flip(0, [0x23 ^ 0x22, 0, 0, 0]);
    case("leaf 0x23 above the last".to_owned(), above);
    // Leaf 0x0A EDX[15] deprecates AnyThread (bit 21), which is there from version 3 on; EBX of leaf
    // 0x23 announces UMASK2 (bits 47:40) and EQ (bit 36).
    for version in [2, 3, 4] {
        let [eax, ebx, ecx, edx] = leaf_0a(version, 4, 48);
        let deprecated = with_leaf_0a([eax, ebx, ecx, edx | 1 << 15]);
        case(format!("version {version}, AnyThread deprecated"), deprecated);
    }
    for ebx in [1, 2, 3, !3] {
        let announced = with_leaf_23(0b1011).subleaf(0x23, 0, [0b1011, ebx, 0, 0]);
        case(format!("leaf 0x23, EBX {ebx:#x}"), announced);
    }
    // SDM vol. 4, IA32_PERF_CAPABILITIES: bit 13 is FW_WRITE. Without PDCM (leaf 1 ECX bit 15) the
    // register is not there.
    let pdcm = intel(3, 4, 48).flip(1, [0, 0, 1 << 15, 0]);
    for capabilities in [0, 1 << 13, !(1 << 13), u64::MAX] {
        let name = format!("IA32_PERF_CAPABILITIES {capabilities:#x}");
        case(name, pdcm.clone().msr(0x345, capabilities));
    }
    // SDM vol. 4, IA32_DEBUGCTL: FREEZE_PERFMON_ON_PMI is there with PDCM.
    let version_4 = intel(4, 4, 48).flip(1, [0, 0, 1 << 15, 0]).msr(0x345, 0);
    case("version 4, PDCM".to_owned(), version_4);
    cases
}

fn topology() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: String, silicon| cases.push((name, silicon));
    case("one thread, local APIC on".to_owned(), intel(3, 4, 48));
    // Leaf 0x1A is Intel's.
    for (vendor, max_leaf) in
        [(b"GenuineIntel", 0x1A), (b"GenuineIntel", 0x19), (b"AuthenticAMD", 0x1A)]
    {
        let silicon = Silicon::new(vendor, max_leaf, signature(6, 0xBA))
            .leaf(0x0A, leaf_0a(5, 6, 48))
            .leaf(0x1A, [0x2000_0001, 0, 0, 0]);
        let vendor = String::from_utf8_lossy(vendor);
        case(format!("{vendor}, leaf 0x1A of {max_leaf:#x}"), silicon);
    }
    // SDM vol. 2A, leaf 0x0B: EBX[15:0] of the first level is the number of threads of a core.
    for (max_leaf, ebx) in [(0xB, 2), (0xB, 8), (0xB, 1), (0xB, 0), (0xB, 0x1_0001), (0xA, 2)] {
        let silicon = Silicon::new(b"GenuineIntel", max_leaf, signature(6, 0x5E))
            .leaf(0x0A, leaf_0a(4, 4, 48))
            .leaf(0x0B, [0, ebx, 0, 0]);
        case(format!("leaf 0x0B of {max_leaf:#x}, EBX {ebx:#x}"), silicon);
    }
    // IA32_APIC_BASE: bit 11 is the global enable, bit 10 x2APIC mode, bit 8 the boot processor.
    for base in [0xFEE0_0900, 0xFEE0_0800, 0xFEE0_0C00, 0xFEE0_0100, 0xFEE0_0500, 0] {
        case(format!("IA32_APIC_BASE {base:#x}"), intel(3, 4, 48).msr(0x1B, base).msr(0x834, 0xFE));
    }
    // Without leaf 1 EDX bit 9 the register is not even read.
    case("no local APIC".to_owned(), intel(3, 4, 48).flip(1, [0, 0, 0, 1 << 9]));
    // Leaf 1 EDX bit 5: without RDMSR nothing can be monitored. What is not used keeps its reason.
    let no_msrs = |silicon: Silicon| silicon.flip(1, [0, 0, 0, 1 << 5]);
    case("no MSRs, Intel".to_owned(), no_msrs(intel(3, 4, 48)));
    case("no MSRs, AMD".to_owned(), no_msrs(Silicon::amd(0x10, 2)));
    case("no MSRs, P6".to_owned(), no_msrs(Silicon::old_intel(6, 8)));
    case("no MSRs, Hv#1 without counters".to_owned(), no_msrs(intel(3, 4, 48).under(HV1, 0)));
    // Leaf 0x0A's version is reported although no interface uses it.
    let other = Silicon::new(b"CentaurHauls", 0x0A, signature(6, 15)).leaf(0x0A, leaf_0a(2, 2, 40));
    case("another vendor".to_owned(), other);
    cases
}

fn amd() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: String, silicon| cases.push((name, silicon));
    // APM vol. 2, "Performance Counter MSRs": four legacy counters, six of the core extension.
    case("legacy counters".to_owned(), Silicon::amd(0x10, 2));
    case("family 5".to_owned(), Silicon::amd(5, 7));
    case("family 6".to_owned(), Silicon::amd(6, 6));
    let extended = Silicon::amd(0x17, 1).flip(0x8000_0001, [0, 0, CORE_EXTENSION, 0]);
    case("core extension".to_owned(), extended);
    // APM vol. 3, leaf 0x80000022: EBX[3:0] is the number of core counters. PerfMonV2 gates those of
    // the core extension.
    for ebx in [1, 6, 0x10, 0xF6, 15] {
        case(format!("PerfMonV2, EBX {ebx:#x}"), perfmon_v2(CORE_EXTENSION, ebx));
    }
    case("PerfMonV2 without the core extension".to_owned(), perfmon_v2(0, 6));
    cases
}

fn historic() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: String, silicon| cases.push((name, silicon));
    // The Pentium's APIC has no entry for the counters, and no IA32_APIC_BASE.
    case("Pentium".to_owned(), Silicon::old_intel(5, 4));
    case("P6".to_owned(), Silicon::old_intel(6, 8));
    // IA32_MISC_ENABLE: bit 7 says whether performance monitoring is available.
    for model in [9, 0x0D, 0x15] {
        for (name, value) in [("on", 1 << 7), ("off", !(1 << 7))] {
            let pentium_m = Silicon::old_intel(6, model).msr(0x1A0, value);
            case(format!("Pentium M, model {model:#x}, monitoring {name}"), pentium_m);
        }
    }
    for value in [0, !(1 << 7)] {
        let off = netburst(0, false, None).msr(0x1A0, value);
        case(format!("NetBurst, IA32_MISC_ENABLE {value:#x}"), off);
    }
    // Two threads halve the counters: 0, 4, 5, 8, 9, 12, 13, 16 are the first's, the others the second's.
    // Counter 1 is never used. Two cores are no threads (Smithfield, Presler HT).
    for (ebx, htt, leaf_4) in [
        (0x0002_0800, false, None),
        (0x0001_0800, true, None),
        (0x0002_0800, true, None),
        (0x0102_0800, true, None),
        (0x0602_0800, true, None),
        (0x0702_0800, true, None),
        (0x0102_0800, true, Some(0x0000_0121)),
        (0x0002_0800, true, Some(0x0400_0121)),
        (0x0102_0800, true, Some(0x0400_0121)),
        (0x0304_0800, true, Some(0x0400_0121)),
        (0x0100_0800, true, None),
    ] {
        let name = format!("NetBurst, leaf 1 EBX {ebx:#x}, HTT {htt}, leaf 4 {leaf_4:x?}");
        case(name, netburst(ebx, htt, leaf_4));
    }
    cases
}

/// What a user meets of it, and what decides which registers are accessed, in lines.
fn described(capabilities: &Capabilities) -> Vec<String> {
    let Capabilities { layout, global, netburst, selection, .. } = capabilities;
    let c = capabilities;
    let lvtpc = if c.masks_lvtpc { "masks LVTPC" } else { "does not mask LVTPC" };
    let (general, fixed) = (c.width.bits(), c.fixed_width.bits());
    vec![
        format!("{} by {}", selection.used.interface.name(), selection.used.reason.name()),
        format!("version {}", c.pmu_version),
        format!("overflows: {}, APIC {:?}, {lvtpc}", c.delivery.name(), c.apic),
        format!("general: {} declared, {:#x} of {general} bits", c.declared_counters, c.counters),
        format!("fixed: {} declared, {:#x} of {fixed} bits", c.declared_fixed, c.fixed),
        format!("selects: {:#x}, every {}", layout.select, layout.stride),
        format!("counters: {:#x}, written at {:#x}", layout.counter, layout.counter_write),
        format!(
            "global: control {:#x}, status {:#x}, acknowledge {:#x}",
            global.control, global.status, global.acknowledge
        ),
        format!("conditions: {:#x}", global.conditions),
        format!("freeze: {:#x}, requested by MSR {:#x}", global.freeze, global.freeze_control),
        format!("events: {:#x}, bits of selects {:#x}", c.events, c.select_bits),
        format!("core type: {:#x}, native model {:#x}", c.core_type, c.native_model),
        format!("shares its core: {}", c.shares_core),
        format!("NetBurst: thread {}, two threads {}", netburst.thread, netburst.hyper_threading),
    ]
}

/// The first case whole, of each other one what differs from the first.
fn snapshot(name: &str, cases: &[Case]) {
    let mut text = String::new();
    let mut first: Option<Vec<String>> = None;
    for (case, silicon) in cases {
        let lines = described(&silicon.discover());
        let _ = writeln!(text, "{case}");
        for (index, line) in lines.iter().enumerate() {
            if first.as_ref().is_none_or(|first| first[index] != *line) {
                let _ = writeln!(text, "  {line}");
            }
        }
        first.get_or_insert(lines);
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn capabilities_by_leaf_0a_and_leaf_23() {
    snapshot("capabilities_architectural", &architectural());
}

#[test]
fn capabilities_by_topology_and_apic() {
    snapshot("capabilities_topology", &topology());
}

#[test]
fn capabilities_of_amd() {
    snapshot("capabilities_amd", &amd());
}

#[test]
fn capabilities_of_old_processors() {
    snapshot("capabilities_historic", &historic());
}

/// CPUID.7 EDX[13] says that the microcode takes counter 3 for transactions, and EDX[11] that there are
/// none (Linux, arch/x86/events/intel/core.c, intel_pmu_init).
#[test]
fn counter_3_is_given_last_where_transactions_take_it() {
    for (edx, last) in [(0, 0), (1 << 13, 0b1000), (1 << 11, 0), (1 << 13 | 1 << 11, 0)] {
        let silicon = intel(4, 4, 48).subleaf(7, 0, [0, 0, 0, edx]);
        let capabilities = silicon.discover();
        assert_eq!(capabilities.errata.last_counters, last, "{edx:#x}");
        assert_eq!(capabilities.tsx_force_abort, last != 0, "{edx:#x}");
    }
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
        assert_eq!(processor.cpu_type, kind, "{}", processor.index);
        let (interface, reason) = if used {
            (ProfileInterface::Emon, Reason::Architectural)
        } else {
            (ProfileInterface::Default, Reason::TooManyCpuTypes)
        };
        assert_eq!(
            (ProfileInterface::from_wire(processor.interface), Reason::from_wire(processor.reason)),
            (Some(interface), Some(reason))
        );
        assert_eq!(processor.counter_mask == 0, !used);
    }
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
        let mut silicon = intel(3, 4, 48).msr(0x1B, base).msr(0x834, 0xFE);
        assert_eq!(apic_page(&mut silicon), page, "{base:#x}");
    }
}
