//! Is a user told how reliable a result is: why nothing could be counted, which processors are left
//! out, and how accurate an estimate is?

use crate::cli::support::{Ran, halprof, json, refused};
use serde_json::Value;

/// Nine sources for four counters.
const NINE: &str = "BranchInstructions,CacheMisses,r01C4,r02C4,r04C4,r08C4,r10C4,r20C4,r40C4";

fn recorded(arguments: &[&str]) -> (Ran, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8").to_owned();
    let ran = halprof(&[arguments, &["-o", &file]].concat());
    (ran, file, folder)
}

#[test]
fn a_masked_machine_says_why_and_what_to_do() {
    for (machine, bit) in
        [("hyperv-masked", "CPUID leaf 0x0A"), ("kvm-amd", "0x80000001 ECX bit 23")]
    {
        for command in [&["stat", "-e", "TotalCycles"][..], &["record"]] {
            let ran = halprof(&[&["--json", "--machine", machine], command].concat());
            let error = &ran.json()["error"];
            assert_eq!(ran.status, 4, "{machine} {command:?}");
            let told = |field: &str| error[field].as_str().expect("a text").to_owned();
            assert!(told("message").contains(bit), "{machine}: {error}");
            assert!(told("hint").contains("halprof doctor"), "{machine}: {error}");
        }
        let ran = halprof(&["--quiet", "--machine", machine, "stat"]);
        assert_eq!(ran.status, 0);
        let warned = ran.stderr.contains("only time") && ran.stderr.contains(bit);
        assert!(warned, "{machine}: {}", ran.stderr);
    }
    // If there are counters, an unknown name is just that.
    let ran = halprof(&["--machine", "skylake", "stat", "-e", "Nonsense"]);
    assert!(!ran.stderr.contains("only time"), "{}", ran.stderr);
}

#[test]
fn processors_that_are_left_out_are_told_where_it_is_sampled() {
    let hybrid = ["--quiet", "--machine", "hybrid", "record", "-e", "FixedTopdownSlots"];
    let (ran, _, _folder) = recorded(&hybrid);
    let told = "FixedTopdownSlots: processors 4-11 cannot count it and are left out";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let (ran, _, _folder) = recorded(&[&["--json"], &hybrid[..]].concat());
    let value = ran.json();
    // Where the source can be counted, it was counted all the time.
    assert_eq!(value["slices"], Value::Array(Vec::new()));
    let excluded = &value["excluded_cpus"][0];
    assert_eq!(excluded["source"], "FixedTopdownSlots");
    assert_eq!(excluded["processors"], "4-11");
}

#[test]
fn the_source_that_a_processor_lacks_is_blamed() {
    let ran = halprof(&["--machine", "hybrid", "stat", "-g", "FixedTopdownSlots,TotalIssues"]);
    assert_eq!(ran.status, 4);
    let blamed = ran.stderr.contains("error: FixedTopdownSlots: ");
    assert!(blamed, "{}", ran.stderr);
}

#[test]
fn repeated_estimates_keep_their_bound() {
    let work = "instructions=1000000000,cycles=1500000000,branches=200000000,seed=3";
    let stat = ["--machine", "skylake", "stat", "-C", "0", "-e", NINE, "-r", "3"];
    let stat = [&stat[..], &["--rotate", "1", "--workload", work]].concat();
    let value = json(&stat);
    let branches = &value["counts"][0];
    assert_eq!(branches["scaled"], true);
    let number = |field: &str| branches[field].as_f64().expect("a number");
    let miss = (number("value") - 2e8).abs();
    assert!(miss <= number("error"), "{branches}");
    // The runs of a model are identical, which says nothing about the error of each.
    assert_eq!(branches["repeats"]["confidence"], 0.0);
    let text = halprof(&stat).stdout;
    let line = text.lines().find(|line| line.contains("BranchInstructions"));
    let line = line.expect("a line");
    assert!(line.contains('±') && !line.contains("±0.00 %"), "{line}");
}

