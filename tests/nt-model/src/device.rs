//! What a user and the PnP manager do with the driver: load, open, request, close, sleep, wake,
//! remove, unload.

use crate::image::Image;
use crate::kernel::{self, number_of};
use crate::kmdf::{self, Kind, Request, power};
use crate::machine::Machine;
use crate::programs::Program;
use crate::rules::{Rule, Violation};
use anyhow::Result;
use hal_profile::overflow::Interrupted;
use shared_types::NtStatus;
use shared_types::request::{Access, RequestCode};
use sim::cpuid::Leaves;
use sim::host::Cpu;
use sim::model::io_manager_grants;
use sim::run::{Answering, Run};
use sim::workload::Workload;

/// WdfPowerDeviceD3 and WdfPowerDeviceD3Final.
const D3: u64 = 4;
const D3_FINAL: u64 = 5;
/// KeProcessorAddStartNotify and KeProcessorAddCompleteNotify.
const ADD_START: u32 = 0;
const ADD_COMPLETE: u32 = 1;
/// A request that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is in the queue, or with the driver.
    Queued(u64),
    /// It did not come so far.
    Refused(NtStatus),
}

/// What the I/O manager's buffers hold before anybody writes there, and how many such bytes in a
/// row no reply has by itself.
const GARBAGE: u8 = 0xA5;
const GARBAGE_IN_A_ROW: usize = 4;

/// A handle of the device.
#[derive(Clone, Debug)]
pub struct File {
    pub(crate) object: u64,
    pub(crate) process: u32,
    granted: Vec<Access>,
}

/// How far the driver has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Unloaded,
    Loaded,
    Added,
    Released,
    Prepared,
    Working,
}

/// The size of a DRIVER_OBJECT (wdm.h, x64).
const DRIVER_OBJECT: usize = 0x150;

/// What the processors do besides the driver.
enum Work {
    None,
    Workload(Box<Run>),
    /// Programs, since this moment.
    Programs(u64),
}

/// The driver on its machine.
pub struct Device {
    /// The machine.
    pub machine: Machine,
    /// Bytes of the driver's image in memory.
    pub image_size: u64,
    stage: Stage,
    work: Work,
    /// The first rule that was broken while nobody could be told.
    broken: Option<Violation>,
    /// What can be written in the image, as the loader makes it.
    writable: Vec<(u64, Vec<u8>)>,
}

fn failed(status: u64) -> bool {
    (status as u32).cast_signed() < 0
}

