//! What Windows reveals to a thread about itself: thread profiling (winbase.h), RDPMC, and how long
//! the machine has slept.

use crate::platform::{Platform, Profile, ThreadData};
use crate::rdpmc::{Clock, rdpmc};
use std::fmt;
use std::mem::size_of;
use std::ptr;
use windows_sys::Win32::Foundation::{ERROR_BUSY, HANDLE};
use windows_sys::Win32::System::Performance::HardwareCounterProfiling::{
    DisableThreadProfiling, EnableThreadProfiling, PERFORMANCE_DATA, QueryThreadProfiling,
    ReadThreadProfilingData,
};
use windows_sys::Win32::System::SystemInformation::GetTickCount64;
use windows_sys::Win32::System::Threading::GetCurrentThread;
use windows_sys::Win32::System::WindowsProgramming::QueryUnbiasedInterruptTime;

/// THREAD_PROFILING_FLAG_DISPATCH: count context switches too.
const DISPATCH: u32 = 1;
/// READ_THREAD_PROFILING_FLAG_DISPATCHING and ..._HARDWARE_COUNTERS.
const READ_DISPATCHING: u32 = 1;
const READ_COUNTERS: u32 = 2;
/// PERFORMANCE_DATA_VERSION.
const VERSION: u8 = 1;

/// The four functions, replaceable in tests.
struct Functions {
    enable: unsafe extern "system" fn(HANDLE, u32, u64, *mut HANDLE) -> u32,
    read: unsafe extern "system" fn(HANDLE, u32, *mut PERFORMANCE_DATA) -> u32,
    disable: unsafe extern "system" fn(HANDLE) -> u32,
    query: unsafe extern "system" fn(HANDLE, *mut bool) -> u32,
}

/// The real Windows.
pub(crate) struct Windows {
    functions: &'static Functions,
    clock: Clock,
}

impl Windows {
    pub(crate) fn new() -> Self {
        static KERNEL32: Functions = Functions {
            enable: EnableThreadProfiling,
            read: ReadThreadProfilingData,
            disable: DisableThreadProfiling,
            query: QueryThreadProfiling,
        };
        Self { functions: &KERNEL32, clock: Clock::here() }
    }
}

impl fmt::Debug for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Windows")
    }
}

impl Platform for Windows {
    fn profile(&self, counters: u64) -> Result<Box<dyn Profile>, u32> {
        // SAFETY: it has no preconditions, and returns a handle that needs no closing.
        let thread = unsafe { GetCurrentThread() };
        let mut enabled = false;
        // SAFETY: the handle is that of this thread, and `enabled` is valid for a write.
        status(unsafe { (self.functions.query)(thread, &raw mut enabled) })?;
        if enabled {
            return Err(ERROR_BUSY);
        }
        let mut data = ptr::null_mut();
        // SAFETY: the thread is the calling one, as it must be, and `data` is valid for a write.
        status(unsafe { (self.functions.enable)(thread, DISPATCH, counters, &raw mut data) })?;
        Ok(Box::new(Profiling { functions: self.functions, data }))
    }

    fn rdpmc(&self, ecx: u32) -> u64 {
        rdpmc(ecx)
    }

    fn ticks_before(&self) -> u64 {
        self.clock.before()
    }

    fn ticks_after(&self) -> u64 {
        self.clock.after()
    }

    fn clock(&self) -> String {
        self.clock.to_string()
    }

    fn slept_ms(&self) -> u64 {
        slept_ms()
    }
}

/// How long the machine has slept since it started: the tick count goes on in sleep, and unbiased
/// interrupt time does not.
pub(super) fn slept_ms() -> u64 {
    // SAFETY: it has no preconditions.
    let with_sleep = unsafe { GetTickCount64() };
    let mut awake = 0;
    // SAFETY: `awake` is valid for a write. In units of 100 ns.
    unsafe { QueryUnbiasedInterruptTime(&raw mut awake) };
    with_sleep.saturating_sub(awake / 10_000)
}

/// The profiling of the thread that created it. It stays on that thread: a handle is not `Send`.
struct Profiling {
    functions: &'static Functions,
    data: HANDLE,
}

