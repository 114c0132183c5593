//! Runs the built tool, and validates its JSON against the schemas.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The outcome of one run of the tool.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The arguments of a run: the words of a line, or one text for each.
pub(crate) trait Arguments {
    fn all(&self) -> Vec<&str>;
}

impl Arguments for str {
    fn all(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Arguments for String {
    fn all(&self) -> Vec<&str> {
        self.as_str().all()
    }
}

impl Arguments for [&str] {
    fn all(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Arguments for [&str; N] {
    fn all(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Arguments for Vec<&str> {
    fn all(&self) -> Vec<&str> {
        self.clone()
    }
}

/// The tool, with these arguments, to be run in another way than [`halprof`] does.
pub(crate) fn command(arguments: &(impl Arguments + ?Sized)) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_halprof"));
    command.args(arguments.all());
    command
}

/// Runs the tool.
pub(crate) fn halprof(arguments: &(impl Arguments + ?Sized)) -> Ran {
    Ran::of(&mut command(arguments))
}

impl Ran {
    /// Runs a command to its end.
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
        let schema = value["schema"].as_str().expect("a schema");
        let name = schema.strip_prefix("halprof/").and_then(|rest| rest.strip_suffix("/2"));
        assert_valid(name.expect("a name"), &value);
        value
    }
}

/// Runs the tool with `--json`; it must succeed.
pub(crate) fn json(arguments: &(impl Arguments + ?Sized)) -> Value {
    let ran = halprof_json(arguments);
    let value = ran.json();
    assert_eq!(ran.status, 0, "{:?}: {}", arguments.all(), ran.stdout);
    value
}

/// Runs the tool with `--json`.
pub(crate) fn halprof_json(arguments: &(impl Arguments + ?Sized)) -> Ran {
    halprof(&[&["--json"], &arguments.all()[..]].concat())
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
pub(crate) fn refused(arguments: &(impl Arguments + ?Sized), status: i32, code: &str) {
    let ran = halprof_json(arguments);
    let (value, arguments) = (ran.json(), arguments.all());
    let error = &value["error"];
    assert_eq!(
        (ran.status, error["code"].as_str()),
        (status, Some(code)),
        "{arguments:?}: {value}"
    );
    let has = |name: &str| error[name].as_str().is_some_and(|text| text.len() > 10);
    assert!(has("message") && has("hint"), "{arguments:?}: {value}");
}

fn assert_valid(name: &str, value: &Value) {
    let errors = violations(&schema(name), value);
    assert!(errors.is_empty(), "{name}: {errors:?}");
}

/// The schema of a command, or of `error`: closed, so that an undocumented field is an error here.
/// For readers of JSON it is open, because fields may be added.
pub(crate) fn schema(name: &str) -> Value {
    let mut schema = committed(name);
    close(&mut schema);
    schema
}

/// A committed schema.
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
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path)).collect()
}

/// Whether independent tools are required; if not, a test that needs a missing one says that it is
/// skipped.
pub(crate) fn tools_are_required() -> bool {
    std::env::var_os("HALPROF_REQUIRE_TOOLS").is_some_and(|one| one == "1")
}

/// The Python with the packages of tests/foreign/requirements.txt; `None` if it lacks this module
/// and the module is not required.
pub(crate) fn foreign_python(module: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/foreign/python");
    let python = folder.join("bin/python");
    let import = format!("import {module}");
    let has = Command::new(&python).args(["-c", &import]).status();
    if has.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    let missing = format!("no {module} in {}: `cargo xtask setup`", folder.display());
    assert!(!tools_are_required(), "{missing}");
    println!("skipped: {missing}");
    None
}

/// A new folder, and the path of a recording in it.
pub(crate) fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    (folder, file)
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
