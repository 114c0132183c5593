//! AMD core performance counters (APM vol. 2, "Performance Monitoring Counters"; PPR,
//! "Core Performance Monitor Counters").
//!
//! PERF_CTL has the layout of [`super::intel::PerfEvtSel`].

/// PERF_LEGACY_CTL0; three follow.
pub const PERF_LEGACY_CTL0: u32 = 0xC001_0000;
/// PERF_LEGACY_CTR0; three follow.
pub const PERF_LEGACY_CTR0: u32 = 0xC001_0004;
/// PERF_CTL0 of the core extension; the others follow at a stride of 2.
pub const PERF_CTL0: u32 = 0xC001_0200;
/// PERF_CTR0 of the core extension; the others follow at a stride of 2.
pub const PERF_CTR0: u32 = 0xC001_0201;
/// PerfCntrGlobalStatus (PerfMonV2).
pub const GLOBAL_STATUS: u32 = 0xC000_0300;
/// PerfCntrGlobalStatus: an overflow interrupt has frozen all counters.
pub const GLOBAL_STATUS_COUNTERS_FROZEN: u64 = 1 << 59;
/// PerfCntrGlobalCtl (PerfMonV2).
pub const GLOBAL_CTL: u32 = 0xC000_0301;
/// PerfCntrGlobalStatusClr (PerfMonV2).
pub const GLOBAL_STATUS_CLR: u32 = 0xC000_0302;
/// Width of every core counter.
pub const COUNTER_WIDTH: u8 = 48;
/// RDPMC reaches core counters up to this index only; the next belong to the northbridge.
pub const RDPMC_CORE_COUNTERS: u8 = 6;
