//! Does `-- PROGRAM` measure a program from its first instruction to its end, and track everything
//! that it starts?
//!
//! The driver is a model in real time; processes, jobs and handles are Wine's.

use crate::cli::support::signal;
use crate::wine::prefix::Wine;
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What is awaited comes at once, or on a busy machine within this time.
const SOON: Duration = Duration::from_secs(120);

/// The result of `stat -- program.exe`, what was written to standard error, and the exit status.
///
/// The output goes to files: under Wine a process that outlives the program keeps what it was given
/// as its standard output, so the end of a pipe would come only with that process's end.
fn stat(wine: &Wine, options: &[&str], program: &[&str]) -> (Value, String, Option<i32>) {
    let stat = ["--json", "stat", "-e", "TotalCycles"];
    let all = [&stat[..], options, &["--", "program.exe"], program].concat();
    let [output, errors] = ["output", "errors"].map(|name| wine.folder().join(name));
    let file = |path| File::create(path).expect("a file");
    let mut tool = wine.real_time(&all);
    let status = tool.stdout(file(&output)).stderr(file(&errors)).status();
    let text = read(&output);
    let value = serde_json::from_str(&text);
    let value = value.unwrap_or_else(|error| panic!("{all:?}: {error}: {text}"));
    (value, read(&errors), status.expect("Wine runs").code())
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned()
}

/// Whether a process of this Wine is still running.
fn lives(wine: &Wine, process: &str) -> bool {
    let mut program = wine.command(&crate::wine::prefix::program("wine64"));
    let status = program.args(["program.exe", "lives", process]).status();
    status.expect("Wine runs").code() == Some(1)
}

/// The process identifiers that a program has written: its own, and those of what it has started;
/// `None` if they do not come.
fn told(wine: &Wine, file: &str) -> Option<Vec<String>> {
    let since = Instant::now();
    loop {
        let text = std::fs::read_to_string(wine.folder().join(file)).unwrap_or_default();
        if text.ends_with('\n') {
            return Some(text.split_whitespace().map(str::to_owned).collect());
        }
        if since.elapsed() > SOON {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_is_measured_from_its_first_instruction_to_its_end() {
    let Some(wine) = Wine::new() else {
        return;
    };
    its_status_is_told(&wine);
    it_has_no_privilege_that_the_tool_uses(&wine);
    what_it_prints_is_not_in_the_result(&wine);
    what_outlives_it_is_named_and_left_alone(&wine);
    what_outlives_it_is_ended_where_that_is_asked_for(&wine);
    a_duration_ends_it_and_what_it_has_started(&wine);
    ctrl_c_ends_it_and_what_it_has_started(&wine);
    it_is_pinned_where_that_is_asked_for(&wine);
    what_cannot_be_started_is_an_error(&wine);
}

fn its_status_is_told(wine: &Wine) {
    for (status, told) in [
        ("0", 0),
        ("7", 7),
        ("0xC0000005", 0xC000_0005_u32),
        // As after Ctrl-C, which did not come.
        ("0xC000013A", 0xC000_013A),
    ] {
        let (value, ..) = stat(wine, &[], &["exit", status]);
        assert_eq!(value["interrupted"], false, "{value}");
        let scope = &value["scope"];
        assert_eq!(scope["program"], "program.exe");
        assert_eq!(scope["exit_status"], told, "{scope}");
        assert_eq!(scope["processors"], json!([0, 1]));
        assert_eq!(scope["left_running"], json!([]));
        assert!(value["counts"][0]["value"].as_u64() > Some(0), "{value}");
    }
}

/// For the kernel's addresses the tool uses SeDebugPrivilege, which a program would inherit.
fn it_has_no_privilege_that_the_tool_uses(wine: &Wine) {
    // Held by administrators, and disabled until somebody enables it.
    let (value, ..) = stat(wine, &[], &["privilege"]);
    assert_eq!(value["scope"]["exit_status"], 0, "{value}");
    let record = ["--json", "record", "-e", "TotalCycles", "-o", "a.rec"];
    let program = ["--", "program.exe", "privilege"];
    let output = wine.real_time(&[&record[..], &program].concat()).output();
    let text = output.expect("Wine runs").stdout;
    let value: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(value["scope"]["exit_status"], 0, "{value}");
}

fn what_it_prints_is_not_in_the_result(wine: &Wine) {
    let (_, errors, _) = stat(wine, &[], &["print"]);
    assert!(errors.contains("printed by the program"), "{errors}");
}

fn what_outlives_it_is_named_and_left_alone(wine: &Wine) {
    let (value, _, status) = stat(wine, &[], &["start", "left.txt"]);
    assert_eq!(status, Some(0), "{value}");
    let child = told(wine, "left.txt").and_then(|mut two| two.pop());
    let child = child.expect("two");
    let id: u32 = child.parse().expect("a number");
    let left = json!([{"id": id, "name": "program.exe"}]);
    assert_eq!(value["scope"]["left_running"], left);
    assert_eq!(value["scope"]["exit_status"], 0);
    assert!(lives(wine, &child));
}

fn what_outlives_it_is_ended_where_that_is_asked_for(wine: &Wine) {
    let (value, ..) = stat(wine, &["--kill-children"], &["start", "killed.txt"]);
    let child = told(wine, "killed.txt").and_then(|mut two| two.pop());
    let child = child.expect("two");
    assert_eq!(value["scope"]["left_running"], json!([]));
    assert!(!lives(wine, &child));
}

fn a_duration_ends_it_and_what_it_has_started(wine: &Wine) {
    // Long enough for Wine to start two programs.
    let (value, _, status) = stat(wine, &["-d", "15"], &["start-and-sleep", "timed.txt"]);
    assert_eq!(status, Some(0), "{value}");
    assert_eq!(value["scope"]["exit_status"], Value::Null);
    for process in told(wine, "timed.txt").expect("two") {
        assert!(!lives(wine, &process));
    }
}

fn ctrl_c_ends_it_and_what_it_has_started(wine: &Wine) {
    let stat = ["--json", "stat", "-e", "TotalCycles", "--", "program.exe"];
    let mut stat = wine.real_time(&[&stat[..], &["start-and-sleep", "ctrl-c.txt"]].concat());
    let errors = wine.folder().join("errors");
    let file = File::create(&errors).expect("a file");
    let child = stat.stdout(Stdio::piped()).stderr(file).spawn();
    let mut child = child.expect("Wine runs");
    let processes = told(wine, "ctrl-c.txt");
    let processes = processes.unwrap_or_else(|| {
        let state = child.try_wait();
        panic!("the program does not start: {state:?}: {}", read(&errors));
    });
    // Wine turns SIGINT into the Ctrl-C of a console.
    signal("INT", child.id());
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(value["interrupted"], true);
    for process in processes {
        assert!(!lives(wine, &process));
    }
}

fn it_is_pinned_where_that_is_asked_for(wine: &Wine) {
    let (value, ..) = stat(wine, &["-C", "0", "--pin"], &["mask"]);
    let scope = &value["scope"];
    assert_eq!((&scope["exit_status"], &scope["pinned"]), (&json!(1), &json!(true)));
    assert_eq!(scope["processors"], json!([0]));
    let (value, ..) = stat(wine, &["-C", "0"], &["mask"]);
    assert_ne!(value["scope"]["exit_status"], 1, "-C alone restricts nothing");
}

fn what_cannot_be_started_is_an_error(wine: &Wine) {
    let arguments = ["--json", "stat", "-e", "TotalCycles", "--", "no-such-program"];
    let output = wine.real_time(&arguments).output().expect("Wine runs");
    assert_eq!(output.status.code(), Some(5));
}
