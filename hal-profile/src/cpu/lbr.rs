//! Branch records: whether a processor has them, how many, and what a session asks of them.
//!
//! `Branches::discover` makes every check before any of their registers is touched; `run/lbr.rs`
//! makes all other accesses.

use crate::cpu::machine::Machine;
use crate::cpu::registers::cpuid::{
    LEAF7_EDX_ARCHITECTURAL_LBR, LEAF80000022_EAX_LBR_V2, LbrEax, LbrEbx, LbrEcx, leaf1_ecx,
};
use crate::cpu::registers::intel::{DebugCtl, IA32_DEBUGCTL, LbrCtl};
use crate::cpu::registers::{amd, intel};
use crate::cpu::selection::{Hv1, Hypervisor, Identity};
use shared_types::request::machine::Processor;
use shared_types::request::session::Configure;
use shared_types::{BranchReason, BranchRecords, Delivery, MAX_BRANCHES, ProfileInterface};
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
pub(crate) const INFO_DEPTH: u8 = 32;
/// Bits of a virtual address if CPUID does not say.
const ADDRESS_BITS: u8 = 48;
/// LBRV2EN.
pub(crate) const AMD_ENABLE: u64 = amd::DbgExtnCfg::new().with_lbr_v2_enable(true).into_bits();
pub(crate) const LBR: u64 = DebugCtl::new().with_lbr(true).into_bits();
/// LBREn.
const ARCHITECTURAL_ENABLE: u64 = LbrCtl::new().with_lbr_en(true).into_bits();

/// How a processor records branches. All zeros: it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Branches {
    /// The kind of records.
    pub records: BranchRecords,
    /// Why it does not, if it does not.
    pub reason: BranchReason,
    /// What the records contain: [`Processor::INFO_MISPREDICTED`] and the other `INFO` flags.
    pub info: u16,
    /// The numbers of records that it can keep, as a mask: bit n stands for 8 (n + 1).
    pub(crate) depths: u8,
    /// Significant bits of an address; its sign is extended into the bits above.
    pub(crate) address_bits: u8,
}

/// What a session records on one CPU type. All zeros: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct Recording {
    /// The filter, in the layout of LBR_SELECT or of IA32_LBR_CTL with its enable bit.
    pub(crate) control: u64,
    /// Branches of each sample.
    pub(crate) depth: u8,
    /// Records that the processor keeps.
    pub(crate) kept: u8,
    /// Register accesses needed to read them.
    pub(crate) accesses: u8,
}

impl Branches {
    /// Discovers how the processor on which this runs records branches. `freezes`: overflows freeze
    /// them by a bit of the global status register, as IA32_DEBUGCTL says, which exists (Intel: and
    /// with it, by PDCM, IA32_PERF_CAPABILITIES).
    pub(crate) fn discover(
        machine: &mut impl Machine,
        identity: &Identity,
        interface: ProfileInterface,
        delivery: Delivery,
        freezes: bool,
    ) -> Self {
        let Some(mut branches) = declared(machine, interface, identity) else {
            return Self::new_zeroed();
        };
        let info = branches.records == BranchRecords::Info;
        let reason = if delivery == Delivery::None {
            BranchReason::NoInterrupt
        } else if !offered(identity) {
            BranchReason::Hypervisor
        } else if !freezes {
            BranchReason::NoFreeze
        } else if branches.depths == 0 || (info && !branches.take_format(machine)) {
            BranchReason::Format
        } else {
            branches.reason = BranchReason::Available;
            return branches;
        };
        Self { reason, ..Self::new_zeroed() }
    }

    /// Reads the format of model-specific records; returns whether it has LBR_INFO.
    fn take_format(&mut self, machine: &mut impl Machine) -> bool {
        let Ok(capabilities) = machine.try_read_msr(intel::IA32_PERF_CAPABILITIES) else {
            return false;
        };
        let format = intel::PerfCapabilities::from_bits(capabilities).lbr_format();
        if format == FORMAT_INFO {
            self.info |= Processor::INFO_TRANSACTIONS;
        }
        matches!(format, FORMAT_INFO | FORMAT_INFO_2)
    }

    /// The most branches that a sample can have; 0 if none can be recorded.
    pub fn most(&self) -> u8 {
        let highest = u8::BITS - self.depths.leading_zeros();
        (highest as u8 * 8).min(MAX_BRANCHES as u8)
    }

    /// Whether the processor can keep `depth` records.
    pub(crate) fn has(&self, depth: u64) -> bool {
        (1..=8).any(|n| depth == 8 * n && self.depths >> (n - 1) & 1 != 0)
    }

    /// The recording of `depth` branches through a complete filter; `None` if the processor does
    /// not have that many.
    pub(crate) fn recording(&self, depth: u8, filter: u16) -> Option<Recording> {
        let mut depths = (1..=8).map(|n| n * 8);
        let kept = depths.find(|&kept| kept >= depth && self.has(kept.into()))?;
        let each = match self.records {
            // AMD has no register beside source and target: the flags are in these.
            BranchRecords::AmdV2 => 2,
            _ => 3,
        };
        Some(Recording {
            control: match self.records {
                BranchRecords::Architectural => architectural_filter(filter),
                // LBR_SELECT: a 1 leaves branches out.
                _ => u64::from(!filter & (Configure::MODES | Configure::KINDS)),
            },
            depth,
            kept,
            // The enable bit, the index of the newest or the freeze, and the status.
            accesses: depth * each + 3,
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
    pub(crate) fn switch(&self) -> (u32, u64) {
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
    let info = Processor::INFO_MISPREDICTED | Processor::INFO_CYCLES;
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
                info,
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
                info: Processor::INFO_MISPREDICTED,
                depths: 1u8.checked_shl((depth / 8).wrapping_sub(1).into()).unwrap_or(0),
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
    let info = LbrEcx::from_bits(leaf.ecx);
    let rows = [
        (info.mispredict(), Processor::INFO_MISPREDICTED),
        (info.timed(), Processor::INFO_CYCLES),
        (info.branch_type(), Processor::INFO_KIND),
        (true, Processor::INFO_TRANSACTIONS),
    ];
    Branches {
        records: BranchRecords::Architectural,
        info: rows.iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | bit),
        depths: if filters.cpl_filter() && filters.branch_filter() {
            LbrEax::from_bits(leaf.eax).depths()
        } else {
            0
        },
        ..Branches::new_zeroed()
    }
}

/// Whether the records are usable: on bare metal, or under a hypervisor that offers them itself and
/// has none under it, whose leaves it would hide.
fn offered(identity: &Identity) -> bool {
    if identity.leaf1_ecx & leaf1_ecx::HYPERVISOR == 0 {
        return true;
    }
    let offers = matches!(identity.hypervisor, Hypervisor::Hv1(Hv1 { branches: true, .. }));
    offers && identity.underlying_hypervisor == [0; 12]
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
