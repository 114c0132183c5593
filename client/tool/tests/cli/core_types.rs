//! Are cores of different types counted separately, and together as before?

use crate::cli::support::{halprof, json};
use serde_json::Value;
use std::collections::BTreeMap;

/// Processors 0 to 3 are performance cores, 4 to 11 efficiency cores.
const ON_BOTH: &str = "instructions=1000,cycles=2000,processors=2-5";

fn rows(stat: &Value) -> Vec<(Option<&str>, u64)> {
    let counts = stat["counts"].as_array().expect("a list").iter();
    counts.map(|row| (row["core_type"].as_str(), row["value"].as_u64().expect("a count"))).collect()
}

fn on_hybrid(arguments: &[&str]) -> Vec<String> {
    let common = ["--machine", "hybrid", "stat", "-e", "TotalIssues", "--workload", ON_BOTH];
    [&common, arguments].concat().iter().map(|&argument| argument.to_owned()).collect()
}

fn run_json(arguments: &[&str]) -> Value {
    let arguments = on_hybrid(arguments);
    json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn programs_get_sums_unless_they_ask() {
    assert_eq!(rows(&run_json(&[])), [(None, 4000)]);
    let apart = run_json(&["--per-core-type"]);
    assert_eq!(rows(&apart), [(Some("performance"), 2000), (Some("efficiency"), 2000)]);
    // With a single type there is nothing to separate.
    assert_eq!(rows(&run_json(&["--per-core-type", "-C", "0-3"])), [(None, 2000)]);
}

/// The sum would pass for that of all processors.
#[test]
fn values_for_programs_say_which_processors_are_missing() {
    let sources = "UnhaltedReferenceCycles,TopdownSlots:u";
    let stat = ["--machine", "hybrid", "stat", "-e", sources];
    let told = "TopdownSlots:u: processors 4-11 cannot count it and are left out";
    for more in [&["--csv"][..], &["--csv", "-I", "1"], &["--csv", "--per-cpu"]] {
        let ran = halprof(&[&stat, more].concat());
        assert!(ran.stderr.contains(told), "{more:?}: {}", ran.stderr);
        let mut lines = csv::Reader::from_reader(ran.stdout.as_bytes());
        let lines = lines.deserialize().map(|line| line.expect("columns"));
        let lines: Vec<BTreeMap<String, String>> = lines.collect();
        let (first, last) = (&lines[0], &lines[lines.len() - 1]);
        assert!(first["note"].contains("crystal clock"), "{first:?}");
        assert_eq!(last["requested"], "TopdownSlots:u");
        if !more.contains(&"--per-cpu") {
            assert_eq!((&*first["excluded_cpus"], &*last["excluded_cpus"]), ("", "4-11"));
        }
    }
    let warnings = json(&stat)["warnings"].to_string();
    assert!(warnings.contains(told), "{warnings}");
}

/// An event that each type counts in its own way is left out of none.
#[test]
fn a_recording_says_which_processors_are_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (file, page) = (at("a.rec"), at("a.html"));
    let sources = "TopdownSlots:1000,BR_INST_RETIRED.COND:1000";
    let record = ["record", "-e", sources, "-o", &file, "--workload", ON_BOTH];
    let ran = halprof(&[&["--machine", "hybrid"], &record[..]].concat());
    let told = "TopdownSlots: processors 4-11 cannot count it and are left out";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert!(!ran.stderr.contains("COND: processors"), "{}", ran.stderr);
    let report = json(&["report", &file]);
    let left_out = serde_json::json!([{"source": "TopdownSlots", "processors": "4-11"}]);
    assert_eq!(report["excluded_cpus"], left_out);
    let ran = halprof(&["report", &file, &file, "--csv"]);
    assert_eq!(ran.stderr.matches(told).count(), 1, "{}", ran.stderr);
    let export = ["export", &file, "--format", "flamegraph", "-o", &page];
    let ran = halprof(&[&export[..], &["--source", "TopdownSlots"]].concat());
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let page = std::fs::read_to_string(&page).expect("written");
    assert!(page.contains(told), "{page}");
}

#[test]
fn processors_and_types_exclude_each_other() {
    let ran = halprof(&["stat", "--per-cpu", "--per-core-type"]);
    assert_eq!(ran.status, 2);
}

#[test]
fn what_only_other_processors_count_is_told_with_them() {
    for (arguments, told) in [
        (
            &["check", "-C", "4-11", "-e", "FixedTopdownSlots"][..],
            "processors 4-11 cannot count it; 0-3 can",
        ),
        (
            &["stat", "-C", "4-11", "-e", "FixedTopdownSlots"],
            "processors 4-11 cannot count it; 0-3 can",
        ),
        (
            &["stat", "-g", "FixedTopdownSlots,TotalIssues"],
            "processors 4-11 cannot count it; 0-3 can",
        ),
    ] {
        let ran = halprof(&[&["--machine", "hybrid"], arguments].concat());
        assert_eq!(ran.status, 4, "{}", ran.stderr);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
        assert!(ran.stderr.contains("`-C 0-3`"), "{}", ran.stderr);
    }
    let group = ["--machine", "hybrid", "check", "-g", "FixedTopdownSlots,TotalIssues"];
    let ran = halprof(&[&["--width", "0"], &group[..]].concat());
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    let told = "FixedTopdownSlots: processors 4-11 cannot count it; 0-3 can";
    assert!(ran.stdout.contains(told), "{}", ran.stdout);
    assert_eq!(json_of(&group)["reason"], "does-not-fit");
}

/// The result of a command that need not succeed.
fn json_of(arguments: &[&str]) -> Value {
    halprof(&[&["--json"], arguments].concat()).json()
}

