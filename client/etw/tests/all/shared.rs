//! Where the vectors and traces are.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const USUAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/etw/vectors.json");

/// The file of vectors, or nothing with a message.
pub(crate) fn vectors_path() -> Option<PathBuf> {
    let path = std::env::var_os("HALPROF_ETW_VECTORS").map_or_else(|| USUAL.into(), PathBuf::from);
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

/// A trace beside the vectors, or where it usually is: other vectors may come without traces.
pub(crate) fn trace(name: &str) -> Option<Vec<u8>> {
    let folders = [vectors_path()?, PathBuf::from(USUAL)];
    let mut paths = folders.iter().map(|vectors| vectors.with_file_name("files").join(name));
    let Some(path) = paths.find(|path| path.exists()) else {
        eprintln!("skipped: {name} is not in the folder `files` beside the vectors");
        return None;
    };
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
