//! What a row of every table of a report has in JSON: its key and its share.

use halprof_profile::aggregate::key::Value;
use halprof_profile::views::report::share::Share;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};

/// The key of a row: only the fields of the requested keys are present.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema is made of it")]
pub(super) struct Keys {
    #[serde(skip_serializing_if = "absent")]
    machine: String,
    #[serde(skip_serializing_if = "absent")]
    source: String,
    #[serde(skip_serializing_if = "absent")]
    process: u32,
    #[serde(skip_serializing_if = "absent")]
    process_name: Option<String>,
    #[serde(skip_serializing_if = "absent")]
    thread: u32,
    #[serde(skip_serializing_if = "absent")]
    processor: u32,
    /// The type of core; null if there is only one type.
    #[serde(skip_serializing_if = "absent")]
    core: Option<String>,
    #[serde(skip_serializing_if = "absent")]
    module: String,
    #[serde(skip_serializing_if = "absent")]
    symbol: Option<String>,
    #[serde(skip_serializing_if = "absent")]
    file: Option<String>,
    #[serde(skip_serializing_if = "absent")]
    line: Option<u32>,
    /// Hexadecimal.
    #[serde(skip_serializing_if = "absent")]
    address: String,
    /// The offset from the start of the symbol, or of the module if no symbol is known.
    #[serde(skip_serializing_if = "absent")]
    offset: u64,
}

pub(super) fn described(values: &[Value]) -> Map<String, Json> {
    let mut row = Map::new();
    for value in values {
        value.describe(&mut row);
    }
    row
}

/// A share of the events of its source, and its 95 % interval (Wilson).
#[derive(JsonSchema, Serialize)]
pub(crate) struct ShareBody {
    value: f64,
    low: f64,
    high: f64,
}

impl From<Share> for ShareBody {
    fn from(share: Share) -> Self {
        let Share { value, low, high, .. } = share;
        Self { value, low, high }
    }
}