fn metric(name: &str, arguments: &[&str]) -> Vec<Value> {
    let common = ["--machine", "hybrid", "stat", "-M", name];
    let stat = json(&[&common, arguments].concat());
    stat["derived"].as_array().expect("a list").clone()
}

/// Only performance cores count slots, but both types count what retires.
#[test]
fn a_ratio_is_of_counts_from_the_same_processors() {
    let apart = metric("retiring", &["--per-core-type"]);
    let value = apart[0]["value"].as_f64().expect("a value");
    assert_eq!(apart[0]["core_type"], "performance");
    assert!(0.0 < value && value < 100.0, "{value}");
    let [chosen] = &metric("retiring", &["-C", "0-3"])[..] else {
        panic!("one figure");
    };
    assert_eq!(chosen["value"].as_f64(), Some(value));
    let [figure] = &metric("retiring", &[])[..] else {
        panic!("one figure");
    };
    assert_eq!(figure["value"], Value::Null);
    let reason = figure["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("its sources are not counted on the same processors")
            && reason.contains("--per-core-type computes it"),
        "{reason}"
    );
    let [ipc] = &metric("ipc", &[])[..] else {
        panic!("one figure");
    };
    assert!(ipc["value"].as_f64().is_some_and(|ipc| ipc > 0.0), "{ipc}");
    let each = metric("retiring", &["--per-cpu"]);
    for (processor, figure) in each.iter().enumerate() {
        assert_eq!(figure["processor"], processor);
        let counted = figure["value"].as_f64() == Some(value);
        assert_eq!(counted, processor < 4, "{figure}");
    }
    assert_eq!(each.len(), 12);
}

/// One figure for two kinds of core would be of neither.
#[test]
fn figures_per_processor_are_apart() {
    let work = ["--workload", ON_BOTH, "-e", "TotalIssues,TotalCycles"];
    let stat = ["--machine", "hybrid", "stat", "--per-cpu", "-C", "3-4"];
    let common = [&stat[..], &work].concat();
    let types = ["performance", "efficiency"];
    let stat = json(&common);
    let of = |list: &Value, name: &str| -> Vec<Value> {
        let rows = list.as_array().expect("a list").iter();
        rows.map(|row| row[name].clone()).collect()
    };
    assert_eq!(of(&stat["derived"], "core_type"), types);
    assert_eq!(of(&stat["derived"], "value"), [0.5, 0.5]);
    assert_eq!(of(&stat["counts"], "core_type")[..2], types);
    let asked = json(&[&common[..], &["-M", "ipc"]].concat())["derived"].clone();
    assert_eq!(of(&asked, "processor"), [3, 4]);
    assert_eq!(of(&asked, "value"), [0.5, 0.5]);
    let csv = halprof(&[&common[..], &["--csv", "-M", "ipc"]].concat()).stdout;
    let mut lines = csv::Reader::from_reader(csv.as_bytes());
    let lines = lines.deserialize().map(|line| line.expect("columns"));
    let lines: Vec<BTreeMap<String, String>> = lines.collect();
    let cells = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(cells("processor"), ["3", "4"].repeat(3));
    assert_eq!(cells("core_type"), types.repeat(3));
    let text = halprof(&[&common[..], &["-M", "ipc"]].concat()).stdout;
    let lines = text.lines().filter(|line| line.contains("instructions per cycle"));
    assert_eq!(lines.count(), 2, "{text}");
}

/// The names that both types of core know, counted on one of them as that one counts them.
#[test]
fn every_common_event_is_counted_on_one_type_alone() {
    let list = json(&["--machine", "hybrid", "list", "--events", "--all"]);
    let rows = list["sources"].as_array().expect("a list").iter();
    let everywhere = |row: &&Value| {
        row["event"] == true
            && row["supported"] == true
            && row["processors"] == Value::Array(vec![])
    };
    let common: Vec<&str> =
        rows.filter(everywhere).map(|row| row["name"].as_str().expect("a name")).collect();
    assert!(common.len() > 40, "{}", common.len());
    for (processors, first) in [("0-3", 0), ("4-11", 4)] {
        for name in &common {
            let work = format!("{name}=1234,processors={first}");
            let stat = ["stat", "-e", name, "-C", processors, "--workload", &work];
            let counts = &json(&[&["--machine", "hybrid"], &stat[..]].concat())["counts"];
            let counts: Vec<_> = counts.as_array().into_iter().flatten().collect();
            assert_eq!(counts.len(), 1, "{name}: {counts:?}");
            assert_eq!(counts[0]["value"], 1234, "{name}");
        }
    }
}

#[test]
fn an_event_of_both_types_is_measured_on_one_by_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    let event = ["-e", "BR_INST_RETIRED.COND", "-C", "4-11"];
    for command in
        [&["check"][..], &["stat"], &["record", "-o", file], &["top", "--once", "-I", "50"]]
    {
        let ran = halprof(&[&["--machine", "hybrid"], command, &event[..]].concat());
        assert_eq!(ran.status, 0, "{command:?}: {}", ran.stderr);
    }
    let stat = json(&["--machine", "hybrid", "stat", "--topdown", "-C", "4-11"]);
    let rows = stat["topdown"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["value"].is_f64()), "{stat}");
}

/// What only the other type counts says so, also where it is one of several raw selects.
#[test]
fn a_vendor_event_of_the_other_type_is_told() {
    let stat = ["stat", "-C", "0-3", "-e", "UOPS_ISSUED.ANY,TOPDOWN_BE_BOUND.ALL_P"];
    let ran = halprof(&[&["--machine", "hybrid"], &stat[..]].concat());
    let told = "TOPDOWN_BE_BOUND.ALL_P: processors 0-3 cannot count it; 4-11 can";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert_eq!(ran.status, 4);
}
