//! The reservation of the counters with Windows, and the handlers of the overflow interrupt.
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

/// The type of handler that HalProfileSourceInterruptHandler registers. It is called at
/// PROFILE_LEVEL with the trap frame of what the overflow interrupted.
type InterruptHandler = Option<unsafe extern "C" fn(*mut TrapFrame)>;

/// The start of HAL_DISPATCH (ntddk.h): the members after these move between versions.
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
    /// The import slot, which holds the table's address: ntoskrnl exports the table as data.
    #[link_name = "__imp_HalDispatchTable"]
    static HAL_DISPATCH_TABLE: *const HalDispatch;
}

/// PHYSICAL_COUNTER_RESOURCE_LIST with the two descriptors that a callback needs.
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
    // SAFETY: PASSIVE_LEVEL; the list has `count` elements, which Windows copies.
    check(unsafe { KeSetHardwareCounterConfiguration(list.as_mut_ptr(), count) })
}

/// The counters, reserved until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    handle: HANDLE,
    /// The driver's handler of the overflow interrupt is registered.
    interrupt: bool,
    overflows: Overflows,
    /// The status of removing the handler.
    removed: NTSTATUS,
}

impl Reservation {
    /// Reserves the counters with Windows: the whole PMU, unless the HAL's callback is used.
    /// PASSIVE_LEVEL.
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

    /// How overflows are handled under this reservation.
    #[must_use]
    pub(crate) const fn overflows(&self) -> Overflows {
        self.overflows
    }

    /// Removes the handler of the overflow interrupt, if there is one. It may still be running on
    /// another processor afterwards. If Windows refuses, it stays registered. PASSIVE_LEVEL.
    pub(crate) fn remove_interrupt(&mut self) -> Result<(), Unreserved> {
        if self.interrupt {
            self.removed = set_interrupt_handler(None);
            check(self.removed).map_err(|failed| Unreserved::Interrupt(failed.code()))?;
            self.interrupt = false;
        }
        Ok(())
    }

    /// The status with which Windows refused to remove the handler, if it did.
    #[must_use]
    pub(crate) fn stuck(&self) -> Option<u32> {
        check(self.removed).err().map(Failed::code)
    }
}

impl Drop for Reservation {
    /// PASSIVE_LEVEL; the session's counters are stopped and cleared. If the handler still cannot
    /// be removed, the counters stay reserved, so that no other driver can make them interrupt.
    fn drop(&mut self) {
        let freed = match self.remove_interrupt() {
            // SAFETY: PASSIVE_LEVEL; the handle is this reservation's, and freed once.
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

/// Reserves all counters of all processors (`list` null), or those in a list.
fn allocate(list: *mut CallbackResources) -> Result<HANDLE, Unreserved> {
    let mut handle: HANDLE = null_mut();
    // SAFETY: PASSIVE_LEVEL; the list is a PHYSICAL_COUNTER_RESOURCE_LIST or null, the handle is
    // written.
    let status =
        unsafe { HalAllocateHardwareCounters(null_mut(), 0, list.cast(), &raw mut handle) };
    check(status).map_err(|failed| Unreserved::Counters(failed.code()))?;
    Ok(handle)
}

/// Reserves `general` general counters, and the callback for their overflows.
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

/// Registers the handler of the overflow interrupt, or removes it. There is only one per machine.
fn set_interrupt_handler(mut handler: InterruptHandler) -> NTSTATUS {
    // SAFETY: the loader has filled in the import.
    let table = unsafe { HAL_DISPATCH_TABLE };
    // SAFETY: HAL_DISPATCH begins with these members in every version of Windows.
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

/// The handler registered with HalProfileSourceInterruptHandler. PROFILE_LEVEL, on the processor
/// whose counter has overflowed; Windows' HAL enters and ends the interrupt.
unsafe extern "C" fn overflow_interrupt(frame: *mut TrapFrame) {
    // SAFETY: Windows' trap frame, which outlives the call.
    let interrupted = unsafe { frame.as_ref() }.map_or(UNKNOWN, interrupted);
    // SAFETY: this is an overflow interrupt.
    unsafe { block::overflowed(|local| local.interrupt(&interrupted)) };
}

/// PHYSICAL_COUNTER_OVERFLOW_HANDLER. PROFILE_LEVEL, on the processor whose counters have
/// overflowed; Windows' HAL clears the overflows.
unsafe extern "C" fn overflow_callback(overflowed: u64, _owner: HANDLE) {
    // SAFETY: this is an overflow interrupt.
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
