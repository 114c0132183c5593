//! Counting by thread: counters that Windows adds up for each thread at context switches
//! (KeSetHardwareCounterConfiguration), for the thread itself to read (ReadThreadProfilingData).
//!
//! The session is configured with [`super::session::THREADS`]. While it runs, its counters run on
//! every processor, and Windows has a list of them: element n is the session's n-th source. The
//! total counts of each processor are reported as for any session.

use super::{Access, RequestCode};
use crate::ReplyHeader;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The counters of a session that counts by thread: [`super::session::Session`] to [`Threads`] and
/// one [`ThreadCounter`] for each source.
pub const THREADS: RequestCode = RequestCode::new(19, Access::Read);

/// The most sources in a session that counts by thread (MAX_HW_COUNTERS of ntddk.h).
pub const MAX_SOURCES: usize = 16;

/// Reply to [`THREADS`]; [`ThreadCounter`]s follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Threads {
    /// The header.
    pub header: ReplyHeader,
    /// Number of counters that follow.
    pub count: u32,
    /// How many times the machine has gone to sleep since the device was started; what a thread
    /// counted across a sleep is not valid.
    pub sleeps: u32,
    /// The value to pass to EnableThreadProfiling as HardwareCounters: a bit for each source, in
    /// order.
    pub mask: u64,
}

/// The counter of one source: the same on every processor. HwCounters in PERFORMANCE_DATA lists the
/// counters in the order of the session's sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct ThreadCounter {
    /// KPROFILE_SOURCE.
    pub source: u32,
    /// The counter's index among the general counters.
    pub counter: u32,
    /// The value of ECX with which RDPMC reads it.
    pub rdpmc: u32,
    /// Its width in bits: the number of meaningful low bits in the result of RDPMC.
    pub width: u32,
}

const _: () = {
    assert!(size_of::<Threads>() == 40);
    assert!(size_of::<ThreadCounter>() == 16);
};
