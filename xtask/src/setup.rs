//! `cargo xtask setup`: installs the Debian packages that the other tasks need.

use crate::rustup;
use anyhow::{Context, Result, bail};
use std::path::Path;
use xshell::{Shell, cmd};

/// A Debian package.
pub(crate) struct Package {
    name: &'static str,
    what_for: &'static str,
    /// A path that exists once it is installed.
    proof: &'static str,
}

/// Compiler, linker and headers for the driver.
pub(crate) const DRIVER: &[Package] = &[
    Package {
        name: "clang-19",
        what_for: "has the headers of the C language itself",
        proof: "/usr/bin/clang-19",
    },
    Package {
        name: "clang-tools-19",
        what_for: "compiles the C part of wdk-sys and of the driver's entry",
        proof: "/usr/bin/clang-cl-19",
    },
    Package {
        name: "libclang1-19",
        what_for: "reads the WDK's headers for bindgen",
        proof: "/usr/lib/llvm-19/lib/libclang-19.so.1",
    },
    Package { name: "lld-19", what_for: "links the driver", proof: "/usr/bin/lld-link-19" },
    Package {
        name: "mingw-w64-common",
        what_for: "has a public DDK's headers",
        proof: "/usr/share/mingw-w64/include/ddk/wdm.h",
    },
];

/// What makes import libraries, for the driver and for the C library.
pub(crate) const LLVM: &[Package] = &[Package {
    name: "llvm-19",
    what_for: "makes import libraries",
    proof: "/usr/bin/llvm-dlltool-19",
}];

/// A Rust toolchain with the sources of `core`, for when rustup has no Windows target.
pub(crate) const RUST: &[Package] = &[
    Package {
        name: "rustc-web",
        what_for: "compiles for Windows",
        // Not the program's path: Debian 12's own rustc, which is too old, has the same one.
        proof: "/var/lib/dpkg/info/rustc-web.list",
    },
    Package {
        name: "cargo-web",
        what_for: "builds `core` for Windows",
        proof: "/var/lib/dpkg/info/cargo-web.list",
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

/// Signs the driver's package.
pub(crate) const SIGNING: &[Package] = &[
    Package { name: "openssl", what_for: "makes the test certificate", proof: "/usr/bin/openssl" },
    Package {
        name: "osslsigncode",
        what_for: "signs the driver and its catalog",
        proof: "/usr/bin/osslsigncode",
    },
];

/// Links the tool and the tests' own Windows programs.
pub(crate) const MINGW: &[Package] = &[Package {
    name: "gcc-mingw-w64-x86-64-win32",
    what_for: "links programs for Windows",
    proof: "/usr/bin/x86_64-w64-mingw32-gcc",
}];

/// Runs Windows programs.
pub(crate) const WINE: &[Package] = &[Package {
    name: "wine64",
    what_for: "runs programs for Windows",
    proof: "/usr/lib/wine/wine64",
}];

/// Terminals on which the tests draw.
const TERMINAL: &[Package] = &[
    Package {
        name: "tmux",
        what_for: "is a terminal that the tests can look at",
        proof: "/usr/bin/tmux",
    },
    Package {
        name: "bsdutils",
        what_for: "has `script`, a terminal of any width that keeps all that is drawn",
        proof: "/usr/bin/script",
    },
];

/// Runs the debugger extension, and third-party readers of what halprof writes.
const NODE: &[Package] = &[
    Package {
        name: "nodejs",
        what_for: "runs the tests of the debugger's extension",
        proof: "/usr/bin/node",
    },
    Package {
        name: "npm",
        what_for: "installs others' readers of what halprof writes",
        proof: "/usr/bin/npm",
    },
];

/// Count the same things as halprof by other means.
const SIMULATORS: &[Package] = &[Package {
    name: "valgrind",
    what_for: "counts instructions and traces memory accesses",
    proof: "/usr/bin/valgrind",
}];

/// Compile with profiles: the newest LLVM that Debian 12 has.
const PROFILES: &[Package] = &[
    Package { name: "clang-22", what_for: "compiles with profiles", proof: "/usr/bin/clang-22" },
    Package { name: "lld-22", what_for: "links what it compiles", proof: "/usr/bin/lld-22" },
    Package {
        name: "llvm-22",
        what_for: "turns branch records into profiles",
        proof: "/usr/bin/llvm-profgen-22",
    },
];

/// Shows the pictures.
const BROWSER: &[Package] = &[
    Package {
        name: "chromium",
        what_for: "shows pictures and pages in the tests",
        proof: "/usr/bin/chromium",
    },
    Package {
        name: "chromium-driver",
        what_for: "uses them as a person does",
        proof: "/usr/bin/chromedriver",
    },
];

/// Read the tool's manual pages and completions.
const READERS: &[Package] = &[
    Package { name: "fish", what_for: "reads the completions for fish", proof: "/usr/bin/fish" },
    Package { name: "zsh", what_for: "reads those for zsh", proof: "/usr/bin/zsh" },
    Package { name: "man-db", what_for: "shows the manual pages", proof: "/usr/bin/man" },
    Package { name: "mandoc", what_for: "checks them", proof: "/usr/bin/mandoc" },
];

/// An independent source of the vendors' events.
const EVENTS: &[Package] = &[Package {
    name: "libpfm4-dev",
    what_for: "has the selects of the vendors' events",
    proof: "/usr/include/perfmon/pfmlib.h",
}];

/// Shows halprof's counts beside its own times.
const BENCHMARK: &[Package] = &[Package {
    name: "libbenchmark-dev",
    what_for: "is the benchmark library that an example of the C library plugs into",
    proof: "/usr/include/benchmark/benchmark.h",
}];

/// Builds the engine that runs the driver in `tests/nt-model`.
const ENGINE: &[Package] = &[
    Package {
        name: "cmake",
        what_for: "configures the engine of nt-model",
        proof: "/usr/bin/cmake",
    },
    Package { name: "make", what_for: "builds it", proof: "/usr/bin/make" },
    Package { name: "g++", what_for: "compiles it", proof: "/usr/bin/g++" },
];

impl Package {
    fn is_missing(&self) -> bool {
        !Path::new(self.proof).exists()
    }
}

/// The packages that `cargo xtask test` needs.
pub(crate) fn for_tests(shell: &Shell) -> Vec<&'static Package> {
    let rust = if rustup::has_target(shell) { &[] } else { RUST };
    [DRIVER, LLVM, TERMINAL, NODE, READERS, ENGINE, rust].into_iter().flatten().collect()
}

/// The packages that all tasks together need.
pub(crate) fn all(shell: &Shell) -> Vec<&'static Package> {
    let mut all = for_tests(shell);
    let slow = [SIGNING, MINGW, WINE, BROWSER, EVENTS, SIMULATORS, PROFILES, BENCHMARK];
    all.extend(slow.into_iter().flatten());
    all
}

