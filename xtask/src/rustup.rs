//! rustup's target for the driver.

use xshell::{Shell, cmd};

/// The driver's target.
pub(crate) const TARGET: &str = "x86_64-pc-windows-msvc";

/// Whether rustup has the target, or can add it.
pub(crate) fn has_target(shell: &Shell) -> bool {
    let list = cmd!(shell, "rustup target list --installed");
    let installed = list.quiet().ignore_stderr().read().unwrap_or_default();
    let add = cmd!(shell, "rustup target add {TARGET}");
    installed.lines().any(|target| target == TARGET)
        || add.quiet().ignore_stdout().ignore_stderr().run().is_ok()
}
