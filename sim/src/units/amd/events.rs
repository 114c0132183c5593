//! What AMD's event selects count, by generation: only the rows of a table.

use crate::cpu::event::Event;

/// Processors that share event codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Zen 2.
    Zen2,
    /// Zen 3, Zen 3+.
    Zen3,
    /// Zen 4.
    Zen4,
    /// Zen 5.
    Zen5,
}

/// Family, first and last model, generation (revision guides of the families).
const GENERATIONS: [(u32, u32, u32, Generation); 17] = [
    (0x06, 0x00, 0xFF, Generation::K7),
    (0x0F, 0x00, 0xFF, Generation::K8),
    (0x10, 0x00, 0xFF, Generation::Family10h),
    (0x11, 0x00, 0xFF, Generation::Family11h),
    (0x12, 0x00, 0xFF, Generation::Family12h),
    (0x14, 0x00, 0xFF, Generation::Family14h),
    (0x15, 0x00, 0xFF, Generation::Family15h),
    (0x16, 0x00, 0xFF, Generation::Family16h),
    (0x17, 0x00, 0x2F, Generation::Zen1),
    (0x17, 0x30, 0xFF, Generation::Zen2),
    (0x18, 0x00, 0xFF, Generation::Zen1),
    (0x19, 0x00, 0x0F, Generation::Zen3),
    (0x19, 0x10, 0x1F, Generation::Zen4),
    (0x19, 0x20, 0x5F, Generation::Zen3),
    (0x19, 0x60, 0xAF, Generation::Zen4),
    (0x1A, 0x00, 0xFF, Generation::Zen5),
    // Family 19h parts beyond the known models count as Zen 4, the latest of the family.
    (0x19, 0xB0, 0xFF, Generation::Zen4),
];

impl Generation {
    /// The generation of a processor; `None` if its events are not known here.
    #[must_use]
    pub fn of(family: u32, model: u32) -> Option<Self> {
        GENERATIONS
            .iter()
            .find(|&&(of, first, last, _)| of == family && (first..=last).contains(&model))
            .map(|&(_, _, _, generation)| generation)
    }
}

/// One event of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The generation in which the code has this meaning.
    pub generation: Generation,
    /// Event select, 12 bits from family 10h on.
    pub event: u16,
    /// Unit mask.
    pub unit_mask: u8,
    /// What it counts.
    pub counts: Event,
    /// The document or well-known list that says so.
    pub evidence: &'static str,
}

impl Row {
    /// The counters that can count it, one bit each.
    ///
    /// Family 15h ties groups of events to counters: 0x60-0x9F to counters 0-2 (Linux
    /// events/amd/core.c).
    #[must_use]
    pub fn counters(&self) -> u32 {
        match (self.generation, self.event) {
            (Generation::Family15h, 0x60..=0x9F) => 0b111,
            _ => u32::MAX,
        }
    }
}

/// The row of a select; `None` for an undocumented one, which counts nothing.
#[must_use]
pub fn find(generation: Generation, event: u16, unit_mask: u8) -> Option<&'static Row> {
    ROWS.iter()
        .find(|row| (row.generation, row.event, row.unit_mask) == (generation, event, unit_mask))
}

const fn row(
    generation: Generation,
    event: u16,
    unit_mask: u8,
    counts: Event,
    evidence: &'static str,
) -> Row {
    Row { generation, event, unit_mask, counts, evidence }
}

