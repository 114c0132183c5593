//! Reports on a recording: samples and the events they stand for, summed up by any keys.
//!
//! A first pass over the file sums up. The result has one entry for each address rather than for
//! each sample; its entries are looked up in the symbols and put into tables. Samples of different
//! sources are never added up unless `source` is one of the keys: cycles and cache misses are not
//! comparable.

mod combined;
pub mod happenings;
pub mod share;
pub mod skid;

use crate::aggregate::filter::{Filter, Pattern};
use crate::aggregate::key::{Key, Value};
use crate::aggregate::places::Places;
use crate::aggregate::tally::{Apart, Entry, Tallies};
#[cfg(doc)]
use crate::file::Live;
use crate::file::{Cores, Reader, Recording, Spaces, Turns};
use crate::symbols::{Opened, SymbolPath, Symbols};
use halprof_measure::{Error, Result};
use rustc_hash::FxHashMap;
use share::Share;
use shared_types::Sample;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use crate::aggregate::tally::Sum;
pub(crate) use combined::{no_recording, sources, turns};

/// A query on a recording.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The keys of each table.
    pub tables: Vec<Vec<Key>>,
    /// Which samples count.
    pub filter: Filter,
    /// The order of the rows.
    pub sort: Sort,
    /// How many rows each part of a table keeps; `None`: all.
    pub rows: Option<usize>,
}

impl Query {
    /// What tallies must distinguish for it.
    fn apart(&self) -> Vec<Apart> {
        let base = self.filter.apart();
        let tables = self.tables.iter().map(|by| base.with(by));
        tables.chain([base]).collect()
    }
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The most samples first.
    Samples,
    /// The most events first.
    #[default]
    Events,
    /// By the values of the row.
    Name,
}

/// A recording, summed up.
#[derive(Clone, Debug)]
pub struct Report {
    /// The recording without its samples.
    pub recording: Recording,
    /// The sources that have samples, in the order of the recording.
    pub sources: Vec<OfSource>,
    /// All samples that count.
    pub total: Sum,
    /// The tables that were asked for.
    pub tables: Vec<Table>,
    /// The modules whose symbols were needed.
    pub symbols: Vec<Opened>,
}

/// The samples of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfSource {
    /// Its name, with its filter if it has one.
    pub name: Arc<str>,
    /// Its period at the beginning, if the recording has it.
    pub period: Option<u64>,
    /// All its samples that count.
    pub sum: Sum,
    /// How many of them have an address.
    pub addressed: u64,
    /// If it took turns on the counters: how long it was on one. All its events are scaled by that
    /// to the whole time.
    pub turns: Option<Turns>,
}

impl OfSource {
    /// The 95 % bound of its events, if it took turns and the bound is known.
    #[must_use]
    pub fn error(&self) -> Option<u64> {
        let Sum { samples, events, squares } = self.sum;
        let turns = self.turns.as_ref()?;
        turns.error(events, samples, squares, self.period.unwrap_or(0))
    }
}

/// Samples by one or more keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The keys, in the order of the values of each row.
    pub by: Vec<Key>,
    /// One part for each source; a single part if `source` is a key.
    pub parts: Vec<Part>,
}

/// The samples of one source; if `source` is a key, those of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Their source; `None` if `source` is a key.
    pub source: Option<Arc<str>>,
    /// Whether they are of several sources: cycles and misses are not parts of one whole.
    pub mixed: bool,
    /// The sum over all of them.
    pub all: Sum,
    /// One row for each combination of values.
    pub rows: Vec<Row>,
    /// How many rows were left out, and their samples.
    pub more: (usize, Sum),
}

impl Part {
    /// The share of all events that some of its samples stand for; `None` if their sources differ.
    #[must_use]
    pub fn share(&self, some: Sum) -> Option<Share> {
        (!self.mixed).then(|| Share::weighted(some, self.all))
    }

    /// All its events; `None` if their sources differ.
    #[must_use]
    pub fn events(&self) -> Option<u64> {
        (!self.mixed).then_some(self.all.events)
    }
}

/// One combination of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The values, in the order of the table's keys.
    pub values: Vec<Value>,
    /// Its samples.
    pub sum: Sum,
}

/// The keys of a row as numbers; at most all of [`Key::ALL`].
type Numbers = [u32; Key::ALL.len()];