/// Installs the packages that are missing.
pub(crate) fn install(shell: &Shell, wanted: &[&Package]) -> Result<()> {
    let missing: Vec<_> = wanted.iter().filter(|p| p.is_missing()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|package| package.name).collect();
    apt_get(shell, &names).with_context(|| {
        let names = names.join(" ");
        format!(
            "on Debian 12 or later, with the network up: apt-get update; apt-get install {names}"
        )
    })
}

/// Installs Debian packages.
pub(crate) fn apt_get(shell: &Shell, names: &[&str]) -> Result<()> {
    let root = cmd!(shell, "id -u").quiet().read()? == "0";
    let apt = || {
        let command = if root { cmd!(shell, "env") } else { cmd!(shell, "sudo env") };
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
    };
    apt().arg("update").run()?;
    apt().args(["install", "--yes", "--no-install-recommends"]).args(names).run()?;
    Ok(())
}

/// Creates a Python virtual environment in `folder`, replacing what is there.
pub(crate) fn python_venv(shell: &Shell, folder: &str) -> Result<()> {
    let has_pip = cmd!(shell, "python3 -c 'import ensurepip, venv'");
    if has_pip.quiet().ignore_stderr().run().is_err() {
        apt_get(shell, &["python3-venv"]).context("install python3 with its module venv")?;
    }
    Ok(cmd!(shell, "python3 -m venv --clear {folder}").run()?)
}

/// Fails if any of these packages is missing, and says what to do.
pub(crate) fn require(packages: &[Package]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|p| p.is_missing()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let lines = missing.iter().map(|package| {
        let Package { name, what_for, proof } = package;
        format!("there is no {proof}: the Debian package {name} {what_for}\n")
    });
    let lines: String = lines.collect();
    bail!("{lines}run `cargo xtask setup`, or install them yourself");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_package_is_named_with_what_to_do() {
        let here = Package { name: "coreutils", what_for: "is there", proof: "/" };
        let missing =
            Package { name: "clang-99", what_for: "compiles", proof: "/usr/bin/clang-99" };
        let error = require(&[here, missing]).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no /usr/bin/clang-99: the Debian package clang-99 compiles\n\
             run `cargo xtask setup`, or install them yourself"
        );
        require(&[]).unwrap();
    }
}
