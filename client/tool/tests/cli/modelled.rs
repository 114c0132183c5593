//! Is what a modelled machine runs by default a program with functions, code and source, and does it
//! last as long as was asked?

use crate::cli::support::{column, folder, halprof, json, text};
use serde_json::Value;

const FUNCTIONS: [&str; 5] = ["find", "run", "shuffle", "sieve", "sort"];

fn symbols(recording: &str) -> Vec<String> {
    let report = json(&format!("report {recording} --by symbol --rows 0"));
    let rows = &report["tables"][0]["parts"][0]["rows"];
    let names = column(rows, "symbol").into_iter();
    let mut names: Vec<String> = names.filter_map(Value::as_str).map(str::to_owned).collect();
    names.sort();
    names
}

/// The folder has nothing of the repository.
#[test]
fn the_default_workload_has_functions_code_and_source() {
    let (_folder, recording) = folder();
    let recording = text(&recording);
    json(&format!("--machine skylake record --branches -o {recording}"));
    assert_eq!(symbols(recording), FUNCTIONS);
    let shown = halprof(&format!("annotate {recording} sort")).stdout;
    assert!(shown.contains("modelled.c:40  values[place] = values[place - 1];"), "{shown}");
    // What has samples is what the branch records say is executed.
    for function in FUNCTIONS {
        let code = json(&format!("annotate {recording} {function}"));
        let own = code["instructions"].as_array().expect("instructions");
        let sampled = own.iter().filter(|one| one["samples"][0] != 0);
        let executed = |one: &Value| one["executed"][0].as_u64().expect("executed");
        assert!(sampled.clone().all(|one| executed(one) != 0), "{function}: {code}");
        assert!(sampled.count() > 2, "{function}");
    }
}

/// The functions of a recording, hottest first, with their shares of the user code.
fn shares(recording: &str) -> Vec<(String, f64)> {
    let report = json(&format!("report {recording} --by symbol --rows 0 --module modelled.exe"));
    let rows = report["tables"][0]["parts"][0]["rows"].as_array().expect("rows").clone();
    let events = |row: &Value| row["events"].as_f64().expect("a number");
    let all: f64 = rows.iter().map(events).sum();
    let named =
        |row: &Value| (row["symbol"].as_str().expect("a name").to_owned(), events(row) / all);
    rows.iter().map(named).collect()
}

/// Windows' tracing shows the same program as the driver, in a recording and in a trace that is kept.
#[test]
fn both_ways_of_measuring_show_the_same_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    for machine in ["skylake", "zen4", "hybrid"] {
        let recorded = |backend: &str, file: &str| {
            let path = folder.path().join(file).display().to_string();
            json(&format!(
                "--machine {machine}{backend} record -d 0.5 -o {path} -e instructions:100003"
            ));
            shares(&path)
        };
        let driven = recorded("", "driven.rec");
        assert_eq!(driven.len(), FUNCTIONS.len(), "{driven:?}");
        for file in ["traced.rec", "traced.etl"] {
            let traced = recorded(",backend=etw", file);
            let names = |all: &[(String, f64)]| -> Vec<String> {
                all.iter().map(|(name, _)| name.clone()).collect()
            };
            assert_eq!(names(&driven)[..2], names(&traced)[..2], "{machine}: {traced:?}");
            for (name, share) in &driven {
                let other = traced.iter().find(|(other, _)| other == name);
                let other = other.unwrap_or_else(|| panic!("{name}: {traced:?}")).1;
                assert!((share - other).abs() < 0.03, "{machine} {file} {name}: {share} {other}");
            }
        }
    }
}

#[test]
fn tracing_shows_lines_callers_and_branches_of_the_default_workload() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["a.rec", "a.etl"] {
        let path = folder.path().join(file);
        let path = text(&path);
        let machine = "--machine skylake,backend=etw";
        let recorded = json(&format!("{machine} record --branches -d 1 -o {path}"));
        let right = serde_json::json!({ "ended": 6, "repeats": true });
        assert_eq!(recorded["scope"]["workload"], right);
        let report = json(&format!("report {path} --by symbol,line --rows 0"));
        let files = column(&report["tables"][0]["parts"][0]["rows"], "file");
        let of_source = files.iter().filter(|file| ***file == "./modelled.c");
        assert!(of_source.count() > 10, "{report}");
        for function in FUNCTIONS {
            let code = json(&format!("annotate {path} {function}"));
            let own = code["instructions"].as_array().expect("instructions");
            let mut sampled = own.iter().filter(|one| one["samples"][0] != 0).peekable();
            assert!(sampled.peek().is_some(), "{function}");
            let executed = |one: &Value| one["executed"][0].as_u64().expect("executed");
            assert!(sampled.all(|one| executed(one) != 0), "{file} {function}: {code}");
        }
        let shown = halprof(&format!("annotate {path} sort")).stdout;
        assert!(shown.contains("modelled.c:40  values[place] = values[place - 1];"), "{shown}");
        // `run` calls all others, which call nobody.
        let folded = folder.path().join("a.folded");
        json(&format!("export {path} --format folded -o {}", text(&folded)));
        let stacks = std::fs::read_to_string(&folded).expect("stacks");
        let mut own = stacks.lines().filter(|line| line.contains("modelled.exe!")).peekable();
        assert!(own.peek().is_some(), "{stacks}");
        for stack in own {
            let frames = stack.rsplit_once(' ').expect("a count").0.split(';');
            let user: Vec<&str> =
                frames.filter_map(|one| one.strip_prefix("modelled.exe!")).collect();
            let right =
                user[0] == "run" && user.len() <= 2 && user[1..].iter().all(|&one| one != "run");
            assert!(right, "{stack}");
        }
    }
    let top = json("--machine skylake,backend=etw top --once -I 500 --by symbol");
    let names = column(&top["tables"][0]["parts"][0]["rows"], "symbol");
    assert!(names.iter().any(|name| **name == "find"), "{top}");
}

