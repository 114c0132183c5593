//! Where a program measures: on a model, or on Windows with the driver.

#[cfg(any(windows, not(feature = "models")))]
use crate::error::Error;
#[cfg(windows)]
use crate::error::Remedy;
use crate::error::Result;
#[cfg(all(feature = "models", not(windows)))]
use crate::in_process::DEFAULT_MODEL;
#[cfg(feature = "models")]
use crate::in_process::{InProcess, spec};
use crate::transport::Transport;
#[cfg(windows)]
use crate::windows::Driver;
use shared_types::request::RequestCode;

/// A transport that is chosen when the program runs.
#[derive(Debug)]
pub enum Machine {
    /// A model.
    #[cfg(feature = "models")]
    InProcess(Box<InProcess>),
    /// The installed driver.
    #[cfg(windows)]
    Driver(Driver),
}

impl Machine {
    /// The model of this name or CPUID dump; without a name the installed driver, or on systems
    /// other than Windows the model [`DEFAULT_MODEL`](crate::DEFAULT_MODEL).
    ///
    /// [`NoModels`](crate::Error::NoModels): a model, and the feature `models` is off.
    pub fn open(name: Option<&str>) -> Result<Self> {
        name.map_or_else(Self::default_machine, Self::model)
    }

    #[cfg(windows)]
    fn default_machine() -> Result<Self> {
        match Driver::open()? {
            Some(driver) => Ok(Self::Driver(driver)),
            None => Err(Error::NoDriver {
                message: "the driver is not installed".to_owned(),
                hint: Remedy::InstallDriver.into(),
            }),
        }
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
        let spec = spec(name)?;
        Ok(Self::InProcess(Box::new(InProcess::new(&spec.leaves))))
    }

    #[cfg(not(feature = "models"))]
    const fn model(_name: &str) -> Result<Self> {
        Err(Error::NoModels)
    }

    fn transport(&mut self) -> &mut dyn Transport {
        match *self {
            #[cfg(feature = "models")]
            Self::InProcess(ref mut model) => &mut **model,
            #[cfg(windows)]
            Self::Driver(ref mut driver) => driver,
        }
    }

    /// Lets a model run a workload to its end, such as `instructions=1000000,cycles=2000000`. A real
    /// machine refuses this.
    #[cfg_attr(
        not(any(feature = "models", windows)),
        expect(unused_variables, reason = "there is no machine to run it")
    )]
    pub fn run(&mut self, workload: &str) -> Result<()> {
        match *self {
            #[cfg(feature = "models")]
            Self::InProcess(ref mut model) => model.run(workload),
            #[cfg(windows)]
            Self::Driver(_) => Err(Error::usage(
                format!("a real machine takes no workload, and was given `{workload}`"),
                "Run code of your own, or open a model.",
            )),
        }
    }
}

impl Transport for Machine {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        self.transport().request(code, input, output)
    }
}
