//! pprof: <https://github.com/google/pprof/blob/main/proto/profile.proto>, in gzip.
//!
//! Each sample is its location with its callers, and has process and thread as labels, which
//! `pprof -tagroot` turns into levels. If no function is known, the module takes its place, because
//! most readers show nothing for a location without a name; the mapping then says that it has no
//! functions.

use super::{Export, ThreadLocation};
use crate::file::{Identity, Module};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::collections::HashMap;
use std::io::{self, Write};

#[derive(Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
    #[prost(int64, tag = "3")]
    num: i64,
}

#[derive(Clone, Copy, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Writes one source: its samples and its events. Readers show events unless told otherwise.
pub(super) fn write(export: &Export<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&profile(export).encode_to_vec())?;
    gzip.finish()?;
    Ok(())
}

fn profile(export: &Export<'_>) -> Profile {
    let samples = export.samples;
    let process_ids = &samples.recording.process_ids;
    let source = export.source();
    let mut tables = Tables::default();
    // The first string is always empty.
    tables.string("");
    let sample_count = tables.value_type("samples", "count");
    let events = tables.value_type(&source.name, "events");
    let sample = samples.location_totals_of(&source).map(|(location, totals)| {
        let mut label = vec![tables.label("process", &location.process_name)];
        let process = process_ids.known_id(location.process);
        label.extend(process.map(|id| tables.number("pid", id)));
        label.extend([
            tables.number("tid", location.thread),
            tables.label("mode", location.mode.name()),
        ]);
        let machine = location.machine.as_deref();
        label.extend(machine.map(|machine| tables.label("machine", machine)));
        Sample {
            location_id: samples.stack(location).map(|at| tables.location(export, at)).collect(),
            value: vec![signed(totals.samples), signed(totals.events)],
            label,
        }
    });
    let sample = sample.collect();
    let comment = export.captions();
    let comment = comment.iter().map(|line| tables.string(line)).collect();
    let metadata = &samples.recording.metadata;
    Profile {
        sample_type: vec![sample_count, events],
        sample,
        mapping: tables.mappings,
        location: tables.locations,
        function: tables.functions,
        string_table: tables.strings,
        time_nanos: signed(metadata.began.saturating_mul(1_000_000_000)),
        duration_nanos: signed(samples.recording.elapsed_ns()),
        period_type: Some(events),
        period: signed(source.period_events),
        comment,
        default_sample_type: events.r#type,
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The tables that samples refer to by number, each entry once. Numbers start at 1, those of
/// strings at 0.
#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    string_index: HashMap<String, i64>,
    functions: Vec<Function>,
    function_index: HashMap<(i64, i64), u64>,
    mappings: Vec<Mapping>,
    mapping_index: HashMap<usize, u64>,
    locations: Vec<Location>,
    location_index: HashMap<(u64, u64, u64, u32), u64>,
}

impl Tables {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.string_index.get(text) {
            return index;
        }
        let index = signed(self.strings.len() as u64);
        self.strings.push(text.to_owned());
        self.string_index.insert(text.to_owned(), index);
        index
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.string(name), unit: self.string(unit) }
    }

    fn label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.string(key), str: self.string(text), num: 0 }
    }

    fn number(&mut self, key: &str, number: u32) -> Label {
        Label { key: self.string(key), str: 0, num: number.into() }
    }

    fn location(&mut self, export: &Export<'_>, location: &ThreadLocation) -> u64 {
        let mapping_id = self.mapping(export, location);
        let function_id = self.function(location);
        let key = (mapping_id, location.address, function_id, location.frame.line.unwrap_or(0));
        let next = self.locations.len() as u64 + 1;
        let id = *self.location_index.entry(key).or_insert(next);
        if id == next {
            let line = Line { function_id, line: location.frame.line.unwrap_or(0).into() };
            self.locations.push(Location {
                id,
                mapping_id,
                address: location.address,
                line: vec![line],
            });
        }
        id
    }

    /// The function, or the module if no function is known.
    fn function(&mut self, location: &ThreadLocation) -> u64 {
        let name = location.frame.symbol.as_ref();
        let name = self.string(name.unwrap_or(&location.frame.module));
        let filename = self.string(location.frame.file.as_deref().unwrap_or(""));
        let next = self.functions.len() as u64 + 1;
        let id = *self.function_index.entry((name, filename)).or_insert(next);
        if id == next {
            self.functions.push(Function { id, name, system_name: name, filename });
        }
        id
    }

    /// The mapping; 0 if the module is not known.
    fn mapping(&mut self, export: &Export<'_>, location: &ThreadLocation) -> u64 {
        let Some((index, module)) = export.samples.module_of(location) else {
            return 0;
        };
        let next = self.mappings.len() as u64 + 1;
        let id = *self.mapping_index.entry(index).or_insert(next);
        if id == next {
            let mapping = Mapping {
                id,
                memory_start: module.start,
                memory_limit: module.end,
                filename: self.string(module.path.as_deref().unwrap_or(&module.name)),
                build_id: self.string(&build_id(module)),
                has_functions: false,
            };
            self.mappings.push(mapping);
        }
        if location.frame.symbol.is_some()
            && let Some(mapping) = self.mappings.get_mut(id as usize - 1)
        {
            mapping.has_functions = true;
        }
        id
    }
}

/// The identifier by which pprof finds symbols.
fn build_id(module: &Module) -> String {
    match &module.identity {
        Some(Identity::Pdb { guid, age, .. }) => format!("{guid}{age:X}"),
        Some(Identity::BuildId(id)) => id.clone(),
        None => String::new(),
    }
}
