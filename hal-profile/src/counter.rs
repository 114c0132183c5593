//! Counters: which one, how wide, and the arithmetic of presets.

use zerocopy::FromZeros;

/// A counter of one processor: the number of its bit in the global registers, where general counters
/// stand from bit 0 and fixed-function counters from bit 32.
///
/// Every value is below 64; there is no way to make another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromZeros)]
pub struct Counter(u8);

impl Counter {
    const FIXED: u8 = 32;
    /// General counter 0.
    pub const FIRST: Self = Self(0);

    /// The general counter of this index; `None` from 32 on.
    #[must_use]
    pub const fn general(index: u8) -> Option<Self> {
        if index < Self::FIXED {
            Some(Self(index))
        } else {
            None
        }
    }

    /// The fixed-function counter of this index; `None` from 32 on.
    #[must_use]
    pub const fn fixed(index: u8) -> Option<Self> {
        if index < Self::FIXED {
            Some(Self(Self::FIXED + index))
        } else {
            None
        }
    }

    /// The counter of the lowest bit of a mask in the layout of the global registers.
    #[must_use]
    pub const fn lowest(mask: u64) -> Option<Self> {
        if mask == 0 {
            None
        } else {
            Some(Self(mask.trailing_zeros() as u8))
        }
    }

    /// Whether it is a fixed-function counter.
    #[must_use]
    pub const fn is_fixed(self) -> bool {
        self.0 >= Self::FIXED
    }

    /// Its index among its kind, below 32.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0 % Self::FIXED
    }

    /// Its bit in the global registers.
    #[must_use]
    pub const fn global_bit(self) -> u64 {
        1 << (self.0 % 64)
    }
}

/// The width of a counter in bits: 32 to 63, or 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromZeros)]
pub struct CounterWidth(u8);

impl CounterWidth {
    /// No counter.
    pub const NONE: Self = Self(0);

    /// A width that CPUID or a manual gives; `None` for what no counter has.
    #[must_use]
    pub const fn new(bits: u8) -> Option<Self> {
        if bits >= 32 && bits < 64 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// In bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// All ones.
    #[must_use]
    pub const fn mask(self) -> u64 {
        (1 << (self.0 % 64)) - 1
    }

    /// The value from which `events` more bring the counter to 0: their two's complement negative.
    #[must_use]
    pub const fn preset(self, events: u64) -> u64 {
        events.wrapping_neg() & self.mask()
    }

    /// How far the counter has come from `from` to `to`, if it has wrapped at most once.
    #[must_use]
    pub const fn distance(self, from: u64, to: u64) -> u64 {
        to.wrapping_sub(from) & self.mask()
    }
}
