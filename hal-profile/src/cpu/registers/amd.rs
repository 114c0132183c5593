//! AMD core performance counters (APM vol. 2, "Performance Monitoring Counters"; PPR,
//! "Core Performance Monitor Counters").
//!
//! PERF_CTL has the layout of [`super::intel::PerfEvtSel`].

use bitfield_struct::bitfield;

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
/// Event FFFh, Merge, enabled in no mode: the counter takes the upper bits of the one before it (PPR
/// for AMD Family 17h, "Large Increment per Cycle Events").
pub const MERGE_SELECT: u64 = 0xF_0000_00FF;
/// All ones in the upper half of a pair: the 16 bits above the first counter's 48.
pub const UPPER_HALF: u64 = 0xFFFF;
/// Width of every core counter.
pub const COUNTER_WIDTH: u8 = 48;
/// Number of core counters that RDPMC reaches; the following indexes belong to the northbridge.
pub const RDPMC_CORE_COUNTERS: u8 = 6;

/// LBR_SELECT: see [`super::intel::LBR_SELECT`].
pub const LBR_SELECT: u32 = 0xC000_010E;
/// DBG_EXTN_CFG, a [`DbgExtnCfg`].
pub const DBG_EXTN_CFG: u32 = 0xC000_010F;
/// LastBranchFromIp of the newest record, then its LastBranchToIp; the others follow.
pub const LBR_FROM0: u32 = 0xC001_0300;

/// DBG_EXTN_CFG (APM vol. 2, "Last Branch Stack Registers"): the bit used here.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct DbgExtnCfg {
    #[bits(6)]
    _other0: u8,
    /// LBRV2EN: branches are recorded.
    pub lbr_v2_enable: bool,
    #[bits(57)]
    _other1: u64,
}

/// LastBranchFromIp.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct LbrFrom {
    /// The address, without its sign.
    #[bits(58)]
    pub address: u64,
    #[bits(5)]
    _reserved: u8,
    /// The branch was mispredicted.
    pub mispredicted: bool,
}

/// LastBranchToIp.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct LbrTo {
    /// The address, without its sign.
    #[bits(58)]
    pub address: u64,
    #[bits(3)]
    _reserved: u8,
    /// The entry belongs to an instruction that is no branch, whatever the bits above say (erratum 1452,
    /// revision guide for family 19h models 10h to 1Fh; Linux 29297ffffb0b).
    pub no_branch: bool,
    /// Recorded speculatively; without `valid`, the branch was on a wrong path.
    pub speculative: bool,
    pub valid: bool,
}
