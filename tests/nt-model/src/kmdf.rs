//! KMDF 1.33: what the driver calls through the framework's table.
//!
//! Indices and layouts are those of the published headers (microsoft/Windows-Driver-Frameworks,
//! src/publicinc/wdf/kmdf/1.33); behaviour is that of the functions' pages in the Windows driver
//! documentation.

#![expect(clippy::unnecessary_wraps, reason = "every row of a table has the same signature")]

mod structures;

use crate::machine::{DISPATCH, Function, Machine, Outcome, PASSIVE, Wait};
use crate::rules::{Rule, Violation};
use anyhow::Result;
use std::collections::{BTreeMap, VecDeque};

/// Entries of the table (WdfFunctionTableNumEntries).
const ENTRIES: usize = 458;
const INSUFFICIENT_RESOURCES: u64 = 0xC000_009A;
const BUFFER_TOO_SMALL: u64 = 0xC000_0023;
const INVALID_DEVICE_REQUEST: u64 = 0xC000_0010;
const OBJECT_NAME_COLLISION: u64 = 0xC000_0035;
const UNSUCCESSFUL: u64 = 0xC000_0001;
const NO_SUCH_DEVICE: u64 = 0xC000_000E;
const INVALID_DEVICE_STATE: u64 = 0xC000_0184;
/// A value that stands for the WDFDEVICE_INIT.
pub const INIT: u64 = 0x2000;
/// WdfFileObjectCanBeOptional of WDF_FILEOBJECT_CLASS (wdfdevice.h).
const FILE_CAN_BE_OPTIONAL: u32 = 0x8000_0000;

/// A framework object, by its handle.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub kind: Kind,
    /// The object with which it is deleted.
    pub parent: u64,
    /// EvtCleanupCallback.
    cleanup: u64,
}

/// Kinds of framework object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Driver,
    Device,
    Queue,
    /// A wait lock, with its holder.
    WaitLock(Option<usize>),
    File,
}

/// The state of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The I/O manager's buffer: input and output share it with METHOD_BUFFERED, the input uses it
    /// with the direct methods.
    pub buffer: u64,
    /// The client's own pages for the output of a direct method, which it can write at the same
    /// time.
    pub pages: Option<u64>,
    /// Bytes of input, and of output.
    pub lengths: (u64, u64),
    /// Its file object; 0 if a kernel caller sent it without one.
    pub file: u64,
    /// The process that made it.
    pub process: u32,
    pub code: u32,
    /// Status and information, once it is completed.
    pub completed: Option<(u32, u64)>,
}

/// How buffers are transferred for a control code: its lowest two bits ("Defining I/O Control
/// Codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Buffered,
    /// METHOD_IN_DIRECT and METHOD_OUT_DIRECT.
    Direct,
    Neither,
}

impl Method {
    /// The method of a control code.
    pub const fn of(code: u32) -> Self {
        match code & 3 {
            0 => Self::Buffered,
            3 => Self::Neither,
            _ => Self::Direct,
        }
    }
}

