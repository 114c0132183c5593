//! Fields of little-endian bytes, one after the other, and layouts made of them.

use crate::id::Guid;
use std::borrow::Borrow;

/// How long the pointers in a trace's payloads are: those of the system that wrote it, whatever the
/// process (trace header, `PointerSize`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerSize {
    /// A 32-bit system.
    Four,
    /// A 64-bit system.
    Eight,
}

impl PointerSize {
    /// From the trace header's field.
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            4 => Some(Self::Four),
            8 => Some(Self::Eight),
            _ => None,
        }
    }

    /// The number of bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// Whether an address is the kernel's: the upper half of the address space.
    pub const fn is_kernel(self, address: u64) -> bool {
        match self {
            Self::Four => address >= 0x8000_0000,
            Self::Eight => address >> 63 != 0,
        }
    }
}

/// Fields in a fixed order, read and written alike.
pub trait Layout: Sized {
    /// Takes the fields off the front; `None` where too little is left.
    fn read(fields: &mut Fields<'_>) -> Option<Self>;
    /// Appends the fields.
    fn write(&self, output: &mut Output);
}

/// A structure whose fields have the names of the methods that read and write them, such as `u32` or
/// `pointer`; `after 4` skips bytes before one.
macro_rules! layout {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$doc:meta])* $field:ident: $how:ident $(after $skip:literal)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $vis struct $name {
            $($(#[$doc])* $vis $field: $crate::bytes::field_type!($how),)*
        }

        impl $crate::bytes::Layout for $name {
            fn read(fields: &mut $crate::bytes::Fields<'_>) -> Option<Self> {
                Some(Self {
                    $($field: {
                        $(fields.take($skip)?;)?
                        fields.$how()?
                    },)*
                })
            }

            fn write(&self, output: &mut $crate::bytes::Output) {
                $($(output.zeros($skip);)?
                output.$how(&self.$field);)*
            }
        }
    };
}

/// The type of a field by its method.
macro_rules! field_type {
    (pointer) => {
        u64
    };
    (utf16) => {
        String
    };
    (text) => {
        String
    };
    (guid) => {
        $crate::id::Guid
    };
    ($number:ident) => {
        $number
    };
}

pub(crate) use {field_type, layout};

/// What is left of some bytes. Every method takes a field off the front; `None` where too little is
/// left.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) pointer_size: PointerSize,
}

macro_rules! numbers {
    ($($number:ident)*) => {
        impl Fields<'_> {
            $(pub(crate) fn $number(&mut self) -> Option<$number> {
                self.array().map($number::from_le_bytes)
            })*
        }

        impl Output {
            $(#[doc = concat!("Appends the bytes of a `", stringify!($number), "`.")]
            pub fn $number(&mut self, value: impl Borrow<$number>) {
                self.extend(&value.borrow().to_le_bytes());
            })*
        }
    };
}

numbers!(u8 i8 u16 u32 i32 u64 i64);

impl<'a> Fields<'a> {
    pub(crate) const fn new(rest: &'a [u8], pointer_size: PointerSize) -> Self {
        Self { rest, pointer_size }
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) fn guid(&mut self) -> Option<Guid> {
        self.array().map(Guid::from_bytes)
    }

    pub(crate) fn pointer(&mut self) -> Option<u64> {
        match self.pointer_size {
            PointerSize::Four => self.u32().map(u64::from),
            PointerSize::Eight => self.u64(),
        }
    }

    /// UTF-16 up to its terminating zero, or to the end: Windows cuts long names off. Lone
    /// surrogates, which file names may have, are replaced.
    #[expect(clippy::unnecessary_wraps, reason = "layouts treat all fields alike")]
    pub(crate) fn utf16(&mut self) -> Option<String> {
        Some(self.terminated_utf16().unwrap_or_else(|| utf16(std::mem::take(&mut self.rest))))
    }

    /// UTF-16 that must have its terminating zero.
    pub(crate) fn terminated_utf16(&mut self) -> Option<String> {
        let mut units = self.rest.chunks_exact(2);
        let length = 2 * units.position(|unit| unit == [0, 0])?;
        let text = utf16(self.take(length)?);
        self.take(2)?;
        Some(text)
    }

    /// 8-bit text with its terminating zero.
    pub(crate) fn text(&mut self) -> Option<String> {
        let length = self.rest.iter().position(|&byte| byte == 0)?;
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.take(1)?;
        Some(text)
    }
}

fn utf16(bytes: &[u8]) -> String {
    let (units, _) = bytes.as_chunks();
    let chars = char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit)));
    chars.map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Bytes to which fields are appended, by methods with the names of those of [`Fields`].
pub struct Output {
    /// What was appended.
    pub bytes: Vec<u8>,
    /// How long pointers are.
    pub pointer_size: PointerSize,
}

impl Output {
    /// Appends bytes as they are.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends so many zeros.
    pub fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    /// Appends a GUID.
    pub fn guid(&mut self, guid: &Guid) {
        self.extend(&guid.to_bytes());
    }

    /// Appends a pointer of the trace's size.
    pub fn pointer(&mut self, value: impl Borrow<u64>) {
        match self.pointer_size {
            PointerSize::Four => self.u32(*value.borrow() as u32),
            PointerSize::Eight => self.u64(*value.borrow()),
        }
    }

    /// Appends UTF-16 with its terminating zero.
    pub fn utf16(&mut self, text: &str) {
        self.bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        self.zeros(2);
    }

    /// Appends 8-bit text with its terminating zero.
    pub fn text(&mut self, text: &str) {
        self.extend(text.as_bytes());
        self.zeros(1);
    }
}
