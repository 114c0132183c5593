//! Is every table available as comma-separated values, with the fields of its JSON?

use crate::cli::support::{folder, halprof, json, refused, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// The lines below the header, with their values by column name.
fn lines(arguments: &[&str]) -> Vec<BTreeMap<String, String>> {
    let ran = halprof(&[arguments, &["--csv"]].concat());
    assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
    let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
    let lines = reader.deserialize().map(|line| line.expect("a line"));
    lines.collect()
}

fn told(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[test]
fn lines_have_what_json_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    let hybrid = ["--machine", "hybrid"];
    let on_hybrid = |arguments: &[&'static str]| [&hybrid, arguments].concat();
    let record = ["--machine", "hybrid", "record", "-o", file];
    for (arguments, list) in [
        (on_hybrid(&["info"]), "processors"),
        (on_hybrid(&["list", "--all"]), "sources"),
        (on_hybrid(&["list", "--metrics"]), "metrics"),
        (on_hybrid(&["check"]), "assignment"),
        (on_hybrid(&["doctor"]), "checks"),
        (on_hybrid(&["explain", "TotalIssues"]), "cpu_types"),
        (record.to_vec(), "periods"),
        (vec!["machines"], "machines"),
        (vec!["machines", "--quirks"], "quirks"),
    ] {
        let (lines, value) = (lines(&arguments), json(&arguments));
        let rows = value[list].as_array().expect("a list");
        assert!(!rows.is_empty() && lines.len() == rows.len(), "{arguments:?}");
        for (line, row) in lines.iter().zip(rows) {
            assert_eq!(line["modelled"], "true", "{arguments:?}");
            let row = row.as_object().expect("an object").iter();
            for (name, value) in row.filter(|(_, value)| !value.is_array() && !value.is_object()) {
                assert_eq!(line[name], told(value), "{arguments:?}: {name}");
            }
        }
    }
    let list = lines(&on_hybrid(&["list"]));
    assert_eq!(list[1]["interval.default"], "65536", "fields of a field");
}

#[test]
fn registers_have_a_line_for_each_field() {
    let lines = lines(&["--machine", "skylake", "registers", "-C", "0-1"]);
    let value = json(&["--machine", "skylake", "registers", "-C", "0-1"]);
    let mut fields = 0;
    for one in value["processors"].as_array().expect("a list") {
        for register in one["registers"].as_array().expect("a list") {
            fields += register["fields"].as_array().expect("a list").len();
        }
    }
    assert_eq!(lines.len(), fields);
    let last = lines.last().expect("lines");
    assert_eq!(last["processor"], "1");
    assert!(last["register_value"].starts_with("0x"), "{last:?}");
}

#[test]
fn annotated_code_has_a_line_for_each_instruction_and_source() {
    let Some(built) = crate::cli::binaries::elf() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    let workload = format!("instructions=3000000,cycles=3000000,image={}", built.path());
    let sources = "TotalIssues:10000,TotalCycles:10000";
    halprof(&["record", "-e", sources, "-o", file, "--workload", &workload]);
    let value = json(&["annotate", file]);
    let lines = lines(&["annotate", file]);
    let instructions = value["instructions"].as_array().expect("a list");
    assert_eq!(lines.len(), instructions.len() * 2);
    let sum = |source: &str| -> u64 {
        let own = lines.iter().filter(|line| line["source"] == source);
        own.map(|line| line["samples"].parse::<u64>().expect("a number")).sum()
    };
    for source in value["sources"].as_array().expect("a list") {
        let name = source["source"].as_str().expect("a name");
        let between = value["between"].as_u64().expect("a number");
        let all = source["samples"].as_u64().expect("a number");
        assert!(all - sum(name) <= between, "{name}");
    }
}

/// Who reads tables by their columns needs these also where there is nothing to read.
#[test]
fn a_table_without_rows_has_its_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    json(&["record", "-o", file, "--workload", "cycles=1"]);
    let head = |arguments: &[&str]| halprof(&[arguments, &["--csv"]].concat()).stdout;
    assert_eq!(
        head(&["timeline", file]),
        "number,time_ns,channel,value,process,thread,on_channel_ns,on_any_ns,modelled\n"
    );
    let fits_not = ["check", "-g", "TotalCycles,TotalCycles:u,TotalIssues,TotalIssues:u"];
    let fits_not = [&["--machine", "core2"], &fits_not[..]].concat();
    assert_eq!(head(&fits_not), "source,processor,counter,kind,slice,error,modelled\n");
}

/// Only a machine with several types of core has processors that differ, and only a metric that is
/// a formula has parts.
#[test]
fn lists_have_the_same_columns_on_every_machine() {
    let head = |arguments: &[&str]| {
        let text = halprof(&[arguments, &["--csv"]].concat()).stdout;
        text.lines().next().expect("a head").to_owned()
    };
    let list = head(&["--machine", "skylake", "list"]);
    assert!(list.contains(",processors.processors,processors.supported,"));
    // A processor without counters.
    for machine in ["hybrid", "hyperv-guest-masked"] {
        assert_eq!(head(&["--machine", machine, "list"]), list, "{machine}");
    }
    let metrics = head(&["--machine", "skylake", "list", "--metrics"]);
    assert!(metrics.contains(",terms.name,terms.filter,terms.source,"), "{metrics}");
    let (_folder, file) = folder();
    let formula = "[[metric]]\nid = \"a\"\nname = \"a\"\nformula = \"cycles / instructions\"\n";
    std::fs::write(&file, formula).expect("written");
    assert_eq!(head(&["list", "--metric-file", text(&file)]), metrics);
}

#[test]
fn what_is_modelled_says_so_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    let branches = ["--branches", "-e", "BranchInstructions:1000", "-o", file];
    json(&[&["--machine", "skylake", "record"], &branches[..]].concat());
    for arguments in [
        &["report", file][..],
        &["report", file, "--by", "edge"],
        &["report", file, "--diff", file],
        &["script", file],
    ] {
        let lines = lines(arguments);
        assert!(!lines.is_empty(), "{arguments:?}");
        let modelled = |line: &BTreeMap<String, String>| line["modelled"] == "true";
        assert!(lines.iter().all(modelled), "{arguments:?}: {lines:?}");
    }
}