/// The state of the framework.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Framework {
    objects: BTreeMap<u64, Object>,
    requests: BTreeMap<u64, Request>,
    pub driver_object: u64,
    globals: u64,
    table: u64,
    /// EvtDriverDeviceAdd.
    pub device_add: u64,
    /// The device's callbacks.
    pub callbacks: Init,
    /// EvtIoDeviceControl, and its queue.
    pub device_control: (u64, u64),
    /// Requests waiting in the queue.
    waiting: VecDeque<u64>,
    /// The request that the driver has: the queue gives it one at a time.
    presented: Option<u64>,
    /// The thread that has completed the previous request, and presents the next; or the one whose
    /// request has arrived since.
    presenter: Option<(u32, u32)>,
    arrived_meanwhile: bool,
    /// The PnP and power callbacks that were called, in order: each by its offset in
    /// WDF_PNPPOWER_EVENT_CALLBACKS, with its arguments after the device.
    pub called: Vec<(u64, Vec<u64>)>,
    /// Requests that were presented by a thread of another process than their own.
    pub presented_elsewhere: u64,
    /// Of these, the requests that were presented by a thread whose own request arrived meanwhile,
    /// and not by the thread that completed the previous one.
    pub presented_by_a_third: u64,
    /// Buffers that the driver has retrieved although their client can write them at the same time.
    pub shared_buffers: u64,
    /// Whether the device's first start has set its interface, and registered with WMI.
    pub published: bool,
    /// Whether a client can find the device by its interface: from its first start until it is removed.
    pub interface_enabled: bool,
    /// Whether a client can find it by its link: until it is removed.
    pub linked: bool,
    /// The device, once it is created.
    pub device: Option<u64>,
    /// What the driver has set before the device was created.
    init: Init,
    /// The driver may set it: from the call of EvtDriverDeviceAdd until the device is created.
    init_is_open: bool,
    /// The device has been started: no queue may be created any more.
    pub started: bool,
    /// The status of the framework's function that was made to fail last.
    pub failed_with: Option<u64>,
    /// The device's name, its security, its interface's GUID and its link, as the driver gave them.
    pub told: Vec<Vec<u8>>,
    /// Whether the loader has bound the driver.
    pub bound: bool,
    /// The device refuses QUERY_STOP and QUERY_REMOVE unless this is 0: how often the driver has
    /// forbidden it, less how often it has allowed it (WdfDeviceSetStaticStopRemove counts:
    /// fxdeviceapi.cpp of KMDF's published source). START and STOP leave it as it is.
    pub stays: u32,
}

/// What the driver sets in a WDFDEVICE_INIT.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, which calls set in any order"
)]
pub struct Init {
    named: bool,
    secured: bool,
    secure_open: bool,
    /// PnP and power callbacks, by their offset in WDF_PNPPOWER_EVENT_CALLBACKS.
    pub power: BTreeMap<u64, u64>,
    /// EvtFileClose, 0 for none.
    pub file_close: u64,
    /// EvtFileCleanup, 0 for none.
    pub file_cleanup: u64,
    /// A request may come without a file object.
    file_optional: bool,
}

/// Offsets in WDF_PNPPOWER_EVENT_CALLBACKS.
pub mod power {
    /// EvtDeviceD0Entry.
    pub const D0_ENTRY: u64 = 8;
    /// EvtDeviceD0Exit.
    pub const D0_EXIT: u64 = 24;
    /// EvtDevicePrepareHardware.
    pub const PREPARE: u64 = 40;
    /// EvtDeviceReleaseHardware.
    pub const RELEASE: u64 = 48;
    /// EvtDeviceSurpriseRemoval.
    pub const SURPRISE: u64 = 96;
}

macro_rules! framework {
    ($($index:literal $name:literal $irql:ident $run:expr;)*) => {
        static FUNCTIONS: &[(usize, Function)] =
            &[$(($index, Function { name: $name, irql: $irql, run: $run }),)*];
    };
}

