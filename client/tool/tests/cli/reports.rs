//! Does a report show what the workload did, with real functions and lines, in any form?

use crate::cli::binaries::{self, Built};
use crate::cli::support::{folder, halprof, json, refused, text};
use halprof_profile::number::thousands;
use serde_json::Value;
use tempfile::TempDir;

const PERIOD: u64 = 10_000;
const SOURCE: &str = "TotalIssues:10000";

/// A recording in a folder of its own.
pub(crate) struct Recorded {
    _folder: TempDir,
    path: String,
}

impl Recorded {
    /// Records what the workload does, sampling `sources`.
    pub(crate) fn new(sources: &[&str], workload: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.rec");
        let path = path.to_str().expect("UTF-8").to_owned();
        let start = ["record", "-o", &path, "--workload", workload, "-C", "0", "-e"];
        json(&[&start, sources].concat());
        Self { _folder: folder, path }
    }

    pub(crate) fn of_function(built: &Built, function: &str, instructions: u64) -> Self {
        let image = format!("image={},function={function}", built.path());
        // Slow enough that interrupts stay within their budget of time.
        let cycles = 2 * instructions;
        let workload = format!("instructions={instructions},cycles={cycles},{image}");
        Self::new(&[&format!("TotalIssues:{PERIOD}")], &workload)
    }

    pub(crate) fn file(&self) -> &str {
        &self.path
    }

    fn report(&self, arguments: &[&str]) -> Value {
        json(&[&["report", self.file()], arguments].concat())
    }
}

/// The rows of the first source of the first table.
fn rows(report: &Value) -> &Vec<Value> {
    report["tables"][0]["parts"][0]["rows"].as_array().expect("rows")
}

#[test]
fn a_model_runs_real_functions_and_the_report_names_them() {
    for built in [binaries::pe(), binaries::elf()].into_iter().flatten() {
        let recorded = Recorded::of_function(&built, "spin", 2_000_000);
        let report = recorded.report(&["--by", "module,symbol"]);
        assert_eq!(report["modelled"], true);
        let rows_of = rows(&report);
        assert_eq!(rows_of.len(), 1, "{report}");
        let symbol = rows_of[0]["symbol"].as_str().expect("a name");
        assert_eq!(symbol.split('(').next(), Some("spin"));
        let module = built.file.file_name().expect("a name");
        assert_eq!(rows_of[0]["module"].as_str(), module.to_str());
        assert_eq!(rows_of[0]["samples"], 200);
        assert_eq!(rows_of[0]["events"], 2_000_000);
        let share = &rows_of[0]["share"];
        assert_eq!((&share["value"], &share["high"]), (&1.0.into(), &1.0.into()));
        // Wilson: n / (n + z^2).
        let low = share["low"].as_f64().expect("a number");
        assert!((low - 200.0 / (200.0 + 3.841_459)).abs() < 1e-6, "{low}");
        let lines = recorded.report(&["--by", "line"]);
        let mut samples = 0;
        for row in rows(&lines) {
            let line = row["line"].as_u64().expect("a line");
            assert!(line == 5 || (9..=16).contains(&line), "{row}");
            assert!(row["file"].as_str().expect("a file").ends_with("work.c"));
            samples += row["samples"].as_u64().expect("a number");
        }
        assert_eq!(samples, 200);
        // A filter by function counts, even where the rows tell no functions apart.
        for (function, samples) in [("spin", 200), ("wait", 0)] {
            let report = recorded.report(&["--by", "process", "--symbol", function]);
            assert_eq!(report["counted"], samples, "{report}");
        }
    }
}

