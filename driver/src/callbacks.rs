//! In from Windows: the entry, and everything that Windows calls. Each function turns what it is
//! given into checked types, and calls safe code.
//!
//! One of the three rooms where unsafe code stands. Each function's safety contract is Windows':
//! it is called with what the documentation of its type says, and at the IRQL given here.
#![expect(unsafe_code, reason = "raw pointers and handles from Windows")]

use crate::device::Device;
use crate::kernel::framework;
use crate::kernel::processors::{Batch, Block, Table};
use core::ffi::c_void;
use hal_profile::machine::Local;
use hal_profile::overflow::{self, Interrupted};
use hal_profile::session::Client;
use shared_types::Mode;
use wdk_sys::ntddk::{PsGetCurrentProcessId, PsGetCurrentThreadId};
use wdk_sys::{
    _KE_PROCESSOR_CHANGE_NOTIFY_STATE, DRIVER_OBJECT, HANDLE, KDPC,
    KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT, NTSTATUS, PCUNICODE_STRING, PEX_TIMER, PWDFDEVICE_INIT,
    STATUS_SUCCESS, WDF_POWER_DEVICE_STATE, WDFCMRESLIST, WDFDEVICE, WDFDRIVER, WDFFILEOBJECT,
    WDFOBJECT, WDFQUEUE, WDFREQUEST,
};

/// The members of KTRAP_FRAME (ntddk.h, x64) that tell what was interrupted.
#[repr(C)]
pub(crate) struct TrapFrame {
    _before: [u8; 0x168],
    rip: u64,
    cs: u16,
}

/// The privilege level in a code selector; 3 is user mode.
const REQUESTED_PRIVILEGE: u16 = 3;

fn status(result: Result<(), crate::kernel::Failed>) -> NTSTATUS {
    result.err().map_or(STATUS_SUCCESS, |failed| failed.0)
}

/// The driver is loaded. PASSIVE_LEVEL.
///
/// # Safety
/// Windows calls it, once.
// SAFETY: no other function of this name is linked.
#[unsafe(export_name = "DriverEntry")]
pub(crate) unsafe extern "system" fn driver_entry(
    driver: *mut DRIVER_OBJECT,
    registry_path: PCUNICODE_STRING,
) -> NTSTATUS {
    // SAFETY: what Windows gave.
    status(unsafe { framework::create_driver(driver, registry_path) })
}

/// EVT_WDF_DRIVER_DEVICE_ADD. PASSIVE_LEVEL.
pub(crate) unsafe extern "C" fn device_add(_driver: WDFDRIVER, init: PWDFDEVICE_INIT) -> NTSTATUS {
    // SAFETY: what the framework gave.
    status(unsafe { framework::create_device(init) })
}

/// EVT_WDF_OBJECT_CONTEXT_CLEANUP of the device. PASSIVE_LEVEL.
pub(crate) unsafe extern "C" fn device_cleanup(object: WDFOBJECT) {
    // SAFETY: the framework calls it once, for the device.
    unsafe { framework::destroy_device(object.cast()) };
}

/// EVT_WDF_DEVICE_PREPARE_HARDWARE. PASSIVE_LEVEL.
pub(crate) unsafe extern "C" fn prepare_hardware(
    device: WDFDEVICE,
    _raw: WDFCMRESLIST,
    _translated: WDFCMRESLIST,
) -> NTSTATUS {
    // SAFETY: the framework's device; its hardware is released before it goes.
    let watching = unsafe { framework::watch_processors(device) };
    // SAFETY: the framework's device, which outlives the call.
    let found = unsafe { framework::device(device) };
    let prepared = watching.and_then(|()| found.map_or(Ok(()), Device::prepare));
    if prepared.is_err() {
        // SAFETY: the framework's device.
        unsafe { framework::ignore_processors(device) };
    }
    status(prepared)
}

/// EVT_WDF_DEVICE_RELEASE_HARDWARE. PASSIVE_LEVEL.
pub(crate) unsafe extern "C" fn release_hardware(
    device: WDFDEVICE,
    _translated: WDFCMRESLIST,
) -> NTSTATUS {
    // SAFETY: the framework's device.
    unsafe { framework::ignore_processors(device) };
    // SAFETY: the framework's device, which outlives the call.
    if let Some(device) = unsafe { framework::device(device) } {
        device.release();
    }
    STATUS_SUCCESS
}

/// EVT_WDF_DEVICE_D0_ENTRY. PASSIVE_LEVEL.
pub(crate) unsafe extern "C" fn d0_entry(
    device: WDFDEVICE,
    _previous: WDF_POWER_DEVICE_STATE,
) -> NTSTATUS {
    // SAFETY: the framework's device, which outlives the call.
    if let Some(device) = unsafe { framework::device(device) } {
        device.wake();
    }
    STATUS_SUCCESS
}

/// EVT_WDF_DEVICE_D0_EXIT. PASSIVE_LEVEL.
pub(crate) unsafe extern "C" fn d0_exit(
    device: WDFDEVICE,
    target: WDF_POWER_DEVICE_STATE,
) -> NTSTATUS {
    // SAFETY: the framework's device, which outlives the call.
    if let Some(device) = unsafe { framework::device(device) } {
        device.sleep(target.cast_unsigned());
    }
    STATUS_SUCCESS
}

/// EVT_WDF_DEVICE_SURPRISE_REMOVAL. PASSIVE_LEVEL.
pub(crate) unsafe extern "C" fn surprise_removal(device: WDFDEVICE) {
    // SAFETY: the framework's device, which outlives the call.
    if let Some(device) = unsafe { framework::device(device) } {
        device.surprise_removed();
    }
}

