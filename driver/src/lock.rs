//! The device's lock: a framework wait lock together with the value that it protects.
#![expect(unsafe_code, reason = "the framework's wait lock")]

use crate::status::{Failed, check};
use crate::wdf;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use wdk_sys::{WDFWAITLOCK, WDFWAITLOCK__, call_unsafe_wdf_function_binding};

/// A value protected by a WDFWAITLOCK.
#[derive(Debug)]
pub(crate) struct WaitLock<T> {
    lock: AtomicPtr<WDFWAITLOCK__>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time.
unsafe impl<T: Send> Sync for WaitLock<T> {}

/// The value, while the lock is held.
#[derive(Debug)]
pub(crate) struct Held<'a, T>(&'a WaitLock<T>);

impl<T> WaitLock<T> {
    /// A value whose lock is still to be created.
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: AtomicPtr::new(null_mut()), value: UnsafeCell::new(value) }
    }

    /// Creates the lock, which is deleted together with the device. PASSIVE_LEVEL.
    pub(crate) fn create(&self) -> Result<(), Failed> {
        let mut attributes = wdf::attributes();
        attributes.ParentObject = wdf::device().cast();
        let mut lock: WDFWAITLOCK = null_mut();
        // SAFETY: the attributes are initialised, `lock` is written.
        let status = unsafe {
            call_unsafe_wdf_function_binding!(WdfWaitLockCreate, &raw mut attributes, &raw mut lock)
        };
        check(status)?;
        self.lock.store(lock, Ordering::Release);
        Ok(())
    }

    fn lock(&self) -> WDFWAITLOCK {
        self.lock.load(Ordering::Acquire)
    }

    /// Acquires the lock, waiting until it is free. PASSIVE_LEVEL.
    pub(crate) fn hold(&self) -> Held<'_, T> {
        // SAFETY: created before the first callback that takes it, and deleted after the last.
        // Without a time-out it always succeeds.
        let _ = unsafe {
            call_unsafe_wdf_function_binding!(WdfWaitLockAcquire, self.lock(), null_mut())
        };
        Held(self)
    }

    /// The value, without the lock.
    ///
    /// # Safety
    /// Nothing holds the lock, or will as long as the result is used.
    #[expect(clippy::mut_from_ref, reason = "nobody else has a reference, as the caller promises")]
    pub(crate) unsafe fn alone(&self) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and `self` is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this thread holds the lock.
        unsafe { call_unsafe_wdf_function_binding!(WdfWaitLockRelease, self.0.lock()) };
    }
}
