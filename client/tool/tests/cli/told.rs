//! Are processes named that no scan could have seen, and are other events reported?

use crate::cli::support::{folder, halprof, json, text};
use halprof_profile::file::{self, Process, Recording};
use serde_json::Value;
use std::path::Path;

fn record(file: &Path, machine: &str, source: &str, workload: &str) -> Value {
    let arguments = ["--machine", machine, "record", "-e", source];
    let rest = ["--workload", workload, "-o", text(file)];
    json(&[&arguments[..], &rest].concat())
}

fn read(file: &Path) -> Recording {
    file::read(file, |_| {}).expect("a recording")
}

/// It lives 2 ms out of every 20, and recorders scan once a second.
#[test]
fn a_process_of_2_ms_is_named_with_its_module() {
    let (_folder, file) = folder();
    let work = "instructions=20000000,cycles=20000000,code=0x5000-0x6000,short=5000000+2000000";
    let body = record(&file, "skylake", "TotalIssues:10000", work);
    assert_eq!((&body["notifications"], &body["events_lost"]), (&true.into(), &0.into()));
    assert_eq!(body["missed_processes"], 0);
    let report = json(&["report", text(&file)]);
    let rows = report["by_process"].as_array().expect("a list");
    let short = rows.iter().find(|row| row["process_name"] == "short.exe");
    let samples = short.expect("its row")["samples"].as_u64().expect("a number");
    assert!((150..250).contains(&samples), "{rows:?}");
    let recording = read(&file);
    let is_short = |one: &&Process| one.name == "short.exe";
    let process = recording.processes.iter().find(is_short).expect("it");
    let lived = process.ended.zip(process.started).map(|(end, start)| end - start);
    // Interrupts take additional time.
    let lived = lived.expect("both are known");
    assert!((2_000_000..2_600_000).contains(&lived), "{lived} ns");
    let modules = recording.modules.iter();
    let mut own = modules.filter(|module| module.process == Some(process.id));
    let module = own.next().expect("its image");
    assert_eq!((module.name.as_str(), module.start), ("short.exe", 0x5000));
    assert!(module.loaded >= process.started && module.loaded.is_some());
}

#[test]
fn lengthened_periods_and_lost_samples_are_in_the_report() {
    let (_folder, file) = folder();
    let work = "instructions=400000000,cycles=400000000,processors=all";
    let body = record(&file, "skylake,processors=2", "TotalIssues:5000", work);
    let throttled = body["throttled"].as_u64().expect("a number");
    assert!(throttled > 0, "{body}");
    let report = json(&["report", text(&file)]);
    let events = report["events"].as_array().expect("a list");
    let of = |kind: &str| events.iter().find(|event| event["kind"] == kind);
    let event = of("throttled").expect("it is told");
    assert_eq!((&event["times"], &event["processors"]), (&throttled.into(), &2.into()));
    let first = event["first_ns"].as_u64().expect("its time");
    assert!(first < body["elapsed_ns"].as_u64().expect("a number"));
    assert_eq!(events.len(), 1, "{events:?}");
    let shown = halprof(&["report", text(&file)]).stdout;
    let line =
        format!("Meanwhile: periods lengthened {throttled} times on 2 processors, first after ");
    assert!(shown.contains(&line), "{shown}");
    let kinds = read(&file).events;
    let sessions = kinds.iter().filter(|event| event.kind.starts_with("session-"));
    assert_eq!(sessions.count(), 2);
}

/// Each pass is a session of its own.
#[test]
fn nothing_is_told_where_nothing_happened() {
    let (_folder, file) = folder();
    record(&file, "skylake", "TotalIssues:100000", "instructions=2000000,cycles=3000000");
    let report = json(&["report", text(&file)]);
    assert_eq!(report["events"], serde_json::json!([]));
    let shown = halprof(&["report", text(&file)]).stdout;
    assert!(!shown.contains("Meanwhile: "), "{shown}");
}
