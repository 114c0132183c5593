//! The samples of each source, in one recording or several.

use crate::aggregate::processor_time::ProcessorTime;
use crate::aggregate::totals::Totals;
use crate::file::{Period, Recording, Slices};
use halprof_measure::float::float;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The samples of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTotals {
    /// Its index in the samples of its recording.
    pub index: u16,
    /// Its name, with its filter if it has one.
    pub name: Arc<str>,
    /// Its period at the beginning, if the recording has it.
    pub period: Option<u64>,
    /// Its period in events of its counter; 0 if the recording does not say.
    pub period_events: u64,
    /// How much processor time its events are, if it samples that.
    pub time: Option<ProcessorTime>,
    /// All its samples that count.
    pub totals: Totals,
    /// All its samples in the filter's time, whatever else the filter rejects.
    pub unfiltered: Totals,
    /// The number of recordings in which it was sampled.
    pub recordings: usize,
    /// The number of its unfiltered samples that have an address.
    pub addressed: u64,
    /// How long it was on a counter, if it was multiplexed. Its events are scaled by that to the
    /// whole time.
    pub slices: Option<Slices>,
}

impl SourceTotals {
    /// A source of a recording, still without samples.
    pub(crate) fn new(
        index: u16,
        name: Arc<str>,
        recording: &Recording,
        slices: &BTreeMap<u16, Slices>,
    ) -> Self {
        let source = recording.metadata.sources.get(usize::from(index));
        let period = source.map(|source| &source.period);
        Self {
            index,
            name,
            period: period.map(|period| period.used),
            period_events: period.map_or(0, Period::in_events),
            time: source.and_then(ProcessorTime::of),
            slices: slices.get(&index).cloned(),
            recordings: 1,
            ..Self::default()
        }
    }

    /// The 95 % bound of its events, if it was multiplexed and the bound is known.
    pub fn error(&self) -> Option<u64> {
        let Totals { samples, events, squares } = self.totals;
        self.slices.as_ref()?.error(events, samples, squares, self.period_events)
    }

    /// The part of the time in which it was counted, and how accurate its events are, in words;
    /// `None` if it was on a counter all the time.
    pub fn estimated(&self) -> Option<String> {
        let part = self.slices.as_ref()?.running_share() * 100.0;
        let events = self.totals.events;
        let bound = match self.error().filter(|_| events != 0) {
            // Rounded up, because a bound that is rounded down promises too much.
            Some(bound) => {
                let percent = float(bound) / float(events) * 100.0;
                format!("±{:.1} %", (percent * 10.0).ceil() / 10.0)
            }
            None => "with an unknown bound".to_owned(),
        };
        Some(format!(
            "{} was on a counter {part:.1} % of the time: its events are estimates for all of it, {bound}",
            self.name
        ))
    }
}

/// Adds the sources of a recording to those of others, by name and in order of their first
/// occurrence. Returns where each of them is now.
pub(crate) fn merge(all: &mut Vec<SourceTotals>, sources: &[SourceTotals]) -> Vec<usize> {
    let mut by_name: FxHashMap<Arc<str>, usize> = FxHashMap::default();
    for (index, known) in all.iter().enumerate() {
        by_name.entry(Arc::clone(&known.name)).or_insert(index);
    }
    let mut indexes = Vec::with_capacity(sources.len());
    for source in sources {
        let index = *by_name.entry(Arc::clone(&source.name)).or_insert(all.len());
        indexes.push(index);
        let Some(known) = all.get_mut(index) else {
            let index = u16::try_from(all.len()).unwrap_or(u16::MAX);
            all.push(SourceTotals { index, ..source.clone() });
            continue;
        };
        known.slices = merged_slices(known.slices.as_ref(), source.slices.as_ref());
        known.totals.add(source.totals);
        known.unfiltered.add(source.unfiltered);
        known.recordings += source.recordings;
        known.addressed = known.addressed.saturating_add(source.addressed);
        known.period = known.period.filter(|_| known.period == source.period);
        known.time = known.time.filter(|_| known.time == source.time);
    }
    indexes
}

