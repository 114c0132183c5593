//! ntoskrnl and the HAL: the functions that the driver imports.
//!
//! Each row has the highest IRQL that the function's page in the Windows driver documentation
//! allows (learn.microsoft.com/windows-hardware/drivers/ddi). What no page specifies, the seed
//! chooses, or a note at that place says.

#![expect(
    clippy::unnecessary_wraps,
    reason = "every row of a table has the same signature"
)]

use crate::engine::Engine;
use crate::kmdf;
use crate::machine::{
    APC, DISPATCH, Function, Machine, Outcome, PASSIVE, PROFILE, QueuedDpc, Wait,
};
use crate::memory::{APIC, ARENA, ARENA_SIZE, EXPORTS, IMAGE, PAGE};
use crate::notify::{self, Notify};
use crate::registers::{FIXED, WHOLE_UNIT};
use crate::rules::{Rule, Violation};
use anyhow::Result;
use hal_profile::overflow::Interrupted;
use shared_types::Mode;
use std::collections::{BTreeMap, HashMap};

const SUCCESS: u64 = 0;
const INSUFFICIENT_RESOURCES: u64 = 0xC000_009A;
const INVALID_PARAMETER: u64 = 0xC000_000D;
const UNSUCCESSFUL: u64 = 0xC000_0001;
const WMI_ALREADY_ENABLED: u64 = 0xC000_0303;

/// POOL_FLAG_NON_PAGED and POOL_FLAG_UNINITIALIZED (wdm.h).
const POOL_NON_PAGED: u64 = 0x40;
const POOL_UNINITIALIZED: u64 = 0x2;
/// HighImportance of KDPC_IMPORTANCE.
const HIGH_IMPORTANCE: u64 = 2;
/// Ticks of the performance counter per second: what Windows 10 uses on x64.
const PERFORMANCE_FREQUENCY: u64 = 10_000_000;
const NANOSECONDS: u64 = 1_000_000_000;

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
    /// The handler of the overflow interrupt.
    pub interrupt_handler: Option<u64>,
    /// The handler is not removed: no document says that Windows never refuses.
    pub keeps_handler: bool,
    /// References to the driver object: while there are any, the image stays in memory.
    pub driver_references: u64,
    /// Who owns the counters: the handle of the set, and its overflow callback.
    pub counters: Option<(u64, Option<u64>)>,
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
    /// Processes and images, and the routines that are called for them.
    pub notify: Notify,
    /// Spin locks that are held: by which activity, on which processor.
    spin_locks: HashMap<u64, (usize, usize)>,
    /// What was printed.
    pub printed: Vec<String>,
    /// Clients lack SeDebugPrivilege.
    pub unprivileged: bool,
    /// The call that may fail at which this reaches 0 fails; each such call counts it down.
    pub fail_after: Option<u64>,
    /// Calls that may fail, so far.
    pub fallible: u64,
    /// The function that is being called.
    pub calling: &'static str,
    /// The functions that were made to fail.
    pub failed: Vec<&'static str>,
    next_handle: u64,
    /// HalSetSystemInformation's stub.
    set_system_information: u64,
}

#[derive(Clone, Copy)]
struct Dpc {
    routine: u64,
    context: u64,
    target: Option<usize>,
    importance: u64,
    queued: bool,
}

/// A timer of ExAllocateTimer.
#[derive(Clone, Copy)]
struct Timer {
    callback: u64,
    context: u64,
    /// Whether it is of high resolution.
    precise: bool,
    /// The period in units of 100 ns, if it is set.
    period: Option<u64>,
}

impl Kernel {
    /// Writes what the kernel exports as data.
    pub fn boot(&mut self, engine: &mut Engine) -> Result<()> {
        // HAL_DISPATCH: its version, and the two members that the driver may use.
        engine.write_u32(EXPORTS, 4);
        Ok(())
    }

    /// The address of exported data.
    #[must_use]
    pub fn exported_data(&self, name: &str) -> Option<u64> {
        (name == "HalDispatchTable").then_some(EXPORTS)
    }

    /// The period of the timer that is set, in units of 100 ns.
    #[must_use]
    pub fn timer_period(&self) -> Option<u64> {
        self.timers.values().find_map(|timer| timer.period)
    }

