//! The debug output; `ed nt!Kd_IHVDRIVER_Mask 0xf` in WinDbg enables it.
#![expect(unsafe_code, reason = "a function of C with a variable list of arguments")]

use wdk_sys::ntddk::DbgPrintEx;

/// DPFLTR_IHVDRIVER_ID (dpfilter.h).
const COMPONENT: u32 = 77;
/// DPFLTR_WARNING_LEVEL.
const WARNING: u32 = 1;

/// Prints a refused request. Any IRQL.
pub(crate) fn refusal(process: u32, code: u32, status: u32, error: u32) {
    // SAFETY: the format takes four 32-bit numbers, and four are passed.
    let _ = unsafe {
        DbgPrintEx(
            COMPONENT,
            WARNING,
            c"halprof: process %u: request %08x refused, status %08x, error %u\n".as_ptr(),
            process,
            code,
            status,
            error,
        )
    };
}
