//! How accurately the samples of a source say how many events a part of a recording has.

use halprof_measure::float::float;
use halprof_measure::statistics::few;
use halprof_measure::statistics::proportion::{NORMAL_95, wilson_interval_at};
use halprof_profile::aggregate::share::Share;
use halprof_profile::aggregate::source_totals::SourceTotals;
use halprof_profile::aggregate::totals::Totals;
use halprof_profile::file::Recording;

/// One source in one run, or in several that are added up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    /// All its samples, those of idle threads and those that no filter accepts included.
    pub(crate) all: Totals,
    /// How many events may have come after the last samples.
    pub(crate) missing: f64,
    /// The 95 % bound, as a part of the events, of being on a counter for part of the time; `None` if
    /// it is not known.
    pub(crate) multiplexing: Option<f64>,
    /// How many of its samples are worth one independent one: more than 1 if they are in step with
    /// what they sample.
    pub(crate) in_step: u64,
}

/// The 95 % interval of an amount, as distances of its logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogBounds {
    pub(crate) down: f64,
    pub(crate) up: f64,
}

impl Sampled {
    /// A source of a recording, with samples on so many processors; without a source, one that has no
    /// samples.
    pub(crate) fn new(
        recording: &Recording,
        source: Option<&SourceTotals>,
        processors: usize,
    ) -> Self {
        let mut all = source.map(|source| source.unfiltered).unwrap_or_default();
        let begun = source.map_or(0, |source| source.period_events);
        let period = all.events.checked_div(all.samples).unwrap_or(begun);
        // A trace does not say which source sampled idle threads, so each source gets all these samples.
        all.add(Totals::alike(recording.idle_samples(), period));
        let slices = source.and_then(|source| source.slices.as_ref());
        let in_step = source.and_then(|source| recording.in_step.get(&*source.name));
        Self {
            all,
            missing: float(period) * float(processors as u64),
            multiplexing: slices.map_or(Some(0.0), |slices| Some(float(slices.error_ppm?) / 1e6)),
            in_step: in_step.copied().unwrap_or(1),
        }
    }

    /// A value without an error.
    pub(crate) const fn exact(all: Totals) -> Self {
        Self { all, missing: 0.0, multiplexing: Some(0.0), in_step: 1 }
    }

    /// Several runs as one. The error of times is that of the worst run, because its cause may be the same
    /// in every run.
    pub(crate) fn sum<'a>(runs: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::exact(Totals::default());
        for run in runs {
            sum.all.add(run.all);
            sum.missing += run.missing;
            sum.multiplexing = sum.multiplexing.zip(run.multiplexing).map(|(a, b)| a.max(b));
            sum.in_step = sum.in_step.max(run.in_step);
        }
        sum
    }

    /// How far off the events of a part of its samples may be: by so many standard deviations of
    /// chance.
    ///
    /// Sampling misses no event of the whole but those after the last sample of each processor.
    /// Which part has a sample is chance.
    pub(crate) fn bound(&self, part: Totals, deviations: f64) -> Option<f64> {
        let is_whole = part.samples == self.all.samples;
        let share = Share::weighted(part, self.all);
        let (value, chance) = if is_whole {
            (1.0, 0.0)
        } else {
            let independent = (share.effective / float(self.in_step)).max(1.0);
            let (low, high) = wilson_interval_at(deviations, share.value, independent);
            (share.value, (high - share.value).max(share.value - low))
        };
        let multiplexing = self.multiplexing? * float(part.events) * deviations / NORMAL_95;
        Some((chance * float(self.all.events)).hypot(value * self.missing).hypot(multiplexing))
    }

    /// The interval of the events of a part that has samples; `None` if the error of times is not
    /// known.
    ///
    /// The number of a part's samples is binomial. The logarithm of a share R of n independent samples
    /// has the variance (1 - R) / (R n): that of the number alone, 1 / (R n), less what is known because
    /// all events are (the delta method). Of few samples the logarithm is not normal.
    pub(crate) fn log_bounds(&self, part: Totals) -> Option<LogBounds> {
        let share = Share::weighted(part, self.all);
        let chance = if let Some((low, high)) = few::limits(effective(part)) {
            let n = float(effective(part) as u64);
            LogBounds { down: (n / low).ln(), up: (high / n).ln() }
        } else {
            let variance = (1.0 - share.value) / (share.value * share.effective);
            let half = NORMAL_95 * variance.max(0.0).sqrt();
            LogBounds { down: half, up: half }
        };
        let others = (self.missing / float(self.all.events)).hypot(self.multiplexing?);
        Some(LogBounds { down: chance.down.hypot(others), up: chance.up.hypot(others) })
    }
}

/// How many samples of equal weight are as accurate: those of a long period count for more events, and
/// make their sum less certain (L. Kish, Survey Sampling, 1965).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is at most that of the samples, and casts saturate"
)]
pub(crate) fn effective(part: Totals) -> usize {
    let events = float(part.events);
    let alike = (events * events / float(part.squares.max(1))).round();
    alike.min(float(part.samples)).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(all: Totals) -> Sampled {
        Sampled::exact(all)
    }

    #[test]
    fn a_part_is_as_accurate_as_its_samples() {
        let half = |part: Totals, whole: Totals| {
            let LogBounds { down, up } = sampled(whole).log_bounds(part).expect("known");
            assert!((down - up).abs() < 1e-12, "many");
            up
        };
        let whole = Totals::alike(1_000_000, 100);
        for (samples, expected) in
            [(10, 0.619_8), (100, 0.196), (10_000, 0.019_5), (500_000, 0.001_96)]
        {
            let half = half(Totals::alike(samples, 100), whole);
            assert!((half / expected - 1.0).abs() < 1e-3, "{samples}: {half}");
        }
        // All events are known, wherever they are.
        assert!(half(whole, whole).abs() < 1e-12);
        // A hundred samples, half of them ten times as heavy, are worth sixty.
        let mut uneven = Totals::alike(50, 100);
        uneven.add(Totals::alike(50, 1_000));
        assert_eq!(effective(uneven), 60);
        let half = half(uneven, Totals::alike(100_000_000, 100));
        assert!((half - NORMAL_95 / 60_f64.sqrt()).abs() < 2e-3, "{half}");
    }

    #[test]
    fn other_errors_are_added_as_squares() {
        let whole = Totals::alike(1_000_000, 100);
        let source = Sampled { missing: 3e6, multiplexing: Some(0.04), ..sampled(whole) };
        // 3 % may be missing, and the times are off by 4 %.
        let bounds = source.log_bounds(whole).expect("known");
        assert!((bounds.up - 0.05).abs() < 1e-9, "{bounds:?}");
        let unknown = Sampled { multiplexing: None, ..source };
        assert_eq!(unknown.log_bounds(whole), None);
        let sum = Sampled::sum([&source, &Sampled { in_step: 7, ..source }]);
        assert_eq!((sum.all.samples, sum.multiplexing, sum.in_step), (2_000_000, Some(0.04), 7));
    }
}