/// A recording whose sources took turns: an export of one source agrees with `report`.
#[test]
fn an_export_is_scaled_as_a_report_is() {
    let sources = NINE.replace(',', ":20000,") + ":20000";
    let (ran, file, _folder) = recorded(&["--machine", "skylake", "record", "-e", &sources]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let report = json(&["report", &file]);
    let of_source = &report["by_source"][0];
    assert_eq!(of_source["source"], "BranchInstructions");
    assert_eq!(of_source["scaled"], true);
    let export = ["export", &file, "-f", "folded", "--source", "BranchInstructions", "-o", "-"];
    let ran = halprof(&export);
    assert!(ran.stderr.contains("estimates for all of it"), "{}", ran.stderr);
    let events = ran.stdout.lines().filter_map(|line| line.rsplit(' ').next());
    let events: u64 = events.filter_map(|events| events.parse::<u64>().ok()).sum();
    let expected = of_source["events"].as_u64().expect("a number");
    // Each place is rounded separately.
    assert!(events.abs_diff(expected) < expected / 100_000, "{events} and {expected}");
}

#[test]
fn a_recording_without_options_takes_a_thousand_samples_a_second_and_says_nothing_of_it() {
    let (ran, _, _folder) = recorded(&["--json", "--machine", "skylake", "record"]);
    let value = ran.json();
    // The time-stamp counter of a model ticks once per nanosecond, as its cores do.
    assert_eq!(value["periods"][0]["used"], 1_000_000);
    assert_eq!(value["advice"], Value::Array(Vec::new()));
    let busy = value["elapsed_ns"].as_u64().expect("a number") / 1_000_000 * 8;
    let samples = value["samples"].as_u64().expect("a number");
    assert!(samples.abs_diff(busy) <= busy / 20, "{samples} of {busy}");
    let (ran, _, _folder) = recorded(&["--machine", "skylake", "record"]);
    for word in ["warning", "advice"] {
        assert!(!ran.stderr.contains(word), "{}", ran.stderr);
    }
}

#[test]
fn what_would_be_ignored_is_refused() {
    for arguments in [
        &["-e", "TotalIssues:5000", "--rate", "100"][..],
        &["--calibrate", "--rate", "5"],
        &["--passes", "--rotate", "5"],
    ] {
        refused(&[&["record"], arguments].concat(), 2, "usage");
    }
}

#[test]
fn recordings_of_different_sources_are_not_compared() {
    let (_, cycles, _one) = recorded(&["record", "-e", "TotalCycles"]);
    let (_, issues, _other) = recorded(&["record", "-e", "TotalIssues"]);
    refused(&["report", &cycles, "--diff", &issues], 2, "usage");
    let same = json(&["report", &cycles, "--diff", &cycles]);
    for row in same["tables"][0]["parts"][0]["rows"].as_array().expect("rows") {
        assert_eq!(row["clear"], false);
    }
}

#[test]
fn a_model_tells_its_scope() {
    let scope = json(&["--machine", "skylake", "stat", "-C", "1-2"])["scope"].clone();
    let expected = serde_json::json!({
        "processors": [1, 2],
        "program": null,
        "pinned": false,
        "exit_status": null,
        "left_running": []
    });
    assert_eq!(scope, expected);
}

/// 2^62 events are counted at once, but every interrupt of a sampled source is taken for itself.
#[test]
fn a_workload_whose_sampling_would_not_end_is_refused() {
    let machines = json(&["machines"]);
    let machines = machines["machines"].as_array().expect("a list");
    for machine in machines {
        let name = machine["name"].as_str().expect("a name");
        for workload in ["cycles=4611686018427387904", "branches=4611686018427387904"] {
            let (ran, ..) = recorded(&["--machine", name, "record", "--workload", workload]);
            assert!(matches!(ran.status, 2 | 4), "{name}: {}", ran.stderr);
        }
    }
    let huge = ["--workload", "cycles=4611686018427387904"];
    for (command, status) in
        [(&["record", "-o", "/dev/null"][..], 2), (&["stat", "--by", "process"], 2), (&["stat"], 0)]
    {
        let ran = halprof(&[&["--machine", "fam10h"], command, &huge].concat());
        assert_eq!(ran.status, status, "{}", ran.stderr);
        let told = ran.stderr.contains("a model samples at most 1,000,000,000,000");
        assert_eq!(told, status == 2, "{}", ran.stderr);
    }
    let short = [&["--machine", "fam10h", "record", "-d", "0.01"], &huge[..]].concat();
    let (ran, ..) = recorded(&short);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}
