//! Counts over time: what happened between two snapshots, and how often per second.
//!
//! The time of a rate is the time for which the processor says that the source was enabled, not the
//! time between the client's requests: a late snapshot makes its interval longer, but no rate
//! wrong.
//!
//! ```
//! # fn main() -> halprof_measure::Result<()> {
//! use halprof_measure::rates::Rates;
//! use halprof_measure::{Connection, Machine, Sources};
//! let mut connection = Connection::new(Machine::open(Some("skylake"))?)?; // a modelled machine
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

/// How often an event happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Events per second.
    pub per_second: f64,
    /// Whether it is an estimate because the source shared its counter with others.
    pub scaled: bool,
    /// The 95 % bound of an estimate, in events per second; `None` if nothing was scaled, if there
    /// were too few slices to know, or if a processor had none.
    pub error: Option<f64>,
}

/// Follows a session from snapshot to snapshot: see
/// [`Session::snapshot`](crate::session::Session::snapshot).
#[derive(Clone, Debug)]
pub struct Rates {
    frequency: u64,
    before: Vec<Vec<Count>>,
}

impl Rates {
    /// `frequency` is the machine's: ticks of the time-stamp counter per second.
    pub const fn new(frequency: u64) -> Self {
        Self { frequency, before: Vec::new() }
    }

    /// What happened since the previous snapshot. The first one counts from the session's start, as
    /// does a processor that was not there before.
    pub fn take(&mut self, now: Vec<Vec<Count>>) -> Interval {
        let interval = Interval::between(&self.before, &now, self.frequency);
        self.before = now;
        interval
    }

    /// The last snapshot: what was counted since the session's start.
    pub const fn totals(&self) -> &[Vec<Count>] {
        self.before.as_slice()
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
    /// What happened between two snapshots of a session on a machine with this `frequency`. What
    /// the earlier one does not have counts from the session's start.
    pub fn between(before: &[Vec<Count>], now: &[Vec<Count>], frequency: u64) -> Self {
        let counts = now.iter().enumerate().map(|(processor, counts)| {
            let before = before.get(processor);
            let one = |(source, count)| match before.and_then(|counts| counts.get(source)) {
                Some(before) => since(count, before),
                None => *count,
            };
            counts.iter().enumerate().map(one).collect()
        });
        Self { frequency, counts: counts.collect() }
    }

    /// The differences themselves, exact.
    pub const fn counts(&self) -> &[Vec<Count>] {
        self.counts.as_slice()
    }

    /// The rate of one source on one processor; `None` if it was on no counter, so that nothing is
    /// known.
    pub fn rate(&self, processor: usize, source: usize) -> Option<Rate> {
        self.sum_on(&[processor], source)
    }

    /// The rate of one source on all processors together. All of them must be able to count it;
    /// otherwise give [`Self::sum_on`] the processors that can.
    pub fn sum(&self, source: usize) -> Option<Rate> {
        let all: Vec<usize> = (0..self.counts.len()).collect();
        self.sum_on(&all, source)
    }

    /// The rate of one source on these processors together. If it was on a counter on only some of
    /// them, the others are assumed to have the same rate. `None` if it was on a counter nowhere,
    /// or if no processor counted anything.
    ///
    /// The bound is that of the sum in events, divided by the shortest time: exact if all
    /// processors were enabled for the same time, otherwise too large.
    pub fn sum_on(&self, processors: &[usize], source: usize) -> Option<Rate> {
        let count = |&processor: &usize| self.counts.get(processor)?.get(source);
        let parts = processors.iter().filter_map(count);
        let parts = parts.filter(|count| count.enabled != 0).map(Estimate::new);
        let parts: Vec<Estimate> = parts.collect();
        let sum = Estimate::sum(parts.iter().copied());
        sum.value?;
        let known = parts.iter().filter_map(|part| Some((part.value?, part.enabled)));
        let known: Vec<(u128, u128)> = known.collect();
        let shortest = known.iter().map(|&(_, enabled)| enabled).min()?;
        let time: u128 = known.iter().map(|&(_, enabled)| enabled).sum();
        let each = known.iter().map(|&(value, enabled)| float(value) / float(enabled));
        let (frequency, others) = (float(self.frequency), float(sum.enabled) / float(time));
        Some(Rate {
            per_second: each.sum::<f64>() * others * frequency,
            scaled: sum.scaled,
            error: sum.error.map(|error| error * frequency / float(shortest)),
        })
    }
}

#[cfg(test)]
mod tests;
