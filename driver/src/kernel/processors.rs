//! Processors: a block for each, and work done there by targeted DPCs.

use super::clock;
use super::counters::Reservation;
use super::pool::Pool;
use super::timer::Timer;
use super::{Failed, check};
use crate::callbacks;
use crate::global::HALPROF;
use crate::machine::{ApicPage, Cpu, masked};
use crate::trace::What;
use core::cell::{Cell, UnsafeCell};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use hal_profile::capabilities::apic_page;
use hal_profile::machine::{Local, Overflows, ProcessorSet, Processors, Unreserved};
use hal_profile::processor::ProcessorState;
use hal_profile::ring::Word;
use hal_profile::session::Program;
use shared_types::request::session::MAX_PROCESSORS;
use wdk_sys::ntddk::{
    KeClearEvent, KeFlushQueuedDpcs, KeGetCurrentProcessorNumberEx, KeGetProcessorNumberFromIndex,
    KeInitializeDpc, KeInitializeEvent, KeInsertQueueDpc, KeQueryActiveProcessorCountEx,
    KeQueryMaximumProcessorCountEx, KeSetEvent, KeSetImportanceDpc, KeSetTargetProcessorDpcEx,
    KeWaitForSingleObject, MmMapIoSpaceEx, MmUnmapIoSpace,
};
use wdk_sys::{
    _EVENT_TYPE, _KDPC_IMPORTANCE, _KWAIT_REASON, _MODE, KDPC, KEVENT, LARGE_INTEGER,
    PKDEFERRED_ROUTINE, PROCESSOR_NUMBER, STATUS_INSUFFICIENT_RESOURCES,
};

/// ALL_PROCESSOR_GROUPS (wdm.h).
const ALL_GROUPS: u16 = 0xFFFF;
const PAGE: u64 = 4096;
/// PAGE_READWRITE and PAGE_NOCACHE (wdm.h).
const UNCACHED: u32 = 0x04 | 0x200;

static NEW_STATE: ProcessorState = ProcessorState::EMPTY;
/// What a processor has to do that runs nothing.
static IDLE: Program = Program::EMPTY;

/// What belongs to one processor.
#[repr(C)]
pub(crate) struct Block {
    index: u32,
    number: PROCESSOR_NUMBER,
    /// It runs a program. For the timer and for debuggers; the truth is in the state.
    running: AtomicBool,
    /// Touched only on this processor with interrupts masked.
    state: NonNull<ProcessorState>,
    /// Touched only on this processor with interrupts masked.
    cpu: UnsafeCell<Cpu>,
    /// Changed only while nothing runs on this processor.
    ring: UnsafeCell<Option<Pool<Word>>>,
    work: UnsafeCell<KDPC>,
    tick: UnsafeCell<KDPC>,
}

/// All processors, as DPCs, timers and interrupts see them.
#[repr(C)]
pub(crate) struct Table {
    /// Blocks that there may be; those from here on are null, and so is one without memory.
    count: AtomicU32,
    /// Processors that have not done their work yet, and one for who waits for them.
    pending: AtomicU32,
    blocks: Pool<AtomicPtr<Block>>,
    /// Written only while nothing runs.
    program: NonNull<Program>,
    done: UnsafeCell<KEVENT>,
}

// SAFETY: what is not atomic is touched only as its field says.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// Work for several processors, while it is being done.
pub(crate) struct Batch<'a> {
    table: &'a Table,
    work: &'a (dyn Fn(&mut Local<'_, Cpu>) + Sync),
}

impl Batch<'_> {
    /// Does the work on one processor. DISPATCH_LEVEL.
    ///
    /// # Safety
    /// `block` is of this table and of the processor that runs this.
    pub(crate) unsafe fn run(&self, block: &Block) {
        let table = self.table;
        // SAFETY: on the block's processor.
        unsafe { block.with_local(table.program(), block.ring(), self.work) };
        // From here on the batch may be gone, as whoever waits for it may have gone on.
        table.one_done();
    }
}

