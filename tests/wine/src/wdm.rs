//! The driver as Windows' I/O manager sees it: its entry, its dispatch routines and their IRPs.
//!
//! The layouts are those of 64-bit Windows (wdm.h), which Wine shares.
#![expect(unsafe_code, reason = "pointers from the kernel, and its functions")]

use crate::device::{Answer, Device, log};
use crate::settings::Settings;
use shared_types::NtStatus;
use shared_types::device::{Guid, INTERFACE, LINK_NAME, NT_NAME};
use shared_types::request::RequestCode;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::{self, null_mut};
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// IRP_MJ_CREATE, IRP_MJ_CLOSE, IRP_MJ_DEVICE_CONTROL, IRP_MJ_CLEANUP and IRP_MJ_PNP.
const CREATE: usize = 0;
const CLOSE: usize = 2;
const DEVICE_CONTROL: usize = 14;
const CLEANUP: usize = 18;
const PNP: usize = 27;
/// IRP_MN_START_DEVICE, IRP_MN_REMOVE_DEVICE and IRP_MN_SURPRISE_REMOVAL.
const START_DEVICE: u8 = 0;
const REMOVE_DEVICE: u8 = 2;
const SURPRISE_REMOVAL: u8 = 23;

const FILE_DEVICE_UNKNOWN: u32 = 0x22;
const FILE_DEVICE_SECURE_OPEN: u32 = 0x100;
const DO_BUFFERED_IO: u32 = 4;
const DO_DEVICE_INITIALIZING: u32 = 0x80;
const SL_PENDING_RETURNED: u8 = 1;
const STATUS_SUCCESS: i32 = 0;
const STATUS_PENDING: i32 = 0x103;
const STATUS_CANCELLED: i32 = 0xC000_0120_u32.cast_signed();
const STATUS_INVALID_PARAMETER: i32 = 0xC000_000D_u32.cast_signed();

type Dispatch = unsafe extern "system" fn(*mut DeviceObject, *mut Irp) -> i32;
type Cancel = unsafe extern "system" fn(*mut DeviceObject, *mut Irp);
type AddDevice = unsafe extern "system" fn(*mut DriverObject, *mut DeviceObject) -> i32;
type Unload = unsafe extern "system" fn(*mut DriverObject);

#[repr(C)]
struct UnicodeString {
    length: u16,
    maximum: u16,
    buffer: *mut u16,
}

#[repr(C)]
struct DriverObject {
    head: u64,
    device: *mut DeviceObject,
    flags: [u64; 4],
    extension: *mut DriverExtension,
    name: [u64; 6],
    unload: Unload,
    major: [Dispatch; 28],
}

#[repr(C)]
struct DriverExtension {
    driver: *mut DriverObject,
    add_device: AddDevice,
}

#[repr(C)]
struct DeviceObject {
    head: [u64; 6],
    flags: u32,
}

#[repr(C)]
struct Irp {
    head: [u64; 3],
    system_buffer: *mut u8,
    list: [u64; 2],
    status: i32,
    information: usize,
    modes: [u8; 3],
    current_location: u8,
    is_cancelled: u8,
    cancel_irql: u8,
    apc: [u8; 2],
    user: [u64; 4],
    cancel: Option<Cancel>,
    tail: [u64; 9],
    stack: *mut StackLocation,
}

#[repr(C)]
struct StackLocation {
    major: u8,
    minor: u8,
    flags: u8,
    control: u8,
    padding: u32,
    output: u32,
    padding2: u32,
    input: u32,
    padding3: u32,
    code: u32,
    padding4: u32,
    type3: u64,
    device: u64,
    file: usize,
    completion: [u64; 2],
}

const _: () = {
    assert!(offset_of!(DriverObject, device) == 8);
    assert!(offset_of!(DriverObject, extension) == 0x30);
    assert!(offset_of!(DriverObject, unload) == 0x68);
    assert!(offset_of!(DriverObject, major) == 0x70);
    assert!(offset_of!(DeviceObject, flags) == 0x30);
    assert!(offset_of!(Irp, system_buffer) == 0x18);
    assert!(offset_of!(Irp, status) == 0x30);
    assert!(offset_of!(Irp, information) == 0x38);
    assert!(offset_of!(Irp, current_location) == 0x43);
    assert!(offset_of!(Irp, cancel_irql) == 0x45);
    assert!(offset_of!(Irp, cancel) == 0x68);
    assert!(offset_of!(Irp, stack) == 0xB8);
    assert!(offset_of!(StackLocation, output) == 8);
    assert!(offset_of!(StackLocation, input) == 0x10);
    assert!(offset_of!(StackLocation, code) == 0x18);
    assert!(offset_of!(StackLocation, file) == 0x30);
    assert!(size_of::<StackLocation>() == 0x48);
};

