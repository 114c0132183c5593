//! Are sources that do not fit together counted exactly in several passes?

use crate::cli::support::{halprof, json};
use serde_json::Value;

const WORKLOAD: &str = "instructions=1000003,cycles=2000005,branches=200001,branch-misses=5003,llc-references=70001,llc-misses=7003";
/// Six sources besides those of fixed counters, for four general counters.
const AMOUNTS: [(&str, u64); 8] = [
    ("TotalIssues", 1_000_003),
    ("TotalCycles", 2_000_005),
    ("BranchInstructions", 200_001),
    ("BranchMispredictions", 5003),
    ("LLCReference", 70_001),
    ("LLCMisses", 7003),
    ("BranchInstructionRetired", 200_001),
    ("BranchMispredictsRetired", 5003),
];

fn counts(stat: &Value) -> &Vec<Value> {
    stat["counts"].as_array().expect("a list")
}

#[test]
fn every_count_is_exact() {
    let list = AMOUNTS.map(|(source, _)| source).join(",");
    let common = ["--machine", "skylake", "stat", "-e", &list, "--workload", WORKLOAD];
    assert_eq!(json(&common)["slices"], 2);
    let stat = json(&[&common[..], &["--passes"]].concat());
    for (count, (source, amount)) in counts(&stat).iter().zip(AMOUNTS) {
        assert_eq!(
            (&count["source"], &count["value"], &count["scaled"], &count["error"]),
            (&source.into(), &amount.into(), &false.into(), &Value::Null)
        );
    }
    let passes = stat["passes"].as_array().expect("passes");
    assert_eq!(passes.len(), 2);
    for pass in passes {
        assert_eq!(pass["elapsed_ns"], 2_000_005);
    }
    let text = halprof(&[&common[..], &["--passes"]].concat()).stdout;
    assert!(text.contains("2 passes"), "{text}");
}

#[test]
fn what_fits_takes_one_pass_and_says_nothing_of_it() {
    let stat = json(&["--machine", "skylake", "stat", "--passes", "--workload", WORKLOAD]);
    assert!(stat.get("passes").is_none());
    assert!(counts(&stat).iter().all(|count| count.get("pass").is_none()));
}

#[test]
fn all_is_every_source_that_list_shows() {
    for machine in ["skylake", "zen4", "hybrid", "pentium4", "hyperv-masked"] {
        let list = json(&["--machine", machine, "list"]);
        let stat =
            json(&["--machine", machine, "stat", "-e", "all", "--passes", "--workload", WORKLOAD]);
        let named = |value: &Value, list: &str, name: &str| -> Vec<String> {
            let rows = value[list].as_array().expect("a list").iter();
            rows.map(|row| row[name].as_str().expect("a name").to_owned()).collect()
        };
        assert_eq!(named(&list, "sources", "name"), named(&stat, "counts", "source"), "{machine}");
        assert!(counts(&stat).iter().all(|count| count["scaled"] == false), "{machine}");
    }
}

#[test]
fn intervals_of_passes_add_up_too() {
    let list = AMOUNTS.map(|(source, _)| source).join(",");
    let stat = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        &list,
        "--workload",
        WORKLOAD,
        "--passes",
        "-I",
        "1",
        "-r",
        "2",
    ]);
    let intervals = stat["intervals"].as_array().expect("intervals");
    for (source, amount) in AMOUNTS {
        let rows = intervals.iter().flat_map(counts);
        let rows = rows.filter(|row| row["source"] == source);
        let sum: u64 = rows.filter_map(|row| row["value"].as_u64()).sum();
        assert_eq!(sum, 2 * amount, "{source}");
    }
    let runs: Vec<_> = intervals.iter().map(|one| (&one["run"], &one["pass"])).collect();
    assert_eq!(runs[0], (&1.into(), &1.into()));
    assert_eq!(runs[intervals.len() - 1], (&2.into(), &2.into()));
}

#[test]
fn a_thousand_sources_are_counted() {
    let list: Vec<String> = (1..=1000).map(|select| format!("r{select:04X}:u")).collect();
    let list = list.join(",");
    let common = ["--machine", "skylake", "stat", "-e", &list, "--workload", WORKLOAD];
    let stat = json(&[&common[..], &["--passes"]].concat());
    assert_eq!(counts(&stat).len(), 1000);
    // Instructions retired, by the select of the architectural event.
    assert_eq!(counts(&stat)[0xBF]["value"], 1_000_003);
    let text = halprof(&[&common[..], &["--passes"]].concat());
    assert_eq!(text.stdout.lines().filter(|line| line.contains(":u ")).count(), 1000);
    let refused = halprof(&[&["--json"], &common[..]].concat());
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (4, &"too-many-sources".into()));
}
