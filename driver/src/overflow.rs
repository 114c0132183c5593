//! The counters, reserved with Windows, and the overflow interrupt's handlers.
#![expect(unsafe_code, reason = "calls into the HAL, and what the HAL calls")]

use crate::block;
use crate::status::{Failed, check};
use crate::trace::{self, What};
use core::ffi::c_void;
use core::mem::size_of;
use core::ptr::null_mut;
use hal_profile::host::{Overflows, Unreserved};
use hal_profile::overflow::Interrupted;
use shared_types::Mode;
use wdk_sys::ntddk::{
    HalAllocateHardwareCounters, HalFreeHardwareCounters, KeSetHardwareCounterConfiguration,
    PsGetCurrentProcessId, PsGetCurrentThreadId,
};
use wdk_sys::{
    _HARDWARE_COUNTER_TYPE, _PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR__bindgen_ty_1 as Resource,
    _PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR__bindgen_ty_1__bindgen_ty_1 as Range,
    _PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE as ResourceType, HANDLE, HARDWARE_COUNTER,
    MAX_HW_COUNTERS, NTSTATUS, PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR,
    PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE, STATUS_SUCCESS,
};

/// HalProfileSourceInterruptHandler of HAL_SET_INFORMATION_CLASS (ntddk.h).
const PROFILE_SOURCE_INTERRUPT_HANDLER: i32 = 1;

/// What HalProfileSourceInterruptHandler registers: called at PROFILE_LEVEL with what the overflow
/// interrupted.
type InterruptHandler = Option<unsafe extern "C" fn(*mut TrapFrame)>;

/// The start of HAL_DISPATCH (ntddk.h): what comes after these members moves between versions.
#[repr(C)]
struct HalDispatch {
    version: u32,
    query_system_information: *const c_void,
    set_system_information:
        Option<unsafe extern "C" fn(class: i32, size: u32, buffer: *mut c_void) -> NTSTATUS>,
}

const _: () = {
    assert!(core::mem::offset_of!(HalDispatch, set_system_information) == 0x10);
};

unsafe extern "C" {
    /// The slot of the import, which holds the table's address: ntoskrnl exports the table as data.
    #[link_name = "__imp_HalDispatchTable"]
    static HAL_DISPATCH_TABLE: *const HalDispatch;
}

/// PHYSICAL_COUNTER_RESOURCE_LIST with the two descriptors of a callback.
#[repr(C)]
struct CallbackResources {
    count: u32,
    descriptors: [PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR; 2],
}

const _: () = {
    // Since Windows 10 1903: the union holds pointers.
    assert!(size_of::<PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR>() == 0x18);
    assert!(core::mem::offset_of!(CallbackResources, descriptors) == 8);
};

/// The members of KTRAP_FRAME (ntddk.h, x64) that tell what was interrupted.
#[repr(C)]
struct TrapFrame {
    _before: [u8; 0x168],
    rip: u64,
    cs: u16,
}

/// The privilege level in a code selector; 3 is user mode.
const REQUESTED_PRIVILEGE: u16 = 3;

/// Has Windows read these general counters at each context switch and add them up for the threads
/// that want it; none: not any more. Refused while a thread profiles itself. PASSIVE_LEVEL.
pub(crate) fn count_by_thread(counters: &[u32]) -> Result<(), Failed> {
    let mut list = [HARDWARE_COUNTER::default(); MAX_HW_COUNTERS as usize];
    for (entry, &index) in list.iter_mut().zip(counters) {
        *entry = HARDWARE_COUNTER {
            Type: _HARDWARE_COUNTER_TYPE::PMCCounter,
            Reserved: 0,
            Index: index.into(),
        };
    }
    let count = counters.len().min(list.len()) as u32;
    // SAFETY: PASSIVE_LEVEL; the list has so many elements, which Windows copies.
    check(unsafe { KeSetHardwareCounterConfiguration(list.as_mut_ptr(), count) })
}

/// The counters, ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    handle: HANDLE,
    /// Our handler of the overflow interrupt is registered.
    interrupt: bool,
    overflows: Overflows,
    /// What removing the handler answered.
    removed: NTSTATUS,
}

impl Reservation {
    /// Asks Windows for them; the whole PMU, but for the HAL's callback. PASSIVE_LEVEL.
    pub(crate) fn new(overflows: Overflows) -> Result<Self, Unreserved> {
        let reserved = Self::reserve(overflows);
        let status = match reserved {
            Ok(_) => STATUS_SUCCESS.cast_unsigned(),
            Err(Unreserved::Counters(status) | Unreserved::Interrupt(status)) => status,
        };
        let kind = match overflows {
            Overflows::Ignored => 0,
            Overflows::Interrupt => 1,
            Overflows::Callback { .. } => 2,
        };
        trace::add(What::Reserved, 0, kind, status.into());
        reserved
    }

