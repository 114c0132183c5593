//! The counts of a trace's threads: blocks `CNTS` and `THRD`.
//!
//! A recording keeps the sums of each thread over all slices and processors. `CNTS` has everything
//! else that is known of the trace: a [`TraceCounts`] without threads.

use halprof_measure::tracing::analysis::counts::{Cell, CountedThread, Sums, TraceCounts};
use halprof_measure::tracing::analysis::lives::{Process, Thread};
use serde::{Deserialize, Serialize};

pub(super) const COUNTS: [u8; 4] = *b"CNTS";
pub(super) const THREADS: [u8; 4] = *b"THRD";

/// A row of `THRD`: a thread and what it did.
#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct ThreadSums {
    /// Its process's number, from 0 in the order of the rows: several may have one identifier.
    number: usize,
    process: Option<u32>,
    name: Option<String>,
    thread: u32,
    /// The name of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_name: Option<String>,
    started_ns: Option<u64>,
    complete: bool,
    switches: u64,
    time_ns: u64,
    counted_ns: u64,
    counts: Vec<u128>,
}

/// The threads of a trace, each with its sums.
pub(super) fn thread_sums(counts: &TraceCounts) -> Vec<ThreadSums> {
    let mut sums = vec![Sums::default(); counts.threads.len()];
    for cell in &counts.cells {
        sums[cell.thread].add(&cell.sums);
    }
    let rows = counts.threads.iter().zip(sums).map(|(counted, sums)| {
        let CountedThread { thread, complete } = counted;
        let process = &counts.processes[thread.process];
        ThreadSums {
            number: thread.process,
            process: process.id,
            name: process.name.clone(),
            thread: thread.id,
            thread_name: thread.name.clone(),
            started_ns: thread.started_ns,
            complete: *complete,
            switches: sums.switches,
            time_ns: sums.time_ns,
            counted_ns: sums.counted_ns,
            counts: sums.counts,
        }
    });
    rows.collect()
}

impl ThreadSums {
    /// Adds this thread to the counts; returns whether its process is a known one or the next. Any
    /// other number would make rows for processes that the file does not have.
    pub(super) fn add_to(self, counts: &mut TraceCounts) -> bool {
        if self.number == counts.processes.len() {
            counts.processes.push(Process { id: self.process, name: self.name });
        }
        let process = self.number;
        let thread = Thread {
            id: self.thread,
            process,
            name: self.thread_name,
            started_ns: self.started_ns,
        };
        let sums = Sums {
            switches: self.switches,
            time_ns: self.time_ns,
            counted_ns: self.counted_ns,
            counts: self.counts,
        };
        let number = counts.threads.len();
        counts.threads.push(CountedThread { thread, complete: self.complete });
        counts.cells.push(Cell { interval: 0, thread: number, processor: 0, sums });
        process < counts.processes.len()
    }
}
