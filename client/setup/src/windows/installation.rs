//! The order of steps in which the driver is installed and removed.

use super::{devices, packages, privilege, service, system};
use crate::inf::{INF, serves};
use crate::obstacle::Obstacle;
use crate::outcome::{Installed, Removed, Standing, Switched};
use crate::{Error, Result};
use halprof_measure::Error as Measure;
use shared_types::device::HARDWARE_ID;
use std::path::{self, Path, PathBuf};
use std::{env, fs};

/// Where the INF file is looked for: beside the tool, as in the package.
#[must_use]
pub fn beside_the_tool() -> PathBuf {
    let tool = env::current_exe().unwrap_or_default();
    tool.parent().map_or_else(|| INF.into(), |folder| folder.join(INF))
}

/// Creates the device node if there is none, and installs the package on it.
pub(crate) fn install(inf: &Path) -> Result<Installed> {
    if system::arm() == Some(true) {
        return Err(Error::Arm);
    }
    let inf = checked(inf)?;
    elevated()?;
    let class = packages::class_of(&inf)?;
    let created = devices::Ours::find()?.nodes().next().is_none();
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
    outcome(created, restart)
}

/// What is installed now; a restart that is still needed is no failure.
fn outcome(created: bool, restart: bool) -> Result<Installed> {
    let ours = devices::Ours::find()?;
    let node = ours.nodes().next().ok_or(Error::Obstacle(GONE))?;
    match node.problem() {
        Some(problem) if !restart => Err(Error::Obstacle(problem)),
        _ => Ok(Installed { device: node.instance(), package: node.package(), created, restart }),
    }
}

/// ERROR_NO_SUCH_DEVINST, for a device that has been removed in the meantime.
const GONE: Obstacle = Obstacle::Failed {
    step: "the driver package was installed, but the device is gone",
    error: 0xE000_020B,
};

/// Removes everything that [`install`] adds.
pub(crate) fn uninstall() -> Result<Removed> {
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
    for node in devices::Ours::find()?.nodes() {
        let instance = node.instance();
        restart |= node.remove()?;
        removed.push(instance);
    }
    Ok((removed, restart))
}

/// Loads the driver, if it does not run.
pub(crate) fn start() -> Result<Switched> {
    switch(|node| match node.problem() {
        None => Ok(None),
        Some(_) if node.is_disabled() => node.enable().map(Some),
        Some(problem) => Err(Error::Obstacle(problem)),
    })
    .and_then(running)
}

/// Unloads the driver, unless it is disabled already.
pub(crate) fn stop() -> Result<Switched> {
    switch(|node| {
        if node.is_disabled() {
            return Ok(None);
        }
        node.disable().map(Some)
    })
}

/// Switches every device of halprof; `change` returns whether a restart is needed, or `None` if
/// nothing had to be done.
fn switch(change: impl Fn(&devices::Node<'_>) -> Result<Option<bool>>) -> Result<Switched> {
    elevated()?;
    let ours = devices::Ours::find()?;
    let mut switched = Switched::default();
    for node in ours.nodes() {
        switched.devices.push(node.instance());
        if let Some(restart) = change(&node)? {
            switched.changed = true;
            switched.restart |= restart;
        }
    }
    if switched.devices.is_empty() {
        return Err(Error::NotInstalled);
    }
    Ok(switched)
}

/// Checks that what was enabled now runs; otherwise returns why not.
fn running(switched: Switched) -> Result<Switched> {
    match standing() {
        Standing::NotRunning(problem) if !switched.restart => Err(Error::Obstacle(problem)),
        _ => Ok(switched),
    }
}

/// The state of the driver, as far as Windows reveals it.
pub(crate) fn standing() -> Standing {
    let Ok(ours) = devices::Ours::find() else {
        return Standing::Absent;
    };
    let mut state = Standing::Absent;
    for node in ours.nodes() {
        match node.problem() {
            None => return Standing::Running,
            Some(obstacle) => state = Standing::NotRunning(obstacle),
        }
    }
    state
}

/// If Windows does not say which rights the process has, it is assumed to have them: the step that
/// needs them will fail with its own reason.
fn elevated() -> Result<()> {
    if privilege::elevated().unwrap_or(true) {
        Ok(())
    } else {
        Err(Error::Obstacle(Obstacle::NotElevated))
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
            hint: format!("Give the path of the package's {INF}."),
        }
        .into());
    }
    Ok(path::absolute(inf).map_err(unreadable)?)
}
