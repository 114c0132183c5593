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

/// A ring, and the lock of everything that happens to it but for its reading.
/// `driver/windbg/halprof.js` relies on its layout.
#[repr(C)]
pub(crate) struct SystemEvents {
    /// 0, as KeInitializeSpinLock would set it.
    lock: UnsafeCell<KSPIN_LOCK>,
    /// Changed under this lock and the device's.
    ring: UnsafeCell<Option<Pool<Word>>>,
}

// SAFETY: the ring is added to and replaced under its lock; whoever reads it holds the device's, under
// which alone it is replaced.
unsafe impl Sync for SystemEvents {}

impl SystemEvents {
    /// Adds an event, if a ring is attached. At most DISPATCH_LEVEL.
    pub(crate) fn put(&self, event: &SystemEvent) {
        self.locked(|| {
            // SAFETY: it is replaced under the lock.
            let ring = unsafe { &*self.ring.get() };
            if let Some(ring) = ring.as_deref().and_then(EventRing::new) {
                ring.push(event);
            }
        });
    }

    /// Replaces the ring. At most DISPATCH_LEVEL.
    ///
    /// # Safety
    /// The device's lock is held, and no reference from [`Self::ring`] exists.
    pub(crate) unsafe fn set_ring(&self, ring: Option<Pool<Word>>) {
        // A tick may put an event at this moment although nothing runs any more: the DPC that ended the
        // run on its processor may have overtaken it (see `PerCpu::new`).
        // mistake: ring-replaced-without-its-lock
        let replaced = self.locked(|| {
            // SAFETY: under both locks, without a reference, as the caller promises.
            unsafe { self.ring.get().replace(ring) }
        });
        // The pool is given back without the lock, for which other processors may wait.
        drop(replaced);
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

    /// Calls `work` under the lock. At most DISPATCH_LEVEL.
    fn locked<R>(&self, work: impl FnOnce() -> R) -> R {
        // A spin lock, because ticks at DISPATCH_LEVEL put events too; interrupts, which may not take
        // one, leave notes for the next tick.
        // SAFETY: at most DISPATCH_LEVEL; the lock is in the image's non-paged data.
        let irql = unsafe { KeAcquireSpinLockRaiseToDpc(self.lock.get()) };
        let result = work();
        // SAFETY: acquired above, at this IRQL.
        unsafe { KeReleaseSpinLock(self.lock.get(), irql) };
        result
    }
}
