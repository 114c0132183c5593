//! CPU types: processors with identical capabilities are judged and programmed alike.

use crate::cpu::capabilities::Capabilities;
use crate::plan::cpu_set::ProcessorSet;
use crate::plan::program::MAX_CPU_TYPES;
use crate::run::state::CountersLeft;
use shared_types::request::session::MAX_PROCESSORS;
use zerocopy::FromZeros;

/// The CPU types of one machine. All zeros: no processor has been examined.
#[derive(FromZeros)]
pub(super) struct CpuTypes {
    /// The boot processor's comes first, because it is examined first.
    list: [Capabilities; MAX_CPU_TYPES],
    /// The number of entries in use.
    count: usize,
    /// Fixed counters that another owner has enabled on any processor of each CPU type, as masks.
    fixed_in_use: [u32; MAX_CPU_TYPES],
    /// Counters that still serve an owner who is gone, on any processor of each CPU type.
    left: [CountersLeft; MAX_CPU_TYPES],
    of: [u8; MAX_PROCESSORS],
    processors: usize,
}

impl CpuTypes {
    /// The number of the boot processor's CPU type.
    pub(super) const BOOT: usize = 0;

    /// The number of known processors.
    pub(super) fn processors(&self) -> usize {
        self.processors
    }

    /// The number of a processor's CPU type.
    pub(super) fn cpu_type_of(&self, processor: usize) -> usize {
        self.of.get(processor).copied().unwrap_or_default().into()
    }

    /// The known types, by number.
    pub(super) fn list(&self) -> &[Capabilities] {
        self.list.get(..self.count).unwrap_or_default()
    }

    /// The boot processor's capabilities.
    pub(super) fn boot(&self) -> &Capabilities {
        let [boot, ..] = &self.list;
        boot
    }

    /// The known types, each with its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Capabilities)> {
        self.list().iter().enumerate()
    }

    /// The numbers of the known types, as a mask.
    pub(super) fn known(&self) -> u16 {
        (1 << self.count) - 1
    }

    /// Records a processor's type: the one with these capabilities, or a new one. The last CPU
    /// type is reserved for processors that are not used because there are too many.
    pub(super) fn enter(&mut self, processor: usize, capabilities: &Capabilities) -> u8 {
        let known = self.list().iter().position(|cpu_type| cpu_type == capabilities);
        let cpu_type = known.unwrap_or(self.count.min(MAX_CPU_TYPES - 1));
        if cpu_type == self.count
            && let Some(new) = self.list.get_mut(cpu_type)
        {
            *new = *capabilities;
            self.count += 1;
        }
        if let Some(of) = self.of.get_mut(processor) {
            *of = cpu_type as u8;
        }
        self.processors = self.processors.max(processor + 1);
        cpu_type as u8
    }

    pub(super) fn has_room_for(&self, capabilities: &Capabilities) -> bool {
        self.count < MAX_CPU_TYPES - 1 || self.list().contains(capabilities)
    }

    /// The general counters that every CPU type has, as a mask.
    pub(super) fn common(&self) -> u32 {
        self.list().iter().fold(u32::MAX, |common, cpu_type| common & cpu_type.counters)
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

    /// Counters of a CPU type that still serve an owner who is gone.
    pub(super) fn left(&self, cpu_type: usize) -> CountersLeft {
        self.left.get(cpu_type).copied().unwrap_or(CountersLeft::new_zeroed())
    }

    pub(super) fn set_left(&mut self, cpu_type: usize, counters: CountersLeft) {
        if let Some(left) = self.left.get_mut(cpu_type) {
            *left = counters;
        }
    }

    /// Whether others may have counters of a CPU type without having asked for them.
    pub(super) fn any_shared(&self) -> bool {
        self.list().iter().any(|one| one.fixed != 0 || one.pebs || one.reloads != 0)
    }
}
