//! Are the answers those of the same service in the tool's own process?

use super::Driven;
use serde_json::Value;
use std::process::Command;

const MACHINES: [&str; 7] = [
    "skylake",
    "zen4",
    "hybrid",
    "pentium4",
    "pentium3",
    "hyperv-masked",
    "skylake,processors=2048",
];

const COMMANDS: [&str; 3] =
    ["list --all", "check -e TotalIssues,BranchInstructions", "explain TotalIssues"];

/// An answer without who gave it.
fn answer(mut value: Value) -> Value {
    let object = value.as_object_mut().expect("an object");
    for who in ["machine", "modelled", "backend"] {
        object.remove(who);
    }
    value
}

#[test]
fn the_driver_answers_as_the_model_in_process_does() {
    let Some(driven) = Driven::new() else {
        return;
    };
    for machine in MACHINES {
        driven.install(&format!("machine {machine}\n"));
        for command in COMMANDS {
            let there = driven.run(&format!("--json {command}"));
            let mut own = Command::new(env!("CARGO_BIN_EXE_halprof"));
            let own = own.args(["--json", "--machine", machine]).args(command.split(' ')).output();
            let own = own.expect("the tool runs");
            assert_eq!(there.status, own.status.code(), "{machine} {command}");
            let own: Value = serde_json::from_slice(&own.stdout).expect("JSON");
            assert!(answer(there.json()) == answer(own), "{machine} {command}: {}", there.output);
        }
        driven.uninstall();
    }
}
