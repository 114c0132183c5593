//! Does `stat --by process` divide exact counts, with bounds that hold?

use crate::cli::support::{halprof, json, refused};
use serde_json::Value;
use std::collections::BTreeMap;

/// How many of the 10,007 steps of a round each program of `programs=70+20+10` gets.
const TURNS: [f64; 3] = [7_004.0, 2_002.0, 1_001.0];
const ROUND: f64 = 10_007.0;

const WORKLOAD: &str = "instructions=300000000,cycles=200000000,branch-misses=6000000,user=80,\
    programs=70+20+10";

fn divided<'a>(stat: &'a Value, source: &str) -> Vec<&'a Value> {
    let rows = stat["by_process"].as_array().expect("a list").iter();
    rows.filter(|row| row["source"] == source).collect()
}

#[test]
fn parts_are_within_their_bounds_of_what_each_program_did() {
    for machine in ["skylake", "zen4", "hybrid", "yonah", "pentium4"] {
        let run = |sources: &[&str]| {
            let start = ["--machine", machine, "stat", "--by", "process"];
            json(&[&start, sources, &["--workload", WORKLOAD]].concat())
        };
        let stat = run(&[]);
        for count in stat["counts"].as_array().expect("a list") {
            let source = count["source"].as_str().expect("a name");
            let rows = divided(&stat, source);
            assert_eq!(rows.len(), 3, "{machine}: {stat}");
            let total = count["value"].as_f64().expect("a number");
            assert!([3e8, 2e8].contains(&total), "{machine} {source}: {total}");
            let mut sum = 0;
            for (program, row) in rows.iter().enumerate() {
                assert_eq!(row["id"], 4096 + 8 * program, "{machine} {source}: the most first");
                let (value, error) = (row["value"].as_f64(), row["error"].as_f64());
                let (value, error) = (value.expect("a number"), error.expect("a bound"));
                let truth = total * TURNS[program] / ROUND;
                assert!(
                    (value - truth).abs() <= error && error < total / 10.0,
                    "{machine} {source}: {value} ±{error}, truly {truth}"
                );
                sum += row["value"].as_u64().expect("a number");
            }
            assert_eq!(Some(sum), count["value"].as_u64(), "{machine} {source}");
        }
    }
}

/// A small generator (Knuth's MMIX line), so that every run sees the same workloads.
struct Random(u64);

impl Random {
    fn between(&mut self, least: u32, most: u32) -> u32 {
        let next = self.0.wrapping_mul(6364136223846793005);
        self.0 = next.wrapping_add(1442695040888963407);
        let part = (self.0 >> 33) % u64::from(most - least);
        least + u32::try_from(part).expect("below a u32")
    }
}

/// What a workload did less what was found, and the bound, as parts of the source's amount.
#[derive(Default)]
struct Misses(Vec<(f64, f64)>);

impl Misses {
    fn add(&mut self, found: &Value, truth: f64, amount: f64) {
        let (value, error) = (found["value"].as_f64(), found["error"].as_f64());
        let (value, error) = (value.expect("a number"), error.expect("a bound"));
        let miss = (value - truth).abs();
        self.0.push((miss / amount, error / amount));
    }

    /// How many are within their bounds.
    fn held(&self) -> usize {
        self.0.iter().filter(|(miss, bound)| miss <= bound).count()
    }

    /// How many median errors the median bound is.
    fn width(&self) -> f64 {
        let (mut misses, mut bounds): (Vec<f64>, Vec<f64>) = self.0.iter().copied().unzip();
        misses.sort_by(f64::total_cmp);
        bounds.sort_by(f64::total_cmp);
        bounds[bounds.len() / 2] / misses[misses.len() / 2]
    }
}

/// Sums and random parts of 100 random workloads with three sources on two counters, whose
/// rotations have different numbers of interrupts: their time may not show in the counts. The
/// samples of a slice depend on each other, as this period meets neighbouring parts of the programs'
/// rounds. BranchInstructions has too few samples for parts.
fn in_turns(seeded: bool) -> [Misses; 2] {
    let mut random = Random(26);
    let (mut sums, mut parts) = (Misses::default(), Misses::default());
    for number in 0..100 {
        let amounts = [
            ("TotalIssues", random.between(200_000_000, 600_000_000)),
            ("TotalCycles", random.between(300_000_000, 700_000_000)),
            ("BranchInstructions", random.between(20_000_000, 90_000_000)),
        ];
        let [(_, issues), (_, cycles), (_, branches)] = amounts;
        let rates = if seeded { format!(",seed={number}") } else { String::new() };
        let workload = format!(
            "instructions={issues},cycles={cycles},branches={branches},user=80,programs=70+20+10\
            {rates}"
        );
        let words = ["--machine", "yonah", "stat", "--by", "process"];
        let list = "TotalIssues,TotalCycles,BranchInstructions";
        let stat = json(&[&words[..], &["-e", list, "--workload", &workload]].concat());
        let counts = stat["counts"].as_array().expect("a list");
        for (row, (source, amount)) in counts.iter().zip(amounts) {
            assert_eq!((&row["source"], &row["scaled"]), (&source.into(), &true.into()));
            let amount = f64::from(amount);
            sums.add(row, amount, amount);
            if source != "BranchInstructions" {
                let program = random.between(0, 3) as usize;
                let rows = divided(&stat, source);
                let row = rows.iter().find(|row| row["id"] == 4096 + 8 * program);
                let row = row.expect("each program has samples");
                parts.add(row, amount * TURNS[program] / ROUND, amount);
            }
        }
    }
    assert_eq!((sums.0.len(), parts.0.len()), (300, 200));
    [sums, parts]
}

