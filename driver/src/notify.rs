//! System events: the machine's ring of them, and the notify routines for processes and images.
#![expect(unsafe_code, reason = "a spin lock, and routines that Windows calls")]

use crate::cpu::timestamp;
use crate::pool::Pool;
use crate::status::{Failed, check};
use core::cell::UnsafeCell;
use hal_profile::events::{EventRing, image_loaded, process_ended, process_started};
use hal_profile::ring::Word;
use shared_types::SystemEvent;
use wdk_sys::ntddk::{
    KeAcquireSpinLockRaiseToDpc, KeReleaseSpinLock, PsRemoveLoadImageNotifyRoutine,
    PsSetCreateProcessNotifyRoutine, PsSetLoadImageNotifyRoutine,
};
use wdk_sys::{
    BOOLEAN, HANDLE, IMAGE_INFO, KSPIN_LOCK, PIMAGE_INFO, PUNICODE_STRING, UNICODE_STRING,
};

/// SystemModeImage in IMAGE_INFO's Properties (ntddk.h); ImageAddressingMode is the 8 bits below
/// it.
const SYSTEM_MODE_IMAGE: u32 = 1 << 8;

/// The ring of events, while one is lent. Notify routines get no context, so there is one ring for
/// the whole driver.
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

/// Windows reports processes and images until this is dropped. The routines take only the events'
/// lock. Removing them waits for running ones, so that lock must not be held then.
#[derive(Debug)]
pub(crate) struct Watch;

impl Watch {
    /// PASSIVE_LEVEL.
    pub(crate) fn new() -> Result<Self, Failed> {
        // SAFETY: PASSIVE_LEVEL; dropping this removes the routine before the driver can be
        // unloaded.
        check(unsafe { PsSetCreateProcessNotifyRoutine(Some(process_changed), 0) })?;
        // SAFETY: as above.
        let images = check(unsafe { PsSetLoadImageNotifyRoutine(Some(image_mapped)) });
        if let Err(failed) = images {
            remove_process_routine();
            return Err(failed);
        }
        Ok(Self)
    }
}

impl Drop for Watch {
    /// PASSIVE_LEVEL; without the events' lock.
    fn drop(&mut self) {
        // SAFETY: PASSIVE_LEVEL. The routine is registered, so removing it does not fail.
        let _ = unsafe { PsRemoveLoadImageNotifyRoutine(Some(image_mapped)) };
        remove_process_routine();
    }
}

fn remove_process_routine() {
    // SAFETY: PASSIVE_LEVEL. The routine is registered, so removing it does not fail.
    let _ = unsafe { PsSetCreateProcessNotifyRoutine(Some(process_changed), 1) };
}

/// PCREATE_PROCESS_NOTIFY_ROUTINE. PASSIVE_LEVEL, in a critical region.
unsafe extern "C" fn process_changed(parent: HANDLE, process: HANDLE, created: BOOLEAN) {
    let (now, process) = (timestamp(), process.addr() as u32);
    EVENTS.put(&if created == 0 {
        process_ended(now, process)
    } else {
        process_started(now, process, parent.addr() as u32)
    });
}

/// PLOAD_IMAGE_NOTIFY_ROUTINE. PASSIVE_LEVEL, in a critical region.
unsafe extern "C" fn image_mapped(name: PUNICODE_STRING, process: HANDLE, info: PIMAGE_INFO) {
    let now = timestamp();
    // SAFETY: Windows' structure, which outlives the call, or null.
    let Some(info) = (unsafe { info.as_ref() }) else {
        return;
    };
    // SAFETY: as above.
    let name = unsafe { name.as_ref() };
    // SAFETY: as above.
    let name = name.map_or(&[][..], |name| unsafe { units(name) });
    let process = if is_of_system(info) { 0 } else { process.addr() as u32 };
    let start = info.ImageBase.addr() as u64;
    EVENTS.put(&image_loaded(now, process, start, info.ImageSize, name));
}

fn is_of_system(info: &IMAGE_INFO) -> bool {
    // SAFETY: every bit pattern of the union is a number.
    let properties = unsafe { info.__bindgen_anon_1.Properties };
    properties & SYSTEM_MODE_IMAGE != 0
}

/// # Safety
/// `text` comes from Windows and outlives the result.
unsafe fn units(text: &UNICODE_STRING) -> &[u16] {
    let length = usize::from(text.Length) / size_of::<u16>();
    if text.Buffer.is_null() {
        return &[];
    }
    // SAFETY: the buffer has `Length` bytes.
    unsafe { core::slice::from_raw_parts(text.Buffer, length) }
}
