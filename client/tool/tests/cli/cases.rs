//! Does the tool do what the files in `tests/cases` say?
//!
//! A case begins with a line `# WHAT HOLDS` and has a folder of its own. In it `= NAME` writes a file
//! with the indented lines below, `! COMMAND` is for the shell, `> ARGUMENTS` runs the tool, which must
//! succeed, and `$ ARGUMENTS` runs it to look at what it says. `{elf}`, `{pe}`, `{stepped}` and
//! `{twins}` stand for the programs of [`binaries`], `{source}` for the folder with their source, and a
//! case with one of them is skipped where there is no compiler; `{marks}` and `{branches}` are the
//! recordings of [`timeline`] and [`branches`], and in the shell `$HALPROF` is the tool. Below one run or
//! several is what holds for each of them:
//!
//! * `/PATH is JSON`, `/PATH in LEAST MOST`, `/PATH has TEXT`, `/PATH lacks TEXT` and `/PATH count N`
//!   are of the JSON, which is always valid by its schema. A path has names of fields and indexes of
//!   elements, `*` for all elements, and `FIELD=TEXT` for the elements, or the object, that have this;
//!   with `*` what is compared is a list, and an absent field is null.
//! * `stdout has TEXT` and `stdout lacks TEXT`, and the same of `stderr` or of a file by its name, are
//!   of the text without its line breaks; `stdout lines N` and `stdout is TEXT` of its lines.
//! * `status N` is the exit status, 0 if nothing is said; `error STATUS CODE` is a refusal, which has a
//!   message and a hint.
#![cfg(unix)]

use crate::cli::binaries::{self, Built};
use crate::cli::support::Ran;
use crate::cli::{branches, support, timeline};
use serde_json::Value;
use std::path::{Path, PathBuf};

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            assert_holds(stringify!($name));
        })*

        #[test]
        fn every_file_of_cases_is_run() {
            let mut files = std::fs::read_dir(FOLDER).expect("the folder").map(|file| {
                let path = file.expect("a file").path();
                path.file_stem().expect("a name").to_string_lossy().into_owned()
            }).collect::<Vec<_>>();
            files.sort_unstable();
            assert_eq!(files, [$(stringify!($name)),*]);
        }
    };
}

cases! {
    annotate branches counts describe diff errata events exports hybrid inlined marks metrics outputs periods refusals
    reports simulate top topdown tracing
}

const HALPROF: &str = env!("CARGO_BIN_EXE_halprof");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");

/// Runs a file's cases; all that do not hold are told together.
fn assert_holds(name: &str) {
    let path = Path::new(FOLDER).join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).expect("a file of cases");
    let cases = format!("\n{text}");
    let mut wrong = Vec::new();
    for case in cases.split("\n# ").skip(1) {
        let (title, lines) = case.split_once('\n').expect("a title and lines");
        let Some(case) = Case::new(lines) else { continue };
        let found = case.run(lines);
        wrong.extend(found.iter().map(|what| format!("# {title}\n{what}")));
    }
    assert!(wrong.is_empty(), "{}:\n{}", path.display(), wrong.join("\n\n"));
}

type Compile = fn() -> Option<Built>;

/// The programs that a case may name.
const COMPILED: [(&str, Compile); 4] = [
    ("{elf}", binaries::elf),
    ("{pe}", binaries::pe),
    ("{stepped}", binaries::stepped),
    ("{twins}", binaries::elf_of_twins),
];

type Write = fn(&Path);

/// The recordings that a case may name, their files, and what writes them.
const RECORDINGS: [(&str, &str, Write); 2] = [
    ("{branches}", "branches.rec", branches::write),
    ("{marks}", "marks.rec", timeline::recording),
];