    /// Whether the timer that is set is of high resolution.
    #[must_use]
    pub fn timer_is_precise(&self) -> Option<bool> {
        let set = |timer: &&Timer| timer.period.is_some();
        self.timers.values().find(set).map(|timer| timer.precise)
    }

    /// What is still alive although the driver is unloaded. An image that stays may have a handler
    /// that was not removed, and the counters with it; counters that Windows still reads for a
    /// thread stay reserved.
    #[must_use]
    pub fn alive(&self) -> Vec<&'static str> {
        let stays = self.keeps_handler && self.driver_references != 0;
        let mut alive = Vec::new();
        let mut note = |is: bool, what| {
            if is {
                alive.push(what);
            }
        };
        note(self.dpcs.values().any(|dpc| dpc.queued), "a queued DPC");
        note(!self.timers.is_empty(), "a timer");
        note(
            self.processor_change.is_some(),
            "the registration for added processors",
        );
        note(
            self.interrupt_handler.is_some() && !stays,
            "the overflow interrupt's handler",
        );
        let kept = stays || self.kept_by_thread;
        note(self.counters.is_some() && !kept, "the counters");
        let listed = !self.by_thread.is_empty() && !self.kept_by_thread;
        note(listed, "the configuration of thread profiling");
        note(self.mappings > 0, "a mapping of the local APIC");
        alive.extend(self.notify.registered());
        alive
    }

    /// Whether an activity holds a spin lock.
    #[must_use]
    pub fn holds_a_spin_lock(&self, activity: usize) -> bool {
        self.spin_locks
            .values()
            .any(|&(_, holder)| holder == activity)
    }

    /// One more call that may fail; returns whether this one does.
    pub fn fails(&mut self) -> bool {
        self.fallible += 1;
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

/// Writes what depends on the machine's stubs.
pub fn boot(machine: &mut Machine) {
    let stub = machine.stub(Some(&SET_SYSTEM_INFORMATION), "HalSetSystemInformation");
    machine.kernel.set_system_information = stub;
    machine.engine.write_u64(EXPORTS + 0x10, stub);
}

/// A DPC leaves its queue: its object must still exist.
pub fn dpc_begins(machine: &mut Machine, queued: QueuedDpc) -> Result<(), Violation> {
    if !machine.engine.bus().arena.allows(queued.object, 0x40) {
        return Err(Violation::new(
            Rule::Memory,
            format!(
                "the DPC {:#x} runs after its memory was freed",
                queued.object
            ),
        ));
    }
    if let Some(dpc) = machine.kernel.dpcs.get_mut(&queued.object) {
        dpc.queued = false;
    }
    Ok(())
}

/// The timers that are set expire once, each on a processor that the seed chooses; one that is
/// still handling its last expiry is left alone.
pub fn expire_timers(machine: &mut Machine) {
    kmdf::expire_timers(machine);
    let timers = machine.kernel.timers.iter();
    let set = timers.filter(|(_, timer)| timer.period.is_some());
    let set: Vec<(u64, Timer)> = set.map(|(at, timer)| (*at, *timer)).collect();
    for (object, timer) in set {
        if machine.is_under_way(object) {
            continue;
        }
        let processor = machine.rng.usize(0..machine.processors());
        machine.queue_dpc(
            processor,
            QueuedDpc {
                object,
                routine: timer.callback,
                arguments: [timer.context, 0, 0],
                request: None,
            },
        );
    }
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
    let none = || Violation::new(Rule::Unmodelled, "the arena is full");
    let engine = &mut machine.engine;
    let frame = engine.allocate(TRAP_FRAME, 0).ok_or_else(none)?;
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
    "KeInitializeDpc" PROFILE initialize_dpc;
    "KeSetTargetProcessorDpcEx" PROFILE target_dpc;
    "KeSetImportanceDpc" PROFILE importance_of_dpc;
    "KeInsertQueueDpc" PROFILE insert_dpc;
    "KeFlushQueuedDpcs" PASSIVE flush_dpcs;
    "KeQueryActiveProcessorCountEx" PROFILE |m| Ok(Outcome::Return(m.processors() as u64));
    "KeQueryMaximumProcessorCountEx" PROFILE |m| Ok(Outcome::Return(m.processors() as u64 + SPARE_PROCESSORS));
    "KeGetProcessorNumberFromIndex" PROFILE processor_number;
    "KeGetCurrentProcessorNumberEx" PROFILE current_processor;
    "KeRegisterProcessorChangeCallback" PASSIVE register_change;
    "KeDeregisterProcessorChangeCallback" PASSIVE deregister_change;
    "KeSetHardwareCounterConfiguration" APC set_hardware_counters;
    "KeAcquireSpinLockRaiseToDpc" DISPATCH acquire_spin_lock;
    "KeReleaseSpinLock" DISPATCH release_spin_lock;
    "PsSetCreateProcessNotifyRoutine" PASSIVE notify::set_process_routine;
    "PsSetLoadImageNotifyRoutine" PASSIVE notify::set_image_routine;
    "PsRemoveLoadImageNotifyRoutine" PASSIVE notify::remove_image_routine;
    "KeQueryPerformanceCounter" PROFILE performance_counter;
    "KeEnterCriticalRegion" APC |m| { m.enter_critical_region(); done() };
    "KeLeaveCriticalRegion" APC |m| { m.leave_critical_region()?; done() };
    "ExQueryTimerResolution" APC timer_resolution;
    "ExAllocateTimer" DISPATCH allocate_timer;
    "ExSetTimer" DISPATCH set_timer;
    "ExCancelTimer" DISPATCH cancel_timer;
    "ExDeleteTimer" DISPATCH delete_timer;
    "MmMapIoSpaceEx" DISPATCH map_io;
    "MmUnmapIoSpace" DISPATCH unmap_io;
    "PsGetCurrentProcessId" PROFILE |m| Ok(Outcome::Return(m.who().0.into()));
    "PsGetCurrentThreadId" PROFILE |m| Ok(Outcome::Return(m.who().1.into()));
    "IoGetRequestorProcessId" DISPATCH |m| { let irp = m.engine.argument(0); Ok(Outcome::Return(m.framework.process_of_irp(irp)?.into())) };
    "SeSinglePrivilegeCheck" PASSIVE privilege;
    "ObfReferenceObject" DISPATCH reference;
    "HalAllocateHardwareCounters" PASSIVE allocate_counters;
    "HalFreeHardwareCounters" PASSIVE free_counters;
    "DbgPrintEx" PROFILE print;
    "KeBugCheckEx" PROFILE |m| Err(Violation::new(Rule::BugCheck, format!("KeBugCheckEx({:#x}, ...)", m.engine.argument(0))));
    "RtlCopyUnicodeString" APC copy_unicode;
    "memcpy" PROFILE copy;
    "memmove" PROFILE copy;
    "memset" PROFILE fill;
    "memcmp" PROFILE compare;
    "__chkstk" PROFILE check_stack;
}

static SET_SYSTEM_INFORMATION: Function = Function {
    name: "HalSetSystemInformation",
    irql: PASSIVE,
    run: set_system_information,
};

/// Room for processors that are added later.
const SPARE_PROCESSORS: u64 = 4;
const TAG_OF_WDK_ALLOC: u32 = u32::from_le_bytes(*b"rust");

/// The function with this name, if it is modelled.
#[must_use]
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
    let (flags, size, tag) = (
        m.engine.argument(0),
        m.engine.argument(1),
        m.engine.argument(2),
    );
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

/// ObfReferenceObject, for the driver object.
fn reference(m: &mut Machine) -> Result<Outcome, Violation> {
    let object = m.engine.argument(0);
    if object != m.framework.driver_object {
        let what = format!("a reference to {object:#x}, which is not the driver object");
        return broken(Rule::Object, what);
    }
    m.kernel.driver_references += 1;
    Ok(Outcome::Return(m.kernel.driver_references))
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
    Ok(Outcome::Return(u64::from(!m.kernel.unprivileged)))
}

fn free_pool(m: &mut Machine) -> Result<Outcome, Violation> {
    free(m, m.engine.argument(0), m.engine.argument(1) as u32)
}

fn free(m: &mut Machine, at: u64, tag: u32) -> Result<Outcome, Violation> {
    let size = m.engine.bus().arena.size_of(at);
    let within = |dpc: &u64| (at..at + size).contains(dpc);
    let mut dpcs = m.kernel.dpcs.iter();
    if let Some((dpc, _)) = dpcs.find(|(dpc, state)| state.queued && within(dpc)) {
        return broken(
            Rule::Alive,
            format!("the DPC {dpc:#x} is queued, and its memory is freed"),
        );
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
    let before = m.engine.read_u32(at + 4);
    m.engine.write_u32(at + 4, 1);
    m.wake(|wait| *wait == Wait::Event(at));
    Ok(Outcome::Return(before.into()))
}

fn wait_for_event(m: &mut Machine) -> Result<Outcome, Violation> {
    let at = m.engine.argument(0);
    touch(m, at, 0x18)?;
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
    let until = m.now() + interval.unsigned_abs() * 100;
    Ok(Outcome::Wait(Wait::Time(until)))
}

fn initialize_dpc(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, routine, context) = (
        m.engine.argument(0),
        m.engine.argument(1),
        m.engine.argument(2),
    );
    touch(m, at, 0x40)?;
    let dpc = Dpc {
        routine,
        context,
        target: None,
        importance: 1,
        queued: false,
    };
    m.kernel.dpcs.insert(at, dpc);
    done()
}

fn dpc(m: &mut Machine, at: u64) -> Result<&mut Dpc, Violation> {
    touch(m, at, 0x40)?;
    let what = format!("{at:#x} is no DPC");
    let found = m.kernel.dpcs.get_mut(&at);
    found.ok_or_else(|| Violation::new(Rule::Object, what))
}

fn target_dpc(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, number) = (m.engine.argument(0), m.engine.argument(1));
    let number = m.engine.read_u32(number);
    let (group, within) = (number & 0xFFFF, number >> 16 & 0xFF);
    let index = (group * 64 + within) as usize;
    if index >= m.processors() || m.kernel.fails() {
        return Ok(Outcome::Return(INVALID_PARAMETER));
    }
    let dpc = dpc(m, at)?;
    if dpc.queued {
        return broken(Rule::Object, "a queued DPC is given another target");
    }
    dpc.target = Some(index);
    done()
}

