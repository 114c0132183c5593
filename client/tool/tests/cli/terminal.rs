//! Is the output right on a terminal of any width, and coloured only if colours are wanted?
#![cfg(unix)]

use crate::cli::support::{folder, program, skipped, tool};
use halprof_profile::file::{Metadata, Source, Statistics, Writer};
use shared_types::Sample;
use std::process::Command;

const HALPROF: &str = env!("CARGO_BIN_EXE_halprof");

/// Whether `script` is installed, which draws on a terminal and records the output.
fn has_script() -> bool {
    let found = Command::new("script").arg("--version").output();
    if let Err(error) = &found {
        skipped(&format!("script: {error}"));
    }
    found.is_ok()
}

/// Runs the tool on a terminal with this many columns; returns what it drew.
fn on_terminal(columns: u32, environment: &str, arguments: &str) -> String {
    let command = format!(
        "stty cols {columns} rows 24; {environment} {HALPROF} --machine skylake {arguments}"
    );
    let output = program("script")
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .output()
        .expect("script of util-linux runs");
    let drawn = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{columns} columns, {arguments}: {drawn}");
    assert!(!drawn.contains("panic"), "{drawn}");
    drawn
}

/// The output to a pipe.
fn piped(environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = tool()
        .args(["--machine", "skylake"])
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .expect("the tool runs");
    String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    if !has_script() {
        return;
    }
    let is_coloured = |text: &str| text.contains("\u{1b}[1m");
    assert!(is_coloured(&on_terminal(80, "", "stat --quiet")));
    assert!(!is_coloured(&on_terminal(80, "NO_COLOR=1", "stat --quiet")));
    assert!(!is_coloured(&on_terminal(80, "TERM=dumb", "stat --quiet")));
    assert!(!piped(&[], &["stat"]).contains('\u{1b}'));
    assert!(is_coloured(&piped(&[("CLICOLOR_FORCE", "1")], &["stat"])));
    let refused = piped(&[("CLICOLOR_FORCE", "1")], &["stat", "-e", "Nonsense"]);
    assert!(refused.contains("\u{1b}[31merror:"), "{refused}");
}

/// On a terminal the browser gets the page, and nothing that it says is mixed with the result.
#[cfg(target_os = "linux")]
#[test]
fn a_page_is_opened_in_the_browser() {
    use std::os::unix::fs::PermissionsExt;
    if !has_script() {
        return;
    }
    let (folder, file) = folder();
    let (opener, told) = (folder.path().join("xdg-open"), folder.path().join("told"));
    let content =
        format!("#!/bin/sh\necho noise\necho \"$1\" > {0}.new && mv {0}.new {0}\n", told.display());
    std::fs::write(&opener, content).expect("written");
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).expect("set");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("PATH={}:{path}", folder.path().display());
    let page = file.with_extension("html").display().to_string();
    let recording = file.display();
    for command in [
        format!("record -o {recording} --open"),
        format!("report {recording} --open"),
        format!("export {recording} --open"),
    ] {
        let drawn = on_terminal(200, &path, &command);
        assert!(drawn.contains("opened in the browser") && !drawn.contains("noise"), "{drawn}");
        let said = (0..200).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::fs::read_to_string(&told).ok()
        });
        assert_eq!(said.as_deref().map(str::trim), Some(page.as_str()), "{command}");
        std::fs::remove_file(&told).expect("removed");
    }
}

/// A colour in a name could hide it, or make it look like another.
#[test]
fn values_on_a_terminal_have_no_colours_of_their_own() {
    if !has_script() {
        return;
    }
    let (_folder, file) = folder();
    let metadata = Metadata {
        sources: vec![Source { name: "plain \u{1b}[8mhidden".to_owned(), ..Source::default() }],
        ..Metadata::default()
    };
    let mut writer = Writer::create(&file, &metadata).expect("created");
    writer.samples(&[Sample::default()]).expect("written");
    writer.finish(&Statistics::default(), false).expect("finished");
    for command in ["script", "report"] {
        let arguments = format!("{command} {} --csv", file.display());
        let drawn = on_terminal(80, "", &arguments);
        assert!(drawn.contains("plain \\x1b[8mhidden"), "{drawn:?}");
        assert!(!drawn.contains("\u{1b}[8m"), "{drawn:?}");
    }
}

#[test]
fn progress_tells_the_time_left_and_keeps_to_the_width() {
    if !has_script() {
        return;
    }
    let work = "stat -r 100 -I 1 -o /dev/null --workload cycles=10000000";
    for columns in [20, 40, 120] {
        let drawn = on_terminal(columns, "", work);
        // Each state of the line follows a carriage return.
        let bars: Vec<String> = drawn
            .split(['\r', '\n'])
            .map(without_escapes)
            .filter(|line| line.contains(" %"))
            .collect();
        assert!(!bars.is_empty(), "{columns} columns: {drawn:?}");
        for bar in &bars {
            assert!(bar.chars().count() <= columns as usize, "{columns}: {bar:?}");
        }
        assert!(columns == 20 || bars.iter().any(|bar| bar.contains("left")), "{bars:?}");
    }
    assert!(!on_terminal(80, "", &format!("{work} --quiet")).contains(" %"));
}

#[test]
fn narrow_terminals_get_everything() {
    if !has_script() {
        return;
    }
    for arguments in
        ["stat", "stat -I 40", "stat -r 5 -M ipc", "list", "list --metrics", "help stat"]
    {
        for columns in [1, 20] {
            on_terminal(columns, "", arguments);
        }
    }
}

fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next == '\u{1b}' {
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(next);
        }
    }
    plain
}
