//! Whose Rust compiles the driver.

use crate::setup;
use anyhow::{Result, ensure};
use xshell::{Cmd, Shell, cmd};

/// The driver's target.
pub(super) const TARGET: &str = "x86_64-pc-windows-msvc";

/// Where Debian's toolchain has the sources of `core`.
pub(super) const DEBIAN_SOURCES: &str = "/usr/lib/rustlib/src/rust";

/// A Rust toolchain that can compile for Windows.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum Toolchain {
    /// rustup's, with `core` as it comes.
    Rustup,
    /// Debian's rustc-web, with `core` compiled from rust-web-src.
    Debian,
}

impl Toolchain {
    /// The one asked for, or else the first that can.
    pub(crate) fn choose(shell: &Shell, asked: Option<Self>) -> Result<Self> {
        let chosen = asked.unwrap_or_else(|| {
            if rustup_can(shell) {
                Self::Rustup
            } else {
                Self::Debian
            }
        });
        match chosen {
            Self::Rustup => ensure!(
                rustup_can(shell),
                "rustup cannot add {TARGET} to this toolchain: try --toolchain debian"
            ),
            Self::Debian => setup::require(setup::RUST)?,
        }
        Ok(chosen)
    }

    /// Its cargo.
    pub(crate) fn cargo(self, shell: &Shell) -> Cmd<'_> {
        self.command(match self {
            Self::Rustup => cmd!(shell, "cargo"),
            Self::Debian => cmd!(shell, "/usr/bin/cargo"),
        })
    }

    /// Its clippy.
    pub(super) fn clippy(self, shell: &Shell) -> Cmd<'_> {
        self.command(match self {
            Self::Rustup => cmd!(shell, "cargo clippy"),
            // As a subcommand of cargo, rustup's would be found.
            Self::Debian => cmd!(shell, "/usr/bin/cargo-clippy clippy"),
        })
    }

    /// A command of it that what the caller's environment says of flags and folders does not
    /// touch.
    fn command(self, command: Cmd<'_>) -> Cmd<'_> {
        let command = command
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS");
        match self {
            Self::Rustup => command,
            Self::Debian => command
                .env("CARGO", "/usr/bin/cargo")
                .env("RUSTC", "/usr/bin/rustc")
                .env("RUSTDOC", "/usr/bin/rustdoc")
                .env("RUSTC_BOOTSTRAP", "1"),
        }
    }

    /// What its cargo needs to know of `core`.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Rustup => &[],
            Self::Debian => &["-Zbuild-std=core,alloc"],
        }
    }
}

/// Whether rustup has the Windows target, or can add it.
pub(crate) fn rustup_can(shell: &Shell) -> bool {
    let list = cmd!(shell, "rustup target list --installed");
    let installed = list.quiet().ignore_stderr().read().unwrap_or_default();
    let add = cmd!(shell, "rustup target add {TARGET}");
    installed.lines().any(|target| target == TARGET)
        || add.quiet().ignore_stdout().ignore_stderr().run().is_ok()
}
