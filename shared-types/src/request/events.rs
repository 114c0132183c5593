//! System events: one ring for the machine, drained in bounded replies, with every loss reported.
//!
//! A session that is configured with [`super::session::EVENTS`] has the ring while it runs, and
//! afterwards until its results are discarded.

use super::{Access, RequestCode};
use crate::ReplyHeader;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Takes system events: [`super::session::Session`] to [`DrainedEvents`] and as many
/// [`crate::SystemEvent`]s as the output holds, at most [`EVENTS_BYTES_MAX`] bytes in total.
pub const DRAIN_EVENTS: RequestCode = RequestCode::new(20, Access::Write);

/// The longest reply to [`DRAIN_EVENTS`].
pub const EVENTS_BYTES_MAX: usize = 1 << 16;

/// Reply to [`DRAIN_EVENTS`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct DrainedEvents {
    /// The header.
    pub header: ReplyHeader,
    /// Number of events that follow.
    pub count: u32,
    /// 0.
    pub reserved: u32,
    /// Number of events left in the ring.
    pub left: u64,
    /// Number of events for which the ring had no room since the previous reply.
    pub lost: u64,
}

const _: () = {
    assert!(size_of::<DrainedEvents>() == 48);
};
