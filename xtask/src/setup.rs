//! `cargo xtask setup`: installs the Debian packages that the other tasks need.

use crate::rustup::{self, TARGET};
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

const fn package(name: &'static str, what_for: &'static str, proof: &'static str) -> Package {
    Package { name, what_for, proof }
}

/// Compiler, linker and headers for the driver.
pub(crate) const DRIVER: &[Package] = &[
    package("clang-19", "has the headers of the C language itself", "/usr/bin/clang-19"),
    package(
        "clang-tools-19",
        "compiles the C part of wdk-sys and of the driver's entry",
        "/usr/bin/clang-cl-19",
    ),
    package(
        "libclang1-19",
        "reads the WDK's headers for bindgen",
        "/usr/lib/llvm-19/lib/libclang-19.so.1",
    ),
    package("lld-19", "links the driver", "/usr/bin/lld-link-19"),
    package(
        "mingw-w64-common",
        "has a public DDK's headers",
        "/usr/share/mingw-w64/include/ddk/wdm.h",
    ),
];

/// What makes import libraries, for the driver and for the C library.
pub(crate) const LLVM: &[Package] =
    &[package("llvm-19", "makes import libraries", "/usr/bin/llvm-dlltool-19")];

/// A Rust toolchain with the sources of `core`, for when rustup has no Windows target.
pub(crate) const RUST: &[Package] = &[
    // Not the program's path: Debian 12's own rustc, which is too old, has the same one.
    package("rustc-web", "compiles for Windows", "/var/lib/dpkg/info/rustc-web.list"),
    package("cargo-web", "builds `core` for Windows", "/var/lib/dpkg/info/cargo-web.list"),
    package(
        "rust-web-src",
        "has the sources of `core`",
        "/usr/lib/rustlib/src/rust/library/Cargo.lock",
    ),
    package("rust-web-clippy", "checks the driver's code", "/usr/bin/cargo-clippy"),
];

/// Signs the driver's package.
pub(crate) const SIGNING: &[Package] = &[
    package("openssl", "makes the test certificate", "/usr/bin/openssl"),
    package("osslsigncode", "signs the driver and its catalog", "/usr/bin/osslsigncode"),
];

/// Links the tool and the tests' own Windows programs.
pub(crate) const MINGW: &[Package] = &[package(
    "gcc-mingw-w64-x86-64-win32",
    "links programs for Windows",
    "/usr/bin/x86_64-w64-mingw32-gcc",
)];

/// Runs Windows programs.
pub(crate) const WINE: &[Package] =
    &[package("wine64", "runs programs for Windows", "/usr/lib/wine/wine64")];

/// Terminals on which the tests draw.
const TERMINAL: &[Package] = &[
    package("tmux", "is a terminal that the tests can look at", "/usr/bin/tmux"),
    package(
        "bsdutils",
        "has `script`, a terminal of any width that keeps all that is drawn",
        "/usr/bin/script",
    ),
];

/// Runs the debugger extension, and third-party readers of what halprof writes.
const NODE: &[Package] = &[
    package("nodejs", "runs the tests of the debugger's extension", "/usr/bin/node"),
    package("npm", "installs others' readers of what halprof writes", "/usr/bin/npm"),
];

/// Count the same things as halprof by other means.
const SIMULATORS: &[Package] =
    &[package("valgrind", "counts instructions and traces memory accesses", "/usr/bin/valgrind")];

/// Compile with profiles: the newest LLVM that Debian 12 has.
const PROFILES: &[Package] = &[
    package("clang-22", "compiles with profiles", "/usr/bin/clang-22"),
    package("lld-22", "links what it compiles", "/usr/bin/lld-22"),
    package("llvm-22", "turns branch records into profiles", "/usr/bin/llvm-profgen-22"),
];

/// Shows the pictures.
const BROWSER: &[Package] = &[
    package("chromium", "shows pictures and pages in the tests", "/usr/bin/chromium"),
    package("chromium-driver", "uses them as a person does", "/usr/bin/chromedriver"),
];

/// Reads the tool's manual pages.
const READERS: &[Package] = &[package("mandoc", "checks the manual pages", "/usr/bin/mandoc")];

/// An independent source of the vendors' events.
const EVENTS: &[Package] = &[package(
    "libpfm4-dev",
    "has the selects of the vendors' events",
    "/usr/include/perfmon/pfmlib.h",
)];

/// Shows halprof's counts beside its own times.
const BENCHMARK: &[Package] = &[package(
    "libbenchmark-dev",
    "is the benchmark library that an example of the C library plugs into",
    "/usr/include/benchmark/benchmark.h",
)];

/// Builds the engine that runs the driver in `tests/nt-model`.
const ENGINE: &[Package] = &[
    package("cmake", "configures the engine of nt-model", "/usr/bin/cmake"),
    package("make", "builds it", "/usr/bin/make"),
    package("g++", "compiles it", "/usr/bin/g++"),
];

impl Package {
    fn is_missing(&self) -> bool {
        !Path::new(self.proof).exists()
    }
}

/// The packages that `cargo xtask test` needs.
pub(crate) fn for_tests(shell: &Shell) -> Vec<&'static Package> {
    let rust = if rustup::has_target(shell, TARGET) { &[] } else { RUST };
    [DRIVER, LLVM, TERMINAL, NODE, READERS, ENGINE, BENCHMARK, rust].into_iter().flatten().collect()
}

/// The packages that all tasks together need.
pub(crate) fn all(shell: &Shell) -> Vec<&'static Package> {
    let mut all = for_tests(shell);
    let slow = [SIGNING, MINGW, WINE, BROWSER, EVENTS, SIMULATORS, PROFILES];
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
