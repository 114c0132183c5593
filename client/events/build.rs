//! Packs the tables of `data/events`, and the sentences of their events, into two files in OUT_DIR.
//!
//! Microarchitectures share most of their rows, so each distinct row is stored once, after a mask
//! of the tables that contain it. A table's bit is its row in microarchitectures.csv.

#[path = "build/meanings.rs"]
mod meanings;

use meanings::Meanings;
use miniz_oxide::deflate::compress_to_vec_zlib;
use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// The highest compression level of deflate.
const LEVEL: u8 = 10;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=data");
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let tables = tables();
    for (file, text) in [("events", events(&tables)), ("meanings", meanings(&tables))] {
        let path = Path::new(&folder).join(file);
        let packed = compress_to_vec_zlib(text.as_bytes(), LEVEL);
        fs::write(&path, packed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// Each microarchitecture's name and the text of its table.
fn tables() -> Vec<(String, String)> {
    let microarchitectures = read("data/microarchitectures.csv");
    let tables = microarchitectures.lines().skip(1);
    let names = tables.map(|line| line.split(',').next().unwrap_or_default().to_owned());
    let tables: Vec<_> =
        names.map(|name| (name.clone(), read(&format!("data/events/{name}.csv")))).collect();
    assert!(tables.len() <= u128::BITS as usize, "the mask has no bits for so many tables");
    tables
}

/// One line per row: the mask in hexadecimal, then the row, without the tables' headers.
fn events(tables: &[(String, String)]) -> String {
    masked(tables, |_, row| Some(row.to_owned()))
}

/// One line per name and sentence, in the order of names: the mask, the name, the document that says
/// so, empty if none does, and the sentence.
fn meanings(tables: &[(String, String)]) -> String {
    // As long as the build.
    let rows = read("data/meanings.csv").leak();
    let meanings = Meanings::of(rows, read("data/meaning-parts.csv").leak());
    masked(tables, |table, row| {
        let (name, _) = row.split_once(',')?;
        let (document, sentence) = meanings.meaning(name, table)?;
        Some(format!("{name},{document},{sentence}"))
    })
}

/// What a function makes of the rows of the tables, each once, after the mask of its tables.
fn masked(tables: &[(String, String)], line: impl Fn(&str, &str) -> Option<String>) -> String {
    let mut lines: BTreeMap<String, u128> = BTreeMap::new();
    for (bit, (table, text)) in tables.iter().enumerate() {
        for row in text.lines().skip(1).filter_map(|row| line(table, row)) {
            *lines.entry(row).or_default() |= 1 << bit;
        }
    }
    let lines = lines.iter().map(|(line, tables)| format!("{tables:x},{line}\n"));
    lines.collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"))
}
