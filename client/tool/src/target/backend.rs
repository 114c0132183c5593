//! Where to measure: the installed driver, or a modelled machine.

use crate::output::error::Error;
use crate::output::error::Result;
#[cfg(windows)]
use halprof_measure::Driver;
use halprof_measure::{Code, InProcess, ModelledMachine, Transport, did_you_mean, spec};
use shared_types::request::RequestCode;
use sim::workload::Workload;
use std::cell::RefCell;
use std::rc::Rc;

/// The name of the installed driver for `--machine`.
pub const DRIVER: &str = "driver";

/// Where measuring is done: what answers the requests.
pub struct Backend {
    port: Port,
    /// The description of the model, if this is one.
    description: Option<String>,
}

enum Port {
    /// `halprof.sys` on Windows, or anything else that measures in real time.
    RealTime(Box<dyn Transport>),
    Modelled(Model),
}

/// A modelled machine. A session sends it requests while a clock lets its time pass.
#[derive(Clone)]
pub(crate) struct Model(Rc<RefCell<Box<dyn ModelledMachine>>>);

impl Model {
    /// Starts a workload on its processors.
    pub(crate) fn begin(&self, workload: &Workload) {
        self.0.borrow_mut().begin(workload);
    }

    /// Runs for at most this many modelled nanoseconds; returns whether work is left.
    pub(crate) fn advance(&self, nanoseconds: u64) -> halprof_measure::Result<bool> {
        self.0.borrow_mut().advance(nanoseconds)
    }

    /// Modelled time since the workload began.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.0.borrow_mut().elapsed_ns()
    }

    /// Code that actually runs on it, apart from the places that a workload names.
    pub(crate) fn modules(&self) -> Vec<Code> {
        self.0.borrow().modules()
    }
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
        Self { port: Port::RealTime(transport), description: None }
    }

    /// A modelled machine, and the description of its model.
    #[must_use]
    pub fn modelled(machine: Box<dyn ModelledMachine>, description: String) -> Self {
        let model = Model(Rc::new(RefCell::new(machine)));
        Self { port: Port::Modelled(model), description: Some(description) }
    }

    /// The description of the model, if this is a modelled machine.
    pub(crate) fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The model, if this is one.
    pub(crate) fn model(&self) -> Option<&Model> {
        match &self.port {
            Port::RealTime(_) => None,
            Port::Modelled(model) => Some(model),
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
        match &mut self.port {
            Port::RealTime(transport) => transport.request(code, input, output),
            Port::Modelled(Model(model)) => model.borrow_mut().request(code, input, output),
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
    use halprof_setup::installation::{DriverState, driver_state};
    match driver_state() {
        DriverState::Absent => halprof_setup::Error::NotInstalled.into(),
        DriverState::NotRunning(error) => {
            Error::no_driver(format!("it is installed, but {error}"), error.hint())
        }
        DriverState::Running => Error::no_driver(
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
