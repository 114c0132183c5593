//! Where to measure: the installed driver, or a modelled machine.

use halprof::{Error, Modelled, Result, Transport};
use shared_types::request::RequestCode;
use sim::spec::{self, SpecError};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// No dump of 2048 processors is longer.
const DUMP_BYTES_MAX: u64 = 64 << 20;

/// What answers the requests.
pub(crate) enum Place {
    /// `halprof.sys`.
    #[cfg(windows)]
    Driver(halprof::Driver),
    /// A model, with its description.
    Modelled(Box<Modelled>, String),
}

impl Place {
    /// Opens what `--machine` names.
    pub(crate) fn open(machine: &str) -> Result<Self> {
        if machine == "driver" {
            return driver();
        }
        let spec = spec::machine(machine, read_dump).map_err(|error| refused(machine, error))?;
        let model = Modelled::new(&spec.leaves);
        Ok(Self::Modelled(Box::new(model), spec.description))
    }

    /// What a modelled machine is a model of.
    #[cfg_attr(
        not(windows),
        expect(clippy::unnecessary_wraps, reason = "None on Windows")
    )]
    pub(crate) fn description(&self) -> Option<&str> {
        match self {
            #[cfg(windows)]
            Self::Driver(_) => None,
            Self::Modelled(_, description) => Some(description),
        }
    }

    /// The model, where this is one.
    #[cfg_attr(
        not(windows),
        expect(clippy::unnecessary_wraps, reason = "None on Windows")
    )]
    pub(crate) fn model(&mut self) -> Option<&mut Modelled> {
        match self {
            #[cfg(windows)]
            Self::Driver(_) => None,
            Self::Modelled(model, _) => Some(model),
        }
    }
}

impl Transport for Place {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        match self {
            #[cfg(windows)]
            Self::Driver(driver) => driver.request(code, input, output),
            Self::Modelled(model, _) => model.request(code, input, output),
        }
    }
}

#[cfg(windows)]
fn driver() -> Result<Place> {
    halprof::Driver::open().map(Place::Driver)
}

#[cfg(not(windows))]
fn driver() -> Result<Place> {
    Err(Error::NoDriver {
        message: "the driver runs on Windows only".to_owned(),
        hint: "Measure on a model: `--machine NAME`, see `halprof machines`.".to_owned(),
    })
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
        | SpecError::DuplicateOption
        | SpecError::Processors { .. } => Error::Usage {
            message: format!("`--machine {machine}`: {error}"),
            hint,
        },
    }
}
