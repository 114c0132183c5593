//! Framework objects: the driver, the device with its names and its queue, requests.

use super::{Failed, TAG, check};
use crate::callbacks;
use crate::device::Device;
use core::mem::{MaybeUninit, size_of};
use core::ptr::{addr_of_mut, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use shared_types::device::{INTERFACE, LINK_NAME, NT_NAME, SECURITY, utf16};
use wdk_sys::ntddk::{
    IoGetRequestorProcessId, KeDeregisterProcessorChangeCallback, KeRegisterProcessorChangeCallback,
};
use wdk_sys::{
    _WDF_EXECUTION_LEVEL, _WDF_FILEOBJECT_CLASS, _WDF_IO_QUEUE_DISPATCH_TYPE,
    _WDF_SYNCHRONIZATION_SCOPE, _WDF_TRI_STATE, DRIVER_OBJECT, FILE_DEVICE_SECURE_OPEN,
    FILE_DEVICE_UNKNOWN, GUID, PCUNICODE_STRING, PVOID, PWDFDEVICE_INIT,
    STATUS_INSUFFICIENT_RESOURCES, UNICODE_STRING, WDF_DRIVER_CONFIG, WDF_FILEOBJECT_CONFIG,
    WDF_IO_QUEUE_CONFIG, WDF_NO_HANDLE, WDF_NO_OBJECT_ATTRIBUTES, WDF_OBJECT_ATTRIBUTES,
    WDF_OBJECT_CONTEXT_TYPE_INFO, WDF_PNPPOWER_EVENT_CALLBACKS, WDFDEVICE, WDFOBJECT, WDFREQUEST,
    call_unsafe_wdf_function_binding,
};

/// What the framework keeps with a device.
#[repr(C)]
struct Context {
    /// `device` is there.
    ready: AtomicBool,
    device: MaybeUninit<Device>,
    /// The registration for added processors.
    added: AtomicPtr<core::ffi::c_void>,
}

/// A context type, which the framework knows by its address.
struct ContextType(WDF_OBJECT_CONTEXT_TYPE_INFO);

// SAFETY: nobody changes it.
unsafe impl Sync for ContextType {}

static CONTEXT: ContextType = ContextType(WDF_OBJECT_CONTEXT_TYPE_INFO {
    Size: size_of::<WDF_OBJECT_CONTEXT_TYPE_INFO>() as u32,
    ContextName: c"Context".as_ptr().cast_mut().cast(),
    ContextSize: size_of::<Context>(),
    UniqueType: &raw const CONTEXT.0,
    EvtDriverGetUniqueContextType: None,
});

/// WDF_OBJECT_ATTRIBUTES_INIT.
#[must_use]
pub(crate) fn attributes() -> WDF_OBJECT_ATTRIBUTES {
    WDF_OBJECT_ATTRIBUTES {
        Size: size_of::<WDF_OBJECT_ATTRIBUTES>() as u32,
        ExecutionLevel: _WDF_EXECUTION_LEVEL::WdfExecutionLevelInheritFromParent,
        SynchronizationScope: _WDF_SYNCHRONIZATION_SCOPE::WdfSynchronizationScopeInheritFromParent,
        ..Default::default()
    }
}

/// Text that the framework copies during one call.
fn unicode(text: &[u16]) -> UNICODE_STRING {
    let bytes = size_of_val(text) as u16;
    UNICODE_STRING {
        Length: bytes,
        MaximumLength: bytes,
        Buffer: text.as_ptr().cast_mut(),
    }
}

/// Creates the driver object; nothing else is made before a device is added. PASSIVE_LEVEL.
///
/// # Safety
/// Both are what Windows gave DriverEntry.
pub(crate) unsafe fn create_driver(
    driver: *mut DRIVER_OBJECT,
    registry_path: PCUNICODE_STRING,
) -> Result<(), Failed> {
    let mut config = WDF_DRIVER_CONFIG {
        Size: size_of::<WDF_DRIVER_CONFIG>() as u32,
        EvtDriverDeviceAdd: Some(callbacks::device_add),
        DriverPoolTag: TAG,
        ..Default::default()
    };
    // SAFETY: the caller's promise; the configuration is complete.
    check(unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDriverCreate,
            driver,
            registry_path,
            WDF_NO_OBJECT_ATTRIBUTES,
            &raw mut config,
            WDF_NO_HANDLE.cast()
        )
    })
}

