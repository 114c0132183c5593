//! Counts: every source of a session on every processor, in one reply.

use super::{Access, RequestCode};
use crate::ReplyHeader;
use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// All counts: [`super::session::Session`] to [`Snapshot`] and, for each processor in turn, one
/// [`Count`] for each source. While the session runs the counters are read; after that the values
/// stay as the last read left them.
pub const SNAPSHOT: RequestCode = RequestCode::new(13, Access::Read);

/// Reply to [`SNAPSHOT`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Snapshot {
    /// The header.
    pub header: ReplyHeader,
    /// Processors that follow; those that the session does not use have zeros.
    pub processors: u32,
    /// Counts of each.
    pub sources: u32,
}

/// What one source has counted on one processor. Times are ticks of the time-stamp counter.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Count {
    /// Events, summed up from register reads.
    pub counted: u64,
    /// For how long the session has been running here.
    pub enabled: u64,
    /// For how long this source has been on a counter; the whole time for one that runs in every
    /// turn, as from one turn to the next nothing runs but the driver.
    pub running: u64,
    /// How often it was put on a counter and taken off again.
    pub turns: u64,
    /// Sum over those turns of count times count, low and high half.
    pub count_squared: [u64; 2],
    /// Sum over those turns of count times duration, low and high half.
    pub count_by_time: [u64; 2],
    /// Sum over those turns of duration times duration, low and high half.
    pub time_squared: [u64; 2],
}

const _: () = {
    assert!(size_of::<Snapshot>() == 32);
    assert!(size_of::<Count>() == 80);
};
