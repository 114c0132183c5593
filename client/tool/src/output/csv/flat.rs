//! Rows whose fields are the columns: they go into cells without a tree of JSON in between.

use super::{FORMULA, cell, value};
use ::csv::Writer;
use serde::ser::{Impossible, SerializeStruct, Serializer};
use serde::{Serialize, ser};
use std::fmt;

/// Why a row is not written field by field.
#[derive(Debug)]
pub(super) enum NotFlat {
    /// It is no struct, or has the fields of another one among its own.
    Shape,
    Other(String),
}

impl fmt::Display for NotFlat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => f.write_str("a row is no struct"),
            Self::Other(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for NotFlat {}

impl ser::Error for NotFlat {
    fn custom<T: fmt::Display>(error: T) -> Self {
        Self::Other(error.to_string())
    }
}

/// The cells of a row that are still to be written, in the order of its fields.
pub(super) struct Cells<'a> {
    /// The columns of all cells of the row.
    all: &'a [Vec<String>],
    columns: &'a [Vec<String>],
    writer: &'a mut Writer<Vec<u8>>,
    /// Where a field's JSON is put.
    json: &'a mut Vec<u8>,
}

impl<'a> Cells<'a> {
    pub(super) const fn new(
        columns: &'a [Vec<String>],
        writer: &'a mut Writer<Vec<u8>>,
        json: &'a mut Vec<u8>,
    ) -> Self {
        Self { all: columns, columns, writer, json }
    }

    fn write(&mut self, cell: impl AsRef<[u8]>) -> Result<(), NotFlat> {
        self.writer.write_field(cell).map_err(ser::Error::custom)
    }

    /// Writes empty cells up to the columns of a field; returns how many columns these are. It has
    /// none if it was not requested.
    fn skip_to(&mut self, field: &str) -> Result<usize, NotFlat> {
        let columns = self.columns;
        let is_own = |fields: &&Vec<String>| fields.first().is_some_and(|first| first == field);
        let Some(first) = columns.iter().position(|fields| is_own(&fields)) else {
            let is_past = self.all.iter().any(|fields| is_own(&fields));
            let misplaced = || ser::Error::custom(format!("the field {field} is not in its place"));
            return if is_past { Err(misplaced()) } else { Ok(0) };
        };
        for _ in 0..first {
            self.write("")?;
        }
        self.columns = columns.get(first..).unwrap_or_default();
        Ok(self.columns.iter().take_while(is_own).count())
    }

    /// Writes the text, number or truth value in `json`; returns whether it was one.
    fn write_plain(&mut self) -> Result<bool, NotFlat> {
        let json = self.json.as_slice();
        let (text, is_text) = match json {
            b"null" => (&[][..], false),
            [b'"', text @ .., b'"'] if !text.contains(&b'\\') => (text, true),
            [b'"' | b'[' | b'{', ..] => return Ok(false),
            plain => (plain, false),
        };
        if is_text && text.first().is_some_and(|&first| FORMULA.contains(&char::from(first))) {
            return Ok(false);
        }
        self.writer.write_field(text).map_err(ser::Error::custom)?;
        Ok(true)
    }
}

impl SerializeStruct for Cells<'_> {
    type Ok = ();
    type Error = NotFlat;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        field: &'static str,
        content: &T,
    ) -> Result<(), NotFlat> {
        let count = self.skip_to(field)?;
        let (own, rest) = self.columns.split_at(count);
        self.columns = rest;
        let Some(first) = own.first() else { return Ok(()) };
        self.json.clear();
        serde_json::to_writer(&mut *self.json, content).map_err(ser::Error::custom)?;
        if first.len() == 1 && self.write_plain()? {
            return Ok(());
        }
        let content: serde_json::Value =
            serde_json::from_slice(self.json).map_err(ser::Error::custom)?;
        own.iter().try_for_each(|fields| {
            let below = fields.get(1..).unwrap_or_default();
            self.write(cell(&value(&content, below)))
        })
    }

    fn end(mut self) -> Result<(), NotFlat> {
        (0..self.columns.len()).try_for_each(|_| self.write(""))
    }
}

/// Takes a struct apart; nothing else is a row.
pub(super) struct RowSerializer<'a>(pub(super) Cells<'a>);

/// Methods that refuse what is no struct.
macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$result, NotFlat> {
            Err(NotFlat::Shape)
        })*
    };
}

impl<'a> Serializer for RowSerializer<'a> {
    type Ok = ();
    type Error = NotFlat;
    type SerializeSeq = Impossible<(), NotFlat>;
    type SerializeTuple = Impossible<(), NotFlat>;
    type SerializeTupleStruct = Impossible<(), NotFlat>;
    type SerializeTupleVariant = Impossible<(), NotFlat>;
    type SerializeMap = Impossible<(), NotFlat>;
    type SerializeStruct = Cells<'a>;
    type SerializeStructVariant = Impossible<(), NotFlat>;

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Cells<'a>, NotFlat> {
        Ok(self.0)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, row: &T) -> Result<(), NotFlat> {
        row.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        row: &T,
    ) -> Result<(), NotFlat> {
        row.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), NotFlat> {
        Err(NotFlat::Shape)
    }

    refuse! {
        serialize_bool(bool) -> ();
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_str(&str) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}
