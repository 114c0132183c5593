//! The NetBurst interface: sources of the Pentium 4 and its Xeons.
//!
//! An event is counted by a chain of registers: an ESCR holds the event and its mask, and a CCCR
//! selects the ESCR for its counter. Each event has a pair of ESCRs, one even and one odd, and each
//! feeds its own counters of the group.

use crate::historic::select::{NetBurstSelect, Select as Historic, Upstream};
use crate::source::{CounterSet, Fit, NO_COUNTER, Row, Select, generated};

/// ESCR bits 30:25: event select.
pub const EVENT_SELECT: u32 = 0x3F << 25;
/// ESCR bits 24:9: event mask.
pub const EVENT_MASK: u32 = 0xFFFF << 9;
/// CCCR bits 15:13: selects an ESCR of the group.
pub const ESCR_SELECT: u32 = 7 << 13;
/// CCCR bit 18: compare the input with the threshold.
pub const COMPARE: u32 = 1 << 18;
/// CCCR bit 19: count when the input is not above the threshold.
pub const COMPLEMENT: u32 = 1 << 19;
/// CCCR bits 23:20.
pub const THRESHOLD: u32 = 0xF << 20;
/// CCCR bit 24: count rising edges of the comparison.
pub const EDGE: u32 = 1 << 24;

/// The counters of a group: those fed by even ESCRs, and those fed by odd ones.
type Group = [CounterSet; 2];

/// Counter 1 is never used: the enable bit of its CCCR does not work reliably (Linux, p4.c).
const BPU: Group = [1 << 0, 1 << 2 | 1 << 3];
const MS: Group = [1 << 4 | 1 << 5, 1 << 6 | 1 << 7];
const FLAME: Group = [1 << 8 | 1 << 9, 1 << 10 | 1 << 11];
const IQ: Group = [1 << 12 | 1 << 13 | 1 << 16, 1 << 14 | 1 << 15 | 1 << 17];
const GROUPS: [Group; 4] = [BPU, MS, FLAME, IQ];

const fn count(
    escr: u32,
    cccr: u32,
    escr_msr: [u16; 2],
    counters: Group,
    upstream: Upstream,
) -> NetBurstSelect {
    NetBurstSelect { escr, cccr, escr_msr, counters, upstream }
}

const fn row(id: u32, fit: Fit, select: &'static NetBurstSelect) -> Row {
    let counters = select.counters[0] | select.counters[1];
    Row::new(id, fit, Select::Historic(Historic::NetBurst(*select)), counters)
}

/// A documented event.
struct Event {
    row: Row,
    first_model: u8,
    /// Every documented event mask bit, in its ESCR position.
    documented: u32,
}

const fn own(id: u32, mask: u32, first_model: u8, select: &'static NetBurstSelect) -> Event {
    Event { row: row(id, Fit::Exact, select), first_model, documented: mask << 9 }
}

fn events(model: u32) -> impl Iterator<Item = &'static Event> {
    OWN.iter().filter(move |event| u32::from(event.first_model) <= model)
}

/// halprof's own sources on a model of family 0Fh: the documented events that can be counted on
/// their own, each with all of its mask bits, except those of FSB_data_activity that are mutually
/// exclusive.
pub fn own_rows(model: u32) -> impl Iterator<Item = &'static Row> {
    events(model).map(|event| &event.row)
}

/// The documented event with this event select, ESCR select and group of counters (0 BPU, 1 MS, 2
/// FLAME, 3 IQ): the registers that count it, and every event mask bit that it documents.
pub(crate) fn documented(
    model: u32,
    event_select: u32,
    escr_select: u32,
    group: usize,
) -> Option<NetBurstSelect> {
    let group = GROUPS.get(group)?;
    events(model).find_map(|event| match event.row.select {
        Select::Historic(Historic::NetBurst(select))
            if select.escr & EVENT_SELECT == event_select
                && select.cccr & ESCR_SELECT == escr_select
                && (select.counters[0] == group[0] || select.counters[1] == group[1]) =>
        {
            Some(NetBurstSelect {
                escr: select.escr | event.documented,
                cccr: escr_select,
                ..select
            })
        }
        _ => None,
    })
}

/// The sources that wdm.h names, by number.
///
/// No HAL is known to have had sources on this family: halprof chose the event for each name,
/// following the HAL design note.
pub static ROWS: &[Row] = generated!("netburst");

/// Events by number.
///
/// Source: Intel SDM, "Pentium 4 and Intel Xeon Processor Performance Monitoring Events".
/// IOQ_allocation, BSQ_allocation and FSB_data_activity count by edge, as the manual requires.
static OWN: &[Event] = generated!("netburst_own");
