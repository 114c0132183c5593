//! Which sources a processor has, and which of them it supports.

use crate::cpu::capabilities::Capabilities;
use crate::cpu::generation::AmdGeneration;
use crate::historic::catalog as historic;
use crate::source::amd64_events::{counts_something_else, is_documented, mask_selects_nothing};
use crate::source::raw::Family;
use crate::source::{self, ANY, CounterSet, Fit, Row, Select, amd, amd64, emon, intel};
use shared_types::{ErrorCode, ProfileInterface, ProfileSource, SourceNote, SourceTable};

/// Every source of a machine whose boot processor has these capabilities: first the table of the
/// HAL's interface, then that of the interface in use, then halprof's own.
pub fn rows(capabilities: &Capabilities) -> impl Iterator<Item = &'static Row> {
    let hal = table(capabilities, capabilities.selection.hal.interface);
    let used = table(capabilities, capabilities.interface());
    let not_in_hal = move |row: &&Row| source::find(hal, row.id).is_none();
    let (own, more) = own_tables(capabilities);
    hal.iter()
        .chain(used.iter().filter(not_in_hal))
        .chain(own)
        .chain(more)
        .chain(historic::own_rows(capabilities))
}

/// Finds a row by number, if the machine has it.
pub fn find(capabilities: &Capabilities, id: ProfileSource) -> Option<&'static Row> {
    if id.is_own() {
        return find_own(capabilities, id);
    }
    let hal = capabilities.selection.hal.interface;
    source::find(table(capabilities, capabilities.interface()), id)
        .or_else(|| source::find(table(capabilities, hal), id))
}

fn find_own(capabilities: &Capabilities, id: ProfileSource) -> Option<&'static Row> {
    let (own, more) = own_tables(capabilities);
    source::find(own, id)
        .or_else(|| source::find(more, id))
        .or_else(|| historic::own_rows(capabilities).find(|row| row.id == id))
}

/// Whether the table of the HAL's own interface has this source.
pub fn is_hal(capabilities: &Capabilities, id: ProfileSource) -> bool {
    let hal = capabilities.selection.hal.interface;
    source::find(table(capabilities, hal), id).is_some()
}

/// The table that names a source of [`rows`].
pub fn source_table(capabilities: &Capabilities, id: ProfileSource) -> SourceTable {
    let used = capabilities.interface();
    let hal = capabilities.selection.hal.interface;
    let interface = if is_hal(capabilities, id) { hal } else { used };
    match interface {
        ProfileInterface::Default => SourceTable::Default,
        ProfileInterface::Emon => SourceTable::Emon,
        ProfileInterface::Amd64 if used == ProfileInterface::Amd64 => {
            capabilities.generation.source_table()
        }
        ProfileInterface::Amd64 => SourceTable::Amd64,
        ProfileInterface::Pentium | ProfileInterface::P6 | ProfileInterface::NetBurst => {
            historic::source_table(capabilities)
        }
    }
}

fn table(capabilities: &Capabilities, interface: ProfileInterface) -> &'static [Row] {
    match interface {
        ProfileInterface::Emon => emon::ROWS,
        ProfileInterface::Amd64 => amd64::ROWS,
        ProfileInterface::Default => source::default::ROWS,
        ProfileInterface::Pentium | ProfileInterface::P6 | ProfileInterface::NetBurst => {
            historic::table(capabilities, interface)
        }
    }
}

/// halprof's own rows, in at most two tables.
fn own_tables(capabilities: &Capabilities) -> (&'static [Row], &'static [Row]) {
    match capabilities.interface() {
        ProfileInterface::Emon => (intel::FIXED, intel::ARCHITECTURAL),
        ProfileInterface::Amd64 => (amd::own_rows(capabilities.generation), &[]),
        _ => (&[], &[]),
    }
}

/// The layout of raw selects; `None` if there are no counters.
pub fn raw_family(capabilities: &Capabilities) -> Option<Family> {
    match capabilities.interface() {
        ProfileInterface::Emon => Some(Family::Emon { more: capabilities.select_bits }),
        ProfileInterface::Amd64 => Some(Family::Amd64(capabilities.identity.family)),
        _ => historic::raw_family(capabilities).map(Family::Historic),
    }
}

/// Why a processor does not count a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub error: ErrorCode,
    pub note: SourceNote,
}

const fn unsupported(note: SourceNote) -> Result<(), Refusal> {
    Err(Refusal { error: ErrorCode::SourceNotSupported, note })
}

const fn approximate_only(note: SourceNote) -> Result<(), Refusal> {
    Err(Refusal { error: ErrorCode::SourceApproximate, note })
}

/// Whether one processor supports a row. `approximate`: rows that only approximate their names are
/// supported too.
pub fn support(capabilities: &Capabilities, row: &Row, approximate: bool) -> Result<(), Refusal> {
    match row.fit {
        Fit::Timer => return Ok(()),
        _ if capabilities.interface() == ProfileInterface::Default => {
            return unsupported(SourceNote::DefaultInterface);
        }
        Fit::Northbridge => return unsupported(SourceNote::Northbridge),
        Fit::Unsupported => return unsupported(SourceNote::OfTable),
        // halprof's own rows are named for what they count.
        Fit::Approximate if !approximate && !row.id.is_own() => {
            return approximate_only(SourceNote::OfTable);
        }
        Fit::Exact | Fit::Approximate => {}
    }
    if !approximate {
        known_on_amd(capabilities, row)?;
    }
    available(capabilities, row)
}

