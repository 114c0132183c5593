//! CPUID leaves, their fields named as the manuals name them.

use crate::cpu::machine::CpuidResult;
use bitfield_struct::bitfield;

/// Leaf 1 EAX: the processor's signature.
#[bitfield(u32)]
pub struct Signature {
    #[bits(4)]
    pub stepping: u8,
    /// Model, low half.
    #[bits(4)]
    pub base_model: u8,
    #[bits(4)]
    pub base_family: u8,
    #[bits(2)]
    pub processor_type: u8,
    #[bits(2)]
    _reserved0: u8,
    #[bits(4)]
    pub extended_model: u8,
    pub extended_family: u8,
    #[bits(4)]
    _reserved1: u8,
}

impl Signature {
    /// The full family: the extended family is added to a base family of 15 (SDM vol. 2, "CPUID";
    /// AMD publication 25481).
    pub fn family(self) -> u16 {
        match self.base_family() {
            0x0F => 0x0F + u16::from(self.extended_family()),
            family => family.into(),
        }
    }

    /// The full model: the extended model is included for families 6 and 15.
    pub fn model(self) -> u16 {
        let base = u16::from(self.base_model());
        match self.base_family() {
            0x06 | 0x0F => u16::from(self.extended_model()) << 4 | base,
            _ => base,
        }
    }
}

/// Leaf 1 ECX: the bits used here.
pub mod leaf1_ecx {
    /// PDCM: IA32_PERF_CAPABILITIES exists.
    pub const PDCM: u32 = 1 << 15;
    /// A hypervisor is present.
    pub const HYPERVISOR: u32 = 1 << 31;
}

/// Leaf 1 EDX: the bits used here.
pub mod leaf1_edx {
    /// MSR: RDMSR and WRMSR are supported.
    pub const MSR: u32 = 1 << 5;
    /// APIC: there is a local APIC.
    pub const APIC: u32 = 1 << 9;
    /// DS: there is a debug store, and with it PEBS.
    pub const DS: u32 = 1 << 21;
    pub const MMX: u32 = 1 << 23;
    /// HTT: EBX bits 23:16 give the number of logical processors in the package.
    pub const HTT: u32 = 1 << 28;
}

/// Leaf 0x0A EAX.
#[bitfield(u32)]
pub struct PerfMonEax {
    /// Version of architectural performance monitoring.
    pub version: u8,
    /// General counters of a logical processor.
    pub counters: u8,
    pub width: u8,
    /// How many bits of EBX are meaningful.
    pub event_bits: u8,
}

/// Leaf 0x0A EDX.
#[bitfield(u32)]
pub struct PerfMonEdx {
    /// Fixed counters (version > 1).
    #[bits(5)]
    pub fixed_counters: u8,
    pub fixed_width: u8,
    #[bits(2)]
    _reserved: u8,
    /// The any-thread bits of selects and of IA32_FIXED_CTR_CTRL are deprecated.
    pub any_thread_deprecated: bool,
    _reserved_high: u16,
}

/// The architectural events that leaf 0x0A offers, as a mask: those within the length in EAX whose
/// EBX bit is clear.
pub fn available_events(leaf: CpuidResult) -> u32 {
    let bits = PerfMonEax::from_bits(leaf.eax).event_bits();
    let meaningful = 1u32.checked_shl(bits.into()).map_or(u32::MAX, |limit| limit - 1);
    !leaf.ebx & meaningful
}

