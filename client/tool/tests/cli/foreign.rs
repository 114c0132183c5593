//! Independent programs, as `cargo xtask setup` installs them, and a recording for them.

use crate::cli::support::{foreign_python, skipped};
use halprof_profile::export::{Samples, SamplesBuilder, TrackBy};
use halprof_profile::file::{
    Identity, Metadata, Module, Period, Process, Reader, Source, Statistics, Writer,
};
use halprof_profile::symbols::Frame;
use serde_json::Value;
use shared_types::{Mode, Sample};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Foreign {
    python: PathBuf,
    modules: PathBuf,
    scripts: PathBuf,
}

impl Foreign {
    /// `None` if one is missing and not required.
    pub(crate) fn find() -> Option<Self> {
        let client = Path::new(env!("CARGO_MANIFEST_DIR"));
        let modules = client.join("../../target/foreign/node/node_modules");
        let driver = Path::new("/usr/bin/chromedriver");
        if let Some(missing) = [&modules, driver].into_iter().find(|path| !path.exists()) {
            skipped(&format!("no {}: `cargo xtask setup`", missing.display()));
            return None;
        }
        Some(Self {
            python: foreign_python("selenium")?,
            modules,
            scripts: client.join("tests/foreign"),
        })
    }

    /// Chromium's view of the files.
    pub(crate) fn browser(&self, what: &str, files: &[&Path]) -> Value {
        let mut command = Command::new(&self.python);
        command.arg(self.scripts.join("browser.py")).arg(what);
        if what == "speedscope" {
            command.arg(self.module("speedscope/dist/release/index.html"));
        }
        printed(command.args(files))
    }

    /// What pprof-format reads from a file.
    pub(crate) fn pprof(&self, file: &Path) -> Value {
        let mut command = Command::new("node");
        command.arg(self.scripts.join("pprof.mjs"));
        printed(command.arg(self.module("pprof-format")).arg(file))
    }

    /// The Firefox Profiler with a file loaded.
    pub(crate) fn firefox(&self, file: &Path) -> Firefox {
        Firefox::open(self.module("@firefox-devtools/profiler-cli/dist/profiler-cli.js"), file)
    }

    fn module(&self, name: &str) -> PathBuf {
        self.modules.join(name).canonicalize().expect("an installed module")
    }
}

/// A running Firefox Profiler, which ends when this is dropped.
pub(crate) struct Firefox {
    program: PathBuf,
    home: tempfile::TempDir,
    daemon: Child,
}

