//! Samples and branches, filtered and summed by keys.
//!
//! ```text
//! samples -> Aggregator -> Groups (totals by GroupKey) -> Aggregate (filtered, scaled) -> report, annotate
//!                                                      -> Samples (by thread and time) -> exports, pictures
//! ```

pub(crate) mod aggregator;
pub mod branches;
pub(crate) mod by_address;
pub mod filter;
pub(crate) mod filtered;
pub mod functions;
pub mod in_step;
pub mod key;
pub(crate) mod locations;
pub mod marks;
pub mod processor_time;
pub(crate) mod samples;
pub mod share;
pub mod source_totals;
pub(crate) mod thread_names;
pub mod totals;

use crate::file::{Recording, SampleSource, Slices, open_session};
use crate::symbols::Symbols;
use aggregator::{Aggregator, GroupBy, GroupKey, Groups, stacked};
use filter::Filter;
use filtered::{BoundFilter, TimeRange};
use halprof_measure::Result;
use in_step::InStep;
use key::{Key, has_totals};
use locations::ResolvedLocations;
use shared_types::Sample;
use source_totals::{SourceTotals, whole_time};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use totals::Totals;

/// The samples of one recording that a filter accepts, in groups.
pub(crate) struct Aggregate {
    pub(crate) recording: Recording,
    pub(crate) filter: BoundFilter,
    pub(crate) locations: Rc<ResolvedLocations>,
    groups: Rc<Groups>,
    /// The sources that were not on a counter all the time.
    slices: BTreeMap<u16, Slices>,
}

impl Aggregate {
    /// The groups of a recording's samples, with the code that `keys` and the filter need.
    pub(crate) fn new(
        recording: Recording,
        groups: Groups,
        filter: &Filter,
        keys: &[Key],
        symbols: &mut Symbols,
    ) -> Result<Self> {
        Ok(Self {
            filter: BoundFilter::new(filter, &recording)?,
            locations: Rc::new(ResolvedLocations::resolve(
                &groups.locations(&recording.stacks),
                symbols,
                filter,
                keys,
            )),
            slices: recording.slices(),
            groups: Rc::new(groups),
            recording,
        })
    }

    /// The same groups under a filter that may differ only in its sources, because its other parts decide
    /// how locations are resolved.
    pub(crate) fn with_sources_of(&self, filter: &Filter) -> Result<Self> {
        Ok(Self {
            filter: BoundFilter::new(filter, &self.recording)?,
            locations: Rc::clone(&self.locations),
            groups: Rc::clone(&self.groups),
            slices: self.slices.clone(),
            recording: self.recording.clone(),
        })
    }

    /// Calls `visit` with each group that the filter accepts, its events scaled to the whole time.
    /// If a `source` is given, only with that source's groups.
    pub(crate) fn each(
        &self,
        group_by: GroupBy,
        source: Option<u16>,
        mut visit: impl FnMut(GroupKey, Totals),
    ) {
        self.groups.each(group_by, source, |group, totals| {
            if self.passes(group) {
                visit(group, whole_time(&self.slices, group.source, totals));
            }
        });
    }

    fn passes(&self, group: GroupKey) -> bool {
        let GroupKey { source, process, thread, processor, .. } = group;
        self.filter.passes(source, (process, thread), processor)
            && (!self.filter.needs_code() || self.locations.get(group.location()).passes)
    }

    /// Each source that passes, even without samples. `group_by` must include what the filter
    /// needs.
    pub(crate) fn sources(&self, group_by: GroupBy) -> Vec<SourceTotals> {
        let mut all: BTreeMap<u16, [Totals; 2]> = BTreeMap::new();
        for index in self.filter.sources().filter(|&index| self.filter.passes_source(index)) {
            all.insert(index, Default::default());
        }
        self.groups.each(group_by, None, |group, some| {
            if !self.filter.passes_source(group.source) {
                return;
            }
            let [totals, unfiltered] = all.entry(group.source).or_default();
            let some = whole_time(&self.slices, group.source, some);
            unfiltered.add(some);
            if self.passes(group) {
                totals.add(some);
            }
        });
        let sources = all.into_iter().map(|(index, [totals, unfiltered])| SourceTotals {
            totals,
            unfiltered,
            addressed: self.groups.addressed.get(&index).copied().unwrap_or(0),
            ..SourceTotals::new(index, self.filter.source(index), &self.recording, &self.slices)
        });
        sources.collect()
    }
}

/// Sums up the samples of a recording or trace within the filter's span of time.
pub(crate) fn aggregate_files(
    session: &[&Path],
    filter: &Filter,
    group_by: &[GroupBy],
) -> Result<(Recording, Groups)> {
    let mut source = open_session(session)?;
    let time = TimeRange::read(source.as_mut(), filter)?;
    let mut in_step = InStep::default();
    let (mut recording, groups) =
        aggregate(source.as_mut(), &time, group_by, |samples| in_step.add(samples))?;
    recording.in_step = in_step.sources(&recording.metadata);
    Ok((recording, groups))
}

/// Sums up the samples of a source within a span of time. `visit` receives all samples, also those
/// outside the span.
pub(crate) fn aggregate(
    source: &mut dyn SampleSource,
    time: &TimeRange,
    group_by: &[GroupBy],
    mut visit: impl FnMut(&[Sample]),
) -> Result<(Recording, Groups)> {
    let mut aggregator = Aggregator::new(group_by);
    source.samples(&mut |samples, stacks| {
        visit(samples);
        let samples = stacked(samples, stacks);
        aggregator.add(samples.filter(|(sample, _)| time.contains(sample.timestamp)));
    })?;
    let mut recording = source.take_recording();
    let groups = aggregator.finish();
    // The samples of a part of the time do not show how long the recording is.
    if time.is_all() {
        recording.seen_ns = groups.seen_ns(recording.metadata.timestamp_frequency);
    }
    Ok((recording, groups))
}

impl Filter {
    /// What samples must be grouped by for this filter. Time is not among it: `TimeRange` checks
    /// each sample.
    pub(crate) const fn group_by(&self) -> GroupBy {
        GroupBy {
            location: self.needs_code(),
            // A thread's name is one of its process.
            process: !self.processes.is_empty() || !self.threads.is_empty(),
            thread: !self.threads.is_empty(),
            processor: self.processors.is_some(),
            ..GroupBy::NOTHING
        }
    }
}

impl GroupBy {
    /// This grouping, extended by what these keys need.
    pub(crate) fn with(self, keys: &[Key]) -> Self {
        let all = keys.iter().map(|key| key.groups()).fold(self, Self::or);
        Self { stack: all.stack || has_totals(keys), ..all }
    }
}

impl Recording {
    /// The machine's own name, or the file's if the recording does not give it.
    pub fn machine_name(&self) -> Arc<str> {
        match self.metadata.host.as_str() {
            "" => self.file.file_stem().unwrap_or_default().to_string_lossy().into(),
            host => host.into(),
        }
    }
}
