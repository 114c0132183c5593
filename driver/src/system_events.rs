//! System events: the machine's ring of them.
#![expect(unsafe_code, reason = "a spin lock")]

use crate::pool::Pool;
use core::cell::UnsafeCell;
use hal_profile::run::event_ring::EventRing;
use hal_profile::run::ring::Word;
use shared_types::SystemEvent;
use wdk_sys::KSPIN_LOCK;
use wdk_sys::ntddk::{KeAcquireSpinLockRaiseToDpc, KeReleaseSpinLock};

/// The ring of events, while one is attached. There is one for the whole driver: ticks of all
/// processors add to it.
pub(crate) static SYSTEM_EVENTS: SystemEvents =
    SystemEvents { lock: UnsafeCell::new(0), ring: UnsafeCell::new(None) };

/// A ring, and the lock for adding events to it. `driver/windbg/halprof.js` relies on its layout.
#[repr(C)]
pub(crate) struct SystemEvents {
    /// 0, as KeInitializeSpinLock would set it.
    lock: UnsafeCell<KSPIN_LOCK>,
    /// Changed only under the device's lock, while nothing runs.
    ring: UnsafeCell<Option<Pool<Word>>>,
}

// SAFETY: the ring is added to under its lock, and read and replaced under the device's.
unsafe impl Sync for SystemEvents {}

impl SystemEvents {
    /// Adds an event, if a ring is attached. Called under the device's lock or by the tick of a processor
    /// that runs a program. At most DISPATCH_LEVEL.
    pub(crate) fn put(&self, event: &SystemEvent) {
        // A spin lock, because ticks at DISPATCH_LEVEL put events too; interrupts, which may not take
        // one, leave notes for the next tick.
        // SAFETY: at most DISPATCH_LEVEL; the lock is in the image's non-paged data.
        let irql = unsafe { KeAcquireSpinLockRaiseToDpc(self.lock.get()) };
        // SAFETY: the ring does not change while the device's lock is held or something runs.
        let ring = unsafe { &*self.ring.get() };
        if let Some(ring) = ring.as_deref().and_then(EventRing::new) {
            ring.push(event);
        }
        // SAFETY: acquired above, at this IRQL.
        unsafe { KeReleaseSpinLock(self.lock.get(), irql) };
    }

    /// Replaces the ring.
    ///
    /// # Safety
    /// The device's lock is held, no reference from [`Self::ring`] exists, and nothing runs: the DPC
    /// that ends a run on a processor comes after that processor's last tick. At most DISPATCH_LEVEL.
    pub(crate) unsafe fn set_ring(&self, ring: Option<Pool<Word>>) {
        // SAFETY: the caller's promise.
        drop(unsafe { self.ring.get().replace(ring) });
    }

    /// The ring, for its reader; empty if none is attached.
    ///
    /// # Safety
    /// The device's lock is held for as long as the result is used. Any IRQL.
    pub(crate) unsafe fn ring(&self) -> &[Word] {
        // SAFETY: it does not change while the device's lock is held.
        let ring = unsafe { &*self.ring.get() };
        ring.as_deref().unwrap_or_default()
    }
}
