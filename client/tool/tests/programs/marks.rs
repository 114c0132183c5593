//! Are a program's marks recorded, also where its recorder is killed? What the buffer between them
//! holds is proved in halprof-measure, with several threads and processes in halprof-c, and what is
//! shown of a recording in `tests/cases/marks.txt`.

use crate::tests::{SOON, halprof, json, ran, read_when_written, scratch, signal, trials};
use halprof_measure::marks::Channel;
use halprof_profile::file::{self, Recording};
use libtest_mimic::Trial;
use serde_json::Value;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) fn program(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let what = arguments.next().unwrap_or_default();
    let file = arguments.next().unwrap_or_default();
    match what.as_str() {
        "turns" => turns(1000),
        "wait" => {
            turns(500);
            std::fs::write(file, format!("{}\n", std::process::id())).expect("written");
            thread::sleep(SOON);
        }
        what => panic!("{what}"),
    }
    ExitCode::SUCCESS
}

fn turns(turns: u64) {
    let (begin, end) = (Channel::named("begin"), Channel::named("end"));
    for turn in 0..turns {
        begin.mark(turn);
        std::hint::black_box((0..turn % 100).sum::<u64>());
        end.mark(turn);
    }
}

pub(crate) fn all() -> Vec<Trial> {
    trials! {
        a_timeline_shows_marks_and_intervals
        marks_are_recorded_beside_samples
        a_killed_recorder_leaves_what_it_had
        a_program_without_marks_runs
        a_recording_goes_where_it_is_sent
    }
}

/// This program, which makes marks.
fn own() -> String {
    std::env::current_exe().expect("this file").to_str().expect("UTF-8").to_owned()
}

/// The result of `timeline` on this program's marks, and its status.
fn timeline(options: &[&str], what: &[&str]) -> (Value, i32) {
    let own = own();
    let program = ["--", &own, "mark"];
    let output = ran(&[&["--json", "timeline"], options, &program, what].concat());
    (json(&output.stdout), output.status.code().expect("a status"))
}

fn read(file: &str) -> Recording {
    let mut source = file::open(Path::new(file)).expect("a recording");
    source.keep_marks();
    source.samples(&mut |_, _| {}).expect("read");
    source.take_recording()
}

fn a_timeline_shows_marks_and_intervals() {
    let (_folder, file) = scratch();
    let (value, status) = timeline(&["-o", &file, "--between", "begin,end"], &["turns"]);
    let lost = (&value["dropped"]["full"], &value["invalid_entries"]);
    assert_eq!((lost, status), ((&0.into(), &0.into()), 0), "{value}");
    assert_eq!((&value["warnings"], &value["modelled"]), (&serde_json::json!([]), &false.into()));
    assert!(value["cost"]["min_ns"].as_f64() > Some(0.0), "{value}");
    let between = &value["between"];
    assert_eq!(between["lengths"]["n"], 1000, "{between}");
    assert_eq!((&between["without_end"], &between["without_begin"]), (&0.into(), &0.into()));
    assert_eq!(between["longest"].as_array().map(Vec::len), Some(10));
    let names = value["channels"].as_array().expect("a list").iter();
    assert_eq!(names.map(|one| &one["channel"]).collect::<Vec<_>>(), ["begin", "end"]);
    let shown = ran(&["timeline", &file]).stdout;
    let shown = String::from_utf8(shown).expect("UTF-8");
    assert!(shown.starts_with("2,000 marks on 2 channels in 0.0"), "{shown}");
}

fn marks_are_recorded_beside_samples() {
    let (_folder, file) = scratch();
    let own = own();
    let record = ["--json", "record", "-e", "TotalCycles", "-o", &file];
    let output = ran(&[&record[..], &["--", &own, "mark", "turns"]].concat());
    let told = json(&output.stdout);
    assert_eq!((&told["marks"], &told["marks_dropped"]), (&2000.into(), &0.into()));
    let recording = read(&file);
    assert_eq!(recording.marked.marks.len(), 2000);
    assert_eq!(recording.samples, told["samples"].as_u64().expect("a number"));
    let value = json(&ran(&["--json", "timeline", &file]).stdout);
    assert_eq!((&value["recorded"], &value["exit_status"]), (&2000.into(), &Value::Null));
    assert_eq!(ran(&["report", &file]).status.code(), Some(0));
}

fn a_killed_recorder_leaves_what_it_had() {
    let (folder, file) = scratch();
    let ready = folder.path().join("ready");
    let ready = ready.to_str().expect("UTF-8");
    let own = own();
    let mut recorder = halprof(&["timeline", "-o", &file, "--", &own, "mark", "wait", ready])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let program = read_when_written(ready);
    let partial = format!("{file}.partial");
    let since = Instant::now();
    while read(&partial).marked.count < 1000 {
        assert!(since.elapsed() < SOON, "the marks do not come");
        thread::sleep(Duration::from_millis(5));
    }
    recorder.kill().expect("killed");
    recorder.wait().expect("ended");
    signal("KILL", &program);
    let output = ran(&["--json", "timeline", &partial]);
    let value = json(&output.stdout);
    assert_eq!((output.status.code(), &value["marks"]), (Some(5), &1000.into()));
    let damage = value["damaged"].as_str().expect("a text");
    assert!(damage.contains("1,000 marks are whole"), "{damage}");
    assert!(value["clock"]["ticks_a_second"].as_u64() > Some(1_000_000), "{value}");
}

fn a_program_without_marks_runs() {
    let (_folder, file) = scratch();
    let output = ran(&["timeline", "-o", &file, "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no program found the recorder"), "{said}");
}

fn a_recording_goes_where_it_is_sent() {
    let (_folder, file) = scratch();
    let own = own();
    let output = ran(&["timeline", "-o", "-", "--", &own, "mark", "turns"]);
    std::fs::write(&file, &output.stdout).expect("written");
    assert_eq!(read(&file).marked.count, 2000);
    let missing = ran(&["--json", "timeline", "-o", &file, "--", "/no/such/program"]);
    assert_eq!(json(&missing.stdout)["error"]["code"], "file");
    assert_eq!(missing.status.code(), Some(5));
}
