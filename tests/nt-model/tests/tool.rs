//! Does the tool measure the same on the shipped driver as on the service in process?
//!
//! Both are the tool's own commands, given the same arguments.

use halprof_profile::file::Recording;
use halprof_tests::dumps;
use serde_json::Value;
use shared_types::Sample;
use sim::load::workload::USER_CODE;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

const SYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/driver/halprof-historic.sys");
const WORK: &str = "instructions=3000000,cycles=5000000,branches=70000,branch-misses=3000,user=80,processors=all,seed=7";
/// One machine for each interface that interrupts, and one with two CPU types.
pub(crate) const MACHINES: [&str; 6] = [
    "hybrid",
    "skylake,processors=2",
    "zen4,processors=2",
    "k8,processors=2",
    "pentium3,processors=2",
    "pentium4,processors=2",
];

/// The built-in machines, and a real hybrid one if the dumps are there.
fn machines() -> Vec<String> {
    let mut machines = MACHINES.map(str::to_owned).to_vec();
    if let Some(folder) = dumps::folder() {
        let dump = folder.join("GenuineIntel00B06A2_RaptorLakeP_02_CPUID.txt");
        machines.push(dump.to_string_lossy().into_owned());
    }
    machines
}

/// Runs the tool on a driver.
fn on_driver(sys: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nt-model"))
        .arg("--sys")
        .arg(sys)
        .args(arguments)
        .output()
        .expect("it runs")
}

/// What two commands, one on the driver and one in process, write to the file that `arguments` end
/// with.
fn both<T>(arguments: &[&str], read: impl Fn(&Path) -> T) -> (T, T) {
    let folder = tempfile::tempdir().expect("a folder");
    let [by_driver, in_process] = ["driver", "process"].map(|name| folder.path().join(name));
    let to = |file: &Path| {
        let file = file.to_str().expect("UTF-8").to_owned();
        let all = arguments.iter().map(|&argument| argument.to_owned());
        all.chain([file]).collect::<Vec<String>>()
    };
    let given = to(&by_driver);
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let ran = on_driver(SYS.as_ref(), &given);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {told}");
    assert!(told.contains("on a modelled kernel and processor"), "{told}");
    let program = std::iter::once("halprof".to_owned());
    halprof::run(program.chain(to(&in_process)).map(OsString::from));
    (read(&by_driver), read(&in_process))
}

#[test]
fn stat_counts_the_same() {
    for machine in machines() {
        let arguments = ["--json", "--quiet", "--machine", &machine, "stat"];
        let rest = ["--per-cpu", "--workload", WORK, "--output"];
        let (by_driver, in_process) = both(&[&arguments[..], &rest].concat(), |file| {
            let text = std::fs::read_to_string(file).expect("a result");
            let mut value: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(value["modelled"], true, "{machine}");
            value["machine"].take();
            value
        });
        assert!(by_driver.to_string().contains("3000000"), "{by_driver}");
        assert_eq!(by_driver, in_process, "{machine}");
    }
}

/// A recording whose time stamps are relative to the first.
fn recorded(file: &Path) -> (Recording, Vec<Sample>) {
    let mut samples: Vec<Sample> = Vec::new();
    let recording = halprof_profile::file::read(file, |more| samples.extend(more));
    let mut recording = recording.expect("a recording");
    assert!(recording.metadata.modelled && recording.damaged().is_none());
    recording.file = std::path::PathBuf::new();
    recording.metadata.machine.clear();
    recording.metadata.began = 0;
    recording.metadata.origin.clear();
    // Of the origin, and so of the time.
    for module in &mut recording.modules {
        module.seal = None;
    }
    let first = samples.iter().map(|sample| sample.timestamp).min();
    for sample in &mut samples {
        sample.timestamp -= first.unwrap_or(0);
    }
    // In one of the two, the driver's own instructions take time.
    for event in &mut recording.events {
        event.timestamp = 0;
    }
    (recording, samples)
}

#[test]
fn record_samples_the_same() {
    for machine in machines() {
        let arguments = ["--quiet", "--machine", &machine, "record"];
        let rest = ["-e", "TotalIssues:20000:u", "--workload", WORK, "--output"];
        let (by_driver, in_process) = both(&[&arguments[..], &rest].concat(), recorded);
        let (recording, samples) = &by_driver;
        assert!(samples.len() > 100, "{machine}: {recording:?}");
        let code = USER_CODE.0..USER_CODE.1;
        assert!(samples.iter().all(|sample| code.contains(&sample.ip)), "{machine}");
        assert_eq!(by_driver, in_process, "{machine}");
    }
}

