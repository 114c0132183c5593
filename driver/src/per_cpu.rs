//! The data of each processor, and the table through which DPCs, timers and interrupts find it.
#![expect(unsafe_code, reason = "state that one processor alone may touch")]

use crate::apic::{self, ApicPage};
use crate::cpu::{Cpu, masked};
use crate::dpc::{CurrentCpu, Dpc};
use crate::pool::{Pool, Zeroed};
use crate::status::{Failed, check};
use crate::system_events::SYSTEM_EVENTS;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use hal_profile::plan::cpu_set::ProcessorSet;
use hal_profile::plan::program::Program;
use hal_profile::run::host::Local;
use hal_profile::run::ring::Word;
use hal_profile::run::sharing::Running;
use hal_profile::run::state::ProcessorState;
use shared_types::request::session::MAX_PROCESSORS;
use wdk_sys::ntddk::{
    KeGetProcessorNumberFromIndex, KeQueryActiveProcessorCountEx, KeQueryMaximumProcessorCountEx,
};
use wdk_sys::{_KDPC_IMPORTANCE, KDPC, PEX_TIMER, PROCESSOR_NUMBER, STATUS_INSUFFICIENT_RESOURCES};

/// ALL_PROCESSOR_GROUPS (wdm.h).
const ALL_GROUPS: u16 = 0xFFFF;

/// The table of the device whose hardware is ready; null if there is none.
pub(crate) static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());

/// The data of one processor.
#[repr(C)]
pub(crate) struct PerCpu {
    index: u32,
    number: PROCESSOR_NUMBER,
    /// The processor is running a program. For the timer and for debuggers; the authoritative value
    /// is in the state.
    running: Running,
    /// Touched only on this processor with interrupts masked.
    state: Pool<ProcessorState>,
    /// Touched only on this processor with interrupts masked.
    cpu: UnsafeCell<Cpu>,
    /// Changed only while nothing runs on this processor.
    ring: UnsafeCell<Option<Pool<Word>>>,
    work: Dpc,
    /// A tick that ends a slice.
    slice: Dpc,
    /// A tick that only reads counters.
    poll: Dpc,
}

/// All processors.
#[repr(C)]
pub(crate) struct Table {
    /// The number of blocks in use. Later entries are null, and so is the entry of a processor for
    /// which there was no memory.
    count: AtomicU32,
    blocks: Pool<AtomicPtr<PerCpu>>,
    /// Written only while nothing runs.
    program: Pool<Program>,
    /// The program of a processor that is running nothing.
    idle: Zeroed<Program>,
    apic: Option<ApicPage>,
}

// SAFETY: fields that are not atomic are touched only as their comments say.
unsafe impl Send for PerCpu {}
// SAFETY: as above.
unsafe impl Sync for PerCpu {}

impl PerCpu {
    /// A block for a processor that has not been examined yet. PASSIVE_LEVEL.
    fn new(index: usize, apic: Option<ApicPage>) -> Result<Pool<Self>, Failed> {
        let none = Failed(STATUS_INSUFFICIENT_RESOURCES);
        let mut number = PROCESSOR_NUMBER::default();
        // A group has at most 64 processors, so a DPC is targeted by group and number.
        // SAFETY: the number is written.
        check(unsafe { KeGetProcessorNumberFromIndex(index as u32, &raw mut number) })?;
        // In pool, not in the block: its size would pass over the stack.
        let state = Pool::zeroed(1).ok_or(none)?;
        // One for each purpose: a DPC that is queued already is not queued again, and a request
        // must not wait for a tick.
        let work = Dpc::for_cross_calls(number)?;
        // By high importance a processor begins at once, and an idle one is woken; by medium
        // importance it should begin when it next handles DPCs (WDK, "Organization of DPC Queues").
        // Windows Internals, 7th edition, part 2, table 8-7, says that an idle one is woken then too.
        // One of high importance goes to the front of the queue, and so overtakes a poll that was
        // queued before it (WDK, "KeSetImportanceDpc"): nothing may rely on their order.
        // SAFETY: `tick` checks whether there is anything to do.
        let slice = unsafe { Dpc::new(number, Some(tick), _KDPC_IMPORTANCE::HighImportance) }?;
        // SAFETY: as above.
        let poll = unsafe { Dpc::new(number, Some(tick), _KDPC_IMPORTANCE::MediumImportance) }?;
        Pool::one(|| Self {
            index: index as u32,
            number,
            running: Running::default(),
            state,
            cpu: UnsafeCell::new(Cpu::new(apic)),
            ring: UnsafeCell::new(None),
            work,
            slice,
            poll,
        })
        .ok_or(none)
    }