impl Device {
    /// A machine of these processors with the driver's file in memory, not loaded yet.
    pub fn new(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<Self> {
        let image = Image::load(file)?;
        Ok(Self {
            machine: Machine::new(&image, leaves, seed)?,
            image_size: image.bytes.len() as u64,
            stage: Stage::Unloaded,
            work: Work::None,
            broken: None,
            writable: image.writable(),
        }
        .at(image.entry))
    }

    fn at(mut self, entry: u64) -> Self {
        self.machine.kernel.entry = entry;
        self
    }

    /// Loads the driver and starts its device, as far as it goes; the status that ended it.
    pub fn start(&mut self) -> Result<u32, Violation> {
        for (at, bytes) in &self.writable {
            self.machine.engine.write(*at, bytes);
        }
        let entry = self.machine.kernel.entry;
        let driver = self.machine.framework.driver_object;
        self.machine.engine.write(driver, &[0; DRIVER_OBJECT]);
        let path = self.registry_path()?;
        let status = self.machine.call("DriverEntry", entry, &[driver, path])?;
        self.machine.engine.bus().arena.free(path, 0)?;
        if failed(status) {
            return Ok(status as u32);
        }
        self.stage = Stage::Loaded;
        let add = self.machine.framework.device_add;
        let status = self
            .machine
            .call("EvtDriverDeviceAdd", add, &[0x1000, INIT])?;
        if failed(status) {
            self.delete_device()?;
            return Ok(status as u32);
        }
        self.stage = Stage::Added;
        let status = self.power(power::PREPARE, &[0, 0])?;
        if failed(status) {
            return Ok(status as u32);
        }
        self.stage = Stage::Prepared;
        let status = self.power(power::D0_ENTRY, &[D3_FINAL])?;
        self.stage = Stage::Working;
        Ok(status as u32)
    }

    fn registry_path(&mut self) -> Result<u64, Violation> {
        let none = || Violation::new(Rule::Unmodelled, "the arena is full");
        let text = r"\Registry\Machine\System\CurrentControlSet\Services\halprof";
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let engine = &mut self.machine.engine;
        let size = 16 + wide.len() as u64;
        let path = engine.allocate(size, 0).ok_or_else(none)?;
        let length = wide.len() as u32;
        engine.write_u32(path, length << 16 | length);
        engine.write_u64(path + 8, path + 16);
        engine.write(path + 16, &wide);
        Ok(path)
    }

    /// Calls one of the device's PnP or power callbacks, where it has one.
    fn power(&mut self, callback: u64, more: &[u64]) -> Result<u64, Violation> {
        let Some(&function) = self.machine.framework.power.get(&callback) else {
            return Ok(0);
        };
        let device = self.machine.framework.device.unwrap_or(0);
        let arguments = [&[device], more].concat();
        self.machine
            .call("a PnP or power callback", function, &arguments)
    }

    /// Opens the device for a client process with these rights.
    pub fn open(&mut self, process: u32, granted: &[Access]) -> Result<File, Violation> {
        let device = self.machine.framework.device.unwrap_or(0);
        Ok(File {
            object: kmdf::create(&mut self.machine, Kind::File, device)?,
            process,
            granted: granted.to_vec(),
        })
    }

    /// Closes a handle, as the I/O manager does for a process that ends.
    pub fn close(&mut self, file: &File) -> Result<(), Violation> {
        self.clean_up(file)?;
        self.end_file(file)
    }

    /// The handle is closed; requests of other threads may still come (IRP_MJ_CLEANUP's page).
    pub fn clean_up(&mut self, file: &File) -> Result<(), Violation> {
        let cleanup = self.machine.framework.file_cleanup;
        if cleanup != 0 {
            self.machine
                .call("EvtFileCleanup", cleanup, &[file.object])?;
        }
        Ok(())
    }

    /// The last request is completed, and the file object goes (IRP_MJ_CLOSE's page).
    pub fn end_file(&mut self, file: &File) -> Result<(), Violation> {
        let close = self.machine.framework.file_close;
        if close != 0 {
            self.machine.call("EvtFileClose", close, &[file.object])?;
        }
        kmdf::delete(&mut self.machine, file.object)
    }

    /// One DeviceIoControl: the status it completes with, and the bytes written to `output`.
    pub fn device_control(
        &mut self,
        file: &File,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(NtStatus, usize), Violation> {
        match self.submit(file, code, input, output.len())? {
            Submitted::Refused(status) => Ok((status, 0)),
            Submitted::Queued(request) => {
                self.machine.settle()?;
                self.machine.check_nobody_waits()?;
                let (status, reply) = self.finish_request(request)?;
                output[..reply.len()].copy_from_slice(&reply);
                Ok((status, reply.len()))
            }
        }
    }

    /// Puts one DeviceIoControl into the queue.
    pub fn submit(
        &mut self,
        file: &File,
        code: RequestCode,
        input: &[u8],
        output: usize,
    ) -> Result<Submitted, Violation> {
        if !io_manager_grants(code, &file.granted) {
            return Ok(Submitted::Refused(NtStatus::ACCESS_DENIED));
        }
        let request = self.make_request(file, code, input, output)?;
        self.machine.framework.enqueue(request);
        Ok(Submitted::Queued(request))
    }

    fn make_request(
        &mut self,
        file: &File,
        code: RequestCode,
        input: &[u8],
        output: usize,
    ) -> Result<u64, Violation> {
        let none = || Violation::new(Rule::Unmodelled, "the arena is full");
        let length = input.len().max(output);
        let engine = &mut self.machine.engine;
        let buffer = engine.allocate(length as u64, 0).ok_or_else(none)?;
        // The I/O manager's buffer comes from the pool as it is: what was there before may not
        // reach the client.
        let garbage = vec![GARBAGE; length];
        engine.write(buffer, &garbage);
        engine.write(buffer, input);
        let request = Request {
            buffer,
            lengths: (input.len() as u64, output as u64),
            file: file.object,
            process: file.process,
            code: code.0,
            completed: None,
        };
        kmdf::create(&mut self.machine, Kind::Request(request), 0)
    }

    /// Takes what a request that is completed has answered.
    pub fn finish_request(&mut self, handle: u64) -> Result<(NtStatus, Vec<u8>), Violation> {
        let request = self.machine.framework.take_request(handle);
        self.machine.engine.bus().arena.free(handle, 0)?;
        let completed = request
            .and_then(|request| Some((request.buffer, request.lengths.0, request.completed?)));
        let Some((buffer, input, (status, information))) = completed else {
            return Err(Violation::new(Rule::Request, "a request is not completed"));
        };
        let length = information as usize;
        let reply = self.machine.engine.bytes(buffer, length);
        let written = (input as usize).min(length);
        let mut rows = reply[written..].windows(GARBAGE_IN_A_ROW);
        if rows.any(|row| row.iter().all(|&byte| byte == GARBAGE)) {
            let what = format!("a reply of {length} bytes has bytes that the driver did not write");
            return Err(Violation::new(Rule::Uninitialised, what));
        }
        self.machine.engine.bus().arena.free(buffer, 0)?;
        Ok((NtStatus(status), reply))
    }

    /// The system goes to sleep (S3): the device leaves D0, then every register is lost.
    pub fn sleep(&mut self) -> Result<(), Violation> {
        self.power(power::D0_EXIT, &[D3])?;
        self.lose_registers()
    }

    /// Every processor is reset, and Windows starts it again; before, the driver's bits are clear.
    pub(crate) fn lose_registers(&mut self) -> Result<(), Violation> {
        let bus = self.machine.engine.bus();
        bus.registers.check(&mut bus.cpus)?;
        for cpu in &mut bus.cpus {
            let now = cpu.processor.timestamp();
            cpu.processor.reset();
            cpu.processor.set_timestamp(now);
            cpu.processor.boot_windows();
        }
        bus.registers.renew(&mut bus.cpus);
        Ok(())
    }

    /// The system wakes.
    pub fn wake(&mut self) -> Result<(), Violation> {
        self.power(power::D0_ENTRY, &[D3]).map(|_| ())
    }

    /// A processor is added to the running machine.
    pub fn add_processor(&mut self, leaves: &Leaves) -> Result<(), Violation> {
        for mut processor in sim::machine::processors(std::slice::from_ref(leaves)) {
            processor.boot_windows();
            processor.set_timestamp(self.machine.now());
            let Some((callback, context)) = self.machine.kernel.processor_change else {
                self.machine.add_processor(Cpu::new(processor));
                continue;
            };
            self.tell_of_processor(callback, context, true)?;
            self.machine.add_processor(Cpu::new(processor));
            self.tell_of_processor(callback, context, false)?;
        }
        Ok(())
    }

    fn tell_of_processor(
        &mut self,
        callback: u64,
        context: u64,
        starting: bool,
    ) -> Result<(), Violation> {
        let (change, arguments) = self.processor_change(context, starting)?;
        self.machine
            .call(kernel::PROCESSOR_CALLBACK, callback, &arguments)?;
        self.machine.engine.bus().arena.free(change, 0)
    }

    /// What the callback for added processors is told of the next processor, before it is there
    /// and after: the KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT (state, number, status,
    /// PROCESSOR_NUMBER), and the arguments with it.
    pub(crate) fn processor_change(
        &mut self,
        context: u64,
        starting: bool,
    ) -> Result<(u64, Vec<u64>), Violation> {
        let none = || Violation::new(Rule::Unmodelled, "the arena is full");
        let index = self.machine.processors() as u32;
        let index = if starting { index } else { index - 1 };
        let engine = &mut self.machine.engine;
        let change = engine.allocate(16, 0).ok_or_else(none)?;
        let state = if starting { ADD_START } else { ADD_COMPLETE };
        engine.write_u32(change, state);
        engine.write_u32(change + 4, index);
        engine.write_u32(change + 12, number_of(index.into()));
        Ok((change, vec![context, change, change + 8]))
    }

    /// The device is gone without warning; its handles are still open.
    pub fn surprise_remove(&mut self) -> Result<(), Violation> {
        self.power(power::SURPRISE, &[]).map(|_| ())
    }

    /// The device has left D0 for good and its hardware is released, or will be before
    /// [`Self::remove`].
    pub(crate) fn hardware_released(&mut self) {
        self.stage = Stage::Released;
    }

    /// A processor is added while the device is being removed: its callback runs beside what comes
    /// next, which is leaving D0, or with `released` what comes after the hardware's release.
    pub fn remove_while_adding(
        &mut self,
        leaves: &Leaves,
        released: bool,
    ) -> Result<(), Violation> {
        if released {
            self.release()?;
        } else {
            self.power(power::D0_EXIT, &[D3_FINAL])?;
            self.stage = Stage::Prepared;
        }
        let mut change = None;
        if let Some((callback, context)) = self.machine.kernel.processor_change {
            for processor in sim::machine::processors(std::slice::from_ref(leaves)) {
                self.machine.add_processor(Cpu::new(processor));
            }
            let (at, arguments) = self.processor_change(context, false)?;
            let name = kernel::PROCESSOR_CALLBACK;
            self.machine
                .spawn_detached(name, callback, &arguments, (4, 8))?;
            change = Some(at);
        }
        self.remove()?;
        if let Some(at) = change {
            self.machine.engine.bus().arena.free(at, 0)?;
        }
        Ok(())
    }

    /// The device leaves D0 and its hardware is released, as far as that has not happened.
    fn release(&mut self) -> Result<(), Violation> {
        if self.stage == Stage::Working {
            self.power(power::D0_EXIT, &[D3_FINAL])?;
        }
        if self.stage >= Stage::Added && self.stage != Stage::Released {
            self.power(power::RELEASE, &[0])?;
            self.stage = Stage::Released;
        }
        Ok(())
    }

    /// Removes the device and unloads the driver, from wherever it is; checks that nothing is left.
    pub fn remove(&mut self) -> Result<(), Violation> {
        self.release()?;
        if self.stage >= Stage::Added {
            self.delete_device()?;
        }
        if self.stage >= Stage::Loaded {
            let driver = self.machine.framework.driver_object;
            let unload = self.machine.engine.read_u64(driver + 0x68);
            if unload != 0 {
                self.machine.call("DriverUnload", unload, &[driver])?;
            }
        }
        self.stage = Stage::Unloaded;
        kmdf::forget_driver(&mut self.machine)?;
        self.check_nothing_left()
    }

    /// The device's children are deleted first, then its cleanup callback runs, then it is gone.
    fn delete_device(&mut self) -> Result<(), Violation> {
        let Some(device) = self.machine.framework.device else {
            return Ok(());
        };
        for child in self.machine.framework.children(device) {
            kmdf::delete(&mut self.machine, child)?;
        }
        if let Some(cleanup) = self.machine.framework.cleanup_of(device) {
            self.machine
                .call("EvtCleanupCallback", cleanup, &[device])?;
        }
        self.machine.framework.device = None;
        kmdf::delete(&mut self.machine, device)
    }

    fn check_nothing_left(&mut self) -> Result<(), Violation> {
        let alive = self.machine.kernel.alive();
        if !alive.is_empty() || self.machine.framework.bound {
            let what = format!(
                "after unload: {alive:?}, bound {}",
                self.machine.framework.bound
            );
            return Err(Violation::new(Rule::Alive, what));
        }
        let arena = &self.machine.engine.bus().arena;
        let leaks: Vec<String> = arena
            .leaks()
            .map(|(at, allocation)| format!("{} bytes at {at:#x}", allocation.size))
            .collect();
        if leaks.is_empty() {
            Ok(())
        } else {
            Err(Violation::new(Rule::PoolLeak, leaks.join(", ")))
        }
    }

    /// Begins a workload on its processors.
    pub fn begin(&mut self, workload: &Workload) {
        self.work = Work::Workload(Box::new(Run::begin(workload, self)));
    }

    /// Begins a program on every processor, with [`Machine::feed_guest`].
    pub fn begin_programs(&mut self, program: &Program, rounds: u32) -> Result<(), Violation> {
        let code = program.code(rounds);
        let code = code.map_err(|error| Violation::new(Rule::Unmodelled, error.to_string()))?;
        self.machine.begin_programs(&code)?;
        self.work = Work::Programs(self.machine.now());
        Ok(())
    }

    /// Runs what was begun for at most so many nanoseconds; whether any of it is left.
    pub fn advance(&mut self, nanoseconds: u64) -> Result<bool, Violation> {
        match std::mem::replace(&mut self.work, Work::None) {
            Work::None => Ok(false),
            Work::Workload(mut run) => {
                let left = run.advance(self, nanoseconds);
                self.work = Work::Workload(run);
                match self.broken.take() {
                    Some(violation) => Err(violation),
                    None => Ok(left),
                }
            }
            Work::Programs(began) => {
                self.work = Work::Programs(began);
                let until = self.machine.now().saturating_add(nanoseconds);
                self.machine.run_programs(until)
            }
        }
    }

    /// Modelled time since that began.
    pub fn elapsed_ns(&mut self) -> u64 {
        match std::mem::replace(&mut self.work, Work::None) {
            Work::None => 0,
            Work::Workload(run) => {
                let elapsed = run.elapsed_ns(self);
                self.work = Work::Workload(run);
                elapsed
            }
            Work::Programs(began) => {
                self.work = Work::Programs(began);
                self.machine.now() - began
            }
        }
    }
}

/// What stands for a WDFDEVICE_INIT.
const INIT: u64 = 0x2000;

impl Answering for Device {
    fn cpus(&mut self) -> &mut [Cpu] {
        &mut self.machine.engine.bus().cpus
    }

    fn timer_period(&self) -> Option<u32> {
        let period = self.machine.kernel.timer_period()?;
        Some(u32::try_from(period).unwrap_or(u32::MAX))
    }

    fn interrupt(&mut self, index: usize, interrupted: &Interrupted) {
        if self.broken.is_none()
            && let Err(violation) = self.machine.interrupt(index, *interrupted)
        {
            self.broken = Some(violation);
        }
    }

    fn tick(&mut self, _index: usize) {
        if self.broken.is_some() {
            return;
        }
        kernel::expire_timers(&mut self.machine);
        if !self.machine.disturbed
            && let Err(violation) = self.machine.settle()
        {
            self.broken = Some(violation);
        }
    }
}
