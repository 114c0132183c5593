//! Does the file for the textfile collectors contain exactly what was counted, in a form they can
//! read?

use crate::cli::support::{folder, foreign_python, halprof, refused, text};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An instruction in every cycle of 1 GHz, a branch in every fourth: 10 ms.
const WORKLOAD: &str = "instructions=10000000,cycles=10000000,branches=2500000,processors=all";
const LIST: &str = "TotalIssues,BranchInstructions:u";

/// Counts into a file; returns its text.
fn counted(path: &Path, arguments: &[&str]) -> String {
    let path = path.to_str().expect("UTF-8");
    let ran = halprof(&[&["stat", "--openmetrics", path], arguments].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    std::fs::read_to_string(path).expect("a file")
}

/// The printed value after a name with its labels.
fn printed<'a>(metrics: &'a str, name: &str) -> &'a str {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name}: {metrics}"))
}

fn cell(family: &str, source: &str, processor: u32) -> String {
    format!("halprof_{family}{{modelled=\"true\",source=\"{source}\",processor=\"{processor}\"}}")
}

#[test]
fn counts_are_exactly_what_happened_in_the_time_they_took() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("halprof.prom");
    std::fs::write(&path, "what stood there before").expect("written");
    let machine = ["--machine", "skylake,processors=4", "-I", "2"];
    let what = ["-e", LIST, "-C", "1-2", "--workload", WORKLOAD];
    let metrics = counted(&path, &[machine.as_slice(), &what].concat());
    for processor in [1, 2] {
        for (family, source, value) in [
            ("events_total", "TotalIssues", "10000000"),
            ("events_total", "BranchInstructions:u", "2500000"),
            ("enabled_seconds_total", "TotalIssues", "0.01"),
            ("running_seconds_total", "TotalIssues", "0.01"),
        ] {
            assert_eq!(printed(&metrics, &cell(family, source, processor)), value);
        }
    }
    assert!(!metrics.contains("processor=\"0\"") && !metrics.contains("processor=\"3\""));
    // Before the first interval, after each of four complete ones, and at the end.
    let readings = printed(&metrics, "halprof_readings_total{modelled=\"true\"}");
    assert_eq!(readings, "6");
    assert!(metrics.ends_with("\n# EOF\n"));
    // No other file is left in a folder that a collector reads.
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

/// An event that types of core count in different ways is one source: each processor has one series
/// of it, with what its own way has counted.
#[test]
fn each_processor_of_a_hybrid_has_one_series_of_a_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("halprof.prom");
    let work = "instructions=1000000,cycles=1000000,branches=250000,processors=all";
    let source = "BR_INST_RETIRED.COND";
    let what = ["--machine", "hybrid", "-I", "1", "-e", source, "--workload", work];
    let metrics = counted(&path, &what);
    for line in metrics.lines() {
        let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
        let same =
            |other: &&str| other.rsplit_once(' ').map_or(*other, |(other, _)| other) == series;
        assert_eq!(metrics.lines().filter(same).count(), 1, "{line}");
    }
    for processor in 0..12 {
        let running = printed(&metrics, &cell("running_seconds_total", source, processor));
        assert_eq!(running, "0.001", "processor {processor}");
    }
}

/// A 0 there would pass for a count.
#[test]
fn a_processor_that_cannot_count_a_source_has_no_series_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("halprof.prom");
    let what = ["-e", "FixedTopdownSlots,TotalIssues", "-I", "10"];
    let metrics = counted(&path, &[&["--machine", "hybrid"], &what[..]].concat());
    for (source, processors) in [("FixedTopdownSlots", 0..4), ("TotalIssues", 0..12)] {
        for family in ["events_total", "enabled_seconds_total"] {
            let there = |&processor: &u32| metrics.contains(&cell(family, source, processor));
            let counting: Vec<u32> = (0..12).filter(there).collect();
            assert_eq!(counting, processors.clone().collect::<Vec<_>>(), "{family} {source}");
        }
    }
}

/// The collectors' parser knows these types, and rejects a file with any other.
#[test]
fn every_type_is_one_of_the_older_text_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let metrics = counted(&folder.path().join("halprof.prom"), &["-I", "10"]);
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let types: Vec<&str> = types.filter_map(|line| line.split(' ').nth(1)).collect();
    assert!(types.len() > 8, "{metrics}");
    for one in types {
        assert!(["counter", "gauge"].contains(&one), "{one}");
    }
}

