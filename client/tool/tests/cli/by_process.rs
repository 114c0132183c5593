//! Does `stat --by process` divide exact counts, with bounds that hold?

use crate::cli::support::{json, row};
use serde_json::Value;

/// How many of the 10,007 steps of a round each program of `programs=70+20+10` gets.
const TURNS: [f64; 3] = [7_004.0, 2_002.0, 1_001.0];
const ROUND: f64 = 10_007.0;

const WORKLOAD: &str =
    "instructions=300000000,cycles=200000000,branch-misses=6000000,user=80,programs=70+20+10";

fn divided<'a>(stat: &'a Value, source: &str) -> Vec<&'a Value> {
    let rows = stat["by_process"].as_array().expect("a list").iter();
    rows.filter(|row| row["source"] == source).collect()
}

/// The value and the bound of a count or of its part.
fn bounded(row: &Value) -> [f64; 2] {
    ["value", "error"].map(|name| row[name].as_f64().unwrap_or_else(|| panic!("{row}")))
}

#[test]
fn parts_are_within_their_bounds_of_what_each_program_did() {
    for machine in ["skylake", "zen4", "hybrid", "yonah", "pentium4"] {
        let stat = json(&format!("--machine {machine} stat --by process --workload {WORKLOAD}"));
        for count in stat["counts"].as_array().expect("a list") {
            let source = count["source"].as_str().expect("a name");
            let rows = divided(&stat, source);
            let total = count["value"].as_f64().expect("a number");
            assert!([3e8, 2e8].contains(&total), "{machine} {source}: {total}");
            let ids: Vec<_> = rows.iter().map(|row| &row["id"]).collect();
            assert_eq!(ids, [4096, 4104, 4112], "{machine} {source}: the most first");
            for (row, turns) in rows.iter().zip(TURNS) {
                let [value, error] = bounded(row);
                let miss = (value - total * turns / ROUND).abs();
                assert!(miss <= error && error < total / 10.0, "{machine}: {row}");
            }
            let sum: u64 = rows.iter().filter_map(|row| row["value"].as_u64()).sum();
            assert_eq!(count["value"], sum, "{machine} {source}");
        }
    }
}

/// What a workload did less what was found, and the bound, as parts of the source's amount.
#[derive(Default)]
struct Misses(Vec<[f64; 2]>);

impl Misses {
    fn add(&mut self, found: &Value, truth: f64, amount: f64) {
        let [value, error] = bounded(found);
        self.0.push([(value - truth).abs() / amount, error / amount]);
    }

    /// How many are within their bounds.
    fn held(&self) -> usize {
        self.0.iter().filter(|[miss, bound]| miss <= bound).count()
    }

    /// How many times the median miss the median bound is.
    fn width(&self) -> f64 {
        let [miss, bound] = [0, 1].map(|n| {
            let mut all: Vec<f64> = self.0.iter().map(|pair| pair[n]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        });
        bound / miss
    }
}

/// Sums and random parts of 100 random workloads with three sources on two counters, whose
/// rotations have different numbers of interrupts: their time may not show in the counts. The
/// samples of a slice depend on each other, as this period meets neighbouring parts of the programs'
/// rounds. BranchInstructions has too few samples for parts.
fn in_turns(seeded: bool) -> [Misses; 2] {
    let mut random = fastrand::Rng::with_seed(26);
    let (mut sums, mut parts) = (Misses::default(), Misses::default());
    for number in 0..100 {
        let amounts = [
            ("TotalIssues", random.u32(200_000_000..600_000_000)),
            ("TotalCycles", random.u32(300_000_000..700_000_000)),
            ("BranchInstructions", random.u32(20_000_000..90_000_000)),
        ];
        let [(_, issues), (_, cycles), (_, branches)] = amounts;
        let rates = if seeded { format!(",seed={number}") } else { String::new() };
        let work = format!(
            "instructions={issues},cycles={cycles},branches={branches},user=80,programs=70+20+10{rates}"
        );
        let stat = json(&format!(
            "--machine yonah stat --by process -e TotalIssues,TotalCycles,BranchInstructions --workload {work}"
        ));
        for (source, amount) in amounts {
            let count = row(&stat["counts"], "source", source);
            assert_eq!(count["scaled"], true);
            let amount = f64::from(amount);
            sums.add(count, amount, amount);
            if source != "BranchInstructions" {
                let program = random.usize(0..3);
                let rows = divided(&stat, source);
                let part = rows.iter().find(|row| row["id"] == 4096 + 8 * program);
                parts.add(part.expect("its samples"), amount * TURNS[program] / ROUND, amount);
            }
        }
    }
    [sums, parts]
}

/// A 95 % bound is 2.9 median errors, if errors are normally distributed; that median, of 200, is known
/// to a twelfth. With rates that
/// vary, workloads differ in how large their errors are, and the medians are of different ones.
#[test]
fn bounds_hold_where_sources_take_turns() {
    for (seeded, width) in [(false, 3.4), (true, 4.5)] {
        let [sums, parts] = in_turns(seeded);
        assert!(sums.held() >= 285, "{seeded}: {} of 300", sums.held());
        assert!(parts.held() >= 185, "{seeded}: {} of 200", parts.held());
        assert!(parts.width() <= width, "{seeded}: {}", parts.width());
        // Of an even workload only the times of slices are not known exactly.
        assert_eq!(sums.0.iter().any(|[_, bound]| *bound > 1e-3), seeded);
    }
}

/// Of 100 divisions, each from different samples, at most five are off by more than their bound.
#[test]
fn bounds_hold_at_every_period() {
    let off = (0..100u64).filter(|period| {
        let source = format!("BranchMispredictions:{}", 10_007 + 97 * period);
        let stat =
            json(&format!("--machine skylake stat --by process -e {source} --workload {WORKLOAD}"));
        let [value, error] = bounded(divided(&stat, "BranchMispredictions")[0]);
        (value - 6e6 * TURNS[0] / ROUND).abs() > error
    });
    let off = off.count();
    assert!(off <= 5, "{off}");
}
