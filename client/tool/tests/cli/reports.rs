//! Do `report`, `script` and `export` agree on what a recording holds? `tests/cases` has what each
//! shows by itself.

use crate::cli::binaries::Built;
use crate::cli::support::{csv_rows, folder, halprof, json, objects, row, shared, text};
use serde_json::Value;
use tempfile::TempDir;

/// A recording in a folder of its own.
pub(crate) struct Recorded {
    _folder: TempDir,
    path: String,
}

impl Recorded {
    /// Records what the workload does on a machine, with more options.
    pub(crate) fn new(machine: &str, options: &str, workload: &str) -> Self {
        let (folder, path) = folder();
        let path = text(&path).to_owned();
        json(&format!("--machine {machine} record -o {path} {options} --workload {workload}"));
        Self { _folder: folder, path }
    }

    /// Samples a function of a program, each 10,000 of these instructions.
    pub(crate) fn of_function(built: &Built, function: &str, instructions: u64) -> Self {
        // Slow enough that interrupts stay within their budget of time.
        let cycles = 2 * instructions;
        let image = format!("image={},function={function}", built.path());
        let work = format!("instructions={instructions},cycles={cycles},{image}");
        Self::new("sapphire-rapids", "-C 0 -e TotalIssues:10000", &work)
    }

    pub(crate) fn file(&self) -> &str {
        &self.path
    }

    fn report(&self, options: &str) -> Value {
        json(&format!("report {} {options}", self.path))
    }
}

fn samples(file: &str, filter: &str) -> Vec<Value> {
    objects(&halprof(&format!("script {file} --jsonl {filter}")).stdout)
}

/// One text of each row.
fn texts(rows: &[Value], field: &str) -> Vec<String> {
    rows.iter().map(|row| row[field].as_str().expect("a text").to_owned()).collect()
}

/// The events of all lines of a folded export.
fn folded(file: &str, source: &str) -> u64 {
    let text = halprof(&format!("export {file} -f folded --source {source} -o -")).stdout;
    text.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn each_sample_is_a_line_in_every_form() {
    let work = "instructions=10000000,cycles=20000000,user=80";
    let recorded = Recorded::new("skylake", "-C 0 -e TotalIssues:40000,TotalCycles:40000", work);
    let report = recorded.report("");
    let rows = samples(recorded.file(), "");
    assert_eq!(rows.len(), 750);
    for source in report["by_source"].as_array().expect("sources") {
        let own = rows.iter().filter(|row| row["source"] == source["source"]);
        let events: u64 = own.filter_map(|row| row["period"].as_u64()).sum();
        assert_eq!(source["events"], events, "{source}");
    }
    let shown = halprof(&format!("script {}", recorded.file())).stdout;
    assert_eq!(shown.lines().count(), rows.len() + 1);
    let csv = halprof(&format!("script {} --csv", recorded.file())).stdout;
    let addresses = csv_rows(&csv).into_iter().map(|row| row["address"].clone());
    assert_eq!(addresses.collect::<Vec<_>>(), texts(&rows, "address"));
}

/// Sources that took turns: an export of one source, and the sum of its samples, agree with `report`.
#[test]
fn estimates_are_scaled_in_every_form() {
    let nine = "BranchInstructions,CacheMisses,r01C4,r02C4,r04C4,r08C4,r10C4,r20C4,r40C4";
    let sources = nine.replace(',', ":20000,") + ":20000";
    let (_folder, path) = folder();
    let file = text(&path);
    json(&format!("--machine skylake record -e {sources} -o {file}"));
    let report = json(&format!("report {file}"));
    let branches = row(&report["by_source"], "source", "BranchInstructions");
    assert_eq!(branches["scaled"], true);
    let events = branches["events"].as_u64().expect("a number");
    // Each place is rounded separately, and so is each sample.
    assert!(folded(file, "BranchInstructions").abs_diff(events) < events / 100_000);
    let rows = samples(file, "--source BranchInstructions");
    let sum: u64 = rows.iter().filter_map(|row| row["events"].as_u64()).sum();
    assert!(sum.abs_diff(events) <= rows.len() as u64, "{sum}, not {events}");
    for command in ["script FILE --csv", "--quiet report FILE"] {
        let ran = halprof(&command.replace("FILE", file));
        assert!(ran.stderr.contains("shared the counters"), "{command}: {}", ran.stderr);
    }
}

/// Of 79,528 samples an independent reader finds 73,313 in idle threads (manifest.json beside it).
#[test]
fn a_trace_of_windows_is_reported_with_its_idle_samples_apart() {
    let Some(trace) = shared("etw/files/net.4.5.2.x64.etl") else { return };
    let trace = text(&trace);
    let report = json(&format!("report {trace} --by process"));
    let told = ["samples", "idle", "modelled"].map(|field| report[field].clone());
    assert_eq!(told, [Value::from(79_528), 73_313.into(), false.into()]);
    let shown = halprof(&format!("report {trace}")).stdout;
    for part in ["by Windows' own tracing", "73,313 idle, left out of all shares"] {
        assert!(shown.contains(part), "{shown}");
    }
}

/// Real programs have phases and loops, and the timer's period is exact.
#[test]
fn samples_of_real_programs_are_not_in_step() {
    for name in ["net.4.5.2.x64.etl", "net.4.5.x86.etl"] {
        let Some(trace) = shared(&format!("etw/files/{name}")) else { continue };
        let report = json(&format!("report {} --by process --rows 1", trace.display()));
        assert!(report["samples"].as_u64() > Some(10_000), "{name}");
        let warnings = report["warnings"].to_string();
        assert!(!warnings.contains("in-step"), "{name}: {warnings}");
    }
}
