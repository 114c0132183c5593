//! Which interface does a processor get, and by which rule? Each real dump, judged by hand from the
//! published rules, then each rule separately.
//!
//! The rules: G. Chappell's "Hardware Performance Counters" for the HAL's, the older processors'
//! manuals for halprof's.

use halprof_measure::{Connection, InProcess};
use halprof_tests::silicon::{HV1, Silicon, signature};
use halprof_tests::{data, facts, machines_from_table};
use shared_types::{Delivery, ProfileInterface, Reason};

/// Version 3, four counters of 48 bits, seven events, three fixed counters of 48 bits.
const LEAF_0A: [u32; 4] = [0x0730_0403, 0, 0, 0x603];
const NANOVISOR: u32 = 0x766E_6258;

const DEFAULT: &str = "Default";
const EMON: &str = "Emon";
const AMD64: &str = "Amd64";

#[test]
fn every_dump_gets_what_the_rules_say() {
    let machines = machines_from_table();
    let expected = data!("dump-judgements");
    assert_eq!(machines.len(), expected.len());
    for ((file, leaves), row) in machines.iter().zip(&expected) {
        assert_eq!(*file, row["file"]);
        let mut connection = Connection::new(InProcess::new(leaves)).expect("a model");
        let machine = connection.machine().expect("a description");
        let processors = connection.processors().expect("processors");
        let boot = &processors[0];
        let names = [
            ProfileInterface::from_wire(machine.hal_interface).map(ProfileInterface::name),
            ProfileInterface::from_wire(machine.interface).map(ProfileInterface::name),
            Reason::from_wire(machine.reason).map(Reason::name),
            Delivery::from_wire(machine.delivery).map(Delivery::name),
            ProfileInterface::from_wire(boot.interface).map(ProfileInterface::name),
            Reason::from_wire(boot.reason).map(Reason::name),
            Delivery::from_wire(boot.delivery).map(Delivery::name),
        ];
        let columns =
            ["hal_interface", "interface", "reason", "delivery", "interface", "reason", "delivery"];
        assert_eq!(names, columns.map(|column| Some(row[column].as_str())), "{file}");
        let kinds = processors.iter().map(|processor| processor.cpu_type).max();
        for (column, value) in [
            ("pmu_version", u64::from(boot.pmu_version)),
            ("counters", boot.counters.into()),
            ("counter_width", boot.counter_width.into()),
            ("fixed_counters", boot.fixed_counters.into()),
            ("fixed_width", boot.fixed_width.into()),
            ("counter_mask", boot.counter_mask.into()),
            ("fixed_mask", boot.fixed_mask.into()),
            ("kinds", kinds.map_or(0, |last| u64::from(last) + 1)),
        ] {
            assert_eq!(value, facts::number(&row[column]), "{file}: {column}");
        }
    }
}

/// The HAL's choice, its rule, and halprof's choice and rule, as names.
fn judged(silicon: &Silicon) -> [&'static str; 4] {
    let judgement = silicon.judge();
    [
        judgement.hal.interface.name(),
        judgement.hal.reason.name(),
        judgement.used.interface.name(),
        judgement.used.reason.name(),
    ]
}

/// The same if halprof does what the HAL does.
fn same(interface: &'static str, reason: &'static str) -> [&'static str; 4] {
    [interface, reason, interface, reason]
}

const ARCHITECTURAL: &str = "architectural-performance-monitoring";
/// The flag of long mode, in leaf 0x80000001.
const LONG_MODE: [u32; 4] = [0, 0, 0, 1 << 29];

/// Checks what each of these processors gets.
fn get(rule: &str, processors: impl IntoIterator<Item = Silicon>, expected: [&str; 4]) {
    for processor in processors {
        assert_eq!(judged(&processor), expected, "{rule}: {processor:x?}");
    }
}

fn modern_intel() -> Silicon {
    Silicon::intel(6, 0x5E, LEAF_0A)
}

/// Another vendor's processor with leaf 0x0A.
fn of_vendor(vendor: &[u8; 12], family: u32) -> Silicon {
    Silicon::new(vendor, 0x0A, signature(family, 1)).leaf(0x0A, LEAF_0A)
}

