//! Exact counts of threads: the differences of the counters' values between two context switches of
//! one processor.

use super::threads::{InstanceNumber, Threads};
use crate::clock::Clock;
use std::collections::VecDeque;

/// The slices of a thread instance that have no counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// The first and the last of each processor, those without values, and those with values that
    /// cannot be.
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

/// A slice that has ended: the one after it shows whether the values at its end can be.
struct Held {
    slice: Slice,
    /// The values when it began; empty if there are none.
    values: Vec<u64>,
    /// Whether its own values cannot be.
    is_impossible: bool,
    /// Whether one of its values may be wrong.
    is_doubtful: bool,
}

#[derive(Default)]
struct Processor {
    running: Option<Running>,
    /// The slice right before it.
    held: Option<Held>,
}

/// Cuts the time of each processor into the slices of threads.
pub struct Slices {
    clock: Clock,
    processors: Vec<Processor>,
    ended: VecDeque<Slice>,
    /// The slices without counts of each thread instance, by its number.
    uncounted: Vec<Uncounted>,
    impossible: u64,
}

/// Counters wrap here: those of today's processors have 48 bits.
const WIDTH: u32 = 48;

/// More than any processor counts in a nanosecond: 64 events a cycle at 10 GHz.
const MOST_PER_NS: u64 = 640;

/// How much longer than its slice a counter may have run: what a switch itself takes, and the steps of
/// slow clocks.
const SLACK_NS: u64 = 10_000;

/// The counts between two sets of values.
enum Difference {
    Known(Vec<u64>),
    /// A set is not there.
    Missing,
    /// Values fell without a wrap, or rose by more than any processor counts.
    Impossible,
}

impl Slices {
    /// No slices yet. `clock` is that of the switches' times.
    pub const fn new(clock: Clock) -> Self {
        Self {
            clock,
            processors: Vec::new(),
            ended: VecDeque::new(),
            uncounted: Vec::new(),
            impossible: 0,
        }
    }

    /// A context switch on `processor`, with the values attached to it. Returns whether it ends a
    /// slice, which [`next_slice`](Self::next_slice) gives later. It does not where a switch before it
    /// was lost: then its time is unattributed.
    pub fn switch(
        &mut self,
        threads: &mut Threads,
        processor: u16,
        time: i64,
        (old, new): (u32, u32),
        values: impl ExactSizeIterator<Item = u64>,
    ) -> bool {
        let mut next = Running {
            thread: new,
            instance: InstanceNumber(0),
            since: time,
            values: values.collect(),
        };
        let running = self.slot(processor).running.take();
        let is_end = running.as_ref().is_some_and(|running| running.thread == old);
        match running {
            Some(running) if is_end => self.end(processor, running, &next),
            running => {
                self.slot(processor).running = running;
                self.lose(processor);
                self.uncounted(threads.current(old)).unknown += 1;
            }
        }
        next.instance = threads.current(new);
        self.slot(processor).running = Some(next);
        is_end
    }

    fn end(&mut self, processor: u16, running: Running, next: &Running) {
        let Running { instance, since, values, .. } = running;
        let difference = self.difference((since, &values), (next.since, &next.values));
        let is_impossible = matches!(difference, Difference::Impossible);
        let counts = match difference {
            Difference::Known(counts) => Some(counts),
            Difference::Missing | Difference::Impossible => None,
        };
        let (begin, end) = (since, next.since);
        let slice = Slice { instance, processor, begin, end, counts };
        let mut held = Held { slice, values, is_impossible, is_doubtful: is_impossible };
        if let Some(mut before) = self.slot(processor).held.take() {
            // If all is possible without the values between the two, these may be what is wrong. It
            // takes an impossible slice to doubt them: a doubtful one would make the next doubtful,
            // and so all that follow.
            if (before.is_impossible || is_impossible)
                && matches!(
                    self.difference((before.slice.begin, &before.values), (end, &next.values)),
                    Difference::Known(_)
                )
            {
                (before.is_doubtful, held.is_doubtful) = (true, true);
            }
            self.give(before);
        }
        self.slot(processor).held = Some(held);
    }

    fn give(&mut self, held: Held) {
        let Held { mut slice, is_doubtful, .. } = held;
        if is_doubtful {
            self.impossible += 1;
            slice.counts = None;
        }
        self.uncounted(slice.instance).unknown += u64::from(slice.counts.is_none());
        self.ended.push_back(slice);
    }

