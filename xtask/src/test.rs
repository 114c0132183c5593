//! `cargo xtask test`: every check and every test.

use crate::{foreign, has_subcommand, package, setup, speakeasy, sys};
use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each fuzz target runs.
    #[arg(long, default_value_t = 5)]
    fuzz_seconds: u32,
    /// Modelled machines that the driver lives on, each with 50 sequences of clients and system.
    #[arg(long, default_value_t = 400)]
    soak_machines: u32,
}

/// Runs all of it.
pub(crate) fn run(shell: &Shell, options: &Options) -> Result<()> {
    setup::install(shell)?;
    speakeasy::install(shell)?;
    foreign::install(shell)?;
    component(shell, "rustfmt")?;
    component(shell, "clippy")?;
    cmd!(shell, "cargo fmt --all --check")
        .run()
        .context("run `cargo fmt`")?;
    lint(shell)?;
    package::make(shell)?;
    sys::lint(shell)?;
    sys::variants::build(shell)?;
    interleavings(shell)?;
    fuzz(shell, options.fuzz_seconds)?;
    modelled_kernel(shell)?;
    soak(shell, options.soak_machines)?;
    memory_image(shell)?;
    tests(shell)
}

fn lint(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo clippy --all-targets -- -D warnings").run()?;
    // In release, as its tests: the engine is compiled once.
    cmd!(
        shell,
        "cargo clippy --release -p nt-model --all-targets -- -D warnings"
    )
    .run()?;
    let _flags = shell.push_env("RUSTDOCFLAGS", "-D warnings");
    cmd!(shell, "cargo doc --no-deps").run()?;
    Ok(())
}

/// Every interleaving of a ring's producer and consumer.
fn interleavings(shell: &Shell) -> Result<()> {
    let _flags = shell.push_env("RUSTFLAGS", "--cfg loom");
    cmd!(
        shell,
        "cargo test --release -p hal-profile --lib --target-dir target/loom"
    )
    .run()?;
    Ok(())
}

fn fuzz(shell: &Shell, seconds: u32) -> Result<()> {
    let seconds = seconds.to_string();
    for target in ["service", "dump", "recording"] {
        cmd!(
            shell,
            "cargo run --release -p halprof-tests --bin fuzz -- {target} --seconds {seconds}"
        )
        .run()?;
    }
    Ok(())
}

fn tests(shell: &Shell) -> Result<()> {
    let _built = shell.push_env("HALPROF_REQUIRE_DRIVER", "1");
    let _tools = shell.push_env("HALPROF_REQUIRE_TOOLS", "1");
    cmd!(shell, "cargo test --doc").run()?;
    if has_subcommand(shell, "nextest") {
        cmd!(shell, "cargo nextest run --no-fail-fast").run()?;
    } else {
        cmd!(shell, "cargo test --all-targets --no-fail-fast").run()?;
    }
    Ok(())
}

/// The driver that was built, on a modelled kernel.
fn modelled_kernel(shell: &Shell) -> Result<()> {
    let _built = shell.push_env("HALPROF_REQUIRE_DRIVER", "1");
    let test = if has_subcommand(shell, "nextest") {
        &["nextest", "run"][..]
    } else {
        &["test"]
    };
    cmd!(
        shell,
        "cargo {test...} --release -p nt-model --no-fail-fast"
    )
    .run()?;
    Ok(())
}

/// The same, for as many machines as wanted; their seeds are always the same.
fn soak(shell: &Shell, machines: u32) -> Result<()> {
    let machines = machines.to_string();
    cmd!(
        shell,
        "cargo run --release -p nt-model --bin soak -- --seed 1 --lives {machines}"
    )
    .run()?;
    Ok(())
}

/// The memory of a machine that samples, which the debugger script's test reads.
fn memory_image(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo run --release -p nt-model --bin memory-image").run()?;
    Ok(())
}

/// Installs a toolchain component where it is missing.
fn component(shell: &Shell, name: &str) -> Result<()> {
    let command = if name == "rustfmt" { "fmt" } else { name };
    if !has_subcommand(shell, command) {
        cmd!(shell, "rustup component add {name}")
            .run()
            .with_context(|| format!("install {name} for this toolchain"))?;
    }
    Ok(())
}
