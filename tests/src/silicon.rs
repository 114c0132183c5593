//! One processor as a test describes it: only leaves and registers.

use std::collections::BTreeMap;

use hal_profile::cpu::capabilities::Capabilities;
use hal_profile::cpu::machine::{AccessRefused, CpuidResult, Machine};
use hal_profile::cpu::selection::{Identity, Selection, select_interface};
use sim::cpu::cpuid::Leaves;

/// "Hv#1", leaf 0x40000001 EAX of a Microsoft-compatible hypervisor.
pub const HV1: u32 = 0x3123_7648;

/// A processor with these leaves and MSRs. Reading any other MSR is a panic, as it would be a #GP.
#[derive(Clone, Debug)]
pub struct Silicon {
    leaves: Leaves,
    msrs: BTreeMap<u32, u64>,
}

/// Leaf 1 EAX of a full family and model (SDM vol. 2A, CPUID; AMD publication 25481).
#[must_use]
pub fn signature(family: u32, model: u32) -> u32 {
    let (base, extended) = (family.min(15), family.saturating_sub(15));
    extended << 20 | model >> 4 << 16 | base << 8 | (model & 0xF) << 4
}

impl Silicon {
    /// A processor with long mode, MSRs and a local APIC in xAPIC mode.
    #[must_use]
    pub fn new(vendor: &[u8; 12], max_leaf: u32, signature: u32) -> Self {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| vendor[at + byte]));
        let processor = Self { leaves: Leaves::default(), msrs: BTreeMap::new() };
        processor
            .leaf(0, [max_leaf, word(0), word(8), word(4)])
            .leaf(1, [signature, 0, 0, 1 << 9 | 1 << 5])
            .leaf(0x8000_0000, [0x8000_0001, 0, 0, 0])
            .leaf(0x8000_0001, [0, 0, 0, 1 << 29])
            .msr(0x1B, 0xFEE0_0900)
    }

    /// An Intel processor with leaf 0x0A.
    #[must_use]
    pub fn intel(family: u32, model: u32, leaf_0a: [u32; 4]) -> Self {
        Self::new(b"GenuineIntel", 0x0A, signature(family, model)).leaf(0x0A, leaf_0a)
    }

    /// A 32-bit Intel processor without leaf 0x0A.
    #[must_use]
    pub fn old_intel(family: u32, model: u32) -> Self {
        Self::new(b"GenuineIntel", 2, signature(family, model)).leaf(0x8000_0000, [0; 4])
    }

    /// A Pentium 4 of model 2 without a second thread, or one of two threads.
    #[must_use]
    pub fn pentium_4(thread: Option<u32>) -> Self {
        let ebx = thread.map_or(0, |thread| thread << 24 | 2 << 16);
        let edx = u32::from(thread.is_some()) << 28 | 1 << 9 | 1 << 5;
        Self::new(b"GenuineIntel", 2, signature(15, 2))
            .leaf(1, [signature(15, 2), ebx, 0, edx])
            .msr(0x1A0, 1 << 7)
    }

    /// An AMD processor.
    #[must_use]
    pub fn amd(family: u32, model: u32) -> Self {
        Self::new(b"AuthenticAMD", 1, signature(family, model))
    }

    /// Replaces a leaf.
    #[must_use]
    pub fn leaf(mut self, leaf: u32, [eax, ebx, ecx, edx]: [u32; 4]) -> Self {
        self.leaves.insert(leaf, CpuidResult { eax, ebx, ecx, edx });
        self
    }

    /// Adds a sub-leaf.
    #[must_use]
    pub fn subleaf(mut self, leaf: u32, subleaf: u32, [eax, ebx, ecx, edx]: [u32; 4]) -> Self {
        self.leaves.insert_subleaf(leaf, subleaf, CpuidResult { eax, ebx, ecx, edx });
        self
    }

    /// Flips bits of a leaf.
    #[must_use]
    pub fn flip(self, leaf: u32, bits: [u32; 4]) -> Self {
        let old = self.leaves.get(leaf, 0);
        let [eax, ebx, ecx, edx] = bits;
        self.leaf(leaf, [old.eax ^ eax, old.ebx ^ ebx, old.ecx ^ ecx, old.edx ^ edx])
    }

    /// Adds a hypervisor with these values of 0x40000001 EAX and 0x40000003 EDX.
    #[must_use]
    pub fn under(self, interface: u32, features_edx: u32) -> Self {
        self.flip(1, [0, 0, 1 << 31, 0])
            .leaf(0x4000_0000, [0x4000_0005, 0x6463_6261, 0x6867_6665, 0x6C6B_6A69])
            .leaf(0x4000_0001, [interface, 0, 0, 0])
            .leaf(0x4000_0003, [0, 0, 0, features_edx])
    }

    /// Adds an MSR.
    #[must_use]
    pub fn msr(mut self, msr: u32, value: u64) -> Self {
        self.msrs.insert(msr, value);
        self
    }

    /// Its leaves.
    #[must_use]
    pub fn leaves(&self) -> &Leaves {
        &self.leaves
    }

    /// Its identity.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity::read(self)
    }

    /// The interfaces that are chosen for it.
    #[must_use]
    pub fn judge(&self) -> Selection {
        select_interface(&self.identity())
    }

    /// Its capabilities.
    #[must_use]
    pub fn discover(&self) -> Capabilities {
        Capabilities::discover(&mut self.clone())
    }
}

impl Machine for Silicon {
    fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        self.leaves.get(leaf, subleaf)
    }

    fn read_msr(&mut self, msr: u32) -> u64 {
        let value = self.msrs.get(&msr).copied();
        value.unwrap_or_else(|| panic!("#GP: RDMSR {msr:#x}"))
    }

    fn write_msr(&mut self, msr: u32, value: u64) {
        panic!("#GP: WRMSR {msr:#x} {value:#x}");
    }

    /// Nothing here is promised and absent.
    fn try_read_msr(&mut self, msr: u32) -> Result<u64, AccessRefused> {
        Ok(self.read_msr(msr))
    }

    fn try_write_msr(&mut self, msr: u32, value: u64) -> Result<(), AccessRefused> {
        self.write_msr(msr, value);
        Ok(())
    }

    fn read_pmc(&mut self, counter: u32) -> u64 {
        panic!("#GP: RDPMC {counter:#x}");
    }

    fn try_read_pmc(&mut self, counter: u32) -> Result<u64, AccessRefused> {
        Ok(self.read_pmc(counter))
    }

    fn read_apic(&mut self, offset: u32) -> u32 {
        panic!("no access to the local APIC at {offset:#x}");
    }

    fn write_apic(&mut self, offset: u32, value: u32) {
        panic!("no access to the local APIC at {offset:#x}: {value:#x}");
    }

    fn read_cr4(&mut self) -> u64 {
        panic!("no access to CR4");
    }

    fn set_pce(&mut self, on: bool) {
        panic!("no access to CR4: PCE {on}");
    }

    fn timestamp(&mut self) -> u64 {
        0
    }
}
