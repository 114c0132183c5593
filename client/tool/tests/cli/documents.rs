//! Does every command of every page run, and print what the page states?
//!
//! `documents/page.rs` says how pages mark what cannot run here. After an intended change, running the
//! test with `HALPROF_SCREENS=write` writes what the commands print now into the pages.

mod page;

use crate::cli::support::{SETTINGS, shared};
use halprof_etw::payload::counters::CounterNames;
use halprof_etw::payload::process::Process;
use halprof_etw::payload::processor::Switch;
use halprof_etw::payload::thread::Thread;
use halprof_etw::payload::{Change, EventKind};
use page::{CALLS, Command, Stated, Step};
use sim_etw::write::{self, Origin, Session};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Mutex;
use std::thread;

/// What `cargo` is to the commands of a page: the programs that cargo has built beside this test.
const CARGO: &str = r#"#!/bin/sh
kind=$1
package= example= windows=
while [ $# -gt 0 ]; do
    case $1 in
        -p) package=$2; shift ;;
        --example) example=$2; shift ;;
        --) shift; break ;;
    esac
    shift
done
case $kind,$package,$example in
    build,halprof*,) ;;
    run,halprof,) exec halprof "$@" ;;
    run,nt-model,) exec "$BUILT/nt-model" "$@" ;;
    run,*,?*) exec "$BUILT/examples/$example" "$@" ;;
    *) echo "cargo does not $kind that here"; exit 2 ;;
esac
"#;

/// The tool without a machine to measure on: it reads its command line and stops.
const UNRUN: &str = r#"#!/bin/bash
machine=
for argument; do
    shift
    [ "$machine" = next ] && argument=no-such-machine machine=named
    [ "$argument" = -- ] && machine=${machine:-program}
    case $machine,$argument in
        ,--machine) machine=next ;;
        ,timeline|,simulate) machine=none ;;
    esac
    set -- "$@" "$argument"
done
case $machine in
    named|none) ;;
    *) set -- --machine no-such-machine "$@" ;;
esac
exec halprof-itself "$@"
"#;

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.canonicalize().expect("the workspace")
}

/// Where cargo puts what it builds with this test.
fn built() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_halprof")).parent().expect("a folder")
}

/// All pages of the repository.
fn pages() -> Vec<PathBuf> {
    let mut folders = vec![root()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("UTF-8");
            if entry.file_type().expect("a type").is_dir() {
                if !name.starts_with('.') && name != "target" {
                    folders.push(entry.path());
                }
            } else if Path::new(&name).extension().is_some_and(|own| own == "md") {
                pages.push(entry.path());
            }
        }
    }
    pages.sort();
    pages
}

/// Where the commands of a page run, one after the other.
struct Place {
    folder: tempfile::TempDir,
    with: Vec<(String, String)>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let halprof = Path::new(env!("CARGO_BIN_EXE_halprof"));
        let at = |name: &str| folder.path().join(name);
        for name in ["bin", "unrun", "home", "target"] {
            fs::create_dir(at(name)).expect("a folder");
        }
        link(halprof, &at("bin/halprof"));
        link(halprof, &at("unrun/halprof-itself"));
        program(&at("bin/cargo"), CARGO);
        program(&at("unrun/cargo"), CARGO);
        program(&at("unrun/halprof"), UNRUN);
        // A clone, as far as pages name files of it; the C library is the one of these tests.
        link(&built().join("deps"), &at("target/release"));
        link(&root().join("client"), &at("client"));
        counted(&at("counted.etl"));
        Self { folder, with: Vec::new() }
    }

    /// What a terminal shows, and the exit status.
    fn run(&self, command: &Command) -> (String, i32) {
        let text = self
            .with
            .iter()
            .fold(command.text.clone(), |text, (word, with)| replaced(&text, word, with));
        let text = text.replace(r".\halprof.exe", "halprof").replace("halprof.exe ", "halprof ");
        let folder = self.folder.path();
        let programs = folder.join(if command.unrun { "unrun" } else { "bin" });
        let path = std::env::var("PATH").expect("a path");
        let mut shell = process::Command::new("bash");
        for name in SETTINGS {
            shell.env_remove(name);
        }
        let output = shell
            .args(["-c", &format!("exec 2>&1\n{text}")])
            .current_dir(folder)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("HOME", folder.join("home"))
            .env("BUILT", built())
            .stdin(process::Stdio::null())
            .output()
            .expect("a shell");
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        (shown, output.status.code().unwrap_or(-1))
    }
}

