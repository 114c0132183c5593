//! The names and notes of profile sources, from the tables in `facts` that the driver's
//! rows are made of.

use shared_types::{ProfileSource, SourceNote, SourceTable};
use std::collections::HashMap;
use std::sync::LazyLock;

/// What a table says of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceTexts {
    /// KPROFILE_SOURCE.
    pub id: u32,
    /// The name in the enumeration, e.g. `ProfileTotalIssues`; of halprof's own sources their name.
    pub symbol: &'static str,
    /// The name that Windows' own tools print, e.g. `TotalIssues`.
    pub name: &'static str,
    /// The manual's name for the event, e.g. `INST_RETIRED`; empty if nothing is counted.
    pub counts: &'static str,
    /// What a user should know before trusting the source; may be empty.
    pub note: &'static str,
    /// What its count says about a program, in a sentence or two; may be empty.
    pub meaning: &'static str,
}

/// Each table, by number.
///
/// Source: G. Chappell, "Hardware Performance Counters", for the HAL's; names as Windows 10's tools
/// print them; events as the Intel SDM and AMD's BKDG and PPR name them, AMD's by way of libpfm4 and
/// Linux's perf.
static TABLES: &[(SourceTable, &[SourceTexts])] = &include!(concat!(env!("OUT_DIR"), "/texts.rs"));

/// Every source of a table, by number.
pub fn table(table: SourceTable) -> &'static [SourceTexts] {
    let entry = TABLES.iter().find(|(name, _)| *name == table);
    entry.map_or(&[], |(_, rows)| *rows)
}

/// Every source of every table.
pub fn all() -> impl Iterator<Item = &'static SourceTexts> {
    TABLES.iter().flat_map(|(_, rows)| *rows)
}

/// What a table says of a source; `None` if the source is not in it.
pub fn find(of: SourceTable, id: ProfileSource) -> Option<&'static SourceTexts> {
    let rows = table(of);
    rows.get(rows.binary_search_by_key(&id.0, |row| row.id).ok()?)
}

/// The driver's notes, by name.
static NOTES: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let text = include_str!("notes.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten().collect()
});

/// A note in words; empty for that of the source's table.
pub fn note(note: SourceNote) -> &'static str {
    NOTES.get(note.name()).map_or("", String::as_str)
}
