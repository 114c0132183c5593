//! The Pentium interface: sources of the Pentium (P5) and of the Pentium with MMX technology.
//!
//! There is no overflow interrupt on this family: all of it is for counting.

use shared_types::ProfileSource;

use super::Fit::{Approximate, Exact};
use super::{ANY, CounterSet, Fit, Row, Select, listed_name};

const COUNTER0: CounterSet = 0b01;
const COUNTER1: CounterSet = 0b10;

/// CC bit 2 clear: CESR counts events.
const EVENTS: bool = false;
/// CC bit 2 set: CESR counts clocks.
const CLOCKS: bool = true;

/// The first number of halprof's own Pentium sources. The event code is added, and
/// [`COUNTER1_MEANING`] for an event that exists on counter 1 only.
pub const FIRST_OWN: u32 = 0x8000_0500;

/// Added to the number of an event that exists on counter 1 only: its code has another meaning on
/// counter 0.
pub const COUNTER1_MEANING: u32 = 0x100;

#[expect(
    clippy::too_many_arguments,
    reason = "a row of a table, in the order of its columns"
)]
const fn row(
    id: u32,
    symbol: &'static str,
    fit: Fit,
    counts: &'static str,
    event: u8,
    clocks: bool,
    counters: CounterSet,
    note: &'static str,
) -> Row {
    Row {
        id: ProfileSource(id),
        name: listed_name(symbol),
        symbol,
        select: Select::Cesr { event, clocks },
        counters,
        fit,
        counts,
        note,
    }
}

const fn own(
    event: u8,
    name: &'static str,
    clocks: bool,
    counters: CounterSet,
    note: &'static str,
) -> Row {
    let meaning = if counters == COUNTER1 {
        COUNTER1_MEANING
    } else {
        0
    };
    Row {
        id: ProfileSource(FIRST_OWN + meaning + event as u32),
        name,
        symbol: name,
        select: Select::Cesr { event, clocks },
        counters,
        fit: Exact,
        counts: name,
        note,
    }
}

/// The sources that wdm.h names, by number.
#[must_use]
pub const fn rows(mmx: bool) -> &'static [Row] {
    if mmx { &P5MMX } else { &P5 }
}

/// halprof's own sources: every documented event.
#[must_use]
pub fn own_rows(mmx: bool) -> &'static [Row] {
    if mmx { &OWN } else { &OWN[..BEFORE_MMX] }
}

/// No HAL is known to have had sources on this family: which event fits which name is halprof's
/// choice, after the HAL design note.
#[rustfmt::skip]
static P5: [Row; 24] = [
    Row::timer(Select::None, "never a counter (HAL design note, section 3.1)"),
    row(0x01, "ProfileAlignmentFixup", Approximate, "MISALIGNED_DATA_MEMORY_OR_IO_REFERENCES", 0x0B, EVENTS, ANY, "x86 hardware handles misalignment; counts references, not fixups"),
    row(0x02, "ProfileTotalIssues", Exact, "INSTRUCTIONS_EXECUTED", 0x16, EVENTS, ANY, "same sense as Emon C0h: instructions"),
    Row::unsupported(0x03, "ProfilePipelineDry", "no documented event"),
    row(0x04, "ProfileLoadInstructions", Approximate, "DATA_READ", 0x00, EVENTS, ANY, "data references, not instructions"),
    row(0x05, "ProfilePipelineFrozen", Approximate, "WAITING_FOR_DATA_MEMORY_READ_STALL_DURATION", 0x1A, CLOCKS, ANY, "main pipeline freeze cause; excludes write and FP stalls"),
    row(0x06, "ProfileBranchInstructions", Exact, "BRANCHES", 0x12, EVENTS, ANY, "executed branches; also serialising instructions and interrupts"),
    Row::unsupported(0x07, "ProfileTotalNonissues", "no threshold/invert hardware on P5"),
    row(0x08, "ProfileDcacheMisses", Exact, "DATA_READ_MISS_OR_WRITE_MISS", 0x29, EVENTS, ANY, "FreeBSD picks the same"),
    row(0x09, "ProfileIcacheMisses", Exact, "CODE_CACHE_MISS", 0x0E, EVENTS, ANY, "FreeBSD picks the same"),
    Row::unsupported(0x0A, "ProfileCacheMisses", "L2 is off-chip; DcacheMisses is the nearest"),
    row(0x0B, "ProfileBranchMispredictions", Approximate, "PIPELINE_FLUSHES", 0x15, EVENTS, ANY, "also exceptions and interrupts; no pure mispredict event before MMX"),
    row(0x0C, "ProfileStoreInstructions", Approximate, "DATA_WRITE", 0x01, EVENTS, ANY, "data references, not instructions"),
    row(0x0D, "ProfileFpInstructions", Exact, "FLOPS", 0x22, EVENTS, ANY, "operations; transcendentals count several"),
    Row::unsupported(0x0E, "ProfileIntegerInstructions", "no integer-instruction event on any x86 family"),
    row(0x0F, "Profile2Issue", Exact, "INSTRUCTIONS_EXECUTED_V_PIPE", 0x17, EVENTS, ANY, "each V-pipe instruction is one dual issue: the closest match of any family"),
    Row::unsupported(0x10, "Profile3Issue", "P5 dual-issues at most"),
    Row::unsupported(0x11, "Profile4Issue", "no machine here retires 4 per clock"),
    Row::unsupported(0x12, "ProfileSpecialInstructions", "Alpha/MIPS notion; no x86 event"),
    Row::unsupported(0x13, "ProfileTotalCycles", "no unhalted-clock event on plain Pentium; TSC can answer reads"),
    row(0x14, "ProfileIcacheIssues", Exact, "CODE_READ", 0x0C, EVENTS, ANY, "instruction-cache accesses"),
    row(0x15, "ProfileDcacheAccesses", Exact, "DATA_READ_OR_WRITE", 0x28, EVENTS, ANY, ""),
    row(0x16, "ProfileMemoryBarrierCycles", Approximate, "LOCKED_BUS_CYCLE", 0x1C, EVENTS, ANY, "counts locked cycles, not cycles waited"),
    Row::unsupported(0x17, "ProfileLoadLinkedIssues", "x86 has no load-linked"),
];