impl Report {
    /// Reads and sums up a recording.
    pub fn read(path: &Path, query: &Query, symbol_path: &SymbolPath) -> Result<Self> {
        let (recording, tallies) = tallied(path, &query.filter, &query.apart())?;
        let mut symbols = Symbols::open(&recording, symbol_path);
        let machine = machine(path, &recording);
        Self::sum(recording, machine, &tallies, query, &mut symbols)
    }

    /// Sums up the samples that [`Live::take`] gave, within any span of time. The files that `symbols`
    /// has open stay open.
    pub fn live(
        (recording, samples): (Recording, Vec<Sample>),
        query: &Query,
        symbols: &mut Symbols,
    ) -> Result<Self> {
        let mut tallies = Tallies::new(&query.apart());
        tallies.add(&samples.iter());
        symbols.renew(&recording);
        let machine = machine(Path::new(""), &recording);
        Self::sum(recording, machine, &tallies, query, symbols)
    }

    fn sum(
        recording: Recording,
        machine: Arc<str>,
        tallies: &Tallies,
        query: &Query,
        symbols: &mut Symbols,
    ) -> Result<Self> {
        let base = query.filter.apart();
        let keys: Vec<Key> = query.tables.iter().flatten().copied().collect();
        let summing = Summing {
            places: &Places::resolve(&tallies.places(), symbols, &query.filter, &keys),
            names: Names::of(&recording, &query.filter)?,
            machine,
            tallies,
            turns: recording.turns(),
            cores: &recording.metadata.cores,
            query,
        };
        let sources = summing.sources(base, &recording);
        let mut total = Sum::default();
        for source in &sources {
            total.add(source.sum);
        }
        let tables = query.tables.iter();
        Ok(Self {
            tables: tables.map(|by| summing.table(by, base.with(by))).collect(),
            sources,
            total,
            symbols: symbols.opened(),
            recording,
        })
    }
}

/// The samples that count, by address.
pub(crate) struct Hits {
    pub(crate) recording: Recording,
    pub(crate) symbols: Symbols,
    /// The sources with samples, those with the most first.
    pub(crate) sources: Vec<OfSource>,
    /// Each place with the index of its source in `sources`.
    pub(crate) all: Vec<(crate::aggregate::tally::Place, usize, Sum)>,
}

impl Hits {
    pub(crate) fn read(path: &Path, filter: Filter, symbol_path: &SymbolPath) -> Result<Self> {
        let query = Query { filter, ..Query::default() };
        let apart = query.filter.apart().with(&[Key::Address]);
        let (recording, tallies) = tallied(path, &query.filter, &[apart])?;
        let mut symbols = Symbols::open(&recording, symbol_path);
        let summing = Summing {
            places: &Places::resolve(&tallies.places(), &mut symbols, &query.filter, &[]),
            names: Names::of(&recording, &query.filter)?,
            machine: machine(path, &recording),
            tallies: &tallies,
            turns: recording.turns(),
            cores: &recording.metadata.cores,
            query: &query,
        };
        let mut sources = summing.sources(apart, &recording);
        sources.retain(|source| source.sum.samples != 0);
        sources.sort_by_key(|source| std::cmp::Reverse(source.sum.samples));
        let mut all = Vec::new();
        summing.counted(apart, |entry, sum| {
            let name = summing.names.source(entry.source);
            let source = sources.iter().position(|source| source.name == name);
            all.extend(source.map(|source| (entry.place(), source, sum)));
        });
        Ok(Self { recording, symbols, sources, all })
    }
}

impl Filter {
    /// What tallies must distinguish for it; time is checked sample by sample.
    fn apart(&self) -> Apart {
        Apart {
            place: !self.modules.is_empty() || !self.symbols.is_empty(),
            process: !self.processes.is_empty(),
            thread: false,
            processor: self.processors.is_some(),
        }
    }
}

impl Apart {
    /// The same, extended by what these keys need.
    fn with(self, keys: &[Key]) -> Self {
        let has = |key| keys.contains(&key);
        Self {
            place: self.place || keys.iter().any(|key| key.is_place()),
            process: self.process || has(Key::Process),
            thread: self.thread || has(Key::Thread),
            processor: self.processor || has(Key::Processor) || has(Key::Core),
        }
    }
}

