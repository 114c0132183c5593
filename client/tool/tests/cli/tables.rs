//! Is every table available as comma-separated values, with the fields of its JSON?

use crate::cli::binaries;
use crate::cli::reports::Recorded;
use crate::cli::support::{csv_rows, folder, halprof, json, text};
use serde_json::Value;
use std::collections::BTreeMap;

type Line = BTreeMap<String, String>;

/// The lines below the header, with their values by column name.
fn lines(command: &str) -> Vec<Line> {
    let ran = halprof(&format!("{command} --csv"));
    assert_eq!(ran.status, 0, "{command}: {}", ran.stderr);
    csv_rows(&ran.stdout)
}

fn head(command: &str) -> String {
    halprof(&format!("{command} --csv")).stdout.lines().next().expect("a head").to_owned()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Each line has the fields of its row, those of an object by their path.
fn assert_same(what: &str, line: &Line, row: &Value, path: &str) {
    for (name, value) in row.as_object().expect("an object") {
        let name = format!("{path}{name}");
        match value {
            Value::Object(_) => assert_same(what, line, value, &format!("{name}.")),
            Value::Array(_) => {}
            _ => assert_eq!(line.get(&name), Some(&cell(value)), "{what}: {name}"),
        }
    }
}

#[test]
fn lines_have_what_json_has() {
    let (_folder, path) = folder();
    let record = format!("record -o {}", text(&path));
    for (command, list) in [
        ("info", "processors"),
        ("list", "sources"),
        ("list --all", "sources"),
        ("list --metrics", "metrics"),
        ("check", "assignment"),
        ("doctor", "checks"),
        ("explain TotalIssues", "cpu_types"),
        (&record, "periods"),
        ("machines", "machines"),
        ("machines --quirks", "quirks"),
    ] {
        let machine = if command.starts_with("machines") { "" } else { "--machine hybrid" };
        let command = format!("{machine} {command}");
        let (lines, value) = (lines(&command), json(&command));
        let rows = value[list].as_array().expect("a list");
        assert!(!rows.is_empty() && lines.len() == rows.len(), "{command}");
        for (line, row) in lines.iter().zip(rows) {
            assert_eq!(line["modelled"], "true", "{command}");
            assert_same(&command, line, row, "");
        }
    }
}

#[test]
fn registers_have_a_line_for_each_field_and_what_is_no_msr_no_number() {
    let command = "--machine skylake registers -C 0-1";
    let (lines, value) = (lines(command), json(command));
    let processors = value["processors"].as_array().expect("a list").iter();
    let registers = processors.flat_map(|one| one["registers"].as_array().expect("a list"));
    let fields = registers.map(|register| register["fields"].as_array().expect("a list").len());
    assert_eq!(lines.len(), fields.sum::<usize>());
    assert_eq!(lines[lines.len() - 1]["processor"], "1");
    for line in lines {
        let is_msr = !["LVTPC", "CR4"].contains(&line["register"].as_str());
        assert_eq!(!line["number"].is_empty(), is_msr, "{line:?}");
        assert!(line["register_value"].starts_with("0x"), "{line:?}");
    }
}

#[test]
fn annotated_code_has_a_line_for_each_instruction_and_source() {
    let Some(built) = binaries::elf() else { return };
    let work = format!("instructions=3000000,cycles=3000000,image={}", built.path());
    let recorded = Recorded::new("skylake", "-e TotalIssues:10000,TotalCycles:10000", &work);
    let command = format!("annotate {}", recorded.file());
    let (lines, value) = (lines(&command), json(&command));
    assert_eq!(lines.len(), value["instructions"].as_array().expect("a list").len() * 2);
    for source in value["sources"].as_array().expect("a list") {
        let own = lines.iter().filter(|line| source["source"] == line["source"].as_str());
        let sum: u64 = own.map(|line| line["samples"].parse::<u64>().expect("a number")).sum();
        let [all, between] = [&source["samples"], &value["between"]].map(Value::as_u64);
        assert!(all.expect("samples") - sum <= between.expect("samples"), "{source}");
    }
}

/// Who reads tables by their columns needs these also where there is nothing to read, and on every
/// machine: only with several types of core processors differ, and only a formula has terms.
#[test]
fn a_table_has_its_columns_whatever_is_in_it() {
    let (_folder, path) = folder();
    let formula = "[[metric]]\nid = \"a\"\nname = \"a\"\nformula = \"cycles / instructions\"\n";
    std::fs::write(&path, formula).expect("written");
    let work = "branches=1000000,instructions=1000000";
    let recorded = Recorded::new("skylake", "--branches -e BranchInstructions:1000", work);
    let (file, metrics) = (recorded.file(), text(&path));
    for (full, other) in [
        ("--machine hybrid info", "--machine hyperv-guest-masked info"),
        ("--machine hybrid list", "--machine hyperv-guest-masked list"),
        ("list --metrics", &format!("list --metric-file {metrics}")),
        (
            "check -e TotalCycles",
            "--machine core2 check -g TotalCycles,TotalCycles:u,TotalIssues,r01C4",
        ),
        ("--machine hybrid registers", "--machine hyperv-guest-masked registers"),
        ("--machine hybrid stat --per-cpu -M ipc", "stat --by process -e TotalIssues"),
        ("--machine hybrid stat --topdown", "stat -e TotalIssues"),
        ("top --once -I 50 --by symbol", "top --once -I 50 --by symbol -p none.exe"),
        (&format!("script {file}"), &format!("script {file} --module none.dll")),
    ] {
        assert_eq!(head(full), head(other), "{full}");
    }
    let keys = "machine source process thread processor core module symbol line address \
        thread,symbol edge edge,symbol path:2 path:3,line";
    let tables = keys.split_whitespace().map(|keys| format!("--by {keys}"));
    let diff = format!("--by symbol --diff {file}");
    for table in tables.chain([diff]) {
        let report = format!("report {file} {table}");
        let [full, empty] = [&*report, &format!("{report} --module none.dll")].map(head);
        assert_eq!(full, empty, "{table}");
    }
    let by = |keys| head(&format!("report {file} --by {keys}"));
    let share = "samples,events,seconds,self,total,share.value,share.low,share.high,modelled";
    assert_eq!(by("process,symbol"), format!("source,process,process_name,module,symbol,{share}"));
}

#[test]
fn a_comparison_has_what_json_has() {
    let sampled = |programs: &str| {
        let work = format!("instructions=5000000,programs={programs}");
        Recorded::new("skylake", "-e TotalIssues:10000,TotalCycles:10000", &work)
    };
    let (before, after) = (sampled("70+30"), sampled("20+80"));
    let diff = format!("report {} --diff {} --by process", before.file(), after.file());
    let (lines, value) = (lines(&diff), json(&diff));
    let mut lines = lines.iter();
    for part in value["tables"][0]["parts"].as_array().expect("a list") {
        for row in part["rows"].as_array().expect("a list") {
            let line = lines.next().expect("a line for each row");
            assert_eq!(line["source"], cell(&part["source"]));
            assert_same(&diff, line, row, "");
        }
    }
    assert_eq!(lines.next(), None);
}
