//! `cargo xtask variants`: builds drivers with one mistake each, to prove that nt-model finds it.
//!
//! The mistakes are rows of tests/nt-model/variants.toml. They are built one after the other in one
//! work folder with the driver's toolchain, content root and flags, but incrementally and therefore
//! without LTO: each then compiles only what its mistake changes. The driver built so without a
//! mistake is the control, which the tests expect to be as good as the shipped one.

use super::toolchain::Toolchain;
use super::{Folders, files};
use crate::rustup::TARGET;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use xshell::Shell;

/// Where the rows are.
const TABLE: &str = "tests/nt-model/variants.toml";
/// The packages that a row may change; the others are used from the repository.
const CHANGEABLE: [&str; 2] = ["driver", "hal-profile"];
/// Settings for quick incremental builds. Nobody debugs the results, so the PDB is left small.
const INCREMENTAL: [&str; 5] = [
    "profile.release.incremental=true",
    "profile.release.lto=\"off\"",
    "profile.release.package.hal-profile.codegen-units=64",
    "profile.release.package.halprof-driver.codegen-units=64",
    "profile.release.package.halprof-driver.debug=\"line-tables-only\"",
];

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

/// A text that occurs once in its file, or the line after a comment `// mistake: MARK`, and its
/// replacement.
#[derive(Deserialize)]
struct Edit {
    file: PathBuf,
    #[serde(flatten)]
    at: Anchor,
    instead: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Anchor {
    Mark(String),
    Text(String),
}

impl Anchor {
    /// The source with the replacement; there must be one place for it.
    fn replace(&self, source: &str, instead: &str) -> Result<String> {
        let text = match self {
            Self::Text(text) => text.as_str(),
            Self::Mark(mark) => marked(source, mark)
                .with_context(|| format!("no line `// mistake: {mark}` with one after it"))?,
        };
        files::replace(source, text, 1, instead)
    }
}

/// From a mark's comment to the end of the line after it.
fn marked<'a>(source: &'a str, mark: &str) -> Option<&'a str> {
    let begin = source.find(&format!("// mistake: {mark}\n"))?;
    let from_mark = source.get(begin..)?;
    let end = from_mark.match_indices('\n').nth(1).map_or(from_mark.len(), |(at, _)| at);
    from_mark.get(..end)
}

/// The driver without a mistake, built like the others.
const CONTROL: &str = "control";

/// Builds target/variants/NAME/halprof.sys for each row, and the control.
pub(crate) fn build(shell: &Shell) -> Result<()> {
    super::build_shipped(shell)?;
    let folders = Folders::new(shell.current_dir().canonicalize()?);
    let table = fs::read_to_string(folders.repository.join(TABLE))?;
    let table: Table = toml::from_str(&table).with_context(|| format!("read {TABLE}"))?;
    let variants = folders.repository.join("target/variants");
    let builder = Builder {
        shell,
        toolchain: Toolchain::choose(shell, None)?,
        work: variants.join("work"),
        variants,
        driver: fs::read(folders.image())?,
        folders,
    };
    builder.assemble().context("the variants' work folder")?;
    let control = Variant { name: CONTROL.to_owned(), edit: Vec::new() };
    // A change of a signature can put several rows out of date: they are all reported at once.
    let stale: Vec<String> = [control]
        .iter()
        .chain(&table.variant)
        .filter_map(|variant| {
            let error = builder.build(variant).err()?;
            Some(format!("variant {}: {error:#}", variant.name))
        })
        .collect();
    ensure!(stale.is_empty(), "{}", stale.join("\n"));
    Ok(())
}

/// What the builds have in common.
struct Builder<'a> {
    shell: &'a Shell,
    folders: Folders,
    toolchain: Toolchain,
    /// Where the variants are put.
    variants: PathBuf,
    /// The folder in which they are compiled.
    work: PathBuf,
    /// The shipped driver.
    driver: Vec<u8>,
}

