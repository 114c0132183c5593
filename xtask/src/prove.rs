//! `cargo xtask prove`: the tests that take too long to run before each commit.

use crate::suite::{self, Part};
use crate::{exe, foreign, lint, package, setup, side_by_side, speakeasy, sys};
use anyhow::Result;
use xshell::{Shell, cmd};

/// Command-line options.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also runs everything that `cargo xtask lint` and `test` run; one summary then counts every test.
    #[arg(long)]
    all: bool,
    /// How long each fuzz target runs, in seconds.
    #[arg(long, default_value_t = 60)]
    fuzz_seconds: u32,
    /// Modelled machines to run the driver on, each with 50 sequences of client and system actions.
    #[arg(long, default_value_t = 400)]
    soak_machines: u32,
}

/// Runs everything.
pub(crate) fn run(shell: &Shell, options: &Options) -> Result<()> {
    setup::install(shell, &setup::all(shell))?;
    if options.all {
        lint::run(shell)?;
    }
    side_by_side(shell, &[&sys::variants::build, &tool_and_libraries, &third_party_programs])?;
    package::pack(shell)?;
    suite::build(shell)?;
    let fuzz = |shell: &Shell| suite::fuzz(shell, options.fuzz_seconds);
    let soak = |shell: &Shell| suite::soak(shell, options.soak_machines);
    side_by_side(shell, &[&fuzz, &soak])?;
    suite::memory_image(shell)?;
    if !options.all {
        return suite::tests(shell, Part::Slow);
    }
    suite::documentation(shell)?;
    suite::tests(shell, Part::All)
}

/// Installs what only the tests at the end need. One after the other, because both may run
/// apt, which allows one at a time.
fn third_party_programs(shell: &Shell) -> Result<()> {
    speakeasy::install(shell)?;
    foreign::install(shell)
}

/// Builds the tool for Windows, and builds and tests what is in profiles of its own.
fn tool_and_libraries(shell: &Shell) -> Result<()> {
    exe::build(shell)?;
    exe::wine_driver(shell)?;
    exe::library_tests(shell)?;
    interleavings(shell)?;
    publishable(shell)
}

/// Tests every interleaving of what two processors do at once: with rings, with a call.
fn interleavings(shell: &Shell) -> Result<()> {
    let _flags = shell.push_env("RUSTFLAGS", "--cfg loom");
    cmd!(shell, "cargo test --release -p hal-profile --lib --target-dir target/loom").run()?;
    Ok(())
}

/// Packs the libraries that stand alone as crates.io would take them, and builds what was packed.
fn publishable(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo publish --dry-run --allow-dirty --target-dir target/publish")
        .args(["-p", "halprof-etw", "-p", "halprof-events"])
        .run()?;
    Ok(())
}
