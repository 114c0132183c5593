//! The registers of performance monitoring as tables: number, name and fields.
//!
//! Sources: Intel SDM vol. 3, "Performance Monitoring" and "Advanced Programmable Interrupt
//! Controller (APIC)", and vol. 4; AMD APM vol. 2, "Performance Monitoring Counters", and the PPRs.

use super::netburst::{COUNTERS, ESCRS};
use shared_types::ProfileInterface;
use shared_types::request::machine::Register;

/// A field: its name, its highest and lowest bit, and what it means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The manual's name.
    pub(crate) name: &'static str,
    /// The highest bit.
    pub(crate) high: u32,
    /// The lowest bit.
    pub(crate) low: u32,
    /// What it means.
    pub(crate) meaning: &'static str,
}

/// Registers of one kind, at regularly spaced numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Interfaces that have it.
    pub(super) interfaces: &'static [ProfileInterface],
    /// The number of the first one.
    pub(super) first: u32,
    /// How many there are.
    pub(super) count: u32,
    /// The distance between their numbers.
    pub(super) stride: u32,
    /// The name; `#` stands for the index.
    pub(super) name: &'static str,
    /// The fields, from bit 0 up.
    pub(super) fields: &'static [Field],
}

const fn bits(name: &'static str, high: u32, low: u32, meaning: &'static str) -> Field {
    Field { name, high, low, meaning }
}

const fn bit(name: &'static str, at: u32, meaning: &'static str) -> Field {
    bits(name, at, at, meaning)
}

const COUNT_32: &[Field] = &[bits("COUNT", 31, 0, "events counted")];
const COUNT_40: &[Field] = &[bits("COUNT", 39, 0, "events counted, up to 40 bits")];
const COUNT_48: &[Field] = &[bits("COUNT", 47, 0, "events counted, up to 48 bits")];

/// SDM 18.2.1.1, figure 18-1; UMASK2 and EQ: leaf 0x23.
const PERFEVTSEL: &[Field] = &[
    bits("EVENT_SELECT", 7, 0, "event"),
    bits("UMASK", 15, 8, "unit mask"),
    bit("USR", 16, "counts at CPL 1 to 3"),
    bit("OS", 17, "counts at CPL 0"),
    bit("E", 18, "counts edges"),
    bit("PC", 19, "pin control"),
    bit("INT", 20, "interrupts on overflow"),
    bit("ANY", 21, "counts for both threads of the core"),
    bit("EN", 22, "counts"),
    bit("INV", 23, "inverts the comparison with CMASK"),
    bits("CMASK", 31, 24, "counts cycles with at least this many events; 0: counts events"),
    bit("IN_TX", 32, "counts in transactions only"),
    bit("IN_TXCP", 33, "leaves out aborted transactions"),
    bit("EQ", 36, "compares for equality with CMASK"),
    bits("UMASK2", 47, 40, "second unit mask"),
];

/// SDM 18.6.1.1 (P6): EN in PerfEvtSel0 gates both counters.
const P6_PERFEVTSEL: &[Field] = &[
    bits("EVENT_SELECT", 7, 0, "event"),
    bits("UMASK", 15, 8, "unit mask"),
    bit("USR", 16, "counts at CPL 1 to 3"),
    bit("OS", 17, "counts at CPL 0"),
    bit("E", 18, "counts edges"),
    bit("PC", 19, "pin control"),
    bit("INT", 20, "interrupts on overflow"),
    bit("EN", 22, "in PerfEvtSel0: both counters count; in PerfEvtSel1: reserved"),
    bit("INV", 23, "inverts the comparison with CMASK"),
    bits("CMASK", 31, 24, "counts cycles with at least this many events; 0: counts events"),
];

/// APM volume 2, 13.2.1.
const PERF_CTL: &[Field] = &[
    bits("EventSelect[7:0]", 7, 0, "event, low bits"),
    bits("UnitMask", 15, 8, "unit mask"),
    bit("User", 16, "counts at CPL 1 to 3"),
    bit("OS", 17, "counts at CPL 0"),
    bit("Edge", 18, "counts edges"),
    bit("Int", 20, "interrupts on overflow"),
    bit("En", 22, "counts"),
    bit("Inv", 23, "inverts the comparison with CntMask"),
    bits("CntMask", 31, 24, "counts cycles with at least this many events; 0: counts events"),
    bits("EventSelect[11:8]", 35, 32, "event, high bits"),
    bits("HostGuestOnly", 41, 40, "counts: 0 and 3 always, 1 as guest, 2 as host"),
];