/// Creates the device with all that belongs to it. Where a step fails, the framework deletes the
/// device with what was made before. PASSIVE_LEVEL.
///
/// # Safety
/// `init` is what the framework gave EvtDriverDeviceAdd.
pub(crate) unsafe fn create_device(mut init: PWDFDEVICE_INIT) -> Result<(), Failed> {
    // SAFETY: the caller's promise.
    unsafe { describe(init) }?;
    let mut attributes = attributes();
    attributes.ContextTypeInfo = &raw const CONTEXT.0;
    attributes.EvtCleanupCallback = Some(callbacks::device_cleanup);
    attributes.ExecutionLevel = _WDF_EXECUTION_LEVEL::WdfExecutionLevelPassive;
    attributes.SynchronizationScope = _WDF_SYNCHRONIZATION_SCOPE::WdfSynchronizationScopeNone;
    let mut device: WDFDEVICE = null_mut();
    // SAFETY: `init` is consumed; the attributes are complete.
    check(unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDeviceCreate,
            &raw mut init,
            &raw mut attributes,
            &raw mut device
        )
    })?;
    // SAFETY: the device was created just now.
    unsafe { fill_context(device) }?;
    // SAFETY: as above.
    unsafe { create_queue(device) }?;
    // SAFETY: as above.
    unsafe { publish(device) }
}

