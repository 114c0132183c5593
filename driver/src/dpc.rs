//! Work on a chosen processor, through targeted DPCs: the only cross-processor code, behind a safe
//! interface.
#![expect(unsafe_code, reason = "DPC objects, and closures that other processors call")]

use crate::pool::Pool;
use crate::status::{Failed, check};
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use hal_profile::run::sharing::Pending;
use wdk_sys::ntddk::{
    KeClearEvent, KeFlushQueuedDpcs, KeGetCurrentProcessorNumberEx, KeInitializeDpc,
    KeInitializeEvent, KeInsertQueueDpc, KeSetEvent, KeSetImportanceDpc, KeSetTargetProcessorDpcEx,
    KeWaitForSingleObject,
};
use wdk_sys::{
    _EVENT_TYPE, _KDPC_IMPORTANCE, _KWAIT_REASON, _MODE, KDPC, KDPC_IMPORTANCE, KEVENT,
    PKDEFERRED_ROUTINE, PROCESSOR_NUMBER, STATUS_INSUFFICIENT_RESOURCES,
};

/// Proof that this code stays on the current processor.
#[derive(Debug)]
pub(crate) struct CurrentCpu {
    index: usize,
    not_send: PhantomData<*const ()>,
}

impl CurrentCpu {
    /// The current processor. At least DISPATCH_LEVEL.
    ///
    /// # Safety
    /// The IRQL stays at least at DISPATCH_LEVEL while the result is used, and the user has no
    /// other `CurrentCpu`.
    pub(crate) unsafe fn now() -> Self {
        // SAFETY: any IRQL; with a null pointer nothing is written.
        let index = unsafe { KeGetCurrentProcessorNumberEx(null_mut()) };
        Self { index: index as usize, not_send: PhantomData }
    }

    /// Its index over all groups.
    pub(crate) const fn index(&self) -> usize {
        self.index
    }
}

/// A DPC for one processor.
pub(crate) struct Dpc(Pool<UnsafeCell<KDPC>>);

// SAFETY: once initialised, it is touched only by the kernel, under the kernel's own lock.
unsafe impl Send for Dpc {}
// SAFETY: as above.
unsafe impl Sync for Dpc {}

impl Dpc {
    /// A DPC for the work of [`CrossCall`], which a request waits for. PASSIVE_LEVEL.
    pub(crate) fn for_cross_calls(number: PROCESSOR_NUMBER) -> Result<Self, Failed> {
        // SAFETY: only `CrossCall` queues it, with the argument that `work` expects.
        unsafe { Self::new(number, Some(work), _KDPC_IMPORTANCE::HighImportance) }
    }

    /// A DPC that runs `routine`, without a context. PASSIVE_LEVEL.
    ///
    /// # Safety
    /// `routine` may run whenever the DPC is queued.
    pub(crate) unsafe fn new(
        mut number: PROCESSOR_NUMBER,
        routine: PKDEFERRED_ROUTINE,
        importance: KDPC_IMPORTANCE,
    ) -> Result<Self, Failed> {
        let dpc = Self(
            Pool::one(|| UnsafeCell::new(KDPC::default()))
                .ok_or(Failed(STATUS_INSUFFICIENT_RESOURCES))?,
        );
        // SAFETY: the DPC is in non-paged pool and does not move.
        unsafe { KeInitializeDpc(dpc.object(), routine, null_mut()) };
        // Before it is first queued: a queued DPC keeps its target (WDK, "KeSetTargetProcessorDpcEx").
        // The form without Ex means group 0 only.
        // SAFETY: the DPC is initialised and not queued.
        check(unsafe { KeSetTargetProcessorDpcEx(dpc.object(), &raw mut number) })?;
        // SAFETY: the DPC is initialised and not queued.
        unsafe { KeSetImportanceDpc(dpc.object(), importance) };
        Ok(dpc)
    }

    fn object(&self) -> *mut KDPC {
        self.0.place().as_ptr().cast()
    }

    /// Queues the DPC, unless it is already queued; returns whether it did. Any IRQL.
    ///
    /// # Safety
    /// [`flush`] is called before the DPC is dropped; a DPC of [`CrossCall`] is queued by nothing
    /// else.
    pub(crate) unsafe fn queue(&self, argument: *mut c_void) -> bool {
        // SAFETY: the DPC is initialised.
        unsafe { KeInsertQueueDpc(self.object(), argument, null_mut()) != 0 }
    }
}

/// Waits until every queued DPC has run. PASSIVE_LEVEL.
fn flush() {
    // SAFETY: PASSIVE_LEVEL.
    unsafe { KeFlushQueuedDpcs() };
}

/// Calls of work on several processors, one after another.
pub(crate) struct CrossCall(Pool<Round>);

struct Round {
    pending: Pending,
    done: UnsafeCell<KEVENT>,
}

// SAFETY: the kernel synchronizes access to the event.
unsafe impl Send for Round {}
// SAFETY: as above.
unsafe impl Sync for Round {}

/// One call.
struct Call<'a> {
    round: &'a Round,
    work: &'a (dyn Fn(CurrentCpu) + Sync),
}

impl CrossCall {
    /// `None` if there is no memory. At most DISPATCH_LEVEL.
    pub(crate) fn new() -> Option<Self> {
        let round = Pool::one(|| Round {
            pending: Pending::default(),
            done: UnsafeCell::new(KEVENT::default()),
        })?;
        for one in &*round {
            // SAFETY: the event is in non-paged pool and does not move.
            unsafe { KeInitializeEvent(one.done.get(), _EVENT_TYPE::NotificationEvent, 0) };
        }
        Some(Self(round))
    }

