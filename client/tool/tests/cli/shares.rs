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

/// Twelve pairs with equal programs, and twelve that differ by more than three bounds.
#[test]
fn verdicts_on_drawn_periods_are_right() {
    let (folder, _) = folder();
    let files = ["a.rec", "b.rec"].map(|name| folder.path().join(name));
    let [mut false_rows, mut missed] = [0; 2];
    for seed in 1..=12 {
        for differs in [false, true] {
            let percent = 20 + seed * 37 % 40;
            record(&files[0], RATES[0], percent, seed);
            let other = if differs { percent + 10 } else { percent };
            record(&files[1], RATES[0], other, 100 + seed);
            let [before, after] = files.each_ref().map(|file| file.display());
            let line = format!("report {before} --diff {after} --by process --rows 0");
            let clear = rows(&json(&line)).iter().filter(|row| row["clear"] == true).count();
            false_rows += if differs { 0 } else { clear };
            missed += if differs { 2 - clear } else { 0 };
        }
    }
    assert!(false_rows <= 2 && missed == 0, "{false_rows} false, {missed} missed");
}
