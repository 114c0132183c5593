//! One profile source of a machine: what the driver says of it, and its names and notes, which the
//! driver does not have.

pub mod texts;

use shared_types::request::source as wire;
use shared_types::{ProfileSource, SourceNote, SourceTable};

/// One profile source, with its attributes and texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// KPROFILE_SOURCE.
    pub id: u32,
    /// [`Self::SUPPORTED`] and the flags below it.
    pub flags: u32,
    /// What the processor is programmed to count, in the interface's format; 0 if nothing is.
    pub select: u64,
    /// The interval used when none is set: events, or units of 100 ns.
    pub default_interval: u32,
    /// The shortest interval.
    pub min_interval: u32,
    /// The longest interval.
    pub max_interval: u32,
    /// The CPU types on which it can be counted, as a mask.
    pub cpu_types: u32,
    /// The name that Windows' tools print, e.g. `TotalIssues`.
    pub name: &'static str,
    /// The enumeration's symbol, e.g. `ProfileTotalIssues`.
    pub symbol: &'static str,
    /// What it counts on the boot processor, by the manual's name; empty if nothing.
    pub counts: &'static str,
    /// What a user should know; if it is not supported, why not.
    pub note: &'static str,
    /// What its count says about a program, in a sentence or two; empty if that is not known.
    pub meaning: &'static str,
    /// The driver's reason that `note` gives; `None` where the note is the table's.
    pub reason: Option<SourceNote>,
}

impl Source {
    /// The boot processor can count it.
    pub const SUPPORTED: u32 = wire::Source::SUPPORTED;
    /// The table of the HAL's own interface has it.
    pub const HAL: u32 = wire::Source::HAL;
    /// Whether it can be sampled on a CPU type that counts it: that type has the interrupt, and
    /// samples have addresses.
    pub const SAMPLING: u32 = wire::Source::SAMPLING;
    /// Whether it is a timer, which takes no counter.
    pub const TIMER: u32 = wire::Source::TIMER;
    /// Its event is not what its name says.
    pub const APPROXIMATES: u32 = wire::Source::APPROXIMATES;
    /// `select` is valid.
    pub const HAS_SELECT: u32 = wire::Source::HAS_SELECT;

    /// Whether a CPU type counts it.
    pub const fn is_counted(&self) -> bool {
        self.flags & Self::TIMER != 0 || self.cpu_types != 0
    }

    /// The source that a driver describes; `None` if its table or its note is not known here.
    pub fn from_wire(source: &wire::Source) -> Option<Self> {
        let table = SourceTable::from_wire(source.table)?;
        let texts = texts::find(table, ProfileSource(source.id))?;
        let reason = Some(SourceNote::from_wire(source.note)?);
        let reason = reason.filter(|&note| note != SourceNote::OfTable);
        Some(Self {
            id: source.id,
            flags: source.flags,
            select: source.select,
            default_interval: source.default_interval,
            min_interval: source.min_interval,
            max_interval: source.max_interval,
            cpu_types: source.cpu_types,
            name: texts.name,
            symbol: texts.symbol,
            counts: texts.counts,
            note: reason.map_or(texts.note, texts::note),
            meaning: texts.meaning,
            reason,
        })
    }
}