    fn reserve(overflows: Overflows) -> Result<Self, Unreserved> {
        let mut reservation = Self {
            handle: match overflows {
                Overflows::Callback { general } => allocate_for_callback(general)?,
                Overflows::Ignored | Overflows::Interrupt => allocate(null_mut())?,
            },
            interrupt: false,
            overflows,
            removed: STATUS_SUCCESS,
        };
        if overflows == Overflows::Interrupt {
            let status = set_interrupt_handler(Some(overflow_interrupt));
            check(status).map_err(|failed| Unreserved::Interrupt(failed.code()))?;
            reservation.interrupt = true;
        }
        Ok(reservation)
    }

    /// Which overflows it is for.
    #[must_use]
    pub(crate) const fn overflows(&self) -> Overflows {
        self.overflows
    }

    /// Removes the handler of the overflow interrupt, where there is one. It may still be running
    /// on another processor. Where Windows refuses, it stays registered. PASSIVE_LEVEL.
    pub(crate) fn remove_interrupt(&mut self) -> Result<(), Unreserved> {
        if self.interrupt {
            self.removed = set_interrupt_handler(None);
            check(self.removed).map_err(|failed| Unreserved::Interrupt(failed.code()))?;
            self.interrupt = false;
        }
        Ok(())
    }

    /// The status with which Windows has refused to remove the handler.
    #[must_use]
    pub(crate) fn stuck(&self) -> Option<u32> {
        check(self.removed).err().map(Failed::code)
    }
}

impl Drop for Reservation {
    /// PASSIVE_LEVEL; our counters are stopped and cleared. A handler that still cannot be removed
    /// keeps the counters, so that nobody makes them interrupt.
    fn drop(&mut self) {
        let freed = match self.remove_interrupt() {
            // SAFETY: PASSIVE_LEVEL; the handle is ours, and given back once.
            Ok(()) => unsafe { HalFreeHardwareCounters(self.handle) },
            Err(_) => self.removed,
        };
        trace::add(
            What::GivenBack,
            0,
            self.removed.cast_unsigned().into(),
            freed.cast_unsigned().into(),
        );
    }
}

/// All counters of all processors (`list` null), or those of a list.
fn allocate(list: *mut CallbackResources) -> Result<HANDLE, Unreserved> {
    let mut handle: HANDLE = null_mut();
    // SAFETY: PASSIVE_LEVEL; the list is a PHYSICAL_COUNTER_RESOURCE_LIST or null, the handle is
    // written.
    let status =
        unsafe { HalAllocateHardwareCounters(null_mut(), 0, list.cast(), &raw mut handle) };
    check(status).map_err(|failed| Unreserved::Counters(failed.code()))?;
    Ok(handle)
}

/// So many general counters, and the callback for their overflows.
fn allocate_for_callback(general: u32) -> Result<HANDLE, Unreserved> {
    let last = general.saturating_sub(1);
    let mut resources = CallbackResources {
        count: 2,
        descriptors: [
            descriptor(
                ResourceType::ResourceTypeRange,
                Resource {
                    Range: Range {
                        Begin: 0,
                        End: last,
                    },
                },
            ),
            descriptor(
                ResourceType::ResourceTypeOverflow,
                Resource {
                    OverflowHandler: Some(overflow_callback),
                },
            ),
        ],
    };
    allocate(&raw mut resources)
}

fn descriptor(
    kind: PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE,
    u: Resource,
) -> PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR {
    PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR {
        Type: kind,
        Flags: 0,
        u,
    }
}

/// Registers the handler of the overflow interrupt, or removes it. There is one for the machine.
fn set_interrupt_handler(mut handler: InterruptHandler) -> NTSTATUS {
    // SAFETY: the loader has filled in the import.
    let table = unsafe { HAL_DISPATCH_TABLE };
    // SAFETY: HAL_DISPATCH begins like this in every version of Windows.
    let set = unsafe { (*table).set_system_information };
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

/// What HalProfileSourceInterruptHandler registers. PROFILE_LEVEL, on the processor whose counter
/// has overflowed; Windows' HAL has entered the interrupt and ends it.
unsafe extern "C" fn overflow_interrupt(frame: *mut TrapFrame) {
    // SAFETY: Windows' trap frame, which outlives the call.
    let interrupted = unsafe { frame.as_ref() }.map_or(UNKNOWN, interrupted);
    // SAFETY: an overflow interrupt.
    unsafe { block::overflowed(|local| local.interrupt(&interrupted)) };
}

/// PHYSICAL_COUNTER_OVERFLOW_HANDLER. PROFILE_LEVEL, on the processor whose counters have
/// overflowed; Windows' HAL clears their overflows.
unsafe extern "C" fn overflow_callback(overflowed: u64, _owner: HANDLE) {
    // SAFETY: an overflow interrupt.
    unsafe { block::overflowed(|local| local.callback(overflowed)) };
}

const UNKNOWN: Interrupted = Interrupted {
    ip: 0,
    mode: Mode::Unknown,
    process: 0,
    thread: 0,
};

fn interrupted(frame: &TrapFrame) -> Interrupted {
    // SAFETY: any IRQL.
    let process = unsafe { PsGetCurrentProcessId() };
    // SAFETY: any IRQL.
    let thread = unsafe { PsGetCurrentThreadId() };
    Interrupted {
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