impl Builder<'_> {
    /// Makes the work folder like the driver's own, but for the packages that rows change.
    fn assemble(&self) -> Result<()> {
        let original = self.folders.workspace();
        for member in self.shell.read_dir(&original)? {
            let name = member.file_name().unwrap_or_default();
            let is_source = member.is_symlink() && !CHANGEABLE.iter().any(|other| name == *other);
            if is_source {
                files::link(&fs::read_link(&member)?, &self.work.join(name))?;
            }
        }
        files::copy(&original.join("Cargo.lock"), &self.work.join("Cargo.lock"))?;
        // Paths in the driver's configuration that are in its own folder keep pointing there.
        let configuration = self.shell.read_file(original.join(".cargo/config.toml"))?;
        let configuration =
            ["./link.sh", "windows", "wdk-build"].iter().fold(configuration, |text, name| {
                let path = original.join(name);
                text.replace(&format!("\"{name}\""), &format!("\"{}\"", path.display()))
            });
        files::write(&self.work.join(".cargo/config.toml"), configuration.as_bytes())?;
        Ok(())
    }

    /// Builds one, unless it is there already.
    fn build(&self, variant: &Variant) -> Result<()> {
        let sources = variant.sources(&self.folders.repository)?;
        let folder = self.variants.join(&variant.name);
        let key = key(&self.driver, &sources);
        let known = fs::read(folder.join("key")).is_ok_and(|known| known == key);
        if known && folder.join("halprof.sys").exists() {
            return Ok(());
        }
        self.compile(&sources)?;
        let built = self.work.join("target").join(TARGET).join("release/halprof_driver.dll");
        files::copy(&built, &folder.join("halprof.sys"))?;
        files::write(&folder.join("key"), &key)?;
        println!("{}", folder.join("halprof.sys").display());
        Ok(())
    }

    /// Puts the sources into the work folder, with the changed ones replacing the repository's, and
    /// compiles. Warnings that a mistake causes are shown only if it does not compile.
    fn compile(&self, sources: &[(PathBuf, String)]) -> Result<()> {
        for package in CHANGEABLE {
            let repository = &self.folders.repository;
            files::copy_folder(repository, &self.work, Path::new(package), sources)?;
        }
        let _folder = self.shell.push_dir(&self.work);
        let output = self
            .toolchain
            .cargo(self.shell)
            .args(["build", "--quiet", "--release", "--package", "halprof-driver"])
            .args(INCREMENTAL.iter().flat_map(|setting| ["--config", setting]))
            .args(self.toolchain.arguments())
            .quiet()
            .ignore_status()
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "it does not compile: {said}");
        Ok(())
    }
}

impl Variant {
    /// The files that the variant changes, with their changed contents.
    fn sources(&self, repository: &Path) -> Result<Vec<(PathBuf, String)>> {
        let mut sources: BTreeMap<PathBuf, String> = BTreeMap::new();
        for Edit { file, at, instead } in &self.edit {
            ensure!(
                CHANGEABLE.iter().any(|package| file.starts_with(package)),
                "{} is in none of {CHANGEABLE:?}",
                file.display()
            );
            let source = match sources.remove(file) {
                Some(source) => source,
                None => fs::read_to_string(repository.join(file))
                    .with_context(|| format!("read {}", file.display()))?,
            };
            let source = at
                .replace(&source, instead)
                .with_context(|| format!("{}: write the row of {TABLE} anew", file.display()))?;
            sources.insert(file.clone(), source);
        }
        Ok(sources.into_iter().collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(file: &str, text: &str) -> Variant {
        let at = Anchor::Text(text.to_owned());
        let edit = Edit { file: file.into(), at, instead: "let".to_owned() };
        Variant { name: "a variant".to_owned(), edit: vec![edit] }
    }

    #[test]
    fn a_mark_is_of_the_line_after_it() {
        let source = "a;\n    // mistake: one\n    b;\nc;\n";
        let replaced = |mark: &str| Anchor::Mark(mark.to_owned()).replace(source, "x;").ok();
        assert_eq!(replaced("one").as_deref(), Some("a;\n    x;\nc;\n"));
        assert_eq!(replaced("on"), None);
        let edit: Edit = toml::from_str("file = 'f'\nmark = 'one'\ninstead = ''").unwrap();
        assert!(matches!(edit.at, Anchor::Mark(mark) if mark == "one"));
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
