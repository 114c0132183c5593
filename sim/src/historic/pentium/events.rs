//! What the event codes of CESR count, for those that are among the model's events.

use crate::cpu::event::Event;

/// One event code on the counters that have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// ES, the event code.
    pub(super) code: u8,
    /// The manual's name.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the reader, and compared in tests"))]
    pub(super) name: &'static str,
    /// The counters on which the code has this meaning.
    pub(super) counters: &'static [usize],
    pub(super) mmx_only: bool,
    /// A duration, which needs CC bit 2; all others need that bit clear.
    pub(super) clocks: bool,
    /// What it counts.
    pub(super) event: Event,
}

/// SDM vol. 3, "Pentium Processor Performance Monitoring Events"; every other code counts nothing
/// in the model.
pub(super) const ROWS: [Row; 10] = [
    on_both(0x0C, "CODE_READ", Event::L1iFetches),
    on_both(0x0E, "CODE_CACHE_MISS", Event::L1iMisses),
    on_both(0x12, "BRANCHES", Event::Branches),
    // Exceptions and interrupts flush too: approximate on silicon. The only flushes in the model
    // are those of mispredicted branches.
    on_both(0x15, "PIPELINE_FLUSHES", Event::BranchMisses),
    on_both(0x16, "INSTRUCTIONS_EXECUTED", Event::Instructions),
    on_both(0x22, "FLOPS", Event::FpOperations),
    on_both(0x28, "DATA_READ_OR_WRITE", Event::L1dAccesses),
    on_both(0x29, "DATA_READ_MISS_OR_WRITE_MISS", Event::L1dMisses),
    Row {
        code: 0x30,
        name: "NUMBER_OF_CYCLES_NOT_IN_HALT_STATE",
        counters: &[0],
        mmx_only: true,
        clocks: true,
        event: Event::Cycles,
    },
    Row {
        code: 0x35,
        name: "PIPELINE_FLUSHES_DUE_TO_WRONG_BRANCH_PREDICTIONS",
        counters: &[0],
        mmx_only: true,
        clocks: false,
        event: Event::BranchMisses,
    },
];

const fn on_both(code: u8, name: &'static str, event: Event) -> Row {
    Row { code, name, counters: &[0, 1], mmx_only: false, clocks: false, event }
}

/// What `code` means on `counter`, with or without MMX.
pub(super) fn lookup(code: u8, counter: usize, mmx: bool) -> Option<&'static Row> {
    ROWS.iter()
        .find(|row| row.code == code && row.counters.contains(&counter) && (mmx || !row.mmx_only))
}
