//! When the events of a sample happened: since the sample before it, of the same source on the same
//! processor.

use super::TrackKey;
use crate::aggregate::processor_time::ProcessorTime;
use crate::aggregate::totals::Totals;
use crate::file::Metadata;
use rustc_hash::FxHashMap;
use shared_types::Sample;
use std::mem::take;

/// The last sample of each source on each processor.
#[derive(Debug)]
pub(super) struct Spans {
    last: FxHashMap<(u16, u32), Last>,
    /// The rate of each source that is time. A sample of these spans at most its own length,
    /// because an idle processor has no samples while time goes on.
    times: Vec<Option<ProcessorTime>>,
    /// Ticks of the time stamps a second.
    frequency: u64,
}

#[derive(Debug, Default)]
struct Last {
    time: u64,
    /// The first sample, until the second shows how long a period takes.
    first: Option<Summand>,
}

/// The events of a sample, in a track.
pub(super) type Summand = (TrackKey, Totals);

/// Events that are taken to have happened evenly between two times.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) events: Summand,
}

impl Spans {
    pub(super) fn new(metadata: &Metadata) -> Self {
        Self {
            last: FxHashMap::default(),
            times: metadata.sources.iter().map(ProcessorTime::of).collect(),
            // If the frequency is not known, ticks are taken for nanoseconds.
            frequency: match metadata.timestamp_frequency {
                0 => 1_000_000_000,
                frequency => frequency,
            },
        }
    }

    /// Calls `add` with the events of a sample. The first sample of a source on a processor is
    /// added together with the second, and is taken to have taken as long.
    pub(super) fn sample(&mut self, sample: &Sample, events: Summand, mut add: impl FnMut(Span)) {
        let time = sample.timestamp;
        let key = (sample.source, sample.processor);
        let Some(last) = self.last.get_mut(&key) else {
            self.last.insert(key, Last { time, first: Some(events) });
            return;
        };
        let own = self.times.get(usize::from(sample.source)).copied().flatten();
        let own = own.map_or(u64::MAX, |own| {
            let ticks = u128::from(own.nanoseconds(sample.period)) * u128::from(self.frequency);
            u64::try_from(ticks / 1_000_000_000).unwrap_or(u64::MAX)
        });
        let length = time.saturating_sub(last.time).min(own);
        let mut ending =
            |to: u64, events| add(Span { from: to.saturating_sub(length), to, events });
        if let Some(first) = take(&mut last.first) {
            ending(last.time, first);
        }
        ending(time, events);
        last.time = time;
    }

    /// The samples that stayed the only ones of their source on their processor.
    pub(super) fn single(self) -> impl Iterator<Item = Span> {
        self.last
            .into_values()
            .filter_map(|Last { time, first }| Some(Span { from: time, to: time, events: first? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Period, Source};

    /// Of cycles and of the timer, whose 10,000 are 1 ms, with a tick of 1 µs.
    #[test]
    fn events_happened_since_the_sample_before() {
        for (name, processors, expected) in [
            ("TotalCycles", [0, 0, 0], vec![(0, 1000), (1000, 2000), (2000, 9000)]),
            ("Timer", [0, 0, 0], vec![(0, 1000), (1000, 2000), (8000, 9000)]),
            ("TotalCycles", [0, 1, 0], vec![(0, 1000), (1000, 9000), (2000, 2000)]),
            ("TotalCycles", [0, 1, 2], vec![(1000, 1000), (2000, 2000), (9000, 9000)]),
        ] {
            let period = Period { used: 10_000, ..Period::default() };
            let source = Source { name: name.to_owned(), period, ..Source::default() };
            let sources = vec![source];
            let timestamp_frequency = 1_000_000;
            let metadata = Metadata { timestamp_frequency, sources, ..Metadata::default() };
            let mut spans = Spans::new(&metadata);
            let mut found = Vec::new();
            for (timestamp, processor) in [1000, 2000, 9000].into_iter().zip(processors) {
                let sample = Sample { timestamp, processor, period: 10_000, ..Sample::default() };
                let track = TrackKey { source: 0, number: 0, mode: 0 };
                spans.sample(&sample, (track, Totals::of(&sample)), |span| found.push(span));
            }
            found.extend(spans.single());
            let mut found: Vec<_> = found.iter().map(|span| (span.from, span.to)).collect();
            found.sort_unstable();
            let mut expected = expected;
            expected.sort_unstable();
            assert_eq!(found, expected, "{name} on {processors:?}");
        }
    }
}
