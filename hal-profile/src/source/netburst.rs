//! The NetBurst interface: sources of the Pentium 4 and its Xeons.
//!
//! An event is counted by a chain of registers: an ESCR takes the event and its mask, a CCCR
//! selects the ESCR for its counter. Each event has a pair of ESCRs, an even and an odd one, and
//! each of the two feeds its own counters of the group.

use shared_types::ProfileSource;

use super::Fit::{Approximate, Exact};
use super::{CounterSet, Fit, NetBurstSelect, Row, Select, Upstream, listed_name};

/// ESCR bits 30:25: event select.
pub const EVENT_SELECT: u32 = 0x3F << 25;
/// ESCR bits 24:9: event mask.
pub const EVENT_MASK: u32 = 0xFFFF << 9;
/// CCCR bits 15:13: which ESCR of the group.
pub const ESCR_SELECT: u32 = 7 << 13;
/// CCCR bit 18: compare the input with the threshold.
pub const COMPARE: u32 = 1 << 18;
/// CCCR bit 19: count where the input is not above the threshold.
pub const COMPLEMENT: u32 = 1 << 19;
/// CCCR bits 23:20.
pub const THRESHOLD: u32 = 0xF << 20;
/// CCCR bit 24: count rising edges of the comparison.
pub const EDGE: u32 = 1 << 24;

const fn threshold(value: u32) -> u32 {
    (value << 20) & THRESHOLD
}

/// The counters of a group: those that even ESCRs feed, and those that odd ones do.
type Group = [CounterSet; 2];

/// Counter 1 is never used: the enable bit of its CCCR does not work reliably (Linux, p4.c).
const BPU: Group = [1 << 0, 1 << 2 | 1 << 3];
const MS: Group = [1 << 4 | 1 << 5, 1 << 6 | 1 << 7];
const FLAME: Group = [1 << 8 | 1 << 9, 1 << 10 | 1 << 11];
const IQ: Group = [1 << 12 | 1 << 13 | 1 << 16, 1 << 14 | 1 << 15 | 1 << 17];
const GROUPS: [Group; 4] = [BPU, MS, FLAME, IQ];

/// A pair of ESCRs: its number in CCCR's ESCR select, the two MSRs and the counters they feed.
#[derive(Clone, Copy)]
struct Escrs {
    select: u32,
    msr: [u16; 2],
    counters: Group,
}

const fn escrs(select: u32, msr: [u16; 2], counters: Group) -> Escrs {
    Escrs {
        select,
        msr,
        counters,
    }
}

impl Escrs {
    const fn even_only(self) -> Self {
        Self {
            msr: [self.msr[0], 0],
            counters: [self.counters[0], 0],
            ..self
        }
    }

    const fn odd_only(self) -> Self {
        Self {
            msr: [0, self.msr[1]],
            counters: [0, self.counters[1]],
            ..self
        }
    }
}

const TC_ESCR: Escrs = escrs(1, [0x3C4, 0x3C5], MS);
const BPU_ESCR: Escrs = escrs(0, [0x3B2, 0x3B3], BPU);
const ITLB_ESCR: Escrs = escrs(3, [0x3B6, 0x3B7], BPU);
const DAC_ESCR: Escrs = escrs(5, [0x3A8, 0x3A9], FLAME);
const SAAT_ESCR: Escrs = escrs(2, [0x3AE, 0x3AF], FLAME);
const MOB_ESCR: Escrs = escrs(2, [0x3AA, 0x3AB], BPU);
const PMH_ESCR: Escrs = escrs(4, [0x3AC, 0x3AD], BPU);
const BSU_ESCR: Escrs = escrs(7, [0x3A0, 0x3A1], BPU);
const FSB_ESCR: Escrs = escrs(6, [0x3A2, 0x3A3], BPU);
const FIRM_ESCR: Escrs = escrs(1, [0x3A4, 0x3A5], FLAME);
const MS_ESCR: Escrs = escrs(0, [0x3C0, 0x3C1], MS);
const TBPU_ESCR: Escrs = escrs(2, [0x3C2, 0x3C3], MS);
const ALF_ESCR: Escrs = escrs(1, [0x3CA, 0x3CB], IQ);
const CRU_ESCR01: Escrs = escrs(4, [0x3B8, 0x3B9], IQ);
const CRU_ESCR23: Escrs = escrs(5, [0x3CC, 0x3CD], IQ);

const fn count(event_select: u32, event_mask: u32, escrs: Escrs) -> NetBurstSelect {
    NetBurstSelect {
        escr: event_select << 25 | event_mask << 9,
        cccr: escrs.select << 13,
        escr_msr: escrs.msr,
        counters: escrs.counters,
        upstream: Upstream::None,
    }
}

