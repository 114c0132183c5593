//! Why the driver could not be installed, removed or started.

use crate::install_error::InstallError;
use thiserror::Error;

/// What Windows refused, or what went wrong before Windows was asked.
#[derive(Debug, Error)]
pub enum Error {
    /// Windows would not install, remove or start the driver.
    #[error("{0}")]
    Install(InstallError),
    /// There is no halprof device.
    #[error("the driver is not installed")]
    NotInstalled,
    /// This is not Windows.
    #[error("this is for Windows: the driver runs nowhere else")]
    WindowsOnly,
    /// Windows runs on an Arm processor.
    #[error("this Windows runs on an Arm processor, and halprof.sys is for x64")]
    Arm,
    /// A file could not be read, or its content is invalid.
    #[error(transparent)]
    Measure(#[from] halprof_measure::Error),
}

/// The result of every fallible function of the library.
pub type Result<T> = std::result::Result<T, Error>;