/// A 95 % bound is about three median errors, if errors are normally distributed. With rates that
/// vary, workloads differ in how large their errors are, and the medians are of different ones.
#[test]
fn bounds_hold_where_sources_take_turns() {
    for (seeded, width) in [(false, 3.0), (true, 4.5)] {
        let [sums, parts] = in_turns(seeded);
        assert!(sums.held() >= 285, "{seeded}: {} of 300", sums.held());
        assert!(parts.held() >= 185, "{seeded}: {} of 200", parts.held());
        assert!(parts.width() <= width, "{seeded}: {}", parts.width());
        // Of an even workload only the ends of slices are not known exactly.
        let wide = sums.0.iter().any(|&(_, bound)| bound > 1e-5);
        assert_eq!(wide, seeded);
    }
}

/// Of 100 divisions, each from different samples, at most five are off by more than their bound.
#[test]
fn bounds_hold() {
    let mut off = 0;
    for period in 0..100u64 {
        let source = format!("BranchMispredictions:{}", 10_007 + 97 * period);
        let arguments = ["--machine", "skylake", "stat", "--by", "process", "-e", &source];
        let stat = json(&[&arguments[..], &["--workload", WORKLOAD]].concat());
        let first = &divided(&stat, "BranchMispredictions")[0];
        let truth = 6e6 * TURNS[0] / ROUND;
        let value = first["value"].as_f64().expect("a number");
        off += u32::from((value - truth).abs() > first["error"].as_f64().expect("a bound"));
    }
    assert!(off <= 5, "{off}");
}

#[test]
fn what_was_not_sampled_is_nobodys() {
    let work = "cycles=20000000,instructions=6000,programs=50+50,processors=all";
    let sources = "TotalCycles,TotalIssues:5000";
    let arguments = ["--machine", "skylake", "stat", "--by", "process", "-e", sources];
    let ran = halprof(&[&arguments[..], &["--workload", work]].concat());
    let told = "TotalIssues: only 8 samples, so its parts are rough; there are more with its \
        shortest period, `TotalIssues:4096`, or in a longer measurement";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let none = "cycles=20000000,instructions=4000,processors=0-1";
    let ran = halprof(&[&arguments[..], &["--workload", none]].concat());
    let told = "TotalIssues: no samples, so it is not divided; there are more with its shortest";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    // The shortest that there is, of a source and of an event.
    for source in ["TotalIssues", "INST_RETIRED.ANY_P"] {
        let shortest = format!("{source}:4096");
        let arguments = [&arguments[..6], &[&shortest, "--workload", work]].concat();
        let ran = halprof(&arguments);
        let told = ": only 8 samples, so its parts are rough; there are more in a longer";
        let told = format!("{source}{told}");
        assert!(ran.stderr.contains(&told), "{}", ran.stderr);
    }
    let stat = json(&[&arguments[..], &["--workload", none]].concat());
    let rows = divided(&stat, "TotalIssues");
    assert_eq!(rows.len(), 1, "{stat}");
    assert_eq!((&rows[0]["process"], &rows[0]["id"]), (&Value::Null, &Value::Null));
    assert_eq!((&rows[0]["value"], &rows[0]["error"]), (&8000.into(), &Value::Null));
}

#[test]
fn csv_has_the_parts_below_the_counts() {
    let arguments =
        ["--machine", "skylake", "stat", "--by", "process", "-e", "TotalCycles", "--csv"];
    let csv = halprof(&[&arguments[..], &["--workload", WORKLOAD]].concat()).stdout;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let lines: Vec<BTreeMap<String, String>> =
        reader.deserialize().map(|line| line.expect("a line")).collect();
    let processes: Vec<&str> = lines.iter().map(|line| line["process"].as_str()).collect();
    assert_eq!(processes, ["", "modelled.exe", "modelled-2.exe", "modelled-3.exe"]);
    assert_eq!((&*lines[0]["value"], &*lines[1]["process_id"]), ("200000000", "4096"));
}

#[test]
fn what_cannot_be_divided_is_refused() {
    refused(&["--machine", "skylake", "stat", "--by", "process", "-e", "ProfileTime"], 2, "usage");
    refused(&["--machine", "pentium", "stat", "--by", "process"], 4, "sampling-unavailable");
    refused(&["--machine", "skylake", "stat", "--by", "process", "-r", "2"], 2, "usage");
    refused(&["--machine", "hyperv-guest-masked", "stat", "--by", "process"], 4, "source-unknown");
}