impl Block {
    /// A processor that has not been looked at. PASSIVE_LEVEL.
    fn new(index: usize, apic: Option<ApicPage>) -> Result<Pool<Self>, Failed> {
        let mut number = PROCESSOR_NUMBER::default();
        // SAFETY: the number is written.
        check(unsafe { KeGetProcessorNumberFromIndex(index as u32, &raw mut number) })?;
        let state = Pool::copies(1, &NEW_STATE).ok_or(Failed(STATUS_INSUFFICIENT_RESOURCES))?;
        let block = Pool::one(|| Self {
            index: index as u32,
            number,
            running: AtomicBool::new(false),
            state: state.leak(),
            cpu: UnsafeCell::new(Cpu::new(apic)),
            ring: UnsafeCell::new(None),
            work: UnsafeCell::new(KDPC::default()),
            tick: UnsafeCell::new(KDPC::default()),
        })
        .ok_or(Failed(STATUS_INSUFFICIENT_RESOURCES))?;
        for one in &*block {
            one.aim(&one.work, Some(callbacks::work))?;
            one.aim(&one.tick, Some(callbacks::tick))?;
        }
        Ok(block)
    }

    /// Makes a DPC of this block ready: of high importance, for this processor.
    fn aim(&self, dpc: &UnsafeCell<KDPC>, routine: PKDEFERRED_ROUTINE) -> Result<(), Failed> {
        let context = core::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the DPC is in non-paged pool, with the block that it is given.
        unsafe { KeInitializeDpc(dpc.get(), routine, context) };
        let mut number = self.number;
        // SAFETY: the DPC is initialised and not queued.
        check(unsafe { KeSetTargetProcessorDpcEx(dpc.get(), &raw mut number) })?;
        // SAFETY: the DPC is initialised and not queued.
        unsafe { KeSetImportanceDpc(dpc.get(), _KDPC_IMPORTANCE::HighImportance) };
        Ok(())
    }

    /// The ring, empty where none is lent.
    fn ring(&self) -> &[Word] {
        // SAFETY: it changes only while nothing runs on this processor, under the device's lock;
        // who reads it holds that lock or runs there.
        let ring = unsafe { &*self.ring.get() };
        ring.as_deref().unwrap_or_default()
    }

    /// Does `work` with interrupts masked.
    ///
    /// # Safety
    /// This is the block of the processor that runs this, and its interrupts are not masked by
    /// another call of this function.
    unsafe fn with_local<R>(
        &self,
        program: &Program,
        ring: &[Word],
        work: impl FnOnce(&mut Local<'_, Cpu>) -> R,
    ) -> R {
        masked(|| {
            // SAFETY: only this processor makes a reference to its state, only here, and nothing
            // comes between while interrupts are masked.
            let state = unsafe { &mut *self.state.as_ptr() };
            // SAFETY: as above.
            let machine = unsafe { &mut *self.cpu.get() };
            let mut local = Local {
                index: self.index as usize,
                machine,
                state,
                ring,
                program,
            };
            let result = work(&mut local);
            let running = local.state.is_running();
            self.running.store(running, Ordering::Relaxed);
            result
        })
    }

    /// Something has happened on this processor, for what it runs: a timer, an overflow. At least
    /// DISPATCH_LEVEL.
    ///
    /// # Safety
    /// This is the block, of `table`, of the processor that runs this.
    pub(crate) unsafe fn happened(&self, table: &Table, work: impl FnOnce(&mut Local<'_, Cpu>)) {
        // Running ends only by work done on this processor, so not before this is over.
        let (program, ring) = if self.running.load(Ordering::Relaxed) {
            (table.program(), self.ring())
        } else {
            (&IDLE, Default::default())
        };
        // SAFETY: as this function demands.
        unsafe { self.with_local(program, ring, work) };
    }
}

impl Drop for Block {
    /// PASSIVE_LEVEL; its DPCs have run.
    fn drop(&mut self) {
        // SAFETY: the state was leaked by `Block::new`, and is used by nobody else now.
        drop(unsafe { Pool::reclaim(self.state) });
    }
}

impl Table {
    fn new() -> Option<Pool<Self>> {
        // SAFETY: no requirement.
        let most = unsafe { KeQueryMaximumProcessorCountEx(ALL_GROUPS) } as usize;
        let blocks = Pool::zeroed(most.min(MAX_PROCESSORS))?;
        let program = Pool::copies(1, &IDLE)?;
        let table = Pool::one(|| Self {
            count: AtomicU32::new(0),
            pending: AtomicU32::new(0),
            blocks,
            program: program.leak(),
            done: UnsafeCell::new(KEVENT::default()),
        })?;
        for one in &*table {
            // SAFETY: the event is in non-paged pool.
            unsafe { KeInitializeEvent(one.done.get(), _EVENT_TYPE::NotificationEvent, 0) };
        }
        Some(table)
    }

    /// The table of the device whose hardware is ready. Any IRQL.
    ///
    /// # Safety
    /// The caller is a timer's callback, a DPC or an overflow of that hardware: these have ended
    /// before the table goes.
    pub(crate) unsafe fn published() -> Option<&'static Self> {
        // SAFETY: as this function demands.
        unsafe { HALPROF.table.load(Ordering::Acquire).as_ref() }
    }

    /// How many processors there are.
    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize
    }

