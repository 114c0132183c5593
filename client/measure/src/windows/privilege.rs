//! SeDebugPrivilege, for the calling thread alone.

use std::marker::PhantomData;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use windows_sys::Win32::Foundation::{LUID, TRUE};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, ImpersonateSelf, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW,
    RevertToSelf, SE_DEBUG_NAME, SE_PRIVILEGE_ENABLED, SecurityImpersonation,
    TOKEN_ADJUST_PRIVILEGES, TOKEN_PRIVILEGES,
};
use windows_sys::Win32::System::Threading::{GetCurrentThread, OpenThreadToken};

/// The debug privilege of the calling thread, until this is dropped. Windows reveals the modules of
/// services, and from Windows 11 24H2 on the kernel's addresses, to nobody else; without it less is
/// revealed.
///
/// It is enabled in a token of the thread, not in that of the process: a program inherits the
/// token of the process that starts it, with every privilege that is enabled there.
#[derive(Debug)]
pub struct DebugPrivilege {
    impersonates: bool,
    /// It belongs to the thread that enabled it.
    _thread: PhantomData<*const ()>,
}

impl DebugPrivilege {
    /// Enables the privilege, if the user has it. A thread that impersonates somebody goes on with
    /// what that user may do.
    #[must_use]
    pub fn enable() -> Self {
        let impersonates = token().is_none() && impersonate();
        if impersonates && let Some(token) = token() {
            adjust(&token);
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
    // SAFETY: `thread` is valid, and `token` is valid for a write.
    let done = unsafe { OpenThreadToken(thread, TOKEN_ADJUST_PRIVILEGES, TRUE, &raw mut token) };
    if done == 0 {
        return None;
    }
    // SAFETY: OpenThreadToken succeeded, so the handle is open and owned by nobody else.
    Some(unsafe { OwnedHandle::from_raw_handle(token) })
}

fn adjust(token: &OwnedHandle) {
    let mut luid = LUID::default();
    // SAFETY: the name ends with a zero, `luid` is valid for a write, and null means this machine.
    let found = unsafe { LookupPrivilegeValueW(ptr::null(), SE_DEBUG_NAME, &raw mut luid) };
    if found == 0 {
        return;
    }
    let privileges = TOKEN_PRIVILEGES {
        PrivilegeCount: 1,
        Privileges: [LUID_AND_ATTRIBUTES { Luid: luid, Attributes: SE_PRIVILEGE_ENABLED }],
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
