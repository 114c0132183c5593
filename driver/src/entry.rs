//! Entry points: DriverEntry, and the table of the framework's callbacks. Each function turns its
//! arguments into checked types and calls safe code.
#![expect(unsafe_code, reason = "raw pointers and handles from Windows")]

use crate::debugger::HALPROF;
use crate::device::Device;
use crate::status::Failed;
use crate::wdf::{self, ContextType, Events, Request};
use core::ffi::c_void;
use core::hint::black_box;
use hal_profile::service::Completion;
use hal_profile::service::session::Client;
use shared_types::NtStatus;
use shared_types::request::{self, RequestCode, session};
use wdk_sys::{
    _KE_PROCESSOR_CHANGE_NOTIFY_STATE, DRIVER_OBJECT, KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT, NTSTATUS,
    PCUNICODE_STRING, PWDFDEVICE_INIT, STATUS_SUCCESS, WDF_POWER_DEVICE_STATE, WDFCMRESLIST,
    WDFDEVICE, WDFDRIVER, WDFFILEOBJECT, WDFOBJECT, WDFQUEUE, WDFREQUEST,
};

/// The framework's callbacks for the device. The safety contract of each function is the
/// framework's: it is called with the arguments that the documentation of its type describes, at
/// the IRQL stated there.
static EVENTS: Events = Events {
    cleanup: Some(device_cleanup),
    prepare_hardware: Some(prepare_hardware),
    release_hardware: Some(release_hardware),
    d0_entry: Some(d0_entry),
    d0_exit: Some(d0_exit),
    surprise_removal: Some(surprise_removal),
    file_cleanup: Some(file_cleanup),
    file_close: Some(file_cleanup),
    device_control: Some(device_control),
};

/// The framework keeps a [`Device`] in the context of each device.
static CONTEXT: ContextType<Device> = ContextType::new(&CONTEXT);

fn status(result: Result<(), Failed>) -> NTSTATUS {
    result.err().map_or(STATUS_SUCCESS, |failed| failed.0)
}

/// Called when the driver is loaded. PASSIVE_LEVEL.
///
/// # Safety
/// Windows calls it, once.
// SAFETY: no other function of this name is linked.
#[unsafe(export_name = "DriverEntry")]
unsafe extern "system" fn driver_entry(
    driver: *mut DRIVER_OBJECT,
    registry_path: PCUNICODE_STRING,
) -> NTSTATUS {
    // The linker would drop it if no code referred to it.
    black_box(&raw const HALPROF);
    // SAFETY: the arguments come from Windows.
    status(unsafe { wdf::create_driver(driver, registry_path, Some(device_add)) })
}

/// The `Device` of a framework device.
///
/// # Safety
/// `device` is the framework's and outlives any use of the result.
unsafe fn device_of<'a>(device: WDFDEVICE) -> Option<&'a Device> {
    // SAFETY: all devices are created with this context type.
    unsafe { wdf::made(device, &CONTEXT) }
}

/// EVT_WDF_DRIVER_DEVICE_ADD. PASSIVE_LEVEL.
unsafe extern "C" fn device_add(_driver: WDFDRIVER, init: PWDFDEVICE_INIT) -> NTSTATUS {
    // SAFETY: `init` comes from the framework.
    status(unsafe { wdf::create_device(init, &EVENTS, &CONTEXT, Device::new) })
}

/// EVT_WDF_OBJECT_CONTEXT_CLEANUP of the device. PASSIVE_LEVEL.
unsafe extern "C" fn device_cleanup(object: WDFOBJECT) {
    // SAFETY: the framework calls it once, for the device.
    unsafe { wdf::destroy(object.cast(), &CONTEXT) };
}

/// EVT_WDF_DEVICE_PREPARE_HARDWARE. PASSIVE_LEVEL.
unsafe extern "C" fn prepare_hardware(
    device: WDFDEVICE,
    _raw: WDFCMRESLIST,
    _translated: WDFCMRESLIST,
) -> NTSTATUS {
    // SAFETY: the framework's device; its hardware is released before it is deleted.
    let watching = unsafe { wdf::watch_processors(device, &CONTEXT, Some(processor_change)) };
    // SAFETY: the framework's device, which outlives the call.
    let found = unsafe { device_of(device) };
    let prepared = watching.and_then(|()| found.map_or(Ok(()), Device::prepare));
    if prepared.is_err() {
        // SAFETY: the framework's device.
        unsafe { wdf::ignore_processors(device, &CONTEXT) };
    }
    status(prepared)
}

