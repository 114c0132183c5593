//! Branch records: whether a processor has them, and every access to their registers.
//!
//! `Branches::discover` makes every check before any of their registers is touched. On each
//! processor, a session's recording begins when its counters are armed and ends when they are given
//! back. It is refused if another owner is already recording, checked against the enable bits at
//! each interrupt, and leaves the registers as they were found.
//!
//! An overflow interrupt freezes the records, so that branches on the kernel's path to the handler
//! do not push out those before the interrupt. Up to version 3 the freeze clears IA32_DEBUGCTL.LBR,
//! which is set again when the interrupt has been handled; from version 4 on, and on AMD, it is a
//! status bit that is acknowledged together with the overflow.
//!
//! | records | register accesses for a sample of n branches |
//! |---|---|
//! | LBR_INFO, from version 4 on | 3 n + 2: the enable bit, the index of the newest |
//! | LBR_INFO, up to version 3 | 3 n + 4: as above, and the enable bit is set again |
//! | architectural | 3 n + 2: the enable bit, the freeze |
//! | AMD's LbrExtV2 | 2 n + 2: the enable bit, the freeze |

use crate::capabilities::{Capabilities, Gate};
use crate::host::Local;
use crate::machine::Machine;
use crate::registers::cpuid::{
    LEAF7_EDX_ARCHITECTURAL_LBR, LEAF80000022_EAX_LBR_V2, LbrEax, LbrEbx, LbrEcx, leaf1_ecx,
};
use crate::registers::intel::{DebugCtl, GLOBAL_STATUS_LBR_FRZ, IA32_DEBUGCTL, LbrCtl, LbrInfo};
use crate::registers::{amd, intel};
use crate::selection::{Hv1, Hypervisor, Identity};
use shared_types::request::machine::Processor;
use shared_types::request::session::Configure;
use shared_types::{
    Branch, BranchKind, BranchReason, BranchRecords, Delivery, MAX_BRANCHES, ProfileInterface,
};
use zerocopy::FromZeros;

/// Family 6 models with MSR_LBR_INFO: Skylake to Tiger Lake, Goldmont Plus, Tremont (SDM vol. 4,
/// "Model-Specific Registers (MSRs)").
const INFO_MODELS: [u16; 16] = [
    0x4E, 0x5E, 0x55, 0x8E, 0x9E, 0xA5, 0xA6, 0x66, 0x6A, 0x6C, 0x7D, 0x7E, 0x8C, 0x8D, 0x7A, 0x86,
];
/// Formats with MSR_LBR_INFO: with transaction bits, and without.
const FORMAT_INFO: u8 = 5;
const FORMAT_INFO_2: u8 = 7;
/// Number of records on the models with MSR_LBR_INFO.
const INFO_DEPTH: u8 = 32;
/// Bits of a virtual address if CPUID does not say.
const ADDRESS_BITS: u8 = 48;
/// LBRV2EN.
const AMD_ENABLE: u64 = amd::DbgExtnCfg::new().with_lbr_v2_enable(true).into_bits();
/// DebugCtl's LBR and FREEZE_LBRS_ON_PMI.
const LBR: u64 = DebugCtl::new().with_lbr(true).into_bits();
const FREEZE: u64 = DebugCtl::new().with_freeze_lbrs_on_pmi(true).into_bits();
/// LBREn.
const ARCHITECTURAL_ENABLE: u64 = LbrCtl::new().with_lbr_en(true).into_bits();
/// The bit that is set in a kernel address.
const KERNEL_HALF: u64 = 1 << 63;

/// How a processor records branches. All zeros: it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Branches {
    /// The kind of records.
    pub records: BranchRecords,
    /// Why it does not, if it does not.
    pub reason: BranchReason,
    /// What the records contain: [`Processor::TELLS_MISPREDICTED`] and the other `TELLS` flags.
    pub tells: u16,
    /// The numbers of records that it can keep, as a mask: bit n stands for 8 (n + 1).
    depths: u8,
    /// Significant bits of an address; its sign is extended into the bits above.
    address_bits: u8,
    /// The status bit that freezes the records; 0 if a freeze clears the enable bit instead.
    freeze: u64,
}

/// What a session records on one kind of processor. All zeros: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct Recording {
    /// The filter, in the layout of LBR_SELECT or of IA32_LBR_CTL with its enable bit.
    control: u64,
    /// Branches of each sample.
    depth: u8,
    /// Records that the processor keeps.
    kept: u8,
    /// Register accesses needed to read them.
    accesses: u8,
}

