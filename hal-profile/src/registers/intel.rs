//! Intel architectural performance monitoring (SDM vol. 3, "Architectural Performance Monitoring";
//! vol. 4).

use bitfield_struct::bitfield;

/// IA32_PERFEVTSEL0; the others follow.
pub const IA32_PERFEVTSEL0: u32 = 0x186;
/// IA32_PMC0; the others follow. A write takes the low 32 bits, sign-extended.
pub const IA32_PMC0: u32 = 0xC1;
/// IA32_A_PMC0, the full-width alias; the others follow.
pub const IA32_A_PMC0: u32 = 0x4C1;
/// IA32_PERF_CAPABILITIES, where CPUID.1:ECX.PDCM.
pub const IA32_PERF_CAPABILITIES: u32 = 0x345;
/// IA32_FIXED_CTR0; the others follow.
pub const IA32_FIXED_CTR0: u32 = 0x309;
/// IA32_FIXED_CTR_CTRL: four bits for each fixed counter.
pub const IA32_FIXED_CTR_CTRL: u32 = 0x38D;
/// IA32_PERF_GLOBAL_STATUS.
pub const IA32_PERF_GLOBAL_STATUS: u32 = 0x38E;
/// IA32_PERF_GLOBAL_CTRL.
pub const IA32_PERF_GLOBAL_CTRL: u32 = 0x38F;
/// IA32_PERF_GLOBAL_OVF_CTRL, called IA32_PERF_GLOBAL_STATUS_RESET from version 4.
pub const IA32_PERF_GLOBAL_OVF_CTRL: u32 = 0x390;
/// IA32_MISC_ENABLE.
pub const IA32_MISC_ENABLE: u32 = 0x1A0;
/// IA32_MISC_ENABLE bit 7: performance monitoring available.
pub const MISC_ENABLE_PERFMON: u64 = 1 << 7;
/// IA32_PERF_GLOBAL_STATUS bit 59, CTR_FRZ, from version 4 on: an overflow has frozen the counters
/// (IA32_DEBUGCTL.FREEZE_PERFMON_ON_PMI), until the bit is acknowledged.
pub const GLOBAL_STATUS_CTR_FRZ: u64 = 1 << 59;
/// RDPMC: ECX bit that asks for a fixed counter.
pub const RDPMC_FIXED: u32 = 1 << 30;

/// IA32_PERFEVTSELx; P6's PerfEvtSel and AMD's PERF_CTL have the same low 32 bits.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct PerfEvtSel {
    /// Event select.
    pub event: u8,
    /// UMASK.
    pub unit_mask: u8,
    /// USR: count at CPL 3.
    pub usr: bool,
    /// OS: count at CPL 0.
    pub os: bool,
    /// E: count inactive-to-active transitions.
    pub edge: bool,
    /// PC: pin control.
    pub pin: bool,
    /// INT: interrupt on overflow.
    pub int: bool,
    /// AnyThread (version 3 to 4); reserved elsewhere.
    pub any: bool,
    /// EN.
    pub en: bool,
    /// INV: invert the comparison with CMASK.
    pub inv: bool,
    /// CMASK.
    pub cmask: u8,
    /// AMD: event select 11:8 (from family 10h); Intel: 0.
    #[bits(4)]
    pub event_high: u8,
    #[bits(28)]
    _high: u32,
}

/// One fixed counter's four bits of IA32_FIXED_CTR_CTRL.
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct FixedControl {
    /// Count at CPL 0.
    pub os: bool,
    /// Count at CPL 3.
    pub usr: bool,
    /// AnyThread.
    pub any: bool,
    /// PMI on overflow.
    pub pmi: bool,
    #[bits(4)]
    _reserved: u8,
}

/// IA32_PERF_CAPABILITIES, the bits that are used here.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct PerfCapabilities {
    #[bits(13)]
    _reserved0: u16,
    /// FW_WRITE: IA32_A_PMCx are there.
    pub full_width_write: bool,
    #[bits(50)]
    _reserved1: u64,
}
