//! How many samples there are of something, and for how many events they stand.

use schemars::JsonSchema;
use serde::Serialize;
use shared_types::Sample;

/// A number of samples, and the number of events that they stand for. All saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Totals {
    /// Samples.
    pub samples: u64,
    /// The sum of their periods.
    pub events: u64,
    /// The sum of the squares of their periods, for the accuracy of shares.
    #[serde(skip)]
    pub squares: u128,
}

impl Totals {
    /// A single sample.
    pub const fn of(sample: &Sample) -> Self {
        Self::alike(1, sample.period)
    }

    /// Samples of one period.
    pub const fn alike(samples: u64, period: u64) -> Self {
        let square = period as u128 * period as u128;
        Self {
            samples,
            events: samples.saturating_mul(period),
            squares: square.saturating_mul(samples as u128),
        }
    }

    /// Adds another sum to this one.
    pub const fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.events = self.events.saturating_add(other.events);
        self.squares = self.squares.saturating_add(other.squares);
    }
}
