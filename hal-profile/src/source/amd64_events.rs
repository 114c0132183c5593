//! What an AMD event code means on each family.
//!
//! The codes are those of the HAL's Amd64 table. Later families gave many of them another meaning,
//! or none; the name never depends on the unit mask.

/// AMD's processors, as far as their event lists differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AmdGeneration {
    /// Family 0Fh.
    K8,
    /// Family 10h.
    Family10h,
    /// Family 11h.
    Family11h,
    /// Family 12h.
    Family12h,
    /// Family 14h.
    Family14h,
    /// Family 15h: Bulldozer to Excavator.
    Family15h,
    /// Family 16h.
    Family16h,
    /// Family 17h models 00h to 2Fh: Zen and Zen+.
    Zen1,
    /// Family 17h from model 30h on.
    Zen2,
    /// Family 19h models 00h to 0Fh and 20h to 5Fh.
    Zen3,
    /// Family 19h, all other models.
    Zen4,
    /// Family 1Ah.
    Zen5,
    /// None of these: what its events mean is not known.
    Unknown,
}

impl AmdGeneration {
    /// The generation of a family and model as CPUID.1:EAX shows them, extended fields added in.
    #[must_use]
    pub const fn from(family: u32, model: u32) -> Self {
        match (family, model) {
            (0x0F, _) => Self::K8,
            (0x10, _) => Self::Family10h,
            (0x11, _) => Self::Family11h,
            (0x12, _) => Self::Family12h,
            (0x14, _) => Self::Family14h,
            (0x15, _) => Self::Family15h,
            (0x16, _) => Self::Family16h,
            (0x17, 0x00..=0x2F) => Self::Zen1,
            (0x17, _) => Self::Zen2,
            (0x19, 0x00..=0x0F | 0x20..=0x5F) => Self::Zen3,
            (0x19, _) => Self::Zen4,
            (0x1A, _) => Self::Zen5,
            _ => Self::Unknown,
        }
    }
}

