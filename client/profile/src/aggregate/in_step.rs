//! Whether samples are in step with what they sample.
//!
//! Suppose that a period is nearly a multiple of what a loop counts in one round. Each sample is
//! then a little later in the loop than the one before, so for a while all samples hit the same
//! part. Neighbouring samples are alike, and bounds, which assume independent samples, are too
//! narrow.
//!
//! The test uses the correlation of places at a distance of `k` samples: how much more often they
//! are the same than by chance, from 0 to 1. If samples go round a loop, the correlation falls and
//! rises again with `k`, or falls below 0: a line in the spectrum of places. A program with phases
//! also has neighbours that are alike, but its places change seldom, and their correlation only
//! falls. A cycle longer than a tenth of the samples is seen too few times to be told from phases.
//!
//! Source: G. E. P. Box, G. M. Jenkins, G. C. Reinsel and G. M. Ljung, Time Series Analysis, 5th
//! edition, 2.1 (the autocorrelation, its standard error) and 2.2 (the periodogram).

use crate::file::Metadata;
use halprof_measure::float::float;
use rustc_hash::{FxHashMap, FxHasher};
use shared_types::Sample;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// The most samples of a source that are examined on one processor.
const MOST: usize = 8_192;
/// The most samples that are examined in all.
const MOST_IN_ALL: usize = 1 << 18;
/// A processor with fewer samples of a source is left out: their correlation is mostly error (0.14
/// for 50).
const FEWEST: usize = 50;
/// With fewer changes of place than this, a program has phases.
const CHANGES: usize = 20;
/// Correlated neighbours matter if they make the variance of a share this many times larger.
const INFLATION: f64 = 2.0;
/// What samples are compared by: process, page of 4 KiB, cache line of 64 bytes.
const LEVELS: usize = 3;

type Place = [u32; LEVELS];

/// The samples that are examined.
#[derive(Debug, Default)]
pub struct InStep {
    places: FxHashMap<(u16, u32), Vec<Place>>,
    kept: usize,
}

impl InStep {
    /// Adds samples; those of one processor come in order of time.
    pub fn add(&mut self, samples: &[Sample]) {
        let key = |sample: &Sample| (sample.source, sample.processor);
        for run in samples.chunk_by(|one, next| key(one) == key(next)) {
            let Some(first) = run.first().filter(|_| self.kept < MOST_IN_ALL) else {
                return;
            };
            let places = self.places.entry(key(first)).or_default();
            let before = places.len();
            places.extend(run.iter().take(MOST - before).map(place));
            self.kept += places.len() - before;
        }
    }

    /// The names of the sources with an exact period whose samples are in step with what they
    /// sample, each with how many times that makes the variance of a share larger.
    pub fn sources(&self, metadata: &Metadata) -> BTreeMap<String, u64> {
        let mut of_source: FxHashMap<u16, Vec<&[Place]>> = FxHashMap::default();
        for ((source, _), places) in self.places.iter().filter(|(_, all)| all.len() >= FEWEST) {
            of_source.entry(*source).or_default().push(places);
        }
        let sources = (0u16..).zip(&metadata.sources).filter(|(_, source)| !source.period.drawn);
        sources
            .filter_map(|(index, source)| {
                Some((source.name.clone(), largest_inflation(of_source.get(&index)?)?))
            })
            .collect()
    }
}

/// How many times larger the variance of a share is than that of independent samples, if those of
/// any processor's `own` places are in step.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is at least 1, and casts saturate"
)]
fn largest_inflation(own: &[&[Place]]) -> Option<u64> {
    let levels = (0..LEVELS).filter_map(|level| {
        let at = |place: &Place| place.get(level).copied().unwrap_or_default();
        let places = own.iter().map(|places| places.iter().map(at).collect());
        inflation(&places.collect::<Vec<_>>())
    });
    levels.map(|inflation| inflation.ceil() as u64).max()
}

fn place(sample: &Sample) -> Place {
    let hash = |ip: u64| {
        let mut hasher = FxHasher::default();
        (sample.process, ip).hash(&mut hasher);
        (hasher.finish() >> 32) as u32
    };
    [sample.process, hash(sample.ip >> 12), hash(sample.ip >> 6)]
}

/// How many times larger the variance is if the places on each processor are in step.
fn inflation(processors: &[Vec<u32>]) -> Option<f64> {
    let changes: usize = processors.iter().map(|places| changes(places)).sum();
    let samples: usize = processors.iter().map(Vec::len).sum();
    if changes < CHANGES {
        return None;
    }
    let correlation = correlation(processors, samples);
    let (mut lowest, mut rise, mut sum, mut inflation) = (1.0f64, 0.0f64, 0.0, 1.0f64);
    for &at in correlation.iter().skip(1) {
        lowest = lowest.min(at);
        rise = rise.max(at - lowest);
        sum += at;
        inflation = inflation.max(1.0 + 2.0 * sum);
    }
    // The correlation of independent samples has a standard error of 1 / sqrt(samples). `lowest` is
    // the extreme of many such values, and `rise` the difference of two, so several errors are
    // allowed.
    let error = 1.0 / float(samples as u128).sqrt();
    let has_line = lowest < -(4.0 * error).max(0.1) || rise > (8.0 * error).max(0.3);
    (has_line && inflation >= INFLATION).then_some(inflation)
}

fn changes(places: &[u32]) -> usize {
    places.windows(2).filter(|pair| pair.first() != pair.last()).count()
}

/// The correlation at each distance, up to a tenth of the samples of a processor, of all processors
/// together.
fn correlation(processors: &[Vec<u32>], samples: usize) -> Vec<f64> {
    let squares: usize = processors.iter().map(|places| places.len().pow(2)).sum();
    let farthest = squares / samples.max(1) / 10;
    let mut sums = vec![(0.0, 0.0); farthest + 1];
    for places in processors {
        let by_chance = by_chance(places);
        for (distance, (more, possible)) in sums.iter_mut().enumerate().take(places.len() / 4) {
            let later = places.get(distance..).unwrap_or_default();
            let same = places.iter().zip(later).map(|(one, other)| u32::from(one == other));
            let same: u32 = same.sum();
            let pairs = float(later.len() as u128);
            *more += f64::from(same) - by_chance * pairs;
            *possible += (1.0 - by_chance) * pairs;
        }
    }
    sums.iter()
        .map(|(more, possible)| if *possible > 0.0 { more / possible } else { 0.0 })
        .collect()
}

/// How often two of these places are the same by chance.
fn by_chance(places: &[u32]) -> f64 {
    let mut counts: FxHashMap<u32, u64> = FxHashMap::default();
    for &place in places {
        *counts.entry(place).or_default() += 1;
    }
    let all = float(places.len() as u128);
    counts.into_values().map(|count| (float(count) / all).powi(2)).sum()
}

#[cfg(test)]
mod tests;
