//! `cargo xtask mutants`: checks that the tests notice deliberate faults.

use crate::has_subcommand;
use anyhow::{Result, bail, ensure};
use std::process::Command;
use xshell::{Shell, cmd};

/// What is changed.
struct Watched {
    package: &'static str,
    /// The files; none for all of the package.
    files: &'static [&'static str],
    /// The packages whose tests must notice: those that call it most directly, as each change
    /// compiles and runs them again.
    tests: &'static [&'static str],
}

const WATCHED: [Watched; 6] = [
    Watched { package: "hal-profile", files: &[], tests: &["halprof-tests"] },
    Watched {
        package: "halprof-etw",
        files: &["client/etw/src/join/*.rs"],
        tests: &["halprof-etw", "sim-etw"],
    },
    Watched {
        package: "halprof-measure",
        files: &[],
        // What a trace says is tested where traces can be written.
        tests: &["halprof-measure", "sim-etw", "halprof"],
    },
    Watched { package: "halprof-profile", files: &[], tests: &["halprof-profile", "halprof"] },
    Watched {
        package: "halprof-simulate",
        files: &["client/simulate/src/cache.rs", "client/simulate/src/simulation.rs"],
        tests: &["halprof-simulate", "halprof"],
    },
    Watched {
        package: "halprof",
        files: &[
            "client/tool/src/metrics/formula.rs",
            "client/tool/src/metrics.rs",
            "client/tool/src/command/stat/topdown.rs",
        ],
        tests: &["halprof"],
    },
];

/// cargo-mutants' exit statuses: some changes were not noticed, or took too long.
const UNNOTICED: [i32; 2] = [2, 3];

/// Runs cargo-mutants on the core and on what computes results; the lists of what nobody noticed are
/// in `target/mutants`. Arguments choose files themselves.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    if !has_subcommand(shell, "mutants") {
        cmd!(shell, "cargo install --locked cargo-mutants").run()?;
    }
    let mut unnoticed = Vec::new();
    for watched in WATCHED {
        let package = watched.package;
        let tests = watched.tests.iter().flat_map(|tests| ["--test-package", tests]);
        let files = watched.files.iter().filter(|_| arguments.is_empty());
        let files = files.flat_map(|file| ["--file", file]);
        let folder = format!("target/mutants/{package}");
        shell.create_dir(&folder)?;
        let ran = cmd!(
            shell,
            "cargo mutants --profile suite --output {folder} --package {package} {tests...} {files...} {arguments...}"
        );
        match Command::from(ran).status()?.code() {
            Some(0) => {}
            Some(status) if UNNOTICED.contains(&status) => unnoticed.push(folder),
            _ => bail!("cargo mutants could not run on {package}"),
        }
    }
    ensure!(
        unnoticed.is_empty(),
        "not every change was noticed: see missed.txt below {}",
        unnoticed.join(", ")
    );
    Ok(())
}
