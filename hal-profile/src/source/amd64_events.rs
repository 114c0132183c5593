//! What an AMD event code means on each family.
//!
//! The codes are those of the HAL's Amd64 table. Later families gave many of them another meaning,
//! or none.

use crate::cpu::generation::AmdGeneration;

/// Whether a code of families 0Fh to 16h belongs to the northbridge, where one set of counters serves
/// all cores of a node: bits 7:5 all set (BKDG for AMD Family 10h Processors, "Northbridge Events").
pub const fn is_northbridge(event: u16) -> bool {
    event & 0xE0 == 0xE0
}

pub fn is_documented(generation: AmdGeneration, event: u16) -> bool {
    let on = DOCUMENTED.get(usize::from(event)).copied();
    on.unwrap_or(0) >> generation as u16 & 1 != 0
}

/// Whether the event is documented only with unit-mask bits and `unit_mask` selects none of them,
/// so that nothing is counted. Known only for the selects of the HAL's table.
pub fn mask_selects_nothing(generation: AmdGeneration, event: u16, unit_mask: u8) -> bool {
    NOTHING.iter().any(|row| {
        row.event == event && row.mask == unit_mask && row.on >> generation as u16 & 1 != 0
    })
}

/// Whether an event counts something else on this generation than the name that it has from K8 says.
pub fn counts_something_else(generation: AmdGeneration, event: u16) -> bool {
    generation >= AmdGeneration::Zen1 && ELSE_ON_ZEN.contains(&event)
}

/// The events that do on every Zen that documents them.
static ELSE_ON_ZEN: &[u16] = generated!("amd64_else");

/// An event that counts nothing with a unit mask on some generations, one bit each.
struct Nothing {
    event: u16,
    mask: u8,
    on: u16,
}

/// A set of generations, one bit each.
const fn generations(all: &[AmdGeneration]) -> u16 {
    let (mut on, mut rest) = (0, all);
    while let [generation, more @ ..] = rest {
        on |= 1 << *generation as u16;
        rest = more;
    }
    on
}

static NOTHING: &[Nothing] = generated!("amd64_nothing");

/// The generations that document each event, by code.
///
/// Source: the event lists of libpfm4 and Linux's perf, which name events as the BKDG and PPR of
/// each family do; for families 11h, 12h, 14h and 16h their BKDGs.
static DOCUMENTED: &[u16] = generated!("amd64_documented");
