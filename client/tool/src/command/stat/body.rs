//! The result of a measurement, as in JSON.

use crate::run::scope::Scope;
use crate::select::periods::Period;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    pub(super) machine: String,
    pub(super) scope: Scope,
    /// The length of one measurement: the mean over repeated ones, and over passes.
    pub(super) elapsed_ns: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) elapsed_repeats: Option<Repeats>,
    pub(super) interrupted: bool,
    /// Turns of the rotation that the busiest processor needs.
    pub(super) turns: u32,
    pub(super) counts: Vec<Row>,
    pub(super) derived: Vec<Figure>,
    /// Where the issue slots went, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) topdown: Vec<SlotsPart>,
    /// What to look at next on each kind of processor.
    #[serde(skip)]
    pub(super) next: BTreeMap<String, String>,
    /// The counts by process, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) by_process: Vec<ProcessPart>,
    /// Why figures are worth less than they look.
    pub(super) warnings: Vec<String>,
    /// The periods of ProfileTime, and of sources that were given one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) periods: Vec<Period>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) passes: Vec<Pass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jitter: Option<Jitter>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) intervals: Vec<Interval>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) runs: Vec<Run>,
}

/// One count.
#[derive(Clone, JsonSchema, Serialize)]
pub(super) struct Row {
    pub(super) source: String,
    /// As the user named it; null where halprof chose it, by itself or for a metric.
    pub(super) requested: Option<String>,
    pub(super) processor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) core_type: Option<&'static str>,
    /// The group it ran in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<u16>,
    /// The pass it was counted in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pass: Option<u32>,
    /// Null if it is not known: it had no turn on a counter, or had none on some processors and
    /// counted nothing on the others.
    #[schemars(schema_with = "integer_or_null")]
    pub(super) value: Option<u128>,
    pub(super) counted: u128,
    pub(super) enabled_ns: u128,
    pub(super) running_ns: u128,
    pub(super) scaled: bool,
    pub(super) error: Option<f64>,
    /// Standard deviation over repeated measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deviation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repeats: Option<Repeats>,
    /// Processors that cannot count it, which are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<String>,
    /// Processors that can count it, but on which it had no turn on a counter: they are taken to be
    /// like the others, and the bound is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) without_turn: Option<String>,
    /// What it counts on this machine, if that is not just what its name says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    /// The processors whose counts it adds up.
    #[serde(skip)]
    pub(super) members: Vec<u32>,
}

/// Of any size: validators that read numbers beyond 64 bits as floats take them for integers only
/// where that is the only type.
fn integer_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "integer", "format": "uint128", "minimum": 0},
        {"type": "null"}
    ]})
}

/// Statistics over repeated measurements of a value, which is their mean.
#[derive(Clone, JsonSchema, Serialize)]
pub(super) struct Repeats {
    /// How many runs the mean is over.
    pub(super) runs: usize,
    pub(super) deviation: f64,
    /// Half of the 95 % confidence interval of the mean.
    pub(super) confidence: f64,
    pub(super) min: u128,
    pub(super) median: u128,
    pub(super) max: u128,
    pub(super) outliers: Vec<Outlier>,
}

/// A run that is an outlier.
#[derive(Clone, JsonSchema, Serialize)]
pub(super) struct Outlier {
    /// The number of the run, from 1.
    pub(super) run: usize,
    pub(super) value: u128,
}

/// A metric.
#[derive(Clone, JsonSchema, Serialize)]
pub(super) struct Figure {
    pub(super) metric: String,
    pub(super) name: String,
    /// Null with a reason.
    pub(super) value: Option<f64>,
    pub(super) unit: String,
    pub(super) filter: &'static str,
    /// The processor that it is of, if each was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) processor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) core_type: Option<&'static str>,
    pub(super) scaled: bool,
    pub(super) error: Option<f64>,
    /// Why it could not be computed.
    pub(super) reason: Option<String>,
}

/// One part of the slots of one kind of processor.
#[derive(Clone, JsonSchema, Serialize)]
pub(super) struct SlotsPart {
    pub(super) kind: String,
    pub(super) metric: String,
    pub(super) level: u8,
    /// The part that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<&'static str>,
    /// In percent; null if there is a reason why not.
    pub(super) value: Option<f64>,
    /// Half of the range that follows from the bounds of its events; null if it is exact.
    pub(super) error: Option<f64>,
    pub(super) reason: Option<String>,
    /// Its events were counted at the same time.
    pub(super) together: bool,
}

/// The part of a count that one process has.
#[derive(Clone, JsonSchema, Serialize)]
pub(super) struct ProcessPart {
    /// Its name; null if it ended before it was seen, and if `id` is null.
    pub(super) process: Option<String>,
    /// Null for what was counted on processors without a sample.
    pub(super) id: Option<u32>,
    pub(super) source: String,
    pub(super) value: u128,
    /// The 95 % bound of the value; null if it is not known.
    pub(super) error: Option<f64>,
    /// The value as a fraction of the whole count, from 0 to 1.
    pub(super) share: f64,
    pub(super) samples: u64,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct Interval {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pass: Option<u32>,
    pub(super) start_ns: u64,
    pub(super) length_ns: u64,
    /// When the interval ended.
    pub(super) time_ns: u64,
    pub(super) counts: Vec<Row>,
    pub(super) derived: Vec<Figure>,
    /// Where the issue slots went in the interval, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) topdown: Vec<SlotsPart>,
    /// The last interval of a measurement, which ends with it.
    #[serde(skip)]
    pub(super) last: bool,
}

/// How far intervals deviated from the requested length; a last one that was cut short does not
/// count.
#[derive(Clone, Copy, JsonSchema, Serialize)]
pub(super) struct Jitter {
    pub(super) asked_ns: u64,
    pub(super) intervals: u64,
    pub(super) mean_ns: u64,
    pub(super) max_ns: u64,
}

#[derive(JsonSchema, Serialize)]
pub(super) struct Pass {
    pub(super) sources: Vec<String>,
    pub(super) elapsed_ns: u64,
}

#[derive(JsonSchema, Serialize)]
pub(super) struct Run {
    pub(super) elapsed_ns: u64,
    pub(super) counts: Vec<Row>,
    /// It was ended early, and is in no mean unless there is no other run.
    pub(super) interrupted: bool,
}
