//! Do metrics follow from the counts, whoever defines them, and are errors in them reported?

use crate::cli::support::{halprof, json, refused};
use serde_json::Value;

const WORKLOAD: &str = "instructions=3000000,cycles=1500000,branches=600000,branch-misses=3000,llc-references=9000,llc-misses=900,user=80";

fn figure<'a>(stat: &'a Value, metric: &str) -> &'a Value {
    let derived = stat["derived"].as_array().expect("a list");
    let mut found = derived.iter().filter(|figure| figure["metric"] == metric);
    let first = found.next().unwrap_or_else(|| panic!("no {metric}: {stat}"));
    assert!(found.next().is_none(), "{metric} twice");
    first
}

fn value(stat: &Value, metric: &str) -> f64 {
    figure(stat, metric)["value"].as_f64().expect("a number")
}

fn on_skylake(arguments: &[&str]) -> Value {
    let machine = ["--machine", "skylake,processors=1", "stat", "--workload", WORKLOAD];
    json(&[&machine, arguments].concat())
}

#[test]
fn what_is_asked_for_is_counted_and_shown() {
    let stat = on_skylake(&["-M", "ipc,branch-mpki", "ghz"]);
    assert_eq!(stat["derived"].as_array().map(Vec::len), Some(3));
    assert!((value(&stat, "ipc") - 2.0).abs() < 1e-9);
    assert!((value(&stat, "branch-mpki") - 1.0).abs() < 1e-9);
    // Modelled time follows the most frequent event: 3 ms for 1.5 million cycles.
    assert!((value(&stat, "ghz") - 0.5).abs() < 1e-9);
    let counts = stat["counts"].as_array().expect("a list").iter();
    let sources: Vec<_> = counts.filter_map(|count| count["source"].as_str()).collect();
    assert_eq!(sources, ["FixedInstructions", "FixedCycles", "BranchMispredictions"]);
}

#[test]
fn a_metric_may_be_of_one_mode() {
    let stat = on_skylake(&["-M", "branch-mpki:u,kernel-share"]);
    assert!((value(&stat, "kernel-share") - 20.0).abs() < 1e-9);
    let figure = figure(&stat, "branch-mpki");
    assert_eq!((&figure["value"], &figure["filter"]), (&1.0.into(), &"u".into()));
}

#[test]
fn sources_that_are_counted_anyway_are_taken() {
    let stat = on_skylake(&["-e", "TotalIssues,TotalCycles", "-M", "ipc"]);
    assert_eq!(stat["counts"].as_array().map(Vec::len), Some(2));
    assert!((value(&stat, "ipc") - 2.0).abs() < 1e-9);
}

/// A source that was never on a counter is not shown as zero.
#[test]
fn there_is_no_figure_of_what_was_not_counted() {
    let stat = on_skylake(&["-e", "{FixedInstructions:u},{FixedInstructions:k}"]);
    assert_eq!(stat["counts"][1]["running_ns"], 0);
    assert_eq!(stat["derived"].as_array().map(Vec::len), Some(0), "{stat}");
}

/// Two general counters, five sources: those of a metric run together, so that their ratio is exact
/// if the workload is steady.
#[test]
fn a_metric_that_takes_turns_is_a_group() {
    let work = "instructions=90000000,cycles=60000000,branches=9000000,branch-misses=90000,seed=7";
    let stat = ["stat", "-M", "ipc,branch-miss-rate", "--rotate", "1", "--workload", work];
    let stat = json(&[&["--machine", "pentium3"], &stat[..]].concat());
    let counts = stat["counts"].as_array().expect("a list");
    let groups: Vec<_> = counts.iter().map(|count| count["group"].as_u64()).collect();
    assert_eq!(groups, [Some(1), Some(1), Some(2), Some(2)]);
    for (metric, truth) in [("ipc", 1.5), ("branch-miss-rate", 1.0)] {
        let figure = figure(&stat, metric);
        assert_eq!(figure["scaled"], true);
        let miss = (value(&stat, metric) - truth).abs();
        let error = figure["error"].as_f64().expect("a bound");
        assert!(miss > 0.0 && miss <= error, "{metric}: {miss} of {error}");
        let running = |index: usize| &counts[index]["running_ns"];
        assert_eq!((running(0), running(2)), (running(1), running(3)));
    }
}

