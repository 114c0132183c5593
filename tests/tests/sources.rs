//! Are the profile sources what the facts say? Every row of every CSV against the tables, and every
//! row of the tables against the CSVs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hal_profile::source::amd64_events::{
    AmdGeneration, is_northbridge, mask_selects_nothing, meaning, verdict,
};
use hal_profile::source::{
    ANY, CounterSet, Fit, IntervalLimits, NO_COUNTER, Row, Select, Upstream, amd, amd64, default,
    emon, intel, limits, netburst, p6, pentium,
};
use shared_types::ProfileSource;

type Record = HashMap<String, String>;

fn records(text: &str) -> Vec<Record> {
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("a well-formed CSV")
}

macro_rules! data {
    ($name:literal) => {
        records(include_str!(concat!("../data/", $name, ".csv")))
    };
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).expect("hexadecimal"),
        None => text.parse().expect("decimal"),
    }
}

fn id(text: &str) -> ProfileSource {
    ProfileSource(u32::try_from(number(text)).expect("a source number"))
}

/// `0|1` and `12-17` as a mask.
fn counter_set(text: &str) -> CounterSet {
    let one = |part: &str| part.parse::<u32>().expect("a counter");
    text.split('|').fold(0, |set, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        (one(first)..=one(last)).fold(set, |set, counter| set | 1 << counter)
    })
}

/// As [`counter_set`], where both of the family's two counters are no constraint.
fn counters_of_two(text: &str) -> CounterSet {
    match counter_set(text) {
        0b11 => ANY,
        set => set,
    }
}

fn event_select(row: &Row) -> u64 {
    let Select::EventSelect(select) = row.select else {
        panic!("{} is not a PerfEvtSel", row.name)
    };
    select
}

fn without_profile(symbol: &str) -> &str {
    symbol.strip_prefix("Profile").expect("a symbol")
}

const GENERATIONS: [AmdGeneration; 12] = [
    AmdGeneration::K8,
    AmdGeneration::Family10h,
    AmdGeneration::Family11h,
    AmdGeneration::Family12h,
    AmdGeneration::Family14h,
    AmdGeneration::Family15h,
    AmdGeneration::Family16h,
    AmdGeneration::Zen1,
    AmdGeneration::Zen2,
    AmdGeneration::Zen3,
    AmdGeneration::Zen4,
    AmdGeneration::Zen5,
];

#[test]
fn default_has_the_timer_alone() {
    let facts = data!("default-sources");
    assert_eq!(default::ROWS.len(), facts.len());
    for (row, fact) in default::ROWS.iter().zip(&facts) {
        assert_eq!(row.id, id(&fact["value"]));
        assert_eq!(row.symbol, fact["symbol"]);
        assert_eq!(row.name, fact["name_listed_by_windows"]);
        assert_eq!(
            (row.select, row.fit, row.counters),
            (Select::None, Fit::Timer, NO_COUNTER)
        );
        let expected = IntervalLimits {
            default: fact["default_interval_100ns"].parse().expect("a number"),
            min: fact["min"].parse().expect("a number"),
            max: fact["max"].parse().expect("a number"),
        };
        assert_eq!(limits(row.id), expected);
    }
}

#[test]
fn emon_is_the_hals_table() {
    let facts = data!("emon-sources");
    assert_eq!(emon::ROWS.len(), facts.len());
    for (row, fact) in emon::ROWS.iter().zip(&facts) {
        assert_eq!(row.id, id(&fact["value"]));
        assert_eq!(row.symbol, fact["symbol"]);
        assert_eq!(row.name, fact["name_listed_by_windows"]);
        assert_eq!(event_select(row), number(&fact["select"]), "{}", row.name);
        let bit = emon::ebx_bit(row.id)
            .map(|bit| bit.to_string())
            .unwrap_or_default();
        assert_eq!(bit, fact["cpuid_0a_ebx_bit"], "{}", row.name);
        let timer = row.id == ProfileSource::TIME;
        assert_eq!(row.fit, if timer { Fit::Timer } else { Fit::Exact });
        assert_eq!(row.counters, if timer { NO_COUNTER } else { ANY });
        if let Some(twin) = fact["same_as_specific_source"].strip_prefix("Profile") {
            assert_eq!(row.note, format!("same as {twin}"));
        }
    }
}