fn importance_of_dpc(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, importance) = (m.engine.argument(0), m.engine.argument(1));
    dpc(m, at)?.importance = importance;
    done()
}

fn insert_dpc(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, first, second) = (
        m.engine.argument(0),
        m.engine.argument(1),
        m.engine.argument(2),
    );
    let (current, request) = (m.current(), m.request_of_caller());
    let one = dpc(m, at)?;
    if one.queued {
        return Ok(Outcome::Return(0));
    }
    if one.importance != HIGH_IMPORTANCE {
        return broken(
            Rule::Object,
            "a DPC whose delay nobody bounds: not of high importance",
        );
    }
    one.queued = true;
    let queued = QueuedDpc {
        object: at,
        routine: one.routine,
        arguments: [one.context, first, second],
        request,
    };
    let target = one.target.unwrap_or(current);
    m.queue_dpc(target, queued);
    Ok(Outcome::Return(1))
}

/// Waits until every queued DPC has run.
fn flush_dpcs(m: &mut Machine) -> Result<Outcome, Violation> {
    if m.has_dpcs() {
        return Ok(Outcome::Again(Wait::Dpc));
    }
    done()
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
#[must_use]
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

fn performance_counter(m: &mut Machine) -> Result<Outcome, Violation> {
    let out = m.engine.argument(0);
    if out != 0 {
        touch(m, out, 8)?;
        m.engine.write_u64(out, PERFORMANCE_FREQUENCY);
    }
    Ok(Outcome::Return(
        m.now() / (NANOSECONDS / PERFORMANCE_FREQUENCY),
    ))
}

fn timer_resolution(m: &mut Machine) -> Result<Outcome, Violation> {
    for (argument, value) in [156_250, 1, 156_250].into_iter().enumerate() {
        let out = m.engine.argument(argument);
        touch(m, out, 4)?;
        m.engine.write_u32(out, value);
    }
    done()
}

fn allocate_timer(m: &mut Machine) -> Result<Outcome, Violation> {
    let (callback, context) = (m.engine.argument(0), m.engine.argument(1));
    let attributes = m.engine.argument(2) as u32;
    // ExAllocateTimer: "do not set both the EX_TIMER_HIGH_RESOLUTION and EX_TIMER_NO_WAKE flags".
    if attributes & !(EX_TIMER_HIGH_RESOLUTION | EX_TIMER_NO_WAKE) != 0
        || attributes == EX_TIMER_HIGH_RESOLUTION | EX_TIMER_NO_WAKE
    {
        let what = format!("ExAllocateTimer with attributes {attributes:#x}");
        return broken(Rule::BugCheck, what);
    }
    if m.kernel.fails() {
        return Ok(Outcome::Return(0));
    }
    let Some(at) = m.engine.allocate(0x40, 0) else {
        return Ok(Outcome::Return(0));
    };
    let timer = Timer {
        callback,
        context,
        precise: attributes & EX_TIMER_HIGH_RESOLUTION != 0,
        period: None,
    };
    m.kernel.timers.insert(at, timer);
    Ok(Outcome::Return(at))
}

/// EX_TIMER_HIGH_RESOLUTION and EX_TIMER_NO_WAKE (wdm.h).
const EX_TIMER_HIGH_RESOLUTION: u32 = 4;
const EX_TIMER_NO_WAKE: u32 = 8;

fn timer(m: &mut Machine) -> Result<&mut Timer, Violation> {
    let at = m.engine.argument(0);
    let found = m.kernel.timers.get_mut(&at);
    found.ok_or_else(|| Violation::new(Rule::Object, format!("{at:#x} is no timer")))
}

fn set_timer(m: &mut Machine) -> Result<Outcome, Violation> {
    let period = m.engine.argument(2);
    let timer = timer(m)?;
    let was_set = timer.period.replace(period).is_some();
    Ok(Outcome::Return(was_set.into()))
}

fn cancel_timer(m: &mut Machine) -> Result<Outcome, Violation> {
    let was_set = timer(m)?.period.take().is_some();
    Ok(Outcome::Return(was_set.into()))
}

fn delete_timer(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, cancel, wait) = (
        m.engine.argument(0),
        m.engine.argument(1),
        m.engine.argument(2),
    );
    if wait as u8 != 0 && m.irql() > APC {
        return broken(Rule::Wait, "ExDeleteTimer waits above APC_LEVEL");
    }
    let was_set = timer(m)?.period.is_some();
    if was_set && cancel as u8 == 0 {
        return broken(Rule::Alive, "a timer is deleted while it is set");
    }
    if m.is_under_way(at) {
        if wait as u8 == 0 {
            return broken(Rule::Alive, "a timer is deleted while its callback runs");
        }
        timer(m)?.period = None;
        return Ok(Outcome::Again(Wait::Dpc));
    }
    m.kernel.timers.remove(&at);
    m.engine.bus().arena.free(at, 0)?;
    Ok(Outcome::Return(was_set.into()))
}

