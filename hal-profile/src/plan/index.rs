//! Arrays that only their own index can index, so that no index is out of range.

use crate::cpu::counter::Counter;
use crate::source::MAX_SOURCES;
use core::ops::{Index, IndexMut};
use zerocopy::FromZeros;

/// Which source of its session: below [`MAX_SOURCES`], as every value of its type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct SourceIndex(u8);

const _: () = assert!(MAX_SOURCES == u8::MAX as usize + 1);

impl SourceIndex {
    /// The first `count` sources.
    pub fn first(count: usize) -> impl Iterator<Item = Self> + Clone {
        (0..count.min(MAX_SOURCES)).map(|index| Self(index as u8))
    }

    /// Its place in the session's list.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// One value for each source of a session.
#[derive(Clone, Copy, Debug, FromZeros)]
pub struct PerSource<T> {
    /// By place in the session's list.
    pub each: [T; MAX_SOURCES],
}

impl<T> Index<SourceIndex> for PerSource<T> {
    type Output = T;

    #[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
    #[inline]
    fn index(&self, source: SourceIndex) -> &T {
        &self.each[source.get()]
    }
}

impl<T> IndexMut<SourceIndex> for PerSource<T> {
    #[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
    #[inline]
    fn index_mut(&mut self, source: SourceIndex) -> &mut T {
        &mut self.each[source.get()]
    }
}

/// The counters that there can be, in the layout of the global registers.
const COUNTERS: usize = 64;

/// One value for each counter.
#[derive(Clone, Copy, Debug, FromZeros)]
pub struct PerCounter<T>([T; COUNTERS]);

impl<T: Copy> PerCounter<T> {
    /// The same value for each.
    pub const fn all(value: T) -> Self {
        Self([value; COUNTERS])
    }
}

impl<T> Index<Counter> for PerCounter<T> {
    type Output = T;

    #[expect(clippy::indexing_slicing, reason = "the remainder is below 64")]
    fn index(&self, counter: Counter) -> &T {
        &self.0[counter.bit() % COUNTERS]
    }
}

impl<T> IndexMut<Counter> for PerCounter<T> {
    #[expect(clippy::indexing_slicing, reason = "the remainder is below 64")]
    fn index_mut(&mut self, counter: Counter) -> &mut T {
        &mut self.0[counter.bit() % COUNTERS]
    }
}
