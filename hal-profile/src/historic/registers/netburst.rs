//! NetBurst counters (SDM vol. 3, "Performance Monitoring (Processors Based on Intel NetBurst
//! Microarchitecture)").

use bitfield_struct::bitfield;

/// MSR_BPU_COUNTER0; the other 17 follow.
pub const COUNTER0: u32 = 0x300;
/// MSR_BPU_CCCR0; the other 17 follow.
pub const CCCR0: u32 = 0x360;
/// MSR_PEBS_ENABLE: tags micro-operations for replay events.
pub const PEBS_ENABLE: u32 = 0x3F1;
/// MSR_PEBS_MATRIX_VERT: selects which replays are tagged.
pub const PEBS_MATRIX_VERT: u32 = 0x3F2;
/// MSR_RAT_ESCR0; MSR_RAT_ESCR1 follows.
pub const RAT_ESCR0: u32 = 0x3BC;
/// Number of counters.
pub const COUNTERS: u8 = 18;
/// Width of every counter; a write takes all bits.
pub const COUNTER_WIDTH: u8 = 40;
/// The counters that are used: all but counter 1, because the enable bit of its CCCR is unreliable
/// (Linux `perf_event_p4`).
pub const USABLE: u32 = 0x3_FFFD;
/// Counters fed by ESCRs with an even number: the first logical processor's with Hyper-Threading.
pub const EVEN_SIDE: u32 = 0x1_3333;
/// Counters fed by ESCRs with an odd number: the second logical processor's.
pub const ODD_SIDE: u32 = 0x2_CCCC;

#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Escr {
    /// Thread 1 at CPL 3.
    pub t1_usr: bool,
    /// Thread 1 at CPL 0.
    pub t1_os: bool,
    /// Thread 0 (or the only one) at CPL 3.
    pub t0_usr: bool,
    /// Thread 0 (or the only one) at CPL 0.
    pub t0_os: bool,
    pub tag_enable: bool,
    #[bits(4)]
    pub tag_value: u8,
    pub event_mask: u16,
    #[bits(6)]
    pub event: u8,
    _reserved: bool,
}

#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cccr {
    #[bits(12)]
    _reserved0: u16,
    pub enable: bool,
    #[bits(3)]
    pub escr_select: u8,
    /// ACTIVE_THREAD: 3 always (any thread; the only legal value without Hyper-Threading).
    #[bits(2)]
    pub active_thread: u8,
    pub compare: bool,
    pub complement: bool,
    #[bits(4)]
    pub threshold: u8,
    pub edge: bool,
    pub force_ovf: bool,
    /// OVF_PMI_T0 (OVF_PMI without Hyper-Threading).
    pub ovf_pmi_t0: bool,
    pub ovf_pmi_t1: bool,
    #[bits(2)]
    _reserved1: u8,
    /// CASCADE: never used here (errata; no profiler uses it).
    pub cascade: bool,
    /// OVF: sticky, cleared only by software.
    pub ovf: bool,
}

/// A CCCR that does nothing: every write must put 11b into ACTIVE_THREAD.
pub const CCCR_OFF: Cccr = Cccr::new().with_active_thread(3);

/// Every ESCR of a model: 45 on models 0 to 2, and 43 on later models, which lack IQ_ESCR0 and
/// IQ_ESCR1.
pub fn escr_msrs(model: u16) -> impl Iterator<Item = u32> {
    const IQ_ESCR: core::ops::RangeInclusive<u32> = 0x3BA..=0x3BB;
    (0x3A0..=0x3BE)
        .chain(0x3C0..=0x3C5)
        .chain(0x3C8..=0x3CD)
        .chain(0x3E0..=0x3E1)
        .filter(move |msr| model <= 2 || !IQ_ESCR.contains(msr))
}