/// The SDM's names, by bit of CPUID.0AH:EBX.
const ARCHITECTURAL_NAMES: [&str; 13] = [
    "UnHalted Core Cycles",
    "Instruction Retired",
    "UnHalted Reference Cycles",
    "LLC Reference",
    "LLC Misses",
    "Branch Instruction Retired",
    "Branch Misses Retired",
    "Topdown Slots",
    "Topdown Backend Bound",
    "Topdown Bad Speculation",
    "Topdown Frontend Bound",
    "Topdown Retiring",
    "LBR Inserts",
];

#[test]
fn every_architectural_event_has_its_sources() {
    let mut events = 0;
    for fact in data!("events-modern")
        .iter()
        .filter(|fact| fact["vendor"] == "Intel")
    {
        let bit: u8 = fact["core"]
            .rsplit(' ')
            .next()
            .and_then(|bit| bit.parse().ok())
            .expect("an EBX bit");
        let select = number(&fact["select_with_os_usr"]);
        let of_emon = emon::ROWS
            .iter()
            .filter(|row| emon::ebx_bit(row.id) == Some(bit));
        let own = intel::ARCHITECTURAL
            .iter()
            .filter(|row| intel::ebx_bit(row.id) == Some(bit));
        let rows: Vec<&Row> = of_emon.chain(own).collect();
        assert!(!rows.is_empty(), "no source for EBX bit {bit}");
        for row in rows {
            assert_eq!(event_select(row), select, "{}", row.name);
            assert_eq!(row.counts, ARCHITECTURAL_NAMES[usize::from(bit)]);
            if bit >= 7 {
                assert_eq!(row.id, ProfileSource(0x8000_0200 + u32::from(bit)));
                assert_eq!(row.name, fact["source"].split(' ').next().expect("a name"));
            }
        }
        events += 1;
    }
    assert_eq!(events, ARCHITECTURAL_NAMES.len());
    assert_eq!(emon::ebx_bit(ProfileSource(0x20)), None);
    assert_eq!(intel::ebx_bit(ProfileSource(0x8000_0206)), None);
    assert_eq!(intel::ebx_bit(ProfileSource(0x8000_020D)), None);
}

#[test]
fn fixed_counters_are_numbered_by_index() {
    let names = [
        "FixedInstructions",
        "FixedCycles",
        "FixedReferenceCycles",
        "FixedTopdownSlots",
        "FixedTopdownBadSpeculation",
        "FixedTopdownFrontendBound",
        "FixedTopdownRetiring",
    ];
    assert_eq!(intel::FIXED.each_ref().map(|row| row.name), names);
    for (row, index) in intel::FIXED.iter().zip(0..) {
        assert_eq!(row.select, Select::Fixed(index));
        assert_eq!(row.id, ProfileSource(0x8000_0100 + u32::from(index)));
        assert_eq!(row.counters, NO_COUNTER);
    }
}

#[test]
fn amd64_is_the_hals_table() {
    let facts = data!("amd64-sources");
    assert_eq!(amd64::ROWS.len(), facts.len());
    for (row, fact) in amd64::ROWS.iter().zip(&facts) {
        assert_eq!(row.id, id(&fact["value"]));
        assert_eq!(row.symbol, fact["symbol"]);
        assert_eq!(row.name, fact["name_listed_by_windows10"]);
        assert_eq!(event_select(row), number(&fact["select"]), "{}", row.name);
        assert_eq!(
            row.name != without_profile(row.symbol) && row.name != "Timer",
            fact["spelling_differs"] == "yes"
        );
        let expected = match number(&fact["event"]) {
            0x76 => Fit::Timer,
            0xE0..=0xFF => Fit::Northbridge,
            _ => Fit::Exact,
        };
        assert_eq!(row.fit, expected, "{}", row.name);
        assert_eq!(
            row.counters,
            if expected == Fit::Exact {
                ANY
            } else {
                NO_COUNTER
            }
        );
    }
}

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