/// Leaf 7 EDX: RTM_ALWAYS_ABORT: no transaction ever runs.
pub const LEAF7_EDX_RTM_ALWAYS_ABORT: u32 = 1 << 11;
/// Leaf 7 EDX: TSX_FORCE_ABORT: the microcode takes general counter 3 for transactions.
pub const LEAF7_EDX_TSX_FORCE_ABORT: u32 = 1 << 13;
/// Leaf 7 EDX: architectural last branch records, leaf 0x1C.
pub const LEAF7_EDX_ARCHITECTURAL_LBR: u32 = 1 << 19;
/// Leaf 7 sub-leaf 1 EAX: leaf 0x23 (ArchPerfmonExt) exists.
pub const LEAF7_1_EAX_ARCH_PERFMON_EXT: u32 = 1 << 8;
/// Leaf 0x80000001 ECX: PerfCtrExtCore.
pub const LEAF80000001_ECX_PERF_CTR_EXT_CORE: u32 = 1 << 23;
/// Leaf 0x80000001 EDX: long mode.
pub const LEAF80000001_EDX_LONG_MODE: u32 = 1 << 29;
/// Leaf 0x80000022 EAX: PerfMonV2.
pub const LEAF80000022_EAX_PERFMON_V2: u32 = 1;
/// Leaf 0x80000022 EAX: LbrExtV2.
pub const LEAF80000022_EAX_LBR_V2: u32 = 1 << 1;
/// Leaf 0x80000022 EAX: LbrAndPmcFreeze.
pub const LEAF80000022_EAX_FREEZE: u32 = 1 << 2;
/// Leaf 0x40000001 EAX of a hypervisor with Microsoft's interface: "Hv#1".
pub const HYPERVISOR_INTERFACE_HV1: u32 = 0x3123_7648;
/// Leaf 0x40000001 EAX of the Xbox nanovisor, which Windows does not treat as a hypervisor.
pub const HYPERVISOR_INTERFACE_NANOVISOR: u32 = 0x766E_6258;
/// Leaf 0x40000003 EBX: CreatePartitions and CpuManagement, which only the root partition has.
pub const LEAF40000003_EBX_ROOT: u32 = 1 | 1 << 12;
/// Leaf 0x40000003 ECX: an architectural PMU is available.
pub const LEAF40000003_ECX_ARCHITECTURAL_PMU: u32 = 1 << 7;
/// Leaf 0x40000003 EDX: PerformanceMonitorsAvailable.
pub const LEAF40000003_EDX_PERFORMANCE_MONITORS: u32 = 1 << 2;
/// Leaf 0x40000003 EDX: last branch records are available.
pub const LEAF40000003_EDX_LBR: u32 = 1 << 26;
/// Leaf 0x40000006 EAX, hardware features that the hypervisor itself uses: performance counters (TLFS,
/// "Hypervisor CPUID Leaf Range").
pub const LEAF40000006_EAX_COUNTERS: u32 = 1 << 2;

/// Leaf 0x1C EAX: the depths of the architectural last branch records.
#[bitfield(u32)]
pub struct LbrEax {
    /// Bit n: a depth of 8 (n + 1) is supported.
    pub depths: u8,
    #[bits(24)]
    _other: u32,
}

/// Leaf 0x1C EBX: supported filters.
#[bitfield(u32)]
pub struct LbrEbx {
    pub cpl_filter: bool,
    pub branch_filter: bool,
    #[bits(30)]
    _other: u32,
}

/// Leaf 0x1C ECX: what a record contains.
#[bitfield(u32)]
pub struct LbrEcx {
    /// Whether the branch was mispredicted.
    pub mispredict: bool,
    /// Cycles since the previous record.
    pub timed: bool,
    pub branch_type: bool,
    #[bits(29)]
    _reserved: u32,
}

/// The 12 characters of leaf 0 (EBX, EDX, ECX).
pub fn vendor(leaf: CpuidResult) -> [u8; 12] {
    letters([leaf.ebx, leaf.edx, leaf.ecx])
}

/// The 12 characters of leaf 0x40000000 (EBX, ECX, EDX).
pub fn hypervisor_vendor(leaf: CpuidResult) -> [u8; 12] {
    letters([leaf.ebx, leaf.ecx, leaf.edx])
}

fn letters(words: [u32; 3]) -> [u8; 12] {
    let mut letters = [0; 12];
    for (to, word) in letters.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    letters
}
