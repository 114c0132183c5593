//! How halprof is built and checked anywhere: `cargo xtask --help`.
#![forbid(unsafe_code)]

mod package;

use anyhow::{Context, Result};
use clap::Parser;
use xshell::{Shell, cmd};

/// Builds and checks halprof.
#[derive(Parser)]
enum Task {
    /// Installs what is missing, then runs every check and every test.
    Test {
        /// How long each fuzz target runs.
        #[arg(long, default_value_t = 5)]
        fuzz_seconds: u32,
    },
    /// Breaks hal-profile on purpose, one change at a time, and tells which the tests miss.
    Mutants {
        /// Arguments for cargo-mutants, such as `--file hal-profile/src/plan.rs`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Makes what Windows installs, out of the driver that `sys` built: target/package.
    Package,
    /// Runs the benchmarks; docs/performance.md has what they gave.
    Bench,
}

fn main() -> Result<()> {
    let shell = Shell::new()?;
    shell.change_dir(env!("CARGO_MANIFEST_DIR"));
    shell.change_dir("..");
    match Task::parse() {
        Task::Test { fuzz_seconds } => test(&shell, fuzz_seconds),
        Task::Mutants { arguments } => mutants(&shell, &arguments),
        Task::Package => package::package(&shell),
        Task::Bench => Ok(cmd!(shell, "cargo bench -p halprof-tests").run()?),
    }
}

fn test(shell: &Shell, fuzz_seconds: u32) -> Result<()> {
    component(shell, "rustfmt")?;
    component(shell, "clippy")?;
    cmd!(shell, "cargo fmt --all --check")
        .run()
        .context("run `cargo fmt`")?;
    cmd!(shell, "cargo clippy --all-targets -- -D warnings").run()?;
    {
        let _flags = shell.push_env("RUSTDOCFLAGS", "-D warnings");
        cmd!(shell, "cargo doc --no-deps").run()?;
    }
    {
        // Every interleaving of a ring's producer and consumer.
        let _flags = shell.push_env("RUSTFLAGS", "--cfg loom");
        cmd!(
            shell,
            "cargo test --release -p hal-profile --lib --target-dir target/loom"
        )
        .run()?;
    }
    let seconds = fuzz_seconds.to_string();
    for target in ["service", "dump"] {
        cmd!(
            shell,
            "cargo run --release -p halprof-tests --bin fuzz -- {target} --seconds {seconds}"
        )
        .run()?;
    }
    cmd!(shell, "cargo test --doc").run()?;
    if has(shell, "nextest") {
        cmd!(shell, "cargo nextest run --no-fail-fast").run()?;
    } else {
        cmd!(shell, "cargo test --all-targets --no-fail-fast").run()?;
    }
    Ok(())
}

fn mutants(shell: &Shell, arguments: &[String]) -> Result<()> {
    if !has(shell, "mutants") {
        cmd!(shell, "cargo install --locked cargo-mutants").run()?;
    }
    cmd!(
        shell,
        "cargo mutants --package hal-profile --test-workspace=true {arguments...}"
    )
    .run()?;
    Ok(())
}

/// Installs a toolchain component where it is missing.
fn component(shell: &Shell, name: &str) -> Result<()> {
    let command = if name == "rustfmt" { "fmt" } else { name };
    if !has(shell, command) {
        cmd!(shell, "rustup component add {name}")
            .run()
            .with_context(|| format!("install {name} for this toolchain"))?;
    }
    Ok(())
}

/// Whether cargo has this subcommand.
fn has(shell: &Shell, subcommand: &str) -> bool {
    let asked = cmd!(shell, "cargo {subcommand} --version")
        .quiet()
        .ignore_stdout()
        .ignore_stderr();
    asked.run().is_ok()
}