/// A trace whose context switches carry counters, as `xperf -pmc` makes it.
fn counted(file: &Path) {
    let process = Process::new(Change::RundownStart, 4096, "app.exe");
    let switch = |old_thread, new_thread, counts: [u64; 2]| {
        let switch =
            Switch { old_thread, new_thread, old_state: Switch::WAITING, ..Switch::default() };
        (EventKind::Switch(switch), counts.to_vec())
    };
    let names = ["InstructionRetired", "TotalCycles"].map(str::to_owned).to_vec();
    let events = [
        (EventKind::CounterNames(CounterNames { names }), Vec::new()),
        (EventKind::Process(Box::new(process)), Vec::new()),
        (EventKind::Thread(Box::new(Thread::new(Change::RundownStart, 4096, 4100))), Vec::new()),
        switch(0, 4100, [1_000, 2_000]),
        switch(4100, 0, [9_000, 7_000]),
        switch(0, 4100, [9_500, 7_900]),
        switch(4100, 0, [12_000, 9_000]),
    ];
    let events = (0..).zip(&events).map(|(time, (event, counts))| {
        (Origin { time: 10_000 * time, ..Origin::default() }, event, &counts[..])
    });
    let file = fs::File::create(file).expect("a file");
    write::trace(file, Session::default(), events).expect("written");
}

fn link(file: &Path, name: &Path) {
    std::os::unix::fs::symlink(file, name).expect("a link");
}

fn program(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(file, text).expect("a program");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("a program");
}

/// A text with another one for each whole word.
fn replaced(text: &str, word: &str, with: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let part = |character: char| character.is_alphanumeric() || character == '_';
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let inside = before.ends_with(part) && word.starts_with(part)
            || after.starts_with(part) && word.ends_with(part);
        result += before;
        result += if inside { word } else { with };
        rest = after;
    }
    result + rest
}

/// What is wrong with a page, and the page with what its commands print now.
fn walked(page: &str) -> (Vec<String>, String) {
    let steps = match page::steps(page) {
        Ok(steps) => steps,
        Err(error) => return (vec![error], page.to_owned()),
    };
    let mut place = Place::new();
    let mut wrong = Vec::new();
    let mut now = BTreeMap::new();
    for step in steps {
        match step {
            Step::With(with) => {
                for (word, text) in with {
                    place.with.retain(|(known, _)| *known != word);
                    place.with.push((word, text));
                }
                // `FILE.etl` before `FILE`.
                place.with.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
            }
            Step::File { name, text } => {
                program(&place.folder.path().join(name), &text);
            }
            Step::Needs(name) => match shared(&name) {
                Some(file) => {
                    let name = file.file_name().expect("a name");
                    link(&file, &place.folder.path().join(name));
                }
                None => break,
            },
            Step::Elsewhere(test) => {
                if !root().join(&test).is_file() {
                    wrong.push(format!("there is no test {test}"));
                }
            }
            Step::Run(command) => {
                if let Err(error) = tried(&place, &command, &mut now) {
                    wrong.push(format!("line {}: {}\n{error}", command.line + 1, command.text));
                }
            }
        }
    }
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    for (_, (range, text)) in now.into_iter().rev() {
        lines.splice::<std::ops::Range<usize>, Vec<String>>(range, text);
    }
    (wrong, lines.join("\n") + "\n")
}

type Now = BTreeMap<usize, (std::ops::Range<usize>, Vec<String>)>;

