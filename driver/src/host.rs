//! The host of the core: all processors, and the memory provided to it.
#![expect(unsafe_code, reason = "says when state of processors may be changed")]

use crate::apic::Mapping;
use crate::clock;
use crate::cpu::{self, Cpu, masked};
use crate::dpc::CrossCall;
use crate::per_cpu::{PerCpu, TABLE, Table, poll_due, slice_ended};
use crate::pool::Pool;
use crate::reservation::Reservation;
use crate::status::Failed;
use crate::system_events::SYSTEM_EVENTS;
use crate::timer::Timers;
use crate::trace::{self, What};
use crate::wdf::RemovalBlock;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use hal_profile::cpu::discover::apic_page;
use hal_profile::plan::cpu_set::ProcessorSet;
use hal_profile::plan::program::Program;
use hal_profile::run::host::{Local, Overflows, Processors, Unreserved};
use hal_profile::run::ring::Word;
use hal_profile::service::Timer;
use shared_types::{ErrorCode, SystemEvent};
use wdk_sys::STATUS_INSUFFICIENT_RESOURCES;

/// The processors of one device, from PrepareHardware to ReleaseHardware.
pub(crate) struct Host {
    /// Dropped first, which flushes DPCs: ticks that were queued may still be about to run (WDK,
    /// "KeFlushQueuedDpcs").
    cross_call: CrossCall,
    timers: Timers,
    /// A session's, or what Windows has not let go of since.
    reservation: Option<Reservation>,
    /// Set as long as Windows does not let go of it.
    removal_block: Option<RemovalBlock>,
    /// The handler of the overflow interrupt was left to the next host.
    handler_left: bool,
    table: Pool<Table>,
    /// Declared after the table, so dropped after it: blocks have copies of its page.
    apic: Mapping,
    frequency: u64,
    resolution: u32,
}

impl Host {
    /// A host for all currently active processors. PASSIVE_LEVEL.
    pub(crate) fn new() -> Result<Self, Failed> {
        let none = Failed(STATUS_INSUFFICIENT_RESOURCES);
        let physical = masked(|| apic_page(&mut Cpu::new(None)));
        // SAFETY: the local APIC's address; the table, which has the copies, is dropped first.
        let apic = unsafe { Mapping::new(physical) };
        // Everything that can fail, before anything can be found by DPCs, timers or interrupts.
        let host = Self {
            cross_call: CrossCall::new().ok_or(none)?,
            // SAFETY: the callbacks use the table, which outlives the timers.
            timers: unsafe { Timers::new(Some(slice_ended), Some(poll_due)) }.ok_or(none)?,
            reservation: None,
            removal_block: None,
            handler_left: false,
            table: Table::new(apic.page()).ok_or(none)?,
            apic,
            frequency: clock::timestamp_frequency(),
            resolution: clock::timer_resolution(),
        };
        host.table().add_active()?;
        // Last: whoever finds the table finds every processor in it.
        TABLE.store(host.table.place().as_ptr(), Ordering::Release);
        Ok(host)
    }

    fn table(&self) -> &Table {
        // SAFETY: the table exists as long as the host; everything in it that changes does so
        // behind shared references.
        unsafe { self.table.place().as_ref() }
    }

    /// Makes a block for a processor that is not known yet. PASSIVE_LEVEL.
    pub(crate) fn add(&self, index: usize) -> Result<(), Failed> {
        self.table().add(index)
    }

    /// Sets the timer for ticks, or stops it. PASSIVE_LEVEL.
    pub(crate) fn set_timer(&mut self, setting: Option<Timer>) {
        self.timers.set(setting);
    }

    /// Takes over what Windows did not let go of while the device had another host. PASSIVE_LEVEL.
    pub(crate) fn take_over_reservation(&mut self, unreleased: Option<Reservation>) {
        self.removal_block = unreleased.is_some().then(RemovalBlock::new);
        self.reservation = unreleased;
    }

    /// Gives everything back, and returns what Windows does not let go of. No session is running, and
    /// none will.
    /// PASSIVE_LEVEL.
    pub(crate) fn release(&mut self) -> Option<Reservation> {
        self.release_counters();
        // The framework counts blocks by device: the next host makes its own.
        self.removal_block = None;
        let unreleased = self.reservation.take();
        self.handler_left = unreleased.as_ref().is_some_and(Reservation::interrupts);
        unreleased
    }

