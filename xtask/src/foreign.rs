//! Third-party programs that the tests use to read what halprof writes.

use crate::setup;
use anyhow::{Context, Result};
use std::path::Path;
use xshell::{Shell, cmd};

const FROM: &str = "client/tool/tests/foreign";

/// Installs each set of packages that is missing or has other versions.
pub(crate) fn install(shell: &Shell) -> Result<()> {
    install_set(shell, "target/foreign/python", &["requirements.txt"], python)?;
    install_set(shell, "target/foreign/node", &["package.json", "package-lock.json"], node)
}

/// Installs a set into its folder, with the files that list its packages and their versions, unless
/// the same are there.
fn install_set(
    shell: &Shell,
    folder: &str,
    lists: &[&str],
    install: fn(&Shell, &str) -> Result<()>,
) -> Result<()> {
    let installed = Path::new(folder).join("installed");
    let same = |name: &&str| {
        let wanted = shell.read_file(format!("{FROM}/{name}"));
        let there = shell.read_file(format!("{folder}/{name}"));
        wanted.is_ok_and(|wanted| there.is_ok_and(|there| there == wanted))
    };
    if shell.path_exists(&installed) && lists.iter().all(same) {
        return Ok(());
    }
    install(shell, folder)?;
    for name in lists {
        shell.copy_file(format!("{FROM}/{name}"), folder)?;
    }
    Ok(shell.write_file(installed, "")?)
}

fn python(shell: &Shell, folder: &str) -> Result<()> {
    setup::python_venv(shell, folder)?;
    cmd!(shell, "{folder}/bin/pip install --quiet --requirement {FROM}/requirements.txt")
        .run()
        .context("install Python packages from PyPI: check the network")
}

fn node(shell: &Shell, folder: &str) -> Result<()> {
    shell.remove_path(folder)?;
    shell.create_dir(folder)?;
    for name in ["package.json", "package-lock.json"] {
        shell.copy_file(format!("{FROM}/{name}"), folder)?;
    }
    cmd!(shell, "npm ci --prefix {folder} --ignore-scripts --no-audit --no-fund --loglevel error")
        .run()
        .context("install JavaScript packages from npm: check the network")
}
