//! The Emon interface: the 13 sources that Windows 10's HAL has for Intel's architectural events.

use shared_types::ProfileSource;

use super::{ANY, Fit, Row, Select, listed_name};

const fn row(
    id: u32,
    symbol: &'static str,
    select: u64,
    counts: &'static str,
    note: &'static str,
) -> Row {
    Row {
        id: ProfileSource(id),
        name: listed_name(symbol),
        symbol,
        select: Select::EventSelect(select),
        counters: ANY,
        fit: Fit::Exact,
        counts,
        note,
    }
}

/// The sources of Emon, by number.
///
/// Source: G. Chappell, "Hardware Performance Counters: EMON"; the events' names are those of the
/// Intel SDM, volume 3B, "Pre-defined Architectural Performance Events".
#[rustfmt::skip]
pub static ROWS: [Row; 13] = [
    Row::timer(Select::EventSelect(0x0003003C), "the HAL's table holds a select for it that is never programmed"),
    row(0x02, "ProfileTotalIssues", 0x000300C0, "Instruction Retired", "same as InstructionRetired"),
    row(0x06, "ProfileBranchInstructions", 0x000300C4, "Branch Instruction Retired", "same as BranchInstructionRetired"),
    row(0x0A, "ProfileCacheMisses", 0x0003412E, "LLC Misses", "same as LLCMisses"),
    row(0x0B, "ProfileBranchMispredictions", 0x000300C5, "Branch Misses Retired", "same as BranchMispredictsRetired"),
    row(0x13, "ProfileTotalCycles", 0x0003003C, "UnHalted Core Cycles", "same as UnhaltedCoreCycles"),
    row(0x19, "ProfileUnhaltedCoreCycles", 0x0003003C, "UnHalted Core Cycles", ""),
    row(0x1A, "ProfileInstructionRetired", 0x000300C0, "Instruction Retired", ""),
    row(0x1B, "ProfileUnhaltedReferenceCycles", 0x0003013C, "UnHalted Reference Cycles", "at the bus or crystal clock on Skylake-era parts, at the TSC's rate from Alder Lake and Sapphire Rapids on"),
    row(0x1C, "ProfileLLCReference", 0x00034F2E, "LLC Reference", ""),
    row(0x1D, "ProfileLLCMisses", 0x0003412E, "LLC Misses", ""),
    row(0x1E, "ProfileBranchInstructionRetired", 0x000300C4, "Branch Instruction Retired", ""),
    row(0x1F, "ProfileBranchMispredictsRetired", 0x000300C5, "Branch Misses Retired", ""),
];

/// The bit of CPUID.0AH:EBX that must be clear, and below the length in EAX 31:24, for the source
/// to be supported; `None` for ProfileTime, which goes another way, and for numbers not of Emon.
#[must_use]
pub const fn ebx_bit(id: ProfileSource) -> Option<u8> {
    match id.0 {
        0x13 | 0x19 => Some(0),
        0x02 | 0x1A => Some(1),
        0x1B => Some(2),
        0x1C => Some(3),
        0x0A | 0x1D => Some(4),
        0x06 | 0x1E => Some(5),
        0x0B | 0x1F => Some(6),
        _ => None,
    }
}
