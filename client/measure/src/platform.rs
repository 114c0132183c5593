//! What a thread that counts itself needs of the operating system. Windows implements this, and so
//! do test doubles.

use crate::error::Error;
use std::fmt::Debug;

/// What an operating system reveals to a thread about that thread.
pub(crate) trait Platform: Debug + Sync {
    /// Starts profiling the calling thread, with these elements of the driver's list of counters;
    /// the Win32 error if that is refused.
    fn profile(&self, counters: u64) -> Result<Box<dyn Profile>, u32>;
    /// RDPMC with this ECX, while the driver allows it.
    fn rdpmc(&self, ecx: u32) -> u64;
    /// The time stamp before the measured code.
    fn ticks_before(&self) -> u64;
    /// The time stamp after the measured code.
    fn ticks_after(&self) -> u64;
    /// How the time stamp is read.
    fn clock(&self) -> String;
    /// How long the machine has slept since it started.
    fn slept_ms(&self) -> u64;
}

/// The profiling of one thread, which ends when this is dropped.
pub(crate) trait Profile {
    /// The thread's context switches so far and, if asked for, its counters.
    fn read(&mut self, counters: bool) -> Result<ThreadData, u32>;
}

/// What Windows has accumulated for a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadData {
    pub(crate) switches: u32,
    /// The counters, in the order of the driver's list; Windows has room for 16 (MAX_HW_COUNTERS,
    /// winnt.h).
    pub(crate) counters: [u64; 16],
}

/// Why a thread cannot be profiled, from the Win32 error.
pub(crate) fn refused(error: u32) -> Error {
    let why = std::io::Error::from_raw_os_error(error.cast_signed());
    Error::unavailable(
        format!("Windows' thread profiling of this thread failed: {why}"),
        "A thread can be profiled once at a time, and by itself only.",
    )
}