    /// Its processor's index over all groups.
    pub(crate) const fn index(&self) -> usize {
        self.index as usize
    }

    /// Its processor's group, and its number within the group.
    pub(crate) fn number(&self) -> (u16, u16) {
        (self.number.Group, self.number.Number.into())
    }

    /// The DPC for calls from other processors.
    pub(crate) const fn work(&self) -> &Dpc {
        &self.work
    }

    /// The ring; empty if none is attached.
    pub(crate) fn ring(&self) -> &[Word] {
        // SAFETY: it changes only under the device's lock while nothing runs on this processor; a
        // reader holds that lock or runs on this processor.
        let ring = unsafe { &*self.ring.get() };
        ring.as_deref().unwrap_or_default()
    }

    /// Replaces the ring.
    ///
    /// # Safety
    /// Nothing runs on this processor, and no reference to its ring exists; the device's lock is
    /// held.
    pub(crate) unsafe fn set_ring(&self, ring: Option<Pool<Word>>) {
        // SAFETY: the caller's promise.
        drop(unsafe { self.ring.get().replace(ring) });
    }

    /// Runs `work` with interrupts masked, if this block belongs to the current processor. At least
    /// DISPATCH_LEVEL.
    pub(crate) fn enter<R>(
        &self,
        current: &mut CurrentCpu,
        program: &Program,
        ring: &[Word],
        work: impl FnOnce(&mut Local<'_, Cpu>) -> R,
    ) -> Option<R> {
        // A DPC whose target went away may run elsewhere; another processor's state is not touched
        // even then.
        if current.index() != self.index() {
            return None;
        }
        // A DPC at DISPATCH_LEVEL can be interrupted by the overflow of a counter that it is changing.
        Some(masked(|| {
            // SAFETY: only this processor makes a reference to its state, and only here; nothing
            // can intervene while interrupts are masked.
            let state = unsafe { &mut *self.state.place().as_ptr() };
            // SAFETY: as above.
            let machine = unsafe { &mut *self.cpu.get() };
            let mut local = Local { index: self.index(), machine, state, ring, program };
            let result = work(&mut local);
            // Still masked: an interrupt that comes afterwards finds the flag and the state alike.
            // mistake: a-run-is-never-over
            self.running.note(local.state.is_running());
            result
        }))
    }

    /// Runs `work` for a timer tick or an overflow interrupt on this processor. At least
    /// DISPATCH_LEVEL.
    fn enter_unasked<R>(
        &self,
        current: &mut CurrentCpu,
        table: &Table,
        work: impl FnOnce(&mut Local<'_, Cpu>) -> R,
    ) -> Option<R> {
        // Only work on this processor can end the run, so it cannot end before this returns.
        // While nothing runs, the program may be written and the ring freed at any moment.
        // mistake: whether-it-runs-is-not-asked
        let shared = self.running.then(|| (table.program(), self.ring()));
        let (program, ring) = shared.unwrap_or_else(|| (&table.idle, &[]));
        self.enter(current, program, ring, work)
    }
}

impl Table {
    /// A table without blocks, with room for every processor that may ever be added. At most
    /// DISPATCH_LEVEL.
    pub(crate) fn new(apic: Option<ApicPage>) -> Option<Pool<Self>> {
        // All that may ever be added: the table is read without a lock, so it never moves.
        // SAFETY: no requirement.
        let most = unsafe { KeQueryMaximumProcessorCountEx(ALL_GROUPS) } as usize;
        let blocks = Pool::zeroed(most.min(MAX_PROCESSORS))?;
        let program = Pool::zeroed(1)?;
        let idle = Zeroed::new()?;
        Pool::one(|| Self { count: AtomicU32::new(0), blocks, program, idle, apic })
    }

    /// The number of processors.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize
    }

    /// A processor's block, if it has one. Any IRQL.
    pub(crate) fn per_cpu(&self, index: usize) -> Option<&PerCpu> {
        let per_cpu = self.blocks.get(index)?.load(Ordering::Acquire);
        // SAFETY: a block is not moved or freed until the table is dropped.
        unsafe { per_cpu.as_ref() }
    }

    /// All blocks. Any IRQL.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PerCpu> {
        (0..self.count()).filter_map(|index| self.per_cpu(index))
    }

