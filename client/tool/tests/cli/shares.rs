//! Do the bounds of shares hold where periods are drawn, and are verdicts of `--diff` right? The model's
//! programs take turns in rounds of 10,007 steps, of which each of these periods is nearly a multiple.

use crate::cli::support::{folder, halprof, json};
use serde_json::Value;
use std::path::Path;

/// Cycles of a second, which a modelled machine has a thousand million of, and in which a rate is
/// taken.
const CYCLES: u64 = 200_000_000;
/// Rates of which ten, twenty and a hundred rounds are the mean period.
const RATES: [u64; 3] = [9_993, 4_997, 1_000];

/// Samples two programs that take turns; the first runs so many percent.
fn record(file: &Path, rate: u64, percent: u32, seed: u32) {
    let [file, other] = [file.display().to_string(), (100 - percent).to_string()];
    let user = 10 + seed * 7 % 85;
    let ran = halprof(&format!(
        "--json --machine skylake record -C 0 -e TotalCycles --rate {rate} -o {file} --workload \
         cycles={CYCLES},instructions=1000,user={user},seed={seed},programs={percent}+{other}"
    ));
    let advice = ran.json()["advice"].to_string();
    assert!(!advice.contains("in-step"), "{rate}: {advice}");
}

/// The rows of the first table, with a row for each program.
fn rows(report: &Value) -> &[Value] {
    report["tables"][0]["parts"][0]["rows"].as_array().expect("rows")
}

/// With exact periods half of these were outside.
#[test]
fn shares_of_drawn_periods_are_within_their_bounds() {
    let (_folder, file) = folder();
    let (mut within, mut all) = (0, 0);
    for seed in 1..=10_u32 {
        for rate in RATES {
            let percent = 5 + seed * 37 % 90;
            record(&file, rate, percent, seed);
            let report = json(&format!("report {} --by process --rows 0", file.display()));
            let row = rows(&report).iter().find(|row| row["process"] == 4096).expect("the first");
            let [low, high] =
                ["low", "high"].map(|end| row["share"][end].as_f64().expect("a bound"));
            within += usize::from((low..=high).contains(&(f64::from(percent) / 100.0)));
            all += 1;
        }
    }
    assert!(within >= 26, "{within} of {all}");
}

/// Two programs, or four, of which some have more than 10,000 samples with the default period.
const EQUAL: [&str; 2] = ["60+40", "10+20+30+40"];
/// The programs before and after, and how many times the cycles: what the first has is 5 % more, and
/// what the second has is the same to 3 in 10,000.
const DIFFERENT: [(&str, &str, f64); 2] =
    [("28+72", "29+71", 1.013_793), ("71+29", "72+28", 1.035_417)];
const MACHINES: [&str; 6] = ["skylake", "zen4", "hybrid", "yonah", "k8", "core2"];

/// What was found in pairs of recordings.
#[derive(Debug, Default)]
struct Pairs {
    rows: u32,
    /// Rows whose true ratio is within the bound.
    within: u32,
    /// Bounds of ratios, in percent.
    widths: Vec<f64>,
    more: u32,
    fewer: u32,
    /// The first program is more.
    first_more: u32,
    /// The whole is more.
    whole_more: u32,
}

impl Pairs {
    /// Records `pairs` pairs with the default periods, so many runs of each, and compares them.
    fn compared(pairs: u32, differ: bool, runs: u32) -> Self {
        let (folder, _) = folder();
        let files = |side: &str| -> Vec<String> {
            let names = (0..runs).map(|run| folder.path().join(format!("{side}{run}.rec")));
            names.map(|file| file.display().to_string()).collect()
        };
        let files = ["a", "b"].map(files);
        let mut found = Self::default();
        for (pair, machine) in (0..pairs).zip(MACHINES.iter().cycle()) {
            let kind = pair as usize / MACHINES.len() % 2;
            let equal = (EQUAL[kind], EQUAL[kind], 1.0);
            let (before, after, more) = if differ { DIFFERENT[kind] } else { equal };
            let sides = [(&files[0], before, 1.0, 0), (&files[1], after, more, 1)];
            for (side, programs, times, odd) in sides {
                let (cycles, user) = (4e10 * times, 10 + pair * 7 % 85);
                let instructions = cycles / 2.0;
                for (run, file) in (0..).zip(side) {
                    let seed = 2 * (runs * pair + run) + odd;
                    json(&format!(
                        "--machine {machine} record -o {file} --workload \
                         cycles={cycles},instructions={instructions},user={user},seed={seed},\
                         programs={programs}"
                    ));
                }
            }
            let [a, b] = files.each_ref().map(|side| side.join(" "));
            let line = format!("report {a} --diff {b} --by process --rows 0");
            found.add(&json(&line), (before, after, more));
        }
        found.widths.sort_unstable_by(f64::total_cmp);
        found
    }