/// SDM 18.2.2.1, four bits for each fixed counter.
const FIXED_CTR_CTRL: &[Field] = &[
    bits("EN0", 1, 0, "counter 0: 0 off, 1 CPL 0, 2 CPL 1 to 3, 3 all"),
    bit("ANY0", 2, "counter 0 counts for both threads of the core"),
    bit("PMI0", 3, "counter 0 interrupts on overflow"),
    bits("EN1", 5, 4, "counter 1"),
    bit("ANY1", 6, "counter 1 counts for both threads of the core"),
    bit("PMI1", 7, "counter 1 interrupts on overflow"),
    bits("EN2", 9, 8, "counter 2"),
    bit("ANY2", 10, "counter 2 counts for both threads of the core"),
    bit("PMI2", 11, "counter 2 interrupts on overflow"),
    bits("EN3", 13, 12, "counter 3"),
    bit("PMI3", 15, "counter 3 interrupts on overflow"),
    bits("EN4", 17, 16, "counter 4"),
    bit("PMI4", 19, "counter 4 interrupts on overflow"),
    bits("EN5", 21, 20, "counter 5"),
    bit("PMI5", 23, "counter 5 interrupts on overflow"),
    bits("EN6", 25, 24, "counter 6"),
    bit("PMI6", 27, "counter 6 interrupts on overflow"),
];

/// SDM 18.2.2.2 and 18.2.4.
const GLOBAL_STATUS: &[Field] = &[
    bits("OVF_PMC", 31, 0, "general counters that overflowed"),
    bits("OVF_FIXED", 47, 32, "fixed counters that overflowed"),
    bit("OVF_PERF_METRICS", 48, "PERF_METRICS overflowed"),
    bit("TRACE_TOPA_PMI", 55, "processor trace interrupt"),
    bit("LBR_FRZ", 58, "last-branch records are frozen"),
    bit("CTR_FRZ", 59, "counters are frozen"),
    bit("ASCI", 60, "enclave code may be in the counts"),
    bit("OVF_UNCORE", 61, "an uncore counter overflowed"),
    bit("OVF_BUF", 62, "the debug store's buffer overflowed"),
    bit("COND_CHGD", 63, "the state of monitoring has changed"),
];

const GLOBAL_CTRL: &[Field] = &[
    bits("EN_PMC", 31, 0, "general counters that may count"),
    bits("EN_FIXED", 47, 32, "fixed counters that may count"),
    bit("EN_PERF_METRICS", 48, "PERF_METRICS may count"),
];

/// SDM 18.2.4.3.
const GLOBAL_INUSE: &[Field] = &[
    bits("PERFEVTSEL", 31, 0, "general counters in use"),
    bits("FIXED_CTR", 47, 32, "fixed counters in use"),
    bit("PMI", 63, "the performance interrupt is in use"),
];

/// SDM volume 4, IA32_PERF_CAPABILITIES.
const PERF_CAPABILITIES: &[Field] = &[
    bits("LBR_FMT", 5, 0, "format of last-branch records"),
    bit("PEBS_TRAP", 6, "PEBS records after the instruction"),
    bit("PEBS_ARCH_REG", 7, "PEBS saves architectural registers"),
    bits("PEBS_FMT", 11, 8, "format of PEBS records"),
    bit("SMM_FREEZE", 12, "counters can be frozen in SMM"),
    bit("FW_WRITE", 13, "counters can be written in full width"),
    bit("PEBS_BASELINE", 14, "adaptive PEBS"),
    bit("PERF_METRICS", 15, "PERF_METRICS is there"),
];

/// APM volume 2, 13.2.2 (PerfMonV2).
const AMD_GLOBAL_STATUS: &[Field] = &[
    bits("PerfCntrOvfl", 15, 0, "counters that overflowed"),
    bit("LbrFreeze", 58, "last-branch records are frozen"),
    bit("PmcFreeze", 59, "counters are frozen"),
];

const AMD_GLOBAL_CTL: &[Field] = &[bits("PerfCntrEn", 15, 0, "counters that may count")];

