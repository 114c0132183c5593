//! Does halprof.exe, unchanged, install, find, use and remove a driver through an implementation of
//! NT's I/O, Plug and Play and service managers that nobody here wrote?
//!
//! The driver is tests/wine: the project's own service on a modelled machine, which calls itself
//! real. What Wine 8 does not do cannot be seen here: it applies no security descriptor, never sends
//! CLEANUP, lets CreateFile succeed where a driver refuses it, and unloads a driver whose device is
//! open. `cargo xtask prove` builds the driver.

mod answers;
mod counts;
mod failures;
mod handles;

use crate::cli::support::skipped_unless;
use crate::wine::prefix::{SOURCES, Wine, compile, program};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Built by `cargo xtask prove`.
const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/exe/wine-driver.sys");
const INX: &str = include_str!("../../../../driver.inx");
/// Wine's own, which the stand-in of the same name calls.
const NEWDEV: &str = "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/newdev.dll";
const OVERRIDES: (&str, &str) = ("WINEDLLOVERRIDES", "newdev,cfgmgr32=n;mscoree=;mshtml=");

/// What is awaited comes at once, or on a busy machine within this time.
const SOON: Duration = Duration::from_secs(120);

/// A workload that ends within any measurement, so that its totals are known: on each of two
/// processors half of 200,000,000 instructions, nine in ten of them in user mode.
const FINITE: &str = "begin start\nworkload instructions=100000000,cycles=150000000,branches=20000000,\
                      branch-misses=400000,user=90,processors=all\n";

/// A Wine in which the driver can be installed.
struct Driven {
    wine: Wine,
}

/// A run of the tool.
struct Ran {
    status: Option<i32>,
    output: String,
    errors: String,
}

impl Driven {
    /// `None`, with a message, if something is missing; a failure with `HALPROF_REQUIRE_DRIVER=1`.
    fn new() -> Option<Self> {
        if let Some(missing) = [DRIVER, NEWDEV].iter().find(|path| !Path::new(path).is_file()) {
            skipped_unless("HALPROF_REQUIRE_DRIVER", &format!("{missing} is absent"));
            return None;
        }
        let wine = Wine::new()?;
        let driven = Self { wine };
        let here = driven.wine.folder();
        let system = driven.windows("windows/system32");
        // Wine's process for drivers loads it from there.
        let prng = "bcryptprimitives.dll";
        std::fs::copy(here.join(prng), system.join(prng)).expect("a stand-in");
        std::fs::copy(NEWDEV, system.join("winenewdev.dll")).expect("Wine's own");
        std::fs::copy(DRIVER, here.join("halprof.sys")).expect("the driver");
        std::fs::write(here.join("halprof.inf"), install_file()).expect("an install file");
        Some(driven)
    }

    /// A path in Wine's drive C:.
    fn windows(&self, path: &str) -> PathBuf {
        self.wine.folder().join("prefix/drive_c").join(path)
    }

    /// Says what the driver does from its next request on, or start.
    fn set(&self, settings: &str) {
        let written = self.windows("halprof-driver.new");
        std::fs::write(&written, settings).expect("settings");
        std::fs::rename(written, self.windows("halprof-driver.conf")).expect("settings");
    }

    /// What has arrived at the driver.
    fn log(&self) -> String {
        std::fs::read_to_string(self.windows("halprof-driver.log")).unwrap_or_default()
    }

    fn forget_log(&self) {
        let _ = std::fs::remove_file(self.windows("halprof-driver.log"));
    }

    /// Waits until so many lines of the log begin with this.
    fn await_log(&self, line: &str, number: usize) {
        let there = || self.log().lines().filter(|one| one.starts_with(line)).count() >= number;
        assert!(soon(there), "no `{line}`:\n{}", self.log());
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut tool = self.wine.tool(arguments);
        tool.env(OVERRIDES.0, OVERRIDES.1);
        tool
    }

    /// The tool's run with the arguments of a line.
    fn run(&self, line: &str) -> Ran {
        Running::new(self, line).ended()
    }

    /// The exit status and the JSON of the same.
    fn json(&self, line: &str) -> (Option<i32>, Value) {
        let ran = self.run(&format!("--json {line}"));
        (ran.status, ran.json())
    }

    /// The JSON of a command that succeeds.
    fn done(&self, line: &str) -> Value {
        let (status, value) = self.json(line);
        assert_eq!(status, Some(0), "{line}: {value}\n{}", self.log());
        value
    }

    /// The exit status, code and message of a command that fails.
    fn refused(&self, line: &str) -> (i32, String, String) {
        let (status, value) = self.json(line);
        let text = |field: &str| value["error"][field].as_str().unwrap_or_default().to_owned();
        (status.unwrap_or(-1), text("code"), text("message"))
    }

    /// Installs the driver with these settings; what was installed before is gone.
    fn install(&self, settings: &str) {
        self.set(settings);
        self.done("install");
    }

    fn uninstall(&self) {
        self.done("uninstall");
    }
}

/// The driver's install file, for Wine: it compares no versions, and nothing is signed.
fn install_file() -> String {
    let lines = INX.lines().filter(|line| !line.starts_with("CatalogFile"));
    let lines = lines.map(|line| line.replace(".10.0...19041", "").replace("$ARCH$", "amd64"));
    let lines = lines.map(|line| line.replace("$KMDFVERSION$", "1.31"));
    lines.map(|line| line + "\r\n").collect()
}

/// A run of the tool that has not ended. Its output goes to files: no pipe ends while a process that
/// inherited it lives.
struct Running {
    child: Child,
    output: PathBuf,
    errors: PathBuf,
}

impl Running {
    fn new(driven: &Driven, line: &str) -> Self {
        Self::of(driven, driven.command(&line.split_whitespace().collect::<Vec<_>>()))
    }

    fn of(driven: &Driven, mut command: Command) -> Self {
        let (_, output) = file(driven.wine.folder());
        let (_, errors) = file(driven.wine.folder());
        let created = |path: &Path| File::create(path).expect("a file");
        let child = command.stdout(created(&output)).stderr(created(&errors)).spawn();
        Self { child: child.expect("Wine runs"), output, errors }
    }

    fn ended(mut self) -> Ran {
        let status = self.child.wait().expect("it ends").code();
        Ran { status, output: read(&self.output), errors: read(&self.errors) }
    }
}

/// A file of its own in a folder.
fn file(folder: &Path) -> (File, PathBuf) {
    let file = tempfile::NamedTempFile::new_in(folder).expect("a file");
    file.keep().expect("a file")
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned()
}

impl Ran {
    fn json(&self) -> Value {
        let value = serde_json::from_str(&self.output);
        value.unwrap_or_else(|error| panic!("{error}: {}{}", self.output, self.errors))
    }
}

fn soon(condition: impl Fn() -> bool) -> bool {
    let since = Instant::now();
    while !condition() {
        if since.elapsed() > SOON {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// The counts of a result of `stat`, by the names of their sources.
fn counted(result: &Value) -> Vec<(String, u64)> {
    let rows = result["counts"].as_array().expect("counts").iter();
    let row =
        |row: &Value| (row["source"].as_str().unwrap_or("").to_owned(), number(&row["value"]));
    rows.map(row).collect()
}
