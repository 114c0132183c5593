//! Does halprof.exe put the driver there and take all of it away again, as far as Wine is Windows?
//!
//! The device nodes, the registry and the services are Wine's; what Wine lacks stands beside this
//! file. `cargo xtask exe` makes the tool.
#![cfg(unix)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wine");
const EXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/exe/halprof.exe");

const INF: &str = "[Version]\r\nSignature=\"$WINDOWS NT$\"\r\nClass=System\r\n\
    ClassGuid={4d36e97d-e325-11ce-bfc1-08002be10318}\r\nProvider=halprof\r\n\
    [Manufacturer]\r\nhalprof=Models,NTamd64\r\n[Models.NTamd64]\r\n\
    \"halprof\"=Install,Root\\halprof\r\n";

/// A Wine of its own with the tool in it.
struct Wine {
    folder: TempDir,
}

impl Wine {
    /// `None`, said aloud, where something is missing; a failure with `HALPROF_REQUIRE_DRIVER=1`.
    fn new() -> Option<Self> {
        let wanted = [
            Path::new(EXE).to_owned(),
            program("wine64"),
            program("wineserver64"),
        ];
        if let Some(missing) = wanted.iter().find(|path| !path.is_file()) {
            let required = std::env::var_os("HALPROF_REQUIRE_DRIVER").is_some_and(|one| one == "1");
            assert!(!required, "{} is absent", missing.display());
            println!("skipped: {} is absent", missing.display());
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(EXE, folder.path().join("halprof.exe")).expect("the tool");
        std::fs::write(folder.path().join("halprof.inf"), INF).expect("an install file");
        let others = INF.replace("Root\\halprof", "Root\\other");
        std::fs::write(folder.path().join("other.inf"), others).expect("an install file");
        for (name, libraries) in [("newdev", &["-lsetupapi"][..]), ("bcryptprimitives", &[])] {
            let mut gcc = Command::new("x86_64-w64-mingw32-gcc");
            gcc.args(["-Wall", "-Werror", "-shared", "-o"])
                .arg(folder.path().join(format!("{name}.dll")))
                .arg(format!("{SOURCES}/{name}.c"))
                .args(libraries);
            assert!(gcc.status().expect("gcc-mingw-w64-x86-64").success());
        }
        let wine = Self { folder };
        // Wine sets itself up with its own newdev.dll; the stand-in has too little for that.
        let mut first = wine.command(&program("wine64"));
        let ready = first.args(["halprof.exe", "--version"]).output();
        assert!(ready.expect("Wine runs").status.success());
        Some(wine)
    }

    fn command(&self, program: &Path) -> Command {
        let mut wine = Command::new(program);
        wine.current_dir(self.folder.path())
            .env("WINEPREFIX", self.folder.path().join("prefix"))
            .env("WINEDEBUG", "-all")
            .env("WINEDLLOVERRIDES", "mscoree=;mshtml=");
        wine
    }

    /// The tool's exit status and its JSON.
    fn halprof(&self, arguments: &[&str], fakes: &[(&str, &str)]) -> (i32, Value) {
        let mut wine = self.command(&program("wine64"));
        wine.args(["halprof.exe", "--json"]).args(arguments);
        wine.env("WINEDLLOVERRIDES", "newdev=n;mscoree=;mshtml=");
        let output = wine
            .envs(fakes.iter().copied())
            .output()
            .expect("Wine runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let value = serde_json::from_str(&text);
        let value = value.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
        (output.status.code().expect("it ends by itself"), value)
    }

    /// The code of a refusal.
    fn refused(&self, arguments: &[&str], fakes: &[(&str, &str)]) -> (i32, String) {
        let (status, value) = self.halprof(arguments, fakes);
        let code = value["error"]["code"].as_str().unwrap_or_default();
        (status, code.to_owned())
    }

    fn uninstall(&self) -> Value {
        let (status, value) = self.halprof(&["uninstall"], &[]);
        assert_eq!(status, 0, "{value}");
        value
    }
}

impl Drop for Wine {
    /// Ends this Wine, and no other.
    fn drop(&mut self) {
        for verb in ["--kill", "--wait"] {
            let _ = self.command(&program("wineserver64")).arg(verb).status();
        }
    }
}

/// Debian keeps Wine's programs beside its libraries.
fn program(name: &str) -> PathBuf {
    Path::new("/usr/lib/wine").join(name)
}

fn is_nothing(removed: &Value) -> bool {
    removed["devices"] == Value::Array(Vec::new())
        && removed["packages"] == Value::Array(Vec::new())
        && removed["service"] == false
}

const RESTART: &[(&str, &str)] = &[("FAKE_RESTART", "1")];

#[test]
fn what_is_installed_is_removed_again() {
    let Some(wine) = Wine::new() else {
        return;
    };
    assert!(is_nothing(&wine.uninstall()), "nothing is there yet");
    assert_eq!(wine.refused(&["info"], &[]), (3, "no-driver".to_owned()));

    // What Windows refuses leaves no device behind.
    for (error, code) in [
        ("E0000242", "not-signed"),
        ("E0000248", "driver-blocked"),
        ("57", "install-failed"),
    ] {
        let refused = wine.refused(&["install"], &[("FAKE_ERROR", error)]);
        assert_eq!(refused, (4, code.to_owned()), "{error}");
        assert!(is_nothing(&wine.uninstall()), "{error} left something");
    }
    assert_eq!(
        wine.refused(&["install", "other.inf"], &[]),
        (5, "bad-file".to_owned())
    );
    assert_eq!(
        wine.refused(&["install", "none.inf"], &[]),
        (5, "file".to_owned())
    );

    // Wine starts no driver on a device: without a restart to wait for, that is told.
    assert_eq!(
        wine.refused(&["install"], &[]),
        (4, "driver-failed".to_owned())
    );
    for _ in 0..2 {
        let (status, installed) = wine.halprof(&["install", "halprof.inf"], RESTART);
        assert_eq!(status, 0, "{installed}");
        assert_eq!(installed["device"], r"ROOT\HALPROF\0000");
        assert_eq!(installed["created"], false);
        assert_eq!(installed["restart"], true);
    }
    let (_, refused) = wine.halprof(&["info"], &[]);
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("it is installed, but"), "{message}");

    // Wine 8 takes a package away only where that is forced, as it is before a restart.
    let (status, removed) = wine.halprof(&["uninstall"], RESTART);
    assert_eq!(status, 0, "{removed}");
    assert_eq!(
        removed["devices"],
        serde_json::json!([r"ROOT\HALPROF\0000"])
    );
    assert_eq!(removed["packages"], serde_json::json!(["oem7.inf"]));
    assert_eq!(removed["service"], true);
    assert!(is_nothing(&wine.uninstall()), "something was left");
    let (_, installed) = wine.halprof(&["install"], RESTART);
    assert_eq!(installed["created"], true);
}
