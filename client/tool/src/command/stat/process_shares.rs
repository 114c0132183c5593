//! The samples of one source on one processor, and how accurate the shares of processes in them are.
//!
//! A source that is always on a counter is sampled all the time; Wilson's interval bounds its shares.
//!
//! A source that is multiplexed is sampled in slices of time, and the samples of a slice depend on each
//! other: a process that runs for longer than a slice has all of them, and the few samples of a short
//! slice all meet neighbouring parts of what repeats in step with the period. So each slice is one
//! observation, however many samples it has. In slice `i` the samples stand for `m[i]` events, of
//! which a process has `y[i]`. Its share is `s = sum(y) / sum(m)`, from which the slice deviates by
//! `e[i] = y[i] - s m[i]`, and the variance of the share is
//! `sum((e[i] - e[i-1])^2) / (2 sum(m)^2 (1 - 1/n))`, where `n = sum(m)^2 / sum(m^2)` is the number of
//! slices if all have equal weight. For independent slices this is the variance of any ratio. It is
//! computed from neighbours because slices are spread evenly over the time: the longer a process
//! runs, the more alike are neighbours, and the more accurately its share is known.
//!
//! The bound is the standard deviation times Student's t at 95 %, as the variance of `n` values from
//! their differences has 2/3 of `n - 1` degrees of freedom. It is no less than Wilson's for a process
//! without samples: slices that agree do not show what all of them missed. One slice shows nothing:
//! its bound is the whole.
//! Sources: W. G. Cochran, Sampling Techniques, 3rd edition, 6.3 (ratios) and 9A.3 (clusters);
//! K. M. Wolter, Introduction to Variance Estimation, 2nd edition, 8.2 (successive differences);
//! J. von Neumann et al., The mean square successive difference, Ann. Math. Stat. 12, 1941 (freedom).

use halprof_measure::float::float;
use halprof_measure::statistics::student_t;
use halprof_profile::aggregate::share::Share;
use halprof_profile::aggregate::totals::Totals;
use shared_types::Sample;
use std::collections::BTreeMap;

/// A process, and its position among those that had its identifier one after the other.
pub(super) type ProcessKey = (u32, usize);

/// The samples of one source on one processor.
#[derive(Default)]
pub(super) struct SourceSamples {
    all: Totals,
    of: BTreeMap<ProcessKey, ProcessSamples>,
    /// The sums of `m[i]^2` and of `(m[i] - m[i-1])^2`.
    squares: f64,
    steps: f64,
    /// The last slice that has ended, and the one that has not.
    before: Slice,
    now: Slice,
}

#[derive(Default)]
struct ProcessSamples {
    sum: Totals,
    /// The sums of `(y[i] - y[i-1])^2` and of `(y[i] - y[i-1]) (m[i] - m[i-1])`.
    steps: f64,
    products: f64,
}

/// The events in one slice.
#[derive(Default)]
struct Slice {
    /// The time of its first sample.
    began: u64,
    all: u64,
    of: BTreeMap<ProcessKey, u64>,
}

impl Slice {
    fn step(&self, before: &Self, process: ProcessKey) -> f64 {
        let of = |slice: &Self| float(slice.of.get(&process).copied().unwrap_or(0));
        of(self) - of(before)
    }
}

impl SourceSamples {
    /// Adds the next sample; samples within `slice_ticks` ticks are of one slice.
    pub(super) fn add(&mut self, process: ProcessKey, sample: &Sample, slice_ticks: u64) {
        if sample.timestamp.saturating_sub(self.now.began) >= slice_ticks {
            self.end_slice();
        }
        if self.now.all == 0 {
            self.now.began = sample.timestamp;
        }
        for events in [&mut self.now.all, self.now.of.entry(process).or_default()] {
            *events = events.saturating_add(sample.period);
        }
        self.all.add(Totals::of(sample));
        self.of.entry(process).or_default().sum.add(Totals::of(sample));
    }

    /// Ends the slice, after its last sample.
    pub(super) fn end_slice(&mut self) {
        let now = core::mem::take(&mut self.now);
        if now.all == 0 {
            return;
        }
        self.squares += float(now.all).powi(2);
        if self.before.all != 0 {
            let step = float(now.all) - float(self.before.all);
            self.steps += step * step;
            let gone = |process: &&ProcessKey| !now.of.contains_key(process);
            for &process in now.of.keys().chain(self.before.of.keys().filter(gone)) {
                let of_own = now.step(&self.before, process);
                let own = self.of.entry(process).or_default();
                own.steps += of_own * of_own;
                own.products += of_own * step;
            }
        }
        self.before = now;
    }

