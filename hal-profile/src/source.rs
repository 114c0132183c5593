//! Profile sources: rows of tables.
//!
//! A row gives a source's number in Windows, the event that the processor counts for it, and how
//! well that event fits the source's name. The facts are in the CSV files in `/facts`; the build
//! script turns them into the tables of the modules below, one for each interface. Names and notes
//! are not needed to count: clients have them, from the same files.

use crate::historic::select as historic;
use shared_types::ProfileSource;

/// The most sources in one session.
pub const MAX_SOURCES: usize = 256;

/// A table that the build script generated from a CSV file.
macro_rules! generated {
    ($name:literal) => {
        const { &include!(concat!(env!("OUT_DIR"), "/", $name, ".rs")) }
    };
}
#[cfg_attr(not(feature = "historic"), expect(unused_imports, reason = "the folder's tables"))]
pub(crate) use generated;

pub mod amd;
pub mod amd64;
pub mod amd64_events;
pub mod catalog;
pub mod default;
pub mod emon;
pub mod encode;
pub mod filter;
pub mod intel;
pub mod raw;

/// One profile source of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The source's number.
    pub id: ProfileSource,
    /// What the processor is programmed to count.
    pub select: Select,
    /// The general counters that can count it, by index; [`ANY`] if the event has no constraint,
    /// [`NO_COUNTER`] if no counter can.
    pub counters: CounterSet,
    /// The fixed-function counters that count exactly the same event, by index; [`NO_COUNTER`] if
    /// none does. One that counts a similar event is not listed: on many parts, fixed counter 2
    /// runs at a different clock from event 3Ch with unit mask 01h.
    pub fixed: CounterSet,
    /// How well the event fits the name.
    pub fit: Fit,
}

impl Row {
    /// A source that no fixed-function counter counts.
    pub(crate) const fn new(id: u32, fit: Fit, select: Select, counters: CounterSet) -> Self {
        Self { id: ProfileSource(id), select, counters, fixed: NO_COUNTER, fit }
    }

    /// An event that fits its name and has no constraint.
    pub(crate) const fn event(id: u32, select: u64) -> Self {
        Self::new(id, Fit::Exact, Select::EventSelect(select), ANY)
    }

    /// ProfileTime.
    pub(crate) const fn timer(select: Select) -> Self {
        Self::new(ProfileSource::TIME.0, Fit::Timer, select, NO_COUNTER)
    }

    /// Its event select, if it has one.
    pub(crate) const fn event_select(&self) -> Option<u64> {
        match self.select {
            Select::EventSelect(bits) => Some(bits),
            _ => None,
        }
    }
}

/// Finds a row by number in a table sorted by number.
pub fn find(table: &'static [Row], id: ProfileSource) -> Option<&'static Row> {
    table.get(table.binary_search_by_key(&id, |row| row.id).ok()?)
}

/// The intervals that a source accepts: events between two overflows or, for ProfileTime, units of
/// 100 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalLimits {
    /// The interval used until one is set.
    pub default: u32,
    pub min: u32,
    pub max: u32,
}

/// The interval limits of a source: one set for ProfileTime, one for every source that counts.
///
/// Source: the output of `wpr -pmcsources` and `tracelog -profilesources`, identical on Intel and
/// AMD.
pub const fn limits(id: ProfileSource) -> IntervalLimits {
    match id {
        ProfileSource::TIME => IntervalLimits { default: 10_000, min: 1_221, max: 1_000_000 },
        _ => IntervalLimits { default: 65_536, min: 4_096, max: 2_147_483_647 },
    }
}

/// A set of general counters by index, as a bit mask.
pub type CounterSet = u32;

/// Every counter that the processor has.
pub const ANY: CounterSet = u32::MAX;

/// No general counter: there is nothing to count, or only a fixed-function counter counts it.
pub const NO_COUNTER: CounterSet = 0;

/// How well an event fits the name of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// ProfileTime: a timer, never a counter (HAL design note, section 3.1).
    Timer,
    /// A clean match, or the HAL's own row.
    Exact,
    /// A near match: refused unless the session asks for approximate sources. The HAL's rows that
    /// count something else on a later family are refused alike, by
    /// [`counts_something_else`](amd64_events::counts_something_else).
    Approximate,
    /// No event of this family fits.
    Unsupported,
    /// One set of northbridge counters serves all cores of a node: listed, never counted.
    Northbridge,
}

/// What the processor is programmed to count, in the form that its interface uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// Nothing to program.
    None,
    /// A PerfEvtSel of Intel P6 and later or of AMD, in the HAL's own style: event, unit mask, USR
    /// and OS, INV and CMASK, but without EN and INT, which are added while monitoring is on.
    EventSelect(u64),
    /// What a processor of the [`historic`](crate::historic) interfaces counts.
    Historic(historic::Select),
    /// The fixed-function counter with this index.
    Fixed(u8),
}

/// A decoded raw select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// What the processor is programmed to count.
    pub select: Select,
    /// The counters that can count it.
    pub counters: CounterSet,
    /// The filter asks for user mode. With neither this nor `kernel` there is no filter.
    pub user: bool,
    /// The filter asks for kernel mode.
    pub kernel: bool,
}
