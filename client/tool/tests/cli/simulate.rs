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
        let folder = tempfile::tempdir().expect("a folder");
        let mut compiler = Command::new("cc");
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