/// SDM volume 4, IA32_DEBUGCTL; AMD's DebugCtl has LBR, BTF and the freeze bits at the same
/// positions.
const DEBUGCTL: &[Field] = &[
    bit("LBR", 0, "branches are recorded (model-specific records)"),
    bit("BTF", 1, "single-steps on branches"),
    bit("TR", 6, "sends trace messages"),
    bit("BTS", 7, "stores branch trace"),
    bit("BTINT", 8, "interrupts when the branch trace store is full"),
    bit("BTS_OFF_OS", 9, "stores no branch trace at CPL 0"),
    bit("BTS_OFF_USR", 10, "stores no branch trace at CPL 1 to 3"),
    bit("FREEZE_LBRS_ON_PMI", 11, "the interrupt freezes last-branch records"),
    bit("FREEZE_PERFMON_ON_PMI", 12, "the interrupt freezes the counters"),
    bit("FREEZE_WHILE_SMM", 14, "freezes counters and trace in SMM"),
];

/// SDM volume 3, "Filtering of Last Branch Records"; AMD's has bits 8:0.
const LBR_SELECT: &[Field] = &[
    bit("CPL_EQ_0", 0, "leaves out branches to CPL 0"),
    bit("CPL_NEQ_0", 1, "leaves out branches to CPL 1 to 3"),
    bit("JCC", 2, "leaves out conditional jumps"),
    bit("NEAR_REL_CALL", 3, "leaves out near relative calls"),
    bit("NEAR_IND_CALL", 4, "leaves out near indirect calls"),
    bit("NEAR_RET", 5, "leaves out near returns"),
    bit("NEAR_IND_JMP", 6, "leaves out near indirect jumps"),
    bit("NEAR_REL_JMP", 7, "leaves out near relative jumps"),
    bit("FAR_BRANCH", 8, "leaves out far branches"),
    bit("EN_CALLSTACK", 9, "call-stack mode"),
];

const LBR_TOS: &[Field] = &[bits("TOS", 4, 0, "index of the newest record")];

/// SDM volume 3, "Last Branch Records", IA32_LBR_CTL.
const LBR_CTL: &[Field] = &[
    bit("LBREn", 0, "branches are recorded"),
    bit("OS", 1, "records branches to CPL 0"),
    bit("USR", 2, "records branches to CPL 1 to 3"),
    bit("CALL_STACK", 3, "call-stack mode"),
    bit("JCC", 16, "records conditional jumps"),
    bit("NEAR_REL_JMP", 17, "records near relative jumps"),
    bit("NEAR_IND_JMP", 18, "records near indirect jumps"),
    bit("NEAR_REL_CALL", 19, "records near relative calls"),
    bit("NEAR_IND_CALL", 20, "records near indirect calls"),
    bit("NEAR_RET", 21, "records near returns"),
    bit("OTHER_BRANCH", 22, "records all other branches"),
];

const LBR_DEPTH: &[Field] = &[bits("DEPTH", 7, 0, "records kept")];

/// APM volume 2, "Last Branch Stack Registers", DBG_EXTN_CFG.
const DBG_EXTN_CFG: &[Field] = &[bit("LBRV2EN", 6, "branches are recorded")];

/// SDM 18.6.9 (Pentium).
const CESR: &[Field] = &[
    bits("ES0", 5, 0, "counter 0: event"),
    bit("CC0[0]", 6, "counter 0 counts at CPL 0 to 2"),
    bit("CC0[1]", 7, "counter 0 counts at CPL 3"),
    bit("CC0[2]", 8, "counter 0 counts clocks"),
    bit("PC0", 9, "pin PM0: 0 on increment, 1 on overflow"),
    bits("ES1", 21, 16, "counter 1: event"),
    bit("CC1[0]", 22, "counter 1 counts at CPL 0 to 2"),
    bit("CC1[1]", 23, "counter 1 counts at CPL 3"),
    bit("CC1[2]", 24, "counter 1 counts clocks"),
    bit("PC1", 25, "pin PM1: 0 on increment, 1 on overflow"),
];

