//! Does a recording survive what can happen to its recorder, and say what it could not do?
#![cfg(unix)]

use crate::cli::support::{command, folder, halprof_json, json, row, signal, text};
use halprof_profile::number::thousands;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// More work than any test waits for.
const ENDLESS: &str = "cycles=900000000000,instructions=1000000";

/// A recorder of a workload that does not end.
fn recorder(file: &Path) -> Child {
    let record = "--json --machine skylake record -C 0 -e TotalCycles:10000";
    command(&format!("{record} -o {} --workload {ENDLESS}", text(file)))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the tool runs")
}

/// Waits until a file has this length.
fn wait_for(file: &Path, bytes: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(file).map_or(0, |file| file.len()) < bytes {
        assert!(Instant::now() < end, "{} does not grow", file.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The report on an incomplete file.
fn report_of_a_part(file: &Path) -> Value {
    let ran = halprof_json(&format!("report {}", text(file)));
    let report = ran.json();
    assert_eq!((ran.status, &report["schema"]), (5, &"halprof/report/3".into()), "{report}");
    report
}

#[test]
fn what_a_killed_recorder_had_written_is_reported() {
    let (folder, file) = folder();
    let partial = folder.path().join("a.rec.partial");
    for bytes in [1, 10_000, 300_000, 3_000_000] {
        let mut recorder = recorder(&file);
        wait_for(&partial, bytes);
        // On Unix this is SIGKILL.
        recorder.kill().expect("killed");
        recorder.wait().expect("it ends");
        assert!(!file.exists(), "half a recording stands under its name");
        let length = std::fs::metadata(&partial).expect("it is there").len();
        let report = report_of_a_part(&partial);
        let samples = report["samples"].as_u64().expect("a number");
        // Everything but the blocks without samples, and one block that may be truncated.
        assert!(samples * 40 <= length && samples * 40 + 700_000 > length, "{report}");
        let flaw = report["damaged"].as_str().expect("a flaw");
        assert!(flaw.contains(&format!("{} samples are whole", thousands(samples))), "{flaw}");
        assert_eq!(report["by_source"][0]["samples"].as_u64().unwrap_or(0), samples);
        // What ran is in the file from the beginning.
        let modules = report["by_module"].as_array().expect("rows").iter();
        assert!(modules.clone().all(|row| row["module"] != Value::Null), "{report}");
        assert!(modules.count() == usize::from(samples != 0), "{report}");
        std::fs::remove_file(&partial).expect("removed");
    }
}

#[test]
fn ctrl_c_ends_a_recording_that_is_whole() {
    let (folder, file) = folder();
    let recorder = recorder(&file);
    wait_for(&folder.path().join("a.rec.partial"), 100_000);
    signal("INT", recorder.id());
    let output = recorder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let record: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(record["interrupted"], true);
    let report = json(&format!("report {}", text(&file)));
    assert_eq!(report["samples"], record["samples"]);
    assert_eq!(report["damaged"], Value::Null);
    let lost = record["lost"].as_object().expect("causes").values();
    let lost: u64 = lost.filter_map(Value::as_u64).sum();
    let sum = record["samples"].as_u64().map(|samples| samples + lost);
    assert_eq!(sum, record["generated"].as_u64(), "a tail was lost: {record}");
}

/// What was counted since the last sample is not in the samples: of a rare event that may be most.
#[test]
fn the_bound_of_samples_in_turns_covers_what_no_sample_stands_for() {
    const RARE: &str = "instructions=200000000,cycles=300000000,branches=40000000,\
                        branch-misses=800000,llc-references=4000000,llc-misses=400000,\
                        l1d-accesses=80000000,l1d-misses=3000000";
    let (_folder, path) = folder();
    let file = text(&path);
    let mut judged = 0;
    for (machine, sources) in [
        ("yonah", "TotalCycles,TotalIssues,CacheMisses,LLCReference"),
        (
            "yonah",
            "TotalIssues:100000,BranchInstructions:10000,BranchMispredictions:500,LLCReference:2000",
        ),
        ("core2", "TotalCycles,TotalIssues,BranchInstructions,LLCReference"),
        ("k8", "Cycles,TotalIssues,BranchInstructions,DcacheAccesses,DcacheMisses"),
    ] {
        let names = sources.split(',').map(|source| source.split(':').next().expect("a name"));
        let names = names.collect::<Vec<_>>().join(",");
        let stat = format!("--machine {machine} stat --passes -e {names} --workload {RARE}");
        let exact = json(&stat);
        json(&format!("--machine {machine} record -e {sources} -o {file} --workload {RARE}"));
        for estimate in json(&format!("report {file}"))["by_source"].as_array().expect("sources") {
            if estimate["scaled"] == false {
                continue;
            }
            let name = estimate["source"].as_str().expect("a name");
            let truth = row(&exact["counts"], "source", name)["value"].as_u64().expect("a count");
            let events = estimate["events"].as_u64().expect("events");
            let bound = estimate["error"].as_u64().expect("a bound");
            assert!(events.abs_diff(truth) <= bound, "{machine}: {estimate}, and it is {truth}");
            judged += 1;
        }
    }
    assert!(judged > 8, "{judged} sources took turns");
}
