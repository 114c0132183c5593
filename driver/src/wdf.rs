//! Framework objects: the driver, the device with its names and its queue, and requests.
//!
//! The framework's callbacks come in a table of [`Events`]; nothing here knows what they do.
#![expect(unsafe_code, reason = "calls into KMDF, and its objects' contexts")]

use crate::pool::TAG;
use crate::status::{Failed, check};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{addr_of_mut, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use shared_types::device::{INTERFACE, LINK_NAME, NT_NAME, SECURITY, utf16};
use wdk_sys::ntddk::{
    IoGetRequestorProcessId, KeDeregisterProcessorChangeCallback,
    KeRegisterProcessorChangeCallback, ObfDereferenceObject, ObfReferenceObject,
    PsGetCurrentProcessId, SeSinglePrivilegeCheck,
};
use wdk_sys::{
    _MODE, _WDF_EXECUTION_LEVEL, _WDF_FILEOBJECT_CLASS, _WDF_IO_QUEUE_DISPATCH_TYPE,
    _WDF_SYNCHRONIZATION_SCOPE, _WDF_TRI_STATE, DRIVER_OBJECT, FILE_DEVICE_SECURE_OPEN,
    FILE_DEVICE_UNKNOWN, GUID, LUID, PCUNICODE_STRING, PFN_WDF_DEVICE_D0_ENTRY,
    PFN_WDF_DEVICE_D0_EXIT, PFN_WDF_DEVICE_PREPARE_HARDWARE, PFN_WDF_DEVICE_RELEASE_HARDWARE,
    PFN_WDF_DEVICE_SURPRISE_REMOVAL, PFN_WDF_DRIVER_DEVICE_ADD, PFN_WDF_FILE_CLEANUP,
    PFN_WDF_FILE_CLOSE, PFN_WDF_IO_QUEUE_IO_DEVICE_CONTROL, PFN_WDF_OBJECT_CONTEXT_CLEANUP,
    PPROCESSOR_CALLBACK_FUNCTION, PVOID, PWDFDEVICE_INIT, SE_DEBUG_PRIVILEGE,
    STATUS_INSUFFICIENT_RESOURCES, UNICODE_STRING, WDF_DRIVER_CONFIG, WDF_FILEOBJECT_CONFIG,
    WDF_IO_QUEUE_CONFIG, WDF_NO_HANDLE, WDF_NO_OBJECT_ATTRIBUTES, WDF_OBJECT_ATTRIBUTES,
    WDF_OBJECT_CONTEXT_TYPE_INFO, WDF_PNPPOWER_EVENT_CALLBACKS, WDFDEVICE, WDFOBJECT, WDFREQUEST,
    call_unsafe_wdf_function_binding,
};

/// The framework's callbacks for a device.
pub(crate) struct Events {
    pub(crate) cleanup: PFN_WDF_OBJECT_CONTEXT_CLEANUP,
    pub(crate) prepare_hardware: PFN_WDF_DEVICE_PREPARE_HARDWARE,
    pub(crate) release_hardware: PFN_WDF_DEVICE_RELEASE_HARDWARE,
    pub(crate) d0_entry: PFN_WDF_DEVICE_D0_ENTRY,
    pub(crate) d0_exit: PFN_WDF_DEVICE_D0_EXIT,
    pub(crate) surprise_removal: PFN_WDF_DEVICE_SURPRISE_REMOVAL,
    pub(crate) file_cleanup: PFN_WDF_FILE_CLEANUP,
    pub(crate) file_close: PFN_WDF_FILE_CLOSE,
    pub(crate) device_control: PFN_WDF_IO_QUEUE_IO_DEVICE_CONTROL,
}

/// The driver object that Windows gave DriverEntry.
static DRIVER: AtomicPtr<DRIVER_OBJECT> = AtomicPtr::new(null_mut());

/// The framework's device, for objects that belong to it and are therefore deleted before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner(WDFDEVICE);

// SAFETY: a handle; the framework synchronizes its use.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    /// The device as the parent of other objects.
    pub(crate) fn object(self) -> WDFOBJECT {
        self.0.cast()
    }

    fn set_removable(self, removable: bool) {
        // SAFETY: the device exists as long as the objects that belong to it.
        unsafe {
            call_unsafe_wdf_function_binding!(
                WdfDeviceSetStaticStopRemove,
                self.0,
                removable.into()
            );
        }
    }

    /// Keeps the driver in memory, by a reference to the driver object: as long as there is one,
    /// Windows does not unload the image (IoCreateSystemThread keeps a driver in memory in the same
    /// way). At most DISPATCH_LEVEL.
    #[expect(clippy::unused_self, reason = "that there is a device is what makes it sound")]
    pub(crate) fn pin(self) {
        // SAFETY: the driver object exists as long as its device.
        let _ = unsafe { ObfReferenceObject(DRIVER.load(Ordering::Relaxed).cast()) };
    }

    /// Undoes [`Self::pin`]. At most DISPATCH_LEVEL.
    #[expect(clippy::unused_self, reason = "that there is a device is what makes it sound")]
    pub(crate) fn unpin(self) {
        // SAFETY: `pin` took the reference; the device, which exists, has another.
        let _ = unsafe { ObfDereferenceObject(DRIVER.load(Ordering::Relaxed).cast()) };
    }
}

