//! NTSTATUS as a result.

use hal_profile::run::host::Unreserved;
use shared_types::ErrorCode;
use wdk_sys::NTSTATUS;

/// An NTSTATUS that is not a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) NTSTATUS);

impl Failed {
    /// The status as an unsigned number, as it is sent and shown.
    pub(crate) const fn code(self) -> u32 {
        self.0.cast_unsigned()
    }

    /// The status as the reason why the counters could not be reserved.
    pub(crate) const fn reserving(self, error: ErrorCode) -> Unreserved {
        Unreserved { error, status: self.code() }
    }
}

/// A status as a result.
pub(crate) fn check(status: NTSTATUS) -> Result<(), Failed> {
    if wdk::nt_success(status) { Ok(()) } else { Err(Failed(status)) }
}
