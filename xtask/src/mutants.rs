//! `cargo xtask mutants`: checks that the tests notice deliberate faults.

use crate::has_subcommand;
use anyhow::Result;
use xshell::{Shell, cmd};

/// Runs cargo-mutants on the core and on the libraries that compute results, with all tests of the
/// workspace.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    if !has_subcommand(shell, "mutants") {
        cmd!(shell, "cargo install --locked cargo-mutants").run()?;
    }
    let packages = ["hal-profile", "halprof-measure", "halprof-profile"]
        .into_iter()
        .flat_map(|package| ["--package", package]);
    cmd!(
        shell,
        "cargo mutants {packages...} --test-workspace=true {arguments...}"
    )
    .run()?;
    Ok(())
}
