//! What do AMD's event codes mean on each family, which sources does halprof add there, and on which
//! counters does family 15h count them?

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hal_profile::source::amd64_events::{
    AmdGeneration, is_northbridge, mask_selects_nothing, meaning, verdict,
};
use hal_profile::source::{ANY, Fit, amd, amd64};
use halprof_tests::data;
use halprof_tests::facts::{GENERATIONS, Record, event_select, number};

#[test]
fn amd_events_mean_what_each_familys_list_says() {
    let columns = [
        ("K8", AmdGeneration::K8),
        ("10h", AmdGeneration::Family10h),
        ("15h", AmdGeneration::Family15h),
        ("Zen1", AmdGeneration::Zen1),
        ("Zen2", AmdGeneration::Zen2),
        ("Zen3", AmdGeneration::Zen3),
        ("Zen4", AmdGeneration::Zen4),
        ("Zen5", AmdGeneration::Zen5),
    ];
    let facts = data!("amd64-hal-on-zen");
    assert_eq!(facts.len(), amd64::ROWS.len());
    let mut documented = BTreeSet::new();
    for (row, fact) in amd64::ROWS.iter().zip(&facts) {
        let event = number(&fact["event"]) as u16;
        documented.insert(event);
        for (column, generation) in columns {
            let expected = Some(fact[column].as_str()).filter(|&name| name != "-");
            assert_eq!(
                meaning(generation, event),
                expected,
                "{event:#x} on {column}"
            );
        }
        assert_eq!(verdict(event), Some(fact["verdict_on_zen"].as_str()));
        let first = [&fact["K8"], &fact["10h"]]
            .into_iter()
            .find(|&name| name != "-");
        let expected = if row.fit == Fit::Timer {
            ""
        } else {
            first.map_or("", String::as_str)
        };
        assert_eq!(row.counts, expected, "{}", row.name);
        let nothing = fact["verdict_on_zen"].contains("with 0x00 expect no counts");
        let unit_mask = number(&fact["umask"]) as u8;
        assert_eq!(
            mask_selects_nothing(AmdGeneration::Zen1, event, unit_mask),
            nothing && event != 0x47 || (event, unit_mask) == (0xCB, 8)
        );
    }
    for event in (0..0x1000).filter(|event| !documented.contains(event)) {
        assert_eq!(verdict(event), None, "{event:#x}");
        assert!(
            GENERATIONS
                .into_iter()
                .all(|generation| meaning(generation, event).is_none()),
            "{event:#x}"
        );
    }
}

#[test]
fn the_small_amd_families_keep_eight_events_of_k8() {
    use AmdGeneration::{Family11h, Family12h, Family14h, Family16h, K8, Unknown};
    let kept = [0x40, 0x41, 0x76, 0x80, 0x81, 0xC0, 0xC2, 0xC3];
    for event in 0..0x1000 {
        for generation in [Family11h, Family12h, Family14h, Family16h] {
            let expected = if kept.contains(&event) {
                meaning(K8, event)
            } else {
                None
            };
            assert_eq!(meaning(generation, event), expected, "{event:#x}");
        }
        assert_eq!(meaning(Unknown, event), None);
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
        (0x19, 0x60, AmdGeneration::Zen4),
        (0x1A, 0x02, AmdGeneration::Zen5),
        (0x1B, 0x00, AmdGeneration::Unknown),
    ];
    for (family, model, generation) in table {
        assert_eq!(
            AmdGeneration::from(family, model),
            generation,
            "{family:#x} {model:#x}"
        );
    }
}

/// The generation that a row of events-modern.csv is about.
fn generation_of(fact: &Record) -> AmdGeneration {
    match (fact["family"].as_str(), fact["core"].as_str()) {
        ("0Fh", _) => AmdGeneration::K8,
        ("10h", _) => AmdGeneration::Family10h,
        ("11h", _) => AmdGeneration::Family11h,
        ("12h", _) => AmdGeneration::Family12h,
        ("14h", _) => AmdGeneration::Family14h,
        ("15h", _) => AmdGeneration::Family15h,
        ("16h", _) => AmdGeneration::Family16h,
        ("17h", "Zen 1/Zen+") => AmdGeneration::Zen1,
        ("17h", "Zen 2") => AmdGeneration::Zen2,
        ("19h", "Zen 3") => AmdGeneration::Zen3,
        ("19h", "Zen 4") => AmdGeneration::Zen4,
        ("1Ah", "Zen 5") => AmdGeneration::Zen5,
        other => panic!("{other:?} is no generation"),
    }
}

#[test]
fn amd_has_own_rows_exactly_where_the_hals_row_is_absent_or_another() {
    let own_names = HashMap::from([
        ("ProfileTotalCycles", (0x8000_0300, "Cycles")),
        ("ProfileCacheMisses", (0x8000_0301, "CacheMisses")),
        ("ProfileDcacheAccesses", (0x8000_0302, "L1dAccesses")),
        ("ProfileDcacheMisses", (0x8000_0303, "L1dMisses")),
        ("ProfileIcacheIssues", (0x8000_0304, "L1iFetches")),
        ("ProfileIcacheMisses", (0x8000_0305, "L1iMisses")),
        ("ProfileFpInstructions", (0x8000_0306, "FpOperations")),
    ]);
    let mut expected: HashMap<AmdGeneration, BTreeMap<u32, (&str, u64, Fit)>> = HashMap::new();
    let facts = data!("events-modern");
    for fact in facts
        .iter()
        .filter(|fact| fact["vendor"] == "AMD" && fact["fit"] != "note")
    {
        let select = number(&fact["select_with_os_usr"]);
        let rows = expected.entry(generation_of(fact)).or_default();
        let hal = amd64::ROWS.iter().find(|row| row.symbol == fact["source"]);
        if hal.is_none_or(|row| event_select(row) != select) {
            let (id, name) = own_names[fact["source"].as_str()];
            let fit = if fact["fit"] == "exact" {
                Fit::Exact
            } else {
                Fit::Approximate
            };
            rows.insert(id, (name, select, fit));
        }
    }
    assert_eq!(expected.len(), GENERATIONS.len());
    for generation in GENERATIONS {
        let own: BTreeMap<_, _> = amd::own_rows(generation)
            .iter()
            .map(|row| (row.id.0, (row.name, event_select(row), row.fit)))
            .collect();
        assert_eq!(own, expected[&generation], "{generation:?}");
        for row in amd::own_rows(generation) {
            let event =
                (event_select(row) & 0xFF) as u16 | (event_select(row) >> 24) as u16 & 0xF00;
            let counters = match (generation, event) {
                (AmdGeneration::Family15h, 0x76 | 0x7E) => 0b00_0111,
                (AmdGeneration::Family15h, _) => 0b11_1111,
                _ => ANY,
            };
            assert_eq!(
                (row.symbol, row.counters),
                (row.name, counters),
                "{generation:?}"
            );
            if let Some(name) = meaning(generation, event) {
                assert_eq!(row.counts, name, "{generation:?} {}", row.name);
            }
        }
    }
    assert!(amd::own_rows(AmdGeneration::Unknown).is_empty());
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
