//! What became of the samples.

use crate::events::Notes;
use shared_types::LossCause;
use zerocopy::FromZeros;

/// Counts of one processor's samples and interrupts: generated = stored + all lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct SampleStatistics {
    /// Periods that passed.
    pub generated: u64,
    /// Samples in the ring.
    pub stored: u64,
    /// Samples not stored, by cause.
    pub lost: [u64; LossCause::ALL.len()],
    /// The events that those stand for, by cause.
    pub lost_events: [u64; LossCause::ALL.len()],
    /// Interrupts without an overflow of ours.
    pub spurious: u64,
    /// How often the guard lengthened the periods.
    pub throttled: u64,
    /// Ticks of the time-stamp counter in the handler.
    pub handler_ticks: u64,
    /// What no event tells of yet.
    pub(crate) notes: Notes,
}

impl SampleStatistics {
    /// Periods of so many events each passed and are not stored.
    pub(crate) fn lose(&mut self, cause: LossCause, periods: u64, period: u64) {
        let cause = cause as usize;
        if let (Some(lost), Some(events)) =
            (self.lost.get_mut(cause), self.lost_events.get_mut(cause))
        {
            *lost = lost.wrapping_add(periods);
            *events = events.wrapping_add(periods.wrapping_mul(period));
        }
    }
}
