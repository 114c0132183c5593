//! Is a function, a module, a thread or a source found by any name under which it is shown?

use crate::cli::binaries::{self, Built};
use crate::cli::support::Ran;
use crate::cli::support::{
    column, command, csv_rows, folder, halprof, halprof_json, json, objects, shared, text,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the tool with arguments that may have blanks.
fn with(arguments: &[&str]) -> Ran {
    Ran::of(Command::new(env!("CARGO_BIN_EXE_halprof")).args(arguments))
}

fn rows(report: &Value) -> &[Value] {
    report["tables"][0]["parts"][0]["rows"].as_array().expect("rows")
}

/// The rows of what has samples of its own: the others only called it.
fn own_rows(report: &Value) -> Vec<&Value> {
    rows(report).iter().filter(|row| row["samples"] != 0).collect()
}

/// Samples by a field.
fn samples(report: &Value, field: &str) -> Vec<(String, u64)> {
    let own = |row: &Value| {
        let name = row[field].as_str().map_or_else(|| row[field].to_string(), str::to_owned);
        (name, row["samples"].as_u64().expect("samples"))
    };
    own_rows(report).into_iter().map(own).collect()
}

const DATE: &str = "System.DateTime.GetDatePart(int32)";

/// A method of .NET, as tables have it and by its parts.
#[test]
fn a_managed_method_is_found_as_it_is_shown() {
    let Some(trace) = shared("etw/files/net.4.5.2.x64.etl") else { return };
    let trace = text(&trace);
    let all = json(&format!("report {trace} --by symbol"));
    let expected = rows(&all).iter().find(|row| row["symbol"] == DATE).expect("the method");
    let module = expected["module"].as_str().expect("a module");
    for name in [
        &format!("{module}!{DATE}"),
        DATE,
        "System.DateTime.GetDatePart",
        "DateTime.GetDatePart",
        "GetDatePart",
        "GetDatePart(int32)",
        "system.datetime.getdatepart",
        &format!("{module}!GetDatePart"),
    ] {
        let found = with(&["--json", "report", trace, "--by", "symbol", "--symbol", name]).json();
        let found = own_rows(&found);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert_eq!(
            (&found[0]["symbol"], &found[0]["samples"]),
            (&expected["symbol"], &expected["samples"]),
            "{name}"
        );
        let annotated = with(&["--json", "annotate", trace, name]).json();
        assert_eq!(annotated["symbol"], DATE, "{name}");
    }
    for name in ["DatePart", "other.dll!GetDatePart", "GetDatePart(int64)"] {
        let refused = with(&["--json", "annotate", trace, name]);
        assert_eq!(refused.status, 2, "{name}: {}", refused.stdout);
        let hint = refused.json()["error"]["hint"].to_string();
        assert!(
            !hint.contains(&format!("{name},")) && !hint.contains(&format!("{name}.")),
            "{hint}"
        );
    }
}

/// Every function of a report can be typed as the report has it.
#[test]
fn each_function_of_a_table_can_be_typed() {
    let Some(trace) = shared("etw/files/net.4.5.2.x64.etl") else { return };
    let trace = text(&trace);
    let all = json(&format!("report {trace} --by symbol --source Timer"));
    let named = own_rows(&all).into_iter().filter(|row| !row["symbol"].is_null());
    for expected in named.step_by(7).take(12) {
        let name = format!(
            "{}!{}",
            expected["module"].as_str().expect("a module"),
            expected["symbol"].as_str().expect("a name")
        );
        let found = with(&[
            "--json", "report", trace, "--by", "symbol", "--source", "Timer", "--symbol", &name,
        ])
        .json();
        assert_eq!(
            samples(&found, "symbol"),
            [(
                expected["symbol"].as_str().expect("a name").to_owned(),
                expected["samples"].as_u64().expect("samples")
            )],
            "{name}"
        );
    }
}

/// Modules of one name, without the identity that a merged trace has.
#[test]
fn two_modules_of_one_name_are_told_apart() {
    let Some(case) = shared("cases/strangers/two-modules-one-name") else { return };
    let trace = case.join("t.etl");
    let trace = text(&trace);
    let found = samples(&json(&format!("report {trace} --by module")), "module");
    assert_eq!(found, [("B\\plugin.dll".to_owned(), 30), ("A\\plugin.dll".to_owned(), 10)]);
    let folders = format!("{0}/A;{0}/B", text(&case));
    for (name, of_it) in [("only_A", 10), ("only_B", 30)] {
        let annotated =
            with(&["--json", "annotate", trace, name, "--symbol-path", &folders]).json();
        assert_eq!(annotated["sources"][0]["samples"], of_it, "{name}");
        assert_eq!(annotated["sources"][0]["all_samples"], 40, "{name}");
    }
    for (module, of_it) in [
        ("plugin.dll", 40),
        (r"A\plugin.dll", 10),
        ("b/PLUGIN.DLL", 30),
        (r"B\*", 30),
        (r"C\plugin.dll", 0),
    ] {
        let counted = with(&["--json", "report", trace, "--module", module]).json();
        assert_eq!(counted["counted"], of_it, "{module}");
    }
    let by_symbol = with(&[
        "--json",
        "report",
        trace,
        "--by",
        "symbol",
        "--symbol",
        r"A\plugin.dll!*",
        "--symbol-path",
        &folders,
    ])
    .json();
    assert_eq!(samples(&by_symbol, "module"), [("A\\plugin.dll".to_owned(), 10)]);
}

/// The build of a PE file, as symbol stores write it: TimeDateStamp and SizeOfImage.
#[cfg(unix)]
fn stamp_of(file: &Path) -> String {
    use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile64};
    let data = fs::read(file).expect("a file");
    let file = PeFile64::parse(&*data).expect("a PE file");
    let headers = file.nt_headers();
    let time = headers.file_header().time_date_stamp.get(object::LittleEndian);
    format!("{time:08X}{:x}", headers.optional_header().size_of_image())
}

