//! The tool's transport to the shipped driver: one modelled machine, one handle.

use crate::device::{Device, File};
use crate::memory::{IMAGE, STUBS, STUBS_SIZE};
use crate::programs::Program;
use crate::rules::Violation;
use anyhow::{Context, Result};
use halprof_measure::processes::ProcessEvent;
use halprof_measure::{Code, Error, ModelledMachine, Transport, short_program};
use shared_types::NtStatus;
use shared_types::request::{Access, RequestCode};
use sim::cpu::cpuid::Leaves;
use sim::load::run::PROCESS;
use sim::load::workload::Workload;
use std::cell::RefCell;
use std::rc::Rc;

/// What a machine leaves behind: the first rule that was broken on it.
pub type Broken = Rc<RefCell<Option<Violation>>>;

/// What runs with the guest feed.
#[derive(Clone, Copy)]
pub struct Guest {
    /// The program, on every processor.
    pub program: &'static Program,
    /// The number of its rounds.
    pub rounds: u32,
    /// How many instructions late interrupts arrive.
    pub skid: u64,
}

/// A device that is started, and open for this process.
pub struct DriverTransport {
    pub device: Device,
    /// The handle by which it is open.
    pub file: File,
    guest: Option<Guest>,
    broken: Broken,
}

impl DriverTransport {
    /// Loads a driver's file on a machine of these processors, starts its device and opens it. The
    /// PMUs are driven by the workloads, or by the guest.
    pub fn open(
        file: &[u8],
        leaves: &[Leaves],
        seed: u64,
        guest: Option<Guest>,
        broken: &Broken,
    ) -> Result<Self> {
        let mut device = Device::new(file, leaves, seed)?;
        if let Some(guest) = guest {
            device.machine.feed_guest(guest.skid);
        }
        let status = device.start()?;
        anyhow::ensure!(status == 0, "the driver does not start: status {status:#x}");
        let file = device
            .open(std::process::id(), &[Access::Read, Access::Write])
            .context("the device does not open")?;
        Ok(Self { device, file, guest, broken: Rc::clone(broken) })
    }

    /// A broken rule is a defect: it replaces the result.
    fn kept<T>(&self, outcome: Result<T, Violation>) -> halprof_measure::Result<T> {
        outcome.map_err(|violation| {
            let told = Error::Internal(violation.to_string());
            self.broken.borrow_mut().get_or_insert(violation);
            told
        })
    }
}

impl Transport for DriverTransport {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> halprof_measure::Result<usize> {
        let outcome = self.device.device_control(&self.file, code, input, output);
        match self.kept(outcome)? {
            (NtStatus::SUCCESS, length) => Ok(length),
            (refused, _) => Err(Error::Status(refused)),
        }
    }
}

impl ModelledMachine for DriverTransport {
    /// Begins the guest's program in place of the workload, if there is one.
    fn begin(&mut self, workload: &Workload) {
        let Some(guest) = self.guest else {
            self.device.begin(workload);
            return;
        };
        let begun = self.device.begin_programs(guest.program, guest.rounds);
        // A violation is kept, and reported at the end.
        let _ = self.kept(begun);
    }

    fn advance(&mut self, nanoseconds: u64) -> halprof_measure::Result<bool> {
        let outcome = self.device.advance(nanoseconds);
        self.kept(outcome)
    }

    fn elapsed_ns(&mut self) -> u64 {
        self.device.elapsed_ns()
    }

    fn take_process_events(&mut self) -> Vec<ProcessEvent> {
        let changes = std::mem::take(&mut self.device.short_changes);
        changes.into_iter().flat_map(short_program).collect()
    }

    fn modules(&self) -> Vec<Code> {
        let Some(guest) = self.guest else {
            return Vec::new();
        };
        let module =
            |process, name: &str, start, end| Code { process, name: name.to_owned(), start, end };
        let (start, end) = guest.program.module;
        let program = format!("{}.exe", guest.program.name);
        vec![
            module(Some(PROCESS), &program, start, end),
            module(None, "halprof.sys", IMAGE, IMAGE + self.device.image_size),
            // The functions that the driver calls: each is one instruction at its stub's start.
            module(None, "ntoskrnl.exe", STUBS, STUBS + STUBS_SIZE),
        ]
    }
}

impl Drop for DriverTransport {
    /// The handle is closed and the driver removed, which may break rules too. After a broken rule
    /// nothing more can be learnt from the machine.
    fn drop(&mut self) {
        if self.broken.borrow().is_some() {
            return;
        }
        let device = &mut self.device;
        let gone = device.close(&self.file).and_then(|()| device.remove());
        *self.broken.borrow_mut() = gone.err();
    }
}