framework! {
    116 "WdfDriverCreate" PASSIVE driver_create;
    55 "WdfDeviceInitSetPnpPowerEventCallbacks" DISPATCH set_power_callbacks;
    71 "WdfDeviceInitSetFileObjectConfig" DISPATCH set_file_config;
    66 "WdfDeviceInitSetDeviceType" DISPATCH |_| done();
    70 "WdfDeviceInitSetCharacteristics" DISPATCH set_characteristics;
    67 "WdfDeviceInitAssignName" PASSIVE |m| { init(m)?.named = true; told_text(m) };
    68 "WdfDeviceInitAssignSDDLString" PASSIVE |m| { init(m)?.secured = true; told_text(m) };
    75 "WdfDeviceCreate" PASSIVE device_create;
    312 "WdfWaitLockCreate" DISPATCH wait_lock_create;
    313 "WdfWaitLockAcquire" PASSIVE wait_lock_acquire;
    314 "WdfWaitLockRelease" DISPATCH wait_lock_release;
    152 "WdfIoQueueCreate" DISPATCH queue_create;
    76 "WdfDeviceSetStaticStopRemove" DISPATCH set_static_stop_remove;
    77 "WdfDeviceCreateDeviceInterface" PASSIVE told_interface;
    80 "WdfDeviceCreateSymbolicLink" PASSIVE told_link;
    269 "WdfRequestRetrieveInputBuffer" DISPATCH |m| retrieve(m, Side::Input);
    270 "WdfRequestRetrieveOutputBuffer" DISPATCH |m| retrieve(m, Side::Output);
    285 "WdfRequestWdmGetIrp" DISPATCH |m| { let request = m.engine.argument(1); m.framework.request(request)?; Ok(Outcome::Return(request)) };
    277 "WdfRequestGetFileObject" DISPATCH file_of_request;
    265 "WdfRequestCompleteWithInformation" DISPATCH complete;
}

static VERSION_BIND: Function =
    Function { name: "WdfVersionBind", irql: PASSIVE, run: version_bind };
static VERSION_UNBIND: Function = Function {
    name: "WdfVersionUnbind",
    irql: PASSIVE,
    run: |m| {
        m.framework.bound = false;
        done()
    },
};

/// A function of WDFLDR.SYS.
pub fn loader_function(name: &str) -> Option<&'static Function> {
    [&VERSION_BIND, &VERSION_UNBIND].into_iter().find(|function| function.name == name)
}

/// Writes the framework's table to memory.
pub fn boot(machine: &mut Machine) -> Result<()> {
    let table = machine.engine.allocate(8 * ENTRIES as u64, 0)?;
    // A stub for each entry: a call of one that is not modelled stops the run and names its index.
    for index in 0..ENTRIES {
        let function = FUNCTIONS.iter().find(|(at, _)| *at == index);
        let name = format!("KMDF function {index}");
        let stub = machine.stub(function.map(|(_, function)| function), &name);
        machine.engine.write_u64(table + 8 * index as u64, stub);
    }
    machine.framework.table = table;
    machine.framework.globals = machine.engine.allocate(64, 0)?;
    machine.framework.driver_object = machine.engine.allocate(0x150, 0)?;
    Ok(())
}

impl Framework {
    /// An object that has not been deleted.
    pub fn object(&self, handle: u64) -> Result<&Object, Violation> {
        let what = format!("{handle:#x} is no framework object, or was deleted");
        let found = self.objects.get(&handle);
        found.ok_or_else(|| Violation::new(Rule::Object, what))
    }

    fn request(&mut self, handle: u64) -> Result<&mut Request, Violation> {
        let deleted = format!("{handle:#x} is no request, or was deleted");
        let request = self.requests.get_mut(&handle);
        let request = request.ok_or_else(|| Violation::new(Rule::Object, deleted))?;
        if request.completed.is_some() {
            return Err(Violation::new(Rule::Request, format!("{handle:#x} was completed")));
        }
        Ok(request)
    }

    /// The process of a request, by its IRP.
    pub fn process_of_irp(&mut self, irp: u64) -> Result<u32, Violation> {
        Ok(self.request(irp)?.process)
    }

    /// EvtDriverDeviceAdd is about to be called, with a new WDFDEVICE_INIT.
    pub fn begin_init(&mut self) {
        (self.init, self.init_is_open) = (Init::default(), true);
    }

    /// Cancels the waiting requests of a file: the framework does so when EvtFileCleanup has
    /// returned, the I/O manager when the process ends (IRP_MJ_CLEANUP's page).
    pub fn cancel(&mut self, file: u64) {
        const CANCELLED: u32 = 0xC000_0120;
        let requests = &mut self.requests;
        self.waiting.retain(|handle| match requests.get_mut(handle) {
            Some(request) if request.file == file => {
                request.completed = Some((CANCELLED, 0));
                false
            }
            _ => true,
        });
    }