/// The framework refuses to stop or remove the device as long as this exists. This affects neither
/// a removal that has begun nor a surprise removal. The framework counts: each FALSE has its TRUE.
#[derive(Debug)]
pub(crate) struct Stay(Owner);

impl Stay {
    /// At most DISPATCH_LEVEL.
    pub(crate) fn new(owner: Owner) -> Self {
        owner.set_removable(false);
        Self(owner)
    }
}

impl Drop for Stay {
    /// At most DISPATCH_LEVEL.
    fn drop(&mut self) {
        self.0.set_removable(true);
    }
}

/// The context that the framework keeps with a device.
#[repr(C)]
struct Context<T> {
    /// `value` is initialised.
    ready: AtomicBool,
    value: MaybeUninit<T>,
    /// The registration for added processors.
    added: AtomicPtr<core::ffi::c_void>,
}

/// A context type, which the framework identifies by its address.
pub(crate) struct ContextType<T>(WDF_OBJECT_CONTEXT_TYPE_INFO, PhantomData<fn() -> T>);

// SAFETY: it is never changed.
unsafe impl<T> Sync for ContextType<T> {}

impl<T> ContextType<T> {
    /// The type stored at `own`.
    pub(crate) const fn new(own: &'static Self) -> Self {
        let info = WDF_OBJECT_CONTEXT_TYPE_INFO {
            Size: size_of::<WDF_OBJECT_CONTEXT_TYPE_INFO>() as u32,
            ContextName: c"Context".as_ptr().cast_mut().cast(),
            ContextSize: size_of::<Context<T>>(),
            UniqueType: &raw const own.0,
            EvtDriverGetUniqueContextType: None,
        };
        Self(info, PhantomData)
    }

    /// # Safety
    /// `device` was created with this type.
    unsafe fn of(&self, device: WDFDEVICE) -> *mut Context<T> {
        // SAFETY: the caller's promise.
        unsafe {
            call_unsafe_wdf_function_binding!(
                WdfObjectGetTypedContextWorker,
                device.cast(),
                &raw const self.0
            )
        }
        .cast()
    }
}

/// WDF_OBJECT_ATTRIBUTES_INIT.
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
    UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: text.as_ptr().cast_mut() }
}

