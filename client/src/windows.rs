//! The installed driver: the only file of this crate with unsafe code.

use crate::{Error, Result, Transport};
use shared_types::NtStatus;
use shared_types::request::RequestCode;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::io::AsRawHandle;
use std::ptr;
use windows_sys::Win32::System::IO::DeviceIoControl;

/// The symbolic link that the driver makes.
const DEVICE: &str = r"\\.\halprof";

/// A handle on the driver's device, open for reading and writing.
#[derive(Debug)]
pub struct Driver {
    device: File,
}

impl Driver {
    /// Opens the device (CreateFileW, through the standard library).
    pub fn open() -> Result<Self> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(DEVICE)
            .map(|device| Self { device })
            .map_err(|error| no_driver(&error))
    }
}

fn no_driver(error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "Run it from an elevated prompt: the device belongs to administrators."
        }
        io::ErrorKind::NotFound => {
            "Install the driver (README.md), or measure on a model: `--machine NAME`."
        }
        _ => "`halprof doctor` tells what state the driver is in.",
    };
    Error::NoDriver {
        message: format!("the driver could not be opened at {DEVICE}: {error}"),
        hint: hint.to_owned(),
    }
}

impl Transport for Driver {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let input_length = length(input.len())?;
        let output_length = length(output.len())?;
        let mut returned = 0u32;
        // SAFETY: the handle is open as long as `self.device` lives. `input` is valid for reads of
        // `input_length` bytes, `output` for writes of `output_length`, `returned` for a write,
        // and none overlap: they are distinct borrows. The handle was opened without
        // FILE_FLAG_OVERLAPPED, so no OVERLAPPED is needed and the call ends before they do.
        let done = unsafe {
            DeviceIoControl(
                self.device.as_raw_handle(),
                code.0,
                input.as_ptr().cast(),
                input_length,
                output.as_mut_ptr().cast(),
                output_length,
                &raw mut returned,
                ptr::null_mut(),
            )
        };
        if done == 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        Ok(returned as usize)
    }
}

/// The NTSTATUS behind a Win32 error, where it is one that the driver itself gives.
fn failed(error: io::Error) -> Error {
    const ERROR_INVALID_FUNCTION: i32 = 1;
    const ERROR_ACCESS_DENIED: i32 = 5;
    match error.raw_os_error() {
        Some(ERROR_INVALID_FUNCTION) => Error::Status(NtStatus::INVALID_DEVICE_REQUEST),
        Some(ERROR_ACCESS_DENIED) => Error::Status(NtStatus::ACCESS_DENIED),
        _ => Error::Device(error),
    }
}

fn length(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| Error::Device(io::Error::from(io::ErrorKind::InvalidInput)))
}