/// Reads a recording and sums up its samples within the filter's span of time.
pub(crate) fn tallied(
    path: &Path,
    filter: &Filter,
    apart: &[Apart],
) -> Result<(Recording, Tallies)> {
    let window = Window::of(path, filter)?;
    let mut tallies = Tallies::new(apart);
    let mut recording = Reader::open(path)?.samples(|samples| {
        tallies.add(&samples.iter().filter(|sample| window.has(sample)));
    })?;
    if filter.time.is_none() {
        recording.seen_ns = tallies.seen_ns(recording.metadata.timestamp_frequency);
    }
    Ok((recording, tallies))
}

/// The span of a recording's time that counts.
pub(crate) struct Window {
    /// The first time stamp, and the ticks per second.
    clock: (u64, u64),
    /// In nanoseconds since the first time stamp.
    range: Option<Range<u64>>,
}

impl Window {
    pub(crate) fn of(path: &Path, filter: &Filter) -> Result<Self> {
        let Some((from, to)) = filter.time else {
            let (clock, range) = ((0, 0), None);
            return Ok(Self { clock, range });
        };
        let reader = Reader::open(path)?;
        let frequency = reader.metadata().timestamp_frequency;
        if frequency == 0 {
            return Err(Error::Unavailable {
                message: "the recording does not give the rate of its clock".to_owned(),
                hint: "Give no time range.".to_owned(),
            });
        }
        let mut began = u64::MAX;
        reader.samples(|samples| {
            let first = samples.iter().map(|sample| sample.timestamp).min();
            began = began.min(first.unwrap_or(u64::MAX));
        })?;
        Ok(Self { clock: (began, frequency), range: Some(from..to) })
    }

    /// Whether a sample lies in it.
    pub(crate) fn has(&self, sample: &Sample) -> bool {
        let Some(range) = &self.range else {
            return true;
        };
        let (began, frequency) = self.clock;
        let ticks = u128::from(sample.timestamp.saturating_sub(began)) * 1_000_000_000;
        let time = ticks.checked_div(frequency.into()).unwrap_or(0);
        range.contains(&u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// Names of sources and processes, and whether they count.
pub(crate) struct Names {
    sources: Vec<(Arc<str>, bool)>,
    processes: FxHashMap<u32, Arc<str>>,
    spaces: Spaces,
}

impl Names {
    pub(crate) fn of(recording: &Recording, filter: &Filter) -> Result<Self> {
        let names = recording.metadata.sources.iter().map(|source| source.name.as_str());
        for pattern in &filter.sources {
            if !names.clone().any(|name| meant(pattern, name)) {
                let all: Vec<&str> = names.collect();
                return Err(Error::usage(
                    format!("the recording has no source called `{pattern}`"),
                    format!("It has {}.", all.join(", ")),
                ));
            }
        }
        let passes = |name| {
            let patterns = &filter.sources;
            patterns.is_empty() || patterns.iter().any(|pattern| meant(pattern, name))
        };
        let processes = recording.processes.iter();
        let spaces = &recording.spaces;
        Ok(Self {
            sources: names.map(|name| (name.into(), passes(name))).collect(),
            processes: processes
                .filter(|process| !process.name.is_empty())
                .map(|process| (spaces.of_process(process), process.name.as_str().into()))
                .collect(),
            spaces: spaces.clone(),
        })
    }

    /// Whether the filter accepts a sample, apart from the conditions on its address.
    pub(crate) fn passes(&self, sample: &Sample, filter: &Filter) -> bool {
        let processors = filter.processors.as_ref();
        self.source_passes(sample.source)
            && processors.is_none_or(|processors| processors.contains(&sample.processor))
            && self.process_passes(sample.process, filter)
    }

    fn process_passes(&self, process: u32, filter: &Filter) -> bool {
        let name = self.process(process);
        let id = self.id(process).to_string();
        let meant = |pattern: &Pattern| {
            pattern.matches(&id) || name.as_deref().is_some_and(|name| pattern.matches(name))
        };
        filter.processes.is_empty() || filter.processes.iter().any(meant)
    }

    /// The name of a process, if it is known.
    pub(crate) fn process(&self, number: u32) -> Option<Arc<str>> {
        self.processes.get(&self.spaces.process(number)).cloned()
    }

    /// Its identifier.
    pub(crate) fn id(&self, number: u32) -> u32 {
        self.spaces.id(number)
    }

    pub(crate) fn source(&self, index: u16) -> Arc<str> {
        match self.sources.get(usize::from(index)) {
            Some((name, _)) => Arc::clone(name),
            None => format!("source {index}").into(),
        }
    }

    /// A source that the recording does not name passes if all others do.
    fn source_passes(&self, index: u16) -> bool {
        let named = self.sources.get(usize::from(index));
        named.map_or_else(|| self.sources.iter().all(|&(_, passes)| passes), |&(_, passes)| passes)
    }
}

/// Whether a pattern matches a source: with its filter, or by its name alone.
fn meant(pattern: &Pattern, source: &str) -> bool {
    let name = source.split(':').next().unwrap_or(source);
    pattern.matches(source) || pattern.matches(name)
}

/// The machine's own name, or the file's if the recording does not give it.
#[must_use]
pub fn machine(path: &Path, recording: &Recording) -> Arc<str> {
    match recording.metadata.host.as_str() {
        "" => path.file_stem().unwrap_or_default().to_string_lossy().into(),
        host => host.into(),
    }
}

/// A sum of a source, with its events scaled to the whole time if it took turns on the counters.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "squares only serve bounds, and casts saturate"
)]
pub(crate) fn whole_time(turns: &BTreeMap<u16, Turns>, source: u16, sum: Sum) -> Sum {
    let Some(turns) = turns.get(&source) else {
        return sum;
    };
    let factor = turns.enabled as f64 / turns.running.max(1) as f64;
    Sum {
        events: turns.scale(sum.events),
        squares: (sum.squares as f64 * factor * factor) as u128,
        ..sum
    }
}

/// What rows are computed from.
struct Summing<'a> {
    names: Names,
    machine: Arc<str>,
    tallies: &'a Tallies,
    places: &'a Places,
    query: &'a Query,
    /// The sources that were not on a counter all the time.
    turns: BTreeMap<u16, Turns>,
    cores: &'a [Cores],
}

