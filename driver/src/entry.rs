//! Entry points: DriverEntry, the device that it leads to, and the framework's callbacks. Each
//! callback turns its arguments into checked types and calls safe code.
//!
//! The safety contract of each callback is the framework's: it is called with the arguments that
//! the documentation of its type describes, at the IRQL stated there.
#![expect(unsafe_code, reason = "raw pointers and handles from Windows")]

use crate::debugger::HALPROF;
use crate::device::DEVICE;
use crate::pool::TAG;
use crate::status::{Failed, check};
use crate::trace;
use crate::wdf::{self, WdfRequest};
use core::ffi::c_void;
use core::hint::black_box;
use core::ptr::null_mut;
use hal_profile::service::Completion;
use hal_profile::service::session::Client;
use shared_types::NtStatus;
use shared_types::device::{INTERFACE, LINK_NAME, NT_NAME, SECURITY, utf16};
use shared_types::request::{Request, RequestCode};
use wdk_sys::{
    _KE_PROCESSOR_CHANGE_NOTIFY_STATE, _WDF_EXECUTION_LEVEL, _WDF_FILEOBJECT_CLASS,
    _WDF_IO_QUEUE_DISPATCH_TYPE, _WDF_SYNCHRONIZATION_SCOPE, _WDF_TRI_STATE, DRIVER_OBJECT,
    FILE_DEVICE_SECURE_OPEN, GUID, KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT, NTSTATUS, PCUNICODE_STRING,
    PWDFDEVICE_INIT, STATUS_SUCCESS, UNICODE_STRING, WDF_DRIVER_CONFIG, WDF_FILEOBJECT_CONFIG,
    WDF_IO_QUEUE_CONFIG, WDF_NO_HANDLE, WDF_NO_OBJECT_ATTRIBUTES, WDF_PNPPOWER_EVENT_CALLBACKS,
    WDF_POWER_DEVICE_STATE, WDFCMRESLIST, WDFDEVICE, WDFDRIVER, WDFFILEOBJECT, WDFOBJECT, WDFQUEUE,
    WDFREQUEST, call_unsafe_wdf_function_binding,
};

fn status(result: Result<(), Failed>) -> NTSTATUS {
    result.err().map_or(STATUS_SUCCESS, |failed| failed.0)
}

/// Called when the driver is loaded. Creates the framework's driver object; nothing else is created
/// until a device is added. PASSIVE_LEVEL.
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
    // SAFETY: Windows' argument.
    unsafe { wdf::set_driver(driver) };
    // No EvtDriverUnload: nothing outlives the device but a pinned handler, which keeps Windows from
    // unloading.
    let mut config = WDF_DRIVER_CONFIG {
        Size: size_of::<WDF_DRIVER_CONFIG>() as u32,
        EvtDriverDeviceAdd: Some(device_add),
        DriverPoolTag: TAG,
        ..Default::default()
    };
    // SAFETY: the arguments come from Windows; the configuration is complete.
    unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDriverCreate,
            driver,
            registry_path,
            WDF_NO_OBJECT_ATTRIBUTES,
            &raw mut config,
            WDF_NO_HANDLE.cast()
        )
    }
}

/// EVT_WDF_DRIVER_DEVICE_ADD. PASSIVE_LEVEL.
unsafe extern "C" fn device_add(_driver: WDFDRIVER, init: PWDFDEVICE_INIT) -> NTSTATUS {
    // SAFETY: `init` comes from the framework.
    status(unsafe { create_device(init) })
}

/// Creates the device with everything that belongs to it. If a step fails, the framework deletes
/// the device with everything made so far. PASSIVE_LEVEL.
///
/// # Safety
/// `init` is the one that the framework gave EvtDriverDeviceAdd.
unsafe fn create_device(mut init: PWDFDEVICE_INIT) -> Result<(), Failed> {
    // SAFETY: the caller's promise.
    unsafe { describe(init) }?;
    let mut attributes = wdf::attributes();
    attributes.EvtCleanupCallback = Some(device_cleanup);
    // Requests wait for DPCs of other processors, which nothing above PASSIVE_LEVEL may do.
    attributes.ExecutionLevel = _WDF_EXECUTION_LEVEL::WdfExecutionLevelPassive;
    attributes.SynchronizationScope = _WDF_SYNCHRONIZATION_SCOPE::WdfSynchronizationScopeNone;
    let mut device: WDFDEVICE = null_mut();
    // A second device fails here, with STATUS_OBJECT_NAME_COLLISION: its name is taken until the
    // first is deleted. So one `DEVICE` serves all. Its attributes, with the cleanup callback, are not
    // attached then (fxdeviceapi.cpp of KMDF's published source).
    // SAFETY: `init` is consumed; the attributes are complete.
    check(unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDeviceCreate,
            &raw mut init,
            &raw mut attributes,
            &raw mut device
        )
    })?;
    // SAFETY: the device has just been created; its hardware is released before it is deleted.
    unsafe { wdf::set_device(device) };
    // Before the queue, whose requests take the lock.
    DEVICE.state.create()?;
    // SAFETY: as above.
    unsafe { create_queue(device) }?;
    // SAFETY: as above.
    unsafe { publish(device) }
}

