//! The events of NetBurst, and what each of their masks counts.
//!
//! SDM vol. 3, "Pentium 4 and Intel Xeon Processor Performance Monitoring Events".

use crate::cpu::event::Event;

/// An event that one or two ESCRs can select.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The manual's name.
    pub name: &'static str,
    /// ESCR bits 30:25.
    pub select: u8,
    /// The ESCRs that can select it, by MSR.
    pub escrs: &'static [u32],
    /// The mask bits that the manual documents; all others must be 0.
    pub mask: u16,
    /// Whether it belongs to one thread. Otherwise it is the package's, and the bits of both
    /// threads merge.
    pub thread_specific: bool,
    pub first_model: u8,
    /// What complete masks count; a mask that is not listed counts nothing in the model.
    pub counts: &'static [(u16, Event)],
    /// The tagging that it needs to count anything.
    pub tagging: Option<Replay>,
}

/// What MSR_PEBS_ENABLE and MSR_PEBS_MATRIX_VERT must hold for replayed micro-operations to be
/// tagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Bits 24 and 12:0 of MSR_PEBS_ENABLE.
    pub pebs_enable: u64,
    /// Bits 12:0 of MSR_PEBS_MATRIX_VERT.
    pub matrix_vert: u64,
}

/// The replay metric 1stL_cache_load_miss_retired.
pub const L1_LOAD_MISS: Replay = Replay { pebs_enable: 0x0100_0001, matrix_vert: 0x1 };

impl Row {
    /// What `mask` counts; `None` for nothing.
    pub fn counted(&self, mask: u16) -> Option<Event> {
        let found = self.counts.iter().find(|(whole, _)| *whole == mask);
        found.map(|(_, event)| *event)
    }

    const fn since_model(self, first_model: u8) -> Self {
        Self { first_model, ..self }
    }

    const fn counting(self, counts: &'static [(u16, Event)]) -> Self {
        Self { counts, ..self }
    }

    const fn tagged_by(self, replay: Replay) -> Self {
        Self { tagging: Some(replay), ..self }
    }
}

