//! Does `simulate` count exactly what a range of code executes, whatever else the program does?
//! `tests/cases` has what one run shows.

mod simulators;

use crate::cli::binaries::STEPPED;
use crate::cli::support::{Ran, command, halprof, halprof_json, signal};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The program that is stepped, in its folder.
pub(crate) struct Stepped(TempDir);

impl Stepped {
    pub(crate) fn new() -> Self {
        Self::built(STEPPED, &["-O1", "-no-pie", "-lpthread"])
    }

    fn built(source: &str, options: &[&str]) -> Self {
        Self::compiled("cc", source, options)
    }

    fn compiled(compiler: &str, source: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut compiler = Command::new(compiler);
        compiler.args(["-Wall", "-Werror", "-o"]);
        compiler.arg(folder.path().join("program")).arg(source);
        assert!(compiler.args(options).status().expect("a C compiler").success());
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

pub(crate) fn column(value: &Value, name: &str) -> Vec<u64> {
    let rows = value["rows"].as_array().expect("rows");
    rows.iter().map(|row| row[name].as_u64().expect("a number")).collect()
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

/// A signal to halprof alone, or to the program too, ends the program, whatever it does, and the
/// counts so far are printed.
#[test]
fn a_signal_ends_the_program_and_shows_the_counts() {
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;
    use std::time::Duration;
    let program = Stepped::new();
    for (name, to_both, range, what) in [
        ("INT", false, "turns", "forever"),
        ("TERM", false, "turns", "forever"),
        ("HUP", false, "turns", "forever"),
        // As Ctrl-C on a terminal.
        ("INT", true, "turns", "forever"),
        // Outside the range, where halprof waits for an event.
        ("INT", false, "fill", "waits"),
    ] {
        let mut command = command(&program.line(range, "--json", what));
        command.process_group(0);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut halprof = command.spawn().expect("it runs");
        // The program's own line says that it runs.
        let mut begun = [0; 1];
        let told = halprof.stderr.as_mut().expect("a pipe");
        std::io::Read::read_exact(told, &mut begun).expect("the program prints");
        std::thread::sleep(Duration::from_millis(100));
        let group = if to_both { "-" } else { "" };
        signal(name, format!("{group}{}", halprof.id()));
        let output = halprof.wait_with_output().expect("it ends");
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(value["interrupted"], true, "{name}: {value}");
        assert_eq!((output.status.code(), &value["complete"]), (Some(4), &false.into()));
        let own = if to_both { (128 + 2).into() } else { Value::Null };
        assert_eq!(value["exit_status"], own);
        assert_eq!(value["instructions"].as_u64() > Some(0), what == "forever", "{name}: {value}");
        assert!(value["warnings"][0].to_string().contains("interrupted"));
    }
}

/// What `nm` prints is an address of the program, wherever it is loaded.
#[test]
fn a_range_is_an_address_of_the_file() {
    for kind in ["-no-pie", "-pie"] {
        let program = Stepped::built(STEPPED, &["-O1", "-fPIE", kind, "-lpthread"]);
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

const TRAPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/simulate/traps.c");
const CALLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/simulate/calls.c");

/// What traps do to a program, halprof's stepping changes neither in the range nor in what it counts.
#[test]
fn traps_are_the_program_s_own_affair() {
    let program = Stepped::built(TRAPS, &["-O1"]);
    // The argument `handled` has the program handle SIGTRAP; its status is the number of traps.
    for (what, handled, status, instructions) in [
        ("move_ss", "", 0, 6),
        ("loop_ss", "", 0, 2 + 100 * 4 + 1),
        ("own_int3", "handled", 1, 4),
        ("own_int3", "", 128 + 5, 2),
        ("int3_first", "handled", 1, 3),
        ("int3_first", "", 128 + 5, 1),
        ("own_int1", "handled", 1, 4),
        ("own_int1", "", 128 + 5, 2),
        // The trap flag is not in R11.
        ("flags", "", 0, 4),
    ] {
        for calls in ["", "--calls"] {
            let options = format!("--json {calls}");
            let ran = program.run(what, &options, &format!("{what} {handled}"));
            let value = ran.json();
            let told = (ran.status, value["instructions"].as_u64(), value["entries"].as_u64());
            assert_eq!(
                told,
                (status, Some(instructions), Some(1)),
                "{what} {handled} {calls}: {value}"
            );
        }
    }
    for calls in ["", "--calls"] {
        let ran = program.run("spawn", &format!("--json {calls}"), "spawn");
        assert_eq!(ran.status, 7, "{calls}: {}", ran.stdout);
    }
}

/// The first instruction was reached, and ended the program.
#[test]
fn a_fault_at_the_first_instruction_is_no_missing_pass() {
    let program = Stepped::built(TRAPS, &["-O1"]);
    let ran = program.run("fault_first", "", "fault_first");
    assert_eq!(ran.status, 128 + 11, "{}", ran.stderr);
    assert!(ran.stdout.contains("an unfinished pass"), "{}", ran.stdout);
    let told = "signal 11, at fault_first+0x0";
    assert!(
        ran.stderr.contains(told) && !ran.stderr.contains("without reaching"),
        "{}",
        ran.stderr
    );
}

fn function<'a>(value: &'a Value, symbol: &str) -> &'a Value {
    let rows = value["functions"].as_array().expect("functions");
    rows.iter().find(|row| row["symbol"] == symbol).unwrap_or_else(|| panic!("{symbol}: {value}"))
}

/// `next` is called 300 times, and `compare` by qsort.
#[test]
fn what_a_function_calls_is_counted_and_named() {
    let program = Stepped::built(CALLS, &["-O1"]);
    let alone = program.json("sorted", "sorted");
    let with = program.run("sorted", "--calls --json", "sorted").json();
    assert_eq!(alone["rows"].as_array().map(Vec::len), with["rows"].as_array().map(Vec::len));
    assert_eq!(column(&alone, "executions"), column(&with, "executions"));
    let own: u64 = column(&with, "executions").iter().sum();
    let functions = with["functions"].as_array().expect("functions");
    let all: u64 = functions.iter().map(|row| row["executions"].as_u64().expect("a number")).sum();
    assert_eq!(with["instructions"], all);
    assert_eq!(
        (alone["instructions"].as_u64(), function(&with, "sorted")["executions"].as_u64()),
        (Some(own), Some(own))
    );
    assert_eq!(function(&with, "next")["calls"], 300, "{with}");
    assert!(function(&with, "compare")["calls"].as_u64() > Some(1000), "{with}");
    for value in [&alone, &with] {
        let rows = value["rows"].as_array().expect("rows");
        let calls: Vec<&Value> =
            rows.iter().filter_map(|row| row["calls"].as_array()).flatten().collect();
        for (name, calls_of) in [("program!next", 300), ("qsort", 1)] {
            // With debug information, libc's own name of it is `__GI_qsort`.
            let named = |call: &Value| call["name"].as_str().is_some_and(|own| own.ends_with(name));
            let called = calls.iter().any(|call| named(call) && call["calls"] == calls_of);
            assert!(called, "{name}: {calls:?}");
        }
    }
    // What it costs more in what it calls, a gate finds.
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base.json").display().to_string();
    let write = format!("--calls --machine skylake --json -o {base}");
    assert_eq!(program.run("recursive", &write, "recursive").status, 0);
    let worse = program.run(
        "sorted",
        &format!("--calls --machine skylake --diff {base} --fail-above 1"),
        "sorted",
    );
    assert_eq!(worse.status, 1, "{}", worse.stderr);
    let alone = program.run("recursive", &format!("--machine skylake --diff {base}"), "recursive");
    assert!(alone.stderr.contains("not the same scope"), "{}", alone.stderr);
    let by_function = program.run("sorted", "--calls --by function --csv", "sorted");
    assert!(
        by_function.stdout.lines().any(|line| line.contains(",compare,")),
        "{}",
        by_function.stdout
    );
}

#[test]
fn functions_of_shared_objects_are_found() {
    let program = Stepped::built(CALLS, &["-O1"]);
    for range in ["libc.so.6!qsort", "qsort"] {
        let value = program.run(range, "--calls --json", "sorted").json();
        assert_eq!(
            (&value["module"], &value["entries"]),
            (&"libc.so.6".into(), &1.into()),
            "{range}"
        );
        assert!(function(&value, "compare")["calls"].as_u64() > Some(1000), "{range}: {value}");
    }
    for (range, options) in [
        ("no_such_function", ""),
        ("libc.so.6!no_such_function", ""),
        // Where what is called ends is not known of a part of a function.
        ("sorted+4", "--calls"),
    ] {
        let ran = program.run(range, options, "sorted");
        assert_eq!(ran.status, 2, "{range}: {}", ran.stderr);
    }
}