    fn add(&mut self, diff: &Value, (before, after, times): (&str, &str, f64)) {
        let percent = |programs: &str, index: usize| -> f64 {
            programs.split('+').nth(index).expect("a program").parse().expect("a number")
        };
        for row in rows(diff) {
            let index = (row["process"].as_u64().expect("a number") as usize - 4096) / 8;
            let truth = percent(after, index) / percent(before, index) * times;
            let [ratio, bound] =
                ["ratio", "error"].map(|field| row[field].as_f64().expect("a number"));
            self.rows += 1;
            self.within += u32::from((ratio - truth).abs() <= bound);
            self.widths.push(bound * 100.0);
            self.more += u32::from(row["verdict"] == "more");
            self.fewer += u32::from(row["verdict"] == "fewer");
            self.first_more += u32::from(row["verdict"] == "more" && index == 0);
            let samples = row["before"]["samples"].as_u64().expect("a number");
            assert!(before == after || samples >= 10_000, "{row}");
        }
        let whole = &diff["sources"][0];
        self.whole_more += u32::from(whole["verdict"] == "more");
        if diff["runs"][0] == 1 {
            assert_eq!(
                (&whole["verdict"], &whole["reason"]),
                (&"unclear".into(), &"one run".into())
            );
        }
    }

    fn print(&self, what: &str) {
        let Self { rows, within, widths, more, fewer, first_more, whole_more } = self;
        let [least, median, most] = [0, widths.len() / 2, widths.len() - 1].map(|at| widths[at]);
        println!(
            "{what}: {within} of {rows} rows within their bounds of {least:.2} to {most:.2} %, median \
             {median:.2}; {more} more, {fewer} fewer; the first program more in {first_more}, the whole \
             in {whole_more}"
        );
    }
}

/// Two equal runs on each side and runs that differ by 5 % in one program: at most so many rows of the equal are called
/// more or fewer, and at least so many of the different are found.
fn assert_verdicts(pairs: u32, wrong: u32, found: u32) {
    let equal = Pairs::compared(pairs, false, 2);
    equal.print("equal");
    let different = Pairs::compared(pairs, true, 2);
    different.print("5 % more");
    assert!(equal.more + equal.fewer <= wrong && equal.whole_more == 0, "{equal:?}");
    assert!(different.first_more >= found && different.whole_more == pairs, "{different:?}");
    let (within, rows) = (equal.within + different.within, equal.rows + different.rows);
    // 95 % less three standard deviations of a binomial distribution.
    let least = 0.95 - 3.0 * (0.95 * 0.05 / f64::from(rows)).sqrt();
    assert!(f64::from(within) >= least * f64::from(rows), "{within} of {rows}");
}

#[test]
fn verdicts_on_drawn_periods_are_right() {
    assert_verdicts(12, 1, 11);
}

#[test]
fn verdicts_on_eighty_pairs_are_right() {
    assert_verdicts(80, 6, 72);
}

/// How much runs differ, one run on a side does not say: the whole has no verdict, whatever it is, nor
/// have rows with small bounds. A small row keeps its own.
#[test]
fn one_run_on_a_side_has_no_verdict_of_what_runs_differ_by() {
    let found = Pairs::compared(2, true, 1);
    assert!(found.whole_more == 0, "{found:?}");
    let (folder, _) = folder();
    let files = ["a.rec", "b.rec"].map(|name| folder.path().join(name).display().to_string());
    for (file, programs) in files.iter().zip(["99+1", "96+4"]) {
        json(&format!(
            "--machine skylake record -o {file} --workload cycles=40000000000,programs={programs}"
        ));
    }
    let diff = json(&format!("report {} --diff {} --by process", files[0], files[1]));
    for row in rows(&diff) {
        let is_large = row["process"] == 4096;
        let bound = row["error"].as_f64().expect("a number");
        assert_eq!(bound < 0.01, is_large, "{row}");
        let expected = if is_large { ("unclear", "one run".into()) } else { ("more", Value::Null) };
        assert_eq!(
            (row["verdict"].as_str(), &row["reason"]),
            (Some(expected.0), &expected.1),
            "{row}"
        );
    }
}
