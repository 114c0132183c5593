//! Does `script` print each sample exactly once?

use crate::cli::reports::Recorded;
use crate::cli::support::{halprof, json, refused, schema, violations};
use serde_json::Value;

#[test]
fn each_sample_is_a_line_in_every_form() {
    let workload = "instructions=10000000,cycles=20000000,user=80";
    let recorded = Recorded::new(&["TotalIssues:40000", "TotalCycles:40000"], workload);
    let report = json(&["report", recorded.file()]);
    let samples = report["samples"].as_u64().expect("a number");
    let run = |more: &[&str]| {
        let ran = halprof(&[&["script", recorded.file()], more].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    };
    let text = run(&[]);
    assert_eq!(text.lines().count() as u64, samples + 1);
    assert!(text.lines().next().is_some_and(|head| head.contains("time, s")), "{text}");
    let lines = run(&["--jsonl"]);
    let schema = schema("script");
    let rows = lines.lines().map(|line| {
        let row: Value = serde_json::from_str(line).expect("an object");
        let wrong = violations(&schema, &row);
        assert!(wrong.is_empty(), "{wrong:?}: {row}");
        row
    });
    let rows: Vec<Value> = rows.collect();
    assert_eq!(rows.len() as u64, samples);
    // The sum of all samples' periods is the number of events in the report.
    let events = |source: &str| {
        let rows = rows.iter().filter(|row| row["source"] == source);
        rows.map(|row| row["period"].as_u64().expect("a number")).sum::<u64>()
    };
    for source in report["by_source"].as_array().expect("sources") {
        let name = source["source"].as_str().expect("a name");
        assert_eq!(events(name), source["events"].as_u64().expect("a number"), "{name}");
    }
    let csv = run(&["--csv"]);
    let mut csv_lines = csv.lines();
    let head = csv_lines.next().expect("a head");
    for (line, row) in csv_lines.zip(&rows) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), head.split(',').count());
        let address = head.split(',').position(|column| column == "address");
        assert_eq!(fields[address.expect("a column")], row["address"]);
    }
    assert_eq!(csv.lines().count() as u64, samples + 1);
}

#[test]
fn filters_are_those_of_report() {
    let workload = "instructions=10000000,cycles=20000000,user=80";
    let recorded = Recorded::new(&["TotalIssues:40000", "TotalCycles:40000"], workload);
    for filter in [
        &["--source", "TotalIssues"][..],
        &["--module", "modelled kernel"],
        &["--process", "modelled*"],
        &["--symbol", "none"],
        &["--time", "0.005-"],
        &["-C", "1"],
    ] {
        let lines = halprof(&[&["script", recorded.file(), "--jsonl"], filter].concat()).stdout;
        let report = json(&[&["report", recorded.file()], filter].concat());
        assert_eq!(lines.lines().count() as u64, report["counted"], "{filter:?}");
        let page = format!("{}.html", recorded.file());
        let html = ["export", recorded.file(), "--format", "html", "-o", &page];
        let export = json(&[&html, filter].concat());
        assert_eq!(export["samples"], report["counted"], "{filter:?}");
    }
    refused(&["script", recorded.file()], 2, "usage");
    refused(&["script", recorded.file(), "--csv", "--jsonl"], 2, "usage");
    refused(&["script", recorded.file(), "--jsonl", "--source", "none"], 2, "usage");
}
