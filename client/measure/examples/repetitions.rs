//! The time of one multiplication, from the difference between N and 2N repetitions:
//! `cargo run --release -p halprof-measure --example repetitions`.
//!
//! Whatever surrounds the repetitions is the same in both measurements and cancels out. The time is
//! measured on this computer, by its time-stamp counter; nothing here is modelled.

use halprof_measure::Clock;
use halprof_measure::regions::{Distribution, RULE};
use std::fmt::Write as _;
use std::hint::black_box;

/// How many multiplications one measurement makes; the other makes twice as many.
const N: u32 = 1000;
/// How often each is measured.
const TRIALS: usize = 1000;

fn main() {
    print!("{}", measured().unwrap_or_default());
}

/// `None` if nothing was measured.
pub(crate) fn measured() -> Option<String> {
    let clock = Clock::here();
    let nothing = trials(clock, 0)?;
    let once = trials(clock, N)?;
    let twice = trials(clock, 2 * N)?;
    let difference = (twice.trimmed_mean - once.trimmed_mean) / f64::from(N);
    let plain = once.trimmed_mean / f64::from(N);
    let mut text = format!("time stamps: {clock}\nrule: {RULE}\n");
    for (name, found) in [
        ("a pair of time stamps alone", &nothing),
        ("1000 multiplications", &once),
        ("2000 multiplications", &twice),
    ] {
        let _ = writeln!(
            text,
            "{name}: {} ticks at least, median {}, trimmed mean {:.1}, {} of {} culled",
            found.min, found.median, found.trimmed_mean, found.culled, found.n
        );
    }
    let _ = writeln!(
        text,
        "one multiplication: {difference:.3} ticks by the difference, {plain:.3} with what surrounds it"
    );
    Some(text)
}

fn trials(clock: Clock, repetitions: u32) -> Option<Distribution> {
    let trial = |_| {
        let before = clock.before();
        black_box(multiply(black_box(3), repetitions));
        clock.after() - before
    };
    let ticks: Vec<u64> = (0..TRIALS).map(trial).collect();
    Distribution::culled(&ticks)
}

/// Each multiplication waits for the previous one.
#[inline(never)]
fn multiply(factor: u64, repetitions: u32) -> u64 {
    (0..repetitions).fold(1, |product: u64, _| black_box(product.wrapping_mul(factor)))
}
