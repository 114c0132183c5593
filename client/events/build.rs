//! Packs the tables of `data/events` into one file in OUT_DIR.
//!
//! Microarchitectures share most of their rows, so each distinct row is stored once, after a mask
//! of the tables that contain it. A table's bit is its row in microarchitectures.csv.

use miniz_oxide::deflate::compress_to_vec_zlib;
use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// The highest compression level of deflate.
const LEVEL: u8 = 10;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=data");
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let path = Path::new(&folder).join("events");
    let packed = compress_to_vec_zlib(events().as_bytes(), LEVEL);
    fs::write(&path, packed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// One line per row: the mask in hexadecimal, then the row, without the tables' headers.
fn events() -> String {
    let microarchitectures = read("data/microarchitectures.csv");
    let tables = microarchitectures.lines().skip(1);
    let names = tables.map(|line| line.split(',').next().unwrap_or_default());
    let mut rows: BTreeMap<String, u128> = BTreeMap::new();
    for (place, table) in names.enumerate() {
        assert!(place < u128::BITS as usize, "the mask has no bit for {table}");
        let text = read(&format!("data/events/{table}.csv"));
        for row in text.lines().skip(1) {
            *rows.entry(row.to_owned()).or_default() |= 1 << place;
        }
    }
    let lines = rows.iter().map(|(row, tables)| format!("{tables:x},{row}\n"));
    lines.collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"))
}
