//! Does stat count exactly what the workload did?

use crate::cli::support::{halprof, json};
use serde_json::Value;

fn count<'a>(stat: &'a Value, source: &str) -> &'a Value {
    let counts = stat["counts"].as_array().expect("a list");
    counts.iter().find(|count| count["source"] == source).unwrap_or_else(|| panic!("no {source}"))
}

const WORKLOAD: &str =
    "instructions=1000003,cycles=2000005,branches=200001,branch-misses=5003,user=80";

/// A script finds its counts by the names that it gave.
#[test]
fn every_count_has_the_name_that_was_typed() {
    let stat = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "instructions:u,{0x13, ProfileCacheMisses}",
        "-M",
        "branch-mpki",
    ]);
    let counts = stat["counts"].as_array().expect("a list").iter();
    let named: Vec<_> =
        counts.map(|count| (count["source"].as_str(), count["requested"].as_str())).collect();
    let typed = [
        ("TotalIssues:u", "instructions:u"),
        ("TotalCycles", "0x13"),
        ("CacheMisses", "ProfileCacheMisses"),
    ];
    assert_eq!(named[..3], typed.map(|(name, typed)| (Some(name), Some(typed))));
    // What a metric needs, nobody has typed.
    assert!(named.len() > 3 && named[3..].iter().all(|one| one.1.is_none()), "{named:?}");
}

#[test]
fn counts_are_exact_on_every_interface() {
    for (model, sources) in [
        ("skylake", &["TotalIssues", "TotalCycles", "BranchInstructions"][..]),
        ("zen4", &["TotalIssues", "BranchInstructions", "BranchMispredictions"]),
        ("pentium", &["TotalIssues", "BranchInstructions"]),
        ("pentium3", &["TotalIssues", "TotalCycles"]),
        ("pentium4", &["TotalIssues", "TotalCycles", "BranchMispredictions"]),
    ] {
        let stat =
            json(&["--machine", model, "stat", "-e", &sources.join(","), "--workload", WORKLOAD]);
        for source in sources {
            let truth = match *source {
                "TotalIssues" => 1_000_003,
                "TotalCycles" => 2_000_005,
                "BranchInstructions" => 200_001,
                _ => 5003,
            };
            let count = count(&stat, source);
            assert_eq!(count["value"], truth, "{model} {source}");
            assert_eq!(
                (&count["scaled"], &count["error"], &count["processor"]),
                (&false.into(), &Value::Null, &Value::Null)
            );
            assert_eq!(count["counted"], count["value"]);
        }
    }
}

#[test]
fn filters_part_user_from_kernel() {
    let stat = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalIssues:u,TotalIssues:k,r100C0",
        "--workload",
        WORKLOAD,
    ]);
    assert_eq!(count(&stat, "TotalIssues:u")["value"], 800_002);
    assert_eq!(count(&stat, "TotalIssues:k")["value"], 200_001);
    assert_eq!(count(&stat, "r100C0")["value"], 800_002);
}

#[test]
fn processors_are_counted_each_and_together() {
    let workload = "instructions=5000,cycles=5000,processors=1-2";
    let each = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalIssues",
        "--per-cpu",
        "--workload",
        workload,
    ]);
    let values: Vec<_> = each["counts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|count| count["value"].as_u64())
        .collect();
    assert_eq!(values[..4], [Some(0), Some(5000), Some(5000), Some(0)]);
    let sum = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalIssues",
        "-C",
        "0-1",
        "--workload",
        workload,
    ]);
    assert_eq!(count(&sum, "TotalIssues")["value"], 5000);
}

/// The printed number after `"value": ` in the only count.
fn printed_value(arguments: &[&str]) -> String {
    let ran = halprof(&[&["--json"], arguments].concat());
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    ran.json();
    let mut lines = ran.stdout.lines();
    let line = lines.find_map(|line| line.trim().strip_prefix("\"value\": "));
    line.expect("a value").trim_end_matches(',').to_owned()
}

#[test]
fn sums_over_processors_are_exact_beyond_64_bits() {
    sum_is_exact(4);
    sum_is_exact(64);
    let repeated = [
        "stat",
        "--machine",
        "skylake",
        "-r",
        "2",
        "-e",
        "TotalIssues",
        "--workload",
        "instructions=4611686018427387903,processors=0-3",
    ];
    assert_eq!(printed_value(&repeated), "18446744073709551612");
    let text = halprof(&repeated).stdout;
    assert!(text.contains("18,446,744,073,709,551,612"), "{text}");
}

/// The model looks at each processor 30,000 times.
#[test]
fn the_sum_over_2048_processors_is_exact() {
    sum_is_exact(2048);
}

/// 2^62 events on each of so many processors.
fn sum_is_exact(processors: u64) {
    let amount = 1u64 << 62;
    let last = processors - 1;
    let arguments = [
        "--machine",
        &format!("skylake,processors={processors}"),
        "stat",
        "-e",
        "TotalIssues",
        "--workload",
        &format!("instructions={amount},cycles=1,processors=0-{last}"),
    ];
    let truth = u128::from(amount) * u128::from(processors);
    assert_eq!(printed_value(&arguments), truth.to_string());
}

