//! RDPMC in user mode: CR4.PCE, one bit of each processor.
//!
//! While it is set every program on the machine can read the counters. Sessions hold it; the first
//! holder has it set on every processor, those that are added later too, and when the last lets go
//! each processor has it as it was found.

use super::{Access, RequestCode};
use crate::ReplyHeader;
use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The session holds it from now on, until [`RELEASE`], [`super::session::CLOSE`], or the end of
/// its handle: [`super::session::Session`] to [`Rdpmc`]. A session that holds it already goes on.
pub const ALLOW: RequestCode = RequestCode::new(16, Access::Write);
/// The session lets go: [`super::session::Session`] to [`Rdpmc`]. A session that does not hold it
/// has nothing to let go.
pub const RELEASE: RequestCode = RequestCode::new(17, Access::Write);
/// How things are, which this does not change: [`super::Plain`] to [`Rdpmc`].
pub const STATUS: RequestCode = RequestCode::new(18, Access::Read);

/// Reply to [`ALLOW`], [`RELEASE`] and [`STATUS`]: how things are now.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Rdpmc {
    /// The header.
    pub header: ReplyHeader,
    /// Sessions that hold it.
    pub holders: u32,
    /// Processors that were looked at.
    pub processors: u32,
    /// Those of them whose CR4.PCE is set now.
    pub on: u32,
    /// Those of them whose CR4.PCE was set before the first holder came; the same as `on` while
    /// nobody holds it.
    pub found: u32,
}

const _: () = {
    assert!(size_of::<Rdpmc>() == 40);
};
