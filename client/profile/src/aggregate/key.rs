//! The keys by which samples can be summed up, and how each is shown.

use crate::aggregate::aggregator::{GroupBy, GroupKey};
use crate::aggregate::filtered::BoundFilter;
use crate::file::{Context, Cores, Recording, UNKNOWN_PROCESS};
use crate::symbols::{Frame, SourceFunction, qualified};
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
    /// The module of the address.
    Module,
    /// The function of the address.
    Symbol,
    /// The innermost function of the source at the address, which may be inlined.
    Inline,
    /// The function that called the function of the address.
    Caller,
    /// The source line of the address.
    Line,
    /// The source file of the address.
    File,
    /// The address.
    Address,
    /// The process that was interrupted.
    Process,
    /// The thread that was interrupted.
    Thread,
    /// The processor.
    Processor,
    /// The type of core, if there are several.
    Core,
    /// The machine that was recorded, if there are several recordings.
    Machine,
    /// The source, with its filter if it has one.
    Source,
    /// Whether a thread, a deferred call or an interrupt ran.
    Context,
}

/// Everything that is known of a key. A new one is a row here, with its [`Value`].
pub(crate) struct KeyRow {
    pub(crate) key: Key,
    name: &'static str,
    /// The fields that its values have in JSON and CSV.
    fields: &'static [&'static str],
    /// What samples must be grouped by for it.
    groups: GroupBy,
    pub(crate) of: KeyOf,
}