/// What mapping.csv says of a source, and that the row says the same; the select is the caller's.
fn assert_mapped(row: &Row, fact: &Record) {
    assert_eq!(row.id, id(&fact["source"]));
    assert_eq!(row.symbol, fact["name"]);
    assert_eq!(row.counts, fact["event"], "{}", row.symbol);
    assert_eq!(
        row.note,
        fact["reason"].replace("seed 000 ", "HAL design note, section ")
    );
    let (fit, name) = match fact["offer"].as_str() {
        "yes" => (Fit::Exact, without_profile(row.symbol)),
        "optional" => (Fit::Approximate, without_profile(row.symbol)),
        "no" => (Fit::Unsupported, without_profile(row.symbol)),
        "timer" => (Fit::Timer, "Timer"),
        other => panic!("offer {other}"),
    };
    assert_eq!((row.fit, row.name), (fit, name));
    if matches!(fit, Fit::Timer | Fit::Unsupported) {
        assert_eq!((row.select, row.counters), (Select::None, NO_COUNTER));
    }
}

fn mapped(family: &str) -> Vec<Record> {
    data!("mapping")
        .into_iter()
        .filter(|fact| fact["family"] == family)
        .collect()
}

#[test]
fn pentium_is_the_mapping() {
    for (mmx, family) in [(false, "P5"), (true, "P5MMX")] {
        let facts = mapped(family);
        assert_eq!(pentium::rows(mmx).len(), facts.len());
        for (row, fact) in pentium::rows(mmx).iter().zip(&facts) {
            assert_mapped(row, fact);
            if let Some(encoding) = fact["encoding"].strip_prefix("ES=") {
                let (code, clocks) = match encoding.strip_suffix(" CC[2]=1") {
                    Some(code) => (code, true),
                    None => (encoding, false),
                };
                assert_eq!(
                    row.select,
                    Select::Cesr {
                        event: number(code) as u8,
                        clocks
                    }
                );
                assert_eq!(
                    row.counters,
                    counters_of_two(&fact["counters"]),
                    "{}",
                    row.name
                );
            }
        }
    }
}

#[test]
fn pentium_has_every_documented_event() {
    for mmx in [false, true] {
        let mut facts = data!("p5-events");
        facts.retain(|fact| {
            mmx || fact["processors"]
                .split(';')
                .any(|processor| processor == "P5")
        });
        assert_eq!(pentium::own_rows(mmx).len(), facts.len());
        for (row, fact) in pentium::own_rows(mmx).iter().zip(&facts) {
            let code = number(&fact["code_hex"]);
            let meaning = if fact["counter"] == "1" { 0x100 } else { 0 };
            assert_eq!(u64::from(row.id.0), 0x8000_0500 + meaning + code);
            assert_eq!(
                [row.name, row.symbol, row.counts, row.note],
                [&fact["name"], &fact["name"], &fact["name"], &fact["note"]]
            );
            let clocks = matches!(fact["type"].as_str(), "duration" | "duration?");
            assert_eq!(
                row.select,
                Select::Cesr {
                    event: code as u8,
                    clocks
                }
            );
            assert_eq!(
                row.counters,
                counters_of_two(&fact["counter"]),
                "{}",
                row.name
            );
            assert_eq!(row.fit, Fit::Exact);
        }
    }
}

#[test]
fn p6_is_the_mapping() {
    let facts = mapped("P6");
    assert_eq!(p6::ROWS.len(), facts.len());
    for (row, fact) in p6::ROWS.iter().zip(&facts) {
        assert_mapped(row, fact);
        if !fact["select_with_usr_os"].is_empty() {
            assert_eq!(event_select(row), number(&fact["select_with_usr_os"]));
            assert_eq!(
                row.counters,
                counters_of_two(&fact["counters"]),
                "{}",
                row.name
            );
        }
    }
}