fn map_io(m: &mut Machine) -> Result<Outcome, Violation> {
    let (physical, size) = (m.engine.argument(0), m.engine.argument(1));
    if physical != 0xFEE0_0000 || size != PAGE {
        return broken(
            Rule::Memory,
            format!("{size} bytes at {physical:#x} are mapped"),
        );
    }
    if m.kernel.fails() {
        return Ok(Outcome::Return(0));
    }
    m.kernel.mappings += 1;
    Ok(Outcome::Return(APIC))
}

fn unmap_io(m: &mut Machine) -> Result<Outcome, Violation> {
    if m.engine.argument(0) != APIC || m.kernel.mappings == 0 {
        return broken(Rule::Memory, "what is unmapped was not mapped");
    }
    m.kernel.mappings -= 1;
    done()
}

/// PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE (ntddk.h): one counter, a range of counters, a
/// callback for overflows.
const RESOURCE_SINGLE: u32 = 0;
const RESOURCE_RANGE: u32 = 1;
const RESOURCE_OVERFLOW: u32 = 3;

/// What a PHYSICAL_COUNTER_RESOURCE_LIST requests: counters, as a mask, and a callback. A null list
/// means the whole unit.
fn asked_for(m: &mut Machine, list: u64) -> (u64, Option<u64>) {
    if list == 0 {
        return (WHOLE_UNIT, None);
    }
    let (mut counters, mut callback) = (0, None);
    for index in 0..u64::from(m.engine.read_u32(list)) {
        let descriptor = list + 8 + index * 0x18;
        let (from, to) = (
            m.engine.read_u32(descriptor + 8),
            m.engine.read_u32(descriptor + 12),
        );
        let general = |counter: &u32| *counter < FIXED;
        match m.engine.read_u32(descriptor) {
            RESOURCE_SINGLE if general(&from) => counters |= 1 << from,
            RESOURCE_RANGE => {
                let range = (from..=to).take_while(general);
                counters = range.fold(counters, |all, counter| all | 1 << counter);
            }
            RESOURCE_OVERFLOW => callback = Some(m.engine.read_u64(descriptor + 8)),
            _ => {}
        }
    }
    (counters, callback)
}

