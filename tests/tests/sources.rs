//! Are the profile sources what the facts say? The HAL's three tables and halprof's own Intel rows,
//! both ways; what must hold for the sources of every interface; and Windows' own listings.

use std::collections::{BTreeMap, BTreeSet};

use hal_profile::source::{
    ANY, Fit, IntervalLimits, NO_COUNTER, Row, Select, amd, amd64, default, emon, intel, limits,
    netburst, p6, pentium,
};
use halprof_tests::data;
use halprof_tests::facts::{GENERATIONS, event_select, id, number, without_profile};
use shared_types::ProfileSource;

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
            assert_eq!(row.fit, Fit::Exact, "{}", row.name);
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
        assert_eq!((row.counters, row.fit), (NO_COUNTER, Fit::Exact));
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
