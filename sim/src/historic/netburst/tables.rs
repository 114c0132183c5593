//! Which NetBurst counters exist, and which ESCRs can feed them.
//!
//! SDM vol. 3B (September 2016), table 18-63.

/// The number of counters. RDPMC's ECX numbers them, as do the MSRs of counters and CCCRs: 0 to 3 are
/// the branch prediction unit's (BPU), 4 to 7 the microcode store's (MS), 8 to 11 those of floating
/// point and memory (FLAME), 12 to 17 the instruction queue's (IQ). A CCCR's ESCR select is local to
/// its block.
pub const COUNTERS: usize = 18;

/// The counters whose CCCR bit 11 is the extended-cascade enable on models 2, 3, 4 and 6; elsewhere
/// it is reserved.
pub const EXTENDED_CASCADE: [usize; 4] = [12, 15, 16, 17];

/// An event selection control register.
#[derive(Clone, Copy, Debug)]
pub struct Escr {
    /// The manual's name.
    pub name: &'static str,
    pub msr: u32,
    /// The ESCR select with which the CCCRs of `counters` choose it.
    pub select: u8,
    /// The counters that it can feed.
    pub counters: &'static [u8],
    /// It exists on models 0 to 2 only; #GP on later ones.
    pub early: bool,
}

impl Escr {
    /// Whether this processor model has it.
    pub const fn exists_on(&self, model: u8) -> bool {
        !self.early || model <= 2
    }

    const fn early(self) -> Self {
        Self { early: true, ..self }
    }
}

/// The 45 ESCRs, by MSR. 0x3BF is not one: there is no MSR_SSU_ESCR1.
pub const ESCRS: [Escr; 45] = [
    escr("MSR_BSU_ESCR0", 0x3A0, 7, &[0, 1]),
    escr("MSR_BSU_ESCR1", 0x3A1, 7, &[2, 3]),
    escr("MSR_FSB_ESCR0", 0x3A2, 6, &[0, 1]),
    escr("MSR_FSB_ESCR1", 0x3A3, 6, &[2, 3]),
    escr("MSR_FIRM_ESCR0", 0x3A4, 1, &[8, 9]),
    escr("MSR_FIRM_ESCR1", 0x3A5, 1, &[10, 11]),
    escr("MSR_FLAME_ESCR0", 0x3A6, 0, &[8, 9]),
    escr("MSR_FLAME_ESCR1", 0x3A7, 0, &[10, 11]),
    escr("MSR_DAC_ESCR0", 0x3A8, 5, &[8, 9]),
    escr("MSR_DAC_ESCR1", 0x3A9, 5, &[10, 11]),
    escr("MSR_MOB_ESCR0", 0x3AA, 2, &[0, 1]),
    escr("MSR_MOB_ESCR1", 0x3AB, 2, &[2, 3]),
    escr("MSR_PMH_ESCR0", 0x3AC, 4, &[0, 1]),
    escr("MSR_PMH_ESCR1", 0x3AD, 4, &[2, 3]),
    escr("MSR_SAAT_ESCR0", 0x3AE, 2, &[8, 9]),
    escr("MSR_SAAT_ESCR1", 0x3AF, 2, &[10, 11]),
    escr("MSR_U2L_ESCR0", 0x3B0, 3, &[8, 9]),
    escr("MSR_U2L_ESCR1", 0x3B1, 3, &[10, 11]),
    escr("MSR_BPU_ESCR0", 0x3B2, 0, &[0, 1]),
    escr("MSR_BPU_ESCR1", 0x3B3, 0, &[2, 3]),
    escr("MSR_IS_ESCR0", 0x3B4, 1, &[0, 1]),
    escr("MSR_IS_ESCR1", 0x3B5, 1, &[2, 3]),
    escr("MSR_ITLB_ESCR0", 0x3B6, 3, &[0, 1]),
    escr("MSR_ITLB_ESCR1", 0x3B7, 3, &[2, 3]),
    escr("MSR_CRU_ESCR0", 0x3B8, 4, &[12, 13, 16]),
    escr("MSR_CRU_ESCR1", 0x3B9, 4, &[14, 15, 17]),
    escr("MSR_IQ_ESCR0", 0x3BA, 0, &[12, 13, 16]).early(),
    escr("MSR_IQ_ESCR1", 0x3BB, 0, &[14, 15, 17]).early(),
    escr("MSR_RAT_ESCR0", 0x3BC, 2, &[12, 13, 16]),
    escr("MSR_RAT_ESCR1", 0x3BD, 2, &[14, 15, 17]),
    escr("MSR_SSU_ESCR0", 0x3BE, 3, &[12, 13, 16]),
    escr("MSR_MS_ESCR0", 0x3C0, 0, &[4, 5]),
    escr("MSR_MS_ESCR1", 0x3C1, 0, &[6, 7]),
    escr("MSR_TBPU_ESCR0", 0x3C2, 2, &[4, 5]),
    escr("MSR_TBPU_ESCR1", 0x3C3, 2, &[6, 7]),
    escr("MSR_TC_ESCR0", 0x3C4, 1, &[4, 5]),
    escr("MSR_TC_ESCR1", 0x3C5, 1, &[6, 7]),
    escr("MSR_IX_ESCR0", 0x3C8, 5, &[0, 1]),
    escr("MSR_IX_ESCR1", 0x3C9, 5, &[2, 3]),
    escr("MSR_ALF_ESCR0", 0x3CA, 1, &[12, 13, 16]),
    escr("MSR_ALF_ESCR1", 0x3CB, 1, &[14, 15, 17]),
    escr("MSR_CRU_ESCR2", 0x3CC, 5, &[12, 13, 16]),
    escr("MSR_CRU_ESCR3", 0x3CD, 5, &[14, 15, 17]),
    escr("MSR_CRU_ESCR4", 0x3E0, 6, &[12, 13, 16]),
    escr("MSR_CRU_ESCR5", 0x3E1, 6, &[14, 15, 17]),
];

const fn escr(name: &'static str, msr: u32, select: u8, counters: &'static [u8]) -> Escr {
    Escr { name, msr, select, counters, early: false }
}

/// The index in [`ESCRS`] of the one that `select` in the CCCR of `counter` chooses, on this
/// processor model.
pub fn selected(counter: usize, select: u8, model: u8) -> Option<usize> {
    ESCRS.iter().position(|escr| {
        escr.select == select
            && escr.counters.iter().any(|&fed| usize::from(fed) == counter)
            && escr.exists_on(model)
    })
}