#[test]
fn gates_are_of_32_bits_alone() {
    let (emon, amd64) = (same(EMON, ARCHITECTURAL), same(AMD64, "amd-vendor"));
    let (gate, other) = (same(DEFAULT, "gate-32-bit"), same(DEFAULT, "other-vendor"));
    let intel = |family| Silicon::intel(family, 0xCF, LEAF_0A);
    let intel_32 = |family| Silicon::intel(family, 0x0E, LEAF_0A).flip(0x8000_0001, LONG_MODE);
    let others = || [5, 6, 15].map(|family| of_vendor(b"CentaurHauls", family));
    let k7 = Silicon::amd(6, 6).flip(0x8000_0001, LONG_MODE);
    // Old processors answer leaf 0x80000000 with the data of the highest basic leaf.
    let k8 = |highest| Silicon::amd(15, 5).leaf(0x8000_0000, [highest, 0, 0, 0]);
    let nonsense = [0, 0x0730_0403, 0x4000_0000, 0x7FFF_FFFF, 0x8000_0000, 0x8001_0000, u32::MAX];
    let vendors = [b"HygonGenuine", b"AuthenticAMd", b"AMDisbetter!", b"GenuineTMx86"];
    get("Intel's 64 bits are of any family", [6, 15, 18, 19].map(intel), emon);
    get("Intel's 32 bits are of two families", [6, 15].map(intel_32), emon);
    get("Intel's 32 bits", [4, 5, 7, 14, 16, 21].map(intel_32), gate);
    get("AMD's 64 bits", [6, 15, 16, 23, 26].map(|family| Silicon::amd(family, 6)), amd64);
    get("AMD has no 32 bits", [k7], gate);
    get("leaves that are not there say nothing", nonsense.map(k8), gate);
    get("leaves that are there", [k8(0x8000_FFFF)], amd64);
    get("the others' 64 bits", others(), other);
    get("the others' 32 bits", others().map(|one| one.flip(0x8000_0001, LONG_MODE)), gate);
    get("AMD is AuthenticAMD exactly", vendors.map(|vendor| of_vendor(vendor, 0x18)), other);
}

#[test]
fn emon_wants_ten_basic_leaves() {
    let leaves =
        |highest| Silicon::new(b"GenuineIntel", highest, signature(6, 0x5E)).leaf(0x0A, LEAF_0A);
    get("too few", [1, 2, 9].map(leaves), same(DEFAULT, "no-leaf-0a"));
    get("ten or more", [10, 11, 0x1F].map(leaves), same(EMON, ARCHITECTURAL));
}

#[test]
fn emon_wants_three_things_of_leaf_0a() {
    let table = [
        ([0x0730_0400, 0, 0, 0x603], DEFAULT, "version-zero"),
        ([0x0030_0403, 0, 0, 0x603], DEFAULT, "no-event-bits"),
        ([0x0730_0403, 1, 0, 0x603], DEFAULT, "no-core-cycles"),
        ([0x0730_0403, 0xFE, 0, 0x603], EMON, ARCHITECTURAL),
        ([0x0130_0401, 0, 0, 0], EMON, ARCHITECTURAL),
        ([0x0730_04FF, 0, 0, 0x603], EMON, ARCHITECTURAL),
        ([0xFF30_0403, 0, 0, 0x603], EMON, ARCHITECTURAL),
        // Neither the number of counters nor their width matters.
        ([0x0700_0003, 0, 0, 0], EMON, ARCHITECTURAL),
        // All three conditions fail: the first in order is reported.
        ([0x0000_0000, 1, 0, 0], DEFAULT, "version-zero"),
        ([0x0000_0001, 1, 0, 0], DEFAULT, "no-event-bits"),
    ];
    for (leaf_0a, interface, reason) in table {
        let silicon = Silicon::intel(6, 0x5E, leaf_0a);
        assert_eq!(judged(&silicon), same(interface, reason), "{leaf_0a:x?}");
    }
}

