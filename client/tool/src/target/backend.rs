//! Where to measure: the installed driver, or a modelled machine.

use crate::output::error::Error;
use crate::output::error::Result;
#[cfg(windows)]
use halprof_measure::Driver;
use halprof_measure::{InProcess, ModelledMachine, Transport, did_you_mean, spec};
use shared_types::request::RequestCode;

/// The name of the installed driver for `--machine`.
pub const DRIVER: &str = "driver";

/// A place to measure, which answers the requests.
pub struct Backend {
    answers: Answers,
    /// The description of the model, if this is one.
    description: Option<String>,
}

enum Answers {
    /// `halprof.sys` on Windows, or anything else that measures in real time.
    RealTime(Box<dyn Transport>),
    Modelled(Box<dyn ModelledMachine>),
}

impl Backend {
    /// Opens what `--machine` names: the installed driver, or its service on a modelled machine.
    pub fn open(machine: &str) -> Result<Self> {
        if machine == DRIVER {
            return driver();
        }
        let spec = spec(machine).map_err(|error| guessed(machine, error))?;
        let model = InProcess::new(&spec.leaves);
        Ok(Self::modelled(Box::new(model), spec.description))
    }

    /// Something that measures in real time, on the machine where programs run.
    #[must_use]
    pub fn real_time(transport: Box<dyn Transport>) -> Self {
        Self { answers: Answers::RealTime(transport), description: None }
    }

    /// A modelled machine, and the description of its model.
    #[must_use]
    pub fn modelled(machine: Box<dyn ModelledMachine>, description: String) -> Self {
        Self { answers: Answers::Modelled(machine), description: Some(description) }
    }

    /// The description of the model, if this is a modelled machine.
    pub(crate) fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The model, if this is one.
    pub(crate) fn model(&mut self) -> Option<&mut dyn ModelledMachine> {
        match &mut self.answers {
            Answers::RealTime(_) => None,
            Answers::Modelled(model) => Some(model.as_mut()),
        }
    }
}

impl Transport for Backend {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> halprof_measure::Result<usize> {
        match &mut self.answers {
            Answers::RealTime(transport) => transport.request(code, input, output),
            Answers::Modelled(model) => model.request(code, input, output),
        }
    }
}

/// Adds the model that may have been meant.
fn guessed(machine: &str, error: halprof_measure::Error) -> halprof_measure::Error {
    let name = machine.split(',').next().unwrap_or(machine);
    let names = sim::models::MODELS.iter().map(|model| model.name);
    match (error, did_you_mean(name, names)) {
        (halprof_measure::Error::NoMachine(message), Some(meant)) => {
            halprof_measure::Error::NoMachine(format!("{message}. {meant}"))
        }
        (error, _) => error,
    }
}

#[cfg(windows)]
fn driver() -> Result<Backend> {
    match Driver::open()? {
        Some(driver) => Ok(Backend::real_time(Box::new(driver))),
        None => Err(no_interface()),
    }
}

/// No device has halprof's interface: there is none, its driver does not run, or it is another
/// driver.
#[cfg(windows)]
fn no_interface() -> Error {
    use halprof_setup::installation::{Standing, standing};
    match standing() {
        Standing::Absent => halprof_setup::Error::NotInstalled.into(),
        Standing::NotRunning(obstacle) => {
            Error::no_driver(format!("it is installed, but {obstacle}"), obstacle.hint())
        }
        Standing::Running => Error::no_driver(
            "the driver runs, but does not offer the interface of this halprof",
            "Install halprof.exe and halprof.sys of the same release.",
        ),
    }
}

#[cfg(not(windows))]
fn driver() -> Result<Backend> {
    Err(Error::no_driver(
        "the driver runs on Windows only",
        "Measure on a model: `--machine NAME`, see `halprof machines`.",
    ))
}
