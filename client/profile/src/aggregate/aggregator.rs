//! The first pass over a recording: samples summed up by what later passes distinguish.

use crate::aggregate::totals::Totals;
use crate::file::{Context, StackId, StackTable, mode_of};
use crate::number::nanoseconds;
use crate::symbols::code_location::CodeLocation;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use shared_types::{Mode, Sample};
use std::cell::OnceCell;
use std::hash::BuildHasher;
use std::num::NonZero;
use std::{iter, thread};

/// The most samples of a shard that wait: enough to be worth starting threads for. Each map makes
/// room for all that wait, so twice as many would take a third more memory (132 MB instead of 97 MB
/// for ten million samples).
const WAITING: usize = 1 << 15;
/// The most processors that are used. More would not help, because all of them wait for the same
/// memory.
const SHARDS: usize = 4;

/// What samples are grouped by, besides their source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for a key, and any may be with any")]
pub(crate) struct GroupBy {
    pub(crate) location: bool,
    pub(crate) process: bool,
    pub(crate) thread: bool,
    pub(crate) processor: bool,
    /// Whether a thread, a deferred call or an interrupt ran.
    pub(crate) context: bool,
    /// Callers. They may be in user mode even if the sample is not, so this distinguishes processes
    /// too.
    pub(crate) stack: bool,
}

impl GroupBy {
    /// All samples of a source together.
    pub(crate) const NOTHING: Self = Self {
        location: false,
        process: false,
        thread: false,
        processor: false,
        context: false,
        stack: false,
    };

    /// Whether this distinguishes everything that the other distinguishes.
    const fn has(self, other: Self) -> bool {
        (self.location || !other.location)
            && (self.process || !other.process)
            && (self.thread || !other.thread)
            && (self.processor || !other.processor)
            && (self.context || !other.context)
            && (self.stack || !other.stack)
    }

    /// Distinguishes everything that one of the two distinguishes.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self {
            location: self.location || other.location,
            process: self.process || other.process,
            thread: self.thread || other.thread,
            processor: self.processor || other.processor,
            context: self.context || other.context,
            stack: self.stack || other.stack,
        }
    }
}

/// The group of a sample. A field that the grouping does not distinguish is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    /// Without [`GroupBy::process`], the process of the location: 0 in the kernel, whose code all
    /// processes share.
    pub(crate) process: u32,
    pub(crate) thread: u32,
    mode: u8,
    ip: u64,
    pub(crate) processor: u32,
    pub(crate) stack: StackId,
    pub(crate) source: u16,
    /// A [`Context`].
    pub(crate) context: u8,
}

impl GroupKey {
    pub(crate) fn of(sample: &Sample, stack: StackId, group_by: GroupBy) -> Self {
        Self::all_of(sample, stack).only(group_by)
    }

    /// Everything that a sample can be grouped by.
    fn all_of(sample: &Sample, stack: StackId) -> Self {
        Self {
            ip: sample.ip,
            process: sample.process,
            thread: sample.thread,
            processor: sample.processor,
            stack,
            source: sample.source,
            mode: mode_of(sample.mode) as u8,
            context: Context::of(sample.mode) as u8,
        }
    }

    /// This key with everything cleared that `group_by` does not distinguish.
    pub(crate) fn only(self, group_by: GroupBy) -> Self {
        let location = if group_by.location { self.location() } else { CodeLocation::default() };
        let stack = if group_by.stack { self.stack } else { StackId::NONE };
        // Callers are addresses of a process.
        let has_process = group_by.process || !stack.is_none();
        Self {
            ip: location.ip,
            process: if has_process { self.process } else { location.process },
            thread: if group_by.thread { self.thread } else { 0 },
            processor: if group_by.processor { self.processor } else { 0 },
            stack,
            source: self.source,
            mode: location.mode,
            context: if group_by.context { self.context } else { 0 },
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

    /// Where the sampled code was called, innermost caller first.
    pub(crate) fn callers(self, stacks: &StackTable) -> impl Iterator<Item = CodeLocation> {
        let frames = stacks.callers(self.stack);
        frames
            .map(move |(_, frame)| CodeLocation::new(self.process, frame.call_site(), frame.mode()))
    }
}

/// Samples with their stacks; a sample without a stack has [`StackId::NONE`].
pub(crate) fn stacked<'a>(
    samples: &'a [Sample],
    stacks: &'a [StackId],
) -> impl Iterator<Item = (&'a Sample, StackId)> {
    samples.iter().zip(stacks.iter().copied())
}

/// Samples of a recording that has no stacks.
pub(crate) fn without_stacks(samples: &[Sample]) -> impl Iterator<Item = (&Sample, StackId)> {
    samples.iter().map(|sample| (sample, StackId::NONE))
}

type TotalsByKey = FxHashMap<GroupKey, Totals>;

/// A part of the samples: those of some addresses, so that one thread can add them without a lock.
#[derive(Debug)]
struct Shard {
    /// Samples that are not added yet, with their periods.
    waiting: Vec<(GroupKey, u64)>,
    /// The totals by each grouping, in the aggregator's order.
    totals: Vec<TotalsByKey>,
}

impl Shard {
    /// Adds all waiting samples to one map, then to the next. The processor can then load several
    /// entries of a large map at the same time.
    fn add_waiting(&mut self, group_by: &[GroupBy]) {
        for (&group_by, totals) in group_by.iter().zip(&mut self.totals) {
            for &(group, period) in &self.waiting {
                totals.entry(group.only(group_by)).or_default().add(Totals::alike(1, period));
            }
        }
        self.waiting.clear();
    }

