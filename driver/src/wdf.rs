//! The driver's one device, as the framework and the kernel know it: whether it may go, who tells
//! it of added processors, and its requests.
#![expect(unsafe_code, reason = "calls into KMDF and the kernel")]

use crate::status::{Failed, check};
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use wdk_sys::ntddk::{
    IoGetRequestorProcessId, KeDeregisterProcessorChangeCallback,
    KeRegisterProcessorChangeCallback, ObfDereferenceObject, ObfReferenceObject,
    PsGetCurrentProcessId, SeSinglePrivilegeCheck,
};
use wdk_sys::{
    _MODE, _WDF_EXECUTION_LEVEL, _WDF_SYNCHRONIZATION_SCOPE, DRIVER_OBJECT, LUID,
    PPROCESSOR_CALLBACK_FUNCTION, PVOID, SE_DEBUG_PRIVILEGE, STATUS_INSUFFICIENT_RESOURCES,
    WDF_OBJECT_ATTRIBUTES, WDFDEVICE, WDFDEVICE__, WDFREQUEST, call_unsafe_wdf_function_binding,
};

/// The driver object that Windows gave DriverEntry.
static DRIVER: AtomicPtr<DRIVER_OBJECT> = AtomicPtr::new(null_mut());
/// The framework's device; null before it is created.
static WDF_DEVICE: AtomicPtr<WDFDEVICE__> = AtomicPtr::new(null_mut());
/// The registration for added processors; null if there is none.
static ADDED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Notes the driver object.
///
/// # Safety
/// It is the one that Windows gave DriverEntry.
pub(crate) unsafe fn set_driver(driver: *mut DRIVER_OBJECT) {
    DRIVER.store(driver, Ordering::Relaxed);
}

/// Notes the device.
///
/// # Safety
/// It has been created, and what asks for it is used only as long as it exists.
pub(crate) unsafe fn set_device(device: WDFDEVICE) {
    WDF_DEVICE.store(device, Ordering::Release);
}

/// The device.
pub(crate) fn device() -> WDFDEVICE {
    WDF_DEVICE.load(Ordering::Acquire)
}

/// Keeps the driver in memory, by a reference to the driver object. At most DISPATCH_LEVEL.
pub(crate) fn pin() {
    // As long as there is a reference, Windows does not unload the image; IoCreateSystemThread
    // keeps a driver in memory in the same way (WDK, "IoCreateSystemThread").
    // SAFETY: the driver object exists as long as its code runs.
    let _ = unsafe { ObfReferenceObject(DRIVER.load(Ordering::Relaxed).cast()) };
}

/// Undoes [`pin`]. At most DISPATCH_LEVEL.
pub(crate) fn unpin() {
    // SAFETY: `pin` took the reference; the device, which exists, has another.
    let _ = unsafe { ObfDereferenceObject(DRIVER.load(Ordering::Relaxed).cast()) };
}

/// The framework refuses to stop or remove the device as long as this exists.
#[derive(Debug)]
pub(crate) struct RemovalBlock(());

impl RemovalBlock {
    /// At most DISPATCH_LEVEL.
    pub(crate) fn new() -> Self {
        // Only a query is refused: a removal that has begun and a surprise removal go on.
        set_removable(false);
        Self(())
    }
}

impl Drop for RemovalBlock {
    /// At most DISPATCH_LEVEL.
    fn drop(&mut self) {
        // The framework counts: each FALSE has its TRUE, and one too many would keep the device
        // for ever.
        set_removable(true);
    }
}

fn set_removable(removable: bool) {
    // SAFETY: the device exists as long as its hardware, which alone has a `RemovalBlock`.
    unsafe {
        call_unsafe_wdf_function_binding!(WdfDeviceSetStaticStopRemove, device(), removable.into());
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

/// From now on, `processor_change` is called when a processor is added. PASSIVE_LEVEL.
///
/// # Safety
/// [`ignore_processors`] is called before the driver is unloaded.
pub(crate) unsafe fn watch_processors(
    processor_change: PPROCESSOR_CALLBACK_FUNCTION,
) -> Result<(), Failed> {
    // SAFETY: PASSIVE_LEVEL; the caller deregisters it.
    let added = unsafe { KeRegisterProcessorChangeCallback(processor_change, null_mut(), 0) };
    if added.is_null() {
        return Err(Failed(STATUS_INSUFFICIENT_RESOURCES));
    }
    ADDED.store(added, Ordering::Release);
    Ok(())
}

/// Undoes [`watch_processors`], if it was called. PASSIVE_LEVEL, without the device's lock: the
/// call waits for a running callback, which may be waiting for the lock.
pub(crate) fn ignore_processors() {
    // Swapped: ReleaseHardware follows a PrepareHardware that has failed and undone this itself.
    let added = ADDED.swap(null_mut(), Ordering::AcqRel);
    if !added.is_null() {
        // SAFETY: registered by `watch_processors`; the call waits for a running callback.
        unsafe { KeDeregisterProcessorChangeCallback(added) };
    }
}

/// A request that has not been completed.
#[derive(Debug)]
pub(crate) struct WdfRequest(WDFREQUEST);

impl WdfRequest {
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
    pub(crate) fn may_debug(&self) -> bool {
        // SeSinglePrivilegeCheck checks the calling thread. A request that had to wait in the queue
        // is presented by the thread that completed the one before, which may be another process',
        // whose privileges are irrelevant; the result is then `false`, and the library asks again.
        let privilege = LUID { LowPart: SE_DEBUG_PRIVILEGE, HighPart: 0 };
        // SAFETY: any IRQL.
        let current = unsafe { PsGetCurrentProcessId() };
        // UserMode, because a caller in kernel mode would hold every privilege.
        current.addr() as u32 == self.process()
            // SAFETY: PASSIVE_LEVEL.
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
        // Both give the same buffer, but each answers only up to its own length.
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
