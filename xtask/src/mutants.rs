//! `cargo xtask mutants`: checks that the tests notice deliberate faults.

use crate::has_subcommand;
use anyhow::{Result, bail, ensure};
use std::process::Command;
use xshell::{Shell, cmd};

/// What is changed, and the packages whose tests must notice: those that call it most directly, as
/// each change compiles and runs them again.
const WATCHED: [(&str, &[&str]); 3] = [
    ("hal-profile", &["halprof-tests"]),
    ("halprof-measure", &["halprof-measure", "halprof"]),
    ("halprof-profile", &["halprof-profile", "halprof"]),
];

/// cargo-mutants' exit statuses: some changes were not noticed, or took too long.
const UNNOTICED: [i32; 2] = [2, 3];

/// Runs cargo-mutants on the core and on the libraries that compute results; the lists of what
/// nobody noticed are in `target/mutants`.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    if !has_subcommand(shell, "mutants") {
        cmd!(shell, "cargo install --locked cargo-mutants").run()?;
    }
    let mut unnoticed = Vec::new();
    for (package, watching) in WATCHED {
        let tests = watching.iter().flat_map(|tests| ["--test-package", tests]);
        let folder = format!("target/mutants/{package}");
        shell.create_dir(&folder)?;
        let ran = cmd!(
            shell,
            "cargo mutants --profile mutants --output {folder} --package {package} {tests...} {arguments...}"
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
