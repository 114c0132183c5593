//! Samples with their times in bounded memory: the more samples, the coarser their times.

use crate::aggregate::totals::Totals;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// The widest bins: half of all time.
const SHIFT_MAX: u32 = u64::BITS - 1;

/// Sums by time and key, at most twice as many as asked for at a time. A bin is 2^`shift` ticks wide
/// and begins at a multiple of its width.
#[derive(Debug)]
pub(crate) struct Timed<K> {
    /// The largest number of sums, or two for each key if that is more: each key has a sum however
    /// wide bins are, so a smaller limit would lose times and save nothing.
    most: usize,
    shift: u32,
    first: u64,
    count: usize,
    /// The number of sums at which they are merged.
    merged_at: usize,
    /// The sums of each key with their bins.
    sums: FxHashMap<K, Vec<(u64, Totals)>>,
}

impl<K: Eq + Hash> Timed<K> {
    /// Starts with bins of one tick.
    pub(crate) fn new(most: usize) -> Self {
        let sums = FxHashMap::default();
        Self { most, shift: 0, first: u64::MAX, count: 0, merged_at: 2 * most, sums }
    }

    pub(crate) fn add(&mut self, time: u64, key: K, totals: Totals) {
        self.first = self.first.min(time);
        self.sums.entry(key).or_default().push((time >> self.shift, totals));
        self.count += 1;
        if self.count > self.merged_at {
            self.merge();
            self.merged_at = 2 * self.count.max(self.most);
        }
    }

    /// Adds up the sums in one bin, after making bins as wide as the limit needs.
    fn merge(&mut self) {
        // How many sums disappear when bins are doubled this many times: two sums become one when
        // the highest bit in which their bins differ is shifted out.
        let mut saved = [0; u64::BITS as usize + 1];
        for sums in self.sums.values_mut() {
            sums.sort_unstable_by_key(|&(bin, _)| bin);
            for pair in sums.windows(2) {
                if let [(a, _), (b, _)] = pair {
                    saved[(u64::BITS - (a ^ b).leading_zeros()) as usize] += 1;
                }
            }
        }
        let mut by = 0;
        self.count -= saved[0];
        let most = self.most.max(2 * self.sums.len());
        while self.count > most && self.shift + by < SHIFT_MAX {
            by += 1;
            self.count -= saved[by as usize];
        }
        self.shift += by;
        for sums in self.sums.values_mut() {
            for (bin, _) in sums.iter_mut() {
                *bin >>= by;
            }
            sums.dedup_by(|(bin, more), (previous, sum)| {
                let is_same = bin == previous;
                if is_same {
                    sum.add(*more);
                }
                is_same
            });
        }
    }

    /// The width of a bin in ticks, and every sum with its key and the beginning of its bin; the
    /// first bin begins with the first time. The sums of one key are in order of time.
    pub(crate) fn finish(mut self) -> (u64, impl Iterator<Item = (K, Vec<(u64, Totals)>)>) {
        self.merge();
        let Self { shift, first, sums, .. } = self;
        let sums = sums.into_iter().map(move |(key, mut sums)| {
            for (bin, _) in &mut sums {
                *bin = (*bin << shift).max(first);
            }
            (key, sums)
        });
        (1 << shift, sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Totals = Totals::alike(1, 1000);

    /// The width of bins, and each sum's begin, key and number of samples.
    fn sums(
        most: usize,
        added: impl IntoIterator<Item = (u64, u32)>,
    ) -> (u64, Vec<(u64, u32, u64)>) {
        let mut timed = Timed::new(most);
        for (time, key) in added {
            timed.add(time, key, ONE);
        }
        let (width, all) = timed.finish();
        let each = |(key, sums): (u32, Vec<(u64, Totals)>)| {
            sums.into_iter().map(move |(begin, sum)| (begin, key, sum.samples))
        };
        let mut all: Vec<_> = all.flat_map(each).collect();
        all.sort_unstable();
        (width, all)
    }

    #[test]
    fn times_are_exact_until_there_are_too_many_sums() {
        let times =
            |times: &[u64]| -> Vec<(u64, u32)> { times.iter().map(|&time| (time, 1)).collect() };
        let exact = vec![(10, 1, 1), (11, 1, 1), (12, 1, 1), (13, 1, 2)];
        assert_eq!(sums(4, times(&[13, 11, 12, 10, 13])), (1, exact));
        // The first bin begins with the first time.
        let merged = vec![(11, 1, 1), (12, 1, 2), (14, 1, 2)];
        assert_eq!(sums(4, times(&[11, 12, 13, 14, 15])), (2, merged));
    }

    /// As wide as is needed and no wider, whenever they were merged meanwhile.
    #[test]
    fn bins_are_the_narrowest_that_keep_to_the_limit() {
        let added = (0..10_000u64).map(|n| (n * n * 7919 % 1_000_003, (n % 7) as u32));
        let added: Vec<(u64, u32)> = added.collect();
        for most in [20, 100, 1000, 5000] {
            let (width, all) = sums(most, added.iter().copied());
            assert_eq!(all.iter().map(|&(_, _, samples)| samples).sum::<u64>(), 10_000);
            let count = |width: u64| {
                let bins = added.iter().map(|&(time, key)| (time / width, key));
                bins.collect::<std::collections::BTreeSet<_>>().len()
            };
            assert_eq!(all.len(), count(width));
            assert!(all.len() <= most && count(width / 2) > most, "{most}: {width}");
        }
    }

    /// As on a page of more places than samples that are kept.
    #[test]
    fn times_of_many_keys_are_kept() {
        let (width, all) = sums(4, (0..100).map(|key| (u64::from(key) << 50, key)));
        assert_eq!((width, all.len()), (1, 100));
        let added = (0..1000).map(|n| (u64::from(n) << 20, n % 100));
        let (width, all) = sums(4, added);
        assert!(width < 1000 << 20 && all.len() <= 200, "{width}, {}", all.len());
    }
}
