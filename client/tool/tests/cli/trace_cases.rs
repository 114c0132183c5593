//! Traces that others made or found, each with what is true of it.

use crate::cli::support::json;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A file of the shared folder, or nothing with a message.
fn shared(name: &str) -> Option<String> {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/{}"), name);
    let exists = Path::new(&path).exists();
    if !exists {
        eprintln!("skipped: no {path}");
    }
    exists.then_some(path)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// The samples of each row of a report, under the row's fields.
fn samples_by(report: &Value, fields: &[&str]) -> BTreeMap<String, u64> {
    let mut samples = BTreeMap::new();
    for row in list(&report["tables"][0]["parts"][0]["rows"]) {
        let name: Vec<String> = fields.iter().map(|field| row[field].to_string()).collect();
        *samples.entry(name.join(" ")).or_default() += row["samples"].as_u64().expect("samples");
    }
    samples
}

/// What Windows writes at a thread's end comes before its last samples, and stacks name a process
/// where no event of a thread does.
#[test]
fn samples_have_the_process_that_ran() {
    let cases: [(&str, &[(&str, u64)]); 5] = [
        ("cases/etw/thread-runs-after-its-end.etl", &[("\"one.exe\"", 3)]),
        ("cases/reports/etl/a_no_thread_events.etl", &[("\"one.exe\"", 30), ("\"two.exe\"", 10)]),
        ("cases/reports/etl/i_after_end.etl", &[("\"one.exe\"", 23)]),
        // An own reader finds each sample's thread started in the trace.
        ("etw/files/net.4.5.2.x64.etl", &[("null", 0)]),
        ("etw/files/net.4.5.x86.etl", &[("null", 0)]),
    ];
    for (name, expected) in cases {
        let Some(file) = shared(name) else { return };
        let report = json(&format!("report {file} --by process --source Timer"));
        let found = samples_by(&report, &["process_name"]);
        for (process, samples) in expected {
            assert_eq!(found.get(*process).copied().unwrap_or(0), *samples, "{name} {found:?}");
        }
    }
}

/// Threads without any event: of 666 samples 634 have stacks, which name one of three processes.
#[test]
fn a_process_that_nobody_knows_is_null() {
    let Some(file) = shared("cases/etw/no-thread-events.etl") else { return };
    let report = json(&format!("report {file} --by process"));
    let found = samples_by(&report, &["process", "process_name"]);
    println!("{found:?}");
    let unknown = found.get("null null").copied().unwrap_or(0);
    assert!(unknown <= 32, "{found:?}");
}

/// A thread with the id of one that ended: each has its own counts and switches.
#[test]
fn a_thread_that_runs_after_its_end_keeps_its_counts() {
    let Some(file) = shared("cases/etw/thread-runs-after-its-end.etl") else { return };
    let stat = json(&format!("stat --from {file} --by thread"));
    let threads = list(&stat["by_thread"]).iter().filter(|row| row["thread"] == 12);
    let found: Vec<Value> = threads
        .filter(|row| row["source"] == "InstructionRetired")
        .map(|row| json!([row["process"], row["value"], row["switches"], row["complete"]]))
        .collect();
    let expected = [json!(["one.exe", 3_000, 2, true]), json!(["two.exe", 30_000, 1, true])];
    assert_eq!(found, expected);
}

#[test]
fn waits_have_the_process_that_stacks_name() {
    let Some(file) = shared("cases/reports/etl/h_offcpu_nothreads.etl") else { return };
    let waits = json(&format!("report --off-cpu {file}"));
    let found: Vec<Value> = list(&waits["rows"]).iter().map(|row| row["process"].clone()).collect();
    assert_eq!(found, ["one.exe"]);
}
