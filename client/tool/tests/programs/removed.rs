//! Is what was measured kept when the driver goes away in the middle?

use crate::tests::{json, number, ran, scratch, trials};
use libtest_mimic::Trial;
use serde_json::Value;
use std::process::{Command, Output};

pub(crate) fn all() -> Vec<Trial> {
    trials! {
        a_recording_has_the_samples_until_then
        what_has_no_sample_is_no_recording
        counts_are_those_of_the_last_reading
        intervals_and_their_total_stay
        the_runs_before_stay
        text_says_that_it_ended_early
    }
}

/// A run of the tool on a driver that goes away with the Nth request of this name.
fn removed(request: &str, number: u32, line: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this file"));
    command.args(["removed", request, &number.to_string(), "halprof"]);
    command.args(line.split_whitespace()).output().expect("it runs")
}

/// What it printed: it ends with the status of a driver that has gone.
fn kept(request: &str, number: u32, line: &str) -> Value {
    let output = removed(request, number, line);
    let value = json(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{value}");
    assert_eq!(value["ended"]["code"], "driver-gone", "{value}");
    value
}

fn a_recording_has_the_samples_until_then() {
    let (_folder, file) = scratch();
    let line = format!("--json record -d 60 -e TotalCycles:1000000 -o {file}");
    let value = kept("drain", 12, &line);
    let samples = number(&value["samples"]);
    assert!(samples > 0 && number(&value["generated"]) >= samples, "{value}");
    let report = ran(&["--json", "report", &file]);
    let report = json(&report.stdout);
    assert_eq!(number(&report["samples"]), samples, "{report}");
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("driver-gone"), "{report}");
}

fn what_has_no_sample_is_no_recording() {
    let (_folder, file) = scratch();
    let output =
        removed("drain", 1, &format!("--json record -d 60 -e TotalCycles:1000000 -o {file}"));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(json(&output.stdout)["error"]["code"], "driver-gone");
    assert!(!std::path::Path::new(&file).exists());
}

/// Without `--interval` they are read once a second for this.
fn counts_are_those_of_the_last_reading() {
    let value = kept("snapshot", 2, "--json stat -d 60 -e TotalCycles");
    let count = number(&value["counts"][0]["value"]);
    // A cycle in a nanosecond, on two processors.
    assert!(count >= 2_000_000_000, "{value}");
    assert!(value.get("intervals").is_none(), "{value}");
}

fn intervals_and_their_total_stay() {
    let value = kept("snapshot", 4, "--json stat -d 60 -I 100 -e TotalCycles");
    let intervals = value["intervals"].as_array().expect("intervals");
    assert_eq!(intervals.len(), 3, "{value}");
    let sum: u64 = intervals.iter().map(|one| number(&one["counts"][0]["value"])).sum();
    assert_eq!(number(&value["counts"][0]["value"]), sum, "{value}");
    assert_eq!(value["elapsed_ns"], intervals[2]["time_ns"], "{value}");
}

fn the_runs_before_stay() {
    let value = kept("start", 3, "--json stat -r 5 -d 0.05 -e TotalCycles");
    assert_eq!(value["runs"].as_array().expect("runs").len(), 2, "{value}");
}

fn text_says_that_it_ended_early() {
    let output = removed("snapshot", 3, "stat -d 60 -I 100 -e TotalCycles");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("total") && text.contains("ended early"), "{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("stopped or removed") && !errors.contains("elevated"), "{errors}");
}
