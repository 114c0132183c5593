//! The first pass over a recording: samples summed up by what later passes distinguish.

use crate::file::{StackId, StackTable};
use crate::number::nanoseconds;
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::{Mode, Sample};

/// What samples are grouped by, besides their source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for a key, and any may be with any")]
pub(crate) struct GroupBy {
    pub(crate) location: bool,
    pub(crate) process: bool,
    pub(crate) thread: bool,
    pub(crate) processor: bool,
    /// The callers, whose process is then distinguished too: they may be in user mode.
    pub(crate) stack: bool,
}

impl GroupBy {
    /// Whether it distinguishes all that the other does.
    const fn has(self, other: Self) -> bool {
        (self.location || !other.location)
            && (self.process || !other.process)
            && (self.thread || !other.thread)
            && (self.processor || !other.processor)
            && (self.stack || !other.stack)
    }
}

/// Where samples were taken: an address of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CodeLocation {
    /// 0 in kernel mode, which all processes share.
    pub(crate) process: u32,
    pub(crate) ip: u64,
    mode: u8,
}

impl CodeLocation {
    pub(crate) const fn new(process: u32, ip: u64, mode: Mode) -> Self {
        let process = if matches!(mode, Mode::Kernel) { 0 } else { process };
        Self { process, ip, mode: mode as u8 }
    }

    pub(crate) fn mode(self) -> Mode {
        Mode::from_wire(self.mode.into()).unwrap_or(Mode::Unknown)
    }
}

/// A number of samples, and the number of events that they stand for. All saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Totals {
    /// Samples.
    pub samples: u64,
    /// The sum of their periods.
    pub events: u64,
    /// The sum of the squares of their periods, for the accuracy of shares.
    #[serde(skip)]
    pub squares: u128,
}

impl Totals {
    /// A single sample.
    pub const fn of(sample: &Sample) -> Self {
        Self::alike(1, sample.period)
    }

    /// Samples of one period.
    pub const fn alike(samples: u64, period: u64) -> Self {
        let square = period as u128 * period as u128;
        Self {
            samples,
            events: samples.saturating_mul(period),
            squares: square.saturating_mul(samples as u128),
        }
    }

    /// Adds another sum to this one.
    pub const fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.events = self.events.saturating_add(other.events);
        self.squares = self.squares.saturating_add(other.squares);
    }
}

/// The group of a sample: everything that it is not grouped by is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    /// Without [`GroupBy::process`], that of the place.
    pub(crate) process: u32,
    pub(crate) thread: u32,
    mode: u8,
    ip: u64,
    pub(crate) processor: u32,
    pub(crate) stack: StackId,
    pub(crate) source: u16,
}

impl GroupKey {
    pub(crate) fn of(sample: &Sample, stack: StackId, group_by: GroupBy) -> Self {
        let full = Self {
            ip: sample.ip,
            process: sample.process,
            thread: sample.thread,
            processor: sample.processor,
            stack,
            source: sample.source,
            mode: sample.mode,
        };
        full.only(group_by)
    }

    /// The same, without what `group_by` does not distinguish.
    fn only(self, group_by: GroupBy) -> Self {
        let location = if group_by.location { self.location() } else { CodeLocation::default() };
        let stack = if group_by.stack { self.stack } else { StackId::NONE };
        let has_process = group_by.process || !stack.is_none();
        Self {
            ip: location.ip,
            process: if has_process { self.process } else { location.process },
            thread: if group_by.thread { self.thread } else { 0 },
            processor: if group_by.processor { self.processor } else { 0 },
            stack,
            source: self.source,
            mode: location.mode,
        }
    }

    pub(crate) const fn location(self) -> CodeLocation {
        let kernel = self.mode == Mode::Kernel as u8;
        CodeLocation {
            ip: self.ip,
            process: if kernel { 0 } else { self.process },
            mode: self.mode,
        }
    }

