//! Installs and removes the driver, and describes what prevents that.
//!
//! The driver serves a root-enumerated device: no bus reports it, so a device node with its
//! hardware id must be created before a driver package can be installed on it.

#[cfg(not(windows))]
use crate::Error;
use crate::Result;
#[cfg(windows)]
use crate::windows::installation as platform;
use std::path::Path;

pub use crate::inf::{INF, serves};
pub use crate::install_error::{InstallError, codes};
pub use crate::outcome::{DriverState, Installed, Removed, Switched};
#[cfg(windows)]
pub use crate::windows::installation::beside_the_tool;

/// Installs the driver package of this INF file, creating the device node if there is none.
#[cfg(windows)]
pub fn install(inf: &Path) -> Result<Installed> {
    platform::install(inf)
}

/// Removes the device nodes, the driver packages and the service.
#[cfg(windows)]
pub fn uninstall() -> Result<Removed> {
    platform::uninstall()
}

/// Loads the driver, by enabling its device.
#[cfg(windows)]
pub fn start() -> Result<Switched> {
    platform::start()
}

/// Unloads the driver, by disabling its device until [`start`] or the next boot.
#[cfg(windows)]
pub fn stop() -> Result<Switched> {
    platform::stop()
}

/// Fails: the driver is for Windows only.
#[cfg(not(windows))]
pub fn install(_inf: &Path) -> Result<Installed> {
    Err(Error::WindowsOnly)
}

/// Fails: the driver is for Windows only.
#[cfg(not(windows))]
pub fn uninstall() -> Result<Removed> {
    Err(Error::WindowsOnly)
}

/// Fails: the driver is for Windows only.
#[cfg(not(windows))]
pub fn start() -> Result<Switched> {
    Err(Error::WindowsOnly)
}

/// Fails: the driver is for Windows only.
#[cfg(not(windows))]
pub fn stop() -> Result<Switched> {
    Err(Error::WindowsOnly)
}

/// Where the INF file is looked for: beside the tool, as in the package.
#[cfg(not(windows))]
#[must_use]
pub fn beside_the_tool() -> std::path::PathBuf {
    INF.into()
}

/// The state of the driver, as far as Windows reveals it.
#[cfg(windows)]
#[must_use]
pub fn driver_state() -> DriverState {
    platform::driver_state()
}
