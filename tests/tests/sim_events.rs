//! Does the model count what the facts say, all of it and nothing else?

use hal_profile::cpu::generation::AmdGeneration;
use halprof_events::{Cpu, Microarchitecture};
use halprof_tests::facts::meaning;
use halprof_tests::machines::{count, machine};
use halprof_tests::source_data;
use shared_types::request::session::Spec;
use sim::cpu::event::{Code, Event};
use sim::load::workload::{Known, parse_with};
use sim::units::amd::events::{self as amd_events, Generation};
use sim::units::intel::events as architectural_events;
use std::collections::BTreeSet;

const GENERATIONS: [Generation; 14] = [
    Generation::K7,
    Generation::K8,
    Generation::Family10h,
    Generation::Family11h,
    Generation::Family12h,
    Generation::Family14h,
    Generation::Family15h,
    Generation::Family16h,
    Generation::Zen1,
    Generation::Zen2,
    Generation::Zen3,
    Generation::Zen4,
    Generation::Zen5,
    Generation::Zen6,
];

/// Generation, event, unit mask, kind, in a form that sorts and prints.
type Fact = (String, u16, u8, &'static str);

fn hex(text: &str) -> u16 {
    let digits = text.trim_start_matches("0x");
    u16::from_str_radix(digits, 16).expect("a hexadecimal number")
}

/// The event that a profile source means, if a workload has an amount for it.
fn kind(source: &str) -> Option<Event> {
    let (name, _) = source.split_once(" -> ").unwrap_or((source, ""));
    meaning(name.strip_prefix("Profile").unwrap_or(name))
}

fn generation(family: &str, core: &str) -> Generation {
    match (family, core) {
        ("0Fh", _) => Generation::K8,
        ("10h", _) => Generation::Family10h,
        ("11h", _) => Generation::Family11h,
        ("12h", _) => Generation::Family12h,
        ("14h", _) => Generation::Family14h,
        ("15h", _) => Generation::Family15h,
        ("16h", _) => Generation::Family16h,
        ("17h", "Zen 1/Zen+") => Generation::Zen1,
        ("17h", "Zen 2") => Generation::Zen2,
        ("19h", "Zen 3") => Generation::Zen3,
        ("19h", "Zen 4") => Generation::Zen4,
        ("1Ah", "Zen 5") => Generation::Zen5,
        ("1Ah", "Zen 6") => Generation::Zen6,
        other => panic!("a family that the model does not know: {other:?}"),
    }
}

fn fact(generation: Generation, event: u16, unit_mask: u8, counts: Event) -> Fact {
    (format!("{generation:?}"), event, unit_mask, counts.name())
}

/// The rows of K8 and later.
fn modern_facts() -> BTreeSet<Fact> {
    source_data!("events-modern")
        .iter()
        .filter(|row| row["vendor"] == "AMD" && row["fit"] != "note")
        .map(|row| {
            let counts = kind(&row["source"]).expect("every AMD source is a kind of event");
            let unit_mask = hex(&row["umask"]) as u8;
            let generation = generation(&row["family"], &row["core"]);
            fact(generation, hex(&row["event"]), unit_mask, counts)
        })
        .collect()
}

/// The rows of K7 that its mapping lists as clean matches.
fn k7_facts() -> BTreeSet<Fact> {
    source_data!("mapping")
        .iter()
        .filter(|row| row["family"] == "K7" && row["offer"] == "yes")
        .map(|row| {
            let counts = kind(&row["name"]).expect("every K7 source is a kind of event");
            let (event, unit_mask) = row["encoding"].split_once('/').expect("event/mask");
            fact(Generation::K7, hex(event), hex(unit_mask) as u8, counts)
        })
        .collect()
}

#[test]
fn amd_rows_are_the_facts_and_the_facts_are_rows() {
    let facts: BTreeSet<Fact> = modern_facts().union(&k7_facts()).cloned().collect();
    let rows: BTreeSet<Fact> = amd_events::ROWS
        .iter()
        .flat_map(|row| {
            let on = GENERATIONS.into_iter().filter(|&generation| row.is_on(generation));
            on.map(|generation| fact(generation, row.event, row.unit_mask, row.counts))
        })
        .collect();
    let missing: Vec<_> = facts.difference(&rows).collect();
    let invented: Vec<_> = rows.difference(&facts).collect();
    assert!(missing.is_empty(), "facts without a row: {missing:?}");
    assert!(invented.is_empty(), "rows without a fact: {invented:?}");
}

#[test]
fn no_amd_select_has_two_meanings() {
    for generation in GENERATIONS {
        for row in amd_events::ROWS.iter().filter(|row| row.is_on(generation)) {
            assert_eq!(amd_events::find(generation, row.event, row.unit_mask), Some(row));
        }
    }
}

#[test]
fn architectural_rows_are_the_facts_and_the_facts_are_rows() {
    let facts: BTreeSet<_> = source_data!("events-modern")
        .iter()
        .filter(|row| row["family"] == "architectural")
        .filter_map(|row| {
            let (_, bit) = row["core"].rsplit_once(' ').expect("ends with the bit");
            let bit: u32 = bit.parse().expect("a bit number");
            let counts = kind(&row["source"])?.name();
            Some((bit, hex(&row["event"]), hex(&row["umask"]), counts))
        })
        .collect();
    let rows: BTreeSet<_> = architectural_events::ROWS
        .iter()
        .map(|row| (row.bit, row.event.into(), row.unit_mask.into(), row.counts.name()))
        .collect();
    assert_eq!(rows, facts);
    assert_eq!(rows.len(), 7);
}

#[test]
fn generations_by_family_and_model() {
    for (family, model, expected) in [
        (0x05, 0x0D, None),
        (0x06, 0x01, Some(Generation::K7)),
        (0x0F, 0x04, Some(Generation::K8)),
        (0x13, 0x00, None),
        (0x15, 0x60, Some(Generation::Family15h)),
        (0x17, 0x01, Some(Generation::Zen1)),
        (0x17, 0x2F, Some(Generation::Zen1)),
        (0x17, 0x30, Some(Generation::Zen2)),
        (0x18, 0x00, Some(Generation::Zen1)),
        (0x19, 0x0F, Some(Generation::Zen3)),
        (0x19, 0x10, Some(Generation::Zen4)),
        (0x19, 0x20, Some(Generation::Zen3)),
        (0x19, 0x5F, Some(Generation::Zen3)),
        (0x19, 0x60, Some(Generation::Zen4)),
        (0x1A, 0x44, Some(Generation::Zen5)),
        (0x1A, 0x50, Some(Generation::Zen6)),
        (0x1A, 0xD0, None),
        (0x1B, 0x00, None),
    ] {
        assert_eq!(Generation::of(family, model), expected, "{family:#x} {model:#x}");
    }
}

/// The models' own view, the core's and that of the events agree on every model, but for Hygon's
/// family 18h: Windows' HAL takes the Default interface there, whatever its silicon is.
#[test]
fn core_events_and_models_know_the_same_generations() {
    for family in 0x0F..=0x1A {
        for model in 0..=0xFF {
            let silicon = Generation::of(family, model);
            let core = AmdGeneration::from(family, model);
            let told = format!("{family:#x} {model:#x}");
            if family == 0x18 {
                assert_eq!((silicon, core), (Some(Generation::Zen1), AmdGeneration::Unknown));
            } else {
                let silicon = silicon.map_or("Unknown".to_owned(), |one| format!("{one:?}"));
                assert_eq!(format!("{core:?}"), silicon, "{told}");
            }
            let cpu = Cpu {
                vendor: *b"AuthenticAMD",
                family: family as u16,
                model: model as u16,
                ..Cpu::default()
            };
            let named = format!("amd{}", format!("{core:?}").to_lowercase());
            let table = Some(named).filter(|table| table.starts_with("amdzen"));
            assert_eq!(
                Microarchitecture::of(&cpu).map(|one| one.table),
                table.as_deref(),
                "{told}"
            );
        }
    }
}

#[test]
fn family_15h_constraints() {
    let limited: BTreeSet<u16> = amd_events::ROWS
        .iter()
        .filter(|row| row.is_on(Generation::Family15h))
        .map(|row| row.event)
        .filter(|&event| amd_events::counters(Generation::Family15h, event) == 0b111)
        .collect();
    assert_eq!(limited, BTreeSet::from([0x76, 0x7E, 0x80, 0x81]));
}

/// L1D_PEND_MISS.PENDING of Haswell is counted by counter 2 alone, and load latency needs MSR 3F6h
/// (Intel's list of events for Haswell, reference of the rows).
#[test]
fn an_event_counts_what_it_says_on_its_counters_only() {
    let events = [("pending", 0x0148), ("latency", 0x01CD), ("stores", 0x82D0)];
    let known = |name: &str| {
        let (_, select) = events.into_iter().find(|(of, _)| *of == name)?;
        let event = Event::Named(0);
        let code =
            Code { event, select: Some(select), fixed: None, architectural: None, core: None };
        Some(Known::Codes(vec![code]))
    };
    let work = "cycles=700000,pending=1000,latency=2000,stores=3000";
    let work = parse_with(work, &known).expect("a workload");
    let mut machine = machine("haswell", 1);
    let raw = |select, counters| Spec { counters, ..Spec::of_raw(select) };
    for (select, counters, counted) in [
        (0x0148, 0b0100, 1_000),
        (0x0148, 0b0001, 100_000),
        (0x0148, 0b1000, 100_000),
        (0x01CD, 0b1000, 0),
        (0x82D0, 0b0010, 3_000),
    ] {
        let counts = count(&mut machine, vec![raw(select, counters)], &work);
        assert_eq!(counts[0][0].counted, counted, "{select:#x} on {counters:#b}");
    }
}
