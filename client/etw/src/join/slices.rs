//! Exact counts of threads: the differences of the counters' values between two context switches of
//! one processor.

use super::threads::{InstanceNumber, Threads};

/// What a thread instance did, as far as the switches say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often it was switched out.
    pub switches: u64,
    /// Its slices whose counts are known.
    pub slices: u64,
    /// Those whose counts are not: the first and the last of each processor, and those without
    /// values.
    pub unknown: u64,
    /// Its slices whose end was lost.
    pub lost: u64,
    /// The ticks of the known slices.
    pub ticks: u64,
    /// The ticks of the unknown ones, as far as both ends are in the trace.
    pub unknown_ticks: u64,
    /// The counts, in the order of the counter configuration.
    pub counts: Vec<u64>,
}

/// A thread's time on a processor between two switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The thread's instance.
    pub instance: InstanceNumber,
    /// The processor.
    pub processor: u16,
    /// When it was switched in.
    pub begin: i64,
    /// When it was switched out.
    pub end: i64,
    /// Its counts, where they are known.
    pub counts: Option<Vec<u64>>,
}

/// What runs on a processor.
struct Running {
    thread: u32,
    instance: InstanceNumber,
    since: i64,
    /// The values at that time; empty if there are none.
    values: Vec<u64>,
}

/// The counts of all threads.
#[derive(Default)]
pub struct Slices {
    /// By processor.
    running: Vec<Option<Running>>,
    counts: Vec<Counts>,
    lost: u64,
}

/// Counters wrap here: those of today's processors have 48 bits.
const WIDTH: u32 = 48;

impl Slices {
    /// A context switch on `processor`, with the values attached to it. Returns the slice that it
    /// ends, unless a switch before it was lost: then it is nobody's.
    pub fn switch(
        &mut self,
        threads: &mut Threads,
        processor: u16,
        time: i64,
        (old, new): (u32, u32),
        values: impl ExactSizeIterator<Item = u64>,
    ) -> Option<Slice> {
        let mut next = Running {
            thread: new,
            instance: InstanceNumber(0),
            since: time,
            values: values.collect(),
        };
        let slot = self.slot(processor).take();
        let slice = match slot {
            Some(running) if running.thread == old => Some(self.end(processor, &running, &next)),
            other => {
                *self.slot(processor) = other;
                self.lose(processor);
                let instance = threads.current(old);
                self.counts(instance).switches += 1;
                self.counts(instance).unknown += 1;
                None
            }
        };
        next.instance = threads.current(new);
        *self.slot(processor) = Some(next);
        slice
    }

    /// The slice between two switches, added to its thread's counts.
    fn end(&mut self, processor: u16, running: &Running, next: &Running) -> Slice {
        let counts = differences(&running.values, &next.values);
        let ticks = elapsed(running.since, next.since);
        let sums = self.counts(running.instance);
        sums.switches += 1;
        if let Some(counts) = &counts {
            sums.slices += 1;
            sums.ticks += ticks;
            sums.counts.resize(counts.len().max(sums.counts.len()), 0);
            for (sum, count) in sums.counts.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(*count);
            }
        } else {
            sums.unknown += 1;
            sums.unknown_ticks += ticks;
        }
        Slice {
            instance: running.instance,
            processor,
            begin: running.since,
            end: next.since,
            counts,
        }
    }

    /// A counter of a processor was changed by somebody else: the slice that runs has no count.
    pub fn corrupt(&mut self, processor: u32) {
        let running = self.running.get_mut(processor as usize);
        if let Some(running) = running.and_then(Option::as_mut) {
            running.values.clear();
        }
    }

    /// Events of a processor are missing, perhaps switches: the slice that runs is nobody's.
    pub fn lose(&mut self, processor: u16) {
        if let Some(running) = self.slot(processor).take() {
            self.lost += 1;
            self.counts(running.instance).lost += 1;
        }
    }

    /// The last slices, whose ends are not in the trace, become unknown.
    pub fn finish(&mut self) {
        for running in std::mem::take(&mut self.running).into_iter().flatten() {
            self.counts(running.instance).unknown += 1;
        }
    }

    /// The counts by the number of their instances; those of later instances may be missing.
    pub fn by_instance(&self) -> &[Counts] {
        &self.counts
    }

    /// Slices that belong to nobody because the switch at their end was lost.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    fn slot(&mut self, processor: u16) -> &mut Option<Running> {
        let processor = usize::from(processor);
        if self.running.len() <= processor {
            self.running.resize_with(processor + 1, || None);
        }
        &mut self.running[processor]
    }

    fn counts(&mut self, InstanceNumber(number): InstanceNumber) -> &mut Counts {
        if self.counts.len() <= number {
            self.counts.resize_with(number + 1, Counts::default);
        }
        &mut self.counts[number]
    }
}

fn elapsed(begin: i64, end: i64) -> u64 {
    u64::try_from(end.saturating_sub(begin)).unwrap_or(0)
}

/// The counts between two sets of values, if both are there and no counter was reset.
fn differences(old: &[u64], new: &[u64]) -> Option<Vec<u64>> {
    if old.is_empty() || old.len() != new.len() {
        return None;
    }
    let pairs = old.iter().zip(new);
    pairs.map(|(&old, &new)| difference(old, new)).collect()
}

fn difference(old: u64, new: u64) -> Option<u64> {
    const SPAN: u64 = 1 << WIDTH;
    let Some(fall) = old.checked_sub(new).filter(|&fall| fall > 0) else {
        return Some(new - old);
    };
    // A fall by less than half of the width is a reset, or another owner.
    (old < SPAN && fall > SPAN / 2).then(|| SPAN - fall)
}