impl NetBurstSelect {
    const fn filtered(self, cccr: u32) -> Self {
        Self {
            cccr: self.cccr | cccr,
            ..self
        }
    }

    const fn tagged_by_uop_type(self, event_mask: u32) -> Self {
        Self {
            upstream: Upstream::UopType {
                escr: 0x02 << 25 | event_mask << 9,
            },
            ..self
        }
    }

    const fn tagged_by_replay(self, pebs_enable: u32, matrix_vert: u32) -> Self {
        Self {
            upstream: Upstream::Replay {
                pebs_enable,
                matrix_vert,
            },
            ..self
        }
    }
}

/// The first number of halprof's own NetBurst sources; the event's place in the manual's list of
/// events, which begins with TC_deliver_mode, is added.
pub const FIRST_OWN: u32 = 0x8000_0900;

const fn row(
    id: u32,
    symbol: &'static str,
    fit: Fit,
    counts: &'static str,
    select: NetBurstSelect,
    note: &'static str,
) -> Row {
    Row {
        id: ProfileSource(id),
        name: listed_name(symbol),
        symbol,
        select: Select::NetBurst(select),
        counters: select.counters[0] | select.counters[1],
        fit,
        counts,
        note,
    }
}

const fn own(place: u32, name: &'static str, select: NetBurstSelect, note: &'static str) -> Row {
    Row {
        id: ProfileSource(FIRST_OWN + place),
        name,
        symbol: name,
        select: Select::NetBurst(select),
        counters: select.counters[0] | select.counters[1],
        fit: Exact,
        counts: name,
        note,
    }
}

/// halprof's own sources on a model of family 0Fh: the documented events, each with all of its mask
/// bits but those of FSB_data_activity that exclude one another. `instr_completed` came with model 3.
///
/// Not offered: b2b_cycles, bnr, snoop and response, whose ESCR select the manual contradicts;
/// uop_type, which tags and never counts; front_end_event, execution_event and replay_event, which
/// count only what something upstream has tagged.
#[must_use]
pub fn own_rows(model: u32) -> &'static [Row] {
    match model {
        3 | 4 | 6 => &OWN,
        _ => &OWN[..BEFORE_MODEL_3],
    }
}

/// The documented event with this event select, ESCR select and group of counters (0 BPU, 1 MS,
/// 2 FLAME, 3 IQ): where it is counted, with every event mask bit that it documents.
pub(super) fn documented(
    model: u32,
    event_select: u32,
    escr_select: u32,
    group: usize,
) -> Option<NetBurstSelect> {
    let group = GROUPS.get(group)?;
    own_rows(model).iter().find_map(|row| match row.select {
        Select::NetBurst(select)
            if select.escr & EVENT_SELECT == event_select
                && select.cccr & ESCR_SELECT == escr_select
                && (select.counters[0] == group[0] || select.counters[1] == group[1]) =>
        {
            let escr = select.escr | left_out(row.name);
            Some(NetBurstSelect {
                escr,
                cccr: escr_select,
                ..select
            })
        }
        _ => None,
    })
}

/// The documented event mask bits that an event's row leaves out: DRDY_OTHER and DBSY_OTHER, each
/// exclusive with its OWN.
fn left_out(name: &str) -> u32 {
    match name {
        "FSB_data_activity" => (1 << 2 | 1 << 5) << 9,
        _ => 0,
    }
}

