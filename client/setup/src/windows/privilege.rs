//! Which rights this process has.

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::Security::{GetTokenInformation, TOKEN_ELEVATION, TokenElevation};

/// GetCurrentProcessToken (processthreadsapi.h): a pseudo handle of this process's token, which may
/// be queried and needs no closing.
const PROCESS_TOKEN: HANDLE = -4_isize as HANDLE;

/// Whether the process has the rights of an administrator; `None` if Windows does not say.
pub(super) fn elevated() -> Option<bool> {
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
