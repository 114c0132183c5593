//! Checks that the same commit gives the same bytes wherever it is built.

use super::toolchain::Toolchain;
use super::{Folders, build_in};
use anyhow::{Result, ensure};
use std::path::Path;
use xshell::{Shell, cmd};

/// Builds the repository's files in another folder and compares the results.
pub(super) fn check(shell: &Shell, folders: &Folders, toolchain: Toolchain) -> Result<()> {
    // Not inside the repository, because cargo would add its configuration to that of the copy.
    let elsewhere = shell.create_temp_dir()?;
    copy_repository(shell, folders, elsewhere.path())?;
    let other = Folders::new(elsewhere.path().canonicalize()?);
    let _folder = shell.push_dir(&other.repository);
    build_in(shell, &other, toolchain)?;
    for (ours, theirs) in [(folders.image(), other.image()), (folders.symbols(), other.symbols())] {
        ensure!(
            shell.read_binary_file(&ours)? == shell.read_binary_file(&theirs)?,
            "{} has other bytes when it is built elsewhere: compare it with {}",
            ours.display(),
            theirs.display()
        );
    }
    println!("the same bytes in two folders");
    Ok(())
}

fn copy_repository(shell: &Shell, folders: &Folders, to: &Path) -> Result<()> {
    let files = cmd!(shell, "git ls-files --cached --others --exclude-standard").read()?;
    for file in files.lines() {
        let to = to.join(file);
        if let Some(folder) = to.parent() {
            shell.create_dir(folder)?;
        }
        shell.copy_file(folders.repository.join(file), to)?;
    }
    Ok(())
}