/// Windows wrote WORK.EXE and WORK.PDB, and the folder has Work.exe and Work.pdb.
#[cfg(unix)]
#[test]
fn files_are_found_whatever_the_case_of_their_names() {
    let Some(case) = shared("cases/strangers/names-case-on-linux") else { return };
    let trace = case.join("t.etl");
    let (trace, path) = (text(&trace), text(&case));
    let expected = [("work(int)", 17), ("mainCRTStartup()", 16), ("inner(int)", 11)];
    let expected = expected.map(|(name, samples)| (name.to_owned(), samples));
    let found = json(&format!("report {trace} --by symbol --symbol-path {path}"));
    assert_eq!(samples(&found, "symbol"), expected);
    // The same in a store, each of its folders in other letters. The trace has no identity of the PDB,
    // so the program, whose headers name it, is in the store too.
    let program = case.join("Work.exe");
    let identity = halprof_profile::symbols::identity_of(&program).expect("a PE file");
    let Some(halprof_profile::file::Identity::Pdb { guid, age, .. }) = identity else {
        panic!("a PDB")
    };
    let stamp = stamp_of(&program);
    let store = tempfile::tempdir().expect("a folder");
    for (file, folder, key, stored) in [
        ("Work.exe", "work.EXE", stamp, "wOrK.eXe"),
        ("Work.pdb", "work.PDB", format!("{guid}{age:X}"), "wOrK.pDb"),
    ] {
        let at = store.path().join(folder).join(key.to_lowercase());
        fs::create_dir_all(&at).expect("a folder");
        fs::copy(case.join(file), at.join(stored)).expect("copied");
    }
    let found = json(&format!("report {trace} --by symbol --symbol-path {}", text(store.path())));
    assert_eq!(samples(&found, "symbol"), expected);
}

