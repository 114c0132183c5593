//! What do AMD's event codes mean on each family, which sources does halprof add there, and which
//! counters count them on family 15h?

use std::collections::HashMap;

use hal_profile::cpu::generation::AmdGeneration;
use hal_profile::source::amd64_events::{is_documented, is_northbridge, mask_selects_nothing};
use hal_profile::source::{ANY, Fit, Row, amd, amd64};
use halprof_tests::facts::{GENERATIONS, event_select, named, texts};

/// A row of the HAL's with this event that counts.
fn row_of(event: u16) -> Option<&'static Row> {
    let mut rows = amd64::ROWS.iter().filter(|row| row.fit != Fit::Timer);
    rows.find(|row| event_select(row) & 0xFF == u64::from(event))
}

/// The manual's name for an event of the HAL's; `None` where it is not documented.
fn meaning(generation: AmdGeneration, event: u16) -> Option<&'static str> {
    let name = texts(generation.source_table(), row_of(event)?).counts;
    (!name.is_empty()).then_some(name)
}

#[test]
fn the_small_amd_families_keep_eight_events_of_k8() {
    use AmdGeneration::{Family11h, Family12h, Family14h, Family16h, K8, Unknown};
    let kept = [0x40, 0x41, 0x76, 0x80, 0x81, 0xC0, 0xC2, 0xC3];
    for event in 0..0x1000 {
        for generation in [Family11h, Family12h, Family14h, Family16h] {
            let is_kept = kept.contains(&event);
            assert_eq!(is_documented(generation, event), is_kept, "{event:#x}");
            let expected = if is_kept { meaning(K8, event) } else { None };
            assert_eq!(meaning(generation, event), expected, "{event:#x}");
        }
        assert!(!is_documented(Unknown, event));
        assert_eq!(meaning(Unknown, event), None);
    }
}

/// The driver refuses what the client has no name for.
#[test]
fn an_event_is_documented_where_it_has_a_name() {
    for generation in GENERATIONS {
        for event in (0..0x100).filter(|&event| row_of(event).is_some()) {
            let is_named = meaning(generation, event).is_some();
            assert_eq!(is_documented(generation, event), is_named, "{generation:?} {event:#x}");
        }
    }
}

/// The PPR's names, with one example of each way in which a code can change.
#[test]
fn amd_codes_change_their_meaning() {
    use AmdGeneration::{Family10h, Family15h, K8, Zen1, Zen2, Zen3, Zen5, Zen6};
    for (generation, event, name) in [
        (K8, 0xC0, Some("RETIRED_INSTRUCTIONS")),
        (Zen5, 0xC0, Some("RETIRED_INSTRUCTIONS")),
        (Family10h, 0x24, Some("LOCKED_OPS")),
        (Zen1, 0x24, None),
        (Zen2, 0x24, Some("BAD_STATUS_2")),
        (Family15h, 0xD1, Some("DISPATCH_STALLS")),
        (Zen1, 0xD1, Some("RETIRED_CONDITIONAL_BRANCH_INSTRUCTIONS")),
        (Zen3, 0x80, None),
        (Family15h, 0x44, None),
        (Zen3, 0x44, Some("ANY_DATA_CACHE_FILLS_FROM_SYSTEM")),
        (Zen5, 0x7E, None),
        (Zen5, 0x18E, None),
        (Zen6, 0xC0, Some("ex_ret_instr (Linux perf)")),
        (Zen6, 0xCB, None),
    ] {
        assert_eq!(meaning(generation, event), name, "{generation:?} {event:#x}");
        assert_eq!(is_documented(generation, event), name.is_some(), "{generation:?} {event:#x}");
    }
}

/// halprof has its own row if the HAL's row is missing or counts something else.
#[test]
fn amd_own_rows_are_those_of_the_familys_lists() {
    use AmdGeneration::{Family15h, K8, Zen2, Zen4, Zen6};
    for (generation, name, select) in [
        (K8, "L2Misses", 0x0003_077E),
        (Family15h, "L1dMisses", 0x0003_0341),
        (Zen2, "L1dMisses", 0x0003_C860),
        (Zen2, "L2Misses", 0x0003_0964),
        (Zen4, "L1iMisses", 0x1_0003_188E),
        (Zen6, "L1iMisses", 0x2_0003_DF9C),
        (Zen6, "FpOperations", 0x3_3F08),
    ] {
        let row = named(generation.source_table(), amd::own_rows(generation), name);
        assert_eq!((event_select(row), row.fit), (select, Fit::Exact), "{generation:?}");
    }
    for generation in GENERATIONS {
        let table = generation.source_table();
        for row in amd::own_rows(generation) {
            let event =
                (event_select(row) & 0xFF) as u16 | (event_select(row) >> 24) as u16 & 0xF00;
            assert_eq!(row.counters, ANY, "{generation:?} {:x?}", row.id);
            if let Some(name) = meaning(generation, event) {
                assert_eq!(texts(table, row).counts, name, "{generation:?} {:x?}", row.id);
            }
        }
        let cycles = amd::own_rows(generation).first().expect("a row");
        assert_eq!((texts(table, cycles).name, event_select(cycles)), ("Cycles", 0x0003_0076));
    }
    assert!(amd::own_rows(AmdGeneration::Unknown).is_empty());
}

