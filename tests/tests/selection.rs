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

fn modern_intel() -> Silicon {
    Silicon::intel(6, 0x5E, LEAF_0A)
}

#[test]
fn gate_64_bit_asks_for_no_family() {
    for family in [6, 15, 18, 19] {
        let intel = Silicon::intel(family, 0xCF, LEAF_0A);
        assert_eq!(judged(&intel), same(EMON, ARCHITECTURAL), "{family}");
    }
    for family in [15, 16, 23, 26] {
        let amd = Silicon::amd(family, 1);
        assert_eq!(judged(&amd), same(AMD64, "amd-vendor"), "{family}");
    }
}

#[test]
fn gate_32_bit_intel_is_family_6_or_15() {
    let without_long_mode =
        |family| Silicon::intel(family, 0x0E, LEAF_0A).flip(0x8000_0001, [0, 0, 0, 1 << 29]);
    for family in [6, 15] {
        assert_eq!(judged(&without_long_mode(family)), same(EMON, ARCHITECTURAL));
    }
    for family in [4, 5, 7, 14, 16, 21] {
        assert_eq!(judged(&without_long_mode(family)), same(DEFAULT, "gate-32-bit"), "{family}");
    }
}

#[test]
fn gate_32_bit_amd_is_long_mode() {
    let k7 = Silicon::amd(6, 6).flip(0x8000_0001, [0, 0, 0, 1 << 29]);
    assert_eq!(judged(&k7), same(DEFAULT, "gate-32-bit"));
    let without_the_leaf = Silicon::amd(15, 5).leaf(0x8000_0000, [0x8000_0000, 0, 0, 0]);
    assert_eq!(judged(&without_the_leaf), same(DEFAULT, "gate-32-bit"));
    let family_6_with_long_mode = Silicon::amd(6, 6);
    assert_eq!(judged(&family_6_with_long_mode), same(AMD64, "amd-vendor"));
}

#[test]
fn gate_32_bit_refuses_other_vendors() {
    for family in [5, 6, 15] {
        let other = Silicon::new(b"CentaurHauls", 0x0A, signature(family, 1)).leaf(0x0A, LEAF_0A);
        assert_eq!(judged(&other), same(DEFAULT, "other-vendor"), "{family}");
        let other = other.flip(0x8000_0001, [0, 0, 0, 1 << 29]);
        assert_eq!(judged(&other), same(DEFAULT, "gate-32-bit"), "{family}");
    }
}

#[test]
fn extended_leaves_that_are_not_there_say_nothing() {
    // Old processors answer leaf 0x80000000 with the data of the highest basic leaf.
    for highest in [0, 0x0730_0403, 0x4000_0000, 0x7FFF_FFFF, 0x8001_0000, u32::MAX] {
        let silicon = Silicon::amd(15, 5).leaf(0x8000_0000, [highest, 0, 0, 0]);
        assert_eq!(judged(&silicon), same(DEFAULT, "gate-32-bit"), "{highest:#x}");
    }
    let silicon = Silicon::amd(15, 5).leaf(0x8000_0000, [0x8000_FFFF, 0, 0, 0]);
    assert_eq!(judged(&silicon), same(AMD64, "amd-vendor"));
}

#[test]
fn amd64_is_authentic_amd_exactly() {
    for vendor in [b"HygonGenuine", b"AuthenticAMd", b"AMDisbetter!", b"GenuineTMx86"] {
        let silicon = Silicon::new(vendor, 0x0A, signature(0x18, 1)).leaf(0x0A, LEAF_0A);
        assert_eq!(judged(&silicon), same(DEFAULT, "other-vendor"));
    }
}

