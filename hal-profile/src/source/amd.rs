//! halprof's own AMD sources, where Windows 10's HAL has no row for what a family can count or
//! its row's select counts something else there; and which counters family 15h has for an event.

use shared_types::ProfileSource;

use super::amd64_events::{AmdGeneration, is_northbridge};
use super::{ANY, CounterSet, Fit, NO_COUNTER, Row, Select};

const fn row(
    id: u32,
    name: &'static str,
    select: u64,
    fit: Fit,
    counts: &'static str,
    note: &'static str,
) -> Row {
    Row {
        id: ProfileSource(id),
        name,
        symbol: name,
        select: Select::EventSelect(select),
        counters: ANY,
        fit,
        counts,
        note,
    }
}

const fn cycles(counts: &'static str) -> Row {
    row(
        0x8000_0300,
        "Cycles",
        0x00030076,
        Fit::Exact,
        counts,
        "cycles not halted",
    )
}

const fn cache_misses(select: u64, fit: Fit, counts: &'static str, note: &'static str) -> Row {
    row(0x8000_0301, "CacheMisses", select, fit, counts, note)
}

const fn l1d_accesses(select: u64, fit: Fit, counts: &'static str, note: &'static str) -> Row {
    row(0x8000_0302, "L1dAccesses", select, fit, counts, note)
}

const fn l1d_misses(select: u64, fit: Fit, counts: &'static str, note: &'static str) -> Row {
    row(0x8000_0303, "L1dMisses", select, fit, counts, note)
}

const fn l1i_fetches(select: u64, counts: &'static str, note: &'static str) -> Row {
    row(0x8000_0304, "L1iFetches", select, Fit::Exact, counts, note)
}

const fn l1i_misses(select: u64, counts: &'static str, note: &'static str) -> Row {
    row(0x8000_0305, "L1iMisses", select, Fit::Exact, counts, note)
}

const fn fp_operations(select: u64, counts: &'static str, note: &'static str) -> Row {
    row(
        0x8000_0306,
        "FpOperations",
        select,
        Fit::Exact,
        counts,
        note,
    )
}

const L2_REQUESTS: &str = "REQUESTS_TO_L2_GROUP1";
const L2_STATUS: &str = "CORE_TO_L2_CACHEABLE_REQUEST_ACCESS_STATUS";
const MMX_FP: &str = "RETIRED_MMX_FP_INSTRUCTIONS";
const MMX_FP_NOTE: &str = "x87=1 MMX=2 SSE/AVX=4, without the bit that K8 alone defines";
const ZEN_CACHE_MISSES: Row = cache_misses(
    0x00030964,
    Fit::Approximate,
    L2_STATUS,
    "L2 misses of the instruction and data caches; L3 misses are counted outside the core",
);
const ZEN_L1D_MISSES: Row = l1d_misses(
    0x0003C860,
    Fit::Approximate,
    L2_REQUESTS,
    "L2 requests from data cache misses, prefetch included",
);
const ZEN3_L1D_ACCESSES: Row = l1d_accesses(
    0x00030729,
    Fit::Approximate,
    "LS_DISPATCH",
    "loads and stores dispatched",
);
const ZEN3_L1I_FETCHES: Row = l1i_fetches(
    0x1_0003_1F8E,
    "IC_TAG_HIT_MISS",
    "instruction cache tag lookups",
);
const ZEN3_L1I_MISSES: Row = l1i_misses(
    0x1_0003_188E,
    "IC_TAG_HIT_MISS",
    "instruction cache tag misses",
);
const ZEN_FP: Row = fp_operations(0x000307CB, MMX_FP, MMX_FP_NOTE);

static K8: [Row; 2] = [
    cycles("CPU_CLK_UNHALTED"),
    cache_misses(
        0x0003077E,
        Fit::Exact,
        "L2_CACHE_MISS",
        "IC fill=1 DC fill=2 TLB walk=4; there is no L3",
    ),
];

static FAMILY_10H: [Row; 3] = [
    cycles("CPU_CLK_UNHALTED"),
    cache_misses(
        0x00030F7E,
        Fit::Exact,
        "L2_CACHE_MISS",
        "hardware prefetch included (8); L3 misses are a northbridge event",
    ),
    fp_operations(0x000307CB, "RETIRED_MMX_AND_FP_INSTRUCTIONS", MMX_FP_NOTE),
];

/// The row with the counters that family 15h has for its event.
const fn on_family15h(row: Row) -> Row {
    match row.select {
        Select::EventSelect(select) => Row {
            counters: family15h_counters((select & 0xFF) as u16),
            ..row
        },
        _ => row,
    }
}

