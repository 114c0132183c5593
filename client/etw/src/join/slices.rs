//! Exact counts of threads: the differences of the counters' values between two context switches of
//! one processor.

use super::threads::{InstanceNumber, Threads};

/// The slices of a thread instance that have no counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// The first and the last of each processor, and those without values.
    pub unknown: u64,
    /// The slices whose end was lost.
    pub lost: u64,
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

/// Cuts the time of each processor into the slices of threads.
#[derive(Default)]
pub struct Slices {
    /// The slice that runs on each processor.
    running: Vec<Option<Running>>,
    /// The slices without counts of each thread instance, by its number.
    uncounted: Vec<Uncounted>,
}

/// Counters wrap here: those of today's processors have 48 bits.
const WIDTH: u32 = 48;

impl Slices {
    /// A context switch on `processor`, with the values attached to it. Returns the slice that it
    /// ends, unless a switch before it was lost: then its time is unattributed.
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
                self.uncounted(threads.current(old)).unknown += 1;
                None
            }
        };
        next.instance = threads.current(new);
        *self.slot(processor) = Some(next);
        slice
    }

    fn end(&mut self, processor: u16, running: &Running, next: &Running) -> Slice {
        let counts = differences(&running.values, &next.values);
        self.uncounted(running.instance).unknown += u64::from(counts.is_none());
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

    /// Events of a processor are missing, perhaps switches: the time of the slice that runs is unattributed.
    pub fn lose(&mut self, processor: u16) {
        if let Some(running) = self.slot(processor).take() {
            self.uncounted(running.instance).lost += 1;
        }
    }

    /// The last slices, whose ends are not in the trace, become unknown.
    pub fn finish(&mut self) {
        for running in std::mem::take(&mut self.running).into_iter().flatten() {
            self.uncounted(running.instance).unknown += 1;
        }
    }

    /// The slices of an instance that have no counts.
    pub fn uncounted_of(&self, InstanceNumber(number): InstanceNumber) -> Uncounted {
        self.uncounted.get(number).copied().unwrap_or_default()
    }

    /// The number of slices whose time is unattributed because the switch at their end was lost.
    pub fn lost(&self) -> u64 {
        self.uncounted.iter().map(|instance| instance.lost).sum()
    }

    fn slot(&mut self, processor: u16) -> &mut Option<Running> {
        let processor = usize::from(processor);
        if self.running.len() <= processor {
            self.running.resize_with(processor + 1, || None);
        }
        &mut self.running[processor]
    }

    fn uncounted(&mut self, InstanceNumber(number): InstanceNumber) -> &mut Uncounted {
        if self.uncounted.len() <= number {
            self.uncounted.resize_with(number + 1, Uncounted::default);
        }
        &mut self.uncounted[number]
    }
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
