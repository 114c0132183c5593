//! `cargo xtask variants`: builds drivers with one mistake each, to prove that nt-model finds it.
//!
//! The mistakes are rows of tests/nt-model/variants.toml. Each is built like the driver itself, in
//! a work folder of its own, with the driver's toolchain, content root and flags, and links to what
//! the driver's build produced, so that only what a mistake changes is compiled again.

use super::toolchain::Toolchain;
use super::{Folders, Options, files};
use crate::rustup::TARGET;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use xshell::{Shell, cmd};

/// Where the rows are.
const TABLE: &str = "tests/nt-model/variants.toml";
/// The packages that a row may change; the others are used from the repository.
const CHANGEABLE: [&str; 2] = ["driver", "hal-profile"];

#[derive(Deserialize)]
struct Table {
    variant: Vec<Variant>,
}

/// One mistake. The fields that say what finds it are read by the test.
#[derive(Deserialize)]
struct Variant {
    name: String,
    edit: Vec<Edit>,
}

/// A text that occurs once in its file, and its replacement.
#[derive(Deserialize)]
struct Edit {
    file: PathBuf,
    text: String,
    instead: String,
}

/// Builds target/variants/NAME/halprof.sys for each row: as many at once as there are processors,
/// because one build keeps only one of them busy.
pub(crate) fn build(shell: &Shell) -> Result<()> {
    super::build(shell, &Options::default())?;
    let folders = Folders::new(shell.current_dir().canonicalize()?);
    let table = fs::read_to_string(folders.repository.join(TABLE))?;
    let table: Table = toml::from_str(&table).with_context(|| format!("read {TABLE}"))?;
    let builder = Builder {
        toolchain: Toolchain::choose(shell, None)?,
        variants: folders.repository.join("target/variants"),
        driver: fs::read(folders.image())?,
        folders,
        rows: Mutex::new(table.variant.into_iter()),
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers)
            .map(|number| {
                let builder = &builder;
                scope.spawn(move || builder.work(number))
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            let ended = worker.join();
            ended.unwrap_or_else(|_| bail!("a thread that builds variants panicked"))
        })
    })
}

/// What the threads that build have in common.
struct Builder {
    folders: Folders,
    toolchain: Toolchain,
    /// Where the variants are put.
    variants: PathBuf,
    /// The driver without a mistake.
    driver: Vec<u8>,
    /// The rows that nobody has taken yet.
    rows: Mutex<std::vec::IntoIter<Variant>>,
}

impl Builder {
    /// Builds rows in a work folder of its own until there are none left.
    fn work(&self, number: usize) -> Result<()> {
        let shell = Shell::new()?;
        shell.change_dir(&self.folders.repository);
        let work = self.variants.join(format!("work-{number}"));
        assemble(&shell, &self.folders, &work).context("the variants' work folder")?;
        loop {
            let row = self.rows.lock().ok().and_then(|mut rows| rows.next());
            let Some(variant) = row else {
                return Ok(());
            };
            self.build(&shell, &work, &variant)
                .with_context(|| format!("variant {}", variant.name))?;
        }
    }

    /// Builds one, unless it is there already.
    fn build(&self, shell: &Shell, work: &Path, variant: &Variant) -> Result<()> {
        let sources = variant.sources(&self.folders.repository)?;
        let folder = self.variants.join(&variant.name);
        let key = key(&self.driver, &sources);
        let known = fs::read(folder.join("key")).is_ok_and(|known| known == key);
        if known && folder.join("halprof.sys").exists() {
            return Ok(());
        }
        let repository = &self.folders.repository;
        compile(shell, self.toolchain, repository, work, &sources)?;
        let built = work.join("target").join(TARGET).join("release");
        files::copy(&built.join("halprof_driver.dll"), &folder.join("halprof.sys"))?;
        files::write(&folder.join("key"), &key)?;
        println!("{}", folder.join("halprof.sys").display());
        Ok(())
    }
}

/// Creates the work folder, with what the driver's own build produced.
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
    // Paths in the driver's configuration that are in its own folder keep pointing there.
    let configuration = shell.read_file(original.join(".cargo/config.toml"))?;
    let configuration =
        ["./link.sh", "windows", "wdk-build"].iter().fold(configuration, |text, name| {
            let path = original.join(name);
            text.replace(&format!("\"{name}\""), &format!("\"{}\"", path.display()))
        });
    files::write(&work.join(".cargo/config.toml"), configuration.as_bytes())?;
    // Anew each time: the driver's build writes some of its files in place, so that what was linked
    // earlier is half of then and half of now, and cargo takes it for fresh.
    let target = work.join("target");
    shell.remove_path(&target)?;
    link_target(shell, &original.join("target"), &target)
}

/// Links what was built of the other packages, 700 MB that nothing writes again. What each work
/// folder writes itself is left out: the changeable packages, and the file by which cargo locks.
fn link_target(shell: &Shell, from: &Path, to: &Path) -> Result<()> {
    cmd!(shell, "cp -al {from} {to}").run()?;
    let own = [".cargo-lock", "halprof-driver", "halprof_driver", "hal-profile", "hal_profile"];
    for name in own {
        let paths = format!("{}/*{name}*", to.display());
        cmd!(shell, "find {to} -depth -path {paths} -delete").run()?;
    }
    Ok(())
}

impl Variant {
    /// The files that the variant changes, with their changed contents.
    fn sources(&self, repository: &Path) -> Result<Vec<(PathBuf, String)>> {
        let mut sources: Vec<(PathBuf, String)> = Vec::new();
        for Edit { file, text, instead } in &self.edit {
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

/// What a variant's driver depends on: the driver without the mistake, and the mistake.
fn key(driver: &[u8], sources: &[(PathBuf, String)]) -> Vec<u8> {
    let mut digest = Sha256::new();
    digest.update(driver);
    for (file, source) in sources {
        digest.update(file.to_string_lossy().as_bytes());
        digest.update(source.as_bytes());
    }
    digest.finalize().to_vec()
}

/// Puts the sources into the work folder, with the changed ones replacing the repository's, and
/// compiles. Warnings that a mistake causes are shown only if it does not compile.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(file: &str, text: &str) -> Variant {
        let edit = Edit { file: file.into(), text: text.to_owned(), instead: "let".to_owned() };
        Variant { name: "a variant".to_owned(), edit: vec![edit] }
    }

    #[test]
    fn an_edit_that_does_not_fit_once_is_refused() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let sources = |file, text| variant(file, text).sources(&repository);
        let file = "driver/src/lib.rs";
        assert_eq!(sources(file, "#![no_std]").unwrap().len(), 1);
        sources(file, "not there").unwrap_err();
        sources(file, "mod ").unwrap_err();
        sources("xtask/src/main.rs", "fn main()").unwrap_err();
        sources("driver/src/none.rs", "").unwrap_err();
    }
}
