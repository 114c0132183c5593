//! What an installation, a removal, a start or a stop came to, and the state that the driver is in.

use crate::install_error::InstallError;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of an installation.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Installed {
    /// The device instance, such as `ROOT\HALPROF\0000`.
    pub device: String,
    /// The INF file's name in the driver store, such as `oem12.inf`, if Windows reports it.
    pub package: Option<String>,
    /// Whether the device node is new; false if the driver was updated.
    pub created: bool,
    /// Whether Windows asks for a restart before the driver runs.
    pub restart: bool,
}

/// The result of a removal. Everything is empty if nothing was installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Removed {
    /// The device instances that were removed.
    pub devices: Vec<String>,
    /// The INF files that were removed from the driver store.
    pub packages: Vec<String>,
    /// Whether the driver's service existed.
    pub service: bool,
    /// Whether Windows asks for a restart to finish.
    pub restart: bool,
}

/// The result of starting or stopping the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Switched {
    /// The device instances.
    pub devices: Vec<String>,
    /// Whether there was anything to do.
    pub changed: bool,
    /// Whether Windows asks for a restart to finish.
    pub restart: bool,
}

/// The state of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverState {
    /// There is no halprof device.
    Absent,
    /// There is a device, but its driver does not run.
    NotRunning(InstallError),
    /// The driver runs.
    Running,
}