#[repr(C)]
struct RawGuid(u32, u16, u16, [u8; 8]);

unsafe extern "system" {
    fn IoCreateDevice(
        driver: *mut DriverObject,
        extension: u32,
        name: *const UnicodeString,
        kind: u32,
        characteristics: u32,
        exclusive: u8,
        device: *mut *mut DeviceObject,
    ) -> i32;
    fn IoDeleteDevice(device: *mut DeviceObject);
    fn IoCreateSymbolicLink(link: *const UnicodeString, name: *const UnicodeString) -> i32;
    fn IoDeleteSymbolicLink(link: *const UnicodeString) -> i32;
    fn IoAttachDeviceToDeviceStack(
        device: *mut DeviceObject,
        target: *mut DeviceObject,
    ) -> *mut DeviceObject;
    fn IoDetachDevice(target: *mut DeviceObject);
    fn IoRegisterDeviceInterface(
        physical: *mut DeviceObject,
        class: *const RawGuid,
        reference: *const UnicodeString,
        link: *mut UnicodeString,
    ) -> i32;
    fn IoSetDeviceInterfaceState(link: *const UnicodeString, enable: u8) -> i32;
    fn IofCallDriver(device: *mut DeviceObject, irp: *mut Irp) -> i32;
    fn IofCompleteRequest(irp: *mut Irp, boost: i8);
    safe fn IoReleaseCancelSpinLock(irql: u8);
    safe fn PsGetCurrentProcessId() -> usize;
    fn DllMainCRTStartup(module: *mut c_void, reason: u32, reserved: *mut c_void) -> i32;
}

/// The device, while there is one.
static DEVICE: Mutex<Option<Device>> = Mutex::new(None);
/// The device below this one in its stack.
static LOWER: AtomicPtr<DeviceObject> = AtomicPtr::new(null_mut());
/// The name of the device's interface, which lives as long as the driver.
static INTERFACE_LINK: AtomicPtr<UnicodeString> = AtomicPtr::new(null_mut());

fn device() -> MutexGuard<'static, Option<Device>> {
    DEVICE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// UTF-16, and the structure that lends it to the kernel.
struct Name(Vec<u16>);

impl Name {
    fn new(text: &str) -> Self {
        Self(text.encode_utf16().collect())
    }

    /// Valid as long as `self`.
    fn as_unicode(&mut self) -> UnicodeString {
        let bytes = size_of_val(self.0.as_slice()) as u16;
        UnicodeString { length: bytes, maximum: bytes, buffer: self.0.as_mut_ptr() }
    }
}

/// The image's entry. Wine's loader calls it as a DLL's, because the image imports libraries of user
/// mode; then its kernel calls it as a driver's. No driver object has an address like a reason.
///
/// # Safety
/// The arguments are those of DllMain or of DriverEntry.
#[unsafe(no_mangle)]
unsafe extern "system" fn halprof_entry(
    first: *mut c_void,
    second: *mut c_void,
    third: *mut c_void,
) -> i32 {
    match second.addr() {
        // SAFETY: these are DllMain's arguments; the C runtime and Rust's library are initialised.
        reason @ 0..=3 => unsafe { DllMainCRTStartup(first, reason as u32, third) },
        // SAFETY: these are DriverEntry's.
        _ => unsafe { driver_entry(first.cast()) },
    }
}

/// # Safety
/// `driver` is the driver's object, and nobody else's at this time.
unsafe fn driver_entry(driver: *mut DriverObject) -> i32 {
    std::panic::set_hook(Box::new(|panic| log(format_args!("panic: {panic}"))));
    // SAFETY: as the caller says.
    let object = unsafe { &mut *driver };
    object.major[CREATE] = create;
    object.major[CLOSE] = close;
    object.major[CLEANUP] = close;
    object.major[DEVICE_CONTROL] = control;
    object.major[PNP] = pnp;
    object.unload = unload;
    if Settings::read().of("without-pnp").is_none() {
        // SAFETY: every driver object has its extension.
        let extension = unsafe { &mut *object.extension };
        extension.add_device = add_device;
        log(format_args!("driver loaded"));
        return STATUS_SUCCESS;
    }
    match start() {
        // SAFETY: as the caller says.
        STATUS_SUCCESS => unsafe { create_device(driver, &mut null_mut()) },
        refused => refused,
    }
}

