//! Real dumps, and the committed table of the leaf values that matter in them.

#[path = "../../sim/examples/dump_leaves/rows.rs"]
mod rows;

use hal_profile::cpu::machine::CpuidResult;
use sim::cpu::cpuid::Leaves;
use std::path::PathBuf;

/// The committed table; `sim/examples/dump_leaves` prints it.
pub const TABLE: &str = include_str!("../data/dump-leaves.csv");

/// The folder of the real dumps: `../shared/cpuid`, relative to the workspace.
///
/// # Panics
/// If it is missing although `HALPROF_REQUIRE_DUMPS=1` is set.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cpuid");
    let required = std::env::var_os("HALPROF_REQUIRE_DUMPS").is_some_and(|value| value == "1");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(!required, "{} is absent", folder.display());
    println!("skipped: {} is absent", folder.display());
    None
}

/// The table's lines for a machine read from `file`.
#[must_use]
pub fn table_lines(file: &str, machine: &[Leaves]) -> Vec<String> {
    rows::table(machine).iter().map(|row| format!("{file},{row}")).collect()
}

/// The table's first line.
#[must_use]
pub fn table_header() -> &'static str {
    rows::HEADER
}

/// Every machine of the table: its file's name and the leaves of its processors, in order.
///
/// Only the values that matter are there; APIC ids are the processors' indices.
///
/// # Panics
/// If the table cannot be read.
#[must_use]
pub fn machines_from_table() -> Vec<(String, Vec<Leaves>)> {
    let mut machines: Vec<(String, Vec<Leaves>)> = Vec::new();
    for record in csv::Reader::from_reader(TABLE.as_bytes()).records() {
        let record = record.expect("a row of the table");
        let [file, first, last, leaf, subleaf, registers @ ..] =
            &record.iter().collect::<Vec<_>>()[..]
        else {
            panic!("a short row: {record:?}");
        };
        if machines.last().is_none_or(|(name, _)| name != file) {
            machines.push(((*file).to_owned(), Vec::new()));
        }
        let (_, machine) = machines.last_mut().expect("one was pushed");
        let (first, last): (usize, usize) = (decimal(first), decimal(last));
        machine.resize(machine.len().max(last + 1), Leaves::default());
        for leaves in &mut machine[first..=last] {
            insert(leaves, hexadecimal(leaf), subleaf, registers);
        }
    }
    for (_, machine) in &mut machines {
        *machine = sim::machines::models::repeat(machine, machine.len());
    }
    machines
}

fn insert(leaves: &mut Leaves, leaf: u32, subleaf: &str, registers: &[&str]) {
    let value = CpuidResult {
        eax: hexadecimal(registers[0]),
        ebx: hexadecimal(registers[1]),
        ecx: hexadecimal(registers[2]),
        edx: hexadecimal(registers[3]),
    };
    if subleaf.is_empty() {
        leaves.insert(leaf, value);
    } else {
        leaves.insert_subleaf(leaf, decimal(subleaf) as u32, value);
    }
}

fn decimal(text: &str) -> usize {
    text.parse().expect("a decimal number")
}

fn hexadecimal(text: &str) -> u32 {
    let digits = text.strip_prefix("0x").expect("a hexadecimal number");
    u32::from_str_radix(digits, 16).expect("a hexadecimal number")
}
