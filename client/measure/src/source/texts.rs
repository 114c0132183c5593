//! The names and notes of profile sources, from the tables in `hal-profile/data` that the driver's
//! rows are made of.

use shared_types::{ProfileSource, SourceNote, SourceTable};

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
}

/// Each table, by number.
///
/// Source: G. Chappell, "Hardware Performance Counters", for the HAL's; names as Windows 10's tools
/// print them; events as the Intel SDM and AMD's BKDG and PPR name them, AMD's by way of libpfm4 and
/// Linux's perf.
static TABLES: &[(SourceTable, &[SourceTexts])] = &include!(concat!(env!("OUT_DIR"), "/texts.rs"));

/// Every source of a table, by number.
#[must_use]
pub fn table(table: SourceTable) -> &'static [SourceTexts] {
    let found = TABLES.iter().find(|(name, _)| *name == table);
    found.map_or(&[], |(_, rows)| *rows)
}

/// What a table says of a source; `None` if the source is not in it.
#[must_use]
pub fn find(of: SourceTable, id: ProfileSource) -> Option<&'static SourceTexts> {
    let rows = table(of);
    rows.get(rows.binary_search_by_key(&id.0, |row| row.id).ok()?)
}

/// A note in words; empty for that of the source's table.
#[must_use]
pub const fn note(note: SourceNote) -> &'static str {
    match note {
        SourceNote::OfTable => "",
        SourceNote::DefaultInterface => {
            "this processor is used through the Default interface, which has a timer only"
        }
        SourceNote::Northbridge => {
            "northbridge: one shared set of counters for all cores of a node"
        }
        SourceNote::NotDocumented => {
            "counts nothing here: the event of the HAL's row is not documented on this family"
        }
        SourceNote::MaskSelectsNothing => {
            "counts nothing here: the unit mask of the HAL's row selects nothing on this family"
        }
        SourceNote::UnknownModel => {
            "this model's events are not known: the HAL's row may count something else than its name"
        }
        SourceNote::NotInLeaf0A => "CPUID leaf 0x0A: the event is not available on this processor",
        SourceNote::NotInLeaf0AOr23 => {
            "CPUID leaf 0x0A or 0x23: the event is not available on this processor"
        }
        SourceNote::NoFixedCounter => "this processor does not have the fixed counter",
        SourceNote::NoCounter => "this processor has no counter that can count the event",
        SourceNote::NoReplayMetric => {
            "one replay metric for a package: the first logical processor has it"
        }
        SourceNote::OtherThreadsCounters => {
            "no counter for this event on this logical processor's side"
        }
        SourceNote::NoMemory => {
            "no memory could be had for the counters, so no source is supported"
        }
        SourceNote::TimerHasNoAddress => "a timer's callback has no address to sample",
        SourceNote::NoInterrupt => "counting only: the Pentium's counters raise no interrupt",
        SourceNote::NoLocalApic => "counting only: no local APIC is enabled to carry the interrupt",
        SourceNote::NoCycleCounter => {
            "counting only: a timer's callback has no address, and this processor has no counter of cycles"
        }
    }
}
