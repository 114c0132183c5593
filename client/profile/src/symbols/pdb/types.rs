//! Types as their authors wrote them: the parameters of a function, and where it belongs.
//!
//! A type is made of others. A few records may stand for a type of gigabytes, of any depth, or without
//! end; so each name has a length and a depth at which it is cut, and all names of a file together
//! have a number of steps.

use super::fields::Fields;
use super::modules::Modules;
use crate::budget::DEPTH;
use crate::symbols::name::NameWriter;
use rustc_hash::FxHashMap;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt::{self, Write};

/// The first index of a type that is a record. Smaller ones are of the language.
const FIRST: u32 = 0x1000;

/// A reference to another module's types, which that module exports.
const CROSS_MODULE: u32 = 0x8000_0000;

/// The most steps that one name may take: records, and letters of their names.
const NAME_STEPS: u64 = 1 << 16;

/// Kinds of records (cvinfo.h, `LEAF_ENUM_e`).
const LF_MODIFIER: u16 = 0x1001;
const LF_POINTER: u16 = 0x1002;
const LF_PROCEDURE: u16 = 0x1008;
const LF_MFUNCTION: u16 = 0x1009;
const LF_ARGLIST: u16 = 0x1201;
const LF_ARRAY: u16 = 0x1503;
const LF_CLASS: u16 = 0x1504;
const LF_STRUCTURE: u16 = 0x1505;
const LF_UNION: u16 = 0x1506;
const LF_ENUM: u16 = 0x1507;
const LF_ALIAS: u16 = 0x150A;
const LF_INTERFACE: u16 = 0x1519;
const LF_FUNC_ID: u16 = 0x1601;
const LF_MFUNC_ID: u16 = 0x1602;
const LF_STRING_ID: u16 = 0x1605;
/// Classes and unions with more properties (microsoft-pdb, issue 50).
const LF_CLASS2: u16 = 0x1608;
const LF_STRUCTURE2: u16 = 0x1609;
const LF_UNION2: u16 = 0x160A;
const LF_INTERFACE2: u16 = 0x160B;

/// The records of a stream of types or of identifiers.
#[derive(Debug, Default)]
pub(super) struct Records {
    stream: Vec<u8>,
    first: u32,
    /// Where the records are that have been walked over: each begins behind the one before.
    starts: RefCell<Vec<u32>>,
}

impl Records {
    /// From the stream's contents; no records if it is damaged.
    pub(super) fn of(stream: Vec<u8>) -> Self {
        let mut header = Fields(&stream);
        let (_version, length, first) = (header.u32(), header.u32(), header.u32());
        let starts = RefCell::new(length.into_iter().collect());
        Self { first: first.unwrap_or(FIRST), stream, starts }
    }

    fn get(&self, index: u32) -> Option<&[u8]> {
        let wanted = usize::try_from(index.checked_sub(self.first)?).ok()?;
        let mut starts = self.starts.borrow_mut();
        loop {
            let start = starts.get(wanted).or(starts.last()).copied()? as usize;
            let record = Fields(self.stream.get(start..)?);
            let mut fields = record;
            let length = usize::from(fields.u16()?);
            if starts.len() > wanted {
                return fields.bytes(length);
            }
            // Of the record that is not there, the length is not there either.
            fields.bytes(length)?;
            starts.push(u32::try_from(start + 2 + length).ok()?);
        }
    }

    fn count(&self) -> u32 {
        loop {
            let count = self.starts.borrow().len() as u32;
            // The last start is that of the next record.
            if self.get(self.first.saturating_add(count)).is_none() {
                return count;
            }
        }
    }
}

