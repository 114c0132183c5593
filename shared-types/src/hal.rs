//! The HAL's profiling structures, in their x64 and x86 layouts.
//!
//! Sources: HAL design note "Performance Monitoring"; the public ReactOS/mingw-w64 DDK headers for
//! the members; offsets follow from natural alignment. `MaxInterval` comes before `MinInterval`.

use core::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! layout {
    ($type:ident, $size:literal, $($field:ident at $offset:literal),+) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $field) == $offset);)+
        };
    };
}

/// HAL_PROFILE_SOURCE_INFORMATION, the same on x64 and x86: query class 1, 12 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
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
layout!(HalProfileSourceInformation, 0x0C, source at 0, supported at 4, interval at 8);

/// HAL_PROFILE_SOURCE_INFORMATION_EX on x64: query class 1 with a buffer of 40 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct HalProfileSourceInformationEx64 {
    /// KPROFILE_SOURCE, in and out.
    pub source: i32,
    /// BOOLEAN.
    pub supported: u8,
    /// Padding.
    pub padding: [u8; 3],
    /// ULONG_PTR: the current interval.
    pub interval: u64,
    /// ULONG_PTR: the interval used when none is set.
    pub default_interval: u64,
    /// ULONG_PTR: the longest interval.
    pub max_interval: u64,
    /// ULONG_PTR: the shortest interval.
    pub min_interval: u64,
}
layout!(HalProfileSourceInformationEx64, 0x28, source at 0, supported at 4, interval at 8,
    default_interval at 0x10, max_interval at 0x18, min_interval at 0x20);

/// HAL_PROFILE_SOURCE_INFORMATION_EX on x86: query class 1 with a buffer of 24 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct HalProfileSourceInformationEx32 {
    /// KPROFILE_SOURCE, in and out.
    pub source: i32,
    /// BOOLEAN.
    pub supported: u8,
    /// Padding.
    pub padding: [u8; 3],
    /// ULONG_PTR: the current interval.
    pub interval: u32,
    /// ULONG_PTR: the interval used when none is set.
    pub default_interval: u32,
    /// ULONG_PTR: the longest interval.
    pub max_interval: u32,
    /// ULONG_PTR: the shortest interval.
    pub min_interval: u32,
}
layout!(HalProfileSourceInformationEx32, 0x18, source at 0, supported at 4, interval at 8,
    default_interval at 0x0C, max_interval at 0x10, min_interval at 0x14);

/// HAL_PROFILE_SOURCE_INTERVAL on x64: set class 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct HalProfileSourceInterval64 {
    /// KPROFILE_SOURCE.
    pub source: i32,
    /// Padding.
    pub padding: u32,
    /// ULONG_PTR: the requested interval.
    pub interval: u64,
}
layout!(HalProfileSourceInterval64, 0x10, source at 0, interval at 8);

/// HAL_PROFILE_SOURCE_INTERVAL on x86.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct HalProfileSourceInterval32 {
    /// KPROFILE_SOURCE.
    pub source: i32,
    /// ULONG_PTR: the requested interval.
    pub interval: u32,
}
layout!(HalProfileSourceInterval32, 0x08, source at 0, interval at 4);

/// HAL_PROFILE_SOURCE_LIST on x64: one element of query class 20's array.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct HalProfileSourceList64 {
    /// KPROFILE_SOURCE.
    pub source: i32,
    /// Padding.
    pub padding: u32,
    /// PWSTR: a kernel address, never given to a user.
    pub description: u64,
}
layout!(HalProfileSourceList64, 0x10, source at 0, description at 8);

/// HAL_PROFILE_SOURCE_LIST on x86.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct HalProfileSourceList32 {
    /// KPROFILE_SOURCE.
    pub source: i32,
    /// PWSTR: a kernel address, never given to a user.
    pub description: u32,
}
layout!(HalProfileSourceList32, 0x08, source at 0, description at 4);

/// OVERFLOW_STATUS on x64: the result of CheckOverflowStatus.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct OverflowStatus64 {
    /// The number of sources at `sources`.
    pub number: u32,
    /// Padding.
    pub padding: u32,
    /// KPROFILE_SOURCE*: the sources whose counters have overflowed.
    pub sources: u64,
}
layout!(OverflowStatus64, 0x10, number at 0, sources at 8);

/// OVERFLOW_STATUS on x86.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct OverflowStatus32 {
    /// The number of sources at `sources`.
    pub number: u32,
    /// KPROFILE_SOURCE*: the sources whose counters have overflowed.
    pub sources: u32,
}
layout!(OverflowStatus32, 0x08, number at 0, sources at 4);
