//! Counters: which one, how wide, and the arithmetic of presets.

/// A counter of one processor: the number of its bit in the global registers, where general counters
/// stand from bit 0 and fixed-function counters from bit 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counter(u8);

impl Counter {
    const FIXED: u8 = 32;

    /// The general counter of this index, below 32.
    #[must_use]
    pub const fn general(index: u8) -> Self {
        Self(index & 0x1F)
    }

    /// The fixed-function counter of this index, below 32.
    #[must_use]
    pub const fn fixed(index: u8) -> Self {
        Self(Self::FIXED | index & 0x1F)
    }

    /// Whether it is a fixed-function counter.
    #[must_use]
    pub const fn is_fixed(self) -> bool {
        self.0 & Self::FIXED != 0
    }

    /// Its index among its kind, below 32.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0 & 0x1F
    }

    /// Its bit in the global registers.
    #[must_use]
    pub const fn global_bit(self) -> u64 {
        1 << self.0
    }
}

/// The width of a counter in bits: 32 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterWidth(u8);

impl CounterWidth {
    /// What a counter of unknown width is taken for.
    pub const NARROWEST: Self = Self(32);

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
        (1 << self.0) - 1
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
