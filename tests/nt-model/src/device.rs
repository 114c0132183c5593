//! The driver on its machine, as a user sees it: open, request, close. [`pnp`] has what the PnP and
//! power managers do.

pub mod pnp;

use crate::image::Image;
use crate::kernel;
use crate::kmdf::{self, Kind, Method, Request};
use crate::machine::{Machine, SYSTEM};
use crate::programs::Program;
use crate::rules::{Rule, Violation};
use anyhow::Result;
use hal_profile::run::overflow::Interrupted;
use shared_types::NtStatus;
use shared_types::request::{Access, RequestCode};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::load::run::{Answering, Run};
use sim::load::workload::{ShortChange, Workload};
use sim::machine::io_manager_grants;

/// A request that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is in the queue, or with the driver.
    Queued(u64),
    /// It did not get that far.
    Refused(NtStatus),
}

/// What the I/O manager's buffers contain before anyone writes there, and how many such bytes in a
/// row no reply contains by itself.
const GARBAGE: u8 = 0xA5;
const GARBAGE_IN_A_ROW: usize = 4;

/// A handle to the device.
#[derive(Clone, Debug)]
pub struct File {
    /// The framework's file object.
    pub object: u64,
    process: u32,
    granted: Vec<Access>,
}

impl File {
    /// The process that opened it.
    pub const fn process(&self) -> u32 {
        self.process
    }
}

/// What the processors do apart from the driver.
enum Work {
    None,
    Workload(Box<Run>),
    /// Programs, and when they began.
    Programs(u64),
}

/// The driver on its machine.
pub struct Device {
    pub machine: Machine,
    /// Bytes of the driver's image in memory.
    pub image_size: u64,
    stage: pnp::Stage,
    /// If set, D0Entry returns this instead of its own status when it is next called.
    pub d0_entry_answers: Option<u32>,
    /// If set, the bus fails the device's next start with this status.
    pub bus_fails_start: Option<u32>,
    /// The device's interface cannot be enabled.
    pub interface_fails: bool,
    /// If set, WMI cannot be registered with at the device's first start, which has this status.
    pub wmi_fails: Option<u32>,
    /// The system has shut down.
    is_off: bool,
    work: Work,
    /// The starts and ends of short programs.
    pub(crate) short_changes: Vec<ShortChange>,
    /// The first rule that was broken where it could not be reported.
    broken: Option<Violation>,
    /// The writable parts of the image, as the loader makes them.
    writable: Vec<(u64, Vec<u8>)>,
}

/// Checks that the driver has written every byte of a reply beyond its input.
fn must_be_written(reply: &[u8], input: usize) -> Result<(), Violation> {
    let mut rows = reply[input.min(reply.len())..].windows(GARBAGE_IN_A_ROW);
    if !rows.any(|row| row.iter().all(|&byte| byte == GARBAGE)) {
        return Ok(());
    }
    let length = reply.len();
    let what = format!("a reply of {length} bytes has bytes that the driver did not write");
    Err(Violation::new(Rule::Uninitialised, what))
}