    /// Makes room for the waiting samples. The calling thread does this for all shards, because
    /// glibc would give each thread its own heap, and keep there what a growing map leaves behind.
    fn reserve(&mut self) {
        for totals in &mut self.totals {
            totals.reserve(self.waiting.len());
        }
    }
}

/// Sums up samples; large numbers of them on several processors.
#[derive(Debug)]
pub(crate) struct Aggregator {
    span: Option<(u64, u64)>,
    addressed: FxHashMap<u16, u64>,
    stacks: bool,
    group_by: Vec<GroupBy>,
    shards: Vec<Shard>,
}

impl Aggregator {
    /// Counts each sample in as few groupings as possible. A coarser grouping is a sum over a finer
    /// one, and all groupings without addresses become one, because they have few groups.
    pub(crate) fn new(group_by: &[GroupBy]) -> Self {
        let (mut finest, others): (Vec<_>, Vec<_>) = group_by.iter().partition(|by| by.location);
        finest.push(others.into_iter().fold(GroupBy::default(), GroupBy::or));
        let mut all: Vec<GroupBy> = Vec::new();
        for group_by in finest {
            if !all.iter().any(|other| other.has(group_by)) {
                all.retain(|&other| !group_by.has(other));
                all.push(group_by);
            }
        }
        let totals = vec![TotalsByKey::default(); all.len()];
        let shard = || Shard { waiting: Vec::new(), totals: totals.clone() };
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let shards = iter::repeat_with(shard).take(processors.min(SHARDS)).collect();
        Self { span: None, addressed: FxHashMap::default(), stacks: false, group_by: all, shards }
    }

    pub(crate) fn add<'a>(&mut self, samples: impl Iterator<Item = (&'a Sample, StackId)>) {
        for (sample, stack) in samples {
            self.stacks |= !stack.is_none();
            if mode_of(sample.mode) != Mode::Unknown {
                *self.addressed.entry(sample.source).or_default() += 1;
            }
            let (first, last) = self.span.unwrap_or((sample.timestamp, sample.timestamp));
            self.span = Some((first.min(sample.timestamp), last.max(sample.timestamp)));
            // All samples of an address are in one shard, so that only groups without addresses are
            // in several.
            let shard = FxBuildHasher.hash_one(sample.ip) as usize % self.shards.len();
            let Some(shard) = self.shards.get_mut(shard) else { continue };
            shard.waiting.push((GroupKey::all_of(sample, stack), sample.period));
            if shard.waiting.len() >= WAITING {
                self.add_waiting();
            }
        }
    }

    /// Adds the first shard's samples on this thread, and each other shard's on a new thread. If
    /// the system gives no thread, these samples wait for the next call.
    fn add_waiting(&mut self) {
        self.shards.iter_mut().for_each(Shard::reserve);
        let Some((first, others)) = self.shards.split_first_mut() else { return };
        let group_by = &self.group_by;
        thread::scope(|scope| {
            for other in others {
                // Without its handle the thread is not detached: the scope waits for it.
                drop(thread::Builder::new().spawn_scoped(scope, || other.add_waiting(group_by)));
            }
            first.add_waiting(group_by);
        });
    }

    /// The groups of all samples.
    pub(crate) fn finish(self) -> Groups {
        let Self { span, addressed, stacks, group_by, mut shards } = self;
        for shard in &mut shards {
            shard.add_waiting(&group_by);
        }
        let mut parts: Vec<_> = shards.into_iter().map(|shard| shard.totals.into_iter()).collect();
        let mut next = || merged(parts.iter_mut().filter_map(Iterator::next).collect());
        let all = group_by.into_iter().map(|group_by| Grouping::new(group_by, next())).collect();
        Groups { span, addressed, stacks, all }
    }
}

/// The groups of all parts, in order. A group that does not distinguish addresses can be in several
/// parts.
fn merged(parts: Vec<TotalsByKey>) -> Vec<(GroupKey, Totals)> {
    let mut groups = Vec::with_capacity(parts.iter().map(FxHashMap::len).sum());
    for part in parts {
        groups.extend(part);
    }
    add_up(&mut groups, Totals::add);
    groups
}

