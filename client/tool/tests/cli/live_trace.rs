//! Is what Windows' tracing delivers counted and sampled as what it writes to a file, on a model?

use crate::cli::support::{folder, halprof, json, text};
use serde_json::Value;
use std::collections::BTreeMap;

const WORKLOAD: &str = "--workload cycles=30000000,instructions=10000000";

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn values(counts: &Value) -> BTreeMap<String, u64> {
    let value = |row: &Value| (row["source"].to_string(), row["value"].as_u64().expect("a number"));
    list(counts).iter().map(value).collect()
}

/// Each interval has what the model counted in it, whatever the length of the last one.
#[test]
fn intervals_are_exact_and_add_up_to_the_total() {
    for interval in ["10", "7"] {
        let line = format!(
            "--machine core2,backend=etw stat -I {interval} -e cycles,instructions {WORKLOAD}"
        );
        let result = json(&line);
        let intervals = list(&result["intervals"]);
        assert!(intervals.len() >= 3, "{result}");
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for one in intervals {
            for (source, value) in values(&one["counts"]) {
                *sums.entry(source).or_default() += value;
            }
        }
        assert_eq!(sums, values(&result["counts"]));
        let cycles = values(&result["counts"])["\"TotalCycles\""];
        assert_eq!(cycles, 30_000_000);
        let milliseconds: u64 = interval.parse().expect("a number");
        let first = values(&intervals[0]["counts"])["\"TotalCycles\""];
        assert_eq!(first, milliseconds * 1_000_000);
        // The lines of a stream are the same.
        let lines = halprof(&format!("{line} --jsonl")).stdout;
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let (last, streamed) = lines.split_last().expect("a result");
        assert_eq!(last["counts"], result["counts"]);
        let starts = |all: &[Value]| -> Vec<Value> {
            all.iter().map(|one| one["start_ns"].clone()).collect()
        };
        assert_eq!(starts(streamed), starts(intervals));
    }
}

/// What threads count in intervals adds up to what they count in all.
#[test]
fn the_intervals_of_threads_add_up() {
    let line = format!("--machine skylake,backend=etw stat -I 10 --by thread {WORKLOAD}");
    let result = json(&line);
    let sums = |rows: &Value, sums: &mut BTreeMap<String, u64>| {
        for row in list(rows) {
            let key = format!("{} {}", row["thread"], row["source"]);
            *sums.entry(key).or_default() += row["value"].as_u64().expect("a number");
        }
    };
    let (mut parts, mut all) = (BTreeMap::new(), BTreeMap::new());
    for interval in list(&result["intervals"]) {
        sums(&interval["by_thread"], &mut parts);
    }
    sums(&result["by_thread"], &mut all);
    assert_eq!(parts, all);
    assert!(all.len() > 9, "{all:?}");
}

#[test]
fn an_exposition_has_the_counts_of_the_result() {
    let (_folder, path) = folder();
    let file = text(&path);
    let line = format!(
        "--machine core2,backend=etw stat -I 10 -e cycles --openmetrics {file} --json {WORKLOAD}"
    );
    let result = json(&line.replace(" --json", ""));
    let told = std::fs::read_to_string(&path).expect("a file");
    let events = told.lines().filter(|line| line.starts_with("halprof_events_total{"));
    let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok());
    let sum: u64 = events.filter_map(value).sum();
    assert_eq!(sum, result["counts"][0]["value"].as_u64().expect("a number"));
    assert!(told.contains("interface=\"ETW\"") && told.contains("modelled=\"true\""), "{told}");
}

#[test]
fn one_interval_of_top_has_rates_and_where_samples_fall() {
    let workload = "--workload cycles=1000000,instructions=1000000,processors=all";
    let machine = "--machine skylake,processors=2,backend=etw";
    let counted = json(&format!("{machine} top --once -I 100 -e cycles {workload}"));
    let rate = counted["counts"][0]["per_second"].as_f64().expect("a rate");
    assert!((1.9e9..2.1e9).contains(&rate), "{counted}");
    let sampled =
        json(&format!("{machine} top --once -I 100 -e cycles:100000 --by process {workload}"));
    let rows = list(&sampled["tables"][0]["parts"][0]["rows"]);
    let names: Vec<&Value> = rows.iter().map(|row| &row["process_name"]).collect();
    assert_eq!(names.len(), 3, "{sampled}");
    let events: u64 = rows.iter().filter_map(|row| row["events"].as_u64()).sum();
    // Some of the samples are of idle threads, or too near to a switch.
    assert!((50_000_000..=200_000_000).contains(&events), "{events}");
    let by_module = json(&format!("{machine} top --once -I 100 --by module {workload}"));
    let rows = list(&by_module["tables"][0]["parts"][0]["rows"]);
    assert!(rows.iter().any(|row| row["module"] == "ntoskrnl.exe"), "{by_module}");
}
