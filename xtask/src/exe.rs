//! `cargo xtask exe`: builds the tool, halprof.exe, and the C library without Windows.

use crate::sys::Toolchain;
use crate::{rustup, setup};
use anyhow::{Context, Result};
use std::path::PathBuf;
use xshell::{Shell, cmd};

/// The target for which Debian's mingw-w64 links; no Microsoft library is needed.
const TARGET: &str = "x86_64-pc-windows-gnu";

/// Where the tool is put.
pub(crate) const EXE: &str = "target/exe/halprof.exe";

/// The same tool on a model that runs in real time, for tests.
const REAL_TIME: &str = "target/exe/halprof-real-time.exe";

/// The C library.
pub(crate) const DLL: &str = "target/exe/halprof_c.dll";

/// Its import library, in the short form that both Microsoft's linker and MinGW's read.
pub(crate) const IMPORT_LIBRARY: &str = "target/exe/halprof_c.lib";

/// Its header.
pub(crate) const HEADER: &str = "client/c/include/halprof.h";

/// The C library with modelled machines, for tests.
const DLL_WITH_MODELS: &str = "target/exe/models/halprof_c.dll";

/// The driver that Wine loads, for tests; it is in no package.
const WINE_DRIVER: &str = "target/exe/wine-driver.sys";

/// Builds `halprof.exe`, `halprof-real-time.exe`, `halprof_c.dll` and its import library into
/// `target/exe`, without symbols.
pub(crate) fn build(shell: &Shell) -> Result<()> {
    setup::require(setup::MINGW)?;
    setup::require(setup::LLVM)?;
    shell.create_dir("target/exe/models")?;
    // The tool has modelled machines. What is built with it has them too, so that the library that is
    // shipped, which has none, is built by itself.
    build_packages(shell, &["halprof", "halprof-real-time", "halprof-c"])?;
    stripped(shell, "halprof.exe", EXE)?;
    stripped(shell, "halprof-real-time.exe", REAL_TIME)?;
    stripped(shell, "halprof_c.dll", DLL_WITH_MODELS)?;
    build_packages(shell, &["halprof-c"])?;
    stripped(shell, "halprof_c.dll", DLL)?;
    import_library(shell)?;
    println!("{EXE}");
    Ok(())
}

/// Builds the driver that Wine loads.
pub(crate) fn wine_driver(shell: &Shell) -> Result<()> {
    setup::require(setup::MINGW)?;
    build_packages(shell, &["wine-driver"])?;
    stripped(shell, "wine_driver.dll", WINE_DRIVER)
}

fn build_packages(shell: &Shell, packages: &[&str]) -> Result<()> {
    let (toolchain, standard_library) = toolchain(shell)?;
    toolchain
        .cargo(shell)
        .args(["build", "--profile", "dist"])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .args(["--target", TARGET, "--target-dir", "target/exe/work"])
        .args(standard_library)
        .arg("--config")
        .arg(without_paths()?)
        .run()
        .context("build for Windows")
}

/// Copies what was built, without symbols.
fn stripped(shell: &Shell, name: &str, to: &str) -> Result<()> {
    let built = format!("target/exe/work/{TARGET}/dist/{name}");
    Ok(cmd!(shell, "x86_64-w64-mingw32-strip -o {to} {built}").run()?)
}

/// Makes the import library of the functions that the header declares.
fn import_library(shell: &Shell) -> Result<()> {
    const DEFINITION: &str = "target/exe/work/halprof_c.def";
    let definition = definition(&shell.read_file(HEADER)?);
    shell.write_file(DEFINITION, definition)?;
    cmd!(shell, "llvm-dlltool-19 -m i386:x86-64 -d {DEFINITION} -l {IMPORT_LIBRARY}")
        .run()
        .context("make the import library")
}

