//! The HAL's profiling structures, in their x64 layout.
//!
//! Sources: HAL design note "Performance Monitoring"; the public ReactOS/mingw-w64 DDK headers for
//! the members; offsets follow from natural alignment.

use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// HAL_PROFILE_SOURCE_INFORMATION: what HalQuerySystemInformation(HalProfileSourceInformation)
/// replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct HalProfileSourceInformation {
    /// KPROFILE_SOURCE, in and out.
    pub source: i32,
    /// BOOLEAN.
    pub supported: u8,
    /// Padding.
    pub padding: [u8; 3],
    /// The current interval, in events; for ProfileTime in units of 100 ns.
    pub interval: u32,
}

/// HAL_PROFILE_SOURCE_INTERVAL: what HalSetSystemInformation(HalProfileSourceInterval) takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct HalProfileSourceInterval {
    /// KPROFILE_SOURCE.
    pub source: i32,
    /// Padding.
    pub padding: u32,
    /// ULONG_PTR: the requested interval.
    pub interval: u64,
}

/// OVERFLOW_STATUS: the result of CheckOverflowStatus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct OverflowStatus {
    /// The number of sources at `sources`.
    pub number: u32,
    /// Padding.
    pub padding: u32,
    /// KPROFILE_SOURCE*: the sources whose counters have overflowed. In a reply, the offset from its
    /// start.
    pub sources: u64,
}

const _: () = {
    assert!(size_of::<HalProfileSourceInformation>() == 0x0C);
    assert!(offset_of!(HalProfileSourceInformation, supported) == 4);
    assert!(offset_of!(HalProfileSourceInformation, interval) == 8);
    assert!(size_of::<HalProfileSourceInterval>() == 0x10);
    assert!(offset_of!(HalProfileSourceInterval, interval) == 8);
    assert!(size_of::<OverflowStatus>() == 0x10);
    assert!(offset_of!(OverflowStatus, sources) == 8);
};
