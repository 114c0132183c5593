//! Tables as comma-separated values.
//!
//! The columns are those of the rows' type, whatever is in the rows and however many there are: a
//! script may rely on them. They have the names of the fields in JSON, and an object's own fields
//! follow its name and a point, as in `interval.min`. Elements of a list have spaces between them,
//! and a list of objects is a list for each of their fields. Metrics have columns of their names:
//! `ipc`, `ipc.low`. The last column says whether the machine is modelled.

pub(crate) mod columns;

use crate::output::error::{Error, Result};
use crate::output::schema::schema_of;
use ::csv::Writer;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io::{self, Write};
use std::{iter, slice};

/// What follows the columns of the rows.
const MODELLED: &str = "modelled";

/// The columns of a table.
pub(crate) struct Csv {
    columns: Vec<Column>,
}

/// Where a column's cells come from.
enum Column {
    /// The fields that lead to it.
    Fields(Vec<String>),
    /// A field of the metric of this name, in the list to which these fields lead.
    Metric { list: Vec<String>, metric: String, field: &'static str },
}

/// The fields of a metric, the first of which gives the column its plain name.
const METRIC: [&str; 4] = ["value", "low", "high", "reason"];

impl Column {
    fn name(&self) -> String {
        match self {
            Self::Fields(fields) => fields.join("."),
            Self::Metric { list, metric, field } => {
                let object = list.split_last().map_or(&[][..], |(_, object)| object);
                let field = Some((*field).to_owned()).filter(|field| field != METRIC[0]);
                let own = iter::once(metric.clone()).chain(field);
                object.iter().cloned().chain(own).collect::<Vec<_>>().join(".")
            }
        }
    }

    fn cell(&self, row: &Value) -> String {
        match self {
            Self::Fields(fields) => cell(&value(row, fields)),
            Self::Metric { list, metric, field } => {
                let list = value(row, list);
                let mut all = list.as_array().into_iter().flatten();
                let own = all.find(|one| one["metric"] == **metric);
                own.map_or_else(String::new, |own| cell(&own[field]))
            }
        }
    }
}

impl Csv {
    /// The columns of rows of type `R`, without those of the optional fields that are `absent`: they
    /// were not requested.
    pub(crate) fn new<R: JsonSchema>(absent: &[&str]) -> Self {
        let mut columns = Vec::new();
        add_columns(&[], &schema_of::<R>(), absent, &mut columns);
        Self { columns: columns.into_iter().map(Column::Fields).collect() }
    }

    /// The same with the metrics of these names, which are in the list to which these fields lead.
    pub(crate) fn with_metrics(mut self, list: &[&str], names: &[String]) -> Self {
        let list: Vec<String> = list.iter().map(|&field| field.to_owned()).collect();
        for metric in names {
            self.columns.extend(METRIC.map(|field| Column::Metric {
                list: list.clone(),
                metric: metric.clone(),
                field,
            }));
        }
        self
    }

    /// The names of the columns.
    pub(crate) fn head(&self) -> Result<String> {
        let names = self.columns.iter().map(Column::name);
        written(|writer| writer.write_record(names.chain([MODELLED.to_owned()])))
    }

    pub(crate) fn lines<R: Serialize>(&self, rows: &[R], modelled: bool) -> Result<String> {
        let mut lines = String::new();
        for row in rows {
            let row = tree(row)?;
            let cells = self.columns.iter().map(|column| column.cell(&row));
            let modelled = [modelled.to_string()];
            lines += &written(|writer| writer.write_record(cells.chain(modelled)))?;
        }
        Ok(lines)
    }

    pub(crate) fn table<R: Serialize>(&self, rows: &[R], modelled: bool) -> Result<String> {
        Ok(self.head()? + &self.lines(rows, modelled)?)
    }
}

fn written(write: impl FnOnce(&mut Writer<Vec<u8>>) -> ::csv::Result<()>) -> Result<String> {
    let mut writer = Writer::from_writer(Vec::new());
    write(&mut writer).map_err(Error::internal)?;
    let bytes = writer.into_inner().map_err(Error::internal)?;
    String::from_utf8(bytes).map_err(Error::internal)
}

/// A row as JSON, in which sums beyond 64 bits are text: a [`Value`] has no room for them.
fn tree(row: &impl Serialize) -> Result<Value> {
    if let Ok(row) = serde_json::to_value(row) {
        return Ok(row);
    }
    let mut json = Vec::new();
    row.serialize(&mut Serializer::with_formatter(&mut json, WideAsText))
        .map_err(Error::internal)?;
    serde_json::from_slice(&json).map_err(Error::internal)
}

struct WideAsText;

impl Formatter for WideAsText {
    fn write_u128<W: ?Sized + Write>(&mut self, writer: &mut W, value: u128) -> io::Result<()> {
        write!(writer, "\"{value}\"")
    }
}

/// Adds the columns below `fields`, whose value has this schema.
fn add_columns(fields: &[String], schema: &Value, absent: &[&str], columns: &mut Vec<Vec<String>>) {
    let Some((properties, required)) = object(schema) else {
        return columns.push(fields.to_vec());
    };
    for (field, schema) in properties {
        let is_absent = absent.contains(&&**field) && !required.iter().any(|name| name == field);
        let fields = [fields, slice::from_ref(field)].concat();
        if !is_absent && !columns.contains(&fields) {
            add_columns(&fields, schema, absent, columns);
        }
    }
}

/// The fields of an object, of a list's elements, or of what may be null, and which of them every
/// object has.
fn object(schema: &Value) -> Option<(&Map<String, Value>, &[Value])> {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let required = schema.get("required").and_then(Value::as_array);
        return Some((properties, required.map_or(&[], Vec::as_slice)));
    }
    let of_elements = || object(schema.get("items")?);
    let of_some = || schema.get("anyOf")?.as_array()?.iter().find_map(object);
    of_elements().or_else(of_some)
}