impl Firefox {
    fn open(program: PathBuf, file: &Path) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let mut daemon = Self::command(&program, &home);
        let daemon = daemon.arg("--daemon").arg(file).args(Self::SESSION);
        let daemon = daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let firefox = Self { daemon: daemon.expect("node runs"), program, home };
        let ready = (0..240).any(|_| {
            std::thread::sleep(Duration::from_millis(250));
            firefox.run(&["status"]).status.success()
        });
        assert!(ready, "{} is not loaded", file.display());
        firefox
    }

    const SESSION: [&str; 2] = ["--session", "test"];

    fn command(program: &Path, home: &tempfile::TempDir) -> Command {
        let mut command = Command::new("node");
        command.arg(program);
        command.env("PROFILER_CLI_SESSION_DIR", home.path());
        command.env("PROFILER_CLI_NO_SYMBOLICATE", "1");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Self::command(&self.program, &self.home);
        let command = command.args(arguments).args(Self::SESSION);
        command.output().expect("node runs")
    }

    /// The reply to a command.
    pub(crate) fn ask(&self, command: &[&str]) -> Value {
        let output = self.run(&[command, &["--json"]].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {told}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// The JSON that a program prints.
pub(crate) fn printed(command: &mut Command) -> Value {
    let output = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A name that must not be taken for markup by any reader.
pub(crate) const HOSTILE: &str = "</script><script>window.injected=1</script><img src=x onerror=\"window.injected=2\">&amp;]]>'\"";

/// Where the samples of [`invented`] are: process, thread, mode, address, symbol and line, and the
/// number of samples of each source.
struct Spot((u32, u32), Mode, u64, Option<(&'static str, u32)>, [u64; 2]);

const KERNEL: u64 = 0xFFFF_F800_0000_1000;
const SPOTS: &[Spot] = &[
    Spot((8, 12), Mode::User, 0x1_4000_1010, Some(("first", 7)), [30, 4]),
    Spot((8, 12), Mode::User, 0x1_4000_1050, Some(("first", 9)), [20, 0]),
    Spot((8, 16), Mode::User, 0x1_4000_2000, Some(("second", 20)), [25, 1]),
    Spot((8, 12), Mode::Kernel, KERNEL, None, [15, 3]),
    Spot((20, 24), Mode::User, 0x1_4000_1000, Some((HOSTILE, 1)), [9, 0]),
    Spot((20, 24), Mode::Unknown, 0, None, [1, 0]),
];

/// The periods of the two sources, Cycles and Misses.
const PERIODS: [u64; 2] = [1000, 500];

fn frame_of(process: u32, address: u64) -> (Frame, Option<usize>) {
    // The kernel's code is that of all processes.
    let is_here =
        |spot: &&Spot| spot.2 == address && (spot.0.0 == process || matches!(spot.1, Mode::Kernel));
    let Spot(_, mode, _, symbol, _) = SPOTS.iter().find(is_here).expect("a spot");
    let (module, index) = match (mode, process) {
        (Mode::Unknown, _) => ("no address", None),
        (Mode::Kernel, _) => ("ntoskrnl.exe", Some(0)),
        (Mode::User, 8) => ("alpha.exe", Some(1)),
        (Mode::User, _) => (HOSTILE, Some(2)),
    };
    let text = |text: &str| -> Arc<str> { text.into() };
    let frame = Frame {
        also: Arc::default(),
        module: text(module),
        symbol: symbol.map(|(name, _)| text(name)),
        offset: Some(address & 0xFF),
        file: symbol.map(|_| text(r"C:\src\alpha.c")),
        line: symbol.map(|(_, line)| line),
        inlined: Arc::default(),
    };
    (frame, index)
}

/// A recording with exact contents: see [`SPOTS`]. Samples are 1 ms apart, on two processors; the
/// last twenty of Cycles have twice its period.
pub(crate) fn invented(path: &Path) {
    let source = |name: &str, used: u64| Source {
        name: name.to_owned(),
        period: Period { used, ..Period::default() },
        ..Source::default()
    };
    let metadata = Metadata {
        machine: "model <invented>".to_owned(),
        modelled: true,
        interface: "Emon".to_owned(),
        timestamp_frequency: 1_000_000,
        processors: 2,
        began: 1_700_000_000,
        sources: vec![source("Cycles", PERIODS[0]), source("Misses", PERIODS[1])],
        ..Metadata::default()
    };
    let process = |id, name: &str| Process { id, name: name.to_owned(), ..Process::default() };
    let module = |process, name: &str, start, end, identity| Module {
        process,
        name: name.to_owned(),
        path: Some(format!(r"C:\bin\{name}")),
        start,
        end,
        identity,
        ..Module::default()
    };
    let identity = Identity::Pdb {
        file: "alpha.pdb".to_owned(),
        guid: "0123456789ABCDEF0123456789ABCDEF".to_owned(),
        age: 1,
    };
    let user = (0x1_4000_0000, 0x1_4001_0000);
    let mut writer = Writer::create(path, &metadata).expect("created");
    writer.processes(&[process(8, "alpha.exe"), process(20, HOSTILE)]).expect("written");
    writer
        .modules(&[
            module(None, "ntoskrnl.exe", 0xFFFF_F800_0000_0000, 0xFFFF_F800_0100_0000, None),
            module(Some(8), "alpha.exe", user.0, user.1, Some(identity)),
            module(Some(20), HOSTILE, user.0, user.1, None),
        ])
        .expect("written");
    let samples = samples();
    writer.samples(&samples).expect("written");
    let statistics = Statistics {
        elapsed_ns: 200_000_000,
        generated: samples.len() as u64 + 2,
        lost: BTreeMap::from([("ring-full".to_owned(), 2)]),
        throttled: 1,
        ..Statistics::default()
    };
    writer.finish(&statistics, false).expect("finished");
}

fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for source in [0u16, 1] {
        let each = SPOTS.iter().flat_map(|spot| {
            let count = spot.4[usize::from(source)] as usize;
            std::iter::repeat_n(spot, count)
        });
        for (n, &Spot((process, thread), mode, ip, _, _)) in (0u64..).zip(each) {
            let period = PERIODS[usize::from(source)];
            samples.push(Sample {
                timestamp: 5_000_000_000 + n * 1000,
                ip,
                period: if n >= 80 { 2 * period } else { period },
                process,
                thread,
                processor: (n % 2) as u32,
                source,
                mode: mode as u8,
                ..Sample::default()
            });
        }
    }
    samples
}

/// What the library reads from it, with the names of [`SPOTS`].
pub(crate) fn gathered(path: &Path, lanes: TrackBy) -> Samples {
    let reader = Reader::open(path).expect("opened");
    let mut gatherer = SamplesBuilder::new(lanes, true, reader.metadata());
    let recording = reader.samples(|samples| {
        for sample in samples {
            gatherer.add(sample);
        }
    });
    let recording = recording.expect("read");
    gatherer.finish(recording, |process, address, _| frame_of(process, address))
}