/// The module definition of the DLL: every function that the header declares.
fn definition(header: &str) -> String {
    let mut definition = "LIBRARY halprof_c.dll\nEXPORTS\n".to_owned();
    for line in header.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        let name =
            line.split_once('(').and_then(|(before, _)| before.split([' ', '*']).next_back());
        if let Some(name) = name.filter(|name| name.starts_with("halprof_")) {
            definition.extend(["    ", name, "\n"]);
        }
    }
    definition
}

/// The configuration that keeps paths of this machine out of the tool.
fn without_paths() -> Result<String> {
    let home = std::env::home_dir().map(|home| home.join(".cargo"));
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let cargo = cargo.context("neither CARGO_HOME nor HOME is set")?;
    let remap = format!("--remap-path-prefix={}=cargo", cargo.display());
    Ok(format!("target.{TARGET}.rustflags=[{remap:?}]"))
}

/// rustup's toolchain, or Debian's if rustup has no Windows target, with the arguments that then
/// build the standard library too.
fn toolchain(shell: &Shell) -> Result<(Toolchain, &'static [&'static str])> {
    if rustup::has_target(shell, TARGET) {
        return Ok((Toolchain::Rustup, &[]));
    }
    setup::require(setup::RUST)?;
    Ok((Toolchain::Debian, &["-Zbuild-std=std,panic_abort"]))
}

/// Runs clippy on what only Windows compiles, where rustup has its target.
pub(crate) fn lint(shell: &Shell) -> Result<()> {
    if !rustup::has_target(shell, TARGET) {
        println!("clippy for Windows: skipped, because rustup has no {TARGET}");
        return Ok(());
    }
    // With all that they depend on in client/.
    let packages = ["etw", "measure", "setup", "profile", "simulate", "c"];
    let packages = packages.iter().flat_map(|name| ["-p".to_owned(), format!("halprof-{name}")]);
    cmd!(shell, "cargo clippy --profile suite --target {TARGET} -p halprof")
        .args(packages)
        .args(["--", "-D", "warnings"])
        .run()
        .context("lint the client for Windows")?;
    cmd!(shell, "cargo clippy --profile suite --target {TARGET} -p wine-driver")
        .args(["--", "-D", "warnings"])
        .run()
        .context("lint the driver that Wine loads")?;
    cmd!(shell, "cargo clippy --profile suite --target {TARGET} -p halprof-c -p halprof-measure")
        .args(["--", "-D", "warnings"])
        .run()
        .context("lint the libraries for Windows, without models")
}

/// Runs the tests of halprof-measure as a Windows program under Wine. The tests contain stand-ins
/// for the parts of thread profiling that Wine lacks.
pub(crate) fn library_tests(shell: &Shell) -> Result<()> {
    setup::require(setup::MINGW)?;
    setup::require(setup::WINE)?;
    let (toolchain, standard_library) = toolchain(shell)?;
    let folder = shell.create_dir("target/exe/tests")?;
    let folder = folder.canonicalize()?;
    // Wine 8 lacks this library, and Rust's standard library imports it.
    let stand_in = folder.join("bcryptprimitives.dll");
    let source = "client/tool/tests/wine/bcryptprimitives.c";
    cmd!(shell, "x86_64-w64-mingw32-gcc -shared -o {stand_in} {source}").run()?;
    let runner = "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER";
    let _runner = shell.push_env(runner, "/usr/lib/wine/wine64");
    let _library = shell.push_env("WINEPATH", format!("Z:{}", folder.display()));
    let _prefix = shell.push_env("WINEPREFIX", folder.join("wine"));
    let _quiet = shell.push_env("WINEDEBUG", "-all");
    let _alone = shell.push_env("WINEDLLOVERRIDES", "mscoree=;mshtml=");
    toolchain
        .cargo(shell)
        .args(["test", "--profile", "suite", "--package", "halprof-measure"])
        .args(["--lib", "--target", TARGET])
        .args(standard_library)
        .run()
        .context("run the library's tests by Wine")
}