#[test]
fn p6_has_every_documented_event_of_a_processor() {
    let processors = [
        ("PPro", p6::PPRO),
        ("PII", p6::PII),
        ("Celeron", p6::CELERON),
        ("PIII", p6::PIII),
        ("PM", p6::PM),
    ];
    for (column, processor) in processors {
        let mut facts = data!("p6-events");
        facts.retain(|fact| fact["processors"].split(';').any(|name| name == column));
        let rows: Vec<&Row> = p6::own_rows(processor).collect();
        assert_eq!(rows.len(), facts.len(), "{column}");
        for (row, fact) in rows.into_iter().zip(&facts) {
            let code = number(&fact["code_hex"]);
            assert_eq!(u64::from(row.id.0), 0x8000_0700 + code);
            assert_eq!(
                [row.name, row.symbol, row.counts, row.note],
                [&fact["name"], &fact["name"], &fact["name"], &fact["note"]]
            );
            assert_eq!(
                event_select(row),
                0x30000 | number(&fact["default_umask"]) << 8 | code
            );
            assert_eq!(
                row.counters,
                counters_of_two(&fact["counter"]),
                "{}",
                row.name
            );
            assert_eq!(row.fit, Fit::Exact);
        }
    }
    assert_eq!(p6::own_rows(0).count(), 0);
}

#[test]
fn p6_models_are_the_manuals_processors() {
    let table = [
        (0x01, p6::PPRO),
        (0x03, p6::PII | p6::CELERON),
        (0x05, p6::PII | p6::CELERON),
        (0x06, p6::PII | p6::CELERON),
        (0x07, p6::PIII),
        (0x08, p6::PIII),
        (0x09, p6::PM),
        (0x0A, p6::PIII),
        (0x0B, p6::PIII),
        (0x0D, p6::PM),
        (0x15, p6::PM),
    ];
    for model in 0..0x100 {
        let expected = table
            .iter()
            .find(|(known, _)| *known == model)
            .map_or(0, |(_, processors)| *processors);
        assert_eq!(p6::processors(model), expected, "{model:#x}");
    }
}

/// The two ESCRs called `SAAT_ESCR0/1`, or those of two columns: MSR, select and counters.
fn escr(escrs: &[Record], name: &str) -> (u16, u32, CounterSet) {
    let Some(fact) = escrs
        .iter()
        .find(|fact| fact["name"] == format!("MSR_{name}"))
    else {
        return (0, 0, 0);
    };
    let unreliable = 1 << 1;
    (
        number(&fact["msr"]) as u16,
        number(&fact["cccr_escr_select"]) as u32,
        counter_set(&fact["counters"]) & !unreliable,
    )
}

const ACTIVE_THREAD: u64 = 3 << 16;