/// Creates the framework's driver object; nothing else is created until a device is added.
/// PASSIVE_LEVEL.
///
/// # Safety
/// Both arguments are those that Windows gave DriverEntry.
pub(crate) unsafe fn create_driver(
    driver: *mut DRIVER_OBJECT,
    registry_path: PCUNICODE_STRING,
    device_add: PFN_WDF_DRIVER_DEVICE_ADD,
) -> Result<(), Failed> {
    DRIVER.store(driver, Ordering::Relaxed);
    let mut config = WDF_DRIVER_CONFIG {
        Size: size_of::<WDF_DRIVER_CONFIG>() as u32,
        EvtDriverDeviceAdd: device_add,
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

/// Creates the device with everything that belongs to it, including the value that `make` makes. If
/// a step fails, the framework deletes the device with everything made so far. PASSIVE_LEVEL.
///
/// # Safety
/// `init` is the one that the framework gave EvtDriverDeviceAdd.
pub(crate) unsafe fn create_device<T>(
    mut init: PWDFDEVICE_INIT,
    events: &Events,
    context: &'static ContextType<T>,
    make: impl FnOnce(Owner) -> Result<T, Failed>,
) -> Result<(), Failed> {
    // SAFETY: the caller's promise.
    unsafe { describe(init, events) }?;
    let mut attributes = attributes();
    attributes.ContextTypeInfo = &raw const context.0;
    attributes.EvtCleanupCallback = events.cleanup;
    // Requests wait for DPCs of other processors, which nothing above PASSIVE_LEVEL may do.
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
    // SAFETY: the device has just been created.
    unsafe { fill_context(device, context, make) }?;
    // SAFETY: as above.
    unsafe { create_queue(device, events) }?;
    // SAFETY: as above.
    unsafe { publish(device) }
}

/// Describes the device to be created.
///
/// # Safety
/// `init` belongs to a device that has not been created yet.
unsafe fn describe(init: PWDFDEVICE_INIT, events: &Events) -> Result<(), Failed> {
    let mut power = WDF_PNPPOWER_EVENT_CALLBACKS {
        Size: size_of::<WDF_PNPPOWER_EVENT_CALLBACKS>() as u32,
        EvtDevicePrepareHardware: events.prepare_hardware,
        EvtDeviceReleaseHardware: events.release_hardware,
        EvtDeviceD0Entry: events.d0_entry,
        EvtDeviceD0Exit: events.d0_exit,
        EvtDeviceSurpriseRemoval: events.surprise_removal,
        ..Default::default()
    };
    let mut files = WDF_FILEOBJECT_CONFIG {
        Size: size_of::<WDF_FILEOBJECT_CONFIG>() as u32,
        EvtDeviceFileCreate: None,
        EvtFileClose: events.file_close,
        EvtFileCleanup: events.file_cleanup,
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
    // SAFETY: as above.
    unsafe {
        call_unsafe_wdf_function_binding!(WdfDeviceInitSetDeviceType, init, FILE_DEVICE_UNKNOWN);
    };
    // SAFETY: as above. Opening a name below the device's requires the same rights.
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
/// `device` was created with this context type, and no reference to its context exists yet.
unsafe fn fill_context<T>(
    device: WDFDEVICE,
    context: &ContextType<T>,
    make: impl FnOnce(Owner) -> Result<T, Failed>,
) -> Result<(), Failed> {
    // SAFETY: the caller's promise. The framework has zeroed the context, and zero means "not set"
    // in each of its fields.
    let context = unsafe { context.of(device) };
    let new = make(Owner(device))?;
    // SAFETY: the context is the framework's memory for this device.
    let value = unsafe { addr_of_mut!((*context).value) };
    // SAFETY: as above.
    unsafe { value.write(MaybeUninit::new(new)) };
    // SAFETY: the context is now initialised.
    let context = unsafe { &*context };
    context.ready.store(true, Ordering::Release);
    Ok(())
}

/// From now on, the device is notified of added processors. PASSIVE_LEVEL.
///
/// # Safety
/// `device` was created by [`create_device`], and [`ignore_processors`] is called before it is
/// deleted.
pub(crate) unsafe fn watch_processors<T>(
    device: WDFDEVICE,
    context: &ContextType<T>,
    processor_change: PPROCESSOR_CALLBACK_FUNCTION,
) -> Result<(), Failed> {
    // SAFETY: the caller's promise.
    let context = unsafe { context.of(device) };
    // SAFETY: the framework's memory for this device.
    let context = unsafe { &*context };
    // SAFETY: PASSIVE_LEVEL; it is deregistered before the device is deleted.
    let added = unsafe { KeRegisterProcessorChangeCallback(processor_change, device.cast(), 0) };
    if added.is_null() {
        return Err(Failed(STATUS_INSUFFICIENT_RESOURCES));
    }
    context.added.store(added, Ordering::Release);
    Ok(())
}

/// Undoes [`watch_processors`], if it was called. This is not left to the device's cleanup: before
/// it, the framework cleans up the device's lock, which is its child. PASSIVE_LEVEL, without the
/// lock: a running callback may be waiting for it.
///
/// # Safety
/// As for [`watch_processors`].
pub(crate) unsafe fn ignore_processors<T>(device: WDFDEVICE, context: &ContextType<T>) {
    // SAFETY: the caller's promise.
    let context = unsafe { context.of(device) };
    // SAFETY: the framework's memory for this device.
    let added = unsafe { (*context).added.swap(null_mut(), Ordering::AcqRel) };
    if !added.is_null() {
        // SAFETY: registered by `watch_processors`; the call waits for a running callback.
        unsafe { KeDeregisterProcessorChangeCallback(added) };
    }
}

/// The value that [`create_device`] made; `None` before it is made and after it is dropped. Any
/// IRQL.
///
/// # Safety
/// `device` was created with this context type, and is not deleted while the result is used.
pub(crate) unsafe fn made<'a, T>(device: WDFDEVICE, context: &ContextType<T>) -> Option<&'a T> {
    // SAFETY: the caller's promise.
    let context = unsafe { context.of(device) };
    // SAFETY: the framework's memory for this device; all zeros until it is filled.
    let context = unsafe { &*context };
    // SAFETY: the value was written before `ready` was.
    let made = || unsafe { context.value.assume_init_ref() };
    context.ready.load(Ordering::Acquire).then(made)
}

/// Drops the value that [`create_device`] made, because the framework is deleting the device.
/// PASSIVE_LEVEL.
///
/// # Safety
/// Called once, from the cleanup callback of `device`.
pub(crate) unsafe fn destroy<T>(device: WDFDEVICE, context: &ContextType<T>) {
    // SAFETY: the caller's promise.
    let context = unsafe { context.of(device) };
    // SAFETY: the framework's memory for this device, and nobody else has a reference now.
    let context = unsafe { &mut *context };
    if context.ready.swap(false, Ordering::AcqRel) {
        // SAFETY: the value was written before `ready` was.
        unsafe { context.value.assume_init_drop() };
    }
}

/// Creates one queue for all requests, which it presents one at a time. It is not power-managed:
/// requests are also served in D3, where the service refuses only START.
///
/// # Safety
/// `device` exists.
unsafe fn create_queue(device: WDFDEVICE, events: &Events) -> Result<(), Failed> {
    let mut config = WDF_IO_QUEUE_CONFIG {
        Size: size_of::<WDF_IO_QUEUE_CONFIG>() as u32,
        // One at a time: the service runs under one lock anyway.
        DispatchType: _WDF_IO_QUEUE_DISPATCH_TYPE::WdfIoQueueDispatchSequential,
        PowerManaged: _WDF_TRI_STATE::WdfFalse,
        DefaultQueue: 1,
        EvtIoDeviceControl: events.device_control,
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

/// The device of a queue.
///
/// # Safety
/// `queue` exists.
pub(crate) unsafe fn device_of_queue(queue: wdk_sys::WDFQUEUE) -> WDFDEVICE {
    // SAFETY: the caller's promise.
    unsafe { call_unsafe_wdf_function_binding!(WdfIoQueueGetDevice, queue) }
}

/// The device of a file object.
///
/// # Safety
/// `file` exists.
pub(crate) unsafe fn device_of_file(file: wdk_sys::WDFFILEOBJECT) -> WDFDEVICE {
    // SAFETY: the caller's promise.
    unsafe { call_unsafe_wdf_function_binding!(WdfFileObjectGetDevice, file) }
}

/// A request that has not been completed.
#[derive(Debug)]
pub(crate) struct Request(WDFREQUEST);

impl Request {
    /// # Safety
    /// The framework has just given the request to the driver.
    pub(crate) const unsafe fn new(request: WDFREQUEST) -> Self {
        Self(request)
    }

    /// The handle through which the request came, as a number that no other open handle has; `None`
    /// if another driver sent it without one. At most DISPATCH_LEVEL.
    pub(crate) fn handle(&self) -> Option<u64> {
        // SAFETY: the request has not been completed.
        let file = unsafe { call_unsafe_wdf_function_binding!(WdfRequestGetFileObject, self.0) };
        (!file.is_null()).then(|| file.addr() as u64)
    }

    /// The process that made the request. At most DISPATCH_LEVEL.
    pub(crate) fn process(&self) -> u32 {
        // SAFETY: the request has not been completed.
        let irp = unsafe { call_unsafe_wdf_function_binding!(WdfRequestWdmGetIrp, self.0) };
        // SAFETY: the IRP is the request's.
        unsafe { IoGetRequestorProcessId(irp) }
    }

    /// Whether the process that made the request has SeDebugPrivilege enabled, which Windows
    /// requires for kernel addresses. PASSIVE_LEVEL.
    ///
    /// SeSinglePrivilegeCheck checks the calling thread. A request that had to wait in the queue
    /// can be presented by a thread of another process, whose privileges are irrelevant; the result
    /// is then `false`, and the library asks again.
    pub(crate) fn may_debug(&self) -> bool {
        let privilege = LUID { LowPart: SE_DEBUG_PRIVILEGE, HighPart: 0 };
        // SAFETY: any IRQL.
        let current = unsafe { PsGetCurrentProcessId() };
        current.addr() as u32 == self.process()
            // SAFETY: PASSIVE_LEVEL. UserMode, because a caller in kernel mode would hold every
            // privilege.
            && unsafe { SeSinglePrivilegeCheck(privilege, _MODE::UserMode as i8) } != 0
    }

    /// The buffer of a METHOD_BUFFERED request, which input and output share: as long as the longer
    /// of the two. `None` if the request has no buffer. At most DISPATCH_LEVEL.
    ///
    /// # Safety
    /// The request's code is METHOD_BUFFERED; with the other methods, the client could change the
    /// buffer at any time.
    pub(crate) unsafe fn buffer(&mut self, input: usize, output: usize) -> Option<&mut [u8]> {
        let length = input.max(output);
        let (mut at, mut retrieved): (PVOID, usize) = (null_mut(), 0);
        let status = if input >= output {
            // SAFETY: the request has not been completed; address and length are written.
            unsafe {
                call_unsafe_wdf_function_binding!(
                    WdfRequestRetrieveInputBuffer,
                    self.0,
                    length,
                    &raw mut at,
                    &raw mut retrieved
                )
            }
        } else {
            // SAFETY: as above.
            unsafe {
                call_unsafe_wdf_function_binding!(
                    WdfRequestRetrieveOutputBuffer,
                    self.0,
                    length,
                    &raw mut at,
                    &raw mut retrieved
                )
            }
        };
        check(status).ok()?;
        // SAFETY: the I/O manager's buffer is as long as the longer of input and output, both
        // retrievals return its start, and the request is borrowed exclusively.
        Some(unsafe { core::slice::from_raw_parts_mut(at.cast(), length) })
    }

    /// Completes the request. At most DISPATCH_LEVEL.
    pub(crate) fn complete(self, status: u32, length: usize) {
        // SAFETY: the request has not been completed yet, and is not used after this.
        unsafe {
            call_unsafe_wdf_function_binding!(
                WdfRequestCompleteWithInformation,
                self.0,
                status.cast_signed(),
                length as u64
            );
        };
    }
}