/// Makes the device's service, with what the settings say.
fn start() -> i32 {
    match Device::new(&Settings::read()) {
        Ok(made) => {
            *device() = Some(made);
            log(format_args!("device started"));
            STATUS_SUCCESS
        }
        Err(why) => {
            log(format_args!("device refused: {why}"));
            STATUS_INVALID_PARAMETER
        }
    }
}

/// Creates the device object, with its name and its link.
///
/// # Safety
/// `driver` is the driver's object.
unsafe fn create_device(driver: *mut DriverObject, created: &mut *mut DeviceObject) -> i32 {
    let (mut name, mut link) = (Name::new(NT_NAME), Name::new(LINK_NAME));
    let (name, link) = (name.as_unicode(), link.as_unicode());
    // SAFETY: the driver is as the caller says; name and result are valid for the call.
    let status = unsafe {
        IoCreateDevice(
            driver,
            0,
            &raw const name,
            FILE_DEVICE_UNKNOWN,
            FILE_DEVICE_SECURE_OPEN,
            0,
            created,
        )
    };
    if status < 0 {
        return status;
    }
    // SAFETY: the device was created just now, and nobody else has it yet.
    let object = unsafe { &mut **created };
    object.flags = (object.flags | DO_BUFFERED_IO) & !DO_DEVICE_INITIALIZING;
    // SAFETY: both names are valid for the call.
    unsafe { IoCreateSymbolicLink(&raw const link, &raw const name) }
}

/// # Safety
/// As the Plug and Play manager calls it: with the driver's object and the device that is new.
unsafe extern "system" fn add_device(
    driver: *mut DriverObject,
    physical: *mut DeviceObject,
) -> i32 {
    let mut created = null_mut();
    // SAFETY: as the caller says.
    let status = unsafe { create_device(driver, &mut created) };
    if status < 0 {
        return status;
    }
    // SAFETY: both devices are there, and `created` is in no stack.
    let lower = unsafe { IoAttachDeviceToDeviceStack(created, physical) };
    // Before the registration, which asks the stack for its identity: an IRP arrives at `pnp`.
    LOWER.store(lower, Ordering::SeqCst);
    let Guid(data1, data2, data3, data4) = INTERFACE;
    let class = RawGuid(data1, data2, data3, data4);
    let link = Box::leak(Box::new(UnicodeString { length: 0, maximum: 0, buffer: null_mut() }));
    // SAFETY: the device is there; class and link are valid for the call, which gives the link its
    // buffer for good.
    let registered =
        unsafe { IoRegisterDeviceInterface(physical, &raw const class, ptr::null(), link) };
    INTERFACE_LINK.store(link, Ordering::SeqCst);
    log(format_args!("device added: {registered:#x}"));
    registered
}

/// # Safety
/// As the I/O manager calls it: with a device of this driver and an IRP that is the driver's until
/// it is passed on.
unsafe extern "system" fn pnp(own: *mut DeviceObject, irp: *mut Irp) -> i32 {
    // SAFETY: as the caller says.
    let request = unsafe { &mut *irp };
    // SAFETY: an IRP in a dispatch routine has its stack location.
    let minor = unsafe { (*request.stack).minor };
    log(format_args!("pnp {minor}"));
    match minor {
        START_DEVICE => {
            request.status = start();
            enable_interface(true);
        }
        SURPRISE_REMOVAL | REMOVE_DEVICE => {
            if let Some(device) = device().as_mut() {
                device.end_sessions();
            }
            enable_interface(false);
            request.status = STATUS_SUCCESS;
        }
        _ => {}
    }
    // IoSkipCurrentIrpStackLocation: the device below gets it as it is.
    request.current_location += 1;
    request.stack = request.stack.wrapping_add(1);
    let lower = LOWER.load(Ordering::SeqCst);
    // SAFETY: the device below is there until this one is detached, and gets the IRP for good.
    let status = unsafe { IofCallDriver(lower, irp) };
    if minor == REMOVE_DEVICE {
        delete_link();
        *device() = None;
        // SAFETY: this device is attached to it.
        unsafe { IoDetachDevice(lower) };
        // SAFETY: as the caller says; it is in no stack any more.
        unsafe { IoDeleteDevice(own) };
    }
    status
}

