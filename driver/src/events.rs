//! System events: the machine's ring of them.
#![expect(unsafe_code, reason = "a spin lock")]

use crate::pool::Pool;
use core::cell::UnsafeCell;
use hal_profile::run::event_ring::EventRing;
use hal_profile::run::ring::Word;
use shared_types::SystemEvent;
use wdk_sys::KSPIN_LOCK;
use wdk_sys::ntddk::{KeAcquireSpinLockRaiseToDpc, KeReleaseSpinLock};

/// The ring of events, while one is lent. There is one for the whole driver: ticks of all
/// processors add to it.
pub(crate) static EVENTS: Events = Events { lock: UnsafeCell::new(0), ring: UnsafeCell::new(None) };

/// A ring, and the lock for adding events to it or replacing it. `driver/windbg/halprof.js` relies
/// on its layout.
#[repr(C)]
pub(crate) struct Events {
    /// 0, as KeInitializeSpinLock would set it.
    lock: UnsafeCell<KSPIN_LOCK>,
    /// Changed only under both the device's lock and this one.
    ring: UnsafeCell<Option<Pool<Word>>>,
}

// SAFETY: the ring is read under one of the two locks, and changed under both.
unsafe impl Sync for Events {}

impl Events {
    /// Runs `work` with the lock held. At most DISPATCH_LEVEL.
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

    /// Adds an event, if a ring is lent. At most DISPATCH_LEVEL.
    pub(crate) fn put(&self, event: &SystemEvent) {
        self.locked(|| {
            // SAFETY: the ring does not change while the lock is held.
            let ring = unsafe { &*self.ring.get() };
            if let Some(ring) = ring.as_deref().and_then(EventRing::new) {
                ring.push(event);
            }
        });
    }

    /// Replaces the ring; when this returns, nothing is added to the old one any more.
    ///
    /// # Safety
    /// The device's lock is held, and no reference from [`Self::ring`] exists. At most
    /// DISPATCH_LEVEL.
    pub(crate) unsafe fn set_ring(&self, ring: Option<Pool<Word>>) {
        // Freed only after the lock is released: whoever spins for it waits no longer than an event
        // takes.
        // SAFETY: with both locks held, no other reference to it exists.
        let before = self.locked(|| unsafe { core::mem::replace(&mut *self.ring.get(), ring) });
        drop(before);
    }

    /// The ring, for its reader; empty if none is lent.
    ///
    /// # Safety
    /// The device's lock is held for as long as the result is used. Any IRQL.
    pub(crate) unsafe fn ring(&self) -> &[Word] {
        // SAFETY: it does not change while the device's lock is held.
        let ring = unsafe { &*self.ring.get() };
        ring.as_deref().unwrap_or_default()
    }
}
