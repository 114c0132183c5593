//! CPUID of every processor: what the driver would find, before there is a driver.

use super::affinity::move_to;
use shared_types::request::session::MAX_PROCESSORS;
use sim::cpu::cpuid::{CpuidResult, Leaves};
use std::arch::x86_64::__cpuid_count;
use windows_sys::Win32::System::Threading::{
    GetActiveProcessorCount, GetActiveProcessorGroupCount,
};

/// The leaves with sub-leaves among those that anything here reads: topology, core type, counters.
const INDEXED: &[u32] = &[0x0B, 0x1A, 0x1F, 0x23];

/// The leaves of every processor, the boot processor first.
pub fn processors() -> Vec<Leaves> {
    // SAFETY: takes no argument and only returns a number.
    let groups = unsafe { GetActiveProcessorGroupCount() };
    let mut before = None;
    let mut all = Vec::new();
    for group in 0..groups {
        // SAFETY: takes a number; a group that does not exist has no processors.
        let count = unsafe { GetActiveProcessorCount(group) };
        // A group has at most 64 processors, as many as a mask has bits.
        for number in 0..count.min(64) {
            if let Some(moved_from) = move_to(group, 1 << number) {
                before.get_or_insert(moved_from);
                all.push(leaves());
            }
        }
    }
    if let Some(before) = before {
        move_to(before.Group, before.Mask);
    }
    if all.is_empty() {
        all.push(leaves());
    }
    all.truncate(MAX_PROCESSORS);
    all
}

/// The leaves of the processor that this runs on.
fn leaves() -> Leaves {
    let mut leaves = Leaves::default();
    let basic = cpuid(0, 0).eax.min(0xFF);
    let extended = cpuid(0x8000_0000, 0).eax.clamp(0x8000_0000, 0x8000_00FF);
    let hypervisor = match cpuid(1, 0).ecx >> 31 {
        0 => None,
        _ => Some(0x4000_0000..=cpuid(0x4000_0000, 0).eax.clamp(0x4000_0000, 0x4000_00FF)),
    };
    let plain = (0..=basic).chain(0x8000_0000..=extended).chain(hypervisor.into_iter().flatten());
    for leaf in plain {
        if INDEXED.contains(&leaf) {
            for subleaf in 0..8 {
                leaves.insert_subleaf(leaf, subleaf, cpuid(leaf, subleaf));
            }
        } else {
            leaves.insert(leaf, cpuid(leaf, 0));
        }
    }
    leaves
}

#[allow(unused_unsafe, reason = "Rust 1.88 takes the intrinsic for unsafe, later ones do not")]
fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    // SAFETY: every x86-64 processor has CPUID, and any leaf may be requested.
    let result = unsafe { __cpuid_count(leaf, subleaf) };
    CpuidResult { eax: result.eax, ebx: result.ebx, ecx: result.ecx, edx: result.edx }
}
