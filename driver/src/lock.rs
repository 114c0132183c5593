//! The device's lock: a framework wait lock together with the value that it protects.
#![expect(unsafe_code, reason = "the framework's wait lock")]

use crate::status::{Failed, check};
use crate::wdf::{self, Owner};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::ptr::null_mut;
use wdk_sys::{WDFWAITLOCK, call_unsafe_wdf_function_binding};

/// A value protected by a WDFWAITLOCK.
#[derive(Debug)]
pub(crate) struct WaitLock<T> {
    lock: WDFWAITLOCK,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time.
unsafe impl<T: Send> Sync for WaitLock<T> {}

/// The value, while the lock is held.
#[derive(Debug)]
pub(crate) struct Held<'a, T>(&'a WaitLock<T>);

impl<T> WaitLock<T> {
    /// A lock that is deleted together with its owner, which must outlive it. PASSIVE_LEVEL.
    pub(crate) fn new(owner: Owner, value: T) -> Result<Self, Failed> {
        let mut attributes = wdf::attributes();
        attributes.ParentObject = owner.object();
        let mut lock: WDFWAITLOCK = null_mut();
        // SAFETY: the attributes are initialised, `lock` is written.
        let status = unsafe {
            call_unsafe_wdf_function_binding!(WdfWaitLockCreate, &raw mut attributes, &raw mut lock)
        };
        check(status)?;
        Ok(Self { lock, value: UnsafeCell::new(value) })
    }

    /// Acquires the lock, waiting until it is free. PASSIVE_LEVEL.
    pub(crate) fn hold(&self) -> Held<'_, T> {
        // SAFETY: the lock exists as long as its parent. Without a time-out it always succeeds.
        let _ =
            unsafe { call_unsafe_wdf_function_binding!(WdfWaitLockAcquire, self.lock, null_mut()) };
        Held(self)
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
        unsafe { call_unsafe_wdf_function_binding!(WdfWaitLockRelease, self.0.lock) };
    }
}