/// What a key is a property of.
pub(crate) enum KeyOf {
    /// The group of a sample. `number` gives the value as a number that compares fast, `value` the
    /// value of that number.
    Group {
        number: fn(&Recording, GroupKey) -> u64,
        value: fn(&Recording, &BoundFilter, u64) -> Value,
    },
    /// The code at an address.
    Code { needs_symbols: bool, value: fn(u64, &Frame, SourceFunction<'_>) -> Value },
    /// The function that called that code.
    Caller,
}

const NOTHING: GroupBy = GroupBy::NOTHING;
const BY_PROCESSOR: GroupBy = GroupBy { processor: true, ..NOTHING };
const BY_CODE: GroupBy = GroupBy { location: true, ..NOTHING };

/// In the order in which help lists them.
const KEYS: [KeyRow; 14] = [
    KeyRow {
        key: Key::Module,
        name: "module",
        fields: &["module"],
        groups: BY_CODE,
        of: KeyOf::Code {
            needs_symbols: false,
            value: |_, frame, _| Value::Module(Arc::clone(&frame.module)),
        },
    },
    KeyRow {
        key: Key::Symbol,
        name: "symbol",
        fields: &["module", "symbol"],
        groups: BY_CODE,
        of: KeyOf::Code {
            needs_symbols: true,
            value: |_, frame, _| Value::Symbol {
                module: Arc::clone(&frame.module),
                symbol: frame.symbol.clone(),
            },
        },
    },
    KeyRow {
        key: Key::Inline,
        name: "inline",
        fields: &["module", "inline"],
        groups: BY_CODE,
        of: KeyOf::Code {
            needs_symbols: true,
            value: |_, frame, function| Value::Inline {
                module: Arc::clone(&frame.module),
                function: function.name.cloned(),
            },
        },
    },
    KeyRow {
        key: Key::Caller,
        name: "caller",
        fields: &["caller_module", "caller", "caller_inlined"],
        groups: GroupBy { stack: true, ..BY_CODE },
        of: KeyOf::Caller,
    },
    KeyRow {
        key: Key::Line,
        name: "line",
        fields: &["module", "file", "line"],
        groups: BY_CODE,
        of: KeyOf::Code {
            needs_symbols: true,
            value: |_, frame, function| Value::Line {
                module: Arc::clone(&frame.module),
                line: function.file.cloned().zip(function.line),
            },
        },
    },
    KeyRow {
        key: Key::File,
        name: "file",
        fields: &["module", "file"],
        groups: BY_CODE,
        of: KeyOf::Code {
            needs_symbols: true,
            value: |_, frame, function| Value::File {
                module: Arc::clone(&frame.module),
                file: function.line.and_then(|_| function.file.cloned()),
            },
        },
    },
    KeyRow {
        key: Key::Address,
        name: "address",
        fields: &["address", "module", "symbol", "offset"],
        groups: BY_CODE,
        of: KeyOf::Code {
            needs_symbols: true,
            value: |address, frame, _| Value::Address {
                address,
                module: Arc::clone(&frame.module),
                symbol: frame.symbol.clone(),
                offset: frame.offset,
            },
        },
    },
    KeyRow {
        key: Key::Process,
        name: "process",
        fields: &["process", "process_name"],
        groups: GroupBy { process: true, ..NOTHING },
        of: KeyOf::Group {
            number: |recording, group| recording.process_ids.process(group.process).into(),
            value: |recording, filter, number| {
                Value::Process(process(recording, filter, number as u32))
            },
        },
    },
    KeyRow {
        key: Key::Thread,
        name: "thread",
        fields: &["thread", "thread_name", "process", "process_name"],
        // Two processes may have had threads with the same identifier.
        groups: GroupBy { thread: true, process: true, ..NOTHING },
        of: KeyOf::Group {
            number: |recording, group| {
                let process = recording.process_ids.process(group.process);
                u64::from(process) << 32 | u64::from(group.thread)
            },
            value: |recording, filter, number| {
                let (of, id) = ((number >> 32) as u32, number as u32);
                let process = process(recording, filter, of);
                Value::Thread { id, name: filter.thread(of, id).cloned(), process }
            },
        },
    },
    KeyRow {
        key: Key::Processor,
        name: "processor",
        fields: &["processor"],
        groups: BY_PROCESSOR,
        of: KeyOf::Group {
            number: |_, group| group.processor.into(),
            value: |_, _, number| Value::Processor(number as u32),
        },
    },
    KeyRow {
        key: Key::Core,
        name: "core",
        fields: &["core"],
        groups: BY_PROCESSOR,
        of: KeyOf::Group {
            number: |recording, group| core_type(&recording.metadata.cores, group.processor).into(),
            value: |recording, _, number| {
                let cores = recording.metadata.cores.get(number as usize);
                Value::Core(cores.map(|cores| cores.name.as_str().into()))
            },
        },
    },
    KeyRow {
        key: Key::Machine,
        name: "machine",
        fields: &["machine"],
        groups: NOTHING,
        of: KeyOf::Group {
            // A recording is of one machine, so there is nothing to tell apart within it.
            number: |_, _| 0,
            value: |recording, _, _| Value::Machine(recording.machine_name()),
        },
    },
    KeyRow {
        key: Key::Source,
        name: "source",
        fields: &["source"],
        groups: NOTHING,
        of: KeyOf::Group {
            number: |_, group| group.source.into(),
            value: |_, filter, number| Value::Source(filter.source(number as u16)),
        },
    },
    KeyRow {
        key: Key::Context,
        name: "context",
        fields: &["context"],
        groups: GroupBy { context: true, ..NOTHING },
        of: KeyOf::Group {
            number: |_, group| group.context.into(),
            value: |_, _, number| Value::Context(context(number)),
        },
    },
];

const fn code_keys() -> usize {
    let (mut at, mut count) = (0, 0);
    while at < KEYS.len() {
        count += matches!(KEYS[at].of, KeyOf::Code { .. }) as usize;
        at += 1;
    }
    count
}

/// A process by its number.
fn process(recording: &Recording, filter: &BoundFilter, number: u32) -> Process {
    Process { id: recording.process_ids.known_id(number), name: filter.process(number).cloned() }
}

/// What ran, by its number; `None` if it is unknown.
fn context(number: u64) -> Option<&'static str> {
    let known = [Context::Thread, Context::Dpc, Context::Interrupt];
    known.into_iter().find(|&one| one as u64 == number).and_then(Context::name)
}

/// The index of the first cores of this processor's type; one past the last if there are none.
fn core_type(all: &[Cores], processor: u32) -> u32 {
    let own = all.iter().find(|cores| (cores.first..=cores.last).contains(&processor));
    let first = own.and_then(|own| all.iter().position(|cores| cores.name == own.name));
    first.unwrap_or(all.len()) as u32
}

impl Key {
    /// All keys, in the order in which help lists them.
    pub const ALL: [Self; KEYS.len()] = {
        let mut all = [Self::Module; KEYS.len()];
        let mut at = 0;
        while at < KEYS.len() {
            all[at] = KEYS[at].key;
            assert!(all[at] as usize == at, "rows and variants are in the same order");
            at += 1;
        }
        all
    };

    /// The keys that are of the code at an address.
    pub(crate) const OF_CODE: [Self; code_keys()] = {
        let mut all = [Self::Module; code_keys()];
        let (mut at, mut count) = (0, 0);
        while at < KEYS.len() {
            if let KeyOf::Code { .. } = KEYS[at].of {
                all[count] = KEYS[at].key;
                count += 1;
            }
            at += 1;
        }
        all
    };

