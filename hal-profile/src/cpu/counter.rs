//! Counters: identity, width, and the arithmetic of presets.

use zerocopy::FromZeros;

/// The most counters of one processor, general and fixed.
pub const MAX_COUNTERS: usize = 32;

/// A counter of one processor: its bit number in the global registers, where general counters start
/// at bit 0 and fixed-function counters at bit 32.
///
/// Every value is below 64; no other can be constructed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromZeros)]
pub struct Counter(u8);

impl Counter {
    const FIXED: u8 = 32;
    pub const FIRST: Self = Self(0);

    /// The general counter of this index; `None` from 32 on.
    pub const fn general(index: u8) -> Option<Self> {
        if index < Self::FIXED { Some(Self(index)) } else { None }
    }

    /// The fixed-function counter of this index; `None` from 32 on.
    pub const fn fixed(index: u8) -> Option<Self> {
        if index < Self::FIXED { Some(Self(Self::FIXED + index)) } else { None }
    }

    /// The counter for the lowest set bit of a mask in the layout of the global registers.
    pub const fn lowest(mask: u64) -> Option<Self> {
        if mask == 0 { None } else { Some(Self(mask.trailing_zeros() as u8)) }
    }

    /// Whether it is a fixed-function counter.
    pub const fn is_fixed(self) -> bool {
        self.0 >= Self::FIXED
    }

    /// Its index among the general or the fixed counters, below 32.
    pub const fn index(self) -> u8 {
        self.0 % Self::FIXED
    }

    /// Its bit in the global registers.
    pub const fn global_bit(self) -> u64 {
        1 << (self.0 % 64)
    }

    /// The number of that bit: below 64.
    pub const fn bit(self) -> usize {
        self.0 as usize
    }

    /// The counter of the next number; `None` after the last of its kind.
    pub const fn next(self) -> Option<Self> {
        if self.index() + 1 < Self::FIXED { Some(Self(self.0 + 1)) } else { None }
    }

    /// The counters of a mask in the global registers' layout.
    pub fn each(mut mask: u64) -> impl Iterator<Item = Self> {
        core::iter::from_fn(move || {
            let counter = Self::lowest(mask)?;
            mask &= mask - 1;
            Some(counter)
        })
    }
}

/// The width of a counter in bits: 32 to 63, or 0 if there is no counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromZeros)]
pub struct CounterWidth(u8);

impl CounterWidth {
    /// No counter.
    pub const NONE: Self = Self(0);

    /// A width given by CPUID or a manual; `None` for a width that no counter has.
    pub const fn new(bits: u8) -> Option<Self> {
        if bits >= 32 && bits < 64 { Some(Self(bits)) } else { None }
    }

    pub const fn bits(self) -> u8 {
        self.0
    }

    /// A mask of the counter's width.
    pub const fn mask(self) -> u64 {
        (1 << (self.0 % 64)) - 1
    }

    /// The value from which `events` more events bring the counter to 0: their two's complement.
    pub const fn preset(self, events: u64) -> u64 {
        events.wrapping_neg() & self.mask()
    }

    /// The events counted between the values `from` and `to`, provided that the counter wrapped at
    /// most once.
    pub const fn distance(self, from: u64, to: u64) -> u64 {
        to.wrapping_sub(from) & self.mask()
    }
}
