//! NTSTATUS as a result.

use wdk_sys::NTSTATUS;

/// An NTSTATUS that is not a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) NTSTATUS);

impl Failed {
    /// The status as an unsigned number, as it is sent and shown.
    pub(crate) const fn code(self) -> u32 {
        self.0.cast_unsigned()
    }
}

/// A status as a result.
pub(crate) fn check(status: NTSTATUS) -> Result<(), Failed> {
    if wdk::nt_success(status) { Ok(()) } else { Err(Failed(status)) }
}
