//! The order of steps in which the driver is installed and removed.

use super::rights::Rights;
use super::{devices, packages, service, system};
use crate::inf::{INF, serves};
use crate::install_error::InstallError;
use crate::outcome::{DriverState, Installed, Removed, Switched};
use crate::tracing_rights::{self, Changed};
use crate::{Error, Result};
use halprof_measure::Error as Measure;
use shared_types::device::HARDWARE_ID;
use std::path::{self, Path, PathBuf};
use std::{env, fs};

/// Where the INF file is looked for: beside the tool, as in the package.
pub fn beside_the_tool() -> PathBuf {
    let tool = env::current_exe().unwrap_or_default();
    tool.parent().map_or_else(|| INF.into(), |folder| folder.join(INF))
}

/// Installs the driver package of this INF file, creating the device node if there is none.
pub fn install(inf: &Path) -> Result<Installed> {
    if system::arm() == Some(true) {
        return Err(Error::Arm);
    }
    let inf = checked(inf)?;
    elevated()?;
    let class = packages::class_of(&inf)?;
    let created = devices::Devices::find()?.nodes().next().is_none();
    // UpdateDriverForPlugAndPlayDevicesW installs a package on devices that exist, and fails if
    // none does.
    if created {
        devices::create(&class)?;
    }
    let restart = match packages::install(&inf) {
        Ok(restart) => restart,
        Err(error) if created => {
            // A device node without a driver is useless. The original error matters more than
            // whether the node could be removed again.
            let _ = remove_devices();
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    installed(created, restart)
}

/// What is installed now; a restart that is still needed is no failure.
fn installed(created: bool, restart: bool) -> Result<Installed> {
    let devices = devices::Devices::find()?;
    let node = devices.nodes().next().ok_or(Error::Install(GONE))?;
    match node.problem() {
        Some(problem) if !restart => Err(Error::Install(problem)),
        _ => Ok(Installed { device: node.instance(), package: node.package(), created, restart }),
    }
}

/// ERROR_NO_SUCH_DEVINST, for a device that has been removed in the meantime.
const GONE: InstallError = InstallError::Failed {
    step: "the driver package was installed, but the device is gone",
    error: 0xE000_020B,
};

/// Removes the device nodes, the driver packages and the service, in this order: Windows does not
/// remove a package that a device uses (SetupUninstallOEMInfW).
pub fn uninstall() -> Result<Removed> {
    elevated()?;
    let (devices, restart) = remove_devices()?;
    let packages = packages::in_store()?;
    for package in &packages {
        packages::remove(package, restart)?;
    }
    Ok(Removed { devices, packages, service: service::delete()?, restart })
}

fn remove_devices() -> Result<(Vec<String>, bool)> {
    let mut removed = Vec::new();
    let mut restart = false;
    for node in devices::Devices::find()?.nodes() {
        let instance = node.instance();
        restart |= node.remove()?;
        removed.push(instance);
    }
    Ok((removed, restart))
}

/// Gives an account the rights to measure by Windows' own tracing without elevation.
pub fn give_tracing(account: &str) -> Result<Changed> {
    elevated()?;
    tracing_rights::give(&mut Rights, account)
}

/// Takes them back.
pub fn take_tracing(account: &str) -> Result<Changed> {
    elevated()?;
    tracing_rights::take(&mut Rights, account)
}

/// Loads the driver, by enabling its device.
pub fn start() -> Result<Switched> {
    let switched = switch(|node| match node.problem() {
        None => Ok(None),
        Some(_) if node.is_disabled() => node.enable().map(Some),
        Some(problem) => Err(Error::Install(problem)),
    })?;
    match driver_state() {
        DriverState::NotRunning(problem) if !switched.restart => Err(Error::Install(problem)),
        _ => Ok(switched),
    }
}

/// Unloads the driver, by disabling its device until [`start`] or the next boot.
pub fn stop() -> Result<Switched> {
    switch(|node| if node.is_disabled() { Ok(None) } else { node.disable().map(Some) })
}

/// Switches every device; `act` returns `None` if there was nothing to do, and otherwise whether
/// Windows asks for a restart.
fn switch(act: impl Fn(&devices::Node<'_>) -> Result<Option<bool>>) -> Result<Switched> {
    elevated()?;
    let devices = devices::Devices::find()?;
    let mut switched = Switched::default();
    for node in devices.nodes() {
        switched.devices.push(node.instance());
        let acted = act(&node)?;
        switched.changed |= acted.is_some();
        switched.restart |= acted.unwrap_or(false);
    }
    if switched.devices.is_empty() {
        return Err(Error::NotInstalled);
    }
    Ok(switched)
}

/// The state of the driver, as far as Windows reveals it.
pub fn driver_state() -> DriverState {
    let Ok(devices) = devices::Devices::find() else {
        return DriverState::Absent;
    };
    let mut state = DriverState::Absent;
    for node in devices.nodes() {
        match node.problem() {
            None => return DriverState::Running,
            Some(problem) => state = DriverState::NotRunning(problem),
        }
    }
    state
}

/// If Windows does not say which rights the process has, it is assumed to have them: the step that
/// needs them will fail with its own reason.
fn elevated() -> Result<()> {
    if halprof_measure::elevated().unwrap_or(true) {
        Ok(())
    } else {
        Err(Error::Install(InstallError::NotElevated))
    }
}

/// The full path, which Windows requires, of an INF file for halprof's device.
fn checked(inf: &Path) -> Result<PathBuf> {
    let unreadable = |error| Measure::reading(inf, error);
    let text = fs::read(inf).map_err(unreadable)?;
    if !serves(&text, HARDWARE_ID) {
        return Err(Measure::BadFile {
            path: inf.to_owned(),
            why: format!("has no driver for {HARDWARE_ID}"),
            hint: format!("Give the path of the package's {INF}.").into(),
        }
        .into());
    }
    Ok(path::absolute(inf).map_err(unreadable)?)
}
