//! Do record and report show exactly what the workload did?

use crate::cli::support::{folder, halprof, json, refused, text};
use serde_json::Value;

#[test]
fn a_recording_has_one_sample_for_each_period() {
    let (_folder, path) = folder();
    let file = text(&path);
    for model in ["skylake", "zen4", "pentium3", "pentium4"] {
        let workload = "instructions=10000000,cycles=10000000,user=100,code=0x5000-0x6000";
        let record = json(&[
            "--machine",
            model,
            "record",
            "-e",
            "TotalIssues:100000",
            "-o",
            file,
            "--workload",
            workload,
            "-C",
            "0",
        ]);
        assert_eq!(record["samples"], 100, "{model}: {record}");
        assert_eq!(record["periods"][0]["used"], 100_000);
        assert!(record["lost"].as_object().expect("causes").values().all(|lost| *lost == 0));
        let report = json(&["report", file]);
        assert_eq!((&report["samples"], &report["modelled"]), (&100.into(), &true.into()));
        let sources = report["by_source"].as_array().expect("a list");
        assert_eq!(sources.len(), 1);
        let (source, period) = (&sources[0]["source"], &sources[0]["period"]);
        assert_eq!((source, period), (&"TotalIssues".into(), &100_000.into()));
        let (samples, events) = (&sources[0]["samples"], &sources[0]["events"]);
        assert_eq!((samples, events), (&100.into(), &10_000_000.into()));
        assert_eq!(
            report["by_processor"],
            serde_json::json!([{"processor": 0, "samples": 100, "events": 10_000_000}])
        );
        assert_eq!(
            report["by_module"],
            serde_json::json!([{"module": "modelled.exe", "samples": 100, "events": 10_000_000}])
        );
    }
    let text = halprof(&["report", file]);
    assert!(text.stdout.contains("modelled.exe") && text.stderr.contains("modelled machine"));
}

#[test]
fn a_recording_that_is_cut_is_reported_with_a_warning_and_status_5() {
    let (_folder, path) = folder();
    let file = text(&path);
    json(&["record", "-o", file]);
    let whole = std::fs::read(&path).expect("read");
    std::fs::write(&path, &whole[..whole.len() - 1]).expect("cut");
    let ran = halprof(&["--json", "report", file]);
    let report = ran.json();
    assert_eq!((ran.status, &report["schema"]), (5, &"halprof/report/2".into()));
    assert!(report["samples"].as_u64().expect("a number") > 100);
    let flaw = report["damaged"].as_str().expect("a flaw");
    assert!(flaw.contains("cut"), "{flaw}");
    assert_eq!(report["lost"], Value::Null);
    assert!(halprof(&["report", file]).stderr.contains(flaw));
    std::fs::write(&path, &whole[..20]).expect("cut");
    refused(&["report", file], 5, "bad-file");
}

#[test]
fn an_interval_outside_the_limits_is_told() {
    let (_folder, path) = folder();
    let file = text(&path);
    let arguments = [
        "--machine",
        "skylake",
        "record",
        "-e",
        "TotalCycles:7",
        "-o",
        file,
        "--workload",
        "cycles=1000000",
    ];
    let record = json(&arguments);
    assert_eq!(record["periods"][0]["requested"], 7);
    assert_eq!(
        (&record["periods"][0]["used"], &record["periods"][0]["clamped"]),
        (&4096.into(), &true.into())
    );
    assert!(halprof(&arguments).stderr.contains("4,096 was used"));
}

#[test]
fn a_recording_that_cannot_be_written_ends_with_5() {
    refused(&["--machine", "skylake", "record", "-o", "/no/such/folder/a.rec"], 5, "file");
}
