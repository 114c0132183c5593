//! Branch records joined to the events that they are of.
//!
//! Records name their event by time and thread, as stacks do, and Windows writes them after it: but
//! for equal times on two processors that is the order of the file, and nothing here relies on it.
//! All are collected first, because traces without records must not pay for each sample.

use crate::payload::branches::{Entry, LastBranches};
use std::ops::Range;

/// The records of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    /// The process that they name.
    pub process: u32,
    /// Newest first.
    pub entries: &'a [Entry],
}

#[derive(Debug)]
struct Found {
    time: i64,
    thread: u32,
    process: u32,
    processor: u16,
    is_taken: bool,
    entries: Range<usize>,
}

impl Found {
    const fn key(&self) -> (i64, u32) {
        (self.time, self.thread)
    }
}

/// The branch records of a trace.
#[derive(Debug, Default)]
pub struct BranchRecords {
    entries: Vec<Entry>,
    found: Vec<Found>,
    /// Whether `found` is in the order of times and threads.
    is_sorted: bool,
}

impl BranchRecords {
    /// Adds records that were written on `processor`.
    pub fn add(&mut self, processor: u16, records: &LastBranches<'_>) {
        let begin = self.entries.len();
        self.entries.extend(records.entries.iter());
        self.found.push(Found {
            time: records.event_time.cast_signed(),
            thread: records.thread,
            process: records.process,
            processor,
            is_taken: false,
            entries: begin..self.entries.len(),
        });
        self.is_sorted = false;
    }

    /// Takes the records of an event: those of its time and thread, preferably of its processor. All
    /// must have been added. Where two events could be meant, each gets one.
    pub fn take(&mut self, time: i64, thread: u32, processor: u16) -> Option<Records<'_>> {
        if !self.is_sorted {
            self.found.sort_by_key(Found::key);
            self.is_sorted = true;
        }
        let begin = self.found.partition_point(|found| found.key() < (time, thread));
        let same = self.found[begin..].iter_mut().take_while(|one| one.key() == (time, thread));
        let untaken = same.filter(|found| !found.is_taken);
        let found = untaken.min_by_key(|found| found.processor != processor)?;
        found.is_taken = true;
        let entries = self.entries.get(found.entries.clone())?;
        Some(Records { process: found.process, entries })
    }

    /// The process of each of the records that no event took, with the thread that they name.
    pub fn left(&self) -> impl Iterator<Item = (u32, u32)> {
        let left = self.found.iter().filter(|found| !found.is_taken);
        left.map(|found| (found.process, found.thread))
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}
