//! Intel architectural performance monitoring (SDM vol. 3, "Architectural Performance Monitoring";
//! vol. 4).

use bitfield_struct::bitfield;

/// IA32_PERFEVTSEL0; the others follow.
pub const IA32_PERFEVTSEL0: u32 = 0x186;
/// IA32_PMC0; the others follow. A write takes the low 32 bits, sign-extended.
pub const IA32_PMC0: u32 = 0xC1;
/// IA32_A_PMC0, the full-width alias; the others follow.
pub const IA32_A_PMC0: u32 = 0x4C1;
/// IA32_PERF_CAPABILITIES; it exists if CPUID.1:ECX.PDCM is set.
pub const IA32_PERF_CAPABILITIES: u32 = 0x345;
/// IA32_FIXED_CTR0; the others follow.
pub const IA32_FIXED_CTR0: u32 = 0x309;
/// IA32_FIXED_CTR_CTRL: four bits for each fixed counter.
pub const IA32_FIXED_CTR_CTRL: u32 = 0x38D;
pub const IA32_PERF_GLOBAL_STATUS: u32 = 0x38E;
pub const IA32_PERF_GLOBAL_CTRL: u32 = 0x38F;
/// IA32_PERF_GLOBAL_OVF_CTRL, called IA32_PERF_GLOBAL_STATUS_RESET from version 4.
pub const IA32_PERF_GLOBAL_OVF_CTRL: u32 = 0x390;
/// IA32_PEBS_ENABLE: bit n for general counter n and, with [`PerfCapabilities::pebs_baseline`], bit
/// 32 + n for fixed counter n (SDM vol. 3, "Processor Event Based Sampling (PEBS)").
pub const IA32_PEBS_ENABLE: u32 = 0x3F1;
/// IA32_PMC_GP0_CFG_B: the counters whose overflow starts general counter 0 again; those of the others
/// follow at [`CFG_STRIDE`] (SDM vol. 3, "Auto Counter Reload").
pub const IA32_PMC_GP0_CFG_B: u32 = 0x1902;
/// The same of fixed counter 0.
pub const IA32_PMC_FX0_CFG_B: u32 = 0x1982;
/// Distance from one counter's registers to the next's.
pub const CFG_STRIDE: u32 = 4;
pub const IA32_MISC_ENABLE: u32 = 0x1A0;
/// IA32_MISC_ENABLE bit 7: performance monitoring available.
pub const MISC_ENABLE_PERFMON: u64 = 1 << 7;
/// IA32_PERF_GLOBAL_STATUS bit 59, CTR_FRZ, from version 4 on: an overflow has frozen the counters
/// (IA32_DEBUGCTL.FREEZE_PERFMON_ON_PMI), until the bit is acknowledged.
pub const GLOBAL_STATUS_CTR_FRZ: u64 = 1 << 59;
/// IA32_PERF_GLOBAL_STATUS bit 58, LBR_FRZ, from version 4 on: an overflow has frozen the branch
/// records (IA32_DEBUGCTL.FREEZE_LBRS_ON_PMI), until the bit is acknowledged. The same bit of AMD's
/// PerfCntrGlobalStatus.
pub const GLOBAL_STATUS_LBR_FRZ: u64 = 1 << 58;
/// The bits of IA32_PERF_GLOBAL_STATUS that belong to no counter and are acknowledged by whoever
/// handles the interrupt: CTR_FRZ (59), OvfUncore (61), OvfBuf (62), CondChgd (63). Not the overflow
/// of metrics (48), which are not used here, nor Trace_ToPA_PMI (55), whose owner has a handler of
/// its own on the same interrupt and would find nothing; not LBR_FRZ (58), which belongs to whoever
/// records branches, nor ASCI (60), which only describes the counts.
// mistake: anothers-status
pub const GLOBAL_STATUS_CONDITIONS: u64 = 1 << 59 | 0b111 << 61;
pub const IA32_DEBUGCTL: u32 = 0x1D9;
/// MSR_LBR_SELECT: a 1 leaves branches out (SDM vol. 3, "Filtering of Last Branch Records"). AMD's
/// LBR_SELECT is the same without EN_CALLSTACK.
pub const LBR_SELECT: u32 = 0x1C8;
/// MSR_LASTBRANCH_TOS: the index of the newest record.
pub const LBR_TOS: u32 = 0x1C9;
/// MSR_LASTBRANCH_0_FROM_IP; the others follow.
pub const LBR_FROM0: u32 = 0x680;
/// MSR_LASTBRANCH_0_TO_IP; the others follow.
pub const LBR_TO0: u32 = 0x6C0;
/// MSR_LBR_INFO_0, a [`LbrInfo`]; the others follow.
pub const LBR_INFO0: u32 = 0xDC0;
/// IA32_LBR_CTL, a [`LbrCtl`].
pub const IA32_LBR_CTL: u32 = 0x14CE;
/// IA32_LBR_DEPTH: how many records there are; a write clears them all.
pub const IA32_LBR_DEPTH: u32 = 0x14CF;
/// IA32_LBR_0_FROM_IP, the newest record's; the others follow.
pub const IA32_LBR_FROM0: u32 = 0x1500;
/// IA32_LBR_0_TO_IP; the others follow.
pub const IA32_LBR_TO0: u32 = 0x1600;
/// IA32_LBR_0_INFO, a [`LbrInfo`]; the others follow.
pub const IA32_LBR_INFO0: u32 = 0x1200;
/// RDPMC: ECX bit that asks for a fixed counter.
pub const RDPMC_FIXED: u32 = 1 << 30;