#[test]
fn the_largest_amounts_are_exact() {
    let amount = 1u64 << 62;
    let workload = format!("instructions={amount},cycles={amount}");
    let stat =
        json(&["--machine", "skylake", "stat", "-e", "TotalIssues", "--workload", &workload]);
    assert_eq!(count(&stat, "TotalIssues")["value"], amount);
    assert_eq!(stat["elapsed_ns"], amount);
}

#[test]
fn sources_that_take_turns_are_estimated_within_their_bound() {
    let list = "BranchInstructions,BranchMispredictions,LLCReference,LLCMisses,\
                BranchInstructionRetired,BranchMispredictsRetired";
    let workload = "instructions=100000000,cycles=100000000,branches=20000000,branch-misses=1000000,llc-references=500000,llc-misses=100000";
    let stat = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        list,
        "--workload",
        workload,
        "--rotate",
        "1",
    ]);
    let count = count(&stat, "BranchInstructions");
    assert_eq!(count["scaled"], true);
    let (value, error) =
        (count["value"].as_f64().expect("a number"), count["error"].as_f64().expect("a bound"));
    assert!((value - 2e7).abs() <= error && error < 1e6, "{value} +/- {error}");
    assert!(count["running_ns"].as_u64() < count["enabled_ns"].as_u64());
}

#[test]
fn intervals_add_up_and_repeats_agree() {
    let stat = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalCycles",
        "-I",
        "1",
        "--workload",
        "cycles=4500000",
    ]);
    let intervals = stat["intervals"].as_array().expect("intervals");
    let sum: u64 =
        intervals.iter().filter_map(|interval| interval["counts"][0]["value"].as_u64()).sum();
    assert_eq!((intervals.len(), sum), (5, 4_500_000));
    let stat = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalCycles",
        "-r",
        "3",
        "--workload",
        "cycles=4500000",
    ]);
    assert_eq!(stat["runs"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        (&stat["counts"][0]["value"], &stat["counts"][0]["deviation"]),
        (&4_500_000.into(), &0.0.into())
    );
}

#[test]
fn a_duration_ends_it() {
    let stat = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalCycles",
        "-d",
        "0.002",
        "--workload",
        "cycles=4500000",
    ]);
    assert_eq!(
        (&stat["elapsed_ns"], &stat["counts"][0]["value"]),
        (&2_000_000.into(), &2_000_000.into())
    );
}

#[test]
fn time_is_counted_in_ticks() {
    let stat = json(&[
        "--machine",
        "hyperv-masked",
        "stat",
        "-e",
        "ProfileTime",
        "--workload",
        "cycles=1000000000",
    ]);
    let ticks = count(&stat, "Timer")["value"].as_u64().expect("a number");
    assert!(ticks > 0, "no tick in a second");
}

#[test]
fn every_model_counts_something_by_default() {
    let machines = json(&["machines"]);
    for machine in machines["machines"].as_array().expect("a list") {
        let name = machine["name"].as_str().expect("a name");
        let stat = json(&["--machine", name, "stat"]);
        let counts = stat["counts"].as_array().expect("a list");
        assert!(
            !counts.is_empty() && counts.iter().all(|count| count["scaled"] == false),
            "{name}"
        );
    }
}

#[test]
fn figures_are_derived() {
    let stat = json(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalIssues,TotalCycles",
        "--workload",
        "instructions=3000,cycles=1500",
    ]);
    assert_eq!(stat["derived"][0]["name"], "instructions per cycle");
    assert_eq!(stat["derived"][0]["value"], 2.0);
    let text = halprof(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalIssues,TotalCycles",
        "--workload",
        "instructions=3000,cycles=1500",
    ]);
    assert!(text.stdout.contains("3,000") && text.stdout.contains("2.000"), "{}", text.stdout);
}

#[test]
fn a_file_gets_what_would_be_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("counts.csv");
    let file = path.to_str().expect("UTF-8");
    let ran = halprof(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalIssues",
        "--csv",
        "-o",
        file,
        "--workload",
        "instructions=7",
    ]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    let text = std::fs::read_to_string(&path).expect("written");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with(
            "time_ns,source,processor,value,counted,enabled_ns,running_ns,scaled,error,start_ns,"
        ),
        "{text}"
    );
    assert!(lines[1].starts_with(",TotalIssues,,7,7,"), "{text}");
}

#[test]
fn printed_bounds_hold_over_200_seeds() {
    let sources = [
        ("BranchInstructionRetired", 6_000_000),
        ("BranchMispredictsRetired", 300_000),
        ("BranchInstructions", 6_000_000),
        ("BranchMispredictions", 300_000),
        ("LLCReference", 150_000),
        ("LLCMisses", 30_000),
    ];
    let list = sources.map(|(source, _)| source).join(",");
    let mut held = 0;
    for seed in 0..200 {
        let workload = format!(
            "instructions=30000000,cycles=30000000,branches=6000000,branch-misses=300000,llc-references=150000,llc-misses=30000,seed={seed}"
        );
        let stat = json(&[
            "--machine",
            "skylake,processors=1",
            "stat",
            "-e",
            &list,
            "--rotate",
            "1",
            "--workload",
            &workload,
        ]);
        for (source, truth) in sources {
            let count = count(&stat, source);
            let value = count["value"].as_f64().expect("a number");
            let error = count["error"].as_f64().expect("a bound");
            held += u32::from((value - f64::from(truth)).abs() <= error);
        }
    }
    assert!(held >= 1140, "{held} of 1200");
}

