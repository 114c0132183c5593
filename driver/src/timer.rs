//! The device's two timers, of which at most one is set.
//!
//! Slices end by a precise timer; counters that do not rotate are read by one that lets processors
//! stay asleep.
#![expect(unsafe_code, reason = "the kernel's timers")]

use core::ptr::{NonNull, null_mut};
use hal_profile::service::Timer as Setting;
use wdk_sys::ntddk::{ExAllocateTimer, ExCancelTimer, ExDeleteTimer, ExSetTimer};
use wdk_sys::{
    _EX_TIMER, _EXT_SET_PARAMETERS_V0, EX_TIMER_HIGH_RESOLUTION, EX_TIMER_NO_WAKE, PEXT_CALLBACK,
};

/// Both timers.
#[derive(Debug)]
pub(crate) struct Timers {
    rotating: Timer,
    reading: Timer,
    setting: Option<Setting>,
}

impl Timers {
    /// Two timers that are not set; `None` if there is no memory. The callbacks, of the precise
    /// timer and of the other, run at DISPATCH_LEVEL and get no context. At most DISPATCH_LEVEL.
    ///
    /// # Safety
    /// The callbacks may run until [`Self::delete`].
    pub(crate) unsafe fn new(precise: PEXT_CALLBACK, other: PEXT_CALLBACK) -> Option<Self> {
        // Two, because one cannot be both: ExAllocateTimer bug checks. A high-resolution timer makes
        // Windows run the clock at the rate that its period needs, and a waking one ends a
        // processor's sleep, so only rotation uses it (WDK, "High-Resolution Timers", "No-Wake
        // Timers").
        Some(Self {
            rotating: Timer::new(precise, EX_TIMER_HIGH_RESOLUTION)?,
            reading: Timer::new(other, EX_TIMER_NO_WAKE)?,
            setting: None,
        })
    }

    /// Sets the timer, or cancels it; a timer that is already set this way is not restarted. At
    /// most DISPATCH_LEVEL.
    pub(crate) fn set(&mut self, setting: Option<Setting>) {
        // Called after each request: a timer that starts anew each time would never expire for a
        // client that polls often.
        if setting == self.setting {
            return;
        }
        self.setting = setting;
        let period = |precise| {
            setting.filter(|setting| setting.precise == precise).map(|setting| setting.period)
        };
        self.rotating.set(period(true));
        self.reading.set(period(false));
    }

    /// Deletes both timers, and waits until their callbacks have returned. PASSIVE_LEVEL.
    pub(crate) fn delete(&mut self) {
        self.rotating.delete();
        self.reading.delete();
    }
}

#[derive(Debug)]
struct Timer {
    object: Option<NonNull<_EX_TIMER>>,
    wakes: bool,
}

// SAFETY: any thread may set, cancel and delete a timer; `&mut self` allows only one at a time.
unsafe impl Send for Timer {}

impl Timer {
    fn new(callback: PEXT_CALLBACK, attributes: u32) -> Option<Self> {
        // SAFETY: the callback gets no context; `Timers::new` states until when it may run.
        let timer = unsafe { ExAllocateTimer(callback, null_mut(), attributes) };
        Some(Self { object: Some(NonNull::new(timer)?), wakes: attributes & EX_TIMER_NO_WAKE == 0 })
    }

    fn set(&mut self, period: Option<u32>) {
        let Some(timer) = self.object else {
            return;
        };
        match period.map(i64::from) {
            Some(period) => {
                // A no-wake timer may be late by at most one period: it may have been set on a
                // processor that is asleep while others count.
                let mut parameters = _EXT_SET_PARAMETERS_V0 {
                    NoWakeTolerance: if self.wakes { 0 } else { period },
                    ..Default::default()
                };
                // SAFETY: the timer exists; a negative due time is relative.
                unsafe { ExSetTimer(timer.as_ptr(), -period, period, &raw mut parameters) };
            }
            // SAFETY: the timer exists.
            None => unsafe {
                ExCancelTimer(timer.as_ptr(), null_mut());
            },
        }
    }

    fn delete(&mut self) {
        if let Some(timer) = self.object.take() {
            // Cancelled and waited for: the callback reads the table, which goes next.
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