    /// The next slice that has ended. Of each processor they are in order.
    pub fn next_slice(&mut self) -> Option<Slice> {
        self.ended.pop_front()
    }

    /// The last slice of each processor, which [`next_slice`](Self::next_slice) does not give before the
    /// one after it has ended: only that one shows whether the values between the two can be.
    pub fn held(&self) -> impl Iterator<Item = &Slice> {
        self.processors.iter().filter_map(|processor| Some(&processor.held.as_ref()?.slice))
    }

    /// Gives the last slice of each processor too, unconfirmed: for whoever shows counts while they grow,
    /// because an idle processor has no next slice for long.
    pub fn give_held(&mut self) {
        let held = self.processors.iter_mut().filter_map(|processor| processor.held.take());
        for held in held.collect::<Vec<_>>() {
            self.give(held);
        }
    }

    fn difference(&self, old: (i64, &[u64]), new: (i64, &[u64])) -> Difference {
        let ((begin, old), (end, new)) = (old, new);
        if old.is_empty() || old.len() != new.len() {
            return Difference::Missing;
        }
        let ns = self.clock.ns(end).saturating_sub(self.clock.ns(begin));
        let ns = u64::try_from(ns).unwrap_or(0).saturating_add(SLACK_NS);
        let most = ns.saturating_mul(MOST_PER_NS);
        let counts = old.iter().zip(new).map(|(&old, &new)| difference(old, new));
        let counts = counts.map(|count| count.filter(|&count| count <= most));
        counts.collect::<Option<_>>().map_or(Difference::Impossible, Difference::Known)
    }

    /// A counter of a processor was changed by somebody else: the slice that runs has no count.
    pub fn corrupt(&mut self, processor: u32) {
        let processor = self.processors.get_mut(processor as usize);
        if let Some(running) = processor.and_then(|processor| processor.running.as_mut()) {
            running.values.clear();
        }
    }

    /// Events of a processor are missing, perhaps switches: the time of the slice that runs is unattributed.
    pub fn lose(&mut self, processor: u16) {
        let Processor { running, held } = std::mem::take(self.slot(processor));
        if let Some(held) = held {
            self.give(held);
        }
        if let Some(running) = running {
            self.uncounted(running.instance).lost += 1;
        }
    }

    /// The last slices, whose ends are not in the trace, become unknown.
    pub fn finish(&mut self) {
        for Processor { running, held } in std::mem::take(&mut self.processors) {
            if let Some(held) = held {
                self.give(held);
            }
            if let Some(running) = running {
                self.uncounted(running.instance).unknown += 1;
            }
        }
    }

    /// How many slices have no counts because a counter's value at one of their ends cannot be.
    pub const fn impossible(&self) -> u64 {
        self.impossible
    }

    /// The slices of an instance that have no counts.
    pub fn uncounted_of(&self, InstanceNumber(number): InstanceNumber) -> Uncounted {
        self.uncounted.get(number).copied().unwrap_or_default()
    }

    /// The number of slices whose time is unattributed because the switch at their end was lost.
    pub fn lost(&self) -> u64 {
        self.uncounted.iter().map(|instance| instance.lost).sum()
    }

    fn slot(&mut self, processor: u16) -> &mut Processor {
        let processor = usize::from(processor);
        if self.processors.len() <= processor {
            self.processors.resize_with(processor + 1, Processor::default);
        }
        &mut self.processors[processor]
    }

    fn uncounted(&mut self, InstanceNumber(number): InstanceNumber) -> &mut Uncounted {
        if self.uncounted.len() <= number {
            self.uncounted.resize_with(number + 1, Uncounted::default);
        }
        &mut self.uncounted[number]
    }
}

/// What a counter counted, if its value rose or wrapped.
fn difference(old: u64, new: u64) -> Option<u64> {
    const SPAN: u64 = 1 << WIDTH;
    let Some(fall) = old.checked_sub(new).filter(|&fall| fall > 0) else {
        return Some(new - old);
    };
    // A fall by less than half of the width is a reset, or another owner.
    (old < SPAN && fall > SPAN / 2).then(|| SPAN - fall)
}