#[test]
fn sources_are_told_apart_and_keys_combine() {
    let workload = "instructions=10000000,cycles=20000000,user=80";
    let sources = ["TotalIssues:40000", "TotalCycles:40000"];
    let recorded = Recorded::new(&sources, workload);
    let report = recorded.report(&["--by", "module", "--by", "source,processor"]);
    let tables = report["tables"].as_array().expect("tables");
    let parts = tables[0]["parts"].as_array().expect("parts");
    let told: Vec<_> = parts.iter().map(|part| (&part["source"], &part["events"])).collect();
    let issues = ("TotalIssues".into(), 10_000_000.into());
    let cycles = ("TotalCycles".into(), 20_000_000.into());
    assert_eq!(told, [(&issues.0, &issues.1), (&cycles.0, &cycles.1)]);
    let all = &tables[1]["parts"];
    assert_eq!(all[0]["source"], Value::Null);
    assert_eq!(all[0]["events"], Value::Null);
    assert_eq!(all[0]["rows"][0]["share"], Value::Null);
    assert_eq!(all[0]["samples"], 750);
    assert_eq!(all[0]["rows"][0]["source"], "TotalCycles");
    assert_eq!(all[0]["rows"][0]["samples"], 500);
}

/// Two recordings of the same number of events, whose periods differ by ten: wherever a share is
/// shown, it is one of events.
#[test]
fn shares_are_of_events_not_of_samples() {
    let at = |period: u64, user: &str| {
        let workload = format!("instructions=100000000,cycles=1000000000,user={user}");
        Recorded::new(&[&format!("TotalCycles:{period}")], &workload)
    };
    let (short, long) = (at(100_000, "100"), at(1_000_000, "0"));
    let both = ["report", short.file(), long.file()];
    let report = json(&[&both[..], &["--by", "module"]].concat());
    assert_eq!(report["counted"], 11_000, "{report}");
    let rows_of = rows(&report);
    assert_eq!(rows_of.len(), 2, "{report}");
    for row in rows_of {
        assert_eq!(row["events"], 1_000_000_000, "{row}");
        assert_eq!(row["share"]["value"], 0.5, "{row}");
        let low = row["share"]["low"].as_f64().expect("a number");
        // As accurate as (sum p)^2 / sum p^2 = 3636 samples.
        assert!((low - 0.483_76).abs() < 1e-4, "{low}");
    }
    let shown = halprof(&[&both[..], &["--by", "module"]].concat()).stdout;
    assert_eq!(shown.matches("50.00 %  ±1.62").count(), 2, "{shown}");
    let csv = halprof(&[&both[..], &["--by", "module", "--csv"]].concat()).stdout;
    assert_eq!(csv.matches(",1000000000,0.5,").count(), 2, "{csv}");
    let by_module = report["by_module"].as_array().expect("rows");
    assert_eq!(by_module[0]["events"], 1_000_000_000);
    let diff = [short.file(), "--diff", long.file(), "--by", "module"];
    let diff = json(&[&["report"], &diff[..]].concat());
    let changes = rows(&diff).iter().map(|row| row["change"].as_f64());
    let mut changes: Vec<f64> = changes.map(|change| change.expect("a number")).collect();
    changes.sort_by(f64::total_cmp);
    assert_eq!(changes, [-1.0, 1.0], "{diff}");
}

/// The interrupt budget quadruples the periods after a short process has ended: it has many samples
/// of few events.
#[test]
fn a_throttled_recording_shows_shares_of_events() {
    let (folder, file) = folder();
    let file = text(&file);
    let workload = "instructions=60000000,cycles=100000000,processors=0,short=1+5000000";
    let zen4 = ["--machine", "zen4"];
    let record = ["record", "-e", "Cycles:4096", "--workload", workload, "-o", file];
    json(&[&zen4[..], &record].concat());
    let report = json(&["report", file, "--by", "process"]);
    let short = rows(&report).iter().find(|row| row["process_name"] == "short.exe");
    let short = short.unwrap_or_else(|| panic!("no short.exe: {report}"));
    let share = |name: &str| short["share"][name].as_f64().expect("a number");
    assert!((share("value") - 0.05).abs() < 0.001, "{short}");
    assert!(share("low") < 0.05 && 0.05 < share("high"), "{short}");
    assert_eq!(rows(&report)[0]["process_name"], "modelled.exe", "{report}");
    let exported = folder.path().join("a.json");
    let exported = text(&exported);
    json(&["export", file, "-f", "firefox", "-o", exported]);
    let profile = std::fs::read_to_string(exported).expect("a file");
    let profile: Value = serde_json::from_str(&profile).expect("JSON");
    let weights = profile["threads"].as_array().expect("threads").iter();
    let weights = weights.map(|thread| {
        let weights = thread["samples"]["weight"].as_array().expect("weights");
        let sum = weights.iter().filter_map(Value::as_u64).sum::<u64>();
        (thread["processName"].to_string(), sum)
    });
    let weights: Vec<(String, u64)> = weights.collect();
    let of_short = weights.iter().filter(|(name, _)| name.contains("short"));
    let of_short: u64 = of_short.map(|&(_, sum)| sum).sum();
    assert_eq!(short["events"], of_short, "{weights:?}");
}

