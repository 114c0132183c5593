//! `cargo xtask lint`: rustfmt, clippy and rustdoc, for this machine, for Windows, and for the
//! driver's target. It also checks the licences and known faults of dependencies.

use crate::{dependencies, exe, has_subcommand, setup, side_by_side, suite, sys};
use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// Runs them all.
pub(crate) fn run(shell: &Shell) -> Result<()> {
    setup::install(shell, &setup::for_tests(shell))?;
    component(shell, "rustfmt")?;
    component(shell, "clippy")?;
    cmd!(shell, "cargo fmt --all --check").run().context("run `cargo fmt`")?;
    dependencies::check(shell)?;
    side_by_side(shell, &[&suite::lint, &sys::lint])?;
    exe::lint(shell)
}

/// Installs a toolchain component if it is missing.
fn component(shell: &Shell, name: &str) -> Result<()> {
    let command = if name == "rustfmt" { "fmt" } else { name };
    if !has_subcommand(shell, command) {
        cmd!(shell, "rustup component add {name}")
            .run()
            .with_context(|| format!("install {name} for this toolchain"))?;
    }
    Ok(())
}
