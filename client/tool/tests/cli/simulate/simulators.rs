//! Do independent simulators count the same?
//!
//! Callgrind counts the instructions of a function; Lackey prints each memory access, which is fed
//! to a separate cache model written here.

use super::Stepped;
use crate::cli::support::{Ran, command, skipped};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::process::Command;

const KERNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/simulate/kernels.c");

/// The loader finds all functions before the program begins, and takes those for any processor:
/// Valgrind's has fewer features.
const SAME_CODE: [(&str, &str); 2] = [
    ("LD_BIND_NOW", "1"),
    (
        "GLIBC_TUNABLES",
        "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX2,-AVX,-ERMS,-FSRM,-RTM,-BMI2,\
         -AVX_Fast_Unaligned_Load",
    ),
];

fn valgrind(arguments: &[&str], program: &Path, what: &str) {
    let mut valgrind = Command::new("valgrind");
    valgrind.envs(SAME_CODE);
    let output = valgrind.args(arguments).arg(program).arg(what).output();
    let output = output.expect("valgrind");
    assert!(output.status.success(), "{output:?}");
}

const C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/simulate/calls.c");
const CPP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/simulate/calls.cpp");

/// Programs that call functions of their own, of libc and of libstdc++, which malloc, sort, print and
/// call by pointers; each by two compilers, without and with optimisation. Callgrind counts each
/// iteration of a REP as an instruction.
#[test]
fn callgrind_counts_the_same_with_what_is_called() {
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        return skipped(&format!("valgrind: {error}"));
    }
    let mut compared = 0;
    for (source, compilers, functions) in [
        (C, ["gcc", "clang-19"], ["sorted", "recursive", "list", "text"]),
        (CPP, ["g++", "clang++-19"], ["ordered", "counted", "shapes", "hashed"]),
    ] {
        for compiler in compilers {
            if Command::new(compiler).arg("--version").output().is_err() {
                skipped(compiler);
                continue;
            }
            for level in ["-O0", "-O2"] {
                let program = Stepped::compiled(compiler, source, &[level, "-g"]);
                for what in functions {
                    let expected = instructions(&program, what);
                    let range = program.line(what, "--calls --machine skylake --json", what);
                    let value = Ran::of(command(&range).envs(SAME_CODE)).json();
                    let rows = value["functions"].as_array().expect("functions");
                    let sum = |field: &str| -> u64 {
                        rows.iter().map(|row| row[field].as_u64().expect("a number")).sum()
                    };
                    let counted = sum("executions") + sum("iterations");
                    assert_eq!(counted, expected, "{compiler} {level} {what}");
                    compared += 1;
                }
            }
        }
    }
    println!("{compared} programs");
    assert!(compared >= 16);
}

#[test]
fn valgrind_counts_the_same_instructions_and_misses() {
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        return skipped(&format!("valgrind: {error}"));
    }
    let program = Stepped::built(KERNELS, &["-O2", "-static"]);
    for what in ["sort", "multiply", "hash", "scatter", "search"] {
        let value = program.json(what, what);
        assert_eq!(value["instructions"], instructions(&program, what), "{what}");
        assert_eq!(missed(&value), misses(&program, what, &value), "{what}");
    }
}

fn instructions(program: &Stepped, what: &str) -> u64 {
    let file = program.file("callgrind.out");
    let toggle = format!("--toggle-collect={what}");
    let out = format!("--callgrind-out-file={}", file.display());
    valgrind(&["--tool=callgrind", &toggle, &out], &program.path(), what);
    let text = std::fs::read_to_string(file).expect("what Callgrind has written");
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total.expect("a total").trim().parse().expect("a number")
}

fn first_level(value: &Value) -> &Value {
    let caches = value["caches"].as_array().expect("caches");
    let first = caches.iter().find(|cache| cache["name"] == "L1D");
    first.expect("this machine has a cache for data")
}

fn missed(value: &Value) -> u64 {
    first_level(value)["misses"].as_u64().expect("a number")
}

/// The misses of the accesses in the range that Lackey has seen.
fn misses(program: &Stepped, what: &str, value: &Value) -> u64 {
    let start = value["start"].as_str().expect("an address");
    let start = u64::from_str_radix(&start[2..], 16).expect("hexadecimal");
    let range = start..start + value["length"].as_u64().expect("a number");
    let geometry = first_level(value);
    let [bytes, associativity, line] =
        ["bytes", "associativity", "line"].map(|name| geometry[name].as_u64().expect("a number"));
    let sets = bytes / associativity / line;

    let file = program.file("lackey.log");
    let out = format!("--log-file={}", file.display());
    valgrind(&["--tool=lackey", "--trace-mem=yes", &out], &program.path(), what);
    let text = std::fs::read_to_string(file).expect("what Lackey has written");
    let mut inside = false;
    let mut cache: HashMap<u64, VecDeque<u64>> = HashMap::new();
    let mut misses = 0;
    for trace in text.lines() {
        let Some((kind, place)) = trace.trim_start().split_once(' ') else {
            continue;
        };
        let Some((address, size)) = place.trim_start().split_once(',') else {
            continue;
        };
        let (Ok(address), Ok(size)) = (u64::from_str_radix(address, 16), size.parse::<u64>())
        else {
            continue;
        };
        match kind {
            "I" => inside = range.contains(&address),
            "L" | "S" | "M" if inside => {
                for number in address / line..=(address + size - 1) / line {
                    let set = cache.entry(number % sets).or_default();
                    misses += u64::from(!set.contains(&number));
                    set.retain(|&held| held != number);
                    set.push_front(number);
                    set.truncate(associativity as usize);
                }
            }
            _ => {}
        }
    }
    misses
}
