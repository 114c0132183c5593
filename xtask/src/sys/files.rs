//! Writes files only if they differ, so that cargo rebuilds nothing needlessly.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

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
