//! The Pentium interface: sources of the Pentium (P5) and of the Pentium with MMX technology.
//!
//! This family has no overflow interrupt: its sources can only be counted.

use shared_types::ProfileSource;

use crate::historic::select::Select as Historic;
use crate::source::{ANY, CounterSet, Fit, NO_COUNTER, Row, Select, generated};

const COUNTER1: CounterSet = 0b10;

/// The first number of halprof's own Pentium sources. The event code is added, and
/// [`COUNTER1_MEANING`] for an event that exists on counter 1 only.
pub const FIRST_OWN: u32 = 0x8000_0500;

/// Added to the number of an event that exists on counter 1 only: its code has another meaning on
/// counter 0.
pub const COUNTER1_MEANING: u32 = 0x100;

#[expect(clippy::too_many_arguments, reason = "a row of a table, in the order of its columns")]
const fn row(
    id: u32,
    symbol: u16,
    fit: Fit,
    counts: u16,
    event: u8,
    clocks: bool,
    counters: CounterSet,
    note: u16,
) -> Row {
    Row {
        id: ProfileSource(id),
        symbol,
        select: Select::Historic(Historic::Cesr { event, clocks }),
        counters,
        fixed: NO_COUNTER,
        fit,
        counts,
        note,
    }
}

/// A documented event.
struct Event {
    row: Row,
    /// It was introduced with MMX technology.
    mmx_only: bool,
}

#[expect(clippy::too_many_arguments, reason = "a row of a table, in the order of its columns")]
const fn own(
    event: u8,
    name: u16,
    clocks: bool,
    counters: CounterSet,
    fit: Fit,
    mmx_only: bool,
    counts: u16,
    note: u16,
) -> Event {
    let meaning = if counters == COUNTER1 { COUNTER1_MEANING } else { 0 };
    let row = Row {
        id: ProfileSource(FIRST_OWN + meaning + event as u32),
        symbol: name,
        select: Select::Historic(Historic::Cesr { event, clocks }),
        counters,
        fixed: NO_COUNTER,
        fit,
        counts,
        note,
    };
    Event { row, mmx_only }
}

/// The sources that wdm.h names, by number.
#[must_use]
pub const fn rows(mmx: bool) -> &'static [Row] {
    if mmx { P5MMX } else { P5 }
}

/// halprof's own sources: every documented event.
pub fn own_rows(mmx: bool) -> impl Iterator<Item = &'static Row> {
    OWN.iter().filter(move |event| mmx || !event.mmx_only).map(|event| &event.row)
}

/// No HAL is known to have had sources on this family: halprof chose the event for each name,
/// following the HAL design note.
static P5: &[Row] = generated!("p5");

static P5MMX: &[Row] = generated!("p5mmx");

/// The events of the Pentium, then those introduced with MMX.
///
/// An event that the manual describes in clocks is counted with CC bit 2 set; if the wording leaves
/// doubt, the row is approximate.
///
/// Source: Intel SDM, "Pentium Processor Performance Monitoring Events".
static OWN: &[Event] = generated!("p5_own");
