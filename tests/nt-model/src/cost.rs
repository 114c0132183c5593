//! What the driver costs: instructions of its own, and accesses to the processor's registers.

use crate::machine::Machine;
use std::ops::Sub;

/// Amounts of work, on all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions of the driver's image; what the kernel does for it is not among them.
    pub instructions: u64,
    /// Functions of the kernel and of the framework that it called, and its own returns to them.
    pub calls: u64,
    /// RDMSR and WRMSR.
    pub msr: u64,
    /// RDPMC.
    pub rdpmc: u64,
    /// Reads and writes of the local APIC's page.
    pub apic: u64,
}

impl Cost {
    /// Everything so far.
    #[must_use]
    pub fn so_far(machine: &Machine) -> Self {
        let bus = machine.engine.bus_ref();
        let mut cost = Self {
            instructions: bus.executed - bus.calls,
            calls: bus.calls,
            ..Self::default()
        };
        for cpu in &bus.cpus {
            let accesses = cpu.processor.accesses();
            cost.msr += accesses.rdmsr + accesses.wrmsr;
            cost.rdpmc += accesses.rdpmc;
            cost.apic += accesses.apic;
        }
        cost
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            instructions: self.instructions - earlier.instructions,
            calls: self.calls - earlier.calls,
            msr: self.msr - earlier.msr,
            rdpmc: self.rdpmc - earlier.rdpmc,
            apic: self.apic - earlier.apic,
        }
    }
}
