//! One of the 18 counters, which both threads of a package may feed.

use crate::cpu::counter::{Input, Value};
use crate::cpu::event::{Counts, Feed};
use crate::cpu::unit::Watch;

pub(super) const WIDTH: u32 = 40;

/// A counter with an input from each thread.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    value: Value,
    inputs: [Input; 2],
    /// It has just wrapped; the interrupt comes with the next count.
    due: bool,
    /// It requests the interrupt, until the overflow is acknowledged.
    raised: bool,
}

/// What happened while counting up to some point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Advance {
    pub(super) overflowed: bool,
    pub(super) interrupts: bool,
}

impl Counter {
    pub(super) fn new() -> Self {
        Self { value: Value::new(WIDTH), inputs: [Input::default(); 2], due: false, raised: false }
    }

    /// Back to the power-on state; broken bits stay broken.
    pub(super) fn reset(&mut self) {
        self.value.set(0);
        self.inputs.iter_mut().for_each(Input::reset);
        self.acknowledge();
    }

    pub(super) fn value(&self) -> u64 {
        self.value.get()
    }

    /// Sets all 40 bits; bits above them are dropped.
    pub(super) fn set(&mut self, value: u64) {
        self.value.set(value);
    }

    /// Connects the input of `thread`, or disconnects it: events before `now` are not counted.
    pub(super) fn connect(&mut self, thread: usize, feed: Option<Feed>, now: &Counts) {
        self.inputs[thread].connect(feed, now);
    }

    /// Adds what `thread` has fed up to `now`. `forced` is FORCE_OVF: every count overflows and
    /// interrupts at once.
    pub(super) fn advance(&mut self, thread: usize, now: &Counts, forced: bool) -> Advance {
        let added = self.inputs[thread].take(now);
        if added == 0 {
            return Advance::default();
        }
        let wrap = self.value.until_wrap();
        self.value.add(added);
        // The PMI comes with the next count after the wrap, which is why a driver presets -(N - 1)
        // to be interrupted by event N.
        let overflowed = forced || added >= wrap;
        let interrupts = forced || self.due || added > wrap;
        // At the wrap exactly, the count that interrupts is still to come.
        self.due = !forced && overflowed && self.value.get() == 0;
        self.raised |= interrupts;
        Advance { overflowed, interrupts }
    }

    /// Whether an overflow now requests its interrupt.
    pub(super) fn raised(&self) -> bool {
        self.raised
    }

    /// Software has cleared OVF.
    pub(super) fn acknowledge(&mut self) {
        self.due = false;
        self.raised = false;
    }

    /// When `thread` alone would cause the next interrupt.
    pub(super) fn watch(&self, thread: usize, forced: bool) -> Option<Watch> {
        let more = if forced || self.due { 1 } else { self.value.until_wrap() + 1 };
        let input = &self.inputs[thread];
        input.feed().map(|feed| Watch {
            feed,
            at: input.amount_after(more),
            span: self.value.span(),
        })
    }

    pub(super) fn parts(&mut self, visit: &mut dyn FnMut(&mut Value, &mut [Input])) {
        visit(&mut self.value, &mut self.inputs);
    }
}
