//! Does stat count exactly what the workload did?

use crate::cli::support::{halprof, json};
use serde_json::Value;

fn count<'a>(stat: &'a Value, source: &str) -> &'a Value {
    let counts = stat["counts"].as_array().expect("a list");
    counts.iter().find(|count| count["source"] == source).unwrap_or_else(|| panic!("no {source}"))
}

/// `halprof stat` on a machine, with the words of a command line.
fn arguments<'a>(machine: &'a str, words: &'a str) -> Vec<&'a str> {
    ["--machine", machine, "stat"].into_iter().chain(words.split_whitespace()).collect()
}

fn stat(machine: &str, words: &str) -> Value {
    json(&arguments(machine, words))
}

const WORKLOAD: &str =
    "--workload instructions=1000003,cycles=2000005,branches=200001,branch-misses=5003,user=80";

/// A script finds its counts by the names that it gave.
#[test]
fn every_count_has_the_name_that_was_typed() {
    let list = "instructions:u,{0x13, ProfileCacheMisses}";
    let stat = json(&["--machine", "skylake", "stat", "-e", list, "-M", "branch-mpki"]);
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
        let stat = stat(model, &format!("-e {} {WORKLOAD}", sources.join(",")));
        for source in sources {
            let truth = match *source {
                "TotalIssues" => 1_000_003,
                "TotalCycles" => 2_000_005,
                "BranchInstructions" => 200_001,
                _ => 5003,
            };
            let count = count(&stat, source);
            assert_eq!(count["value"], truth, "{model} {source}");
            assert_eq!((&count["scaled"], &count["error"]), (&false.into(), &Value::Null));
            assert_eq!(count["counted"], count["value"]);
        }
    }
}

/// The value of each count, in order; null if it is not known.
#[test]
fn values_are_those_of_the_workload() {
    let on_two = "--workload instructions=5000,cycles=5000,processors=1-2";
    for (machine, words, values) in [
        // User mode, kernel mode, and a raw select for user mode.
        (
            "skylake",
            format!("-e TotalIssues:u,TotalIssues:k,r100C0 {WORKLOAD}"),
            &[800_002, 200_001, 800_002][..],
        ),
        ("skylake,processors=4", format!("-e TotalIssues --per-cpu {on_two}"), &[0, 5000, 5000, 0]),
        ("skylake", format!("-e TotalIssues -C 0-1 {on_two}"), &[5000]),
        ("skylake", "-e TotalCycles -d 0.002 --workload cycles=4500000".to_owned(), &[2_000_000]),
        ("skylake", "-e TotalCycles -r 3 --workload cycles=4500000".to_owned(), &[4_500_000]),
        (
            "skylake",
            format!("-e TotalIssues --workload instructions={0},cycles={0}", 1_u64 << 62),
            &[1 << 62],
        ),
    ] {
        let stat = stat(machine, &words);
        let counts = stat["counts"].as_array().expect("a list").iter();
        let counted: Vec<u64> = counts.filter_map(|count| count["value"].as_u64()).collect();
        assert_eq!(counted, values, "{machine} {words}");
    }
}

/// The printed number after `"value": ` in the only count.
fn printed_value(machine: &str, words: &str) -> String {
    let ran = halprof(&[&["--json"], &arguments(machine, words)[..]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    ran.json();
    let mut lines = ran.stdout.lines();
    let line = lines.find_map(|line| line.trim().strip_prefix("\"value\": "));
    line.expect("a value").trim_end_matches(',').to_owned()
}

/// 2^62 events on each of so many processors.
#[test]
fn sums_over_processors_are_exact_beyond_64_bits() {
    let amount = 1_u64 << 62;
    for processors in [4, 64, 256] {
        let machine = format!("skylake,processors={processors}");
        let work = format!("instructions={amount},cycles=1,processors=all");
        let value = printed_value(&machine, &format!("-e TotalIssues --workload {work}"));
        assert_eq!(value, (u128::from(amount) * processors).to_string());
    }
    let repeated = "-r 2 -e TotalIssues --workload instructions=4611686018427387903,processors=0-3";
    assert_eq!(printed_value("skylake", repeated), "18446744073709551612");
    let text = halprof(&arguments("skylake", repeated)).stdout;
    assert!(text.contains("18,446,744,073,709,551,612"), "{text}");
}

#[test]
fn intervals_add_up() {
    let stat = stat("skylake", "-e TotalCycles -I 1 --workload cycles=4500000");
    let intervals = stat["intervals"].as_array().expect("intervals");
    let values = intervals.iter().filter_map(|one| one["counts"][0]["value"].as_u64());
    assert_eq!((intervals.len(), values.sum::<u64>()), (5, 4_500_000));
}

#[test]
fn time_is_counted_in_ticks() {
    let stat = stat("hyperv-masked", "-e ProfileTime --workload cycles=1000000000");
    let ticks = count(&stat, "Timer")["value"].as_u64().expect("a number");
    assert!(ticks > 0, "no tick in a second");
}

#[test]
fn every_model_counts_something_by_default() {
    let machines = json(&["machines"]);
    for machine in machines["machines"].as_array().expect("a list") {
        let name = machine["name"].as_str().expect("a name");
        let stat = stat(name, "");
        let counts = stat["counts"].as_array().expect("a list");
        let exact = counts.iter().all(|count| count["scaled"] == false);
        assert!(!counts.is_empty() && exact, "{name}");
    }
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
        let work = format!(
            "instructions=30000000,cycles=30000000,branches=6000000,branch-misses=300000,llc-references=150000,llc-misses=30000,seed={seed}"
        );
        let words = format!("-e {list} --rotate 1 --workload {work}");
        let stat = stat("skylake,processors=1", &words);
        for (source, truth) in sources {
            let count = count(&stat, source);
            let value = count["value"].as_f64().expect("a number");
            let error = count["error"].as_f64().expect("a bound");
            assert!(count["running_ns"].as_u64() < count["enabled_ns"].as_u64());
            held += u32::from((value - f64::from(truth)).abs() <= error);
        }
    }
    assert!(held >= 1140, "{held} of 1200");
}

#[test]
fn remarks_below_counts_are_about_counts() {
    let pentium = halprof(&arguments("pentium", "")).stdout;
    assert!(!pentium.contains("raise no interrupt"), "{pentium}");
    let clocks = halprof(&arguments("skylake", "-e TotalCycles,UnhaltedReferenceCycles")).stdout;
    assert!(!clocks.contains("per reference cycle"), "{clocks}");
    let short = halprof(&arguments("skylake", "-e all --workload instructions=101")).stdout;
    assert_eq!(short.matches("too short").count(), 1, "{short}");
    let process = halprof(&arguments("skylake", "--by process -e CacheMisses")).stderr;
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