    fn block(&self, index: usize) -> Option<&Block> {
        let block = self.blocks.get(index)?.load(Ordering::Acquire);
        // SAFETY: a block stays where it is until the table is dropped.
        unsafe { block.as_ref() }
    }

    fn all(&self) -> impl Iterator<Item = &Block> {
        (0..self.count()).filter_map(|index| self.block(index))
    }

    /// The block of the processor that runs this, which cannot change above APC_LEVEL.
    #[must_use]
    pub(crate) fn here(&self) -> Option<&Block> {
        // SAFETY: any IRQL; nothing is written where there is no pointer.
        let index = unsafe { KeGetCurrentProcessorNumberEx(null_mut()) };
        self.block(index as usize)
    }

    fn program(&self) -> &Program {
        // SAFETY: it is written only while nothing runs, under the device's lock.
        unsafe { self.program.as_ref() }
    }

    /// The timer has expired: every processor that runs something ticks. DISPATCH_LEVEL.
    pub(crate) fn tick(&self) {
        for block in self.all() {
            if block.running.load(Ordering::Relaxed) {
                // SAFETY: the DPC is initialised; one that is queued already is left as it is.
                let _ = unsafe { KeInsertQueueDpc(block.tick.get(), null_mut(), null_mut()) };
            }
        }
    }