/// What a record says of a type.
enum Type<'a> {
    Modified { of: u32, is_const: bool },
    Pointer(Pointer),
    Function(Function),
    List(&'a [u8]),
    Array { of: u32, bytes: u64 },
    Enum { name: &'a [u8], of: u32 },
    Class { name: &'a [u8], bytes: u64, unique: &'a [u8], is_declared_only: bool },
    Alias(&'a [u8]),
    Other(u16),
}

#[derive(Clone, Copy)]
struct Pointer {
    to: u32,
    attributes: u32,
}

impl Pointer {
    const fn is_const(self) -> bool {
        self.attributes & 1 << 10 != 0
    }

    const fn bytes(self) -> u64 {
        (self.attributes >> 13 & 0x3F) as u64
    }

    /// How it is written, by its mode.
    const fn sign(self) -> &'static str {
        match self.attributes >> 5 & 7 {
            1 => "&",
            2 | 3 => "::*",
            4 => "&&",
            _ => "*",
        }
    }
}

/// What is written for a pointer.
struct Sign {
    sign: &'static str,
    is_const: bool,
    /// Whether what it points to is constant.
    to_const: bool,
}

#[derive(Clone, Copy)]
struct Function {
    returns: u32,
    is_constructor: bool,
    arguments: u32,
    /// The class, and the type of `this`, of a member function; 0 for a static one.
    member: Option<(u32, u32)>,
}

impl<'a> Type<'a> {
    fn of(record: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(record);
        let kind = fields.u16()?;
        Some(match kind {
            LF_MODIFIER => Self::Modified { of: fields.u32()?, is_const: fields.u16()? & 1 != 0 },
            LF_POINTER => Self::Pointer(Pointer { to: fields.u32()?, attributes: fields.u32()? }),
            LF_PROCEDURE => {
                let (returns, call) = (fields.u32()?, fields.u32()?);
                Self::Function(Function {
                    returns,
                    is_constructor: is_constructor(call),
                    arguments: fields.u32()?,
                    member: None,
                })
            }
            LF_MFUNCTION => {
                let (returns, class, this) = (fields.u32()?, fields.u32()?, fields.u32()?);
                let call = fields.u32()?;
                Self::Function(Function {
                    returns,
                    is_constructor: is_constructor(call),
                    arguments: fields.u32()?,
                    member: Some((class, this)),
                })
            }
            LF_ARGLIST => {
                let count = usize::try_from(fields.u32()?).ok()?;
                Self::List(fields.bytes(count.checked_mul(4)?)?)
            }
            LF_ARRAY => {
                let (of, _index) = (fields.u32()?, fields.u32()?);
                Self::Array { of, bytes: fields.number()? }
            }
            LF_CLASS | LF_STRUCTURE | LF_INTERFACE => {
                let (_count, properties) = (fields.u16()?, fields.u16()?);
                fields.bytes(12)?;
                Self::class(properties, fields.number()?, fields)
            }
            LF_CLASS2 | LF_STRUCTURE2 | LF_INTERFACE2 => {
                let (properties, _more) = (fields.u16()?, fields.u16()?);
                fields.bytes(14)?;
                Self::class(properties, fields.number()?, fields)
            }
            LF_UNION => {
                let (_count, properties, _fields) = (fields.u16()?, fields.u16()?, fields.u32()?);
                Self::class(properties, fields.number()?, fields)
            }
            LF_UNION2 => {
                let (properties, _more) = (fields.u16()?, fields.u16()?);
                fields.bytes(6)?;
                Self::class(properties, fields.number()?, fields)
            }
            LF_ENUM => {
                let (_count, _properties, of) = (fields.u16()?, fields.u16()?, fields.u32()?);
                let _fields = fields.u32()?;
                Self::Enum { name: fields.text(), of }
            }
            LF_ALIAS => {
                fields.u32()?;
                Self::Alias(fields.text())
            }
            other => Self::Other(other),
        })
    }

    fn class(properties: u16, bytes: u64, mut fields: Fields<'a>) -> Self {
        let name = fields.text();
        let unique = if properties & 1 << 9 != 0 { fields.text() } else { name };
        Self::Class { name, bytes, unique, is_declared_only: properties & 1 << 7 != 0 }
    }
}

/// From the calling convention, the attributes and the number of parameters.
const fn is_constructor(call: u32) -> bool {
    call >> 8 & 2 != 0
}

/// The names and lengths of types of the language, by the lowest byte of their index (cvinfo.h,
/// `TYPE_ENUM_e`).
const fn primitive(kind: u8) -> Option<(&'static str, u64)> {
    Some(match kind {
        0x00 => ("<NoType>", 0),
        0x03 => ("void", 0),
        0x08 => ("HRESULT", 4),
        0x10 => ("signed char", 1),
        0x11 => ("short", 2),
        0x12 => ("long", 4),
        0x13 => ("long long", 8),
        0x14 | 0x78 => ("int128_t", 16),
        0x20 => ("unsigned char", 1),
        0x21 => ("unsigned short", 2),
        0x22 => ("unsigned long", 4),
        0x23 => ("unsigned long long", 8),
        0x24 | 0x79 => ("uint128_t", 16),
        0x30 => ("bool", 1),
        0x31 => ("bool16_t", 2),
        0x32 => ("bool32_t", 4),
        0x33 => ("bool64_t", 8),
        0x40 | 0x45 => ("float", 4),
        0x41 => ("double", 8),
        0x42 => ("long double", 10),
        0x43 => ("long double", 16),
        0x44 => ("float48_t", 6),
        0x46 => ("float16_t", 2),
        0x50 => ("complex<float>", 8),
        0x51 => ("complex<double>", 16),
        0x52 => ("complex<long double>", 20),
        0x53 => ("complex<long double>", 32),
        0x68 => ("int8_t", 1),
        0x69 => ("uint8_t", 1),
        0x70 => ("char", 1),
        0x71 => ("wchar_t", 2),
        0x72 => ("int16_t", 2),
        0x73 => ("uint16_t", 2),
        0x74 => ("int", 4),
        0x75 => ("unsigned int", 4),
        0x76 => ("int64_t", 8),
        0x77 => ("uint64_t", 8),
        0x7A => ("char16_t", 2),
        0x7B => ("char32_t", 4),
        0x7C => ("char8_t", 1),
        _ => return None,
    })
}

/// The types of a PDB, and what their names may still cost.
#[derive(Debug)]
pub(super) struct Types {
    types: Records,
    identifiers: Records,
    pointer_bytes: u64,
    left: Cell<u64>,
    is_cut: Cell<bool>,
    /// The lengths of classes that are defined, by their unique names.
    defined: OnceCell<FxHashMap<Vec<u8>, u64>>,
}

/// A name that is being written.
struct Writing<'t> {
    types: &'t Types,
    modules: &'t Modules,
    module: usize,
    writer: NameWriter,
    steps: u64,
    depth: usize,
}