/// What is unknown has no offset, and an address less its offset is one place for samples and callers.
#[test]
fn an_offset_is_from_where_its_code_begins() {
    let Some(trace) = shared("etw/files/net.4.5.2.x64.etl") else { return };
    let csv = halprof(&format!("script {} --csv", text(&trace)));
    let (mut unknown, mut known) = (0, 0);
    for row in csv_rows(&csv.stdout) {
        let is_unknown =
            ["unknown", "no address"].contains(&&*row["module"]) && row["symbol"].is_empty();
        assert_eq!(row["offset"].is_empty(), is_unknown, "{row:?}");
        *if is_unknown { &mut unknown } else { &mut known } += 1;
    }
    assert_eq!((unknown, known > 6000), (184, true));
    let lines = halprof(&format!("script {} --jsonl", text(&trace)));
    let mut kernel = std::collections::BTreeSet::new();
    for line in objects(&lines.stdout) {
        let callers = line["callers"].as_array().cloned().unwrap_or_default();
        for one in std::iter::once(&line).chain(&callers) {
            if one["module"] == "ntoskrnl.exe" && one["symbol"].is_null() {
                let address = one["address"].as_str().expect("an address").trim_start_matches("0x");
                let address = u64::from_str_radix(address, 16).expect("a number");
                kernel.insert(address - one["offset"].as_u64().expect("an offset"));
            }
        }
    }
    assert_eq!(kernel.len(), 1, "{kernel:x?}");
}

#[test]
fn samples_are_filtered_by_thread() {
    let Some(trace) = shared("etw/files/net.4.5.2.x64.etl") else { return };
    let trace = text(&trace);
    let all = json(&format!("report {trace} --by thread --source Timer"));
    let first = &rows(&all)[0];
    assert!(first["process_name"].is_string() && first["process"].is_number(), "{first}");
    let thread = first["thread"].to_string();
    let of_it = first["samples"].as_u64().expect("samples");
    let one = json(&format!("report {trace} --tid {thread} --source Timer"));
    assert_eq!(one["counted"], of_it);
    let lines = halprof(&format!("script {trace} --csv --tid {thread} --source Timer"));
    let lines = csv_rows(&lines.stdout);
    assert_eq!(lines.len() as u64, of_it);
    assert!(lines.iter().all(|line| line["thread"] == thread));
    let (_folder, out) = folder();
    let exported =
        json(&format!("export {trace} -f folded --tid {thread} --source Timer -o {}", text(&out)));
    assert_eq!(exported["samples"], of_it);
    let none = halprof(&format!("report {trace} --tid 1"));
    assert!(none.stderr.contains("no sample has the thread `1`"), "{}", none.stderr);
}

/// Static functions of one name: `annotate` takes one and says how the other can be typed.
#[test]
fn functions_of_one_name_can_be_typed_by_their_addresses() {
    let Some(built) = binaries::elf_of_twins() else { return };
    let (_folder, file) = folder();
    let file = text(&file);
    json(&format!(
        "--machine skylake record -o {file} -C 0 -e TotalIssues:10000 --workload instructions=1000000,cycles=2000000,image={},function=twin",
        built.path()
    ));
    let one = json(&format!("annotate {file} twin"));
    let other = one["others"][0].as_str().expect("another function");
    let (address, name) = other.split_once(' ').expect("an address and a name");
    assert_eq!(name, "(twins!twin)");
    let other = json(&format!("annotate {file} {address}"));
    assert_eq!((&other["symbol"], &other["between"]), (&json!("twin"), &json!(0)));
    let samples = [one, other].map(|one| one["sources"][0]["samples"].as_u64().expect("samples"));
    assert!(!samples.contains(&0), "{samples:?}");
    assert_eq!(samples.iter().sum::<u64>(), 100);
}

/// A source as it is named to count it.
#[test]
fn a_source_is_found_as_it_is_named_to_count() {
    let (_folder, file) = folder();
    let file = text(&file);
    json(&format!("--machine skylake record -e TotalCycles:100000:u -o {file}"));
    for name in [
        "cycles",
        "cycles:u",
        "TotalCycles",
        "totalcycles:u",
        "ProfileTotalCycles",
        "0x13",
        "cpu-cycles",
    ] {
        let report = json(&format!("report {file} --source {name}"));
        assert_eq!(column(&report["by_source"], "source"), ["TotalCycles:u"], "{name}");
    }
    for name in ["instructions", "cycles:k", "0x02"] {
        let refused = halprof_json(&format!("report {file} --source {name}"));
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (2, &json!("usage")),
            "{name}"
        );
        assert!(refused.stdout.contains(&format!("`{name}`")), "{}", refused.stdout);
    }
}

