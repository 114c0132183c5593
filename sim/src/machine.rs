//! All logical processors of a machine, and which of them share a unit.

use crate::cpuid::Leaves;
use crate::processor::{Package, Processor};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Units with a thread whose sibling has not come yet, by that sibling's APIC id.
type Awaiting = BTreeMap<u32, Arc<Mutex<Package>>>;

/// The processors with these leaves after power-on, in the same order.
///
/// Each has a unit of its own, but for NetBurst with Hyper-Threading: there two processors whose
/// initial APIC ids differ in bit 0 only are the threads of one unit. A unit whose second thread is
/// not in the list still is one of two threads.
#[must_use]
pub fn processors(leaves: &[Leaves]) -> Vec<Processor> {
    let mut awaiting = Awaiting::new();
    leaves
        .iter()
        .map(|leaves| processor(leaves, &mut awaiting))
        .collect()
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
