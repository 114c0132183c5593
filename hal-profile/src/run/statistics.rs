//! What happened to the samples.

use crate::run::event_ring::DeferredEvents;
use shared_types::LossCause;
use zerocopy::FromZeros;

/// Counts of one processor's samples and interrupts: `generated` is `stored` plus all of `lost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct SampleStatistics {
    /// Periods that have elapsed.
    pub generated: u64,
    /// Samples in the ring.
    pub stored: u64,
    /// Samples not stored, by cause.
    pub lost: [u64; LossCause::ALL.len()],
    /// The events that the lost samples stand for, by cause.
    pub lost_events: [u64; LossCause::ALL.len()],
    /// Interrupts without an overflow of the session's counters.
    pub spurious: u64,
    /// How many times the throttle lengthened the periods.
    pub throttled: u64,
    /// Time spent in the handler, in ticks of the time-stamp counter.
    pub handler_ticks: u64,
    /// What has not yet been written as system events.
    pub(crate) deferred: DeferredEvents,
}

impl SampleStatistics {
    /// Counts `periods` elapsed periods of `period` events each as lost.
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
