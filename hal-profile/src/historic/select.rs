//! What the counters of Pentium and NetBurst are programmed to count; P6 has event selects.

use zerocopy::FromZeros;

/// What the processor is programmed to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// One half of the Pentium's CESR: ES, and whether CC bit 2 selects clocks.
    Cesr {
        /// ES: the 6-bit event code.
        event: u8,
        /// CC bit 2: count clocks (duration) instead of events.
        clocks: bool,
    },
    /// A NetBurst event: ESCR and CCCR.
    NetBurst(NetBurstSelect),
}

/// A NetBurst event: the values of its registers, without privilege, thread and enable bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetBurstSelect {
    /// ESCR bits 30:25 (event select) and 24:9 (event mask) in place, nothing else.
    pub escr: u32,
    /// CCCR bits: ESCR select (15:13), COMPARE, COMPLEMENT, THRESHOLD, EDGE in place, nothing else.
    pub cccr: u32,
    /// The pair of ESCRs: the MSR for the even side and for the odd side (0 if that side cannot
    /// count the event).
    pub escr_msr: [u16; 2],
    /// The counters of the even side and of the odd side, as masks of 18 bits; never counter 1.
    pub counters: [u32; 2],
    /// What must be programmed upstream for the event to count anything.
    pub upstream: Upstream,
}

/// Registers that tag micro-operations before an at-retirement event can count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// Nothing.
    None,
    /// `uop_type` in RAT_ESCR0 (even side) or RAT_ESCR1 (odd side), with this event mask and select.
    UopType {
        /// ESCR bits 30:25 and 24:9 of the upstream RAT_ESCR.
        escr: u32,
    },
    /// Replay tagging: MSR_PEBS_ENABLE (0x3F1) and MSR_PEBS_MATRIX_VERT (0x3F2), one metric for
    /// each physical package at a time.
    Replay {
        pebs_enable: u32,
        /// MSR_PEBS_MATRIX_VERT.
        matrix_vert: u32,
    },
}

/// What decides which of NetBurst's counters a logical processor uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct NetBurst {
    /// Two logical processors share the counters.
    pub hyper_threading: bool,
    /// Which of the two this is: bit 0 of the initial APIC identifier.
    pub thread: u8,
}
