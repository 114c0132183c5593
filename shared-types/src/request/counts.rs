//! Counts: every source of a session on every processor.

use super::{Access, RequestCode};
use crate::{ReplyHeader, RequestHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// All counts: [`SnapshotPage`] to [`Snapshot`] and, for each of its processors in turn, one
/// [`Count`] for each source. While the session runs, the counters are read; afterwards the values
/// are those of the last read.
///
/// A reply has at most [`SNAPSHOT_BYTES_MAX`] bytes. Counts that need more come in pages of as many
/// processors as fit. The request for the first page reads all processors at once; the later pages
/// are of that reading, whatever has been counted since.
pub const SNAPSHOT: RequestCode = RequestCode::new(13, Access::Read);

/// The most bytes of a reply to [`SNAPSHOT`].
pub const SNAPSHOT_BYTES_MAX: usize = 1 << 20;

/// Request of [`SNAPSHOT`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct SnapshotPage {
    /// The header; no flags.
    pub header: RequestHeader,
    /// The session.
    pub session: u32,
    /// Index of the page's first processor: 0 for a new reading, else the one after the previous
    /// page's last.
    pub first: u32,
}

/// What others have changed in the session's registers. The driver looks at them before each reply
/// with counts, at the end of each slice and when it reads the counters so that none wraps; what is
/// changed and changed back in between is not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Changes {
    /// How many changes were found on all processors; 0 if none was, and then the rest is 0 too.
    pub number: u32,
    /// The first processor on which one was found; the other fields are of the first change there.
    pub processor: u32,
    /// The MSR that was changed.
    pub register: u32,
    /// 0.
    pub reserved: u32,
    /// The session's bits in it, as the driver had written them; for a counter, its last value.
    pub written: u64,
    /// The same bits, as they were found.
    pub found: u64,
}

/// Reply to [`SNAPSHOT`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Snapshot {
    /// The header.
    pub header: ReplyHeader,
    /// Number of processors that follow; those that the session does not use have zeros.
    pub processors: u32,
    /// Number of counts for each processor.
    pub sources: u32,
    /// Number of processors in the reading; while it is above `first + processors`, ask again from
    /// there.
    pub total: u32,
    /// 0.
    pub reserved: u32,
    /// When the counters were read, in ticks of the time-stamp counter. Pages with the same time
    /// are of one reading.
    pub time: u64,
    /// What others have changed.
    pub changes: Changes,
}

/// What one source has counted on one processor. Times are in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Count {
    /// Number of events, summed from register reads.
    pub counted: u64,
    /// How long the session has been running on this processor, less the time in its interrupt
    /// handler, whose events are not the programs'.
    pub enabled: u64,
    /// How long this source has been on a counter, less the time in which somebody had changed its
    /// registers ([`Changes`]); the whole time for one that runs in every slice, because between
    /// slices only the driver runs. 0 if nothing is known of it.
    pub running: u64,
    /// How many times it was put on a counter and taken off again.
    pub slices: u64,
    /// Sum over those slices of count times count, low and high half.
    pub count_squared: [u64; 2],
    /// Sum over those slices of count times duration, low and high half.
    pub count_by_time: [u64; 2],
    /// Sum over those slices of duration times duration, low and high half.
    pub time_squared: [u64; 2],
}

const _: () = {
    assert!(size_of::<SnapshotPage>() == 24);
    assert!(size_of::<Snapshot>() == 80);
    assert!(size_of::<Changes>() == 32);
    assert!(size_of::<Count>() == 80);
};