    /// Runs `work` with interrupts masked on each processor of `processors`, and waits for all of
    /// them. PASSIVE_LEVEL.
    fn each(&mut self, processors: &ProcessorSet, work: impl Fn(&mut Local<'_, Cpu>) + Sync) {
        self.run_on_each::<()>(processors, &mut [], |local, _| work(local));
    }

    /// Gives each processor of `processors` the ring that `ring` makes; returns whether there was
    /// memory for all.
    fn set_rings(
        &mut self,
        processors: &ProcessorSet,
        ring: impl Fn() -> Option<Option<Pool<Word>>>,
    ) -> bool {
        self.table().of(processors).all(|per_cpu| {
            let Some(ring) = ring() else {
                return false;
            };
            // SAFETY: nothing runs on this processor, as the core promises; the host is borrowed
            // exclusively.
            unsafe { per_cpu.set_ring(ring) };
            true
        })
    }

    #[expect(
        clippy::unused_self,
        reason = "that the host is borrowed alone is what makes it sound"
    )]
    fn set_event_ring(&mut self, ring: Option<Pool<Word>>) {
        // SAFETY: the host is used under the device's lock, and is borrowed exclusively.
        unsafe { SYSTEM_EVENTS.set_ring(ring) };
    }

    /// Keeps what Windows does not let go of, and the device with it. While the handler is
    /// registered, the driver stays in memory even if the device goes.
    fn keep(&mut self, mut reservation: Reservation) {
        if let Some(status) = reservation.handler_refusal() {
            // Windows is asked again by each START.
            if reservation.pin() {
                trace::add(What::HandlerStuck, 0, status.into(), 0);
            }
        }
        self.removal_block.get_or_insert_with(RemovalBlock::new);
        self.reservation = Some(reservation);
    }
}

impl Drop for Host {
    /// PASSIVE_LEVEL; no session is running.
    fn drop(&mut self) {
        // Before the table goes: a callback may be about to read it.
        self.timers.delete();
        // Before the calls are dropped, which flushes DPCs: what is queued by then is the last that can
        // find it.
        TABLE.store(null_mut(), Ordering::Release);
        if self.handler_left {
            // The handler may have found the table earlier and still be running on another
            // processor, until a DPC has run there. If it is called again, it now has nothing to
            // do.
            self.each(&ProcessorSet::ALL, |local| local.unmask());
        }
    }
}

impl Processors for Host {
    type Machine = Cpu;

    fn count(&self) -> usize {
        self.table().count()
    }

    fn number(&self, index: usize) -> (u16, u16) {
        self.table().per_cpu(index).map_or((0, 0), PerCpu::number)
    }

