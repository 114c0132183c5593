//! The counters of one slice, and how a source finds one of them.

use crate::cpu::counter::Counter;
use crate::plan::index::{PerCounter, PerSource, SourceIndex};
use crate::source::encode::Encoding;
use crate::source::filter::Filter;
use zerocopy::FromZeros;

/// What a source needs on one CPU type. All zeros: no counter.
#[derive(Clone, Copy, Debug, FromZeros)]
pub struct Requirements {
    /// The counters that can count it, in the layout of the global registers.
    pub counters: u64,
    /// What is written for it; on a fixed counter its nibble is.
    pub encoding: Encoding,
    /// The modes in which it counts.
    pub filter: Filter,
    /// Sources with the same number, if it is not 0, run together or not at all.
    pub group: u16,
    /// It needs a slice to itself.
    pub alone: bool,
    /// It takes two counters: one of `counters`, which all have even numbers, and the next.
    pub pair: bool,
}

/// The counters of one slice.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Slice {
    /// Counters in use, in the layout of the global registers.
    pub(crate) used: u64,
    /// Counters that could count any of the slice's sources.
    pub(crate) reach: u64,
    /// The general counters that are the second of a source that takes two.
    pub(crate) merged: u32,
    /// The source on each counter in use.
    pub(crate) owner: PerCounter<SourceIndex>,
    /// Its source needs it alone.
    pub(crate) closed: bool,
}

impl Requirements {
    /// The counters that it may come to use, both of each pair.
    pub(crate) fn reach(&self) -> u64 {
        if self.pair { self.counters | self.counters << 1 } else { self.counters }
    }
}

impl Slice {
    /// The sources on its counters.
    pub(crate) fn sources(&self) -> impl Iterator<Item = SourceIndex> {
        self.counters().map(|counter| self.owner[counter])
    }

    /// The counter of each source; of two, the first.
    pub(crate) fn counters(&self) -> impl Iterator<Item = Counter> {
        Counter::each(self.used & !u64::from(self.merged))
    }

    /// Finds a chain of moves that ends at a free counter of `within`: the source takes the counter
    /// of one source, which takes that of another, and so on (an augmenting path of the matching).
    pub(crate) fn augment(
        &mut self,
        source: SourceIndex,
        all: &PerSource<Requirements>,
        within: u64,
    ) -> bool {
        let mut frontier = all[source].counters & within;
        let mut seen = frontier | !within;
        // `from[counter]` is the counter whose source would move to `counter`.
        let mut from: PerCounter<Option<Counter>> = PerCounter::all(None);
        // A free counter comes first, because it ends the chain.
        while let Some(counter) = preferred(frontier & !self.used).or(Counter::lowest(frontier)) {
            frontier &= !counter.global_bit();
            if self.used & counter.global_bit() == 0 {
                self.shift(source, counter, &from);
                return true;
            }
            let reached = all[self.owner[counter]].counters & !seen;
            seen |= reached;
            frontier |= reached;
            for next in Counter::each(reached) {
                from[next] = Some(counter);
            }
        }
        false
    }

    /// Finds counters for a source and for all others of the slice, where some take two: tries each
    /// set of pairs, lowest first, with a matching of those sources to its pairs and of the others
    /// to what is left. `false` if there is none, or none within the steps that are left.
    pub(crate) fn add_among_pairs(
        &mut self,
        source: SourceIndex,
        all: &PerSource<Requirements>,
        steps: &mut u32,
    ) -> bool {
        let sources = || self.sources().chain([source]);
        let paired = || sources().filter(|&source| all[source].pair);
        let evens = paired().fold(0, |evens, source| evens | all[source].counters);
        let pairs = paired().count() as u32;
        let needed = sources().count() as u32 + pairs;
        if needed > (self.reach | all[source].reach()).count_ones() {
            return false;
        }
        let mut taken = 0_u64;
        loop {
            // The next set of even counters, in the order of their value as a number: the borrow of
            // the subtraction runs through the bits that are not in `evens`.
            taken = taken.wrapping_sub(evens) & evens;
            if taken == 0 {
                return false;
            }
            if taken.count_ones() != pairs {
                continue;
            }
            let both = taken | taken << 1;
            let mut slice = Self { used: 0, merged: 0, ..*self };
            let mut fit = |source: SourceIndex| {
                slice.augment(source, all, if all[source].pair { taken } else { !both })
            };
            if sources().all(&mut fit) {
                for counter in Counter::each(taken) {
                    if let Some(next) = counter.next() {
                        slice.owner[next] = slice.owner[counter];
                    }
                }
                (slice.used, slice.merged) = (slice.used | both, (taken << 1) as u32);
                *self = slice;
                return true;
            }
            let Some(left) = steps.checked_sub(needed) else {
                return false;
            };
            *steps = left;
        }
    }

    /// Moves a source to the free counter, another to the one that this leaves, and so on; the new
    /// source takes the last.
    fn shift(&mut self, source: SourceIndex, free: Counter, from: &PerCounter<Option<Counter>>) {
        self.used |= free.global_bit();
        let mut free = free;
        while let Some(left) = from[free] {
            self.owner[free] = self.owner[left];
            free = left;
        }
        self.owner[free] = source;
    }
}

/// Prefers a fixed counter that counts the same event, which leaves the general ones to others.
fn preferred(free: u64) -> Option<Counter> {
    Counter::lowest(free >> 32 << 32).or(Counter::lowest(free))
}
