//! RDPMC in user mode: CR4.PCE, one bit of each processor.
//!
//! While the bit is set, every program on the machine can read the counters. Sessions hold it: for
//! the first holder it is set on every processor, including those added later, and when the last
//! holder releases it, each processor gets the bit back as it was found.

use super::{Access, RequestCode};
use crate::ReplyHeader;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// From now on the session holds RDPMC, until [`RELEASE`], [`super::session::CLOSE`], or the end of
/// its handle: [`super::session::Session`] to [`Rdpmc`]. A session that already holds it keeps it.
pub const ALLOW: RequestCode = RequestCode::new(16, Access::Write);
/// The session releases RDPMC: [`super::session::Session`] to [`Rdpmc`]. It has no effect if the
/// session does not hold it.
pub const RELEASE: RequestCode = RequestCode::new(17, Access::Write);
/// The present state, which this does not change: [`super::Plain`] to [`Rdpmc`].
pub const STATUS: RequestCode = RequestCode::new(18, Access::Read);

/// Reply to [`ALLOW`], [`RELEASE`] and [`STATUS`]: the present state.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Rdpmc {
    /// The header.
    pub header: ReplyHeader,
    /// Number of sessions that hold RDPMC.
    pub holders: u32,
    /// Number of processors examined.
    pub processors: u32,
    /// Number of those whose CR4.PCE is set now.
    pub enabled: u32,
    /// Number of those whose CR4.PCE was set before the first holder; the same as `enabled` while
    /// no session holds RDPMC.
    pub enabled_before: u32,
}

const _: () = {
    assert!(size_of::<Rdpmc>() == 40);
};
