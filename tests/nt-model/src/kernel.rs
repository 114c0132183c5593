//! ntoskrnl and the HAL: the functions that the driver imports.
//!
//! Each row has the highest IRQL that the function's page in the Windows driver documentation
//! allows (learn.microsoft.com/windows-hardware/drivers/ddi). What no page specifies, the seed
//! chooses, or a note at that place says.

#![expect(clippy::unnecessary_wraps, reason = "every row of a table has the same signature")]

mod dpc;
mod hal;
mod runtime;
mod timer;

use crate::machine::{APC, DISPATCH, Function, Machine, Outcome, PASSIVE, PROFILE, Wait};
use crate::memory::{EXPORTS, IMAGE};
use crate::rules::{Rule, Violation};
use dpc::Dpc;
use hal_profile::run::overflow::Interrupted;
use shared_types::Mode;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use timer::Timer;

pub use dpc::dpc_begins;
pub use timer::{expire_due_timers, expire_timers};

const SUCCESS: u64 = 0;
const INSUFFICIENT_RESOURCES: u64 = 0xC000_009A;
const INVALID_PARAMETER: u64 = 0xC000_000D;

/// POOL_FLAG_NON_PAGED and POOL_FLAG_UNINITIALIZED (wdm.h).
const POOL_NON_PAGED: u64 = 0x40;
const POOL_UNINITIALIZED: u64 = 0x2;

/// The state of the kernel and the HAL.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, which calls set in any order"
)]
pub struct Kernel {
    dpcs: HashMap<u64, Dpc>,
    timers: BTreeMap<u64, Timer>,
    /// The driver's entry.
    pub entry: u64,
    /// Callback and context registered for added processors.
    pub processor_change: Option<(u64, u64)>,
    pub interrupt_handler: Option<u64>,
    /// The handler is not removed: no document says that Windows never refuses.
    pub keeps_handler: bool,
    /// References to the driver object: while there are any, the image stays in memory.
    pub driver_references: u64,
    /// The handle of the counters, while the driver owns them.
    pub counters: Option<u64>,
    /// Someone else owns the counters.
    pub counters_taken: bool,
    /// The counters that are read at each context switch, by index: the configuration of thread
    /// profiling.
    pub by_thread: Vec<u64>,
    /// Another driver has such a list.
    pub by_thread_of_another: bool,
    /// Threads that profile themselves.
    pub profiling: usize,
    /// The list could not be removed because a thread was profiling itself.
    kept_by_thread: bool,
    /// How many processors were added.
    pub added: usize,
    /// Mapped pages of the local APIC.
    pub mappings: u32,
    /// Spin locks that are held: by which activity, on which processor.
    spin_locks: HashMap<u64, (usize, usize)>,
    /// The processes that lack SeDebugPrivilege.
    pub unprivileged: BTreeSet<u32>,
    /// The call that may fail at which this reaches 0 fails; each such call counts it down.
    pub fail_after: Option<u64>,
    /// The reading of the performance counter at which this reaches 0 takes 1 ms; each reading
    /// counts it down.
    pub slow_after: Option<u64>,
    /// The function that is being called.
    pub calling: &'static str,
    /// The functions that were made to fail.
    pub failed: Vec<&'static str>,
    next_handle: u64,
}

impl Kernel {
    /// The address of exported data.
    pub fn exported_data(&self, name: &str) -> Option<u64> {
        (name == "HalDispatchTable").then_some(EXPORTS)
    }

    /// The period of the timer that is set, in units of 100 ns.
    pub fn timer_period(&self) -> Option<u64> {
        self.timers.values().find_map(|timer| timer.period)
    }

    /// Whether the timer that is set is of high resolution.
    pub fn timer_is_precise(&self) -> Option<bool> {
        let set = |timer: &&Timer| timer.period.is_some();
        self.timers.values().find(set).map(|timer| timer.precise)
    }

