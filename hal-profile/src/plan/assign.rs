//! Assigns sources to counters and to slices of time on one CPU type.
//!
//! Sources that fit together run together. The others are spread over slices, first fit in the
//! order requested. The sources of a group run in one slice or not at all. Within a slice the
//! assignment is a bipartite matching: a source that finds no free counter may move others to
//! counters that can count them too (Kuhn's algorithm); where sources take two counters, for each
//! choice of the pairs. A source with a fixed counter to itself takes no room from others and runs in
//! every slice.
//!
//! This is done once, at PASSIVE_LEVEL: loops are plain, and memory is the host's.

use crate::cpu::counter::{Counter, MAX_COUNTERS};
use crate::historic::assign as historic;
use crate::plan::index::{PerSource, SourceIndex};
use crate::plan::slice::{Requirements, Slice};
use crate::source::MAX_SOURCES;
use shared_types::request::source::Placement;
use zerocopy::FromZeros;

/// The slice of a source that runs in every one.
pub(crate) const EVERY_SLICE: u16 = Placement::EVERY_SLICE;

/// Steps of all searches in one configuration ([`historic::add`], [`Slice::add_among_pairs`]): some
/// milliseconds at most.
const SEARCH_STEPS: u32 = 1_000;

/// Where a source was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Assigned {
    pub counter: Counter,
    /// The slice, or [`Placement::EVERY_SLICE`].
    pub slice: u16,
}

/// Working memory of an assignment. All zeros: nothing assigned.
#[derive(Debug, FromZeros)]
pub struct Assignment {
    requirements: PerSource<Requirements>,
    /// Sources that are in a slice.
    placed: PerSource<bool>,
    /// Sources that are in a slice with the rest of their group.
    grouped: PerSource<bool>,
    assigned: PerSource<Assigned>,
    slices: [Slice; MAX_SOURCES],
    count: u16,
    /// Counters that are taken only if no other is free, in the layout of the global registers.
    last: u64,
    /// What the searches may still try.
    steps: u32,
}

/// Which sources run in each slice.
#[derive(Clone, Copy, Debug, FromZeros)]
pub struct Schedule {
    /// The sources, by slice; at the end those that run in every one.
    order: PerSource<SourceIndex>,
    /// Where the sources of each slice begin; after the last slice, where those that run in every
    /// one begin.
    starts: [u16; MAX_SOURCES + 1],
    /// Where the list ends.
    end: u16,
    /// The number of slices; 0 if no source takes a counter.
    pub slices: u16,
}

/// The sources of a group, or one source.
struct Unit {
    sources: [SourceIndex; MAX_COUNTERS],
    count: usize,
}

impl Unit {
    fn get(&self) -> &[SourceIndex] {
        self.sources.get(..self.count).unwrap_or_default()
    }
}

impl Assignment {
    /// Forgets everything. `last`: general counters that are taken only if no other is free.
    pub fn clear(&mut self, last: u32) {
        self.zero();
        self.last = last.into();
        self.steps = SEARCH_STEPS;
    }

    /// What a source needs; to be filled in before [`Self::solve`].
    pub fn requirements(&mut self, source: SourceIndex) -> &mut Requirements {
        &mut self.requirements[source]
    }

    /// What a source needs and where it was put, if it takes a counter.
    pub fn assigned(&self, source: SourceIndex) -> Option<(&Requirements, Assigned)> {
        self.takes(source).then(|| (&self.requirements[source], self.assigned[source]))
    }

    /// Whether a source takes a counter.
    pub fn takes(&self, source: SourceIndex) -> bool {
        self.requirements[source].counters != 0
    }

    /// Assigns every one of the first `count` sources that takes a counter. The error is a source
    /// that fits nowhere, or whose group cannot run together.
    pub fn solve(&mut self, count: usize) -> Result<(), SourceIndex> {
        for source in SourceIndex::first(count) {
            if self.takes(source) && !self.placed[source] {
                let unit = self.unit(source, count).ok_or(source)?;
                self.place(&unit).ok_or(source)?;
                for &member in unit.get() {
                    self.placed[member] = true;
                    self.grouped[member] = unit.count > 1;
                }
            }
        }
        self.settle();
        Ok(())
    }

    /// The sources that run with this one; `None` if they are more than there can be counters.
    fn unit(&self, source: SourceIndex, count: usize) -> Option<Unit> {
        let mut unit = Unit { sources: [source; MAX_COUNTERS], count: 1 };
        let group = self.requirements[source].group;
        if group == 0 {
            return Some(unit);
        }
        for member in SourceIndex::first(count).skip(source.get() + 1) {
            if self.requirements[member].group == group && self.takes(member) {
                *unit.sources.get_mut(unit.count)? = member;
                unit.count += 1;
            }
        }
        Some(unit)
    }