/// The sources that wdm.h names, by number.
///
/// No HAL is known to have had sources on this family: which event fits which name is halprof's
/// choice, after the HAL design note.
#[rustfmt::skip]
pub static ROWS: [Row; 24] = [
    Row::timer(Select::None, ""),
    row(0x01, "ProfileAlignmentFixup", Approximate, "memory_complete LSC|SSC", count(0x08, 0x3, SAAT_ESCR), "cache-line splits only"),
    row(0x02, "ProfileTotalIssues", Exact, "instr_retired NBOGUSNTAG|NBOGUSTAG", count(0x02, 0x3, CRU_ESCR01), "non-bogus = really retired. Linux adds BOGUSNTAG and drops tagged ones; we think NBOGUS* fits the name"),
    Row::unsupported(0x03, "ProfilePipelineDry", "no documented event"),
    row(0x04, "ProfileLoadInstructions", Approximate, "front_end_event NBOGUS + uop_type TAGLOADS", count(0x08, 0x1, CRU_ESCR23).tagged_by_uop_type(0x2), "counts tagged load uops; two ESCRs"),
    row(0x05, "ProfilePipelineFrozen", Approximate, "resource_stall SBFULL", count(0x01, 0x20, ALF_ESCR), "store-buffer stalls only; not on all models"),
    row(0x06, "ProfileBranchInstructions", Exact, "branch_retired MMNP|MMNM|MMTP|MMTM", count(0x06, 0xF, CRU_ESCR23), "precise count. Linux uses retired_branch_type (MS counters 4-7), which may overcount but spares IQ counters"),
    row(0x07, "ProfileTotalNonissues", Approximate, "uops_retired NBOGUS, compare+complement, threshold 0", count(0x01, 0x1, CRU_ESCR01).filtered(COMPARE | COMPLEMENT), "input <= 0: cycles retiring nothing"),
    row(0x08, "ProfileDcacheMisses", Approximate, "replay_event NBOGUS 1stL_cache_load_miss_retired", count(0x09, 0x1, CRU_ESCR23).tagged_by_replay(0x01000001, 0x1), "loads only; one replay metric per physical package at a time"),
    row(0x09, "ProfileIcacheMisses", Approximate, "BPU_fetch_request TCMISS", count(0x03, 0x1, BPU_ESCR), "trace-cache misses: NetBurst has no L1I"),
    row(0x0A, "ProfileCacheMisses", Approximate, "BSQ_cache_reference RD_2ndL_MISS|RD_3rdL_MISS|WR_2ndL_MISS", count(0x0C, 0x700, BSU_ESCR), "Linux choice; on parts with L3 use RD_3rdL_MISS (mask 0x200) for last level; erratum: up to 2x error"),
    row(0x0B, "ProfileBranchMispredictions", Exact, "mispred_branch_retired NBOGUS", count(0x03, 0x1, CRU_ESCR01), "Linux choice"),
    row(0x0C, "ProfileStoreInstructions", Approximate, "front_end_event NBOGUS + uop_type TAGSTORES", count(0x08, 0x1, CRU_ESCR23).tagged_by_uop_type(0x4), "store uops"),
    row(0x0D, "ProfileFpInstructions", Approximate, "x87_FP_uop ALL", count(0x04, 0x8000, FIRM_ESCR), "x87 uops only, executed not retired; SSE needs separate events. Retired form: execution_event with tags"),
    Row::unsupported(0x0E, "ProfileIntegerInstructions", "no integer-instruction event on any x86 family"),
    row(0x0F, "Profile2Issue", Approximate, "uops_retired NBOGUS, compare, threshold 1", count(0x01, 0x1, CRU_ESCR01).filtered(COMPARE | threshold(1)), "cycles with input > 1 = at least 2 uops"),
    row(0x10, "Profile3Issue", Approximate, "uops_retired NBOGUS, compare, threshold 2", count(0x01, 0x1, CRU_ESCR01).filtered(COMPARE | threshold(2)), "at least 3 uops"),
    Row::unsupported(0x11, "Profile4Issue", "no machine here retires 4 per clock"),
    Row::unsupported(0x12, "ProfileSpecialInstructions", "Alpha/MIPS notion; no x86 event"),
    row(0x13, "ProfileTotalCycles", Exact, "global_power_events RUNNING", count(0x13, 0x1, FSB_ESCR), "unhalted clocks; fallback when FSB ESCRs are busy: any event with compare+complement+threshold 15 (non-sleep clocks, ignores CPL)"),
    Row::unsupported(0x14, "ProfileIcacheIssues", "no trace-cache access count (TC_deliver_mode counts cycles)"),
    Row::unsupported(0x15, "ProfileDcacheAccesses", "no L1D access event; tagged load+store uops would be nearest"),
    Row::unsupported(0x16, "ProfileMemoryBarrierCycles", "no documented event"),
    Row::unsupported(0x17, "ProfileLoadLinkedIssues", "x86 has no load-linked"),
];

/// How many of [`OWN`] exist before model 3.
const BEFORE_MODEL_3: usize = 38;