/// SDM 18.6.3.1 and 18.6.4.1 (NetBurst, with Hyper-Threading).
const ESCR: &[Field] = &[
    bit("T1_USR", 0, "counts thread 1 at CPL 1 to 3"),
    bit("T1_OS", 1, "counts thread 1 at CPL 0"),
    bit("T0_USR", 2, "counts thread 0 at CPL 1 to 3"),
    bit("T0_OS", 3, "counts thread 0 at CPL 0"),
    bit("TAG_ENABLE", 4, "tags micro-operations"),
    bits("TAG_VALUE", 8, 5, "the tag"),
    bits("EVENT_MASK", 24, 9, "which of the event's conditions"),
    bits("EVENT_SELECT", 30, 25, "event"),
];

/// SDM 18.6.3.3 and 18.6.4.2.
const CCCR: &[Field] = &[
    bit("ENABLE", 12, "counts"),
    bits("ESCR_SELECT", 15, 13, "which ESCR"),
    bits("ACTIVE_THREAD", 17, 16, "counts while: 0 none, 1 one, 2 both, 3 any thread is active"),
    bit("COMPARE", 18, "compares with the threshold"),
    bit("COMPLEMENT", 19, "counts at or below the threshold"),
    bits("THRESHOLD", 23, 20, "the threshold"),
    bit("EDGE", 24, "counts edges of the comparison"),
    bit("FORCE_OVF", 25, "overflows at every count"),
    bit("OVF_PMI_T0", 26, "interrupts thread 0 on overflow"),
    bit("OVF_PMI_T1", 27, "interrupts thread 1 on overflow"),
    bit("CASCADE", 30, "starts when its partner overflows"),
    bit("OVF", 31, "overflowed"),
];

/// SDM volume 4, IA32_MISC_ENABLE: the fields that concern performance monitoring.
const MISC_ENABLE: &[Field] = &[
    bit("PERFMON_AVAILABLE", 7, "performance monitoring is available"),
    bit("BTS_UNAVAILABLE", 11, "branch trace storage is not available"),
    bit("PEBS_UNAVAILABLE", 12, "PEBS is not available"),
    bit("LIMIT_CPUID_MAXVAL", 22, "CPUID's highest leaf is limited"),
];

/// SDM volume 3A, 2.5, "Control Registers": the field that concerns performance monitoring.
const CR4: &[Field] = &[bit("PCE", 8, "user mode may execute RDPMC")];

/// SDM volume 3A, 10.4.4 and 10.12.1.
const APIC_BASE: &[Field] = &[
    bit("BSP", 8, "the boot processor"),
    bit("EXTD", 10, "x2APIC mode"),
    bit("EN", 11, "the local APIC is enabled"),
    bits("APIC_BASE", 51, 12, "page of its registers"),
];

/// SDM volume 3A, 10.5.1, figure 10-8.
const LVTPC: &[Field] = &[
    bits("VECTOR", 7, 0, "vector"),
    bits("DELIVERY_MODE", 10, 8, "0 fixed, 2 SMI, 4 NMI"),
    bit("DELIVERY_STATUS", 12, "an interrupt is pending"),
    bit("MASK", 16, "masked"),
];

/// All interfaces, for registers that all of them have.
const ALL: &[ProfileInterface] = ProfileInterface::ALL;
const EMON: &[ProfileInterface] = &[ProfileInterface::Emon, ProfileInterface::Default];
const P6: &[ProfileInterface] = &[ProfileInterface::P6];
const AMD: &[ProfileInterface] = &[ProfileInterface::Amd64, ProfileInterface::Default];
const P5: &[ProfileInterface] = &[ProfileInterface::Pentium];
const P4: &[ProfileInterface] = &[ProfileInterface::NetBurst];

const fn row(
    interfaces: &'static [ProfileInterface],
    first: u32,
    count: u32,
    name: &'static str,
    fields: &'static [Field],
) -> Row {
    Row { interfaces, first, count, stride: 1, name, fields }
}

