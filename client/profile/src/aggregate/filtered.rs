//! A filter bound to one recording: which sources and processes its patterns mean there, and which
//! span of time.

use crate::aggregate::filter::Filter;
use crate::aggregate::thread_names::ThreadNames;
use crate::file::{ProcessIds, Recording, SampleSource};
use crate::number::nanoseconds;
use crate::symbols::Pattern;
use halprof_measure::spellings::names_source;
use halprof_measure::{Error, Result};
use rustc_hash::FxHashMap;
use shared_types::Sample;
use std::ops::Range;
use std::sync::Arc;

/// The names of a recording's sources and processes, and which of them a filter accepts.
pub(crate) struct BoundFilter {
    filter: Filter,
    sources: Vec<(Arc<str>, bool)>,
    processes: FxHashMap<u32, Arc<str>>,
    threads: ThreadNames,
    process_ids: ProcessIds,
}

impl Filter {
    /// Whether it accepts the samples of a source.
    pub fn accepts_source(&self, name: &str) -> bool {
        let mut patterns = self.sources.iter();
        self.sources.is_empty() || patterns.any(|pattern| matches_source(pattern, name))
    }
}

impl BoundFilter {
    /// # Errors
    /// The filter names a source that the recording does not have.
    pub(crate) fn new(filter: &Filter, recording: &Recording) -> Result<Self> {
        let names = recording.metadata.sources.iter().map(|source| source.name.as_str());
        for pattern in &filter.sources {
            if !names.clone().any(|name| matches_source(pattern, name)) {
                let all: Vec<&str> = names.collect();
                return Err(Error::usage(
                    format!("the recording has no source called `{pattern}`"),
                    format!("It has {}.", all.join(", ")),
                ));
            }
        }
        let process_ids = recording.process_ids.clone();
        let processes = recording.processes.iter().filter(|process| !process.name.is_empty());
        Ok(Self {
            filter: filter.clone(),
            sources: names.map(|name| (name.into(), filter.accepts_source(name))).collect(),
            processes: processes
                .map(|process| (process_ids.of_process(process), process.name.as_str().into()))
                .collect(),
            threads: ThreadNames::of(recording),
            process_ids,
        })
    }

    /// Whether it accepts the samples of a source, a thread of a process, and a processor.
    pub(crate) fn passes(
        &self,
        source: u16,
        (process, thread): (u32, u32),
        processor: u32,
    ) -> bool {
        let processors = self.filter.processors.as_ref();
        self.passes_source(source)
            && processors.is_none_or(|processors| processors.contains(&processor))
            && self.passes_process(process)
            && self.passes_thread(process, thread)
    }

    /// Whether it accepts a sample, apart from its time and its code.
    pub(crate) fn passes_sample(&self, sample: &Sample) -> bool {
        self.passes(sample.source, (sample.process, sample.thread), sample.processor)
    }

    /// Whether it needs the code at the address of a sample.
    pub(crate) const fn needs_code(&self) -> bool {
        self.filter.needs_code()
    }

    pub(crate) fn passes_process(&self, process: u32) -> bool {
        let processes = &self.filter.processes;
        let known = || self.process_ids.known_id(process);
        let is_meant = |id| means(processes, id, self.process(process));
        processes.is_empty() || known().is_some_and(is_meant)
    }

    pub(crate) fn passes_thread(&self, process: u32, thread: u32) -> bool {
        let threads = &self.filter.threads;
        threads.is_empty() || means(threads, thread, self.thread(process, thread))
    }

    /// Whether it accepts a source. A source that the recording does not name is accepted only if
    /// all are.
    pub(crate) fn passes_source(&self, index: u16) -> bool {
        match self.sources.get(usize::from(index)) {
            Some(&(_, passes)) => passes,
            None => self.sources.iter().all(|&(_, passes)| passes),
        }
    }