    fn run_on<T: Send>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Local<'_, Cpu>) -> T + Send,
    ) -> Option<T> {
        // SAFETY: the table exists as long as the host.
        let table = unsafe { self.table.place().as_ref() };
        let per_cpu = table.per_cpu(index)?;
        self.cross_call.one(per_cpu.work(), |mut current| {
            per_cpu.enter(&mut current, table.program(), per_cpu.ring(), work)
        })?
    }

    fn run_on_each<T: Send>(
        &mut self,
        processors: &ProcessorSet,
        slots: &mut [T],
        work: impl Fn(&mut Local<'_, Cpu>, &mut [T]) + Sync,
    ) {
        // SAFETY: the table exists as long as the host.
        let table = unsafe { self.table.place().as_ref() };
        let dpcs = table.dpcs(processors);
        self.cross_call.parts(dpcs, slots, table.count(), |mut current, part| {
            table.enter(&mut current, |local| work(local, part));
        });
    }

    fn exercise(
        &mut self,
        processors: &ProcessorSet,
        instructions: u32,
        before: impl Fn(&mut Local<'_, Cpu>) + Sync,
        after: impl Fn(&mut Local<'_, Cpu>) + Sync,
    ) {
        // SAFETY: the table exists as long as the host.
        let table = unsafe { self.table.place().as_ref() };
        self.cross_call.each(table.dpcs(processors), &|mut current| {
            table.enter(&mut current, &before);
            // Between the two interrupts are enabled: the overflow's comes here.
            cpu::exercise(instructions);
            table.enter(&mut current, &after);
        });
    }

    fn ring(&self, index: usize) -> &[Word] {
        self.table().per_cpu(index).map_or(&[], PerCpu::ring)
    }

    fn attach_rings(&mut self, processors: &ProcessorSet, words: usize) -> bool {
        let attached = self.set_rings(processors, || Some(Some(Pool::zeroed(words)?)));
        // All or none: a session that samples on some processors only would look complete.
        if !attached {
            self.set_rings(processors, || Some(None));
        }
        attached
    }

    fn detach_rings(&mut self) {
        self.set_rings(&ProcessorSet::ALL, || Some(None));
        self.set_event_ring(None);
    }

    fn event_ring(&self) -> &[Word] {
        // SAFETY: the host is used under the device's lock, and the borrow ends before the host.
        unsafe { SYSTEM_EVENTS.ring() }
    }

    fn attach_event_ring(&mut self, words: usize) -> bool {
        let ring = Pool::zeroed(words);
        let attached = ring.is_some();
        self.set_event_ring(ring);
        attached
    }

    fn put_event(&mut self, event: &SystemEvent) {
        SYSTEM_EVENTS.put(event);
    }

    fn load(&mut self, program: &Program) {
        // SAFETY: nothing is running, as the core promises; the host is borrowed exclusively.
        unsafe { self.table().load(program) };
    }

    fn reserve_counters(&mut self, overflows: Overflows) -> Result<(), Unreserved> {
        // Whatever an earlier session has left may have become free.
        self.release_counters();
        let Some(unreleased) = &self.reservation else {
            // Without the page nobody could unmask LVTPC: one interrupt would be the last.
            // mistake: without-the-page
            if overflows == Overflows::Interrupt && self.apic.failed() {
                let status = STATUS_INSUFFICIENT_RESOURCES.cast_unsigned();
                return Err(Unreserved { error: ErrorCode::InterruptTaken, status });
            }
            self.reservation = Some(Reservation::new(overflows)?);
            return Ok(());
        };
        match (unreleased.threads_refusal(), unreleased.handler_refusal()) {
            (Some(status), _) => Err(Unreserved { error: ErrorCode::ThreadsKept, status }),
            (None, Some(status)) if overflows == Overflows::Interrupt => {
                Err(Unreserved { error: ErrorCode::HandlerStuck, status })
            }
            // Counters that do not interrupt need no handler.
            _ => Ok(()),
        }
    }

    fn register_threads(&mut self, counters: &[u32]) -> Result<(), u32> {
        let reservation = self.reservation.as_mut();
        reservation.map_or(Ok(()), |counted| counted.register_threads(counters))
    }

    fn unregister_threads(&mut self) {
        if let Some(reservation) = &mut self.reservation {
            let _ = reservation.unregister_threads();
        }
    }

    fn handler_stuck(&self) -> bool {
        self.reservation.as_ref().and_then(Reservation::handler_refusal).is_some()
    }

    fn threads_kept(&self) -> bool {
        self.reservation.as_ref().and_then(Reservation::threads_refusal).is_some()
    }

    fn release_counters(&mut self) {
        let Some(mut reservation) = self.reservation.take() else {
            return;
        };
        let interrupts = reservation.interrupts();
        // Threads first: Windows must not read a counter at a context switch that others program. As
        // long as it does, the handler stays, for each interrupt masks LVTPC.
        if reservation.unregister_threads().is_err() || reservation.remove_interrupt().is_err() {
            self.keep(reservation);
            return;
        }
        if interrupts {
            // Another processor may have been in the handler when it was removed; it has left it
            // once a DPC has run there. Until then it may write LVTPC, so the counters stay
            // reserved. An overflow that came after the removal has left LVTPC masked.
            self.each(&ProcessorSet::ALL, |local| local.unmask());
        }
        // Last, when no code of this image can be called any more.
        reservation.unpin();
        self.removal_block = None;
    }

    fn timestamp_frequency(&self) -> u64 {
        self.frequency
    }

    fn timer_resolution(&self) -> u32 {
        self.resolution
    }
}
