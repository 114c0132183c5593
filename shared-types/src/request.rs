//! Request codes, each beside its input and output.
//!
//! The HAL's functions appear as requests that return a status: HalStartProfileInterrupt is
//! [`session::START`], HalStopProfileInterrupt [`session::STOP`], HalSetProfileInterval and
//! HalSetSystemInformation(HalProfileSourceInterval) are [`session::SET_INTERVAL`],
//! HalQuerySystemInformation(HalProfileSourceInformation) is [`source::QUERY`], and registering an
//! interrupt handler corresponds to configuring sources with [`session::SAMPLE`] and collecting
//! samples with [`samples::DRAIN`].

pub mod counts;
pub mod events;
pub mod machine;
pub mod rdpmc;
pub mod samples;
pub mod session;
pub mod source;
pub mod threads;

/// The access right that a handle needs for a request (winioctl.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Access {
    /// FILE_READ_DATA: the request changes nothing.
    Read = 1,
    /// FILE_WRITE_DATA: the request changes something.
    Write = 2,
}

/// A DeviceIoControl code: CTL_CODE(FILE_DEVICE_UNKNOWN, function, METHOD_BUFFERED, access).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestCode(pub u32);

impl RequestCode {
    const FILE_DEVICE_UNKNOWN: u32 = 0x22;

    const fn new(function: u32, access: Access) -> Self {
        Self(Self::FILE_DEVICE_UNKNOWN << 16 | (access as u32) << 14 | (0x800 + function) << 2)
    }

    /// The right that a handle needs, taken from the code's own bits.
    #[must_use]
    pub const fn access(self) -> Option<Access> {
        match self.0 >> 14 & 3 {
            1 => Some(Access::Read),
            2 => Some(Access::Write),
            _ => None,
        }
    }

    /// Every code of this version, with the name of its request.
    pub const ALL: &[(Self, &str)] = &[
        (machine::HELLO, "hello"),
        (machine::DESCRIBE, "describe"),
        (machine::PROCESSORS, "processors"),
        (machine::REGISTERS, "registers"),
        (source::ENUMERATE, "enumerate"),
        (source::QUERY, "query"),
        (source::PLAN, "plan"),
        (session::OPEN, "open"),
        (session::CONFIGURE, "configure"),
        (session::START, "start"),
        (session::STOP, "stop"),
        (session::CLOSE, "close"),
        (session::SET_INTERVAL, "set-interval"),
        (counts::SNAPSHOT, "snapshot"),
        (samples::DRAIN, "drain"),
        (samples::STATISTICS, "statistics"),
        (rdpmc::ALLOW, "allow-rdpmc"),
        (rdpmc::RELEASE, "release-rdpmc"),
        (rdpmc::STATUS, "rdpmc-status"),
        (threads::THREADS, "threads"),
        (events::DRAIN_EVENTS, "drain-events"),
    ];
}

/// A request without arguments.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct Plain {
    /// The header; no flags.
    pub header: crate::RequestHeader,
}
