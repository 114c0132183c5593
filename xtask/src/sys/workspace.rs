//! The folder in which cargo builds the driver: links to the repository, and a configuration that
//! replaces the crates that upstream builds only on Windows.

use super::toolchain::DEBIAN_SOURCES;
use super::{Folders, files};
use crate::metadata;
use crate::rustup::TARGET;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use xshell::Shell;

/// A change to a source of wdk-build: the file, the text, how many times it must occur, and what
/// stands instead.
type Edit = (&'static str, &'static str, usize, &'static str);

/// The lines of wdk-build that compile only on Windows.
const EDITS: [Edit; 2] = [
    // These refuse any other host, in functions that no build script calls.
    ("src/utils.rs", "compile_error!(", 2, "unimplemented!("),
    // Used only by cargo-make.
    ("src/cargo_make.rs", "std::os::windows::fs::symlink_file", 2, "std::os::unix::fs::symlink"),
];

/// Creates the folder; returns whether the driver must be linked again.
pub(super) fn assemble(shell: &Shell, folders: &Folders) -> Result<bool> {
    let work = folders.workspace();
    for entry in shell.read_dir(&folders.repository)? {
        let name = entry.file_name().unwrap_or_default();
        if name == "Cargo.toml" || holds_a_package(shell, &entry)? {
            files::link(&entry, &work.join(name))?;
        }
    }
    lock(shell, folders)?;
    let ours = folders.sources().join("windows");
    files::link(&ours, &work.join("windows"))?;
    let upstream = registry_source(shell, "wdk-build")?;
    wdk_build(shell, &upstream, &work.join("wdk-build"))?;
    let crates = upstream.parent().context("no folder of crates")?;
    let configuration = configuration(folders, crates);
    files::write(&work.join(".cargo/config.toml"), configuration.as_bytes())?;
    files::copy(&folders.sources().join("link.sh"), &work.join("link.sh"))
}

/// Whether a folder is a package or contains packages.
fn holds_a_package(shell: &Shell, folder: &Path) -> Result<bool> {
    if !folder.is_dir() || folder.ends_with("target") {
        return Ok(false);
    }
    let inside = shell.read_dir(folder)?;
    let mut folders = inside.iter().map(PathBuf::as_path).chain([folder]);
    Ok(folders.any(|folder| folder.join("Cargo.toml").exists()))
}

/// Gives the work folder a copy of the repository's `Cargo.lock`: a copy, because cargo removes the
/// replaced crates from it. A second, unmodified copy shows whether the repository's has changed.
fn lock(shell: &Shell, folders: &Folders) -> Result<()> {
    let ours = folders.repository.join("Cargo.lock");
    if files::copy(&ours, &folders.driver.join("Cargo.lock"))? {
        shell.copy_file(ours, folders.workspace().join("Cargo.lock"))?;
    }
    Ok(())
}

/// Copies wdk-build as cargo unpacked it, with [`EDITS`] applied.
fn wdk_build(shell: &Shell, from: &Path, to: &Path) -> Result<()> {
    let edited = |&(file, text, count, instead): &Edit| {
        let source = files::replace(&shell.read_file(from.join(file))?, text, count, instead);
        let source = source.with_context(|| {
            format!("{}: look what stops this version on Linux", from.join(file).display())
        })?;
        Ok((file.into(), source))
    };
    let edited: Vec<(PathBuf, String)> = EDITS.iter().map(edited).collect::<Result<_>>()?;
    files::copy_folder(from, to, Path::new(""), &edited)?;
    Ok(())
}

/// Where cargo unpacked a package that the workspace depends on.
fn registry_source(shell: &Shell, package: &str) -> Result<PathBuf> {
    let package = metadata(shell, package)?;
    let manifest = package["manifest_path"].as_str().context("no manifest")?;
    Ok(Path::new(manifest).parent().context("no folder")?.to_owned())
}

/// The cargo configuration of this folder, in addition to the repository's.
fn configuration(folders: &Folders, crates: &Path) -> String {
    let root = folders.content_root();
    let root = root.display();
    let core = Path::new(DEBIAN_SOURCES);
    let core_itself = core.canonicalize().unwrap_or_else(|_| core.to_owned());
    let remap = [
        (folders.workspace().as_path(), "halprof"),
        (crates, "crates"),
        (core, "rust"),
        (&core_itself, "rust"),
    ]
    .map(|(path, name)| format!("    \"--remap-path-prefix={}={name}\",\n", path.display()))
    .concat();
    format!(
        r#"[build]
target = "{TARGET}"
target-dir = "target"

[env]
WDKContentRoot = {{ value = "{root}", force = true }}
LIBCLANG_PATH = {{ value = "/usr/lib/llvm-19/lib", force = true }}
CLANG_PATH = {{ value = "/usr/bin/clang-19", force = true }}
CC_x86_64_pc_windows_msvc = {{ value = "clang-cl-19", force = true }}
AR_x86_64_pc_windows_msvc = {{ value = "llvm-lib-19", force = true }}
# The public DDK's inline functions are not all C as clang likes it.
CFLAGS_x86_64_pc_windows_msvc = {{ value = "-w", force = true }}

[target.{TARGET}]
linker = "./link.sh"
# No path of this machine in the image.
rustflags = [
{remap}]

[profile.release]
debug = "line-tables-only"
lto = "fat"
codegen-units = 1

[patch.crates-io]
windows = {{ path = "windows" }}
wdk-build = {{ path = "wdk-build" }}
"#
    )
}
