//! `cargo xtask mutants`: checks that the tests notice deliberate faults.

use crate::has_subcommand;
use anyhow::Result;
use xshell::{Shell, cmd};

/// Runs cargo-mutants on hal-profile, with all tests of the workspace.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    if !has_subcommand(shell, "mutants") {
        cmd!(shell, "cargo install --locked cargo-mutants").run()?;
    }
    cmd!(
        shell,
        "cargo mutants --package hal-profile --test-workspace=true {arguments...}"
    )
    .run()?;
    Ok(())
}