    pub(crate) fn row(self) -> &'static KeyRow {
        // An element of the constant itself would be of a copy, and not static.
        const ROWS: &[KeyRow] = &KEYS;
        &ROWS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn fields(self) -> &'static [&'static str] {
        self.row().fields
    }

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The value for the code of one of the functions at an address; `None` if the key is not of code.
    pub(crate) fn of_code(
        self,
        address: u64,
        frame: &Frame,
        function: SourceFunction<'_>,
    ) -> Option<Value> {
        match self.row().of {
            KeyOf::Code { value, .. } => Some(value(address, frame, function)),
            KeyOf::Group { .. } | KeyOf::Caller => None,
        }
    }

    pub(crate) fn groups(self) -> GroupBy {
        self.row().groups
    }

    /// Whether it depends on the address.
    pub(crate) fn is_location(self) -> bool {
        self.groups().location
    }

    pub(crate) fn needs_symbols(self) -> bool {
        match self.row().of {
            KeyOf::Group { .. } => false,
            KeyOf::Code { needs_symbols, .. } => needs_symbols,
            KeyOf::Caller => true,
        }
    }
}

/// Whether a row of these keys has a total: all samples with its code anywhere in their stacks.
/// Addresses have no totals, because a stack knows only the address to which a caller is returned,
/// not that of the call.
pub fn has_totals(keys: &[Key]) -> bool {
    keys.iter().any(|key| key.is_location()) && !keys.contains(&Key::Address)
}

/// A process, as values have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// Its identifier, unless the process is unknown.
    pub id: Option<u32>,
    /// Its name, if the recording has it.
    pub name: Option<Arc<str>>,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { id: Some(id), name: Some(name) } => write!(f, "{name} ({id})"),
            Self { id: Some(id), name: None } => write!(f, "{id}"),
            Self { id: None, .. } => f.write_str(UNKNOWN_PROCESS),
        }
    }
}

/// Follows the name of a function that was inlined, as in perf and samply.
pub const INLINED: &str = " (inlined)";