    /// Whether a file has requests that are not completed.
    pub fn has_requests(&self, file: u64) -> bool {
        let mut requests = self.requests.values();
        requests.any(|request| request.file == file && request.completed.is_none())
    }

    /// Whether a request is completed.
    pub fn is_completed(&self, handle: u64) -> bool {
        self.requests.get(&handle).is_some_and(|request| request.completed.is_some())
    }

    /// A completed request; it no longer exists afterwards.
    pub fn take_request(&mut self, handle: u64) -> Option<Request> {
        self.requests.remove(&handle)
    }

    pub fn holds_a_lock(&self, thread: usize) -> bool {
        let held = Kind::WaitLock(Some(thread));
        self.objects.values().any(|object| object.kind == held)
    }

    /// The number of existing objects.
    pub fn count(&self) -> usize {
        self.objects.len() + self.requests.len()
    }

    /// The children of an object.
    pub fn children(&self, parent: u64) -> Vec<u64> {
        let all = self.objects.iter();
        all.filter(|(_, object)| object.parent == parent).map(|(handle, _)| *handle).collect()
    }

    /// EvtCleanupCallback of an object.
    pub fn cleanup_of(&self, handle: u64) -> Option<u64> {
        let cleanup = self.objects.get(&handle)?.cleanup;
        (cleanup != 0).then_some(cleanup)
    }
}

/// Gives the driver the next request, if it has none. A request is presented when the previous one
/// is completed, even if that one's callback has not yet returned (WDF_IO_QUEUE_DISPATCH_TYPE's
/// page: sequential). A request that has waited is presented by the thread that completed the
/// previous one, in whatever process that is ("Request Handlers").
pub fn present(machine: &mut Machine) -> Result<(), Violation> {
    if let Some(presented) = machine.framework.presented {
        write_meanwhile(machine, presented);
        return Ok(());
    }
    let presenter = machine.framework.presenter.take();
    let third = std::mem::take(&mut machine.framework.arrived_meanwhile);
    let Some(handle) = machine.framework.waiting.pop_front() else {
        return Ok(());
    };
    let request = machine.framework.request(handle)?;
    let ((input, output), code, process) = (request.lengths, request.code, request.process);
    machine.framework.presented = Some(handle);
    let (callback, queue) = machine.framework.device_control;
    let arguments = [queue, handle, output, input, code.into()];
    let who = presenter.unwrap_or((process, process + 4));
    let elsewhere = who.0 != process;
    machine.framework.presented_elsewhere += u64::from(elsewhere);
    machine.framework.presented_by_a_third += u64::from(elsewhere && third);
    machine.spawn_request(code, callback, &arguments, who)
}

/// A client writes to the pages that it has given for a direct method's output, at any moment.
fn write_meanwhile(machine: &mut Machine, request: u64) {
    let Ok(request) = machine.framework.request(request) else {
        return;
    };
    let (pages, length) = (request.pages, request.lengths.1);
    if let Some(pages) = pages
        && length > 0
        && machine.rng.u8(0..4) == 0
    {
        let (at, byte) = (machine.rng.u64(0..length), machine.rng.u8(..));
        machine.engine.write(pages + at, &[byte]);
    }
}

/// The driver is unloaded, and all that it has registered is forgotten.
pub fn forget_driver(machine: &mut Machine) -> Result<(), Violation> {
    let framework = &mut machine.framework;
    (framework.init, framework.callbacks) = (Init::default(), Init::default());
    framework.device_add = 0;
    (framework.linked, framework.interface_enabled) = (false, false);
    let objects = framework.objects.iter();
    let drivers = objects.filter(|(_, object)| object.kind == Kind::Driver);
    let drivers: Vec<u64> = drivers.map(|(handle, _)| *handle).collect();
    for driver in drivers {
        delete(machine, driver)?;
    }
    Ok(())
}