impl Device {
    /// A machine of these processors with the driver's file in memory, but not yet loaded.
    pub fn new(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<Self> {
        let image = Image::load(file)?;
        let mut machine = Machine::new(&image, leaves, seed)?;
        machine.kernel.entry = image.entry;
        Ok(Self {
            machine,
            image_size: image.bytes.len() as u64,
            stage: pnp::Stage::Unloaded,
            d0_entry_answers: None,
            bus_fails_start: None,
            interface_fails: false,
            wmi_fails: None,
            is_off: false,
            work: Work::None,
            short_changes: Vec::new(),
            broken: None,
            writable: image.writable(),
        })
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

    /// The handle is closed: the driver is called, then the framework cancels the file object's
    /// waiting requests. Requests of other threads may still come (IRP_MJ_CLEANUP's page).
    pub fn clean_up(&mut self, file: &File) -> Result<(), Violation> {
        let cleanup = self.machine.framework.callbacks.file_cleanup;
        if cleanup != 0 {
            self.machine.call("EvtFileCleanup", cleanup, &[file.object])?;
        }
        self.machine.framework.cancel(file.object);
        Ok(())
    }

    /// The last request is completed, and the file object is deleted (IRP_MJ_CLOSE's page).
    pub fn end_file(&mut self, file: &File) -> Result<(), Violation> {
        let close = self.machine.framework.callbacks.file_close;
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
        let request = self.enqueue(file.object, file.process, code, input, output)?;
        Ok(Submitted::Queued(request))
    }

    /// One DeviceIoControl of a kernel caller, which sends it without a file object: nothing checks
    /// a handle's rights.
    pub fn device_control_without_file(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: usize,
    ) -> Result<(NtStatus, Vec<u8>), Violation> {
        let request = self.enqueue(0, SYSTEM.0, code, input, output)?;
        self.machine.settle()?;
        self.machine.check_nobody_waits()?;
        self.finish_request(request)
    }

    fn enqueue(
        &mut self,
        file: u64,
        process: u32,
        code: RequestCode,
        input: &[u8],
        output: usize,
    ) -> Result<u64, Violation> {
        let method = Method::of(code.0);
        let length = match method {
            Method::Buffered => input.len().max(output),
            Method::Direct | Method::Neither => input.len(),
        };
        let engine = &mut self.machine.engine;
        let buffer = engine.allocate(length as u64, 0)?;
        // The I/O manager's buffer comes from the pool uninitialised: its previous contents must
        // not reach the client.
        let garbage = vec![GARBAGE; length];
        engine.write(buffer, &garbage);
        engine.write(buffer, input);
        let mut pages = None;
        if method == Method::Direct {
            pages = Some(engine.allocate(output as u64, 0)?);
        }
        let request = Request {
            buffer,
            pages,
            lengths: (input.len() as u64, output as u64),
            file,
            process,
            code: code.0,
            completed: None,
        };
        kmdf::enqueue(&mut self.machine, request)
    }

    /// Takes the reply of a completed request.
    pub fn finish_request(&mut self, handle: u64) -> Result<(NtStatus, Vec<u8>), Violation> {
        let request = self.machine.framework.take_request(handle);
        self.machine.engine.bus().arena.free(handle, 0)?;
        let completed = request.and_then(|request| Some((request.completed?, request)));
        let Some(((status, information), request)) = completed else {
            return Err(Violation::new(Rule::Request, "a request is not completed"));
        };
        let length = information as usize;
        let at = request.pages.unwrap_or(request.buffer);
        let reply = self.machine.engine.bytes(at, length);
        // A direct method's pages are the client's own, and hold whatever the client had there.
        if request.pages.is_none() {
            must_be_written(&reply, request.lengths.0 as usize)?;
        }
        let arena = &mut self.machine.engine.bus().arena;
        for memory in request.pages.into_iter().chain([request.buffer]) {
            arena.free(memory, 0)?;
        }
        Ok((NtStatus(status), reply))
    }

    /// Begins a workload on its processors.
    pub fn begin(&mut self, workload: &Workload) {
        self.work = Work::Workload(Box::new(Run::begin(workload, self)));
    }

    /// Begins a program on every processor, with [`Machine::feed_guest`].
    pub fn begin_programs(&mut self, program: &Program, rounds: u32) -> Result<(), Violation> {
        self.machine.begin_programs(&program.code(rounds))?;
        self.work = Work::Programs(self.machine.now());
        Ok(())
    }

    /// Runs what was begun for at most this many nanoseconds; returns whether any of it is left.
    pub fn advance(&mut self, nanoseconds: u64) -> Result<bool, Violation> {
        match std::mem::replace(&mut self.work, Work::None) {
            Work::None => Ok(false),
            // The run is taken out of the device, because it calls back into it.
            Work::Workload(mut run) => {
                let left = run.advance(self, nanoseconds);
                self.work = Work::Workload(run);
                // The handlers of a workload's events return nothing, so what they broke is
                // reported here.
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

    /// Time passes on every processor, and the timers that are then due expire.
    pub fn pass(&mut self, nanoseconds: u64) -> Result<(), Violation> {
        let moment = self.machine.now() + nanoseconds;
        self.machine.pass_to(moment);
        kernel::expire_due_timers(&mut self.machine);
        self.machine.settle()
    }

    /// Modelled time since it began.
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

impl Device {
    fn settle_unless_disturbed(&mut self) {
        if !self.machine.disturbed
            && let Err(violation) = self.machine.settle()
        {
            self.broken = Some(violation);
        }
    }
}

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
        // The tick need not run on the processor whose time this is: Windows expires a timer
        // wherever it likes.
        kernel::expire_timers(&mut self.machine);
        self.settle_unless_disturbed();
    }

    fn short(&mut self, change: ShortChange) {
        self.short_changes.push(change);
    }
}
