//! What a user and the PnP manager do with the driver: load, open, request, close, sleep, wake,
//! remove, unload.

use crate::image::Image;
use crate::kernel::{self, number_of};
use crate::kmdf::{self, Kind, Request, power};
use crate::machine::{Interrupt, Machine};
use crate::rules::{Rule, Violation};
use anyhow::Result;
use hal_profile::overflow::Interrupted;
use shared_types::request::{Access, RequestCode};
use shared_types::{Mode, NtStatus};
use sim::cpuid::Leaves;
use sim::hal;
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
/// The offset of KTRAP_FRAME's Rip and SegCs (ntddk.h, x64), and its size.
const RIP: u64 = 0x168;
const CS: u64 = 0x170;
const TRAP_FRAME: u64 = 0x190;
/// KGDT64_R0_CODE and KGDT64_R3_CODE with RPL 3.
const KERNEL_CODE: u64 = 0x10;
const USER_CODE: u64 = 0x33;

/// What the I/O manager's buffers hold before anybody writes there, and how many such bytes in a
/// row no reply has by itself.
const GARBAGE: u8 = 0xA5;
const GARBAGE_IN_A_ROW: usize = 4;

/// A handle of the device.
#[derive(Clone, Debug)]
pub struct File {
    object: u64,
    process: u32,
    granted: Vec<Access>,
}

/// How far the driver has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Unloaded,
    Loaded,
    Added,
    Prepared,
    Working,
}

