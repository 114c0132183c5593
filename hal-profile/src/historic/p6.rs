//! The P6 interface: sources of the Pentium Pro, Pentium II, Celeron, Pentium III and Pentium M.

use crate::source::{ANY, CounterSet, Fit, NO_COUNTER, Row, Select, generated};

/// A set of P6 processors, as the manual names them.
pub type Processors = u8;

/// Pentium Pro.
pub const PPRO: Processors = 1 << 0;
/// Pentium II.
pub const PII: Processors = 1 << 1;
/// Celeron of the Pentium II's generation.
pub const CELERON: Processors = 1 << 2;
/// Pentium III.
pub const PIII: Processors = 1 << 3;
/// Pentium M.
pub const PM: Processors = 1 << 4;

/// The processors that a model number of family 6 can stand for; none if the model is not P6. The
/// model number does not distinguish a Pentium II from a Celeron.
pub const fn processors(model: u32) -> Processors {
    match model {
        0x01 => PPRO,
        0x03 | 0x05 | 0x06 => PII | CELERON,
        0x07 | 0x08 | 0x0A | 0x0B => PIII,
        0x09 | 0x0D | 0x15 => PM,
        _ => 0,
    }
}

/// The counters that can count an event; any counter for an undocumented code.
pub fn counters(event: u8) -> CounterSet {
    let known = EVENTS
        .iter()
        .find(|known| known.row.event_select().is_some_and(|select| select as u8 == event));
    known.map_or(ANY, |known| known.row.counters)
}

const fn row(id: u32, fit: Fit, select: u64, counters: CounterSet) -> Row {
    Row::new(id, fit, Select::EventSelect(select), counters)
}

/// A documented event, and the processors that have it.
struct Event {
    processors: Processors,
    row: Row,
}

const fn event(
    id: u32,
    code: u8,
    unit_mask: u8,
    counters: CounterSet,
    processors: Processors,
) -> Event {
    let select = 0x30000 | (unit_mask as u64) << 8 | code as u64;
    Event { processors, row: row(id, Fit::Exact, select, counters) }
}

/// halprof's own sources on any of these processors: every documented event with its widest unit
/// mask. Three codes (0xCE, 0xD8, 0xD9) have another name on the Pentium M, but keep the same
/// number.
pub fn own_rows(processors: Processors) -> impl Iterator<Item = &'static Row> {
    EVENTS.iter().filter(move |event| event.processors & processors != 0).map(|event| &event.row)
}

/// The sources that wdm.h names, by number.
///
/// No HAL is known to have had sources on this family: halprof chose the event for each name,
/// following the HAL design note and the architectural events that descend from these.
pub static ROWS: &[Row] = generated!("p6");

/// Source: Intel SDM, "P6 Family Processor Performance Monitoring Events" and "Pentium M Processor
/// Performance Monitoring Events".
static EVENTS: &[Event] = generated!("p6_own");
