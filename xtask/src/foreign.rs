//! Third-party programs that the tests use to read what halprof writes.

use crate::setup;
use anyhow::{Context, Result};
use std::path::Path;
use xshell::{Shell, cmd};

/// A set of packages: the files that list them with their versions, the folder, and the function
/// that installs them.
struct Set {
    named_by: &'static [&'static str],
    folder: &'static str,
    install: fn(&Shell, &str) -> Result<()>,
}

const FROM: &str = "client/tool/tests/foreign";
const SETS: &[Set] = &[
    Set { named_by: &["requirements.txt"], folder: "target/foreign/python", install: python },
    Set {
        named_by: &["package.json", "package-lock.json"],
        folder: "target/foreign/node",
        install: node,
    },
];

/// Installs each set that is missing or has other versions.
pub(crate) fn install(shell: &Shell) -> Result<()> {
    for set in SETS {
        if is_installed(shell, set) {
            continue;
        }
        (set.install)(shell, set.folder)?;
        for name in set.named_by {
            shell.copy_file(format!("{FROM}/{name}"), set.folder)?;
        }
        shell.write_file(Path::new(set.folder).join("installed"), "")?;
    }
    Ok(())
}

fn is_installed(shell: &Shell, set: &Set) -> bool {
    let same = |name: &&str| {
        let wanted = shell.read_file(format!("{FROM}/{name}"));
        let there = shell.read_file(format!("{}/{name}", set.folder));
        wanted.is_ok_and(|wanted| there.is_ok_and(|there| there == wanted))
    };
    shell.path_exists(format!("{}/installed", set.folder)) && set.named_by.iter().all(same)
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
