//! What the event selects of the P6 family count, for those that are among the model's events.

use crate::cpu::event::Event;

/// One event with one unit mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) event_select: u8,
    pub(super) unit_mask: u8,
    /// The manual's name.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the reader, and compared in tests"))]
    pub(super) name: &'static str,
    /// The counters that can count it.
    pub(super) counters: &'static [usize],
    /// What it counts.
    pub(super) event: Event,
}

/// SDM vol. 3B, sections 19.16 and 19.17: events that every P6 processor, Pentium M included, has
/// with the same meaning. Every other select counts nothing in the model, and neither does an L2
/// event without a MESI state in its unit mask.
pub(super) const ROWS: [Row; 11] = [
    // All requests to the L2, whatever the state of the line.
    row(0x2E, 0x0F, "L2_RQSTS", Event::LlcReferences),
    // Requests that found the line invalid: the closest to an L2 miss.
    row(0x2E, 0x01, "L2_RQSTS", Event::LlcMisses),
    row(0x43, 0x00, "DATA_MEM_REFS", Event::L1dAccesses),
    row(0x45, 0x00, "DCU_LINES_IN", Event::L1dMisses),
    row(0x79, 0x00, "CPU_CLK_UNHALTED", Event::Cycles),
    row(0x80, 0x00, "IFU_IFETCH", Event::L1iFetches),
    row(0x81, 0x00, "IFU_IFETCH_MISS", Event::L1iMisses),
    row(0xC0, 0x00, "INST_RETIRED", Event::Instructions),
    Row { counters: &[0], ..row(0xC1, 0x00, "FLOPS", Event::FpOperations) },
    row(0xC4, 0x00, "BR_INST_RETIRED", Event::Branches),
    row(0xC5, 0x00, "BR_MISS_PRED_RETIRED", Event::BranchMisses),
];

const fn row(event_select: u8, unit_mask: u8, name: &'static str, event: Event) -> Row {
    Row { event_select, unit_mask, name, counters: &[0, 1], event }
}

/// What a select counts on `counter`.
pub(super) fn lookup(event_select: u8, unit_mask: u8, counter: usize) -> Option<Event> {
    ROWS.iter()
        .find(|row| row.event_select == event_select && row.unit_mask == unit_mask)
        .filter(|row| row.counters.contains(&counter))
        .map(|row| row.event)
}
