//! CPU types: processors with identical capabilities are judged and programmed alike.

use crate::cpu::capabilities::Capabilities;
use crate::plan::cpu_set::ProcessorSet;
use crate::plan::program::MAX_CPU_TYPES;
use shared_types::request::session::MAX_PROCESSORS;

/// The CPU types of one machine.
pub(super) struct CpuTypes {
    list: [Option<Capabilities>; MAX_CPU_TYPES],
    /// Fixed counters that another owner has enabled on any processor of each CPU type, as masks.
    fixed_in_use: [u32; MAX_CPU_TYPES],
    of: [u8; MAX_PROCESSORS],
    processors: usize,
}

impl CpuTypes {
    /// None. Built at run time: as a constant it would put thousands of zeros into the driver's
    /// file.
    pub(super) fn none() -> Self {
        Self {
            list: [None; MAX_CPU_TYPES],
            fixed_in_use: [0; MAX_CPU_TYPES],
            of: [0; MAX_PROCESSORS],
            processors: 0,
        }
    }

    /// The number of known processors.
    pub(super) fn processors(&self) -> usize {
        self.processors
    }

    /// The number of a processor's CPU type.
    pub(super) fn cpu_type_of(&self, processor: usize) -> usize {
        self.of.get(processor).copied().unwrap_or_default().into()
    }

    pub(super) fn get(&self, cpu_type: usize) -> Option<&Capabilities> {
        self.list.get(cpu_type)?.as_ref()
    }

    /// The boot processor's capabilities.
    pub(super) fn boot(&self) -> Option<&Capabilities> {
        self.get(self.cpu_type_of(0))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Capabilities)> {
        self.list
            .iter()
            .enumerate()
            .filter_map(|(cpu_type, capabilities)| Some((cpu_type, capabilities.as_ref()?)))
    }

    /// Those there are, as a mask.
    pub(super) fn known(&self) -> u16 {
        self.iter().fold(0, |known, (cpu_type, _)| known | 1 << cpu_type)
    }

    /// Records a processor's type: the one with these capabilities, or a new one. The last CPU
    /// type is reserved for processors that are not used because there are too many.
    pub(super) fn enter(&mut self, processor: usize, capabilities: &Capabilities) -> u8 {
        let mut known = self.list.iter();
        let known = known.position(|cpu_type| cpu_type.as_ref() == Some(capabilities));
        let mut free = self.list.iter().take(MAX_CPU_TYPES - 1);
        let free = free.position(Option::is_none);
        let cpu_type = known.or(free).unwrap_or(MAX_CPU_TYPES - 1);
        if let Some(entry) = self.list.get_mut(cpu_type) {
            entry.get_or_insert(*capabilities);
        }
        if let Some(of) = self.of.get_mut(processor) {
            *of = cpu_type as u8;
        }
        self.processors = self.processors.max(processor + 1);
        cpu_type as u8
    }

    pub(super) fn has_room_for(&self, capabilities: &Capabilities) -> bool {
        let mut types = self.list.iter().take(MAX_CPU_TYPES - 1);
        types.any(Option::is_none) || self.list.contains(&Some(*capabilities))
    }

    /// The general counters that every CPU type has, as a mask.
    pub(super) fn common(&self) -> u32 {
        let counters = self.iter().map(|(_, cpu_type)| cpu_type.counters);
        counters.fold(u32::MAX, |common, counters| common & counters)
    }

    /// Whether any processor of the set is of a CPU type.
    pub(super) fn uses(&self, processors: &ProcessorSet, cpu_type: usize) -> bool {
        (0..self.processors)
            .any(|index| self.cpu_type_of(index) == cpu_type && processors.contains(index))
    }

    /// The first processor of a CPU type.
    pub(super) fn first_of(&self, cpu_type: usize) -> usize {
        let mut processors = 0..self.processors;
        processors.find(|&processor| self.cpu_type_of(processor) == cpu_type).unwrap_or(0)
    }

    /// Fixed counters of a CPU type that another owner has enabled.
    pub(super) fn fixed_in_use(&self, cpu_type: usize) -> u32 {
        self.fixed_in_use.get(cpu_type).copied().unwrap_or(0)
    }

    pub(super) fn set_fixed_in_use(&mut self, cpu_type: usize, fixed: u32) {
        if let Some(fixed_in_use) = self.fixed_in_use.get_mut(cpu_type) {
            *fixed_in_use = fixed;
        }
    }

    /// Whether a CPU type has fixed counters.
    pub(super) fn any_fixed(&self) -> bool {
        self.iter().any(|(_, cpu_type)| cpu_type.fixed != 0)
    }
}