impl Types {
    pub(super) fn of(types: Vec<u8>, identifiers: Vec<u8>, is_32_bit: bool, steps: u64) -> Self {
        Self {
            types: Records::of(types),
            identifiers: Records::of(identifiers),
            pointer_bytes: if is_32_bit { 4 } else { 8 },
            left: Cell::new(steps),
            is_cut: Cell::new(false),
            defined: OnceCell::new(),
        }
    }

    /// Whether a name was cut because it was too long, too deep or too complex.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// A function of a module: its name, and the parameters that its type has.
    pub(super) fn function(
        &self,
        modules: &Modules,
        module: usize,
        name: &str,
        index: u32,
    ) -> NameWriter {
        self.write(modules, module, |writing| writing.function(name, index))
    }

    /// A function that was inlined, by its identifier.
    pub(super) fn identifier(&self, modules: &Modules, module: usize, index: u32) -> NameWriter {
        self.write(modules, module, |writing| writing.identifier(index))
    }

    fn write<'t>(
        &'t self,
        modules: &'t Modules,
        module: usize,
        write: impl FnOnce(&mut Writing<'t>) -> fmt::Result,
    ) -> NameWriter {
        let steps = self.left.get().min(NAME_STEPS);
        let writer = NameWriter::new();
        let mut writing = Writing { types: self, modules, module, writer, steps, depth: 0 };
        if write(&mut writing).is_err() {
            writing.writer.cut();
            self.is_cut.set(true);
        }
        self.left.set(self.left.get().saturating_sub(steps - writing.steps));
        writing.writer
    }

    /// The length of a class that is defined elsewhere.
    fn defined(&self, unique: &[u8]) -> Option<u64> {
        let defined = self.defined.get_or_init(|| {
            let mut defined = FxHashMap::default();
            for index in 0..self.types.count() {
                let record = self.types.get(self.types.first.saturating_add(index));
                if let Some(Type::Class { bytes, unique, is_declared_only: false, .. }) =
                    record.and_then(Type::of)
                {
                    defined.insert(unique.to_owned(), bytes);
                }
            }
            defined
        });
        defined.get(unique).copied()
    }

    /// The length of a type in memory; 0 if it has none.
    fn bytes(&self, mut index: u32) -> u64 {
        for _ in 0..DEPTH {
            if index < FIRST {
                let pointer = (index & 0xF00 != 0).then_some(self.pointer_bytes);
                let own = || primitive(index as u8).map_or(0, |(_, bytes)| bytes);
                return pointer.unwrap_or_else(own);
            }
            index = match self.types.get(index).and_then(Type::of) {
                Some(Type::Modified { of, .. } | Type::Enum { of, .. }) => of,
                Some(Type::Array { bytes, .. }) => return bytes,
                Some(Type::Pointer(pointer)) => return pointer.bytes(),
                Some(Type::Class { bytes, unique, is_declared_only, .. }) => {
                    let elsewhere = if is_declared_only { self.defined(unique) } else { None };
                    return elsewhere.unwrap_or(bytes);
                }
                _ => return 0,
            };
        }
        0
    }
}

impl<'t> Writing<'t> {
    fn text(&mut self, text: &str) -> fmt::Result {
        self.take(text.len() as u64)?;
        self.writer.write_str(text)
    }

