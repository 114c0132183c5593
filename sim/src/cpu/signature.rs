//! The vendor of a processor, and its family and model.

use crate::cpu::cpuid::Leaves;

/// The vendor string of leaf 0 and the signature of leaf 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// EBX, EDX, ECX of leaf 0: e.g. `GenuineIntel`.
    pub(crate) vendor: [u8; 12],
    /// Family, including the extended family.
    pub(crate) family: u32,
    /// Model, including the extended model.
    pub(crate) model: u32,
}

impl Signature {
    /// Reads the leaves (SDM vol. 2, "CPUID"; APM vol. 3, "Obtaining Processor Information
    /// Via the CPUID Instruction").
    pub(crate) fn of(leaves: &Leaves) -> Self {
        let eax = leaves.get(1, 0).eax;
        let base = eax >> 8 & 0xF;
        let model = eax >> 4 & 0xF;
        Self {
            vendor: vendor(leaves),
            family: match base {
                0xF => base + (eax >> 20 & 0xFF),
                _ => base,
            },
            model: match base {
                0x6 | 0xF => (eax >> 16 & 0xF) << 4 | model,
                _ => model,
            },
        }
    }
}

fn vendor(leaves: &Leaves) -> [u8; 12] {
    let leaf = leaves.get(0, 0);
    let mut vendor = [0; 12];
    for (chunk, register) in vendor.chunks_exact_mut(4).zip([leaf.ebx, leaf.edx, leaf.ecx]) {
        chunk.copy_from_slice(&register.to_le_bytes());
    }
    vendor
}
