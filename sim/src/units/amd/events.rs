//! What AMD's event selects count, by generation: only the rows of a table.

use crate::cpu::event::Event;

/// Processors that share event codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// Athlon.
    K7,
    /// Athlon 64, Opteron.
    K8,
    /// Barcelona and its successors.
    Family10h,
    /// Griffin.
    Family11h,
    /// Llano.
    Family12h,
    /// Bobcat.
    Family14h,
    /// Bulldozer to Excavator.
    Family15h,
    /// Jaguar, Puma.
    Family16h,
    /// Zen, Zen+, Hygon Dhyana.
    Zen1,
    Zen2,
    /// Zen 3, Zen 3+.
    Zen3,
    Zen4,
    Zen5,
    Zen6,
}

/// Family, first and last model, generation (AMD's revision guides of the families and its PPRs, by
/// the models that each is for; Linux, arch/x86/kernel/cpu/amd.c).
const GENERATIONS: [(u32, u32, u32, Generation); 25] = [
    (0x06, 0x00, 0xFF, Generation::K7),
    (0x0F, 0x00, 0xFF, Generation::K8),
    (0x10, 0x00, 0xFF, Generation::Family10h),
    (0x11, 0x00, 0xFF, Generation::Family11h),
    (0x12, 0x00, 0xFF, Generation::Family12h),
    (0x14, 0x00, 0xFF, Generation::Family14h),
    (0x15, 0x00, 0xFF, Generation::Family15h),
    (0x16, 0x00, 0xFF, Generation::Family16h),
    (0x17, 0x00, 0x2F, Generation::Zen1),
    (0x17, 0x30, 0x4F, Generation::Zen2),
    (0x17, 0x50, 0x5F, Generation::Zen1),
    (0x17, 0x60, 0x7F, Generation::Zen2),
    (0x17, 0x90, 0x91, Generation::Zen2),
    (0x17, 0xA0, 0xAF, Generation::Zen2),
    (0x18, 0x00, 0xFF, Generation::Zen1),
    (0x19, 0x00, 0x0F, Generation::Zen3),
    (0x19, 0x10, 0x1F, Generation::Zen4),
    (0x19, 0x20, 0x5F, Generation::Zen3),
    (0x19, 0x60, 0xAF, Generation::Zen4),
    (0x1A, 0x00, 0x2F, Generation::Zen5),
    (0x1A, 0x40, 0x4F, Generation::Zen5),
    (0x1A, 0x50, 0x5F, Generation::Zen6),
    (0x1A, 0x60, 0x7F, Generation::Zen5),
    (0x1A, 0x80, 0xAF, Generation::Zen6),
    (0x1A, 0xC0, 0xCF, Generation::Zen6),
];

impl Generation {
    /// The generation of a processor; `None` if its events are not known here.
    pub fn of(family: u32, model: u32) -> Option<Self> {
        GENERATIONS
            .iter()
            .find(|&&(of, first, last, _)| of == family && (first..=last).contains(&model))
            .map(|&(_, _, _, generation)| generation)
    }
}

/// One event, with the same code and meaning from one generation to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    first: Generation,
    last: Generation,
    /// Event select, 12 bits from family 10h on.
    pub event: u16,
    pub unit_mask: u8,
    pub counts: Event,
}

impl Row {
    pub fn is_on(&self, generation: Generation) -> bool {
        (self.first..=self.last).contains(&generation)
    }
}

/// The counters that can count an event, one bit each.
///
/// Family 15h ties groups of events to counters: 0x60-0x9F to counters 0-2 (Linux
/// events/amd/core.c).
pub fn counters(generation: Generation, event: u16) -> u32 {
    match (generation, event) {
        (Generation::Family15h, 0x60..=0x9F) => 0b111,
        _ => u32::MAX,
    }
}

/// The row of a select; `None` for an undocumented one, which counts nothing.
pub fn find(generation: Generation, event: u16, unit_mask: u8) -> Option<&'static Row> {
    let mut rows = ROWS.iter().filter(|row| row.is_on(generation));
    rows.find(|row| (row.event, row.unit_mask) == (event, unit_mask))
}

const fn row(first: Generation, last: Generation, event: u16, unit_mask: u8, counts: Event) -> Row {
    Row { first, last, event, unit_mask, counts }
}

/// Every event for which a workload has an amount.
///
/// Sources: AMD 22007E, appendix D, for K7; the BKDGs (BIOS and Kernel Developer's Guide) of families
/// 11h, 12h, 14h and 16h; libpfm4's amd64_events_*.h of every other generation. Of these others,
/// Linux has cycles, the data-cache misses of family 15h, Zen and Zen 2 and the last-level misses of
/// every Zen (arch/x86/events/amd/core.c), the first-level caches of Zen and Zen 2
/// (pmu-events/arch/x86/amdzen2) and the data cache of Zen 3 and Zen 5 (amdzen3, amdzen5)
/// and every row of Zen 6 (amdzen6).
pub const ROWS: &[Row] = &[
    row(Generation::K7, Generation::Zen6, 0xC0, 0x00, Event::Instructions),
    row(Generation::K7, Generation::Zen6, 0x76, 0x00, Event::Cycles),
    row(Generation::K7, Generation::Zen6, 0xC2, 0x00, Event::Branches),
    row(Generation::K7, Generation::Zen6, 0xC3, 0x00, Event::BranchMisses),
    row(Generation::K7, Generation::Zen2, 0x40, 0x00, Event::L1dAccesses),
    row(Generation::Zen3, Generation::Zen6, 0x29, 0x07, Event::L1dAccesses),
    row(Generation::K7, Generation::Family14h, 0x41, 0x00, Event::L1dMisses),
    row(Generation::Family15h, Generation::Family15h, 0x41, 0x03, Event::L1dMisses),
    row(Generation::Family16h, Generation::Family16h, 0x41, 0x00, Event::L1dMisses),
    row(Generation::Zen1, Generation::Zen2, 0x60, 0xC8, Event::L1dMisses),
    row(Generation::Zen3, Generation::Zen3, 0x60, 0xE8, Event::L1dMisses),
    row(Generation::Zen4, Generation::Zen6, 0x44, 0xFF, Event::L1dMisses),
    row(Generation::K7, Generation::Zen2, 0x80, 0x00, Event::L1iFetches),
    row(Generation::Zen3, Generation::Zen5, 0x18E, 0x1F, Event::L1iFetches),
    row(Generation::K7, Generation::Zen2, 0x81, 0x00, Event::L1iMisses),
    row(Generation::Zen3, Generation::Zen5, 0x18E, 0x18, Event::L1iMisses),
    row(Generation::Zen6, Generation::Zen6, 0x29C, 0xDF, Event::L1iMisses),
    row(Generation::K8, Generation::K8, 0xCB, 0x0F, Event::FpOperations),
    row(Generation::Family10h, Generation::Family10h, 0xCB, 0x07, Event::FpOperations),
    row(Generation::Family15h, Generation::Family15h, 0xCB, 0x07, Event::FpOperations),
    row(Generation::Zen1, Generation::Zen5, 0xCB, 0x07, Event::FpOperations),
    row(Generation::Zen6, Generation::Zen6, 0x08, 0x3F, Event::FpOperations),
    row(Generation::K8, Generation::K8, 0x7E, 0x07, Event::LlcMisses),
    row(Generation::Family10h, Generation::Family10h, 0x7E, 0x0F, Event::LlcMisses),
    row(Generation::Family15h, Generation::Family15h, 0x7E, 0x17, Event::LlcMisses),
    row(Generation::Zen1, Generation::Zen6, 0x64, 0x09, Event::LlcMisses),
];
