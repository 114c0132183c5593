//! Exact counts of threads, from a trace whose context switches carry the values of counters.
//!
//! Between two switches of a processor one thread runs there. The difference of the values is what
//! happened in that *slice*, including interrupts and deferred calls during it. It is not known
//! what ran before the first switch of a processor, after its last one, or where a switch was lost.
//! Values belong to the counters of one processor, and are never subtracted across processors.

use super::lives::{Lives, Process, Thread, between};
use crate::error::{Error, Result};
use crate::tracing::etl::{self, Etl};
use halprof_etw::join::slices::{Slice, Slices, Uncounted};
use halprof_etw::join::threads::InstanceNumber;
use halprof_etw::payload::processor::Switch;
use halprof_etw::{Clock, Event, EventKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

/// How a trace must be recorded.
const RECORD: &str = "Record one with `xperf -on PROC_THREAD+LOADER+CSWITCH -pmc InstructionRetired,TotalCycles CSWITCH strict`, and end it with `xperf -d FILE`; `xperf -pmcsources` lists what can be counted.";

/// Which slices to count, and how finely.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only slices on these processors; empty for all.
    pub processors: Vec<u32>,
    /// The length of the intervals into which counts are divided, if any. A slice belongs to the
    /// interval in which it ends, because its counts are known only then.
    pub interval_ns: Option<NonZeroU64>,
}

/// The counts of all threads of a trace. The serialized form has everything except the threads.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct TraceCounts {
    /// The system that wrote it, such as `Windows 11 (10.0.22631)`.
    pub system: String,
    /// Whether that is a modelled machine.
    #[serde(skip)]
    pub is_modelled: bool,
    /// What was counted, by the trace's names.
    pub sources: Vec<String>,
    /// How many processors the system has.
    pub processor_count: u32,
    /// The processors whose slices are counted.
    pub processors: Vec<u32>,
    /// The time from the trace's beginning to its last event.
    pub elapsed_ns: u64,
    /// The processes that have threads here.
    #[serde(skip)]
    pub processes: Vec<Process>,
    /// The thread instances that ran here.
    #[serde(skip)]
    pub threads: Vec<CountedThread>,
    /// What each did on each processor in each interval, in this order: interval, thread, processor.
    #[serde(skip)]
    pub cells: Vec<Cell>,
    /// The time of the processors that is unattributed.
    pub unknown: Unknown,
    /// Events of any kind that the session lost.
    pub lost_events: u64,
    /// Buffers that it lost, whatever they held.
    pub lost_buffers: u64,
    /// What could not be read, each as the end of a sentence.
    pub damage: Vec<String>,
    /// Remarks on what looks like a loss but is not, each a sentence.
    #[serde(skip)]
    pub remarks: Vec<String>,
    /// Which counts may be wrong, each as a sentence.
    pub doubts: Vec<String>,
}

/// A thread, and whether its counts are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedThread {
    /// The thread.
    pub thread: Thread,
    /// Whether all its slices have counts: none was cut by the trace's ends or by a lost switch, or
    /// had no values.
    pub complete: bool,
}

/// What a thread did on a processor in an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The number of the interval from 0; always 0 without intervals.
    pub interval: u64,
    /// The index of the thread.
    pub thread: usize,
    /// The number of the processor.
    pub processor: u16,
    /// What it did.
    pub sums: Sums,
}

/// Sums over slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// How often it was switched out.
    pub switches: u64,
    /// Its time on processors.
    pub time_ns: u64,
    /// The part of it whose counts are known.
    pub counted_ns: u64,
    /// The counts, in the order of the sources.
    pub counts: Vec<u128>,
}

/// Time of processors that is attributed to no thread.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Unknown {
    /// Before the first switch of each processor; for a processor without switches, all of its
    /// time.
    pub before_first_ns: u64,
    /// After the last one.
    pub after_last_ns: u64,
    /// The time of slices whose end was lost.
    pub lost_ns: u64,
    /// The number of lost switches.
    pub lost_switches: u64,
    /// Slices that belong to a thread, but have no counts: a switch at one of their ends has no
    /// values or impossible ones, or somebody else changed a counter.
    pub slices_without_counts: u64,
}

impl Unknown {
    /// The sum of the three times.
    pub const fn total_ns(&self) -> u64 {
        self.before_first_ns.saturating_add(self.after_last_ns).saturating_add(self.lost_ns)
    }

