//! Are names right or absent, whichever compiler made the file?

use crate::cli::binaries::{self, compilers};
use crate::cli::support::{column, csv_rows, folder, halprof, json, objects, shared, text};
use halprof_profile::symbols::{Executable, SymbolPath};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A file on which others' tools and earlier versions gave wrong names, with what is right.
fn case(name: &str) -> Option<PathBuf> {
    shared(&format!("cases/reports/{name}"))
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
    let all = table["samples"].as_f64().expect("samples");
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

/// Go gives its functions a type of its own in COFF, and compresses DWARF in the old way.
#[test]
fn go_programs_have_names_and_lines() {
    let rows = sampled(&compilers("go/g.exe"), "main.*", "symbol,line");
    let lines = |name: &str| -> BTreeSet<&str> {
        let own = rows.iter().filter(|(_, values)| values[0] == name);
        own.map(|(_, values)| values[1].as_str()).collect()
    };
    // By the source. Between functions there is no line.
    for (name, own) in [
        ("main.work", &["4", "8", "10", "11", "12", "14", "null"][..]),
        ("main.(*T).Method", &["21", "null"]),
        ("main.main", &["24", "25", "26", "27", "null"]),
    ] {
        let lines = lines(name);
        assert!(
            lines.len() > 1 && lines.iter().all(|line| own.contains(line)),
            "{name}: {lines:?}"
        );
    }
    let names: BTreeSet<&str> = rows.iter().map(|(_, values)| values[0].as_str()).collect();
    assert_eq!(Vec::from_iter(names), ["main.(*T).Method", "main.main", "main.work"]);
    let all = sampled(&compilers("go/g.exe"), "", "symbol");
    let all: Vec<&str> = all.iter().map(|(_, values)| values[0].as_str()).collect();
    for name in ["runtime.memequal64", "_rt0_amd64_windows", "runtime.assembled.abi0"] {
        assert!(all.contains(&name), "{all:?}");
    }
    assert!(!all.contains(&"runtime.text"), "the linker's mark is no function");
}

/// Names by address, as a view gives them.
type Names = BTreeMap<String, Value>;

/// Every view asks one place for the name of an address. The C library counts and names nothing.
fn assert_one_truth(file: &Path) {
    let (_folder, recording) = folder();
    let recording = text(&recording);
    let work = format!("instructions=3000000,cycles=3000000,image={}", file.display());
    json(&format!("record -e cycles:10000 -o {recording} --workload {work}"));
    let symbol_path = format!("--symbol-path {}", file.parent().expect("a folder").display());
    let report = json(&format!("report {recording} --by address --rows 0 {symbol_path}"));
    let rows = &report["tables"][0]["parts"][0]["rows"];
    let addresses = column(rows, "address");
    let addresses = addresses.into_iter().map(|one| one.as_str().expect("a text").to_owned());
    let names: Names = addresses.zip(column(rows, "symbol").into_iter().cloned()).collect();
    assert!(names.len() > 3, "{names:?}");

    let script = halprof(&format!("script {recording} --jsonl {symbol_path}")).stdout;
    let script: Names = objects(&script)
        .into_iter()
        .map(|row| (row["address"].as_str().expect("a text").to_owned(), row["symbol"].clone()))
        .collect();
    assert_eq!(script, names, "{}", file.display());

    let path = SymbolPath::parse(text(file.parent().expect("a folder")));
    let executable = Executable::open(file, &path).expect("opened");
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for (address, name) in &names {
        let number = u64::from_str_radix(&address[2..], 16).expect("hexadecimal");
        // What `simulate` asks for `--range 0x...`.
        let function = executable.function_at(number - executable.module().start);
        let function = function.map(|function| function.name);
        assert_eq!(function.as_deref(), name.as_str(), "{address} of {}", file.display());
        if let Some(name) = name.as_str() {
            first.entry(name).or_insert(address);
        }
    }
    for (name, address) in &first {
        let annotated = json(&format!("annotate {recording} {address} {symbol_path}"));
        assert_eq!(annotated["symbol"], **name, "{address}");
    }
    let known: BTreeSet<&str> = first.into_keys().collect();
    let folded = halprof(&format!("export {recording} -f folded -o - {symbol_path}")).stdout;
    let exported: BTreeSet<&str> = folded
        .lines()
        .filter_map(|line| line.rsplit_once(' ')?.0.split(';').nth(3))
        // Code without a name has no such level, but may have a line.
        .filter(|name| !name.contains(':') || known.contains(name))
        .collect();
    assert_eq!(exported, known, "{}", file.display());
    let top =
        format!("top --once -I 50 -e cycles --by symbol --csv {symbol_path} --workload {work}");
    let top = halprof(&format!("--machine sapphire-rapids {top}")).stdout;
    let top = csv_rows(&top);
    assert!(!top.is_empty());
    for row in top {
        let name = row["symbol"].as_str();
        assert!(name.is_empty() || known.contains(name), "{name}: {known:?}");
    }
}

#[test]
fn every_view_gives_one_name_for_one_address() {
    for name in ["nasm/elf", "gnu-as/mingw.exe", "debug-link/s.exe", "go/g.exe"] {
        assert_one_truth(&compilers(name));
    }
    for name in
        ["exports-only/lib.dll", "exports-only/so.so", "line-zero/z.exe", "pdb-and-dwarf/c.exe"]
    {
        if let Some(file) = case(name) {
            assert_one_truth(&file);
        }
    }
    let built = [
        binaries::pe(),
        binaries::pe_with_frames(),
        binaries::pe_of_32_bits(),
        binaries::elf(),
        binaries::elf_of_twins(),
    ];
    for built in built.into_iter().flatten() {
        assert_one_truth(&built.file);
    }
}
