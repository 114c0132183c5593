//! Chooses a processor's profile interface, and gives the rule that chose it.
//!
//! [`select_interface`] makes the choice. Sources: for `hal`, G. Chappell, "Hardware Performance
//! Counters" (HAL of the original Windows 10); for `used`, the older processors' manuals and one
//! safety rule: an MSR that CPUID does not promise is not touched. START finds an MSR that is
//! promised in vain.

use crate::cpu::machine::{CpuidResult, Machine};
use crate::cpu::registers::cpuid::{
    HYPERVISOR_INTERFACE_HV1, HYPERVISOR_INTERFACE_NANOVISOR, LEAF40000003_EBX_ROOT,
    LEAF40000003_ECX_ARCHITECTURAL_PMU, LEAF40000003_EDX_LBR,
    LEAF40000003_EDX_PERFORMANCE_MONITORS, LEAF40000006_EAX_COUNTERS,
    LEAF80000001_ECX_PERF_CTR_EXT_CORE, LEAF80000001_EDX_LONG_MODE, LEAF80000022_EAX_PERFMON_V2,
    PerfMonEax, Signature, hypervisor_vendor, leaf1_ecx, leaf1_edx, vendor,
};
use shared_types::{ProfileInterface, Reason};
use zerocopy::FromZeros;

/// The CPUID results on which the choice depends, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromZeros)]
pub struct Identity {
    /// Leaf 0's vendor string.
    pub vendor: [u8; 12],
    /// Highest basic leaf.
    pub max_leaf: u32,
    /// Full family.
    pub family: u16,
    /// Full model.
    pub model: u16,
    pub stepping: u8,
    pub leaf1_ecx: u32,
    pub leaf1_edx: u32,
    /// Leaf 0x0A; zeros if it does not exist.
    pub leaf_0a: CpuidResult,
    /// Highest extended leaf; 0 if there is none.
    pub max_extended: u32,
    /// Leaf 0x80000001 ECX.
    pub extended_ecx: u32,
    /// Leaf 0x80000001 EDX.
    pub extended_edx: u32,
    /// Leaf 0x80000022; zeros if it does not exist.
    pub leaf_80000022: CpuidResult,
    /// The hypervisor's vendor string; zeros if none is visible.
    pub hypervisor_vendor: [u8; 12],
    /// The vendor string at leaf 0x40000100 of a hypervisor that presents Hyper-V's leaves at
    /// 0x40000000 (QEMU, "Hyper-V Enlightenments"); zeros if there is none.
    pub underlying_hypervisor: [u8; 12],
    /// How Windows would classify the hypervisor.
    pub hypervisor: Hypervisor,
}

/// A hypervisor, as Windows sees it (HviIsAnyHypervisorPresent,
/// HviIsHypervisorMicrosoftCompatible).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromZeros)]
#[repr(u8)]
pub enum Hypervisor {
    /// None, or the Xbox nanovisor.
    None = 0,
    /// Microsoft-compatible.
    Hv1(Hv1) = 1,
    /// Any other; it promises nothing about counters.
    Other = 2,
}

/// What an Hv#1 hypervisor reports, in leaf 0x40000003 unless said (TLFS, "Hypervisor CPUID Leaf
/// Range").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromZeros)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of its own")]
pub struct Hv1 {
    /// EDX bit 2: performance monitors are available.
    pub counters: bool,
    /// ECX bit 7: an architectural PMU is available. Reported, but not used in the choice.
    pub architectural: bool,
    /// EDX bit 26: last branch records are available.
    pub branches: bool,
    /// EBX bits 0 and 12, CreatePartitions and CpuManagement: the root partition.
    pub root: bool,
    /// Leaf 0x40000006 EAX bit 2: the hypervisor itself uses performance counters.
    pub uses_counters: bool,
}

