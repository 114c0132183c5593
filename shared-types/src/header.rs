//! The headers with which every request and every reply begins.

use crate::ErrorCode;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The version of this wire format. Each side refuses any other version, naming both.
pub const WIRE_VERSION: u32 = 11;

/// The first bytes of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RequestHeader {
    /// Size of the whole request in bytes, including this header; exactly the input length.
    pub size: u32,
    /// [`WIRE_VERSION`].
    pub version: u32,
    /// Flags of the request; unknown ones are refused.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

impl RequestHeader {
    /// The header of a request of `size` bytes in this version.
    pub const fn new(size: usize, flags: u32) -> Self {
        Self { size: size as u32, version: WIRE_VERSION, flags, reserved: 0 }
    }
}

/// The first bytes of every reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct ReplyHeader {
    /// Size of the whole reply in bytes, including this header.
    pub size: u32,
    /// [`WIRE_VERSION`] of the answering side.
    pub version: u32,
    /// [`ErrorCode`], or 0 if the request succeeded.
    pub error: u32,
    /// What the error concerns: see the [`ErrorCode`].
    pub subject: u32,
    /// Further details of the error: see the [`ErrorCode`].
    pub detail: u64,
}

impl ReplyHeader {
    /// The header of a reply of `size` bytes to a request that succeeded.
    pub const fn done(size: usize) -> Self {
        Self { size: size as u32, version: WIRE_VERSION, error: 0, subject: 0, detail: 0 }
    }

    /// The header that refuses a request; nothing follows it.
    pub const fn refused(error: ErrorCode, subject: u32, detail: u64) -> Self {
        Self {
            size: size_of::<Self>() as u32,
            version: WIRE_VERSION,
            error: error as u32,
            subject,
            detail,
        }
    }
}

const _: () = {
    assert!(size_of::<RequestHeader>() == 16);
    assert!(size_of::<ReplyHeader>() == 24);
};