    /// Where its code was called, innermost first.
    pub(crate) fn callers(self, stacks: &StackTable) -> impl Iterator<Item = CodeLocation> {
        let frames = stacks.callers(self.stack);
        frames
            .map(move |(_, frame)| CodeLocation::new(self.process, frame.call_site(), frame.mode()))
    }
}

/// Samples with their stacks, of which one is [`StackId::NONE`] if it has none.
pub(crate) fn stacked<'a>(
    samples: &'a [Sample],
    stacks: &'a [StackId],
) -> impl Iterator<Item = (&'a Sample, StackId)> + Clone {
    samples.iter().zip(stacks.iter().copied())
}

/// The same of samples that have no stacks.
pub(crate) fn without_stacks(
    samples: &[Sample],
) -> impl Iterator<Item = (&Sample, StackId)> + Clone {
    samples.iter().map(|sample| (sample, StackId::NONE))
}

pub(crate) type TotalsByKey = FxHashMap<GroupKey, Totals>;

/// Everything that was summed up.
#[derive(Debug)]
pub(crate) struct Aggregator {
    /// The first and the last timestamp that was counted.
    pub(crate) span: Option<(u64, u64)>,
    /// Samples with an address, by source.
    pub(crate) addressed: FxHashMap<u16, u64>,
    /// Whether any sample had a stack.
    stacks: bool,
    all: Vec<(GroupBy, TotalsByKey)>,
}

impl Aggregator {
    /// Each sample is counted in as few maps as there can be: a coarser grouping is a sum over a
    /// finer one.
    pub(crate) fn new(group_by: &[GroupBy]) -> Self {
        let mut all: Vec<(GroupBy, TotalsByKey)> = Vec::new();
        for &group_by in group_by {
            if !all.iter().any(|(other, _)| other.has(group_by)) {
                all.retain(|&(other, _)| !group_by.has(other));
                all.push((group_by, TotalsByKey::default()));
            }
        }
        Self { span: None, addressed: FxHashMap::default(), stacks: false, all }
    }

    /// The time between the first and the last counted sample.
    pub(crate) fn seen_ns(&self, frequency: u64) -> u64 {
        let (first, last) = self.span.unwrap_or_default();
        nanoseconds(last - first, frequency).unwrap_or(0)
    }