/// How long a source was on a counter on all machines together. The largest error bound is used for
/// the sum; if any bound is unknown, so is that of the sum.
fn merged_slices(one: Option<&Slices>, other: Option<&Slices>) -> Option<Slices> {
    let (Some(one), Some(other)) = (one, other) else {
        return one.or(other).cloned();
    };
    Some(Slices {
        source: one.source,
        enabled: one.enabled.saturating_add(other.enabled),
        running: one.running.saturating_add(other.running),
        error_ppm: one.error_ppm.zip(other.error_ppm).map(|(one, other)| one.max(other)),
        processors: one.processors.saturating_add(other.processors),
    })
}

/// The totals of a source, with its events scaled to the whole time if it was multiplexed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "squares only serve bounds, and casts saturate"
)]
pub(crate) fn whole_time(slices: &BTreeMap<u16, Slices>, source: u16, totals: Totals) -> Totals {
    let Some(slices) = slices.get(&source) else {
        return totals;
    };
    let factor = float(slices.enabled) / float(slices.running.max(1));
    Totals {
        events: slices.scale(totals.events),
        squares: (float(totals.squares) * factor * factor) as u128,
        ..totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(period: u64, slices: Option<(u64, u64, Option<u64>)>) -> SourceTotals {
        let slices = slices.map(|(enabled, running, error_ppm)| Slices {
            source: 0,
            enabled,
            running,
            error_ppm,
            processors: 1,
        });
        let totals = Totals::alike(4, 4000);
        SourceTotals {
            name: "a".into(),
            period: Some(period),
            totals,
            slices,
            ..Default::default()
        }
    }

    /// The widest bound is kept, and a period only if all recordings have it.
    #[test]
    fn sources_of_one_name_are_merged() {
        let (exact, wide) = (Some((10, 5, Some(7))), Some((10, 2, Some(9))));
        for (one, other, slices) in [
            (None, None, None),
            (exact, wide, Some((20, 7, Some(9)))),
            (exact, None, exact),
            (exact, Some((1, 1, None)), Some((11, 6, None))),
        ] {
            for (period, merged) in [(7, Some(7)), (8, None)] {
                let mut all = Vec::new();
                assert_eq!(merge(&mut all, &[source(7, one)]), [0]);
                assert_eq!(merge(&mut all, &[source(period, other)]), [0]);
                let known = all[0].slices.as_ref();
                let known = known.map(|slices| (slices.enabled, slices.running, slices.error_ppm));
                assert_eq!((known, all[0].period), (slices, merged));
                assert_eq!(all[0].totals, Totals::alike(8, 4000));
            }
        }
    }

    /// On a counter for a quarter of the time: each sample stands for four times its period, and the sum
    /// is as inaccurate as that of any nine samples.
    #[test]
    fn a_sample_of_a_multiplexed_source_stands_for_more_events() {
        let slices = |running| Slices {
            source: 0,
            enabled: 400,
            running,
            error_ppm: Some(0),
            processors: 1,
        };
        let all = BTreeMap::from([(0, slices(100)), (1, slices(400))]);
        let own = Totals::alike(9, 1000);
        let totals = whole_time(&all, 0, own);
        assert_eq!(totals, Totals::alike(9, 4000));
        let source = SourceTotals { totals, slices: Some(slices(100)), ..SourceTotals::default() };
        // 1.96 * sqrt(9) * 4,000
        assert_eq!(source.error(), Some(23_520));
        // On a counter all the time, and not multiplexed.
        assert_eq!([1, 2].map(|source| whole_time(&all, source, own)), [own; 2]);
    }

    #[test]
    fn the_bound_of_a_source_is_that_of_its_slices() {
        let source = source(1000, Some((400, 100, Some(10_000))));
        let slices = source.slices.as_ref().expect("multiplexed");
        let bound = slices.error(16_000, 4, 4 * 4_000 * 4_000, 0);
        assert_eq!(source.error(), bound);
        let always = SourceTotals { slices: None, ..source };
        assert_eq!((always.error(), always.estimated()), (None, None));
    }
}
