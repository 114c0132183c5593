//! `cargo xtask setup`: the Debian packages that the other tasks need.

use anyhow::{Context, Result, bail};
use std::path::Path;
use xshell::{Shell, cmd};

/// A Debian package.
pub(crate) struct Package {
    name: &'static str,
    what_for: &'static str,
    /// What is there once it is installed.
    proof: &'static str,
}

/// Compiler, linker and headers of the driver.
pub(crate) const DRIVER: &[Package] = &[
    Package {
        name: "clang-19",
        what_for: "assembles the driver's load configuration",
        proof: "/usr/bin/clang-19",
    },
    Package {
        name: "clang-tools-19",
        what_for: "compiles the C part of wdk-sys and of the driver's entry",
        proof: "/usr/bin/clang-cl-19",
    },
    Package {
        name: "libclang-19-dev",
        what_for: "reads the WDK's headers for bindgen",
        proof: "/usr/lib/llvm-19/lib/libclang.so",
    },
    Package {
        name: "lld-19",
        what_for: "links the driver",
        proof: "/usr/bin/lld-link-19",
    },
    Package {
        name: "llvm-19",
        what_for: "makes import libraries",
        proof: "/usr/bin/llvm-dlltool-19",
    },
    Package {
        name: "mingw-w64-common",
        what_for: "has a public DDK's headers",
        proof: "/usr/share/mingw-w64/include/ddk/wdm.h",
    },
];

/// A Rust toolchain with the sources of `core`, where rustup has no Windows target.
pub(crate) const RUST: &[Package] = &[
    Package {
        name: "rustc-web",
        what_for: "compiles for Windows",
        proof: "/usr/bin/rustc",
    },
    Package {
        name: "cargo-web",
        what_for: "builds `core` for Windows",
        proof: "/usr/bin/cargo",
    },
    Package {
        name: "rust-web-src",
        what_for: "has the sources of `core`",
        proof: "/usr/lib/rustlib/src/rust/library/Cargo.lock",
    },
    Package {
        name: "rust-web-clippy",
        what_for: "checks the driver's code",
        proof: "/usr/bin/cargo-clippy",
    },
];

impl Package {
    fn is_missing(&self) -> bool {
        !Path::new(self.proof).exists()
    }
}

/// Installs what is missing.
pub(crate) fn install(shell: &Shell) -> Result<()> {
    let mut wanted: Vec<&Package> = DRIVER.iter().collect();
    if !crate::sys::rustup_can(shell) {
        wanted.extend(RUST);
    }
    let missing: Vec<_> = wanted.into_iter().filter(|p| p.is_missing()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|package| package.name).collect();
    let root = cmd!(shell, "id -u").quiet().read()? == "0";
    let sudo: &[&str] = if root { &[] } else { &["sudo"] };
    let apt = |names: &[&str]| -> Result<()> {
        let _quiet = shell.push_env("DEBIAN_FRONTEND", "noninteractive");
        let mut words = [sudo, &["apt-get"]].concat();
        let program = words.remove(0);
        let rest = &words;
        cmd!(shell, "{program} {rest...} update").run()?;
        cmd!(
            shell,
            "{program} {rest...} install --yes --no-install-recommends {names...}"
        )
        .run()?;
        Ok(())
    };
    apt(&names).with_context(|| {
        format!(
            "install these packages with the network up, on Debian 12 or later: apt-get install {}",
            names.join(" ")
        )
    })
}

/// Refuses to go on without these packages, and says what to do.
pub(crate) fn require(packages: &[Package]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|p| p.is_missing()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = missing
        .iter()
        .map(|package| {
            format!(
                "{} is missing: package {} {}",
                package.proof, package.name, package.what_for
            )
        })
        .collect();
    bail!("{}\nrun `cargo xtask setup`", lines.join("\n"));
}
