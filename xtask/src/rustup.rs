//! rustup's Windows targets.

use std::sync::Mutex;
use xshell::{Shell, cmd};

/// The driver's target.
pub(crate) const TARGET: &str = "x86_64-pc-windows-msvc";

/// rustup does not expect another to install at the same time.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Whether rustup has the target, or can add it.
pub(crate) fn has_target(shell: &Shell, target: &str) -> bool {
    let _alone = INSTALLING.lock();
    let list = cmd!(shell, "rustup target list --installed");
    let installed = list.quiet().ignore_stderr().read().unwrap_or_default();
    let add = cmd!(shell, "rustup target add {target}");
    installed.lines().any(|installed| installed == target)
        || add.quiet().ignore_stdout().ignore_stderr().run().is_ok()
}
