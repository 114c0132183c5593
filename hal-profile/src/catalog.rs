//! Which sources a processor has: the rows of its interfaces' tables, judged.

use crate::capabilities::Capabilities;
use crate::source::amd64_events::{AmdGeneration, mask_selects_nothing, meaning, verdict};
use crate::source::raw::Family;
use crate::source::{
    self, CounterSet, Fit, Row, Select, amd, amd64, emon, intel, netburst, p6, pentium,
};
use shared_types::{ErrorCode, ProfileInterface, ProfileSource};

/// Every source of a machine whose boot processor has these capabilities: the table of the HAL's
/// interface first, then the interface in use, then halprof's own.
pub fn rows(capabilities: &Capabilities) -> impl Iterator<Item = &'static Row> {
    let hal = table(capabilities, capabilities.judgement.hal.interface);
    // Mostly the two are the same, whose every row would be looked for in vain.
    let used: &[Row] = if capabilities.interface() == capabilities.judgement.hal.interface {
        &[]
    } else {
        table(capabilities, capabilities.interface())
    };
    let (own, more) = own_tables(capabilities);
    let p6_processors = match capabilities.interface() {
        ProfileInterface::P6 => p6::processors(capabilities.identity.model.into()),
        _ => 0,
    };
    let not_in_hal = move |row: &&Row| !hal.iter().any(|other| other.id == row.id);
    hal.iter()
        .chain(used.iter().filter(not_in_hal))
        .chain(own)
        .chain(more)
        .chain(p6::own_rows(p6_processors))
}

/// The row of a number, if the machine has it.
#[must_use]
pub fn find(capabilities: &Capabilities, id: ProfileSource) -> Option<&'static Row> {
    let used = table(capabilities, capabilities.interface());
    used.iter()
        .find(|row| row.id == id)
        .or_else(|| rows(capabilities).find(|row| row.id == id))
}

/// Whether the table of the HAL's own interface has the row.
#[must_use]
pub fn is_hal(capabilities: &Capabilities, id: ProfileSource) -> bool {
    table(capabilities, capabilities.judgement.hal.interface)
        .iter()
        .any(|row| row.id == id)
}

fn table(capabilities: &Capabilities, interface: ProfileInterface) -> &'static [Row] {
    match interface {
        ProfileInterface::Default => &source::default::ROWS,
        ProfileInterface::Emon => &emon::ROWS,
        ProfileInterface::Amd64 => &amd64::ROWS,
        ProfileInterface::Pentium => pentium::rows(has_mmx(capabilities)),
        ProfileInterface::P6 => &p6::ROWS,
        ProfileInterface::NetBurst => &netburst::ROWS,
    }
}

fn own_tables(capabilities: &Capabilities) -> (&'static [Row], &'static [Row]) {
    match capabilities.interface() {
        ProfileInterface::Default | ProfileInterface::P6 => (&[], &[]),
        ProfileInterface::Emon => (&intel::FIXED, &intel::ARCHITECTURAL),
        ProfileInterface::Amd64 => (amd::own_rows(generation(capabilities)), &[]),
        ProfileInterface::Pentium => (pentium::own_rows(has_mmx(capabilities)), &[]),
        ProfileInterface::NetBurst => (netburst::own_rows(capabilities.identity.model.into()), &[]),
    }
}

fn has_mmx(capabilities: &Capabilities) -> bool {
    capabilities.identity.leaf1_edx & crate::registers::cpuid::leaf1_edx::MMX != 0
}

fn generation(capabilities: &Capabilities) -> AmdGeneration {
    let identity = &capabilities.identity;
    AmdGeneration::from(identity.family.into(), identity.model.into())
}

/// In which layout raw selects are given; `None` where there are no counters.
#[must_use]
pub fn raw_family(capabilities: &Capabilities) -> Option<Family> {
    match capabilities.interface() {
        ProfileInterface::Default => None,
        ProfileInterface::Emon => Some(Family::Emon),
        ProfileInterface::Amd64 => Some(Family::Amd64(generation(capabilities))),
        ProfileInterface::Pentium => Some(Family::Pentium),
        ProfileInterface::P6 => Some(Family::P6),
        ProfileInterface::NetBurst => Some(Family::NetBurst {
            model: capabilities.identity.model.into(),
        }),
    }
}

/// Why a processor does not count a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The cause.
    pub error: ErrorCode,
    /// In words.
    pub why: &'static str,
}

const fn unsupported(why: &'static str) -> Result<(), Refusal> {
    Err(Refusal {
        error: ErrorCode::SourceNotSupported,
        why,
    })
}

