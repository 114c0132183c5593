//! Which rights this process has.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use windows_sys::Win32::Security::{
    GetTokenInformation, TOKEN_ELEVATION, TOKEN_QUERY, TokenElevation,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Whether the process has the rights of an administrator; `None` if Windows does not say.
#[must_use]
pub fn elevated() -> Option<bool> {
    Some(elevation(&token()?)?.TokenIsElevated != 0)
}

fn token() -> Option<OwnedHandle> {
    // SAFETY: takes no argument and cannot fail; the pseudo handle needs no closing.
    let process = unsafe { GetCurrentProcess() };
    let mut token = ptr::null_mut();
    // SAFETY: `process` is valid, and `token` is valid for a write.
    let done = unsafe { OpenProcessToken(process, TOKEN_QUERY, &raw mut token) };
    if done == 0 {
        return None;
    }
    // SAFETY: OpenProcessToken succeeded, so the handle is open and owned by nobody else.
    Some(unsafe { OwnedHandle::from_raw_handle(token) })
}

fn elevation(token: &OwnedHandle) -> Option<TOKEN_ELEVATION> {
    let mut elevation = TOKEN_ELEVATION::default();
    let mut returned = 0;
    // SAFETY: the handle is open, and `elevation` is valid for writes of the length given.
    let done = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenElevation,
            (&raw mut elevation).cast(),
            size_of::<TOKEN_ELEVATION>() as u32,
            &raw mut returned,
        )
    };
    (done != 0).then_some(elevation)
}