/// What one processor has recorded, and the register values found before recording. All zeros: it
/// does not record.
#[derive(Debug, FromZeros)]
pub(crate) struct Recorded {
    on: bool,
    /// Another owner has changed how branches are recorded.
    pub(crate) changed: bool,
    /// The records for the interrupt being handled have been read.
    read: bool,
    count: u8,
    /// The filter, the depth and DebugCtl's freeze bit as they were found.
    found_control: u64,
    found_depth: u64,
    found_freeze: u64,
    records: [Branch; MAX_BRANCHES],
}

impl Branches {
    /// Discovers how the processor on which this runs records branches. `found` is already complete
    /// in all other respects.
    pub(crate) fn discover(machine: &mut impl Machine, found: &Capabilities) -> Self {
        let identity = &found.identity;
        let Some(mut branches) = declared(machine, found.interface(), identity) else {
            return Self::new_zeroed();
        };
        let info = branches.records == BranchRecords::Info;
        // Only model-specific records can be frozen by clearing their enable bit.
        let freezes = found.gate == Gate::Global && (info || found.global.freeze != 0);
        let reason = if found.delivery == Delivery::None {
            BranchReason::NoInterrupt
        } else if !offered(identity) {
            BranchReason::Hypervisor
        } else if !freezes {
            BranchReason::NoFreeze
        } else if branches.depths == 0 || (info && !branches.take_format(machine, identity)) {
            BranchReason::Format
        } else {
            branches.reason = BranchReason::Available;
            if found.global.freeze != 0 {
                branches.freeze = GLOBAL_STATUS_LBR_FRZ;
            }
            return branches;
        };
        Self {
            reason,
            ..Self::new_zeroed()
        }
    }

    /// Reads the format of model-specific records; returns whether it has LBR_INFO.
    fn take_format(&mut self, machine: &mut impl Machine, identity: &Identity) -> bool {
        if identity.leaf1_ecx & leaf1_ecx::PDCM == 0 {
            return false;
        }
        let capabilities = machine.read_msr(intel::IA32_PERF_CAPABILITIES);
        let format = intel::PerfCapabilities::from_bits(capabilities).lbr_format();
        if format == FORMAT_INFO {
            self.tells |= Processor::TELLS_TRANSACTIONS;
        }
        matches!(format, FORMAT_INFO | FORMAT_INFO_2)
    }

    /// The most branches that a sample can have; 0 if none can be recorded.
    #[must_use]
    pub fn most(&self) -> u8 {
        let highest = u8::BITS - self.depths.leading_zeros();
        (highest as u8 * 8).min(MAX_BRANCHES as u8)
    }

    /// Whether the processor can keep `depth` records.
    fn has(&self, depth: u64) -> bool {
        (1..=8).any(|n| depth == 8 * n && self.depths >> (n - 1) & 1 != 0)
    }

    /// The recording of `depth` branches through a complete filter; `None` if the processor does
    /// not have that many.
    pub(crate) fn recording(&self, depth: u8, filter: u16) -> Option<Recording> {
        let mut depths = (1..=8).map(|n| n * 8);
        let kept = depths.find(|&kept| kept >= depth && self.has(kept.into()))?;
        let (each, besides) = match self.records {
            BranchRecords::AmdV2 => (2, 2),
            _ if self.freeze == 0 => (3, 4),
            _ => (3, 2),
        };
        Some(Recording {
            control: match self.records {
                BranchRecords::Architectural => architectural_filter(filter),
                _ => u64::from(!filter & (Configure::MODES | Configure::KINDS)),
            },
            depth,
            kept,
            accesses: depth * each + besides,
        })
    }

    /// The registers that control whether branches are recorded, and which.
    pub(crate) fn controls(&self) -> &'static [u32] {
        match self.records {
            BranchRecords::None => &[],
            BranchRecords::Info => &[IA32_DEBUGCTL, intel::LBR_SELECT, intel::LBR_TOS],
            BranchRecords::Architectural => {
                &[IA32_DEBUGCTL, intel::IA32_LBR_CTL, intel::IA32_LBR_DEPTH]
            }
            BranchRecords::AmdV2 => &[IA32_DEBUGCTL, amd::DBG_EXTN_CFG, amd::LBR_SELECT],
        }
    }

    /// The register and the bit that enable recording.
    fn switch(&self) -> (u32, u64) {
        match self.records {
            BranchRecords::None | BranchRecords::Info => (IA32_DEBUGCTL, LBR),
            BranchRecords::Architectural => (intel::IA32_LBR_CTL, ARCHITECTURAL_ENABLE),
            BranchRecords::AmdV2 => (amd::DBG_EXTN_CFG, AMD_ENABLE),
        }
    }
}

