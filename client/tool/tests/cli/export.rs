//! Do independent programs read from each export exactly what was sampled?

use crate::cli::foreign::{Foreign, HOSTILE, gathered, invented};
use crate::cli::support::{halprof, json, refused};
use halprof_profile::export::{self, Export, Format, TrackBy};
use halprof_profile::file::{Metadata, Module, Source, Statistics, Writer};
use serde_json::{Value, json as value};
use shared_types::Sample;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// One file of [`invented`] for each format.
struct Exports(TempDir);

impl Exports {
    fn new(formats: &[Format]) -> Self {
        let exports = Self(tempfile::tempdir().expect("a folder"));
        let recording = exports.0.path().join("a.rec");
        invented(&recording);
        let gathered = gathered(&recording, TrackBy::Processor);
        for &format in formats {
            let view = Export::new(&gathered, "a.rec", format);
            let mut file = File::create(exports.path(format)).expect("created");
            export::write(&view, format, &mut file).expect("written");
        }
        exports
    }

    fn path(&self, format: Format) -> PathBuf {
        self.0.path().join(format!("a{}", format.traits().ending))
    }
}

/// Events of Cycles by symbol: the last twenty samples, all after the first 80, have twice the
/// period.
const FIRST: u64 = 50_000;
const SECOND: u64 = 25_000;
const KERNEL: u64 = 25_000;
const HOSTILE_EVENTS: u64 = 18_000;
const NO_ADDRESS: u64 = 2_000;

#[test]
fn speedscope_shows_what_was_sampled() {
    let formats = [Format::Folded, Format::Pprof];
    let exports = Exports::new(&formats);
    let Some(foreign) = Foreign::find() else {
        return;
    };
    let files = formats.map(|format| exports.path(format));
    let told = foreign.browser("speedscope", &files.each_ref().map(PathBuf::as_path));
    let own = |rows: &Value| -> BTreeMap<String, String> {
        let rows = rows.as_array().expect("rows").iter();
        rows.map(|row| {
            let cell = |n: usize| row[n].as_str().expect("a cell").to_owned();
            let events = cell(1);
            let (events, _) = events.split_once(' ').expect("with percents");
            (cell(2), events.to_owned())
        })
        .collect()
    };
    let folded_name = HOSTILE.replace(';', ":");
    for (format, rows, name, lines) in [
        (Format::Folded, &told[0], folded_name.as_str(), true),
        (Format::Pprof, &told[1], HOSTILE, false),
    ] {
        let own = own(rows);
        let expected = if lines {
            vec![
                ("alpha.c:7", "30,000"),
                ("alpha.c:9", "20,000"),
                ("alpha.c:20", "25,000"),
                ("ntoskrnl.exe", "25,000"),
                ("alpha.c:1", "18,000"),
                ("no address", "2,000"),
                (name, "0"),
            ]
        } else {
            vec![
                ("first", "50,000"),
                ("second", "25,000"),
                ("ntoskrnl.exe", "25,000"),
                (name, "18,000"),
                ("no address", "2,000"),
            ]
        };
        for (name, events) in expected {
            let got = own.get(name).map(String::as_str);
            assert_eq!(got, Some(events), "{format:?} {name}: {own:?}");
        }
    }
}

#[test]
fn pprof_format_reads_what_was_sampled() {
    let exports = Exports::new(&[Format::Pprof]);
    let Some(foreign) = Foreign::find() else {
        return;
    };
    let told = foreign.pprof(&exports.path(Format::Pprof));
    assert_eq!(told["types"], value!([["samples", "count"], ["Cycles", "events"]]));
    assert_eq!(told["period"], value!([["Cycles", "events"], 1000]));
    assert_eq!(told["duration"], 200_000_000);
    assert_eq!(told["began"], 1_700_000_000_000_000_000u64);
    assert!(told["comments"].to_string().contains("not silicon"));
    let samples = told["samples"].as_array().expect("samples");
    let total = |n: usize| -> u64 {
        let values = samples.iter().map(|sample| sample["values"][n].as_u64());
        values.map(|value| value.expect("a number")).sum()
    };
    let events = FIRST + SECOND + KERNEL + HOSTILE_EVENTS + NO_ADDRESS;
    assert_eq!((total(0), total(1)), (100, events));
    let hostile = samples.iter().find(|sample| sample["name"] == HOSTILE);
    let hostile = hostile.expect("the hostile name as it is");
    assert_eq!(hostile["values"], value!([9, HOSTILE_EVENTS]));
    let second = samples.iter().find(|sample| sample["name"] == "second");
    assert_eq!(
        second.expect("second"),
        &value!({
            "depth": 1,
            "address": 0x1_4000_2000u64,
            "name": "second",
            "file": r"C:\src\alpha.c",
            "line": 20,
            "module": r"C:\bin\alpha.exe",
            "build": "0123456789ABCDEF0123456789ABCDEF1",
            "values": [25, SECOND],
            "labels": {"process": "alpha.exe (8)", "pid": 8, "tid": 16, "mode": "user"},
        })
    );
}

