//! A Wine prefix for one test, and a program in it.

use halprof_tests::package;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/wine");
const PROGRAM: &str = "program.exe";

/// A folder with a program, and Wine's prefix.
pub(crate) struct Wine {
    loader: PathBuf,
    server: PathBuf,
    folder: TempDir,
}

impl Wine {
    /// With the program of a C file in `wine/` that needs these libraries. `None`, with a message, if
    /// something is missing.
    pub(crate) fn new(source: &str, libraries: &[&str]) -> Option<Self> {
        let loader = package::tool("wine64", "wine64")?;
        let server = package::tool("wineserver64", "wine64")?;
        let gcc = package::tool("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64-win32")?;
        let folder = tempfile::tempdir().expect("a folder");
        let mut gcc = Command::new(gcc);
        gcc.args(["-Wall", "-Werror", "-o"]).arg(folder.path().join(PROGRAM));
        gcc.arg(Path::new(SOURCES).join(source)).args(libraries);
        let _ = package::output(&mut gcc);
        Some(Self { loader, server, folder })
    }

    /// The folder in which the program runs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the program.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut wine = self.command(&self.loader);
        wine.arg(PROGRAM).args(arguments).output().expect("Wine runs")
    }

    fn command(&self, program: &Path) -> Command {
        let mut wine = Command::new(program);
        wine.current_dir(self.folder.path())
            .env("WINEPREFIX", self.folder.path().join("wine"))
            .env("WINEDEBUG", "-all")
            .env("WINEDLLOVERRIDES", "mscoree=;mshtml=");
        wine
    }
}

impl Drop for Wine {
    /// Ends the processes of this Wine prefix, and no others.
    fn drop(&mut self) {
        for verb in ["--kill", "--wait"] {
            let _ = self.command(&self.server).arg(verb).status();
        }
    }
}

/// What a program has printed.
pub(crate) fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}
