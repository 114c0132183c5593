//! Sets of processors.

use shared_types::request::session::ProcessorBits;
use zerocopy::FromZeros;

/// A set of processors by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct ProcessorSet(ProcessorBits);

impl ProcessorSet {
    /// No processor.
    pub const EMPTY: Self = Self([0; 32]);
    /// Every possible processor.
    pub const ALL: Self = Self([u64::MAX; 32]);

    /// The set that a request names: if no bit is set, every processor.
    pub fn from_bits(bits: ProcessorBits) -> Self {
        if bits.iter().all(|&word| word == 0) { Self::ALL } else { Self(bits) }
    }

    /// The set of one processor.
    pub fn one(index: usize) -> Self {
        let mut set = Self::EMPTY;
        if let Some(word) = set.0.get_mut(index / 64) {
            *word = 1 << (index % 64);
        }
        set
    }

    pub fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 != 0)
    }

    /// The first processor of the set with an index of `count` or above; `None` if there is none,
    /// or if the set is every processor.
    pub fn first_beyond(&self, count: usize) -> Option<usize> {
        (*self != Self::ALL)
            .then(|| (count..self.0.len() * 64).find(|&index| self.contains(index)))?
    }
}
