//! The folder in which cargo builds the driver: the repository by links, and a configuration that
//! replaces what upstream builds on Windows only.

use super::toolchain::{TARGET, Toolchain};
use super::{Folders, files};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// wdk-build's lines that Windows alone compiles: file, text, how often, instead.
///
/// The first two refuse any other host, in functions that no build script calls; the other two
/// serve cargo-make.
const EDITS: [(&str, &str, usize, &str); 2] = [
    ("src/utils.rs", "compile_error!(", 2, "unimplemented!("),
    (
        "src/cargo_make.rs",
        "std::os::windows::fs::symlink_file",
        2,
        "std::os::unix::fs::symlink",
    ),
];

/// Lays it out.
pub(super) fn assemble(shell: &Shell, folders: &Folders, toolchain: Toolchain) -> Result<()> {
    let work = folders.workspace();
    for member in shell.read_dir(&folders.repository)? {
        let is_member = member.join("Cargo.toml").exists();
        let name = member.file_name().unwrap_or_default();
        if is_member || name == "Cargo.toml" {
            files::link(&member, &work.join(name))?;
        }
    }
    // Replacing crates changes it, so it is a copy.
    files::copy(
        &folders.repository.join("Cargo.lock"),
        &folders.driver.join("Cargo.lock"),
    )?;
    shell.copy_file(folders.driver.join("Cargo.lock"), work.join("Cargo.lock"))?;
    let ours = folders.sources().join("windows");
    files::link(&ours, &work.join("windows"))?;
    wdk_build(shell, folders)?;
    let configuration = configuration(folders, toolchain);
    files::write(&work.join(".cargo/config.toml"), configuration.as_bytes())?;
    Ok(())
}

/// Unpacks wdk-build from the registry, with [`EDITS`].
fn wdk_build(shell: &Shell, folders: &Folders) -> Result<()> {
    let source = registry_source(shell, "wdk-build")?;
    let to = folders.workspace().join("wdk-build");
    copy_tree(shell, &source, &to, Path::new(""))
}

fn copy_tree(shell: &Shell, from: &Path, to: &Path, below: &Path) -> Result<()> {
    for path in shell.read_dir(from.join(below))? {
        let below = path.strip_prefix(from)?;
        if path.is_dir() {
            copy_tree(shell, from, to, below)?;
        } else {
            files::write(&to.join(below), &edited(shell, &path, below)?)?;
        }
    }
    Ok(())
}

fn edited(shell: &Shell, path: &Path, below: &Path) -> Result<Vec<u8>> {
    let Some((_, text, count, instead)) = EDITS.iter().find(|edit| below == Path::new(edit.0))
    else {
        return Ok(shell.read_binary_file(path)?);
    };
    let source = shell.read_file(path)?;
    ensure!(
        source.matches(text).count() == *count,
        "{} has changed: `{text}` is not in it {count} times; look what stops it on Linux now",
        path.display()
    );
    Ok(source.replace(text, instead).into_bytes())
}

/// Where cargo has unpacked a package that the workspace depends on.
fn registry_source(shell: &Shell, package: &str) -> Result<PathBuf> {
    let metadata = cmd!(shell, "cargo metadata --locked --format-version 1")
        .quiet()
        .read()
        .context("cargo must load the crates once: check the network")?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let manifest = packages
        .iter()
        .find(|found| found["name"] == package)
        .and_then(|found| found["manifest_path"].as_str())
        .with_context(|| format!("the driver does not depend on {package}"))?;
    let folder = Path::new(manifest).parent().context("no folder")?;
    Ok(folder.to_owned())
}

fn configuration(folders: &Folders, _toolchain: Toolchain) -> String {
    let content_root = folders.content_root();
    let flags = rustflags(folders)
        .map(|flag| format!("    \"{flag}\",\n"))
        .concat();
    format!(
        r#"[build]
target = "{TARGET}"
target-dir = "target"

[env]
WDKContentRoot = "{root}"
LIBCLANG_PATH = "/usr/lib/llvm-19/lib"
CLANG_PATH = "/usr/bin/clang-19"
CC_x86_64_pc_windows_msvc = "clang-cl-19"
AR_x86_64_pc_windows_msvc = "llvm-lib-19"
CFLAGS_x86_64_pc_windows_msvc = "-ferror-limit=0 -w"

[target.{TARGET}]
linker = "lld-link-19"
rustflags = [
{flags}]

[profile.release]
lto = "fat"
codegen-units = 1

[patch.crates-io]
windows = {{ path = "windows" }}
wdk-build = {{ path = "wdk-build" }}
"#,
        root = content_root.display(),
    )
}

fn rustflags(_folders: &Folders) -> [&'static str; 7] {
    [
        "-Ctarget-feature=+crt-static",
        "-Ccontrol-flow-guard",
        "-Clink-arg=/GUARD:CF",
        "-Clink-arg=/CETCOMPAT",
        "-Clink-arg=/RELEASE",
        "-Clink-arg=/BREPRO",
        "-Clink-arg=/PDBALTPATH:halprof.pdb",
    ]
}