fn allocate_counters(m: &mut Machine) -> Result<Outcome, Violation> {
    let (groups, count) = (m.engine.argument(0), m.engine.argument(1));
    let (list, out) = (m.engine.argument(2), m.engine.argument(3));
    touch(m, out, 8)?;
    if groups != 0 || count as u32 != 0 {
        return broken(Rule::Unmodelled, "counters of some processors only");
    }
    if m.kernel.counters_taken || m.kernel.counters.is_some() || m.kernel.fails() {
        m.engine.write_u64(out, 0);
        return Ok(Outcome::Return(INSUFFICIENT_RESOURCES));
    }
    let (counters, callback) = asked_for(m, list);
    m.kernel.next_handle += 4;
    let handle = m.kernel.next_handle;
    m.kernel.counters = Some((handle, callback));
    let bus = m.engine.bus();
    bus.registers.reserve(&mut bus.cpus, counters);
    m.engine.write_u64(out, handle);
    done()
}

fn free_counters(m: &mut Machine) -> Result<Outcome, Violation> {
    let handle = m.engine.argument(0);
    if m.kernel.counters.is_none_or(|(ours, _)| ours != handle) {
        return broken(
            Rule::Object,
            format!("counters {handle:#x} are freed, and not held"),
        );
    }
    if !m.kernel.by_thread.is_empty() {
        let what = "counters are freed that are still read at each context switch";
        return broken(Rule::Alive, what);
    }
    m.kernel.counters = None;
    let in_callback = m.in_callback();
    let bus = m.engine.bus();
    if let Some(masked) = bus.registers.release(&mut bus.cpus, &in_callback)? {
        m.left_masked(&masked)?;
    }
    done()
}

