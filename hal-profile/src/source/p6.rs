//! The P6 interface: sources of the Pentium Pro, Pentium II, Celeron, Pentium III and Pentium M.

use shared_types::ProfileSource;

use super::Fit::{Approximate, Exact};
use super::{ANY, CounterSet, Fit, Row, Select, listed_name};

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
const EVERY: Processors = PPRO | PII | CELERON | PIII | PM;

/// The processors that a model of family 6 can be; none for models that are not P6. The model does
/// not tell a Pentium II from a Celeron.
#[must_use]
pub const fn processors(model: u32) -> Processors {
    match model {
        0x01 => PPRO,
        0x03 | 0x05 | 0x06 => PII | CELERON,
        0x07 | 0x08 | 0x0A | 0x0B => PIII,
        0x09 | 0x0D | 0x15 => PM,
        _ => 0,
    }
}

/// The counters that can count an event.
///
/// Source: Intel SDM, volume 3B, "P6 Family Processor Performance Monitoring Events", notes on
/// counters.
#[must_use]
pub const fn counters(event: u8) -> CounterSet {
    match event {
        0x10 | 0x14 | 0xC1 => 0b01,
        0x11..=0x13 => 0b10,
        _ => ANY,
    }
}

/// The first number of halprof's own P6 sources; the event code is added.
pub const FIRST_OWN: u32 = 0x8000_0700;

const fn row(
    id: u32,
    symbol: &'static str,
    fit: Fit,
    counts: &'static str,
    select: u64,
    note: &'static str,
) -> Row {
    Row {
        id: ProfileSource(id),
        name: listed_name(symbol),
        symbol,
        select: Select::EventSelect(select),
        counters: counters((select & 0xFF) as u8),
        fit,
        counts,
        note,
    }
}

/// A documented event, and the processors that have it.
struct Event {
    processors: Processors,
    row: Row,
}

const fn event(
    code: u8,
    name: &'static str,
    unit_mask: u8,
    processors: Processors,
    note: &'static str,
) -> Event {
    let row = Row {
        id: ProfileSource(FIRST_OWN + code as u32),
        name,
        symbol: name,
        select: Select::EventSelect(0x30000 | (unit_mask as u64) << 8 | code as u64),
        counters: counters(code),
        fit: Exact,
        counts: name,
        note,
    };
    Event { processors, row }
}

/// halprof's own sources on any of these processors: every documented event with its widest unit
/// mask. Three codes (0xCE, 0xD8, 0xD9) have another name on the Pentium M, under one number.
pub fn own_rows(processors: Processors) -> impl Iterator<Item = &'static Row> {
    EVENTS
        .iter()
        .filter(move |event| event.processors & processors != 0)
        .map(|event| &event.row)
}

/// The sources that wdm.h names, by number.
///
/// No HAL is known to have had sources on this family: which event fits which name is halprof's
/// choice, after the HAL design note and the architectural events that descend from these.
#[rustfmt::skip]
pub static ROWS: [Row; 24] = [
    Row::timer(Select::None, ""),
    row(0x01, "ProfileAlignmentFixup", Approximate, "MISALIGN_MEM_REF", 0x00030005, "approximate by Intel's own note"),
    row(0x02, "ProfileTotalIssues", Exact, "INST_RETIRED", 0x000300C0, "Emon uses the same code"),
    row(0x03, "ProfilePipelineDry", Approximate, "IFU_MEM_STALL", 0x00030086, "fetch-stall cycles; pipeline may still have work"),
    Row::unsupported(0x04, "ProfileLoadInstructions", "DATA_MEM_REFS mixes loads and stores; no load-only event"),
    row(0x05, "ProfilePipelineFrozen", Approximate, "RESOURCE_STALLS", 0x000300A2, "allocator stalls; Linux calls it stalled cycles"),
    row(0x06, "ProfileBranchInstructions", Exact, "BR_INST_RETIRED", 0x000300C4, "Emon uses the same code"),
    row(0x07, "ProfileTotalNonissues", Approximate, "UOPS_RETIRED CMASK=1 INV=1", 0x018300C2, "cycles retiring nothing"),
    row(0x08, "ProfileDcacheMisses", Exact, "DCU_LINES_IN", 0x00030045, "L1D fills"),
    row(0x09, "ProfileIcacheMisses", Exact, "IFU_IFETCH_MISS", 0x00030081, ""),
    row(0x0A, "ProfileCacheMisses", Approximate, "L2_RQSTS umask I", 0x0003012E, "Linux choice; Emon 2Eh/41h is its descendant. Alternative L2_LINES_IN 0x24/00"),
    row(0x0B, "ProfileBranchMispredictions", Exact, "BR_MISS_PRED_RETIRED", 0x000300C5, "Emon uses the same code"),
    Row::unsupported(0x0C, "ProfileStoreInstructions", "L2_ST counts only stores that reach L2"),
    row(0x0D, "ProfileFpInstructions", Exact, "FLOPS", 0x000300C1, "counter 0 only, so it must get counter 0 or fail"),
    Row::unsupported(0x0E, "ProfileIntegerInstructions", "no integer-instruction event on any x86 family"),
    row(0x0F, "Profile2Issue", Approximate, "UOPS_RETIRED CMASK=2", 0x020300C2, "cycles retiring at least 2 uops"),
    row(0x10, "Profile3Issue", Approximate, "UOPS_RETIRED CMASK=3", 0x030300C2, "cycles retiring 3 uops (machine width)"),
    Row::unsupported(0x11, "Profile4Issue", "no machine here retires 4 per clock"),
    Row::unsupported(0x12, "ProfileSpecialInstructions", "Alpha/MIPS notion; no x86 event"),
    row(0x13, "ProfileTotalCycles", Exact, "CPU_CLK_UNHALTED", 0x00030079, "note 79h here, 3Ch on Core and later"),
    row(0x14, "ProfileIcacheIssues", Exact, "IFU_IFETCH", 0x00030080, ""),
    row(0x15, "ProfileDcacheAccesses", Exact, "DATA_MEM_REFS", 0x00030043, "also internal retries"),
    row(0x16, "ProfileMemoryBarrierCycles", Approximate, "SB_DRAINS", 0x00030004, "cycles; includes other drain causes"),
    Row::unsupported(0x17, "ProfileLoadLinkedIssues", "x86 has no load-linked"),
];

