use super::*;
use crate::file::{Period, Source};

/// A small generator, so that every run has the same samples.
struct Random(u64);

impl Random {
    /// Below `most`.
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % most
    }
}

fn is_in_step(processes: impl IntoIterator<Item = u64>) -> bool {
    let mut in_step = InStep::default();
    for process in processes {
        in_step.add(&[Sample { process: process as u32, ..Sample::default() }]);
    }
    let metadata = Metadata { sources: vec![Source::default()], ..Metadata::default() };
    !in_step.sources(&metadata).is_empty()
}

/// What two programs run, 60 % and 40 % of each round of 10,007 events, sampled every `period`
/// events; after every `steady` events they are somewhere else in their round.
fn beat(period: u64, samples: u64, steady: u64) -> impl Iterator<Item = u64> {
    (1..=samples).map(move |number| {
        let at = number * period;
        let shift = Random(at / steady).below(10_007);
        u64::from((at + shift) % 10_007 >= 6_004)
    })
}

#[test]
fn samples_that_go_round_a_loop_are_in_step() {
    for period in [100_003, 99_991, 50_021, 250_007, 100_000, 5_003] {
        let samples = 800_000_000 / period;
        assert!(is_in_step(beat(period, samples, u64::MAX)), "{period}");
    }
    for period in [100_003, 99_991, 250_007, 100_000] {
        assert!(is_in_step(beat(period, 2_000, period * 125)), "{period}, with shifts");
    }
}

#[test]
fn independent_samples_and_phases_are_not_in_step() {
    for samples in [100, 1_000, 8_000] {
        let mut random = Random(samples);
        for places in [2, 3, 20, 1_000] {
            assert!(!is_in_step((0..samples).map(|_| random.below(places))), "{places}");
        }
        for phases in [1, 2, 3, 5, 20] {
            let phase = |number: u64| number * phases / samples % 2;
            assert!(!is_in_step((0..samples).map(phase)), "{phases} of {samples}");
        }
        for phases in [2, 5] {
            let mixed =
                |number: u64| u64::from(random.below(10) < 2 + 6 * (number * phases / samples % 2));
            assert!(!is_in_step((0..samples).map(mixed)), "{phases} mixed of {samples}");
        }
    }
}

/// A period that is drawn from its band.
#[test]
fn drawn_periods_are_not_in_step() {
    for mean in [100_003, 1_000_000, 250_007] {
        let mut random = Random(mean);
        let mut at = 0;
        let places = (0..4_000).map(|_| {
            at += mean - mean / 16 + random.below(mean / 8 + 1);
            u64::from(at % 10_007 >= 6_004)
        });
        assert!(!is_in_step(places), "{mean}");
    }
}

/// Only a source with an exact period is named, and its places are also those of code.
#[test]
fn code_that_recurs_is_in_step_where_the_period_is_exact() {
    let mut in_step = InStep::default();
    for source in [0, 1] {
        for number in 0..4_000 {
            let ip = 0x1_4000_0000 + number * 67 % 10_007 * 4;
            in_step.add(&[Sample { source, ip, ..Sample::default() }]);
        }
    }
    let source = |name: &str, drawn| Source {
        name: name.to_owned(),
        period: Period { drawn, ..Period::default() },
        ..Source::default()
    };
    let sources = vec![source("exact", false), source("drawn", true), source("silent", false)];
    let metadata = Metadata { sources, ..Metadata::default() };
    assert_eq!(in_step.sources(&metadata).into_keys().collect::<Vec<_>>(), ["exact"]);
}