/// EVT_WDF_DEVICE_RELEASE_HARDWARE. PASSIVE_LEVEL.
unsafe extern "C" fn release_hardware(device: WDFDEVICE, _translated: WDFCMRESLIST) -> NTSTATUS {
    // SAFETY: the framework's device.
    unsafe { wdf::ignore_processors(device, &CONTEXT) };
    // SAFETY: the framework's device, which outlives the call.
    if let Some(device) = unsafe { device_of(device) } {
        device.release();
    }
    STATUS_SUCCESS
}

/// EVT_WDF_DEVICE_D0_ENTRY. PASSIVE_LEVEL.
unsafe extern "C" fn d0_entry(device: WDFDEVICE, _previous: WDF_POWER_DEVICE_STATE) -> NTSTATUS {
    // SAFETY: the framework's device, which outlives the call.
    if let Some(device) = unsafe { device_of(device) } {
        device.wake();
    }
    STATUS_SUCCESS
}

/// EVT_WDF_DEVICE_D0_EXIT. PASSIVE_LEVEL.
unsafe extern "C" fn d0_exit(device: WDFDEVICE, target: WDF_POWER_DEVICE_STATE) -> NTSTATUS {
    // SAFETY: the framework's device, which outlives the call.
    if let Some(device) = unsafe { device_of(device) } {
        device.sleep(target.cast_unsigned());
    }
    STATUS_SUCCESS
}

/// EVT_WDF_DEVICE_SURPRISE_REMOVAL. PASSIVE_LEVEL.
unsafe extern "C" fn surprise_removal(device: WDFDEVICE) {
    // SAFETY: the framework's device, which outlives the call.
    if let Some(device) = unsafe { device_of(device) } {
        device.surprise_removed();
    }
}

/// EVT_WDF_FILE_CLEANUP and EVT_WDF_FILE_CLOSE. Cleanup: the last handle of a file object was
/// closed, or its process has ended. Close, later: none of its requests are left. Both are needed,
/// because another thread's request may have been served in between and have opened a session.
/// PASSIVE_LEVEL.
unsafe extern "C" fn file_cleanup(file: WDFFILEOBJECT) {
    // SAFETY: the framework's file object.
    let device = unsafe { wdf::device_of_file(file) };
    // SAFETY: a file object's device outlives it.
    if let Some(device) = unsafe { device_of(device) } {
        device.handle_closed(file.addr() as u64);
    }
}

/// EVT_WDF_IO_QUEUE_IO_DEVICE_CONTROL. PASSIVE_LEVEL, because of the device's execution level.
unsafe extern "C" fn device_control(
    queue: WDFQUEUE,
    request: WDFREQUEST,
    output: usize,
    input: usize,
    code: u32,
) {
    // SAFETY: the framework has just given it to the driver.
    let mut request = unsafe { Request::new(request) };
    // SAFETY: the framework's queue.
    let device = unsafe { wdf::device_of_queue(queue) };
    // SAFETY: a queue's device outlives it.
    let device = unsafe { device_of(device) };
    let completion = match (device, request.handle()) {
        (Some(device), Some(handle)) => answer(device, &mut request, handle, code, input, output),
        (None, _) => Completion::failed(NtStatus::DEVICE_NOT_READY),
        (_, None) => Completion::failed(NtStatus::INVALID_DEVICE_REQUEST),
    };
    request.complete(completion.status.0, completion.length);
}

/// Serves a request that came through a handle. PASSIVE_LEVEL.
fn answer(
    device: &Device,
    request: &mut Request,
    handle: u64,
    code: u32,
    input: usize,
    output: usize,
) -> Completion {
    let client = Client {
        handle,
        process: request.process(),
        // Only CONFIGURE needs to know.
        kernel_addresses: code == session::CONFIGURE.0 && request.may_debug(),
    };
    let buffer = if request::Request::decode(RequestCode(code)).is_some() {
        // SAFETY: all of halprof's codes are METHOD_BUFFERED.
        unsafe { request.buffer(input, output) }
    } else {
        None
    };
    device.request(client, code, buffer.unwrap_or_default(), input, output)
}

/// PROCESSOR_CALLBACK_FUNCTION. PASSIVE_LEVEL. A processor can be used once its addition is
/// complete.
unsafe extern "C" fn processor_change(
    context: *mut c_void,
    change: *mut KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT,
    _status: *mut NTSTATUS,
) {
    // SAFETY: the context is the device that was registered; deregistering waits for this.
    let device = unsafe { device_of(context.cast()) };
    // SAFETY: Windows' context, which outlives the call.
    let change = unsafe { &*change };
    let complete = _KE_PROCESSOR_CHANGE_NOTIFY_STATE::KeProcessorAddCompleteNotify;
    if let (Some(device), true) = (device, change.State == complete) {
        device.processor_added(change.NtNumber as usize);
    }
}