/// A case in its folder, with the programs that it names.
struct Case {
    folder: tempfile::TempDir,
    programs: Vec<(&'static str, Built)>,
}

impl Case {
    /// `None` without a compiler for one of its programs.
    fn new(lines: &str) -> Option<Self> {
        let mut programs = Vec::new();
        for (name, compile) in COMPILED {
            if lines.contains(name) {
                programs.push((name, compile()?));
            }
        }
        let case = Self { folder: tempfile::tempdir().expect("a folder"), programs };
        for (name, file, write) in RECORDINGS {
            if lines.contains(name) {
                write(&case.at(file));
            }
        }
        Some(case)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What does not hold.
    fn run(&self, lines: &str) -> Vec<String> {
        let mut lines = lines.lines().filter(|line| !line.is_empty()).peekable();
        let mut wrong = Vec::new();
        while let Some(line) = lines.next() {
            let line = self.named(line);
            let (kind, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match kind {
                "=" => {
                    let mut content = String::new();
                    while let Some(line) = lines.next_if(|line| line.starts_with("    ")) {
                        content = content + &line[4..] + "\n";
                    }
                    std::fs::write(self.at(rest), content).expect("written");
                }
                "!" => {
                    let mut shell = support::program("sh");
                    let shell = shell.current_dir(self.folder.path()).env("HALPROF", HALPROF);
                    let ran = shell.args(["-ec", rest]).status();
                    assert!(ran.expect("a shell").success(), "{line}");
                }
                ">" => wrong.extend(self.judged(rest, &[])),
                "$" => {
                    let mut runs = vec![rest.to_owned()];
                    while let Some(line) = lines.next_if(|line| line.starts_with('$')) {
                        runs.push(self.named(line[1..].trim_start()));
                    }
                    let mut checks = Vec::new();
                    while let Some(line) =
                        lines.next_if(|line| !line.starts_with(['$', '!', '=', '>']))
                    {
                        checks.push(self.named(line));
                    }
                    for arguments in runs {
                        let found = self.judged(&arguments, &checks);
                        wrong.extend(found.iter().map(|what| format!("$ {arguments}\n{what}")));
                    }
                }
                _ => panic!("`{line}` stands below no run"),
            }
        }
        wrong
    }

    fn named(&self, line: &str) -> String {
        let programs = self.programs.iter();
        let line = line.replace("{source}", env!("CARGO_MANIFEST_DIR"));
        let line = RECORDINGS.iter().fold(line, |line, (name, file, _)| line.replace(name, file));
        programs.fold(line, |line, (name, built)| line.replace(name, built.path()))
    }

    /// Runs the tool as written, or with `--json`, or both, as the checks need it.
    fn judged(&self, arguments: &str, checks: &[String]) -> Vec<String> {
        let (of_json, of_text): (Vec<_>, Vec<_>) =
            checks.iter().partition(|check| check.starts_with('/') || check.starts_with("error "));
        let mut status = "0";
        for check in checks {
            match check.split(' ').collect::<Vec<_>>()[..] {
                ["status", wanted] | ["error", wanted, _] => status = wanted,
                _ => {}
            }
        }
        let has_json = !of_json.is_empty();
        let mut wrong = Vec::new();
        for (json, checks) in [(true, of_json), (false, of_text)] {
            let states_nothing = checks.iter().all(|check| check.starts_with("status "));
            if states_nothing && (json || has_json) {
                continue;
            }
            let ran = self.tool(arguments, json);
            if ran.status.to_string() != status {
                wrong.push(format!("status {}: {}{}", ran.status, ran.stdout, ran.stderr));
                continue;
            }
            let value = if json { ran.json() } else { Value::Null };
            for check in checks {
                if let Err(found) = self.holds(check, &ran, &value) {
                    let found: String = found.chars().take(2000).collect();
                    wrong.push(format!("{check}\n  it is {found}"));
                }
            }
        }
        wrong
    }

    fn tool(&self, arguments: &str, json: bool) -> Ran {
        let mut command = support::tool();
        command.current_dir(self.folder.path());
        if json {
            command.arg("--json");
        }
        Ran::of(command.args(words(arguments)))
    }

    /// Whether a check holds; otherwise what there is.
    fn holds(&self, check: &str, ran: &Ran, value: &Value) -> Result<(), String> {
        let (subject, rest) = check.split_once(' ').expect("a subject");
        let (verb, wanted) = rest.split_once(' ').unwrap_or((rest, ""));
        if subject.starts_with('/') {
            return json_holds(value, subject, verb, wanted);
        }
        let text = match subject {
            "status" => return Ok(()),
            "error" => {
                let error = &value["error"];
                let told = |name: &str| error[name].as_str().is_some_and(|text| text.len() > 10);
                let right = error["code"] == *wanted && told("message") && told("hint");
                return if right { Ok(()) } else { Err(value.to_string()) };
            }
            "stdout" => ran.stdout.clone(),
            "stderr" => ran.stderr.clone(),
            file => std::fs::read_to_string(self.at(file)).map_err(|error| error.to_string())?,
        };
        let holds = match verb {
            "has" => joined(&text).contains(&joined(wanted)),
            "lacks" => !joined(&text).contains(&joined(wanted)),
            "is" => text.trim_end() == wanted,
            "lines" => text.lines().count().to_string() == wanted,
            _ => panic!("`{check}` has no verb"),
        };
        if holds { Ok(()) } else { Err(text) }
    }
}

fn json_holds(value: &Value, path: &str, verb: &str, wanted: &str) -> Result<(), String> {
    let nodes = nodes(value, path);
    let all = Value::Array(nodes.iter().map(|&node| node.clone()).collect());
    let found = match &nodes[..] {
        [] if !path.contains(['*', '=']) => &Value::Null,
        [one] if !path.split('/').any(|segment| segment == "*") => *one,
        _ => &all,
    };
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let holds = match verb {
        "is" => *found == serde_json::from_str::<Value>(wanted).expect(wanted),
        "has" => joined(&text_of(found)).contains(wanted),
        "lacks" => !joined(&text_of(found)).contains(wanted),
        "count" => {
            let all = if path.contains(['*', '=']) { &all } else { found };
            all.as_array().map_or(0, Vec::len).to_string() == wanted
        }
        "in" => {
            let (least, most) = wanted.split_once(' ').expect("two numbers");
            let range = number(least)..=number(most);
            let mut nodes = nodes.iter();
            !nodes.as_slice().is_empty()
                && nodes.all(|node| node.as_f64().is_some_and(|node| range.contains(&node)))
        }
        _ => panic!("`{verb}` is no verb"),
    };
    if holds { Ok(()) } else { Err(found.to_string()) }
}

/// The parts of a value that a path names.
fn nodes<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let step = |found: Vec<&'a Value>, segment: &str| -> Vec<&'a Value> {
        let each = |value: &'a Value| match (value, segment.split_once('=')) {
            (Value::Array(all), Some((field, text))) => {
                all.iter().filter(|one| text_of(&one[field]) == text).collect()
            }
            (Value::Object(fields), Some((field, text))) => {
                let is_it = fields.get(field).is_some_and(|value| text_of(value) == text);
                is_it.then_some(value).into_iter().collect()
            }
            (Value::Array(all), None) if segment == "*" => all.iter().collect(),
            (Value::Object(all), None) if segment == "*" => all.values().collect(),
            _ => value.pointer(&format!("/{segment}")).into_iter().collect::<Vec<_>>(),
        };
        found.into_iter().flat_map(each).collect()
    };
    path.split('/').skip(1).fold(vec![value], step)
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The words of a text, whatever the width at which it was printed.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The arguments of a command line; what stands between single quotes is kept together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for character in line.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}