fn tried(place: &Place, command: &Command, now: &mut Now) -> Result<(), String> {
    if command.unrun {
        let ours = CALLS.iter().any(|call| command.text.starts_with(call));
        if !ours || command.text.starts_with("cargo") {
            return Ok(());
        }
        // It is refused, but not for how it is written.
        let (shown, status) = place.run(command);
        return match status {
            3..=5 => Ok(()),
            _ => Err(format!("status {status}, as if it could run or were wrong: {shown}")),
        };
    }
    let (shown, status) = place.run(command);
    if status != command.status {
        return Err(format!("status {status}: {shown}"));
    }
    let Some(stated) = &command.stated else { return Ok(()) };
    let shown: Vec<&str> = shown.trim_end().lines().map(str::trim_end).collect();
    if matches(stated, &shown) {
        return Ok(());
    }
    let text = rewritten(&stated.text, &shown).into_iter();
    let text = text.map(|line| format!("{}{line}", stated.indent).trim_end().to_owned());
    now.insert(stated.lines.start, (stated.lines.clone(), text.collect()));
    Err(format!("states\n{}\nand prints\n{}", stated.text.join("\n"), shown.join("\n")))
}

/// The line of a page that stands for any number of lines.
const ANY: &str = "...";

fn matches(stated: &Stated, shown: &[&str]) -> bool {
    let same = |line: &str| {
        let varying = stated.varies.iter();
        varying.fold(line.to_owned(), |line, pattern| generalized(&line, pattern))
    };
    let shown: Vec<String> = shown.iter().map(|line| same(line)).collect();
    let text: Vec<String> = stated.text.iter().map(|line| same(line)).collect();
    covers(&text, &shown)
}

fn covers(stated: &[String], shown: &[String]) -> bool {
    match stated.split_first() {
        None => shown.is_empty(),
        Some((any, rest)) if any == ANY => {
            (0..=shown.len()).any(|skipped| covers(rest, &shown[skipped..]))
        }
        Some((line, rest)) => shown.first() == Some(line) && covers(rest, &shown[1..]),
    }
}