/// Says what the device will be.
///
/// # Safety
/// `init` belongs to a device that is not created yet.
unsafe fn describe(init: PWDFDEVICE_INIT) -> Result<(), Failed> {
    let mut power = WDF_PNPPOWER_EVENT_CALLBACKS {
        Size: size_of::<WDF_PNPPOWER_EVENT_CALLBACKS>() as u32,
        EvtDevicePrepareHardware: Some(callbacks::prepare_hardware),
        EvtDeviceReleaseHardware: Some(callbacks::release_hardware),
        EvtDeviceD0Entry: Some(callbacks::d0_entry),
        EvtDeviceD0Exit: Some(callbacks::d0_exit),
        EvtDeviceSurpriseRemoval: Some(callbacks::surprise_removal),
        ..Default::default()
    };
    let mut files = WDF_FILEOBJECT_CONFIG {
        Size: size_of::<WDF_FILEOBJECT_CONFIG>() as u32,
        EvtDeviceFileCreate: None,
        EvtFileClose: Some(callbacks::file_cleanup),
        EvtFileCleanup: Some(callbacks::file_cleanup),
        AutoForwardCleanupClose: _WDF_TRI_STATE::WdfUseDefault,
        FileObjectClass: _WDF_FILEOBJECT_CLASS::WdfFileObjectWdfCanUseFsContext,
    };
    let name: [u16; NT_NAME.len()] = utf16(NT_NAME);
    let name = unicode(&name);
    let security: [u16; SECURITY.len()] = utf16(SECURITY);
    let security = unicode(&security);
    // SAFETY: `init` is the caller's promise; the configuration is complete.
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
    // SAFETY: as above.
    unsafe {
        call_unsafe_wdf_function_binding!(WdfDeviceInitSetDeviceType, init, FILE_DEVICE_UNKNOWN);
    };
    // SAFETY: as above. Opening a name below the device's needs the same rights.
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

/// # Safety
/// `device` was created with this module's context type, and nobody has its context yet.
unsafe fn fill_context(device: WDFDEVICE) -> Result<(), Failed> {
    // SAFETY: the caller's promise. The framework has zeroed the context, and as zeros each of its
    // fields means that it is not there.
    let context = unsafe { context_of(device) };
    let made = Device::new(device.cast())?;
    // SAFETY: the context is the framework's memory for this device.
    let place = unsafe { addr_of_mut!((*context).device) };
    // SAFETY: as above.
    unsafe { place.write(MaybeUninit::new(made)) };
    // SAFETY: complete now.
    let context = unsafe { &*context };
    context.ready.store(true, Ordering::Release);
    Ok(())
}

/// From here on the device is told of processors that are added. PASSIVE_LEVEL.
///
/// # Safety
/// `device` was created by [`create_device`]; [`ignore_processors`] comes before it is deleted.
pub(crate) unsafe fn watch_processors(device: WDFDEVICE) -> Result<(), Failed> {
    // SAFETY: the caller's promise.
    let context = unsafe { context_of(device) };
    // SAFETY: the framework's memory for this device.
    let context = unsafe { &*context };
    // SAFETY: PASSIVE_LEVEL; it is deregistered before the device goes.
    let added = unsafe {
        KeRegisterProcessorChangeCallback(Some(callbacks::processor_change), device.cast(), 0)
    };
    if added.is_null() {
        return Err(Failed(STATUS_INSUFFICIENT_RESOURCES));
    }
    context.added.store(added, Ordering::Release);
    Ok(())
}

/// Ends [`watch_processors`], where that has begun. It cannot wait for the device's cleanup: the
/// framework deletes a device's lock, which is its child, before that. PASSIVE_LEVEL, without the
/// lock: a callback that runs may be waiting for it.
///
/// # Safety
/// As for [`watch_processors`].
pub(crate) unsafe fn ignore_processors(device: WDFDEVICE) {
    // SAFETY: the caller's promise.
    let context = unsafe { context_of(device) };
    // SAFETY: the framework's memory for this device.
    let added = unsafe { (*context).added.swap(null_mut(), Ordering::AcqRel) };
    if !added.is_null() {
        // SAFETY: registered by `watch_processors`; waits for a callback that is running.
        unsafe { KeDeregisterProcessorChangeCallback(added) };
    }
}

/// # Safety
/// `device` was created with this module's context type.
unsafe fn context_of(device: WDFDEVICE) -> *mut Context {
    // SAFETY: the caller's promise.
    unsafe {
        call_unsafe_wdf_function_binding!(
            WdfObjectGetTypedContextWorker,
            device.cast(),
            &raw const CONTEXT.0
        )
    }
    .cast()
}

/// The device behind a framework device; `None` before it is made and after it has gone. Any IRQL.
///
/// # Safety
/// `device` was created by [`create_device`], and is not deleted while the answer is used.
pub(crate) unsafe fn device<'a>(device: WDFDEVICE) -> Option<&'a Device> {
    // SAFETY: the caller's promise.
    let context = unsafe { context_of(device) };
    // SAFETY: the framework's memory for this device; zeros until it is filled.
    let context = unsafe { &*context };
    if context.ready.load(Ordering::Acquire) {
        // SAFETY: it was written before `ready` was.
        Some(unsafe { context.device.assume_init_ref() })
    } else {
        None
    }
}

/// The framework device is going: undoes [`create_device`]. PASSIVE_LEVEL.
///
/// # Safety
/// Called once, from the cleanup callback of `device`.
pub(crate) unsafe fn destroy_device(device: WDFDEVICE) {
    // SAFETY: the caller's promise.
    let context = unsafe { context_of(device) };
    // SAFETY: the framework's memory for this device, and nobody else has a reference now.
    let context = unsafe { &mut *context };
    if context.ready.swap(false, Ordering::AcqRel) {
        // SAFETY: it was written before `ready` was.
        unsafe { context.device.assume_init_drop() };
    }
}

/// One queue for all requests, one at a time. It is not power-managed: a request that cannot be
/// served while the machine sleeps is refused by the service, not held.
///
/// # Safety
/// `device` exists.
unsafe fn create_queue(device: WDFDEVICE) -> Result<(), Failed> {
    let mut config = WDF_IO_QUEUE_CONFIG {
        Size: size_of::<WDF_IO_QUEUE_CONFIG>() as u32,
        DispatchType: _WDF_IO_QUEUE_DISPATCH_TYPE::WdfIoQueueDispatchSequential,
        PowerManaged: _WDF_TRI_STATE::WdfFalse,
        DefaultQueue: 1,
        EvtIoDeviceControl: Some(callbacks::device_control),
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

/// Makes the device reachable from user mode, by its interface and by its name.
///
/// # Safety
/// `device` exists.
unsafe fn publish(device: WDFDEVICE) -> Result<(), Failed> {
    let interface = GUID {
        Data1: INTERFACE.0,
        Data2: INTERFACE.1,
        Data3: INTERFACE.2,
        Data4: INTERFACE.3,
    };
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

/// The buffer of a METHOD_BUFFERED request, which both sides share: as long as the longer of them.
/// `None` where the request has none.
///
/// # Safety
/// `request` is not completed while the answer is used, and nobody else uses its buffer.
pub(crate) unsafe fn buffer<'a>(
    request: WDFREQUEST,
    input: usize,
    output: usize,
) -> Option<&'a mut [u8]> {
    let length = input.max(output);
    let (mut at, mut retrieved): (PVOID, usize) = (null_mut(), 0);
    let status = if input >= output {
        // SAFETY: the caller's promise; address and length are written.
        unsafe {
            call_unsafe_wdf_function_binding!(
                WdfRequestRetrieveInputBuffer,
                request,
                length,
                &raw mut at,
                &raw mut retrieved
            )
        }
    } else {
        // SAFETY: the caller's promise; address and length are written.
        unsafe {
            call_unsafe_wdf_function_binding!(
                WdfRequestRetrieveOutputBuffer,
                request,
                length,
                &raw mut at,
                &raw mut retrieved
            )
        }
    };
    check(status).ok()?;
    // SAFETY: the I/O manager's buffer has the length of the longer side, and both retrievals
    // answer its start.
    Some(unsafe { core::slice::from_raw_parts_mut(at.cast(), length) })
}

/// The process that made a request. At most DISPATCH_LEVEL.
///
/// # Safety
/// `request` is not completed.
#[must_use]
pub(crate) unsafe fn process_of(request: WDFREQUEST) -> u32 {
    // SAFETY: the caller's promise.
    let irp = unsafe { call_unsafe_wdf_function_binding!(WdfRequestWdmGetIrp, request) };
    // SAFETY: the request's IRP.
    unsafe { IoGetRequestorProcessId(irp) }
}

/// The handle that a request came by, as a number that no other open handle has.
///
/// # Safety
/// `request` is not completed.
#[must_use]
pub(crate) unsafe fn handle_of(request: WDFREQUEST) -> u64 {
    // SAFETY: the caller's promise.
    let file = unsafe { call_unsafe_wdf_function_binding!(WdfRequestGetFileObject, request) };
    file.addr() as u64
}

/// The device of a queue.
///
/// # Safety
/// `queue` exists.
#[must_use]
pub(crate) unsafe fn device_of_queue(queue: wdk_sys::WDFQUEUE) -> WDFDEVICE {
    // SAFETY: the caller's promise.
    unsafe { call_unsafe_wdf_function_binding!(WdfIoQueueGetDevice, queue) }
}

/// The device of a file object.
///
/// # Safety
/// `file` exists.
#[must_use]
pub(crate) unsafe fn device_of_file(file: wdk_sys::WDFFILEOBJECT) -> WDFDEVICE {
    // SAFETY: the caller's promise.
    unsafe { call_unsafe_wdf_function_binding!(WdfFileObjectGetDevice, file) }
}

/// Completes a request. At most DISPATCH_LEVEL.
///
/// # Safety
/// `request` is not completed yet, and is not used after this.
pub(crate) unsafe fn complete(request: WDFREQUEST, status: u32, length: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        call_unsafe_wdf_function_binding!(
            WdfRequestCompleteWithInformation,
            request,
            status.cast_signed(),
            length as u64
        );
    };
}

/// The parent of what a device owns.
pub(crate) type Parent = WDFOBJECT;
