//! What an AMD event code means on each family.
//!
//! The codes are those of the HAL's Amd64 table. Later families gave many of them another meaning,
//! or none. The name of an event never depends on its unit mask.

use crate::cpu::generation::AmdGeneration;

/// The meaning of one event code, as numbers of texts.
struct Event {
    /// Its name on K8, family 10h, family 15h and Zen 1 to Zen 5; 0 where it is not documented.
    names: [u8; 8],
    /// What became of it on Zen; 0 for a code that the HAL's table does not use.
    verdict: u8,
}

const fn event(names: [u8; 8], verdict: u8) -> Event {
    Event { names, verdict }
}

/// Whether a code belongs to the northbridge, where one set of counters serves all cores of a node:
/// bits 7:5 all set (BKDG for AMD Family 10h Processors, "Northbridge Events").
#[must_use]
pub const fn is_northbridge(event: u16) -> bool {
    event & 0xE0 == 0xE0
}

/// The manual's name for an event on this generation, or `None` where it is not documented there.
#[must_use]
pub fn meaning(generation: AmdGeneration, event: u16) -> Option<&'static str> {
    text(name(generation, event))
}

/// Whether an event is documented on this generation.
#[must_use]
pub fn is_documented(generation: AmdGeneration, event: u16) -> bool {
    name(generation, event) != 0
}

/// The number of an event's name; 0 for none.
fn name(generation: AmdGeneration, event: u16) -> u8 {
    let Some(row) = find(event) else {
        return 0;
    };
    let [k8, family10h, family15h, zen1, zen2, zen3, zen4, zen5] = row.names;
    match generation {
        AmdGeneration::K8 => k8,
        AmdGeneration::Family10h => family10h,
        AmdGeneration::Family15h => family15h,
        AmdGeneration::Family11h
        | AmdGeneration::Family12h
        | AmdGeneration::Family14h
        | AmdGeneration::Family16h
            if kept_from_k8(event) =>
        {
            k8
        }
        AmdGeneration::Zen1 => zen1,
        AmdGeneration::Zen2 => zen2,
        AmdGeneration::Zen3 => zen3,
        AmdGeneration::Zen4 => zen4,
        AmdGeneration::Zen5 => zen5,
        _ => 0,
    }
}

/// The number of an event's name on K8, or on family 10h if K8 has none; 0 if neither has.
pub(super) const fn first_name(event: u16) -> u16 {
    match find(event) {
        Some(Event { names: [0, family10h, ..], .. }) => *family10h as u16,
        Some(Event { names: [k8, ..], .. }) => *k8 as u16,
        None => 0,
    }
}

/// Whether families 11h, 12h, 14h and 16h keep the K8 meaning of an event (their BKDGs).
const fn kept_from_k8(event: u16) -> bool {
    matches!(event, 0x40 | 0x41 | 0x76 | 0x80 | 0x81 | 0xC0 | 0xC2 | 0xC3)
}

/// What became of a K8 event on Zen, in words; `None` for codes that the HAL's table does not use.
#[must_use]
pub fn verdict(event: u16) -> Option<&'static str> {
    text(find(event)?.verdict)
}

/// Whether the event is documented only with unit-mask bits and `unit_mask` selects none of them,
/// so that nothing is counted. Known only for the selects of the HAL's table.
#[must_use]
pub fn mask_selects_nothing(generation: AmdGeneration, event: u16, unit_mask: u8) -> bool {
    let word = NOTHING_FOR.get(usize::from(event / 64)).copied();
    // Few events have rows.
    word.unwrap_or(0) >> (event % 64) & 1 != 0
        && NOTHING.iter().any(|row| {
            row.event == event && row.mask == unit_mask && row.on >> generation as u16 & 1 != 0
        })
}

/// Whether an event counts something else on this generation than the name that it has from K8 says.
#[must_use]
pub fn counts_something_else(generation: AmdGeneration, event: u16) -> bool {
    let word = ELSE_ON_ZEN.get(usize::from(event / 64)).copied();
    generation >= AmdGeneration::Zen1 && word.unwrap_or(0) >> (event % 64) & 1 != 0
}

/// The events that do on every Zen that documents them, one bit each.
const ELSE_ON_ZEN: [u64; 4] = bits(generated!("amd64_else"));

/// A set of events, one bit each.
#[expect(
    clippy::indexing_slicing,
    reason = "out of range would not compile: the constants are computed by the compiler"
)]
const fn bits(events: &[u16]) -> [u64; 4] {
    let (mut bits, mut rest) = ([0; 4], events);
    while let [event, more @ ..] = rest {
        bits[(*event / 64) as usize] |= 1 << (*event % 64);
        rest = more;
    }
    bits
}

/// An event that counts nothing with a unit mask on some generations, one bit each.
struct Nothing {
    event: u16,
    mask: u8,
    on: u16,
}

const fn nothing(event: u16, mask: u8, generations: &[AmdGeneration]) -> Nothing {
    let (mut on, mut rest) = (0, generations);
    while let [generation, more @ ..] = rest {
        on |= 1 << *generation as u16;
        rest = more;
    }
    Nothing { event, mask, on }
}

static NOTHING: &[Nothing] = generated!("amd64_nothing");

/// The events that have a row in [`NOTHING`], one bit each.
#[expect(
    clippy::indexing_slicing,
    reason = "out of range would not compile: the constant is computed by the compiler"
)]
const NOTHING_FOR: [u64; 4] = {
    let (mut events, mut rest) = ([0; 4], NOTHING);
    while let [row, more @ ..] = rest {
        events[(row.event / 64) as usize] |= 1 << (row.event % 64);
        rest = more;
    }
    events
};

const fn find(event: u16) -> Option<&'static Event> {
    super::at(EVENTS, event as usize)
}

fn text(number: u8) -> Option<&'static str> {
    match number {
        0 => None,
        number => Some(super::text(number.into())),
    }
}

/// Events by code, including those that the HAL's Amd64 table does not use.
///
/// Source: the event lists of libpfm4 and Linux's perf, which name events as the BKDG and PPR of
/// each family do.
static EVENTS: &[Event] = generated!("amd64_events");