impl Recording {
    /// Register accesses needed to read the branches of a sample.
    pub(crate) fn accesses(&self) -> u64 {
        self.accesses.into()
    }
}

/// What CPUID and the model declare, before any register is read.
fn declared(
    machine: &impl Machine,
    interface: ProfileInterface,
    identity: &Identity,
) -> Option<Branches> {
    let none = Branches::new_zeroed();
    let info = Processor::TELLS_MISPREDICTED | Processor::TELLS_CYCLES;
    match interface {
        ProfileInterface::Emon
            if identity.max_leaf >= 0x1C
                && machine.cpuid(7, 0).edx & LEAF7_EDX_ARCHITECTURAL_LBR != 0 =>
        {
            Some(architectural(machine))
        }
        ProfileInterface::Emon if identity.family == 6 && INFO_MODELS.contains(&identity.model) => {
            Some(Branches {
                records: BranchRecords::Info,
                tells: info,
                depths: 1 << (INFO_DEPTH / 8 - 1),
                ..none
            })
        }
        ProfileInterface::Amd64 if identity.leaf_80000022.eax & LEAF80000022_EAX_LBR_V2 != 0 => {
            let depth = (identity.leaf_80000022.ebx >> 4 & 0x3F) as u8;
            let sizes = match identity.max_extended {
                0x8000_0008.. => machine.cpuid(0x8000_0008, 0).eax,
                _ => 0,
            };
            Some(Branches {
                records: BranchRecords::AmdV2,
                tells: Processor::TELLS_MISPREDICTED,
                depths: 1u8
                    .checked_shl((depth / 8).wrapping_sub(1).into())
                    .unwrap_or(0),
                address_bits: match (sizes >> 8) as u8 {
                    bits @ ADDRESS_BITS..=57 => bits,
                    _ => ADDRESS_BITS,
                },
                ..none
            })
        }
        _ => None,
    }
}

/// Leaf 0x1C. Both filters are required: without them more would be recorded than was asked for.
fn architectural(machine: &impl Machine) -> Branches {
    let leaf = machine.cpuid(0x1C, 0);
    let filters = LbrEbx::from_bits(leaf.ebx);
    let tells = LbrEcx::from_bits(leaf.ecx);
    let rows = [
        (tells.mispredict(), Processor::TELLS_MISPREDICTED),
        (tells.timed(), Processor::TELLS_CYCLES),
        (tells.branch_type(), Processor::TELLS_KIND),
        (true, Processor::TELLS_TRANSACTIONS),
    ];
    Branches {
        records: BranchRecords::Architectural,
        tells: rows
            .iter()
            .filter(|(set, _)| *set)
            .fold(0, |all, (_, bit)| all | bit),
        depths: if filters.cpl_filter() && filters.branch_filter() {
            LbrEax::from_bits(leaf.eax).depths()
        } else {
            0
        },
        ..Branches::new_zeroed()
    }
}

/// Whether the records are usable: on bare metal, or under a hypervisor that offers them itself and
/// is not hidden behind another's leaves.
fn offered(identity: &Identity) -> bool {
    if identity.leaf1_ecx & leaf1_ecx::HYPERVISOR == 0 {
        return true;
    }
    let offers = matches!(
        identity.hypervisor,
        Hypervisor::Hv1(Hv1 { branches: true, .. })
    );
    offers && identity.hypervisor_behind == [0; 12]
}

fn architectural_filter(filter: u16) -> u64 {
    let has = |bit| filter & bit != 0;
    LbrCtl::new()
        .with_lbr_en(true)
        .with_os(has(Configure::TO_KERNEL))
        .with_usr(has(Configure::TO_USER))
        .with_jcc(has(Configure::CONDITIONAL))
        .with_near_rel_jmp(has(Configure::JUMPS))
        .with_near_ind_jmp(has(Configure::INDIRECT_JUMPS))
        .with_near_rel_call(has(Configure::CALLS))
        .with_near_ind_call(has(Configure::INDIRECT_CALLS))
        .with_near_ret(has(Configure::RETURNS))
        .with_other_branch(has(Configure::FAR))
        .into_bits()
}