/// Describes the device to be created.
///
/// # Safety
/// `init` belongs to a device that has not been created yet.
unsafe fn describe(init: PWDFDEVICE_INIT) -> Result<(), Failed> {
    let mut power = WDF_PNPPOWER_EVENT_CALLBACKS {
        Size: size_of::<WDF_PNPPOWER_EVENT_CALLBACKS>() as u32,
        EvtDevicePrepareHardware: Some(prepare_hardware),
        EvtDeviceReleaseHardware: Some(release_hardware),
        EvtDeviceD0Entry: Some(d0_entry),
        EvtDeviceD0Exit: Some(d0_exit),
        ..Default::default()
    };
    let mut files = WDF_FILEOBJECT_CONFIG {
        Size: size_of::<WDF_FILEOBJECT_CONFIG>() as u32,
        EvtDeviceFileCreate: None,
        EvtFileClose: Some(file_closed),
        EvtFileCleanup: Some(file_closed),
        AutoForwardCleanupClose: _WDF_TRI_STATE::WdfUseDefault,
        // Another driver may send a request without a file object; such a request is refused.
        FileObjectClass: _WDF_FILEOBJECT_CLASS::WdfFileObjectWdfCanUseFsContext
            | _WDF_FILEOBJECT_CLASS::WdfFileObjectCanBeOptional,
    };
    let name: [u16; NT_NAME.len()] = utf16(NT_NAME);
    let name = unicode(&name);
    let security: [u16; SECURITY.len()] = utf16(SECURITY);
    let security = unicode(&security);
    // SAFETY: `init` is valid by the caller's promise; the configuration is complete.
    unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDeviceInitSetPnpPowerEventCallbacks,
            init,
            &raw mut power
        );
    };
    // SAFETY: as above.
    unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDeviceInitSetFileObjectConfig,
            init,
            &raw mut files,
            WDF_NO_OBJECT_ATTRIBUTES
        );
    };
    // Opening a name below the device's requires the same rights (WDK, "Controlling Device Namespace
    // Access").
    // SAFETY: as above.
    unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDeviceInitSetCharacteristics,
            init,
            FILE_DEVICE_SECURE_OPEN,
            1
        );
    };
    // SAFETY: as above; the name is copied.
    check(unsafe {
        call_unsafe_wdf_function_binding!(WdfDeviceInitAssignName, init, &raw const name)
    })?;
    // SAFETY: as above; the text is copied.
    check(unsafe {
        call_unsafe_wdf_function_binding!(WdfDeviceInitAssignSDDLString, init, &raw const security)
    })
}

/// Text that the framework copies during one call.
fn unicode(text: &[u16]) -> UNICODE_STRING {
    let bytes = size_of_val(text) as u16;
    UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: text.as_ptr().cast_mut() }
}

/// Creates one queue for all requests.
///
/// # Safety
/// `device` exists.
unsafe fn create_queue(device: WDFDEVICE) -> Result<(), Failed> {
    let mut config = WDF_IO_QUEUE_CONFIG {
        Size: size_of::<WDF_IO_QUEUE_CONFIG>() as u32,
        // One at a time: the service runs under one lock anyway.
        DispatchType: _WDF_IO_QUEUE_DISPATCH_TYPE::WdfIoQueueDispatchSequential,
        // Requests are also served in D3, where the service refuses only START and RDPMC: a client
        // can read what it has counted.
        PowerManaged: _WDF_TRI_STATE::WdfFalse,
        DefaultQueue: 1,
        EvtIoDeviceControl: Some(device_control),
        ..Default::default()
    };
    // SAFETY: the caller's promise; the configuration is complete.
    check(unsafe {
        call_unsafe_wdf_function_binding!(
            WdfIoQueueCreate,
            device,
            &raw mut config,
            WDF_NO_OBJECT_ATTRIBUTES,
            WDF_NO_HANDLE.cast()
        )
    })
}

/// Makes the device accessible from user mode, by its interface and by its name.
///
/// # Safety
/// `device` exists.
unsafe fn publish(device: WDFDEVICE) -> Result<(), Failed> {
    let interface =
        GUID { Data1: INTERFACE.0, Data2: INTERFACE.1, Data3: INTERFACE.2, Data4: INTERFACE.3 };
    // SAFETY: the caller's promise; the GUID is copied.
    check(unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDeviceCreateDeviceInterface,
            device,
            &raw const interface,
            core::ptr::null()
        )
    })?;
    let link: [u16; LINK_NAME.len()] = utf16(LINK_NAME);
    let link = unicode(&link);
    // SAFETY: the caller's promise; the name is copied.
    check(unsafe {
        call_unsafe_wdf_function_binding!(WdfDeviceCreateSymbolicLink, device, &raw const link)
    })
}