#[test]
fn emon_wants_ten_basic_leaves() {
    for max_leaf in [1, 2, 9] {
        let silicon =
            Silicon::new(b"GenuineIntel", max_leaf, signature(6, 0x5E)).leaf(0x0A, LEAF_0A);
        assert_eq!(judged(&silicon), same(DEFAULT, "no-leaf-0a"), "{max_leaf}");
    }
    for max_leaf in [10, 11, 0x1F] {
        let silicon =
            Silicon::new(b"GenuineIntel", max_leaf, signature(6, 0x5E)).leaf(0x0A, LEAF_0A);
        assert_eq!(judged(&silicon), same(EMON, ARCHITECTURAL), "{max_leaf}");
    }
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
fn hypervisor_leaves_count_only_with_bit_31() {
    let hidden = modern_intel().under(HV1, 0).flip(1, [0, 0, 1 << 31, 0]);
    assert_eq!(judged(&hidden), same(EMON, ARCHITECTURAL));
    assert_eq!(hidden.identity().hypervisor_vendor, [0; 12]);
    let shown = modern_intel().under(HV1, 4);
    assert_eq!(shown.identity().hypervisor_vendor, *b"abcdefghijkl");
}

#[test]
fn hv1_without_monitors_masks_what_would_have_been() {
    assert_eq!(judged(&modern_intel().under(HV1, 0)), same(DEFAULT, "hypervisor-masks"));
    assert_eq!(judged(&Silicon::amd(0x17, 1).under(HV1, 0)), same(DEFAULT, "hypervisor-masks"));
    // A processor that is Default anyway keeps its own reason.
    let without = Silicon::intel(6, 0x5E, [0; 4]).under(HV1, 0);
    assert_eq!(judged(&without), same(DEFAULT, "version-zero"));
}

#[test]
fn the_xbox_nanovisor_is_no_hypervisor() {
    let amd = Silicon::amd(0x16, 0x26).under(NANOVISOR, 0);
    assert_eq!(judged(&amd), same(AMD64, "amd-vendor"));
    assert_eq!(judged(&modern_intel().under(NANOVISOR, 0)), same(EMON, ARCHITECTURAL));
    assert_eq!(judged(&Silicon::old_intel(6, 8).under(NANOVISOR, 0))[2], "P6");
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

#[test]
fn pentium_is_family_5_models_1_to_8() {
    for model in 0..=15 {
        let silicon = Silicon::old_intel(5, model);
        let expected = if (1..=8).contains(&model) {
            [DEFAULT, "gate-32-bit", "Pentium", "pentium-model"]
        } else {
            same(DEFAULT, "gate-32-bit")
        };
        assert_eq!(judged(&silicon), expected, "{model}");
        let without_msrs = silicon.flip(1, [0, 0, 0, 1 << 5]);
        assert_eq!(judged(&without_msrs), same(DEFAULT, "gate-32-bit"), "{model}");
    }
}

#[test]
fn p6_is_family_6_of_listed_models() {
    let listed = [1, 3, 5, 6, 7, 8, 9, 0x0A, 0x0B, 0x0D, 0x15];
    for model in 0..=0xFF {
        let expected = if listed.contains(&model) {
            [DEFAULT, "no-leaf-0a", "P6", "p6-model"]
        } else {
            same(DEFAULT, "no-leaf-0a")
        };
        assert_eq!(judged(&Silicon::old_intel(6, model)), expected, "{model:#x}");
        // If leaf 0x0A is sufficient, it is used.
        let modern = Silicon::intel(6, model, LEAF_0A);
        assert_eq!(judged(&modern), same(EMON, ARCHITECTURAL), "{model:#x}");
    }
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
fn netburst_is_family_15_of_listed_models() {
    for model in 0..=0x1F {
        let expected = if [0, 1, 2, 3, 4, 6].contains(&model) {
            [DEFAULT, "no-leaf-0a", "NetBurst", "netburst-model"]
        } else {
            same(DEFAULT, "no-leaf-0a")
        };
        assert_eq!(judged(&Silicon::old_intel(15, model)), expected, "{model}");
        let with_long_mode = Silicon::new(b"GenuineIntel", 5, signature(15, model));
        assert_eq!(judged(&with_long_mode), expected, "{model}");
    }
    for family in [4, 7, 14, 16, 17] {
        assert_eq!(
            judged(&Silicon::old_intel(family, 3)),
            same(DEFAULT, "gate-32-bit"),
            "{family}"
        );
    }
}

#[test]
fn hv1_masks_the_old_interfaces_too() {
    for (family, model, interface, reason) in [
        (5, 4, "Pentium", "gate-32-bit"),
        (6, 8, "P6", "no-leaf-0a"),
        (15, 2, "NetBurst", "no-leaf-0a"),
    ] {
        let old = || Silicon::old_intel(family, model);
        assert_eq!(judged(&old().under(HV1, 0)), same(DEFAULT, reason));
        for (hypervisor, features) in [(HV1, 4), (0x4B4D_564B, 0), (NANOVISOR, 0)] {
            let judged = judged(&old().under(hypervisor, features));
            assert_eq!((judged[0], judged[2]), (DEFAULT, interface));
        }
    }
}

#[test]
fn old_interfaces_are_intels_alone() {
    for vendor in [b"AuthenticAMD", b"GenuineTMx86", b"RiseRiseRise"] {
        for (family, model) in [(5, 4), (6, 8), (15, 2)] {
            let silicon =
                Silicon::new(vendor, 2, signature(family, model)).leaf(0x8000_0000, [0; 4]);
            assert_eq!(judged(&silicon), same(DEFAULT, "gate-32-bit"));
        }
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
