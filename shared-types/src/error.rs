//! Every reason for refusing a request, each with its own number and name.

use crate::interface::wire_enum;

/// An NTSTATUS with which a DeviceIoControl completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NtStatus(pub u32);

impl NtStatus {
    /// STATUS_SUCCESS: there is a reply; its header may still refuse the request.
    pub const SUCCESS: Self = Self(0x0000_0000);
    /// STATUS_INVALID_DEVICE_REQUEST: there is no such request code, or the request has no file
    /// object.
    pub const INVALID_DEVICE_REQUEST: Self = Self(0xC000_0010);
    /// STATUS_DEVICE_NOT_READY: the device is starting or being removed.
    pub const DEVICE_NOT_READY: Self = Self(0xC000_00A3);
    /// STATUS_ACCESS_DENIED: the handle was opened without the right that the code requires.
    pub const ACCESS_DENIED: Self = Self(0xC000_0022);
    /// STATUS_BUFFER_TOO_SMALL: the output cannot hold a reply header.
    pub const BUFFER_TOO_SMALL: Self = Self(0xC000_0023);
    /// STATUS_INFO_LENGTH_MISMATCH: the input cannot hold a request header.
    pub const INFO_LENGTH_MISMATCH: Self = Self(0xC000_0004);
}

/// What a refusal's `subject` is, as far as a client has to know without reading each code's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// Something of the request, of the session or of the machine.
    Request,
    /// A source's number, which the client can show by the name that it was asked for by.
    Source,
    /// The same, and the refusal says that this source finds no counter beside the others: another list
    /// would fit.
    Placement,
    /// Counters that are missing for the sources together: another list would fit, but `subject` names
    /// none of the sources.
    Counters,
}

// From facts/errors.csv, where the tool has what it says of each code, and the debugger its names.
include!(concat!(env!("OUT_DIR"), "/error_codes.rs"));

impl ErrorCode {
    /// The stable name, which programs may compare, e.g. `source-not-supported`.
    pub const fn code(self) -> &'static str {
        self.name()
    }
}
