//! Which rights this process has.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use windows_sys::Win32::Foundation::LUID;
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, GetTokenInformation, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW,
    SE_DEBUG_NAME, SE_PRIVILEGE_ENABLED, TOKEN_ACCESS_MASK, TOKEN_ADJUST_PRIVILEGES,
    TOKEN_ELEVATION, TOKEN_PRIVILEGES, TOKEN_QUERY, TokenElevation,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Whether the process has the rights of an administrator; `None` if Windows does not say.
#[must_use]
pub fn elevated() -> Option<bool> {
    Some(elevation(&token(TOKEN_QUERY)?)?.TokenIsElevated != 0)
}

/// Enables the debug privilege, to look into other processes: Windows reveals the modules of
/// services, and from Windows 11 24H2 on the kernel's addresses, to nobody else. Without the
/// privilege less is revealed.
pub fn debug_others() {
    let Some(token) = token(TOKEN_ADJUST_PRIVILEGES) else {
        return;
    };
    let mut luid = LUID::default();
    // SAFETY: the name ends with a zero, `luid` is valid for a write, and null means this machine.
    let found = unsafe { LookupPrivilegeValueW(ptr::null(), SE_DEBUG_NAME, &raw mut luid) };
    if found == 0 {
        return;
    }
    let privileges = TOKEN_PRIVILEGES {
        PrivilegeCount: 1,
        Privileges: [LUID_AND_ATTRIBUTES {
            Luid: luid,
            Attributes: SE_PRIVILEGE_ENABLED,
        }],
    };
    // SAFETY: the handle is open, `privileges` is valid for reads, and the previous state is not
    // requested.
    unsafe {
        AdjustTokenPrivileges(
            token.as_raw_handle(),
            0,
            &raw const privileges,
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
}

fn token(access: TOKEN_ACCESS_MASK) -> Option<OwnedHandle> {
    // SAFETY: takes no argument and cannot fail; the pseudo handle needs no closing.
    let process = unsafe { GetCurrentProcess() };
    let mut token = ptr::null_mut();
    // SAFETY: `process` is valid, and `token` is valid for a write.
    let done = unsafe { OpenProcessToken(process, access, &raw mut token) };
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