    /// Adds that of another trace.
    pub const fn add(&mut self, other: &Self) {
        self.before_first_ns = self.before_first_ns.saturating_add(other.before_first_ns);
        self.after_last_ns = self.after_last_ns.saturating_add(other.after_last_ns);
        self.lost_ns = self.lost_ns.saturating_add(other.lost_ns);
        self.lost_switches = self.lost_switches.saturating_add(other.lost_switches);
        let slices = self.slices_without_counts.saturating_add(other.slices_without_counts);
        self.slices_without_counts = slices;
    }
}

impl Sums {
    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.switches = self.switches.saturating_add(other.switches);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.counted_ns = self.counted_ns.saturating_add(other.counted_ns);
        self.add_counts(other.counts.iter().copied());
    }

    fn add_counts(&mut self, counts: impl ExactSizeIterator<Item = u128>) {
        self.counts.resize(self.counts.len().max(counts.len()), 0);
        for (sum, count) in self.counts.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
    }

    fn add_slice(&mut self, slice: &Slice, time_ns: u64) {
        self.switches += 1;
        self.time_ns = self.time_ns.saturating_add(time_ns);
        if let Some(counts) = &slice.counts {
            self.counted_ns = self.counted_ns.saturating_add(time_ns);
            self.add_counts(counts.iter().copied().map(u128::from));
        }
    }
}

impl TraceCounts {
    /// Reads a trace. One without counter values at its context switches is refused.
    pub fn read(path: &Path, query: &Query) -> Result<Self> {
        let mut trace = etl::open(path)?;
        let mut counter = Counter::new(query, trace.clock(), trace.header().processors);
        while let Some(event) = trace.next_event().map_err(|error| Error::reading(path, error))? {
            counter.event(&event);
        }
        let facts = TraceFacts::of(&trace);
        counter.finish(facts).map_err(|why| Error::bad_file(path, why, RECORD))
    }
}

/// What the switches of one processor span.
#[derive(Clone)]
struct Span {
    first: i64,
    last: i64,
    /// The time of its slices.
    known_ns: u64,
    /// The counts of its first and its last slice, and their time.
    edges: [Option<(Vec<u64>, u64)>; 2],
}

/// The first or the last slice of a processor may have counted this many times what all other
/// slices counted. No third value confirms the one at its outer end, so only such a ratio shows
/// that it is wrong.
const MOST_AT_EDGE: u128 = 9;

/// What is known of a trace besides its events.
#[derive(Clone, Debug, Default)]
pub struct TraceFacts {
    /// As [`TraceCounts::system`].
    pub system: String,
    /// As [`TraceCounts::is_modelled`].
    pub is_modelled: bool,
    /// As [`TraceCounts::lost_events`].
    pub lost_events: u64,
    /// As [`TraceCounts::lost_buffers`].
    pub lost_buffers: u64,
    /// As [`TraceCounts::damage`].
    pub damage: Vec<String>,
    /// As [`TraceCounts::remarks`].
    pub remarks: Vec<String>,
}

impl TraceFacts {
    /// What a file says, after its last event.
    pub fn of(trace: &Etl) -> Self {
        let (header, losses) = (trace.header(), trace.losses());
        Self {
            system: etl::system(header),
            is_modelled: etl::is_modelled(header),
            lost_events: losses.lost_events(),
            lost_buffers: losses.lost_buffers(),
            damage: etl::damage(trace),
            remarks: etl::remarks(trace),
        }
    }
}

type Cells = BTreeMap<(u64, usize, u16), Sums>;

/// Counts while somebody reads a trace, or while events are delivered.
pub struct Counter<'a> {
    query: &'a Query,
    clock: Clock,
    processor_count: u32,
    names: Option<Vec<String>>,
    /// Whether counters are configured again, for other sources.
    is_reconfigured: bool,
    lives: Lives,
    slices: Slices,
    spans: BTreeMap<u16, Span>,
    cells: Cells,
    /// What has been taken of them.
    taken: Cells,
    slices_without_counts: u64,
    end: i64,
}

impl<'a> Counter<'a> {
    /// Counts nothing yet.
    pub fn new(query: &'a Query, clock: Clock, processor_count: u32) -> Self {
        Self {
            query,
            clock,
            processor_count,
            names: None,
            is_reconfigured: false,
            lives: Lives::default(),
            slices: Slices::new(clock),
            spans: BTreeMap::new(),
            cells: Cells::new(),
            taken: Cells::new(),
            slices_without_counts: 0,
            end: clock.origin(),
        }
    }