/// What these fields lead to; null if the row has no such field.
fn value<'a>(row: &'a Value, fields: &[String]) -> Cow<'a, Value> {
    match (row, fields) {
        (Value::Array(elements), [_, ..]) => {
            let values = elements.iter().map(|element| value(element, fields).into_owned());
            Cow::Owned(values.collect())
        }
        (Value::Object(object), [field, rest @ ..]) => match object.get(field) {
            Some(below) => value(below, rest),
            None => Cow::Owned(Value::Null),
        },
        (_, [_, ..]) => Cow::Owned(Value::Null),
        (_, []) => Cow::Borrowed(row),
    }
}

/// With what a formula begins.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// A text that no spreadsheet takes for a formula. It would, whatever its quotes, and a recording may
/// name functions as it likes: such a text gets an apostrophe before it, as OWASP advises.
pub(crate) fn no_formula(text: &str) -> Cow<'_, str> {
    if text.starts_with(FORMULA) { format!("'{text}").into() } else { text.into() }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => no_formula(text).into_owned(),
        Value::Array(elements) => elements.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Clone, JsonSchema, Serialize)]
    struct Limits {
        min: u64,
        max: Option<u64>,
    }

    #[derive(Clone, JsonSchema, Serialize)]
    struct Row {
        #[serde(skip_serializing_if = "String::is_empty")]
        source: String,
        interval: Limits,
        processors: Vec<u32>,
        tries: Vec<Limits>,
        left: Option<Limits>,
        #[serde(flatten)]
        more: Option<Limits>,
    }

    #[test]
    fn columns_are_those_of_the_type_whatever_is_in_the_rows() {
        let limits = Limits { min: 1, max: None };
        let row = Row {
            source: "a,b".to_owned(),
            interval: limits.clone(),
            processors: vec![2, 3],
            tries: vec![limits.clone(), Limits { min: 2, max: Some(3) }],
            left: Some(limits.clone()),
            more: Some(limits.clone()),
        };
        let empty = Row {
            source: String::new(),
            processors: Vec::new(),
            tries: Vec::new(),
            left: None,
            more: None,
            ..row.clone()
        };
        let csv = Csv::new::<Row>(&[]);
        assert_eq!(
            csv.head().expect("a header"),
            "source,interval.min,interval.max,processors,tries.min,tries.max,left.min,left.max,\
             min,max,modelled\n"
        );
        for (rows, lines) in [
            (vec![], ""),
            (vec![row], "\"a,b\",1,,2 3,1 2, 3,1,,1,,true\n"),
            (vec![empty], ",1,,,,,,,,,true\n"),
        ] {
            assert_eq!(csv.lines(&rows, true).expect("lines"), lines);
        }
        // Only what may be absent.
        let without = Csv::new::<Row>(&["source", "min", "tries"]).head().expect("a header");
        assert_eq!(
            without,
            "interval.min,interval.max,processors,tries.min,tries.max,left.min,left.max,max,modelled\n"
        );
    }

    #[test]
    fn metrics_have_columns_of_their_names() {
        let row = json!({
            "metrics": [{"metric": "a", "value": 1.5, "low": 1, "high": null, "reason": "why"}],
            "before": {"metrics": [{"metric": "b", "value": 2}]},
        });
        let csv = Csv { columns: Vec::new() }
            .with_metrics(&["metrics"], &["a".to_owned()])
            .with_metrics(&["before", "metrics"], &["b".to_owned()]);
        let table = csv.table(&[row], true).expect("a table");
        let expected = "a,a.low,a.high,a.reason,before.b,before.b.low,before.b.high,\
                        before.b.reason,modelled\n1.5,1,,why,2,,,,true\n";
        assert_eq!(table, expected);
    }

    #[test]
    fn a_text_is_no_formula() {
        for (text, expected) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1", "'+1"),
            ("-[NSView draw:]", "'-[NSView draw:]"),
            ("@ILT+5(f)", "'@ILT+5(f)"),
            ("\t=1", "'\t=1"),
            ("operator=", "operator="),
            ("", ""),
        ] {
            assert_eq!(cell(&json!(text)), expected);
        }
        assert_eq!(cell(&json!(-1.5)), "-1.5", "a number is one");
    }
}
