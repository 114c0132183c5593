//! What this process may do, and which programs run.

use super::wide;
use std::iter;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use windows_sys::Win32::Foundation::{FALSE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::Security::{
    GetTokenInformation, TOKEN_ELEVATION, TOKEN_QUERY, TokenElevation,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Whether the process has the rights of an administrator. Where Windows does not tell, it is
/// taken to have them: the step that needs them will fail with its own reason.
pub(super) fn is_elevated() -> bool {
    elevated().unwrap_or(true)
}

/// Whether the process has the rights of an administrator; `None` where Windows does not tell.
pub(super) fn elevated() -> Option<bool> {
    Some(elevation(&token()?)?.TokenIsElevated != 0)
}

/// The programs that run, by their files' names.
pub(super) fn programs() -> Option<Vec<String>> {
    // SAFETY: takes numbers only; no process is named.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return None;
    }
    // SAFETY: CreateToolhelp32Snapshot succeeded, so the handle is open and nobody else's.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let mut entry = PROCESSENTRY32W {
        dwSize: size_of::<PROCESSENTRY32W>() as u32,
        ..PROCESSENTRY32W::default()
    };
    // SAFETY: the handle is open; `entry` is valid for a write and tells its size.
    let first = unsafe { Process32FirstW(snapshot.as_raw_handle(), &raw mut entry) };
    let mut more = first != FALSE;
    let names = iter::from_fn(|| {
        let name = more.then(|| wide::text(&entry.szExeFile))?;
        // SAFETY: as for the first.
        let next = unsafe { Process32NextW(snapshot.as_raw_handle(), &raw mut entry) };
        more = next != FALSE;
        Some(name)
    });
    Some(names.collect())
}

fn token() -> Option<OwnedHandle> {
    // SAFETY: no argument, no failure; the pseudo handle needs no closing.
    let process = unsafe { GetCurrentProcess() };
    let mut token = ptr::null_mut();
    // SAFETY: `process` is valid, and `token` is valid for a write.
    let done = unsafe { OpenProcessToken(process, TOKEN_QUERY, &raw mut token) };
    if done == 0 {
        return None;
    }
    // SAFETY: OpenProcessToken succeeded, so the handle is open and nobody else's.
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