    /// The indexes of the named sources.
    pub(crate) fn sources(&self) -> Range<u16> {
        0..u16::try_from(self.sources.len()).unwrap_or(u16::MAX)
    }

    pub(crate) fn source(&self, index: u16) -> Arc<str> {
        match self.sources.get(usize::from(index)) {
            Some((name, _)) => Arc::clone(name),
            None => format!("source {index}").into(),
        }
    }

    /// The name of a process, if it is known.
    pub(crate) fn process(&self, number: u32) -> Option<&Arc<str>> {
        self.processes.get(&self.process_ids.process(number))
    }

    /// The name of a thread of a process, if it has one.
    pub(crate) fn thread(&self, process: u32, thread: u32) -> Option<&Arc<str>> {
        self.threads.name(&self.process_ids, process, thread)
    }
}

/// Whether one of the patterns matches the identifier or the name of a process or a thread.
fn means(patterns: &[Pattern], id: u32, name: Option<&Arc<str>>) -> bool {
    let id = id.to_string();
    patterns
        .iter()
        .any(|pattern| pattern.matches(&id) || name.is_some_and(|name| pattern.matches(name)))
}

/// Whether a pattern matches a source: its name with the filter, its name alone, or any name under
/// which the source can be counted.
fn matches_source(pattern: &Pattern, source: &str) -> bool {
    let name = source.split(':').next().unwrap_or(source);
    pattern.matches(source) || pattern.matches(name) || names_source(pattern.typed(), source)
}

/// The clock of a recording, and the span of its time that counts.
#[derive(Default)]
pub(crate) struct TimeRange {
    first: u64,
    /// Ticks per second; 0 if not known.
    frequency: u64,
    /// The accepted span, in nanoseconds since the first time stamp; `None` accepts all.
    range: Option<Range<u64>>,
}

impl TimeRange {
    /// The filter's span of time. If it has one, this reads all samples once, to find the first.
    pub(crate) fn read(source: &mut dyn SampleSource, filter: &Filter) -> Result<Self> {
        match filter.time {
            None => Ok(Self::default()),
            Some(_) => Self::since_first(source, filter),
        }
    }

    /// The filter's span of time, and when the samples begin. This reads all samples once, because
    /// they are not in order of time.
    pub(crate) fn since_first(source: &mut dyn SampleSource, filter: &Filter) -> Result<Self> {
        let frequency = source.metadata().timestamp_frequency;
        if filter.time.is_some() && frequency == 0 {
            return Err(Error::unavailable(
                "the recording does not give the rate of its clock",
                "Give no time range.",
            ));
        }
        let mut first = None;
        source.samples(&mut |samples, _| {
            first = samples.iter().map(|sample| sample.timestamp).chain(first).min();
        })?;
        let range = filter.time.map(|(from, to)| from..to);
        Ok(Self { first: first.unwrap_or(0), frequency, range })
    }

    /// Lets the time begin with the first mark if there are no samples.
    pub(crate) fn or_since_first_mark(self, recording: &Recording) -> Self {
        if recording.samples != 0 {
            return self;
        }
        let marks = recording.marked.marks.iter().map(|mark| mark.time);
        Self { first: marks.min().unwrap_or(0), ..self }
    }

    /// Whether every time is accepted.
    pub(crate) const fn is_all(&self) -> bool {
        self.range.is_none()
    }

    /// The first time stamp.
    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    /// A time stamp, in nanoseconds since the first; 0 if the clock's rate is not known.
    pub(crate) fn nanoseconds(&self, timestamp: u64) -> u64 {
        let ticks = timestamp.saturating_sub(self.first);
        nanoseconds(ticks, self.frequency).unwrap_or(0)
    }

    /// Whether the time of a time stamp is accepted.
    pub(crate) fn contains(&self, timestamp: u64) -> bool {
        let range = self.range.as_ref();
        range.is_none_or(|range| range.contains(&self.nanoseconds(timestamp)))
    }
}
