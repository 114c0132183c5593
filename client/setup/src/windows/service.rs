//! Services: the running ones, and the driver's, whose registry entry stays when its device and
//! package are removed.

use super::{last_error, wide};
use crate::Result;
use shared_types::device;
use std::io;
use std::ptr;
use windows_sys::Win32::Foundation::{
    ERROR_MORE_DATA, ERROR_SERVICE_DOES_NOT_EXIST, ERROR_SERVICE_MARKED_FOR_DELETE, FALSE,
};
use windows_sys::Win32::System::Services::{
    CloseServiceHandle, DeleteService, ENUM_SERVICE_STATUS_PROCESSW, EnumServicesStatusExW,
    OpenSCManagerW, OpenServiceW, SC_ENUM_PROCESS_INFO, SC_HANDLE, SC_MANAGER_CONNECT,
    SC_MANAGER_ENUMERATE_SERVICE, SERVICE_ACTIVE, SERVICE_DRIVER, SERVICE_WIN32,
};

/// The access right DELETE (winnt.h), which OpenServiceW accepts as well.
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

fn manager(access: u32) -> Option<Handle> {
    // SAFETY: null means this computer and its active database.
    let manager = unsafe { OpenSCManagerW(ptr::null(), ptr::null(), access) };
    (!manager.is_null()).then_some(Handle(manager))
}

/// The names of the running services, drivers among them.
pub(super) fn active() -> Option<Vec<String>> {
    // The most that one call returns, in bytes; aligned for the structures at its front.
    let mut room = vec![0u64; (256 << 10) / 8];
    let manager = manager(SC_MANAGER_CONNECT | SC_MANAGER_ENUMERATE_SERVICE)?;
    let (mut needed, mut count, mut resume) = (0, 0, 0);
    let mut names = Vec::new();
    loop {
        // SAFETY: the manager's handle is open; `room` is valid for writes of the bytes given, the
        // three numbers for writes; a null group means every group.
        let done = unsafe {
            EnumServicesStatusExW(
                manager.0,
                SC_ENUM_PROCESS_INFO,
                SERVICE_DRIVER | SERVICE_WIN32,
                SERVICE_ACTIVE,
                room.as_mut_ptr().cast(),
                size_of_val(room.as_slice()) as u32,
                &raw mut needed,
                &raw mut count,
                &raw mut resume,
                ptr::null(),
            )
        };
        let error = io::Error::last_os_error().raw_os_error();
        if done == FALSE && error.map(i32::cast_unsigned) != Some(ERROR_MORE_DATA) {
            return None;
        }
        let first = room.as_ptr().cast::<ENUM_SERVICE_STATUS_PROCESSW>();
        // SAFETY: Windows has put `count` structures at the front of `room`.
        let all = unsafe { std::slice::from_raw_parts(first, count as usize) };
        for one in all {
            // SAFETY: the name is in `room` too, and ends with a zero.
            names.push(unsafe { wide::at(one.lpServiceName) });
        }
        // A service that does not fit in would be asked for without end.
        if done != FALSE || count == 0 {
            return Some(names);
        }
    }
}

/// Deletes the service; returns whether there was one to delete. It disappears once the driver has
/// been unloaded.
pub(super) fn delete() -> Result<bool> {
    let manager = manager(SC_MANAGER_CONNECT).ok_or_else(|| last_error(STEP))?;
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

/// No error if the service does not exist, or is already marked for deletion.
fn gone_already() -> Result<bool> {
    match io::Error::last_os_error().raw_os_error().map(i32::cast_unsigned) {
        Some(ERROR_SERVICE_DOES_NOT_EXIST | ERROR_SERVICE_MARKED_FOR_DELETE) => Ok(false),
        _ => Err(last_error(STEP)),
    }
}
