//! Processors that record branches: one for each form of branch records.

use crate::wire::first;
use shared_types::BranchRecords;
use sim::cpu::cpuid::{CpuidResult, Leaves};

/// A processor.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Its name in messages.
    pub name: &'static str,
    /// Its leaves.
    pub leaves: Leaves,
    /// How it records.
    pub records: BranchRecords,
    /// The number of records.
    pub most: u8,
    /// Registers of each record, and the additional ones that a sample accesses.
    pub accesses: (u64, u64),
    /// Whether it records cycles, and kinds.
    pub info: (bool, bool),
}

/// One of each form.
#[must_use]
pub fn recorders() -> Vec<Recorder> {
    use BranchRecords::{AmdV2, Architectural, Info};
    let row = |name, leaves, records, most, accesses, info| Recorder {
        name,
        leaves,
        records,
        most,
        accesses,
        info,
    };
    let skylake = first("skylake");
    let goldmont_plus = with(&skylake, 1, |leaf| leaf.eax = 0x0007_06A1);
    let guest = with(&first("hyperv-guest-intel"), 0x4000_0003, |leaf| {
        leaf.edx |= 1 << 26;
    });
    vec![
        row("skylake", skylake, Info, 32, (3, 3), (true, false)),
        row("goldmont-plus", goldmont_plus, Info, 32, (3, 3), (true, false)),
        row("sapphire-rapids", first("sapphire-rapids"), Architectural, 32, (3, 3), (true, true)),
        row("hyper-v", guest, Architectural, 32, (3, 3), (true, true)),
        row("zen4", first("zen4"), AmdV2, 16, (2, 3), (false, false)),
    ]
}

/// The same leaves with one of them changed.
#[must_use]
pub fn with(leaves: &Leaves, leaf: u32, change: impl FnOnce(&mut CpuidResult)) -> Leaves {
    let mut leaves = leaves.clone();
    let mut value = leaves.get(leaf, 0);
    change(&mut value);
    if matches!(leaf, 7 | 0x23) {
        leaves.insert_subleaf(leaf, 0, value);
    } else {
        leaves.insert(leaf, value);
    }
    leaves
}
