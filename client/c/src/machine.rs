//! Where to measure: a model, or on Windows the driver.

use crate::failure::Failure;
#[cfg(windows)]
use crate::failure::usage;
use halprof_measure::{Error, InProcess, Result, Transport};
use shared_types::request::RequestCode;

/// Modelled time between two checks for the end of a workload, in nanoseconds.
const STEP: u64 = 1_000_000;
/// The model used where there is no driver to open.
#[cfg(not(windows))]
const DEFAULT: &str = "skylake";

/// The transport: a model or the driver.
#[derive(Debug)]
pub(crate) enum Machine {
    InProcess(Box<InProcess>),
    #[cfg(windows)]
    Driver(halprof_measure::Driver),
}

impl Machine {
    pub(crate) fn open(name: Option<&str>) -> Result<Self> {
        match name {
            Some(name) => Self::model(name),
            #[cfg(not(windows))]
            None => Self::model(DEFAULT),
            #[cfg(windows)]
            None => match halprof_measure::Driver::open()? {
                Some(driver) => Ok(Self::Driver(driver)),
                None => Err(Error::NoDriver {
                    message: "the driver is not installed".to_owned(),
                    hint: "Run `halprof install`.".to_owned(),
                }),
            },
        }
    }

    fn model(name: &str) -> Result<Self> {
        let spec = halprof_measure::spec(name)?;
        Ok(Self::InProcess(Box::new(InProcess::new(&spec.leaves))))
    }

    /// Lets a model run a workload to its end.
    pub(crate) fn run(&mut self, workload: &str) -> std::result::Result<(), Failure> {
        let parsed = sim::load::workload::parse(workload);
        let workload = parsed.map_err(|error| Error::usage(error.to_string(), error.hint()))?;
        match self {
            Self::InProcess(model) => {
                model.begin(&workload);
                while model.advance(STEP)? {}
                Ok(())
            }
            #[cfg(windows)]
            Self::Driver(_) => Err(not_modelled()),
        }
    }
}

#[cfg(windows)]
fn not_modelled() -> Failure {
    usage("a real machine takes no workload", "Run code of your own, or open a model.")
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