/// Sorts a list by its keys, and adds up the values of equal keys. A map would miss the cache at each of
/// a large number of keys; a list whose keys came nearly in order is sorted fast.
pub(crate) fn add_up<K: Ord, T: Copy>(list: &mut Vec<(K, T)>, add: impl Fn(&mut T, T)) {
    list.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    list.dedup_by(|(key, more), (previous, sum)| {
        let is_same = key == previous;
        if is_same {
            add(sum, *more);
        }
        is_same
    });
}

/// Everything that was summed up.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The first and the last timestamp that was counted.
    span: Option<(u64, u64)>,
    /// Samples with an address, by source.
    pub(crate) addressed: FxHashMap<u16, u64>,
    /// Whether any sample had a stack.
    stacks: bool,
    all: Vec<Grouping>,
}

/// The groups of all samples, by some of what they can be grouped by.
#[derive(Debug)]
struct Grouping {
    by: GroupBy,
    /// In the order of their keys, so that what is looked up for one group is near what the last group
    /// needed.
    groups: Vec<(GroupKey, Totals)>,
    /// Where the groups of each source are, if there are several: made when one is first asked for. A
    /// file may have thousands of sources, and each has a table of its own.
    of_source: OnceCell<Option<FxHashMap<u16, Vec<u32>>>>,
}

impl Grouping {
    const fn new(by: GroupBy, groups: Vec<(GroupKey, Totals)>) -> Self {
        Self { by, groups, of_source: OnceCell::new() }
    }

    /// Passes the groups of one source, or of all, to `visit`, in their order.
    fn each(&self, source: Option<u16>, mut visit: impl FnMut(GroupKey, Totals)) {
        let own = source.and_then(|source| {
            let of_source = self.of_source.get_or_init(|| self.by_source()).as_ref()?;
            Some(of_source.get(&source).map_or(&[][..], Vec::as_slice))
        });
        if let Some(own) = own {
            let groups = own.iter().filter_map(|&index| self.groups.get(index as usize));
            return groups.for_each(|&(key, totals)| visit(key, totals));
        }
        // They are all of one source.
        let is_asked = |key: &GroupKey| source.is_none_or(|source| source == key.source);
        if self.groups.first().is_some_and(|(first, _)| is_asked(first)) {
            self.groups.iter().for_each(|&(key, totals)| visit(key, totals));
        }
    }

    fn by_source(&self) -> Option<FxHashMap<u16, Vec<u32>>> {
        let (first, _) = self.groups.first()?;
        if self.groups.iter().all(|(key, _)| key.source == first.source) {
            return None;
        }
        let mut of_source: FxHashMap<u16, Vec<u32>> = FxHashMap::default();
        for (index, (key, _)) in (0..).zip(&self.groups) {
            of_source.entry(key.source).or_default().push(index);
        }
        Some(of_source)
    }
}

impl Groups {
    /// The time between the first and the last counted sample.
    pub(crate) fn seen_ns(&self, frequency: u64) -> u64 {
        let (first, last) = self.span.unwrap_or_default();
        nanoseconds(last - first, frequency).unwrap_or(0)
    }

    /// Calls `visit` with each group of one source, or of all, and its totals.
    pub(crate) fn each(
        &self,
        group_by: GroupBy,
        source: Option<u16>,
        mut visit: impl FnMut(GroupKey, Totals),
    ) {
        let Some(finer) = self.all.iter().find(|grouping| grouping.by.has(group_by)) else {
            return;
        };
        // Where no sample has a stack, grouping by stack too makes no more groups.
        let same = GroupBy { stack: group_by.stack || finer.by.stack && !self.stacks, ..group_by };
        if finer.by == same {
            finer.each(source, visit);
            return;
        }
        let mut coarser = TotalsByKey::default();
        finer.each(source, |key, totals| {
            coarser.entry(key.only(group_by)).or_default().add(totals);
        });
        for (key, totals) in coarser {
            visit(key, totals);
        }
    }

