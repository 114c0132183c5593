//! The JSON schemas of types that are printed.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema of a value as it is printed.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    schema.to_value()
}