    fn one_done(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the event is initialised.
            let _ = unsafe { KeSetEvent(self.done.get(), 0, 0) };
        }
    }

    /// Does `work` on each processor of `wanted`, and waits for all. PASSIVE_LEVEL, one at a time.
    fn each(&self, wanted: &ProcessorSet, work: &(dyn Fn(&mut Local<'_, Cpu>) + Sync)) {
        let batch = Batch { table: self, work };
        let batch = core::ptr::from_ref(&batch).cast_mut().cast();
        // SAFETY: the event is initialised, and nobody waits for it.
        unsafe { KeClearEvent(self.done.get()) };
        self.pending.store(1, Ordering::Release);
        for block in self.all() {
            if wanted.contains(block.index as usize) {
                self.pending.fetch_add(1, Ordering::AcqRel);
                // SAFETY: the DPC is initialised. The batch lives until all have run: see below.
                let queued = unsafe { KeInsertQueueDpc(block.work.get(), batch, null_mut()) };
                if queued == 0 {
                    // Nobody else queues it, so it always is.
                    self.one_done();
                }
            }
        }
        self.one_done();
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

impl Drop for Table {
    /// PASSIVE_LEVEL; nothing uses it any more.
    fn drop(&mut self) {
        for slot in &*self.blocks {
            if let Some(block) = NonNull::new(slot.load(Ordering::Acquire)) {
                // SAFETY: leaked by `Host::add`, and used by nobody else now.
                drop(unsafe { Pool::reclaim(block) });
            }
        }
        // SAFETY: leaked by `Table::new`, and used by nobody else now.
        drop(unsafe { Pool::reclaim(self.program) });
    }
}

/// The host of the core: all processors, and what it lends.
pub(crate) struct Host {
    table: Pool<Table>,
    timer: Timer,
    reservation: Option<Reservation>,
    apic: Mapping,
    frequency: u64,
    resolution: u32,
}

impl Host {
    /// All processors that are active now. PASSIVE_LEVEL.
    pub(crate) fn new() -> Result<Self, Failed> {
        let none = Failed(STATUS_INSUFFICIENT_RESOURCES);
        let host = Self {
            table: Table::new().ok_or(none)?,
            timer: Timer::new().ok_or(none)?,
            reservation: None,
            apic: Mapping::new(),
            frequency: clock::timestamp_frequency(),
            resolution: clock::timer_resolution(),
        };
        // SAFETY: no requirement.
        let active = unsafe { KeQueryActiveProcessorCountEx(ALL_GROUPS) } as usize;
        for index in 0..active.min(MAX_PROCESSORS) {
            host.add(index)?;
        }
        HALPROF
            .table
            .store(host.table().as_ptr(), Ordering::Release);
        Ok(host)
    }

    fn table(&self) -> NonNull<Table> {
        self.table.place()
    }

    fn shared(&self) -> &Table {
        // SAFETY: the table is there as long as the host.
        unsafe { self.table().as_ref() }
    }

    /// Makes a block for a processor that is not known yet. PASSIVE_LEVEL.
    pub(crate) fn add(&self, index: usize) -> Result<(), Failed> {
        let table = self.shared();
        let Some(slot) = table.blocks.get(index) else {
            return Ok(());
        };
        if index < table.count() {
            return Ok(());
        }
        let block = Block::new(index, self.apic.page());
        table.count.store(index as u32 + 1, Ordering::Release);
        slot.store(block?.leak().as_ptr(), Ordering::Release);
        Ok(())
    }

    /// Ticks of the time-stamp counter in a second.
    #[must_use]
    pub(crate) fn frequency(&self) -> u64 {
        self.frequency
    }

    /// Ticks every so many units of 100 ns from now on, or not at all. PASSIVE_LEVEL.
    pub(crate) fn set_timer(&mut self, period: Option<u32>) {
        self.timer.set(period);
    }
}

impl Drop for Host {
    /// PASSIVE_LEVEL; no session runs, and no counter is reserved.
    fn drop(&mut self) {
        self.timer.delete();
        HALPROF.table.store(null_mut(), Ordering::Release);
        // SAFETY: PASSIVE_LEVEL. What is queued has run when it returns.
        unsafe { KeFlushQueuedDpcs() };
    }
}

impl Processors for Host {
    type Machine = Cpu;

    fn count(&self) -> usize {
        self.shared().count()
    }

    fn number(&self, index: usize) -> (u16, u16) {
        self.shared().block(index).map_or((0, 0), |block| {
            (block.number.Group, block.number.Number.into())
        })
    }

    fn run_on<T: Send>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Local<'_, Cpu>) -> T + Send,
    ) -> Option<T> {
        let handover = Handover(Cell::new(Some(work)), Cell::new(None));
        let once = |local: &mut Local<'_, Cpu>| handover.run(local);
        self.shared().each(&ProcessorSet::one(index), &once);
        handover.1.into_inner()
    }

    fn run_on_each<T: Send>(
        &mut self,
        wanted: &ProcessorSet,
        slots: &mut [T],
        work: impl Fn(&mut Local<'_, Cpu>, &mut [T]) + Sync,
    ) {
        let parts = Parts {
            length: slots.len() / self.count().max(1),
            first: slots.as_mut_ptr(),
        };
        let on_one = |local: &mut Local<'_, Cpu>| {
            // SAFETY: each processor takes its own part, once.
            let part = unsafe { parts.part(local.index) };
            work(local, part);
        };
        self.shared().each(wanted, &on_one);
    }

    fn ring(&self, index: usize) -> &[Word] {
        self.shared().block(index).map_or(&[], Block::ring)
    }

    fn lend_rings(&mut self, wanted: &ProcessorSet, words: usize) -> bool {
        let lent = self.shared().all().all(|block| {
            let ring = wanted
                .contains(block.index as usize)
                .then(|| Pool::zeroed(words));
            match ring {
                Some(None) => false,
                Some(ring) => {
                    // SAFETY: nothing runs on this processor yet.
                    drop(unsafe { block.ring.get().replace(ring) });
                    true
                }
                None => true,
            }
        });
        if !lent {
            self.take_rings(wanted);
        }
        lent
    }

    fn return_rings(&mut self) {
        self.take_rings(&ProcessorSet::ALL);
    }

    fn load(&mut self, program: &Program) {
        // SAFETY: nothing runs, and the host is borrowed alone.
        let place = unsafe { &mut *self.shared().program.as_ptr() };
        place.copy_from(program);
    }

    fn reserve_counters(&mut self, overflows: Overflows) -> Result<(), Unreserved> {
        if overflows == Overflows::Interrupt && self.apic.failed {
            let status = STATUS_INSUFFICIENT_RESOURCES.cast_unsigned();
            return Err(Unreserved::Interrupt(status));
        }
        self.reservation = Some(Reservation::new(overflows)?);
        Ok(())
    }

    fn release_counters(&mut self) {
        let Some(mut reservation) = self.reservation.take() else {
            return;
        };
        // An overflow that was being handled on another processor when the handler was removed is
        // over when a DPC has run there. Until then it may write LVTPC, so the counters are ours.
        if reservation.remove_interrupt() {
            self.shared().each(&ProcessorSet::ALL, &|_| {});
            return;
        }
        // Giving the counters back is what removes the callback.
        drop(reservation);
        self.shared().each(&ProcessorSet::ALL, &|_| {});
    }

    fn timestamp_frequency(&self) -> u64 {
        self.frequency
    }

    fn timer_resolution(&self) -> u32 {
        self.resolution
    }
}

impl Host {
    fn take_rings(&mut self, wanted: &ProcessorSet) {
        for block in self.shared().all() {
            if wanted.contains(block.index as usize) {
                // SAFETY: nothing runs on this processor.
                drop(unsafe { block.ring.get().replace(None) });
            }
        }
    }
}

/// Work that one other processor does once, and what came of it.
struct Handover<F, T>(Cell<Option<F>>, Cell<Option<T>>);

// SAFETY: `Table::each` gives it to one DPC and waits for that; nobody looks meanwhile.
unsafe impl<F: Send, T: Send> Sync for Handover<F, T> {}

impl<F: FnOnce(&mut Local<'_, Cpu>) -> T, T> Handover<F, T> {
    fn run(&self, local: &mut Local<'_, Cpu>) {
        if let Some(work) = self.0.take() {
            self.1.set(Some(work(local)));
        }
    }
}

/// A slice parted evenly among processors.
struct Parts<T> {
    first: *mut T,
    length: usize,
}

// SAFETY: each processor takes another part.
unsafe impl<T: Send> Sync for Parts<T> {}

impl<T> Parts<T> {
    /// # Safety
    /// `index` is below the number of processors that the slice was parted for, and its part is
    /// taken once.
    #[expect(clippy::mut_from_ref, reason = "parts do not overlap")]
    unsafe fn part(&self, index: usize) -> &mut [T] {
        // SAFETY: within the slice, as this function demands.
        let first = unsafe { self.first.add(index * self.length) };
        // SAFETY: within the slice, and nobody else has it.
        unsafe { core::slice::from_raw_parts_mut(first, self.length) }
    }
}

/// The local APIC's page, mapped for as long as this lives, where it is reached by a page.
struct Mapping {
    page: Option<ApicPage>,
    failed: bool,
}

impl Mapping {
    /// PASSIVE_LEVEL.
    fn new() -> Self {
        let physical = masked(|| apic_page(&mut Cpu::new(None)));
        let Some(physical) = physical else {
            return Self {
                page: None,
                failed: false,
            };
        };
        let address = LARGE_INTEGER {
            QuadPart: physical.cast_signed(),
        };
        // SAFETY: PASSIVE_LEVEL; the page holds the local APIC's registers, and no memory.
        let at = unsafe { MmMapIoSpaceEx(address, PAGE, UNCACHED) };
        // SAFETY: it is unmapped when this is dropped, after the last processor's block.
        let page = NonNull::new(at).map(|at| unsafe { ApicPage::mapped(at.cast()) });
        Self {
            page,
            failed: page.is_none(),
        }
    }

    fn page(&self) -> Option<ApicPage> {
        self.page
    }
}

impl Drop for Mapping {
    /// At most DISPATCH_LEVEL.
    fn drop(&mut self) {
        if let Some(page) = self.page {
            // SAFETY: mapped by `Mapping::new`, of this length.
            unsafe { MmUnmapIoSpace(page.address().as_ptr().cast(), PAGE) };
        }
    }
}

/// Tells the trace that a processor was added.
pub(crate) fn trace_added(index: usize, added: Result<(), Failed>) {
    let status = added.err().map_or(0, Failed::code);
    HALPROF
        .trace
        .add(What::ProcessorAdded, 0, index as u64, status.into());
}
