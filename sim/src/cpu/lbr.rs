//! Last branch records: Intel's with MSR_LBR_INFO, Intel's architectural ones, AMD's LbrExtV2.
//!
//! A branch is recorded when it is taken, if recording is on and not frozen and the filter lets it
//! through. Not modelled: records of older models, call-stack mode, transactions, event counts in
//! the architectural records. Of deep C-states only what they do to the records is modelled:
//! [`Quirk::ClearedRecords`].

use crate::cpu::cpuid::Leaves;
use crate::cpu::signature::Signature;
use crate::quirks::{FALSE_BRANCH_EACH, Quirk, RECORDS_LEFT};
use shared_types::BranchKind;

const LBR_SELECT: u32 = 0x1C8;
const LBR_TOS: u32 = 0x1C9;
const IA32_LBR_CTL: u32 = 0x14CE;
const IA32_LBR_DEPTH: u32 = 0x14CF;
const AMD_LBR_SELECT: u32 = 0xC000_010E;
const DBG_EXTN_CFG: u32 = 0xC000_010F;
const AMD_FROM0: u32 = 0xC001_0300;

/// The first FROM, TO and INFO registers.
const INFO_BASES: [u32; 3] = [0x680, 0x6C0, 0xDC0];
const ARCHITECTURAL_BASES: [u32; 3] = [0x1500, 0x1600, 0x1200];

/// Family 6 models with MSR_LBR_INFO, and LBR_FMT in their IA32_PERF_CAPABILITIES: Skylake to Tiger
/// Lake; Goldmont Plus and Tremont, which have no transactions (Linux, arch/x86/events/intel/core.c
/// and lbr.c).
const INFO_MODELS: [(u32, u64); 16] = [
    (0x4E, 5),
    (0x5E, 5),
    (0x55, 5),
    (0x8E, 5),
    (0x9E, 5),
    (0xA5, 5),
    (0xA6, 5),
    (0x66, 5),
    (0x6A, 5),
    (0x6C, 5),
    (0x7D, 5),
    (0x7E, 5),
    (0x8C, 5),
    (0x8D, 5),
    (0x7A, 7),
    (0x86, 7),
];

/// The most records in any form.
const MOST: usize = 32;
/// The filters of LBR_SELECT, and EN_CALLSTACK.
const SELECT_BITS: u64 = 0x3FF;
/// AMD has no call-stack mode: bit 9 is reserved.
const AMD_SELECT_BITS: u64 = 0x1FF;
const LBR_CTL_BITS: u64 = 0x007F_000F;
/// The value of IA32_LBR_CTL that records everything.
const LBR_CTL_ALL: u64 = 0x007F_0007;
/// The bits of MSR_LBR_INFO: cycles, then TSX_ABORT, IN_TSX and MISPRED.
const INFO_BITS: u64 = 0xFFFF | 0b111 << 61;
const MISPREDICTED: u64 = 1 << 63;
const CYCLES_VALID: u64 = 1 << 60;
/// LBRV2EN.
const AMD_ENABLE: u64 = 1 << 6;
/// The address bits in AMD's records.
const AMD_ADDRESS: u64 = (1 << 58) - 1;
/// The entry belongs to no branch (erratum 1452).
const AMD_NO_BRANCH: u64 = 1 << 61;
const AMD_SPECULATIVE: u64 = 1 << 62;
const AMD_VALID: u64 = 1 << 63;
/// IA32_DEBUGCTL.LBR.
pub(crate) const LBR: u64 = 1;
pub(crate) const FREEZE_LBRS_ON_PMI: u64 = 1 << 11;
/// LBR_FRZ in the global status, of Intel and of AMD.
pub(crate) const LBR_FRZ: u64 = 1 << 58;

/// A branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub from: u64,
    pub to: u64,
    pub kind: BranchKind,
    /// Whether the processor had predicted it wrongly.
    pub mispredicted: bool,
    /// Cycles since the last taken branch before it.
    pub cycles: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With this LBR_FMT.
    Info(u64),
    /// With these depths, as leaf 0x1C has them.
    Architectural(u8),
    Amd,
}

