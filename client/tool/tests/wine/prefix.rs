//! A Wine prefix for one test.

use crate::cli::support::skipped_unless;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub(crate) const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wine");
/// Built by `cargo xtask exe`.
pub(crate) const EXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/exe/halprof.exe");
/// The same with a model in place of the driver, which runs in real time.
const REAL_TIME: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/exe/halprof-real-time.exe");

const INF: &str = "[Version]\r\nSignature=\"$WINDOWS NT$\"\r\nClass=System\r\n\
    ClassGuid={4d36e97d-e325-11ce-bfc1-08002be10318}\r\nProvider=halprof\r\n\
    [Manufacturer]\r\nhalprof=Models,NTamd64\r\n[Models.NTamd64]\r\n\
    \"halprof\"=Install,Root\\halprof\r\n";

/// A Wine prefix with the tool in it.
pub(crate) struct Wine {
    folder: TempDir,
}

impl Wine {
    /// `None`, with a message, if something is missing; a failure with `HALPROF_REQUIRE_DRIVER=1`.
    pub(crate) fn new() -> Option<Self> {
        let wanted = [
            Path::new(EXE).to_owned(),
            Path::new(REAL_TIME).to_owned(),
            program("wine64"),
            program("wineserver64"),
        ];
        if let Some(missing) = wanted.iter().find(|path| !path.is_file()) {
            let missing = format!("{} is absent", missing.display());
            skipped_unless("HALPROF_REQUIRE_DRIVER", &missing);
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(EXE, folder.path().join("halprof.exe")).expect("the tool");
        std::fs::copy(REAL_TIME, folder.path().join("halprof-real-time.exe")).expect("the tool");
        std::fs::write(folder.path().join("halprof.inf"), INF).expect("an install file");
        let others = INF.replace("Root\\halprof", "Root\\other");
        std::fs::write(folder.path().join("other.inf"), others).expect("an install file");
        for (name, libraries) in [
            ("newdev", &["-lsetupapi"][..]),
            ("cfgmgr32", &["-lsetupapi"]),
            ("bcryptprimitives", &[]),
        ] {
            let library = folder.path().join(format!("{name}.dll"));
            let source = format!("{SOURCES}/{name}.c");
            compile(&library, &[&["-shared", &source], libraries].concat());
        }
        compile(&folder.path().join("program.exe"), &[&format!("{SOURCES}/program.c")]);
        // Wine's server does not create its own folder.
        std::fs::create_dir(folder.path().join("prefix")).expect("a folder");
        let wine = Self { folder };
        // Otherwise Wine's server ends three seconds after its last program (wineserver(1)), and
        // its services with it. On a busy machine a program once found no service manager; whether
        // this was the cause is not known.
        let mut server = wine.command(&program("wineserver64"));
        let started = server.arg("--persistent").status();
        assert!(started.expect("Wine's server").success());
        // Wine sets itself up with its own newdev.dll; the replacement has too little for that.
        let mut first = wine.command(&program("wine64"));
        // Its services inherit the handles of the first program: a pipe would never be closed.
        first.args(["halprof.exe", "--version"]);
        let ready = first.stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(ready.expect("Wine runs").success());
        // The tool loads it only from System32; files beside the tool that have the names of its
        // libraries change nothing.
        let system = wine.folder().join("prefix/drive_c/windows/system32");
        std::fs::rename(wine.folder().join("newdev.dll"), system.join("newdev.dll"))
            .expect("a stand-in");
        for name in ["newdev", "powrprof", "winhttp"] {
            let planted = wine.folder().join(format!("{name}.dll"));
            std::fs::write(planted, "no library").expect("written");
        }
        Some(wine)
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut wine = Command::new(program);
        wine.current_dir(self.folder.path())
            .env("WINEPREFIX", self.folder.path().join("prefix"))
            .env("WINEDEBUG", "-all")
            .env("WINEDLLOVERRIDES", "mscoree=;mshtml=");
        wine
    }

    /// The command that runs the tool with these arguments.
    pub(crate) fn tool(&self, arguments: &[&str]) -> Command {
        let mut wine = self.command(&program("wine64"));
        wine.arg("halprof.exe").args(arguments);
        wine
    }

    /// The same with the tool on a model that runs in real time, beside which programs can run.
    pub(crate) fn real_time(&self, arguments: &[&str]) -> Command {
        let mut wine = self.command(&program("wine64"));
        wine.arg("halprof-real-time.exe").args(arguments);
        wine
    }

    /// The folder in which everything runs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The tool's exit status and its JSON, with replacements for what Wine lacks.
    pub(crate) fn halprof(&self, arguments: &[&str], fakes: &[(&str, &str)]) -> (i32, Value) {
        let mut wine = self.tool(&[&["--json"], arguments].concat());
        wine.env("WINEDLLOVERRIDES", "newdev=n;mscoree=;mshtml=");
        let output = wine.envs(fakes.iter().copied()).output().expect("Wine runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let value = serde_json::from_str(&text);
        let value = value.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
        (output.status.code().expect("it ends by itself"), value)
    }

    /// The exit status and the code of a refusal.
    pub(crate) fn refused(&self, arguments: &[&str], fakes: &[(&str, &str)]) -> (i32, String) {
        let (status, value) = self.halprof(arguments, fakes);
        let code = value["error"]["code"].as_str().unwrap_or_default();
        (status, code.to_owned())
    }
}

impl Drop for Wine {
    /// Ends this Wine and no other.
    fn drop(&mut self) {
        for verb in ["--kill", "--wait"] {
            let _ = self.command(&program("wineserver64")).arg(verb).status();
        }
    }
}

/// Compiles a program or a library for Windows.
pub(crate) fn compile(output: &Path, arguments: &[&str]) {
    let mut gcc = Command::new("x86_64-w64-mingw32-gcc");
    let gcc = gcc.args(["-Wall", "-Werror", "-o"]).arg(output).args(arguments);
    assert!(gcc.status().expect("gcc-mingw-w64-x86-64").success());
}

/// Debian keeps Wine's programs beside its libraries.
pub(crate) fn program(name: &str) -> PathBuf {
    Path::new("/usr/lib/wine").join(name)
}
