//! `cargo xtask sys`: the driver from the registry's own wdk crates, built without Windows.
//!
//! wdk-build finds a WDK content root of our making ([`content_root`]) and works in a folder
//! where two crates are replaced ([`workspace`]); README there says why.

mod content_root;
mod files;
mod toolchain;
pub(crate) mod variants;
mod workspace;

pub(crate) use toolchain::{Toolchain, rustup_can};

use crate::setup;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use xshell::Shell;

/// What can be chosen.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Whose Rust compiles; by default rustup's, and Debian's where rustup has no Windows target.
    #[arg(long)]
    toolchain: Option<Toolchain>,
}

/// Where everything of the driver's build lies.
struct Folders {
    /// The repository.
    repository: PathBuf,
    /// What is built, all below `target`.
    driver: PathBuf,
}

impl Folders {
    fn new(shell: &Shell) -> Self {
        let repository = shell.current_dir();
        let repository = repository.canonicalize().unwrap_or(repository);
        let driver = repository.join("target/driver");
        Self { repository, driver }
    }

    /// Our part of the WDK.
    fn sources(&self) -> PathBuf {
        self.repository.join("xtask/wdk")
    }

    fn content_root(&self) -> PathBuf {
        self.driver.join("wdk")
    }

    fn workspace(&self) -> PathBuf {
        self.driver.join("work")
    }

    fn target(&self) -> PathBuf {
        self.workspace().join("target")
    }
}

/// Leaves `halprof.sys`, `halprof.pdb` and `bindings/` in `target/driver`.
pub(crate) fn build(shell: &Shell, options: &Options) -> Result<()> {
    setup::require(setup::DRIVER)?;
    let toolchain = Toolchain::choose(shell, options.toolchain)?;
    let folders = Folders::new(shell);
    let wdk_changed = content_root::assemble(shell, &folders).context("the WDK content root")?;
    workspace::assemble(shell, &folders).context("the driver's work folder")?;
    let _folder = shell.push_dir(folders.workspace());
    if wdk_changed {
        forget(shell, toolchain)?;
    }
    let arguments = toolchain.build_arguments();
    toolchain
        .cargo(shell)
        .args(["build", "--release", "--package", "halprof-driver"])
        .args(arguments)
        .run()
        .context("build the driver")?;
    collect(shell, &folders)
}

/// Forgets what cargo does not see change: libraries, and the table that wdk-macros keeps of
/// `wdf.h`.
fn forget(shell: &Shell, toolchain: Toolchain) -> Result<()> {
    toolchain
        .cargo(shell)
        .args(["clean", "--quiet", "--release"])
        .args(["--package", "scratch", "--package", "halprof-driver"])
        .run()?;
    let host = ["clean", "--quiet", "--package", "scratch"];
    Ok(toolchain.cargo(shell).args(host).run()?)
}

fn collect(shell: &Shell, folders: &Folders) -> Result<()> {
    let built = folders.target().join(toolchain::TARGET).join("release");
    for (from, to) in [
        ("halprof_driver.dll", "halprof.sys"),
        ("halprof_driver.pdb", "halprof.pdb"),
    ] {
        shell.copy_file(built.join(from), folders.driver.join(to))?;
    }
    let bindings = folders.driver.join("bindings");
    shell.remove_path(&bindings)?;
    shell.create_dir(&bindings)?;
    for name in ["types.rs", "constants.rs", "ntddk.rs", "wdf.rs"] {
        let generated = newest(shell, &built.join("build"), name)?;
        shell.copy_file(generated, bindings.join(name))?;
    }
    let sys = folders.driver.join("halprof.sys");
    println!("{}", sys.display());
    Ok(())
}

/// The newest output of this name of a build of wdk-sys.
fn newest(shell: &Shell, builds: &Path, name: &str) -> Result<PathBuf> {
    let ours = |path: &PathBuf| path.to_string_lossy().contains("/wdk-sys-");
    let outputs = shell.read_dir(builds)?.into_iter().filter(ours);
    outputs
        .map(|build| build.join("out").join(name))
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max()
        .map(|(_, path)| path)
        .with_context(|| format!("wdk-sys has left no {name} in {}", builds.display()))
}
