//! Are there manual pages and completions for every command, and do the programs that read them
//! accept them?

use crate::cli::support::{halprof, skipped, text};
use std::path::Path;
use std::process::{Command, Output};

#[path = "../../examples/manual/pages.rs"]
mod pages;

/// The commands that `halprof help` lists, in groups of what they are for.
pub(crate) fn commands() -> Vec<String> {
    let help = halprof("help").stdout;
    let (groups, _) = help.split_once("\nOptions:").expect("the options");
    // The second line of an explanation is indented far to the right.
    let lines = groups.lines().filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter(|line| !line.starts_with(' '));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Runs a Debian program; `None`, with a message, if it is missing and not required.
fn tool(path: &str, arguments: &[&str]) -> Option<Output> {
    if !Path::new(path).is_file() {
        skipped(&format!("{path} is absent"));
        return None;
    }
    let output = Command::new(path).args(arguments).env("HOME", "/nonexistent").output();
    Some(output.expect("the tool runs"))
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

#[test]
fn each_command_has_a_page_that_mandoc_takes() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = pages::pages().expect("pages");
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    assert_eq!(names.len(), 1 + commands.len());
    for command in &commands {
        let name = format!("halprof-{command}");
        let found = pages.iter().find(|page| page.0 == name);
        let (_, page) = found.unwrap_or_else(|| panic!("{name} in {names:?}"));
        assert!(page.contains("SYNOPSIS") && page.contains("json"), "{name}");
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
    for (name, page) in &pages {
        let file = folder.path().join(format!("{name}.1"));
        std::fs::write(&file, page).expect("written");
        let lint = ["-T", "lint", "-W", "warning", text(&file)];
        let Some(lint) = tool("/usr/bin/mandoc", &lint) else { return };
        // A build has no date, so that the same sources give the same pages; and where the renderer
        // asks for two line breaks, one is omitted.
        let harmless = ["missing date", "skipping paragraph macro"];
        let said = said(&lint);
        let warnings =
            said.lines().filter(|line| !harmless.iter().any(|words| line.contains(words)));
        assert_eq!(warnings.collect::<Vec<_>>(), [""; 0], "{name}");
        assert!(said.contains("missing date"), "mandoc looked at it: {said}");
    }
}

/// The shell itself is asked what it offers for a command line.
#[test]
fn bash_completes_commands_and_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("halprof.bash");
    std::fs::write(&script, halprof("completions bash").stdout).expect("written");
    let script = text(&script);
    let folder = text(Path::new(env!("CARGO_BIN_EXE_halprof")).parent().expect("a folder"));
    let offer = |words: &str, last: usize| {
        let ask = format!(
            "PATH={folder}:$PATH; source {script}; COMP_WORDS=({words}); COMP_CWORD={last}; \
             _clap_complete_halprof halprof \"${{COMP_WORDS[{last}]}}\"; echo ${{COMPREPLY[@]}}"
        );
        tool("/bin/bash", &["--norc", "-c", &ask])
    };
    let Some(commands_offered) = offer("halprof ''", 1) else { return };
    for name in commands() {
        assert!(said(&commands_offered).contains(&name), "{name}: {}", said(&commands_offered));
    }
    assert_eq!(said(&offer("halprof stat --per-cp", 2).expect("bash")).trim(), "--per-cpu");
    for (words, last, wanted) in [
        ("halprof stat -e TotalI", 3, "TotalIssues"),
        ("halprof stat -e branch-m", 3, "branch-misses"),
        ("halprof stat -e TotalIssues,llcm", 3, "TotalIssues,LLCMisses"),
        ("halprof --machine zen4 stat -e ls_not_halted_c", 5, "ls_not_halted_cyc"),
        ("halprof record --group FixedI", 3, "FixedInstructions"),
        ("halprof stat -M branch-mp", 3, "branch-mpki"),
        ("halprof info --machine skyl", 3, "skylake"),
        ("halprof --machine zen", 2, "zen2 zen4 zen5 zen6"),
        ("halprof report --by modul", 3, "module"),
        ("halprof stat --by proc", 3, "process"),
        ("halprof explain counters-re", 2, "counters-reserved"),
    ] {
        assert_eq!(said(&offer(words, last).expect("bash")).trim(), wanted, "{words}");
    }
}
