//! Are intervals printed as they end, in every form, and does the measurement end when the reader
//! goes away or Ctrl-C is pressed?

use crate::cli::support::{command, halprof, schema, violations};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Nothing here takes this long unless it never ends.
const SOON: Duration = Duration::from_secs(60);
/// More than any test can wait for.
const ENDLESS: &str = "cycles=4000000000000000000";

fn started(arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_halprof"))
        .args(["--machine", "skylake,processors=1", "stat", "-e", "TotalCycles"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the tool runs");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    (child, stdout)
}

fn status_soon(mut child: Child) -> Option<i32> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a status") {
            return status.code();
        }
        if since.elapsed() > SOON {
            let _ = child.kill();
            panic!("it does not end");
        }
        sleep(Duration::from_millis(5));
    }
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let mut kill = Command::new("kill");
    let status = kill.args(["-INT", &child.id().to_string()]).status();
    assert!(status.expect("kill").success());
}

fn objects(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| {
        let value: Value = serde_json::from_str(line).expect("one object on a line");
        let name = value["schema"].as_str().expect("a schema");
        let name = name.trim_start_matches("halprof/").trim_end_matches("/2");
        let errors = violations(&schema(name), &value);
        assert!(errors.is_empty(), "{name}: {errors:?}");
        value
    });
    lines.collect()
}

fn sum(intervals: &[Value]) -> u64 {
    let values = intervals.iter().map(|interval| &interval["counts"][0]["value"]);
    values.filter_map(Value::as_u64).sum()
}

#[test]
fn lines_come_while_it_runs_and_end_with_the_whole() {
    let arguments = ["-I", "1", "--jsonl", "--workload", "cycles=4500000"];
    let (child, mut stdout) = started(&arguments);
    let mut text = String::new();
    stdout.read_to_string(&mut text).expect("UTF-8");
    assert_eq!(status_soon(child), Some(0));
    let lines = objects(&text);
    let (whole, intervals) = lines.split_last().expect("lines");
    assert_eq!((intervals.len(), sum(intervals)), (5, 4_500_000));
    assert_eq!(whole["counts"][0]["value"], 4_500_000);
    assert!(whole.get("intervals").is_none());
    let mut start = 0;
    for interval in intervals {
        assert_eq!(interval["start_ns"], start);
        start = interval["time_ns"].as_u64().expect("a number");
    }
    assert_eq!(intervals[4]["length_ns"], 500_000);
    // Modelled time is exact.
    let jitter = &whole["jitter"];
    assert_eq!((&jitter["intervals"], &jitter["max_ns"]), (&4.into(), &0.into()));
}

#[test]
fn fractions_of_milliseconds_are_kept() {
    let stat =
        ["stat", "-I", "1.5", "--jsonl", "--workload", "cycles=4500000", "-e", "TotalCycles"];
    let lines = objects(&halprof(&[&["--machine", "skylake"], &stat[..]].concat()).stdout);
    assert_eq!(lines.len(), 4);
    assert!(lines[..3].iter().all(|interval| interval["length_ns"] == 1_500_000));
}

