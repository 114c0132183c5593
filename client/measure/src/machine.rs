//! Where a program measures: on a model, or on Windows with the driver.

use crate::error::{Error, Result};
use crate::in_process::{InProcess, ModelledMachine};
use crate::transport::Transport;
use shared_types::request::RequestCode;

/// Modelled time between two checks for the end of a workload, in nanoseconds.
const STEP: u64 = 1_000_000;
/// The model used where there is no driver to open.
#[cfg(not(windows))]
const DEFAULT: &str = "skylake";

/// A transport that is chosen when the program runs.
#[derive(Debug)]
pub enum Machine {
    /// A model.
    InProcess(Box<InProcess>),
    /// The installed driver.
    #[cfg(windows)]
    Driver(crate::windows::Driver),
}

impl Machine {
    /// The model of this name or CPUID dump; without a name the installed driver, or on systems
    /// other than Windows the model `skylake`.
    pub fn open(name: Option<&str>) -> Result<Self> {
        match name {
            Some(name) => Self::model(name),
            #[cfg(not(windows))]
            None => Self::model(DEFAULT),
            #[cfg(windows)]
            None => match crate::windows::Driver::open()? {
                Some(driver) => Ok(Self::Driver(driver)),
                None => Err(Error::NoDriver {
                    message: "the driver is not installed".to_owned(),
                    hint: "Run `halprof install`.".to_owned(),
                }),
            },
        }
    }

    fn model(name: &str) -> Result<Self> {
        let spec = crate::in_process::spec(name)?;
        Ok(Self::InProcess(Box::new(InProcess::new(&spec.leaves))))
    }

    /// Lets a model run a workload to its end, such as `instructions=1000000,cycles=2000000`. A real
    /// machine refuses this.
    pub fn run(&mut self, workload: &str) -> Result<()> {
        let parsed = sim::load::workload::parse(workload);
        let workload = parsed.map_err(|error| Error::usage(error.to_string(), error.hint()))?;
        match self {
            Self::InProcess(model) => {
                model.begin(&workload);
                while model.advance(STEP)? {}
                Ok(())
            }
            #[cfg(windows)]
            Self::Driver(_) => Err(Error::usage(
                "a real machine takes no workload",
                "Run code of your own, or open a model.",
            )),
        }
    }
}

impl Transport for Machine {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        match self {
            Self::InProcess(model) => model.request(code, input, output),
            #[cfg(windows)]
            Self::Driver(driver) => driver.request(code, input, output),
        }
    }
}
