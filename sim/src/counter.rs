//! One counter register and its input.

use crate::event::{Counts, Feed};

/// A counter of `width` bits that adds up its feed.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    value: u64,
    width: u32,
    feed: Option<Feed>,
    /// How much of the feed has been added already.
    seen: u64,
    /// Bits that work; the others are stuck at 0.
    sound: u64,
}

impl Counter {
    pub(crate) fn new(width: u32) -> Self {
        Self {
            value: 0,
            width,
            feed: None,
            seen: 0,
            sound: u64::MAX,
        }
    }

    /// The value, in `width` bits.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// Sets the value; bits above the width are dropped.
    pub(crate) fn set(&mut self, value: u64) {
        self.value = value & self.mask() & self.sound;
    }

    /// Makes a bit stuck at 0 from now on; a bit above the width changes nothing.
    pub(crate) fn break_bit(&mut self, bit: u32) {
        self.sound &= !1_u64.checked_shl(bit).unwrap_or(0);
        self.set(self.value);
    }

    /// Back to what power-on leaves: 0 and no input; broken bits stay broken.
    pub(crate) fn reset(&mut self) {
        self.value = 0;
        self.feed = None;
        self.seen = 0;
    }

    /// All ones in `width` bits.
    pub(crate) fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// Connects the input, or disconnects it: events before `now` are not counted by it.
    pub(crate) fn connect(&mut self, feed: Option<Feed>, now: &Counts) {
        if self.feed != feed {
            self.feed = feed;
            self.seen = feed.map_or(0, |feed| feed.amount(now));
        }
    }

    /// What is connected.
    pub(crate) fn feed(&self) -> Option<Feed> {
        self.feed
    }

    /// Adds what has happened up to `now`; answers how often the value passed its top.
    pub(crate) fn advance(&mut self, now: &Counts) -> u64 {
        let Some(feed) = self.feed else { return 0 };
        let amount = feed.amount(now);
        let Some(added) = amount.checked_sub(self.seen) else {
            return 0;
        };
        self.seen = amount;
        let sum = u128::from(self.value) + u128::from(added);
        self.set(sum as u64);
        (sum >> self.width) as u64
    }

    /// How many more counts bring the value to its top and over, to 0.
    pub(crate) fn until_wrap(&self) -> u64 {
        self.mask() - self.value + 1
    }

    /// The amount of its feed at which `more` counts from now have been added.
    pub(crate) fn amount_after(&self, more: u64) -> u64 {
        self.seen.saturating_add(more)
    }
}