/// A line in which everything that a pattern matches is the pattern; `#` stands for a number.
fn generalized(line: &str, pattern: &str) -> String {
    let mut result = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let within = result.ends_with(|last: char| last.is_ascii_digit());
        match length(rest, pattern) {
            Some(length) if !(within && pattern.starts_with('#')) => {
                result += pattern;
                rest = &rest[length..];
            }
            _ => {
                result.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    result
}

/// How much of a text a pattern matches at its beginning.
fn length(text: &str, pattern: &str) -> Option<usize> {
    let mut rest = text;
    for (at, part) in pattern.split('#').enumerate() {
        if at > 0 {
            let number = |character: char| character.is_ascii_digit() || ",.".contains(character);
            rest = rest.strip_prefix(|first: char| first.is_ascii_digit())?;
            rest = rest.trim_start_matches(number);
        }
        rest = rest.strip_prefix(part)?;
    }
    Some(text.len() - rest.len())
}

/// What a page would state of what is printed now: what it left out stays out, and each run of lines
/// that it shows becomes the run that is most like it.
fn rewritten(stated: &[String], shown: &[&str]) -> Vec<String> {
    let words = |line: &str| generalized(line, "#").split_whitespace().map(str::to_owned).collect();
    let alike = |one: &str, other: &str| {
        let (one, other): (Vec<String>, Vec<String>) = (words(one), words(other));
        2 * one.iter().filter(|word| other.contains(word)).count() + usize::from(one == other)
    };
    let mut result = Vec::new();
    let mut from = 0;
    let runs: Vec<&[String]> = stated.split(|line| line == ANY).collect();
    for (at, run) in runs.iter().enumerate() {
        let length = run.len().min(shown.len() - from);
        let last = shown.len() - length;
        let whole = runs.len() == 1;
        let place = match at {
            _ if whole => 0,
            0 => 0,
            _ if at + 1 == runs.len() => last,
            _ => {
                let likeness = |place: &usize| -> usize {
                    run.iter().zip(&shown[*place..]).map(|(one, other)| alike(one, other)).sum()
                };
                let best = (from..=last).rev().max_by_key(likeness);
                best.unwrap_or(from)
            }
        };
        if at > 0 {
            result.push(ANY.to_owned());
        }
        let end = if whole { shown.len() } else { place + length };
        result.extend(shown[place..end].iter().map(|line| (*line).to_owned()));
        from = end;
    }
    result
}

#[test]
fn every_command_of_every_page_prints_what_the_page_states() {
    let pages = Mutex::new(pages());
    let wrong = Mutex::new(Vec::new());
    let write = std::env::var_os("HALPROF_SCREENS").is_some_and(|what| what == "write");
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(file) = pages.lock().expect("pages").pop() else { break };
                    let page = fs::read_to_string(&file).expect("a page");
                    let (mut errors, now) = walked(&page.replace("\r\n", "\n"));
                    if write && now != page {
                        (errors, _) = walked(&now);
                        fs::write(&file, now).expect("a page");
                    }
                    let name = file.strip_prefix(root()).expect("a page").display();
                    let errors = errors.into_iter().map(|error| format!("{name}, {error}"));
                    wrong.lock().expect("errors").extend(errors);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("errors");
    assert!(wrong.is_empty(), "{} commands:\n{}", wrong.len(), wrong.join("\n\n"));
}

/// What the test above says of a page.
fn wrong(page: &str) -> Vec<String> {
    walked(page).0
}

#[test]
fn a_page_that_is_wrong_is_found() {
    let machine = "--machine skylake";
    for page in [
        format!("    halprof {machine} stat --no-such-option\n"),
        format!("Type `halprof {machine} stat --no-such-option`.\n"),
        format!("```sh\nhalprof {machine} stat --no-such-option\n```\n"),
        "<!-- test unrun: it could run -->\n    halprof list --no-such-option\n".to_owned(),
        "<!-- test unrun: `explain` needs no machine -->\n    halprof explain busy\n".to_owned(),
        "    $ echo 12\n    13\n".to_owned(),
        "    $ echo 12\n".to_owned(),
        "    $ printf '1\\n2\\n3\\n'\n    1\n    ...\n    4\n".to_owned(),
        "<!-- test varies `# bytes`: why -->\n    $ echo 12 bytes, 7\n    13 bytes, 8\n".to_owned(),
        "<!-- test ends: 1 -->\n    true\n".to_owned(),
        "<!-- test elsewhere: no/such/test.rs -->\n    true\n".to_owned(),
        "<!-- test unrun: -->\n    true\n".to_owned(),
        "<!-- test no-such-mark: why -->\n".to_owned(),
        "- <!-- test ends: 5 -->`halprof report no-such-file.rec`\n".to_owned(),
    ] {
        assert!(!wrong(&page).is_empty(), "{page}");
    }
}

#[test]
fn marks_say_how_commands_run() {
    for page in [
        "<!-- test unrun: it needs Windows -->\n    bcdedit /set testsigning on\n    halprof stat -d 1\n",
        "<!-- test file: a.txt -->\n    1,234.5 bytes\n\n<!-- test varies `# bytes`: why -->\n    $ cat a.txt\n    6 bytes\n",
        "<!-- test first: echo 7 > b.txt -->\n<!-- test with: FILE.txt = b.txt; FILE = a -->\n    $ cat FILE.txt; echo FILES\n    7\n    FILES\n",
        "<!-- test unrun `false`: one of two -->\n    true      says nothing\n    false\n",
        "```text\nno-such-command\n```\n\nIt says `no-such-command`.\n",
        "A row. <!-- test ends: 5 --> `halprof report no-such-file.rec`\n",
    ] {
        assert_eq!(wrong(page), [""; 0], "{page}");
    }
}

#[test]
fn a_page_is_rewritten_where_it_states_something_else() {
    let page = "Text.\n\n    $ printf 'head\\n 1  find\\n 2  run\\nend\\n'\n    ...\n     3  find\n     4  run\n    ...\n\n    $ echo 5\n    6\n\nEnd.\n";
    let (wrong, now) = walked(page);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    let right = page.replace(" 3  f", " 1  f").replace(" 4  r", " 2  r").replace("    6", "    5");
    assert_eq!(now, right);
    assert_eq!(walked(&right), (Vec::new(), right));
}

#[test]
fn cargo_run_of_the_package_is_the_tool() {
    let mut cargo = process::Command::new(env!("CARGO"));
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