#[test]
fn remarks_below_counts_are_about_counts() {
    let pentium = halprof(&["--machine", "pentium", "stat"]).stdout;
    assert!(!pentium.contains("raise no interrupt"), "{pentium}");
    let clocks = ["stat", "-e", "TotalCycles,UnhaltedReferenceCycles"];
    let clocks = halprof(&[&["--machine", "skylake"], &clocks[..]].concat()).stdout;
    assert!(!clocks.contains("per reference cycle"), "{clocks}");
    let short = ["stat", "-e", "all", "--workload", "instructions=101"];
    let short = halprof(&[&["--machine", "skylake"], &short[..]].concat()).stdout;
    assert_eq!(short.matches("too short").count(), 1, "{short}");
    let process = ["stat", "--by", "process", "-e", "CacheMisses"];
    let process = halprof(&[&["--machine", "skylake"], &process[..]].concat()).stderr;
    assert!(process.contains("CacheMisses:4096"), "{process}");
    assert!(!process.contains("only 0 samples"), "{process}");
}

/// Twelve sources in slices of 4 ms, for 2 ms on 64 processors that all do the same: each source is on
/// a counter on some of them only.
#[test]
fn a_processor_that_never_counts_is_not_taken_as_zero() {
    let sources =
        "BranchInstructions,r00C0,r003C,r01C4,r02C4,r04C4,r08C4,r10C4,r20C4,r412E,r4F2E,r40C4";
    let work = "instructions=64000000,cycles=64000000,branches=16000000,processors=all";
    let stat = ["stat", "-d", "0.002", "-e", sources, "--workload", work];
    let machine = ["--machine", "skylake,processors=64"];
    let value = json(&[&machine[..], &stat].concat());
    let counts = value["counts"].as_array().expect("counts");
    let branches = &counts[0];
    assert_eq!(branches["source"], "BranchInstructions");
    let truth = json(
        &[&machine[..], &["stat", "-d", "0.002", "-e", "BranchInstructions", "--workload", work]]
            .concat(),
    );
    let (found, truth) = (branches["value"].as_f64(), truth["counts"][0]["value"].as_f64());
    let (found, truth) = (found.expect("known"), truth.expect("known"));
    assert!((found / truth - 1.0).abs() < 0.01, "{found}, not {truth}");
    assert_eq!(branches["error"], Value::Null);
    assert!(branches["never_scheduled_cpus"].is_string(), "{branches}");
    let told = value["warnings"].to_string();
    assert!(told.contains("never on a counter on some processors"), "{told}");
    // The modelled workload has none of these events, which nobody can know who has not counted them.
    let unknown = counts.iter().find(|count| count["source"] == "r01C4");
    assert_eq!(unknown.expect("counted")["value"], Value::Null);
    for form in [&["--csv"][..], &[]] {
        let ran = halprof(&[&machine[..], &stat, form].concat());
        assert!(!ran.stdout.contains(" 0  ± unknown"), "{}", ran.stdout);
        let none = if form.is_empty() { "unknown" } else { "r01C4,,,0," };
        assert!(ran.stdout.contains(none), "{}", ran.stdout);
        assert!(ran.stderr.contains("not known"), "{}", ran.stderr);
    }
    let topdown = json(&[&machine[..], &["stat", "-d", "0.002", "--topdown"]].concat());
    for part in topdown["topdown"].as_array().expect("parts") {
        assert_eq!(part["value"], Value::Null, "{part}");
        let reason = part["reason"].as_str().expect("a reason");
        assert!(reason.contains("never on a counter"), "{reason}");
    }
}

/// The only busy processor never counted the kernel's instructions, and an idle one counted none.
#[test]
fn nothing_counted_beside_a_processor_that_never_counts_is_no_zero() {
    let work = "instructions=1000001,cycles=2000003,user=73";
    let stat = ["--machine", "pentium4-ht", "stat", "-e", "TotalIssues:u,TotalIssues:k"];
    let value = json(&[&stat[..], &["--workload", work]].concat());
    let kernel = &value["counts"][1];
    assert_eq!((&kernel["source"], &kernel["value"]), (&"TotalIssues:k".into(), &Value::Null));
    assert_eq!(kernel["never_scheduled_cpus"], "0");
    assert_eq!(value["derived"], Value::Array(Vec::new()), "no share of the kernel");
    let shown = halprof(&[&stat[..], &["--workload", work]].concat()).stdout;
    assert!(shown.contains("unknown") && !shown.contains("kernel mode"), "{shown}");
}
