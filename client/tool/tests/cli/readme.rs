//! Do the commands of README and of the pages run as written, and print what README shows?

use std::path::Path;
use std::process::Command;

/// How README calls the tool, and how it is called from a clone.
const CALLS: [&str; 2] = ["cargo run -q --release -p halprof -- ", "halprof "];
/// Stands for any number of lines.
const LEFT_OUT: &str = "...";

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).expect(name)
}

fn readme() -> String {
    document("README.md")
}

/// The arguments of a call of the tool.
fn arguments(command: &str) -> Vec<String> {
    let rest = CALLS.iter().find_map(|call| command.strip_prefix(call));
    let rest = rest.unwrap_or_else(|| panic!("README calls something else: {command}"));
    rest.split(' ').map(str::to_owned).collect()
}

/// What a terminal shows for a command: its notes, then its result.
fn shown(folder: &Path, arguments: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_halprof"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the tool runs");
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

/// Whether these lines match the text, where [`LEFT_OUT`] stands for any lines.
fn is_of(lines: &[&str], text: &[&str]) -> bool {
    match lines.split_first() {
        None => text.iter().all(|line| line.is_empty()),
        Some((&LEFT_OUT, rest)) => (0..=text.len()).any(|from| is_of(rest, &text[from..])),
        Some((line, rest)) => text
            .split_first()
            .is_some_and(|(first, others)| first.trim_end() == *line && is_of(rest, others)),
    }
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
    let commands = quoted.filter(|quoted| quoted.starts_with("halprof "));
    let commands = commands.filter(ends);
    let shown = commands.map(|command| shown(folder.path(), &arguments(command)));
    assert!(shown.count() > 10);
}

#[test]
fn every_command_of_the_tour_says_what_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let readme = readme();
    let commands = tour(&readme);
    assert!(commands.len() >= 4, "{commands:?}");
    for (command, lines) in commands {
        let text = shown(folder.path(), &command);
        let all: Vec<&str> = text.lines().collect();
        assert!(lines.len() > 1 && is_of(&lines, &all), "{command:?}:\n{text}");
    }
}

#[test]
fn what_differs_from_what_is_shown_is_noticed() {
    let text = ["a", "b", "c", ""];
    for lines in [&["a", "b", "c"][..], &["a", "...", "c"], &["a", "..."]] {
        assert!(is_of(lines, &text), "{lines:?}");
    }
    for lines in [&["a", "b"][..], &["b", "..."], &["a", "...", "d"], &[]] {
        assert!(!is_of(lines, &text), "{lines:?}");
    }
}

#[test]
fn cargo_run_of_the_package_is_the_tool() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let tool = packages.iter().find(|package| package["name"] == "halprof").expect("the tool");
    // One program: `cargo run` need not be told which.
    let targets = tool["targets"].as_array().expect("targets").iter();
    let programs = targets.filter(|target| target["kind"][0] == "bin");
    assert_eq!(programs.map(|target| &target["name"]).collect::<Vec<_>>(), ["halprof"]);
}
