//! The reservation of the counters with Windows, and the handler of the overflow interrupt.
#![expect(unsafe_code, reason = "calls into the HAL, and what the HAL calls")]

use crate::per_cpu;
use crate::status::{Failed, check};
use crate::trace::{self, What};
use crate::wdf;
use core::ffi::c_void;
use core::ptr::null_mut;
use hal_profile::run::host::{Overflows, Unreserved};
use hal_profile::run::overflow::Interrupted;
use shared_types::{ErrorCode, Mode};
use wdk_sys::ntddk::{
    HalAllocateHardwareCounters, HalFreeHardwareCounters, KeSetHardwareCounterConfiguration,
    PsGetCurrentProcessId, PsGetCurrentThreadId,
};
use wdk_sys::{
    _HARDWARE_COUNTER_TYPE, HANDLE, HARDWARE_COUNTER, MAX_HW_COUNTERS, NTSTATUS, STATUS_SUCCESS,
};

/// HalProfileSourceInterruptHandler of HAL_SET_INFORMATION_CLASS (ntddk.h).
const PROFILE_SOURCE_INTERRUPT_HANDLER: i32 = 1;

/// The type of handler that HalProfileSourceInterruptHandler registers. It is called at
/// PROFILE_LEVEL with the trap frame of what the overflow interrupted.
type InterruptHandler = Option<unsafe extern "C" fn(*mut TrapFrame)>;

/// The start of HAL_DISPATCH (ntddk.h).
#[repr(C)]
struct HalDispatch {
    version: u32,
    query_system_information: *const c_void,
    set_system_information:
        Option<unsafe extern "C" fn(class: i32, size: u32, buffer: *mut c_void) -> NTSTATUS>,
}

// No more of it is named: the members after these moved in Windows 7.
const _: () = {
    assert!(core::mem::offset_of!(HalDispatch, set_system_information) == 0x10);
};

unsafe extern "C" {
    /// The import slot, which holds the table's address: ntoskrnl exports the table as data.
    #[link_name = "__imp_HalDispatchTable"]
    static HAL_DISPATCH_TABLE: *const HalDispatch;
}

/// The members of KTRAP_FRAME (ntddk.h, x64) that say what was interrupted.
#[repr(C)]
struct TrapFrame {
    _before: [u8; 0x168],
    rip: u64,
    cs: u16,
}

/// The privilege level in a code selector; 3 is user mode.
const REQUESTED_PRIVILEGE: u16 = 3;

/// Has Windows read these general counters at each context switch and add them up for the threads
/// that ask for it; an empty list ends this. Refused while a thread is profiling itself.
/// PASSIVE_LEVEL.
fn count_by_thread(counters: &[u32]) -> Result<(), Failed> {
    // Windows copies the list, of general counters only: no document gives fixed ones an index.
    let mut list = [HARDWARE_COUNTER::default(); MAX_HW_COUNTERS as usize];
    for (entry, &index) in list.iter_mut().zip(counters) {
        *entry = HARDWARE_COUNTER {
            Type: _HARDWARE_COUNTER_TYPE::PMCCounter,
            Reserved: 0,
            Index: index.into(),
        };
    }
    let count = counters.len().min(list.len()) as u32;
    // SAFETY: PASSIVE_LEVEL; the list has `count` elements, which Windows copies.
    check(unsafe { KeSetHardwareCounterConfiguration(list.as_mut_ptr(), count) })
}

/// The counters, reserved until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    handle: HANDLE,
    /// The driver's handler of the overflow interrupt is registered.
    interrupt: bool,
    /// The status of removing the handler.
    handler_status: NTSTATUS,
    /// Windows adds up the counters for each thread.
    by_thread: bool,
    /// The status of ending that.
    threads_status: NTSTATUS,
    /// The driver stays in memory.
    pinned: bool,
}

// SAFETY: a handle, which any thread may use; `&mut self` allows only one at a time.
unsafe impl Send for Reservation {}

