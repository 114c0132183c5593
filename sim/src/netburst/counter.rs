//! One of the 18 counters, which both threads of a package may feed.

use crate::event::{Counts, Feed};
use crate::unit::Watch;

/// The width in bits.
pub(super) const WIDTH: u32 = 40;
const MASK: u64 = (1 << WIDTH) - 1;

/// A counter with an input from each thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    value: u64,
    inputs: [Input; 2],
    /// It has just passed its top; the interrupt comes with the next count.
    due: bool,
    /// It asks for the interrupt, until the overflow is acknowledged.
    raised: bool,
}

/// What one thread feeds, and how much of it has been added already.
#[derive(Clone, Copy, Debug, Default)]
struct Input {
    feed: Option<Feed>,
    seen: u64,
}

/// What a stretch of counting did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Advance {
    pub(super) overflowed: bool,
    pub(super) interrupts: bool,
}

impl Counter {
    pub(super) fn value(&self) -> u64 {
        self.value
    }

    /// Sets all 40 bits; bits above them are dropped.
    pub(super) fn set(&mut self, value: u64) {
        self.value = value & MASK;
    }

    /// Connects the input of `thread`, or disconnects it: events before `now` do not count.
    pub(super) fn connect(&mut self, thread: usize, feed: Option<Feed>, now: &Counts) {
        let input = &mut self.inputs[thread];
        if input.feed != feed {
            let seen = feed.map_or(0, |feed| feed.amount(now));
            *input = Input { feed, seen };
        }
    }

    /// Adds what `thread` has fed up to `now`. `forced` is FORCE_OVF: every count overflows and
    /// interrupts at once.
    pub(super) fn advance(&mut self, thread: usize, now: &Counts, forced: bool) -> Advance {
        let added = self.inputs[thread].take(now);
        if added == 0 {
            return Advance::default();
        }
        let wrap = self.until_wrap();
        self.value = self.value.wrapping_add(added) & MASK;
        let overflowed = forced || added >= wrap;
        let interrupts = forced || self.due || added > wrap;
        self.due = !forced && overflowed && self.value == 0;
        self.raised |= interrupts;
        Advance {
            overflowed,
            interrupts,
        }
    }

    /// Whether the overflow has come to ask for its interrupt.
    pub(super) fn raised(&self) -> bool {
        self.raised
    }

    /// Software has cleared OVF.
    pub(super) fn acknowledge(&mut self) {
        self.due = false;
        self.raised = false;
    }

    /// When `thread` alone would bring the next interrupt.
    pub(super) fn watch(&self, thread: usize, forced: bool) -> Option<Watch> {
        let Input { feed, seen } = self.inputs[thread];
        let more = if forced || self.due {
            1
        } else {
            self.until_wrap() + 1
        };
        feed.map(|feed| Watch {
            feed,
            at: seen.saturating_add(more),
        })
    }

    fn until_wrap(&self) -> u64 {
        MASK - self.value + 1
    }
}

impl Input {
    fn take(&mut self, now: &Counts) -> u64 {
        let amount = self.feed.map_or(0, |feed| feed.amount(now));
        let added = amount.saturating_sub(self.seen);
        self.seen += added;
        added
    }
}
