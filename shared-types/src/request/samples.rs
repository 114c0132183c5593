//! Samples: drained from the rings of all processors in bounded replies, with every loss reported.

use super::counts::Changes;
use super::{Access, RequestCode};
use crate::{LossCause, ReplyHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Takes samples: [`super::session::Session`] to [`Drained`] and as many [`crate::Sample`]s as the
/// output holds, at most [`DRAIN_BYTES_MAX`] bytes in total. In a session that records branches,
/// each sample is followed by [`Drained::branches`] [`crate::Branch`]es, newest first: the first
/// [`crate::Sample::branches`] of them are valid, the others are zeros.
pub const DRAIN: RequestCode = RequestCode::new(14, Access::Write);
/// What happened to all samples: [`super::session::Session`] to [`Statistics`].
pub const STATISTICS: RequestCode = RequestCode::new(15, Access::Read);

/// The longest reply to [`DRAIN`].
pub const DRAIN_BYTES_MAX: usize = 1 << 20;

/// Reply to [`DRAIN`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Drained {
    /// The header.
    pub header: ReplyHeader,
    /// Number of samples that follow.
    pub count: u32,
    /// [`crate::ErrorCode`] with which the driver ended the session, or 0.
    pub ended: u32,
    /// Number of samples left in the rings.
    pub left: u64,
    /// Number of branches that follow each sample.
    pub branches: u32,
    /// 0.
    pub reserved: u32,
}

/// Reply to [`STATISTICS`]: generated = stored + the sum of `lost`, always.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Statistics {
    /// The header.
    pub header: ReplyHeader,
    /// Periods that elapsed while sampling.
    pub generated: u64,
    /// Number of samples put into the rings.
    pub stored: u64,
    /// Number of samples not stored, by [`LossCause`].
    pub lost: [u64; LossCause::ALL.len()],
    /// The number of events that those samples stand for: the sum of their periods.
    pub lost_events: [u64; LossCause::ALL.len()],
    /// Interrupts that found no overflowed counter of the session.
    pub spurious: u64,
    /// How many times the interrupt-time guard lengthened the periods.
    pub throttled: u64,
    /// The longest period now in use for any source, in events.
    pub longest_period: u64,
    /// Ticks of the time-stamp counter spent in the interrupt handler.
    pub handler_ticks: u64,
    /// Interrupts that found fewer branch records than an earlier one: something, such as a deep C-state,
    /// had cleared them, and the branches before that are lost.
    pub branches_cleared: u64,
    /// [`crate::ErrorCode`] with which the driver ended the session, or 0.
    pub ended: u32,
    /// The processor on which it ended, if it did.
    pub ended_processor: u32,
    /// What others have changed.
    pub changes: Changes,
}

const _: () = {
    assert!(size_of::<Drained>() == 48);
    assert!(size_of::<Statistics>() == 24 + 8 * 16 + 32);
};
