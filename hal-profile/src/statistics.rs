//! What became of the samples.

use shared_types::LossCause;

/// Counts of one processor's samples and interrupts: generated = stored + all lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleStatistics {
    /// Periods that passed.
    pub generated: u64,
    /// Samples in the ring.
    pub stored: u64,
    /// Samples not stored, by cause.
    pub lost: [u64; LossCause::ALL.len()],
    /// Interrupts without an overflow of ours.
    pub spurious: u64,
    /// How often the guard lengthened the periods.
    pub throttled: u64,
    /// Ticks of the time-stamp counter in the handler.
    pub handler_ticks: u64,
}

impl SampleStatistics {
    /// Nothing yet.
    pub const ZERO: Self = Self {
        generated: 0,
        stored: 0,
        lost: [0; LossCause::ALL.len()],
        spurious: 0,
        throttled: 0,
        handler_ticks: 0,
    };

    pub(crate) fn lose(&mut self, cause: LossCause, count: u64) {
        if let Some(lost) = self.lost.get_mut(cause as usize) {
            *lost = lost.wrapping_add(count);
        }
    }
}
