//! `cargo xtask sys`: builds the driver from the registry's own wdk crates, without Windows.
//!
//! wdk-build is given a substitute WDK content root ([`content_root`]) and works in a folder in
//! which two crates are replaced ([`workspace`]); `xtask/wdk/README.md` describes what they are
//! made of.

mod content_root;
mod files;
mod reproducible;
mod toolchain;
pub(crate) mod variants;
mod workspace;

pub(crate) use toolchain::Toolchain;

use crate::rustup::TARGET;
use crate::setup;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use xshell::Shell;

/// Command-line options.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// The Rust toolchain; by default rustup's, or Debian's if rustup has no Windows target.
    #[arg(long)]
    toolchain: Option<Toolchain>,
    /// Builds again in another folder and compares the bytes.
    #[arg(long)]
    twice: bool,
}

/// The folders of the driver's build.
struct Folders {
    /// The repository.
    repository: PathBuf,
    /// Everything that is built, below `target`.
    driver: PathBuf,
}

impl Folders {
    fn new(repository: PathBuf) -> Self {
        let driver = repository.join("target/driver");
        Self { repository, driver }
    }

    fn image(&self) -> PathBuf {
        self.driver.join("halprof.sys")
    }

    fn symbols(&self) -> PathBuf {
        self.driver.join("halprof.pdb")
    }

    /// The parts of the WDK that this repository supplies.
    fn sources(&self) -> PathBuf {
        self.repository.join("xtask/wdk")
    }

    fn content_root(&self) -> PathBuf {
        self.driver.join("wdk")
    }

    fn workspace(&self) -> PathBuf {
        self.driver.join("work")
    }
}

/// Builds the driver as it is shipped.
pub(crate) fn build_shipped(shell: &Shell) -> Result<()> {
    build(shell, &Options::default())
}

/// Builds `halprof.sys`, `halprof.pdb`, `halprof-historic.sys` and `bindings/` into `target/driver`.
pub(crate) fn build(shell: &Shell, options: &Options) -> Result<()> {
    let toolchain = Toolchain::choose(shell, options.toolchain)?;
    let folders = Folders::new(shell.current_dir().canonicalize()?);
    build_in(shell, &folders, toolchain)?;
    println!("{}", folders.image().display());
    if options.twice {
        reproducible::check(shell, &folders, toolchain)?;
    }
    Ok(())
}

/// Runs clippy and rustdoc for the driver's target.
pub(crate) fn lint(shell: &Shell) -> Result<()> {
    let toolchain = Toolchain::choose(shell, None)?;
    let folders = Folders::new(shell.current_dir().canonicalize()?);
    assemble(shell, &folders, toolchain)?;
    let _folder = shell.push_dir(folders.workspace());
    let driver = [toolchain.arguments(), &["--release", "--package", "halprof-driver"]].concat();
    toolchain.clippy(shell).args(&driver).args(["--", "-D", "warnings"]).run()?;
    let doc = toolchain.cargo(shell).env("RUSTDOCFLAGS", "-D warnings");
    Ok(doc.args(["doc", "--no-deps"]).args(&driver).run()?)
}

fn assemble(shell: &Shell, folders: &Folders, toolchain: Toolchain) -> Result<()> {
    setup::require(setup::DRIVER)?;
    setup::require(setup::LLVM)?;
    let wdk = content_root::assemble(shell, folders).context("the WDK content root")?;
    let linker = workspace::assemble(shell, folders).context("the driver's work folder")?;
    if wdk || linker {
        forget(shell, folders, toolchain)?;
    }
    Ok(())
}

/// Cleans what depends on changes that cargo does not notice: libraries, the linker, and the table
/// that wdk-macros caches from `wdf.h`.
fn forget(shell: &Shell, folders: &Folders, toolchain: Toolchain) -> Result<()> {
    let _folder = shell.push_dir(folders.workspace());
    toolchain
        .cargo(shell)
        .args(["clean", "--quiet", "--release"])
        .args(["--package", "scratch", "--package", "halprof-driver"])
        .run()?;
    Ok(())
}

fn build_in(shell: &Shell, folders: &Folders, toolchain: Toolchain) -> Result<()> {
    assemble(shell, folders, toolchain)?;
    let _folder = shell.push_dir(folders.workspace());
    let image = Path::new("target").join(TARGET).join("release/halprof_driver.dll");
    // The same driver with the interfaces for processors that no 64-bit Windows boots on.
    compile(shell, toolchain, &["--features", "historic"])?;
    shell.copy_file(&image, folders.driver.join("halprof-historic.sys"))?;
    let messages = compile(shell, toolchain, &[])?;
    shell.copy_file(&image, folders.image())?;
    shell.copy_file(image.with_extension("pdb"), folders.symbols())?;
    let generated = generated(&messages)?;
    for name in ["types.rs", "constants.rs", "ntddk.rs", "wdf.rs"] {
        let to = folders.driver.join("bindings").join(name);
        files::copy(&generated.join(name), &to)?;
    }
    Ok(())
}

/// Compiles the driver; returns cargo's messages.
fn compile(shell: &Shell, toolchain: Toolchain, features: &[&str]) -> Result<String> {
    toolchain
        .cargo(shell)
        .arg("build")
        .args(toolchain.arguments())
        .args(["--release", "--package", "halprof-driver"])
        .args(features)
        .arg("--message-format=json-render-diagnostics")
        .read()
        .context("build the driver")
}

/// Where wdk-sys has put its bindings, according to cargo's messages.
fn generated(messages: &str) -> Result<PathBuf> {
    let message = messages
        .lines()
        .filter(|line| line.contains("build-script-executed"))
        .find(|line| line.contains("#wdk-sys@"))
        .context("cargo names no build of wdk-sys")?;
    let message: Value = serde_json::from_str(message)?;
    let folder = message["out_dir"].as_str().context("it names no folder")?;
    Ok(folder.into())
}
