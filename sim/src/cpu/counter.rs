//! One counter register and its input.

use crate::cpu::event::{Counts, Feed};
use crate::quirks::LATE_STOP;

/// The contents of a counter of `width` bits, of which broken ones are stuck at 0.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    bits: u64,
    width: u32,
    /// Bits that work.
    sound: u64,
    /// Counts left to the wrap when the value was last set: what quirks take for the period.
    span: u64,
}

impl Value {
    pub(crate) fn new(width: u32) -> Self {
        Self { bits: 0, width, sound: u64::MAX, span: 0 }
    }

    pub(crate) fn get(&self) -> u64 {
        self.bits
    }

    /// Sets the value; bits above the width are dropped.
    pub(crate) fn set(&mut self, value: u64) {
        self.hold(value);
        self.span = self.until_wrap();
    }

    fn hold(&mut self, value: u64) {
        self.bits = value & self.mask() & self.sound;
    }

    /// Counts left to the wrap when the value was last set.
    pub(crate) fn span(&self) -> u64 {
        self.span
    }

    /// Adds `added`; returns how often the value wrapped.
    pub(crate) fn add(&mut self, added: u64) -> u64 {
        // The sum has 128 bits, because a counter of 64 may wrap within one step.
        let sum = u128::from(self.bits) + u128::from(added);
        self.hold(sum as u64);
        (sum >> self.width) as u64
    }

    /// Makes a bit stuck at 0 from now on; a bit above the width changes nothing.
    pub(crate) fn break_bit(&mut self, bit: u32) {
        self.sound &= !1_u64.checked_shl(bit).unwrap_or(0);
        self.hold(self.bits);
    }

    /// All ones in the counter's width.
    pub(crate) fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// Counts until the value wraps to 0.
    pub(crate) fn until_wrap(&self) -> u64 {
        (self.mask() - self.bits).saturating_add(1)
    }
}

/// What feeds a counter, and how much of it has already been added.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Input {
    feed: Option<Feed>,
    /// The highest amount of the feed so far.
    seen: u64,
    /// Whether it stops [`LATE_STOP`] events late.
    stops_late: bool,
    /// The feed that it is about to stop counting.
    ending: Option<Ending>,
}

/// A feed that is disconnected but still counts a few events.
#[derive(Clone, Copy, Debug)]
struct Ending {
    feed: Feed,
    seen: u64,
    left: u64,
}

impl Ending {
    fn take(&mut self, now: &Counts) -> u64 {
        let amount = self.feed.amount(now);
        let added = amount.saturating_sub(self.seen).min(self.left);
        self.seen = amount;
        self.left -= added;
        added
    }
}

impl Input {
    /// Connects the feed, or disconnects it: events before `now` are not counted. A feed that
    /// counts in no mode is treated as none.
    pub(crate) fn connect(&mut self, feed: Option<Feed>, now: &Counts) {
        let feed = feed.filter(|feed| feed.user || feed.kernel);
        // A select rewritten with its own value keeps `seen`, which may be above the present
        // amount.
        if self.feed != feed {
            // Only a stop is late: a new feed takes over the input at once.
            let stopped = self.feed.filter(|_| self.stops_late && feed.is_none());
            self.ending =
                stopped.map(|feed| Ending { feed, seen: feed.amount(now), left: LATE_STOP });
            self.seen = feed.map_or(0, |feed| feed.amount(now));
            self.feed = feed;
        }
    }

    pub(crate) fn stop_late(&mut self) {
        self.stops_late = true;
    }

    /// Back to nothing connected.
    pub(crate) fn reset(&mut self) {
        *self = Self { stops_late: self.stops_late, ..Self::default() };
    }

    /// The events since the last call, up to `now`; nothing while an amount that has fallen has not
    /// risen to its highest again.
    pub(crate) fn take(&mut self, now: &Counts) -> u64 {
        let amount = self.feed.map_or(0, |feed| feed.amount(now));
        let added = amount.saturating_sub(self.seen);
        self.seen += added;
        added + self.ending.as_mut().map_or(0, |ending| ending.take(now))
    }

