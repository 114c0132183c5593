//! All logical processors of a machine, and which of them share a unit.

use crate::cpu::cpuid::Leaves;
use crate::cpu::processor::{Package, Processor};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Units with a thread whose sibling has not yet appeared, by that sibling's APIC id.
type Awaiting = BTreeMap<u32, Arc<Mutex<Package>>>;

/// The processors with these leaves after power-on, in the same order.
///
/// Each has its own unit, except on NetBurst with Hyper-Threading: there two processors whose
/// initial APIC ids differ only in bit 0 are the threads of one unit. A unit whose second thread is
/// not in the list is still a unit for two threads.
pub fn processors(leaves: &[Leaves]) -> Vec<Processor> {
    let mut awaiting = Awaiting::new();
    let mut processors: Vec<Processor> =
        leaves.iter().map(|leaves| processor(leaves, &mut awaiting)).collect();
    if processors.iter().any(Processor::needs_x2apic) {
        processors.iter_mut().for_each(Processor::require_x2apic);
    }
    processors
}

fn processor(leaves: &Leaves, awaiting: &mut Awaiting) -> Processor {
    let processor = Processor::new(leaves.clone());
    let Some(package) = processor.shared_package() else {
        return processor;
    };
    let id = leaves.apic_id();
    if let Some(siblings) = awaiting.remove(&id) {
        return processor.on(siblings);
    }
    awaiting.insert(id ^ 1, package);
    processor
}

#[cfg(test)]
mod tests;