/// The HAL offers the rows of its Amd64 table on every AMD processor. Those that the family does
/// not document, or that count something else there, are available only to a session that asks for
/// approximate sources.
fn known_on_amd(capabilities: &Capabilities, row: &Row) -> Result<(), Refusal> {
    let Some((generation, event, _)) = hal_amd_event(capabilities, row) else {
        return Ok(());
    };
    match note(capabilities, row) {
        SourceNote::OfTable if counts_something_else(generation, event) => {
            approximate_only(SourceNote::OfTable)
        }
        SourceNote::OfTable => Ok(()),
        SourceNote::UnknownModel => approximate_only(SourceNote::UnknownModel),
        note => unsupported(note),
    }
}

/// What the table's note does not say of a row on this processor.
pub fn note(capabilities: &Capabilities, row: &Row) -> SourceNote {
    let Some((generation, event, unit_mask)) = hal_amd_event(capabilities, row) else {
        return SourceNote::OfTable;
    };
    if generation == AmdGeneration::Unknown {
        SourceNote::UnknownModel
    } else if !is_documented(generation, event) {
        SourceNote::NotDocumented
    } else if mask_selects_nothing(generation, event, unit_mask) {
        SourceNote::MaskSelectsNothing
    } else {
        SourceNote::OfTable
    }
}

/// Whether a processor counts the row only for a session that accepts another event than the name
/// says.
pub fn approximates(capabilities: &Capabilities, row: &Row) -> bool {
    support(capabilities, row, false)
        .is_err_and(|refusal| refusal.error == ErrorCode::SourceApproximate)
}

/// The generation, the event and the unit mask of a row of the HAL's Amd64 table that counts.
fn hal_amd_event(capabilities: &Capabilities, row: &Row) -> Option<(AmdGeneration, u16, u8)> {
    let of_hal = capabilities.interface() == ProfileInterface::Amd64
        && !row.id.is_own()
        && row.fit != Fit::Timer;
    let select = row.event_select().filter(|_| of_hal)?;
    Some((capabilities.generation, amd_event(select), (select >> 8) as u8))
}

fn available(capabilities: &Capabilities, row: &Row) -> Result<(), Refusal> {
    use crate::cpu::registers::cpuid::available_events;
    if capabilities.interface() == ProfileInterface::Emon {
        let by_leaf_0a = available_events(capabilities.identity.leaf_0a);
        if emon::ebx_bit(row.id).is_some_and(|bit| by_leaf_0a >> bit & 1 == 0) {
            return unsupported(SourceNote::NotInLeaf0A);
        }
        if intel::ebx_bit(row.id).is_some_and(|bit| capabilities.events >> bit & 1 == 0) {
            return unsupported(SourceNote::NotInLeaf0AOr23);
        }
    }
    match row.select {
        Select::Fixed(index) if capabilities.fixed >> index & 1 == 0 => {
            unsupported(SourceNote::NoFixedCounter)
        }
        Select::Fixed(_) => Ok(()),
        Select::Historic(select) => {
            historic::unavailable(capabilities, &select).map_or(Ok(()), unsupported)
        }
        _ if counters(capabilities, row) & capabilities.counters == 0
            && row.fixed & capabilities.fixed == 0 =>
        {
            unsupported(SourceNote::NoCounter)
        }
        _ => Ok(()),
    }
}

/// The general counters that can count a row.
pub fn counters(capabilities: &Capabilities, row: &Row) -> CounterSet {
    match row.event_select() {
        Some(select) => row.counters & event_constraint(capabilities, select),
        None => row.counters,
    }
}

/// The counters that can count a select, regardless of its row.
pub fn constraint(capabilities: &Capabilities, select: &Select) -> CounterSet {
    match *select {
        Select::EventSelect(select) => event_constraint(capabilities, select),
        _ => ANY,
    }
}

/// The counters that can count an event select.
fn event_constraint(capabilities: &Capabilities, select: u64) -> CounterSet {
    match capabilities.interface() {
        ProfileInterface::Amd64 => {
            amd::event_counters(capabilities.identity.family, amd_event(select))
        }
        _ => ANY,
    }
}

/// Whether a select is of an event that takes a counter of even number and, with Merge, the next.
pub fn takes_pair(capabilities: &Capabilities, select: &Select) -> bool {
    capabilities.interface() == ProfileInterface::Amd64
        && matches!(*select, Select::EventSelect(select)
            if amd::takes_pair(capabilities.identity.family, amd_event(select)))
}

/// AMD's event code: bits 7:0, and 35:32 as 11:8.
const fn amd_event(select: u64) -> u16 {
    (select & 0xFF | select >> 24 & 0xF00) as u16
}

/// The select as one number, in the family's layout (see [`source::raw`]); `None` if there is none.
pub fn select_word(select: &Select) -> Option<u64> {
    match *select {
        Select::None | Select::Fixed(_) => None,
        Select::EventSelect(word) => Some(word),
        Select::Historic(select) => Some(historic::select_word(&select)),
    }
}
