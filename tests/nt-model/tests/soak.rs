//! Does the driver keep every rule while clients, sleep, removal, added processors, interrupts and
//! timers come concurrently?

use halprof_tests::driver;
use nt_model::soak::{Limit, SEQUENCES, cores, live, soak};
use std::time::Duration;

/// The number of machines; `cargo run --release -p nt-model --bin soak` goes on for as long as you
/// like.
const LIVES: u64 = 20;
/// Lives that once broke a rule, or broke what the model took for one.
const SEEDS: &[u64] = &[2, 3, 4, 5, 14, 20, 34, 50, 53, 58, 60, 62, 200, 202, 503];

#[test]
fn machines_live() {
    let Some(file) = driver::with_every_interface() else {
        return;
    };
    let limit = Limit { lives: LIVES, time: Duration::MAX };
    let life = soak(&file, 1000, limit, cores()).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(life.sequences, LIVES * SEQUENCES);
    let told = life.told;
    assert!(told.granted * 10 > told.requests, "most refused: {told:?}");
    assert!(life.interrupts > 10_000, "{life:?}");
    assert!(life.contended > 100 && life.faults > 100, "{life:?}");
    assert!(told.samples > 1000 && told.cancelled > 100, "{told:?}");
    let features = [told.branches, told.by_thread, told.allowed];
    assert!(features.iter().all(|&often| often > 20), "{told:?}");
}

#[test]
fn seeds_that_failed_once() {
    let Some(file) = driver::with_every_interface() else {
        return;
    };
    for &seed in SEEDS {
        live(&file, seed, SEQUENCES).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_seed_given_twice_gives_the_same() {
    let Some(file) = driver::with_every_interface() else {
        return;
    };
    for seed in [1, 7, 4] {
        let once = live(&file, seed, 20).unwrap_or_else(|failure| panic!("{failure}"));
        let twice = live(&file, seed, 20).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(once, twice);
        assert_ne!(once.calls.0, 0);
        let other = live(&file, seed + 100, 20).unwrap_or_else(|failure| panic!("{failure}"));
        assert_ne!(once.calls, other.calls);
    }
}
