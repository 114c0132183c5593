//! Do the chosen periods give as many samples as wanted, and do passes sample everything?

use crate::cli::support::{column, folder, json, text};
use serde_json::{Value, json as value};

/// Records on one processor of a model; what is reported has as many samples.
fn record(options: &str, workload: &str) -> Value {
    let (_folder, path) = folder();
    let file = text(&path);
    let record =
        json(&format!("--machine skylake record -C 0 -o {file} {options} --workload {workload}"));
    assert_eq!(json(&format!("report {file}"))["samples"], record["samples"], "{options}");
    record
}

/// The periods, the samples, the seconds to which it was lengthened and the advice.
#[test]
fn a_calibrated_recording_has_ten_thousand_samples_or_a_thousand_a_second() {
    let (long, short) =
        ("cycles=20000000000,instructions=1000000", "cycles=2000000000,instructions=500000000");
    let few = &["too-few-samples"][..];
    for (options, workload, periods, samples, lengthened, advice) in [
        ("--calibrate -e TotalCycles", long, &[2_000_000][..], 10_000, None, &[][..]),
        (
            "--calibrate=1 -e TotalCycles:5000,TotalIssues",
            short,
            &[2_000_000, 500_000],
            2_000,
            None,
            few,
        ),
        ("--calibrate -e TotalCycles -d 12", long, &[1_200_000], 10_000, None, &[]),
        ("--calibrate -e TotalCycles -d 9.5", long, &[1_000_000], 9_500, None, &[]),
        ("--calibrate -e TotalCycles -d 4", long, &[1_000_000], 10_000, Some(10), &[]),
        ("--calibrate -e TotalCycles -d 0.5", long, &[1_000_000], 5_000, Some(5), few),
        // The workload is over after 2 s, and a rate is no number of samples.
        ("--calibrate -e TotalCycles -d 10", short, &[1_000_000], 2_000, None, few),
    ] {
        let record = record(options, workload);
        assert_eq!(column(&record["periods"], "used"), periods, "{options}");
        // The interrupts take some of the time.
        let taken = record["samples"].as_u64().expect("a number");
        assert!(taken <= samples && taken > samples - samples / 100, "{options}: {record}");
        let lengthened = lengthened.map(|seconds: u64| seconds * 1_000_000_000);
        assert_eq!(record["calibration"]["lengthened_ns"].as_u64(), lengthened, "{options}");
        assert_eq!(column(&record["advice"], "code"), advice, "{options}");
    }
}

#[test]
fn the_second_try_agrees_with_the_first() {
    let record = record("--calibrate -e TotalCycles", "cycles=20000000000,instructions=1000000");
    assert_eq!(record["calibration"]["settled"], true);
    let tries = record["calibration"]["tries"].as_array().expect("a list");
    assert_eq!(tries.len(), 2, "{record}");
    for one in tries {
        let numbers = ["events", "period", "samples"].map(|name| &one["sources"][0][name]);
        assert_eq!(numbers, [20_000_000_000_u64, 2_000_000, 10_000].map(Value::from).each_ref());
    }
}

#[test]
fn a_rate_is_kept_and_lengthens_nothing() {
    let kept = record("--rate 99 -e TotalCycles:u", "cycles=2000000000,instructions=1000000");
    assert_eq!(kept["samples"], 198, "{kept}");
    assert_eq!(kept["calibration"]["samples"], Value::Null);
    let short = record("--rate=9 -d 1 -e TotalCycles", "cycles=20000000000");
    assert_eq!(short["calibration"]["lengthened_ns"], Value::Null);
    let manual = record("--calibrate=0 -e TotalCycles:5000", "cycles=2000000");
    assert_eq!(manual["calibration"], Value::Null);
}

/// Six sources for four counters.
#[test]
fn sources_that_do_not_fit_are_sampled_whole_in_passes() {
    const SIX: &str = "BranchInstructions:40000,BranchMispredictions:40000,CacheMisses:40000,\
                       LLCReference:40000,r003C:40000,r00C0:40000";
    const WORK: &str = "instructions=30000000,cycles=50000000,branches=2000000,\
                        branch-misses=500000,llc-references=700000,llc-misses=300000";
    let passes = record(&format!("--passes -e {SIX}"), WORK);
    let first = column(&passes["periods"], "pass").into_iter().filter(|pass| **pass == 0);
    assert_eq!((&passes["passes"], first.count()), (&value!(2), 4));
    assert_eq!(passes["generated"], passes["samples"]);
    let events = [2_000_000, 500_000, 300_000, 700_000, 50_000_000, 30_000_000];
    let expected = events.iter().map(|events| events / 40_000).sum::<u64>();
    assert_eq!(passes["samples"], expected);
    let turns = record(&format!("-e {SIX}"), WORK);
    assert_eq!(turns["passes"], 1);
    assert!(turns["samples"].as_u64() < Some(expected), "{turns}");
    // Each pass is calibrated by itself.
    let six = SIX.replace(":40000", "");
    let work = WORK.replace("cycles=50000000", "cycles=5000000000");
    let record = record(&format!("--passes --calibrate=1 -e {six}"), &work);
    let tries = column(&record["calibration"]["tries"], "sources");
    let sources = tries.iter().filter_map(|sources| sources.as_array());
    assert_eq!((tries.len(), sources.map(Vec::len).sum::<usize>()), (2, 6));
}
