//! Do edges, paths and exports of branch records match what was recorded, in every form of output?

use crate::cli::binaries;
use crate::cli::reports::Recorded;
use crate::cli::screens::screen::{WIDTHS, assert_width};
use crate::cli::support::{column, csv_rows, folder, halprof, json, refused, text};
use halprof_profile::file::{Branches, Metadata, Module, Source, Statistics, Writer};
use serde_json::{Value, json};
use shared_types::{Branch, Mode, Sample};
use std::path::Path;
use tempfile::TempDir;

const CODE: u64 = 0x1_4000_0000;

/// A loop of two branches, of which the second is mispredicted every third time.
fn round(start: u64, n: u64) -> [Branch; 2] {
    let second = if n.is_multiple_of(3) { Branch::MISPREDICTED } else { Branch::PREDICTED };
    let rows = [(0x20, 0x40, 3, 2, Branch::PREDICTED), (0x50, 0x10, 7, 1, second)];
    rows.map(|(from, to, cycles, kind, flags)| Branch {
        from: start + from,
        to: start + to,
        cycles,
        kind,
        flags: flags | Branch::CYCLES,
        reserved: 0,
    })
}

/// Samples of three rounds each, newest first, and one of a thread that ran before, with `kinds` of
/// branches.
pub(super) fn recorded(module: &Module, kinds: &[&str]) -> (TempDir, String) {
    let (folder, path) = folder();
    let metadata = Metadata {
        interface: "Emon".to_owned(),
        sources: vec![Source { name: "BranchInstructions".to_owned(), ..Source::default() }],
        branches: Some(Branches {
            depth: 8,
            kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
            recorder: "architectural-lbr".to_owned(),
        }),
        ..Metadata::default()
    };
    let start = module.start;
    let sample = Sample {
        process: 7,
        ip: start + 0x10,
        mode: Mode::User as u8,
        branches: 7,
        ..Sample::default()
    };
    let foreign = Branch { from: start + 0x30, to: start + 0x28, ..Branch::default() };
    let of_sample =
        |n: u64| (0..3).flat_map(move |m| round(start, 3 * n + m)).rev().chain([foreign]);
    let branches: Vec<Branch> = (0..100).flat_map(of_sample).collect();
    let mut writer = Writer::create(&path, &metadata).expect("created");
    writer.modules(std::slice::from_ref(module)).expect("written");
    writer.branched(&vec![sample; 100], &branches).expect("written");
    writer.finish(&Statistics::default(), false).expect("finished");
    (folder, text(&path).to_owned())
}

pub(super) fn app() -> Module {
    Module {
        process: Some(7),
        name: "app.exe".to_owned(),
        start: CODE,
        end: CODE + 0x1_0000,
        ..Module::default()
    }
}

/// The same of [`app`] with all kinds of branches, in this file.
pub(super) fn write(path: &Path) {
    let (_folder, file) = recorded(&app(), &[]);
    std::fs::copy(file, path).expect("copied");
}

/// The path of a model's workload is known: no record belongs to another thread.
#[test]
fn a_model_records_its_branches() {
    let (_folder, path) = folder();
    let file = text(&path);
    let record = |machine: &str, branches: &str| {
        let work = "instructions=5000000,cycles=5000000,branches=1000000";
        json(&format!(
            "--machine {machine} record {branches} -e TotalIssues:10007 -C 0 -o {file} --workload {work}"
        ))
    };
    for (machine, options, depth, recorder) in [
        ("skylake", "--branches=8", 8, "lbr-info"),
        ("sapphire-rapids", "--branches", 32, "architectural-lbr"),
        ("zen4", "--branches", 16, "amd-lbr-v2"),
    ] {
        let taken = record(machine, options);
        let branches = &taken["branches"];
        let samples = taken["samples"].as_u64().expect("a number");
        let records = branches["records"].as_u64().expect("a number");
        assert_eq!(
            *branches,
            json!({"depth": depth, "recorder": recorder, "kinds": [], "records": records})
        );
        // AMD's records may include branches that were not executed in the end; these are left out.
        let most = samples * depth;
        assert!(samples > 400 && records <= most && records * 10 > most * 9, "{machine}: {taken}");
        assert!(machine == "zen4" || records == most, "{machine}: {taken}");
        let edges = json(&format!("report {file} --by edge"));
        let all = json!({"samples": samples, "records": records, "hidden": 0, "unresolved": 0, "foreign": 0, "switching": 0, "omitted": 0, "dropped": null});
        assert_eq!(edges["records"], all, "{machine}");
        assert_eq!(edges["tables"][0]["parts"][0]["taken"], records);
    }
    let taken = record("sapphire-rapids", "--branches=16+cond+call");
    assert_eq!(taken["branches"]["kinds"], json!(["cond", "call"]));
    let edges = json(&format!("report {file} --by edge"));
    let kinds = column(&edges["tables"][0]["parts"][0]["rows"], "kind");
    let chosen = |kind: &&Value| ["conditional", "call"].iter().any(|name| **kind == *name);
    assert!(kinds.len() > 2 && kinds.iter().all(chosen), "{edges}");
}

