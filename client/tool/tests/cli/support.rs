//! Runs the built tool, and validates its JSON against the schemas.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// What in the environment decides on colours and widths, and on where symbols are looked for.
pub(crate) const SETTINGS: [&str; 8] = [
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    // If it is set, output is taken for a log that shows colours.
    "CI",
    "COLUMNS",
    "LINES",
    "_NT_SYMBOL_PATH",
    "_NT_EXECUTABLE_IMAGE_PATH",
];

/// A program that runs without these, and that runs others by the same shell wherever it is.
pub(crate) fn program(file: &str) -> Command {
    let mut program = Command::new(file);
    for name in SETTINGS {
        program.env_remove(name);
    }
    program.env("SHELL", "/bin/sh");
    program
}

/// The tool.
pub(crate) fn tool() -> Command {
    program(env!("CARGO_BIN_EXE_halprof"))
}

/// The tool, with the words of a line as its arguments, to be run in another way than [`halprof`] does.
pub(crate) fn command(line: &str) -> Command {
    let mut command = tool();
    command.args(line.split_whitespace());
    command
}

pub(crate) fn halprof(line: &str) -> Ran {
    Ran::of(&mut command(line))
}

/// What the tool answers a shell that asks what may stand at the end of a command line.
pub(crate) fn offered(shell: &str, line: &str) -> String {
    let index = line.split_whitespace().count().to_string();
    let mut command = command(&format!("-- halprof {line}"));
    command.env("HALPROF_COMPLETE", shell);
    Ran::of(command.env("_CLAP_COMPLETE_INDEX", index).env("_CLAP_IFS", "\n")).stdout
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the tool runs");
        Self {
            status: output.status.code().expect("it ends by itself"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// The only JSON object on standard output, validated against the schema that it names.
    pub(crate) fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.stdout, self.stderr));
        valid(value)
    }
}

/// A JSON object, validated against the schema that it names.
pub(crate) fn valid(value: Value) -> Value {
    let name = value["schema"].as_str().expect("a schema");
    let name = name.strip_prefix("halprof/").and_then(|rest| rest.rsplit_once('/'));
    let (name, _) = name.expect("a name and a version");
    assert_eq!(violations(&schema(name), &value), [""; 0], "{name}");
    value
}

/// The objects of a stream, one on a line, each validated.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let values = text.lines().map(|line| serde_json::from_str(line).expect("one object on a line"));
    values.map(valid).collect()
}

/// The rows of comma-separated values, by the names of their columns.
pub(crate) fn csv_rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.expect("a row")).collect()
}

/// Runs the tool with `--json`; it must succeed.
pub(crate) fn json(line: &str) -> Value {
    let ran = halprof_json(line);
    let value = ran.json();
    assert_eq!(ran.status, 0, "{line}: {}", ran.stdout);
    value
}

pub(crate) fn halprof_json(line: &str) -> Ran {
    halprof(&format!("--json {line}"))
}

/// One field of each element of a list.
pub(crate) fn column<'a>(list: &'a Value, field: &str) -> Vec<&'a Value> {
    list.as_array().expect("a list").iter().map(|row| &row[field]).collect()
}

/// The element of a list whose field has this text.
pub(crate) fn row<'a>(list: &'a Value, field: &str, text: &str) -> &'a Value {
    let mut rows = list.as_array().expect("a list").iter();
    rows.find(|row| row[field] == text).unwrap_or_else(|| panic!("no {text}: {list}"))
}

/// Runs the tool with `--json`; it must fail with this status and this code, and give a hint.
pub(crate) fn refused(line: &str, status: i32, code: &str) {
    let ran = halprof_json(line);
    let value = ran.json();
    let error = &value["error"];
    assert_eq!((ran.status, error["code"].as_str()), (status, Some(code)), "{line}: {value}");
    let has = |name: &str| error[name].as_str().is_some_and(|text| text.len() > 10);
    assert!(has("message") && has("hint"), "{line}: {value}");
}

/// The schema of a command, or of `error`: closed, so that an undocumented field is an error here.
/// For readers of JSON it is open, because fields may be added.
pub(crate) fn schema(name: &str) -> Value {
    let mut schema = committed(name);
    close(&mut schema);
    schema
}

pub(crate) fn committed(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schemas/{name}.json"));
    let text = std::fs::read_to_string(&path).expect("a schema file");
    serde_json::from_str(&text).expect("a schema")
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".to_owned(), false.into());
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

/// Where a value violates a schema.
pub(crate) fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(schema).expect("a valid schema");
    validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// Says that a test is skipped because an independent tool is missing; a failure with
/// `HALPROF_REQUIRE_TOOLS=1`.
pub(crate) fn skipped(missing: &str) {
    skipped_unless("HALPROF_REQUIRE_TOOLS", missing);
}

/// Says that a test is skipped because something is missing; a failure where this variable is 1.
pub(crate) fn skipped_unless(required: &str, missing: &str) {
    assert!(std::env::var_os(required).is_none_or(|one| one != "1"), "{missing}");
    println!("skipped: {missing}");
}

/// Sends a signal to a process, or to the group `-PROCESS`.
pub(crate) fn signal(name: &str, process: impl Display) {
    let status = Command::new("kill").args(["-s", name, "--", &process.to_string()]).status();
    assert!(status.expect("kill").success());
}

/// The Python with the packages of tests/foreign/requirements.txt; `None` if it lacks this module
/// and the module is not required.
pub(crate) fn foreign_python(module: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/foreign/python");
    let python = folder.join("bin/python");
    let import = format!("import {module}");
    if Command::new(&python).args(["-c", &import]).status().is_ok_and(|status| status.success()) {
        return Some(python);
    }
    skipped(&format!("no {module} in {}: `cargo xtask setup`", folder.display()));
    None
}

/// Where a file or a folder of `../shared` is, relative to the workspace: files that others made, which
/// are no part of the repository.
pub(crate) fn shared_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name)
}

/// A file or a folder of `../shared`, or nothing with a message.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let path = shared_path(name);
    if !path.exists() {
        println!("skipped: no {}", path.display());
    }
    path.canonicalize().ok()
}

/// The path of such a file or folder as an argument.
pub(crate) fn shared_text(name: &str) -> Option<String> {
    shared(name).map(|path| text(&path).to_owned())
}

/// A new folder, and the path of a recording in it.
pub(crate) fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    (folder, file)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
