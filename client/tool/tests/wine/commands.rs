//! Do commands that need no driver print the same as elsewhere, do the others report that there is
//! none, and does Ctrl-C leave a result?

use crate::cli::support::signal;
use crate::wine::download;
use crate::wine::prefix::Wine;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// The commands that are run on both, including two measurements, so that there is a recording to
/// report.
const SAME: &[&[&str]] = &[
    &["machines"],
    &["--machine", "skylake", "info"],
    &["--machine", "hybrid", "--json", "list", "--all"],
    &["--machine", "pentium", "check", "-e", "TotalIssues,BranchInstructions"],
    &["--machine", "zen4", "stat", "--per-cpu"],
    &["--machine", "skylake", "--json", "stat", "-I", "10", "-r", "2"],
    &["--machine", "skylake", "record", "-o", "a.rec"],
    &["report", "a.rec"],
    &["--machine", "pentium4", "registers"],
    &["--machine", "hyperv-masked", "doctor"],
    &["explain"],
    &["explain", "counters-reserved"],
    &["--machine", "hybrid", "explain", "TotalIssues"],
    &["--machine", "skylake", "completions", "powershell"],
    &["--machine", "skylake", "stat", "-e", "Nonsense"],
    &["nonsense"],
];

/// Setting up Wine takes longer than all the tests, so they share one Wine.
#[test]
fn it_is_the_tool_that_it_is_elsewhere() {
    let Some(wine) = Wine::new() else {
        return;
    };
    what_needs_no_driver_says_the_same_as_elsewhere(&wine);
    what_needs_a_driver_says_that_there_is_none(&wine);
    doctor_reads_what_windows_says(&wine);
    download::what_is_missing_is_fetched(&wine);
    ctrl_c_ends_the_measurement_and_leaves_its_result(&wine);
}

fn what_needs_no_driver_says_the_same_as_elsewhere(wine: &Wine) {
    let here = tempfile::tempdir().expect("a folder");
    for arguments in SAME {
        let there = wine.tool(arguments).output().expect("Wine runs");
        let mut tool = Command::new(env!("CARGO_BIN_EXE_halprof"));
        let own = tool.args(*arguments).current_dir(here.path());
        let own = own.output().expect("the tool runs");
        let said = String::from_utf8_lossy(&there.stderr);
        assert_eq!(there.status.code(), own.status.code(), "{arguments:?}: {said}");
        let texts = [&there.stdout, &own.stdout].map(|text| without_its_time(text));
        assert_eq!(texts[0], texts[1], "{arguments:?}");
        // Only the program's name differs: halprof.exe in its usage.
        let said = [&there.stderr, &own.stderr].map(|text| String::from_utf8_lossy(text));
        assert_eq!(said[0].replace("halprof.exe", "halprof"), said[1], "{arguments:?}");
    }
}

/// What was printed, without the second in which a recording was made.
fn without_its_time(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines = text.split_inclusive('\n');
    let without = lines.map(|line| match line.split_once("Z by ") {
        Some((time, by)) if time.starts_with("recorded ") => by,
        _ => line,
    });
    without.collect()
}

fn what_needs_a_driver_says_that_there_is_none(wine: &Wine) {
    for command in ["info", "list", "check", "registers", "stat", "record", "start", "stop"] {
        let refused = wine.refused(&[command], &[]);
        assert_eq!(refused, (3, "no-driver".to_owned()), "{command}");
    }
    let refused = wine.refused(&["explain", "TotalIssues"], &[]);
    assert_eq!(refused, (3, "no-driver".to_owned()));
    assert_eq!(wine.halprof(&["explain", "busy"], &[]).0, 0);
}

/// Wine answers the queries in its own way. That they were made and understood shows in the facts
/// that do not stay unknown.
fn doctor_reads_what_windows_says(wine: &Wine) {
    let (status, answer) = wine.halprof(&["doctor"], &[]);
    assert_eq!((status, &answer["ready"]), (3, &Value::Bool(false)), "{answer}");
    let checks = answer["checks"].as_array().expect("a list");
    let text = |check: &Value, field: &str| check[field].as_str().unwrap_or_default().to_owned();
    let checks: BTreeMap<String, &Value> =
        checks.iter().map(|check| (text(check, "name"), check)).collect();
    for (name, state) in [("driver", "problem"), ("permission", "ok"), ("other-tools", "ok")] {
        assert_eq!(text(checks[name], "state"), state, "{}", checks[name]);
    }
    assert!(text(checks["windows"], "result").starts_with("build "), "{}", checks["windows"]);
    // The processor is the one on which Wine runs, whose CPUID needs no Windows.
    let interface = text(checks["interface"], "result");
    assert!(interface.contains("CPUID") || interface.contains("hypervisor"), "{interface}");
    assert!(!checks.contains_key("counting"), "there is no driver to try");
}

fn ctrl_c_ends_the_measurement_and_leaves_its_result(wine: &Wine) {
    // Endless modelled time: only an interrupt stops it.
    let endless = "cycles=4000000000000000000,instructions=4000000000000000000";
    let mut stat = wine.tool(&[
        "--machine",
        "skylake",
        "stat",
        "-e",
        "TotalIssues",
        "-I",
        "1000",
        "--workload",
        endless,
    ]);
    let mut child = stat.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("Wine runs");
    let mut errors = BufReader::new(child.stderr.take().expect("its errors"));
    let mut said = String::new();
    errors.read_line(&mut said).expect("a line");
    assert!(said.contains("modelled machine"), "{said}");
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let mut first = String::new();
    while !first.contains("TotalIssues") {
        first.clear();
        let read = output.read_line(&mut first).expect("a line");
        assert_ne!(read, 0, "it ends before an interval does");
    }
    // Wine turns SIGINT into the Ctrl-C of a console.
    signal("INT", child.id());
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("the rest");
    errors.read_to_string(&mut said).expect("text");
    let status = child.wait().expect("it ends");
    assert!(rest.contains("TotalIssues"), "{rest}");
    assert!((rest.clone() + &said).contains("interrupted"), "{rest}{said}");
    assert_eq!(status.code(), Some(0), "{said}");
}
