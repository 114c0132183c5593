//! Tables as comma-separated values.
//!
//! The columns are those of the rows' type, whatever is in the rows and however many there are: a
//! script may rely on them. They have the names of the fields in JSON, and an object's own fields
//! follow its name and a point, as in `interval.min`. Elements of a list have spaces between them,
//! and a list of objects is a list for each of their fields. The last column says whether the
//! machine is modelled.

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
use std::slice;

/// What follows the columns of the rows.
const MODELLED: &str = "modelled";

/// The columns of a table.
pub(crate) struct Csv {
    /// The fields that lead to each column.
    columns: Vec<Vec<String>>,
}

impl Csv {
    /// The columns of rows of type `R`, without those of the optional fields that are `absent`: they
    /// were not requested.
    pub(crate) fn new<R: JsonSchema>(absent: &[&str]) -> Self {
        let mut columns = Vec::new();
        add_columns(&[], &schema_of::<R>(), absent, &mut columns);
        Self { columns }
    }

    /// The names of the columns.
    pub(crate) fn head(&self) -> Result<String> {
        let names = self.columns.iter().map(|fields| fields.join("."));
        written(|writer| writer.write_record(names.chain([MODELLED.to_owned()])))
    }

    pub(crate) fn lines<R: Serialize>(&self, rows: &[R], modelled: bool) -> Result<String> {
        let mut lines = String::new();
        for row in rows {
            let row = tree(row)?;
            let cells = self.columns.iter().map(|fields| cell(&value(&row, fields)));
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
