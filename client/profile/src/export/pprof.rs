//! pprof: <https://github.com/google/pprof/blob/main/proto/profile.proto>, in gzip.
//!
//! Each sample is its location with its callers, in a function for its thread in one for its process,
//! because most readers show no labels; it has these as labels, too. Samples of the timer are `cpu` in
//! nanoseconds, as readers expect. If no function is known, the module takes its place, because
//! most readers show nothing for a location without a name.
//!
//! All mappings say that their functions are resolved: for others, pprof would look on its own machine
//! for the files of the profiled one. They also say whether files and lines are known. The busiest
//! program's mapping is the first, because pprof takes the first for the program that was profiled. A
//! location has a line for each function that was inlined there, the innermost first, as the format
//! requires.

use super::{Export, ThreadLocation};
use crate::aggregate::source_totals::SourceTotals;
use crate::file::{Identity, Module};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};
use std::iter::successors;

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
#[expect(clippy::struct_excessive_bools, reason = "as profile.proto has them")]
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
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
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

#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
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
    let events = match source.time {
        Some(_) => tables.value_type("cpu", "nanoseconds"),
        None => tables.value_type(&source.name, "events"),
    };
    if let Some(program) = busiest_program(export, &source) {
        tables.mapping_of(export, program);
    }
    let amount = |events: u64| signed(source.time.map_or(events, |time| time.nanoseconds(events)));
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
        let mut location_id = vec![tables.location(export, location)];
        location_id.extend(
            successors(location.caller, |&caller| samples.callers.get(caller)?.caller)
                .map(|caller| tables.caller(export, caller)),
        );
        let levels = [location.thread(), location.process_name.to_string()];
        let levels = levels.into_iter().chain(machine.map(str::to_owned));
        location_id.extend(levels.map(|name| tables.level(&name)));
        let value = vec![signed(totals.samples), amount(totals.events)];
        Sample { location_id, value, label }
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
        period: amount(source.period_events),
        comment,
        default_sample_type: events.r#type,
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The module of the program whose process has the most events.
fn busiest_program(export: &Export<'_>, source: &SourceTotals) -> Option<usize> {
    let mut processes: HashMap<u32, u64> = HashMap::new();
    for (location, totals) in export.samples.location_totals_of(source) {
        let events = processes.entry(location.process).or_default();
        *events = events.saturating_add(totals.events);
    }
    let recording = &export.samples.recording;
    let mut names: HashMap<u32, &str> = HashMap::new();
    for process in &recording.processes {
        names.entry(process.id).or_insert(&process.name);
    }
    let mut programs: HashMap<u32, usize> = HashMap::new();
    for (index, module) in recording.modules.iter().enumerate() {
        if let Some(id) = module.process
            && names.get(&id).is_some_and(|name| module.name.eq_ignore_ascii_case(name))
        {
            programs.entry(id).or_insert(index);
        }
    }
    let program = |process: u32| programs.get(&recording.process_ids.known_id(process)?).copied();
    let mut by_events: Vec<(u32, u64)> = processes.into_iter().collect();
    by_events.sort_unstable_by_key(|&(process, events)| (Reverse(events), process));
    by_events.into_iter().find_map(|(process, _)| program(process))
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
    location_index: HashMap<(u64, u64, Vec<Line>), u64>,
    /// The locations of [`Samples::callers`](super::Samples::callers), 0 for those not asked for yet: a
    /// thousand stacks of a thousand frames mostly share them.
    callers: Vec<u64>,
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
        let lines = location.frame.functions().map(|function| {
            // The module if no function is known.
            let name = function.name.unwrap_or(&location.frame.module);
            let function_id = self.function(name, function.file.map_or("", AsRef::as_ref));
            Line { function_id, line: function.line.unwrap_or(0).into() }
        });
        let lines = lines.collect();
        self.place(mapping_id, location.address, lines)
    }

    /// The location of a caller, by its index in the samples' callers.
    fn caller(&mut self, export: &Export<'_>, caller: usize) -> u64 {
        let all = &export.samples.callers;
        self.callers.resize(all.len(), 0);
        let known = self.callers.get(caller).copied().unwrap_or(0);
        let Some(location) = all.get(caller).filter(|_| known == 0) else { return known };
        let id = self.location(export, location);
        if let Some(known) = self.callers.get_mut(caller) {
            *known = id;
        }
        id
    }

    fn place(&mut self, mapping_id: u64, address: u64, line: Vec<Line>) -> u64 {
        let next = self.locations.len() as u64 + 1;
        let key = (mapping_id, address, line.clone());
        let id = *self.location_index.entry(key).or_insert(next);
        if id == next {
            self.locations.push(Location { id, mapping_id, address, line });
        }
        id
    }

    /// A location around functions.
    fn level(&mut self, name: &str) -> u64 {
        let function_id = self.function(name, "");
        self.place(0, 0, vec![Line { function_id, line: 0 }])
    }

    fn function(&mut self, name: &str, filename: &str) -> u64 {
        let (name, filename) = (self.string(name), self.string(filename));
        let next = self.functions.len() as u64 + 1;
        let id = *self.function_index.entry((name, filename)).or_insert(next);
        if id == next {
            self.functions.push(Function { id, name, system_name: name, filename });
        }
        id
    }

    /// The mapping; 0 if the module is not known.
    fn mapping(&mut self, export: &Export<'_>, location: &ThreadLocation) -> u64 {
        let Some((index, _)) = export.samples.module_of(location) else {
            return 0;
        };
        let id = self.mapping_of(export, index);
        if let Some(mapping) = self.mappings.get_mut(id as usize - 1) {
            mapping.has_filenames |= location.frame.file.is_some();
            mapping.has_line_numbers |= location.frame.line.is_some();
            mapping.has_inline_frames |= !location.frame.inlined.is_empty();
        }
        id
    }

    /// The mapping of a module of the recording.
    fn mapping_of(&mut self, export: &Export<'_>, index: usize) -> u64 {
        let Some(module) = export.samples.recording.modules.get(index) else { return 0 };
        let next = self.mappings.len() as u64 + 1;
        let id = *self.mapping_index.entry(index).or_insert(next);
        if id == next {
            let mapping = Mapping {
                id,
                memory_start: module.start,
                memory_limit: module.end,
                filename: self.string(module.path.as_deref().unwrap_or(&module.name)),
                build_id: self.string(&build_id(module)),
                has_functions: true,
                has_filenames: false,
                has_line_numbers: false,
                has_inline_frames: false,
            };
            self.mappings.push(mapping);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::filter::Filter;
    use crate::aggregate::samples::TrackBy;
    use crate::export::tests::with_inlined;
    use crate::export::{Format, read};
    use crate::symbols::SymbolPath;
    use std::path::Path;

    /// pprof looks for the files of mappings that say nothing of their functions, and takes the first
    /// mapping for the program.
    #[test]
    fn the_first_mapping_is_the_busiest_program_and_all_are_resolved() {
        let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/etw/files");
        for file in ["net.4.5.2.x64.etl", "net.4.5.x86.etl"] {
            let path = Path::new(files).join(file);
            if !path.exists() {
                eprintln!("skipped: no {}", path.display());
                continue;
            }
            let (tracks, filter) = (TrackBy::default(), Filter::default());
            let samples = read(&[&path], Format::Pprof, tracks, &filter, &SymbolPath::default());
            let samples = samples.expect("a trace");
            let profile = profile(&Export::new(&samples, "a", Format::Pprof));
            let mut events: HashMap<&str, u64> = HashMap::new();
            for (location, totals) in samples.location_totals_of(&samples.sources[0]) {
                *events.entry(&location.process_name).or_default() += totals.events;
            }
            let busiest = events.into_iter().max_by_key(|&(_, events)| events).expect("samples").0;
            let (program, _) = busiest.rsplit_once(" (").expect("a name with its number");
            let text =
                |index: i64| &profile.string_table[usize::try_from(index).expect("an index")];
            let first = text(profile.mapping[0].filename);
            assert!(first.ends_with(program), "{first} is not {program}");
            assert!(profile.mapping.iter().all(|mapping| mapping.has_functions));
            assert!((1_u64..).zip(&profile.mapping).all(|(id, mapping)| mapping.id == id));
        }
    }

    /// The innermost line comes first, and each has the place of the call in its own function.
    #[test]
    fn a_location_has_a_line_for_each_function_that_was_inlined() {
        let samples = with_inlined(false);
        let profile = profile(&Export::new(&samples, "a", Format::Pprof));
        let text =
            |index: i64| profile.string_table[usize::try_from(index).expect("an index")].as_str();
        let lines = |location: &Location| {
            let function = |line: &Line| &profile.function[line.function_id as usize - 1];
            let lines = location.line.iter();
            lines
                .map(|line| (text(function(line).name), text(function(line).filename), line.line))
                .collect::<Vec<_>>()
        };
        let chains: Vec<_> =
            profile.location.iter().map(lines).filter(|all| all.len() > 1).collect();
        let chain = vec![("inner", "f.h", 10), ("outer", "f.h", 20), ("f", "f.h", 30)];
        // The sampled address, and that of a call.
        assert_eq!(chains, [chain.clone(), chain]);
        let with_inlined = profile.mapping.iter().filter(|mapping| mapping.has_inline_frames);
        assert_eq!(with_inlined.map(|mapping| text(mapping.filename)).collect::<Vec<_>>(), ["f"]);
    }
}
