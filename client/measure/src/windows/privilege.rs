//! Privileges: of a token, and SeDebugPrivilege for the calling thread alone.

use std::marker::PhantomData;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use windows_sys::Win32::Foundation::{
    ERROR_NOT_ALL_ASSIGNED, FALSE, GetLastError, HANDLE, LUID, TRUE,
};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, GetTokenInformation, ImpersonateSelf, LUID_AND_ATTRIBUTES,
    LookupPrivilegeValueW, RevertToSelf, SE_PRIVILEGE_ENABLED, SecurityImpersonation,
    TOKEN_ADJUST_PRIVILEGES, TOKEN_ELEVATION, TOKEN_PRIVILEGES, TOKEN_QUERY, TokenElevation,
};
use windows_sys::Win32::System::Threading::{GetCurrentThread, OpenThreadToken};

/// The debug privilege of the calling thread, until this is dropped. Only with it does Windows
/// reveal the modules of services and, from Windows 11 24H2 on, the kernel's addresses.
///
/// It is enabled in a token of the thread, not of the process: a program inherits the token of the
/// process that starts it, with every privilege that is enabled there.
#[derive(Debug)]
pub struct DebugPrivilege {
    impersonates: bool,
    /// Keeps this on the thread that enabled the privilege.
    _thread: PhantomData<*const ()>,
}

impl DebugPrivilege {
    /// Enables the privilege, if the user has it. A thread that already impersonates a user keeps
    /// that user's rights.
    #[must_use]
    pub fn enable() -> Self {
        let impersonates = token().is_none() && impersonate();
        if impersonates && let Some(token) = token() {
            let _ = enable(&token, "SeDebugPrivilege");
        }
        Self { impersonates, _thread: PhantomData }
    }
}

impl Drop for DebugPrivilege {
    fn drop(&mut self) {
        if self.impersonates {
            // If this fails, the thread keeps a token of the same user.
            // SAFETY: takes no argument.
            unsafe { RevertToSelf() };
        }
    }
}

/// Gives the thread a copy of the process's token.
fn impersonate() -> bool {
    // SAFETY: takes no pointer.
    let done = unsafe { ImpersonateSelf(SecurityImpersonation) };
    done != 0
}

/// The token of the thread, if it has one of its own.
fn token() -> Option<OwnedHandle> {
    // SAFETY: takes no argument and cannot fail; the pseudo handle needs no closing.
    let thread = unsafe { GetCurrentThread() };
    let mut token = ptr::null_mut();
    let access = TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY;
    // SAFETY: `thread` is valid, and `token` is valid for a write.
    let done = unsafe { OpenThreadToken(thread, access, TRUE, &raw mut token) };
    if done == 0 {
        return None;
    }
    // SAFETY: OpenThreadToken succeeded, so the handle is open and owned by nobody else.
    Some(unsafe { OwnedHandle::from_raw_handle(token) })
}

/// Enables a privilege of a token, whose handle must have the rights to adjust and query privileges;
/// returns the previous state if it changed.
pub(super) fn enable(token: &OwnedHandle, name: &str) -> Result<TOKEN_PRIVILEGES, u32> {
    let mut luid = LUID::default();
    let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
    // SAFETY: the name ends with a zero, `luid` is valid for a write, and null means this machine.
    if unsafe { LookupPrivilegeValueW(ptr::null(), name.as_ptr(), &raw mut luid) } == FALSE {
        return Err(last_error());
    }
    let privileges = TOKEN_PRIVILEGES {
        PrivilegeCount: 1,
        Privileges: [LUID_AND_ATTRIBUTES { Luid: luid, Attributes: SE_PRIVILEGE_ENABLED }],
    };
    adjust(token, &privileges)
}

/// Changes privileges of a token; returns the previous state of those that changed.
pub(super) fn adjust(
    token: &OwnedHandle,
    privileges: &TOKEN_PRIVILEGES,
) -> Result<TOKEN_PRIVILEGES, u32> {
    let mut before = TOKEN_PRIVILEGES::default();
    let mut returned = 0;
    // SAFETY: the handle is open; `privileges` has one privilege or none, as its count says, and is
    // valid for reads; `before` is valid for writes of its length, `returned` for a write.
    let done = unsafe {
        AdjustTokenPrivileges(
            token.as_raw_handle(),
            FALSE,
            privileges,
            size_of::<TOKEN_PRIVILEGES>() as u32,
            &raw mut before,
            &raw mut returned,
        )
    };
    // AdjustTokenPrivileges also succeeds where the account lacks the privilege; only the error
    // says so.
    match last_error() {
        error if done == FALSE || error == ERROR_NOT_ALL_ASSIGNED => Err(error),
        _ => Ok(before),
    }
}

/// GetCurrentProcessToken (processthreadsapi.h): a pseudo handle of this process's token, which may
/// be queried and needs no closing.
const PROCESS_TOKEN: HANDLE = -4_isize as HANDLE;

/// Whether this process has the rights of an administrator in force; `None` if Windows does not say.
#[must_use]
pub fn elevated() -> Option<bool> {
    let mut elevation = TOKEN_ELEVATION::default();
    let mut returned = 0;
    // SAFETY: the pseudo handle is always open, `elevation` is valid for writes of the length given,
    // and `returned` for a write.
    let done = unsafe {
        GetTokenInformation(
            PROCESS_TOKEN,
            TokenElevation,
            (&raw mut elevation).cast(),
            size_of::<TOKEN_ELEVATION>() as u32,
            &raw mut returned,
        )
    };
    (done != 0).then_some(elevation.TokenIsElevated != 0)
}

pub(super) fn last_error() -> u32 {
    // SAFETY: takes no argument.
    unsafe { GetLastError() }
}
