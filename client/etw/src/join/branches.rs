//! Joins branch records to their events.
//!
//! Records name their event by time and thread, as stacks do. Windows writes them after the event, but
//! nothing here relies on that order, because equal times on two processors can change it. All records
//! are collected first, so that samples cost nothing more in traces without records.

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
    /// 0 until an event has taken them; then how far on the next records may be that are not taken.
    taken: usize,
    entries: Range<usize>,
}

impl Found {
    const fn key(&self) -> (i64, u32, u16) {
        (self.time, self.thread, self.processor)
    }
}

/// The branch records of a trace.
#[derive(Debug, Default)]
pub struct BranchRecords {
    entries: Vec<Entry>,
    found: Vec<Found>,
    /// Whether `found` is in the order of times, threads and processors.
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
            taken: 0,
            entries: begin..self.entries.len(),
        });
        self.is_sorted = false;
    }

    /// Takes the records with the time and the thread of an event, preferably from its processor. All
    /// records must have been added before. If two events have the same time and thread, each gets
    /// records of its own.
    pub fn take(&mut self, time: i64, thread: u32, processor: u16) -> Option<Records<'_>> {
        if !self.is_sorted {
            self.found.sort_by_key(Found::key);
            self.is_sorted = true;
        }
        let at = self
            .untaken(time, thread, processor)
            .filter(|&at| self.found[at].processor == processor)
            .or_else(|| self.untaken(time, thread, 0))?;
        let found = &mut self.found[at];
        found.taken = 1;
        let entries = self.entries.get(found.entries.clone())?;
        Some(Records { process: found.process, entries })
    }

    /// The first records of this time and thread, from this processor on, that no event has taken.
    ///
    /// Each jump over taken ones is lengthened by the next (path halving, as in a union-find): a trace may
    /// give a million records one time and thread, and one look at all of them for each event would have
    /// no end.
    fn untaken(&mut self, time: i64, thread: u32, processor: u16) -> Option<usize> {
        let mut at = self.found.partition_point(|found| found.key() < (time, thread, processor));
        loop {
            let found = self.found.get(at)?;
            if found.taken == 0 {
                return Some(at).filter(|_| (found.time, found.thread) == (time, thread));
            }
            let further =
                found.taken + self.found.get(at + found.taken).map_or(0, |next| next.taken);
            self.found[at].taken = further;
            at += further;
        }
    }

    /// The process of each of the records that no event took, with the thread that they name.
    pub fn left(&self) -> impl Iterator<Item = (u32, u32)> {
        let left = self.found.iter().filter(|found| found.taken == 0);
        left.map(|found| (found.process, found.thread))
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}
