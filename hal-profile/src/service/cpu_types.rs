//! Kinds of processor: those with identical capabilities are judged and programmed alike.

use crate::cpu::capabilities::Capabilities;
use crate::plan::cpu_set::ProcessorSet;
use crate::plan::program::MAX_CPU_TYPES;
use shared_types::request::session::MAX_PROCESSORS;

/// The kinds of one machine.
pub(super) struct CpuTypes {
    list: [Option<Capabilities>; MAX_CPU_TYPES],
    /// Fixed counters that another owner has enabled on any processor of each kind, as masks.
    taken: [u32; MAX_CPU_TYPES],
    of: [u8; MAX_PROCESSORS],
    processors: usize,
}

impl CpuTypes {
    /// No kinds. Built at run time: as a constant it would put thousands of zeros into the driver's
    /// file.
    pub(super) fn none() -> Self {
        Self {
            list: [None; MAX_CPU_TYPES],
            taken: [0; MAX_CPU_TYPES],
            of: [0; MAX_PROCESSORS],
            processors: 0,
        }
    }

    /// The number of known processors.
    pub(super) fn processors(&self) -> usize {
        self.processors
    }

    /// The number of a processor's kind.
    pub(super) fn cpu_type_of(&self, processor: usize) -> usize {
        self.of.get(processor).copied().unwrap_or_default().into()
    }

    pub(super) fn get(&self, kind: usize) -> Option<&Capabilities> {
        self.list.get(kind)?.as_ref()
    }

    /// The boot processor's capabilities.
    pub(super) fn boot(&self) -> Option<&Capabilities> {
        self.get(self.cpu_type_of(0))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Capabilities)> {
        self.list.iter().enumerate().filter_map(|(kind, found)| Some((kind, found.as_ref()?)))
    }

    /// The kinds there are, as a mask.
    pub(super) fn known(&self) -> u16 {
        self.iter().fold(0, |known, (kind, _)| known | 1 << kind)
    }

    /// Records a processor's kind: the one with these capabilities, or a new one. The last kind is
    /// reserved for processors that are not used because there are too many kinds.
    pub(super) fn enter(&mut self, processor: usize, found: &Capabilities) -> u8 {
        let mut known = self.list.iter();
        let known = known.position(|kind| kind.as_ref() == Some(found));
        let mut free = self.list.iter().take(MAX_CPU_TYPES - 1);
        let free = free.position(Option::is_none);
        let kind = known.or(free).unwrap_or(MAX_CPU_TYPES - 1);
        if let Some(entry) = self.list.get_mut(kind) {
            entry.get_or_insert(*found);
        }
        if let Some(of) = self.of.get_mut(processor) {
            *of = kind as u8;
        }
        self.processors = self.processors.max(processor + 1);
        kind as u8
    }

    pub(super) fn has_room_for(&self, found: &Capabilities) -> bool {
        let mut kinds = self.list.iter().take(MAX_CPU_TYPES - 1);
        kinds.any(Option::is_none) || self.list.contains(&Some(*found))
    }

    /// The general counters that every kind has, as a mask.
    pub(super) fn common(&self) -> u32 {
        let counters = self.iter().map(|(_, kind)| kind.counters);
        counters.fold(u32::MAX, |common, counters| common & counters)
    }

    /// Whether any processor of the set is of a kind.
    pub(super) fn uses(&self, processors: &ProcessorSet, kind: usize) -> bool {
        (0..self.processors)
            .any(|index| self.cpu_type_of(index) == kind && processors.contains(index))
    }

    /// The first processor of a kind.
    pub(super) fn first_of(&self, kind: usize) -> usize {
        let mut processors = 0..self.processors;
        processors.find(|&processor| self.cpu_type_of(processor) == kind).unwrap_or(0)
    }

    /// Fixed counters of a kind that another owner has enabled.
    pub(super) fn taken(&self, kind: usize) -> u32 {
        self.taken.get(kind).copied().unwrap_or(0)
    }

    pub(super) fn set_taken(&mut self, kind: usize, fixed: u32) {
        if let Some(taken) = self.taken.get_mut(kind) {
            *taken = fixed;
        }
    }

    /// Whether a kind has fixed counters.
    pub(super) fn any_fixed(&self) -> bool {
        self.iter().any(|(_, kind)| kind.fixed != 0)
    }
}