    /// Reads an event.
    pub fn event(&mut self, event: &Event<'_>) {
        self.end = self.end.max(event.time);
        if event.is_after_gap {
            self.slices.lose(event.processor);
        }
        match &event.kind {
            EventKind::Switch(switch) => self.switch(event, switch),
            EventKind::CounterNames(names) => match &self.names {
                None => self.names = Some(names.names.clone()),
                Some(known) => self.is_reconfigured |= *known != names.names,
            },
            EventKind::Corruption(corruption) => self.slices.corrupt(corruption.processor),
            _ => {}
        }
        self.lives.event(event);
    }

    fn switch(&mut self, event: &Event<'_>, switch: &Switch) {
        let processors = &self.query.processors;
        if !processors.is_empty() && !processors.contains(&event.processor.into()) {
            return;
        }
        let pair = (switch.old_thread, switch.new_thread);
        let values = event.counters.iter();
        let is_end =
            self.slices.switch(&mut self.lives.threads, event.processor, event.time, pair, values);
        let new =
            Span { first: event.time, last: event.time, known_ns: 0, edges: [const { None }; 2] };
        let span = self.spans.entry(event.processor).or_insert(new);
        span.last = event.time;
        let interval = self.interval(event.time);
        // Even if this slice has no end in the trace, the thread ran: it gets a row.
        let InstanceNumber(thread) = self.lives.threads.current(switch.new_thread);
        self.cells.entry((interval, thread, event.processor)).or_default();
        if !is_end {
            // This switch ends a slice that began before the trace, or whose beginning was lost.
            let InstanceNumber(thread) = self.lives.threads.current(switch.old_thread);
            self.cells.entry((interval, thread, event.processor)).or_default().switches += 1;
        }
        self.add_slices();
    }

    fn interval(&self, time: i64) -> u64 {
        let ns = between(self.clock, self.clock.origin(), time);
        self.query.interval_ns.map_or(0, |length| ns / length)
    }

    /// Adds the slices whose counts are decided.
    fn add_slices(&mut self) {
        while let Some(slice) = self.slices.next_slice() {
            let time_ns = between(self.clock, slice.begin, slice.end);
            if let Some(span) = self.spans.get_mut(&slice.processor) {
                span.known_ns = span.known_ns.saturating_add(time_ns);
                let edge = slice.counts.clone().map(|counts| (counts, time_ns));
                if span.edges[0].is_none() {
                    span.edges[0].clone_from(&edge);
                }
                span.edges[1] = edge;
            }
            self.slices_without_counts += u64::from(slice.counts.is_none());
            let InstanceNumber(thread) = slice.instance;
            let interval = self.interval(slice.end);
            let sums = self.cells.entry((interval, thread, slice.processor)).or_default();
            sums.add_slice(&slice, time_ns);
        }
    }

