//! `cargo xtask variants`: the driver with one mistake each, to prove that nt-model finds it.
//!
//! The mistakes are rows of tests/nt-model/variants.toml. Each is built as the driver itself is,
//! in a work folder beside the driver's: its toolchain, its content root, its flags, and a copy of
//! what it has built, so that only what a mistake changes is compiled again.

use super::toolchain::{TARGET, Toolchain};
use super::{Folders, Options, files};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Where the rows are.
const TABLE: &str = "tests/nt-model/variants.toml";
/// The packages that a row may change; the others are the repository's.
const CHANGEABLE: [&str; 2] = ["driver", "hal-profile"];

#[derive(Deserialize)]
struct Table {
    variant: Vec<Variant>,
}

/// One mistake. What finds it is the test's to read.
#[derive(Deserialize)]
struct Variant {
    name: String,
    edit: Vec<Edit>,
}

/// One text, in its file once, and what stands there instead.
#[derive(Deserialize)]
struct Edit {
    file: PathBuf,
    text: String,
    instead: String,
}

/// Leaves target/variants/NAME/halprof.sys for each row.
pub(crate) fn build(shell: &Shell) -> Result<()> {
    super::build(shell, &Options::default())?;
    let toolchain = Toolchain::choose(shell, None)?;
    let folders = Folders::new(shell.current_dir().canonicalize()?);
    let variants = folders.repository.join("target/variants");
    let work = variants.join("work");
    assemble(shell, &folders, &work).context("the variants' work folder")?;
    let table = fs::read_to_string(folders.repository.join(TABLE))?;
    let table: Table = toml::from_str(&table).with_context(|| format!("read {TABLE}"))?;
    let driver = fs::read(folders.image())?;
    for variant in &table.variant {
        let wrong = || format!("variant {}", variant.name);
        let sources = variant.sources(&folders.repository).with_context(wrong)?;
        let folder = variants.join(&variant.name);
        let key = key(&driver, &sources);
        let known = fs::read(folder.join("key")).is_ok_and(|known| known == key);
        if known && folder.join("halprof.sys").exists() {
            continue;
        }
        compile(shell, toolchain, &folders.repository, &work, &sources).with_context(wrong)?;
        let built = work.join("target").join(TARGET).join("release");
        files::copy(
            &built.join("halprof_driver.dll"),
            &folder.join("halprof.sys"),
        )?;
        files::write(&folder.join("key"), &key)?;
        println!("{}", folder.join("halprof.sys").display());
    }
    Ok(())
}

/// Lays out the work folder, and gives it what the driver's own has built.
fn assemble(shell: &Shell, folders: &Folders, work: &Path) -> Result<()> {
    let original = folders.workspace();
    for member in shell.read_dir(&original)? {
        let name = member.file_name().unwrap_or_default();
        let is_source = member.is_symlink() && !CHANGEABLE.iter().any(|other| name == *other);
        if is_source {
            files::link(&fs::read_link(&member)?, &work.join(name))?;
        }
    }
    files::copy(&original.join("Cargo.lock"), &work.join("Cargo.lock"))?;
    // What the driver's configuration names by a path of its own folder stays there.
    let configuration = shell.read_file(original.join(".cargo/config.toml"))?;
    let configuration =
        ["./link.sh", "windows", "wdk-build"]
            .iter()
            .fold(configuration, |text, name| {
                let path = original.join(name);
                text.replace(&format!("\"{name}\""), &format!("\"{}\"", path.display()))
            });
    files::write(&work.join(".cargo/config.toml"), configuration.as_bytes())?;
    if !work.join("target").exists() {
        let (from, to) = (original.join("target"), work.join("target"));
        cmd!(shell, "cp -a {from} {to}").run()?;
    }
    Ok(())
}

impl Variant {
    /// The files that it changes, as they then are.
    fn sources(&self, repository: &Path) -> Result<Vec<(PathBuf, String)>> {
        let mut sources: Vec<(PathBuf, String)> = Vec::new();
        for Edit {
            file,
            text,
            instead,
        } in &self.edit
        {
            ensure!(
                CHANGEABLE.iter().any(|package| file.starts_with(package)),
                "{} is in none of {CHANGEABLE:?}",
                file.display()
            );
            if !sources.iter().any(|(known, _)| known == file) {
                let source = fs::read_to_string(repository.join(file))
                    .with_context(|| format!("read {}", file.display()))?;
                sources.push((file.clone(), source));
            }
            let Some((_, source)) = sources.iter_mut().find(|(known, _)| known == file) else {
                continue;
            };
            let found = source.matches(text.as_str()).count();
            ensure!(
                found == 1,
                "`{text}` is {found} times in {}, must be once: write the row of {TABLE} anew",
                file.display()
            );
            *source = source.replace(text.as_str(), instead);
        }
        Ok(sources)
    }
}

/// What a variant's file depends on: the driver without the mistake, and the mistake.
fn key(driver: &[u8], sources: &[(PathBuf, String)]) -> Vec<u8> {
    let mut digest = Sha256::new();
    digest.update(driver);
    for (file, source) in sources {
        digest.update(file.to_string_lossy().as_bytes());
        digest.update(source.as_bytes());
    }
    digest.finalize().to_vec()
}

/// Puts the sources into the work folder, the changed ones in place of the repository's, and
/// compiles. Warnings of a mistake are of no interest, unless it does not compile.
fn compile(
    shell: &Shell,
    toolchain: Toolchain,
    repository: &Path,
    work: &Path,
    sources: &[(PathBuf, String)],
) -> Result<()> {
    for package in CHANGEABLE {
        copy_changed(shell, repository, work, Path::new(package), sources)?;
    }
    let _folder = shell.push_dir(work);
    let output = toolchain
        .cargo(shell)
        .args(["build", "--quiet", "--release"])
        .args(["--package", "halprof-driver"])
        .args(toolchain.arguments())
        .quiet()
        .ignore_status()
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it does not compile: {said}");
    Ok(())
}

fn copy_changed(
    shell: &Shell,
    repository: &Path,
    work: &Path,
    below: &Path,
    sources: &[(PathBuf, String)],
) -> Result<()> {
    for path in shell.read_dir(repository.join(below))? {
        let below = path.strip_prefix(repository)?;
        let changed = sources.iter().find(|(file, _)| file == below);
        match changed {
            Some((_, source)) => {
                files::write(&work.join(below), source.as_bytes())?;
            }
            None if path.is_dir() => copy_changed(shell, repository, work, below, sources)?,
            None => {
                files::copy(&path, &work.join(below))?;
            }
        }
    }
    Ok(())
}

/// Builds them, and sees each caught.
pub(crate) fn test(shell: &Shell) -> Result<()> {
    build(shell)?;
    cmd!(
        shell,
        "cargo test --release -p nt-model --test variants --test bytes"
    )
    .run()?;
    Ok(())
}
