//! Where to measure: the installed driver, Windows' own tracing, or a modelled machine.

use crate::output::error::{Error, Result};
#[cfg(windows)]
use halprof_measure::Driver;
use halprof_measure::processes::{ProcessEvents, ProcessSource};
use halprof_measure::tracing::session::Tracing;
use halprof_measure::{
    Code, InProcess, ModelledMachine, Transport, did_you_mean, spec, without_backend,
};
use shared_types::request::RequestCode;
use sim::cpu::cpuid::Leaves;
use sim::load::workload::Workload;
use sim_etw::generator::Program;
use sim_etw::{ModelledTracing, SharedProgram};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The name of the installed driver for `--machine`.
pub const DRIVER: &str = "driver";

/// The name of Windows' own tracing for `--machine`.
pub const ETW: &str = "etw";

/// Where Windows measures by default: the driver, or its own tracing where no driver answers.
pub const DRIVER_OR_ETW: &str = "driver-or-etw";

/// Where measuring is done: what answers the requests.
pub struct Backend {
    transport: Box<dyn Transport>,
    /// The model that the requests go to, if it is one, and its description.
    pub(super) model: Option<(Model, String)>,
    /// Tracing, if that is what measures: requests then only describe the processors.
    pub(super) tracing: Option<Box<dyn Tracing>>,
    /// Why the driver was not used.
    pub(super) without_driver: Option<Box<Error>>,
}

/// A modelled machine. A session sends it requests while a clock lets its time pass.
#[derive(Clone)]
pub(crate) struct Model {
    machine: Rc<RefCell<Box<dyn ModelledMachine>>>,
    /// The real program that it runs, for a trace of it.
    program: SharedProgram,
    /// How many workloads it has begun.
    runs: Rc<Cell<usize>>,
}

impl Transport for Model {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> halprof_measure::Result<usize> {
        self.machine.borrow_mut().request(code, input, output)
    }
}

impl Model {
    fn new(machine: Box<dyn ModelledMachine>) -> Self {
        let machine = Rc::new(RefCell::new(machine));
        Self { machine, program: SharedProgram::default(), runs: Rc::default() }
    }

    /// Starts a workload, and shows the real program that it is of in a trace.
    pub(crate) fn begin_program(&self, workload: &Workload, program: Option<Program>) {
        *self.program.borrow_mut() = program;
        let run = self.runs.replace(self.runs.get() + 1);
        self.begin(workload.in_run(run).as_ref().unwrap_or(workload));
    }

    /// Starts a workload on its processors.
    pub(crate) fn begin(&self, workload: &Workload) {
        self.machine.borrow_mut().begin(workload);
    }

    /// Runs for at most this many modelled nanoseconds; returns whether work is left.
    pub(crate) fn advance(&self, nanoseconds: u64) -> halprof_measure::Result<bool> {
        self.machine.borrow_mut().advance(nanoseconds)
    }

    /// Modelled time since the workload began.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.machine.borrow_mut().elapsed_ns()
    }

    /// Code that actually runs on it, apart from the places that a workload names.
    pub(crate) fn modules(&self) -> Vec<Code> {
        self.machine.borrow().modules()
    }
}

impl ProcessSource for Model {
    fn start(&mut self) -> halprof_measure::Result<()> {
        self.machine.borrow_mut().take_process_events();
        Ok(())
    }

    fn stop(&mut self) -> halprof_measure::Result<ProcessEvents> {
        let events = self.machine.borrow_mut().take_process_events();
        Ok(ProcessEvents { events, ..ProcessEvents::default() })
    }
}

impl Backend {
    /// Opens what `--machine` names: the installed driver, or its service on a modelled machine.
    pub fn open(machine: &str) -> Result<Self> {
        match machine {
            DRIVER => return driver(),
            ETW => return etw(),
            DRIVER_OR_ETW => return driver_or_etw(),
            _ => {}
        }
        let (machine, is_traced) = without_backend(machine);
        let spec = spec(&machine).map_err(|error| guessed(&machine, error))?;
        let model = Model::new(Box::new(InProcess::new(&spec.leaves)));
        if !is_traced {
            return Ok(Self::of_model(model, spec.description));
        }
        let tracing =
            Box::new(ModelledTracing::new(model.clone())?.running(Rc::clone(&model.program)));
        let description = format!("{}, traced as Windows would", spec.description);
        Ok(Self { tracing: Some(tracing), ..Self::of_model(model, description) })
    }

    /// Something that measures in real time, on the machine where programs run.
    #[must_use]
    pub fn real_time(transport: Box<dyn Transport>) -> Self {
        Self { transport, model: None, tracing: None, without_driver: None }
    }

    /// A backend that measures by a trace, on these processors.
    #[must_use]
    pub fn tracing(tracing: Box<dyn Tracing>, processors: &[Leaves]) -> Self {
        let processors = Box::new(InProcess::new(processors));
        Self { tracing: Some(tracing), ..Self::real_time(processors) }
    }

    /// A modelled machine, and the description of its model.
    #[must_use]
    pub fn modelled(machine: Box<dyn ModelledMachine>, description: String) -> Self {
        Self::of_model(Model::new(machine), description)
    }

    fn of_model(model: Model, description: String) -> Self {
        Self { model: Some((model.clone(), description)), ..Self::real_time(Box::new(model)) }
    }
}

impl Transport for Backend {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> halprof_measure::Result<usize> {
        self.transport.request(code, input, output)
    }
}

/// Adds the model that may have been meant.
fn guessed(machine: &str, error: halprof_measure::Error) -> halprof_measure::Error {
    let name = machine.split(',').next().unwrap_or(machine);
    let names = sim::machines::models::MODELS.iter().map(|model| model.name);
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

#[cfg(windows)]
#[expect(clippy::unnecessary_wraps, reason = "refused elsewhere than on Windows")]
fn etw() -> Result<Backend> {
    let processors = halprof_setup::windows::cpuid::processors();
    Ok(Backend::tracing(Box::new(halprof_measure::tracer()), &processors))
}

/// Another version of the driver is an error, which its own tracing would hide.
#[cfg(windows)]
fn driver_or_etw() -> Result<Backend> {
    match driver() {
        Err(error) if error.code() == "no-driver" => {
            // A Windows that lists no source, such as Wine, has nothing to measure with.
            if halprof_measure::tracer().sources().is_err() {
                return Err(error);
            }
            Ok(Backend { without_driver: Some(Box::new(error)), ..etw()? })
        }
        answered => answered,
    }
}

#[cfg(not(windows))]
fn etw() -> Result<Backend> {
    Err(halprof_measure::Error::NoTracing {
        message: "Windows' own tracing is on Windows only".to_owned(),
        hint: "Measure on a model: `--machine NAME`; or read a trace (.etl) made on Windows: \
               `halprof report FILE`."
            .into(),
    }
    .into())
}

#[cfg(not(windows))]
fn driver_or_etw() -> Result<Backend> {
    driver()
}

#[cfg(not(windows))]
fn driver() -> Result<Backend> {
    Err(Error::no_driver(
        "the driver runs on Windows only",
        "Measure on a model: `--machine NAME`, see `halprof machines`.",
    ))
}
