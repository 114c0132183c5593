//! Are all marks recorded, whatever happens to the program, and are their times right?

use crate::tests::{SOON, halprof, json, ran, read_when_written, scratch, trials};
use halprof_measure::marks::Channel;
use halprof_profile::file::{Reader, Recording};
use halprof_profile::views::marks::{MarkFilter, Marks};
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How many marks each of four threads makes.
const EACH: u64 = 250_000;
/// More marks than fit into the buffer.
const FLOOD: u64 = 1_500_000;

/// The program that makes marks.
pub(crate) fn program(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let what = arguments.next().unwrap_or_default();
    let file = arguments.next().unwrap_or_default();
    match what.as_str() {
        "threads" => threads(),
        "turns" => turns(1000),
        "wait" => {
            turns(500);
            std::fs::write(file, format!("{}\n", std::process::id())).expect("written");
            thread::sleep(SOON);
        }
        "killed" => {
            turns(500);
            signal("-KILL", std::process::id());
            thread::sleep(SOON);
        }
        "start" => {
            turns(10);
            let status = Command::new(own()).args(["mark", "turns"]).status();
            assert!(status.expect("it runs").success());
        }
        "flood" => {
            let recorder = std::os::unix::process::parent_id();
            let flood = Channel::named("flood");
            signal("-STOP", recorder);
            (0..FLOOD).for_each(|value| flood.mark(value));
            signal("-CONT", recorder);
        }
        "scribble" => return scribble(),
        what => panic!("{what}"),
    }
    ExitCode::SUCCESS
}

fn threads() {
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let own = Channel::named(&format!("thread {number}"));
                (0..EACH).for_each(|value| own.mark(value));
            });
        }
    });
}

fn turns(turns: u64) {
    let (begin, end) = (Channel::named("begin"), Channel::named("end"));
    for turn in 0..turns {
        begin.mark(turn);
        std::hint::black_box((0..turn % 100).sum::<u64>());
        end.mark(turn);
    }
}

/// Overwrites the whole buffer repeatedly.
fn scribble() -> ExitCode {
    turns(100);
    let variable = std::env::var("HALPROF_MARKS").expect("a recorder");
    let (handle, _) = variable.split_once(':').expect("a handle");
    let file = File::options().write(true).open(format!("/proc/self/fd/{handle}"));
    let mut file = file.expect("the buffer");
    let length = file.metadata().expect("its length").len();
    let mut random = fastrand::Rng::with_seed(15);
    for round in 0..24 {
        let worst = [u64::MAX, 0, 1, 2, 340, 341][round % 6];
        file.seek(SeekFrom::Start(0)).expect("its begin");
        let mut block = vec![0; 1 << 16];
        for _ in 0..length / block.len() as u64 {
            for word in block.chunks_exact_mut(8) {
                let value = if round % 2 == 0 { random.u64(..) } else { worst };
                word.copy_from_slice(&value.to_le_bytes());
            }
            file.write_all(&block).expect("written");
        }
        turns(100);
        // The recorder sees each of these.
        thread::sleep(Duration::from_millis(15));
    }
    ExitCode::from(3)
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(status.expect("kill").success());
}

pub(crate) fn all() -> Vec<Trial> {
    trials! {
        a_million_marks_of_four_threads
        a_time_line_is_told
        marks_are_recorded_beside_samples
        what_a_program_starts_marks_too
        a_killed_program_leaves_its_marks
        a_killed_recorder_leaves_what_it_had
        a_full_buffer_drops_and_counts_marks
        a_program_that_scribbles_harms_nobody
        a_program_without_marks_or_recorder_runs
        a_recording_goes_where_it_is_sent
    }
}

/// This program, which makes marks.
fn own() -> String {
    let own = std::env::current_exe().expect("this file");
    own.to_str().expect("UTF-8").to_owned()
}

/// The result of `timeline` on this program's marks, and its status.
fn timeline(options: &[&str], what: &[&str]) -> (Value, i32) {
    let own = own();
    let program = ["--", &own, "mark"];
    let output = ran(&[&["--json", "timeline"], options, &program, what].concat());
    (json(&output.stdout), output.status.code().expect("a status"))
}