/// (CounterArray, Count). The list changes only while no thread profiles itself, and belongs to one
/// driver (KeSetHardwareCounterConfiguration's page); an empty one removes it.
fn set_hardware_counters(m: &mut Machine) -> Result<Outcome, Violation> {
    const MAX_HW_COUNTERS: u64 = 16;
    const PMC_COUNTER: u32 = 0;
    let (array, count) = (m.engine.argument(0), m.engine.argument(1) & 0xFFFF_FFFF);
    if count > MAX_HW_COUNTERS {
        return Ok(Outcome::Return(INVALID_PARAMETER));
    }
    touch(m, array, count * 16)?;
    let mut counters = Vec::new();
    for element in (0..count).map(|index| array + index * 16) {
        if m.engine.read_u32(element) != PMC_COUNTER || m.engine.read_u32(element + 4) != 0 {
            return Ok(Outcome::Return(INVALID_PARAMETER));
        }
        counters.push(m.engine.read_u64(element + 8));
    }
    if count > 0 && m.kernel.counters.is_none() {
        let what = "counters are read at each context switch that are not reserved";
        return broken(Rule::Unreserved, what);
    }
    let kernel = &mut m.kernel;
    let taken = !kernel.by_thread.is_empty() || kernel.by_thread_of_another;
    let refused = kernel.profiling > 0 || count > 0 && (taken || kernel.fails());
    kernel.kept_by_thread = refused && !kernel.by_thread.is_empty();
    if refused {
        return Ok(Outcome::Return(WMI_ALREADY_ENABLED));
    }
    m.kernel.by_thread = counters;
    done()
}

