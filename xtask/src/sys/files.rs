//! Writes files only if they differ, so that cargo rebuilds nothing needlessly.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a file; returns whether it changed.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    create_parent(path)?;
    fs::write(path, bytes).with_context(|| format!("write {}", path.display()))?;
    Ok(true)
}

/// Copies a file and its permissions; returns whether it changed.
pub(super) fn copy(from: &Path, to: &Path) -> Result<bool> {
    let bytes = fs::read(from).with_context(|| format!("read {}", from.display()))?;
    let changed = write(to, &bytes)?;
    if changed {
        let permissions = from.metadata()?.permissions();
        fs::set_permissions(to, permissions).with_context(|| format!("{}", to.display()))?;
    }
    Ok(changed)
}

/// Copies the folder `below` of one folder to the same place in another, some files with other
/// contents; returns whether anything changed.
pub(super) fn copy_folder(
    from: &Path,
    to: &Path,
    below: &Path,
    replaced: &[(PathBuf, String)],
) -> Result<bool> {
    let folder = from.join(below);
    let mut changed = false;
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let below = path.strip_prefix(from)?;
        changed |= match replaced.iter().find(|(file, _)| file == below) {
            Some((_, contents)) => write(&to.join(below), contents.as_bytes())?,
            None if path.is_dir() => copy_folder(from, to, below, replaced)?,
            None => copy(&path, &to.join(below))?,
        };
    }
    Ok(changed)
}

/// Replaces a text that must occur so many times.
pub(super) fn replace(source: &str, text: &str, count: usize, instead: &str) -> Result<String> {
    let found = source.matches(text).count();
    ensure!(found == count, "`{text}` is {found} times there, must be {count} times");
    Ok(source.replace(text, instead))
}

/// Makes a symbolic link.
pub(super) fn link(from: &Path, to: &Path) -> Result<()> {
    if fs::read_link(to).is_ok_and(|old| old == from) {
        return Ok(());
    }
    create_parent(to)?;
    if to.symlink_metadata().is_ok() {
        fs::remove_file(to).with_context(|| format!("replace {}", to.display()))?;
    }
    std::os::unix::fs::symlink(from, to).with_context(|| format!("link {}", to.display()))
}

fn create_parent(path: &Path) -> Result<()> {
    let parent = path.parent().context("a file in a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_not_there_so_often_is_refused() {
        assert_eq!(replace("old, old", "old", 2, "new").unwrap(), "new, new");
        replace("old", "old", 2, "new").unwrap_err();
        replace("old, old, old", "old", 2, "new").unwrap_err();
    }
}