impl Identity {
    /// Reads the leaves on which the choice depends.
    pub fn read(machine: &impl Machine) -> Self {
        let leaf0 = machine.cpuid(0, 0);
        let leaf1 = machine.cpuid(1, 0);
        let signature = Signature::from_bits(leaf1.eax);
        let max_extended = match machine.cpuid(0x8000_0000, 0).eax {
            // A processor without extended leaves answers with its highest basic leaf (SDM vol. 2A,
            // "CPUID").
            eax if eax >> 16 == 0x8000 => eax,
            _ => 0,
        };
        let leaf = |number, highest| {
            if highest >= number { machine.cpuid(number, 0) } else { CpuidResult::default() }
        };
        let extended = leaf(0x8000_0001, max_extended);
        let (hypervisor_vendor, underlying_hypervisor, hypervisor) =
            if leaf1.ecx & leaf1_ecx::HYPERVISOR != 0 {
                let vendor = hypervisor_vendor(machine.cpuid(0x4000_0000, 0));
                (vendor, underlying_hypervisor(machine), Hypervisor::read(machine))
            } else {
                ([0; 12], [0; 12], Hypervisor::None)
            };
        Self {
            vendor: vendor(leaf0),
            max_leaf: leaf0.eax,
            family: signature.family(),
            model: signature.model(),
            stepping: signature.stepping(),
            leaf1_ecx: leaf1.ecx,
            leaf1_edx: leaf1.edx,
            leaf_0a: leaf(0x0A, leaf0.eax),
            max_extended,
            extended_ecx: extended.ecx,
            extended_edx: extended.edx,
            leaf_80000022: leaf(0x8000_0022, max_extended),
            hypervisor_vendor,
            underlying_hypervisor,
            hypervisor,
        }
    }

    fn is_intel(&self) -> bool {
        self.vendor == *b"GenuineIntel"
    }

    fn is_amd(&self) -> bool {
        self.vendor == *b"AuthenticAMD"
    }
}

impl Hypervisor {
    fn read(machine: &impl Machine) -> Self {
        match machine.cpuid(0x4000_0001, 0).eax {
            HYPERVISOR_INTERFACE_NANOVISOR => Self::None,
            HYPERVISOR_INTERFACE_HV1 => {
                let features = machine.cpuid(0x4000_0003, 0);
                let used = match machine.cpuid(0x4000_0000, 0).eax {
                    0x4000_0006.. => machine.cpuid(0x4000_0006, 0).eax,
                    _ => 0,
                };
                Self::Hv1(Hv1 {
                    counters: features.edx & LEAF40000003_EDX_PERFORMANCE_MONITORS != 0,
                    architectural: features.ecx & LEAF40000003_ECX_ARCHITECTURAL_PMU != 0,
                    branches: features.edx & LEAF40000003_EDX_LBR != 0,
                    root: features.ebx & LEAF40000003_EBX_ROOT == LEAF40000003_EBX_ROOT,
                    uses_counters: used & LEAF40000006_EAX_COUNTERS != 0,
                })
            }
            _ => Self::Other,
        }
    }

    /// Whether it is an Hv#1 hypervisor that does not offer the counters.
    pub fn masks_counters(self) -> bool {
        matches!(self, Self::Hv1(Hv1 { counters: false, .. }))
    }
}

/// KVM and Xen move their own leaves up when they present Hyper-V's.
fn underlying_hypervisor(machine: &impl Machine) -> [u8; 12] {
    match hypervisor_vendor(machine.cpuid(0x4000_0100, 0)) {
        name @ (KVM | XEN) => name,
        _ => [0; 12],
    }
}

const KVM: [u8; 12] = *b"KVMKVMKVM\0\0\0";
const XEN: [u8; 12] = *b"XenVMMXenVMM";

/// An interface, and the rule that chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromZeros)]
pub struct Choice {
    pub interface: ProfileInterface,
    pub reason: Reason,
}

/// The choice that Windows 10's HAL would make, and the one that halprof uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromZeros)]
pub struct Selection {
    /// The choice of Windows 10's HAL: Default, Emon or Amd64.
    pub hal: Choice,
    /// The choice that halprof makes.
    pub used: Choice,
}