#[test]
fn a_comparison_has_what_json_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (before, after) = (at("before.rec"), at("after.rec"));
    for (file, programs) in [(&before, "70+30"), (&after, "20+80")] {
        let work = format!("instructions=5000000,programs={programs}");
        let sources = "TotalIssues:10000,TotalCycles:10000";
        json(&["record", "-e", sources, "-o", file, "--workload", &work]);
    }
    let diff = ["report", &before, "--diff", &after, "--by", "process"];
    let (lines, value) = (lines(&diff), json(&diff));
    let parts = value["tables"][0]["parts"].as_array().expect("a list");
    let rows = parts.iter().flat_map(|part| {
        let rows = part["rows"].as_array().expect("a list").iter();
        rows.map(|row| (&part["source"], row))
    });
    let rows: Vec<(&Value, &Value)> = rows.collect();
    assert!(!rows.is_empty() && rows.len() == lines.len(), "{value}");
    for (line, (source, row)) in lines.iter().zip(rows) {
        assert_eq!(line["source"], told(source));
        assert_eq!(line["process_name"], told(&row["process_name"]));
        assert_eq!(line["before.samples"], told(&row["before"]["samples"]));
        assert_eq!(line["after.events"], told(&row["after"]["events"]));
        let share: f64 = line["after.share.low"].parse().expect("a number");
        let low = row["after"]["share"]["low"].as_f64().expect("a number");
        assert!((share - low).abs() < 1e-9, "{line:?}");
        assert_eq!(line["clear"], told(&row["clear"]));
    }
    let two = ["--by", "process", "--by", "symbol", "--csv"];
    refused(&[&["report", &before, "--diff", &after], &two[..]].concat(), 2, "usage");
}

#[test]
fn one_form_at_a_time_and_only_of_tables() {
    for arguments in [
        &["info", "--csv"][..],
        &["stat", "--csv"],
        &["report", "a.rec", "--csv"],
        &["machines", "--csv"],
    ] {
        refused(arguments, 2, "usage");
    }
    for command in ["machines --quirks extra", "completions bash", "explain busy"] {
        let words: Vec<&str> = command.split(' ').chain(["--csv"]).collect();
        let ran = halprof(&words);
        assert_eq!(ran.status == 0, command == "machines", "{command}");
    }
}

#[test]
fn a_list_of_objects_is_a_list_of_each_field() {
    let metrics = lines(&["--machine", "skylake", "list", "--metrics"]);
    let ipc = metrics.iter().find(|line| line["id"] == "ipc");
    let ipc = ipc.expect("a metric");
    assert_eq!(ipc["terms.name"], "instructions cycles");
    assert_eq!(ipc["terms.source"], "FixedInstructions FixedCycles");
    let share = metrics.iter().find(|line| line["id"] == "kernel-share");
    let share = share.expect("a metric");
    assert_eq!(share["terms.filter"], "k u");
    assert!(!metrics.iter().flat_map(BTreeMap::values).any(|cell| cell.contains('{')));
}

#[test]
fn what_is_no_msr_has_no_number() {
    let text = halprof(&["registers"]).stdout;
    assert!(text.contains("LVTPC") && text.contains("CR4"), "{text}");
    assert!(!text.contains("0xfffe0004") && !text.contains("0xffff0340"), "{text}");
    for line in lines(&["registers"]) {
        let is_msr = !["LVTPC", "CR4"].contains(&line["register"].as_str());
        assert_eq!(!line["number"].is_empty(), is_msr, "{line:?}");
    }
}
