//! Is the true IPC of a function within the interval that `report -M ipc` gives, as often as it
//! promises? And by how much does skid move it?

#![expect(clippy::cast_sign_loss, reason = "events and periods are above 0")]

use crate::cli::support::{csv_rows, folder, halprof, json, shared, text};
use halprof_profile::file::{Metadata, Period, Source, Statistics, Writer};
use serde_json::Value;
use shared_types::{Mode, Sample};
use std::collections::BTreeMap;
use std::path::Path;

/// The 97.5th percentile of the normal distribution.
const NORMAL: f64 = 1.96;
/// The mean periods of both sources, in events.
const PERIODS: [f64; 2] = [1_000_000.0, 700_000.0];

/// A small generator (Knuth's MMIX line), so that every run sees the same programs.
struct Random(u64);

impl Random {
    /// From 0 to below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are kept")]
    fn next(&mut self) -> f64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.next()
    }

    /// A period as the driver draws it: a sixteenth more or less than the mean at most.
    fn period(&mut self, mean: f64) -> f64 {
        (mean * self.between(15.0 / 16.0, 17.0 / 16.0)).round()
    }
}

/// A function of a modelled program.
#[derive(Clone, Copy)]
struct Function {
    /// What it has of all calls.
    weight: f64,
    /// The mean of the cycles that a call takes.
    cycles: f64,
    ipc: f64,
}

impl Function {
    fn random(random: &mut Random) -> Self {
        let (weight, cycles) = (random.between(0.05, 4.0).powi(3), random.between(0.01, 0.3));
        Self { weight, cycles: cycles * PERIODS[0], ipc: random.between(-1.5, 1.5).exp() }
    }
}

/// Runs functions in random order, and samples them by cycles and by instructions; returns the samples
/// in order of time, and the cycles and instructions of each function.
fn run(functions: &[Function], cycles: f64, random: &mut Random) -> (Vec<Sample>, Vec<[f64; 2]>) {
    let weights: f64 = functions.iter().map(|one| one.weight).sum();
    let mut samples = Vec::new();
    let mut truth = vec![[0.0; 2]; functions.len()];
    let (mut counted, mut last) = ([0.0; 2], [0.0; 2]);
    let mut next = PERIODS.map(|mean| random.period(mean));
    while counted[0] < cycles {
        let mut chosen = random.next() * weights;
        let index = functions.iter().position(|one| {
            chosen -= one.weight;
            chosen < 0.0
        });
        let index = index.unwrap_or(0);
        let function = functions[index];
        let cycles = -function.cycles * (1.0 - random.next()).ln();
        for (source, events) in [cycles, cycles * function.ipc].into_iter().enumerate() {
            counted[source] += events;
            truth[index][source] += events;
            while counted[source] >= next[source] {
                let period = next[source] - last[source];
                last[source] = next[source];
                next[source] += random.period(PERIODS[source]);
                samples.push(sample(source, index, period as u64, counted[0] as u64));
            }
        }
    }
    (samples, truth)
}

/// A sample of a function, which has a process of its own.
fn sample(source: usize, function: usize, period: u64, timestamp: u64) -> Sample {
    Sample {
        source: source as u16,
        process: 100 + function as u32,
        ip: 0x1_4000_0000 + 0x100 * function as u64,
        mode: Mode::User as u8,
        period,
        timestamp,
        ..Sample::default()
    }
}

fn write(path: &Path, samples: &[Sample]) {
    let sources = ["FixedCycles", "FixedInstructions"].into_iter().zip(PERIODS);
    let sources = sources.map(|(name, period)| Source {
        name: name.to_owned(),
        period: Period {
            used: period as u64,
            events: period as u64,
            drawn: true,
            ..Period::default()
        },
        ..Source::default()
    });
    let metadata = Metadata {
        interface: "Emon".to_owned(),
        modelled: true,
        machine: "a program of random functions".to_owned(),
        processors: 1,
        timestamp_frequency: 1_000_000_000,
        sources: sources.collect(),
        ..Metadata::default()
    };
    let mut writer = Writer::create(path, &metadata).expect("created");
    writer.samples(samples).expect("written");
    writer.finish(&Statistics::default(), false).expect("finished");
}

fn number(value: &Value, field: &str) -> Option<f64> {
    value[field].as_f64()
}

