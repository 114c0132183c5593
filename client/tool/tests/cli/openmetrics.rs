//! Does the file for the textfile collectors contain exactly what was counted, in a form they can
//! read?

use crate::cli::foreign::printed;
use crate::cli::support::{Ran, command, folder, foreign_python, text};
use serde_json::Value;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is counted into a file.
fn counted(machine: &str, options: &str) -> String {
    let (_folder, path) = folder();
    let mut stat = command(&format!("stat --openmetrics {} {options}", text(&path)));
    let ran = Ran::of(stat.args(["--machine", machine]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    std::fs::read_to_string(&path).expect("a file")
}

/// Sources that take turns: they have an error bound, and less time running than enabled.
#[test]
fn the_parser_of_prometheus_reads_it_all() {
    let Some(python) = foreign_python("prometheus_client") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // As a raw select, instructions take turns with the others.
    let list = "r00C0,CacheMisses,r01C4,r02C4,r04C4,r08C4,r10C4,r20C4,r40C4,r03C4,r05C4,r06C4";
    let machine = strange(folder.path());
    let text = counted(&machine, &format!("-e {list} -I 10 --rotate 2"));
    let families = parsed(&python, &text);
    let family = |name: &str| {
        let mut families = families.as_array().expect("a list").iter();
        let family = families.find(|family| family["name"] == name);
        family.unwrap_or_else(|| panic!("no {name}: {families:?}"))
    };
    for (name, kind, unit, samples) in [
        ("halprof_machine_info", "gauge", "", 1),
        ("halprof_processor_info", "gauge", "", 1),
        ("halprof_events", "counter", "", 12),
        ("halprof_enabled_seconds", "counter", "seconds", 12),
        ("halprof_running_seconds", "counter", "seconds", 12),
        ("halprof_readings", "counter", "", 1),
        ("halprof_missed_readings", "counter", "", 1),
        ("halprof_read_timestamp_seconds", "gauge", "seconds", 1),
    ] {
        let family = family(name);
        let found = family["samples"].as_array().expect("a list");
        assert_eq!(
            (&family["type"], &family["unit"], found.len()),
            (&kind.into(), &unit.into(), samples),
            "{name}"
        );
        assert!(found.iter().all(|sample| sample["labels"]["modelled"] == "true"));
    }
    // The file's name is preserved despite quotes, backslashes and line ends.
    let about = &family("halprof_machine_info")["samples"][0]["labels"];
    let told = about["machine"].as_str().expect("a text");
    assert!(told.contains("a \"dump\" \\ of\none.txt"), "{told}");
    assert_eq!(about["interface"], "Emon");
    let value = |name: &str| {
        let samples = family(name)["samples"].as_array().expect("a list");
        let issues = samples.iter().find(|sample| sample["labels"]["source"] == "r00C0");
        issues.expect("a sample")["value"].as_f64().expect("a number")
    };
    let part = value("halprof_running_seconds") / value("halprof_enabled_seconds");
    assert!(part > 0.1 && part < 0.9, "{part}");
    // By the rule in the help text: 100 million instructions in 150 ms.
    let estimate = value("halprof_events") / value("halprof_running_seconds");
    assert!((estimate / (1e9 / 1.5) - 1.0).abs() < 0.05, "{estimate}");
}

/// A dump of one processor, in a file with a name that needs escaping.
fn strange(folder: &Path) -> String {
    let path = folder.join("a \"dump\" \\ of\none.txt");
    let dump = "CPUID 00000000: 00000016-756E6547-6C65746E-49656E69\n\
        CPUID 00000001: 000506E3-00100800-7FFAFBBF-BFEBFBFF\n\
        CPUID 0000000A: 07300804-00000000-00000000-00000603\n";
    std::fs::write(&path, dump).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

fn parsed(python: &Path, text: &str) -> Value {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/openmetrics.py");
    let mut input = tempfile::tempfile().expect("a file");
    input.write_all(text.as_bytes()).expect("written");
    input.rewind().expect("rewound");
    printed(Command::new(python).arg(script).stdin(input))
}