/// Records are of branch instructions, code runs straight on from each to the next, and as many as
/// the workload says were mispredicted.
#[test]
fn the_records_of_a_model_follow_the_code_of_its_image() {
    for built in [binaries::pe(), binaries::elf()].into_iter().flatten() {
        let work = format!(
            "instructions=20000000,cycles=40000000,branches=4000000,branch-misses=80000,user=80,image={}",
            built.path()
        );
        let recorded = Recorded::new("skylake", "--branches=16 -e TotalIssues:10007", &work);
        let edges = json(&format!("report {} --by edge", recorded.file()));
        let records = &edges["records"];
        assert!(records["records"].as_u64() > Some(20_000), "{edges}");
        assert_eq!(json!([records["unresolved"], records["foreign"]]), json!([0, 0]));
        let rows = &edges["tables"][0]["parts"][0]["rows"];
        let sum = |field: &str| column(rows, field).iter().filter_map(|n| n.as_f64()).sum::<f64>();
        // 2 % of 30,000 records: four standard deviations are 0.33 %.
        let share = sum("mispredicted") / sum("taken");
        assert!((share - 0.02).abs() < 0.0033, "{share}");
        let annotated = json(&format!("annotate {} spin", recorded.file()));
        let rows = annotated["instructions"].as_array().expect("instructions");
        let number = |row: &Value, field: &str| row[field][0].as_u64().expect("a number");
        for (row, next) in rows.iter().zip(&rows[1..]) {
            let (executed, taken) = (number(row, "executed"), number(row, "taken"));
            let code = row["text"].as_str().expect("text");
            let is_branch = ["j", "call", "ret"].iter().any(|name| code.starts_with(name));
            assert!(taken == 0 || is_branch, "{row}");
            assert!(number(next, "executed") + taken >= executed, "{row} {next}");
        }
        assert!(rows.iter().any(|row| number(row, "taken") > 1000), "{annotated}");
        for width in WIDTHS {
            let shown = halprof(&format!("annotate {} spin --width {width}", recorded.file()));
            assert_width("annotate", &shown.stdout, width);
        }
    }
}

/// Each record as `perf script` prints it, with the module where it was loaded.
#[test]
fn an_export_has_the_records_newest_first() {
    let Some(built) = binaries::pe() else { return };
    let start = 0x7FF6_1234_0000;
    let module = Module { name: "work.exe".to_owned(), start, end: start + 0x1_0000, ..app() };
    let (folder, file) = recorded(&module, &[]);
    let out = folder.path().join("out");
    let symbols = text(built.folder.path());
    let export = format!("export {file} --format perf-script -o {}", text(&out));
    assert_eq!(json(&format!("{export} --symbol-path {symbols}"))["samples"], 100);
    let lines = std::fs::read_to_string(&out).expect("a file");
    let mut lines = lines.lines();
    let module =
        "PERF_RECORD_MMAP2 7/7: [0x7ff612340000(0x10000) @ 0x1000 00:00 0 0]: r-xp work.exe";
    assert_eq!(lines.next(), Some(module));
    let round = |flag| {
        format!(" 0x7ff612340050/0x7ff612340010/{flag}/-/-/7 0x7ff612340020/0x7ff612340040/P/-/-/3")
    };
    let sample = format!("7ff612340010{}{}{}", round("P"), round("P"), round("M"));
    assert_eq!(lines.collect::<Vec<_>>(), vec![sample; 100], "one line of the module is enough");
    // Without the file its code section is not known, and a message says so.
    assert!(halprof(&export).stderr.contains("work.exe"));
    assert!(!std::fs::read_to_string(out).expect("a file").contains("MMAP2"));
}

