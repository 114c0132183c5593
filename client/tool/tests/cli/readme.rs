//! Do the commands of README and of the pages run as written, and print what README shows?

use crate::cli::support::tool;
use std::path::Path;
use std::process::Command;

/// How README calls the tool, and how it is called from a clone.
const CALLS: [&str; 2] = ["cargo run -q --profile quick -p halprof -- ", "halprof "];

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).expect(name)
}

/// The arguments of a call of the tool.
fn arguments(command: &str) -> Vec<String> {
    let rest = CALLS.iter().find_map(|call| command.strip_prefix(call));
    let rest = rest.unwrap_or_else(|| panic!("README calls something else: {command}"));
    rest.split(' ').map(str::to_owned).collect()
}

/// What a terminal shows for a command: its notes, then its result.
fn shown(folder: &Path, arguments: &[String]) -> String {
    let output = tool().args(arguments).current_dir(folder).output().expect("the tool runs");
    let text = [output.stderr, output.stdout].map(|bytes| String::from_utf8(bytes).expect("text"));
    let text = text.concat();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

/// The commands of the tour, each with the lines that README shows below it.
fn tour(readme: &str) -> Vec<(Vec<String>, Vec<&str>)> {
    let mut commands: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    let mut shows = false;
    for line in readme.lines() {
        if let Some(command) = line.strip_prefix("    $ ") {
            commands.push((arguments(command), Vec::new()));
            shows = true;
        } else if !line.is_empty() && !line.starts_with("    ") {
            shows = false;
        } else if shows && let Some((_, lines)) = commands.last_mut() {
            lines.push(line.strip_prefix("    ").unwrap_or_default());
        }
    }
    for (_, lines) in &mut commands {
        while lines.pop_if(|line| line.is_empty()).is_some() {}
    }
    commands
}

/// The comparison, too, shows what halprof can do by naming commands.
#[test]
fn every_command_of_the_comparison_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = document("docs/compare.md");
    let quoted = text.split('`').skip(1).step_by(2);
    // These run until something else ends.
    let ends =
        |command: &&str| !["halprof rdpmc hold", "halprof rdpmc -- PROGRAM"].contains(command);
    let commands = quoted.filter(|quoted| quoted.starts_with("halprof ")).filter(ends);
    let shown = commands.map(|command| shown(folder.path(), &arguments(command)));
    assert!(shown.count() > 10);
}

/// `...` in README stands for any number of lines.
#[test]
fn every_command_of_the_tour_says_what_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let readme = document("README.md");
    let commands = tour(&readme);
    assert!(commands.len() >= 4, "{commands:?}");
    for (command, lines) in commands {
        assert!(lines.len() > 1, "{command:?}");
        let text = shown(folder.path(), &command);
        let text: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
        snapbox::Assert::new().eq(text.join("\n"), lines.join("\n"));
    }
}

#[test]
fn cargo_run_of_the_package_is_the_tool() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let tool = packages.iter().find(|package| package["name"] == "halprof").expect("the tool");
    // One program: `cargo run` need not be told which.
    let targets = tool["targets"].as_array().expect("targets").iter();
    let programs = targets.filter(|target| target["kind"][0] == "bin");
    assert_eq!(programs.map(|target| &target["name"]).collect::<Vec<_>>(), ["halprof"]);
}
