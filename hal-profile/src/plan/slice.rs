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
}

/// The counters of one slice.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Slice {
    /// Those in use, in the layout of the global registers.
    pub(crate) used: u64,
    /// Those that could count any of the slice's sources.
    pub(crate) reach: u64,
    /// The source on each counter in use.
    pub(crate) owner: PerCounter<SourceIndex>,
    /// Its source needs it alone.
    pub(crate) closed: bool,
}

impl Slice {
    /// The sources on its counters.
    pub(crate) fn sources(&self) -> impl Iterator<Item = SourceIndex> {
        Counter::each(self.used).map(|counter| self.owner[counter])
    }

    /// Finds a chain of moves that ends at a free counter: the source takes the counter of one
    /// source, which takes that of another, and so on (an augmenting path of the matching).
    pub(crate) fn augment(&mut self, source: SourceIndex, all: &PerSource<Requirements>) -> bool {
        let mut frontier = all[source].counters;
        let mut seen = frontier;
        // For each counter that others may move to, the counter from which one would.
        let mut from: PerCounter<Option<Counter>> = PerCounter::all(None);
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
