//! Do bounds hold, and is what was not estimated exact?
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "simulated counts are small"
)]

use super::*;
use fastrand::Rng;

fn halves(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

/// A count that says nothing of how its slices differ.
fn count(counted: u64, enabled: u64, running: u64) -> Count {
    Count { counted, enabled, running, ..Count::default() }
}

/// A count of slices, each with its events and ticks.
fn of_slices(slices: &[(u128, u128)], enabled: u64) -> Count {
    let sum = |of: fn(u128, u128) -> u128| slices.iter().map(|&(x, t)| of(x, t)).sum::<u128>();
    Count {
        counted: sum(|x, _| x) as u64,
        enabled,
        running: sum(|_, t| t) as u64,
        slices: slices.len() as u64,
        count_squared: halves(sum(|x, _| x * x)),
        count_by_time: halves(sum(|x, t| x * t)),
        time_squared: halves(sum(|_, t| t * t)),
    }
}

/// A source that is on a counter in every `share`-th of stretches of these rates; returns its count
/// and the truth.
fn simulate(rates: &[f64], share: usize, ticks: u64) -> (Count, u64) {
    let events = |rate: &f64| (rate * ticks as f64) as u64;
    let seen = rates.iter().step_by(share).map(|rate| (events(rate).into(), ticks.into()));
    let seen: Vec<(u128, u128)> = seen.collect();
    (of_slices(&seen, ticks * rates.len() as u64), rates.iter().map(events).sum())
}

/// Ticks of a slice against which the error of its times is nothing.
const LONG: u128 = 1 << 40;

fn miss(estimate: &Estimate, truth: u64) -> f64 {
    (estimate.value.expect("a slice") as f64 - truth as f64).abs()
}

#[test]
fn what_ran_all_the_time_is_exact() {
    let estimate = Estimate::new(&count(1 << 62, 7, 7));
    assert_eq!((estimate.value, estimate.scaled, estimate.error), (Some(1 << 62), false, None));
}

#[test]
fn scaling_survives_the_largest_amounts() {
    let estimate = Estimate::new(&count(1 << 61, 1 << 62, 1 << 61));
    assert_eq!((estimate.value, estimate.scaled), (Some(1 << 62), true));
    let largest = Estimate::new(&count(u64::MAX, u64::MAX, 1));
    assert_eq!(largest.value, Some(u128::from(u64::MAX).pow(2)));
}

#[test]
fn one_turn_and_none_have_no_bound() {
    for (running, slices) in [(5, 1), (5, 0), (0, 0), (0, 2)] {
        let estimate = Estimate::new(&Count { slices, ..count(running, 10, running) });
        assert!(estimate.scaled);
        assert_eq!(estimate.error, None);
        let exact = Estimate::new(&count(3, 1, 1));
        assert_eq!(Estimate::sum([estimate, exact]).error, None);
    }
}

#[test]
fn the_bound_holds_in_more_than_95_of_100_random_workloads() {
    for (share, stretches) in [(2, 20), (3, 30), (4, 200), (8, 80)] {
        let mut held = 0;
        for seed in 0..1000 {
            let mut random = Rng::with_seed(seed * 7919 + 1);
            let rates: Vec<f64> = (0..stretches).map(|_| 0.5 + random.f64()).collect();
            let (count, truth) = simulate(&rates, share, 100_000);
            let estimate = Estimate::new(&count);
            let miss = miss(&estimate, truth);
            held += u32::from(miss <= estimate.error.expect("a bound"));
        }
        // Three standard deviations below 98 %, of a binomial of 1000.
        assert!(held >= 965, "{held} of 1000 at 1/{share} of {stretches}");
    }
}

/// Slices of one rate do not differ, and still their times may be off: each counter ran a little
/// longer than was claimed.
#[test]
fn the_bound_of_a_constant_rate_holds_the_error_of_the_times() {
    for outside in [100, 500, 2_000] {
        for slices in [2u64, 10, 1_000] {
            let ticks = 4_000_000;
            let seen = vec![(u128::from(ticks + outside), u128::from(ticks)); slices as usize];
            let enabled = 3 * slices * (ticks + outside);
            let estimate = Estimate::new(&of_slices(&seen, enabled));
            let (miss, error) = (miss(&estimate, enabled), estimate.error.expect("a bound"));
            assert!(miss <= error, "{outside} in {slices}: {miss} > {error}");
            // As many processors are all off in the same direction.
            let sum = Estimate::sum([estimate; 64]).error.expect("a bound");
            assert!(64.0 * miss <= sum, "{outside} in {slices} on 64: {sum}");
            assert!(error < 0.002 * enabled as f64, "{outside} in {slices}: {error}");
        }
    }
}

/// Workloads whose own period is not in step with the slices, starting at any phase.
#[test]
fn the_bound_holds_against_periods_that_are_not_in_step() {
    for (share, period) in [(2, 3), (3, 7), (4, 5), (8, 3)] {
        for phase in 0..period {
            let of_one = |stretch: usize| {
                if (stretch + phase).is_multiple_of(period) { 1.0 } else { 0.25 }
            };
            let rates: Vec<f64> = (0..share * 40).map(of_one).collect();
            let (count, truth) = simulate(&rates, share, 100_000);
            let estimate = Estimate::new(&count);
            let miss = miss(&estimate, truth);
            let error = estimate.error.expect("a bound");
            assert!(miss <= error, "1/{share}, period {period}: {miss} > {error}");
        }
    }
}

#[test]
fn a_sum_over_processors_holds_as_well() {
    let mut held = 0;
    for seed in 0..1000 {
        let mut random = Rng::with_seed(seed * 104_729 + 3);
        let (mut parts, mut truth) = (Vec::new(), 0);
        for processor in 1..=4 {
            let rates: Vec<f64> = (0..24).map(|_| random.f64() * f64::from(processor)).collect();
            let (count, true_count) = simulate(&rates, 3, 50_000);
            parts.push(Estimate::new(&count));
            truth += true_count;
        }
        let sum = Estimate::sum(parts);
        let miss = miss(&sum, truth);
        held += u32::from(miss <= sum.error.expect("a bound"));
    }
    assert!(held >= 965, "{held} of 1000");
}

#[test]
fn differences_of_snapshots_borrow_across_halves() {
    let before = Count { count_squared: [5, 0], ..Count::default() };
    let now = Count { count_squared: [3, 1], ..Count::default() };
    assert_eq!(since(&now, &before).count_squared, [u64::MAX - 1, 0]);
    let now = Count { count_squared: [3, 7], ..Count::default() };
    assert_eq!(since(&now, &before).count_squared, [u64::MAX - 1, 6]);
}

/// The bounds by hand, with Student's t from a table: see the formulas above.
#[test]
fn the_bound_is_that_of_the_textbook() {
    let (t1, t3) = (31.821, 4.541);
    let squared = [10, 20, 30, 40].map(|x| (x, 100));
    let even = [(300, 100); 4];
    for (slices, enabled, deviation, t) in [
        // Four of ten slices, of variance 500 / 3: 10^2 (1 - 4/10) (500 / 3) / 4.
        (&squared[..], 1000, 2500.0, t3),
        // As even as can be: only the rounding of both ends of each slice, 4 (1 + 3^2) / 6, takes
        // the place of 500.
        (&even, 1000, 2500.0 * (4.0 * 10.0 / 6.0) / 500.0, t3),
        // Two of four slices, of variance 50.
        (&[(10, 100), (20, 100)], 400, 16.0 * 0.5 * 50.0 / 2.0, t1),
        // Slices of 100 and 300 ticks are worth 400^2 / (100^2 + 300^2) = 1.6 equal ones. Their
        // distances from 0.15 events in a tick are 5: 50 / (1 - 1/1.6) times 800 * 400 / 400^2.
        (&[(10, 100), (50, 300)], 800, 50.0 / 0.375 * 2.0, t1),
    ] {
        let estimate = Estimate::new(&of_slices(slices, enabled));
        let error = estimate.error.expect("a bound");
        // 2,048 ticks of each slice are added as they are.
        let (value, running) = (estimate.value.expect("a slice") as f64, estimate.running as f64);
        let by_time = value * 2048.0 * slices.len() as f64 / running;
        let expected = t * f64::sqrt(deviation);
        let by_slices = error - by_time;
        assert!((by_slices / expected - 1.0).abs() < 1e-3, "{slices:?}: {error}, not {expected}");
    }
}

/// Its events and its time are in the count, and no difference from other slices: it adds none.
#[test]
fn a_slice_that_is_not_over_makes_nothing_more_accurate() {
    // 50 / (1 - 1/2) times 1000 * 740 / 260^2, as of two slices.
    let (variance, t1) = (100.0 * 1000.0 * 740.0 / (260.0 * 260.0), 31.821);
    let ended = of_slices(&[(10, 100), (20, 100)], 1000);
    let count = Count { counted: ended.counted + 9, running: ended.running + 60, ..ended };
    let estimate = Estimate::new(&count);
    let by_time = 150.0 * 2048.0 * 2.0 / 260.0;
    let by_slices = estimate.error.expect("a bound") - by_time;
    let expected = t1 * f64::sqrt(variance);
    assert_eq!(estimate.value, Some(150));
    assert!((by_slices / expected - 1.0).abs() < 1e-3, "{by_slices}, not {expected}");
}

/// Twice the variance, and twice the degrees of freedom: 2 and not 1.
#[test]
fn the_bound_of_a_sum_has_the_freedom_of_all_parts() {
    let one = Estimate::new(&of_slices(&[(10, LONG), (20, LONG)], 4 * LONG as u64));
    let sum = Estimate::sum([one, one]).error.expect("a bound");
    let expected = 6.965 * f64::sqrt(2.0 * 200.0);
    assert!((sum / expected - 1.0).abs() < 1e-3, "{sum}, not {expected}");
}

#[test]
fn sums_are_exact_beyond_64_bits() {
    let one = Estimate::new(&count((1 << 62) + 1, u64::MAX, u64::MAX));
    let sum = Estimate::sum(std::iter::repeat_n(one, 2048));
    assert_eq!(sum.value, Some((1 << 73) + 2048));
    assert_eq!(Some(sum.counted), sum.value);
    assert_eq!((sum.scaled, sum.error), (false, None));
    assert_eq!(sum.running, u128::from(u64::MAX) * 2048);
}

/// On 64 processors, a source that had slices on some of them only.
#[test]
fn a_processor_without_a_turn_is_not_a_zero() {
    let ran = |counted| Estimate::new(&of_slices(&[(counted, 100), (counted, 100)], 1000));
    let waited = Estimate::new(&of_slices(&[], 1000));
    assert_eq!((waited.value, waited.error, waited.scaled), (None, None, true));
    for (with_slice, counted, expected) in [
        (64, 10, Some(6400)),
        (16, 10, Some(6400)),
        (1, 10, Some(6400)),
        // Neither a slice nor an event: nothing is known.
        (1, 0, None),
        (0, 0, None),
        (64, 0, Some(0)),
    ] {
        let parts = (0..64).map(|index| if index < with_slice { ran(counted) } else { waited });
        let sum = Estimate::sum(parts);
        assert_eq!(sum.value, expected, "{with_slice} with a slice");
        assert_eq!(sum.never_scheduled_cpus, 64 - with_slice);
        // Nobody knows whether the others did the same.
        assert_eq!(sum.error.is_some(), with_slice == 64, "{sum:?}");
        assert!(sum.scaled);
    }
    // By the time enabled, not by the number of processors: one came later.
    let late = Estimate::new(&of_slices(&[], 500));
    assert_eq!(Estimate::sum([ran(10), late]).value, Some(150));
    // A processor that was not in the session is no processor without a slice.
    let sum = Estimate::sum([ran(10), Estimate::new(&Count::default())]);
    assert_eq!((sum.value, sum.never_scheduled_cpus), (Some(100), 0));
    assert!(sum.error.is_some());
}

#[test]
fn the_bound_of_a_mean_is_the_mean_of_the_bounds() {
    let exact = Estimate { value: Some(100), ..Estimate::default() };
    let estimate = |error| Estimate { scaled: true, error, ..exact };
    for (estimates, error) in [
        ([estimate(Some(10.0)), estimate(Some(30.0))], Some(20.0)),
        ([estimate(Some(10.0)), exact], Some(5.0)),
        ([exact, exact], None),
        // Too few slices for a bound.
        ([estimate(Some(10.0)), estimate(None)], None),
    ] {
        assert_eq!(Estimate::error_of_mean(&estimates), error, "{estimates:?}");
    }
}
