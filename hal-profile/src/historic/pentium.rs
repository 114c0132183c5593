//! The Pentium interface: sources of the Pentium (P5) and of the Pentium with MMX technology.
//!
//! This family has no overflow interrupt: its sources can only be counted.

use crate::historic::select::Select as Historic;
use crate::source::{ANY, CounterSet, Fit, NO_COUNTER, Row, Select, generated};

const fn row(id: u32, fit: Fit, event: u8, clocks: bool, counters: CounterSet) -> Row {
    Row::new(id, fit, Select::Historic(Historic::Cesr { event, clocks }), counters)
}

/// A documented event.
struct Event {
    row: Row,
    /// It was introduced with MMX technology.
    mmx_only: bool,
}

/// The sources that wdm.h names, by number.
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

/// The events of the Pentium, then those introduced with MMX. The number of one that exists on
/// counter 1 only is apart: its code has another meaning on counter 0.
///
/// An event that the manual describes in clocks is counted with CC bit 2 set; if the wording leaves
/// doubt, the row is approximate.
///
/// Source: Intel SDM, "Pentium Processor Performance Monitoring Events".
static OWN: &[Event] = generated!("p5_own");
