//! CPUID leaves changed by quirks.

use super::{CpuidResult, Leaves};
use crate::quirks::{Quirk, Quirks};

impl Leaves {
    /// The same processor with these quirks added, and with the leaves that they change.
    pub fn with_quirks(&self, quirks: Quirks) -> Self {
        let mut leaves = self.clone();
        leaves.quirks = leaves.quirks.and(quirks);
        if quirks.has(Quirk::NoGeneral) {
            without_general(&mut leaves);
        }
        if quirks.has(Quirk::NoFixed) {
            without_fixed(&mut leaves);
        }
        if quirks.has(Quirk::NarrowCounters) {
            change(&mut leaves, 0xA, None, |leaf| {
                // EAX[23:16] and EDX[12:5] are the widths; a processor without fixed counters keeps
                // 0 there.
                leaf.eax = leaf.eax & !0x00FF_0000 | 32 << 16;
                if leaf.edx & 0x1FE0 != 0 {
                    leaf.edx = leaf.edx & !0x1FE0 | 32 << 5;
                }
            });
        }
        if quirks.has(Quirk::HypervisorMasks) {
            under_kvm(&mut leaves);
        }
        leaves
    }
}

/// Leaf 0x0A: EAX bits 15:8; leaf 0x23 sub-leaf 1: EAX; leaf 0x80000022: EBX bits 3:0.
fn without_general(leaves: &mut Leaves) {
    change(leaves, 0xA, None, |leaf| leaf.eax &= !0xFF00);
    change(leaves, 0x23, Some(1), |leaf| leaf.eax = 0);
    change(leaves, 0x8000_0022, None, |leaf| leaf.ebx &= !0xF);
}

/// Leaf 0x0A: EDX bits 4:0 and ECX; leaf 0x23 sub-leaf 1: EBX.
fn without_fixed(leaves: &mut Leaves) {
    change(leaves, 0xA, None, |leaf| {
        leaf.edx &= !0x1F;
        leaf.ecx = 0;
    });
    change(leaves, 0x23, Some(1), |leaf| leaf.ebx = 0);
}

/// Sets CPUID.1:ECX\[31\] and KVM's signature, unless a hypervisor is already shown.
fn under_kvm(leaves: &mut Leaves) {
    if leaves.get(1, 0).ecx >> 31 == 1 {
        return;
    }
    change(leaves, 1, None, |leaf| leaf.ecx |= 1 << 31);
    // "KVMKVMKVM" and the highest of KVM's leaves (Linux, Documentation/virt/kvm/x86/cpuid.rst).
    let signature = CpuidResult { eax: 0x4000_0001, ebx: 0x4B4D_564B, ecx: 0x564B_4D56, edx: 0x4D };
    leaves.insert(0x4000_0000, signature);
    leaves.insert(0x4000_0001, CpuidResult::default());
}

fn change(
    leaves: &mut Leaves,
    leaf: u32,
    subleaf: Option<u32>,
    edit: impl FnOnce(&mut CpuidResult),
) {
    if !leaves.contains(leaf) {
        // A leaf that is added would promise a unit that the processor does not have.
        return;
    }
    let mut value = leaves.get(leaf, subleaf.unwrap_or(0));
    edit(&mut value);
    match subleaf {
        Some(subleaf) => leaves.insert_subleaf(leaf, subleaf, value),
        None => leaves.insert(leaf, value),
    }
}
