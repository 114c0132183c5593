//! Sums over time in bounded memory: bins widen as the time between them grows.

use crate::aggregate::totals::Totals;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Sums by time and key. A bin is 2^`shift` ticks wide and begins at a multiple of its width.
#[derive(Debug)]
pub struct Binned<K> {
    /// The largest number of bins from the first to the last.
    most: u64,
    shift: u32,
    range: Option<(u64, u64)>,
    sums: FxHashMap<(u64, K), Totals>,
}

/// The widest bins: half of all time.
const SHIFT_MAX: u32 = u64::BITS - 1;

impl<K: Copy + Eq + Hash + Ord> Binned<K> {
    /// Starts with bins of one tick; there are never more than `most` bins.
    pub fn new(most: u64) -> Self {
        Self { most, shift: 0, range: None, sums: FxHashMap::default() }
    }

    pub fn add(&mut self, time: u64, key: K, totals: Totals) {
        self.reach(time);
        self.sums.entry((time >> self.shift, key)).or_default().add(totals);
        self.stay_few();
    }

    /// Adds a sum whose events are spread evenly between two times. The number of bins is limited,
    /// so this takes bounded time.
    pub fn add_over(&mut self, from: u64, to: u64, key: K, totals: Totals) {
        self.reach(from);
        self.reach(to);
        self.stay_few();
        // Each part is a difference of two rounded sums, so that the parts add up to the whole. The
        // last bin has the sample itself.
        let mut rest = totals;
        for bin in from >> self.shift..to >> self.shift {
            let so_far = u128::from(((bin + 1) << self.shift) - from);
            let events = u128::from(totals.events) * so_far / u128::from(to - from);
            let left = totals.events.saturating_sub(u64::try_from(events).unwrap_or(u64::MAX));
            let part = Totals { events: rest.events - left, ..Totals::default() };
            self.sums.entry((bin, key)).or_default().add(part);
            rest.events = left;
        }
        self.sums.entry((to >> self.shift, key)).or_default().add(rest);
    }

    fn reach(&mut self, time: u64) {
        let (first, last) = self.range.unwrap_or((time, time));
        self.range = Some((first.min(time), last.max(time)));
    }

    fn stay_few(&mut self) {
        while self.is_beyond() && self.shift < SHIFT_MAX {
            self.widen();
        }
    }

    /// The first and the last time that was added; `None` if nothing was.
    pub const fn range(&self) -> Option<(u64, u64)> {
        self.range
    }

    /// How wide a bin is, in ticks.
    pub const fn width(&self) -> u64 {
        1 << self.shift
    }

    /// When a bin begins, given its number relative to the bin of the first time, which begins at
    /// that time.
    pub fn begin(&self, bin: u64) -> u64 {
        let first = self.range.map_or(0, |(first, _)| first);
        let bin = u128::from(first >> self.shift) + u128::from(bin);
        let begin = u64::try_from(bin << self.shift).unwrap_or(u64::MAX);
        begin.max(first)
    }

    /// When a bin ends: no later than the last time.
    pub fn end(&self, bin: u64) -> u64 {
        let last = self.range.map_or(0, |(_, last)| last);
        self.begin(bin.saturating_add(1)).min(last)
    }

    /// Every sum with its key and its bin, relative to the bin of the first time; sorted by bin and
    /// key.
    pub fn totals(&self) -> Vec<(u64, K, Totals)> {
        let first = self.range.map_or(0, |(first, _)| first >> self.shift);
        let sums = self.sums.iter();
        let mut sums: Vec<_> =
            sums.map(|(&(bin, key), &totals)| (bin - first, key, totals)).collect();
        sums.sort_unstable_by_key(|&(bin, key, _)| (bin, key));
        sums
    }

    pub fn scale(&mut self, scaled: impl Fn(&K, Totals) -> Totals) {
        for ((_, key), totals) in &mut self.sums {
            *totals = scaled(key, *totals);
        }
    }

    fn is_beyond(&self) -> bool {
        self.range
            .is_some_and(|(first, last)| (last >> self.shift) - (first >> self.shift) >= self.most)
    }

    fn widen(&mut self) {
        self.shift += 1;
        let narrow = std::mem::take(&mut self.sums);
        for ((bin, key), totals) in narrow {
            self.sums.entry((bin >> 1, key)).or_default().add(totals);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Totals = Totals::alike(1, 1000);

    fn total<K: Copy + Eq + Hash + Ord>(binned: &Binned<K>) -> Totals {
        let mut total = Totals::default();
        for (_, _, totals) in binned.totals() {
            total.add(totals);
        }
        total
    }

    #[test]
    fn nothing_is_lost_and_bins_stay_few() {
        for times in [
            vec![5, 1, 3, 1000, 999_999, 2],
            vec![u64::MAX, 0],
            vec![u64::MAX; 3],
            (0..10_000).map(|n| n * 7919).collect(),
        ] {
            let mut binned = Binned::new(16);
            for &time in &times {
                binned.add(time, 0u8, ONE);
            }
            let count = times.len() as u64;
            assert_eq!(total(&binned), Totals::alike(count, 1000));
            assert!(binned.totals().len() <= 16, "{times:?}");
            let (first, last) = binned.range().expect("a range");
            assert_eq!(binned.begin(0), first);
            let behind = binned.totals().iter().map(|sum| binned.begin(sum.0)).max();
            assert!(behind.expect("a bin") <= last, "{times:?}");
        }
    }

    #[test]
    fn a_sum_over_a_time_is_in_all_its_bins() {
        let mut binned = Binned::new(8);
        // Bins of 16 ticks: from 0 to 96.
        binned.add(0, 'a', Totals::default());
        binned.add(96, 'a', Totals::default());
        binned.add_over(8, 72, 'b', Totals::alike(1, 6400));
        assert_eq!(binned.width(), 16);
        let sums = binned.totals().into_iter().filter(|sum| sum.1 == 'b');
        let sums: Vec<_> = sums.map(|(bin, _, totals)| (bin, totals.events)).collect();
        assert_eq!(sums, [(0, 800), (1, 1600), (2, 1600), (3, 1600), (4, 800)]);
        for (from, to) in [(0, u64::MAX), (u64::MAX, u64::MAX), (1, 2)] {
            binned.add_over(from, to, 'c', Totals::alike(1, u64::MAX / 4));
        }
        let total = total(&binned);
        assert_eq!((total.samples, total.events), (4, 6400 + u64::MAX / 4 * 3));
    }
}
