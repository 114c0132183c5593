//! The driver's package, as `cargo xtask package` leaves it, and the tools that check it.

use crate::driver::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the package: `target/package`, in the workspace.
///
/// # Panics
/// If it is missing although `HALPROF_REQUIRE_DRIVER=1` is set.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/package");
    if folder.join("SHA256SUMS").is_file() {
        return Some(folder);
    }
    skip("target/package is absent: `cargo xtask sys`, `exe` and `package` make it");
    None
}

/// The path of an installed program that a check needs; `None` if it is not installed.
///
/// # Panics
/// If it is missing although `HALPROF_REQUIRE_DRIVER=1` is set.
#[must_use]
pub fn tool(program: &str, debian_package: &str) -> Option<PathBuf> {
    // Debian keeps wine64 in the folder of its libraries.
    let places = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&places)
        .chain([PathBuf::from("/usr/lib/wine")])
        .map(|place| place.join(program))
        .find(|path| path.is_file());
    if found.is_none() {
        skip(&format!("{program} is absent; on Debian: apt-get install {debian_package}"));
    }
    found
}

/// The output of a program.
///
/// # Panics
/// If it cannot be run, or fails.
#[must_use]
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file's bytes.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