    /// The blocks of these processors. Any IRQL.
    pub(crate) fn of(&self, processors: &ProcessorSet) -> impl Iterator<Item = &PerCpu> {
        self.all().filter(|per_cpu| processors.contains(per_cpu.index()))
    }

    /// The DPCs for calls to these processors. Any IRQL.
    pub(crate) fn dpcs(&self, processors: &ProcessorSet) -> impl Iterator<Item = &Dpc> {
        self.of(processors).map(PerCpu::work)
    }

    /// Runs `work` with interrupts masked on the current processor, if it has a block. At least
    /// DISPATCH_LEVEL; a request waits for it.
    pub(crate) fn enter<R>(
        &self,
        current: &mut CurrentCpu,
        work: impl FnOnce(&mut Local<'_, Cpu>) -> R,
    ) -> Option<R> {
        let per_cpu = self.per_cpu(current.index())?;
        per_cpu.enter(current, self.program(), per_cpu.ring(), work)
    }

    /// Makes the blocks of all currently active processors. PASSIVE_LEVEL.
    pub(crate) fn add_active(&self) -> Result<(), Failed> {
        // SAFETY: no requirement.
        let active = unsafe { KeQueryActiveProcessorCountEx(ALL_GROUPS) } as usize;
        (0..active.min(self.blocks.len())).try_for_each(|index| self.add(index))
    }

    /// Makes the block of a processor, unless it has one; processors may be added in any order.
    /// PASSIVE_LEVEL, under the device's lock.
    pub(crate) fn add(&self, index: usize) -> Result<(), Failed> {
        let Some(slot) = self.blocks.get(index) else {
            return Ok(());
        };
        if !slot.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        // Counted even without memory for a block: the indices of later ones are theirs.
        let per_cpu = PerCpu::new(index, self.apic);
        self.count.fetch_max(index as u32 + 1, Ordering::AcqRel);
        // Release: whoever sees the pointer sees what is behind it.
        slot.store(per_cpu?.leak().as_ptr(), Ordering::Release);
        Ok(())
    }

    /// The program that processors run.
    pub(crate) fn program(&self) -> &Program {
        // SAFETY: it is written only while nothing runs, under the device's lock.
        unsafe { self.program.place().as_ref() }
    }

    /// Queues one of the DPCs of every processor that is running a program. Any IRQL.
    fn tick(&self, dpc: impl Fn(&PerCpu) -> &Dpc) {
        // A hint: a processor that has just stopped finds nothing to do, and one that has just
        // started is read by the next tick, long before a counter wraps.
        for per_cpu in self.all() {
            if per_cpu.running.is_set() {
                // SAFETY: the host flushes DPCs before the table is freed.
                let _ = unsafe { dpc(per_cpu).queue(null_mut()) };
            }
        }
    }

    /// Replaces the program that processors run.
    ///
    /// # Safety
    /// No processor is running anything, and no reference from [`Self::program`] exists; the
    /// device's lock is held.
    pub(crate) unsafe fn load(&self, program: &Program) {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.program.place().as_ptr() }.copy_from(program);
    }
}