static FAMILY_15H: [Row; 4] = [
    on_family15h(cycles("CPU_CLK_UNHALTED")),
    on_family15h(cache_misses(
        0x0003177E,
        Fit::Exact,
        "L2_CACHE_MISS",
        "IC=1 DC=2 TLB=4 prefetcher=0x10",
    )),
    on_family15h(l1d_misses(
        0x00030341,
        Fit::Exact,
        "DATA_CACHE_MISSES",
        "first miss or streaming store=1, streaming store=2",
    )),
    on_family15h(fp_operations(0x000307CB, MMX_FP, MMX_FP_NOTE)),
];

/// Families 11h, 12h, 14h and 16h.
static SMALL_FAMILIES: [Row; 1] = [cycles("CPU_CLK_UNHALTED")];

static ZEN1_AND_2: [Row; 4] = [
    cycles("CYCLES_NOT_IN_HALT"),
    ZEN_CACHE_MISSES,
    ZEN_L1D_MISSES,
    ZEN_FP,
];

static ZEN3: [Row; 7] = [
    cycles("CYCLES_NOT_IN_HALT"),
    ZEN_CACHE_MISSES,
    ZEN3_L1D_ACCESSES,
    l1d_misses(
        0x0003E860,
        Fit::Approximate,
        L2_REQUESTS,
        "L2 accesses from data cache misses",
    ),
    ZEN3_L1I_FETCHES,
    ZEN3_L1I_MISSES,
    ZEN_FP,
];

static ZEN4_AND_5: [Row; 7] = [
    cycles("CYCLES_NOT_IN_HALT"),
    ZEN_CACHE_MISSES,
    ZEN3_L1D_ACCESSES,
    l1d_misses(
        0x0003FF44,
        Fit::Approximate,
        "ANY_DATA_CACHE_FILLS_FROM_SYSTEM",
        "any data cache fill, by source",
    ),
    ZEN3_L1I_FETCHES,
    ZEN3_L1I_MISSES,
    ZEN_FP,
];

/// halprof's own sources on this generation, by number; none where its events are not known.
///
/// Their counters are right on every generation; those of the HAL's rows on family 15h are
/// [`family15h_counters`]'s answer.
///
/// A source that the HAL's table serves rightly on a generation is not repeated here.
///
/// Source: AMD's BKDG and PPR of each family, by way of libpfm4 and Linux's perf.
#[must_use]
pub const fn own_rows(generation: AmdGeneration) -> &'static [Row] {
    match generation {
        AmdGeneration::K8 => &K8,
        AmdGeneration::Family10h => &FAMILY_10H,
        AmdGeneration::Family15h => &FAMILY_15H,
        AmdGeneration::Family11h
        | AmdGeneration::Family12h
        | AmdGeneration::Family14h
        | AmdGeneration::Family16h => &SMALL_FAMILIES,
        AmdGeneration::Zen1 | AmdGeneration::Zen2 => &ZEN1_AND_2,
        AmdGeneration::Zen3 => &ZEN3,
        AmdGeneration::Zen4 | AmdGeneration::Zen5 => &ZEN4_AND_5,
        AmdGeneration::Unknown => &[],
    }
}

const PMC0: CounterSet = 0b00_0001;
const PMC2_TO_0: CounterSet = 0b00_0111;
const PMC3: CounterSet = 0b00_1000;
const PMC5_TO_3: CounterSet = 0b11_1000;
const PMC5_TO_0: CounterSet = 0b11_1111;

/// The counters of family 15h that can count an event, of six; where only the four legacy ones are
/// used, PMC4 and PMC5 fall away.
///
/// Where the sources differ or are silent the smaller set is taken: a counter outside an event's
/// set counts nothing and does not say so. So the floating-point events that fit PMC3 to PMC5 with
/// one unit-mask bit, and PMC3 alone with more (0x000, 0x004), get PMC3; 0x0DB to 0x0DF stay with
/// their group; and codes of no documented group (0x0A0 to 0x0BF) get none.
///
/// Source: BKDG for AMD Family 15h Processors, "Performance Counter Events", and Linux
/// arch/x86/events/amd/core.c.
#[must_use]
pub const fn family15h_counters(event: u16) -> CounterSet {
    if is_northbridge(event) {
        return NO_COUNTER;
    }
    match event {
        0x000 | 0x003 | 0x004 | 0x00B | 0x00D | 0x02D => PMC3,
        0x02E => PMC3 | PMC0,
        0x08F | 0x187 | 0x188 => PMC0,
        0x023 | 0x031 | 0x043 | 0x045 | 0x046 | 0x054 | 0x055 => PMC2_TO_0,
        0x1C0 => PMC5_TO_3,
        _ => match event & 0xF0 {
            0x00 | 0x10 => PMC5_TO_3,
            0x20..=0x50 | 0xC0 => PMC5_TO_0,
            0x60..=0x90 | 0xD0 => PMC2_TO_0,
            _ => NO_COUNTER,
        },
    }
}