/// Deletes an object: its handle becomes invalid.
pub fn delete(machine: &mut Machine, handle: u64) -> Result<(), Violation> {
    if machine.framework.objects.remove(&handle).is_none() {
        // Already deleted with its parent.
        return Ok(());
    }
    machine.engine.bus().arena.free(handle, 0)
}

/// Creates an object: its handle is memory that no one may access.
pub fn create(machine: &mut Machine, kind: Kind, parent: u64) -> Result<u64, Violation> {
    let handle = machine.engine.allocate(0, 0)?;
    let object = Object { kind, parent, ..Object::default() };
    machine.framework.objects.insert(handle, object);
    Ok(handle)
}

/// A request enters the queue; its handle, too, is memory that no one may access. If it arrives
/// after the previous one was completed, and before that one's callback has returned, its thread
/// presents the one that has waited longest (FxIoQueue::DispatchEvents of KMDF's published source).
pub fn enqueue(machine: &mut Machine, request: Request) -> Result<u64, Violation> {
    let handle = machine.engine.allocate(0, 0)?;
    let framework = &mut machine.framework;
    if framework.presenter.is_some() && !framework.waiting.is_empty() {
        framework.presenter = Some((request.process, request.process + 4));
        framework.arrived_meanwhile = true;
    }
    machine.framework.requests.insert(handle, request);
    machine.framework.waiting.push_back(handle);
    Ok(handle)
}

fn done() -> Result<Outcome, Violation> {
    Ok(Outcome::Return(0))
}

fn refused(status: u64) -> Result<Outcome, Violation> {
    Ok(Outcome::Return(status))
}

/// If this call is made to fail: the status, which is one of those that the framework has for it
/// besides that of too little memory. A function that calls this in several places fails in its
/// middle too.
fn failure(m: &mut Machine, others: &[u64]) -> Option<u64> {
    if !m.kernel.fails() {
        return None;
    }
    let chosen = others.get(m.rng.usize(0..=others.len()));
    let status = chosen.copied().unwrap_or(INSUFFICIENT_RESOURCES);
    m.framework.failed_with = Some(status);
    Some(status)
}

/// The WDFDEVICE_INIT of a call. It is the framework's again once the device is created.
fn init(m: &mut Machine) -> Result<&mut Init, Violation> {
    if m.engine.argument(1) != INIT || !m.framework.init_is_open {
        let what = "a WDFDEVICE_INIT is used that is not, or no longer, the driver's";
        return Err(Violation::new(Rule::Object, what));
    }
    Ok(&mut m.framework.init)
}

/// WdfVersionBind(DriverObject, RegistryPath, BindInfo, Globals).
fn version_bind(m: &mut Machine) -> Result<Outcome, Violation> {
    if let Some(status) = failure(m, &[]) {
        return refused(status);
    }
    let (info, globals) = (m.engine.argument(2), m.engine.argument(3));
    // WDF_BIND_INFO: Size, and FuncCount at 1Ch.
    let (size, count) = (m.engine.read_u32(info), m.engine.read_u32(info + 0x1C));
    if (size, count as usize) != (0x58, ENTRIES) {
        let what = format!("bind information of {size} bytes for {count} functions");
        return Err(Violation::new(Rule::Unmodelled, what));
    }
    let table = m.engine.read_u64(info + 0x20);
    let value = m.framework.table;
    m.engine.write_u64(table, value);
    let counts = m.engine.read_u64(info + 0x40);
    m.engine.write_u32(counts, ENTRIES as u32);
    let value = m.framework.globals;
    m.engine.write_u64(globals, value);
    m.framework.bound = true;
    done()
}

/// (DriverObject, RegistryPath, Attributes, Config, out Driver).
fn driver_create(m: &mut Machine) -> Result<Outcome, Violation> {
    if let Some(status) = failure(m, &[]) {
        return refused(status);
    }
    let config = m.engine.argument(4);
    if let Err(status) = structures::sized(m, config, "_WDF_DRIVER_CONFIG") {
        return refused(status);
    }
    m.framework.device_add = m.engine.read_u64(config + 8);
    let driver = create(m, Kind::Driver, 0)?;
    // DisplaceDriverUnload: the entry wraps the framework's own unload.
    let globals = m.framework.globals;
    m.engine.write(globals + 48, &[1]);
    let out = m.engine.argument(5);
    if out != 0 {
        m.engine.write_u64(out, driver);
    }
    done()
}