#[test]
fn the_firefox_profiler_shows_what_was_sampled() {
    let exports = Exports::new(&[Format::Firefox]);
    let Some(foreign) = Foreign::find() else {
        return;
    };
    let firefox = foreign.firefox(&exports.path(Format::Firefox));
    let threads = firefox.ask(&["thread", "list"]);
    let mut found = BTreeMap::new();
    for thread in threads["threads"].as_array().expect("threads") {
        let handle = thread["threadHandle"].as_str().expect("a handle");
        let functions = firefox.ask(&["thread", "functions", "--include-idle", "--thread", handle]);
        for function in functions["functions"].as_array().expect("functions") {
            let name = function["name"].as_str().expect("a name").to_owned();
            // The profiler's own word for weights.
            let events = function["selfSamples"].as_u64().expect("a number");
            *found.entry(name).or_insert(0) += events;
        }
    }
    let expected = [
        ("first", FIRST),
        ("second", SECOND),
        ("0x1000", KERNEL),
        (HOSTILE, HOSTILE_EVENTS),
        ("no address", NO_ADDRESS),
    ];
    let expected = expected.map(|(name, events)| (name.to_owned(), events));
    assert_eq!(found, BTreeMap::from(expected), "{threads}");
    let info = firefox.ask(&["profile", "info"]);
    assert!(info.to_string().contains("not silicon"), "{info}");
}

/// A recording of a modelled machine: 100 samples of one source, 50 of another.
fn recorded(folder: &Path) -> String {
    let file = folder.join("b.rec").to_str().expect("UTF-8").to_owned();
    let record = json(&[
        "--machine",
        "skylake",
        "record",
        "-e",
        "TotalIssues:100000,TotalCycles:200000",
        "-o",
        &file,
        "--workload",
        "instructions=10000000,cycles=10000000",
        "-C",
        "0",
    ]);
    assert_eq!(record["samples"], 150, "{record}");
    file
}

const FORMATS: [&str; 5] = ["flamegraph", "html", "firefox", "pprof", "folded"];

#[test]
fn every_format_is_written_and_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded(folder.path());
    let out = folder.path().join("out");
    let out = out.to_str().expect("UTF-8");
    for format in FORMATS {
        let told = json(&["export", &recording, "--format", format, "-o", out]);
        let written = std::fs::metadata(out).expect("written").len();
        assert_eq!(told["bytes"], written, "{told}");
        assert_eq!((&told["file"], &told["modelled"]), (&out.into(), &true.into()));
        let of_all = format == "html";
        let samples = if of_all { 150 } else { 100 };
        assert_eq!(told["samples"], samples, "{told}");
        let printed = run_in(folder.path(), &["export", "b.rec", "--format", format, "-o", "-"]);
        assert!(printed.status.success());
        assert_eq!(printed.stdout, std::fs::read(out).expect("read"), "{format}");
        let said = String::from_utf8(printed.stderr).expect("UTF-8");
        assert!(said.contains("modelled machine"));
        let note = said.contains("this shows TotalIssues alone");
        assert_eq!(note, !of_all, "{format}: {said}");
    }
    let cycles = ["--source", "totalcycles", "-o", out];
    let told = json(&[&["export", &recording, "--format", "folded"], &cycles[..]].concat());
    assert_eq!((&told["sources"], &told["samples"]), (&value!(["TotalCycles"]), &50.into()));
    let lines = std::fs::read_to_string(out).expect("read");
    let events: u64 = lines
        .lines()
        .map(|line| line.rsplit(' ').next().expect("a number").parse::<u64>())
        .map(|events| events.expect("a number"))
        .sum();
    assert_eq!(events, 10_000_000, "{lines}");
}

