//! The files that `cargo xtask sys` has left in `target/driver`.

use std::path::PathBuf;

/// The folder, relative to the workspace.
///
/// # Panics
/// If it is missing although `HALPROF_REQUIRE_DRIVER=1` is set.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/driver");
    if folder.join("halprof.sys").is_file() {
        return Some(folder);
    }
    skip(&format!("no driver in {}: run `cargo xtask sys`", folder.display()));
    None
}

/// Reports that a check is skipped, and why.
///
/// # Panics
/// If `HALPROF_REQUIRE_DRIVER=1` is set.
pub fn skip(reason: &str) {
    let required = std::env::var_os("HALPROF_REQUIRE_DRIVER").is_some_and(|value| value == "1");
    assert!(!required, "{reason}");
    // nt-model's scenarios say so while they are listed, and standard output is then the list.
    eprintln!("skipped: {reason}");
}

/// The driver's bytes.
///
/// # Panics
/// As [`folder`], and if the file cannot be read.
#[must_use]
pub fn file() -> Option<Vec<u8>> {
    let path = folder()?.join("halprof.sys");
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The same driver with the interfaces of processors that no 64-bit Windows boots on: for tests
/// that go through every model.
///
/// # Panics
/// As [`folder`], and if the file cannot be read.
#[must_use]
pub fn with_every_interface() -> Option<Vec<u8>> {
    let path = folder()?.join("halprof-historic.sys");
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}
