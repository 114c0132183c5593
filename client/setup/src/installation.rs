//! Installs and removes the driver, and describes what prevents that; gives accounts the rights to
//! measure without it.
//!
//! The driver serves a root-enumerated device: no bus reports it, so a device node with its
//! hardware id must be created before a driver package can be installed on it.

pub use crate::inf::{INF, serves};
pub use crate::install_error::{InstallError, NumberMeaning, codes, meanings};
pub use crate::outcome::{DriverState, Installed, Removed, Switched};
#[cfg(windows)]
pub use crate::windows::installation::{
    beside_the_tool, driver_state, give_tracing, install, start, stop, take_tracing, uninstall,
};
#[cfg(not(windows))]
pub use elsewhere::{beside_the_tool, give_tracing, install, start, stop, take_tracing, uninstall};

/// The driver is for Windows only: whatever would change anything is
/// [`Error::WindowsOnly`](crate::Error::WindowsOnly).
#[cfg(not(windows))]
mod elsewhere {
    use super::{INF, Installed, Removed, Switched};
    use crate::tracing_rights::Changed;
    use crate::{Error, Result};
    use std::path::{Path, PathBuf};

    pub fn install(_inf: &Path) -> Result<Installed> {
        Err(Error::WindowsOnly)
    }

    pub fn uninstall() -> Result<Removed> {
        Err(Error::WindowsOnly)
    }

    pub fn start() -> Result<Switched> {
        Err(Error::WindowsOnly)
    }

    pub fn stop() -> Result<Switched> {
        Err(Error::WindowsOnly)
    }

    pub fn give_tracing(_account: &str) -> Result<Changed> {
        Err(Error::WindowsOnly)
    }

    pub fn take_tracing(_account: &str) -> Result<Changed> {
        Err(Error::WindowsOnly)
    }

    /// Where the INF file is looked for: beside the tool, as in the package.
    pub fn beside_the_tool() -> PathBuf {
        INF.into()
    }
}
