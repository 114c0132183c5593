//! halprof's own Intel sources: the fixed-function counters, and the architectural events that
//! Windows 10's HAL has no source for.

use shared_types::ProfileSource;

use super::{ANY, CounterSet, Fit, NO_COUNTER, Row, Select};

/// The first number of the fixed-function counters' sources; the counter's index is added.
pub const FIRST_FIXED: u32 = 0x8000_0100;

/// The first number of the architectural events' sources; the event's EBX bit is added.
pub const FIRST_ARCHITECTURAL: u32 = 0x8000_0200;

const fn own(
    id: u32,
    name: &'static str,
    select: Select,
    counters: CounterSet,
    counts: &'static str,
    note: &'static str,
) -> Row {
    Row {
        id: ProfileSource(id),
        name,
        symbol: name,
        select,
        counters,
        fit: Fit::Exact,
        counts,
        note,
    }
}

const fn fixed(index: u8, name: &'static str, counts: &'static str) -> Row {
    own(
        FIRST_FIXED + index as u32,
        name,
        Select::Fixed(index),
        NO_COUNTER,
        counts,
        "",
    )
}

const fn architectural(
    ebx_bit: u8,
    name: &'static str,
    select: u64,
    counts: &'static str,
    note: &'static str,
) -> Row {
    own(
        FIRST_ARCHITECTURAL + ebx_bit as u32,
        name,
        Select::EventSelect(select),
        ANY,
        counts,
        note,
    )
}

/// The fixed-function counters, by index.
///
/// Source: Intel SDM, volume 3B, "Association of Fixed-Function Performance Counters with
/// Architectural Performance Events".
#[rustfmt::skip]
pub static FIXED: [Row; 7] = [
    fixed(0, "FixedInstructions", "INST_RETIRED.ANY"),
    fixed(1, "FixedCycles", "CPU_CLK_UNHALTED.THREAD"),
    fixed(2, "FixedReferenceCycles", "CPU_CLK_UNHALTED.REF_TSC"),
    fixed(3, "FixedTopdownSlots", "TOPDOWN.SLOTS"),
    fixed(4, "FixedTopdownBadSpeculation", "TOPDOWN_BAD_SPECULATION.ALL"),
    fixed(5, "FixedTopdownFrontendBound", "TOPDOWN_FE_BOUND.ALL"),
    fixed(6, "FixedTopdownRetiring", "TOPDOWN_RETIRING.ALL"),
];

/// The architectural events past the seven that Emon knows, by EBX bit.
///
/// Source: Intel SDM, volume 3B, "Pre-defined Architectural Performance Events".
#[rustfmt::skip]
pub static ARCHITECTURAL: [Row; 6] = [
    architectural(7, "TopdownSlots", 0x000301A4, "Topdown Slots", "fixed counter 3 counts the same"),
    architectural(8, "TopdownBackendBound", 0x000302A4, "Topdown Backend Bound", ""),
    architectural(9, "TopdownBadSpeculation", 0x00030073, "Topdown Bad Speculation", ""),
    architectural(10, "TopdownFrontendBound", 0x0003019C, "Topdown Frontend Bound", ""),
    architectural(11, "TopdownRetiring", 0x000302C2, "Topdown Retiring", ""),
    architectural(12, "LbrInserts", 0x000301E4, "LBR Inserts", "Skylake to Sapphire Rapids have the model-specific event 0xCC/0x20 instead"),
];

/// The bit of CPUID.0AH:EBX that must be clear, and below the length in EAX 31:24, for an
/// architectural event to be there; `None` for every other number.
#[must_use]
pub const fn ebx_bit(id: ProfileSource) -> Option<u8> {
    match id.0.wrapping_sub(FIRST_ARCHITECTURAL) {
        bit @ 7..=12 => Some(bit as u8),
        _ => None,
    }
}
