//! Where the vectors and traces are.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// The file of vectors, or nothing with a message.
pub(crate) fn vectors_path() -> Option<PathBuf> {
    let usual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/etw/vectors.json");
    let path = std::env::var_os("HALPROF_ETW_VECTORS").map_or_else(|| usual.into(), PathBuf::from);
    if !path.exists() {
        eprintln!("skipped: no {}; HALPROF_ETW_VECTORS names another", path.display());
        return None;
    }
    Some(path)
}

pub(crate) fn vectors() -> Option<Value> {
    let text = fs::read(vectors_path()?).expect("the vectors");
    Some(serde_json::from_slice(&text).expect("JSON"))
}

pub(crate) fn trace(name: &str) -> Option<Vec<u8>> {
    let path = vectors_path()?.with_file_name("files").join(name);
    Some(fs::read(path).expect("a trace"))
}

/// What independent readers found in the traces.
pub(crate) fn manifest() -> Option<Value> {
    Some(serde_json::from_slice(&trace("manifest.json")?).expect("JSON"))
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}
