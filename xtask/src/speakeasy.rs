//! Speakeasy, an emulator of Windows that others wrote and that loads the driver in the tests.

use crate::setup;
use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// What pip installs; the version that the tests' judgement was written for.
const SPEAKEASY: &str = "speakeasy-emulator==1.5.11";
/// Where to, with a Python of its own.
const FOLDER: &str = "target/speakeasy";

/// Installs it where it is missing.
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