impl<M: Machine> Local<'_, M> {
    /// What the session records on this processor, if anything.
    fn recording(&self) -> Option<Recording> {
        let kind = self.program.kind(self.state.kind)?;
        (kind.recording.depth != 0).then_some(kind.recording)
    }

    /// Whether the session is to record branches and another owner already does.
    pub(crate) fn branches_taken(&mut self) -> bool {
        if self.recording().is_none() {
            return false;
        }
        let (msr, on) = self.state.capabilities.branches.switch();
        self.state.evidence = self.machine.read_msr(msr);
        self.state.evidence & on != 0
    }

    /// Starts recording, with empty records. `false`: another owner is already recording.
    pub(crate) fn begin_branches(&mut self) -> bool {
        let Some(recording) = self.recording() else {
            return true;
        };
        if self.branches_taken() {
            return false;
        }
        let state = &mut *self.state;
        let (machine, capabilities) = (&mut *self.machine, &state.capabilities);
        let recorded = &mut state.branches;
        let switch = state.evidence;
        let debugctl = machine.read_msr(IA32_DEBUGCTL);
        (recorded.on, recorded.changed) = (true, false);
        recorded.found_freeze = debugctl & FREEZE;
        let records = capabilities.branches.records;
        match records {
            BranchRecords::None => {}
            BranchRecords::Info | BranchRecords::AmdV2 => {
                let filter = filter_msr(records);
                recorded.found_control = machine.read_msr(filter);
                machine.write_msr(filter, recording.control);
            }
            BranchRecords::Architectural => {
                recorded.found_control = switch;
                recorded.found_depth = machine.read_msr(intel::IA32_LBR_DEPTH);
            }
        }
        clear(machine, records, recording.kept.into());
        thaw(machine, capabilities);
        match records {
            BranchRecords::None => {}
            BranchRecords::Info => machine.write_msr(IA32_DEBUGCTL, debugctl | FREEZE | LBR),
            BranchRecords::Architectural => {
                machine.write_msr(IA32_DEBUGCTL, debugctl | FREEZE);
                machine.write_msr(intel::IA32_LBR_CTL, recording.control);
            }
            BranchRecords::AmdV2 => {
                machine.write_msr(IA32_DEBUGCTL, debugctl | FREEZE);
                machine.write_msr(amd::DBG_EXTN_CFG, switch | AMD_ENABLE);
            }
        }
        true
    }

    /// Ends recording, and leaves the registers as they were found, with no records in them. If
    /// another owner has taken over in the meantime, the registers are left alone.
    pub(crate) fn end_branches(&mut self) {
        let recording = self.recording();
        let state = &mut *self.state;
        let recorded = &mut state.branches;
        if !core::mem::take(&mut recorded.on) || recorded.changed {
            return;
        }
        let (machine, capabilities) = (&mut *self.machine, &state.capabilities);
        let recording = recording.unwrap_or_default();
        if ours(machine, capabilities, &recording).is_err() {
            return;
        }
        let records = capabilities.branches.records;
        if records == BranchRecords::Architectural {
            machine.write_msr(intel::IA32_LBR_CTL, recorded.found_control);
        } else if records == BranchRecords::AmdV2 {
            let switch = machine.read_msr(amd::DBG_EXTN_CFG);
            machine.write_msr(amd::DBG_EXTN_CFG, switch & !AMD_ENABLE);
        }
        let debugctl = machine.read_msr(IA32_DEBUGCTL) & !FREEZE | recorded.found_freeze;
        let off = if records == BranchRecords::Info {
            LBR
        } else {
            0
        };
        machine.write_msr(IA32_DEBUGCTL, debugctl & !off);
        thaw(machine, capabilities);
        if records == BranchRecords::Architectural {
            // Writing any other value raises #GP.
            let is_one = capabilities.branches.has(recorded.found_depth);
            let kept = recording.kept.into();
            clear(
                machine,
                records,
                if is_one { recorded.found_depth } else { kept },
            );
        } else {
            machine.write_msr(filter_msr(records), recorded.found_control);
            clear(machine, records, recording.kept.into());
        }
    }

    /// The additional status bits that an interrupt acknowledges in a session with branches.
    pub(crate) fn branch_freeze(&self) -> u64 {
        if self.state.branches.on {
            self.state.capabilities.branches.freeze
        } else {
            0
        }
    }

    /// Resumes recording, if the freeze has cleared the enable bit.
    pub(crate) fn restart_branches(&mut self) {
        let recorded = &self.state.branches;
        let by_status = self.state.capabilities.branches.freeze != 0;
        if recorded.on && !recorded.changed && !by_status {
            let debugctl = self.machine.read_msr(IA32_DEBUGCTL);
            self.machine.write_msr(IA32_DEBUGCTL, debugctl | LBR);
        }
    }

    /// Prepares for the records of a new interrupt, which have not been read yet. Returns whether
    /// there can be any.
    pub(crate) fn expect_branches(&mut self) -> bool {
        self.state.branches.read = false;
        self.state.branches.on
    }
}