    /// Runs `work` at DISPATCH_LEVEL on the processor of each of these DPCs, and waits for all of
    /// them. PASSIVE_LEVEL.
    pub(crate) fn each<'d>(
        &mut self,
        dpcs: impl Iterator<Item = &'d Dpc>,
        work: &(dyn Fn(CurrentCpu) + Sync),
    ) {
        let [round] = &*self.0 else { return };
        let call = Call { round, work };
        let argument = from_ref(&call).cast_mut().cast();
        // The call may be on this stack, but not the round: the last processor may still be in
        // KeSetEvent when this thread has been woken.
        // SAFETY: the event is initialised, and no thread is waiting for it.
        unsafe { KeClearEvent(round.done.get()) };
        round.pending.begin();
        for dpc in dpcs {
            round.pending.add();
            // SAFETY: the call outlives all of the DPCs, because `wait` waits for them.
            if !unsafe { dpc.queue(argument) } {
                // Happens only if a processor is named twice.
                round.one_done();
            }
        }
        // For this thread. Then a wait without time-out: the DPCs use this stack, and cannot be
        // withdrawn from a processor that has begun one.
        round.one_done();
        round.wait();
    }

    /// Runs `work` once on the processor of this DPC, and waits for it. PASSIVE_LEVEL.
    pub(crate) fn one<T: Send>(
        &mut self,
        dpc: &Dpc,
        work: impl FnOnce(CurrentCpu) -> T + Send,
    ) -> Option<T> {
        let handover = Handover(Cell::new(Some(work)), Cell::new(None));
        self.each(core::iter::once(dpc), &|current| handover.run(current));
        handover.1.into_inner()
    }

    /// As [`Self::each`], with `slots` divided evenly among `count` processors in the order of
    /// their indices; a processor without a part does nothing. PASSIVE_LEVEL.
    pub(crate) fn parts<'d, T: Send>(
        &mut self,
        dpcs: impl Iterator<Item = &'d Dpc>,
        slots: &mut [T],
        count: usize,
        work: impl Fn(CurrentCpu, &mut [T]) + Sync,
    ) {
        let parts = Parts {
            first: slots.as_mut_ptr(),
            length: slots.len() / count.max(1),
            count,
            slots: PhantomData,
        };
        self.each(dpcs, &|current| {
            if let Some(part) = parts.part(&current) {
                work(current, part);
            }
        });
    }
}

impl Drop for CrossCall {
    /// PASSIVE_LEVEL.
    fn drop(&mut self) {
        // The last processor may still be setting the event.
        flush();
    }
}

impl Round {
    fn one_done(&self) {
        // Whoever is last has seen what all others wrote, and passes it on with the event.
        if self.pending.one_done() {
            // No boost of priority: the waiting thread competes with what is measured.
            // SAFETY: the event is initialised.
            let _ = unsafe { KeSetEvent(self.done.get(), 0, 0) };
        }
    }

    fn wait(&self) {
        // SAFETY: PASSIVE_LEVEL; the event is initialised. The wait has no time-out and is not
        // alertable, so it ends only when the event is set.
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

/// KDEFERRED_ROUTINE of [`Dpc::for_cross_calls`]. DISPATCH_LEVEL, on the DPC's processor.
unsafe extern "C" fn work(
    _dpc: *mut KDPC,
    _context: *mut c_void,
    call: *mut c_void,
    _unused: *mut c_void,
) {
    // SAFETY: `CrossCall::each` queued the DPC with this pointer, and waits for it.
    let call = unsafe { &*call.cast::<Call<'_>>() };
    // Copied, because the call may be gone when it is needed.
    let round = call.round;
    // SAFETY: a DPC runs at DISPATCH_LEVEL to its end.
    (call.work)(unsafe { CurrentCpu::now() });
    // After this the `Call` may no longer exist, because the waiting thread may have continued.
    round.one_done();
}

/// Work that another processor does once, and its result.
struct Handover<F, T>(Cell<Option<F>>, Cell<Option<T>>);

// SAFETY: `CrossCall::one` gives it to one DPC and waits for that DPC; nothing else accesses it in
// the meantime.
unsafe impl<F: Send, T: Send> Sync for Handover<F, T> {}

impl<F: FnOnce(CurrentCpu) -> T, T> Handover<F, T> {
    fn run(&self, current: CurrentCpu) {
        if let Some(work) = self.0.take() {
            self.1.set(Some(work(current)));
        }
    }
}

/// A slice divided evenly among processors.
struct Parts<'a, T> {
    first: *mut T,
    length: usize,
    count: usize,
    slots: PhantomData<&'a mut [T]>,
}

// SAFETY: each processor takes a different part.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<T> Parts<'_, T> {
    /// The part of this processor, which runs one DPC at a time.
    #[expect(clippy::mut_from_ref, reason = "parts do not overlap")]
    fn part(&self, current: &CurrentCpu) -> Option<&mut [T]> {
        if current.index >= self.count {
            return None;
        }
        // SAFETY: `count` parts of `length` are within the slice.
        let first = unsafe { self.first.add(current.index * self.length) };
        // SAFETY: within the slice, and only this processor uses this part.
        Some(unsafe { core::slice::from_raw_parts_mut(first, self.length) })
    }
}
