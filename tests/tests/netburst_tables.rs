//! Do the modelled NetBurst registers and events match the manual?

use sim::historic::netburst::events::{self, Row};
use sim::historic::netburst::tables::{COUNTERS, ESCRS, EXTENDED_CASCADE, Escr};
use std::error::Error;

fn records(file: &str) -> Result<Vec<csv::StringRecord>, csv::Error> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    csv::Reader::from_path(format!("{root}/{file}"))?.records().collect()
}

fn hex(text: &str) -> Result<u32, std::num::ParseIntError> {
    u32::from_str_radix(text.trim_start_matches("0x"), 16)
}

#[test]
fn counters_are_those_of_the_manual() -> Result<(), Box<dyn Error>> {
    let records = records("tests/data/p4-counters.csv")?;
    assert_eq!(records.len(), COUNTERS);
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record[0].parse(), Ok(number));
        let cascades = record[9].contains("CASCNT");
        assert_eq!(cascades, EXTENDED_CASCADE.contains(&number), "{number}");
    }
    Ok(())
}

#[test]
fn escrs_are_those_of_the_manual() -> Result<(), Box<dyn Error>> {
    let records = records("facts/p4-escr.csv")?;
    assert_eq!(records.len(), ESCRS.len());
    for (record, escr) in records.iter().zip(&ESCRS) {
        assert_eq!(&record[0], escr.name);
        assert_eq!(hex(&record[1])?, escr.msr, "{}", escr.name);
        assert_eq!(record[2].parse(), Ok(escr.select), "{}", escr.name);
        assert_eq!(record[4], *fed(escr.counters), "{}", escr.name);
        let early = record[5].contains("models 0-2");
        assert_eq!(early, escr.early, "{}", escr.name);
    }
    Ok(())
}

#[test]
fn an_escr_feeds_counters_of_one_group() -> Result<(), Box<dyn Error>> {
    let counters = records("tests/data/p4-counters.csv")?;
    for (record, escr) in records("facts/p4-escr.csv")?.iter().zip(&ESCRS) {
        for &number in escr.counters {
            assert_eq!(record[3], counters[usize::from(number)][2], "{}", escr.name);
        }
    }
    Ok(())
}

#[test]
fn a_counter_and_a_select_mean_one_escr() {
    for number in 0..18 {
        for select in 0..8 {
            let means = |escr: &&Escr| escr.select == select && escr.counters.contains(&number);
            assert!(ESCRS.iter().filter(means).count() <= 1);
        }
    }
}

#[test]
fn events_are_those_of_the_manual() -> Result<(), Box<dyn Error>> {
    let records = records("facts/p4-events.csv")?;
    assert_eq!(records.len(), events::ROWS.len());
    for (record, row) in records.iter().zip(&events::ROWS) {
        assert_eq!(&record[0], row.name);
        assert_eq!(hex(&record[1])?, u32::from(row.select), "{}", row.name);
        assert_eq!(mask(&record[7])?, row.mask, "{}", row.name);
        let specific = &record[8] == "TS";
        assert_eq!(specific, row.thread_specific, "{}", row.name);
        let first_model = record[11].split(',').next().unwrap_or_default();
        assert_eq!(first_model.parse(), Ok(row.first_model), "{}", row.name);
        compare_escrs(record, row);
    }
    Ok(())
}

#[test]
fn what_counts_is_a_documented_mask() {
    for row in &events::ROWS {
        for (mask, event) in row.counts {
            assert_eq!(mask & !row.mask, 0, "{} {}", row.name, event.name());
        }
    }
}

/// The select that the manual prints is that of the ESCRs, except for four events of the front-side
/// bus: an unresolved contradiction in the manual.
fn compare_escrs(record: &csv::StringRecord, row: &Row) {
    let contradicted = ["b2b_cycles", "bnr", "snoop", "response"].contains(&row.name);
    let columns = [(&record[3], &record[4]), (&record[5], &record[6])];
    let named: Vec<_> = columns.iter().filter(|(name, _)| !name.is_empty()).collect();
    assert_eq!(named.len(), row.escrs.len(), "{}", row.name);
    for ((name, counters), &msr) in named.into_iter().zip(row.escrs) {
        let escr = ESCRS.iter().find(|escr| escr.msr == msr);
        let escr = escr.expect("an ESCR of the table");
        assert_eq!(escr.name, format!("MSR_{name}"), "{}", row.name);
        assert_eq!(fed(escr.counters), *counters, "{}", row.name);
        let printed = record[2].parse() == Ok(escr.select);
        assert_eq!(printed, !contradicted, "{}", row.name);
    }
}

fn mask(bits: &str) -> Result<u16, std::num::ParseIntError> {
    bits.split(';').try_fold(0, |mask, bit| {
        let (number, _) = bit.split_once(':').unwrap_or((bit, ""));
        Ok(mask | 1 << number.parse::<u32>()?)
    })
}

/// Counters as the files write them: `12|13|16`.
fn fed(counters: &[u8]) -> String {
    let numbers: Vec<String> = counters.iter().map(u8::to_string).collect();
    numbers.join("|")
}
