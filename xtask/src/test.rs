//! `cargo xtask test`: every check, and every test that needs nothing but the driver.

use crate::suite::{self, Part};
use crate::{has_subcommand, setup, sys};
use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// Command-line options.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each fuzz target runs, in seconds.
    #[arg(long, default_value_t = 5)]
    fuzz_seconds: u32,
    /// Modelled machines to run the driver on, each with 50 sequences of client and system actions.
    #[arg(long, default_value_t = 30)]
    soak_machines: u32,
}

/// Runs everything.
pub(crate) fn run(shell: &Shell, options: &Options) -> Result<()> {
    setup::install(shell, &setup::for_tests(shell))?;
    checks(shell)?;
    sys::build(shell, &sys::Options::default())?;
    suite::build(shell)?;
    suite::fuzz(shell, options.fuzz_seconds)?;
    suite::soak(shell, options.soak_machines)?;
    suite::memory_image(shell)?;
    suite::tests(shell, Part::Fast)
}

/// Checks the sources without running them.
pub(crate) fn checks(shell: &Shell) -> Result<()> {
    component(shell, "rustfmt")?;
    component(shell, "clippy")?;
    cmd!(shell, "cargo fmt --all --check").run().context("run `cargo fmt`")?;
    suite::lint(shell)?;
    sys::lint(shell)
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