#[test]
fn a_user_may_add_metrics() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.toml");
    let file = path.to_str().expect("UTF-8");
    std::fs::write(
        &path,
        "[[metric]]\nid = \"mine\"\nname = \"branches per 100 cycles\"\nabove = [\"branches\"]\nbelow = [\"cycles\"]\nscale = 100\n",
    )
    .expect("written");
    let stat = on_skylake(&["--metric-file", file, "-M", "mine"]);
    assert!((value(&stat, "mine") - 40.0).abs() < 1e-9);
    let list = json(&["--machine", "skylake", "list", "--metric-file", file]);
    let all = list["metrics"].as_array().expect("a list");
    let mine = all.iter().find(|metric| metric["id"] == "mine").expect("there");
    assert_eq!(mine["supported"], true);
    assert_eq!(mine["terms"][1]["source"], "FixedCycles");
    std::fs::write(&path, "[[metric]]\nid = \"mine\"\nabove = 7\n").expect("written");
    refused(&["stat", "--metric-file", file], 5, "bad-file");
    let told = halprof(&["stat", "--metric-file", file]).stderr;
    assert!(told.contains("mine.toml is not a valid metric file: line"), "{told}");
    std::fs::write(&path, [0xFF, 0xFE, 0]).expect("written");
    refused(&["stat", "--metric-file", file], 5, "file");
    let nowhere = folder.path().join("nowhere");
    refused(&["stat", "--metric-file", nowhere.to_str().expect("UTF-8")], 5, "file");
    refused(&["list", "--metric-file", folder.path().to_str().expect("UTF-8")], 5, "file");
}

/// A metric in a file is a formula over any events, as the top-down formulas are.
#[test]
fn a_users_metric_may_be_a_formula() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.toml");
    let file = path.to_str().expect("UTF-8");
    let text = r#"
[[metric]]
id = "stalled"
name = "cycles without an issued slot"
unit = "%"
formula = "100 * cpu@UOPS_ISSUED.ANY,cmask=1,inv@ / ( CPU_CLK_UNHALTED.THREAD_ANY / 2 if smt_on else cycles )"
[[metric]]
id = "elsewhere"
name = "of another processor"
formula = "TOPDOWN.BACKEND_BOUND_SLOTS / cycles"
"#;
    std::fs::write(&path, text).expect("written");
    // Two threads share each core of this model.
    let skylake = ["--machine", "skylake"];
    let measured = ["stat", "--metric-file", file, "-M", "stalled", "--workload"];
    let amounts = "cycles=1000,CPU_CLK_UNHALTED.THREAD_ANY=1600,UOPS_ISSUED.STALL_CYCLES=200";
    let stat = json(&[&skylake[..], &measured, &[amounts]].concat());
    assert!((value(&stat, "stalled") - 25.0).abs() < 1e-9, "{stat}");
    let list = json(&[&skylake[..], &["list", "--metric-file", file]].concat());
    let row = |id: &str| {
        let mut all = list["metrics"].as_array().expect("a list").iter();
        all.find(|metric| metric["id"] == id).expect("there").clone()
    };
    let stalled = row("stalled");
    assert_eq!(stalled["supported"], true, "{stalled}");
    assert_eq!(stalled["terms"][1]["source"], "CPU_CLK_UNHALTED.THREAD_ANY");
    assert_eq!(row("elsewhere")["supported"], false);
    let ran =
        halprof(&[&skylake[..], &["stat", "--metric-file", file, "-M", "elsewhere"]].concat());
    assert_eq!(ran.status, 4);
    assert!(ran.stderr.contains("TOPDOWN.BACKEND_BOUND_SLOTS"), "{}", ran.stderr);
}

