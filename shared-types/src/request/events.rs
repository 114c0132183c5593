//! System events: one ring for the machine, drained in bounded replies, with every loss told.
//!
//! A session that is configured with [`super::session::EVENTS`] has it while it runs, and after that
//! until its results are gone. An image of the kernel is told of only where samples of kernel mode
//! would be.

use super::{Access, RequestCode};
use crate::ReplyHeader;
use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Takes system events: [`super::session::Session`] to [`DrainedEvents`] and as many
/// [`crate::SystemEvent`]s as the output holds, at most [`EVENTS_BYTES_MAX`] in all.
pub const DRAIN_EVENTS: RequestCode = RequestCode::new(20, Access::Write);

/// The longest reply to [`DRAIN_EVENTS`].
pub const EVENTS_BYTES_MAX: usize = 1 << 16;

/// Reply to [`DRAIN_EVENTS`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DrainedEvents {
    /// The header.
    pub header: ReplyHeader,
    /// Events that follow.
    pub count: u32,
    /// 0.
    pub reserved: u32,
    /// Events that are left in the ring.
    pub left: u64,
    /// Events that the ring had no room for since the reply before.
    pub lost: u64,
}

const _: () = {
    assert!(size_of::<DrainedEvents>() == 48);
};
