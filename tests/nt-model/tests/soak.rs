//! Does the driver keep every rule while clients, sleep, removal, added processors, interrupts and
//! timers come concurrently?

use halprof_tests::driver;
use nt_model::soak::{SEQUENCES, live, soak};

/// The number of machines; `cargo run --release -p nt-model --bin soak` runs as many as you like.
const LIVES: u64 = 20;
/// Lives that once broke a rule, or broke what the model took for one.
const SEEDS: &[u64] = &[2, 3, 4, 5, 14, 20, 34, 50, 53, 58, 60, 62, 200, 202, 503];

#[test]
fn machines_live() {
    let Some(file) = driver::with_every_interface() else {
        return;
    };
    let totals = soak(&file, 1000..1000 + LIVES).unwrap_or_else(|failure| panic!("{failure:#}"));
    assert_eq!(totals.sequences, LIVES * SEQUENCES);
    assert!(totals.granted * 10 > totals.requests, "most refused: {totals:?}");
    assert!(totals.interrupts > 10_000, "{totals:?}");
    assert!(totals.contended > 100 && totals.faults > 100, "{totals:?}");
    assert!(totals.samples > 1000 && totals.cancelled > 100, "{totals:?}");
    let features = [totals.branches, totals.by_thread, totals.allowed];
    assert!(features.iter().all(|&often| often > 10), "{totals:?}");
}

#[test]
fn seeds_that_failed_once() {
    let Some(file) = driver::with_every_interface() else {
        return;
    };
    soak(&file, SEEDS.iter().copied()).unwrap_or_else(|failure| panic!("{failure:#}"));
}

#[test]
fn a_seed_given_twice_gives_the_same() {
    let Some(file) = driver::with_every_interface() else {
        return;
    };
    for seed in [1, 7, 4] {
        let once = live(&file, seed, 20).unwrap_or_else(|failure| panic!("{failure:#}"));
        let twice = live(&file, seed, 20).unwrap_or_else(|failure| panic!("{failure:#}"));
        assert_eq!(once, twice);
        assert_ne!(once.history[0].0, 0);
        let other = live(&file, seed + 100, 20).unwrap_or_else(|failure| panic!("{failure:#}"));
        assert_ne!(once.history[0], other.history[0]);
    }
}