#[test]
fn what_cannot_be_had_is_refused() {
    let on = ["--machine", "skylake", "stat", "-M"];
    for (metric, status, code) in [
        ("nonsense", 2, "usage"),
        ("", 2, "usage"),
        ("ipc:x", 2, "usage"),
        ("kernel-share:u", 2, "usage"),
        ("l1d-mpki", 4, "unavailable"),
        ("retiring", 4, "unavailable"),
    ] {
        refused(&[&on[..], &[metric]].concat(), status, code);
    }
}

/// Each metric is supported or not, and those that are can be computed.
#[test]
fn the_list_is_true() {
    for machine in ["skylake", "hybrid", "zen4", "pentium"] {
        let list = json(&["--machine", machine, "list", "--metrics"]);
        for metric in list["metrics"].as_array().expect("a list") {
            let id = metric["id"].as_str().expect("an id");
            let ran = halprof(&["--machine", machine, "stat", "-M", id]);
            let status = if metric["supported"] == true { 0 } else { 4 };
            assert_eq!(ran.status, status, "{machine} {id}: {}", ran.stderr);
        }
    }
}

#[test]
fn comma_separated_values_have_metrics_where_asked() {
    let stat = ["stat", "--csv", "--workload", WORKLOAD, "-e", "TotalIssues,TotalCycles"];
    let arguments = [&["--machine", "skylake,processors=1"], &stat[..]].concat();
    let without = halprof(&arguments).stdout;
    assert_eq!(without.lines().count(), 3);
    let with = halprof(&[&arguments[..], &["-M", "ipc"]].concat()).stdout;
    let last = with.lines().last().expect("lines");
    assert!(last.starts_with(",,,") && last.contains(",ipc,2.0,,"), "{with}");
}

/// The figures of `-M`, each with the type of core, the value and the reason.
fn derived(machine: &str, metrics: &str, workload: &str) -> Vec<(String, Option<f64>, String)> {
    let arguments = ["--machine", machine, "stat", "--per-core-type", "-M", metrics];
    let stat = json(&[&arguments[..], &["--workload", workload]].concat());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let figures = stat["derived"].as_array().expect("a list").iter();
    let figures =
        figures.map(|one| (text(&one["core_type"]), one["value"].as_f64(), text(&one["reason"])));
    figures.collect()
}

#[test]
fn what_could_not_be_computed_says_why() {
    let work = "instructions=1000,cycles=2000,processors=all";
    assert_eq!(
        derived("hybrid", "retiring", work),
        [
            (
                "performance".to_owned(),
                None,
                "division by zero: FixedTopdownSlots counted 0".to_owned()
            ),
            (
                "efficiency".to_owned(),
                None,
                "nothing counted FixedTopdownSlots or TopdownSlots".to_owned()
            ),
        ]
    );
    assert_eq!(derived("skylake", "ipc", work), [(String::new(), Some(0.5), String::new())]);
    let stat = ["--machine", "hybrid", "stat", "-M", "retiring"];
    let text = halprof(&[&stat[..], &["--workload", work]].concat()).stdout;
    assert!(text.contains(": division by zero: FixedTopdownSlots counted 0"), "{text}");
    // Too short for every source to be on a counter.
    let many = "ipc,branch-miss-rate,l1d-miss-rate,l1i-miss-rate,fp-per-cycle";
    let short =
        "instructions=10,cycles=10,branches=10,llc-references=10,l1d-accesses=10,l1i-fetches=10";
    let all = derived("zen2,processors=1", many, short);
    let without = all.iter().filter(|(_, value, _)| value.is_none());
    let reasons: Vec<&str> = without.map(|(_, _, why)| why.as_str()).collect();
    assert!(
        !reasons.is_empty() && reasons.iter().all(|why| why.contains("was never on a counter")),
        "{all:?}"
    );
}

#[test]
fn a_metric_names_what_the_chosen_processors_lack() {
    let arguments = ["--machine", "hybrid", "stat", "-M", "retiring", "-C", "4-11"];
    let ran = halprof(&arguments);
    assert_eq!(ran.status, 4);
    let said = "the metric `retiring` needs FixedTopdownSlots or TopdownSlots: the chosen processors count no such thing";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}