    fn bytes(&mut self, text: &[u8]) -> fmt::Result {
        self.take(text.len() as u64)?;
        self.writer.write_str(&String::from_utf8_lossy(text))
    }

    fn take(&mut self, steps: u64) -> fmt::Result {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or(0);
        left.map(drop).ok_or(fmt::Error)
    }

    /// The index of a type or an identifier, which may be another module's.
    fn resolved(&self, index: u32) -> Option<u32> {
        match index & CROSS_MODULE {
            0 => Some(index),
            _ => self.modules.imported(self.module, index),
        }
    }

    fn get(&mut self, index: u32) -> Result<Option<Type<'t>>, fmt::Error> {
        self.take(1)?;
        let record = self.resolved(index).and_then(|index| self.types.types.get(index));
        Ok(record.and_then(Type::of))
    }

    fn function(&mut self, name: &str, index: u32) -> fmt::Result {
        self.text(if name.is_empty() { "<name omitted>" } else { name })?;
        match if index == 0 { None } else { self.get(index)? } {
            Some(Type::Function(function)) => self.parameters(function, true),
            _ => Ok(()),
        }
    }

    fn identifier(&mut self, index: u32) -> fmt::Result {
        self.deeper(|writing| {
            let record = writing.resolved(index);
            let record = record.and_then(|index| writing.types.identifiers.get(index));
            let mut fields = Fields(record.unwrap_or_default());
            writing.take(1)?;
            match (fields.u16(), fields.u32()) {
                (Some(kind @ (LF_FUNC_ID | LF_MFUNC_ID)), Some(scope)) => {
                    let function = fields.u32().unwrap_or(0);
                    let name = String::from_utf8_lossy(fields.text());
                    if kind == LF_MFUNC_ID {
                        writing.named(scope)?;
                    } else if scope != 0 {
                        writing.identifier(scope)?;
                    }
                    if kind == LF_MFUNC_ID || scope != 0 {
                        writing.text("::")?;
                    }
                    writing.function(&name, function)
                }
                (Some(LF_STRING_ID), Some(_)) => match fields.text() {
                    name if is_anonymous(name) => writing.text("`anonymous namespace'"),
                    name => writing.bytes(name),
                },
                (Some(kind), _) => writing.text(&format!("<identifier of kind {kind:#x}>")),
                (None, _) => writing.text(&format!("<missing type {index:#x}>")),
            }
        })
    }

    /// What is written, one level deeper than what it is part of.
    fn deeper(&mut self, write: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        if self.depth == DEPTH {
            return Err(fmt::Error);
        }
        self.depth += 1;
        let result = write(self);
        self.depth -= 1;
        result
    }

    /// The parameters of a function, in parentheses, and whether it leaves its object as it is.
    fn parameters(&mut self, function: Function, says_const: bool) -> fmt::Result {
        let (is_const, first) = match function.member {
            Some((class, this)) if this != 0 => self.this(class, this)?,
            _ => (false, None),
        };
        self.text("(")?;
        if let Some(first) = first {
            self.named(first)?;
        }
        match self.get(function.arguments)? {
            Some(Type::List(list)) => self.list(list, first.is_some())?,
            _ if function.arguments < FIRST => {}
            _ => self.text(&format!("<missing type {:#x}>", function.arguments))?,
        }
        self.text(")")?;
        if is_const && says_const { self.text(" const") } else { Ok(()) }
    }

    /// Whether `this` points to what is constant. If it does not point to the class, it is the first
    /// parameter: so rustc describes functions of a type whose first parameter is a reference.
    fn this(&mut self, class: u32, this: u32) -> Result<(bool, Option<u32>), fmt::Error> {
        let Some(Type::Pointer(pointer)) = self.get(this)? else {
            return Ok((false, Some(this)));
        };
        if pointer.to == class {
            return Ok((false, None));
        }
        match self.get(pointer.to)? {
            Some(Type::Modified { of, is_const }) if of == class => Ok((is_const, None)),
            _ => Ok((false, Some(this))),
        }
    }

    fn list(&mut self, list: &[u8], mut follows: bool) -> fmt::Result {
        let (indices, _) = list.as_chunks::<4>();
        for index in indices {
            if std::mem::replace(&mut follows, true) {
                self.text(", ")?;
            }
            self.named(u32::from_le_bytes(*index))?;
        }
        Ok(())
    }

    /// A type by its index.
    fn named(&mut self, index: u32) -> fmt::Result {
        self.deeper(|writing| writing.with_qualifier(index, false))
    }

    fn with_qualifier(&mut self, index: u32, is_const: bool) -> fmt::Result {
        if index < FIRST {
            return self.primitive(index, is_const);
        }
        let found = self.get(index)?;
        if is_const && !matches!(found, Some(Type::Pointer(_))) {
            self.text("const ")?;
        }
        match found {
            None => self.text(&format!("<missing type {index:#x}>")),
            Some(Type::Modified { of, is_const }) => {
                self.deeper(|writing| writing.with_qualifier(of, is_const))
            }
            Some(Type::Pointer(pointer)) => self.pointer(pointer, is_const),
            Some(Type::Function(function)) => {
                self.text("()")?;
                self.parameters(function, false)
            }
            Some(Type::List(list)) => self.list(list, false),
            Some(Type::Array { of, bytes }) => self.array(of, bytes),
            Some(Type::Class { name, .. } | Type::Enum { name, .. } | Type::Alias(name)) => {
                self.bytes(name)
            }
            Some(Type::Other(kind)) => self.text(&format!("<type of kind {kind:#x}>")),
        }
    }

    fn primitive(&mut self, index: u32, is_const: bool) -> fmt::Result {
        self.take(1)?;
        // The modes 1 to 7 are pointers of as many kinds.
        let Some((name, _)) = primitive(index as u8).filter(|_| index & 0x800 == 0) else {
            return self.text(&format!("<missing type {index:#x}>"));
        };
        match (index & 0xF00 != 0, is_const) {
            (true, true) => self.text(&format!("{name} const*")),
            (true, false) => self.text(&format!("{name}*")),
            (false, true) => self.text(&format!("const {name}")),
            (false, false) => self.text(name),
        }
    }

    /// Pointers to pointers are written from the innermost on, behind what that points to, or within
    /// the parentheses of a function.
    fn pointer(&mut self, outermost: Pointer, is_const: bool) -> fmt::Result {
        let sign = |pointer: Pointer| Sign {
            sign: pointer.sign(),
            is_const: pointer.is_const(),
            to_const: false,
        };
        // Of the outermost, a modifier may say it too.
        let mut signs =
            vec![Sign { is_const: is_const || outermost.is_const(), ..sign(outermost) }];
        let mut of = outermost.to;
        let target = loop {
            if signs.len() > DEPTH {
                return Err(fmt::Error);
            }
            let mut target = if of < FIRST { None } else { self.get(of)? };
            if let Some(Type::Modified { of: modified, is_const }) = target {
                if let Some(last) = signs.last_mut() {
                    last.to_const = is_const;
                }
                of = modified;
                target = if of < FIRST { None } else { self.get(of)? };
            }
            match target {
                Some(Type::Pointer(next)) => {
                    signs.push(sign(next));
                    of = next.to;
                }
                other => break other,
            }
        };
        self.deeper(|writing| {
            let Some(Type::Function(function)) = target else {
                writing.with_qualifier(of, false)?;
                return writing.signs(&signs, true);
            };
            if !function.is_constructor && (function.returns != 0 || function.member.is_some()) {
                writing.named(function.returns)?;
                writing.text(" ")?;
            }
            writing.text("(")?;
            if let Some((class, _)) = function.member {
                writing.named(class)?;
            }
            writing.signs(&signs, false)?;
            writing.text(")")?;
            writing.parameters(function, false)
        })
    }

    fn signs(&mut self, signs: &[Sign], mut follows: bool) -> fmt::Result {
        for sign in signs.iter().rev() {
            if sign.to_const {
                self.text(if follows { " const" } else { "const" })?;
            }
            self.text(sign.sign)?;
            if sign.is_const {
                self.text(" const")?;
            }
            follows = true;
        }
        Ok(())
    }

    /// An array of arrays says the length of each in bytes.
    fn array(&mut self, mut of: u32, bytes: u64) -> fmt::Result {
        let mut lengths = vec![bytes];
        while let Some(Type::Array { of: next, bytes }) =
            if of < FIRST { None } else { self.get(of)? }
        {
            if lengths.len() == DEPTH {
                return Err(fmt::Error);
            }
            lengths.push(bytes);
            of = next;
        }
        self.named(of)?;
        lengths.push(self.types.bytes(of));
        for pair in lengths.windows(2) {
            let &[all, one] = pair else {
                continue;
            };
            match all.checked_div(one) {
                Some(count) => self.text(&format!("[{count}]"))?,
                // A class without a length has none in C.
                None => self.text("[]")?,
            }
        }
        Ok(())
    }
}

/// Whether a scope is what has no name in the source: `?A0x` and a number.
fn is_anonymous(name: &[u8]) -> bool {
    let number = name.strip_prefix(b"?A0x").unwrap_or_default();
    (1..=8).contains(&number.len()) && number.iter().all(u8::is_ascii_hexdigit)
}