/// The iterations of a loop have more samples than what is before and behind it.
#[test]
fn a_loop_has_the_samples_of_its_iterations() {
    let (_folder, recording) = folder();
    let recording = text(&recording);
    json(&format!("--machine skylake record -d 1 -o {recording}"));
    let code = json(&format!("annotate {recording} sieve"));
    let samples_at = |line: u64| {
        let own = code["instructions"].as_array().expect("instructions").iter();
        let own = own.filter(|one| one["line"] == line);
        own.filter_map(|one| one["samples"][0].as_u64()).max().expect("the line has code")
    };
    // `if (composite[number])` and the beginning.
    let (looped, once) = (samples_at(14), samples_at(11));
    assert!(looped > 3 * once, "{looped} {once}");
}

#[test]
fn the_default_workload_lasts_as_long_as_asked() {
    let counted = json("--machine skylake stat -e cycles -d 1");
    assert_eq!(counted["counts"][0]["value"], 8_000_000_000_u64);
    let ran = |result: &Value| result["scope"]["workload"].clone();
    assert_eq!(ran(&counted), serde_json::json!({ "ended": 6, "repeats": true }));
    // Without a duration once, and with a workload once at most.
    for (options, ended) in [
        ("", 1),
        ("-d 1 --workload cycles=150000000", 1),
        ("-d 1 --workload user=90", 1),
        ("-d 0.1 --workload cycles=150000000", 0),
    ] {
        let counted = json(&format!("--machine skylake stat -e cycles {options}"));
        let right = serde_json::json!({ "ended": ended, "repeats": false });
        assert_eq!(ran(&counted), right, "{options}");
    }
    let shown = halprof("--machine skylake stat -d 1 --workload cycles=150000000");
    assert!(shown.stdout.contains("the workload ended after 0.150000 s"), "{}", shown.stdout);
}

/// A longer measurement of the default workload has more samples, and one of another has not.
#[test]
fn only_what_can_last_is_to_be_measured_for_longer() {
    let (_folder, recording) = folder();
    let advice = |options: &str| {
        let path = text(&recording);
        let result = json(&format!("--machine skylake record -o {path} {options}"));
        let advice = result["advice"].as_array().expect("advice").first().cloned();
        advice.map(|advice| advice["message"].as_str().expect("a message").to_owned())
    };
    let longer = |message: Option<String>| message.is_some_and(|text| text.contains("measure for"));
    assert!(longer(advice("")));
    let exact = advice("--workload cycles=150000000 -d 1");
    assert!(exact.is_some() && !longer(exact));
    assert!(longer(advice("--workload cycles=150000000 -d 0.1")));
    assert_eq!(advice("-d 2"), None);
}

#[test]
fn a_workload_without_amounts_has_the_default_ones() {
    let (_folder, recording) = folder();
    let recording = text(&recording);
    let own = env!("CARGO_MANIFEST_DIR");
    let image = format!("image={own}/src/target/built_in/modelled.exe");
    for (workload, functions) in [
        (format!("{image},function=sort"), &["sort"][..]),
        (format!("{image},function=run"), &FUNCTIONS),
        ("programs=60+40".to_owned(), &FUNCTIONS),
        ("user=50,processors=0".to_owned(), &FUNCTIONS),
        ("code=0x1000-0x2000".to_owned(), &[]),
    ] {
        let counted = json(&format!("--machine skylake stat -e cycles --workload {workload}"));
        let processors = if workload.contains("processors=0") { 1 } else { 8 };
        assert_eq!(counted["counts"][0]["value"], 150_000_000_u64 * processors, "{workload}");
        json(&format!("--machine skylake record -o {recording} --workload {workload}"));
        let mut names = symbols(recording);
        names.dedup();
        assert_eq!(names, functions, "{workload}");
    }
    let empty = halprof("--machine skylake stat --workload=");
    assert!(empty.stderr.contains("the workload is empty"), "{}", empty.stderr);
}

/// A file can be stepped through; the program in the tool cannot.
#[test]
fn a_function_of_a_file_can_be_counted_exactly_and_the_tool_says_how() {
    let (_folder, recording) = folder();
    let recording = text(&recording);
    let image = concat!(env!("CARGO_MANIFEST_DIR"), "/src/target/built_in/modelled.exe");
    for (workload, says) in [("", false), (&*format!("--workload image={image}"), true)] {
        json(&format!("--machine skylake record -o {recording} {workload}"));
        let said = halprof(&format!("annotate {recording} sort")).stderr;
        assert_eq!(said.contains("`halprof simulate --range 'sort' -- "), says, "{said}");
        let report = halprof(&format!("report {recording}")).stderr;
        let line = "`halprof simulate --range 'modelled.exe!find' -- ";
        assert_eq!(report.contains(line), says, "{report}");
    }
}