/// Source: Intel SDM, volume 3B, "Pentium 4 and Intel Xeon Processor Performance Monitoring
/// Events". IOQ_allocation, BSQ_allocation and FSB_data_activity count by edge, as the manual asks.
#[rustfmt::skip]
static OWN: [Row; 39] = [
    own(0, "TC_deliver_mode", count(0x01, 0xFF, TC_ESCR), "DI was once DELIVER and BI once BUILD; on one-thread packages read the other thread as halted"),
    own(1, "BPU_fetch_request", count(0x03, 0x1, BPU_ESCR), "trace-cache lookup misses"),
    own(2, "ITLB_reference", count(0x18, 0x7, ITLB_ESCR), ""),
    own(3, "memory_cancel", count(0x02, 0xC, DAC_ESCR), ""),
    own(4, "memory_complete", count(0x08, 0xF, SAAT_ESCR), "bits 2,3 only in older manuals and in the TS/TI table"),
    own(5, "load_port_replay", count(0x04, 0x2, SAAT_ESCR), "use ESCR1 for at-retirement tagging"),
    own(6, "store_port_replay", count(0x05, 0x2, SAAT_ESCR), "SDM note says ESCR1 for tagging but its replay-metric table says SAAT_ESCR0"),
    own(7, "MOB_load_replay", count(0x03, 0x3A, MOB_ESCR), ""),
    own(8, "page_walk_type", count(0x01, 0x3, PMH_ESCR), ""),
    own(9, "BSQ_cache_reference", count(0x0C, 0x73F, BSU_ESCR), "erratum: over- or under-counts by up to 2x; reads include RFO"),
    own(10, "IOQ_allocation", count(0x03, 0xEFFF, FSB_ESCR).filtered(COMPARE | EDGE), "set CCCR edge; before CPUID F27h ignores CPL and only FSB_ESCR0 works; mask logic differs for model <2"),
    own(11, "IOQ_active_entries", count(0x1A, 0xEFFF, FSB_ESCR.odd_only()), "program together with IOQ_allocation; no edge; ignores CPL"),
    own(12, "FSB_data_activity", count(0x17, 0x1B, FSB_ESCR).filtered(COMPARE | EDGE), "set CCCR compare+edge; OWN and OTHER exclusive"),
    own(13, "BSQ_allocation", count(0x05, 0x3FEF, BSU_ESCR.even_only()).filtered(COMPARE | EDGE), "set CCCR edge; encoded sub-fields"),
    own(14, "bsq_active_entries", count(0x06, 0x3FEF, BSU_ESCR.odd_only()), "SDM says only ESCR1; BSU_ESCR1 is an inference shared by Linux, oprofile and libpfm4"),
    own(15, "SSE_input_assist", count(0x34, 0x8000, FIRM_ESCR), "overcounts: requests on non-retired paths included"),
    own(16, "packed_SP_uop", count(0x08, 0x8000, FIRM_ESCR), "upstream event for execution tagging"),
    own(17, "packed_DP_uop", count(0x0C, 0x8000, FIRM_ESCR), "upstream event for execution tagging"),
    own(18, "scalar_SP_uop", count(0x0A, 0x8000, FIRM_ESCR), "upstream event for execution tagging"),
    own(19, "scalar_DP_uop", count(0x0E, 0x8000, FIRM_ESCR), "upstream event for execution tagging"),
    own(20, "64bit_MMX_uop", count(0x02, 0x8000, FIRM_ESCR), "upstream event for execution tagging"),
    own(21, "128bit_MMX_uop", count(0x1A, 0x8000, FIRM_ESCR), "upstream event for execution tagging"),
    own(22, "x87_FP_uop", count(0x04, 0x8000, FIRM_ESCR), "upstream event for execution tagging"),
    own(23, "x87_SIMD_moves_uop", count(0x2E, 0x18, FIRM_ESCR), "dropped from the later event table (kept in TS/TI and tagging tables); oprofile and FreeBSD list it"),
    own(24, "TC_misc", count(0x06, 0x10, TC_ESCR), "counts twice per occurrence"),
    own(25, "global_power_events", count(0x13, 0x1, FSB_ESCR), "unhalted clocks; first manuals said select 0x05"),
    own(26, "tc_ms_xfer", count(0x05, 0x1, MS_ESCR), ""),
    own(27, "uop_queue_writes", count(0x09, 0x7, MS_ESCR), ""),
    own(28, "retired_mispred_branch_type", count(0x05, 0x1F, TBPU_ESCR), "may overcount conditionals; bit 0 only in older manuals"),
    own(29, "retired_branch_type", count(0x04, 0x1F, TBPU_ESCR), "may overcount conditionals; bit 0 only in older manuals"),
    own(30, "resource_stall", count(0x01, 0x20, ALF_ESCR), "not on all models"),
    own(31, "WC_Buffer", count(0x05, 0x7, DAC_ESCR), "bit 2 only in the TS/TI table"),
    own(39, "instr_retired", count(0x02, 0xF, CRU_ESCR01), "may count more than once for interrupted complex instructions"),
    own(40, "uops_retired", count(0x01, 0x3, CRU_ESCR01), ""),
    own(42, "branch_retired", count(0x06, 0xF, CRU_ESCR23), ""),
    own(43, "mispred_branch_retired", count(0x03, 0x1, CRU_ESCR01), ""),
    own(44, "x87_assist", count(0x03, 0x1F, CRU_ESCR23), ""),
    own(45, "machine_clear", count(0x02, 0x45, CRU_ESCR23), "CLEAR alone needs edge to count occurrences; Linux header wrongly has MOCLEAR=1 SMCLEAR=2"),
    own(46, "instr_completed", count(0x07, 0x3, CRU_ESCR01), "counts completion not start"),
];