/// The records of one logical processor.
#[derive(Clone, Debug)]
pub(crate) struct LastBranches {
    form: Form,
    depth: usize,
    /// FROM, TO and INFO: by index, or the newest first.
    records: [[u64; 3]; MOST],
    /// The index of the newest record.
    top: usize,
    /// LBR_SELECT, or IA32_LBR_CTL.
    control: u64,
    /// DBG_EXTN_CFG.
    switch: u64,
    /// Branches recorded so far.
    taken: u64,
    /// [`Quirk::FalseBranches`].
    false_branches: bool,
}

impl LastBranches {
    /// The records of an Intel processor; `None` if it has none of these forms, or a hypervisor
    /// hides them.
    pub(crate) fn of_intel(leaves: &Leaves) -> Option<Self> {
        if !shown(leaves) {
            return None;
        }
        let Signature { family, model, .. } = Signature::of(leaves);
        let depths = (leaves.get(0x1C, 0).eax & 0xFF) as u8;
        let architectural =
            leaves.get(0, 0).eax >= 0x1C && leaves.get(7, 0).edx >> 19 & 1 == 1 && depths != 0;
        let (form, depth) = if architectural {
            let deepest = 8 * (u8::BITS - depths.leading_zeros()) as usize;
            (Form::Architectural(depths), deepest.min(MOST))
        } else {
            let row = INFO_MODELS.iter().find(|row| family == 6 && row.0 == model)?;
            (Form::Info(row.1), MOST)
        };
        Some(Self::new(form, depth, false))
    }

    /// The records of an AMD processor; `None` if it has none, or a hypervisor hides them.
    pub(crate) fn of_amd(leaves: &Leaves) -> Option<Self> {
        let leaf = leaves.get(0x8000_0022, 0);
        let depth = (leaf.ebx >> 4 & 0x3F) as usize;
        let there = leaf.eax >> 1 & 1 == 1 && depth <= MOST && shown(leaves);
        let false_branches = leaves.quirks().has(Quirk::FalseBranches);
        there.then(|| Self::new(Form::Amd, depth, false_branches))
    }

    fn new(form: Form, depth: usize, false_branches: bool) -> Self {
        Self {
            form,
            depth,
            records: [[0; 3]; MOST],
            top: 0,
            control: 0,
            switch: 0,
            taken: 0,
            false_branches,
        }
    }

    /// Power-on reset.
    pub(crate) fn reset(&mut self) {
        let deepest = match self.form {
            Form::Architectural(depths) => 8 * (u8::BITS - depths.leading_zeros()) as usize,
            _ => self.depth,
        };
        *self = Self::new(self.form, deepest.min(MOST), self.false_branches);
    }

    /// LBR_FMT of IA32_PERF_CAPABILITIES. What processors with architectural records have there, no
    /// source that we could read says: Linux 6.1 does not look at it where CPUID shows these records
    /// (arch/x86/events/intel/core.c and lbr.c), and neither does the driver. The model has 0.
    pub(crate) fn format(&self) -> u64 {
        match self.form {
            Form::Info(format) => format,
            _ => 0,
        }
    }

    /// The value that IA32_DEBUGCTL takes when `written` is written: with architectural records its
    /// LBR bit is ignored.
    pub(crate) fn debugctl(&self, written: u64) -> u64 {
        match self.form {
            Form::Architectural(_) => written & !LBR,
            _ => written,
        }
    }

    /// RDMSR; `None` if it is none of these registers, or does not exist.
    pub(crate) fn read(&self, msr: u32) -> Option<u64> {
        match (self.form, msr) {
            (Form::Info(_), LBR_SELECT) | (Form::Architectural(_), IA32_LBR_CTL) => {
                Some(self.control)
            }
            (Form::Amd, AMD_LBR_SELECT) => Some(self.control),
            (Form::Info(_), LBR_TOS) => Some(self.top as u64),
            (Form::Architectural(_), IA32_LBR_DEPTH) => Some(self.depth as u64),
            (Form::Amd, DBG_EXTN_CFG) => Some(self.switch),
            _ => {
                let (record, part) = self.place(msr)?;
                Some(self.records[record][part])
            }
        }
    }

