//! The CPUID leaves of one logical processor.

mod quirks;

use crate::quirks::Quirks;
pub use hal_profile::cpu::machine::CpuidResult;
use std::collections::BTreeMap;

/// The leaves of one logical processor, from a dump or a built-in model, and those of its
/// quirks that no leaf reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Leaves {
    leaves: BTreeMap<u32, Leaf>,
    quirks: Quirks,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Leaf {
    /// The leaf ignores ECX.
    Plain(CpuidResult),
    /// One answer for each sub-leaf.
    Indexed(BTreeMap<u32, CpuidResult>),
}

impl Leaves {
    /// Adds or replaces a leaf that ignores ECX.
    pub fn insert(&mut self, leaf: u32, value: CpuidResult) {
        self.leaves.insert(leaf, Leaf::Plain(value));
    }

    /// Adds one sub-leaf; a plain leaf with that number becomes an indexed one.
    pub fn insert_subleaf(&mut self, leaf: u32, subleaf: u32, value: CpuidResult) {
        match self.leaves.entry(leaf).or_insert_with(|| Leaf::Indexed(BTreeMap::new())) {
            Leaf::Indexed(subleaves) => {
                subleaves.insert(subleaf, value);
            }
            plain @ Leaf::Plain(_) => *plain = Leaf::Indexed(BTreeMap::from([(subleaf, value)])),
        }
    }

    /// CPUID: zeros for leaves that do not exist.
    pub fn get(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        match self.leaves.get(&leaf) {
            Some(Leaf::Plain(value)) => *value,
            Some(Leaf::Indexed(subleaves)) => subleaves.get(&subleaf).copied().unwrap_or_default(),
            None => CpuidResult::default(),
        }
    }

    /// All answers, in order: leaf, sub-leaf if the leaf has any, and the registers.
    pub fn answers(&self) -> impl Iterator<Item = (u32, Option<u32>, CpuidResult)> {
        self.leaves.iter().flat_map(|(&leaf, one)| {
            let answers: Vec<(Option<u32>, CpuidResult)> = match one {
                Leaf::Plain(value) => vec![(None, *value)],
                Leaf::Indexed(all) => {
                    all.iter().map(|(&number, &value)| (Some(number), value)).collect()
                }
            };
            answers.into_iter().map(move |(subleaf, value)| (leaf, subleaf, value))
        })
    }

    /// The x2APIC id of leaf 0x1F or 0x0B, otherwise the initial APIC id of leaf 1 (EBX\[31:24\]).
    pub fn apic_id(&self) -> u32 {
        // Leaf 0x1F comes first: it is a superset of 0x0B. An EBX of 0 means that the leaf is not
        // there, whatever leaf 0 says (SDM vol. 2A, "CPUID").
        let topology = [0x1F, 0xB].map(|leaf| self.get(leaf, 0));
        match topology.iter().find(|leaf| leaf.ebx != 0) {
            Some(leaf) => leaf.edx,
            None => self.get(1, 0).ebx >> 24,
        }
    }

    /// Whether a hypervisor is present (CPUID.1:ECX\[31\]).
    pub fn has_hypervisor(&self) -> bool {
        self.get(1, 0).ecx >> 31 == 1
    }

    pub fn quirks(&self) -> Quirks {
        self.quirks
    }

    pub fn contains(&self, leaf: u32) -> bool {
        self.leaves.contains_key(&leaf)
    }
}