impl Summing<'_> {
    /// Each source that passes, with samples or without.
    fn sources(&self, base: Apart, recording: &Recording) -> Vec<OfSource> {
        let mut sums: FxHashMap<u16, Sum> = FxHashMap::default();
        self.counted(base, |entry, sum| {
            sums.entry(entry.source).or_default().add(sum);
        });
        let named = 0..u16::try_from(self.names.sources.len()).unwrap_or(u16::MAX);
        for index in named.filter(|&index| self.names.source_passes(index)) {
            sums.entry(index).or_default();
        }
        let mut all: Vec<_> = sums.into_iter().collect();
        all.sort_unstable_by_key(|&(index, _)| index);
        let metadata = &recording.metadata.sources;
        let of_source = |(index, sum): (u16, Sum)| OfSource {
            name: self.names.source(index),
            period: metadata.get(usize::from(index)).map(|source| source.period.used),
            sum,
            turns: self.turns.get(&index).cloned(),
            addressed: self.tallies.addressed.get(&index).copied().unwrap_or(0),
        };
        all.into_iter().map(of_source).collect()
    }

    /// Passes each entry that the filter accepts to `visit`, with events scaled to the whole time.
    fn counted(&self, apart: Apart, mut visit: impl FnMut(Entry, Sum)) {
        self.tallies.each(apart, |entry, sum| {
            if self.counts(entry) {
                visit(entry, whole_time(&self.turns, entry.source, sum));
            }
        });
    }

    fn counts(&self, entry: Entry) -> bool {
        let filter = &self.query.filter;
        let processor = filter.processors.as_ref();
        let placed = !filter.modules.is_empty() || !filter.symbols.is_empty();
        self.names.source_passes(entry.source)
            && processor.is_none_or(|processors| processors.contains(&entry.processor))
            && self.names.process_passes(entry.process, filter)
            && (!placed || self.places.passes(entry.place()))
    }

    fn table(&self, by: &[Key], apart: Apart) -> Table {
        let mixed = by.contains(&Key::Source);
        let mut parts: FxHashMap<u16, FxHashMap<Numbers, Sum>> = FxHashMap::default();
        self.counted(apart, |entry, sum| {
            let part = if mixed { 0 } else { entry.source };
            let rows = parts.entry(part).or_default();
            rows.entry(self.numbers(by, entry)).or_default().add(sum);
        });
        let mut parts: Vec<_> = parts.into_iter().collect();
        parts.sort_unstable_by_key(|&(source, _)| source);
        let parts = parts.into_iter().map(|(source, rows)| {
            let source = (!mixed).then(|| self.names.source(source));
            self.part(by, source, rows)
        });
        Table { by: by.to_vec(), parts: parts.collect() }
    }

    fn numbers(&self, by: &[Key], entry: Entry) -> Numbers {
        let mut numbers = Numbers::default();
        for (number, &key) in numbers.iter_mut().zip(by) {
            *number = match key {
                // A recording is of one machine.
                Key::Machine => 0,
                Key::Source => entry.source.into(),
                Key::Process => self.names.spaces.process(entry.process),
                Key::Thread => entry.thread,
                Key::Processor => entry.processor,
                Key::Core => self.core(entry.processor),
                _ => self.places.number(entry.place(), key),
            };
        }
        numbers
    }

    /// The index of the first run of cores of this processor's type; one past the last if there is
    /// none.
    fn core(&self, processor: u32) -> u32 {
        let mut runs = self.cores.iter();
        let own = runs.find(|run| (run.first..=run.last).contains(&processor));
        let alike = own.and_then(|own| self.cores.iter().position(|run| run.name == own.name));
        alike.unwrap_or(self.cores.len()) as u32
    }

    fn part(&self, by: &[Key], source: Option<Arc<str>>, sums: FxHashMap<Numbers, Sum>) -> Part {
        let mut all = Sum::default();
        let mut sums: Vec<(Numbers, Sum)> = sums.into_iter().collect();
        for (_, sum) in &sums {
            all.add(*sum);
        }
        let source_of = |(numbers, _): &(Numbers, Sum)| {
            let at = by.iter().position(|&key| key == Key::Source)?;
            Some(self.names.source(*numbers.get(at)? as u16))
        };
        let mixed = several(sums.iter().map(source_of));
        let keep = self.query.rows.unwrap_or(usize::MAX).min(sums.len());
        let named =
            |(numbers, sum): &(Numbers, Sum)| Row { values: self.values(by, *numbers), sum: *sum };
        let mut rows: Vec<Row>;
        if self.query.sort == Sort::Name {
            rows = sums.iter().map(named).collect();
            rows.sort_by(|a, b| a.values.cmp(&b.values));
        } else {
            let order = |sum: &Sum| match self.query.sort {
                Sort::Events => (sum.events, sum.samples),
                _ => (sum.samples, sum.events),
            };
            sums.sort_unstable_by(|a, b| order(&b.1).cmp(&order(&a.1)).then(a.0.cmp(&b.0)));
            rows = Self::in_order(&sums, keep, order, named);
        }
        let mut more = all;
        rows.truncate(keep);
        for row in &rows {
            more.subtract(row.sum);
        }
        Part { source, mixed, all, more: (sums.len() - rows.len(), more), rows }
    }

    /// The rows to keep and those that tie with the last of them; equal ones are sorted by name.
    fn in_order(
        sums: &[(Numbers, Sum)],
        keep: usize,
        order: impl Fn(&Sum) -> (u64, u64),
        named: impl Fn(&(Numbers, Sum)) -> Row,
    ) -> Vec<Row> {
        let Some((_, last)) = keep.checked_sub(1).and_then(|last| sums.get(last)) else {
            return Vec::new();
        };
        let ties = sums.partition_point(|(_, sum)| order(sum) >= order(last));
        let mut rows: Vec<Row> = sums.iter().take(ties).map(named).collect();
        rows.sort_by(|a, b| {
            let by_sum = order(&b.sum).cmp(&order(&a.sum));
            by_sum.then_with(|| a.values.cmp(&b.values))
        });
        rows
    }

    fn values(&self, by: &[Key], numbers: Numbers) -> Vec<Value> {
        let values = by.iter().zip(numbers).filter_map(|(&key, number)| match key {
            Key::Machine => Some(Value::Machine(Arc::clone(&self.machine))),
            Key::Source => Some(Value::Source(self.names.source(number as u16))),
            Key::Process => {
                Some(Value::Process { id: self.names.id(number), name: self.names.process(number) })
            }
            Key::Thread => Some(Value::Thread(number)),
            Key::Processor => Some(Value::Processor(number)),
            Key::Core => {
                let run = self.cores.get(number as usize);
                Some(Value::Core(run.map(|run| run.name.as_str().into())))
            }
            _ => self.places.value(key, number),
        });
        values.collect()
    }
}

/// Whether these are not all alike.
fn several<T: PartialEq>(mut all: impl Iterator<Item = T>) -> bool {
    let first = all.next();
    all.any(|other| first.as_ref() != Some(&other))
}

#[cfg(test)]
mod tests;
