//! Do the sources of Pentium, P6 and NetBurst match the manuals?
//!
//! The rows are generated from `facts`; the expectations here are written by hand.

use hal_profile::historic::registers::netburst::escr_msrs;
use hal_profile::historic::select::{NetBurstSelect, Select as Historic, Upstream};
use hal_profile::historic::{netburst, p6, pentium};
use hal_profile::source::{ANY, Fit, Select};
use halprof_tests::facts::{Record, event_select, named, number, texts};
use halprof_tests::source_data;
use shared_types::SourceTable;

/// Intel SDM, "Pentium Processor Performance Monitoring Events".
#[test]
fn pentium_selects_events_by_code_and_counter() {
    for (name, event, clocks, counters) in [
        ("DATA_READ", 0x00, false, ANY),
        ("BUS_CYCLE_DURATION", 0x18, true, ANY),
        ("BUS_OWNERSHIP_LATENCY", 0x2A, true, 0b01),
        ("BUS_OWNERSHIP_TRANSFERS", 0x2A, false, 0b10),
        ("TAKEN_BRANCHES", 0x32, false, 0b10),
    ] {
        let row = named(SourceTable::PentiumMmx, pentium::own_rows(true), name);
        let id = 0x8000_0500 + u32::from(event) + if counters == 0b10 { 0x100 } else { 0 };
        assert_eq!(row.select, Select::Historic(Historic::Cesr { event, clocks }), "{name}");
        assert_eq!((row.id.0, row.counters), (id, counters), "{name}");
        assert_eq!(row.fit, Fit::Exact, "{name}");
    }
    let names = pentium::own_rows(false).map(|row| texts(SourceTable::Pentium, row).name);
    assert_eq!(names.filter(|name| name.contains("MMX")).count(), 0);
}

/// "D1 starvation" is described as a number of occurrences, not of clocks.
#[test]
fn rows_in_doubt_are_approximate() {
    let facts = source_data!("p5-events");
    let doubted = |fact: &&Record| fact["type"].ends_with('?');
    let mut rows = 0;
    for fact in facts.iter().filter(doubted) {
        let row = named(SourceTable::PentiumMmx, pentium::own_rows(true), &fact["name"]);
        assert_eq!(row.fit, Fit::Approximate, "{:x?}", row.id);
        rows += 1;
    }
    assert_eq!(rows, 4);
    for row in pentium::own_rows(true).chain(pentium::rows(true)) {
        let Select::Historic(Historic::Cesr { event, clocks }) = row.select else {
            continue;
        };
        if event == 0x33 {
            assert_eq!((clocks, row.fit), (false, Fit::Approximate), "{:x?}", row.id);
        }
        if matches!(event, 0x1B | 0x1F) {
            assert_eq!((clocks, row.fit), (true, Fit::Approximate), "{:x?}", row.id);
        }
    }
}

#[test]
fn every_documented_event_of_a_processor_is_there_once() {
    let of = |facts: &[Record], processor: &str| {
        let has = |fact: &&Record| fact["processors"].split(';').any(|name| name == processor);
        facts.iter().filter(has).count()
    };
    let facts = source_data!("p5-events");
    assert_eq!(pentium::own_rows(false).count(), of(&facts, "P5"));
    assert_eq!(pentium::own_rows(true).count(), of(&facts, "P5MMX"));
    let facts = source_data!("p6-events");
    for (name, processor) in [
        ("PPro", p6::PPRO),
        ("PII", p6::PII),
        ("Celeron", p6::CELERON),
        ("PIII", p6::PIII),
        ("PM", p6::PM),
    ] {
        assert_eq!(p6::own_rows(processor).count(), of(&facts, name), "{name}");
    }
    assert_eq!(p6::own_rows(0).count(), 0);
}

/// Intel SDM, "P6 Family Processor Performance Monitoring Events", notes on counters.
#[test]
fn p6_ties_some_events_to_a_counter() {
    for event in 0..=0xFF {
        let expected = match event {
            0x10 | 0x14 | 0xC1 => 0b01,
            0x11..=0x13 => 0b10,
            _ => ANY,
        };
        assert_eq!(p6::counters(event), expected, "{event:#x}");
    }
    for row in p6::ROWS.iter().chain(p6::own_rows(p6::PIII | p6::PM)) {
        if let Select::EventSelect(select) = row.select {
            let expected = match row.fit {
                Fit::Timer => 0,
                _ => p6::counters(select as u8),
            };
            assert_eq!(row.counters, expected, "{:x?}", row.id);
        }
    }
}

