//! Rows whose fields are the columns: they go into cells without a tree of JSON in between.

use super::{cell, no_formula, value};
use ::csv::Writer;
use serde::ser::{Impossible, SerializeStruct, Serializer};
use serde::{Serialize, ser};
use serde_json::{Number, Value};
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
}

impl<'a> Cells<'a> {
    pub(super) const fn new(columns: &'a [Vec<String>], writer: &'a mut Writer<Vec<u8>>) -> Self {
        Self { all: columns, columns, writer }
    }

    fn write(&mut self, cell: impl AsRef<[u8]>) -> Result<(), NotFlat> {
        self.writer.write_field(cell).map_err(ser::Error::custom)
    }

    /// Writes empty cells up to the columns of a field; returns these columns. It has none if it
    /// was not requested.
    fn columns_of(&mut self, field: &str) -> Result<&'a [Vec<String>], NotFlat> {
        let columns = self.columns;
        let is_own = |fields: &&Vec<String>| fields.first().is_some_and(|first| first == field);
        let Some(first) = columns.iter().position(|fields| is_own(&fields)) else {
            let is_past = self.all.iter().any(|fields| is_own(&fields));
            let misplaced = || ser::Error::custom(format!("the field {field} is not in its place"));
            return if is_past { Err(misplaced()) } else { Ok(&[]) };
        };
        for _ in 0..first {
            self.write("")?;
        }
        let columns = columns.get(first..).unwrap_or_default();
        let count = match columns {
            [plain, ..] if plain.len() == 1 => 1,
            _ => columns.iter().take_while(is_own).count(),
        };
        let (own, rest) = columns.split_at(count);
        self.columns = rest;
        Ok(own)
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
        let own = self.columns_of(field)?;
        let Some(first) = own.first() else { return Ok(()) };
        if first.len() == 1 {
            match content.serialize(CellSerializer(self.writer)) {
                Err(NotFlat::Shape) => {}
                written => return written,
            }
        }
        let json = serde_json::to_vec(content).map_err(ser::Error::custom)?;
        let content: Value = serde_json::from_slice(&json).map_err(ser::Error::custom)?;
        own.iter().try_for_each(|fields| {
            let below = fields.get(1..).unwrap_or_default();
            self.write(cell(&value(&content, below)))
        })
    }

    fn end(mut self) -> Result<(), NotFlat> {
        (0..self.columns.len()).try_for_each(|_| self.write(""))
    }
}

/// Methods that refuse what they are given.
macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$result, NotFlat> {
            Err(NotFlat::Shape)
        })*
    };
}

/// What rows and plain cells have in common: neither is a list or a map.
macro_rules! flat {
    () => {
        type Ok = ();
        type Error = NotFlat;
        type SerializeSeq = Impossible<(), NotFlat>;
        type SerializeTuple = Impossible<(), NotFlat>;
        type SerializeTupleStruct = Impossible<(), NotFlat>;
        type SerializeTupleVariant = Impossible<(), NotFlat>;
        type SerializeMap = Impossible<(), NotFlat>;
        type SerializeStructVariant = Impossible<(), NotFlat>;

        fn serialize_some<T: Serialize + ?Sized>(self, content: &T) -> Result<(), NotFlat> {
            content.serialize(self)
        }

        fn serialize_newtype_struct<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            content: &T,
        ) -> Result<(), NotFlat> {
            content.serialize(self)
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
            serialize_f32(f32) -> ();
            serialize_char(char) -> ();
            serialize_bytes(&[u8]) -> ();
            serialize_unit() -> ();
            serialize_unit_struct(&'static str) -> ();
            serialize_seq(Option<usize>) -> Self::SerializeSeq;
            serialize_tuple(usize) -> Self::SerializeTuple;
            serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
            serialize_tuple_variant(&'static str, u32, &'static str, usize)
                -> Self::SerializeTupleVariant;
            serialize_map(Option<usize>) -> Self::SerializeMap;
            serialize_struct_variant(&'static str, u32, &'static str, usize)
                -> Self::SerializeStructVariant;
        }
    };
}

/// Takes a struct apart; nothing else is a row.
pub(super) struct RowSerializer<'a>(pub(super) Cells<'a>);

impl<'a> Serializer for RowSerializer<'a> {
    type SerializeStruct = Cells<'a>;

    flat!();

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Cells<'a>, NotFlat> {
        Ok(self.0)
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
        serialize_f64(f64) -> ();
        serialize_str(&str) -> ();
        serialize_none() -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
    }
}

/// Writes a text, a number or a truth value as a cell.
struct CellSerializer<'a>(&'a mut Writer<Vec<u8>>);

impl CellSerializer<'_> {
    fn write(self, cell: &str) -> Result<(), NotFlat> {
        self.0.write_field(cell).map_err(ser::Error::custom)
    }
}

/// Methods that write an integer.
macro_rules! integers {
    ($($method:ident($integer:ty);)*) => {
        $(fn $method(self, number: $integer) -> Result<(), NotFlat> {
            self.write(itoa::Buffer::new().format(number))
        })*
    };
}

impl Serializer for CellSerializer<'_> {
    type SerializeStruct = Impossible<(), NotFlat>;

    flat!();

    integers! {
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
    }

    fn serialize_bool(self, is_true: bool) -> Result<(), NotFlat> {
        self.write(if is_true { "true" } else { "false" })
    }

    fn serialize_f64(self, number: f64) -> Result<(), NotFlat> {
        self.write(&Number::from_f64(number).map_or_else(String::new, |number| number.to_string()))
    }

    fn serialize_str(self, text: &str) -> Result<(), NotFlat> {
        self.write(&no_formula(text))
    }

    fn serialize_none(self) -> Result<(), NotFlat> {
        self.write("")
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), NotFlat> {
        self.serialize_str(variant)
    }

    refuse! {
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
    }
}
