//! Work on a chosen processor, by targeted DPCs: the only code that crosses processors, behind a
//! safe interface.
#![expect(
    unsafe_code,
    reason = "DPC objects, and closures that other processors call"
)]

use crate::pool::Pool;
use crate::status::{Failed, check};
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use core::sync::atomic::{AtomicU32, Ordering};
use wdk_sys::ntddk::{
    KeClearEvent, KeFlushQueuedDpcs, KeGetCurrentProcessorNumberEx, KeInitializeDpc,
    KeInitializeEvent, KeInsertQueueDpc, KeSetEvent, KeSetImportanceDpc, KeSetTargetProcessorDpcEx,
    KeWaitForSingleObject,
};
use wdk_sys::{
    _EVENT_TYPE, _KDPC_IMPORTANCE, _KWAIT_REASON, _MODE, KDPC, KEVENT, PKDEFERRED_ROUTINE,
    PROCESSOR_NUMBER, STATUS_INSUFFICIENT_RESOURCES,
};

/// Proof that this code stays on the processor that it runs on.
#[derive(Debug)]
pub(crate) struct Here {
    index: usize,
    not_send: PhantomData<*const ()>,
}

impl Here {
    /// The processor that runs this. At least DISPATCH_LEVEL.
    ///
    /// # Safety
    /// The IRQL stays at least DISPATCH_LEVEL while the answer is used, and its user has no other.
    pub(crate) unsafe fn now() -> Self {
        // SAFETY: any IRQL; nothing is written where there is no pointer.
        let index = unsafe { KeGetCurrentProcessorNumberEx(null_mut()) };
        Self {
            index: index as usize,
            not_send: PhantomData,
        }
    }

    /// Its index over all groups.
    #[must_use]
    pub(crate) const fn index(&self) -> usize {
        self.index
    }
}

/// A DPC of high importance for one processor.
pub(crate) struct Dpc(Pool<UnsafeCell<KDPC>>);

// SAFETY: after its making only the kernel touches it, under its own lock.
unsafe impl Send for Dpc {}
// SAFETY: as above.
unsafe impl Sync for Dpc {}

impl Dpc {
    /// A DPC for the work of [`Rounds`]. PASSIVE_LEVEL.
    pub(crate) fn for_rounds(number: PROCESSOR_NUMBER) -> Result<Self, Failed> {
        // SAFETY: only `Rounds` queues it, with what `work` expects.
        unsafe { Self::new(number, Some(work)) }
    }

    /// A DPC that runs `routine`, without a context. PASSIVE_LEVEL.
    ///
    /// # Safety
    /// `routine` may run whenever the DPC is queued.
    pub(crate) unsafe fn new(
        mut number: PROCESSOR_NUMBER,
        routine: PKDEFERRED_ROUTINE,
    ) -> Result<Self, Failed> {
        let dpc = Self(
            Pool::one(|| UnsafeCell::new(KDPC::default()))
                .ok_or(Failed(STATUS_INSUFFICIENT_RESOURCES))?,
        );
        // SAFETY: the DPC is in non-paged pool, where it stays.
        unsafe { KeInitializeDpc(dpc.object(), routine, null_mut()) };
        // SAFETY: the DPC is initialised and not queued.
        check(unsafe { KeSetTargetProcessorDpcEx(dpc.object(), &raw mut number) })?;
        // SAFETY: the DPC is initialised and not queued.
        unsafe { KeSetImportanceDpc(dpc.object(), _KDPC_IMPORTANCE::HighImportance) };
        Ok(dpc)
    }

    fn object(&self) -> *mut KDPC {
        self.0.place().as_ptr().cast()
    }

    /// Queues it, unless it is queued already. Any IRQL.
    ///
    /// # Safety
    /// [`flush`] comes before it is dropped; one of [`Rounds`] is not queued by others.
    pub(crate) unsafe fn queue(&self, argument: *mut c_void) -> bool {
        // SAFETY: the DPC is initialised.
        unsafe { KeInsertQueueDpc(self.object(), argument, null_mut()) != 0 }
    }
}

/// Waits until every DPC that is queued has run. PASSIVE_LEVEL.
pub(crate) fn flush() {
    // SAFETY: PASSIVE_LEVEL.
    unsafe { KeFlushQueuedDpcs() };
}

/// Rounds of work on several processors, one round at a time.
pub(crate) struct Rounds(Pool<Round>);

struct Round {
    /// Processors that have not done their work yet, and one for who waits for them.
    pending: AtomicU32,
    done: UnsafeCell<KEVENT>,
}

// SAFETY: the event is the kernel's to synchronize.
unsafe impl Send for Round {}
// SAFETY: as above.
unsafe impl Sync for Round {}

/// The work of one round.
struct Batch<'a> {
    round: &'a Round,
    work: &'a (dyn Fn(Here) + Sync),
}

impl Rounds {
    /// `None` where there is no memory. At most DISPATCH_LEVEL.
    pub(crate) fn new() -> Option<Self> {
        let round = Pool::one(|| Round {
            pending: AtomicU32::new(0),
            done: UnsafeCell::new(KEVENT::default()),
        })?;
        for one in &*round {
            // SAFETY: the event is in non-paged pool, where it stays.
            unsafe { KeInitializeEvent(one.done.get(), _EVENT_TYPE::NotificationEvent, 0) };
        }
        Some(Self(round))
    }