/// Every documented event, in the order of the manual.
pub const ROWS: [Row; 47] = [
    independent("TC_deliver_mode", 0x01, &[0x3C4, 0x3C5], 0x00FF),
    // NetBurst has no first-level instruction cache: a miss of the trace cache comes closest.
    specific("BPU_fetch_request", 0x03, &[0x3B2, 0x3B3], 0x0001)
        .counting(&[(0x0001, Event::L1iMisses)]),
    specific("ITLB_reference", 0x18, &[0x3B6, 0x3B7], 0x0007),
    specific("memory_cancel", 0x02, &[0x3A8, 0x3A9], 0x000C),
    specific("memory_complete", 0x08, &[0x3AE, 0x3AF], 0x000F),
    specific("load_port_replay", 0x04, &[0x3AE, 0x3AF], 0x0002),
    specific("store_port_replay", 0x05, &[0x3AE, 0x3AF], 0x0002),
    specific("MOB_load_replay", 0x03, &[0x3AA, 0x3AB], 0x003A),
    independent("page_walk_type", 0x01, &[0x3AC, 0x3AD], 0x0003),
    // RD_2ndL_MISS, RD_3rdL_MISS and WR_2ndL_MISS together come closest on parts without a third
    // level, RD_3rdL_MISS alone on those with one. The model does not distinguish the two.
    specific("BSQ_cache_reference", 0x0C, &[0x3A0, 0x3A1], 0x073F)
        .counting(&[(0x0700, Event::LlcMisses), (0x0200, Event::LlcMisses)]),
    specific("IOQ_allocation", 0x03, &[0x3A2, 0x3A3], 0xEFFF),
    specific("IOQ_active_entries", 0x1A, &[0x3A3], 0xEFFF),
    independent("FSB_data_activity", 0x17, &[0x3A2, 0x3A3], 0x003F),
    specific("BSQ_allocation", 0x05, &[0x3A0], 0x3FEF),
    specific("bsq_active_entries", 0x06, &[0x3A1], 0x3FEF),
    independent("SSE_input_assist", 0x34, &[0x3A4, 0x3A5], 0x8000),
    independent("packed_SP_uop", 0x08, &[0x3A4, 0x3A5], 0x8000),
    independent("packed_DP_uop", 0x0C, &[0x3A4, 0x3A5], 0x8000),
    independent("scalar_SP_uop", 0x0A, &[0x3A4, 0x3A5], 0x8000),
    independent("scalar_DP_uop", 0x0E, &[0x3A4, 0x3A5], 0x8000),
    independent("64bit_MMX_uop", 0x02, &[0x3A4, 0x3A5], 0x8000),
    independent("128bit_MMX_uop", 0x1A, &[0x3A4, 0x3A5], 0x8000),
    independent("x87_FP_uop", 0x04, &[0x3A4, 0x3A5], 0x8000)
        .counting(&[(0x8000, Event::FpOperations)]),
    independent("x87_SIMD_moves_uop", 0x2E, &[0x3A4, 0x3A5], 0x0018),
    specific("TC_misc", 0x06, &[0x3C4, 0x3C5], 0x0010),
    specific("global_power_events", 0x13, &[0x3A2, 0x3A3], 0x0001)
        .counting(&[(0x0001, Event::Cycles)]),
    specific("tc_ms_xfer", 0x05, &[0x3C0, 0x3C1], 0x0001),
    specific("uop_queue_writes", 0x09, &[0x3C0, 0x3C1], 0x0007),
    specific("retired_mispred_branch_type", 0x05, &[0x3C2, 0x3C3], 0x001F),
    specific("retired_branch_type", 0x04, &[0x3C2, 0x3C3], 0x001F),
    specific("resource_stall", 0x01, &[0x3CA, 0x3CB], 0x0020),
    independent("WC_Buffer", 0x05, &[0x3A8, 0x3A9], 0x0007),
    // The manual prints ESCR select 3 for this and the next three, but the FSB ESCRs have 6.
    independent("b2b_cycles", 0x16, &[0x3A2, 0x3A3], 0x007E),
    independent("bnr", 0x08, &[0x3A2, 0x3A3], 0x0007),
    independent("snoop", 0x06, &[0x3A2, 0x3A3], 0x00C4),
    independent("response", 0x04, &[0x3A2, 0x3A3], 0x0306),
    specific("front_end_event", 0x08, &[0x3CC, 0x3CD], 0x0003),
    specific("execution_event", 0x0C, &[0x3CC, 0x3CD], 0x00FF),
    // Micro-operations tagged because they were replayed.
    specific("replay_event", 0x09, &[0x3CC, 0x3CD], 0x0003)
        .counting(&[(0x0001, Event::L1dMisses)])
        .tagged_by(L1_LOAD_MISS),
    // Nothing is tagged in the model, so NBOGUSTAG adds nothing to NBOGUSNTAG. Masks with the bogus
    // bits select what never retires.
    specific("instr_retired", 0x02, &[0x3B8, 0x3B9], 0x000F)
        .counting(&[(0x0001, Event::Instructions), (0x0003, Event::Instructions)]),
    specific("uops_retired", 0x01, &[0x3B8, 0x3B9], 0x0003),
    // Tags micro-operations for front_end_event and itself counts nothing.
    specific("uop_type", 0x02, &[0x3BC, 0x3BD], 0x0006),
    // Taken and not taken, predicted and mispredicted: only all four together are all branches.
    specific("branch_retired", 0x06, &[0x3CC, 0x3CD], 0x000F)
        .counting(&[(0x000F, Event::Branches)]),
    specific("mispred_branch_retired", 0x03, &[0x3B8, 0x3B9], 0x0001)
        .counting(&[(0x0001, Event::BranchMisses)]),
    specific("x87_assist", 0x03, &[0x3CC, 0x3CD], 0x001F),
    specific("machine_clear", 0x02, &[0x3CC, 0x3CD], 0x0045),
    specific("instr_completed", 0x07, &[0x3B8, 0x3B9], 0x0003).since_model(3),
];

const fn specific(name: &'static str, select: u8, escrs: &'static [u32], mask: u16) -> Row {
    Row {
        name,
        select,
        escrs,
        mask,
        thread_specific: true,
        first_model: 0,
        counts: &[],
        tagging: None,
    }
}

const fn independent(name: &'static str, select: u8, escrs: &'static [u32], mask: u16) -> Row {
    Row { thread_specific: false, ..specific(name, select, escrs, mask) }
}

/// The event that `select` means in the ESCR at `msr`, on this processor model.
pub fn selected(msr: u32, select: u8, model: u8) -> Option<&'static Row> {
    ROWS.iter()
        .find(|row| row.select == select && row.escrs.contains(&msr) && row.first_model <= model)
}