    /// The processes with samples.
    pub(super) fn processes(&self) -> impl Iterator<Item = ProcessKey> {
        self.of.keys().copied()
    }

    pub(super) fn samples(&self, process: ProcessKey) -> u64 {
        self.of.get(&process).map_or(0, |own| own.sum.samples)
    }

    /// The share of a process and its 95 % bound, from 0 to 1.
    pub(super) fn share(&self, process: ProcessKey, is_multiplexed: bool) -> (f64, f64) {
        let none = ProcessSamples::default();
        let own = self.of.get(&process).unwrap_or(&none);
        let share = Share::weighted(own.sum, self.all);
        if !is_multiplexed {
            return (share.value, share.bound());
        }
        let (s, events) = (share.value, float(self.all.events));
        let slices = events * events / self.squares;
        let bound = if slices > 1.0 {
            let squares = own.steps - 2.0 * s * own.products + s * s * self.steps;
            let variance = squares / (2.0 * events * events * (1.0 - 1.0 / slices));
            student_t(0.975, (slices - 1.0) * 2.0 / 3.0) * variance.max(0.0).sqrt()
        } else {
            1.0
        };
        let least = Share::weighted(Totals::default(), self.all).bound();
        (s, bound.clamp(least, 1.0))
    }
}

#[cfg(test)]
#[expect(clippy::cast_sign_loss, reason = "no time here is negative")]
mod tests {
    use super::*;
    use fastrand::Rng;

    const SLICE_TICKS: u64 = 1_000_000;
    const PROCESSES: [ProcessKey; 2] = [(4, 0), (8, 0)];

    /// Two processes that run in turn for `stretch` slices on average, for 60 cycles of `turns`
    /// slices each, of which a random one has samples at equal distances. Returns the samples and
    /// the share of the first process.
    fn run(random: &mut Rng, turns: u64, stretch: f64, samples: u64) -> (SourceSamples, f64) {
        let whole = float(60 * turns * SLICE_TICKS);
        let mut changes = vec![0.0];
        while changes.last().is_some_and(|&last| last < whole) {
            let last = changes.last().copied().unwrap_or(whole);
            changes.push(whole.min(last - random.f64().ln() * stretch * float(SLICE_TICKS)));
        }
        let truth = changes.chunks_exact(2).map(|ends| ends[1] - ends[0]).sum::<f64>() / whole;
        let mut taken = SourceSamples::default();
        for cycle in 0..60 {
            let slice = cycle * turns
                + (0..turns).find(|at| random.f64() * float(turns - at) < 1.0).unwrap_or(0);
            let phase = random.f64();
            for sample in 0..samples {
                let at =
                    (float(slice) + (float(sample) + phase) / float(samples)) * float(SLICE_TICKS);
                let process = PROCESSES[(changes.partition_point(|&change| change <= at) + 1) % 2];
                let sample = Sample { timestamp: at as u64, period: 1000, ..Sample::default() };
                taken.add(process, &sample, SLICE_TICKS);
            }
        }
        taken.end_slice();
        (taken, truth)
    }

    /// Wilson's bound, which takes samples for independent, held in 467 to 980 of 1000.
    #[test]
    fn bounds_hold_however_long_a_process_runs() {
        // The rotation's turns, the slices that a process runs for, and the samples in each.
        for (turns, stretch, samples) in
            [(3, 0.02, 4), (3, 0.5, 20), (8, 2.0, 20), (8, 20.0, 20), (8, 2.0, 1)]
        {
            let within = |seed: &u64| {
                let (taken, truth) = run(&mut Rng::with_seed(*seed), turns, stretch, samples);
                let (share, bound) = taken.share(PROCESSES[0], true);
                (share - truth).abs() <= bound
            };
            let held = (0..1000).filter(within).count();
            // 95 % less three standard deviations of a binomial of 1000.
            assert!(held >= 929, "{held} of 1000: {turns} {stretch} {samples}");
        }
    }

    #[test]
    fn one_slice_shows_nothing_and_several_that_agree_leave_wilsons_bound() {
        let mut taken = SourceSamples::default();
        for (slice, bound) in [(0, 1.0), (1, Share::of(0, 20).bound())] {
            for sample in 0..10 {
                let sample = Sample {
                    timestamp: slice * SLICE_TICKS + sample,
                    period: 1000,
                    ..Sample::default()
                };
                taken.add(PROCESSES[0], &sample, SLICE_TICKS);
            }
            taken.end_slice();
            assert_eq!(taken.share(PROCESSES[0], true), (1.0, bound));
        }
    }
}