    /// What is still alive although the driver is unloaded. An image that stays may have a handler
    /// that was not removed, and the counters with it; counters that Windows still reads for a
    /// thread stay reserved.
    pub fn alive(&self) -> Vec<&'static str> {
        let stays = self.keeps_handler && self.driver_references != 0;
        let kept = stays || self.kept_by_thread;
        let listed = !self.by_thread.is_empty() && !self.kept_by_thread;
        let rows = [
            (self.dpcs.values().any(|dpc| dpc.queued), "a queued DPC"),
            (!self.timers.is_empty(), "a timer"),
            (self.processor_change.is_some(), "the registration for added processors"),
            (self.interrupt_handler.is_some() && !stays, "the overflow interrupt's handler"),
            (self.counters.is_some() && !kept, "the counters"),
            (listed, "the configuration of thread profiling"),
            (self.mappings > 0, "a mapping of the local APIC"),
        ];
        rows.into_iter().filter_map(|(is_alive, what)| is_alive.then_some(what)).collect()
    }

    pub fn holds_a_spin_lock(&self, activity: usize) -> bool {
        self.spin_locks.values().any(|&(_, holder)| holder == activity)
    }

    /// Whether this call, which may fail, does.
    pub fn fails(&mut self) -> bool {
        match &mut self.fail_after {
            Some(0) => {
                self.fail_after = None;
                self.failed.push(self.calling);
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

/// Writes what the kernel exports as data: HAL_DISPATCH's version, and the member that the driver
/// uses.
pub fn boot(machine: &mut Machine) {
    machine.engine.write_u32(EXPORTS, 4);
    let stub = machine.stub(Some(&SET_SYSTEM_INFORMATION), "HalSetSystemInformation");
    machine.engine.write_u64(EXPORTS + 0x10, stub);
}

/// The offset of KTRAP_FRAME's Rip and SegCs (ntddk.h, x64), and its size.
const RIP: u64 = 0x168;
const CS: u64 = 0x170;
const TRAP_FRAME: u64 = 0x190;
/// KGDT64_R0_CODE and KGDT64_R3_CODE with RPL 3.
const KERNEL_CODE: u64 = 0x10;
const USER_CODE: u64 = 0x33;

/// Saves what an interrupt saves of the interrupted code.
pub fn trap_frame(machine: &mut Machine, interrupted: &Interrupted) -> Result<u64, Violation> {
    let engine = &mut machine.engine;
    let frame = engine.allocate(TRAP_FRAME, 0)?;
    engine.write_u64(frame + RIP, interrupted.ip);
    let user = interrupted.mode == Mode::User;
    engine.write_u64(frame + CS, if user { USER_CODE } else { KERNEL_CODE });
    Ok(frame)
}

macro_rules! functions {
    ($($name:literal $irql:ident $run:expr;)*) => {
        static FUNCTIONS: &[Function] = &[$(Function { name: $name, irql: $irql, run: $run },)*];
    };
}

functions! {
    "ExAllocatePool2" DISPATCH allocate_pool;
    "ExFreePoolWithTag" DISPATCH free_pool;
    "ExFreePool" DISPATCH |m| free(m, m.engine.argument(0), TAG_OF_WDK_ALLOC);
    "KeInitializeEvent" DISPATCH |m| { let at = m.engine.argument(0); touch(m, at, 0x18)?; m.engine.write_u32(at + 4, 0); done() };
    "KeClearEvent" DISPATCH |m| { let at = m.engine.argument(0); touch(m, at, 0x18)?; m.engine.write_u32(at + 4, 0); done() };
    "KeSetEvent" DISPATCH set_event;
    "KeWaitForSingleObject" APC wait_for_event;
    "KeDelayExecutionThread" APC delay;
    "KeInitializeDpc" PROFILE dpc::initialize_dpc;
    "KeSetTargetProcessorDpcEx" PROFILE dpc::target_dpc;
    "KeSetImportanceDpc" PROFILE dpc::importance_of_dpc;
    "KeInsertQueueDpc" PROFILE dpc::insert_dpc;
    "KeFlushQueuedDpcs" PASSIVE dpc::flush_dpcs;
    "KeQueryActiveProcessorCountEx" PROFILE |m| Ok(Outcome::Return(m.processors() as u64));
    "KeQueryMaximumProcessorCountEx" PROFILE |m| Ok(Outcome::Return(m.processors() as u64 + SPARE_PROCESSORS));
    "KeGetProcessorNumberFromIndex" PROFILE processor_number;
    "KeGetCurrentProcessorNumberEx" PROFILE current_processor;
    "KeRegisterProcessorChangeCallback" PASSIVE register_change;
    "KeDeregisterProcessorChangeCallback" PASSIVE deregister_change;
    "KeSetHardwareCounterConfiguration" APC hal::set_hardware_counters;
    "KeAcquireSpinLockRaiseToDpc" DISPATCH acquire_spin_lock;
    "KeReleaseSpinLock" DISPATCH release_spin_lock;
    "KeQueryPerformanceCounter" PROFILE hal::performance_counter;
    "KeEnterCriticalRegion" APC |m| { m.enter_critical_region(); done() };
    "KeLeaveCriticalRegion" APC |m| { m.leave_critical_region()?; done() };
    "ExQueryTimerResolution" APC timer::timer_resolution;
    "ExAllocateTimer" DISPATCH timer::allocate_timer;
    "ExSetTimer" DISPATCH timer::set_timer;
    "ExCancelTimer" DISPATCH timer::cancel_timer;
    "ExDeleteTimer" DISPATCH timer::delete_timer;
    "MmMapIoSpaceEx" DISPATCH hal::map_io;
    "MmUnmapIoSpace" DISPATCH hal::unmap_io;
    "PsGetCurrentProcessId" PROFILE |m| Ok(Outcome::Return(m.who().0.into()));
    "PsGetCurrentThreadId" PROFILE |m| Ok(Outcome::Return(m.who().1.into()));
    "IoGetRequestorProcessId" DISPATCH |m| { let irp = m.engine.argument(0); Ok(Outcome::Return(m.framework.process_of_irp(irp)?.into())) };
    "SeSinglePrivilegeCheck" PASSIVE privilege;
    "ObfReferenceObject" DISPATCH |m| reference(m, 1);
    "ObfDereferenceObject" DISPATCH |m| reference(m, -1);
    "HalAllocateHardwareCounters" PASSIVE hal::allocate_counters;
    "HalFreeHardwareCounters" PASSIVE hal::free_counters;
    "DbgPrintEx" PROFILE |_| done();
    "KeBugCheckEx" PROFILE |m| Err(Violation::new(Rule::BugCheck, format!("KeBugCheckEx({:#x}, ...)", m.engine.argument(0))));
    "RtlCopyUnicodeString" APC runtime::copy_unicode;
    "memcpy" PROFILE runtime::copy;
    "memmove" PROFILE runtime::copy;
    "memset" PROFILE runtime::fill;
    "memcmp" PROFILE runtime::compare;
    "__chkstk" PROFILE runtime::check_stack;
}

static SET_SYSTEM_INFORMATION: Function =
    Function { name: "HalSetSystemInformation", irql: PASSIVE, run: hal::set_system_information };

/// Room for processors that are added later.
const SPARE_PROCESSORS: u64 = 4;
const TAG_OF_WDK_ALLOC: u32 = u32::from_le_bytes(*b"rust");

/// The function with this name, if it is modelled.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

fn done() -> Result<Outcome, Violation> {
    Ok(Outcome::Return(SUCCESS))
}

fn broken(rule: Rule, what: impl Into<String>) -> Result<Outcome, Violation> {
    Err(Violation::new(rule, what))
}

/// The kernel accesses an object of the driver.
fn touch(machine: &mut Machine, at: u64, size: u64) -> Result<(), Violation> {
    if machine.engine.bus().arena.allows(at, size) {
        Ok(())
    } else {
        Err(Violation::new(
            Rule::Memory,
            format!("the kernel is given {size} bytes at {at:#x}, which are not the driver's"),
        ))
    }
}

fn allocate_pool(m: &mut Machine) -> Result<Outcome, Violation> {
    let (flags, size, tag) = (m.engine.argument(0), m.engine.argument(1), m.engine.argument(2));
    // Interrupts and DPCs use the driver's memory: paged pool would fault there.
    if flags & POOL_NON_PAGED == 0 || flags & !(POOL_NON_PAGED | POOL_UNINITIALIZED) != 0 {
        return broken(Rule::Memory, format!("pool with flags {flags:#x}"));
    }
    if tag as u32 == 0 || size == 0 {
        return broken(Rule::Memory, "pool without a tag or without a size");
    }
    if m.kernel.fails() {
        return Ok(Outcome::Return(0));
    }
    let at = m.engine.allocate(size, tag as u32).unwrap_or(0);
    Ok(Outcome::Return(at))
}

/// ObfReferenceObject and ObfDereferenceObject, for the driver object.
fn reference(m: &mut Machine, change: i64) -> Result<Outcome, Violation> {
    let object = m.engine.argument(0);
    if object != m.framework.driver_object {
        let what = format!("a reference to {object:#x}, which is not the driver object");
        return broken(Rule::Object, what);
    }
    let Some(references) = m.kernel.driver_references.checked_add_signed(change) else {
        return broken(Rule::Object, "a reference is released that was not taken");
    };
    m.kernel.driver_references = references;
    Ok(Outcome::Return(references))
}

/// SeSinglePrivilegeCheck, for SeDebugPrivilege (20, wdm.h) and a caller in user mode: every client
/// of the model holds it, unless a test takes it away.
fn privilege(m: &mut Machine) -> Result<Outcome, Violation> {
    const SE_DEBUG_PRIVILEGE: u64 = 20;
    const USER_MODE: u8 = 1;
    let (privilege, mode) = (m.engine.argument(0), m.engine.argument(1) as u8);
    if (privilege, mode) != (SE_DEBUG_PRIVILEGE, USER_MODE) {
        let what = format!("SeSinglePrivilegeCheck of {privilege} for mode {mode}");
        return broken(Rule::Unmodelled, what);
    }
    let process = m.who().0;
    Ok(Outcome::Return(u64::from(!m.kernel.unprivileged.contains(&process))))
}

fn free_pool(m: &mut Machine) -> Result<Outcome, Violation> {
    free(m, m.engine.argument(0), m.engine.argument(1) as u32)
}

fn free(m: &mut Machine, at: u64, tag: u32) -> Result<Outcome, Violation> {
    let size = m.engine.bus().arena.size_of(at);
    let within = |dpc: &u64| (at..at + size).contains(dpc);
    // A queued KDPC is a link of its processor's queue, which would then lead into freed memory.
    let mut dpcs = m.kernel.dpcs.iter();
    if let Some((dpc, _)) = dpcs.find(|(dpc, state)| state.queued && within(dpc)) {
        return broken(Rule::Alive, format!("the DPC {dpc:#x} is queued, and its memory is freed"));
    }
    m.kernel.dpcs.retain(|dpc, _| !within(dpc));
    m.engine.bus().arena.free(at, tag)?;
    done()
}

/// A KSPIN_LOCK is in pool, or in the image's data.
fn touch_spin_lock(m: &mut Machine) -> Result<u64, Violation> {
    const IMAGES: u64 = 0x100_0000;
    let at = m.engine.argument(0);
    if !(IMAGE..IMAGE + IMAGES).contains(&at) {
        touch(m, at, 8)?;
    }
    Ok(at)
}

fn acquire_spin_lock(m: &mut Machine) -> Result<Outcome, Violation> {
    let at = touch_spin_lock(m)?;
    let (processor, caller) = (m.current(), m.caller_number());
    match m.kernel.spin_locks.get(&at) {
        Some(&(holder, _)) if holder == processor => {
            broken(Rule::Lock, "a spin lock is taken twice on one processor")
        }
        Some(_) => {
            // The caller tries again in its next slice, and others run meanwhile.
            m.contended += 1;
            Ok(Outcome::Spin)
        }
        None => {
            m.kernel.spin_locks.insert(at, (processor, caller));
            Ok(Outcome::Return(m.set_irql(DISPATCH).into()))
        }
    }
}

fn release_spin_lock(m: &mut Machine) -> Result<Outcome, Violation> {
    let at = touch_spin_lock(m)?;
    let irql = m.engine.argument(1) as u8;
    let caller = m.caller_number();
    let held = m.kernel.spin_locks.remove(&at);
    if held.is_none_or(|(_, holder)| holder != caller) || irql > DISPATCH {
        return broken(Rule::Lock, "a spin lock is released that is not held");
    }
    m.set_irql(irql);
    done()
}

fn set_event(m: &mut Machine) -> Result<Outcome, Violation> {
    let at = m.engine.argument(0);
    touch(m, at, 0x18)?;
    // SignalState, in the KEVENT's DISPATCHER_HEADER.
    let before = m.engine.read_u32(at + 4);
    m.engine.write_u32(at + 4, 1);
    m.wake(|wait| *wait == Wait::Event(at));
    Ok(Outcome::Return(before.into()))
}

fn wait_for_event(m: &mut Machine) -> Result<Outcome, Violation> {
    let at = m.engine.argument(0);
    touch(m, at, 0x18)?;
    // A notification event: it stays signalled until KeClearEvent.
    if m.engine.read_u32(at + 4) != 0 {
        return done();
    }
    Ok(Outcome::Wait(Wait::Event(at)))
}

fn delay(m: &mut Machine) -> Result<Outcome, Violation> {
    let interval = m.engine.argument(2);
    touch(m, interval, 8)?;
    let interval = m.engine.read_u64(interval).cast_signed();
    if interval > 0 {
        return broken(Rule::Unmodelled, "a delay until an absolute time");
    }
    // Negative times are relative, in units of 100 ns.
    let until = m.now() + interval.unsigned_abs() * 100;
    Ok(Outcome::Wait(Wait::Time(until)))
}

fn processor_number(m: &mut Machine) -> Result<Outcome, Violation> {
    let (index, out) = (m.engine.argument(0), m.engine.argument(1));
    touch(m, out, 4)?;
    if index >= m.processors() as u64 || m.kernel.fails() {
        return Ok(Outcome::Return(INVALID_PARAMETER));
    }
    m.engine.write_u32(out, number_of(index));
    done()
}

/// PROCESSOR_NUMBER: the group, and the number within it.
pub fn number_of(index: u64) -> u32 {
    (index / 64) as u32 | ((index % 64) as u32) << 16
}

fn current_processor(m: &mut Machine) -> Result<Outcome, Violation> {
    let out = m.engine.argument(0);
    let index = m.current() as u64;
    if out != 0 {
        touch(m, out, 4)?;
        m.engine.write_u32(out, number_of(index));
    }
    Ok(Outcome::Return(index))
}

fn register_change(m: &mut Machine) -> Result<Outcome, Violation> {
    if m.kernel.fails() {
        return Ok(Outcome::Return(0));
    }
    let registration = (m.engine.argument(0), m.engine.argument(1));
    m.kernel.processor_change = Some(registration);
    Ok(Outcome::Return(CHANGE_HANDLE))
}

/// What KeRegisterProcessorChangeCallback returns.
const CHANGE_HANDLE: u64 = 0xFFFF_F800_0BAD_0001;

/// The name of a thread that calls the driver for an added processor.
pub const PROCESSOR_CALLBACK: &str = "the processor callback";

/// It returns when no callback runs any more, so that its context may be freed.
fn deregister_change(m: &mut Machine) -> Result<Outcome, Violation> {
    if m.engine.argument(0) != CHANGE_HANDLE || m.kernel.processor_change.is_none() {
        return broken(Rule::Object, "a registration is ended that is not there");
    }
    if m.is_calling(PROCESSOR_CALLBACK) {
        return Ok(Outcome::Again(Wait::ProcessorCallback));
    }
    m.kernel.processor_change = None;
    done()
}
