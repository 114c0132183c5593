//! Out to Windows: everything of the kernel, the HAL and the framework that the driver uses, each
//! behind a function or a type that cannot be used wrongly from safe code.
//!
//! One of the three rooms where unsafe code stands.
#![expect(unsafe_code, reason = "calls into ntoskrnl, the HAL and KMDF")]

pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod debug;
pub(crate) mod framework;
pub(crate) mod lock;
pub(crate) mod pool;
pub(crate) mod processors;
pub(crate) mod timer;

use wdk_sys::NTSTATUS;

/// The tag of all pool that the driver takes: `Hprf` in `!poolused`.
pub(crate) const TAG: u32 = u32::from_le_bytes(*b"Hprf");

/// An NTSTATUS that is no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) NTSTATUS);

impl Failed {
    /// The status as it travels and is shown.
    #[must_use]
    pub(crate) const fn code(self) -> u32 {
        self.0.cast_unsigned()
    }
}

/// A status as a result.
pub(crate) fn check(status: NTSTATUS) -> Result<(), Failed> {
    if wdk::nt_success(status) {
        Ok(())
    } else {
        Err(Failed(status))
    }
}
