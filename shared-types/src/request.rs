//! Request codes, each beside its input and output.
//!
//! The HAL's functions appear as requests that return a status: HalStartProfileInterrupt is
//! [`session::START`], HalStopProfileInterrupt [`session::STOP`], HalSetProfileInterval and
//! HalSetSystemInformation(HalProfileSourceInterval) are [`session::SET_INTERVAL`],
//! HalQuerySystemInformation(HalProfileSourceInformation) is [`source::QUERY`], and registering an
//! interrupt handler corresponds to configuring sources with [`session::SAMPLE`] and collecting
//! samples with [`samples::DRAIN`].

use crate::RequestHeader;
use zerocopy::{FromBytes, Immutable, IntoBytes};

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
    pub const fn access(self) -> Option<Access> {
        match self.0 >> 14 & 3 {
            1 => Some(Access::Read),
            2 => Some(Access::Write),
            _ => None,
        }
    }
}

macro_rules! requests {
    ($($variant:ident $code:path, $name:literal;)*) => {
        /// The requests of this version.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is documented at its code")]
        pub enum Request {
            $($variant,)*
        }

        impl Request {
            /// The request of a code; `None` if this version has none.
            pub const fn decode(code: RequestCode) -> Option<Self> {
                $(if code.0 == $code.0 {
                    return Some(Self::$variant);
                })*
                None
            }

            /// Its code.
            pub const fn code(self) -> RequestCode {
                match self {
                    $(Self::$variant => $code,)*
                }
            }
        }

        impl RequestCode {
            /// Every code of this version, with the name of its request.
            pub const ALL: &[(Self, &str)] = &[$(($code, $name)),*];
        }
    };
}

requests! {
    Hello machine::HELLO, "hello";
    Describe machine::DESCRIBE, "describe";
    Processors machine::PROCESSORS, "processors";
    Registers machine::REGISTERS, "registers";
    Enumerate source::ENUMERATE, "enumerate";
    Query source::QUERY, "query";
    Plan source::PLAN, "plan";
    Open session::OPEN, "open";
    Configure session::CONFIGURE, "configure";
    Start session::START, "start";
    Stop session::STOP, "stop";
    Close session::CLOSE, "close";
    SetInterval session::SET_INTERVAL, "set-interval";
    Snapshot counts::SNAPSHOT, "snapshot";
    Drain samples::DRAIN, "drain";
    Statistics samples::STATISTICS, "statistics";
    AllowRdpmc rdpmc::ALLOW, "allow-rdpmc";
    ReleaseRdpmc rdpmc::RELEASE, "release-rdpmc";
    RdpmcStatus rdpmc::STATUS, "rdpmc-status";
    Threads threads::THREADS, "threads";
    DrainEvents events::DRAIN_EVENTS, "drain-events";
}

/// A request without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Plain {
    /// The header; no flags.
    pub header: RequestHeader,
}
