//! The keys by which samples can be summed up, and how each is shown.

use crate::symbols::Frame;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A property by which samples can be distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    /// The machine that was recorded, if there are several recordings.
    Machine,
    /// The source, with its filter if it has one.
    Source,
    /// The process that was interrupted.
    Process,
    /// The thread that was interrupted.
    Thread,
    /// The processor.
    Processor,
    /// The type of core, if there are several.
    Core,
    /// The module of the address.
    Module,
    /// The function of the address.
    Symbol,
    /// The function that called the function of the address.
    Caller,
    /// The source line of the address.
    Line,
    /// The address.
    Address,
}

impl Key {
    /// All keys, in the order in which help lists them.
    pub const ALL: [Self; 11] = [
        Self::Module,
        Self::Symbol,
        Self::Caller,
        Self::Line,
        Self::Address,
        Self::Process,
        Self::Thread,
        Self::Processor,
        Self::Core,
        Self::Machine,
        Self::Source,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Source => "source",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Processor => "processor",
            Self::Core => "core",
            Self::Module => "module",
            Self::Symbol => "symbol",
            Self::Caller => "caller",
            Self::Line => "line",
            Self::Address => "address",
        }
    }

    /// The fields that its values have in JSON and CSV.
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Machine => &["machine"],
            Self::Source => &["source"],
            Self::Process => &["process", "process_name"],
            Self::Thread => &["thread"],
            Self::Processor => &["processor"],
            Self::Core => &["core"],
            Self::Module => &["module"],
            Self::Symbol => &["module", "symbol"],
            Self::Caller => &["caller_module", "caller"],
            Self::Line => &["module", "file", "line"],
            Self::Address => &["address", "module", "symbol", "offset"],
        }
    }

    /// The key of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Whether it depends on the address.
    pub(crate) const fn is_location(self) -> bool {
        matches!(self, Self::Module | Self::Address) || self.needs_symbols()
    }

    pub(crate) const fn needs_symbols(self) -> bool {
        matches!(self, Self::Symbol | Self::Caller | Self::Line | Self::Address)
    }
}

/// Whether a row of these keys has a total: all samples with its code anywhere in their stacks. An
/// address has none, because a caller's is known only as the one that is returned to.
pub fn has_totals(keys: &[Key]) -> bool {
    keys.iter().any(|key| key.is_location()) && !keys.contains(&Key::Address)
}

/// The value of a key in one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// A machine's name.
    Machine(Arc<str>),
    /// A source's name.
    Source(Arc<str>),
    /// A process.
    Process {
        /// Its identifier.
        id: u32,
        /// Its name, if the recording has it.
        name: Option<Arc<str>>,
    },
    /// A thread's identifier.
    Thread(u32),
    /// A processor's index.
    Processor(u32),
    /// A type of core; `None` if the recording has none for the processor.
    Core(Option<Arc<str>>),
    /// A module's name.
    Module(Arc<str>),
    /// A function.
    Symbol {
        /// Its module.
        module: Arc<str>,
        /// Its name, if it is known.
        symbol: Option<Arc<str>>,
    },
    /// The function that called; `None` if it is not known.
    Caller {
        /// Its module; `None` if no caller is known.
        module: Option<Arc<str>>,
        /// Its name, if it is known.
        symbol: Option<Arc<str>>,
    },
    /// A line of source.
    Line {
        /// The module that contains its code.
        module: Arc<str>,
        /// The file and the line, if they are known.
        line: Option<(Arc<str>, u32)>,
    },
    /// An address.
    Address {
        /// The address; 0 for samples without one.
        address: u64,
        /// The module it is in.
        module: Arc<str>,
        /// The function it is in, if known.
        symbol: Option<Arc<str>>,
        /// The offset from the start of the function, or of the module if no function is known.
        offset: u64,
    },
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(text) | Self::Source(text) | Self::Module(text) => f.write_str(text),
            Self::Process { id, name: Some(name) } => write!(f, "{name} ({id})"),
            Self::Process { id, name: None } => write!(f, "{id}"),
            Self::Thread(number) | Self::Processor(number) => write!(f, "{number}"),
            Self::Core(name) => f.write_str(name.as_deref().unwrap_or("one type")),
            Self::Symbol { module, symbol: Some(symbol) }
            | Self::Caller { module: Some(module), symbol: Some(symbol) } => {
                write!(f, "{module}!{symbol}")
            }
            Self::Symbol { module, .. } | Self::Caller { module: Some(module), .. } => {
                f.write_str(module)
            }
            Self::Caller { .. } => f.write_str("(no caller known)"),
            Self::Line { line: Some((file, line)), .. } => write!(f, "{}:{line}", short_path(file)),
            Self::Line { module, .. } => write!(f, "{module}, no line"),
            Self::Address { address, module, symbol: Some(symbol), offset } => {
                write!(f, "{address:#x} {module}!{symbol}+{offset:#x}")
            }
            Self::Address { address, module, .. } => write!(f, "{address:#x} {module}"),
        }
    }
}

