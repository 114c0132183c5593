//! Counts over time: what happened between two snapshots, and how often per second.
//!
//! A rate is over the time for which the processor itself says it was enabled, not the time at
//! which the client asked: a late snapshot makes its interval longer, but no rate wrong.
//!
//! ```
//! # fn main() -> halprof_measure::Result<()> {
//! use halprof_measure::Sources;
//! use halprof_measure::rates::Rates;
//! # let leaves = halprof_measure::spec("skylake")?.leaves;
//! # let mut connection = halprof_measure::Connection::new(halprof_measure::Modelled::new(&leaves))?;
//! let sources = Sources::named(&mut connection, "TotalIssues")?;
//! let mut rates = Rates::new(connection.machine()?.timestamp_frequency);
//! let mut session = sources.start(&mut connection)?;
//! // From now on, every so often:
//! let interval = rates.take(session.snapshot()?);
//! if let Some(rate) = interval.sum(0) {
//!     println!("{:.0} instructions a second", rate.per_second);
//! }
//! # Ok(())
//! # }
//! ```

use crate::estimate::{Estimate, since};
use crate::float::float;
use shared_types::request::counts::Count;

/// How often something happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Events per second.
    pub per_second: f64,
    /// Whether it is an estimate because the source shared its counter with others.
    pub scaled: bool,
    /// The 95 % bound of an estimate, in events per second; `None` if nothing was scaled, or if
    /// there were too few turns to know.
    pub error: Option<f64>,
}

/// Follows a session from snapshot to snapshot: see
/// [`Session::snapshot`](crate::Session::snapshot).
#[derive(Clone, Debug)]
pub struct Rates {
    frequency: u64,
    before: Vec<Vec<Count>>,
}

impl Rates {
    /// `frequency` is the machine's: ticks of the time-stamp counter per second.
    #[must_use]
    pub const fn new(frequency: u64) -> Self {
        Self {
            frequency,
            before: Vec::new(),
        }
    }

    /// What happened since the previous snapshot. The first one counts from the session's start, as
    /// does a processor that was not there before.
    pub fn take(&mut self, now: Vec<Vec<Count>>) -> Interval {
        let interval = Interval::between(&self.before, &now, self.frequency);
        self.before = now;
        interval
    }

    /// The last snapshot: what was counted since the session's start.
    #[must_use]
    pub const fn totals(&self) -> &[Vec<Count>] {
        self.before.as_slice()
    }

    /// What one source has counted since the session's start, on these processors together.
    #[must_use]
    pub fn estimate_on(&self, processors: &[usize], source: usize) -> Estimate {
        let counts = processors
            .iter()
            .filter_map(|&processor| self.before.get(processor)?.get(source));
        Estimate::sum(counts.map(Estimate::new))
    }
}

/// What happened between two snapshots.
#[derive(Clone, Debug)]
pub struct Interval {
    frequency: u64,
    /// Differences between counts.
    counts: Vec<Vec<Count>>,
}

impl Interval {
    /// The interval before any reading.
    pub const NOTHING: Self = Self {
        frequency: 0,
        counts: Vec::new(),
    };

    /// What happened between two snapshots of a session on a machine with this `frequency`. What the
    /// earlier one does not have counts from the session's start.
    #[must_use]
    pub fn between(before: &[Vec<Count>], now: &[Vec<Count>], frequency: u64) -> Self {
        let counts = now.iter().enumerate().map(|(processor, counts)| {
            let before = before.get(processor);
            let one = |(source, count)| match before.and_then(|counts| counts.get(source)) {
                Some(before) => since(count, before),
                None => *count,
            };
            counts.iter().enumerate().map(one).collect()
        });
        Self {
            frequency,
            counts: counts.collect(),
        }
    }

    /// The differences themselves, exact.
    #[must_use]
    pub const fn counts(&self) -> &[Vec<Count>] {
        self.counts.as_slice()
    }

    /// Its length in seconds, on the processor that was enabled longest.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let enabled = self.counts.iter().flatten().map(|count| count.enabled);
        seconds(enabled.max().unwrap_or(0), self.frequency)
    }

    /// The rate of one source on one processor; `None` if it was on no counter, so that nothing is
    /// known.
    #[must_use]
    pub fn rate(&self, processor: usize, source: usize) -> Option<Rate> {
        let count = self.known(processor, source)?;
        self.rate_of([count])
    }

    /// The rate of one source on all processors that know it, together; `None` if none does.
    #[must_use]
    pub fn sum(&self, source: usize) -> Option<Rate> {
        let known = |processor| self.known(processor, source);
        self.rate_of((0..self.counts.len()).filter_map(known))
    }

    /// One source on those of these processors that know its rate, together; `None` where none does.
    #[must_use]
    pub fn sum_on(&self, processors: &[usize], source: usize) -> Option<Rate> {
        let known = |&processor: &usize| self.known(processor, source);
        self.rate_of(processors.iter().filter_map(known))
    }

    /// What one source counted on all processors.
    #[must_use]
    pub fn estimate(&self, source: usize) -> Estimate {
        sum(&self.counts, source)
    }

    fn known(&self, processor: usize, source: usize) -> Option<&Count> {
        let count = self.counts.get(processor)?.get(source)?;
        (count.running > 0).then_some(count)
    }

    /// The sum of the rates of all processors. Its bound is that of the sum in events, over the
    /// shortest time: exact if all were enabled for the same time, otherwise too large.
    fn rate_of<'a>(&self, counts: impl IntoIterator<Item = &'a Count>) -> Option<Rate> {
        let mut per_second = 0.0;
        let mut shortest = None;
        let parts = counts.into_iter().map(|count| {
            let part = Estimate::new(count);
            let time = seconds(count.enabled, self.frequency);
            per_second += float(part.value) / float(part.enabled) * float(self.frequency);
            shortest = Some(shortest.map_or(time, |shortest: f64| shortest.min(time)));
            part
        });
        let sum = Estimate::sum(parts);
        let shortest = shortest?;
        Some(Rate {
            per_second,
            scaled: sum.scaled,
            error: sum.error.map(|error| error / shortest),
        })
    }
}

fn sum(snapshot: &[Vec<Count>], source: usize) -> Estimate {
    let counts = snapshot.iter().filter_map(|counts| counts.get(source));
    Estimate::sum(counts.map(Estimate::new))
}

/// Converts ticks of a clock of `frequency` to seconds.
fn seconds(ticks: u64, frequency: u64) -> f64 {
    float(ticks) / float(frequency.max(1))
}

#[cfg(test)]
mod tests;