#[test]
fn netburst_is_the_mapping() {
    let escrs = data!("p4-escr");
    let facts = mapped("P4");
    assert_eq!(netburst::ROWS.len(), facts.len());
    for (row, fact) in netburst::ROWS.iter().zip(&facts) {
        assert_mapped(row, fact);
        let parts: Vec<&str> = fact["encoding"].split("; ").collect();
        let [first, second, pair, _counters, upstream @ ..] = parts.as_slice() else {
            continue;
        };
        let Select::NetBurst(select) = row.select else {
            panic!("{} is not NetBurst's", row.name)
        };
        let register = |text: &str, name: &str| {
            number(
                text.strip_prefix(name)
                    .and_then(|text| text.split('+').next())
                    .expect("a register"),
            )
        };
        assert_eq!(
            u64::from(select.escr),
            register(first, "ESCR="),
            "{}",
            row.name
        );
        assert_eq!(
            u64::from(select.cccr),
            register(second, "CCCR=") & !ACTIVE_THREAD,
            "{}",
            row.name
        );
        let (even, odd) = pair.split_once('/').expect("a pair of ESCRs");
        let odd = format!("{}{odd}", &even[..even.len() - 1]);
        let (even, odd) = (escr(&escrs, even), escr(&escrs, &odd));
        assert_eq!(select.escr_msr, [even.0, odd.0], "{}", row.name);
        assert_eq!(select.counters, [even.2, odd.2], "{}", row.name);
        assert_eq!([even.1, odd.1], [select.cccr >> 13 & 7; 2], "{}", row.name);
        assert_eq!(row.counters, counter_set(&fact["counters"]), "{}", row.name);
        let expected = match upstream {
            [] if !fact["encoding"].contains("upstream") => Upstream::None,
            ["PEBS_ENABLE(3F1)=0x01000001", "MATRIX_VERT(3F2)=0x1"] => Upstream::Replay {
                pebs_enable: 0x01000001,
                matrix_vert: 1,
            },
            [text] => Upstream::UopType {
                escr: number(text.strip_prefix("upstream RAT_ESCR ").expect("an ESCR")) as u32,
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(select.upstream, expected, "{}", row.name);
    }
}

/// Events that are not offered: unresolved, tagging, or counting what was tagged.
const NOT_OFFERED: [&str; 8] = [
    "b2b_cycles",
    "bnr",
    "snoop",
    "response",
    "uop_type",
    "front_end_event",
    "execution_event",
    "replay_event",
];

#[test]
fn netburst_has_every_event_that_counts_alone() {
    let escrs = data!("p4-escr");
    for model in [0, 1, 2, 3, 4, 6] {
        let facts = data!("p4-events");
        let offered = facts.iter().zip(0..).filter(|(fact, _)| {
            !NOT_OFFERED.contains(&fact["event"].as_str())
                && fact["models"]
                    .split(',')
                    .any(|known| known == model.to_string())
        });
        let mut rows = netburst::own_rows(model).iter();
        for (fact, place) in offered {
            let row = rows.next().expect("a row for each event");
            assert_eq!(row.id, ProfileSource(0x8000_0900 + place));
            assert_eq!(
                [row.name, row.symbol, row.counts, row.note],
                [
                    &fact["event"],
                    &fact["event"],
                    &fact["event"],
                    &fact["note"]
                ]
            );
            let Select::NetBurst(select) = row.select else {
                panic!("{} is not NetBurst's", row.name)
            };
            let exclusive = if row.name == "FSB_data_activity" {
                ["DRDY_OTHER", "DBSY_OTHER"].as_slice()
            } else {
                &[]
            };
            let mask = fact["mask_bits"].split(';').filter_map(|bit| {
                let (bit, name) = bit.split_once(':').expect("a mask bit");
                (!exclusive.contains(&name)).then(|| 1 << number(bit))
            });
            let expected =
                (number(&fact["escr_event_select"]) as u32) << 25 | mask.sum::<u32>() << 9;
            assert_eq!(select.escr, expected, "{}", row.name);
            let edge = fact["note"].contains("set CCCR edge")
                || fact["note"].contains("set CCCR compare+edge");
            let filter = if edge { 1 << 24 | 1 << 18 } else { 0 };
            assert_eq!(
                select.cccr,
                (number(&fact["cccr_escr_select"]) as u32) << 13 | filter,
                "{}",
                row.name
            );
            let (even, odd) = (escr(&escrs, &fact["escr_a"]), escr(&escrs, &fact["escr_b"]));
            assert_eq!(select.escr_msr, [even.0, odd.0], "{}", row.name);
            assert_eq!(select.counters, [even.2, odd.2], "{}", row.name);
            assert_eq!(row.counters, even.2 | odd.2, "{}", row.name);
            assert_eq!((row.fit, select.upstream), (Fit::Exact, Upstream::None));
        }
        assert_eq!(rows.next(), None);
    }
}

/// Every set of sources that one processor can have.
fn interfaces() -> Vec<(String, Vec<&'static Row>)> {
    let mut all = vec![
        ("Default".to_owned(), default::ROWS.iter().collect()),
        (
            "Emon".to_owned(),
            emon::ROWS
                .iter()
                .chain(&intel::FIXED)
                .chain(&intel::ARCHITECTURAL)
                .collect(),
        ),
    ];
    for generation in GENERATIONS {
        all.push((
            format!("Amd64 {generation:?}"),
            amd64::ROWS
                .iter()
                .chain(amd::own_rows(generation))
                .collect(),
        ));
    }
    for mmx in [false, true] {
        all.push((
            format!("Pentium, MMX {mmx}"),
            pentium::rows(mmx)
                .iter()
                .chain(pentium::own_rows(mmx))
                .collect(),
        ));
    }
    for model in [1, 3, 5, 6, 7, 8, 9, 0xA, 0xB, 0xD, 0x15] {
        all.push((
            format!("P6 {model}"),
            p6::ROWS
                .iter()
                .chain(p6::own_rows(p6::processors(model)))
                .collect(),
        ));
    }
    for model in [0, 1, 2, 3, 4, 6] {
        all.push((
            format!("NetBurst {model}"),
            netburst::ROWS
                .iter()
                .chain(netburst::own_rows(model))
                .collect(),
        ));
    }
    all
}

#[test]
fn numbers_and_names_are_unique_within_an_interface() {
    for (interface, rows) in interfaces() {
        let ids: BTreeSet<_> = rows.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), rows.len(), "{interface}");
        let names: BTreeSet<_> = rows.iter().map(|row| row.name.to_lowercase()).collect();
        assert_eq!(names.len(), rows.len(), "{interface}");
        assert!(!ids.contains(&ProfileSource::RAW), "{interface}");
    }
}

