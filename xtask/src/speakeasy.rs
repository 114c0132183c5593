//! Speakeasy, a third-party Windows emulator that loads the driver in the tests.

use crate::setup;
use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// The package for pip to install, in the version for which the tests' expectations were written.
const SPEAKEASY: &str = "speakeasy-emulator==1.5.11";
/// Where it is installed, in its own Python environment.
const FOLDER: &str = "target/speakeasy";

/// Installs it if it is missing.
pub(crate) fn install(shell: &Shell) -> Result<()> {
    if shell.path_exists(format!("{FOLDER}/bin/speakeasy")) {
        return Ok(());
    }
    setup::python_venv(shell, FOLDER)?;
    cmd!(shell, "{FOLDER}/bin/pip install --quiet {SPEAKEASY}")
        .run()
        .with_context(|| format!("install {SPEAKEASY} from PyPI: check the network"))?;
    Ok(())
}
