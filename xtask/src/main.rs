//! Builds and checks halprof on any machine: see `cargo xtask --help`.
#![forbid(unsafe_code)]

mod built_in;
mod dependencies;
mod exe;
mod foreign;
mod lint;
mod mutants;
mod package;
mod prove;
mod rustup;
mod setup;
mod speakeasy;
mod suite;
mod sys;
mod test;

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::Value;
use std::{panic, thread};
use xshell::{Shell, cmd};

/// Builds and checks halprof.
#[derive(Parser)]
enum Task {
    /// Installs the Debian packages and third-party programs that the other tasks need, if they are
    /// missing.
    Setup,
    /// Builds the driver, target/driver/halprof.sys.
    Sys(sys::Options),
    /// Builds the driver once with each mistake in tests/nt-model/variants.toml.
    Variants,
    /// Builds the tool, target/exe/halprof.exe.
    Exe,
    /// Builds both and makes the package that Windows installs, target/package, signed for a test
    /// machine.
    Package,
    /// Writes what is generated from types: the JSON schemas, docs/requests.md, and the lists of the
    /// debugger's script.
    Documents,
    /// Compiles the program that modelled machines run, client/tool/src/target/built_in/modelled.exe.
    BuiltIn,
    /// Runs rustfmt, clippy and rustdoc, for this machine, for Windows, and for the driver's target, and
    /// checks the licences and known faults of dependencies.
    Lint,
    /// Runs the fast tests; run `lint` and `test` before each commit.
    Test(test::Options),
    /// Runs the slow tests: long soak and fuzzing, every faulty driver, Wine, a browser,
    /// third-party programs.
    Prove(prove::Options),
    /// Breaks hal-profile on purpose, one change at a time, and reports the changes that the tests
    /// miss.
    Mutants {
        /// Arguments for cargo-mutants, such as `--file hal-profile/src/plan/assign.rs`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Runs the benchmarks; docs/performance.md has their results.
    Bench,
}

fn main() -> Result<()> {
    let shell = Shell::new()?;
    shell.change_dir(env!("CARGO_MANIFEST_DIR"));
    shell.change_dir("..");
    match Task::parse() {
        Task::Setup => {
            setup::install(&shell, &setup::all(&shell))?;
            speakeasy::install(&shell)?;
            foreign::install(&shell)
        }
        Task::Sys(options) => sys::build(&shell, &options),
        Task::Variants => sys::variants::build(&shell),
        Task::Exe => exe::build(&shell),
        Task::Package => package::make(&shell),
        Task::Documents => documents(&shell),
        Task::BuiltIn => built_in::write(&shell),
        Task::Lint => lint::run(&shell),
        Task::Test(options) => test::run(&shell, &options),
        Task::Prove(options) => prove::run(&shell, &options),
        Task::Mutants { arguments } => mutants::run(&shell, &arguments),
        Task::Bench => Ok(cmd!(shell, "cargo bench --profile dist -p halprof-tests").run()?),
    }
}

/// A test makes and compares what is generated from shared-types, and writes it if it is told so.
fn documents(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo run --profile suite -p halprof --example documents -- client/tool/schemas")
        .run()?;
    let made =
        cmd!(shell, "cargo test --profile suite -p halprof-tests --test all requests_page::");
    Ok(made.env("HALPROF_SCREENS", "write").run()?)
}

/// A step of a task.
type Step<'a> = &'a (dyn Fn(&Shell) -> Result<()> + Sync);

/// Runs steps that write to different folders side by side, because one that links or waits leaves
/// the other processors idle. All of them end; the first error is returned.
fn side_by_side<'a>(shell: &Shell, steps: &[Step<'a>]) -> Result<()> {
    thread::scope(|scope| {
        let start = |step: Step<'a>| {
            let shell = shell.clone();
            scope.spawn(move || step(&shell))
        };
        let running: Vec<_> = steps.iter().copied().map(start).collect();
        let ended = running
            .into_iter()
            .map(|step| step.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// What cargo knows of a package of the workspace, or one that it depends on.
fn metadata(shell: &Shell, name: &str) -> Result<Value> {
    let metadata = cmd!(shell, "cargo metadata --locked --format-version 1")
        .quiet()
        .read()
        .context("cargo must load the crates once: check the network")?;
    let mut metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array_mut().context("no packages")?;
    let found = packages.iter_mut().find(|package| package["name"] == name);
    Ok(found.with_context(|| format!("there is no package {name}"))?.take())
}

/// Whether cargo has this subcommand.
fn has_subcommand(shell: &Shell, subcommand: &str) -> bool {
    let asked = cmd!(shell, "cargo {subcommand} --version").quiet().ignore_stdout().ignore_stderr();
    asked.run().is_ok()
}