/// (Device or DeviceInit, UNICODE_STRING).
fn told_text(m: &mut Machine) -> Result<Outcome, Violation> {
    if let Some(status) = failure(m, &[]) {
        return refused(status);
    }
    let text = m.engine.argument(2);
    let length = m.engine.read_u32(text) & 0xFFFF;
    let buffer = m.engine.read_u64(text + 8);
    let bytes = m.engine.bytes(buffer, length as usize);
    m.framework.told.push(bytes);
    done()
}

/// (Device, UNICODE_STRING). The link may be there already, another's.
fn told_link(m: &mut Machine) -> Result<Outcome, Violation> {
    if let Some(status) = failure(m, &[OBJECT_NAME_COLLISION]) {
        return refused(status);
    }
    m.framework.linked = true;
    let told = told_text(m)?;
    // A call that fails in its middle has removed the link again.
    m.framework.linked = matches!(told, Outcome::Return(0));
    Ok(told)
}

/// (Device, GUID, ReferenceString).
fn told_interface(m: &mut Machine) -> Result<Outcome, Violation> {
    if let Some(status) = failure(m, &[NO_SUCH_DEVICE]) {
        return refused(status);
    }
    let bytes = m.engine.bytes(m.engine.argument(2), 16);
    m.framework.told.push(bytes);
    done()
}

/// (DeviceInit, Callbacks).
fn set_power_callbacks(m: &mut Machine) -> Result<Outcome, Violation> {
    let callbacks = m.engine.argument(2);
    structures::must_be_sized(m, callbacks, "_WDF_PNPPOWER_EVENT_CALLBACKS")?;
    let size = u64::from(m.engine.read_u32(callbacks));
    // Every member behind Size is a pointer to a callback.
    for offset in (8..size).step_by(8) {
        let callback = m.engine.read_u64(callbacks + offset);
        if callback != 0 {
            init(m)?.power.insert(offset, callback);
        }
    }
    done()
}

/// (DeviceInit, Config, Attributes).
fn set_file_config(m: &mut Machine) -> Result<Outcome, Violation> {
    let config = m.engine.argument(2);
    structures::must_be_sized(m, config, "_WDF_FILEOBJECT_CONFIG")?;
    let (close, cleanup) = (m.engine.read_u64(config + 16), m.engine.read_u64(config + 24));
    let optional = m.engine.read_u32(config + 36) & FILE_CAN_BE_OPTIONAL != 0;
    let init = init(m)?;
    (init.file_close, init.file_cleanup, init.file_optional) = (close, cleanup, optional);
    done()
}

/// (DeviceInit, Characteristics, OrInValues).
fn set_characteristics(m: &mut Machine) -> Result<Outcome, Violation> {
    const SECURE_OPEN: u64 = 0x100;
    let secure = m.engine.argument(2) & SECURE_OPEN != 0;
    init(m)?.secure_open |= secure;
    done()
}

