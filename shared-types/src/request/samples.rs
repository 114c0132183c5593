//! Samples: drained from the rings of all processors in bounded replies, with every loss told.

use super::{Access, RequestCode};
use crate::{LossCause, ReplyHeader};
use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Takes samples: [`super::session::Session`] to [`Drained`] and as many [`crate::Sample`]s as
/// the output holds, at most [`DRAIN_BYTES_MAX`] in all. In a session that records branches each
/// sample is followed by [`Drained::branches`] [`crate::Branch`]es, newest first: the first
/// [`crate::Sample::branches`] of them are valid, the others zeros.
pub const DRAIN: RequestCode = RequestCode::new(14, Access::Write);
/// What became of all samples: [`super::session::Session`] to [`Statistics`].
pub const STATISTICS: RequestCode = RequestCode::new(15, Access::Read);

/// The longest reply to [`DRAIN`].
pub const DRAIN_BYTES_MAX: usize = 1 << 20;

/// Reply to [`DRAIN`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Drained {
    /// The header.
    pub header: ReplyHeader,
    /// Samples that follow.
    pub count: u32,
    /// [`crate::ErrorCode`] for which the driver has ended the session, or 0.
    pub ended: u32,
    /// Samples that are left in the rings.
    pub left: u64,
    /// Branches that follow each sample.
    pub branches: u32,
    /// 0.
    pub reserved: u32,
}

/// Reply to [`STATISTICS`]: generated = stored + the sum of `lost`, always.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Statistics {
    /// The header.
    pub header: ReplyHeader,
    /// Periods that passed while sampling.
    pub generated: u64,
    /// Samples put into the rings.
    pub stored: u64,
    /// Samples not stored, by [`LossCause`].
    pub lost: [u64; LossCause::ALL.len()],
    /// The events that those stand for: the sum of their periods.
    pub lost_events: [u64; LossCause::ALL.len()],
    /// Interrupts that found no counter of ours overflowed.
    pub spurious: u64,
    /// How often the interrupt-time guard lengthened the periods.
    pub throttled: u64,
    /// The longest period in use now for any source, in events.
    pub longest_period: u64,
    /// Ticks of the time-stamp counter spent in the interrupt handler.
    pub handler_ticks: u64,
    /// [`crate::ErrorCode`] for which the driver has ended the session, or 0.
    pub ended: u32,
    /// The processor for which it has.
    pub ended_processor: u32,
}

const _: () = {
    assert!(size_of::<Drained>() == 48);
    assert!(size_of::<Statistics>() == 24 + 8 * 15);
};