#[test]
fn filters_and_their_refusals() {
    let workload = "instructions=10000000,cycles=20000000,user=100";
    let recorded = Recorded::new(&["TotalIssues:10000"], workload);
    let counted = |arguments: &[&str]| recorded.report(arguments)["counted"].clone();
    assert_eq!(counted(&[]), 1000);
    assert_eq!(counted(&["--module", "modelled.*"]), 1000);
    assert_eq!(counted(&["--module", "other"]), 0);
    assert_eq!(counted(&["--process", "4096"]), 1000);
    assert_eq!(counted(&["--process", "MODELLED.EXE"]), 1000);
    assert_eq!(counted(&["--cpu", "1-3"]), 0);
    assert_eq!(counted(&["--source", "totalissues"]), 1000);
    let early = counted(&["--time", "-0.01"]).as_u64().expect("a number");
    let late = counted(&["--time", "0.01-"]).as_u64().expect("a number");
    assert_eq!(early + late, 1000);
    assert!(early > 300 && late > 300, "{early} {late}");
    for arguments in [
        ["--by", "nonsense"],
        ["--by", "module,module"],
        ["--by", ""],
        ["--time", "2-1"],
        ["--source", "Other"],
        ["--cpu", "x"],
        ["--sort", "x"],
    ] {
        refused(&[&["report", recorded.file()], &arguments[..]].concat(), 2, "usage");
    }
    let csv = ["report", recorded.file(), "--csv", "--by", "module", "--by", "process"];
    refused(&csv, 2, "usage");
}

#[test]
fn comma_separated_values_have_every_row() {
    let recorded =
        Recorded::new(&["TotalIssues:10000"], "instructions=10000000,cycles=20000000,user=75");
    let ran = halprof(&["report", recorded.file(), "--csv", "--by", "process,module"]);
    let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
    let head = "source,process,process_name,module,samples,events,share.value,share.low,share.high,modelled";
    assert_eq!(reader.headers().expect("a head"), head.split(',').collect::<Vec<_>>());
    let rows: Vec<_> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 2);
    let samples = rows.iter().map(|row| row[4].parse::<u64>().expect("a number"));
    assert_eq!(samples.sum::<u64>(), 1000);
    assert_eq!((&rows[0][2], &rows[0][3]), ("modelled.exe", "modelled.exe"));
    let all = halprof(&["report", recorded.file(), "--csv", "--by", "address"]);
    let json = recorded.report(&["--by", "address"]);
    assert_eq!(all.stdout.lines().count(), rows_of(&json) + 1);
}

fn rows_of(report: &Value) -> usize {
    rows(report).len()
}