/// What was found in all rows.
#[derive(Debug, Default)]
struct Found {
    rows: u32,
    /// Rows whose true ratio is in the interval.
    within: u32,
    /// How many times as wide as in theory the interval is.
    widths: Vec<f64>,
    /// Rows of which only a limit is known, and those beyond it.
    limits: u32,
    beyond: u32,
    /// Rows of which nothing is known.
    unknown: u32,
}

impl Found {
    fn add(&mut self, row: &Value, [cycles, instructions]: [f64; 2], all: [f64; 2]) {
        let metric = &row["metrics"][0];
        let ipc = instructions / cycles;
        let ends = [number(metric, "low"), number(metric, "high")];
        match (number(metric, "value"), ends) {
            (Some(_), [Some(low), Some(high)]) => {
                let variance =
                    |events: f64, all: f64, period: f64| (1.0 - events / all) * period / events;
                let variance = variance(cycles, all[0], PERIODS[0])
                    + variance(instructions, all[1], PERIODS[1]);
                self.rows += 1;
                self.within += u32::from((low..=high).contains(&ipc));
                self.widths.push((high / low).ln() / (2.0 * NORMAL * variance.sqrt()));
            }
            (None, [None, None]) => self.unknown += 1,
            (None, [low, high]) => {
                assert!(low.is_none() || high.is_none(), "{row}");
                self.limits += 1;
                self.beyond += u32::from(low.is_some_and(|low| ipc < low));
                self.beyond += u32::from(high.is_some_and(|high| ipc > high));
            }
            (Some(_), _) => panic!("a value without its interval: {row}"),
        }
    }
}

/// 2,000 functions and more: the true IPC is in 93 to 99 of 100 intervals, which are hardly wider than
/// the samples allow.
#[test]
fn the_ipc_of_two_thousand_functions_is_within_its_interval() {
    let (_folder, file) = folder();
    let mut random = Random(60);
    let mut found = Found::default();
    while found.rows < 2_000 {
        let functions: Vec<Function> = (0..40).map(|_| Function::random(&mut random)).collect();
        let cycles = random.between(1_000.0, 4_000.0) * PERIODS[0];
        let (samples, truth) = run(&functions, cycles, &mut random);
        write(&file, &samples);
        let all = [0, 1].map(|source| truth.iter().map(|one| one[source]).sum());
        let report = json(&format!("report {} -M ipc --by process", text(&file)));
        let rows = report["tables"][0]["parts"][0]["rows"].as_array().expect("rows");
        for row in rows {
            let function = row["process"].as_u64().expect("a number") as usize - 100;
            found.add(row, truth[function], all);
        }
    }
    found.widths.sort_unstable_by(f64::total_cmp);
    let median = found.widths[found.widths.len() / 2];
    let Found { rows, within, limits, beyond, unknown, .. } = found;
    println!(
        "{within} of {rows} within, {median:.3} times as wide as in theory; {beyond} of {limits} beyond \
         a limit; {unknown} unknown"
    );
    let part = f64::from(within) / f64::from(rows);
    assert!((0.93..=0.99).contains(&part), "{within} of {rows}");
    assert!(median <= 1.5, "{median}");
    assert!(limits > 100 && beyond * 20 <= limits, "{beyond} of {limits} beyond");
}

/// Code of an IPC of 0.5, in which functions of an IPC of 2 are called, each of so many instructions.
/// A sample is booked so many instructions late.
fn with_skid(length: u32, skid: u32) -> f64 {
    const AROUND: u32 = 400;
    let round = AROUND + length;
    let is_inside = |instruction: u32| instruction % round < length;
    let cycles = |instruction: u32| if is_inside(instruction) { 1 } else { 4 };
    let (mut booked, mut of_cycles) = (0, 0);
    for instruction in 0..round {
        if is_inside(instruction + skid) {
            booked += 1;
            of_cycles += cycles(instruction);
        }
    }
    // A cycle is half of the time in which the inner function executes one instruction.
    f64::from(booked) / (f64::from(of_cycles) / 2.0)
}

/// What docs/methods.md says of skid.
#[test]
fn skid_mixes_a_short_function_with_its_caller() {
    let documents =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/methods.md"));
    let documents = documents.expect("a page");
    for length in [5, 20, 100] {
        let row: Vec<String> =
            [0, 5, 10, 20].iter().map(|&skid| format!("{:.2}", with_skid(length, skid))).collect();
        let row = format!("| {length} | {} |", row.join(" | "));
        assert!(documents.contains(&row), "{row}");
    }
}