fn set_system_information(m: &mut Machine) -> Result<Outcome, Violation> {
    let (class, size, buffer) = (
        m.engine.argument(0),
        m.engine.argument(1),
        m.engine.argument(2),
    );
    if (class as u32, size as u32) != (1, 8) {
        return broken(
            Rule::Unmodelled,
            format!("HalSetSystemInformation({class}, {size})"),
        );
    }
    let handler = m.engine.read_u64(buffer);
    if handler == 0 {
        if m.kernel.keeps_handler {
            return Ok(Outcome::Return(UNSUCCESSFUL));
        }
        m.kernel.interrupt_handler = None;
        return done();
    }
    // No document says which status a second registration returns.
    if m.kernel.interrupt_handler.is_some() || m.kernel.fails() {
        return Ok(Outcome::Return(UNSUCCESSFUL));
    }
    m.kernel.interrupt_handler = Some(handler);
    m.engine.bus().registers.handled = true;
    done()
}

fn print(m: &mut Machine) -> Result<Outcome, Violation> {
    let format = m.engine.bytes(m.engine.argument(2), 256);
    let format: String = format
        .iter()
        .take_while(|&&b| b != 0)
        .map(|&b| b as char)
        .collect();
    let arguments: Vec<u64> = (3..7).map(|index| m.engine.argument(index)).collect();
    m.kernel
        .printed
        .push(format!("{} {arguments:x?}", format.trim_end()));
    done()
}

fn copy_unicode(m: &mut Machine) -> Result<Outcome, Violation> {
    let (to, from) = (m.engine.argument(0), m.engine.argument(1));
    let most = m.engine.read_u32(to) >> 16;
    let length = (m.engine.read_u32(from) & 0xFFFF).min(most);
    let bytes = m.engine.bytes(m.engine.read_u64(from + 8), length as usize);
    let buffer = m.engine.read_u64(to + 8);
    m.engine.write(buffer, &bytes);
    m.engine.write(to, &(length as u16).to_le_bytes());
    done()
}

/// What the C functions access is checked like the driver's own accesses, if it is in the arena.
fn touched(m: &mut Machine, at: u64, size: u64) -> Result<(), Violation> {
    if size > 0 && (at >= ARENA || size > ARENA_SIZE) {
        touch(m, at, size)?;
    }
    Ok(())
}

fn copy(m: &mut Machine) -> Result<Outcome, Violation> {
    let (to, from, size) = (
        m.engine.argument(0),
        m.engine.argument(1),
        m.engine.argument(2),
    );
    touched(m, to, size)?;
    touched(m, from, size)?;
    let bytes = m.engine.bytes(from, size as usize);
    m.engine.write(to, &bytes);
    Ok(Outcome::Return(to))
}

fn fill(m: &mut Machine) -> Result<Outcome, Violation> {
    let (to, byte, size) = (
        m.engine.argument(0),
        m.engine.argument(1),
        m.engine.argument(2),
    );
    touched(m, to, size)?;
    m.engine.write(to, &vec![byte as u8; size as usize]);
    Ok(Outcome::Return(to))
}

fn compare(m: &mut Machine) -> Result<Outcome, Violation> {
    let (one, other, size) = (
        m.engine.argument(0),
        m.engine.argument(1),
        m.engine.argument(2),
    );
    touched(m, one, size)?;
    touched(m, other, size)?;
    let (one, other) = (
        m.engine.bytes(one, size as usize),
        m.engine.bytes(other, size as usize),
    );
    let order = one.cmp(&other) as i64;
    Ok(Outcome::Return(order.cast_unsigned()))
}

/// RAX holds the number of bytes of stack that a function will use, and must be preserved.
fn check_stack(m: &mut Machine) -> Result<Outcome, Violation> {
    Ok(Outcome::Return(m.engine.returned()))
}
