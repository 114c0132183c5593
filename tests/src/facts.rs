//! The facts in `data/`, as tests read them. A malformed fact is a panic: it is part of the test.
#![expect(clippy::missing_panics_doc, reason = "said once, above")]

use std::collections::HashMap;

use hal_profile::cpu::generation::AmdGeneration;
use hal_profile::source::{CounterSet, Row, Select};
use halprof_measure::source::texts::{self, SourceTexts};
use shared_types::{ProfileSource, SourceTable};
use sim::cpu::event::Event;

/// One record of a CSV: its fields, by column name.
pub type Record = HashMap<String, String>;

/// The records of a CSV with a header.
#[must_use]
pub fn records(text: &str) -> Vec<Record> {
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("a well-formed CSV")
}

/// `0x1B` or `27`.
#[must_use]
pub fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).expect("hexadecimal"),
        None => text.parse().expect("decimal"),
    }
}

/// A source number.
#[must_use]
pub fn id(text: &str) -> ProfileSource {
    ProfileSource(u32::try_from(number(text)).expect("a source number"))
}

/// `0|1` and `12-17` as a mask.
#[must_use]
pub fn counter_set(text: &str) -> CounterSet {
    let one = |part: &str| part.parse::<u32>().expect("a counter");
    text.split('|').fold(0, |set, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        (one(first)..=one(last)).fold(set, |set, counter| set | 1 << counter)
    })
}

/// The PerfEvtSel of a row.
#[must_use]
pub fn event_select(row: &Row) -> u64 {
    let Select::EventSelect(select) = row.select else {
        panic!("{:x?} is not a PerfEvtSel", row.id)
    };
    select
}

/// What a table says of a row's source.
#[must_use]
pub fn texts(table: SourceTable, row: &Row) -> &'static SourceTexts {
    texts::find(table, row.id).unwrap_or_else(|| panic!("{table:?} lacks {:x?}", row.id))
}

/// The row of the source to which a table gives this name.
#[must_use]
pub fn named<'a>(
    table: SourceTable,
    rows: impl IntoIterator<Item = &'a Row>,
    name: &str,
) -> &'a Row {
    let mut rows = rows.into_iter();
    let row = rows.find(|row| texts(table, row).name == name);
    row.unwrap_or_else(|| panic!("no {name} in {table:?}"))
}

/// A symbol without its `Profile`.
#[must_use]
pub fn without_profile(symbol: &str) -> &str {
    symbol.strip_prefix("Profile").expect("a symbol")
}

const MEANINGS: [(&str, Event); 26] = [
    ("TotalIssues", Event::Instructions),
    ("InstructionsRetired", Event::Instructions),
    ("TotalCycles", Event::Cycles),
    ("UnhaltedCoreCycles", Event::Cycles),
    ("UnhaltedReferenceCycles", Event::RefCycles),
    ("BranchInstructions", Event::Branches),
    ("BranchInstructionsRetired", Event::Branches),
    ("BranchMispredictions", Event::BranchMisses),
    ("BranchMispredictsRetired", Event::BranchMisses),
    ("LastLevelCacheReferences", Event::LlcReferences),
    ("LastLevelCacheMisses", Event::LlcMisses),
    ("CacheMisses", Event::LlcMisses),
    ("L2Misses", Event::LlcMisses),
    ("DcacheAccesses", Event::L1dAccesses),
    ("DcacheMisses", Event::L1dMisses),
    ("IcacheIssues", Event::L1iFetches),
    ("IcacheMisses", Event::L1iMisses),
    ("FpInstructions", Event::FpOperations),
    // SDM vol. 3B, "Fixed-function Performance Counters": counters 0, 1 and 2.
    ("INST_RETIRED.ANY", Event::Instructions),
    ("CPU_CLK_UNHALTED.THREAD", Event::Cycles),
    ("CPU_CLK_UNHALTED.REF_TSC", Event::RefCycles),
    // p5-events.csv: the plain Pentium's approximation, for which the MMX has a separate source.
    ("PIPELINE_FLUSHES", Event::BranchMisses),
    // p6-events.csv: L2_RQSTS with all MESI states.
    ("L2_RQSTS", Event::LlcReferences),
    // p4-events.csv: the profile source is the event with all its mask bits.
    ("global_power_events", Event::Cycles),
    ("branch_retired", Event::Branches),
    ("mispred_branch_retired", Event::BranchMisses),
];

/// The workload event that a name in the fact tables means; `None` where no workload has an amount
/// for it.
#[must_use]
pub fn meaning(name: &str) -> Option<Event> {
    let found = MEANINGS.iter().find(|(known, _)| *known == name);
    found.map(|&(_, event)| event)
}

/// Every generation whose events are known.
pub const GENERATIONS: [AmdGeneration; 13] = [
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
    AmdGeneration::Zen6,
];

/// The records of `facts/$name.csv`, which the rows of sources are generated from.
#[macro_export]
macro_rules! source_data {
    ($name:literal) => {
        $crate::facts::records(include_str!(concat!("../../facts/", $name, ".csv")))
    };
}

/// The records of `data/$name.csv`.
#[macro_export]
macro_rules! data {
    ($name:literal) => {
        $crate::facts::records(include_str!(concat!("../data/", $name, ".csv")))
    };
}
