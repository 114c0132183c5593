//! Does `simulate` count exactly what a range of code executes, whatever else the program does?
//!
//! The program's functions are a few instructions each, counted by hand.

mod simulators;

use crate::cli::support::{Ran, command, csv_rows, halprof, halprof_json, refused, signal};
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

    fn line(&self, range: &str, options: &str, what: &str) -> String {
        format!("simulate --range {range} {options} -- {} {what}", self.path().display())
    }

    fn run(&self, range: &str, options: &str, what: &str) -> Ran {
        halprof(&self.line(range, options, what))
    }

    pub(crate) fn json(&self, range: &str, what: &str) -> Value {
        self.run(range, "--json", what).json()
    }
}

/// One column of all instructions.
pub(crate) fn column(value: &Value, name: &str) -> Vec<u64> {
    let rows = value["rows"].as_array().expect("rows");
    let rows = rows.iter().map(|row| row[name].as_u64().expect("a number"));
    rows.collect()
}

/// Exact counts, by hand: the requested range, what the program does, the exit status, calls and
/// steps, and columns of its rows.
type Case = (&'static str, &'static str, [u64; 3], &'static [(&'static str, &'static [u64])]);

const CASES: [Case; 5] = [
    // 10 and 20 turns: one branch back for each turn but the last, and two returns.
    (
        "turns",
        "turns",
        [7, 0, 64],
        &[("executions", &[2, 30, 30, 2]), ("taken", &[0, 0, 28, 2]), ("reads", &[0, 0, 0, 2])],
    ),
    (
        "touch",
        "touch",
        [0, 0, 4002],
        &[
            ("executions", &[1, 1000, 1000, 1000, 1000, 1]),
            // The words, and the return address.
            ("bytes", &[0, 8000, 0, 0, 0, 8]),
        ],
    ),
    // A REP is executed once; it stops after each of its 100 iterations, and writes 100 bytes. The
    // status says that what it wrote is right.
    (
        "fill",
        "fill",
        [0, 0, 108],
        &[("executions", &[1; 9]), ("iterations", &[0, 0, 0, 0, 100, 0, 0, 0, 0])],
    ),
    // What it calls runs at full speed.
    ("calls", "calls", [0, 5, 19], &[("executions", &[1, 1, 5, 5, 5, 1, 1])]),
    // A jump out of the range is followed until it comes back.
    ("strays+4", "strays", [0, 0, 6], &[("executions", &[1, 1, 1])]),
];

#[test]
fn each_instruction_is_counted_exactly() {
    let program = Stepped::new();
    for (range, what, totals, columns) in CASES {
        let value = program.json(range, what);
        for (name, counts) in columns {
            assert_eq!(column(&value, name), *counts, "{range} {name}");
        }
        let printed = ["exit_status", "calls", "steps"].map(|name| value[name].clone());
        assert_eq!(printed, totals.map(Value::from), "{range}");
        assert_eq!(value["modelled"], false);
        assert_eq!(value["warnings"], Value::Array(vec![]), "{range}");
    }
    assert_eq!(column(&program.json("fill", "fill"), "bytes")[4], 100);
    assert_eq!(program.json("turns", "turns")["entries"], 2);
}

#[test]
fn memory_accesses_go_through_the_caches_that_are_asked_for() {
    let program = Stepped::new();
    let value = program.run("touch", "--json --machine skylake", "touch").json();
    assert!(value["processor"].to_string().contains("skylake"));
    let caches = value["caches"].as_array().expect("caches");
    let first = caches.iter().find(|cache| cache["name"] == "L1D").expect("one");
    // One line for each word, and one for the return address.
    assert_eq!((&first["accesses"], &first["misses"]), (&1001.into(), &1001.into()));
    assert_eq!(value["rows"][1]["misses"]["L1D"], 1000);
    let modelled = value["modelled_columns"].as_array().expect("a list");
    assert!(modelled.contains(&"misses.L1D".into()), "{modelled:?}");
}

#[test]
fn threads_signals_and_children_lose_nothing_and_harm_nothing() {
    let program = Stepped::new();
    for _ in 0..5 {
        let value = program.json("turns", "threads");
        // Four threads call it ten times each, with 100 turns.
        assert_eq!(column(&value, "executions"), [40, 4000, 4000, 40]);
        assert_eq!(value["entries"], 40);
        // The child, from which the breakpoints were removed, has run to its end.
        assert_eq!(value["exit_status"], 3);
    }
}

#[test]
fn too_many_steps_are_told_and_end_the_program() {
    let program = Stepped::new();
    let ran = program.run("turns", "--json --max-steps 1000", "forever");
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
    let text = program.run("turns", "", "turns");
    assert_eq!(text.status, 7);
    assert!(text.stdout.starts_with("printed by the program\nprogram!turns at "));
    assert!(text.stdout.contains("Not simulated: "), "{}", text.stdout);
    let csv = program.run("turns", "--csv", "turns");
    assert!(csv.stderr.contains("printed by the program"));
    let rows = csv_rows(&csv.stdout);
    assert_eq!(
        rows.iter().map(|row| &row["executions"]).collect::<Vec<_>>(),
        ["2", "30", "30", "2"]
    );
    // The program really ran, whatever the machine of the caches.
    assert!(rows.iter().all(|row| row["modelled"] == "false"));
}

#[test]
fn a_program_that_becomes_another_is_told() {
    let ran = Stepped::new().run("turns", "", "exec");
    assert!(ran.stderr.contains("replaced itself"), "{}", ran.stderr);
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
    let ran = halprof_json(&format!("simulate --range turns -- {}", file("program").display()));
    let value = ran.json();
    assert_eq!(column(&value, "executions"), [1, 10, 10, 10, 10, 1]);
    assert_eq!(column(&value, "bytes"), [0, 40, 40, 0, 0, 4]);
    assert_eq!((ran.status, &value["exit_status"]), (5, &5.into()));
}

#[test]
fn what_cannot_be_stepped_is_refused() {
    let program = Stepped::new();
    for range in ["nothing_of_that_name", "*", "0x10", "turns+0", "turns+2000000"] {
        refused(&program.line(range, "", ""), 2, "usage");
    }
    refused("simulate --range main -- /nothing/here", 5, "file");
}

/// A signal to halprof alone ends the program, whatever it does, and the counts so far are printed.
#[test]
fn a_signal_ends_the_program_and_shows_the_counts() {
    use std::process::Stdio;
    use std::time::Duration;
    let program = Stepped::new();
    for (name, range, what) in [
        ("INT", "turns", "forever"),
        ("TERM", "turns", "forever"),
        ("HUP", "turns", "forever"),
        // Outside the range, where halprof waits for an event.
        ("INT", "fill", "waits"),
    ] {
        let mut command = command(&program.line(range, "--json", what));
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut halprof = command.spawn().expect("it runs");
        // The program's own line says that it runs.
        let mut begun = [0; 1];
        let told = halprof.stderr.as_mut().expect("a pipe");
        std::io::Read::read_exact(told, &mut begun).expect("the program prints");
        std::thread::sleep(Duration::from_millis(100));
        signal(name, halprof.id());
        let output = halprof.wait_with_output().expect("it ends");
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(value["interrupted"], true, "{name}: {value}");
        assert_eq!(value["exit_status"], Value::Null);
        let counted = value["instructions"].as_u64() > Some(0);
        assert_eq!(counted, what == "forever", "{name}: {value}");
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
    let rows = program.json("touch", "touch")["rows"].clone();
    let [first, second, third] = [0, 1, 2].map(|row: usize| {
        let address = rows[row]["address"].as_str().expect("an address");
        u64::from_str_radix(&address[2..], 16).expect("a number")
    });
    assert!(third - second > 1, "{rows}");
    for (range, hint) in [
        (
            format!("touch+{}", second + 1 - first),
            format!("{} bytes, or of {}", third - first, second - first),
        ),
        (format!("{:#x}", second + 1), format!("{second:#x} and {third:#x}")),
    ] {
        let ran = program.run(&range, "", "touch");
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(&hint), "{hint}: {}", ran.stderr);
    }
    let whole = format!("touch+{}", second - first);
    assert_eq!(column(&program.json(&whole, "touch"), "executions").len(), 1);
}