#[test]
fn p6_selects_hold_unit_mask_and_threshold() {
    for (name, select) in [
        ("TotalIssues", 0x0003_00C0),
        ("CacheMisses", 0x0003_012E),
        ("TotalNonissues", 0x0183_00C2),
        ("3Issue", 0x0303_00C2),
    ] {
        assert_eq!(event_select(named(SourceTable::P6, p6::ROWS.iter(), name)), select, "{name}");
    }
    let requests = named(SourceTable::P6, p6::own_rows(p6::PPRO), "L2_RQSTS");
    assert_eq!(event_select(requests), 0x0003_0F2E);
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

/// Intel SDM, "Pentium 4 and Intel Xeon Processor Performance Monitoring Events". Counter 1 is in
/// no set: the enable bit of its CCCR does not work reliably.
#[test]
fn netburst_selects_an_escr_pair_and_its_counters() {
    let row = named(SourceTable::NetBurst, netburst::ROWS.iter(), "TotalIssues");
    let expected = NetBurstSelect {
        escr: 0x02 << 25 | 0b11 << 9,
        cccr: 4 << 13,
        escr_msr: [0x3B8, 0x3B9],
        counters: [1 << 12 | 1 << 13 | 1 << 16, 1 << 14 | 1 << 15 | 1 << 17],
        upstream: Upstream::None,
    };
    assert_eq!(row.select, Select::Historic(Historic::NetBurst(expected)));
    let row = named(SourceTable::NetBurst, netburst::ROWS.iter(), "IcacheMisses");
    assert_eq!(row.counters, 0b1101);
    let row = named(SourceTable::NetBurst, netburst::own_rows(2), "bsq_active_entries");
    let Select::Historic(Historic::NetBurst(select)) = row.select else { panic!("not NetBurst's") };
    assert_eq!((select.escr_msr, select.counters), ([0, 0x3A1], [0, 0b1100]));
}

#[test]
fn netburst_tags_upstream_where_the_event_needs_it() {
    for (name, upstream) in [
        ("LoadInstructions", Upstream::UopType { escr: 0x0400_0400 }),
        ("StoreInstructions", Upstream::UopType { escr: 0x0400_0800 }),
        ("DcacheMisses", Upstream::Replay { pebs_enable: 0x0100_0001, matrix_vert: 1 }),
        ("BranchInstructions", Upstream::None),
    ] {
        let Select::Historic(Historic::NetBurst(select)) =
            named(SourceTable::NetBurst, netburst::ROWS.iter(), name).select
        else {
            panic!("{name} is not NetBurst's")
        };
        assert_eq!(select.upstream, upstream, "{name}");
    }
}

#[test]
fn netburst_offers_every_event_that_counts_alone() {
    for model in [0, 1, 2, 3, 4, 6] {
        let facts = source_data!("p4-events");
        let expected: Vec<&str> = facts
            .iter()
            .filter(|fact| {
                fact["not_offered_because"].is_empty()
                    && fact["models"].split(',').any(|known| number(known) == u64::from(model))
            })
            .map(|fact| fact["event"].as_str())
            .collect();
        let names: Vec<&str> =
            netburst::own_rows(model).map(|row| texts(SourceTable::NetBurst, row).name).collect();
        assert_eq!(names, expected, "model {model}");
    }
}

/// Its DRDY_OTHER and DBSY_OTHER exclude DRDY_OWN and DBSY_OWN.
#[test]
fn fsb_data_activity_leaves_out_what_excludes_its_own() {
    let row = named(SourceTable::NetBurst, netburst::own_rows(2), "FSB_data_activity");
    let Select::Historic(Historic::NetBurst(select)) = row.select else { panic!("not NetBurst's") };
    assert_eq!(select.escr, 0x17 << 25 | 0b01_1011 << 9);
    assert_eq!(select.cccr, 6 << 13 | 1 << 18 | 1 << 24);
}

/// 45 ESCRs on models 0 to 2; later models lack IQ_ESCR0 and 1 (SDM vol. 4).
#[test]
fn escrs_of_each_model() {
    for (model, count) in [(0, 45), (1, 45), (2, 45), (3, 43), (4, 43), (6, 43)] {
        let msrs: Vec<_> = escr_msrs(model).collect();
        assert_eq!(msrs.len(), count, "{model}");
        assert_eq!(msrs.contains(&0x3BA), count == 45);
        assert_eq!(msrs.contains(&0x3BB), count == 45);
        assert!(msrs.is_sorted() && msrs.contains(&0x3A0) && msrs.contains(&0x3E1));
    }
    let facts = source_data!("p4-escr");
    let mut known: Vec<u64> = facts.iter().map(|fact| number(&fact["msr"])).collect();
    known.sort_unstable();
    let msrs: Vec<u64> = escr_msrs(0).map(u64::from).collect();
    assert_eq!(msrs, known);
}