#[test]
fn the_text_is_short_and_says_what_it_is_worth() {
    let recorded = Recorded::new(&["TotalIssues:10000"], "instructions=10000000,cycles=20000000");
    let ran = halprof(&["report", recorded.file(), "--by", "address", "--rows", "3"]);
    assert_eq!(ran.status, 0);
    for said in
        ["1,000 samples", "10,000,000", "at or before the address shown", "more rows with", "±"]
    {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    assert_eq!(ran.stdout.matches(" modelled.exe\n").count(), 3);
    // z * sqrt(0.1 * 0.9 / 1000) is 1.86 points; Wilson's upper end is a little farther away.
    for said in ["modelled machine", "only 1,000 samples", "±2.0 points"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    let quiet = halprof(&["-q", "report", recorded.file()]);
    assert!(quiet.stderr.contains("only 1,000") && quiet.stderr.contains("modelled machine"));
    let many = Recorded::new(&["TotalIssues:10000"], "instructions=100000000,cycles=200000000");
    assert!(!halprof(&["report", many.file()]).stderr.contains("only "));
}

/// Each is summed up by itself; rows with the same values are merged, and `machine` separates them.
#[test]
fn several_recordings_are_summed_up() {
    let one = Recorded::new(&[SOURCE], "instructions=3000000,cycles=4000000");
    let folder = tempfile::tempdir().expect("a folder");
    let other = folder.path().join("b.rec");
    let other = other.to_str().expect("UTF-8");
    std::fs::copy(one.file(), other).expect("copied");
    let single = one.report(&["--by", "module"]);
    let both = one.report(&[other, "--by", "module", "--by", "machine,module"]);
    assert_eq!(both["samples"], single["samples"].as_u64().expect("a number") * 2);
    let module = &rows(&single)[0];
    let sum = &rows(&both)[0];
    assert_eq!(sum["module"], module["module"]);
    assert_eq!(sum["samples"], module["samples"].as_u64().expect("a number") * 2);
    // A model is on no network: its recordings are named after their files.
    let parts = both["tables"][1]["parts"][0]["rows"].as_array();
    let machines: Vec<&Value> = parts.expect("rows").iter().map(|row| &row["machine"]).collect();
    assert_eq!(machines, ["a", "b"]);
    let text = halprof(&["report", one.file(), other, "--by", "machine", "--csv"]).stdout;
    assert!(text.starts_with("source,machine,samples,"), "{text}");
    let text = halprof(&["report", one.file(), other]).stdout;
    assert!(text.contains("2 recordings: "), "{text}");
    let nowhere = folder.path().join("nowhere.rec");
    let nowhere = nowhere.to_str().expect("UTF-8");
    refused(&["report", one.file(), nowhere], 5, "file");
}

#[test]
fn two_recordings_are_compared() {
    let Some(built) = binaries::elf() else { return };
    let spin = Recorded::of_function(&built, "spin", 2_000_000);
    let both = Recorded::of_function(&built, "*i*", 2_000_000);
    let diff = json(&["report", spin.file(), "--diff", both.file()]);
    assert_eq!(diff["schema"], "halprof/diff/2");
    let rows = rows(&diff);
    let row = |name: &str| {
        let mut found = rows.iter().filter(|row| row["symbol"] == name);
        found.next().unwrap_or_else(|| panic!("{name} in {diff}"))
    };
    assert_eq!(row("spin")["before"]["share"]["value"], 1.0);
    assert_eq!(row("wait")["before"]["samples"], 0);
    assert_eq!((&row("wait")["clear"], &row("spin")["clear"]), (&true.into(), &true.into()));
    let change = |name| row(name)["change"].as_f64().expect("a number");
    let sum: f64 = rows.iter().map(|row| row["change"].as_f64().expect("a number")).sum();
    assert!(change("spin") < 0.0 && change("wait") > 0.0 && sum.abs() < 1e-9);
    let same = halprof(&["report", spin.file(), "--diff", spin.file(), "--by", "symbol"]);
    assert!(same.stdout.contains("+0.00") && same.stdout.contains("chance"));
}

#[test]
fn a_recording_that_is_given_twice_is_told() {
    let recorded = Recorded::new(&[SOURCE], "instructions=1000000");
    let folder = std::path::Path::new(recorded.file()).parent().expect("a folder");
    let again = folder.join("./a.rec");
    let again = again.to_str().expect("UTF-8");
    let told = "given more than once";
    let warnings = recorded.report(&[again])["warnings"].to_string();
    assert!(warnings.contains(told), "{warnings}");
    assert!(!recorded.report(&[])["warnings"].to_string().contains(told));
    let out = folder.join("out");
    let out = out.to_str().expect("UTF-8");
    let export = ["export", recorded.file(), again, "-f", "folded", "-o", out];
    let ran = halprof(&export);
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
}

#[test]
fn what_is_not_there_is_refused() {
    let recorded = Recorded::new(&[SOURCE], "instructions=1000000");
    let file = recorded.file();
    for (arguments, told) in [
        (&["report", file, "-C", "99"][..], "no recording has a processor 99"),
        (&["script", file, "-C", "0-99"], "no recording has a processor 99"),
        (
            &["report", file, "--by", "symbol", "--symbol-path", "/no/such"],
            "`/no/such` is not a folder",
        ),
        (&["annotate", file, "--symbol-path", "/tmp;/no/such"], "`/no/such` is not a folder"),
        (&["report", file, "--by", "module,module"], "`module` is listed twice"),
        (&["report", file, "--by", "modul"], "Did you mean `module`?"),
    ] {
        let ran = halprof(arguments);
        assert_eq!(ran.status, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
    for store in ["srv*/no/such", "cache*/no/such;srv*https://example.com/symbols"] {
        recorded.report(&["--symbol-path", store]);
    }
}

#[test]
fn many_sources_in_turns_are_not_all_named() {
    let (_folder, path) = folder();
    let file = text(&path);
    let ran = halprof(&["--machine", "skylake", "record", "-e", "all", "-o", file]);
    for told in [&ran, &halprof(&["report", file])] {
        let line = told.stderr.lines().find(|line| line.contains("took turns"));
        let (_, names) = line.expect("a warning").rsplit_once(": ").expect("names");
        assert_eq!(names.split(", ").count(), 5, "{names}");
        assert!(names.contains(" more"), "{names}");
    }
}

#[test]
fn a_file_may_stand_after_a_list() {
    let recorded = Recorded::new(&["TotalIssues:10000"], "instructions=1000000");
    for arguments in [
        &["report", "--by", "symbol"][..],
        &["report", "--by", "process,symbol", "--by", "module"],
        &["report", "-C", "0-3"],
        &["script", "-C", "0"],
    ] {
        let ran = halprof(&[arguments, &[recorded.file()]].concat());
        assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn damage_of_one_of_several_recordings_is_told_with_its_name() {
    let recorded = Recorded::new(&["TotalIssues:5000"], "instructions=20000000,cycles=400000000");
    let (_folder, path) = folder();
    let bytes = std::fs::read(recorded.file()).expect("a recording");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
    let cut = text(&path);
    let flaw = |files: &[&str]| {
        let ran = halprof(&[&["--json", "report"], files].concat());
        assert_eq!(ran.status, 5, "{}", ran.stdout);
        ran.json()["damaged"].as_str().expect("what is damaged").to_owned()
    };
    let own = flaw(&[cut]);
    let whole = own.split_once(" samples are whole").expect("a number").0;
    let whole = whole.rsplit(' ').next().expect("a number");
    let samples: u64 = whole.replace(',', "").parse().expect("a number");
    assert!(samples >= 1000, "{own}");
    assert_eq!(whole, thousands(samples), "{own}");
    assert_eq!(flaw(&[recorded.file(), cut]), format!("{cut}: {own}"));
    assert_eq!(flaw(&[cut, recorded.file()]), format!("{cut}: {own}"));
}

#[test]
fn sources_without_samples_share_a_line() {
    let (_folder, path) = folder();
    let path = text(&path);
    json(&["--machine", "zen4", "record", "-e", "all", "-o", path]);
    let report = json(&["report", path]);
    let warnings = report["warnings"].as_array().expect("warnings");
    let told = warnings.iter().filter_map(Value::as_str);
    let told: Vec<&str> = told.filter(|told| told.contains("no samples")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(" more"), "{told:?}");
}

#[test]
fn few_samples_are_told_even_quietly() {
    let (_folder, path) = folder();
    let path = text(&path);
    let ran = halprof(&["-q", "record", "-e", "TotalCycles:10000000", "-o", path]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("warning: ") && ran.stderr.contains("samples are fewer than"),
        "{}",
        ran.stderr
    );
}

/// Of 79,528 samples an independent reader finds 73,313 in idle threads (manifest.json beside it).
#[test]
fn a_trace_of_windows_is_reported_with_its_idle_samples_apart() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/etw/files/net.4.5.2.x64.etl");
    if !std::path::Path::new(trace).exists() {
        eprintln!("skipped: no {trace}");
        return;
    }
    let report = json(&["report", trace, "--by", "process"]);
    assert_eq!(report["samples"], 79_528);
    assert_eq!(report["idle"], 73_313);
    assert_eq!(report["modelled"], false);
    let text = halprof(&["report", trace]).stdout;
    assert!(text.contains("by Windows' own tracing"), "{text}");
    assert!(text.contains("73,313 of idle threads"), "{text}");
}