    /// WRMSR: whether the value is accepted; `None` if it is none of these registers, or does not
    /// exist.
    pub(crate) fn write(&mut self, msr: u32, value: u64) -> Option<bool> {
        let (place, writable) = match (self.form, msr) {
            (Form::Info(_), LBR_SELECT) => (&mut self.control, SELECT_BITS),
            (Form::Architectural(_), IA32_LBR_CTL) => (&mut self.control, LBR_CTL_BITS),
            (Form::Amd, AMD_LBR_SELECT) => (&mut self.control, AMD_SELECT_BITS),
            (Form::Amd, DBG_EXTN_CFG) => (&mut self.switch, u32::MAX.into()),
            // The register is writable: kvm-unit-tests write 0 to it.
            (Form::Info(_), LBR_TOS) => {
                let taken = value < MOST as u64;
                self.top = if taken { value as usize } else { self.top };
                return Some(taken);
            }
            (Form::Architectural(depths), IA32_LBR_DEPTH) => {
                return Some(self.set_depth(depths, value));
            }
            _ => {
                let (record, part) = self.place(msr)?;
                if !self.fits(part, value) {
                    return Some(false);
                }
                (&mut self.records[record][part], u64::MAX)
            }
        };
        let taken = value & !writable == 0;
        if taken {
            *place = value;
        }
        Some(taken)
    }

    /// Sets the number of records, and clears them all, as every write of IA32_LBR_DEPTH does (SDM
    /// vol. 3, "Last Branch Records").
    fn set_depth(&mut self, depths: u8, value: u64) -> bool {
        let is_one = (1..=8).any(|n| value == 8 * n && depths >> (n - 1) & 1 == 1);
        if is_one && value <= MOST as u64 {
            self.depth = value as usize;
            self.records = [[0; 3]; MOST];
        }
        is_one
    }

    /// The record that a register belongs to, and its part: FROM, TO or INFO.
    fn place(&self, msr: u32) -> Option<(usize, usize)> {
        let bases = match self.form {
            Form::Info(_) => INFO_BASES,
            Form::Architectural(_) => ARCHITECTURAL_BASES,
            Form::Amd => {
                let offset = msr.checked_sub(AMD_FROM0)? as usize;
                return (offset < 2 * self.depth).then_some((offset / 2, offset % 2));
            }
        };
        bases.iter().enumerate().find_map(|(part, base)| {
            let record = msr.checked_sub(*base)? as usize;
            (record < self.depth).then_some((record, part))
        })
    }

    /// Intel's addresses are canonical, and the model-specific INFO has reserved bits.
    fn fits(&self, part: usize, value: u64) -> bool {
        match (self.form, part) {
            (Form::Info(_), 2) => value & !INFO_BITS == 0,
            (Form::Amd, _) | (_, 2) => true,
            _ => matches!(value.cast_signed() >> 47, 0 | -1),
        }
    }

    /// Records a branch that is taken while recording is on.
    fn record(&mut self, branch: &Taken) {
        if self.leaves_out(branch) {
            return;
        }
        self.taken += 1;
        let Taken { from, to, mispredicted, cycles, .. } = *branch;
        let flag = if mispredicted { MISPREDICTED } else { 0 };
        match self.form {
            Form::Info(_) => {
                self.top = (self.top + 1) % MOST;
                self.records[self.top] = [from, to, flag | u64::from(cycles)];
            }
            Form::Architectural(_) => {
                let kind = numbers(branch.kind).2 << 56;
                self.push([from, to, flag | kind | CYCLES_VALID | u64::from(cycles)]);
            }
            Form::Amd => {
                // A branch that is followed has the speculative flag set or clear; the model mixes
                // both, so that a reader must accept both.
                let speculative = if self.taken.is_multiple_of(3) { AMD_SPECULATIVE } else { 0 };
                let target = to & AMD_ADDRESS | AMD_VALID | speculative;
                self.push([from & AMD_ADDRESS | flag, target, 0]);
                if mispredicted {
                    // This is a speculative record from a path that was not followed.
                    let wrong = from.wrapping_add(0x40) & AMD_ADDRESS;
                    self.push([wrong, wrong & !0xFF | AMD_SPECULATIVE, 0]);
                }
                if self.false_branches && self.taken.is_multiple_of(FALSE_BRANCH_EACH) {
                    let nowhere = from.rotate_left(21) & AMD_ADDRESS;
                    let flags = AMD_VALID | AMD_SPECULATIVE | AMD_NO_BRANCH;
                    self.push([nowhere, nowhere ^ 0xFF0 | flags, 0]);
                }
            }
        }
    }