/// The value of a key in one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    Machine(Arc<str>),
    Source(Arc<str>),
    Process(Process),
    Thread {
        /// The process that it is a thread of.
        process: Process,
        id: u32,
        /// Its name, if it has one.
        name: Option<Arc<str>>,
    },
    Processor(u32),
    /// A type of core; `None` if the recording has none for the processor.
    Core(Option<Arc<str>>),
    /// What ran; `None` if the trace does not say it.
    Context(Option<&'static str>),
    Module(Arc<str>),
    Symbol {
        module: Arc<str>,
        /// Its name, if it is known.
        symbol: Option<Arc<str>>,
    },
    /// A function of the source, inlined or not.
    Inline {
        /// The module that has its code.
        module: Arc<str>,
        /// Its name, if it is known.
        function: Option<Arc<str>>,
    },
    /// The function that called; `None` if it is not known.
    Caller {
        /// Its module; `None` if no caller is known.
        module: Option<Arc<str>>,
        /// Its name, if it is known.
        symbol: Option<Arc<str>>,
        /// Whether it was inlined where it called.
        is_inlined: bool,
    },
    Line {
        /// The module that contains its code.
        module: Arc<str>,
        /// The file and the line, if they are known.
        line: Option<(Arc<str>, u32)>,
    },
    File {
        /// The module that contains its code.
        module: Arc<str>,
        /// The file, if it is known.
        file: Option<Arc<str>>,
    },
    Address {
        /// The address; 0 for samples without one.
        address: u64,
        module: Arc<str>,
        /// The function it is in, if known.
        symbol: Option<Arc<str>>,
        /// The offset from the start of the function, or of the module if no function is known; `None`
        /// if no module is.
        offset: Option<u64>,
    },
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(text) | Self::Source(text) | Self::Module(text) => f.write_str(text),
            Self::Process(process) => process.fmt(f),
            Self::Thread { process, id, name: Some(name) } => {
                write!(f, "{name} ({id}) of {process}")
            }
            Self::Thread { process, id, name: None } => write!(f, "{id} of {process}"),
            Self::Processor(number) => write!(f, "{number}"),
            Self::Context(name) => f.write_str(name.unwrap_or("unknown")),
            Self::Core(name) => f.write_str(name.as_deref().unwrap_or("one type")),
            Self::Symbol { module, symbol: Some(symbol) }
            | Self::Inline { module, function: Some(symbol) } => {
                f.write_str(&qualified(module, symbol))
            }
            Self::Caller { module: Some(module), symbol: Some(symbol), is_inlined } => {
                let mark = if *is_inlined { INLINED } else { "" };
                write!(f, "{}{mark}", qualified(module, symbol))
            }
            Self::Symbol { module, .. }
            | Self::Inline { module, .. }
            | Self::Caller { module: Some(module), .. } => f.write_str(module),
            Self::Caller { .. } => f.write_str("(no caller known)"),
            Self::Line { line: Some((file, line)), .. } => write!(f, "{}:{line}", short_path(file)),
            Self::Line { module, .. } => write!(f, "{module}, no line"),
            Self::File { file: Some(file), .. } => f.write_str(short_path(file)),
            Self::File { module, .. } => write!(f, "{module}, no file"),
            Self::Address { address, module, symbol: Some(symbol), offset: Some(offset) } => {
                write!(f, "{address:#x} {}+{offset:#x}", qualified(module, symbol))
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
    /// Null if nothing in a trace names it.
    #[serde(skip_serializing_if = "absent")]
    process: Option<u32>,
    #[serde(skip_serializing_if = "absent")]
    process_name: Option<String>,
    #[serde(skip_serializing_if = "absent")]
    thread: u32,
    /// Null if the thread has no name.
    #[serde(skip_serializing_if = "absent")]
    thread_name: Option<String>,
    #[serde(skip_serializing_if = "absent")]
    processor: u32,
    /// The type of core; null if there is only one type.
    #[serde(skip_serializing_if = "absent")]
    core: Option<String>,
    /// `thread`, `DPC` or `interrupt`; null if nothing says it.
    #[serde(skip_serializing_if = "absent")]
    context: Option<String>,
    /// Hexadecimal.
    #[serde(skip_serializing_if = "absent")]
    address: String,
    #[serde(skip_serializing_if = "absent")]
    module: String,
    #[serde(skip_serializing_if = "absent")]
    symbol: Option<String>,
    /// The innermost function of the source, inlined or not; null if it is not known.
    #[serde(skip_serializing_if = "absent")]
    inline: Option<String>,
    /// The offset from the start of the symbol, or of the module if no symbol is known; null if no
    /// module is.
    #[serde(skip_serializing_if = "absent")]
    offset: Option<u64>,
    /// The module of the caller; null if no caller is known.
    #[serde(skip_serializing_if = "absent")]
    caller_module: Option<String>,
    /// The function of the caller; null if it is not known.
    #[serde(skip_serializing_if = "absent")]
    caller: Option<String>,
    /// Whether the caller was inlined where it called; null if no caller is known.
    #[serde(skip_serializing_if = "absent")]
    caller_inlined: Option<bool>,
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
    /// Its values, in the order of its key's fields.
    fn describe(&self, row: &mut Map<String, Json>) {
        let (key, values) = match self {
            Self::Machine(machine) => (Key::Machine, vec![json!(**machine)]),
            Self::Source(source) => (Key::Source, vec![json!(**source)]),
            Self::Process(Process { id, name }) => {
                (Key::Process, vec![json!(id), json!(name.as_deref())])
            }
            Self::Thread { process, id, name } => {
                let Process { id: of, name: program } = process;
                let [name, program] = [name, program].map(|name| json!(name.as_deref()));
                (Key::Thread, vec![json!(id), name, json!(of), program])
            }
            Self::Processor(processor) => (Key::Processor, vec![json!(processor)]),
            Self::Context(name) => (Key::Context, vec![json!(name)]),
            Self::Core(name) => (Key::Core, vec![json!(name.as_deref())]),
            Self::Module(module) => (Key::Module, vec![json!(**module)]),
            Self::Symbol { module, symbol } => {
                (Key::Symbol, vec![json!(**module), json!(symbol.as_deref())])
            }
            Self::Inline { module, function } => {
                (Key::Inline, vec![json!(**module), json!(function.as_deref())])
            }
            Self::Caller { module, symbol, is_inlined } => {
                let is_inlined = module.as_ref().map(|_| is_inlined);
                let (module, symbol) = (module.as_deref(), symbol.as_deref());
                (Key::Caller, vec![json!(module), json!(symbol), json!(is_inlined)])
            }
            Self::Line { module, line } => {
                let (file, line) = line.as_ref().map(|(file, line)| (&**file, line)).unzip();
                (Key::Line, vec![json!(**module), json!(file), json!(line)])
            }
            Self::File { module, file } => {
                (Key::File, vec![json!(**module), json!(file.as_deref())])
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
    fn each_key_has_a_row() {
        let schema = schemars::schema_for!(Key);
        let variants = schema.as_value()["oneOf"].as_array().expect("variants");
        let variants: Vec<&str> =
            variants.iter().filter_map(|variant| variant["const"].as_str()).collect();
        assert_eq!(variants.len(), Key::ALL.len());
        for name in variants {
            assert_eq!(Key::of(name).map(Key::name), Some(name));
        }
    }

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
