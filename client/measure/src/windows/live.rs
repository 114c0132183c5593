//! Windows' own tracing for threads that count themselves, and what a thread needs to make context
//! switches of its own.

use super::etw::tracer;
use super::performance_counter::{frequency, now};
use super::threads::slept_ms;
use crate::live_tracing::{Live, Scheduler};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::sync::{Arc, Mutex};
use std::thread;
use windows_sys::Win32::Foundation::{FALSE, TRUE};
use windows_sys::Win32::System::Threading::{
    CreateEventW, GetCurrentThreadId, WaitForSingleObject,
};

/// The time for which a thread waits so that it is switched off its processor, in milliseconds.
/// Anything shorter may return at once.
const WAIT_MS: u32 = 1;

/// Windows' own tracing, for threads that count themselves.
pub fn live() -> Live {
    Live {
        tracing: Arc::new(Mutex::new(tracer())),
        scheduler: Arc::new(WindowsScheduler { never: never_set() }),
    }
}

/// An event that nobody sets; `None` if Windows makes none.
fn never_set() -> Option<OwnedHandle> {
    // SAFETY: nothing is given.
    let event = unsafe { CreateEventW(ptr::null(), TRUE, FALSE, ptr::null()) };
    // SAFETY: CreateEvent succeeded, so the handle is open and owned by nobody else.
    (!event.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(event) })
}

#[derive(Debug)]
struct WindowsScheduler {
    never: Option<OwnedHandle>,
}

impl Scheduler for WindowsScheduler {
    fn now(&self) -> i64 {
        now()
    }

    fn frequency(&self) -> u64 {
        frequency()
    }

    fn clock(&self) -> &'static str {
        "QueryPerformanceCounter"
    }

    fn thread(&self) -> u32 {
        // SAFETY: takes nothing.
        unsafe { GetCurrentThreadId() }
    }

    fn switch(&self) {
        match &self.never {
            // SAFETY: the event is open.
            Some(never) => _ = unsafe { WaitForSingleObject(never.as_raw_handle(), WAIT_MS) },
            None => thread::sleep(std::time::Duration::from_millis(WAIT_MS.into())),
        }
    }

    fn slept_ms(&self) -> u64 {
        slept_ms()
    }
}
