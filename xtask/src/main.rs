//! How halprof is built and checked anywhere: `cargo xtask --help`.
#![forbid(unsafe_code)]

mod exe;
mod foreign;
mod mutants;
mod package;
mod prove;
mod setup;
mod speakeasy;
mod suite;
mod sys;
mod test;

use anyhow::Result;
use clap::Parser;
use xshell::{Shell, cmd};

/// Builds and checks halprof.
#[derive(Parser)]
enum Task {
    /// Installs the Debian packages that the other tasks need, and others' programs, where they are missing.
    Setup,
    /// Builds the driver, target/driver/halprof.sys.
    Sys(sys::Options),
    /// Builds the driver with each of the mistakes of tests/nt-model/variants.toml.
    Variants,
    /// Builds the tool, target/exe/halprof.exe.
    Exe,
    /// Builds both and makes what Windows installs, target/package, signed for a test machine.
    Package,
    /// Writes what is made of the tool's types and options: the JSON schemas.
    Documents,
    /// Runs every check and the tests that are fast, as anyone does before a commit.
    Test(test::Options),
    /// Runs the slow rest: long soak and fuzzing, every wrong driver, Wine, a browser, others' programs.
    Prove(prove::Options),
    /// Breaks hal-profile on purpose, one change at a time, and tells which the tests miss.
    Mutants {
        /// Arguments for cargo-mutants, such as `--file hal-profile/src/plan.rs`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Runs the benchmarks; docs/performance.md has what they gave.
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
        Task::Documents => Ok(cmd!(
            shell,
            "cargo run --profile suite -p halprof --example documents -- client/tool/schemas"
        )
        .run()?),
        Task::Test(options) => test::run(&shell, &options),
        Task::Prove(options) => prove::run(&shell, &options),
        Task::Mutants { arguments } => mutants::run(&shell, &arguments),
        Task::Bench => Ok(cmd!(shell, "cargo bench -p halprof-tests").run()?),
    }
}

/// Whether cargo has this subcommand.
fn has_subcommand(shell: &Shell, subcommand: &str) -> bool {
    let asked = cmd!(shell, "cargo {subcommand} --version")
        .quiet()
        .ignore_stdout()
        .ignore_stderr();
    asked.run().is_ok()
}