fn enable_interface(enable: bool) {
    let link = INTERFACE_LINK.load(Ordering::SeqCst);
    // SAFETY: a device with PnP has registered its interface, whose name lives as long as the driver.
    unsafe { IoSetDeviceInterfaceState(link, u8::from(enable)) };
}

fn delete_link() {
    let mut link = Name::new(LINK_NAME);
    let link = link.as_unicode();
    // SAFETY: the name is valid for the call.
    unsafe { IoDeleteSymbolicLink(&raw const link) };
}

/// # Safety
/// As the I/O manager calls it, with the driver's object.
unsafe extern "system" fn unload(driver: *mut DriverObject) {
    log(format_args!("driver unloaded"));
    *device() = None;
    // SAFETY: as the caller says.
    let left = unsafe { (*driver).device };
    if !left.is_null() {
        delete_link();
        // SAFETY: without PnP the driver has one device, in no stack.
        unsafe { IoDeleteDevice(left) };
    }
}

/// Completes a request.
///
/// # Safety
/// The IRP is this driver's, and is not afterwards.
unsafe fn complete(irp: *mut Irp, status: i32, length: usize) -> i32 {
    // SAFETY: as the caller says.
    let request = unsafe { &mut *irp };
    request.status = status;
    request.information = length;
    // SAFETY: as the caller says.
    unsafe { IofCompleteRequest(irp, 0) };
    status
}

/// The address of the file object of a request.
///
/// # Safety
/// The IRP is this driver's.
unsafe fn file_of(irp: *mut Irp) -> usize {
    // SAFETY: as the caller says.
    let stack = unsafe { (*irp).stack };
    // SAFETY: an IRP in a dispatch routine has its stack location.
    unsafe { (*stack).file }
}

/// # Safety
/// As the I/O manager calls it, with an IRP that is the driver's until it is completed.
unsafe extern "system" fn create(_: *mut DeviceObject, irp: *mut Irp) -> i32 {
    // SAFETY: as the caller says.
    let file = unsafe { file_of(irp) };
    let process = PsGetCurrentProcessId() as u32;
    if let Some(device) = device().as_mut() {
        device.open(file, process);
    }
    log(format_args!("create"));
    // SAFETY: as the caller says.
    unsafe { complete(irp, STATUS_SUCCESS, 0) }
}

/// # Safety
/// As the I/O manager calls it, with an IRP that is the driver's until it is completed.
unsafe extern "system" fn close(_: *mut DeviceObject, irp: *mut Irp) -> i32 {
    // SAFETY: as the caller says.
    let file = unsafe { file_of(irp) };
    if let Some(device) = device().as_mut() {
        device.close(file);
    }
    log(format_args!("close"));
    // SAFETY: as the caller says.
    unsafe { complete(irp, STATUS_SUCCESS, 0) }
}

/// # Safety
/// As the I/O manager calls it, with an IRP that is the driver's until it is completed.
unsafe extern "system" fn control(_: *mut DeviceObject, irp: *mut Irp) -> i32 {
    // SAFETY: as the caller says.
    let request = unsafe { &mut *irp };
    // SAFETY: an IRP in a dispatch routine has its stack location.
    let stack = unsafe { &mut *request.stack };
    let (input, output) = (stack.input as usize, stack.output as usize);
    let buffer = if request.system_buffer.is_null() {
        &mut []
    } else {
        // SAFETY: for METHOD_BUFFERED the I/O manager has one buffer for both, as long as the longer.
        unsafe { slice::from_raw_parts_mut(request.system_buffer, input.max(output)) }
    };
    let code = RequestCode(stack.code);
    let answer = match device().as_mut() {
        Some(device) => device.control(stack.file, code, (input, output), buffer),
        None => Answer::Completed(NtStatus::DEVICE_NOT_READY, 0),
    };
    match answer {
        Answer::Completed(NtStatus(status), length) => {
            // SAFETY: as the caller says.
            unsafe { complete(irp, status.cast_signed(), length) }
        }
        Answer::Held => {
            request.cancel = Some(cancelled);
            stack.control |= SL_PENDING_RETURNED;
            STATUS_PENDING
        }
    }
}

/// # Safety
/// As the I/O manager calls it, with an IRP that the driver has held.
unsafe extern "system" fn cancelled(_: *mut DeviceObject, irp: *mut Irp) {
    // SAFETY: as the caller says.
    let irql = unsafe { (*irp).cancel_irql };
    IoReleaseCancelSpinLock(irql);
    log(format_args!("cancelled"));
    // SAFETY: as the caller says.
    unsafe { complete(irp, STATUS_CANCELLED, 0) };
}
