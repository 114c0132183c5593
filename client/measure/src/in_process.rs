//! A machine modelled in this process: the driver's own service on software processors.

mod traced;

pub use traced::listed;
pub(crate) use traced::live;

#[cfg(test)]
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::processes::{ProcessChange, ProcessEvent};
use crate::transport::Transport;
use shared_types::NtStatus;
use shared_types::request::{Access, RequestCode};
use sim::cpu::cpuid::Leaves;
use sim::load::run::{SHORT, SHORT_PATH};
use sim::load::workload::{ShortChange, Workload};
use sim::machine::{Handle, Model};
use sim::machines::{MachineSpec, SpecError};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The model that is measured where no machine is named and there is no driver to open.
pub const DEFAULT_MODEL: &str = "sapphire-rapids";

/// Code in the memory of a modelled machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The process it belongs to; `None` for the kernel.
    pub process: Option<u32>,
    /// The file's name.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
}

/// A modelled machine. Besides answering requests it runs a [`Workload`], in modelled time.
pub trait ModelledMachine: Transport {
    /// Starts a workload on its processors.
    fn begin(&mut self, workload: &Workload);
    /// Runs for at most this many modelled nanoseconds; returns whether work is left.
    fn advance(&mut self, nanoseconds: u64) -> Result<bool>;
    /// Modelled time since the workload began.
    fn elapsed_ns(&mut self) -> u64;
    /// Code that actually runs on it, apart from the places that a workload names.
    fn modules(&self) -> Vec<Code> {
        Vec::new()
    }
    /// What happened to processes and images since the last call, in order of time.
    fn take_process_events(&mut self) -> Vec<ProcessEvent> {
        Vec::new()
    }
}

/// The start or the end of a workload's short program, in the form of a source of such events.
pub fn short_program(change: ShortChange) -> Vec<ProcessEvent> {
    let (process, _) = SHORT;
    let event =
        |change_to| ProcessEvent { timestamp: change.timestamp, process, change: change_to };
    let Some((start, end)) = change.code else {
        return vec![event(ProcessChange::Ended)];
    };
    let path = SHORT_PATH.to_owned();
    let name = path.rsplit('\\').next().unwrap_or_default().to_owned();
    vec![event(ProcessChange::Started(name)), event(ProcessChange::Loaded { path, start, end })]
}

/// The driver's own service on modelled processors, open for reading and writing.
#[derive(Debug)]
pub struct InProcess {
    model: Model,
    handle: Handle,
}

impl InProcess {
    /// A machine of these processors, with the device open for this process.
    pub fn new(processors: &[Leaves]) -> Self {
        let mut model = Model::new(processors);
        let handle = model.open(std::process::id(), &[Access::Read, Access::Write]);
        Self { model, handle }
    }

    /// The machine itself, to inspect or disturb its registers.
    pub const fn model(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Runs a workload to its end.
    pub fn run(&mut self, workload: &str) -> Result<()> {
        let parsed = sim::load::workload::parse(workload);
        self.begin(&parsed.map_err(|error| Error::usage(error.to_string(), error.hint()))?);
        while self.advance(STEP)? {}
        Ok(())
    }

    /// Something that would have stopped real silicon is a defect, and voids any result.
    fn faultless(&mut self) -> Result<()> {
        match self.model.faults().first() {
            Some(fault) => Err(Error::Internal(fault.to_string())),
            None => Ok(()),
        }
    }
}

impl ModelledMachine for InProcess {
    fn begin(&mut self, workload: &Workload) {
        self.model.begin(workload);
    }

    fn advance(&mut self, nanoseconds: u64) -> Result<bool> {
        let left = self.model.advance(nanoseconds);
        self.faultless().map(|()| left)
    }

    fn elapsed_ns(&mut self) -> u64 {
        self.model.elapsed_ns()
    }

    fn take_process_events(&mut self) -> Vec<ProcessEvent> {
        let changes = std::mem::take(&mut self.model.host().short_changes);
        changes.into_iter().flat_map(short_program).collect()
    }
}

impl Transport for InProcess {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let (status, length) = self.model.device_control(self.handle, code, input, output);
        self.faultless()?;
        match status {
            NtStatus::SUCCESS => Ok(length),
            refused => Err(Error::Status(refused)),
        }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.model.close(self.handle);
    }
}

/// Modelled time between two checks for the end of a workload, in nanoseconds.
const STEP: u64 = 1_000_000;
/// The largest dump that is read; a dump of 2048 processors is smaller.
const DUMP_BYTES_MAX: u64 = 64 << 20;

/// The option that makes a model measure by a trace, as Windows' own tracing would.
const BY_TRACE: &str = ",backend=etw";

/// A model without the key `backend=etw`, and whether it was there.
pub fn without_backend(machine: &str) -> (String, bool) {
    match machine.split_once(BY_TRACE) {
        Some((name, rest)) if rest.is_empty() || rest.starts_with(',') => {
            (format!("{name}{rest}"), true)
        }
        _ => (machine.to_owned(), false),
    }
}

/// A machine to model: the name of a built-in model or the path of a CPUID dump, followed by
/// options, as `halprof --machine` takes them.
pub fn spec(machine: &str) -> Result<MachineSpec> {
    sim::machines::machine(machine, read_dump).map_err(refused)
}

fn read_dump(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(DUMP_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A connection with a machine of this name.
#[cfg(test)]
pub(crate) fn modelled(machine: &str) -> Connection<InProcess> {
    let spec = spec(machine).expect("a machine");
    Connection::new(InProcess::new(&spec.leaves)).expect("it answers")
}

/// A faulty file, an unknown name and invalid options are three different errors.
fn refused(error: SpecError) -> Error {
    let hint = error.hint().to_owned();
    match error {
        SpecError::Unknown(_) => Error::NoMachine(error.to_string()),
        SpecError::Read { path, error } => Error::File { path: path.into(), doing: "read", error },
        SpecError::Dump { path, error } => {
            Error::bad_file(path, format!("is not a CPUID dump: {error}"), hint)
        }
        SpecError::Empty
        | SpecError::UnknownOption(_)
        | SpecError::DuplicateOption(_)
        | SpecError::Quirks(_)
        | SpecError::Processors(_) => Error::usage(error.to_string(), hint),
    }
}