/// A model writes the trace that Windows' own tracing would.
#[test]
fn branches_by_tracing_are_those_of_the_code_that_ran() {
    let Some(built) = binaries::pe() else { return };
    let work = format!(
        "instructions=40000000,cycles=80000000,branches=8000000,image={},function=spin",
        built.path()
    );
    let (folder, path) = folder();
    let file = text(&path);
    let trace = path.with_extension("etl");
    let trace = text(&trace);
    for target in [file, trace] {
        let taken = json(&format!(
            "--machine skylake,backend=etw record --branches=user -e BranchInstructions:10007 -o {target} --workload {work}"
        ));
        let branches = &taken["branches"];
        let expected = json!({"depth": 32, "kinds": [], "recorder": "windows-tracing", "records": branches["records"]});
        assert_eq!(*branches, expected);
        assert!(branches["records"].as_u64() > Some(8_000), "{taken}");
    }
    let symbols = text(built.folder.path());
    let edges = json(&format!("report {file} --by edge,symbol --symbol-path {symbols}"));
    let records = &edges["records"];
    let dropped = &records["dropped"];
    for cause in ["without_sample", "empty", "no_branches"] {
        assert!(dropped[cause].as_u64() > Some(0), "{cause}: {edges}");
    }
    // Records of another thread are in no module of the process.
    assert!(records["unresolved"].as_u64() > Some(0) && records["foreign"] == 0, "{edges}");
    let rows = edges["tables"][0]["parts"][0]["rows"].as_array().expect("rows");
    assert!(!rows.is_empty());
    for row in rows {
        for side in ["from", "to"] {
            assert_eq!(row["edges"][0][side]["symbol"], "spin(int)", "{row}");
        }
        let unknown =
            json!([row["mispredicted"], row["mispredicted_share"], row["cycles"], row["kind"]]);
        assert_eq!(unknown, json!([null, null, null, null]), "{row}");
    }
    assert!(
        json(&format!("report {file} --by path:3"))["tables"][0]["parts"][0]["taken"].as_u64()
            > Some(1000)
    );
    refused(&format!("report {file} --by edge --sort mispredicted"), 4, "unavailable");
    let annotated = json(&format!("annotate {file} spin --symbol-path {symbols}"));
    let instructions = annotated["instructions"].as_array().expect("instructions");
    let hot = instructions.iter().filter(|row| row["executed"][0].as_u64() > Some(1000)).count();
    assert!(hot > 2, "{annotated}");
    assert!(instructions.iter().all(|row| row["mispredicted"] == json!([null])), "{annotated}");
    let csv = halprof(&format!("--csv annotate {file} spin --symbol-path {symbols}")).stdout;
    assert!(csv_rows(&csv).iter().all(|row| row["mispredicted"].is_empty()), "{csv}");
    // The trace and the recording of it say the same, and nothing of predictions.
    for format in ["perf-script", "unsymbolized"] {
        let [of_recording, of_trace] = [file, trace].map(|from| {
            let out = folder.path().join("out");
            let out = text(&out);
            json(&format!("export {from} --format {format} -o {out} --symbol-path {symbols}"));
            let lines = std::fs::read_to_string(out).expect("a file");
            // The recorder knows where the file of the module is, which Windows names by its volume.
            let lines = lines.lines().filter(|line| !line.starts_with("PERF_RECORD_MMAP2"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        assert!(of_recording.len() > 3, "{of_recording:?}");
        assert!(of_recording == of_trace, "{format}");
    }
}

/// Kinds are Windows' filters, turned round: it leaves out what is not named.
#[test]
fn kinds_of_branches_by_tracing_are_recorded_alone() {
    let (_folder, path) = folder();
    let file = text(&path);
    let record = "record -e BranchInstructions:10007 --workload instructions=20000000,cycles=20000000,branches=5000000";
    let taken =
        json(&format!("--machine zen4,backend=etw {record} --branches=cond+user -o {file}"));
    let branches = &taken["branches"];
    assert_eq!(json!([branches["depth"], branches["kinds"]]), json!([16, ["cond"]]));
    // The code between them is unknown.
    refused(&format!("export {file} --format unsymbolized -o {file}.txt"), 4, "unavailable");
    // Nothing but branches is refused where there are none.
    let without = "--machine zen2,backend=etw";
    let ran = halprof(&format!("{without} {record} --branches -o {file}"));
    assert!(ran.status == 4 && ran.stderr.contains("no branch records here"), "{}", ran.stderr);
    assert_eq!(json(&format!("{without} {record} -o {file}"))["branches"], Value::Null);
}