/// (in out DeviceInit, Attributes, out Device). A name that another device already has is refused
/// (WdfDeviceInitAssignName's page).
fn device_create(m: &mut Machine) -> Result<Outcome, Violation> {
    if let Some(status) = failure(m, &[]) {
        return refused(status);
    }
    let holder = m.engine.argument(1);
    if m.engine.read_u64(holder) != INIT || !m.framework.init_is_open {
        let what = "a device is created from what is no WDFDEVICE_INIT of the driver's";
        return Err(Violation::new(Rule::Object, what));
    }
    let init = m.framework.init.clone();
    if !(init.named && init.secured && init.secure_open) {
        let what = format!("a device that anybody may open: {init:?}");
        return Err(Violation::new(Rule::Object, what));
    }
    if m.framework.device.is_some() {
        return Ok(Outcome::Return(OBJECT_NAME_COLLISION));
    }
    let (attributes, out) = (m.engine.argument(2), m.engine.argument(3));
    if let Err(status) = structures::attributes(m, attributes, &Kind::Device) {
        return refused(status);
    }
    let device = create(m, Kind::Device, 0)?;
    // IoCreateDeviceSecure, and the attachment to the device below; the attributes, with the cleanup
    // callback, are attached after that (fxdevicekm.cpp, fxdeviceapi.cpp).
    if let Some(status) = failure(m, &[NO_SUCH_DEVICE]) {
        delete(m, device)?;
        return refused(status);
    }
    let cleanup = m.engine.read_u64(attributes + 8);
    m.engine.write_u64(holder, 0);
    if let Some(object) = m.framework.objects.get_mut(&device) {
        object.cleanup = cleanup;
    }
    let framework = &mut m.framework;
    framework.callbacks = init;
    (framework.device, framework.init_is_open) = (Some(device), false);
    (framework.started, framework.published) = (false, false);
    m.engine.write_u64(out, device);
    done()
}

/// (Attributes, out Lock).
fn wait_lock_create(m: &mut Machine) -> Result<Outcome, Violation> {
    if let Some(status) = failure(m, &[]) {
        return refused(status);
    }
    let (attributes, out) = (m.engine.argument(1), m.engine.argument(2));
    if let Err(status) = structures::attributes(m, attributes, &Kind::WaitLock(None)) {
        return refused(status);
    }
    let parent = m.engine.read_u64(attributes + 32);
    m.framework.object(parent)?;
    let lock = create(m, Kind::WaitLock(None), parent)?;
    if let Some(status) = failure(m, &[]) {
        delete(m, lock)?;
        return refused(status);
    }
    m.engine.write_u64(out, lock);
    done()
}

/// (Device, Stoppable). A checked build of the framework asserts that no more is allowed than was
/// forbidden; in a release build the count wraps, and the device can never be stopped again.
fn set_static_stop_remove(m: &mut Machine) -> Result<Outcome, Violation> {
    let stoppable = m.engine.argument(2) & 0xFF != 0;
    let stays = &mut m.framework.stays;
    let changed = if stoppable { stays.checked_sub(1) } else { stays.checked_add(1) };
    let what = "the device is allowed to stop more often than it was forbidden to";
    *stays = changed.ok_or(Violation::new(Rule::Object, what))?;
    done()
}

fn holder(m: &mut Machine, lock: u64) -> Result<&mut Option<usize>, Violation> {
    m.framework.object(lock)?;
    match m.framework.objects.get_mut(&lock).map(|object| &mut object.kind) {
        Some(Kind::WaitLock(holder)) => Ok(holder),
        _ => Err(Violation::new(Rule::Object, format!("{lock:#x} is no lock"))),
    }
}

/// (Lock, Timeout). A thread that holds a lock, or waits for it, is in a critical region
/// (WdfWaitLockAcquire's page).
fn wait_lock_acquire(m: &mut Machine) -> Result<Outcome, Violation> {
    let (lock, caller) = (m.engine.argument(1), m.caller_number());
    let holder = holder(m, lock)?;
    let outcome = match *holder {
        Some(other) if other == caller => {
            let what = "a lock is taken twice by one thread";
            return Err(Violation::new(Rule::Lock, what));
        }
        Some(_) => Outcome::Wait(Wait::Lock(lock)),
        None => {
            *holder = Some(caller);
            Outcome::Return(0)
        }
    };
    m.enter_critical_region();
    Ok(outcome)
}

