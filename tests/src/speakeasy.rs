//! Speakeasy, a third-party emulator of Windows, as `cargo xtask setup` installs it.

use std::path::PathBuf;

/// The Python interpreter that has it.
///
/// # Panics
/// If it is missing although `HALPROF_REQUIRE_DRIVER=1` is set.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/speakeasy");
    let required = std::env::var_os("HALPROF_REQUIRE_DRIVER").is_some_and(|value| value == "1");
    let python = folder.join("bin/python");
    if python.is_file() {
        return Some(python);
    }
    assert!(!required, "no Speakeasy in {}", folder.display());
    println!("skipped: no Speakeasy in {}: run `cargo xtask setup`", folder.display());
    None
}
