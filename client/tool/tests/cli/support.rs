//! Runs the built tool, and validates its JSON against the schemas.

use assert_cmd::Command;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The outcome of one run of the tool.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the tool.
pub(crate) fn halprof(arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_halprof"))
        .args(arguments)
        .output()
        .expect("the tool runs");
    Ran {
        status: output.status.code().expect("it ends by itself"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

impl Ran {
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
pub(crate) fn json(arguments: &[&str]) -> Value {
    let ran = halprof(&[&["--json"], arguments].concat());
    let value = ran.json();
    assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stdout);
    value
}

/// Runs the tool with `--json`; it must fail with this status and this code, and give a hint.
pub(crate) fn refused(arguments: &[&str], status: i32, code: &str) {
    let ran = halprof(&[&["--json"], arguments].concat());
    let value = ran.json();
    assert_eq!(value["schema"], "halprof/error/2", "{arguments:?}: {value}");
    assert_eq!(
        (ran.status, value["error"]["code"].as_str()),
        (status, Some(code)),
        "{arguments:?}: {value}"
    );
    let told = |name: &str| value["error"][name].as_str().unwrap_or_default().len() > 10;
    assert!(told("message") && told("hint"), "{arguments:?}: {value}");
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
    let has = std::process::Command::new(&python).args(["-c", &import]).status();
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