/// The decision table, one case per line: bit 31, 0x40000001 EAX, 0x40000003 EDX.
#[test]
fn decision_table() {
    let amd_proved = Silicon::amd(0x17, 1).flip(0x8000_0001, [0, 0, 1 << 23, 0]);
    let other = Silicon::new(b"HygonGenuine", 0x0A, signature(0x18, 1)).leaf(0x0A, LEAF_0A);
    let rows = [
        (None, [AMD64, EMON, DEFAULT]),
        (Some((0x4B4D_564B, 0)), [AMD64, EMON, DEFAULT]),
        (Some((0x4B4D_564B, 4)), [AMD64, EMON, DEFAULT]),
        (Some((HV1, 4)), [AMD64, EMON, DEFAULT]),
        (Some((HV1, u32::MAX)), [AMD64, EMON, DEFAULT]),
        (Some((HV1, 0)), [DEFAULT, DEFAULT, DEFAULT]),
        (Some((HV1, !4)), [DEFAULT, DEFAULT, DEFAULT]),
    ];
    for (hypervisor, expected) in rows {
        for (silicon, interface) in [&amd_proved, &modern_intel(), &other].into_iter().zip(expected)
        {
            let silicon = match hypervisor {
                Some((id, features)) => silicon.clone().under(id, features),
                None => silicon.clone(),
            };
            let [hal, hal_reason, used, used_reason] = judged(&silicon);
            assert_eq!((hal, used), (interface, interface), "{hypervisor:x?}");
            assert_eq!(hal_reason, used_reason);
        }
    }
}

#[test]
fn hypervisors_mask_only_as_hv1_and_with_bit_31() {
    let hidden = modern_intel().under(HV1, 0).flip(1, [0, 0, 1 << 31, 0]);
    assert_eq!(hidden.identity().hypervisor_vendor, [0; 12]);
    let shown = modern_intel().under(HV1, 4);
    assert_eq!(shown.identity().hypervisor_vendor, *b"abcdefghijkl");
    get("without bit 31 there is none", [hidden], same(EMON, ARCHITECTURAL));
    let masked = [modern_intel(), Silicon::amd(0x17, 1)].map(|one| one.under(HV1, 0));
    get("Hv#1 without monitors", masked, same(DEFAULT, "hypervisor-masks"));
    let without = Silicon::intel(6, 0x5E, [0; 4]).under(HV1, 0);
    get("its own reason comes first", [without], same(DEFAULT, "version-zero"));
    let amd = Silicon::amd(0x16, 0x26).under(NANOVISOR, 0);
    get("Xbox' nanovisor is none", [amd], same(AMD64, "amd-vendor"));
    get("nor on Intel", [modern_intel().under(NANOVISOR, 0)], same(EMON, ARCHITECTURAL));
    for (family, model, interface, reason) in [
        (5, 4, "Pentium", "gate-32-bit"),
        (6, 8, "P6", "no-leaf-0a"),
        (15, 2, "NetBurst", "no-leaf-0a"),
    ] {
        let old = || Silicon::old_intel(family, model);
        get("Hv#1 masks the old ones too", [old().under(HV1, 0)], same(DEFAULT, reason));
        for (hypervisor, features) in [(HV1, 4), (0x4B4D_564B, 0), (NANOVISOR, 0)] {
            let judged = judged(&old().under(hypervisor, features));
            assert_eq!((judged[0], judged[2]), (DEFAULT, interface));
        }
    }
}

#[test]
fn another_hypervisor_must_prove_amds_counters() {
    let unproved = [AMD64, "amd-vendor", DEFAULT, "hypervisor-unproved"];
    for hypervisor in [0, 0x4B4D_564B, HV1, HV1 ^ 1] {
        let amd = Silicon::amd(0x17, 0x31).under(hypervisor, 4);
        assert_eq!(judged(&amd), unproved);
        let core = amd.clone().flip(0x8000_0001, [0, 0, 1 << 23, 0]);
        assert_eq!(judged(&core), same(AMD64, "amd-vendor"));
        let northbridge = amd.clone().flip(0x8000_0001, [0, 0, 1 << 24, 0]);
        assert_eq!(judged(&northbridge), unproved);
        let v2 = |highest, eax| {
            amd.clone().leaf(0x8000_0000, [highest, 0, 0, 0]).leaf(0x8000_0022, [eax, 6, 0, 0])
        };
        assert_eq!(judged(&v2(0x8000_0022, 1)), same(AMD64, "amd-vendor"));
        assert_eq!(judged(&v2(0x8000_0022, 2)), unproved);
        assert_eq!(judged(&v2(0x8000_0021, 1)), unproved);
    }
    // On bare metal they exist.
    assert_eq!(judged(&Silicon::amd(0x0F, 5)), same(AMD64, "amd-vendor"));
    // Intel's leaf 0x0A is proof enough.
    assert_eq!(judged(&modern_intel().under(0, 0)), same(EMON, ARCHITECTURAL));
}