    fn lacks(&self) -> Option<&'static str> {
        if self.is_reconfigured {
            return Some("configures its counters twice, for different sources");
        }
        if self.spans.is_empty() {
            return Some("has no context switches, so counts per thread are unknown");
        }
        let mut all = self.cells.values().chain(self.taken.values());
        let has_counts = all.any(|sums| !sums.counts.is_empty());
        (!has_counts).then_some("has no values of counters at its context switches")
    }

    /// How many threads are known by now: what is kept of them grows.
    pub fn threads(&self) -> usize {
        self.lives.threads.instances().len()
    }

    /// What has been counted since the last time. Slices that have ended are counted even if no later
    /// one has confirmed their counters' values.
    pub fn take(&mut self, facts: TraceFacts) -> TraceCounts {
        self.slices.give_held();
        self.add_slices();
        let cells = std::mem::take(&mut self.cells);
        for (&key, sums) in &cells {
            self.taken.entry(key).or_default().add(sums);
        }
        self.counts(cells, facts)
    }

    /// The counts, after the last event of the trace.
    ///
    /// # Errors
    /// What the trace lacks to count by it, as the end of a sentence.
    pub fn finish(mut self, facts: TraceFacts) -> std::result::Result<TraceCounts, &'static str> {
        self.slices.finish();
        self.add_slices();
        if let Some(why) = self.lacks() {
            return Err(why);
        }
        for (key, sums) in std::mem::take(&mut self.taken) {
            self.cells.entry(key).or_default().add(&sums);
        }
        let cells = std::mem::take(&mut self.cells);
        let doubts = self.doubts(&cells);
        Ok(TraceCounts { doubts, ..self.counts(cells, facts) })
    }

    fn counts(&self, cells: Cells, facts: TraceFacts) -> TraceCounts {
        let (processes, threads) = self.lives.named(self.clock);
        let mut counts = TraceCounts {
            processor_count: self.processor_count,
            processors: self.processors(),
            elapsed_ns: between(self.clock, self.clock.origin(), self.end),
            unknown: self.unknown(),
            sources: self.names.clone().unwrap_or_default(),
            processes,
            threads: self.counted(threads),
            damage: self.damage(facts.damage),
            system: facts.system,
            is_modelled: facts.is_modelled,
            lost_events: facts.lost_events,
            lost_buffers: facts.lost_buffers,
            remarks: facts.remarks,
            ..TraceCounts::default()
        };
        let values = cells.values().map(|sums| sums.counts.len()).max().unwrap_or(0);
        for number in counts.sources.len()..values {
            counts.sources.push(format!("counter {number}"));
        }
        let cells = cells.into_iter();
        counts.cells = cells
            .map(|((interval, thread, processor), mut sums)| {
                sums.counts.resize(counts.sources.len(), 0);
                Cell { interval, thread, processor, sums }
            })
            .collect();
        counts
    }

    /// What could not be read, and the impossible values.
    fn damage(&self, of_trace: Vec<String>) -> Vec<String> {
        let damage = of_trace.into_iter();
        let slices = Some(self.slices.impossible()).filter(|&slices| slices != 0);
        let impossible = slices.map(|slices| {
            format!("values that no counter can have; slices without counts for them: {slices}")
        });
        damage.chain(impossible).collect()
    }

    /// The counts that rest on one slice whose outer value nothing confirms.
    fn doubts(&self, cells: &Cells) -> Vec<String> {
        let mut all = Sums::default();
        for sums in cells.values() {
            all.add(sums);
        }
        let edges = self.spans.values().flat_map(|span| span.edges.iter().flatten());
        let mut doubts = BTreeMap::new();
        for (counts, time_ns) in edges {
            // In a short trace, one slice may rightly have most of the counts.
            let is_short = time_ns.saturating_mul(10) < all.counted_ns;
            for (source, (&count, &sum)) in counts.iter().zip(&all.counts).enumerate() {
                let count = u128::from(count);
                let others = sum.saturating_sub(count);
                if is_short && count > others.saturating_mul(MOST_AT_EDGE).max(1) {
                    doubts.insert(source, count * 100 / sum.max(1));
                }
            }
        }
        let names = self.names.as_deref().unwrap_or_default();
        let doubt = |(source, percent): (usize, u128)| {
            let name = names.get(source).map_or("a counter", String::as_str);
            format!(
                "{percent} % of {name} is in one slice, at an end of the trace, where nothing confirms \
                 the counter's value: the count may be far too large"
            )
        };
        doubts.into_iter().map(doubt).collect()
    }

    /// The processors whose slices are counted: those of the header, and any that has switches.
    fn processors(&self) -> Vec<u32> {
        if !self.query.processors.is_empty() {
            return self.query.processors.clone();
        }
        // A number that a damaged header claims is no reason to take memory.
        let claimed = 0..self.processor_count.min(u16::MAX.into());
        let beyond = self.spans.keys().copied().map(u32::from);
        let beyond = beyond.filter(|&number| number >= claimed.end);
        claimed.clone().chain(beyond).collect()
    }

    /// Which threads have all their counts.
    fn counted(&self, threads: Vec<Thread>) -> Vec<CountedThread> {
        let threads = threads.into_iter().enumerate().map(|(number, thread)| {
            let uncounted = self.slices.uncounted_of(InstanceNumber(number));
            CountedThread { thread, complete: uncounted == Uncounted::default() }
        });
        threads.collect()
    }

    fn unknown(&self) -> Unknown {
        let lost_switches = self.slices.lost();
        let slices_without_counts = self.slices_without_counts;
        let mut unknown = Unknown { lost_switches, slices_without_counts, ..Unknown::default() };
        let (origin, clock) = (self.clock.origin(), self.clock);
        for processor in self.processors() {
            let span = u16::try_from(processor).ok().and_then(|number| self.spans.get(&number));
            let (first, last, known_ns) =
                span.map_or((self.end, self.end, 0), |span| (span.first, span.last, span.known_ns));
            unknown.add(&Unknown {
                before_first_ns: between(clock, origin, first),
                after_last_ns: between(clock, last, self.end),
                lost_ns: between(clock, first, last).saturating_sub(known_ns),
                ..Unknown::default()
            });
        }
        unknown
    }
}