/// (Lock).
fn wait_lock_release(m: &mut Machine) -> Result<Outcome, Violation> {
    let (lock, caller) = (m.engine.argument(1), m.caller_number());
    if *holder(m, lock)? != Some(caller) {
        return Err(Violation::new(Rule::Lock, "a lock is released by who has it not"));
    }
    // No page promises an order among those that wait: the seed chooses.
    let next = m.wake_one(|wait| *wait == Wait::Lock(lock));
    *holder(m, lock)? = next;
    m.leave_critical_region()?;
    done()
}

/// (Device, Config, Attributes, out Queue).
fn queue_create(m: &mut Machine) -> Result<Outcome, Violation> {
    if let Some(status) = failure(m, &[]) {
        return refused(status);
    }
    let (device, config) = (m.engine.argument(1), m.engine.argument(2));
    let (attributes, out) = (m.engine.argument(3), m.engine.argument(4));
    m.framework.object(device)?;
    let checked = structures::queue(m, config, out == 0)?;
    if let Err(status) = checked.and_then(|()| structures::attributes(m, attributes, &Kind::Queue))
    {
        return refused(status);
    }
    if m.framework.started {
        return refused(INVALID_DEVICE_STATE);
    }
    if m.framework.objects.contains_key(&m.framework.device_control.1) {
        // A device has one default queue, and this would be the second.
        return refused(UNSUCCESSFUL);
    }
    let callback = m.engine.read_u64(config + 40);
    let queue = create(m, Kind::Queue, device)?;
    if let Some(status) = failure(m, &[]) {
        delete(m, queue)?;
        return refused(status);
    }
    m.framework.device_control = (callback, queue);
    done()
}

/// Which buffer of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Input,
    Output,
}

/// (Request, MinimumRequiredLength, out Buffer, out Length). Depends on the method of the code
/// (WdfRequestRetrieveInputBuffer's and WdfRequestRetrieveOutputBuffer's pages).
fn retrieve(m: &mut Machine, side: Side) -> Result<Outcome, Violation> {
    let (request, least) = (m.engine.argument(1), m.engine.argument(2));
    let (out, length_out) = (m.engine.argument(3), m.engine.argument(4));
    let request = m.framework.request(request)?;
    let method = Method::of(request.code);
    let length = match side {
        Side::Input => request.lengths.0,
        Side::Output => request.lengths.1,
    };
    let pages = request.pages.filter(|_| side == Side::Output);
    let buffer = pages.unwrap_or(request.buffer);
    if method == Method::Neither {
        return Ok(Outcome::Return(INVALID_DEVICE_REQUEST));
    }
    if length == 0 || length < least {
        return Ok(Outcome::Return(BUFFER_TOO_SMALL));
    }
    m.framework.shared_buffers += u64::from(pages.is_some());
    m.engine.write_u64(out, buffer);
    if length_out != 0 {
        m.engine.write_u64(length_out, length);
    }
    done()
}

/// (Request). NULL for a request without a file object; the framework's verifier then breaks unless
/// the driver has said that file objects are optional (WDF_FILEOBJECT_CLASS's page).
fn file_of_request(m: &mut Machine) -> Result<Outcome, Violation> {
    let request = m.engine.argument(1);
    let file = m.framework.request(request)?.file;
    if file == 0 && !m.framework.callbacks.file_optional {
        let what = "a request has no file object, and the driver has not said that it may";
        return Err(Violation::new(Rule::Request, what));
    }
    Ok(Outcome::Return(file))
}

/// (Request, Status, Information).
fn complete(m: &mut Machine) -> Result<Outcome, Violation> {
    let handle = m.engine.argument(1);
    let (status, information) = (m.engine.argument(2) as u32, m.engine.argument(3));
    let who = m.who();
    let framework = &mut m.framework;
    let request = framework.request(handle)?;
    request.completed = Some((status, information));
    let room = request.lengths.1;
    if framework.presented == Some(handle) {
        framework.presented = None;
        framework.presenter = Some(who);
    }
    if information > room {
        let what = format!("{information} bytes of reply for {room}");
        return Err(Violation::new(Rule::Request, what));
    }
    done()
}