/// Judges a row on one processor. `approximate`: rows that only approximate their names count as
/// supported.
pub fn support(capabilities: &Capabilities, row: &Row, approximate: bool) -> Result<(), Refusal> {
    match row.fit {
        Fit::Timer => return Ok(()),
        _ if capabilities.interface() == ProfileInterface::Default => {
            return unsupported(
                "this processor is used through the Default interface, which has a timer only",
            );
        }
        Fit::Northbridge => {
            return unsupported("northbridge: one shared set of counters for all cores of a node");
        }
        Fit::Unsupported => return unsupported(row.note),
        // halprof's own rows are named for what they count.
        Fit::Approximate if !approximate && !row.id.is_own() => {
            return Err(Refusal {
                error: ErrorCode::SourceApproximate,
                why: row.note,
            });
        }
        Fit::Exact | Fit::Approximate => {}
    }
    available(capabilities, row)
}

fn available(capabilities: &Capabilities, row: &Row) -> Result<(), Refusal> {
    use crate::registers::cpuid::available_events;
    if capabilities.interface() == ProfileInterface::Emon {
        let by_leaf_0a = available_events(capabilities.identity.leaf_0a);
        if emon::ebx_bit(row.id).is_some_and(|bit| by_leaf_0a >> bit & 1 == 0) {
            return unsupported("CPUID leaf 0x0A: the event is not available on this processor");
        }
        if intel::ebx_bit(row.id).is_some_and(|bit| capabilities.events >> bit & 1 == 0) {
            return unsupported(
                "CPUID leaf 0x0A or 0x23: the event is not available on this processor",
            );
        }
    }
    match row.select {
        Select::Fixed(index) if capabilities.fixed >> index & 1 == 0 => {
            unsupported("this processor does not have the fixed counter")
        }
        Select::NetBurst(event) => netburst_available(capabilities, &event),
        _ => Ok(()),
    }
}

/// Each of two threads that share the counters has one side of them.
fn netburst_available(
    capabilities: &Capabilities,
    event: &source::NetBurstSelect,
) -> Result<(), Refusal> {
    let second = capabilities.netburst.thread == 1;
    if second && matches!(event.upstream, source::Upstream::Replay { .. }) {
        return unsupported("one replay metric for a package: the first logical processor has it");
    }
    let [even, odd] = event.counters;
    let [even_escr, odd_escr] = event.escr_msr;
    let there = (even_escr != 0 && even & capabilities.counters != 0)
        || (odd_escr != 0 && odd & capabilities.counters != 0);
    if there {
        Ok(())
    } else {
        unsupported("no counter for this event on this logical processor's side")
    }
}

/// The counters that can count a row, in general.
#[must_use]
pub fn counters(capabilities: &Capabilities, row: &Row) -> CounterSet {
    match row.select {
        Select::EventSelect(select) if generation_is_15h(capabilities) => {
            row.counters & amd::family15h_counters(amd_event(select))
        }
        _ => row.counters,
    }
}

fn generation_is_15h(capabilities: &Capabilities) -> bool {
    capabilities.interface() == ProfileInterface::Amd64
        && generation(capabilities) == AmdGeneration::Family15h
}

/// AMD's event code: bits 7:0, and 35:32 as 11:8.
const fn amd_event(select: u64) -> u16 {
    (select & 0xFF | select >> 24 & 0xF00) as u16
}

/// What a row counts on this processor, by its manual's name, and what to know about that.
#[must_use]
pub fn describe(capabilities: &Capabilities, row: &'static Row) -> (&'static str, &'static str) {
    let (ProfileInterface::Amd64, Select::EventSelect(select), false) = (
        capabilities.interface(),
        row.select,
        row.id.is_own() || row.fit == Fit::Timer,
    ) else {
        return (row.counts, row.note);
    };
    let (generation, event) = (generation(capabilities), amd_event(select));
    let Some(name) = meaning(generation, event) else {
        return (
            "",
            "not documented on this family: the HAL offers it, expect no counts",
        );
    };
    let note = if mask_selects_nothing(generation, event, (select >> 8) as u8) {
        "needs a unit mask on this family, and the HAL's row has none: expect no counts"
    } else if generation >= AmdGeneration::Zen1 {
        verdict(event).unwrap_or(row.note)
    } else {
        row.note
    };
    (name, note)
}

/// The select as one number, in the family's layout (see [`source::raw`]); `None` where there is
/// none.
#[must_use]
pub fn select_word(select: &Select) -> Option<u64> {
    match *select {
        Select::None | Select::Fixed(_) => None,
        Select::EventSelect(word) => Some(word),
        Select::Cesr { event, clocks } => Some(u64::from(event) | u64::from(clocks) << 8),
        Select::NetBurst(event) => Some(u64::from(event.cccr) << 32 | u64::from(event.escr)),
    }
}