impl Reservation {
    /// Reserves the whole PMU with Windows. PASSIVE_LEVEL.
    pub(crate) fn new(overflows: Overflows) -> Result<Self, Unreserved> {
        let reserved = Self::reserve(overflows);
        let success = STATUS_SUCCESS.cast_unsigned();
        let status = reserved.as_ref().err().map_or(success, |refused| refused.status);
        let interrupts = overflows == Overflows::Interrupt;
        trace::add(What::Reserved, 0, interrupts.into(), status.into());
        reserved
    }

    fn reserve(overflows: Overflows) -> Result<Self, Unreserved> {
        let mut reservation = Self {
            handle: allocate()?,
            interrupt: false,
            handler_status: STATUS_SUCCESS,
            by_thread: false,
            threads_status: STATUS_SUCCESS,
            pinned: false,
        };
        // After the reservation: until then the handler that is there may belong to an owner.
        if overflows == Overflows::Interrupt {
            let status = set_interrupt_handler(Some(overflow_interrupt));
            check(status).map_err(|failed| failed.reserving(ErrorCode::InterruptTaken))?;
            // Only now: if the registration was refused, `drop` must not remove what another driver
            // has registered.
            reservation.interrupt = true;
        }
        Ok(reservation)
    }

    /// Gives everything back, or returns what Windows does not let go of. Where that is no longer the
    /// handler, the driver stays pinned all the same: another processor may still be in the handler,
    /// and without hardware nobody can wait until it has left. PASSIVE_LEVEL.
    pub(crate) fn end(mut self) -> Option<Self> {
        let ended = self.unregister_threads().and_then(|()| self.remove_interrupt());
        ended.is_err().then_some(self)
    }

    /// Whether the handler is registered.
    pub(crate) const fn interrupts(&self) -> bool {
        self.interrupt
    }

    /// Removes the handler of the overflow interrupt, if there is one. It may still be running on
    /// another processor afterwards. If Windows refuses, it stays registered. PASSIVE_LEVEL.
    pub(crate) fn remove_interrupt(&mut self) -> Result<(), Failed> {
        if self.interrupt {
            // By registering none, as other drivers do (WindowsPerf, WindowsIntelPT). What was there
            // before cannot be read, so it cannot be put back.
            self.handler_status = set_interrupt_handler(None);
            check(self.handler_status)?;
            self.interrupt = false;
        }
        Ok(())
    }

    /// The status with which Windows refused to remove the handler, if it did.
    pub(crate) fn handler_refusal(&self) -> Option<u32> {
        check(self.handler_status).err().map(Failed::code)
    }

    /// Has Windows read these general counters, as [`count_by_thread`]. On failure, the NTSTATUS.
    /// PASSIVE_LEVEL.
    pub(crate) fn register_threads(&mut self, counters: &[u32]) -> Result<(), u32> {
        count_by_thread(counters).map_err(Failed::code)?;
        self.by_thread = true;
        Ok(())
    }

    /// Ends this, if it was begun. If a thread is profiling itself, Windows goes on. PASSIVE_LEVEL.
    pub(crate) fn unregister_threads(&mut self) -> Result<(), Failed> {
        if self.by_thread {
            let ended = count_by_thread(&[]);
            self.threads_status = ended.err().map_or(STATUS_SUCCESS, |failed| failed.0);
            ended?;
            self.by_thread = false;
        }
        Ok(())
    }

    /// The status with which Windows refused to end this, if it did.
    pub(crate) fn threads_refusal(&self) -> Option<u32> {
        check(self.threads_status).err().map(Failed::code)
    }

    /// Keeps the driver in memory as long as Windows may call its handler. Returns whether it was
    /// not kept before.
    pub(crate) fn pin(&mut self) -> bool {
        let first = !core::mem::replace(&mut self.pinned, true);
        if first {
            wdf::pin();
        }
        first
    }

    /// Undoes [`Self::pin`]; no processor is in the handler any more.
    pub(crate) fn unpin(&mut self) {
        if self.pinned {
            wdf::unpin();
        }
        self.pinned = false;
    }
}