/// Reads the records of an interrupt when its first sample needs them.
pub(crate) struct Reader<'a> {
    pub(crate) recorded: &'a mut Recorded,
    pub(crate) recording: &'a Recording,
    pub(crate) evidence: &'a mut u64,
    pub(crate) sees_kernel: bool,
}

/// The branches for the samples of one interrupt.
pub(crate) trait Records {
    /// Reads the records, once for each interrupt.
    fn read(&mut self, machine: &mut impl Machine, capabilities: &Capabilities);
    /// The most branches that a sample can have, and those that were read, newest first.
    fn those_read(&self) -> (u8, &[Branch]);
}

/// A session without branches.
pub(crate) struct NoBranches;

impl Records for NoBranches {
    #[inline]
    fn read(&mut self, _: &mut impl Machine, _: &Capabilities) {}

    #[inline]
    fn those_read(&self) -> (u8, &[Branch]) {
        (0, &[])
    }
}

impl Records for Reader<'_> {
    /// If another owner has changed how branches are recorded, there are none.
    fn read(&mut self, machine: &mut impl Machine, capabilities: &Capabilities) {
        if core::mem::replace(&mut self.recorded.read, true) {
            return;
        }
        self.recorded.count = 0;
        if let Err(switch) = ours(machine, capabilities, self.recording) {
            self.recorded.changed = true;
            *self.evidence = switch;
            return;
        }
        let branches = &capabilities.branches;
        let newest = match branches.records {
            BranchRecords::Info => machine.read_msr(intel::LBR_TOS) as u32,
            _ => 0,
        };
        let mut places = self.recorded.records.iter_mut();
        for back in 0..u32::from(self.recording.depth) {
            let record = match branches.records {
                BranchRecords::None => Record::Empty,
                BranchRecords::Info => {
                    let at = newest.wrapping_sub(back) % u32::from(INFO_DEPTH);
                    info_record(machine, branches, INFO_BASES, at)
                }
                BranchRecords::Architectural => {
                    info_record(machine, branches, ARCHITECTURAL_BASES, back)
                }
                BranchRecords::AmdV2 => amd_record(machine, branches, back),
            };
            match record {
                Record::Empty => break,
                Record::NotTaken => {}
                Record::Taken(branch) => {
                    if let Some(place) = places.next() {
                        *place = if self.sees_kernel {
                            branch
                        } else {
                            without_kernel(branch)
                        };
                        self.recorded.count += 1;
                    }
                }
            }
        }
    }

    fn those_read(&self) -> (u8, &[Branch]) {
        let count = usize::from(self.recorded.count);
        let branches = self.recorded.records.get(..count).unwrap_or_default();
        (self.recording.depth, branches)
    }
}

/// What one record holds.
enum Record {
    /// Nothing, and the older ones are empty too.
    Empty,
    /// Nothing, or a branch on a wrong path.
    NotTaken,
    Taken(Branch),
}

/// The first FROM, TO and INFO registers.
const INFO_BASES: [u32; 3] = [intel::LBR_FROM0, intel::LBR_TO0, intel::LBR_INFO0];
const ARCHITECTURAL_BASES: [u32; 3] = [
    intel::IA32_LBR_FROM0,
    intel::IA32_LBR_TO0,
    intel::IA32_LBR_INFO0,
];

/// Reads an Intel record.
fn info_record(
    machine: &mut impl Machine,
    branches: &Branches,
    [from, to, info]: [u32; 3],
    at: u32,
) -> Record {
    let from = machine.read_msr(from + at);
    if from == 0 {
        return Record::Empty;
    }
    let to = machine.read_msr(to + at);
    let info = LbrInfo::from_bits(machine.read_msr(info + at));
    let tells = |what| branches.tells & what != 0;
    let architectural = branches.records == BranchRecords::Architectural;
    let timed = tells(Processor::TELLS_CYCLES) && (info.cycles_valid() || !architectural);
    let transactions = tells(Processor::TELLS_TRANSACTIONS);
    let flags = [
        (
            tells(Processor::TELLS_MISPREDICTED) && !info.mispredicted(),
            Branch::PREDICTED,
        ),
        (
            tells(Processor::TELLS_MISPREDICTED) && info.mispredicted(),
            Branch::MISPREDICTED,
        ),
        (timed, Branch::CYCLES),
        (transactions && info.in_transaction(), Branch::TRANSACTION),
        (transactions && info.abort(), Branch::ABORT),
    ];
    Record::Taken(Branch {
        from,
        to,
        cycles: if timed { info.cycles() } else { 0 },
        kind: if tells(Processor::TELLS_KIND) {
            kind(info.branch_type()) as u8
        } else {
            BranchKind::Unknown as u8
        },
        flags: flags
            .iter()
            .filter(|(set, _)| *set)
            .fold(0, |all, (_, flag)| all | flag),
        reserved: 0,
    })
}

