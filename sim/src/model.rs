//! A whole modelled machine: processors, the service that the driver would run, and modelled time.

use crate::cpuid::Leaves;
use shared_types::NtStatus;
use shared_types::request::{Access, RequestCode};

/// A handle on the modelled device: what a file object is to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

/// A modelled machine with the service on it.
#[derive(Debug)]
pub struct Model {}

impl Model {
    /// A machine of these processors, as Windows leaves it after booting.
    #[must_use]
    pub fn new(_processors: &[Leaves]) -> Self {
        Self {}
    }

    /// Opens the device for a client process with these rights.
    pub fn open(&mut self, _process: u32, _access: &[Access]) -> Handle {
        Handle(0)
    }

    /// Closes a handle, as the I/O manager does for a process that ends.
    pub fn close(&mut self, _handle: Handle) {}

    /// One DeviceIoControl: the status it completes with, and the bytes written to `output`.
    pub fn device_control(
        &mut self,
        _handle: Handle,
        _code: RequestCode,
        _input: &[u8],
        _output: &mut [u8],
    ) -> (NtStatus, usize) {
        (NtStatus::INVALID_DEVICE_REQUEST, 0)
    }
}