impl Drop for Reservation {
    /// PASSIVE_LEVEL; the session's counters are stopped and cleared. If the handler is registered,
    /// the counters stay reserved, so that no other driver can make them interrupt; likewise if
    /// Windows still reads them at context switches.
    fn drop(&mut self) {
        // In this order: a counter that Windows still reads is not given to others to program.
        let freed = if self.interrupt {
            self.handler_status
        } else if self.unregister_threads().is_err() {
            self.threads_status
        } else {
            // SAFETY: PASSIVE_LEVEL; the handle is this reservation's, and freed once.
            unsafe { HalFreeHardwareCounters(self.handle) }
        };
        trace::add(
            What::GivenBack,
            0,
            self.handler_status.cast_unsigned().into(),
            freed.cast_unsigned().into(),
        );
    }
}

/// Reserves all counters of all processors.
fn allocate() -> Result<HANDLE, Unreserved> {
    let mut handle: HANDLE = null_mut();
    // Success proves nothing: in a guest it can come without a PMU, so START tests the counters. Why
    // it was refused, and who has them, Windows does not say.
    // SAFETY: PASSIVE_LEVEL; without a list all counters are meant, and the handle is written.
    let status = unsafe { HalAllocateHardwareCounters(null_mut(), 0, null_mut(), &raw mut handle) };
    check(status).map_err(|failed| failed.reserving(ErrorCode::CountersReserved))?;
    Ok(handle)
}

/// Registers the handler of the overflow interrupt, or removes it. There is only one per machine.
fn set_interrupt_handler(mut handler: InterruptHandler) -> NTSTATUS {
    // SAFETY: the loader has filled in the import.
    let table = unsafe { HAL_DISPATCH_TABLE };
    // SAFETY: HAL_DISPATCH begins with these members in every version of Windows.
    // Through the table because no export has this name: HalSetSystemInformation is a macro of
    // ntddk.h.
    let set = unsafe { (*table).set_system_information };
    // No Windows is known without it, but Microsoft reserves all of this for internal use.
    let Some(set) = set else {
        return wdk_sys::STATUS_NOT_SUPPORTED;
    };
    // SAFETY: PASSIVE_LEVEL; the buffer is the handler's address, of a pointer's size.
    unsafe {
        set(
            PROFILE_SOURCE_INTERRUPT_HANDLER,
            size_of::<InterruptHandler>() as u32,
            (&raw mut handler).cast(),
        )
    }
}

/// The handler registered with HalProfileSourceInterruptHandler. PROFILE_LEVEL, on the processor
/// whose counter has overflowed; Windows' HAL enters and ends the interrupt.
unsafe extern "C" fn overflow_interrupt(frame: *mut TrapFrame) {
    // No EOI here: Windows' HAL ends the interrupt, and a second EOI would end another's.
    // SAFETY: Windows' trap frame, which outlives the call.
    let interrupted = unsafe { frame.as_ref() }.map_or(UNKNOWN, interrupted);
    // SAFETY: this is an overflow interrupt.
    unsafe { per_cpu::overflowed(|local| local.interrupt(&interrupted)) };
}

const UNKNOWN: Interrupted = Interrupted { ip: 0, mode: Mode::Unknown, process: 0, thread: 0 };

fn interrupted(frame: &TrapFrame) -> Interrupted {
    // The thread on the processor is the interrupted one: an interrupt does not switch threads.
    // SAFETY: any IRQL.
    let process = unsafe { PsGetCurrentProcessId() };
    // SAFETY: any IRQL.
    let thread = unsafe { PsGetCurrentThreadId() };
    Interrupted {
        // Of the instruction that would have executed next: some after the one that overflowed.
        ip: frame.rip,
        mode: if frame.cs & REQUESTED_PRIVILEGE == REQUESTED_PRIVILEGE {
            Mode::User
        } else {
            Mode::Kernel
        },
        process: process.addr() as u32,
        thread: thread.addr() as u32,
    }
}
