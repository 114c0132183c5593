//! Do the commands that README shows run as they are written?

use std::path::Path;
use std::process::Command;

/// The lines of README that begin with `halprof`, without the explanation behind them.
fn commands() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(path).expect("README.md");
    let lines = text.lines().filter(|line| line.starts_with("    halprof "));
    lines
        .filter_map(|line| line.trim().split("  ").next().map(str::to_owned))
        .collect()
}

#[test]
fn every_command_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = commands();
    assert!(commands.len() >= 9, "{commands:?}");
    for command in commands {
        let arguments = command.split(' ').skip(1);
        let output = Command::new(env!("CARGO_BIN_EXE_halprof"))
            .args(["--machine", "skylake"])
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("the tool runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {stderr}");
        assert!(!output.stdout.is_empty(), "{command}");
    }
}

#[test]
fn the_output_shown_is_the_output() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(path).expect("README.md");
    let ran = crate::support::halprof(&["--machine", "skylake", "stat"]);
    for line in ran.stderr.lines().chain(ran.stdout.lines()) {
        assert!(text.contains(line), "README does not show: {line}");
    }
}
