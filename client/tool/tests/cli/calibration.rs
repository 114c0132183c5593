//! Do the chosen periods give as many samples as wanted, and do passes sample everything?

use crate::cli::support::{halprof, json, refused};
use serde_json::Value;

/// Records on one processor of a model.
fn record(arguments: &[&str], workload: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    let file = path.to_str().expect("UTF-8");
    let whole = ["--machine", "skylake", "record", "-C", "0", "-o", file];
    let work = ["--workload", workload];
    let record = json(&[&whole[..], arguments, &work].concat());
    let report = json(&["report", file]);
    assert_eq!(report["samples"], record["samples"]);
    record
}

fn codes(record: &Value) -> Vec<&str> {
    let advice = record["advice"].as_array().expect("a list");
    let codes = advice.iter().map(|advice| advice["code"].as_str());
    codes.map(|code| code.expect("a code")).collect()
}

#[test]
fn a_long_run_is_given_ten_thousand_samples() {
    let workload = "cycles=20000000000,instructions=1000000";
    let record = record(&["--calibrate", "-e", "TotalCycles"], workload);
    assert_eq!(record["periods"][0]["used"], 2_000_000, "{record}");
    assert_eq!(record["samples"], 10_000);
    assert_eq!(codes(&record), [""; 0]);
    let tries = record["calibration"]["tries"].as_array().expect("a list");
    assert_eq!(tries.len(), 2, "the second agrees with the first");
    assert_eq!(record["calibration"]["settled"], true);
    for one in tries {
        let source = &one["sources"][0];
        assert_eq!(source["events"], 20_000_000_000u64);
        assert_eq!((&source["period"], &source["samples"]), (&2_000_000.into(), &10_000.into()));
    }
}

#[test]
fn a_short_run_is_given_a_thousand_samples_a_second() {
    let workload = "cycles=2000000000,instructions=500000000";
    let both = "TotalCycles:5000,TotalIssues";
    let calibrated = record(&["--calibrate=1", "-e", both], workload);
    let samples = |index: usize| calibrated["periods"][index]["used"].clone();
    assert_eq!([samples(0), samples(1)], [2_000_000, 500_000]);
    assert_eq!(calibrated["samples"], 2_000);
    assert_eq!(codes(&calibrated), ["too-few-samples"]);
    assert_eq!(calibrated["calibration"]["tries"].as_array().map(Vec::len), Some(1));
    let manual = record(&["--calibrate=0", "-e", both], workload);
    assert_eq!(manual["calibration"], Value::Null);
    assert_eq!(manual["periods"][0]["used"], 5_000);
    assert_eq!(codes(&manual), ["too-many-samples"]);
}

/// A processor that is always busy gives a thousand samples a second.
#[test]
fn a_run_of_too_few_samples_is_lengthened() {
    let workload = "cycles=20000000000,instructions=1000000";
    for (duration, lengthened_s, samples) in [
        ("12", None, 10_000),
        ("9.5", None, 9_500),
        ("4", Some(10), 10_000),
        ("0.5", Some(5), 5_000),
    ] {
        let options = ["--calibrate", "-e", "TotalCycles", "-d", duration];
        let record = record(&options, workload);
        let lengthened_ns = lengthened_s.map(|seconds: u64| seconds * 1_000_000_000);
        let told = &record["calibration"]["lengthened_ns"];
        assert_eq!(told.as_u64(), lengthened_ns, "{duration}: {record}");
        // The interrupts take some of the time.
        let taken = record["samples"].as_u64().expect("a number");
        assert!(taken <= samples && taken > samples - samples / 100, "{record}");
        let few = if samples < 9_000 { &["too-few-samples"][..] } else { &[] };
        assert_eq!(codes(&record), few, "{duration}");
    }
    // The workload is over after 2 s, and a rate is no number of samples.
    for (options, workload) in
        [(["--calibrate", "-d", "10"], "cycles=2000000000"), (["--rate=9", "-d", "1"], workload)]
    {
        let options = [&options[..], &["-e", "TotalCycles"]].concat();
        let record = record(&options, workload);
        let told = &record["calibration"]["lengthened_ns"];
        assert_eq!(told, &Value::Null, "{options:?}");
    }
}

#[test]
fn a_rate_is_kept() {
    let workload = "cycles=2000000000,instructions=1000000";
    let kept = record(&["--rate", "99", "-e", "TotalCycles:u"], workload);
    assert_eq!(kept["samples"], 198, "{kept}");
    assert_eq!(kept["calibration"]["samples"], Value::Null);
    for rate in ["0", "-1", "nan", "1e10"] {
        refused(&["record", &format!("--rate={rate}")], 2, "usage");
    }
}

#[test]
fn what_is_tried_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    let file = path.to_str().expect("UTF-8");
    let ran = halprof(&["record", "--calibrate", "-e", "TotalIssues", "-o", file]);
    for part in ["try 1", "try 2", "a period of", "samples are fewer than"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    let work = ["-e", "TotalCycles", "--workload", "cycles=20000000000"];
    let options = ["record", "--calibrate", "-d", "0.05", "-C", "0", "-o", file];
    let ran = halprof(&[&options[..], &work].concat());
    let told = "sampling takes 0.500000 s instead of 0.050000 s, at most 10 times as long";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
}

/// Six sources for four counters.
const SIX: &str = "BranchInstructions:40000,BranchMispredictions:40000,CacheMisses:40000,\
                   LLCReference:40000,r003C:40000,r00C0:40000";
const WORK: &str = "instructions=30000000,cycles=50000000,branches=2000000,branch-misses=500000,\
                    llc-references=700000,llc-misses=300000";

#[test]
fn sources_that_do_not_fit_are_sampled_whole_in_passes() {
    let passes = record(&["--passes", "-e", SIX], WORK);
    assert_eq!(passes["passes"], 2, "{passes}");
    let periods = passes["periods"].as_array().expect("a list");
    let pass = |index: usize| periods[index]["pass"].as_u64().expect("a number");
    let passes_of: Vec<u64> = (0..6).map(pass).collect();
    assert_eq!(passes_of.iter().filter(|&&pass| pass == 0).count(), 4);
    assert_eq!(passes["generated"], passes["samples"]);
    let events = [2_000_000, 500_000, 300_000, 700_000, 50_000_000, 30_000_000u64];
    let expected = events.iter().map(|events| events / 40_000).sum();
    assert_eq!(passes["samples"].as_u64(), Some(expected));
    let turns = record(&["-e", SIX], WORK);
    assert_eq!(turns["passes"], 1);
    assert!(turns["samples"].as_u64() < Some(expected), "{turns}");
}

#[test]
fn each_pass_is_calibrated_by_itself() {
    let six = SIX.replace(":40000", "");
    let work = WORK.replace("cycles=50000000", "cycles=5000000000");
    let record = record(&["--passes", "--calibrate=1", "-e", &six], &work);
    let tries = record["calibration"]["tries"].as_array().expect("a list");
    assert_eq!(tries.len(), 2);
    let sources: usize =
        tries.iter().filter_map(|one| one["sources"].as_array().map(Vec::len)).sum();
    assert_eq!(sources, 6);
}
