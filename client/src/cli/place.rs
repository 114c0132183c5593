//! Where to measure: the installed driver, or a modelled machine.

use crate::{Error, Modelled, ModelledMachine, Result, Transport};
use shared_types::request::RequestCode;
use sim::spec::{self, MachineSpec, SpecError};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// No dump of 2048 processors is longer.
const DUMP_BYTES_MAX: u64 = 64 << 20;
/// What `--machine` calls the installed driver.
pub const DRIVER: &str = "driver";

/// What answers the requests.
pub struct Place {
    answers: Answers,
    /// What a modelled machine is a model of.
    description: Option<String>,
}

enum Answers {
    /// `halprof.sys` on Windows, or whatever else measures in the time of this machine.
    RealTime(Box<dyn Transport>),
    Modelled(Box<dyn ModelledMachine>),
}

impl Place {
    /// What `--machine` names: the installed driver, or its service on a modelled machine.
    pub fn open(machine: &str) -> Result<Self> {
        if machine == DRIVER {
            return driver();
        }
        let spec = spec(machine)?;
        let model = Modelled::new(&spec.leaves);
        Ok(Self::modelled(Box::new(model), spec.description))
    }

    /// Something that measures in the time of this machine, where programs run.
    #[must_use]
    pub fn real_time(transport: Box<dyn Transport>) -> Self {
        Self {
            answers: Answers::RealTime(transport),
            description: None,
        }
    }

    /// A modelled machine, and what it is a model of.
    #[must_use]
    pub fn modelled(machine: Box<dyn ModelledMachine>, description: String) -> Self {
        Self {
            answers: Answers::Modelled(machine),
            description: Some(description),
        }
    }

    /// What a modelled machine is a model of.
    pub(crate) fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The model, where this is one.
    pub(crate) fn model(&mut self) -> Option<&mut dyn ModelledMachine> {
        match &mut self.answers {
            Answers::RealTime(_) => None,
            Answers::Modelled(model) => Some(model.as_mut()),
        }
    }
}

impl Transport for Place {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        match &mut self.answers {
            Answers::RealTime(transport) => transport.request(code, input, output),
            Answers::Modelled(model) => model.request(code, input, output),
        }
    }
}

#[cfg(windows)]
fn driver() -> Result<Place> {
    Ok(Place::real_time(Box::new(crate::Driver::open()?)))
}

#[cfg(not(windows))]
fn driver() -> Result<Place> {
    Err(Error::NoDriver {
        message: "the driver runs on Windows only".to_owned(),
        hint: "Measure on a model: `--machine NAME`, see `halprof machines`.".to_owned(),
    })
}

/// The machine that `--machine` names, to be modelled.
pub fn spec(machine: &str) -> Result<MachineSpec> {
    spec::machine(machine, read_dump).map_err(|error| refused(machine, error))
}

fn read_dump(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(DUMP_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file that is wrong is one kind of error, a name that is nothing another, bad words a third.
fn refused(machine: &str, error: SpecError) -> Error {
    let hint = format!("{}.", error.hint());
    match error {
        SpecError::Unknown { .. } => Error::NoMachine(error.to_string()),
        SpecError::Read { path, error } => Error::File {
            path: path.into(),
            doing: "read",
            error,
        },
        SpecError::Dump { path, error } => Error::BadFile {
            path: path.into(),
            why: format!("is not a CPUID dump: {error}"),
            hint,
        },
        SpecError::Empty
        | SpecError::UnknownOption { .. }
        | SpecError::DuplicateOption { .. }
        | SpecError::Unkind(_)
        | SpecError::Processors { .. } => Error::Usage {
            message: format!("`--machine {machine}`: {error}"),
            hint,
        },
    }
}