    /// Every location, including those of callers, once and in order.
    pub(crate) fn locations(&self, stacks: &StackTable) -> Vec<CodeLocation> {
        let groups = self.all.iter().filter(|grouping| grouping.by.location);
        let entries = groups.flat_map(|grouping| grouping.groups.iter().map(|(key, _)| key));
        let mut locations: Vec<CodeLocation> =
            entries.clone().map(|entry| entry.location()).collect();
        let mut known = FxHashSet::default();
        for entry in entries.filter(|entry| !entry.stack.is_none()) {
            let frames = stacks.callers(entry.stack);
            // If a frame is known, its callers are known too, so the walk ends there.
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

    const PLACE: GroupBy = GroupBy { location: true, ..GroupBy::NOTHING };
    const PROCESS: GroupBy = GroupBy { location: false, process: true, ..PLACE };
    const PROCESSOR: GroupBy = GroupBy { location: false, processor: true, ..PLACE };
    const NOTHING: GroupBy = GroupBy { location: false, ..PLACE };

    fn each(groups: &Groups, group_by: GroupBy) -> Vec<(GroupKey, Totals)> {
        let mut all = Vec::new();
        groups.each(group_by, None, |entry, sum| all.push((entry, sum)));
        all.sort_unstable_by_key(|&(entry, _)| entry);
        all
    }

    fn summed(group_by: &[GroupBy], samples: &[Sample]) -> Groups {
        let mut aggregator = Aggregator::new(group_by);
        aggregator.add(without_stacks(samples));
        aggregator.finish()
    }

    fn sample(ip: u64, process: u32, mode: Mode) -> Sample {
        Sample { ip, process, thread: 7, period: u64::MAX, mode: mode as u8, ..Sample::default() }
    }

    #[test]
    fn coarser_groups_are_sums() {
        let samples = [1, 2, 1].map(|ip| sample(ip, 4, Mode::User));
        let groups = summed(&[NOTHING, PLACE, PROCESS, NOTHING, PLACE], &samples);
        assert_eq!(groups.all.len(), 2);
        let all = each(&groups, NOTHING);
        let sum = Totals { samples: 3, events: u64::MAX, squares: u128::MAX };
        assert_eq!(all, [(GroupKey::default(), sum)]);
        assert_eq!(each(&groups, PLACE).len(), 2);
        assert_eq!(each(&groups, PROCESS).len(), 1);
    }

    #[test]
    fn the_groups_of_a_source_are_all_its_own_in_order() {
        for sources in [1_u16, 3, 1000] {
            let samples: Vec<Sample> = (0..3000_u64)
                .map(|n| Sample { source: n as u16 % sources, ..sample(n % 700, 4, Mode::User) })
                .collect();
            let groups = summed(&[PLACE, PROCESS], &samples);
            for group_by in [PLACE, PROCESS, NOTHING] {
                let mut of_each = Vec::new();
                for source in 0..=sources {
                    let mut own = Vec::new();
                    groups.each(group_by, Some(source), |key, totals| own.push((key, totals)));
                    assert!(own.iter().all(|(key, _)| key.source == source));
                    assert_eq!(own.is_empty(), source == sources, "{source} of {sources}");
                    assert!(group_by != PLACE || own.is_sorted_by_key(|&(key, _)| key));
                    of_each.extend(own);
                }
                of_each.sort_unstable_by_key(|&(key, _)| key);
                assert_eq!(of_each, each(&groups, group_by));
            }
        }
    }

    #[test]
    fn samples_that_are_added_together_are_all_counted() {
        let count = 2 * SHARDS * WAITING + 1;
        let samples: Vec<Sample> = (0..count as u64)
            .map(|n| Sample {
                period: 1,
                processor: n as u32 % 3,
                ..sample(n % 7, n as u32 % 5, Mode::User)
            })
            .collect();
        let groups = summed(&[PLACE, PROCESS, PROCESSOR], &samples);
        assert_eq!(groups.all.len(), 2);
        for (group_by, distinct) in [(PLACE, 35), (PROCESS, 5), (PROCESSOR, 3)] {
            let all = each(&groups, group_by);
            assert_eq!(all.len(), distinct);
            for (key, totals) in all {
                let alike = samples
                    .iter()
                    .filter(|sample| GroupKey::of(sample, StackId::NONE, group_by) == key);
                assert_eq!(totals, Totals::alike(alike.count() as u64, 1));
            }
        }
    }

    #[test]
    fn all_processes_share_the_kernel() {
        let both = GroupBy { process: true, ..PLACE };
        let samples =
            [sample(1, 4, Mode::Kernel), sample(1, 8, Mode::Kernel), sample(1, 8, Mode::User)];
        for group_by in [&[PLACE, PROCESS][..], &[both]] {
            let groups = summed(group_by, &samples);
            let kernel = CodeLocation { ip: 1, process: 0, mode: Mode::Kernel as u8 };
            let user = CodeLocation { ip: 1, process: 8, mode: Mode::User as u8 };
            assert_eq!(groups.locations(&StackTable::default()), [kernel, user]);
            let locations = each(&groups, PLACE);
            let locations = locations.iter().map(|(entry, sum)| (entry.location(), sum.samples));
            assert_eq!(locations.collect::<Vec<_>>(), [(kernel, 2), (user, 1)]);
            let processes = each(&groups, PROCESS);
            let processes = processes.iter().map(|(entry, sum)| (entry.process, sum.samples));
            assert_eq!(processes.collect::<Vec<_>>(), [(4, 1), (8, 2)]);
        }
    }
}