#[test]
fn the_name_is_the_recordings_with_the_formats_ending() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded(folder.path());
    for (format, name) in [("folded", "b.folded"), ("pprof", "b.pb.gz")] {
        let ran = run_in(folder.path(), &["export", "b.rec", "--format", format]);
        assert!(ran.status.success(), "{ran:?}");
        assert!(folder.path().join(name).exists(), "{name}");
    }
}

fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_halprof"));
    let command = command.current_dir(folder).args(arguments);
    command.output().expect("the tool runs")
}

#[cfg(unix)]
#[test]
fn a_name_that_is_no_text_is_kept() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded(folder.path());
    let odd = OsStr::from_bytes(b"odd \xFF name.rec");
    std::fs::copy(&recording, folder.path().join(odd)).expect("copied");
    let mut command = Command::new(env!("CARGO_BIN_EXE_halprof"));
    let command = command.current_dir(folder.path());
    let ran = command.arg("--json").arg("export").arg(odd);
    let ran = ran.args(["--format", "html"]).output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    let written = folder.path().join(OsStr::from_bytes(b"odd \xFF name.html"));
    let page = std::fs::read_to_string(written).expect("UTF-8");
    assert!(page.contains("<h1>odd \u{FFFD} name.rec</h1>"));
}

#[test]
fn what_cannot_be_written_is_told_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded(folder.path());
    let export = ["export", recording.as_str(), "--format", "html"];
    let refuse = |more: &[&str], status, code| {
        refused(&[&export, more].concat(), status, code);
    };
    refuse(&["-o", "/no/such/folder/a.html"], 5, "file");
    refuse(&["-o", "/"], 5, "file");
    refuse(&["-o", "-"], 2, "usage");
    refuse(&["--source", "Nonsense"], 2, "usage");
    refused(&["export", &recording, "--format", "png"], 2, "usage");
    refused(&["export", "/no/such.rec", "--format", "html"], 5, "file");
    refused(&["export", env!("CARGO_BIN_EXE_halprof"), "--format", "html"], 5, "bad-file");
    let names = std::fs::read_dir(folder.path()).expect("the folder");
    let names: Vec<_> = names.map(|name| name.expect("a name").file_name()).collect();
    assert_eq!(names, ["b.rec"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_and_a_closed_pipe_end_as_they_should() {
    use std::os::unix::fs::FileTypeExt;
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded(folder.path());
    for format in FORMATS {
        let full = ["export", &recording, "--format", format, "-o", "/dev/full"];
        refused(&full, 5, "file");
        let device = std::fs::metadata("/dev/full").expect("a device");
        assert!(device.file_type().is_char_device(), "it was replaced");
        let export = ["export", &recording, "--format", format, "-o", "-"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_halprof"));
        let full = File::options().write(true).open("/dev/full");
        let ran = command.args(export).stdout(full.expect("a device")).output();
        assert_eq!(ran.expect("it runs").status.code(), Some(5), "{format}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_halprof"));
        let ran = command.args(export).stdout(writer).output();
        assert_eq!(ran.expect("it runs").status.code(), Some(0), "{format}");
    }
}

/// Without filters, a recording is read once: it may come through a pipe.
#[cfg(target_os = "linux")]
#[test]
fn a_recording_is_read_from_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded(folder.path());
    let expected = halprof(&["export", &recording, "--format", "folded", "-o", "-"]);
    let mut cat = Command::new("cat")
        .arg(&recording)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("cat");
    let ran = Command::new(env!("CARGO_BIN_EXE_halprof"))
        .args(["export", "/dev/stdin", "--format", "folded", "-o", "-"])
        .stdin(cat.stdout.take().expect("a pipe"))
        .output()
        .expect("it runs");
    assert!(cat.wait().expect("it ended").success());
    assert_eq!(String::from_utf8_lossy(&ran.stdout), expected.stdout);
}

#[test]
fn a_recording_without_samples_makes_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("empty.rec");
    for metadata in [
        Metadata::default(),
        Metadata { sources: vec![Source::default(); 3], ..Metadata::default() },
    ] {
        let writer = Writer::create(&recording, &metadata).expect("created");
        writer.finish(&Statistics::default(), false).expect("finished");
        let out = folder.path().join("out");
        let [recording, out] = [&recording, &out].map(|path| path.to_str().expect("UTF-8"));
        for format in FORMATS {
            let told = json(&["export", recording, "--format", format, "-o", out]);
            assert_eq!(told["samples"], 0, "{format}");
            let ran = halprof(&["export", recording, "--format", format, "-o", out]);
            assert!(ran.stderr.contains("no samples"), "{format}: {}", ran.stderr);
        }
    }
}

