//! The installed driver.

use crate::error::{Error, Remedy, Result};
use crate::transport::Transport;
use crate::win32::failed;
use shared_types::device::{Guid, INTERFACE, LINK_NAME};
use shared_types::request::RequestCode;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::time::Duration;
use windows_sys::Win32::Devices::DeviceAndDriverInstallation::{
    CM_GET_DEVICE_INTERFACE_LIST_PRESENT, CM_Get_Device_Interface_List_SizeW,
    CM_Get_Device_Interface_ListW, CR_SUCCESS,
};
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, FALSE, TRUE, WAIT_TIMEOUT};
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_OVERLAPPED, SECURITY_IDENTIFICATION};
use windows_sys::Win32::System::IO::{
    CancelIoEx, DeviceIoControl, GetOverlappedResult, OVERLAPPED,
};
use windows_sys::Win32::System::Threading::{CreateEventW, WaitForSingleObject};
use windows_sys::core::GUID;

/// The longest time that a request may take. The driver holds none, so a request that takes longer is
/// stuck behind another; it is then cancelled, and the tool ends instead of hanging. Ctrl-C cancels no
/// request: it ends a measurement with the final requests, which fetch what was counted so far.
const ANSWER: Duration = Duration::from_secs(30);

/// A handle on the driver's device, open for reading and writing.
#[derive(Debug)]
pub struct Driver {
    device: File,
    /// Signalled when the request is complete.
    answered: OwnedHandle,
}

impl Driver {
    /// Opens the device by its interface, or by its link where no interface is listed (CreateFileW,
    /// through the standard library); `None` if there is neither.
    pub fn open() -> Result<Option<Self>> {
        let opened = match interface() {
            Some(path) => open(&path),
            None => match open(OsStr::new(&link())) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened,
            },
        };
        let device = opened.map_err(|error| no_driver(&error))?;
        Ok(Some(Self { device, answered: event()? }))
    }

    /// Waits for the reply. On return the request is over, whatever its result.
    ///
    /// # Safety
    /// `overlapped` belongs to a request on our device, and does not move in the meantime.
    unsafe fn wait(&self, overlapped: *const OVERLAPPED) -> Result<u32> {
        let milliseconds = ANSWER.as_millis() as u32;
        // SAFETY: the handle is open as long as `self` lives.
        let waited = unsafe { WaitForSingleObject(self.answered.as_raw_handle(), milliseconds) };
        let is_late = waited == WAIT_TIMEOUT;
        if is_late {
            // SAFETY: the handle is open, and `overlapped` is as the caller says. If the request
            // has completed in the meantime there is nothing to cancel, which is no failure.
            unsafe { CancelIoEx(self.device.as_raw_handle(), overlapped) };
        }
        // TRUE below waits for the end even after a cancellation: until then Windows may still
        // write into the buffers of the request.
        let mut returned = 0;
        // SAFETY: the handle is open, `overlapped` is as the caller says, and `returned` is valid
        // for a write.
        let done = unsafe {
            GetOverlappedResult(self.device.as_raw_handle(), overlapped, &raw mut returned, TRUE)
        };
        if done == FALSE {
            return Err(failed(io::Error::last_os_error(), is_late.then_some(ANSWER)));
        }
        Ok(returned)
    }
}

/// Opens the device. If another program has taken its name, that program learns who opens it, but
/// cannot act as that user (SECURITY_IDENTIFICATION).
fn open(path: &OsStr) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(FILE_FLAG_OVERLAPPED)
        .security_qos_flags(SECURITY_IDENTIFICATION)
        .open(path)
}

/// The device's link, as user mode names it.
fn link() -> String {
    LINK_NAME.replace(r"\DosDevices\", r"\\.\")
}

/// An event that stays signalled until the next request clears it.
fn event() -> Result<OwnedHandle> {
    // SAFETY: no security attributes and no name are given.
    let event = unsafe { CreateEventW(ptr::null(), TRUE, FALSE, ptr::null()) };
    if event.is_null() {
        return Err(Error::Device(io::Error::last_os_error()));
    }
    // SAFETY: CreateEventW succeeded, so the handle is open and owned by nobody else.
    Ok(unsafe { OwnedHandle::from_raw_handle(event) })
}

/// The path of the first device that has enabled our interface.
fn interface() -> Option<OsString> {
    let Guid(data1, data2, data3, data4) = INTERFACE;
    let class = GUID { data1, data2, data3, data4 };
    let mut length = 0;
    // SAFETY: `length` is valid for a write, `class` for reads; no device is requested by name.
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
    // requested by name.
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

fn no_driver(error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "Run it from an elevated prompt: the device belongs to administrators.".into()
        }
        _ => Remedy::ReinstallDriver.into(),
    };
    Error::NoDriver { message: format!("the driver could not be opened: {error}"), hint }
}

impl Transport for Driver {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let input_length = length(input.len())?;
        let output_length = length(output.len())?;
        let mut overlapped =
            OVERLAPPED { hEvent: self.answered.as_raw_handle(), ..OVERLAPPED::default() };
        // SAFETY: the handles are open as long as `self` lives. `input` is valid for reads of
        // `input_length` bytes, `output` for writes of `output_length`, and neither overlaps the
        // other or `overlapped`: they are distinct borrows. All three outlive the request, because
        // this function continues only when `wait` says that it is over.
        let done = unsafe {
            DeviceIoControl(
                self.device.as_raw_handle(),
                code.0,
                input.as_ptr().cast(),
                input_length,
                output.as_mut_ptr().cast(),
                output_length,
                ptr::null_mut(),
                &raw mut overlapped,
            )
        };
        let error = io::Error::last_os_error();
        if done == FALSE && error.raw_os_error() != Some(ERROR_IO_PENDING.cast_signed()) {
            return Err(failed(error, None));
        }
        // SAFETY: this is the request that was sent just now.
        let answer = unsafe { self.wait(&raw const overlapped) };
        answer.map(|returned| returned as usize)
    }
}

fn length(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| Error::Device(io::Error::from(io::ErrorKind::InvalidInput)))
}