    fn push(&mut self, record: [u64; 3]) {
        let records = &mut self.records[..self.depth];
        records.rotate_right(1);
        records[0] = record;
    }

    /// Whether the filter leaves a branch out. Its mode is that of its target: CPL_EQ_0 suppresses
    /// branches that end in ring 0 (SDM vol. 3, "Filtering of Last Branch Records").
    fn leaves_out(&self, branch: &Taken) -> bool {
        let to_kernel = branch.to >> 63 == 1;
        // IA32_LBR_CTL names what is recorded, LBR_SELECT what is left out.
        let (mode, kind, recorded) = match self.form {
            Form::Architectural(_) => {
                (if to_kernel { 1 } else { 2 }, numbers(branch.kind).0, self.control)
            }
            Form::Info(_) | Form::Amd => {
                (u32::from(!to_kernel), numbers(branch.kind).1, !self.control)
            }
        };
        recorded >> mode & recorded >> kind & 1 == 0
    }
}

/// The records, with the unit's registers that decide whether branches are recorded.
pub(crate) struct Recording<'a> {
    pub(crate) records: &'a mut LastBranches,
    pub(crate) debugctl: &'a mut u64,
    pub(crate) status: u64,
}

impl Recording<'_> {
    /// Whether branches are recorded.
    pub(crate) fn is_on(&self) -> bool {
        let on = match self.records.form {
            Form::Info(_) => *self.debugctl & LBR,
            Form::Architectural(_) => self.records.control & 1,
            Form::Amd => self.records.switch & AMD_ENABLE,
        };
        on != 0 && self.status & LBR_FRZ == 0
    }

    pub(crate) fn branch(&mut self, taken: &Taken) {
        if self.is_on() {
            self.records.record(taken);
        }
    }

    /// Architectural records: all but the newest few are gone.
    pub(crate) fn lose_old(&mut self) {
        if matches!(self.records.form, Form::Architectural(_)) {
            self.records.records[RECORDS_LEFT..].fill([0; 3]);
        }
    }

    /// Someone else begins to record everything.
    pub(crate) fn take(&mut self) {
        let records = &mut *self.records;
        match records.form {
            Form::Info(_) => records.control = 0,
            Form::Architectural(_) => records.control = LBR_CTL_ALL,
            Form::Amd => {
                records.control = 0;
                records.switch |= AMD_ENABLE;
            }
        }
        *self.debugctl = records.debugctl(*self.debugctl & !FREEZE_LBRS_ON_PMI | LBR);
    }
}

/// A kind's bit in IA32_LBR_CTL, its bit in LBR_SELECT, and its BR_TYPE.
const fn numbers(kind: BranchKind) -> (u32, u32, u64) {
    match kind {
        BranchKind::Conditional => (16, 2, 0),
        BranchKind::Jump => (17, 7, 2),
        BranchKind::IndirectJump => (18, 6, 1),
        BranchKind::Call => (19, 3, 4),
        BranchKind::IndirectCall => (20, 4, 3),
        BranchKind::Return => (21, 5, 5),
        BranchKind::Other | BranchKind::Unknown => (22, 8, 8),
    }
}

/// Whether the records are visible: without a hypervisor, or under one of Microsoft's that offers
/// them (TLFS, "Feature Discovery").
fn shown(leaves: &Leaves) -> bool {
    let offers = leaves.get(0x4000_0001, 0).eax == 0x3123_7648
        && leaves.get(0x4000_0003, 0).edx >> 26 & 1 == 1;
    !leaves.has_hypervisor() || offers
}

#[cfg(test)]
mod tests;
