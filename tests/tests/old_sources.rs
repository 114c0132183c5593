//! Are the sources of Pentium, P6 and NetBurst those of the mapping and of the manuals' event lists?

use hal_profile::source::{
    ANY, CounterSet, Fit, NO_COUNTER, Row, Select, Upstream, netburst, p6, pentium,
};
use halprof_tests::data;
use halprof_tests::facts::{Record, counter_set, event_select, id, number, without_profile};
use shared_types::ProfileSource;

/// As [`counter_set`], where both of the family's two counters are no constraint.
fn counters_of_two(text: &str) -> CounterSet {
    match counter_set(text) {
        0b11 => ANY,
        set => set,
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
