//! Where a program measures: on a model, or on Windows with the driver or by its own tracing.

#[cfg(windows)]
use crate::error::Remedy;
use crate::error::{Error, Result};
#[cfg(all(feature = "models", not(windows)))]
use crate::in_process::DEFAULT_MODEL;
#[cfg(feature = "models")]
use crate::in_process::{self, InProcess, spec, without_backend};
use crate::live_tracing::{Live, locked};
use crate::transport::Transport;
#[cfg(windows)]
use crate::windows::{self, Driver};
use shared_types::request::RequestCode;

/// Windows' own tracing, as a name of where to measure.
const TRACING: &str = "etw";

/// A transport that is chosen when the program runs.
#[derive(Debug)]
pub enum Machine {
    /// A model.
    #[cfg(feature = "models")]
    InProcess(Box<InProcess>),
    /// The installed driver.
    #[cfg(windows)]
    Driver(Driver),
    /// Windows' own tracing, or a model of it: only regions of threads can be counted.
    Traced(Live),
}

impl Machine {
    /// The model of this name or CPUID dump, or Windows' own tracing (`etw`); without a name the
    /// installed driver, or without one that tracing. On systems other than Windows the default is the
    /// model [`DEFAULT_MODEL`](crate::DEFAULT_MODEL). With `,backend=etw` a model is traced.
    ///
    /// [`NoModels`](crate::Error::NoModels): a model, and the feature `models` is off.
    pub fn open(name: Option<&str>) -> Result<Self> {
        match name {
            None => Self::default_machine(),
            Some(TRACING) => Self::traced(),
            Some(name) => Self::model(name),
        }
    }

    /// Another version of the driver is an error, which tracing would hide.
    #[cfg(windows)]
    fn default_machine() -> Result<Self> {
        if let Some(driver) = Driver::open()? {
            return Ok(Self::Driver(driver));
        }
        let live = windows::live();
        let countable = locked(&*live.tracing).countable();
        match countable {
            Ok(_) => Ok(Self::Traced(live)),
            // A Windows that lists no source, such as Wine, has nothing to count with.
            Err(_) => Err(Error::NoDriver {
                message: "the driver is not installed".to_owned(),
                hint: Remedy::InstallDriver.into(),
            }),
        }
    }

    #[cfg(windows)]
    #[expect(clippy::unnecessary_wraps, reason = "refused elsewhere than on Windows")]
    fn traced() -> Result<Self> {
        Ok(Self::Traced(windows::live()))
    }

    #[cfg(not(windows))]
    fn traced() -> Result<Self> {
        Err(Error::NoTracing {
            message: "Windows' own tracing is on Windows only".to_owned(),
            hint: "Measure on a model that is traced, such as `skylake,backend=etw`.".into(),
        })
    }

    #[cfg(all(not(windows), feature = "models"))]
    fn default_machine() -> Result<Self> {
        Self::model(DEFAULT_MODEL)
    }

    #[cfg(all(not(windows), not(feature = "models")))]
    const fn default_machine() -> Result<Self> {
        Err(Error::NoModels)
    }

    #[cfg(feature = "models")]
    fn model(name: &str) -> Result<Self> {
        let (name, is_traced) = without_backend(name);
        let model = InProcess::new(&spec(&name)?.leaves);
        if is_traced {
            return Ok(Self::Traced(in_process::live(model)?));
        }
        Ok(Self::InProcess(Box::new(model)))
    }

    #[cfg(not(feature = "models"))]
    const fn model(_name: &str) -> Result<Self> {
        Err(Error::NoModels)
    }

    /// Lets a model run a workload to its end, such as `instructions=1000000,cycles=2000000`. A real
    /// machine refuses this.
    pub fn run(&mut self, workload: &str) -> Result<()> {
        match *self {
            #[cfg(feature = "models")]
            Self::InProcess(ref mut model) => model.run(workload),
            #[cfg(windows)]
            Self::Driver(_) => Err(Error::no_workload(workload)),
            Self::Traced(ref live) => locked(&*live.tracing).run(workload),
        }
    }
}

impl Transport for Machine {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        match *self {
            #[cfg(feature = "models")]
            Self::InProcess(ref mut model) => model.request(code, input, output),
            #[cfg(windows)]
            Self::Driver(ref mut driver) => driver.request(code, input, output),
            Self::Traced(_) => {
                let _ = (code, input, output);
                Err(Error::unavailable(
                    "without the driver, Windows' own tracing counts regions of threads, and nothing else inside a program",
                    "Count a region, or install the driver.",
                ))
            }
        }
    }

    fn live(&self) -> Option<Live> {
        match self {
            Self::Traced(live) => Some(live.clone()),
            #[cfg(any(feature = "models", windows))]
            _ => None,
        }
    }
}