/// Every register except NetBurst's, which [`ESCRS`] and [`COUNTERS`] name.
pub(super) const ROWS: &[Row] = &[
    row(P5, 0x11, 1, "CESR", CESR),
    row(P5, 0x12, 2, "CTR#", COUNT_40),
    row(ALL, 0x1B, 1, "IA32_APIC_BASE", APIC_BASE),
    row(P6, 0xC1, 2, "PerfCtr#", COUNT_40),
    row(P6, 0x186, 2, "PerfEvtSel#", P6_PERFEVTSEL),
    row(EMON, 0xC1, 32, "IA32_PMC#", COUNT_48),
    row(EMON, 0x186, 32, "IA32_PERFEVTSEL#", PERFEVTSEL),
    row(ALL, 0x1A0, 1, "IA32_MISC_ENABLE", MISC_ENABLE),
    row(EMON, 0x1C8, 1, "MSR_LBR_SELECT", LBR_SELECT),
    row(EMON, 0x1C9, 1, "MSR_LASTBRANCH_TOS", LBR_TOS),
    row(EMON, 0x1D9, 1, "IA32_DEBUGCTL", DEBUGCTL),
    row(AMD, 0x1D9, 1, "DebugCtl", DEBUGCTL),
    row(EMON, 0x14CE, 1, "IA32_LBR_CTL", LBR_CTL),
    row(EMON, 0x14CF, 1, "IA32_LBR_DEPTH", LBR_DEPTH),
    row(AMD, 0xC000_010E, 1, "LBR_SELECT", LBR_SELECT),
    row(AMD, 0xC000_010F, 1, "DBG_EXTN_CFG", DBG_EXTN_CFG),
    row(EMON, 0x309, 16, "IA32_FIXED_CTR#", COUNT_48),
    row(EMON, 0x345, 1, "IA32_PERF_CAPABILITIES", PERF_CAPABILITIES),
    row(EMON, 0x38D, 1, "IA32_FIXED_CTR_CTRL", FIXED_CTR_CTRL),
    row(EMON, 0x38E, 1, "IA32_PERF_GLOBAL_STATUS", GLOBAL_STATUS),
    row(EMON, 0x38F, 1, "IA32_PERF_GLOBAL_CTRL", GLOBAL_CTRL),
    row(EMON, 0x390, 1, "IA32_PERF_GLOBAL_OVF_CTRL", GLOBAL_STATUS),
    row(EMON, 0x391, 1, "IA32_PERF_GLOBAL_STATUS_SET", GLOBAL_STATUS),
    row(EMON, 0x392, 1, "IA32_PERF_GLOBAL_INUSE", GLOBAL_INUSE),
    row(EMON, 0x4C1, 32, "IA32_A_PMC#", COUNT_48),
    row(P4, 0x3F1, 1, "MSR_PEBS_ENABLE", COUNT_32),
    row(P4, 0x3F2, 1, "MSR_PEBS_MATRIX_VERT", COUNT_32),
    row(AMD, 0xC000_0300, 1, "PerfCntrGlobalStatus", AMD_GLOBAL_STATUS),
    row(AMD, 0xC000_0301, 1, "PerfCntrGlobalCtl", AMD_GLOBAL_CTL),
    row(AMD, 0xC000_0302, 1, "PerfCntrGlobalStatusClr", AMD_GLOBAL_STATUS),
    row(AMD, 0xC000_0303, 1, "PerfCntrGlobalStatusSet", AMD_GLOBAL_STATUS),
    row(AMD, 0xC001_0000, 4, "PERF_LEGACY_CTL#", PERF_CTL),
    row(AMD, 0xC001_0004, 4, "PERF_LEGACY_CTR#", COUNT_48),
    Row { stride: 2, ..row(AMD, 0xC001_0200, 16, "PERF_CTL#", PERF_CTL) },
    Row { stride: 2, ..row(AMD, 0xC001_0201, 16, "PERF_CTR#", COUNT_48) },
    row(ALL, Register::CR4, 1, "CR4", CR4),
    row(ALL, 0x834, 1, "IA32_X2APIC_LVT_PMI", LVTPC),
    row(ALL, 0xFFFF_0340, 1, "LVTPC", LVTPC),
];

/// The name and the fields of a NetBurst counter, CCCR or ESCR.
pub(super) fn netburst(number: u32) -> Option<(String, &'static [Field])> {
    let nth = |first: u32| COUNTERS.get(number.checked_sub(first)? as usize);
    if let Some(name) = nth(0x300) {
        return Some(((*name).to_owned(), COUNT_40));
    }
    if let Some(name) = nth(0x360) {
        return Some((name.replace("COUNTER", "CCCR"), CCCR));
    }
    let escr = ESCRS.iter().find(|&&(msr, _)| msr == number)?;
    Some((escr.1.to_owned(), ESCR))
}
