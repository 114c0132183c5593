//! Does `stat` count exactly what the workload did, or state a bound that holds? `tests/cases` has what
//! one run shows.

use crate::cli::support::{column, halprof, json, offered, row};
use serde_json::Value;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The names of all models.
pub(crate) fn models() -> Vec<String> {
    let machines = json("machines");
    let names = column(&machines["machines"], "name");
    names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
}

#[test]
fn every_model_counts_something_by_default() {
    for name in models() {
        let stat = json(&format!("--machine {name} stat"));
        let scaled = column(&stat["counts"], "scaled");
        assert!(!scaled.is_empty() && scaled.iter().all(|scaled| **scaled == false), "{name}");
    }
}

/// Two general counters, five sources: those of a metric run together, so that their ratio is exact
/// if the workload is steady.
#[test]
fn a_metric_that_takes_turns_is_a_group() {
    let work = "instructions=90000000,cycles=60000000,branches=9000000,branch-misses=90000,seed=7";
    let stat = json(&format!(
        "--machine pentium3 stat -M ipc,branch-miss-rate --rotate 1 --workload {work}"
    ));
    assert_eq!(column(&stat["counts"], "group"), [1, 1, 2, 2]);
    let running = column(&stat["counts"], "running_ns");
    assert_eq!((running[0], running[2]), (running[1], running[3]));
    for (metric, truth) in [("ipc", 1.5), ("branch-miss-rate", 1.0)] {
        let figure = row(&stat["derived"], "metric", metric);
        let miss = (number(&figure["value"]) - truth).abs();
        assert!(miss > 0.0 && miss <= number(&figure["error"]), "{metric}: {figure}");
    }
}

#[test]
fn the_list_of_metrics_is_true() {
    for machine in ["skylake", "hybrid", "zen4", "pentium"] {
        let list = json(&format!("--machine {machine} list --metrics"));
        for metric in list["metrics"].as_array().expect("a list") {
            let id = metric["id"].as_str().expect("an id");
            let ran = halprof(&format!("--machine {machine} stat -M {id}"));
            let status = if metric["supported"] == true { 0 } else { 4 };
            assert_eq!(ran.status, status, "{machine} {id}: {}", ran.stderr);
        }
    }
}

/// The names that both types of core know, counted on one of them as that one counts them.
#[test]
fn every_common_event_is_counted_on_one_type_alone() {
    let list = json("--machine hybrid list --events --all");
    let rows = list["sources"].as_array().expect("a list").iter();
    let common = rows.filter(|row| {
        let everywhere = row["processors"].as_array().is_some_and(Vec::is_empty);
        row["event"] == true && row["supported"] == true && everywhere
    });
    let common: Vec<&str> = common.filter_map(|row| row["name"].as_str()).collect();
    assert!(common.len() > 40, "{}", common.len());
    for (processors, first) in [("0-3", 0), ("4-11", 4)] {
        for name in &common {
            let stat = json(&format!(
                "--machine hybrid stat -e {name} -C {processors} --workload {name}=1234,processors={first}"
            ));
            assert_eq!(column(&stat["counts"], "value"), [1234], "{name}");
        }
    }
}

/// `list` shows what any core counts, as the cores that count it do.
#[test]
fn what_only_some_cores_count_is_listed() {
    let list = json("--machine hybrid list --events");
    let rows = list["sources"].as_array().expect("a list");
    let row = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("{name} is not listed"))
    };
    for (name, without) in [
        // Skymont's alone, by its list and by CPUID leaf 0x23.
        ("ARITH.FPDIV_OCCUPANCY", "0-3"),
        ("FixedTopdownBadSpeculation", "0-3"),
        // Lion Cove's alone.
        ("ASSISTS.ANY", "4-11"),
    ] {
        let row = row(name);
        assert_eq!((&row["supported"], &row["sampling"]), (&true.into(), &true.into()), "{name}");
        let processors = serde_json::json!([{ "processors": without, "supported": false }]);
        assert_eq!(row["processors"], processors, "{name}");
        let said = offered("bash", &format!("--machine hybrid stat -e {name}"));
        assert!(said.lines().any(|said| said == name), "{name}: {said}");
    }
    for table in ["arrowlake_lioncove", "arrowlake_skymont"] {
        let file = format!("{}/../events/data/events/{table}.csv", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).expect("a table");
        // All that no extra register restricts.
        for line in text.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            if cells[10].is_empty() && cells[8] != "1" {
                assert_eq!(row(cells[0])["supported"], true, "{table} {}", cells[0]);
            }
        }
    }
}

#[test]
fn all_is_every_source_that_list_shows() {
    for machine in ["skylake", "zen4", "hybrid", "pentium4", "hyperv-masked"] {
        let list = json(&format!("--machine {machine} list"));
        let stat = json(&format!("--machine {machine} stat -e all --passes"));
        let counted = column(&stat["counts"], "source");
        assert_eq!(column(&list["sources"], "name"), counted, "{machine}");
        let scaled = column(&stat["counts"], "scaled");
        assert!(scaled.iter().all(|scaled| **scaled == false), "{machine}");
    }
}

#[test]
fn intervals_of_passes_add_up_too() {
    let amounts = [("BranchInstructions", 200_001), ("BranchMispredictions", 5003)];
    let more = "LLCReference,LLCMisses,BranchInstructionRetired,BranchMispredictsRetired";
    let work = "cycles=2000005,branches=200001,branch-misses=5003";
    let stat = json(&format!(
        "--machine skylake stat -e BranchInstructions,BranchMispredictions,{more} --workload {work} --passes -I 1 -r 2"
    ));
    let intervals = stat["intervals"].as_array().expect("intervals");
    for (source, amount) in amounts {
        let rows = intervals.iter().flat_map(|one| one["counts"].as_array().expect("counts"));
        let values = rows.filter(|row| row["source"] == source).map(|row| row["value"].as_u64());
        assert_eq!(values.flatten().sum::<u64>(), 2 * amount, "{source}");
    }
    let runs: Vec<_> = intervals.iter().map(|one| (&one["run"], &one["pass"])).collect();
    assert_eq!(runs[0], (&1.into(), &1.into()));
    assert_eq!(runs[intervals.len() - 1], (&2.into(), &2.into()));
}
