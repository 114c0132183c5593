//! The rates of the most recent intervals, for charts: as many as a memory limit allows.

use halprof_measure::rates::Interval;
use std::collections::VecDeque;

/// The rates of the most recent intervals, with 24 significant bits.
#[derive(Clone, Debug)]
pub(super) struct History {
    intervals: VecDeque<Kept>,
    intervals_max: usize,
    bytes_max: usize,
    bytes: usize,
}

/// The rates of one interval; NaN where nothing is known.
#[derive(Clone, Debug)]
struct Kept {
    sources: usize,
    /// One row for each processor.
    rates: Box<[f32]>,
}

impl Kept {
    fn new(interval: &Interval) -> Self {
        let processors = interval.counts().len();
        let sources = interval.counts().first().map_or(0, Vec::len);
        let rate = |processor, source| {
            let rate = interval.rate(processor, source);
            rate.map_or(f32::NAN, |rate| rate.per_second as f32)
        };
        let row = |processor| (0..sources).map(move |source| rate(processor, source));
        Self {
            sources,
            rates: (0..processors).flat_map(row).collect(),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.rates)
    }

    fn rate(&self, processor: usize, source: usize) -> Option<f32> {
        let mut rows = self.rates.chunks(self.sources.max(1));
        let rate = rows.nth(processor)?.get(source)?;
        (!rate.is_nan()).then_some(*rate)
    }
}

impl History {
    /// Keeps at most `intervals` intervals, in at most `bytes` bytes, but at least one.
    pub(super) const fn new(intervals: usize, bytes: usize) -> Self {
        Self {
            intervals: VecDeque::new(),
            intervals_max: intervals,
            bytes_max: bytes,
            bytes: 0,
        }
    }

    /// Adds an interval; the oldest ones are dropped to make room.
    pub(super) fn push(&mut self, interval: &Interval) {
        let kept = Kept::new(interval);
        self.bytes += kept.bytes();
        self.intervals.push_back(kept);
        while self.is_too_large()
            && let Some(oldest) = self.intervals.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
    }

    fn is_too_large(&self) -> bool {
        let intervals = self.intervals.len();
        intervals > 1 && (intervals > self.intervals_max || self.bytes > self.bytes_max)
    }

    /// How many intervals it holds.
    pub(super) fn len(&self) -> usize {
        self.intervals.len()
    }

    /// The rates of one source, oldest first, on some processors together; `None` where none of them
    /// knows its rate.
    pub(super) fn rates_on(
        &self,
        processors: &[usize],
        source: usize,
    ) -> impl DoubleEndedIterator<Item = Option<f32>> + ExactSizeIterator {
        let sum = move |kept: &Kept| {
            let known = |&processor: &usize| kept.rate(processor, source);
            let known = processors.iter().filter_map(known);
            known.fold(None, |sum, rate| Some(sum.unwrap_or(0.0) + rate))
        };
        self.intervals.iter().map(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halprof_measure::rates::Rates;
    use shared_types::request::counts::Count;

    const FREQUENCY: u64 = 2_000_000_000;

    fn interval(processors: usize, sources: usize, counted: u64) -> Interval {
        let count = Count {
            counted,
            enabled: FREQUENCY,
            running: FREQUENCY,
            ..Count::default()
        };
        Rates::new(FREQUENCY).take(vec![vec![count; sources]; processors])
    }

    #[test]
    fn a_history_keeps_the_latest_within_its_memory() {
        const BYTES: usize = 16 << 20;
        let mut history = History::new(600, BYTES);
        for counted in 1..=1000 {
            history.push(&interval(2, 3, counted));
        }
        assert_eq!(history.len(), 600);
        let sums: Vec<_> = history.rates_on(&[0, 1], 2).collect();
        assert_eq!((sums[0], sums[599]), (Some(802.0), Some(2000.0)));
        assert_eq!(history.rates_on(&[1], 0).next_back(), Some(Some(1000.0)));
        assert!(history.rates_on(&[2], 0).all(|rate| rate.is_none()));
        assert!(history.rates_on(&[0, 1], 3).all(|rate| rate.is_none()));
        // What some of them know is the rate of these.
        assert_eq!(history.rates_on(&[1, 2], 0).next_back(), Some(Some(1000.0)));
        assert_eq!(history.rates_on(&[], 0).next_back(), Some(None));
        // The largest possible session, after processors were added.
        for counted in 1..=20 {
            history.push(&interval(2048, 256, counted));
            assert!(history.bytes <= BYTES);
        }
        assert_eq!(history.len(), 7);
        let bytes: usize = history.intervals.iter().map(Kept::bytes).sum();
        assert_eq!(history.bytes, bytes);
    }

    #[test]
    fn a_history_without_room_keeps_one_interval() {
        let mut history = History::new(0, 0);
        for counted in 1..=3 {
            history.push(&interval(1, 1, counted));
        }
        assert_eq!(history.rates_on(&[0], 0).collect::<Vec<_>>(), [Some(3.0)]);
    }
}