/// The models of each old interface, by the manuals' lists, and what keeps the HAL from them.
#[test]
fn old_interfaces_are_of_intels_listed_models() {
    let gate = "gate-32-bit";
    for (family, listed, reason, interface, rule) in [
        (5, &[1, 2, 3, 4, 5, 6, 7, 8][..], gate, "Pentium", "pentium-model"),
        (6, &[1, 3, 5, 6, 7, 8, 9, 0x0A, 0x0B, 0x0D, 0x15], "no-leaf-0a", "P6", "p6-model"),
        (15, &[0, 1, 2, 3, 4, 6], "no-leaf-0a", "NetBurst", "netburst-model"),
    ] {
        // Only families 6 and 15 have extended models.
        for model in 0..=if family == 5 { 15 } else { 0xFF } {
            let is_listed = listed.contains(&model);
            let own = [DEFAULT, reason, interface, rule];
            let expected = if is_listed { own } else { same(DEFAULT, reason) };
            get(interface, [Silicon::old_intel(family, model)], expected);
            let others = [b"AuthenticAMD", b"GenuineTMx86", b"RiseRiseRise"].map(|vendor| {
                Silicon::new(vendor, 2, signature(family, model)).leaf(0x8000_0000, [0; 4])
            });
            get("other vendors have none", others, same(DEFAULT, gate));
        }
    }
    let without_msrs = Silicon::old_intel(5, 4).flip(1, [0, 0, 0, 1 << 5]);
    get("a Pentium without MSRs", [without_msrs], same(DEFAULT, gate));
    let others = [4, 7, 14, 16, 17].map(|family| Silicon::old_intel(family, 3));
    get("other families", others, same(DEFAULT, gate));
    let with_long_mode = Silicon::new(b"GenuineIntel", 5, signature(15, 3));
    let netburst = [DEFAULT, "no-leaf-0a", "NetBurst", "netburst-model"];
    get("a Pentium 4 of 64 bits", [with_long_mode], netburst);
    let modern = (0..=0xFF).map(|model| Silicon::intel(6, model, LEAF_0A));
    get("leaf 0x0A is better", modern, same(EMON, ARCHITECTURAL));
}

/// A processor that declares architectural monitoring has its registers, usable or not.
#[test]
fn an_old_model_with_a_version_in_leaf_0a_is_not_old() {
    for (family, model, interface) in [(6, 8, "P6"), (15, 2, "NetBurst")] {
        let version = |eax| Silicon::intel(family, model, [eax, 1, 0, 0]);
        assert_eq!(judged(&version(0x0730_0401)), same(DEFAULT, "no-core-cycles"));
        assert_eq!(judged(&version(0x0000_0001)), same(DEFAULT, "no-event-bits"));
        let [hal, reason, used, _] = judged(&version(0x0730_0400));
        assert_eq!([hal, reason, used], [DEFAULT, "version-zero", interface]);
    }
}

#[test]
fn family_model_and_stepping_as_the_manuals_join_them() {
    let table = [
        // Smithfield, Skylake, Zen 5, P55C overdrive, an unused extended model of family 5.
        (0x0000_0F44, 15, 4, 4),
        (0x0005_06E3, 6, 0x5E, 3),
        (0x00B4_0F00, 26, 0x40, 0),
        (0x0000_1543, 5, 4, 3),
        (0x00FF_0582, 5, 8, 2),
        (0x0FFF_0FFF, 270, 0xFF, 15),
        (0x0010_06F1, 6, 0x0F, 1),
    ];
    for (eax, family, model, stepping) in table {
        let id = Silicon::new(b"GenuineIntel", 1, eax).identity();
        assert_eq!((id.family, id.model, id.stepping), (family, model, stepping), "{eax:#x}");
    }
}