/// Judges one processor.
pub fn select_interface(id: &Identity) -> Selection {
    let hal = hal_choice(id);
    let masked = id.hypervisor.masks_counters();
    let used = match hal.interface {
        ProfileInterface::Default if !masked => historic_interface(id).unwrap_or(hal),
        // The HAL goes by vendor alone. In a guest nothing but CPUID says that the hypervisor has the
        // counters too.
        ProfileInterface::Amd64 if id.hypervisor != Hypervisor::None && !proved_by_cpuid(id) => {
            default(Reason::HypervisorUnproved)
        }
        _ => hal,
    };
    Selection { hal, used }
}

/// Gate, vendor, leaf 0x0A, hypervisor, in the HAL's order.
fn hal_choice(id: &Identity) -> Choice {
    let tentative = if !passes_gate(id) {
        default(Reason::Gate32)
    } else if id.is_amd() {
        Choice { interface: ProfileInterface::Amd64, reason: Reason::AmdVendor }
    } else if id.is_intel() {
        emon(id)
    } else {
        default(Reason::OtherVendor)
    };
    match tentative.interface {
        ProfileInterface::Emon | ProfileInterface::Amd64 if id.hypervisor.masks_counters() => {
            default(Reason::HypervisorMasks)
        }
        _ => tentative,
    }
}

/// The 64-bit HAL requires only CPUID; the 32-bit HAL requires Intel family 6 or 15, or AMD with
/// long mode. Without long mode there is no 64-bit Windows.
fn passes_gate(id: &Identity) -> bool {
    let long_mode = id.extended_edx & LEAF80000001_EDX_LONG_MODE != 0;
    long_mode || (id.is_intel() && matches!(id.family, 6 | 15))
}

fn emon(id: &Identity) -> Choice {
    let eax = PerfMonEax::from_bits(id.leaf_0a.eax);
    let reason = if id.max_leaf < 0x0A {
        Reason::NoLeaf0A
    } else if eax.version() == 0 {
        Reason::VersionZero
    } else if eax.event_bits() == 0 {
        Reason::NoEventBits
    } else if id.leaf_0a.ebx & 1 != 0 {
        Reason::NoCoreCycles
    } else {
        return Choice { interface: ProfileInterface::Emon, reason: Reason::Architectural };
    };
    default(reason)
}

/// Families and models of the older interfaces in the HAL design document.
fn historic_interface(id: &Identity) -> Option<Choice> {
    // A processor that declares architectural monitoring has its registers, not the older ones.
    if !id.is_intel() || PerfMonEax::from_bits(id.leaf_0a.eax).version() != 0 {
        return None;
    }
    let choice = match (id.family, id.model) {
        (5, 1..=8) if id.leaf1_edx & leaf1_edx::MSR != 0 => {
            Choice { interface: ProfileInterface::Pentium, reason: Reason::PentiumModel }
        }
        (6, 1 | 3 | 5..=0x0B | 0x0D | 0x15) => {
            Choice { interface: ProfileInterface::P6, reason: Reason::P6Model }
        }
        (15, 0..=4 | 6) => {
            Choice { interface: ProfileInterface::NetBurst, reason: Reason::NetBurstModel }
        }
        _ => return None,
    };
    // No 64-bit Windows boots on these; halprof.sys is built without their interfaces.
    let built = cfg!(feature = "historic");
    Some(if built { choice } else { default(Reason::HistoricNotBuilt) })
}

/// Whether CPUID itself says that AMD's counters exist.
fn proved_by_cpuid(id: &Identity) -> bool {
    id.extended_ecx & LEAF80000001_ECX_PERF_CTR_EXT_CORE != 0
        || id.leaf_80000022.eax & LEAF80000022_EAX_PERFMON_V2 != 0
}

const fn default(reason: Reason) -> Choice {
    Choice { interface: ProfileInterface::Default, reason }
}