    /// Adds samples: all of them to one map after the other, so that the processor waits for
    /// several entries of a large map at the same time.
    pub(crate) fn add<'a>(
        &mut self,
        samples: &(impl Iterator<Item = (&'a Sample, StackId)> + Clone),
    ) {
        let (mut first, mut last) = self.span.unwrap_or((u64::MAX, 0));
        for (sample, stack) in samples.clone() {
            self.stacks |= !stack.is_none();
            if sample.mode != Mode::Unknown as u8 {
                *self.addressed.entry(sample.source).or_default() += 1;
            }
            first = first.min(sample.timestamp);
            last = last.max(sample.timestamp);
        }
        self.span = (first <= last).then_some((first, last));
        for (group_by, sums) in &mut self.all {
            for (sample, stack) in samples.clone() {
                let entry = GroupKey::of(sample, stack, *group_by);
                sums.entry(entry).or_default().add(Totals::of(sample));
            }
        }
    }

    /// Passes each group of one source, or of all, to `visit`, with its totals.
    pub(crate) fn each(
        &self,
        group_by: GroupBy,
        source: Option<u16>,
        mut visit: impl FnMut(GroupKey, Totals),
    ) {
        let Some((finer, sums)) = self.all.iter().find(|(other, _)| other.has(group_by)) else {
            return;
        };
        let sums = sums.iter().filter(|(key, _)| source.is_none_or(|source| source == key.source));
        // Where no sample has a stack, grouping by stack too makes no more groups.
        let same = GroupBy { stack: group_by.stack || finer.stack && !self.stacks, ..group_by };
        if *finer == same {
            for (&key, &sum) in sums {
                visit(key, sum);
            }
            return;
        }
        let mut coarser = TotalsByKey::default();
        for (key, &sum) in sums {
            coarser.entry(key.only(group_by)).or_default().add(sum);
        }
        for (key, sum) in coarser {
            visit(key, sum);
        }
    }

    /// Every location, callers' too, once, in order.
    pub(crate) fn locations(&self, stacks: &StackTable) -> Vec<CodeLocation> {
        let tallies = self.all.iter().filter(|(group_by, _)| group_by.location);
        let entries = tallies.flat_map(|(_, sums)| sums.keys());
        let mut locations: Vec<CodeLocation> =
            entries.clone().map(|entry| entry.location()).collect();
        let mut known = FxHashSet::default();
        for entry in entries.filter(|entry| !entry.stack.is_none()) {
            let frames = stacks.callers(entry.stack);
            // Where one frame is known, so are its callers.
            let new = frames.take_while(|&(stack, _)| known.insert((entry.process, stack)));
            locations.extend(new.map(|(_, frame)| {
                CodeLocation::new(entry.process, frame.call_site(), frame.mode())
            }));
        }
        locations.sort_unstable();
        locations.dedup();
        locations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: GroupBy =
        GroupBy { location: true, process: false, thread: false, processor: false, stack: false };
    const PROCESS: GroupBy = GroupBy { location: false, process: true, ..PLACE };
    const NOTHING: GroupBy = GroupBy { location: false, ..PLACE };

    fn each(tallies: &Aggregator, group_by: GroupBy) -> Vec<(GroupKey, Totals)> {
        let mut all = Vec::new();
        tallies.each(group_by, None, |entry, sum| all.push((entry, sum)));
        all.sort_unstable_by_key(|&(entry, _)| entry);
        all
    }

    fn sample(ip: u64, process: u32, mode: Mode) -> Sample {
        Sample { ip, process, thread: 7, period: u64::MAX, mode: mode as u8, ..Sample::default() }
    }

    #[test]
    fn coarser_groups_are_sums() {
        let mut tallies = Aggregator::new(&[NOTHING, PLACE, PROCESS, NOTHING, PLACE]);
        assert_eq!(tallies.all.len(), 2);
        let samples = [1, 2, 1].map(|ip| sample(ip, 4, Mode::User));
        tallies.add(&without_stacks(&samples));
        let all = each(&tallies, NOTHING);
        let sum = Totals { samples: 3, events: u64::MAX, squares: u128::MAX };
        assert_eq!(all, [(GroupKey::default(), sum)]);
        assert_eq!(each(&tallies, PLACE).len(), 2);
        assert_eq!(each(&tallies, PROCESS).len(), 1);
    }

    #[test]
    fn all_processes_share_the_kernel() {
        let both = GroupBy { process: true, ..PLACE };
        let samples =
            [sample(1, 4, Mode::Kernel), sample(1, 8, Mode::Kernel), sample(1, 8, Mode::User)];
        for group_by in [&[PLACE, PROCESS][..], &[both]] {
            let mut tallies = Aggregator::new(group_by);
            tallies.add(&without_stacks(&samples));
            let kernel = CodeLocation { ip: 1, process: 0, mode: Mode::Kernel as u8 };
            let user = CodeLocation { ip: 1, process: 8, mode: Mode::User as u8 };
            assert_eq!(tallies.locations(&StackTable::default()), [kernel, user]);
            let locations = each(&tallies, PLACE);
            let locations = locations.iter().map(|(entry, sum)| (entry.location(), sum.samples));
            assert_eq!(locations.collect::<Vec<_>>(), [(kernel, 2), (user, 1)]);
            let processes = each(&tallies, PROCESS);
            let processes = processes.iter().map(|(entry, sum)| (entry.process, sum.samples));
            assert_eq!(processes.collect::<Vec<_>>(), [(4, 1), (8, 2)]);
        }
    }
}
