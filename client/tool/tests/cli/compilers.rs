//! Are names right or absent, whichever compiler made the file?

use crate::cli::binaries::compilers;
use crate::cli::support::{folder, json, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The files on which others' tools and earlier versions gave wrong names, with what is right:
/// `../shared/cases/reports`, relative to the workspace.
fn case(name: &str) -> Option<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/reports");
    let file = cases.join(name);
    if file.is_file() {
        return Some(file);
    }
    skipped_case(&file);
    None
}

fn skipped_case(file: &Path) {
    println!("skipped: no {}", file.display());
}

/// Rows of a report on a modelled run of a file: the samples, in percent, and the requested fields.
fn sampled(file: &Path, function: &str, by: &str) -> Vec<(f64, Vec<String>)> {
    let (_folder, recording) = folder();
    let recording = text(&recording);
    let function =
        if function.is_empty() { String::new() } else { format!(",function={function}") };
    let work = format!("instructions=20000000,cycles=20000000,image={}{function}", file.display());
    json(&format!("record -e cycles:10000 -o {recording} --workload {work}"));
    let path = file.parent().expect("a folder").display();
    let report = json(&format!("report {recording} --by {by} --rows 0 --symbol-path {path}"));
    let table = &report["tables"][0]["parts"][0];
    let all = table["samples"].as_u64().expect("samples") as f64;
    let rows = table["rows"].as_array().expect("rows").iter();
    rows.map(|row| {
        let values = by.split(',').map(|key| match &row[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let share = row["samples"].as_f64().expect("samples") * 100.0 / all;
        (share, values.collect())
    })
    .collect()
}

/// A row that is expected: the share in percent, to half a percent, and the values.
type Row = (f64, &'static [&'static str]);

fn assert_sampled(file: &Path, function: &str, by: &str, expected: &[Row]) {
    let rows = sampled(file, function, by);
    let matches = rows.len() == expected.len()
        && rows.iter().zip(expected).all(|((share, values), (right, names))| {
            (share - right).abs() < 0.5 && values == names
        });
    assert!(matches, "{}: {rows:?}", file.display());
}

/// Shares by an own decoding, names by `nm`, `readelf` and `llvm-readobj --unwind`.
#[test]
fn what_the_collected_files_show() {
    let dll: &[Row] = &[(59.5, &["lib.dll+0x1030"]), (22.0, &["null"]), (18.5, &["exported"])];
    let so: &[Row] = &[(78.75, &["so.so+0x1000"]), (11.8, &["exported"]), (9.45, &["other"])];
    let no_line: &[Row] = &[(100.0, &["null"])];
    let both: &[Row] =
        &[(68.6, &["work", "1"]), (18.65, &["work", "null"]), (12.75, &["mainCRTStartup", "2"])];
    for (file, function, by, expected) in [
        ("exports-only/lib.dll", "", "symbol", dll),
        ("exports-only/so.so", "", "symbol", so),
        ("line-zero/z.exe", "pick*", "line", no_line),
        ("pdb-and-dwarf/c.exe", "", "symbol,line", both),
    ] {
        if let Some(file) = case(file) {
            assert_sampled(&file, function, by, expected);
        }
    }
}

#[test]
fn an_assembler_s_labels_and_functions_without_a_type() {
    let elf = compilers("nasm/elf");
    assert_sampled(&elf, "assembled", "symbol", &[(100.0, &["assembled"])]);
    let exe = compilers("gnu-as/mingw.exe");
    let rows = sampled(&exe, "", "address,symbol");
    assert!(!rows.is_empty());
    for (_, values) in rows {
        let address = u64::from_str_radix(&values[0][2..], 16).expect("hexadecimal");
        // By `nm -n`.
        let right = match address {
            0x1_4000_1000..0x1_4000_102F => "compiled",
            0x1_4000_102F..0x1_4000_1060 => "mainCRTStartup",
            0x1_4000_1060..0x1_4000_106F => "assembled",
            0x1_4000_106F..0x1_4000_1080 => "second",
            0x1_4000_1080..0x1_4000_1090 => "__CTOR_LIST__",
            _ => "__DTOR_LIST__",
        };
        assert_eq!(values[1], right, "{address:#x}");
    }
}

/// A file that MinGW has stripped names the file with its DWARF, and that file's checksum.
#[test]
fn the_debug_link_of_a_pe_file_is_followed() {
    let (exe, debug) = (compilers("debug-link/s.exe"), compilers("debug-link/s.dbg"));
    let (folder, _) = folder();
    let at = |name: &str| folder.path().join(name);
    let copied = at("s.exe");
    std::fs::copy(exe, &copied).expect("copied");
    let functions = || {
        let rows = sampled(&copied, "", "symbol").into_iter();
        let mut names: Vec<String> = rows.map(|(_, mut values)| values.remove(0)).collect();
        names.retain(|name| !name.ends_with("_LIST__"));
        names.sort();
        names
    };
    let unnamed = ["null", "s.exe+0x1000", "s.exe+0x1039", "s.exe+0x1075"];
    assert_eq!(functions(), unnamed);
    let named = ["mainCRTStartup", "priv", "work"];
    std::fs::create_dir(at(".debug")).expect("made");
    for place in ["s.dbg", ".debug/s.dbg"] {
        let mut bytes = std::fs::read(&debug).expect("the symbols");
        std::fs::write(at(place), &bytes).expect("written");
        assert_eq!(functions(), named, "{place}");
        // Another build.
        bytes[0x200] ^= 1;
        std::fs::write(at(place), &bytes).expect("written");
        assert_eq!(functions(), unnamed, "{place}");
        std::fs::remove_file(at(place)).expect("removed");
    }
}
