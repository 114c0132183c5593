//! Does the tool name only commands and options that it has, wherever it gives advice?

use std::fs;
use std::path::{Path, PathBuf};

/// The files below a folder that contain texts for users.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            _ if path.is_dir() => texts(&path, found),
            Some("rs" | "csv" | "toml") => found.push(path),
            _ => {}
        }
    }
}

/// What a text has between backquotes, if it is a command line or an option of halprof's: other
/// programs are called by their own names.
fn command_lines(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(|quoted| quoted.starts_with("halprof ") || quoted.starts_with("--"))
}

/// What is wrong with a command line: its command, or the first option that the command lacks. An
/// option that stands alone must be one of any command.
fn unknown(line: &str, tool: &clap::Command) -> Option<String> {
    let words: Vec<&str> = line.split([' ', '=', '[', ']', '|', '/']).collect();
    let own = words.iter().take_while(|&&word| word != "--");
    let mut options = own
        .filter_map(|word| word.strip_prefix("--"))
        .filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()));
    let has = |command: &clap::Command, name: &str| {
        ["help", "version"].contains(&name)
            || command.get_arguments().any(|argument| {
                let aliases = argument.get_all_aliases().unwrap_or_default();
                argument.get_long() == Some(name) || aliases.contains(&name)
            })
    };
    let command = words.get(1).filter(|word| words[0] == "halprof" && !word.starts_with('-'));
    let commands: Vec<&clap::Command> = match command {
        // A word in capitals stands for any.
        Some(name) if name.starts_with(|first: char| first.is_ascii_lowercase()) => {
            match tool.find_subcommand(name) {
                Some(command) => vec![command],
                None if *name == "help" => return None,
                None => return Some((*name).to_owned()),
            }
        }
        _ => tool.get_subcommands().collect(),
    };
    let is_known =
        |name: &str| commands.iter().any(|command| has(command, name)) || has(tool, name);
    options.find(|name| !is_known(name)).map(str::to_owned)
}

#[test]
fn every_command_and_option_that_a_text_names_exists() {
    let tool = halprof::documents::command();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    texts(&root.join("src"), &mut files);
    texts(&root.join("../setup/src"), &mut files);
    texts(&root.join("../../facts"), &mut files);
    let mut lines = 0;
    let mut wrong = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("text");
        for line in command_lines(&text) {
            lines += 1;
            if let Some(name) = unknown(line, &tool) {
                wrong.push(format!("{}: `{line}`: {name}", file.display()));
            }
        }
    }
    assert!(lines > 300, "only {lines} were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_or_option_that_does_not_exist_is_recognized() {
    let tool = halprof::documents::command();
    for (line, missing) in [
        ("halprof stat --topdown", None),
        ("halprof report --topdown", Some("topdown")),
        ("halprof count -e A", Some("count")),
        ("--branch-filter", Some("branch-filter")),
        ("--machine NAME", None),
        ("halprof stat -- program --of-its-own", None),
    ] {
        assert_eq!(unknown(line, &tool).as_deref(), missing, "{line}");
    }
}
