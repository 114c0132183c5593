//! The driver's service. Removing a device or a driver package leaves its registry entry behind.

use super::{last_error, wide};
use crate::Result;
use shared_types::device;
use std::io;
use std::ptr;
use windows_sys::Win32::Foundation::{
    ERROR_SERVICE_DOES_NOT_EXIST, ERROR_SERVICE_MARKED_FOR_DELETE,
};
use windows_sys::Win32::System::Services::{
    CloseServiceHandle, DeleteService, OpenSCManagerW, OpenServiceW, SC_HANDLE, SC_MANAGER_CONNECT,
};

/// The access right DELETE (winnt.h), which OpenServiceW takes among its own.
const DELETE: u32 = 0x0001_0000;

const STEP: &str = "the driver's service could not be removed";

/// An open handle of the service control manager.
struct Handle(SC_HANDLE);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nothing uses it after this.
        unsafe { CloseServiceHandle(self.0) };
    }
}

/// Deletes the service; answers whether there was one to delete. It goes when the driver has been unloaded.
pub(super) fn delete() -> Result<bool> {
    // SAFETY: null means this computer and its active database.
    let manager = unsafe { OpenSCManagerW(ptr::null(), ptr::null(), SC_MANAGER_CONNECT) };
    if manager.is_null() {
        return Err(last_error(STEP));
    }
    let manager = Handle(manager);
    let name = wide::terminated(device::SERVICE);
    // SAFETY: the manager's handle is open, and the name ends with a zero.
    let service = unsafe { OpenServiceW(manager.0, name.as_ptr(), DELETE) };
    if service.is_null() {
        return gone_already();
    }
    let service = Handle(service);
    // SAFETY: the handle is open and was opened with DELETE.
    let done = unsafe { DeleteService(service.0) };
    if done == 0 { gone_already() } else { Ok(true) }
}

/// No error where the service is not there, or already on its way out.
fn gone_already() -> Result<bool> {
    match io::Error::last_os_error()
        .raw_os_error()
        .map(i32::cast_unsigned)
    {
        Some(ERROR_SERVICE_DOES_NOT_EXIST | ERROR_SERVICE_MARKED_FOR_DELETE) => Ok(false),
        _ => Err(last_error(STEP)),
    }
}