/// One event code and its names.
struct Event {
    code: u16,
    /// On K8, family 10h and family 15h; empty where it is not documented.
    before_zen: [&'static str; 3],
    /// On Zen 1 to Zen 5; empty where it is not documented.
    zen: [&'static str; 5],
    verdict: &'static str,
}

const fn event(
    code: u16,
    before_zen: [&'static str; 3],
    zen: [&'static str; 5],
    verdict: &'static str,
) -> Event {
    Event {
        code,
        before_zen,
        zen,
        verdict,
    }
}

const fn before_zen(code: u16, names: [&'static str; 3]) -> Event {
    event(
        code,
        names,
        [""; 5],
        "not documented on any Zen (K8-family event): treat as unsupported",
    )
}

/// Whether a code belongs to the northbridge, where one set of counters serves all cores of a node:
/// bits 7:5 all set (BKDG for AMD Family 10h Processors, "Northbridge Events").
#[must_use]
pub const fn is_northbridge(event: u16) -> bool {
    event & 0xE0 == 0xE0
}

/// The manual's name of an event on this generation, or `None` where it is not documented there.
#[must_use]
pub const fn meaning(generation: AmdGeneration, event: u16) -> Option<&'static str> {
    let Some(row) = find(event) else { return None };
    let name = match generation {
        AmdGeneration::K8 => row.before_zen[0],
        AmdGeneration::Family10h => row.before_zen[1],
        AmdGeneration::Family15h => row.before_zen[2],
        AmdGeneration::Family11h
        | AmdGeneration::Family12h
        | AmdGeneration::Family14h
        | AmdGeneration::Family16h
            if kept_from_k8(event) =>
        {
            row.before_zen[0]
        }
        AmdGeneration::Zen1 => row.zen[0],
        AmdGeneration::Zen2 => row.zen[1],
        AmdGeneration::Zen3 => row.zen[2],
        AmdGeneration::Zen4 => row.zen[3],
        AmdGeneration::Zen5 => row.zen[4],
        _ => "",
    };
    if name.is_empty() { None } else { Some(name) }
}

/// The events whose K8 meaning families 11h, 12h, 14h and 16h keep (their BKDGs).
const fn kept_from_k8(event: u16) -> bool {
    matches!(event, 0x40 | 0x41 | 0x76 | 0x80 | 0x81 | 0xC0 | 0xC2 | 0xC3)
}

/// What became of a K8 event on Zen, in words; `None` for codes that the HAL's table does not use.
#[must_use]
pub const fn verdict(event: u16) -> Option<&'static str> {
    match find(event) {
        Some(row) => Some(row.verdict),
        None => None,
    }
}

/// Whether the unit mask selects no documented part of an event that is documented with unit-mask
/// bits only, so that nothing is counted. Known for the selects of the HAL's table alone.
#[must_use]
pub const fn mask_selects_nothing(generation: AmdGeneration, event: u16, unit_mask: u8) -> bool {
    use AmdGeneration::{Family10h, Family15h, Zen1, Zen2, Zen3, Zen4, Zen5};
    match (event, unit_mask) {
        (0x25, 0) => matches!(generation, Zen1 | Zen2 | Zen3 | Zen4 | Zen5),
        (0x41, 0) => matches!(generation, Family15h | Zen1 | Zen2 | Zen3 | Zen4 | Zen5),
        (0x47, 0) => matches!(generation, Zen3 | Zen4 | Zen5),
        (0x87, 0) => matches!(generation, Zen1 | Zen2),
        (0xCB, 8) => matches!(
            generation,
            Family10h | Family15h | Zen1 | Zen2 | Zen3 | Zen4 | Zen5
        ),
        _ => false,
    }
}

const fn find(event: u16) -> Option<&'static Event> {
    let mut rest: &[Event] = &EVENTS;
    while let [row, after @ ..] = rest {
        if row.code == event {
            return Some(row);
        }
        rest = after;
    }
    None
}

/// The event codes of the HAL's Amd64 table.
///
/// Source: the event lists of libpfm4 and Linux's perf, which name events as the BKDG and PPR of
/// each family do.
#[rustfmt::skip]
static EVENTS: [Event; 80] = [
    event(0x00, ["DISPATCHED_FPU", "DISPATCHED_FPU", "DISPATCHED_FPU_OPS"], ["FPU_PIPE_ASSIGNMENT", "", "", "", ""], "Zen1: uops assigned to FP pipes 0..3 (0x01..0x08) and multi-pipe uops (0x10..0x80), not add/mul/store; undocumented from Zen2"),
    event(0x01, ["CYCLES_NO_FPU_OPS_RETIRED", "CYCLES_NO_FPU_OPS_RETIRED", "CYCLES_FPU_EMPTY"], ["FP_SCHEDULER_EMPTY", "", "", "", ""], "documented only on some Zen generations"),
    event(0x02, ["DISPATCHED_FPU_OPS_FAST_FLAG", "DISPATCHED_FPU_OPS_FAST_FLAG", ""], ["RETIRED_X87_FLOATING_POINT_OPERATIONS", "", "", "RETIRED_X87_FP_OPS", "RETIRED_X87_FP_OPS"], "Zen1/Zen4/Zen5: retired x87 operations; other gens undocumented"),
    before_zen(0x20, ["SEGMENT_REGISTER_LOADS", "SEGMENT_REGISTER_LOADS", "SEGMENT_REGISTER_LOADS"]),
    before_zen(0x21, ["PIPELINE_RESTART_DUE_TO_SELF_MODIFYING_CODE", "PIPELINE_RESTART_DUE_TO_SELF_MODIFYING_CODE", "PIPELINE_RESTART_DUE_TO_SELF_MODIFYING_CODE"]),
    before_zen(0x22, ["PIPELINE_RESTART_DUE_TO_PROBE_HIT", "PIPELINE_RESTART_DUE_TO_PROBE_HIT", "PIPELINE_RESTART_DUE_TO_PROBE_HIT"]),
    before_zen(0x23, ["LS_BUFFER_2_FULL_CYCLES", "LS_BUFFER_2_FULL_CYCLES", "LOAD_Q_STORE_Q_FULL"]),
    event(0x24, ["LOCKED_OPS"; 3], ["", "BAD_STATUS_2", "BAD_STATUS_2", "BAD_STATUS_2", "BAD_STATUS_2"], "from Zen2: bad status 2 / store-to-load conflict (umask 0x02), not locked operations"),
    event(0x25, [""; 3], ["LOCKS", "RETIRED_LOCK_INSTRUCTIONS", "RETIRED_LOCK_INSTRUCTIONS", "RETIRED_LOCK_INSTRUCTIONS", "RETIRED_LOCK_INSTRUCTIONS"], "retired lock instructions by kind and needs a umask: with 0x00 expect no counts"),
    event(0x26, ["RETIRED_CLFLUSH_INSTRUCTIONS"; 3], ["", "RETIRED_CLFLUSH_INSTRUCTIONS", "RETIRED_CLFLUSH_INSTRUCTIONS", "RETIRED_CLFLUSH_INSTRUCTIONS", "RETIRED_CLFLUSH_INSTRUCTIONS"], "same meaning"),
    event(0x27, ["RETIRED_CPUID_INSTRUCTIONS"; 3], ["", "RETIRED_CPUID_INSTRUCTIONS", "RETIRED_CPUID_INSTRUCTIONS", "RETIRED_CPUID_INSTRUCTIONS", "RETIRED_CPUID_INSTRUCTIONS"], "same meaning"),
    event(0x40, ["DATA_CACHE_ACCESSES"; 3], ["DATA_CACHE_ACCESSES", "ls_dc_accesses (perf json)", "ls_dc_accesses (perf json)", "", ""], "documented only on some Zen generations"),
    event(0x41, ["DATA_CACHE_MISSES"; 3], ["MAB_ALLOCATION_BY_PIPE", "MAB_ALLOCATION_BY_PIPE", "MAB_ALLOCATION_BY_TYPE", "MAB_ALLOCATION_BY_TYPE", "MAB_ALLOCATION_BY_TYPE"], "miss address buffer allocations by type and needs a umask: with 0x00 expect no counts (use umask per events-modern.csv)"),
    before_zen(0x42, ["DATA_CACHE_REFILLS", "DATA_CACHE_REFILLS", "DATA_CACHE_REFILLS_FROM_L2_OR_NORTHBRIDGE"]),
    event(0x43, ["DATA_CACHE_REFILLS_FROM_SYSTEM", "DATA_CACHE_REFILLS_FROM_SYSTEM", "DATA_CACHE_REFILLS_FROM_NORTHBRIDGE"], ["", "DATA_CACHE_REFILLS_FROM_SYSTEM", "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM", "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM", "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM"], "demand DC fills by DATA SOURCE (bit0 local L2, bit1 CCX/local cache, bit3 local DRAM, bit4 remote cache, bit6 remote DRAM): the MOESI sub-sources of the HAL mean something else"),
    event(0x44, ["DATA_CACHE_LINES_EVICTED", "DATA_CACHE_LINES_EVICTED", ""], ["", "", "ANY_DATA_CACHE_FILLS_FROM_SYSTEM", "ANY_DATA_CACHE_FILLS_FROM_SYSTEM", "ANY_DATA_CACHE_FILLS_FROM_SYSTEM"], "Zen3+: ANY DC fills by data source; no copy-back/eviction meaning any more"),
    event(0x45, ["L1_DTLB_MISS_AND_L2_DTLB_HIT", "L1_DTLB_MISS_AND_L2_DTLB_HIT", "UNIFIED_TLB_HIT"], ["L1_DTLB_MISS"; 5], "L1 DTLB misses by page size and L2 hit/miss; mask 0x07 covers 4K/coalesced/2M pages that hit L2 TLB only partly as before"),
    event(0x46, ["L1_DTLB_AND_L2_DTLB_MISS", "L1_DTLB_AND_L2_DTLB_MISS", "UNIFIED_TLB_MISS"], ["TABLEWALKER_ALLOCATION", "ls_tablewalker (perf json)", "ls_tablewalker (perf json)", "", ""], "table walker allocations (0x01,0x02 D side, 0x04,0x08 I side)"),
    event(0x47, ["MISALIGNED_ACCESSES"; 3], ["MISALIGNED_LOADS"; 5], "misaligned LOADS only; Zen3+ needs umask 0x01 (64B) / 0x02 (4K): with 0x00 expect no counts"),
    before_zen(0x48, ["MICROARCHITECTURAL_LATE_CANCEL_OF_AN_ACCESS", "MICROARCHITECTURAL_LATE_CANCEL_OF_AN_ACCESS", ""]),
    before_zen(0x49, ["MICROARCHITECTURAL_EARLY_CANCEL_OF_AN_ACCESS", "MICROARCHITECTURAL_EARLY_CANCEL_OF_AN_ACCESS", ""]),
    before_zen(0x4A, ["SCRUBBER_SINGLE_BIT_ECC_ERRORS", "SCRUBBER_SINGLE_BIT_ECC_ERRORS", ""]),
    event(0x4B, ["PREFETCH_INSTRUCTIONS_DISPATCHED"; 3], ["PREFETCH_INSTRUCTIONS_DISPATCHED"; 5], "same meaning (1 T0,T1,T2; 2 W; 4 NTA)"),
    event(0x63, [""; 3], ["LS_TO_L2_WBC_REQUESTS", "", "", "", "LS_TO_L2_WBC_REQUESTS"], "LS to L2 write-combining buffer requests, not clean/shared-to-dirty"),
    event(0x76, ["CPU_CLK_UNHALTED"; 3], ["CYCLES_NOT_IN_HALT"; 5], "same meaning"),
    before_zen(0x7D, ["REQUESTS_TO_L2", "REQUESTS_TO_L2", "REQUESTS_TO_L2"]),
    before_zen(0x7E, ["L2_CACHE_MISS", "L2_CACHE_MISS", "L2_CACHE_MISS"]),
    before_zen(0x7F, ["L2_FILL_WRITEBACK", "L2_FILL_WRITEBACK", "L2_CACHE_FILL_WRITEBACK"]),
    event(0x80, ["INSTRUCTION_CACHE_FETCHES"; 3], ["32_BYTE_INSTRUCTION_CACHE_FETCH", "ic_fw32 (perf json)", "", "", ""], "Zen1/2: 32-byte fetch windows; from Zen3 not documented (use 0x18E)"),
    event(0x81, ["INSTRUCTION_CACHE_MISSES"; 3], ["32_BYTE_INSTRUCTION_CACHE_MISSES", "ic_fw32_miss (perf json)", "", "", ""], "Zen1/2: 32-byte fetch windows missed; from Zen3 not documented (use 0x18E)"),
    event(0x82, ["INSTRUCTION_CACHE_REFILLS_FROM_L2"; 3], ["INSTRUCTION_CACHE_REFILLS_FROM_L2"; 5], "same meaning"),
    event(0x83, ["INSTRUCTION_CACHE_REFILLS_FROM_SYSTEM"; 3], ["INSTRUCTION_CACHE_REFILLS_FROM_SYSTEM"; 5], "same meaning"),
    event(0x84, ["L1_ITLB_MISS_AND_L2_ITLB_HIT"; 3], ["L1_ITLB_MISS_L2_ITLB_HIT"; 5], "same meaning"),
    event(0x85, ["L1_ITLB_MISS_AND_L2_ITLB_MISS"; 3], ["L1_ITLB_MISS_L2_ITLB_MISS"; 5], "instruction fetch L1+L2 ITLB misses by page size 1=4K 2=2M 4=1G 8=coalesced: mask 0x03 leaves out 1G/coalesced"),
    event(0x86, ["PIPELINE_RESTART_DUE_TO_INSTRUCTION_STREAM_PROBE"; 3], ["PIPELINE_RESTART_DUE_TO_INSTRUCTION_STREAM_PROBE", "bp_snp_re_sync (perf json)", "", "", ""], "documented only on some Zen generations"),
    event(0x87, ["INSTRUCTION_FETCH_STALL"; 3], ["INSTRUCTION_PIPE_STALL", "ic_fetch_stall (perf json)", "", "", ""], "needs umask (1 back pressure, 2 DQ empty, 4 any): with 0x00 expect no counts; gone from Zen3"),
    before_zen(0x88, ["RETURN_STACK_HITS", "RETURN_STACK_HITS", "RETURN_STACK_HITS"]),
    before_zen(0x89, ["RETURN_STACK_OVERFLOWS", "RETURN_STACK_OVERFLOWS", "RETURN_STACK_OVERFLOWS"]),
    event(0xC0, ["RETIRED_INSTRUCTIONS"; 3], ["RETIRED_INSTRUCTIONS"; 5], "same meaning"),
    event(0xC1, ["RETIRED_UOPS"; 3], ["RETIRED_UOPS", "RETIRED_UOPS", "RETIRED_OPS", "RETIRED_OPS", "RETIRED_OPS"], "Zen3+: macro-ops retired rather than uops"),
    event(0xC2, ["RETIRED_BRANCH_INSTRUCTIONS"; 3], ["RETIRED_BRANCH_INSTRUCTIONS"; 5], "same meaning"),
    event(0xC3, ["RETIRED_MISPREDICTED_BRANCH_INSTRUCTIONS"; 3], ["RETIRED_BRANCH_INSTRUCTIONS_MISPREDICTED"; 5], "same meaning"),
    event(0xC4, ["RETIRED_TAKEN_BRANCH_INSTRUCTIONS"; 3], ["RETIRED_TAKEN_BRANCH_INSTRUCTIONS"; 5], "same meaning"),
    event(0xC5, ["RETIRED_TAKEN_BRANCH_INSTRUCTIONS_MISPREDICTED"; 3], ["RETIRED_TAKEN_BRANCH_INSTRUCTIONS_MISPREDICTED"; 5], "same meaning"),
    event(0xC6, ["RETIRED_FAR_CONTROL_TRANSFERS"; 3], ["RETIRED_FAR_CONTROL_TRANSFERS"; 5], "same meaning"),
    event(0xC7, ["RETIRED_BRANCH_RESYNCS"; 3], ["RETIRED_BRANCH_RESYNCS", "", "", "", ""], "documented only on some Zen generations"),
    event(0xC8, ["RETIRED_NEAR_RETURNS"; 3], ["RETIRED_NEAR_RETURNS"; 5], "same meaning"),
    event(0xC9, ["RETIRED_NEAR_RETURNS_MISPREDICTED"; 3], ["RETIRED_NEAR_RETURNS_MISPREDICTED"; 5], "same meaning"),
    event(0xCA, ["RETIRED_INDIRECT_BRANCHES_MISPREDICTED"; 3], ["RETIRED_INDIRECT_BRANCH_INSTRUCTIONS_MISPREDICTED"; 5], "same meaning (indirect branches mispredicted)"),
    event(0xCB, ["RETIRED_MMX_AND_FP_INSTRUCTIONS", "RETIRED_MMX_AND_FP_INSTRUCTIONS", "RETIRED_MMX_FP_INSTRUCTIONS"], ["RETIRED_MMX_FP_INSTRUCTIONS"; 5], "bit 3 undefined; bit 2 covers packed and scalar SSE/AVX, so the scalar sub-source (0x08) counts nothing documented"),
    event(0xCC, ["RETIRED_FASTPATH_DOUBLE_OP_INSTRUCTIONS", "RETIRED_FASTPATH_DOUBLE_OP_INSTRUCTIONS", ""], ["", "", "RETIRED_INDIRECT_BRANCH_INSTRUCTIONS", "RETIRED_INDIRECT_BRANCH_INSTRUCTIONS", "RETIRED_INDIRECT_BRANCH_INSTRUCTIONS"], "Zen3+: retired indirect branch instructions"),
    before_zen(0xCD, ["INTERRUPTS_MASKED_CYCLES", "INTERRUPTS_MASKED_CYCLES", "INTERRUPTS_MASKED_CYCLES"]),
    before_zen(0xCE, ["INTERRUPTS_MASKED_CYCLES_WITH_INTERRUPT_PENDING", "INTERRUPTS_MASKED_CYCLES_WITH_INTERRUPT_PENDING", "INTERRUPTS_MASKED_CYCLES_WITH_INTERRUPT_PENDING"]),
    before_zen(0xCF, ["INTERRUPTS_TAKEN", "INTERRUPTS_TAKEN", "INTERRUPTS_TAKEN"]),
    before_zen(0xD0, ["DECODER_EMPTY", "DECODER_EMPTY", "DECODER_EMPTY"]),
    event(0xD1, ["DISPATCH_STALLS"; 3], ["RETIRED_CONDITIONAL_BRANCH_INSTRUCTIONS"; 5], "retired CONDITIONAL BRANCH instructions, not dispatch stalls (event used by rr)"),
    event(0xD2, ["DISPATCH_STALL_FOR_BRANCH_ABORT", "DISPATCH_STALL_FOR_BRANCH_ABORT", ""], ["RETIRED_CONDITIONAL_BRANCH_INSTRUCTIONS_MISPREDICTED", "", "", "", ""], "Zen1: retired conditional branches mispredicted; later undocumented"),
    event(0xD3, ["DISPATCH_STALL_FOR_SERIALIZATION"; 3], ["DIV_CYCLES_BUSY_COUNT"; 5], "divider busy cycles, not serialisation stalls"),
    event(0xD4, ["DISPATCH_STALL_FOR_SEGMENT_LOAD", "DISPATCH_STALL_FOR_SEGMENT_LOAD", ""], ["DIV_OP_COUNT"; 5], "divide operations, not segment-load stalls"),
    before_zen(0xD5, ["DISPATCH_STALL_FOR_REORDER_BUFFER_FULL", "DISPATCH_STALL_FOR_REORDER_BUFFER_FULL", "DISPATCH_STALL_FOR_RETIRE_QUEUE_FULL"]),
    event(0xD6, ["DISPATCH_STALL_FOR_RESERVATION_STATION_FULL", "DISPATCH_STALL_FOR_RESERVATION_STATION_FULL", "DISPATCH_STALL_FOR_INT_SCHED_QUEUE_FULL"], ["", "", "", "CYCLES_NO_RETIRE", "CYCLES_NO_RETIRE"], "Zen4+: cycles with no retire (umask selects reason)"),
    before_zen(0xD7, ["DISPATCH_STALL_FOR_FPU_FULL", "DISPATCH_STALL_FOR_FPU_FULL", "DISPATCH_STALL_FOR_FPU_FULL"]),
    before_zen(0xD8, ["DISPATCH_STALL_FOR_LS_FULL", "DISPATCH_STALL_FOR_LS_FULL", "DISPATCH_STALL_FOR_LDQ_FULL"]),
    before_zen(0xD9, ["DISPATCH_STALL_WAITING_FOR_ALL_QUIET", "DISPATCH_STALL_WAITING_FOR_ALL_QUIET", "MICROSEQ_STALL_WAITING_FOR_ALL_QUIET"]),
    before_zen(0xDA, ["DISPATCH_STALL_FOR_FAR_TRANSFER_OR_RSYNC", "DISPATCH_STALL_FOR_FAR_TRANSFER_OR_RSYNC", ""]),
    before_zen(0xDB, ["FPU_EXCEPTIONS", "FPU_EXCEPTIONS", "FPU_EXCEPTIONS"]),
    before_zen(0xDC, ["DR0_BREAKPOINT_MATCHES", "DR0_BREAKPOINT_MATCHES", "DR0_BREAKPOINTS"]),
    before_zen(0xDD, ["DR1_BREAKPOINT_MATCHES", "DR1_BREAKPOINT_MATCHES", "DR1_BREAKPOINTS"]),
    before_zen(0xDE, ["DR2_BREAKPOINT_MATCHES", "DR2_BREAKPOINT_MATCHES", "DR2_BREAKPOINTS"]),
    before_zen(0xDF, ["DR3_BREAKPOINT_MATCHES", "DR3_BREAKPOINT_MATCHES", "DR3_BREAKPOINTS"]),
    before_zen(0xE0, ["DRAM_ACCESSES_PAGE", "DRAM_ACCESSES_PAGE", ""]),
    before_zen(0xE1, ["MEMORY_CONTROLLER_PAGE_TABLE_OVERFLOWS", "MEMORY_CONTROLLER_PAGE_TABLE_OVERFLOWS", ""]),
    before_zen(0xE2, ["", "MEMORY_CONTROLLER_SLOT_MISSES", ""]),
    before_zen(0xE3, ["MEMORY_CONTROLLER_TURNAROUNDS", "MEMORY_CONTROLLER_TURNAROUNDS", ""]),
    before_zen(0xE4, ["MEMORY_CONTROLLER_BYPASS", "MEMORY_CONTROLLER_BYPASS", ""]),
    before_zen(0xEB, ["SIZED_COMMANDS", "SIZED_COMMANDS", ""]),
    before_zen(0xEC, ["PROBE", "PROBE", ""]),
    before_zen(0xF6, ["HYPERTRANSPORT_LINK0", "HYPERTRANSPORT_LINK0", ""]),
    before_zen(0xF7, ["HYPERTRANSPORT_LINK1", "HYPERTRANSPORT_LINK1", ""]),
    before_zen(0xF8, ["HYPERTRANSPORT_LINK2", "HYPERTRANSPORT_LINK2", ""]),
];