    pub(crate) fn feed(&self) -> Option<Feed> {
        self.feed
    }

    /// The amount of its feed at which `more` further counts have been added.
    pub(crate) fn amount_after(&self, more: u64) -> u64 {
        self.seen.saturating_add(more)
    }

    /// Takes `now` as the state of all events, whatever it was before; adds nothing.
    pub(crate) fn count_from(&mut self, now: &Counts) {
        self.seen = self.feed.map_or(0, |feed| feed.amount(now));
        if let Some(ending) = &mut self.ending {
            ending.seen = ending.feed.amount(now);
        }
    }
}

/// A counter that accumulates one input.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    value: Value,
    input: Input,
}

impl Counter {
    pub(crate) fn new(width: u32) -> Self {
        Self { value: Value::new(width), input: Input::default() }
    }

    pub(crate) fn value(&self) -> u64 {
        self.value.get()
    }

    pub(crate) fn set(&mut self, value: u64) {
        self.value.set(value);
    }

    /// A write through IA32_PMCx: sets the low 32 bits, and copies bit 31 into those above (SDM
    /// vol. 3, "Full-Width Writes to Performance Counter Registers").
    pub(crate) fn set_extended(&mut self, value: u64) {
        self.set(i64::from((value as u32).cast_signed()).cast_unsigned());
    }

    /// Back to the power-on state: 0 and no input; broken bits stay broken.
    pub(crate) fn reset(&mut self) {
        self.value.set(0);
        self.input.reset();
    }

    pub(crate) fn span(&self) -> u64 {
        self.value.span()
    }

    pub(crate) fn mask(&self) -> u64 {
        self.value.mask()
    }

    /// Connects the input, or disconnects it: the counter does not count events before `now`.
    pub(crate) fn connect(&mut self, feed: Option<Feed>, now: &Counts) {
        self.input.connect(feed, now);
    }

    pub(crate) fn feed(&self) -> Option<Feed> {
        self.input.feed()
    }

    /// Adds what has happened up to `now`; returns how often the value wrapped.
    pub(crate) fn advance(&mut self, now: &Counts) -> u64 {
        self.value.add(self.input.take(now))
    }

    /// Adds what is not of its input; returns how often the value wrapped.
    pub(crate) fn add(&mut self, events: u64) -> u64 {
        self.value.add(events)
    }

    /// The amount of its feed at which the value next wraps.
    pub(crate) fn amount_at_wrap(&self) -> u64 {
        self.input.amount_after(self.value.until_wrap())
    }

    pub(crate) fn parts(&mut self, visit: &mut dyn FnMut(&mut Value, &mut [Input])) {
        visit(&mut self.value, std::slice::from_mut(&mut self.input));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::event::{Compare, Event, Threads};

    /// Counts with these cycles and instructions.
    fn after(cycles: u64, instructions: u64) -> Counts {
        let mut counts = Counts::default();
        counts.set(Event::Cycles, cycles, 0);
        counts.set(Event::Instructions, instructions, 0);
        counts
    }

    #[test]
    fn an_amount_that_falls_is_held_until_it_is_passed_again() {
        let feed = Feed {
            event: Event::Instructions,
            user: true,
            kernel: true,
            compare: Compare::Below(1),
            threads: Threads::Own,
        };
        let mut counter = Counter::new(40);
        counter.connect(Some(feed), &after(0, 0));
        for (cycles, instructions, value) in [(10, 0, 10), (10, 12, 10), (13, 12, 10), (14, 12, 11)]
        {
            assert_eq!(counter.advance(&after(cycles, instructions)), 0);
            assert_eq!(counter.value(), value, "{cycles} cycles");
        }
        assert_eq!(counter.amount_at_wrap(), 1 << 40);
    }
}
