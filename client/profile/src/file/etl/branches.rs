//! Gives the samples of a trace their branch records.
//!
//! A record has a branch, its target, and a field that nobody documents. So predictions, cycles and
//! kinds stay unknown, and the undocumented field is kept as it is.

use crate::file::branches::{KINDS, Kind};
use crate::file::{Branches, DroppedBranches, NO_PROCESS, RecordedBranches, Sample};
use halprof_etw::PointerSize;
use halprof_etw::join::branches::BranchRecords;
use halprof_etw::payload::branches::{Entry, LastBranches, filter};
use shared_types::{Branch, MAX_BRANCHES};

/// The identifier of all idle threads. Their samples are only counted.
const IDLE_THREAD: u32 = 0;

/// A virtual address has so many bits with five levels of page tables. All higher bits are copies of
/// the highest of them.
const ADDRESS_BITS: u32 = 57;

/// The branch records of a trace while it is read.
#[derive(Default)]
pub(super) struct TraceBranches {
    records: BranchRecords,
    /// All kinds and modes that any of the records leaves out.
    filter: u32,
}

/// The branch records of samples, in their order.
#[derive(Default)]
pub(super) struct SampleBranches {
    branches: Vec<Branch>,
    raw: Vec<u64>,
}

impl TraceBranches {
    pub(super) fn add(&mut self, processor: u16, records: &LastBranches<'_>) {
        if records.thread != IDLE_THREAD {
            self.filter |= records.filter;
            self.records.add(processor, records);
        }
    }

    /// Gives each sample its records. `samples` are all of the trace, or those of one `process`.
    pub(super) fn of_samples(
        mut self,
        samples: &mut [Sample],
        process: Option<u32>,
        pointer: PointerSize,
    ) -> (SampleBranches, Option<(Branches, DroppedBranches)>) {
        if self.records.is_empty() {
            return (SampleBranches::default(), None);
        }
        let (mut all, mut dropped) = (SampleBranches::default(), DroppedBranches::default());
        let mut depth = 0;
        for sample in samples {
            let processor = sample.processor as u16;
            let time = sample.timestamp.cast_signed();
            let Some(records) = self.records.take(time, sample.thread, processor) else { continue };
            // Where no event names the process of a thread, its records do.
            if sample.process == NO_PROCESS {
                sample.process = records.process;
            }
            let begin = all.branches.len();
            all.add(records.entries, pointer, &mut dropped);
            let count = all.branches.len() - begin;
            depth = depth.max(count);
            sample.branches = count as u8;
        }
        let left = self.records.left();
        let left = left.filter(|(owner, _)| process.is_none_or(|process| process == *owner));
        dropped.without_sample = left.count() as u64;
        let how = Branches {
            depth: depth as u32,
            kinds: kinds(self.filter).map(str::to_owned).collect(),
            recorder: Branches::OF_TRACE.to_owned(),
        };
        (all, Some((how, dropped)))
    }
}

impl SampleBranches {
    /// Adds those of the entries that are branches, newest first.
    fn add(&mut self, entries: &[Entry], pointer: PointerSize, dropped: &mut DroppedBranches) {
        let begin = self.branches.len();
        for &Entry { from, to, reserved } in entries {
            if (from, to) == (0, 0) {
                dropped.empty += 1;
            } else if !is_address(to, pointer) || self.branches.len() - begin == MAX_BRANCHES {
                dropped.no_branches += 1;
            } else {
                self.branches.push(Branch { from, to, ..Branch::default() });
                self.raw.push(reserved);
            }
        }
    }

    /// The branch records of all samples.
    pub(super) fn all(&self) -> RecordedBranches<'_> {
        RecordedBranches { branches: &self.branches, raw: &self.raw }
    }
}

/// Whether code can be at an address. On Zen 4, bit 61 of a target marks an entry that no branch made
/// (erratum 1452); whether Windows leaves such entries out is not known.
const fn is_address(address: u64, pointer: PointerSize) -> bool {
    let unused = u64::BITS - ADDRESS_BITS;
    match pointer {
        PointerSize::Four => true,
        PointerSize::Eight => (address << unused).cast_signed() >> unused == address.cast_signed(),
    }
}

/// The kinds that a filter lets through; none if it lets all through. A call stack is no plain list of
/// branches, so it has a kind of its own.
fn kinds(filter: u32) -> impl Iterator<Item = &'static str> {
    let is_stack = filter & filter::CALL_STACK != 0;
    let is_partial = is_stack || KINDS.iter().any(|kind| filter & kind.windows != 0);
    let passed = KINDS.iter().filter(move |kind| is_partial && filter & kind.windows == 0);
    passed.map(|Kind { name, .. }| *name).chain(is_stack.then_some(CALL_STACK))
}

/// The name of records that follow calls and returns: they lack the call of a function that has
/// returned.
const CALL_STACK: &str = "call-stack";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_leaves_kinds_over() {
        let of = |filter| kinds(filter).collect::<Vec<_>>();
        assert_eq!(of(0), [""; 0]);
        // Modes are no kinds.
        assert_eq!(of(filter::KERNEL | filter::USER), [""; 0]);
        assert_eq!(of(0x1DD), ["return"], "what ETWAnalyzer's users keep");
        assert_eq!(of(filter::FAR | filter::KERNEL).len(), KINDS.len() - 1);
        assert_eq!(of(filter::CALL_STACK).last(), Some(&"call-stack"));
    }

    #[test]
    fn an_address_has_its_highest_bits_alike() {
        let long = [0, 0x7FF6_0000_1000, 0xFFFF_F800_0000_0000, 0x00FF_FFFF_FFFF_FFFF];
        let no_addresses =
            [1 << 61 | 0x7FF6_0000_1000, 0xFFFF_F800_0000_0000 ^ 1 << 61, 1 << 63, 1 << 56];
        for (addresses, expected) in [(long, true), (no_addresses, false)] {
            for address in addresses {
                assert_eq!(is_address(address, PointerSize::Eight), expected, "{address:#x}");
            }
        }
        assert!(is_address(0x8000_0000, PointerSize::Four));
    }
}