/// Sources that take turns: they have an error bound, and less time running than enabled.
#[test]
fn the_parser_of_prometheus_reads_it_all() {
    let Some(python) = foreign_python("prometheus_client") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    // As a raw select, instructions take turns with the others.
    let list = "r00C0,CacheMisses,r01C4,r02C4,r04C4,r08C4,r10C4,r20C4,r40C4,r03C4,r05C4,r06C4";
    let machine = strange(folder.path());
    let path = folder.path().join("halprof.prom");
    let text = counted(&path, &["--machine", &machine, "-e", list, "-I", "10", "--rotate", "2"]);
    let families = parsed(&python, &text);
    let family = |name: &str| {
        let mut families = families.as_array().expect("a list").iter();
        let family = families.find(|family| family["name"] == name);
        family.unwrap_or_else(|| panic!("no {name}: {families:?}"))
    };
    for (name, kind, unit, samples) in [
        ("halprof_machine_info", "gauge", "", 1),
        ("halprof_processor_info", "gauge", "", 1),
        ("halprof_events", "counter", "", 12),
        ("halprof_enabled_seconds", "counter", "seconds", 12),
        ("halprof_running_seconds", "counter", "seconds", 12),
        ("halprof_readings", "counter", "", 1),
        ("halprof_missed_readings", "counter", "", 1),
        ("halprof_read_timestamp_seconds", "gauge", "seconds", 1),
    ] {
        let family = family(name);
        let found = family["samples"].as_array().expect("a list");
        assert_eq!(
            (&family["type"], &family["unit"], found.len()),
            (&kind.into(), &unit.into(), samples),
            "{name}"
        );
        assert!(found.iter().all(|sample| sample["labels"]["modelled"] == "true"));
    }
    // The file's name is preserved despite quotes, backslashes and line ends.
    let about = &family("halprof_machine_info")["samples"][0]["labels"];
    let told = about["machine"].as_str().expect("a text");
    assert!(told.contains("a \"dump\" \\ of\none.txt"), "{told}");
    assert_eq!(about["interface"], "Emon");
    let value = |name: &str| {
        let samples = family(name)["samples"].as_array().expect("a list");
        let issues = samples.iter().find(|sample| sample["labels"]["source"] == "r00C0");
        issues.expect("a sample")["value"].as_f64().expect("a number")
    };
    let part = value("halprof_running_seconds") / value("halprof_enabled_seconds");
    assert!(part > 0.1 && part < 0.9, "{part}");
    // By the rule in the help text: 100 million instructions in 150 ms.
    let estimate = value("halprof_events") / value("halprof_running_seconds");
    assert!((estimate / (1e9 / 1.5) - 1.0).abs() < 0.05, "{estimate}");
}

/// A dump of one processor, in a file with a name that needs escaping.
fn strange(folder: &Path) -> String {
    let path = folder.join("a \"dump\" \\ of\none.txt");
    let dump = "CPUID 00000000: 00000016-756E6547-6C65746E-49656E69\n\
        CPUID 00000001: 000506E3-00100800-7FFAFBBF-BFEBFBFF\n\
        CPUID 0000000A: 07300804-00000000-00000000-00000603\n";
    std::fs::write(&path, dump).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

fn parsed(python: &Path, text: &str) -> Value {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/openmetrics.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "it does not parse: {text}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The intervals are in the file, and only the final result is printed.
#[test]
fn the_result_is_printed_without_intervals() {
    let (_folder, path) = folder();
    let path = text(&path);
    let stat = ["stat", "-I", "10", "--openmetrics", path, "-e", "TotalIssues"];
    for form in ["--jsonl", "--csv"] {
        let ran = halprof(&[&stat[..], &[form]].concat());
        let lines = ran.stdout.lines().count();
        assert_eq!(lines, if form == "--csv" { 2 } else { 1 }, "{}", ran.stdout);
    }
    let whole = halprof(&[&["--json"], &stat[..]].concat()).json();
    assert_eq!(whole["intervals"], Value::Null);
    // 150 ms: the last interval ends with the measurement.
    assert_eq!(whole["jitter"]["intervals"], 15);
}

#[test]
fn what_cannot_be_replaced_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = folder.path().join("missing/halprof.prom");
    let nowhere = nowhere.to_str().expect("UTF-8");
    refused(&["stat", "-I", "10", "--openmetrics", nowhere], 5, "file");
    for arguments in [
        &["--openmetrics", "a.prom"][..],
        &["-I", "10", "--openmetrics", "-"],
        &["-I", "10", "--openmetrics", "a.prom", "-r", "2"],
        &["-I", "10", "--openmetrics", "a.prom", "--passes"],
    ] {
        refused(&[&["stat"], arguments].concat(), 2, "usage");
    }
}