fn read(file: &str) -> Recording {
    let reader = Reader::open(Path::new(file)).expect("a recording");
    reader.with_marks().samples(|_| {}).expect("read")
}

fn a_million_marks_of_four_threads() {
    let (_folder, file) = scratch();
    let (value, status) = timeline(&["-o", &file], &["threads"]);
    assert_eq!(status, 0, "{value}");
    assert_eq!((&value["recorded"], &value["invalid_entries"]), (&1_000_000.into(), &0.into()));
    assert_eq!(value["dropped"]["full"], 0, "{value}");
    assert_eq!(value["warnings"], serde_json::json!([]));
    assert_eq!((&value["rows_omitted"], &value["modelled"]), (&999_980.into(), &false.into()));
    let (rate, cost) = (&value["clock"], &value["cost"]);
    assert!(rate["rate_error_ppm"].as_f64().expect("a number") < 1000.0, "{rate}");
    assert!(cost["min_ns"].as_f64().expect("a number") > 0.0, "{cost}");
    assert_eq!(cost["distances"], 255);

    let mut recording = read(&file);
    assert_eq!(recording.ending.as_ref().map(|ending| ending.marks), Some(1_000_000));
    let marks = Marks::of(&mut recording, &MarkFilter::default());
    let (mut next, mut times, mut last) = (HashMap::new(), HashMap::new(), None);
    for row in marks.rows() {
        let next = next.entry((row.channel.clone(), row.thread)).or_insert(0);
        assert_eq!(row.value, *next, "each thread's marks are in their order");
        *next += 1;
        let before = times.insert(row.channel.clone(), row.time_ns);
        assert_eq!(row.on_channel_ns, before.map(|before| row.time_ns - before));
        assert_eq!(row.on_any_ns, last.map(|last| row.time_ns - last));
        last = Some(row.time_ns);
    }
    assert_eq!(next.len(), 4);
    assert!(next.values().all(|&marks| marks == EACH));
}

fn a_time_line_is_told() {
    let (_folder, file) = scratch();
    let (value, _) = timeline(&["-o", &file, "--between", "begin,end"], &["turns"]);
    let between = &value["between"];
    assert_eq!(between["lengths"]["n"], 1000, "{between}");
    assert_eq!((&between["without_end"], &between["without_begin"]), (&0.into(), &0.into()));
    assert_eq!(between["longest"].as_array().map(Vec::len), Some(10));
    let names = value["channels"].as_array().expect("a list").iter();
    assert_eq!(names.map(|one| &one["channel"]).collect::<Vec<_>>(), ["begin", "end"]);
    let text = |options: &[&str]| {
        let output = ran(&[&["timeline", &file], options].concat());
        assert_eq!(output.status.code(), Some(0), "{options:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(text(&["--csv"]).lines().count(), 2001);
    assert_eq!(text(&["--csv", "--between", "begin,end"]).lines().count(), 1001);
    let plain = text(&[]);
    assert!(plain.starts_with("2,000 marks on 2 channels in 0.0"), "{plain}");
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["RDTSC without a fence", " ppm against", "a mark takes", "1,980 more marks"] {
        assert!(words.contains(said), "{said}: {plain}");
    }
    // Twenty microseconds contain some marks on either channel, and each is in one column.
    let drawn =
        json(&ran(&["--json", "timeline", &file, "--ticks", "20us", "--width", "0"]).stdout);
    let sum = |row: &Value| -> u64 {
        let marks = row["marks"].as_array().expect("a list").iter();
        marks.map(|one| one.as_u64().expect("a number")).sum()
    };
    let tracks = drawn["ticks"]["tracks"].as_array().expect("tracks");
    let omitted = drawn["ticks"]["omitted_columns"].as_u64().expect("a number");
    assert!(omitted > 0 || tracks.iter().all(|row| sum(row) == 1000), "{drawn}");
    let one = text(&["--ticks", "1h"]);
    assert!(one.contains("\nbegin  #\nend    #\n"), "{one}");
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
    let report = ran(&["report", &file]);
    assert_eq!(report.status.code(), Some(0));
}

fn what_a_program_starts_marks_too() {
    let (_folder, file) = scratch();
    let (value, status) = timeline(&["-o", &file], &["start"]);
    assert_eq!((&value["recorded"], &value["processes"], status), (&2020.into(), &2.into(), 0));
    let channels = value["channels"].as_array().expect("a list");
    assert_eq!(channels.len(), 2, "of one name are one: {value}");
    let recording = read(&file);
    let mut processes: Vec<u32> = recording.marked.marks.iter().map(|mark| mark.process).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), 2);
    assert!(processes.contains(&recording.processes[0].id));
}