/// IA32_PERFEVTSELx; P6's PerfEvtSel and AMD's PERF_CTL have the same low 32 bits.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct PerfEvtSel {
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
    pub en: bool,
    /// INV: invert the comparison with CMASK.
    pub inv: bool,
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
    pub any: bool,
    pub pmi: bool,
    #[bits(4)]
    _reserved: u8,
}

/// IA32_DEBUGCTL (SDM vol. 4, "IA-32 Architectural MSRs"): the bits used here. AMD's DebugCtl has
/// them in the same positions (APM vol. 2, "Debug-Control MSR").
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct DebugCtl {
    /// LBR: branches are recorded, on processors with model-specific records.
    pub lbr: bool,
    #[bits(10)]
    _other0: u16,
    pub freeze_lbrs_on_pmi: bool,
    pub freeze_perfmon_on_pmi: bool,
    #[bits(51)]
    _other1: u64,
}

/// IA32_LBR_CTL: a 1 records branches (SDM vol. 3, "Last Branch Records").
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct LbrCtl {
    /// LBREn: branches are recorded.
    pub lbr_en: bool,
    /// OS: branches to ring 0.
    pub os: bool,
    /// USR: branches to ring 3.
    pub usr: bool,
    #[bits(13)]
    _other: u16,
    pub jcc: bool,
    pub near_rel_jmp: bool,
    pub near_ind_jmp: bool,
    pub near_rel_call: bool,
    pub near_ind_call: bool,
    pub near_ret: bool,
    pub other_branch: bool,
    #[bits(41)]
    _reserved1: u64,
}

/// MSR_LBR_INFO_x and IA32_LBR_x_INFO.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct LbrInfo {
    /// Cycles since the previous record; saturates.
    pub cycles: u16,
    #[bits(40)]
    _counters: u64,
    /// BR_TYPE, architectural only: 0 Jcc, 1 indirect jump, 2 direct jump, 3 indirect call, 4
    /// direct call, 5 return, 8 and above other branches.
    #[bits(4)]
    pub branch_type: u8,
    /// CYC_CNT_VALID, architectural only.
    pub cycles_valid: bool,
    /// TSX_ABORT.
    pub abort: bool,
    /// IN_TSX.
    pub in_transaction: bool,
    /// MISPRED.
    pub mispredicted: bool,
}

/// IA32_PERF_CAPABILITIES: the bits used here.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct PerfCapabilities {
    /// LBR_FMT: 5 is LBR_INFO with transaction bits, 7 without.
    #[bits(6)]
    pub lbr_format: u8,
    #[bits(7)]
    _reserved0: u8,
    /// FW_WRITE: IA32_A_PMCx exist.
    pub full_width_write: bool,
    /// PEBS_BASELINE: PEBS is adaptive, and of fixed counters too.
    pub pebs_baseline: bool,
    #[bits(49)]
    _reserved1: u64,
}

/// IA32_PERFEVTSELx, AnyThread: counts for both threads of a core.
pub const ANY_THREAD: u64 = 1 << 21;
/// IA32_PERFEVTSELx, RDPMC user disable: at CPL 3 RDPMC reads 0 (leaf 0x23 EBX bit 2; Linux
/// 59af95e0).
pub const USER_DISABLE: u64 = 1 << 37;
/// The same for fixed counter 0 in IA32_FIXED_CTR_CTRL; those of the others follow, 4 bits apart.
pub const FIXED_USER_DISABLE: u64 = 1 << 33;
/// Adaptive PEBS of fixed counter 0 in IA32_FIXED_CTR_CTRL; those of the others follow, 4 bits apart
/// (SDM vol. 3, "PEBS Extensions").
pub const FIXED_ADAPTIVE: u64 = 1 << 32;
/// IA32_PERFEVTSELx, EQ: counts cycles with exactly CMASK events.
pub const EQUAL: u64 = 1 << 36;
/// IA32_PERFEVTSELx, UMASK2: the second unit mask.
pub const UNIT_MASK_2: u64 = 0xFF << 40;
/// IA32_PERFEVTSELx: Event select.
pub const EVENT: u64 = 0xFF;
/// IA32_PERFEVTSELx: Unit mask.
pub const UNIT_MASK: u64 = 0xFF << 8;
/// IA32_PERFEVTSELx: USR: counts at CPL 1 to 3.
pub const USR: u64 = 1 << 16;
/// IA32_PERFEVTSELx: OS: counts at CPL 0.
pub const OS: u64 = 1 << 17;
/// IA32_PERFEVTSELx: Edge detect.
pub const EDGE_DETECT: u64 = 1 << 18;
/// IA32_PERFEVTSELx: Inverts the comparison with CMASK.
pub const INV: u64 = 1 << 23;
/// IA32_PERFEVTSELx: Counter mask.
pub const CMASK: u64 = 0xFF << 24;
/// What every event select since P6 has.
pub const P6_STYLE: u64 = EVENT | UNIT_MASK | USR | OS | EDGE_DETECT | INV | CMASK;
