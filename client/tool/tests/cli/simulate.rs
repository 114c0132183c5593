//! Does `simulate` count exactly what a range of code executes, whatever else the program does?
//!
//! The program's functions are a few instructions each, counted by hand.

mod simulators;

use crate::cli::support::{Ran, halprof, refused};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/simulate/program.c");

/// The program that is stepped, in its folder.
pub(crate) struct Stepped(TempDir);

impl Stepped {
    pub(crate) fn new() -> Self {
        Self::built(PROGRAM, &["-O1", "-no-pie", "-lpthread"])
    }

    fn built(source: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Werror", "-o"]);
        compiler.arg(folder.path().join("program")).arg(source);
        let built = compiler.args(options).status();
        assert!(built.expect("a C compiler").success());
        Self(folder)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.file("program")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn arguments<'a>(&self, range: &'a str, more: &[&'a str], what: &'a str) -> Vec<String> {
        let simulate = ["simulate", "--range", range];
        let path = self.path().to_str().expect("UTF-8").to_owned();
        let all = simulate.iter().chain(more).chain(&["--"]);
        let mut all: Vec<String> = all.map(|&text| text.to_owned()).collect();
        all.extend([path, what.to_owned()]);
        all
    }

    fn run(&self, range: &str, more: &[&str], what: &str) -> Ran {
        let arguments = self.arguments(range, more, what);
        halprof(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn json(&self, range: &str, what: &str) -> Value {
        self.run(range, &["--json"], what).json()
    }
}

/// One column of all instructions.
pub(crate) fn column(value: &Value, name: &str) -> Vec<u64> {
    let rows = value["rows"].as_array().expect("rows");
    let rows = rows.iter().map(|row| row[name].as_u64().expect("a number"));
    rows.collect()
}

#[test]
fn loops_and_branches_are_counted() {
    let program = Stepped::new();
    let value = program.json("turns", "turns");
    // 10 and 20 turns: one branch back for each turn but the last, and two returns.
    assert_eq!(column(&value, "executions"), [2, 30, 30, 2]);
    assert_eq!(column(&value, "taken"), [0, 0, 28, 2]);
    assert_eq!(column(&value, "reads"), [0, 0, 0, 2]);
    let told = ["instructions", "arrivals", "calls", "exit_status"].map(|name| &value[name]);
    assert_eq!(told, [64, 2, 0, 7].map(Value::from).each_ref());
    assert_eq!(value["modelled"], false);
}

#[test]
fn values_say_that_the_program_really_ran() {
    let program = Stepped::new();
    let text = program.run("turns", &["--csv"], "turns").stdout;
    let mut lines = text.lines();
    assert!(lines.next().is_some_and(|head| head.ends_with(",modelled")));
    assert!(lines.all(|line| line.ends_with(",false")), "{text}");
}

#[test]
fn memory_accesses_go_through_the_caches_that_are_asked_for() {
    let program = Stepped::new();
    let arguments = program.arguments("touch", &["--json"], "touch");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let before = halprof(&[&["--machine", "skylake"], &arguments[..]].concat());
    let run = program.run("touch", &["--json", "--machine", "skylake"], "touch");
    let value = run.json();
    assert_eq!(before.json()["processor"], value["processor"]);
    assert!(value["processor"].to_string().contains("skylake"));
    assert_eq!(column(&value, "executions"), [1, 1000, 1000, 1000, 1000, 1]);
    assert_eq!(column(&value, "reads")[1], 1000);
    assert_eq!(column(&value, "bytes")[1], 8000);
    let caches = value["caches"].as_array().expect("caches");
    if let Some(first) = caches.iter().find(|cache| cache["name"] == "L1D") {
        // One line for each word, and one for the return address.
        assert_eq!(first["accesses"], 1001);
        assert_eq!(first["misses"], 1001);
    }
}

#[test]
fn a_repeated_instruction_is_executed_once() {
    let value = Stepped::new().json("fill", "fill");
    assert_eq!(column(&value, "executions"), [1; 9]);
    assert_eq!(column(&value, "iterations"), [0, 0, 0, 0, 100, 0, 0, 0, 0]);
    assert_eq!(column(&value, "writes")[4], 100);
    assert_eq!(column(&value, "bytes")[4], 100);
    assert_eq!(value["exit_status"], 0, "what it wrote is right");
}

#[test]
fn calls_run_at_full_speed_and_are_counted() {
    let value = Stepped::new().json("calls", "calls");
    assert_eq!(column(&value, "executions"), [1, 1, 5, 5, 5, 1, 1]);
    assert_eq!(value["calls"], 5);
}

#[test]
fn a_jump_out_of_the_range_is_followed_until_it_comes_back() {
    let value = Stepped::new().json("strays+4", "strays");
    assert_eq!(column(&value, "executions"), [1, 1, 1]);
    assert_eq!(
        (&value["steps"], &value["warnings"]),
        (&6.into(), &Value::from(Vec::<Value>::new()))
    );
}

#[test]
fn threads_signals_and_children_lose_nothing_and_harm_nothing() {
    let program = Stepped::new();
    for _ in 0..5 {
        let value = program.json("turns", "threads");
        // Four threads call it ten times each, with 100 turns.
        assert_eq!(column(&value, "executions"), [40, 4000, 4000, 40]);
        assert_eq!(value["arrivals"], 40);
        // The child, from which the breakpoints were removed, has run to its end.
        assert_eq!(value["exit_status"], 3);
    }
}

#[test]
fn too_many_steps_are_told_and_end_the_program() {
    let program = Stepped::new();
    let ran = program.run("turns", &["--json", "--max-steps", "1000"], "forever");
    let value = ran.json();
    assert_eq!((ran.status, &value["limited"]), (4, &true.into()));
    assert_eq!(value["steps"], 1000);
    assert_eq!(column(&value, "executions").iter().sum::<u64>(), 1000);
    let warning = value["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("1,000 steps were not enough"), "{value}");
}

#[test]
fn what_the_program_prints_is_not_in_a_result_for_programs() {
    let program = Stepped::new();
    let text = program.run("turns", &[], "turns");
    assert_eq!(text.status, 7);
    assert!(text.stdout.starts_with("printed by the program\nprogram!turns at "));
    assert!(text.stdout.contains("Not simulated: "), "{}", text.stdout);
    let table = program.run("turns", &["--csv"], "turns");
    assert!(table.stderr.contains("printed by the program"));
    let mut reader = csv::Reader::from_reader(table.stdout.as_bytes());
    let heads = reader.headers().expect("heads").clone();
    let at = heads.iter().position(|head| head == "executions").expect("a column");
    let rows = reader.records().map(|row| row.expect("a row")[at].parse::<u64>());
    assert_eq!(rows.map(|n| n.expect("a number")).sum::<u64>(), 64);
}

#[test]
fn a_program_that_becomes_another_is_told() {
    let ran = Stepped::new().run("turns", &[], "exec");
    assert!(ran.stderr.contains("made itself another program"), "{}", ran.stderr);
    assert_eq!(ran.status, 7);
}

#[test]
fn a_32_bit_program_is_stepped_too() {
    const CODE: &str = "\
.intel_syntax noprefix
.globl turns
.type turns, @function
turns: mov ecx, 10
1: push ecx
pop ecx
dec ecx
jnz 1b
ret
.size turns, . - turns
.globl _start
_start: call turns
mov eax, 1
mov ebx, 5
int 0x80
";
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("program.s"), CODE).expect("a file");
    let ran = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let status = command.current_dir(folder.path()).args(arguments).status();
        status.is_ok_and(|status| status.success())
    };
    assert!(ran("as", &["--32", "-o", "program.o", "program.s"]));
    assert!(ran("ld", &["-m", "elf_i386", "-o", "program", "program.o"]));
    if Command::new(file("program")).status().ok().and_then(|status| status.code()) != Some(5) {
        println!("skipped: this system runs no 32-bit programs");
        return;
    }
    let path = file("program");
    let path = path.to_str().expect("UTF-8");
    let ran = halprof(&["--json", "simulate", "--range", "turns", "--", path]);
    let value = ran.json();
    assert_eq!(column(&value, "executions"), [1, 10, 10, 10, 10, 1]);
    assert_eq!(column(&value, "bytes"), [0, 40, 40, 0, 0, 4]);
    assert_eq!((ran.status, &value["exit_status"]), (5, &5.into()));
}

#[test]
fn what_cannot_be_stepped_is_refused() {
    let program = Stepped::new();
    let path = program.path();
    let path = path.to_str().expect("UTF-8");
    for range in ["nothing_of_that_name", "*", "0x10", "turns+0", "turns+2000000"] {
        refused(&["simulate", "--range", range, "--", path], 2, "usage");
    }
    refused(&["simulate", "--range", "main", "--", "/nothing/here"], 5, "file");
}

/// A signal to halprof alone ends the program, whatever it does, and the counts so far are printed.
#[test]
#[cfg(unix)]
fn a_signal_ends_the_program_and_shows_the_counts() {
    use std::process::Stdio;
    use std::time::Duration;
    let program = Stepped::new();
    for (signal, range, what) in [
        ("INT", "turns", "forever"),
        ("TERM", "turns", "forever"),
        ("HUP", "turns", "forever"),
        // Outside the range, where halprof waits for an event.
        ("INT", "fill", "waits"),
    ] {
        let arguments = program.arguments(range, &["--json"], what);
        let mut command = Command::new(env!("CARGO_BIN_EXE_halprof"));
        let command = command.args(&arguments).stdout(Stdio::piped());
        let mut halprof = command.stderr(Stdio::piped()).spawn().expect("it runs");
        // The program's own line says that it runs.
        let mut begun = [0; 1];
        let told = halprof.stderr.as_mut().expect("a pipe");
        std::io::Read::read_exact(told, &mut begun).expect("the program prints");
        std::thread::sleep(Duration::from_millis(100));
        let id = halprof.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.expect("kill").success());
        let output = halprof.wait_with_output().expect("it ends");
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(value["interrupted"], true, "{signal}: {value}");
        assert_eq!(value["exit_status"], Value::Null);
        let counted = value["instructions"].as_u64() > Some(0);
        assert_eq!(counted, what == "forever", "{signal}: {value}");
        assert!(value["warnings"][0].to_string().contains("interrupted"));
    }
}

/// What `nm` prints is an address of the program, wherever it is loaded.
#[test]
fn a_range_is_an_address_of_the_file() {
    for kind in ["-no-pie", "-pie"] {
        let program = Stepped::built(PROGRAM, &["-O1", "-fPIE", kind, "-lpthread"]);
        let named = program.json("turns", "turns");
        let output = Command::new("nm").arg(program.path()).output().expect("nm");
        let text = String::from_utf8(output.stdout).expect("text");
        let line = text.lines().find(|line| line.ends_with(" turns"));
        let address = line.and_then(|line| line.split(' ').next()).expect("turns");
        let address = u64::from_str_radix(address, 16).expect("a number");
        let value = program.json(&format!("{address:#x}"), "turns");
        assert_eq!(value["start"], format!("{address:#x}"), "{kind}");
        assert_eq!(value["rows"], named["rows"], "{kind}");
    }
}

#[test]
fn a_range_that_cuts_an_instruction_is_refused() {
    let program = Stepped::new();
    let path = program.path();
    let path = path.to_str().expect("UTF-8");
    let rows = program.json("touch", "touch")["rows"].clone();
    let starts: Vec<u64> = rows
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            let address = row["address"].as_str().expect("an address");
            u64::from_str_radix(&address[2..], 16).expect("a number")
        })
        .collect();
    let (first, second, third) = (starts[0], starts[1], starts[2]);
    assert!(third - second > 1, "{starts:x?}");
    for (range, hint) in [
        (
            format!("touch+{}", second + 1 - first),
            format!("{} bytes, or of {}", third - first, second - first),
        ),
        (format!("{:#x}", second + 1), format!("{second:#x} and {third:#x}")),
    ] {
        let ran = halprof(&["simulate", "--range", &range, "--", path, "touch"]);
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(&hint), "{hint}: {}", ran.stderr);
    }
    let whole = format!("touch+{}", second - first);
    assert_eq!(column(&program.json(&whole, "touch"), "executions").len(), 1);
}
