//! The metrics of a report's rows. The tool evaluates the formulas; this module only has the results.

use schemars::JsonSchema;
use serde::Serialize;

/// A metric of a row, with its 95 % interval.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct RowMetric {
    /// Its name, with its filter if it has one.
    pub metric: String,
    /// Null with a reason.
    pub value: Option<f64>,
    /// The lower end of the 95 % interval. Without a value: what it is above, if that is known.
    pub low: Option<f64>,
    /// The upper end of the 95 % interval. Without a value: what it is below, if that is known.
    pub high: Option<f64>,
    /// Why there is no value, or no interval.
    pub reason: Option<String>,
}