#[test]
fn every_form_tells_the_same() {
    let stat = ["stat", "-e", "TotalCycles", "-I", "1", "--workload", "cycles=2500000"];
    let common = [&["--machine", "skylake,processors=1"], &stat[..]].concat();
    let run = |form: &[&str]| {
        let ran = halprof(&[&common[..], form].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    };
    let csv = run(&["--csv"]);
    let cells: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let values: Vec<_> = cells.iter().map(|line| (line[0], line[3], line[9])).collect();
    assert_eq!(
        values,
        [
            ("time_ns", "value", "start_ns"),
            ("1000000", "1000000", "0"),
            ("2000000", "1000000", "1000000"),
            ("2500000", "500000", "2000000"),
            ("", "2500000", ""),
        ]
    );
    let text = run(&[]);
    for expected in ["1,000,000  TotalCycles", "0.000500", "2,500,000  TotalCycles", "total\n"] {
        assert!(text.contains(expected), "{text}");
    }
    // A file contains what would have been printed.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out");
    let file = file.to_str().expect("UTF-8");
    for (form, printed) in [(&["--csv"][..], &csv), (&[], &text)] {
        run(&[form, &["-o", file]].concat());
        let written = std::fs::read_to_string(file).expect("written");
        assert!(written.ends_with(printed.as_str()), "{written}");
        // The file says which machine it is about.
        assert!(written.contains("not silicon") || written.contains(",true\n"), "{written}");
    }
    let lines = run(&["--jsonl"]);
    run(&["--jsonl", "-o", file]);
    assert_eq!(std::fs::read_to_string(file).expect("written"), lines);
    let whole: Value = serde_json::from_str(&run(&["--json"])).expect("one object");
    assert_eq!(whole["intervals"].as_array().map(Vec::len), Some(3));
}

#[test]
fn who_stops_listening_ends_it() {
    for form in [&[][..], &["--csv"], &["--jsonl"]] {
        let (child, mut stdout) = started(&[&["-I", "1", "--workload", ENDLESS], form].concat());
        let mut line = String::new();
        stdout.read_line(&mut line).expect("UTF-8");
        assert!(!line.is_empty());
        drop(stdout);
        assert_eq!(status_soon(child), Some(0), "{form:?}");
    }
}

#[test]
fn errors_are_lines_too() {
    for arguments in [
        &["stat", "--jsonl", "-e", "Nonsense"][..],
        &["stat", "--jsonl", "--nonsense"],
        &["stat", "--jsonl", "-I", "0.5"],
    ] {
        let ran = halprof(arguments);
        assert_ne!(ran.status, 0);
        let lines = objects(&ran.stdout);
        assert_eq!(lines.len(), 1, "{}", ran.stdout);
        assert_eq!(lines[0]["schema"], "halprof/error/2");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_with_what_was_counted() {
    let (child, mut stdout) = started(&["-I", "1", "--jsonl", "--workload", ENDLESS]);
    let mut text = String::new();
    for _ in 0..3 {
        stdout.read_line(&mut text).expect("UTF-8");
    }
    interrupt(&child);
    stdout.read_to_string(&mut text).expect("UTF-8");
    assert_eq!(status_soon(child), Some(0));
    let lines = objects(&text);
    let (whole, intervals) = lines.split_last().expect("lines");
    assert_eq!(whole["interrupted"], true);
    assert_eq!(whole["counts"][0]["value"], sum(intervals));
    assert_eq!(whole["elapsed_ns"], intervals[intervals.len() - 1]["time_ns"]);
}

/// Complete runs make up the mean; the one that Ctrl-C cut short is reported and left out.
#[cfg(unix)]
#[test]
fn ctrl_c_spoils_no_mean() {
    let workload = "cycles=50000000";
    let arguments = ["-I", "1", "-r", "1000", "--jsonl", "--workload", workload];
    let (child, mut stdout) = started(&arguments);
    let mut text = String::new();
    while !text.contains("\"run\":3,") {
        stdout.read_line(&mut text).expect("UTF-8");
    }
    interrupt(&child);
    stdout.read_to_string(&mut text).expect("UTF-8");
    assert_eq!(status_soon(child), Some(0));
    let lines = objects(&text);
    let whole = lines.last().expect("lines");
    assert_eq!(whole["interrupted"], true);
    assert_eq!(whole["counts"][0]["value"], 50_000_000);
    assert_eq!(whole["counts"][0]["deviation"], 0.0);
    let runs = whole["runs"].as_array().expect("runs");
    let cut = runs.iter().filter(|run| run["interrupted"] == true);
    assert_eq!(cut.count(), 1);
}

#[cfg(unix)]
#[test]
fn rdpmc_is_held_until_ctrl_c() {
    let mut holding = command("--machine skylake,processors=3 rdpmc hold");
    let mut holding =
        holding.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let mut stdout = BufReader::new(holding.stdout.take().expect("a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("it tells when it holds");
    assert_eq!(line, "allowed on   3 of 3 processors\n");
    assert!(holding.try_wait().expect("a status").is_none());
    interrupt(&holding);
    assert_eq!(status_soon(holding), Some(0));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = command("--json --machine zen4,processors=2048 info");
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !stderr.contains("panic"), "{stderr}");
}
