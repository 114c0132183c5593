//! The Rust toolchain that compiles the driver.

use crate::rustup::{self, TARGET};
use crate::setup;
use anyhow::{Result, ensure};
use xshell::{Cmd, Shell, cmd};

/// Where Debian's toolchain has the sources of `core`.
pub(super) const DEBIAN_SOURCES: &str = "/usr/lib/rustlib/src/rust";

/// A Rust toolchain that can compile for Windows.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum Toolchain {
    /// rustup's, with its prebuilt `core`.
    Rustup,
    /// Debian's rustc-web, with `core` compiled from rust-web-src.
    Debian,
}

impl Toolchain {
    /// The requested toolchain, or otherwise the first that can compile for Windows.
    pub(crate) fn choose(shell: &Shell, asked: Option<Self>) -> Result<Self> {
        let chosen = asked.unwrap_or_else(|| {
            if rustup::has_target(shell, TARGET) { Self::Rustup } else { Self::Debian }
        });
        match chosen {
            Self::Rustup => ensure!(
                rustup::has_target(shell, TARGET),
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
            // Called directly: as a subcommand of cargo, rustup's clippy would be found instead.
            Self::Debian => cmd!(shell, "/usr/bin/cargo-clippy clippy"),
        })
    }

    /// A command of this toolchain, shielded from flags and folders set in the caller's
    /// environment.
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

    /// The arguments that tell its cargo how to get `core`.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Rustup => &[],
            Self::Debian => &["-Zbuild-std=core,alloc"],
        }
    }
}
