//! What `cargo xtask sys` has built, for the tests that judge it.

use std::path::PathBuf;

/// A file of the driver's build, in `target/driver` of the workspace.
///
/// # Panics
/// Where it is absent though `HALPROF_REQUIRE_DRIVER=1` is set.
#[must_use]
pub fn driver(name: &str) -> Option<PathBuf> {
    let file = target().join("driver").join(name);
    if file.is_file() {
        return Some(file);
    }
    skip(&format!(
        "target/driver/{name} is absent: `cargo xtask sys` makes it"
    ));
    None
}

/// The workspace's target folder.
#[must_use]
pub fn target() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target")
}

/// Says why a test has nothing to judge.
///
/// # Panics
/// Where `HALPROF_REQUIRE_DRIVER=1` is set.
pub fn skip(reason: &str) {
    let required = std::env::var_os("HALPROF_REQUIRE_DRIVER").is_some_and(|value| value == "1");
    assert!(!required, "{reason}");
    println!("skipped: {reason}");
}