#[rustfmt::skip]
static P5MMX: [Row; 24] = [
    Row::timer(Select::None, "never a counter (HAL design note, section 3.1)"),
    row(0x01, "ProfileAlignmentFixup", Approximate, "MISALIGNED_DATA_MEMORY_OR_IO_REFERENCES", 0x0B, EVENTS, ANY, "x86 hardware handles misalignment; counts references, not fixups"),
    row(0x02, "ProfileTotalIssues", Exact, "INSTRUCTIONS_EXECUTED", 0x16, EVENTS, ANY, "same sense as Emon C0h: instructions"),
    row(0x03, "ProfilePipelineDry", Exact, "D1_STARVATION_AND_FIFO_IS_EMPTY", 0x33, EVENTS, COUNTER0, "front end had nothing to issue"),
    row(0x04, "ProfileLoadInstructions", Approximate, "DATA_READ", 0x00, EVENTS, ANY, "data references, not instructions"),
    row(0x05, "ProfilePipelineFrozen", Approximate, "WAITING_FOR_DATA_MEMORY_READ_STALL_DURATION", 0x1A, CLOCKS, ANY, "main pipeline freeze cause; excludes write and FP stalls"),
    row(0x06, "ProfileBranchInstructions", Exact, "BRANCHES", 0x12, EVENTS, ANY, "executed branches; also serialising instructions and interrupts"),
    Row::unsupported(0x07, "ProfileTotalNonissues", "no threshold/invert hardware on P5"),
    row(0x08, "ProfileDcacheMisses", Exact, "DATA_READ_MISS_OR_WRITE_MISS", 0x29, EVENTS, ANY, "FreeBSD picks the same"),
    row(0x09, "ProfileIcacheMisses", Exact, "CODE_CACHE_MISS", 0x0E, EVENTS, ANY, "FreeBSD picks the same"),
    Row::unsupported(0x0A, "ProfileCacheMisses", "L2 is off-chip; DcacheMisses is the nearest"),
    row(0x0B, "ProfileBranchMispredictions", Exact, "PIPELINE_FLUSHES_DUE_TO_WRONG_BRANCH_PREDICTIONS", 0x35, EVENTS, COUNTER0, "all mispredict flushes"),
    row(0x0C, "ProfileStoreInstructions", Approximate, "DATA_WRITE", 0x01, EVENTS, ANY, "data references, not instructions"),
    row(0x0D, "ProfileFpInstructions", Exact, "FLOPS", 0x22, EVENTS, ANY, "operations; transcendentals count several"),
    Row::unsupported(0x0E, "ProfileIntegerInstructions", "no integer-instruction event on any x86 family"),
    row(0x0F, "Profile2Issue", Exact, "INSTRUCTIONS_EXECUTED_V_PIPE", 0x17, EVENTS, ANY, "each V-pipe instruction is one dual issue: the closest match of any family"),
    Row::unsupported(0x10, "Profile3Issue", "P5 dual-issues at most"),
    Row::unsupported(0x11, "Profile4Issue", "no machine here retires 4 per clock"),
    Row::unsupported(0x12, "ProfileSpecialInstructions", "Alpha/MIPS notion; no x86 event"),
    row(0x13, "ProfileTotalCycles", Exact, "NUMBER_OF_CYCLES_NOT_IN_HALT_STATE", 0x30, CLOCKS, COUNTER0, "honours CPL; FreeBSD picks the same for unhalted cycles"),
    row(0x14, "ProfileIcacheIssues", Exact, "CODE_READ", 0x0C, EVENTS, ANY, "instruction-cache accesses"),
    row(0x15, "ProfileDcacheAccesses", Exact, "DATA_READ_OR_WRITE", 0x28, EVENTS, ANY, ""),
    row(0x16, "ProfileMemoryBarrierCycles", Approximate, "LOCKED_BUS_CYCLE", 0x1C, EVENTS, ANY, "counts locked cycles, not cycles waited"),
    Row::unsupported(0x17, "ProfileLoadLinkedIssues", "x86 has no load-linked"),
];