/// A filter by source takes nothing from a metric; tables without ratios have no metrics.
#[test]
fn each_form_has_the_metrics() {
    let (_folder, file) = folder();
    let file = text(&file);
    let mut random = Random(7);
    let functions =
        [(1.0, 2.0), (4.0, 0.5)].map(|(weight, ipc)| Function { weight, cycles: 1e5, ipc });
    let (samples, _) = run(&functions, 3e9, &mut random);
    write(Path::new(file), &samples);
    let ipc = |row: &Value| number(&row["metrics"][0], "value").expect("a value");
    let parts = json(&format!("report {file} -M ipc --by process"));
    let parts = parts["tables"][0]["parts"].as_array().expect("parts").clone();
    assert_eq!(parts.len(), 2, "JSON has the tables of all sources");
    let of_first = |part: &Value| {
        let rows = part["rows"].as_array().expect("rows");
        ipc(rows.iter().find(|row| row["process"] == 100).expect("the first"))
    };
    assert!(
        (of_first(&parts[0]) - of_first(&parts[1])).abs() < 1e-12,
        "rows of both have the same"
    );
    let filtered = json(&format!("report {file} -M ipc --by process --source FixedInstructions"));
    assert_eq!(filtered["tables"][0]["parts"].as_array().map(Vec::len), Some(1));
    assert!((of_first(&filtered["tables"][0]["parts"][0]) - of_first(&parts[0])).abs() < 1e-12);
    let csv = halprof(&format!("report {file} -M ipc --by process --csv"));
    for row in csv_rows(&csv.stdout) {
        let end = |name: &str| row[name].parse::<f64>().expect("a number");
        assert!(end("ipc.low") < end("ipc") && end("ipc") < end("ipc.high"), "{row:?}");
    }
}

/// The ratio of two sources in each process of a trace that others made is compared with the sums of its
/// samples.
#[test]
fn metrics_of_a_trace_are_those_of_its_samples() {
    let Some(trace) = shared("etw/files/artificial_pmc.etl") else { return };
    let (folder, _) = folder();
    let file = folder.path().join("own.toml");
    let metric = "[[metric]]\nid = \"misses\"\nname = \"misses of the cache for each of a branch\"\n\
                  formula = \"CacheMisses / BranchMispredictions\"\n";
    std::fs::write(&file, metric).expect("written");
    let trace = text(&trace);
    let report =
        json(&format!("report {trace} -M misses --metric-file {} --by process", text(&file)));
    let script = halprof(&format!("script {trace} --jsonl"));
    let mut sums: BTreeMap<(u64, String), (f64, f64)> = BTreeMap::new();
    for sample in script.stdout.lines() {
        let sample: Value = serde_json::from_str(sample).expect("JSON");
        let (Some(process), Some(source)) = (sample["process"].as_u64(), sample["source"].as_str())
        else {
            continue;
        };
        let (samples, events) = sums.entry((process, source.to_owned())).or_default();
        *samples += 1.0;
        *events += number(&sample, "period").expect("a period");
    }
    // The trace does not say of which source its samples of idle threads are: each may have them all.
    let idle = 65_536.0 * number(&report, "idle").expect("idle");
    let all = |source: &str| -> f64 {
        let own = sums.iter().filter(|((_, own), _)| own == source);
        own.map(|(_, (_, events))| events).sum::<f64>() + idle
    };
    let mut compared = 0;
    for row in report["tables"][0]["parts"][0]["rows"].as_array().expect("rows") {
        let process = row["process"].as_u64().expect("a process");
        let sum = |source: &str| {
            let (samples, events) = sums[&(process, source.to_owned())];
            (events, (1.0 - events / all(source)) / samples)
        };
        let ((misses, of_misses), (branches, of_branches)) =
            (sum("CacheMisses"), sum("BranchMispredictions"));
        let half = NORMAL * (of_misses + of_branches).sqrt();
        let ratio = misses / branches;
        let expected = [ratio, ratio * (-half).exp(), ratio * half.exp()];
        for (field, expected) in ["value", "low", "high"].into_iter().zip(expected) {
            let found = number(&row["metrics"][0], field).expect("known");
            // An end also has what came after the last sample of each processor.
            let most = if field == "value" { 1e-9 } else { 0.05 };
            assert!(
                (found / expected - 1.0).abs() < most,
                "{process} {field}: {found}, {expected}"
            );
        }
        compared += 1;
    }
    assert_eq!(compared, 3);
}