    /// Does `work` at DISPATCH_LEVEL on the processor of each of these DPCs, and waits for all.
    /// PASSIVE_LEVEL.
    pub(crate) fn each<'d>(
        &mut self,
        dpcs: impl Iterator<Item = &'d Dpc>,
        work: &(dyn Fn(Here) + Sync),
    ) {
        let [round] = &*self.0 else { return };
        let batch = Batch { round, work };
        let argument = from_ref(&batch).cast_mut().cast();
        // SAFETY: the event is initialised, and nobody waits for it.
        unsafe { KeClearEvent(round.done.get()) };
        round.pending.store(1, Ordering::Release);
        for dpc in dpcs {
            round.pending.fetch_add(1, Ordering::AcqRel);
            // SAFETY: the batch lives until all have run, which `wait` waits for.
            if !unsafe { dpc.queue(argument) } {
                // Only where a processor is named twice.
                round.one_done();
            }
        }
        round.one_done();
        round.wait();
    }

    /// Does `work` once on the processor of this DPC, and waits for it. PASSIVE_LEVEL.
    pub(crate) fn one<T: Send>(
        &mut self,
        dpc: &Dpc,
        work: impl FnOnce(Here) -> T + Send,
    ) -> Option<T> {
        let handover = Handover(Cell::new(Some(work)), Cell::new(None));
        self.each(core::iter::once(dpc), &|here| handover.run(here));
        handover.1.into_inner()
    }

    /// As [`Self::each`], with `slots` parted evenly among `count` processors, in the order of
    /// their indices; a processor without a part does nothing. PASSIVE_LEVEL.
    pub(crate) fn parts<'d, T: Send>(
        &mut self,
        dpcs: impl Iterator<Item = &'d Dpc>,
        slots: &mut [T],
        count: usize,
        work: impl Fn(Here, &mut [T]) + Sync,
    ) {
        let parts = Parts {
            first: slots.as_mut_ptr(),
            length: slots.len() / count.max(1),
            count,
            slots: PhantomData,
        };
        self.each(dpcs, &|here| {
            if let Some(part) = parts.part(&here) {
                work(here, part);
            }
        });
    }
}

impl Drop for Rounds {
    /// PASSIVE_LEVEL. The last processor may still be setting the event.
    fn drop(&mut self) {
        flush();
    }
}

impl Round {
    fn one_done(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the event is initialised.
            let _ = unsafe { KeSetEvent(self.done.get(), 0, 0) };
        }
    }

    fn wait(&self) {
        // SAFETY: PASSIVE_LEVEL; the event is initialised. Without a time-out, and not alertable,
        // it is over when the event is set.
        let _ = unsafe {
            KeWaitForSingleObject(
                self.done.get().cast(),
                _KWAIT_REASON::Executive,
                _MODE::KernelMode as i8,
                0,
                null_mut(),
            )
        };
    }
}

/// KDEFERRED_ROUTINE of [`Dpc::for_rounds`]. DISPATCH_LEVEL, on the DPC's processor.
unsafe extern "C" fn work(
    _dpc: *mut KDPC,
    _context: *mut c_void,
    batch: *mut c_void,
    _unused: *mut c_void,
) {
    // SAFETY: what `Rounds::each` has queued it with, and waits for.
    let batch = unsafe { &*batch.cast::<Batch<'_>>() };
    let round = batch.round;
    // SAFETY: a DPC runs at DISPATCH_LEVEL to its end.
    (batch.work)(unsafe { Here::now() });
    // From here on the batch may be gone, as whoever waits for it may have gone on.
    round.one_done();
}

/// Work that one other processor does once, and what came of it.
struct Handover<F, T>(Cell<Option<F>>, Cell<Option<T>>);

// SAFETY: `Rounds::one` gives it to one DPC and waits for that; nobody looks meanwhile.
unsafe impl<F: Send, T: Send> Sync for Handover<F, T> {}

impl<F: FnOnce(Here) -> T, T> Handover<F, T> {
    fn run(&self, here: Here) {
        if let Some(work) = self.0.take() {
            self.1.set(Some(work(here)));
        }
    }
}

/// A slice parted evenly among processors.
struct Parts<'a, T> {
    first: *mut T,
    length: usize,
    count: usize,
    slots: PhantomData<&'a mut [T]>,
}

// SAFETY: each processor takes another part.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<T> Parts<'_, T> {
    /// The part of this processor, which runs one DPC at a time.
    #[expect(clippy::mut_from_ref, reason = "parts do not overlap")]
    fn part(&self, here: &Here) -> Option<&mut [T]> {
        if here.index >= self.count {
            return None;
        }
        // SAFETY: `count` parts of `length` are within the slice.
        let first = unsafe { self.first.add(here.index * self.length) };
        // SAFETY: within the slice, and only this processor has it.
        Some(unsafe { core::slice::from_raw_parts_mut(first, self.length) })
    }
}