/// L3 misses are counted outside the core on every AMD processor that has an L3.
#[test]
fn an_l2_miss_is_not_called_a_last_level_miss() {
    for generation in GENERATIONS {
        for row in amd::own_rows(generation) {
            let of_l2 = matches!(event_select(row) & 0xFFFF, 0x077E | 0x0F7E | 0x177E | 0x0964);
            let name = texts(generation.source_table(), row).name;
            assert_eq!(name == "L2Misses", of_l2, "{generation:?} {:x?}", row.id);
        }
    }
}

#[test]
fn unit_masks_that_select_nothing() {
    use AmdGeneration::{Family10h, Family15h, K8, Zen1, Zen2, Zen3, Zen5};
    let table = [
        (0x25, 0, Zen1, true),
        (0x25, 1, Zen1, false),
        (0x25, 0, Family15h, false),
        (0x41, 0, Family15h, true),
        (0x41, 0, Family10h, false),
        (0x41, 0, Zen5, true),
        (0x41, 3, Zen5, false),
        (0x47, 0, Zen2, false),
        (0x47, 0, Zen3, true),
        (0x87, 0, Zen2, true),
        (0x87, 0, Zen3, false),
        (0xCB, 8, K8, false),
        (0xCB, 8, Family10h, true),
        (0xCB, 0xF, Zen5, false),
    ];
    for (event, unit_mask, generation, expected) in table {
        assert_eq!(
            mask_selects_nothing(generation, event, unit_mask),
            expected,
            "{event:#x}/{unit_mask:#x} {generation:?}"
        );
    }
}

#[test]
fn amd_generations_follow_family_and_model() {
    let table = [
        (0x06, 0x0A, AmdGeneration::Unknown),
        (0x0F, 0x05, AmdGeneration::K8),
        (0x10, 0x02, AmdGeneration::Family10h),
        (0x11, 0x03, AmdGeneration::Family11h),
        (0x12, 0x01, AmdGeneration::Family12h),
        (0x13, 0x00, AmdGeneration::Unknown),
        (0x14, 0x02, AmdGeneration::Family14h),
        (0x15, 0x60, AmdGeneration::Family15h),
        (0x16, 0x30, AmdGeneration::Family16h),
        (0x17, 0x2F, AmdGeneration::Zen1),
        (0x17, 0x30, AmdGeneration::Zen2),
        (0x17, 0x71, AmdGeneration::Zen2),
        (0x18, 0x00, AmdGeneration::Unknown),
        (0x19, 0x0F, AmdGeneration::Zen3),
        (0x19, 0x10, AmdGeneration::Zen4),
        (0x19, 0x1F, AmdGeneration::Zen4),
        (0x19, 0x20, AmdGeneration::Zen3),
        (0x19, 0x5F, AmdGeneration::Zen3),
        (0x17, 0x50, AmdGeneration::Zen1),
        (0x17, 0xA0, AmdGeneration::Zen2),
        (0x17, 0xB0, AmdGeneration::Unknown),
        (0x19, 0x60, AmdGeneration::Zen4),
        (0x19, 0xAF, AmdGeneration::Zen4),
        (0x19, 0xB0, AmdGeneration::Unknown),
        (0x1A, 0x02, AmdGeneration::Zen5),
        (0x1A, 0x44, AmdGeneration::Zen5),
        (0x1A, 0x60, AmdGeneration::Zen5),
        (0x1A, 0x50, AmdGeneration::Zen6),
        (0x1A, 0x80, AmdGeneration::Zen6),
        (0x1A, 0xAF, AmdGeneration::Zen6),
        (0x1A, 0xB0, AmdGeneration::Unknown),
        (0x1A, 0xC0, AmdGeneration::Zen6),
        (0x1A, 0xD0, AmdGeneration::Unknown),
        (0x1B, 0x00, AmdGeneration::Unknown),
    ];
    for (family, model, generation) in table {
        assert_eq!(AmdGeneration::from(family, model), generation, "{family:#x} {model:#x}");
    }
}

#[test]
fn family_15h_ties_events_to_counters() {
    let groups = [
        (0x00..=0x1F, 0b11_1000),
        (0x20..=0x5F, 0b11_1111),
        (0x60..=0x9F, 0b00_0111),
        (0xA0..=0xBF, 0),
        (0xC0..=0xCF, 0b11_1111),
        (0xD0..=0xDF, 0b00_0111),
        (0xE0..=0xFF, 0),
    ];
    let exceptions = HashMap::from([
        (0x000, 0b00_1000),
        (0x003, 0b00_1000),
        (0x004, 0b00_1000),
        (0x00B, 0b00_1000),
        (0x00D, 0b00_1000),
        (0x023, 0b00_0111),
        (0x02D, 0b00_1000),
        (0x02E, 0b00_1001),
        (0x031, 0b00_0111),
        (0x043, 0b00_0111),
        (0x045, 0b00_0111),
        (0x046, 0b00_0111),
        (0x054, 0b00_0111),
        (0x055, 0b00_0111),
        (0x08F, 0b00_0001),
        (0x187, 0b00_0001),
        (0x188, 0b00_0001),
        (0x1C0, 0b11_1000),
    ]);
    for event in 0..0x1000_u16 {
        let of_group = groups
            .iter()
            .find(|(codes, _)| codes.contains(&(event & 0xFF)))
            .map(|(_, counters)| *counters);
        let expected = exceptions.get(&event).copied().or(of_group);
        assert_eq!(Some(amd::family15h_counters(event)), expected, "{event:#x}");
        assert_eq!(is_northbridge(event), event & 0xFF >= 0xE0);
    }
}
