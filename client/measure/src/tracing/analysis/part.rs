//! Parts of a trace's counts, and what events counted in them.

use super::counts::{Cell, Sums, TraceCounts};
use super::lives::Process;
use crate::estimate::Estimate;
use crate::event_counts::EventCounts;
use shared_types::request::counts::Count;
use std::collections::BTreeMap;

/// Some cells of a trace: those of the shown processes, or those of one interval, thread or process
/// among them.
#[derive(Clone, Debug)]
pub struct TracePart<'a> {
    /// The trace.
    pub trace: &'a TraceCounts,
    cells: Vec<&'a Cell>,
}

impl TraceCounts {
    /// What some processes did.
    pub fn of_processes(&self, is_shown: impl Fn(&Process) -> bool) -> TracePart<'_> {
        let process_of = |cell: &Cell| &self.processes[self.threads[cell.thread].thread.process];
        let cells = self.cells.iter().filter(|cell| is_shown(process_of(cell)));
        TracePart { trace: self, cells: cells.collect() }
    }

    /// What each processor did on which something ran.
    pub fn by_processor(&self) -> BTreeMap<u32, Sums> {
        self.of_processes(|_| true).by_processor()
    }
}

impl TracePart<'_> {
    /// Whether nothing ran in it.
    pub const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// All that happened in it.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        self.cells.iter().for_each(|cell| sums.add(&cell.sums));
        sums
    }

    /// Whether its threads have all their counts.
    pub fn is_complete(&self) -> bool {
        self.cells.iter().all(|cell| self.trace.threads[cell.thread].complete)
    }

    /// Its parts, in the order of their keys.
    pub fn divided<K: Ord>(&self, key: impl Fn(&Cell) -> K) -> BTreeMap<K, Self> {
        let mut parts = BTreeMap::new();
        for &cell in &self.cells {
            let new = || Self { trace: self.trace, cells: Vec::new() };
            parts.entry(key(cell)).or_insert_with(new).cells.push(cell);
        }
        parts
    }

    /// What each processor did on which something ran.
    pub fn by_processor(&self) -> BTreeMap<u32, Sums> {
        let mut processors: BTreeMap<u32, Sums> = BTreeMap::new();
        for cell in &self.cells {
            processors.entry(cell.processor.into()).or_default().add(&cell.sums);
        }
        processors
    }

    /// What each source counted on the processors where something ran. The processors of `idle` are in the
    /// result even if nothing ran there; they have counted nothing.
    pub fn events(&self, idle: &[u32]) -> Vec<EventCounts> {
        let mut processors = self.by_processor();
        for &processor in idle {
            processors.entry(processor).or_default();
        }
        let event = |event: usize| {
            let estimate = |sums: &Sums| {
                let count = sums.counts.get(event).copied().unwrap_or(0);
                Estimate::exact(count, sums.counted_ns.into())
            };
            let by_processor = processors.iter().map(|(&number, sums)| (number, estimate(sums)));
            EventCounts { event, by_processor: by_processor.collect(), ..EventCounts::default() }
        };
        (0..self.trace.sources.len()).map(event).collect()
    }
}

/// Adds what context switches counted on each processor in a part of a session to what a snapshot of a
/// session has. The counters run all the time, so a source is never off a counter, and events outside
/// of slices are not extrapolated.
pub fn add_to_snapshot(
    snapshot: &mut [Vec<Count>],
    processors: &BTreeMap<u32, Sums>,
    elapsed_ns: u64,
) {
    for (number, counts) in (0..).zip(snapshot) {
        let sums = processors.get(&number);
        for (source, count) in counts.iter_mut().enumerate() {
            (count.enabled, count.running) = (elapsed_ns, elapsed_ns);
            let counted = sums.and_then(|sums| sums.counts.get(source)).copied().unwrap_or(0);
            let counted = u64::try_from(counted).unwrap_or(u64::MAX);
            count.counted = count.counted.saturating_add(counted);
        }
    }
}
