//! `cargo xtask test`: every test that needs nothing but the driver.

use crate::suite::{self, Part};
use crate::{setup, side_by_side, sys};
use anyhow::Result;
use xshell::Shell;

/// Command-line options.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each fuzz target runs, in seconds.
    #[arg(long, default_value_t = 2)]
    fuzz_seconds: u32,
}

/// Runs everything.
pub(crate) fn run(shell: &Shell, options: &Options) -> Result<()> {
    setup::install(shell, &setup::for_tests(shell))?;
    side_by_side(shell, &[&sys::build_shipped, &suite::build])?;
    let fuzz = |shell: &Shell| suite::fuzz(shell, options.fuzz_seconds);
    side_by_side(shell, &[&suite::documentation, &fuzz])?;
    suite::memory_image(shell)?;
    suite::tests(shell, Part::Fast)
}