impl Profile for Profiling {
    fn read(&mut self, counters: bool) -> Result<ThreadData, u32> {
        let mut data = PERFORMANCE_DATA {
            Size: size_of::<PERFORMANCE_DATA>() as u16,
            Version: VERSION,
            ..PERFORMANCE_DATA::default()
        };
        let flags = READ_DISPATCHING | if counters { READ_COUNTERS } else { 0 };
        // SAFETY: the handle is open as long as `self` lives, which stays on its thread; `data` is
        // valid for a write, and holds its size.
        status(unsafe { (self.functions.read)(self.data, flags, &raw mut data) })?;
        Ok(ThreadData {
            switches: data.ContextSwitchCount,
            counters: data.HwCounters.map(|counter| counter.Value),
        })
    }
}

impl Drop for Profiling {
    fn drop(&mut self) {
        // SAFETY: the handle is open, this is its thread, and nobody uses it afterwards.
        unsafe { (self.functions.disable)(self.data) };
    }
}

const fn status(error: u32) -> Result<(), u32> {
    match error {
        0 => Ok(()),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use windows_sys::Win32::Foundation::ERROR_INVALID_PARAMETER;

    thread_local! {
        /// The mask with which a thread is profiled, and how often it was read.
        static PROFILED: Cell<Option<(u64, u32)>> = const { Cell::new(None) };
    }
    const DATA: HANDLE = 0x77 as HANDLE;

    unsafe extern "system" fn enable(
        _thread: HANDLE,
        flags: u32,
        counters: u64,
        data: *mut HANDLE,
    ) -> u32 {
        if flags != DISPATCH || counters >> 16 != 0 {
            return ERROR_INVALID_PARAMETER;
        }
        PROFILED.set(Some((counters, 0)));
        // SAFETY: the caller lends it.
        unsafe { data.write(DATA) };
        0
    }

    unsafe extern "system" fn read(data: HANDLE, flags: u32, out: *mut PERFORMANCE_DATA) -> u32 {
        // SAFETY: the caller lends it.
        let out = unsafe { &mut *out };
        let as_documented = usize::from(out.Size) == 288 && out.Version == 1 && data == DATA;
        let Some((counters, reads)) = PROFILED.get().filter(|_| as_documented) else {
            return ERROR_INVALID_PARAMETER;
        };
        PROFILED.set(Some((counters, reads + 1)));
        out.ContextSwitchCount = 3;
        for (element, counter) in (0..).zip(&mut out.HwCounters) {
            let configured = flags & READ_COUNTERS != 0 && counters >> element & 1 != 0;
            counter.Value = if configured { element * 1000 + u64::from(reads) } else { 0 };
        }
        0
    }

    unsafe extern "system" fn disable(_data: HANDLE) -> u32 {
        PROFILED.set(None);
        0
    }

    unsafe extern "system" fn query(_thread: HANDLE, enabled: *mut bool) -> u32 {
        // SAFETY: the caller lends it.
        unsafe { enabled.write(PROFILED.get().is_some()) };
        0
    }

    static FAKE: Functions = Functions { enable, read, disable, query };

    #[test]
    fn a_thread_is_profiled_as_documented_and_no_longer_than_wanted() {
        let windows = Windows { functions: &FAKE, clock: Clock::here() };
        let mut profile = windows.profile(0b101).expect("it starts");
        let first = profile.read(true).expect("it reads");
        let second = profile.read(true).expect("it reads");
        assert_eq!(first.switches, 3);
        assert_eq!(first.counters[..3], [0, 0, 2000]);
        assert_eq!(second.counters[..3], [1, 0, 2001]);
        assert_eq!(profile.read(false).expect("it reads").counters, [0; 16]);
        assert_eq!(windows.profile(1).err(), Some(ERROR_BUSY), "once at a time");
        drop(profile);
        assert!(PROFILED.get().is_none());
        assert!(windows.profile(1).is_ok());
    }

    #[test]
    fn a_machine_that_is_awake_has_slept_no_longer() {
        let windows = Windows::new();
        let before = windows.slept_ms();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(windows.slept_ms().abs_diff(before) < 100);
    }
}