fn a_killed_program_leaves_its_marks() {
    let (_folder, file) = scratch();
    let (value, status) = timeline(&["-o", &file], &["killed"]);
    assert_eq!((&value["recorded"], status), (&1000.into(), 128 + 9));
    assert_eq!(value["damaged"], Value::Null);
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
    let program: u32 = read_when_written(ready).parse().expect("a number");
    let partial = format!("{file}.partial");
    let since = Instant::now();
    while read(&partial).marked.count < 1000 {
        assert!(since.elapsed() < SOON, "the marks do not come");
        thread::sleep(Duration::from_millis(5));
    }
    recorder.kill().expect("killed");
    recorder.wait().expect("ended");
    signal("-KILL", program);
    let output = ran(&["--json", "timeline", &partial]);
    let value = json(&output.stdout);
    assert_eq!((output.status.code(), &value["marks"]), (Some(5), &1000.into()));
    let damage = value["damaged"].as_str().expect("a text");
    assert!(damage.contains("1,000 marks are whole"), "{damage}");
    assert!(value["clock"]["ticks_a_second"].as_u64() > Some(1_000_000), "{value}");
}

fn a_full_buffer_drops_and_counts_marks() {
    let (_folder, file) = scratch();
    let (value, status) = timeline(&["-o", &file, "--rows", "1"], &["flood"]);
    let dropped = value["dropped"]["full"].as_u64().expect("a number");
    let recorded = value["recorded"].as_u64().expect("a number");
    assert_eq!((recorded + dropped, status), (FLOOD, 0));
    assert!(dropped > FLOOD - 1_400_000, "{dropped}");
    let warning = value["warnings"][0].as_str().expect("a warning");
    assert!(warning.ends_with("marks were dropped: full"), "{warning}");
}

fn a_program_that_scribbles_harms_nobody() {
    let (_folder, file) = scratch();
    let (value, status) = timeline(&["-o", &file], &["scribble"]);
    assert_eq!(status, 3, "its own");
    assert!(value["invalid_entries"].as_u64() > Some(4096), "{value}");
    assert!(value["warnings"].to_string().contains("wrote over it"), "{value}");
    assert!(value["recorded"].as_u64() >= Some(200), "{value}");
    assert_eq!(ran(&["timeline", &file, "--ticks", "1us"]).status.code(), Some(0));
}

fn a_program_without_marks_or_recorder_runs() {
    let (_folder, file) = scratch();
    let output = ran(&["timeline", "-o", &file, "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no program found the recorder"), "{said}");
    let alone = Command::new(own()).args(["mark", "threads"]).status();
    assert!(alone.expect("it runs").success());
}

fn a_recording_goes_where_it_is_sent() {
    let (_folder, file) = scratch();
    let own = own();
    let output = ran(&["timeline", "-o", "-", "--", &own, "mark", "turns"]);
    std::fs::write(&file, &output.stdout).expect("written");
    assert_eq!(read(&file).marked.count, 2000);
    let refused = ran(&["--json", "timeline", "-o", "-", "--", "true"]);
    assert_eq!(refused.status.code(), Some(2));
    let missing = ran(&["--json", "timeline", "-o", &file, "--", "/no/such/program"]);
    assert_eq!(json(&missing.stdout)["error"]["code"], "file");
    assert_eq!(missing.status.code(), Some(5));
}
