//! Are intervals printed as they end, in every form, and does the measurement end when the reader
//! goes away or Ctrl-C is pressed?

#[cfg(unix)]
use crate::cli::support::signal;
use crate::cli::support::{command, folder, halprof, objects, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Nothing here takes this long unless it never ends.
const SOON: Duration = Duration::from_secs(60);
/// More than any test can wait for.
const ENDLESS: &str = "cycles=4000000000000000000";

const STAT: &str = "--machine skylake,processors=1 stat -e TotalCycles";

fn started(options: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = command(&format!("{STAT} {options}"))
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

fn sum(intervals: &[Value]) -> u64 {
    intervals.iter().map(|interval| &interval["counts"][0]["value"]).filter_map(Value::as_u64).sum()
}

#[test]
fn lines_come_while_it_runs_and_end_with_the_whole() {
    let lines = objects(&halprof(&format!("{STAT} -I 1 --jsonl --workload cycles=4500000")).stdout);
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
fn every_form_tells_the_same_on_standard_output_and_in_a_file() {
    let (_folder, path) = folder();
    let run = |form: &str| {
        let stat = format!("{STAT} -I 1 {form} --workload cycles=2500000");
        let shown = halprof(&stat).stdout;
        halprof(&format!("{stat} -o {}", text(&path)));
        let written = std::fs::read_to_string(&path).expect("written");
        assert!(written.ends_with(&shown), "{written}");
        // The file says which machine it is about.
        let says_so = ["not silicon", ",true\n", "\"modelled\":true"];
        assert!(says_so.iter().any(|part| written.contains(part)), "{written}");
        shown
    };
    let csv = run("--csv");
    let cells = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let values: Vec<_> = cells.map(|cells| [cells[0], cells[3], cells[9]].join(" ")).collect();
    assert_eq!(
        values,
        [
            "time_ns value start_ns",
            "1000000 1000000 0",
            "2000000 1000000 1000000",
            "2500000 500000 2000000",
            " 2500000 ",
        ]
    );
    let shown = run("");
    for expected in ["1,000,000  TotalCycles", "0.000500", "2,500,000  TotalCycles", "total\n"] {
        assert!(shown.contains(expected), "{shown}");
    }
    assert_eq!(objects(&run("--jsonl")).len(), 4);
}

#[test]
fn who_stops_listening_ends_it() {
    for form in ["", "--csv", "--jsonl"] {
        let (child, mut stdout) = started(&format!("-I 1 {form} --workload {ENDLESS}"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("UTF-8");
        assert!(!line.is_empty());
        drop(stdout);
        assert_eq!(status_soon(child), Some(0), "{form}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_with_what_was_counted() {
    let (child, mut stdout) = started(&format!("-I 1 --jsonl --workload {ENDLESS}"));
    let mut lines = String::new();
    for _ in 0..3 {
        stdout.read_line(&mut lines).expect("UTF-8");
    }
    signal("INT", child.id());
    stdout.read_to_string(&mut lines).expect("UTF-8");
    assert_eq!(status_soon(child), Some(0));
    let lines = objects(&lines);
    let (whole, intervals) = lines.split_last().expect("lines");
    assert_eq!(whole["interrupted"], true);
    assert_eq!(whole["counts"][0]["value"], sum(intervals));
    assert_eq!(whole["elapsed_ns"], intervals[intervals.len() - 1]["time_ns"]);
}

/// Complete runs make up the mean; the one that Ctrl-C cut short is reported and left out.
#[cfg(unix)]
#[test]
fn ctrl_c_spoils_no_mean() {
    let (child, mut stdout) = started("-I 1 -r 1000 --jsonl --workload cycles=50000000");
    let mut lines = String::new();
    while !lines.contains("\"run\":3,") {
        stdout.read_line(&mut lines).expect("UTF-8");
    }
    signal("INT", child.id());
    stdout.read_to_string(&mut lines).expect("UTF-8");
    assert_eq!(status_soon(child), Some(0));
    let lines = objects(&lines);
    let whole = lines.last().expect("lines");
    assert_eq!(whole["interrupted"], true);
    assert_eq!(whole["counts"][0]["value"], 50_000_000);
    assert_eq!(whole["counts"][0]["deviation"], 0.0);
    let runs = whole["runs"].as_array().expect("runs");
    assert_eq!(runs.iter().filter(|run| run["interrupted"] == true).count(), 1);
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
    signal("INT", holding.id());
    assert_eq!(status_soon(holding), Some(0));
}
