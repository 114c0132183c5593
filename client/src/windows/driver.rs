//! The installed driver.

use super::installation::{self, State};
use crate::{Error, Result, Transport};
use shared_types::NtStatus;
use shared_types::device::{Guid, INTERFACE};
use shared_types::request::RequestCode;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::io::AsRawHandle;
use std::ptr;
use windows_sys::Win32::Devices::DeviceAndDriverInstallation::{
    CM_GET_DEVICE_INTERFACE_LIST_PRESENT, CM_Get_Device_Interface_List_SizeW,
    CM_Get_Device_Interface_ListW, CR_SUCCESS,
};
use windows_sys::Win32::System::IO::DeviceIoControl;
use windows_sys::core::GUID;

/// A handle on the driver's device, open for reading and writing.
#[derive(Debug)]
pub struct Driver {
    device: File,
}

impl Driver {
    /// Opens the device by its interface (CreateFileW, through the standard library).
    pub fn open() -> Result<Self> {
        let path = interface().ok_or_else(no_interface)?;
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map(|device| Self { device })
            .map_err(|error| no_driver(&error))
    }
}

/// The path of the first device that has enabled our interface.
fn interface() -> Option<OsString> {
    let Guid(data1, data2, data3, data4) = INTERFACE;
    let class = GUID {
        data1,
        data2,
        data3,
        data4,
    };
    let mut length = 0;
    // SAFETY: `length` is valid for a write, `class` for reads; no device is asked for by name.
    let answer = unsafe {
        CM_Get_Device_Interface_List_SizeW(
            &raw mut length,
            &raw const class,
            ptr::null(),
            CM_GET_DEVICE_INTERFACE_LIST_PRESENT,
        )
    };
    if answer != CR_SUCCESS {
        return None;
    }
    let mut list = vec![0u16; length as usize];
    // SAFETY: `list` is valid for writes of `length` characters, `class` for reads; no device is
    // asked for by name.
    let answer = unsafe {
        CM_Get_Device_Interface_ListW(
            &raw const class,
            ptr::null(),
            list.as_mut_ptr(),
            length,
            CM_GET_DEVICE_INTERFACE_LIST_PRESENT,
        )
    };
    if answer != CR_SUCCESS {
        return None;
    }
    let path = list.split(|&unit| unit == 0).next()?;
    (!path.is_empty()).then(|| OsString::from_wide(path))
}

/// No device has our interface: there is none, or its driver does not run, or it is another one.
fn no_interface() -> Error {
    let (message, hint) = match installation::state() {
        State::Absent => (
            "the driver is not installed".to_owned(),
            "Run `halprof install` from the package's folder, or measure on a model: `--machine NAME`.",
        ),
        State::NotRunning(obstacle) => {
            (format!("it is installed, but {obstacle}"), obstacle.hint())
        }
        State::Running => (
            "the driver runs, but does not offer the interface of this halprof".to_owned(),
            "Install halprof.exe and halprof.sys of the same release.",
        ),
    };
    Error::NoDriver {
        message,
        hint: hint.to_owned(),
    }
}

fn no_driver(error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "Run it from an elevated prompt: the device belongs to administrators."
        }
        _ => {
            "`halprof uninstall` and `halprof install` put it back; %SystemRoot%\\INF\\setupapi.dev.log has what Windows did."
        }
    };
    Error::NoDriver {
        message: format!("the driver could not be opened: {error}"),
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
