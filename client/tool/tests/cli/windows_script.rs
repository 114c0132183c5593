//! Does `tests/windows/run.ps1` call the tool correctly, and read fields that exist?
//!
//! The script runs only on Windows, but its commands can be given to a model anywhere.

use crate::cli::support::{column, folder, halprof_json, json, text};
use serde_json::Value;
use std::path::Path;

const SCRIPT: &str = include_str!("../../../../tests/windows/run.ps1");

/// The fields that the script reads from each command's result.
const READ: &[(&str, &[&str])] = &[
    ("info", &["/processors", "/holder"]),
    ("registers", &["/processors/0/processor", "/processors/0/registers/0/name"]),
    ("registers", &["/processors/0/registers/0/value"]),
    ("doctor", &["/ready", "/checks/0/name", "/checks/0/state", "/checks/0/result"]),
    (
        "doctor --prove",
        &[
            "/proof/method",
            "/proof/answers/0/processor",
            "/proof/answers/0/question",
            "/proof/answers/0/verdict",
            "/proof/answers/0/found",
        ],
    ),
    ("list", &["/sources/0/id", "/sources/0/name", "/sources/0/hal", "/sources/0/supported"]),
    (
        "list",
        &["/sources/0/interval/min", "/sources/0/interval/max", "/sources/0/interval/default"],
    ),
    ("stat", &["/counts/0/source", "/counts/0/value"]),
    ("record", &["/lost", "/generated", "/samples"]),
    (
        "report",
        &["/samples", "/damaged", "/lost", "/by_process/0/process", "/by_process/0/samples"],
    ),
    ("report --open", &["/page"]),
    ("report --by", &["/tables/0/parts/0/rows/0/samples", "/tables/0/parts/0/rows/0/symbol"]),
];

/// The commands that the script gives to the tool: the second text of each call.
fn commands(file: &str) -> Vec<String> {
    let calls = ["Get-Answer ", "Start-Tool ", "Invoke-Tool "];
    SCRIPT
        .lines()
        .filter(|line| !line.starts_with("function "))
        .flat_map(|line| calls.iter().filter_map(move |call| line.split_once(call)))
        .filter_map(|(_, call)| second_text(call))
        .filter(|text| !text.contains("$Arguments"))
        .map(|text| {
            text.replace("`\"$file`\"", file)
                .replace("`\"$BusyFile`\"", file)
                .replace("`\"$short`\"", file)
                .replace("`\"$user`\"", "Ann")
                .replace("$doctor", "doctor")
                .replace("-p $($busy.Id) ", "")
                .replace("-p $($short.Id) ", "-d 1 ")
                .replace("--module kernelbase.dll ", "")
                .replace("Timer:1000000", "Timer")
                .replace("`\"$Inf`\"", "halprof.inf")
                .replace("${event}", "BranchInstructions")
                .replace("${source}", "TotalCycles")
                .replace("$source", "TotalCycles")
                .replace("$last", "1")
                .replace("--machine etw ", "")
                .replace("--machine driver ", "")
                .replace("-e Timer", "-e TotalCycles")
                .replace("--by thread", "--by process")
                .replace("-d 600", "-d 1")
                .replace("-d 60", "-d 1")
        })
        .collect()
}

/// From `'name' 'text'`, `"name" "text"` or `$Name "text"`; a quote after a backtick does not end a
/// text.
fn second_text(call: &str) -> Option<&str> {
    let (_, rest) = call.split_once(' ')?;
    let quote = rest.chars().next().filter(|quote| "'\"".contains(*quote))?;
    let text = rest.get(1..)?;
    let mut ends = text.match_indices(quote).map(|(end, _)| end);
    text.get(..ends.find(|&end| !text[..end].ends_with('`'))?)
}

#[test]
fn the_tool_takes_what_the_script_says() {
    let (_folder, file) = folder();
    let commands = commands(text(&file));
    assert!(commands.len() >= 15, "{commands:?}");
    let mut read = 0;
    for command in commands {
        let command = command.trim_start_matches("--json ");
        let name = command.split(' ').next().unwrap_or_default();
        let ran = halprof_json(&format!("--machine skylake {command}"));
        // Commands for Windows only, and those that a model cannot run, are parsed and then
        // refused.
        if ["install", "uninstall", "start", "stop"].contains(&name) || command.contains("-- ") {
            assert_eq!(ran.status, 4, "{command}: {}", ran.stdout);
            continue;
        }
        // A model does not run the script's program, and its recording here has no branches, no other
        // events and no waits.
        let absent = ["--by edge", "--events", "--off-cpu"];
        if name == "annotate" || absent.iter().any(|one| command.contains(one)) {
            assert_ne!(ran.status, 2, "{command}: {}", ran.stdout);
            continue;
        }
        assert_eq!(ran.status, 0, "{command}: {}", ran.stdout);
        let answer: Value = ran.json();
        for (_, fields) in READ.iter().filter(|(of, _)| command.starts_with(of)) {
            for field in *fields {
                assert!(answer.pointer(field).is_some(), "{command}: no {field}");
                read += 1;
            }
        }
    }
    assert!(read >= 24, "{read} fields");
}

#[test]
fn every_control_register_is_watched() {
    let head = "if ($register.name -match '";
    let pattern = SCRIPT.lines().find_map(|line| line.trim().strip_prefix(head));
    let pattern = pattern.expect("the script's pattern").trim_end_matches("') {");
    let watched = |name: &str| pattern.split('|').any(|part| name.contains(part));
    for machine in ["skylake", "sapphire-rapids", "hybrid", "k8", "zen2", "zen4"] {
        let answer = json(&format!("--machine {machine} registers"));
        let names = column(&answer["processors"][0]["registers"], "name").into_iter();
        let names: Vec<&str> = names.filter_map(Value::as_str).collect();
        assert!(names.iter().any(|name| watched(name)), "{machine}");
        let control =
            |name: &&&str| ["SEL", "CTL", "CTRL", "Ctl"].iter().any(|part| name.contains(part));
        for name in names.iter().filter(control) {
            assert!(watched(name), "{machine}: {name}");
        }
    }
}

#[test]
fn the_script_names_the_device_as_the_driver_does() {
    use shared_types::device;
    for name in [device::HARDWARE_ID, device::SERVICE] {
        assert!(SCRIPT.contains(name), "{name}");
    }
    let instance = format!(r"ROOT\{}\", device::SERVICE.to_ascii_uppercase());
    assert!(SCRIPT.contains(&instance), "{instance}");
}

#[test]
fn the_guide_names_every_file_that_the_script_needs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join("docs/windows.md")).expect("the guide");
    for file in std::fs::read_dir(root.join("tests/windows")).expect("the scripts") {
        let name = file.expect("a file").file_name();
        let path = format!("tests/windows/{}", name.to_str().expect("UTF-8"));
        assert!(guide.contains(&path), "{path}");
    }
}