impl Drop for Table {
    /// PASSIVE_LEVEL; nothing uses the table any more, and no DPC is queued.
    fn drop(&mut self) {
        for slot in &*self.blocks {
            if let Some(per_cpu) = NonNull::new(slot.load(Ordering::Acquire)) {
                // SAFETY: leaked by `Table::add`, and no longer used elsewhere.
                drop(unsafe { Pool::reclaim(per_cpu) });
            }
        }
    }
}

/// The table of the device whose hardware is ready. Any IRQL.
///
/// # Safety
/// The caller is a timer's callback, a DPC or an overflow interrupt of that hardware: these have
/// ended before the table is freed.
unsafe fn published() -> Option<&'static Table> {
    // SAFETY: the caller's promise.
    unsafe { TABLE.load(Ordering::Acquire).as_ref() }
}

/// KDEFERRED_ROUTINE of a block's `slice` and `poll`. DISPATCH_LEVEL, on the block's processor.
unsafe extern "C" fn tick(
    _dpc: *mut KDPC,
    _context: *mut c_void,
    _first: *mut c_void,
    _second: *mut c_void,
) {
    // SAFETY: a DPC runs at DISPATCH_LEVEL to its end.
    let mut current = unsafe { CurrentCpu::now() };
    // SAFETY: a DPC of the published table.
    if let Some(table) = unsafe { published() }
        && let Some(per_cpu) = table.per_cpu(current.index())
    {
        let ticked = per_cpu.enter_unasked(&mut current, table, |local| {
            // mistake: settled-in-the-same-visit
            let waits = local.tick();
            // Those of a run, whose ring stays until this DPC has ended.
            (waits, local.take_deferred())
        });
        // Two visits: interrupts are masked in each, and a pending one must come in between. Without
        // that, its overflow would be counted as missed though its interrupt was on the way.
        let Some((waits, notes)) = ticked else { return };
        if waits {
            // Interrupts were enabled in between, so a pending one has been handled.
            let _ = per_cpu.enter_unasked(&mut current, table, |local| local.settle());
        }
        notes.events(per_cpu.index()).for_each(|event| SYSTEM_EVENTS.put(&event));
    }
}

/// EXT_CALLBACK of the timer that ends slices: queues a tick that begins at once. DISPATCH_LEVEL.
pub(crate) unsafe extern "C" fn slice_ended(_timer: PEX_TIMER, _context: *mut c_void) {
    // SAFETY: a timer of the published table.
    if let Some(table) = unsafe { published() } {
        table.tick(|per_cpu| &per_cpu.slice);
    }
}

/// EXT_CALLBACK of the timer that only has counters read: queues a tick that should wake no idle
/// processor, whose counters stand still. DISPATCH_LEVEL.
pub(crate) unsafe extern "C" fn poll_due(_timer: PEX_TIMER, _context: *mut c_void) {
    // SAFETY: a timer of the published table.
    if let Some(table) = unsafe { published() } {
        table.tick(|per_cpu| &per_cpu.poll);
    }
}

/// Runs `work` for an overflow interrupt on the current processor. A processor without a block has
/// nothing to do, but its LVTPC must not stay masked. PROFILE_LEVEL.
///
/// # Safety
/// The caller is an overflow interrupt.
pub(crate) unsafe fn overflowed(work: impl FnOnce(&mut Local<'_, Cpu>)) {
    // SAFETY: the IRQL stays at PROFILE_LEVEL until the interrupt ends.
    let mut current = unsafe { CurrentCpu::now() };
    // SAFETY: giving the counters back waits until the interrupt has ended.
    let table = unsafe { published() };
    if let Some(table) = table
        && let Some(per_cpu) = table.per_cpu(current.index())
    {
        let _ = per_cpu.enter_unasked(&mut current, table, work);
    } else {
        let page = table.and_then(|table| table.apic);
        // Delivery has masked it (SDM vol. 3, "Local Vector Table"), and another owner's overflows
        // would be lost here.
        masked(|| apic::unmask(&mut Cpu::new(page)));
    }
}