/// EVT_WDF_OBJECT_CONTEXT_CLEANUP of the device. PASSIVE_LEVEL.
unsafe extern "C" fn device_cleanup(_device: WDFOBJECT) {
    // SAFETY: the framework has cleaned up the lock, its child; no other callback of this device runs
    // or follows.
    unsafe { DEVICE.state.alone() }.clean_up();
}

/// EVT_WDF_DEVICE_PREPARE_HARDWARE. PASSIVE_LEVEL.
unsafe extern "C" fn prepare_hardware(
    _device: WDFDEVICE,
    _raw: WDFCMRESLIST,
    _translated: WDFCMRESLIST,
) -> NTSTATUS {
    // This comes before the processors are listed: a processor that is added in between is both
    // notified and listed, and one that is added after the listing would be missed.
    // SAFETY: ReleaseHardware comes before the driver is unloaded, also if this fails.
    let watching = unsafe { wdf::watch_processors(Some(processor_change)) };
    let prepared = watching.and_then(|()| DEVICE.prepare());
    if prepared.is_err() {
        wdf::ignore_processors();
    }
    status(prepared)
}

/// EVT_WDF_DEVICE_RELEASE_HARDWARE. PASSIVE_LEVEL.
unsafe extern "C" fn release_hardware(_device: WDFDEVICE, _translated: WDFCMRESLIST) -> NTSTATUS {
    // Not left to the device's cleanup: before that, the framework cleans up the device's lock, which
    // is its child and which the callback takes. A callback that comes in either order here finds no
    // hardware, or hardware that goes next.
    wdf::ignore_processors();
    DEVICE.release();
    STATUS_SUCCESS
}

/// EVT_WDF_DEVICE_D0_ENTRY. PASSIVE_LEVEL.
unsafe extern "C" fn d0_entry(_device: WDFDEVICE, _previous: WDF_POWER_DEVICE_STATE) -> NTSTATUS {
    DEVICE.wake();
    STATUS_SUCCESS
}

/// EVT_WDF_DEVICE_D0_EXIT. PASSIVE_LEVEL.
unsafe extern "C" fn d0_exit(_device: WDFDEVICE, target: WDF_POWER_DEVICE_STATE) -> NTSTATUS {
    DEVICE.sleep(target.cast_unsigned());
    STATUS_SUCCESS
}

/// EVT_WDF_FILE_CLEANUP and EVT_WDF_FILE_CLOSE. PASSIVE_LEVEL.
unsafe extern "C" fn file_closed(file: WDFFILEOBJECT) {
    // Cleanup: the last handle of a file object was closed, or its process has ended. Close, later:
    // none of its requests are left. Both are needed, because another thread's request may have
    // been served in between and have opened a session.
    DEVICE.handle_closed(file.addr() as u64);
}

/// EVT_WDF_IO_QUEUE_IO_DEVICE_CONTROL. PASSIVE_LEVEL, because of the device's execution level.
unsafe extern "C" fn device_control(
    _queue: WDFQUEUE,
    request: WDFREQUEST,
    output: usize,
    input: usize,
    code: u32,
) {
    // SAFETY: the framework has just given it to the driver.
    let mut request = unsafe { WdfRequest::new(request) };
    let process = request.process();
    let answer = request.handle().zip(Request::decode(RequestCode(code)));
    let Completion { status, length, error } = match answer {
        Some((handle, decoded)) => {
            let client = Client {
                handle,
                process,
                // Only CONFIGURE needs to know.
                kernel_addresses: decoded == Request::Configure && request.may_debug(),
            };
            // SAFETY: all of halprof's codes are METHOD_BUFFERED; with the other methods the client
            // could change the buffer while it is read.
            let buffer = unsafe { request.buffer(input, output) }.unwrap_or_default();
            DEVICE.request(client, decoded, buffer, input, output)
        }
        None => Completion::failed(NtStatus::INVALID_DEVICE_REQUEST),
    };
    if status != NtStatus::SUCCESS || error != 0 {
        trace::refuse(process, code, status.0, error);
    }
    request.complete(status.0, length);
}

/// PROCESSOR_CALLBACK_FUNCTION. PASSIVE_LEVEL.
unsafe extern "C" fn processor_change(
    _context: *mut c_void,
    change: *mut KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT,
    _status: *mut NTSTATUS,
) {
    // SAFETY: Windows' context, which outlives the call.
    let change = unsafe { &*change };
    // Not at the start of its addition, when nothing can run on it yet (WDK,
    // "KeRegisterProcessorChangeCallback").
    if change.State == _KE_PROCESSOR_CHANGE_NOTIFY_STATE::KeProcessorAddCompleteNotify {
        DEVICE.processor_added(change.NtNumber as usize);
    }
}