/// The driver on its machine.
pub struct Device {
    /// The machine.
    pub machine: Machine,
    stage: Stage,
    run: Option<Run>,
    /// The first rule that was broken while nobody could be told.
    broken: Option<Violation>,
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
            stage: Stage::Unloaded,
            run: None,
            broken: None,
        }
        .at(image.entry))
    }

    fn at(mut self, entry: u64) -> Self {
        self.machine.kernel.entry = entry;
        self
    }

    /// Loads the driver and starts its device, as far as it goes; the status that ended it.
    pub fn start(&mut self) -> Result<u32, Violation> {
        let entry = self.machine.kernel.entry;
        let driver = self.machine.framework.driver_object;
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
        let cleanup = self.machine.framework.file_cleanup;
        if cleanup != 0 {
            self.machine
                .call("EvtFileCleanup", cleanup, &[file.object])?;
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
        if !io_manager_grants(code, &file.granted) {
            return Ok((NtStatus::ACCESS_DENIED, 0));
        }
        let request = self.make_request(file, input, output.len())?;
        let (callback, queue) = self.machine.framework.device_control;
        let arguments = [
            queue,
            request,
            output.len() as u64,
            input.len() as u64,
            code.0.into(),
        ];
        self.machine
            .call("EvtIoDeviceControl", callback, &arguments)?;
        self.finish_request(request, output)
    }

    fn make_request(&mut self, file: &File, input: &[u8], output: usize) -> Result<u64, Violation> {
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
            completed: None,
        };
        kmdf::create(&mut self.machine, Kind::Request(request), 0)
    }

    fn finish_request(
        &mut self,
        handle: u64,
        output: &mut [u8],
    ) -> Result<(NtStatus, usize), Violation> {
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
        output[..length].copy_from_slice(&reply);
        self.machine.engine.bus().arena.free(buffer, 0)?;
        Ok((NtStatus(status), length))
    }

    /// The system goes to sleep (S3): the device leaves D0, then every register is lost.
    pub fn sleep(&mut self) -> Result<(), Violation> {
        self.power(power::D0_EXIT, &[D3])?;
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
            let index = self.machine.processors() as u32;
            self.tell_of_processor(callback, context, ADD_START, index)?;
            self.machine.add_processor(Cpu::new(processor));
            self.tell_of_processor(callback, context, ADD_COMPLETE, index)?;
        }
        Ok(())
    }

    /// KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT: state, number, status, PROCESSOR_NUMBER.
    fn tell_of_processor(
        &mut self,
        callback: u64,
        context: u64,
        state: u32,
        index: u32,
    ) -> Result<(), Violation> {
        let none = || Violation::new(Rule::Unmodelled, "the arena is full");
        let engine = &mut self.machine.engine;
        let change = engine.allocate(16, 0).ok_or_else(none)?;
        engine.write_u32(change, state);
        engine.write_u32(change + 4, index);
        engine.write_u32(change + 12, number_of(index.into()));
        let status = change + 8;
        self.machine.call(
            "the processor callback",
            callback,
            &[context, change, status],
        )?;
        self.machine.engine.bus().arena.free(change, 0)
    }

    /// The device is gone without warning; its handles are still open.
    pub fn surprise_remove(&mut self) -> Result<(), Violation> {
        self.power(power::SURPRISE, &[]).map(|_| ())
    }

    /// Removes the device and unloads the driver, from wherever it is; checks that nothing is left.
    pub fn remove(&mut self) -> Result<(), Violation> {
        if self.stage == Stage::Working {
            self.power(power::D0_EXIT, &[D3_FINAL])?;
        }
        if self.stage >= Stage::Added {
            self.power(power::RELEASE, &[0])?;
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
        self.run = Some(Run::begin(workload, self));
    }

    /// Runs the workload for at most so many nanoseconds; whether any of it is left.
    pub fn advance(&mut self, nanoseconds: u64) -> Result<bool, Violation> {
        let Some(mut run) = self.run.take() else {
            return Ok(false);
        };
        let left = run.advance(self, nanoseconds);
        self.run = Some(run);
        match self.broken.take() {
            Some(violation) => Err(violation),
            None => Ok(left),
        }
    }

    /// Modelled time since the workload began.
    pub fn elapsed_ns(&mut self) -> u64 {
        let Some(run) = self.run.take() else { return 0 };
        let elapsed = run.elapsed_ns(self);
        self.run = Some(run);
        elapsed
    }

    fn overflow(&mut self, index: usize, interrupted: &Interrupted) -> Result<(), Violation> {
        let who = (interrupted.process, interrupted.thread);
        if let Some(handler) = self.machine.kernel.interrupt_handler {
            let none = || Violation::new(Rule::Unmodelled, "the arena is full");
            let engine = &mut self.machine.engine;
            let frame = engine.allocate(TRAP_FRAME, 0).ok_or_else(none)?;
            engine.write_u64(frame + RIP, interrupted.ip);
            let user = interrupted.mode == Mode::User;
            engine.write_u64(frame + CS, if user { USER_CODE } else { KERNEL_CODE });
            let interrupt = Interrupt {
                handler,
                arguments: [frame, 0],
                who,
            };
            self.machine.interrupt(index, interrupt)?;
            return self.machine.engine.bus().arena.free(frame, 0);
        }
        if let Some((owner, Some(handler))) = self.machine.kernel.counters {
            return self.call_back(index, handler, owner, who);
        }
        Ok(())
    }

    /// The HAL answers the interrupt, and tells the owner of the counters.
    fn call_back(
        &mut self,
        index: usize,
        handler: u64,
        owner: u64,
        who: (u32, u32),
    ) -> Result<(), Violation> {
        let stopped = hal::stop(&mut self.cpus()[index]);
        let interrupt = Interrupt {
            handler,
            arguments: [stopped.overflowed, owner],
            who,
        };
        self.machine.interrupt(index, interrupt)?;
        hal::go_on(&mut self.cpus()[index], stopped);
        Ok(())
    }
}

/// What stands for a WDFDEVICE_INIT.
const INIT: u64 = 0x2000;

impl Answering for Device {
    fn cpus(&mut self) -> &mut [Cpu] {
        &mut self.machine.engine.bus().cpus
    }

    fn rotates(&self) -> bool {
        const READ_PERIOD: u64 = 50_000_000;
        let period = self.machine.kernel.timer_period();
        period.is_some_and(|period| period < READ_PERIOD)
    }

    fn interrupt(&mut self, index: usize, interrupted: &Interrupted) {
        if self.broken.is_none()
            && let Err(violation) = self.overflow(index, interrupted)
        {
            self.broken = Some(violation);
        }
    }

    fn tick(&mut self, _index: usize) {
        if self.broken.is_none()
            && let Err(violation) = kernel::expire_timers(&mut self.machine)
        {
            self.broken = Some(violation);
        }
    }
}