/// EVT_WDF_FILE_CLEANUP and EVT_WDF_FILE_CLOSE: the last handle of a file object was closed, or its
/// process has ended; and, later, no request of it is left. Another thread's request may have been
/// served in between, and have opened a session. PASSIVE_LEVEL.
pub(crate) unsafe extern "C" fn file_cleanup(file: WDFFILEOBJECT) {
    // SAFETY: the framework's file object.
    let device = unsafe { framework::device_of_file(file) };
    // SAFETY: a file object's device outlives it.
    if let Some(device) = unsafe { framework::device(device) } {
        device.handle_closed(file.addr() as u64);
    }
}

/// EVT_WDF_IO_QUEUE_IO_DEVICE_CONTROL. PASSIVE_LEVEL, by the device's execution level.
pub(crate) unsafe extern "C" fn device_control(
    queue: WDFQUEUE,
    request: WDFREQUEST,
    output: usize,
    input: usize,
    code: u32,
) {
    // SAFETY: the framework's queue.
    let device = unsafe { framework::device_of_queue(queue) };
    // SAFETY: a queue's device outlives it.
    let device = unsafe { framework::device(device) };
    // SAFETY: the request is completed below.
    let handle = unsafe { framework::handle_of(request) };
    // SAFETY: as above.
    let process = unsafe { framework::process_of(request) };
    // SAFETY: as above; only this function uses its buffer.
    let buffer = unsafe { framework::buffer(request, input, output) };
    let completion = device.map(|device| {
        let client = Client { handle, process };
        device.request(client, code, buffer.unwrap_or_default(), input, output)
    });
    let (status, length) = completion.map_or(
        (wdk_sys::STATUS_DEVICE_NOT_READY.cast_unsigned(), 0),
        |completion| (completion.status.0, completion.length),
    );
    // SAFETY: completed here, once.
    unsafe { framework::complete(request, status, length) };
}

/// PROCESSOR_CALLBACK_FUNCTION. PASSIVE_LEVEL. A processor can be used when its addition is
/// complete.
pub(crate) unsafe extern "C" fn processor_change(
    context: *mut c_void,
    change: *mut KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT,
    _status: *mut NTSTATUS,
) {
    // SAFETY: the context is the device that was registered; deregistering waits for this.
    let device = unsafe { framework::device(context.cast()) };
    // SAFETY: Windows' context, which outlives the call.
    let change = unsafe { &*change };
    let complete = _KE_PROCESSOR_CHANGE_NOTIFY_STATE::KeProcessorAddCompleteNotify;
    if let (Some(device), true) = (device, change.State == complete) {
        device.processor_added(change.NtNumber as usize);
    }
}

/// KDEFERRED_ROUTINE of a block's `work`. DISPATCH_LEVEL, on the block's processor.
pub(crate) unsafe extern "C" fn work(
    _dpc: *mut KDPC,
    block: *mut c_void,
    batch: *mut c_void,
    _unused: *mut c_void,
) {
    // SAFETY: the context that the DPC was initialised with, and that stays until it has run.
    let block = unsafe { &*block.cast::<Block>() };
    // SAFETY: what `Table::each` has queued it with, and waits for.
    let batch = unsafe { &*batch.cast::<Batch<'_>>() };
    // SAFETY: the DPC is targeted at the block's processor.
    unsafe { batch.run(block) };
}

/// KDEFERRED_ROUTINE of a block's `tick`. DISPATCH_LEVEL, on the block's processor.
pub(crate) unsafe extern "C" fn tick(
    _dpc: *mut KDPC,
    block: *mut c_void,
    _first: *mut c_void,
    _second: *mut c_void,
) {
    // SAFETY: the context that the DPC was initialised with, and that stays until it has run.
    let block = unsafe { &*block.cast::<Block>() };
    // SAFETY: a DPC of the published table.
    if let Some(table) = unsafe { Table::published() } {
        // SAFETY: the DPC is targeted at the block's processor.
        unsafe {
            block.happened(table, |local| {
                local.tick();
            });
        };
    }
}

/// EXT_CALLBACK of the device's timer. DISPATCH_LEVEL.
pub(crate) unsafe extern "C" fn timer_expired(_timer: PEX_TIMER, _context: *mut c_void) {
    // SAFETY: the timer of the published table.
    if let Some(table) = unsafe { Table::published() } {
        table.tick();
    }
}

/// What HalProfileSourceInterruptHandler registers. PROFILE_LEVEL, on the processor whose counter
/// has overflowed; Windows' HAL has entered the interrupt and ends it.
pub(crate) unsafe extern "C" fn overflow_interrupt(frame: *mut TrapFrame) {
    // SAFETY: Windows' trap frame, which outlives the call.
    let interrupted = unsafe { frame.as_ref() }.map_or(UNKNOWN, interrupted);
    here(|local| overflow::interrupt(local, &interrupted));
}

/// PHYSICAL_COUNTER_OVERFLOW_HANDLER. PROFILE_LEVEL, on the processor whose counters have
/// overflowed; Windows' HAL clears their overflows.
pub(crate) unsafe extern "C" fn overflow_callback(overflowed: u64, _owner: HANDLE) {
    here(|local| overflow::callback(local, overflowed));
}

/// Does `work` on this processor, for what it runs. PROFILE_LEVEL.
fn here(work: impl FnOnce(&mut Local<'_, crate::machine::Cpu>)) {
    // SAFETY: an overflow of the published table; giving the counters back waits until it is over.
    if let Some(table) = unsafe { Table::published() }
        && let Some(block) = table.here()
    {
        // SAFETY: the block of this processor, which does not change at PROFILE_LEVEL.
        unsafe { block.happened(table, work) };
    }
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
