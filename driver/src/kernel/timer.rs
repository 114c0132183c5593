//! The device's timer, of high resolution.

use crate::callbacks;
use core::ptr::{NonNull, null_mut};
use wdk_sys::_EX_TIMER;
use wdk_sys::ntddk::{ExAllocateTimer, ExCancelTimer, ExDeleteTimer, ExSetTimer};

/// EX_TIMER_HIGH_RESOLUTION (wdm.h).
const HIGH_RESOLUTION: u32 = 0x4;

/// A timer that ticks the processors of the published table.
#[derive(Debug)]
pub(crate) struct Timer {
    timer: Option<NonNull<_EX_TIMER>>,
    period: Option<u32>,
}

// SAFETY: a timer may be set, cancelled and deleted by any thread; `&mut self` says one at a time.
unsafe impl Send for Timer {}

impl Timer {
    /// A timer that is not set; `None` where there is no memory. At most DISPATCH_LEVEL.
    #[must_use]
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: the callback ignores its context.
        let timer =
            unsafe { ExAllocateTimer(Some(callbacks::timer_expired), null_mut(), HIGH_RESOLUTION) };
        Some(Self {
            timer: Some(NonNull::new(timer)?),
            period: None,
        })
    }

    /// Ticks every so many units of 100 ns from now on, or not at all; goes on as before where
    /// that is what it does. At most DISPATCH_LEVEL.
    pub(crate) fn set(&mut self, period: Option<u32>) {
        let Some(timer) = self.timer.filter(|_| period != self.period) else {
            return;
        };
        self.period = period;
        match period.map(i64::from) {
            // SAFETY: the timer is there; a due time below 0 is from now.
            Some(period) => unsafe {
                ExSetTimer(timer.as_ptr(), -period, period, null_mut());
            },
            // SAFETY: the timer is there.
            None => unsafe {
                ExCancelTimer(timer.as_ptr(), null_mut());
            },
        }
    }

    /// Ends it, and waits until its callback does not run any more. PASSIVE_LEVEL.
    pub(crate) fn delete(&mut self) {
        if let Some(timer) = self.timer.take() {
            // SAFETY: PASSIVE_LEVEL, as it waits; the timer is not used after this.
            unsafe { ExDeleteTimer(timer.as_ptr(), 1, 1, null_mut()) };
        }
    }
}

impl Drop for Timer {
    /// PASSIVE_LEVEL.
    fn drop(&mut self) {
        self.delete();
    }
}
