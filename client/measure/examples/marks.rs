//! What a mark costs: `cargo run --release -p halprof-measure --example marks` without a recorder,
//! then `cargo run --release -p halprof -- timeline -- target/release/examples/marks` with one.
//!
//! The cost is measured on this computer, by its time-stamp counter; nothing here is modelled.

use halprof_measure::Clock;
use halprof_measure::marks::Channel;
use halprof_measure::regions::Distribution;
use std::hint::black_box;

/// How many marks one measurement makes.
const MARKS: u64 = 1000;
/// How often it is measured.
const TRIALS: usize = 200;

fn main() {
    print!("{}", measured().unwrap_or_default());
}

/// `None` if nothing was measured.
pub(crate) fn measured() -> Option<String> {
    let clock = Clock::here();
    let turn = Channel::named("turn");
    let trial = |_| {
        let before = clock.before();
        (0..MARKS).for_each(|value| black_box(turn).mark(value));
        clock.after() - before
    };
    let ticks: Vec<u64> = (0..TRIALS).map(trial).collect();
    let found = Distribution::culled(&ticks)?;
    let recorder = if turn.is_recorded() { "with" } else { "without" };
    Some(format!(
        "{recorder} a recorder {MARKS} marks take {} ticks at least, median {}, trimmed mean {:.1}, \
         {} of {TRIALS} culled\n",
        found.min, found.median, found.trimmed_mean, found.culled
    ))
}