/// A C++ program with overloads, functions of one name in two namespaces, and two static ones.
fn overloads() -> Option<Built> {
    binaries::cpp(
        "namespace a { __attribute__((noinline)) int step(int x) { __asm__ volatile(\"\"); return x + 1; } \
         __attribute__((noinline)) int step(double x) { __asm__ volatile(\"\"); return (int)x + 2; } } \
         namespace b { __attribute__((noinline)) int step(int x) { __asm__ volatile(\"\"); return x * 3; } } \
         __attribute__((noinline)) int alone(int x) { __asm__ volatile(\"\"); return x - 4; } \
         int main(int c, char **) { return (a::step(c) + a::step(c * 0.5) + b::step(c) + alone(c)) == 12345; }",
    )
}

#[test]
fn a_stepped_range_is_named_as_tables_name_it() {
    let Some(built) = overloads() else { return };
    let program = built.path();
    let module = built.file.file_name().expect("a name").to_string_lossy().into_owned();
    let simulate = |range: &str| with(&["--json", "simulate", "--range", range, "--", program]);
    for (range, symbol) in [
        (format!("{module}!alone"), "alone(int)"),
        ("alone".to_owned(), "alone(int)"),
        ("alone(int)".to_owned(), "alone(int)"),
        ("b::step".to_owned(), "b::step(int)"),
        (format!("{module}!a::step(double)"), "a::step(double)"),
        ("step(double)".to_owned(), "a::step(double)"),
    ] {
        let ran = simulate(&range);
        assert_eq!(
            (ran.status, &ran.json()["symbol"]),
            (0, &json!(symbol)),
            "{range}: {}",
            ran.stdout
        );
    }
    for (range, choices) in [
        ("a::step", &["`a::step(int)`", "`a::step(double)`"][..]),
        ("step", &["`a::step(int)`", "`a::step(double)`", "`b::step(int)`"]),
        ("step(int)", &["`a::step(int)`", "`b::step(int)`"]),
    ] {
        let ran = simulate(range);
        let hint = ran.json()["error"]["hint"].as_str().expect("a hint").to_owned();
        assert_eq!(ran.status, 2, "{range}");
        assert!(choices.iter().all(|choice| hint.contains(choice)), "{range}: {hint}");
        for choice in choices {
            let ran = simulate(choice.trim_matches('`'));
            assert_eq!(ran.status, 0, "{choice}: {}", ran.stdout);
        }
    }
    let ran = simulate("nowhere!alone");
    assert_eq!(ran.status, 2, "{}", ran.stdout);
}

/// Where there is no room, arguments go before the function does.
#[test]
fn a_function_stays_where_its_arguments_have_no_room() {
    let Some(trace) = shared("etw/files/net.4.5.2.x64.etl") else { return };
    let tree = halprof(&format!("report {} --stack --width 80 --source Timer", text(&trace)));
    assert!(tree.stdout.contains("DateToTicks"), "{}", tree.stdout);
    assert!(tree.stdout.lines().all(|line| line.chars().count() <= 80), "{}", tree.stdout);
    let (_folder, out) = folder();
    let status =
        command(&format!("export {} -f flamegraph -o {}", text(&trace), text(&out))).status();
    assert!(status.expect("it runs").success());
    let picture = fs::read_to_string(&out).expect("a picture");
    let labels: Vec<&str> =
        picture.split("y=\"16\">").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    assert!(labels.contains(&"DateToTicks"), "{labels:?}");
    assert!(!labels.iter().any(|label| label.contains("mscorlib.dll!")), "{labels:?}");
}