/// It lives for 2 ms out of 20, while recorders look once a second.
#[test]
fn a_process_of_2_ms_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    let work = "instructions=20000000,cycles=20000000,code=0x5000-0x6000,short=5000000+2000000";
    let arguments = ["--machine", "skylake,processors=1", "record", "-e", "TotalIssues:10000:u"];
    let ran = on_driver(
        SYS.as_ref(),
        &[&arguments[..], &["--workload", work, "--output", file]].concat(),
    );
    assert!(ran.status.success(), "{ran:?}");
    let report = on_driver(SYS.as_ref(), &["report", file, "--by", "process,module"]);
    let shown = String::from_utf8_lossy(&report.stdout);
    let row = shown.lines().find(|line| line.contains("short.exe"));
    let row = row.unwrap_or_else(|| panic!("{shown}"));
    assert!(row.matches("short.exe").count() == 2, "{shown}");
    let (recording, samples) = recorded(file.as_ref());
    let process = recording.processes.iter().find(|one| one.name == "short.exe");
    let process = process.expect("it is told of");
    let own = samples.iter().filter(|sample| sample.process == process.id);
    assert!((150..250).contains(&own.count()), "{process:?}");
    let lived = process.ended.zip(process.started);
    let lived = lived.map(|(end, start)| end - start).expect("both are known");
    assert!((2_000_000..2_600_000).contains(&lived), "{lived} ns");
}

/// The driver with one of its imports renamed.
fn with(import: &str, instead: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    assert!(instead.len() <= import.len());
    let mut file = std::fs::read(SYS).expect("cargo xtask sys");
    let at = file
        .windows(import.len())
        .position(|bytes| bytes == import.as_bytes())
        .expect("it is imported");
    file[at..at + import.len()].fill(0);
    file[at..at + instead.len()].copy_from_slice(instead.as_bytes());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("halprof.sys");
    std::fs::write(&path, file).expect("written");
    (folder, path)
}

/// While the driver starts, in a request, and when it is unloaded.
#[test]
fn a_broken_rule_ends_the_command() {
    for import in [
        "KeQueryPerformanceCounter",
        "IoGetRequestorProcessId",
        "KeDeregisterProcessorChangeCallback",
    ] {
        let (_folder, sys) = with(import, "NoKernelHasThis");
        let ran = on_driver(&sys, &["--machine", "k8", "list"]);
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(101), "{import}: {told}");
        assert!(told.contains("rule unmodelled"), "{import}: {told}");
    }
}

/// A PnP callback that returns in a critical region that it has entered, and one that leaves its
/// caller's.
#[test]
fn a_critical_region_is_left_as_it_was() {
    for instead in ["KeEnterCriticalRegion", "KeLeaveCriticalRegion"] {
        let (_folder, sys) = with("KeQueryMaximumProcessorCountEx", instead);
        let ran = on_driver(&sys, &["--machine", "k8", "list"]);
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(101), "{told}");
        assert!(told.contains("rule critical-region"), "{told}");
    }
}

/// Without `--sys`, from the workspace's root.
#[test]
fn the_tool_says_which_driver_runs() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let historic = Path::new(root).join("target/driver/halprof-historic.sys").is_file();
    for (machine, old) in
        [("skylake", false), ("pentium3", true), ("pentium", true), ("pentium4", true)]
    {
        let ran = Command::new(env!("CARGO_BIN_EXE_nt-model"))
            .current_dir(root)
            .args(["--machine", machine, "list"])
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&ran.stderr);
        let name = if old && historic { "halprof-historic.sys" } else { "halprof.sys" };
        assert!(told.contains(&format!("{name} on a modelled")), "{told}");
        let missing = told.contains("there is no target/driver/halprof-historic.sys");
        assert_eq!(missing, old && !historic, "{told}");
    }
}

#[test]
fn the_installed_driver_is_not_measured_by_mistake() {
    let ran = on_driver(SYS.as_ref(), &["--machine", "driver", "info"]);
    assert_eq!(ran.status.code(), Some(4));
}

/// The engine is GPL-2.0, and a tool for developers.
#[test]
fn the_tool_does_not_link_the_engine() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--package", "halprof", "--edges", "normal,build"])
        .args(["--target", "all", "--prefix", "none"])
        .output()
        .expect("cargo");
    let tree = String::from_utf8(tree.stdout).expect("UTF-8");
    assert!(tree.contains("zerocopy"), "{tree}");
    assert!(!tree.contains("unicorn") && !tree.contains("nt-model"));
}