/// How many of [`OWN`] exist without MMX.
const BEFORE_MMX: usize = 38;

/// The events of the Pentium, then those that came with MMX.
///
/// An event that the manual describes in clocks is counted with CC bit 2 set.
///
/// Source: Intel SDM, volume 3B, "Pentium Processor Performance Monitoring Events".
#[rustfmt::skip]
static OWN: [Row; 73] = [
    own(0x00, "DATA_READ", EVENTS, ANY, "data-memory reads, cache hits and misses together"),
    own(0x01, "DATA_WRITE", EVENTS, ANY, "data-memory writes, hits and misses together"),
    own(0x02, "DATA_TLB_MISS", EVENTS, ANY, "data TLB misses"),
    own(0x03, "DATA_READ_MISS", EVENTS, ANY, "reads missing the L1 data cache"),
    own(0x04, "DATA_WRITE_MISS", EVENTS, ANY, "writes missing the L1 data cache"),
    own(0x05, "WRITE_HIT_TO_M_OR_E_STATE_LINES", EVENTS, ANY, "writes hitting M/E lines"),
    own(0x06, "DATA_CACHE_LINES_WRITTEN_BACK", EVENTS, ANY, "dirty lines written back, any cause"),
    own(0x07, "EXTERNAL_SNOOPS", EVENTS, ANY, "accepted external snoops"),
    own(0x08, "EXTERNAL_DATA_CACHE_SNOOP_HITS", EVENTS, ANY, "external snoops that hit the data cache or its buffers"),
    own(0x09, "MEMORY_ACCESSES_IN_BOTH_PIPES", EVENTS, ANY, "paired data accesses (U and V together)"),
    own(0x0A, "BANK_CONFLICTS", EVENTS, ANY, "real L1 bank conflicts"),
    own(0x0B, "MISALIGNED_DATA_MEMORY_OR_IO_REFERENCES", EVENTS, ANY, "misaligned memory or I/O references"),
    own(0x0C, "CODE_READ", EVENTS, ANY, "instruction reads (cacheable or not)"),
    own(0x0D, "CODE_TLB_MISS", EVENTS, ANY, "instruction TLB misses"),
    own(0x0E, "CODE_CACHE_MISS", EVENTS, ANY, "L1 code cache misses"),
    own(0x0F, "ANY_SEGMENT_REGISTER_LOADED", EVENTS, ANY, "segment/LDTR/TR/GDTR/IDTR loads; privilege-changing far transfers count twice"),
    own(0x12, "BRANCHES", EVENTS, ANY, "all executed branches incl. software interrupts and IRET; also serialising instructions"),
    own(0x13, "BTB_HITS", EVENTS, ANY, "branches found in the BTB"),
    own(0x14, "TAKEN_BRANCH_OR_BTB_HIT", EVENTS, ANY, "logical OR of taken branch and BTB hit"),
    own(0x15, "PIPELINE_FLUSHES", EVENTS, ANY, "flushes from mispredicts, BTB misses on taken branches, exceptions, interrupts, some segment loads"),
    own(0x16, "INSTRUCTIONS_EXECUTED", EVENTS, ANY, "executed instructions; up to 2 per clock; REP counts once; HLT counts once; interrupts/exceptions add"),
    own(0x17, "INSTRUCTIONS_EXECUTED_V_PIPE", EVENTS, ANY, "instructions issued in the V pipe = number of pairings"),
    own(0x18, "BUS_CYCLE_DURATION", CLOCKS, ANY, "clocks with a bus cycle in progress (incl. HLDA/AHOLD/BOFF#)"),
    own(0x19, "WRITE_BUFFER_FULL_STALL_DURATION", CLOCKS, ANY, "clocks stalled on full write buffers"),
    own(0x1A, "WAITING_FOR_DATA_MEMORY_READ_STALL_DURATION", CLOCKS, ANY, "clocks stalled waiting for a data read"),
    own(0x1B, "STALL_ON_WRITE_TO_E_OR_M_STATE_LINE", CLOCKS, ANY, "stalls on writes to E/M lines (SDM wording is ambiguous between count and clocks)"),
    own(0x1C, "LOCKED_BUS_CYCLE", EVENTS, ANY, "locked bus cycles; read half only; split lock counts 2"),
    own(0x1D, "IO_READ_OR_WRITE_CYCLE", EVENTS, ANY, "I/O-space bus cycles"),
    own(0x1E, "NONCACHEABLE_MEMORY_READS", EVENTS, ANY, "uncacheable memory-read bus cycles"),
    own(0x1F, "PIPELINE_AGI_STALLS", CLOCKS, ANY, "address-generation interlocks; two in the same clock signal twice"),
    own(0x22, "FLOPS", EVENTS, ANY, "FP add/sub/mul/div/rem/sqrt; transcendentals count several; integer multiplies use the FPU and count"),
    own(0x23, "BREAKPOINT_MATCH_ON_DR0", EVENTS, ANY, "DR0 matches, even if breakpoints are disabled"),
    own(0x24, "BREAKPOINT_MATCH_ON_DR1", EVENTS, ANY, "DR1 matches"),
    own(0x25, "BREAKPOINT_MATCH_ON_DR2", EVENTS, ANY, "DR2 matches"),
    own(0x26, "BREAKPOINT_MATCH_ON_DR3", EVENTS, ANY, "DR3 matches"),
    own(0x27, "HARDWARE_INTERRUPTS", EVENTS, ANY, "taken INTR and NMI"),
    own(0x28, "DATA_READ_OR_WRITE", EVENTS, ANY, "data reads plus writes; up to 2 per clock"),
    own(0x29, "DATA_READ_MISS_OR_WRITE_MISS", EVENTS, ANY, "data reads or writes missing L1"),
    own(0x2A, "BUS_OWNERSHIP_LATENCY", CLOCKS, COUNTER0, "time from private bus request to grant (dual-processor systems)"),
    own(0x2A, "BUS_OWNERSHIP_TRANSFERS", EVENTS, COUNTER1, "bus ownership transfers"),
    own(0x2B, "MMX_INSTRUCTIONS_EXECUTED_U_PIPE", EVENTS, COUNTER0, "MMX instructions in U"),
    own(0x2B, "MMX_INSTRUCTIONS_EXECUTED_V_PIPE", EVENTS, COUNTER1, "MMX instructions in V"),
    own(0x2C, "CACHE_M_STATE_LINE_SHARING", EVENTS, COUNTER0, "other processor hit a modified line here"),
    own(0x2C, "CACHE_LINE_SHARING", EVENTS, COUNTER1, "shared data lines in L1"),
    own(0x2D, "EMMS_INSTRUCTIONS_EXECUTED", EVENTS, COUNTER0, "EMMS executed"),
    own(0x2D, "TRANSITIONS_BETWEEN_MMX_AND_FP_INSTRUCTIONS", EVENTS, COUNTER1, "MMX<->FP transitions"),
    own(0x2E, "BUS_UTILIZATION_DUE_TO_PROCESSOR_ACTIVITY", CLOCKS, COUNTER0, "clocks bus busy because of this processor"),
    own(0x2E, "WRITES_TO_NONCACHEABLE_MEMORY", EVENTS, COUNTER1, "uncacheable writes (incl. I/O writes)"),
    own(0x2F, "SATURATING_MMX_INSTRUCTIONS_EXECUTED", EVENTS, COUNTER0, "saturating MMX instructions"),
    own(0x2F, "SATURATIONS_PERFORMED", EVENTS, COUNTER1, "MMX instructions in which a result really saturated"),
    own(0x30, "NUMBER_OF_CYCLES_NOT_IN_HALT_STATE", CLOCKS, COUNTER0, "clocks not halted (honours CPL via CC)"),
    own(0x30, "DATA_CACHE_TLB_MISS_STALL_DURATION", CLOCKS, COUNTER1, "clocks stalled on data TLB misses"),
    own(0x31, "MMX_INSTRUCTION_DATA_READS", EVENTS, COUNTER0, "data reads by MMX instructions"),
    own(0x31, "MMX_INSTRUCTION_DATA_READ_MISSES", EVENTS, COUNTER1, "misses among those"),
    own(0x32, "FLOATING_POINT_STALLS_DURATION", CLOCKS, COUNTER0, "clocks in an FP freeze"),
    own(0x32, "TAKEN_BRANCHES", EVENTS, COUNTER1, "taken branches"),
    own(0x33, "D1_STARVATION_AND_FIFO_IS_EMPTY", CLOCKS, COUNTER0, "D1 could issue nothing (instruction FIFO empty)"),
    own(0x33, "D1_STARVATION_AND_ONLY_ONE_INSTRUCTION_IN_FIFO", CLOCKS, COUNTER1, "D1 could issue just one"),
    own(0x34, "MMX_INSTRUCTION_DATA_WRITES", EVENTS, COUNTER0, "data writes by MMX instructions"),
    own(0x34, "MMX_INSTRUCTION_DATA_WRITE_MISSES", EVENTS, COUNTER1, "misses among those"),
    own(0x35, "PIPELINE_FLUSHES_DUE_TO_WRONG_BRANCH_PREDICTIONS", EVENTS, COUNTER0, "mispredict flushes resolved in E or WB"),
    own(0x35, "PIPELINE_FLUSHES_DUE_TO_WRONG_BRANCH_PREDICTIONS_RESOLVED_IN_WB", EVENTS, COUNTER1, "mispredict flushes resolved in WB only"),
    own(0x36, "MISALIGNED_DATA_MEMORY_REFERENCE_ON_MMX_INSTRUCTIONS", EVENTS, COUNTER0, "misaligned MMX data references"),
    own(0x36, "PIPELINE_STALL_FOR_MMX_INSTRUCTION_DATA_MEMORY_READS", CLOCKS, COUNTER1, "clocks stalled for MMX data reads"),
    own(0x37, "MISPREDICTED_OR_UNPREDICTED_RETURNS", EVENTS, COUNTER0, "RETs not (correctly) predicted; SDM table prints counter 1 for both 37H rows - FreeBSD puts this one on counter 0"),
    own(0x37, "PREDICTED_RETURNS", EVENTS, COUNTER1, "RETs for which a prediction was made"),
    own(0x38, "MMX_MULTIPLY_UNIT_INTERLOCK", CLOCKS, COUNTER0, "clocks stalled on an MMX multiply result"),
    own(0x38, "MOVD_MOVQ_STORE_STALL_DUE_TO_PREVIOUS_MMX_OPERATION", CLOCKS, COUNTER1, "clocks a MOVD/MOVQ store waited in D2"),
    own(0x39, "RETURNS", EVENTS, COUNTER0, "RETs executed (39H on counter 1 is reserved)"),
    own(0x3A, "BTB_FALSE_ENTRIES", EVENTS, COUNTER0, "false BTB entries"),
    own(0x3A, "BTB_MISS_PREDICTION_ON_NOT_TAKEN_BRANCH", EVENTS, COUNTER1, "not-taken branches predicted taken"),
    own(0x3B, "FULL_WRITE_BUFFER_STALL_DURATION_WHILE_EXECUTING_MMX_INSTRUCTIONS", CLOCKS, COUNTER0, "clocks stalled, write buffers full, during MMX"),
    own(0x3B, "STALL_ON_MMX_INSTRUCTION_WRITE_TO_E_OR_M_STATE_LINE", CLOCKS, COUNTER1, "clocks stalled, MMX write to E/M line"),
];
