//! The JSON schemas of types that are printed, and their names.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The version of every schema that is not in [`LATER`].
const VERSION: u32 = 2;
/// The schemas that have changed since, with their versions.
const LATER: [(&str, u32); 6] =
    [("annotate", 3), ("branches", 3), ("diff", 3), ("off-cpu", 3), ("report", 3), ("script", 3)];

/// The version of a command's schema.
pub(crate) fn version(command: &str) -> u32 {
    let later = LATER.iter().find(|(name, _)| *name == command);
    later.map_or(VERSION, |(_, version)| *version)
}

/// The name of a command's schema, the value of the field `schema`.
pub(crate) fn name(command: &str) -> String {
    format!("halprof/{command}/{}", version(command))
}

/// The schema of a value as it is printed.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    schema.to_value()
}