    /// Puts a unit into the first slice that has room for all of it.
    fn place(&mut self, unit: &Unit) -> Option<()> {
        let counters = |all, &source| all | self.requirements[source].reach();
        let counters = unit.get().iter().fold(0, counters);
        for number in 0..=self.count {
            let slice = self.slices.get(usize::from(number))?;
            // A full slice need not be searched: no source in it would find a counter to move to.
            if (slice.reach | counters) & !slice.used == 0 {
                continue;
            }
            let mut slice = *slice;
            if unit.get().iter().all(|&source| self.add(source, &mut slice)) {
                *self.slices.get_mut(usize::from(number))? = slice;
                self.count = self.count.max(number + 1);
                return Some(());
            }
        }
        None
    }

    /// Puts one source into a slice, where others may move.
    fn add(&mut self, source: SourceIndex, slice: &mut Slice) -> bool {
        let Requirements { alone, pair, .. } = self.requirements[source];
        if slice.closed || alone && slice.used != 0 {
            return false;
        }
        let added = if historic::shares_registers(source, slice, &self.requirements) {
            historic::add(source, slice, &self.requirements, &mut self.steps)
        } else if pair || slice.merged != 0 {
            slice.add_among_pairs(source, &self.requirements, &mut self.steps)
        } else {
            // mistake: counter-3-first
            slice.augment(source, &self.requirements, !self.last)
                || self.last != 0 && slice.augment(source, &self.requirements, u64::MAX)
        };
        if added {
            slice.reach |= self.requirements[source].reach();
            slice.closed = alone;
        }
        added
    }

    /// Notes where each source was put. One with a fixed counter that no other slice uses runs in
    /// every slice, unless it must stay with its group or needs a slice to itself.
    fn settle(&mut self) {
        let slices = self.slices.get(..usize::from(self.count)).unwrap_or_default();
        let (mut once, mut twice) = (0, 0);
        for slice in slices {
            twice |= once & slice.used;
            once |= slice.used;
        }
        let own = if slices.len() > 1 { (once & !twice) >> 32 << 32 } else { 0 };
        for (number, slice) in (0..).zip(slices) {
            for counter in slice.counters() {
                let source = slice.owner[counter];
                let stays = slice.closed || self.grouped[source];
                let every = own & counter.global_bit() != 0 && !stays;
                let slice = if every { EVERY_SLICE } else { number };
                self.assigned[source] = Assigned { counter, slice };
            }
        }
    }

    /// Lists the sources of each slice.
    pub fn schedule(&self, schedule: &mut Schedule) {
        let slices = self.slices.get(..usize::from(self.count)).unwrap_or_default();
        let runs_always = |source: SourceIndex| self.assigned[source].slice == EVERY_SLICE;
        schedule.clear();
        for slice in slices {
            schedule.add(slice.sources().filter(|&source| !runs_always(source)));
            schedule.slices += 1;
        }
        let every = slices.iter().flat_map(Slice::sources);
        schedule.add(every.filter(|&source| runs_always(source)));
    }
}

impl Schedule {
    pub(crate) fn clear(&mut self) {
        (self.slices, self.end) = (0, 0);
    }

    /// Adds the sources of the next slice or, after the last, those of every slice.
    fn add(&mut self, sources: impl Iterator<Item = SourceIndex>) {
        if let Some(start) = self.starts.get_mut(usize::from(self.slices)) {
            *start = self.end;
        }
        let room = self.order.each.iter_mut().skip(self.end.into());
        for (entry, source) in room.zip(sources) {
            *entry = source;
            self.end += 1;
        }
    }

    /// The sources of a slice, with those that run in every one; of [`Placement::EVERY_SLICE`],
    /// these alone.
    pub fn sources(&self, slice: u16) -> impl Iterator<Item = SourceIndex> {
        let every = self.starts.get(usize::from(self.slices)).copied().unwrap_or(0);
        let bounds = (slice < self.slices)
            .then(|| self.starts.get(usize::from(slice)..=usize::from(slice) + 1))
            .flatten();
        let own = match bounds {
            Some(&[start, end]) => start..end,
            _ => 0..0,
        };
        let list = |range: core::ops::Range<u16>| {
            self.order.each.get(range.start.into()..range.end.into()).unwrap_or_default()
        };
        list(own).iter().chain(list(every..self.end)).copied()
    }
}