#[test]
fn selects_hold_what_the_interface_does_not_add_later() {
    const ENABLE_INT_PC_AND_RESERVED: u64 = 1 << 22 | 1 << 20 | 1 << 19 | 1 << 21;
    const USR_OS: u64 = 3 << 16;
    for (interface, row) in interfaces()
        .iter()
        .flat_map(|(interface, rows)| rows.iter().map(move |row| (interface, row)))
    {
        match row.select {
            Select::None => assert!(
                matches!(row.fit, Fit::Timer | Fit::Unsupported),
                "{interface} {}",
                row.name
            ),
            Select::EventSelect(select) => {
                assert_eq!(
                    select & ENABLE_INT_PC_AND_RESERVED,
                    0,
                    "{interface} {}",
                    row.name
                );
                assert_eq!(select & USR_OS, USR_OS, "{interface} {}", row.name);
                assert_eq!(select >> 36, 0, "{interface} {}", row.name);
            }
            Select::Cesr { event, .. } => assert!(event < 0x40, "{interface} {}", row.name),
            Select::NetBurst(select) => {
                assert_eq!(select.escr & !0x7FFF_FE00, 0, "{interface} {}", row.name);
                assert_eq!(select.cccr & !0x01FC_E000, 0, "{interface} {}", row.name);
            }
            Select::Fixed(index) => assert!(index < 7, "{interface} {}", row.name),
        }
        let countable = matches!(row.fit, Fit::Exact | Fit::Approximate)
            && !matches!(row.select, Select::Fixed(_));
        assert_eq!(
            row.counters != NO_COUNTER,
            countable,
            "{interface} {}",
            row.name
        );
        assert!(!row.name.is_empty() && !row.symbol.is_empty());
    }
}

/// The two sources whose interval somebody had changed before the listing was printed.
const CHANGED_DEFAULTS: [(&str, &str); 2] = [
    ("intel-B", "TotalIssues"),
    ("intel-D", "InstructionRetired"),
];

/// Not compared: ids 0x20 to 0x24 of intel-B, C and D, which later Windows added; and amd-win11,
/// which gives neither numbers nor intervals, of an Amd64 table that Windows 11 made anew.
#[test]
fn windows_own_listings_agree() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for fact in data!("windows-ids") {
        let listing = fact["listing"].as_str();
        let (rows, of_later_windows): (&[Row], _) = match listing {
            "virtualised" => (&default::ROWS, false),
            "amd-win11" => continue,
            "amd-zen2-A" | "amd-zen2-B" => (&amd64::ROWS, false),
            _ => (
                &emon::ROWS,
                listing != "intel-A" && number(&fact["id"]) >= 0x20,
            ),
        };
        if of_later_windows {
            continue;
        }
        let id = id(&fact["id"]);
        let row = rows
            .iter()
            .find(|row| row.id == id)
            .unwrap_or_else(|| panic!("{listing} {id:?}"));
        assert_eq!(row.name, fact["name"], "{listing}");
        let IntervalLimits { default, min, max } = limits(id);
        assert_eq!(
            [u64::from(min), u64::from(max)],
            [number(&fact["min"]), number(&fact["max"])],
            "{listing} {}",
            row.name
        );
        if !CHANGED_DEFAULTS.contains(&(listing, row.name)) {
            assert_eq!(
                u64::from(default),
                number(&fact["interval"]),
                "{listing} {}",
                row.name
            );
        }
        *seen.entry(listing.to_owned()).or_default() += 1;
    }
    let expected = [
        ("amd-zen2-A", 176),
        ("amd-zen2-B", 15),
        ("intel-A", 13),
        ("intel-B", 13),
        ("intel-C", 13),
        ("intel-D", 13),
        ("virtualised", 1),
    ];
    assert_eq!(
        seen,
        expected
            .map(|(listing, sources)| (listing.to_owned(), sources))
            .into()
    );
}
