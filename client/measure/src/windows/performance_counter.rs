//! The clock of Windows' own tracing.

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

/// The performance counter.
pub(super) fn now() -> i64 {
    let mut ticks = 0;
    // SAFETY: `ticks` is valid for a write. It never fails from Windows XP on.
    unsafe { QueryPerformanceCounter(&raw mut ticks) };
    ticks
}

/// Its ticks in a second.
pub(super) fn frequency() -> u64 {
    let mut frequency = 0;
    // SAFETY: as above.
    unsafe { QueryPerformanceFrequency(&raw mut frequency) };
    frequency.cast_unsigned()
}
