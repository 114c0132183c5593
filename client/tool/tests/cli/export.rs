//! Do independent programs read from each export exactly what was sampled?

use crate::cli::foreign::{Foreign, HOSTILE, gathered, invented};
use crate::cli::support::{folder, json, text};
use halprof_profile::export::{self, Export, Format, TrackBy};
use halprof_profile::file::{Metadata, Module, Source, Statistics, Writer};
use serde_json::json as value;
use shared_types::Sample;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
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
        self.0.path().join(format!("a{}", format.ending()))
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
    let Some(foreign) = Foreign::find() else { return };
    let files = formats.map(|format| exports.path(format));
    let told = foreign.browser("speedscope", &files.each_ref().map(PathBuf::as_path));
    let folded_name = HOSTILE.replace(';', ":");
    let folded = [
        ("alpha.c:7", "30,000"),
        ("alpha.c:9", "20,000"),
        ("alpha.c:20", "25,000"),
        ("ntoskrnl.exe", "25,000"),
        ("alpha.c:1", "18,000"),
        ("no address", "2,000"),
        (&folded_name, "0"),
    ];
    let pprof = [
        ("first", "50,000"),
        ("second", "25,000"),
        ("ntoskrnl.exe", "25,000"),
        (HOSTILE, "18,000"),
        ("no address", "2,000"),
    ];
    for (rows, expected) in [(&told[0], &folded[..]), (&told[1], &pprof)] {
        let rows = rows.as_array().expect("rows");
        for (name, events) in expected {
            let row = rows.iter().find(|row| row[2] == *name);
            let cell = row.and_then(|row| row[1].as_str()).unwrap_or_else(|| panic!("no {name}"));
            // The percents follow.
            assert_eq!(cell.split_once(' ').map(|(number, _)| number), Some(*events), "{name}");
        }
    }
}

#[test]
fn pprof_format_reads_what_was_sampled() {
    let exports = Exports::new(&[Format::Pprof]);
    let Some(foreign) = Foreign::find() else { return };
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
    assert_eq!(hostile.expect("the hostile name as it is")["values"], value!([9, HOSTILE_EVENTS]));
    let second = samples.iter().find(|sample| sample["name"] == "second");
    assert_eq!(
        second.expect("second"),
        &value!({
            "levels": ["thread 16", "alpha.exe (8)"],
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
    let Some(foreign) = Foreign::find() else { return };
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

const FORMATS: [&str; 5] = ["flamegraph", "html", "firefox", "pprof", "folded"];

/// Recordings that halprof never makes: without samples, and with any source, mode, time and period.
#[test]
fn odd_recordings_make_every_format() {
    let (_folder, path) = folder();
    let file = text(&path);
    let all_formats = |options: &str, samples: Option<u64>| {
        for format in FORMATS {
            let written = json(&format!("export {file} -f {format} -o {file}.out {options}"));
            assert!(samples.is_none_or(|samples| written["samples"] == samples), "{format}");
        }
    };
    for sources in [0, 3] {
        let sources = vec![Source::default(); sources];
        let metadata = Metadata { sources, ..Metadata::default() };
        let writer = Writer::create(&path, &metadata).expect("created");
        writer.finish(&Statistics::default(), false).expect("finished");
        all_formats("", Some(0));
    }
    let metadata = Metadata {
        timestamp_frequency: 1,
        // More than a sample's index can distinguish.
        sources: vec![Source::default(); 70_000],
        ..Metadata::default()
    };
    let mut writer = Writer::create(&path, &metadata).expect("created");
    let module = |start, end| Module { start, end, ..Module::default() };
    writer.modules(&[module(0, u64::MAX), module(u64::MAX, 0), module(5, 5)]).expect("written");
    let odd = [0, 1, 2, 0xFF, u64::MAX - 1, u64::MAX];
    for (value, other) in odd.iter().flat_map(|&value| odd.map(|other| (value, other))) {
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
    writer.finish(&Statistics::default(), false).expect("finished");
    all_formats("--by processor", None);
    all_formats("--by process", None);
}