/// Decodes BR_TYPE.
fn kind(branch_type: u8) -> BranchKind {
    match branch_type {
        0 => BranchKind::Conditional,
        1 => BranchKind::IndirectJump,
        2 => BranchKind::Jump,
        3 => BranchKind::IndirectCall,
        4 => BranchKind::Call,
        5 => BranchKind::Return,
        8.. => BranchKind::Other,
        _ => BranchKind::Unknown,
    }
}

/// Reads an AMD record.
fn amd_record(machine: &mut impl Machine, branches: &Branches, at: u32) -> Record {
    let from = amd::LbrFrom::from_bits(machine.read_msr(amd::LBR_FROM0 + 2 * at));
    let to = amd::LbrTo::from_bits(machine.read_msr(amd::LBR_FROM0 + 2 * at + 1));
    if !to.valid() {
        return Record::NotTaken;
    }
    let sign = 64 - u32::from(branches.address_bits);
    let extended = |address: u64| ((address << sign).cast_signed() >> sign).cast_unsigned();
    Record::Taken(Branch {
        from: extended(from.address()),
        to: extended(to.address()),
        flags: if from.mispredicted() {
            Branch::MISPREDICTED
        } else {
            Branch::PREDICTED
        },
        ..Branch::default()
    })
}

/// A branch as shown to a client that may not see the kernel: if either address is in the kernel,
/// both are withheld.
fn without_kernel(branch: Branch) -> Branch {
    if (branch.from | branch.to) & KERNEL_HALF == 0 {
        return branch;
    }
    Branch {
        flags: Branch::HIDDEN,
        ..Branch::default()
    }
}

/// Checks that branches are still recorded as the session wants and are frozen by interrupts; the
/// error is the value of the register that shows otherwise. On versions 2 and 3 the enable bit is
/// not checked, as the freeze itself has cleared it.
fn ours(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    recording: &Recording,
) -> Result<(), u64> {
    let records = capabilities.branches.records;
    if records != BranchRecords::Info {
        let (msr, on) = capabilities.branches.switch();
        let switch = machine.read_msr(msr);
        let as_left = match records {
            BranchRecords::Architectural => switch == recording.control,
            _ => switch & on != 0,
        };
        if !as_left {
            return Err(switch);
        }
    }
    let debugctl = machine.read_msr(IA32_DEBUGCTL);
    let stays = records == BranchRecords::Info && capabilities.branches.freeze != 0;
    let bits = if stays { FREEZE | LBR } else { FREEZE };
    if debugctl & bits == bits {
        Ok(())
    } else {
        Err(debugctl)
    }
}

/// LBR_SELECT of these records.
fn filter_msr(records: BranchRecords) -> u32 {
    match records {
        BranchRecords::AmdV2 => amd::LBR_SELECT,
        _ => intel::LBR_SELECT,
    }
}

/// Ends a freeze.
fn thaw(machine: &mut impl Machine, capabilities: &Capabilities) {
    let status = capabilities.branches.freeze;
    if status != 0 {
        machine.write_msr(capabilities.global.acknowledge, status);
    }
}

/// Clears all records; `kept` also becomes the depth of architectural ones.
fn clear(machine: &mut impl Machine, records: BranchRecords, kept: u64) {
    let mut zero = |first: u32, count: u32| {
        (first..first + count).for_each(|msr| machine.write_msr(msr, 0));
    };
    match records {
        BranchRecords::None => {}
        BranchRecords::Info => INFO_BASES
            .into_iter()
            .for_each(|first| zero(first, INFO_DEPTH.into())),
        BranchRecords::Architectural => machine.write_msr(intel::IA32_LBR_DEPTH, kept),
        BranchRecords::AmdV2 => zero(amd::LBR_FROM0, 2 * kept as u32),
    }
}