/// Samples that halprof never takes: any source, any mode, any time, any period.
#[test]
fn a_recording_of_nonsense_makes_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("odd.rec");
    let metadata = Metadata {
        timestamp_frequency: 1,
        // More than a sample's index can distinguish.
        sources: vec![Source::default(); 70_000],
        ..Metadata::default()
    };
    let mut writer = Writer::create(&recording, &metadata).expect("created");
    let odd = [0, 1, 2, 0xFF, u64::MAX - 1, u64::MAX];
    let module = |start, end| Module { start, end, ..Module::default() };
    writer.modules(&[module(0, u64::MAX), module(u64::MAX, 0), module(5, 5)]).expect("written");
    for value in odd {
        for other in odd {
            let sample = Sample {
                timestamp: value,
                ip: other,
                period: value,
                process: other as u32,
                thread: value as u32,
                processor: other as u32,
                source: value as u16,
                mode: other as u8,
                ..Sample::default()
            };
            writer.samples(&[sample]).expect("written");
        }
    }
    writer.finish(&Statistics::default(), false).expect("finished");
    let out = folder.path().join("out");
    let [recording, out] = [&recording, &out].map(|path| path.to_str().expect("UTF-8"));
    for format in FORMATS {
        for by in ["processor", "process"] {
            json(&["export", recording, "--format", format, "-o", out, "--by", by]);
        }
    }
}

#[test]
fn what_is_whole_of_a_cut_recording_is_shown_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    invented(&path);
    let whole = std::fs::read(&path).expect("read");
    std::fs::write(&path, &whole[..whole.len() - 20]).expect("cut");
    let out = folder.path().join("out");
    let [recording, out] = [&path, &out].map(|path| path.to_str().expect("UTF-8"));
    for format in FORMATS {
        let arguments = ["export", recording, "--format", format, "-o", out];
        let ran = halprof(&arguments);
        assert_eq!(ran.status, 5, "{}", ran.stderr);
        assert!(ran.stderr.contains("warning: "), "{}", ran.stderr);
        // Nobody knows how many samples were lost behind the cut.
        assert!(ran.stdout.contains("losses unknown"), "{}", ran.stdout);
        let told = halprof(&[&["--json"], &arguments[..]].concat()).json();
        assert_eq!(told["lost"], Value::Null, "{told}");
        let written = std::fs::read(out).expect("written");
        let text = String::from_utf8_lossy(&written);
        assert!(!text.contains(" 0 lost"), "{format}");
        if format == "html" {
            assert!(text.contains("class=\"flaw\""));
            assert!(text.contains("<dt>Lost</dt><dd>unknown"), "{text}");
        }
        if format == "flamegraph" {
            assert!(text.contains("losses unknown"), "{text}");
        }
    }
}

/// Each machine is a level of its own; formats with times show a single machine.
#[test]
fn several_recordings_go_into_one_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (one, two) = (at("one.rec"), at("two.rec"));
    invented(Path::new(&one));
    std::fs::copy(&one, &two).expect("copied");
    let lines_of = |files: &[&str]| {
        let cycles = ["--format", "folded", "--source", "Cycles", "-o", "-"];
        let text = halprof(&[&["export"], files, &cycles[..]].concat()).stdout;
        let line = |line: &str| {
            let (levels, events) = line.rsplit_once(' ').expect("levels and events");
            (levels.to_owned(), events.parse::<u64>().expect("a number"))
        };
        text.lines().map(line).collect::<BTreeMap<String, u64>>()
    };
    let single = lines_of(&[&one]);
    let both = lines_of(&[&one, &two]);
    let mut wanted = BTreeMap::new();
    for machine in ["one", "two"] {
        let rows = single.iter();
        wanted.extend(rows.map(|(levels, events)| (format!("{machine};{levels}"), *events)));
    }
    assert!(!single.is_empty());
    assert_eq!(both, wanted);
    for format in ["flamegraph", "pprof"] {
        let out = at(format);
        let told = json(&["export", &one, &two, "--format", format, "-o", &out]);
        let alone = json(&["export", &one, "--format", format, "-o", &out]);
        let samples = |told: &Value| told["samples"].as_u64().expect("a number");
        assert_eq!(samples(&told), 2 * samples(&alone), "{format}");
    }
    for format in ["html", "firefox"] {
        refused(&["export", &one, &two, "--format", format], 2, "usage");
    }
}