/// Source: Intel SDM, volume 3B, "P6 Family Processor Performance Monitoring Events" and "Pentium M
/// Processor Performance Monitoring Events".
#[rustfmt::skip]
static EVENTS: [Event; 106] = [
    event(0x03, "LD_BLOCKS", 0x00, EVERY, "loads delayed by store-buffer blocks"),
    event(0x04, "SB_DRAINS", 0x00, EVERY, "cycles the store buffer drains (serialising and synchronising instructions, interrupts, flushes)"),
    event(0x05, "MISALIGN_MEM_REF", 0x00, EVERY, "misaligned uops dispatched (64-bit boundary crossing); approximate"),
    event(0x06, "SEGMENT_REG_LOADS", 0x00, EVERY, "segment register loads"),
    event(0x07, "EMON_KNI_PREF_DISPATCHED", 0x00, PIII, "SSE prefetch/weakly ordered dispatched"),
    event(0x10, "FP_COMP_OPS_EXE", 0x00, EVERY, "FP (and integer mul/div) operations executed, speculative"),
    event(0x11, "FP_ASSIST", 0x00, EVERY, "FP assists by microcode; speculative"),
    event(0x12, "MUL", 0x00, EVERY, "integer and FP multiplies; speculative"),
    event(0x13, "DIV", 0x00, EVERY, "integer and FP divides; speculative"),
    event(0x14, "CYCLES_DIV_BUSY", 0x00, EVERY, "cycles divider busy; speculative"),
    event(0x21, "L2_ADS", 0x00, EVERY, "L2 address strobes"),
    event(0x22, "L2_DBUS_BUSY", 0x00, EVERY, "cycles the L2 data bus is busy"),
    event(0x23, "L2_DBUS_BUSY_RD", 0x00, EVERY, "cycles the L2 data bus moves read data"),
    event(0x24, "L2_LINES_IN", 0x00, EVERY, "lines allocated in L2"),
    event(0x25, "L2_M_LINES_INM", 0x00, EVERY, "modified lines allocated in L2"),
    event(0x26, "L2_LINES_OUT", 0x00, EVERY, "lines removed from L2"),
    event(0x27, "L2_M_LINES_OUTM", 0x00, EVERY, "modified lines removed from L2"),
    event(0x28, "L2_IFETCH", 0x0F, EVERY, "L2 instruction fetches, cacheable only"),
    event(0x29, "L2_LD", 0x0F, EVERY, "L2 data loads"),
    event(0x2A, "L2_ST", 0x0F, EVERY, "L2 data stores (RFO and I-to-M requests)"),
    event(0x2E, "L2_RQSTS", 0x0F, EVERY, "all L2 requests; umask 0x01 (I) approximates L2 misses; umask 0 counts nothing and is Linux's NOP event"),
    event(0x43, "DATA_MEM_REFS", 0x00, EVERY, "loads and stores of any type plus internal retries; splits counted per part; no I/O"),
    event(0x45, "DCU_LINES_IN", 0x00, EVERY, "lines allocated in the L1 data cache"),
    event(0x46, "DCU_M_LINES_IN", 0x00, EVERY, "modified lines allocated in L1D"),
    event(0x47, "DCU_M_LINES_OUT", 0x00, EVERY, "modified lines evicted from L1D"),
    event(0x48, "DCU_MISS_OUTSTANDING", 0x00, EVERY, "cycles weighted by outstanding L1D misses; imprecise"),
    event(0x4B, "EMON_KNI_PREF_MISS", 0x00, PIII, "those missing all caches"),
    event(0x58, "EMON_EST_TRANS", 0x00, PM, "SpeedStep transitions"),
    event(0x59, "EMON_THERMAL_TRIP", 0x00, PM, "thermal trip duration/occurrences; SDM says set bit 22 for edge, but edge is bit 18"),
    event(0x60, "BUS_REQ_OUTSTANDING", 0x00, EVERY, "cacheable line reads outstanding, summed per cycle"),
    event(0x61, "BUS_BNR_DRV", 0x00, EVERY, "bus clocks driving BNR#"),
    event(0x62, "BUS_DRDY_CLOCKS", 0x00, EVERY, "DRDY# clocks; self = bus clocks, any = CPU clocks"),
    event(0x63, "BUS_LOCK_CLOCKS", 0x00, EVERY, "LOCK# clocks, always CPU clocks"),
    event(0x64, "BUS_DATA_RCV", 0x00, EVERY, "bus clocks receiving data"),
    event(0x65, "BUS_TRAN_BRD", 0x00, EVERY, "burst reads"),
    event(0x66, "BUS_TRAN_RFO", 0x00, EVERY, "reads for ownership"),
    event(0x67, "BUS_TRANS_WB", 0x00, EVERY, "writebacks"),
    event(0x68, "BUS_TRAN_IFETCH", 0x00, EVERY, "instruction fetches"),
    event(0x69, "BUS_TRAN_INVAL", 0x00, EVERY, "invalidates"),
    event(0x6A, "BUS_TRAN_PWR", 0x00, EVERY, "partial writes"),
    event(0x6B, "BUS_TRANS_P", 0x00, EVERY, "partial transactions"),
    event(0x6C, "BUS_TRANS_IO", 0x00, EVERY, "I/O transactions"),
    event(0x6D, "BUS_TRAN_DEF", 0x00, EVERY, "deferred transactions"),
    event(0x6E, "BUS_TRAN_BURST", 0x00, EVERY, "bursts"),
    event(0x6F, "BUS_TRAN_MEM", 0x00, EVERY, "memory transactions"),
    event(0x70, "BUS_TRAN_ANY", 0x00, EVERY, "all transactions"),
    event(0x79, "CPU_CLK_UNHALTED", 0x00, EVERY, "unhalted clocks (PM: also excludes thermal trip)"),
    event(0x7A, "BUS_HIT_DRV", 0x00, EVERY, "bus clocks driving HIT#; pin output needs 2:1 or 3:1 ratio"),
    event(0x7B, "BUS_HITM_DRV", 0x00, EVERY, "bus clocks driving HITM#; same pin caveat"),
    event(0x7E, "BUS_SNOOP_STALL", 0x00, EVERY, "cycles the bus is snoop-stalled"),
    event(0x80, "IFU_IFETCH", 0x00, EVERY, "instruction fetches incl. uncacheable"),
    event(0x81, "IFU_IFETCH_MISS", 0x00, EVERY, "instruction fetches producing a memory request"),
    event(0x85, "ITLB_MISS", 0x00, EVERY, "ITLB misses"),
    event(0x86, "IFU_MEM_STALL", 0x00, EVERY, "cycles fetch is stalled for any reason (duration)"),
    event(0x87, "ILD_STALL", 0x00, EVERY, "cycles length decoder is stalled (duration)"),
    event(0x88, "BR_INST_EXEC", 0x00, PM, "branches executed"),
    event(0x89, "BR_MISSP_EXEC", 0x00, PM, "mispredicted at execution"),
    event(0x8A, "BR_BAC_MISSP_EXEC", 0x00, PM, "mispredicted at front end"),
    event(0x8B, "BR_CND_EXEC", 0x00, PM, "conditional executed"),
    event(0x8C, "BR_CND_MISSP_EXEC", 0x00, PM, "conditional mispredicted"),
    event(0x8D, "BR_IND_EXEC", 0x00, PM, "indirect executed"),
    event(0x8E, "BR_IND_MISSP_EXEC", 0x00, PM, "indirect mispredicted"),
    event(0x8F, "BR_RET_EXEC", 0x00, PM, "returns executed"),
    event(0x90, "BR_RET_MISSP_EXEC", 0x00, PM, "returns mispredicted at execution"),
    event(0x91, "BR_RET_BAC_MISSP_EXEC", 0x00, PM, "returns mispredicted at front end"),
    event(0x92, "BR_CALL_EXEC", 0x00, PM, "calls executed"),
    event(0x93, "BR_CALL_MISSP_EXEC", 0x00, PM, "calls mispredicted"),
    event(0x94, "BR_IND_CALL_EXEC", 0x00, PM, "indirect calls executed"),
    event(0xA2, "RESOURCE_STALLS", 0x00, EVERY, "cycles with a resource stall (duration); also mispredict recovery"),
    event(0xB0, "MMX_INSTR_EXEC", 0x00, PII | CELERON, "MMX instructions executed (not register-to-memory MOVD/MOVQ)"),
    event(0xB1, "MMX_SAT_INSTR_EXEC", 0x00, PII | PIII, "saturating MMX instructions"),
    event(0xB2, "MMX_UOPS_EXEC", 0x0F, PII | PIII, "MMX uops"),
    event(0xB3, "MMX_INSTR_TYPE_EXEC", 0x3F, PII | PIII, "MMX instructions by type"),
    event(0xC0, "INST_RETIRED", 0x00, EVERY, "instructions retired; undercounts by 1 for an interrupt at the end of REP STOS and for SMI in HLT"),
    event(0xC1, "FLOPS", 0x00, EVERY, "retired FP computational operations; not loads/stores; transcendentals count sub-operations"),
    event(0xC2, "UOPS_RETIRED", 0x00, EVERY, "micro-ops retired"),
    event(0xC4, "BR_INST_RETIRED", 0x00, EVERY, "branches retired"),
    event(0xC5, "BR_MISS_PRED_RETIRED", 0x00, EVERY, "mispredicted branches retired"),
    event(0xC6, "CYCLES_INT_MASKED", 0x00, EVERY, "cycles with interrupts disabled (duration)"),
    event(0xC7, "CYCLES_INT_PENDING_AND_MASKED", 0x00, EVERY, "cycles disabled with one pending (duration)"),
    event(0xC8, "HW_INT_RX", 0x00, EVERY, "hardware interrupts received"),
    event(0xC9, "BR_TAKEN_RETIRED", 0x00, EVERY, "taken branches retired"),
    event(0xCA, "BR_MISS_PRED_TAKEN_RET", 0x00, EVERY, "taken mispredicted branches retired"),
    event(0xCC, "FP_MMX_TRANS", 0x00, PII | PIII, "transitions"),
    event(0xCD, "MMX_ASSIST", 0x00, PII | PIII, "EMMS executed"),
    event(0xCE, "EMON_SIMD_INSTR_RETIRED", 0x00, PM, "MMX retired (replaces MMX_INSTR_RET)"),
    event(0xCE, "MMX_INSTR_RET", 0x00, PII, "MMX instructions retired"),
    event(0xD0, "INST_DECODED", 0x00, EVERY, "instructions decoded"),
    event(0xD2, "PARTIAL_RAT_STALLS", 0x00, EVERY, "partial-register/flag stalls"),
    event(0xD3, "EMON_SYNCH_UOPS", 0x00, PM, "sync uops"),
    event(0xD4, "SEG_RENAME_STALLS", 0x0F, PII | PIII, "segment-register renaming stalls"),
    event(0xD5, "SEG_REG_RENAMES", 0x0F, PII | PIII, "segment-register renames"),
    event(0xD6, "RET_SEG_RENAMES", 0x00, PII | PIII, "renames retired"),
    event(0xD7, "EMON_ESP_UOPS", 0x00, PM, "stack-engine uops"),
    event(0xD8, "EMON_KNI_INST_RETIRED", 0x00, PIII, "SSE instructions retired"),
    event(0xD8, "EMON_SSE_SSE2_INST_RETIRED", 0x00, PM, "replaces the PIII meaning"),
    event(0xD9, "EMON_KNI_COMP_INST_RET", 0x00, PIII, "SSE computational instructions retired"),
    event(0xD9, "EMON_SSE_SSE2_COMP_INST_RETIRED", 0x00, PM, "replaces the PIII meaning"),
    event(0xDA, "EMON_FUSED_UOPS_RET", 0x00, PM, "fused uops retired"),
    event(0xDB, "EMON_UNFUSION", 0x00, PM, "unfusion events"),
    event(0xE0, "BR_INST_DECODED", 0x00, EVERY, "branches decoded"),
    event(0xE2, "BTB_MISSES", 0x00, EVERY, "branches without a BTB prediction"),
    event(0xE4, "BR_BOGUS", 0x00, EVERY, "bogus branches"),
    event(0xE6, "BACLEARS", 0x00, EVERY, "static-prediction corrections (BACLEAR)"),
    event(0xF0, "EMON_PREF_RQSTS_UP", 0x00, PM, "upward prefetches"),
    event(0xF8, "EMON_PREF_RQSTS_DN", 0x00, PM, "downward prefetches (FreeBSD table has 0xD8: wrong)"),
];