/// The fields of values in JSON and CSV: only those of the requested keys are present.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema is made of it")]
pub struct Fields {
    #[serde(skip_serializing_if = "absent")]
    machine: String,
    #[serde(skip_serializing_if = "absent")]
    source: String,
    #[serde(skip_serializing_if = "absent")]
    process: u32,
    #[serde(skip_serializing_if = "absent")]
    process_name: Option<String>,
    #[serde(skip_serializing_if = "absent")]
    thread: u32,
    #[serde(skip_serializing_if = "absent")]
    processor: u32,
    /// The type of core; null if there is only one type.
    #[serde(skip_serializing_if = "absent")]
    core: Option<String>,
    /// Hexadecimal.
    #[serde(skip_serializing_if = "absent")]
    address: String,
    #[serde(skip_serializing_if = "absent")]
    module: String,
    #[serde(skip_serializing_if = "absent")]
    symbol: Option<String>,
    /// The offset from the start of the symbol, or of the module if no symbol is known.
    #[serde(skip_serializing_if = "absent")]
    offset: u64,
    /// The module of the caller; null if no caller is known.
    #[serde(skip_serializing_if = "absent")]
    caller_module: Option<String>,
    /// The function of the caller; null if it is not known.
    #[serde(skip_serializing_if = "absent")]
    caller: Option<String>,
    #[serde(skip_serializing_if = "absent")]
    file: Option<String>,
    #[serde(skip_serializing_if = "absent")]
    line: Option<u32>,
}

/// Serialises the values of a row as the fields of one object: keys may share some of them.
pub fn fields<S: Serializer>(values: &[Value], serializer: S) -> Result<S::Ok, S::Error> {
    let mut row = Map::new();
    for value in values {
        value.describe(&mut row);
    }
    row.serialize(serializer)
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields(std::slice::from_ref(self), serializer)
    }
}

impl JsonSchema for Value {
    fn schema_name() -> Cow<'static, str> {
        Fields::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Fields::json_schema(generator)
    }
}

impl Value {
    /// The value of a key of code: module, symbol, line or address.
    pub(crate) fn of_code(key: Key, address: u64, frame: &Frame) -> Self {
        let module = Arc::clone(&frame.module);
        match key {
            Key::Module => Self::Module(module),
            Key::Symbol => Self::Symbol { module, symbol: frame.symbol.clone() },
            Key::Line => Self::Line { module, line: frame.file.clone().zip(frame.line) },
            _ => {
                let (symbol, offset) = (frame.symbol.clone(), frame.offset);
                Self::Address { address, module, symbol, offset }
            }
        }
    }

    /// Its values, in the order of its key's fields.
    fn describe(&self, row: &mut Map<String, Json>) {
        let (key, values) = match self {
            Self::Machine(machine) => (Key::Machine, vec![json!(**machine)]),
            Self::Source(source) => (Key::Source, vec![json!(**source)]),
            Self::Process { id, name } => (Key::Process, vec![json!(id), json!(name.as_deref())]),
            Self::Thread(thread) => (Key::Thread, vec![json!(thread)]),
            Self::Processor(processor) => (Key::Processor, vec![json!(processor)]),
            Self::Core(name) => (Key::Core, vec![json!(name.as_deref())]),
            Self::Module(module) => (Key::Module, vec![json!(**module)]),
            Self::Symbol { module, symbol } => {
                (Key::Symbol, vec![json!(**module), json!(symbol.as_deref())])
            }
            Self::Caller { module, symbol } => {
                (Key::Caller, vec![json!(module.as_deref()), json!(symbol.as_deref())])
            }
            Self::Line { module, line } => {
                let (file, line) = line.as_ref().map(|(file, line)| (&**file, line)).unzip();
                (Key::Line, vec![json!(**module), json!(file), json!(line)])
            }
            Self::Address { address, module, symbol, offset } => {
                let (address, symbol) = (format!("{address:#x}"), symbol.as_deref());
                (Key::Address, vec![json!(address), json!(**module), json!(symbol), json!(offset)])
            }
        };
        let names = key.fields().iter().map(|&name| name.to_owned());
        row.extend(names.zip(values));
    }
}

/// The last two components of a path: enough to distinguish most files of a program.
pub fn short_path(path: &str) -> &str {
    let mut separators = path.rmatch_indices(['/', '\\']).map(|(at, _)| at);
    let start = separators.nth(1).map_or(0, |at| at + 1);
    // A separator is one byte long.
    path.get(start..).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_name_of_its_own() {
        for key in Key::ALL {
            assert_eq!(Key::of(key.name()), Some(key));
        }
        assert_eq!(Key::of("Symbol"), None);
    }

    #[test]
    fn paths_are_shown_by_their_last_two_parts() {
        for (path, shown) in [
            ("/a/b/c.rs", "b/c.rs"),
            (r"C:\a\b\c.c", r"b\c.c"),
            ("a/c.rs", "a/c.rs"),
            ("c.rs", "c.rs"),
            ("", ""),
        ] {
            assert_eq!(short_path(path), shown);
        }
    }
}