/// Every event that a workload has an amount for. BKDG: BIOS and Kernel Developer's Guide of the
/// family.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    // K7
    row(Generation::K7, 0xC0, 0x00, Event::Instructions, "AMD 22007E, appendix D"),
    row(Generation::K7, 0xC2, 0x00, Event::Branches, "AMD 22007E, appendix D"),
    row(Generation::K7, 0x41, 0x00, Event::L1dMisses, "AMD 22007E, appendix D"),
    row(Generation::K7, 0x81, 0x00, Event::L1iMisses, "AMD 22007E, appendix D"),
    row(Generation::K7, 0xC3, 0x00, Event::BranchMisses, "AMD 22007E, appendix D"),
    row(Generation::K7, 0x76, 0x00, Event::Cycles, "AMD 22007E, appendix D"),
    row(Generation::K7, 0x80, 0x00, Event::L1iFetches, "AMD 22007E, appendix D"),
    row(Generation::K7, 0x40, 0x00, Event::L1dAccesses, "AMD 22007E, appendix D"),
    // K8
    row(Generation::K8, 0xC0, 0x00, Event::Instructions, "libpfm4 amd64_events_k8.h"),
    row(Generation::K8, 0x76, 0x00, Event::Cycles, "Linux amd/core.c"),
    row(Generation::K8, 0xC2, 0x00, Event::Branches, "libpfm4 amd64_events_k8.h"),
    row(Generation::K8, 0xC3, 0x00, Event::BranchMisses, "libpfm4 amd64_events_k8.h"),
    row(Generation::K8, 0x40, 0x00, Event::L1dAccesses, "libpfm4 amd64_events_k8.h"),
    row(Generation::K8, 0x41, 0x00, Event::L1dMisses, "libpfm4 amd64_events_k8.h"),
    row(Generation::K8, 0x80, 0x00, Event::L1iFetches, "libpfm4 amd64_events_k8.h"),
    row(Generation::K8, 0x81, 0x00, Event::L1iMisses, "libpfm4 amd64_events_k8.h"),
    row(Generation::K8, 0xCB, 0x0F, Event::FpOperations, "libpfm4 amd64_events_k8.h"),
    row(Generation::K8, 0x7E, 0x07, Event::LlcMisses, "libpfm4 amd64_events_k8.h"),
    // Family10h
    row(Generation::Family10h, 0xC0, 0x00, Event::Instructions, "libpfm4 amd64_events_fam10h.h"),
    row(Generation::Family10h, 0x76, 0x00, Event::Cycles, "Linux amd/core.c"),
    row(Generation::Family10h, 0xC2, 0x00, Event::Branches, "libpfm4 amd64_events_fam10h.h"),
    row(Generation::Family10h, 0xC3, 0x00, Event::BranchMisses, "libpfm4 amd64_events_fam10h.h"),
    row(Generation::Family10h, 0x40, 0x00, Event::L1dAccesses, "libpfm4 amd64_events_fam10h.h"),
    row(Generation::Family10h, 0x41, 0x00, Event::L1dMisses, "libpfm4 amd64_events_fam10h.h"),
    row(Generation::Family10h, 0x80, 0x00, Event::L1iFetches, "libpfm4 amd64_events_fam10h.h"),
    row(Generation::Family10h, 0x81, 0x00, Event::L1iMisses, "libpfm4 amd64_events_fam10h.h"),
    row(Generation::Family10h, 0xCB, 0x07, Event::FpOperations, "libpfm4 amd64_events_fam10h.h"),
    row(Generation::Family10h, 0x7E, 0x0F, Event::LlcMisses, "libpfm4 amd64_events_fam10h.h"),
    // Family11h
    row(Generation::Family11h, 0xC0, 0x00, Event::Instructions, "BKDG"),
    row(Generation::Family11h, 0x76, 0x00, Event::Cycles, "BKDG"),
    row(Generation::Family11h, 0xC2, 0x00, Event::Branches, "BKDG"),
    row(Generation::Family11h, 0xC3, 0x00, Event::BranchMisses, "BKDG"),
    row(Generation::Family11h, 0x40, 0x00, Event::L1dAccesses, "BKDG"),
    row(Generation::Family11h, 0x41, 0x00, Event::L1dMisses, "BKDG"),
    row(Generation::Family11h, 0x80, 0x00, Event::L1iFetches, "BKDG"),
    row(Generation::Family11h, 0x81, 0x00, Event::L1iMisses, "BKDG"),
    // Family12h
    row(Generation::Family12h, 0xC0, 0x00, Event::Instructions, "BKDG"),
    row(Generation::Family12h, 0x76, 0x00, Event::Cycles, "BKDG"),
    row(Generation::Family12h, 0xC2, 0x00, Event::Branches, "BKDG"),
    row(Generation::Family12h, 0xC3, 0x00, Event::BranchMisses, "BKDG"),
    row(Generation::Family12h, 0x40, 0x00, Event::L1dAccesses, "BKDG"),
    row(Generation::Family12h, 0x41, 0x00, Event::L1dMisses, "BKDG"),
    row(Generation::Family12h, 0x80, 0x00, Event::L1iFetches, "BKDG"),
    row(Generation::Family12h, 0x81, 0x00, Event::L1iMisses, "BKDG"),
    // Family14h
    row(Generation::Family14h, 0xC0, 0x00, Event::Instructions, "BKDG"),
    row(Generation::Family14h, 0x76, 0x00, Event::Cycles, "BKDG"),
    row(Generation::Family14h, 0xC2, 0x00, Event::Branches, "BKDG"),
    row(Generation::Family14h, 0xC3, 0x00, Event::BranchMisses, "BKDG"),
    row(Generation::Family14h, 0x40, 0x00, Event::L1dAccesses, "BKDG"),
    row(Generation::Family14h, 0x41, 0x00, Event::L1dMisses, "BKDG"),
    row(Generation::Family14h, 0x80, 0x00, Event::L1iFetches, "BKDG"),
    row(Generation::Family14h, 0x81, 0x00, Event::L1iMisses, "BKDG"),
    // Family15h
    row(Generation::Family15h, 0xC0, 0x00, Event::Instructions, "libpfm4 amd64_events_fam15h.h"),
    row(Generation::Family15h, 0x76, 0x00, Event::Cycles, "Linux amd/core.c"),
    row(Generation::Family15h, 0xC2, 0x00, Event::Branches, "libpfm4 amd64_events_fam15h.h"),
    row(Generation::Family15h, 0xC3, 0x00, Event::BranchMisses, "libpfm4 amd64_events_fam15h.h"),
    row(Generation::Family15h, 0x40, 0x00, Event::L1dAccesses, "libpfm4 amd64_events_fam15h.h"),
    row(Generation::Family15h, 0x41, 0x03, Event::L1dMisses, "Linux amd/core.c"),
    row(Generation::Family15h, 0x80, 0x00, Event::L1iFetches, "libpfm4 amd64_events_fam15h.h"),
    row(Generation::Family15h, 0x81, 0x00, Event::L1iMisses, "libpfm4 amd64_events_fam15h.h"),
    row(Generation::Family15h, 0xCB, 0x07, Event::FpOperations, "libpfm4 amd64_events_fam15h.h"),
    row(Generation::Family15h, 0x7E, 0x17, Event::LlcMisses, "libpfm4 amd64_events_fam15h.h"),
    // Family16h
    row(Generation::Family16h, 0xC0, 0x00, Event::Instructions, "BKDG"),
    row(Generation::Family16h, 0x76, 0x00, Event::Cycles, "BKDG"),
    row(Generation::Family16h, 0xC2, 0x00, Event::Branches, "BKDG"),
    row(Generation::Family16h, 0xC3, 0x00, Event::BranchMisses, "BKDG"),
    row(Generation::Family16h, 0x40, 0x00, Event::L1dAccesses, "BKDG"),
    row(Generation::Family16h, 0x41, 0x00, Event::L1dMisses, "BKDG"),
    row(Generation::Family16h, 0x80, 0x00, Event::L1iFetches, "BKDG"),
    row(Generation::Family16h, 0x81, 0x00, Event::L1iMisses, "BKDG"),
    // Zen1
    row(Generation::Zen1, 0xC0, 0x00, Event::Instructions, "libpfm4 amd64_events_fam17h_zen1.h"),
    row(Generation::Zen1, 0x76, 0x00, Event::Cycles, "Linux amd/core.c"),
    row(Generation::Zen1, 0xC2, 0x00, Event::Branches, "libpfm4 amd64_events_fam17h_zen1.h"),
    row(Generation::Zen1, 0xC3, 0x00, Event::BranchMisses, "libpfm4 amd64_events_fam17h_zen1.h"),
    row(Generation::Zen1, 0x40, 0x00, Event::L1dAccesses, "libpfm4 amd64_events_fam17h_zen1.h"),
    row(Generation::Zen1, 0x60, 0xC8, Event::L1dMisses, "Linux amd/core.c"),
    row(Generation::Zen1, 0x80, 0x00, Event::L1iFetches, "Linux amdzen2/cache.json"),
    row(Generation::Zen1, 0x81, 0x00, Event::L1iMisses, "Linux amdzen2/cache.json"),
    row(Generation::Zen1, 0xCB, 0x07, Event::FpOperations, "libpfm4 amd64_events_fam17h_zen1.h"),
    row(Generation::Zen1, 0x64, 0x09, Event::LlcMisses, "Linux amd/core.c"),
    // Zen2
    row(Generation::Zen2, 0xC0, 0x00, Event::Instructions, "libpfm4 amd64_events_fam17h_zen2.h"),
    row(Generation::Zen2, 0x76, 0x00, Event::Cycles, "Linux amd/core.c"),
    row(Generation::Zen2, 0xC2, 0x00, Event::Branches, "libpfm4 amd64_events_fam17h_zen2.h"),
    row(Generation::Zen2, 0xC3, 0x00, Event::BranchMisses, "libpfm4 amd64_events_fam17h_zen2.h"),
    row(Generation::Zen2, 0x40, 0x00, Event::L1dAccesses, "Linux amdzen2/memory.json"),
    row(Generation::Zen2, 0x60, 0xC8, Event::L1dMisses, "Linux amd/core.c"),
    row(Generation::Zen2, 0x80, 0x00, Event::L1iFetches, "Linux amdzen2/cache.json"),
    row(Generation::Zen2, 0x81, 0x00, Event::L1iMisses, "Linux amdzen2/cache.json"),
    row(Generation::Zen2, 0xCB, 0x07, Event::FpOperations, "libpfm4 amd64_events_fam17h_zen2.h"),
    row(Generation::Zen2, 0x64, 0x09, Event::LlcMisses, "Linux amd/core.c"),
    // Zen3
    row(Generation::Zen3, 0xC0, 0x00, Event::Instructions, "libpfm4 amd64_events_fam19h_zen3.h"),
    row(Generation::Zen3, 0x76, 0x00, Event::Cycles, "Linux amd/core.c"),
    row(Generation::Zen3, 0xC2, 0x00, Event::Branches, "libpfm4 amd64_events_fam19h_zen3.h"),
    row(Generation::Zen3, 0xC3, 0x00, Event::BranchMisses, "libpfm4 amd64_events_fam19h_zen3.h"),
    row(Generation::Zen3, 0x29, 0x07, Event::L1dAccesses, "Linux amdzen3/recommended.json"),
    row(Generation::Zen3, 0x60, 0xE8, Event::L1dMisses, "Linux amdzen3/recommended.json"),
    row(Generation::Zen3, 0x18E, 0x1F, Event::L1iFetches, "libpfm4 amd64_events_fam19h_zen3.h"),
    row(Generation::Zen3, 0x18E, 0x18, Event::L1iMisses, "libpfm4 amd64_events_fam19h_zen3.h"),
    row(Generation::Zen3, 0xCB, 0x07, Event::FpOperations, "libpfm4 amd64_events_fam19h_zen3.h"),
    row(Generation::Zen3, 0x64, 0x09, Event::LlcMisses, "Linux amd/core.c"),
    // Zen4
    row(Generation::Zen4, 0xC0, 0x00, Event::Instructions, "libpfm4 amd64_events_fam19h_zen4.h"),
    row(Generation::Zen4, 0x76, 0x00, Event::Cycles, "Linux amd/core.c"),
    row(Generation::Zen4, 0xC2, 0x00, Event::Branches, "libpfm4 amd64_events_fam19h_zen4.h"),
    row(Generation::Zen4, 0xC3, 0x00, Event::BranchMisses, "libpfm4 amd64_events_fam19h_zen4.h"),
    row(Generation::Zen4, 0x29, 0x07, Event::L1dAccesses, "libpfm4 amd64_events_fam19h_zen4.h"),
    row(Generation::Zen4, 0x44, 0xFF, Event::L1dMisses, "libpfm4 amd64_events_fam19h_zen4.h"),
    row(Generation::Zen4, 0x18E, 0x1F, Event::L1iFetches, "libpfm4 amd64_events_fam19h_zen4.h"),
    row(Generation::Zen4, 0x18E, 0x18, Event::L1iMisses, "libpfm4 amd64_events_fam19h_zen4.h"),
    row(Generation::Zen4, 0xCB, 0x07, Event::FpOperations, "libpfm4 amd64_events_fam19h_zen4.h"),
    row(Generation::Zen4, 0x64, 0x09, Event::LlcMisses, "Linux amd/core.c"),
    // Zen5
    row(Generation::Zen5, 0xC0, 0x00, Event::Instructions, "libpfm4 amd64_events_fam1ah_zen5.h"),
    row(Generation::Zen5, 0x76, 0x00, Event::Cycles, "Linux amd/core.c"),
    row(Generation::Zen5, 0xC2, 0x00, Event::Branches, "libpfm4 amd64_events_fam1ah_zen5.h"),
    row(Generation::Zen5, 0xC3, 0x00, Event::BranchMisses, "libpfm4 amd64_events_fam1ah_zen5.h"),
    row(Generation::Zen5, 0x29, 0x07, Event::L1dAccesses, "Linux amdzen5/recommended.json"),
    row(Generation::Zen5, 0x44, 0xFF, Event::L1dMisses, "libpfm4 amd64_events_fam1ah_zen5.h"),
    row(Generation::Zen5, 0x18E, 0x1F, Event::L1iFetches, "libpfm4 amd64_events_fam1ah_zen5.h"),
    row(Generation::Zen5, 0x18E, 0x18, Event::L1iMisses, "libpfm4 amd64_events_fam1ah_zen5.h"),
    row(Generation::Zen5, 0xCB, 0x07, Event::FpOperations, "libpfm4 amd64_events_fam1ah_zen5.h"),
    row(Generation::Zen5, 0x64, 0x09, Event::LlcMisses, "Linux amd/core.c"),
];
