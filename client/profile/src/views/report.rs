//! Reports on a recording: samples and the events they stand for, summed up by any keys.
//!
//! A first pass over the file sums up. The result has one entry for each address rather than for
//! each sample; its entries are looked up in the symbols and put into tables. Samples of different
//! sources are never added up unless `source` is one of the keys: cycles and cache misses are not
//! comparable.

mod combined;
pub mod events;
pub mod share;
pub mod skid;

use crate::aggregate::aggregator::{Aggregator, GroupBy, GroupKey};
use crate::aggregate::filter::{Filter, Pattern};
use crate::aggregate::key::{Key, Value};
use crate::aggregate::locations::ResolvedLocations;
#[cfg(doc)]
use crate::file::Live;
use crate::file::{Cores, ProcessIds, Reader, Recording, Slices};
use crate::symbols::{Opened, SymbolPath, Symbols};
use halprof_measure::{Error, Result};
use rustc_hash::FxHashMap;
use share::Share;
use shared_types::Sample;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use crate::aggregate::aggregator::Totals;
pub(crate) use combined::{no_recording, slices, sources};

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
    fn group_by(&self) -> Vec<GroupBy> {
        let base = self.filter.group_by();
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
    pub sources: Vec<SourceTotals>,
    /// All samples that count.
    pub total: Totals,
    /// The tables that were asked for.
    pub tables: Vec<Table>,
    /// The modules whose symbols were needed.
    pub symbols: Vec<Opened>,
}

/// The samples of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTotals {
    /// Its name, with its filter if it has one.
    pub name: Arc<str>,
    /// Its period at the beginning, if the recording has it.
    pub period: Option<u64>,
    /// All its samples that count.
    pub totals: Totals,
    /// How many of them have an address.
    pub addressed: u64,
    /// If it took turns on the counters: how long it was on one. All its events are scaled by that
    /// to the whole time.
    pub slices: Option<Slices>,
}

impl SourceTotals {
    /// The 95 % bound of its events, if it took turns and the bound is known.
    #[must_use]
    pub fn error(&self) -> Option<u64> {
        let Totals { samples, events, squares } = self.totals;
        let slices = self.slices.as_ref()?;
        slices.error(events, samples, squares, self.period.unwrap_or(0))
    }
}

/// Samples by one or more keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The keys, in the order of the values of each row.
    pub by: Vec<Key>,
    /// One part for each source; a single part if `source` is a key.
    pub sections: Vec<SourceSection>,
}

/// The samples of one source; if `source` is a key, those of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSection {
    /// Their source; `None` if `source` is a key.
    pub source: Option<Arc<str>>,
    /// Whether they are of several sources: cycles and misses are not parts of one whole.
    pub mixed: bool,
    /// The sum over all of them.
    pub all: Totals,
    /// One row for each combination of values.
    pub rows: Vec<GroupTotals>,
    /// How many rows were left out, and their samples.
    pub more: (usize, Totals),
}

impl SourceSection {
    /// The share of all events that some of its samples stand for; `None` if their sources differ.
    #[must_use]
    pub fn share(&self, some: Totals) -> Option<Share> {
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
pub struct GroupTotals {
    /// The values, in the order of the table's keys.
    pub values: Vec<Value>,
    /// Its samples.
    pub totals: Totals,
}

/// The keys of a row as numbers; at most all of [`Key::ALL`].
type Numbers = [u32; Key::ALL.len()];

impl Report {
    /// Reads and sums up a recording.
    pub fn read(path: &Path, query: &Query, symbol_path: &SymbolPath) -> Result<Self> {
        let (recording, aggregator) = aggregate_file(path, &query.filter, &query.group_by())?;
        let mut symbols = Symbols::open(&recording, symbol_path);
        let machine = machine(path, &recording);
        Self::totals(recording, machine, &aggregator, query, &mut symbols)
    }

    /// Sums up the samples that [`Live::take`] gave, within any span of time. The files that `symbols`
    /// has open stay open.
    pub fn live(
        (recording, samples): (Recording, Vec<Sample>),
        query: &Query,
        symbols: &mut Symbols,
    ) -> Result<Self> {
        let mut aggregator = Aggregator::new(&query.group_by());
        aggregator.add(&samples.iter());
        symbols.renew(&recording);
        let machine = machine(Path::new(""), &recording);
        Self::totals(recording, machine, &aggregator, query, symbols)
    }

    fn totals(
        recording: Recording,
        machine: Arc<str>,
        aggregator: &Aggregator,
        query: &Query,
        symbols: &mut Symbols,
    ) -> Result<Self> {
        let base = query.filter.group_by();
        let keys: Vec<Key> = query.tables.iter().flatten().copied().collect();
        let summing = ReportBuilder {
            locations: &ResolvedLocations::resolve(
                &aggregator.locations(),
                symbols,
                &query.filter,
                &keys,
            ),
            names: Names::of(&recording, &query.filter)?,
            machine,
            aggregator,
            slices: recording.slices(),
            cores: &recording.metadata.cores,
            query,
        };
        let sources = summing.sources(base, &recording);
        let mut total = Totals::default();
        for source in &sources {
            total.add(source.totals);
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
pub(crate) struct ByAddress {
    pub(crate) recording: Recording,
    pub(crate) symbols: Symbols,
    /// The sources with samples, those with the most first.
    pub(crate) sources: Vec<SourceTotals>,
    /// Each place with the index of its source in `sources`.
    pub(crate) all: Vec<(crate::aggregate::aggregator::CodeLocation, usize, Totals)>,
}

impl ByAddress {
    pub(crate) fn read(path: &Path, filter: Filter, symbol_path: &SymbolPath) -> Result<Self> {
        let query = Query { filter, ..Query::default() };
        let group_by = query.filter.group_by().with(&[Key::Address]);
        let (recording, aggregator) = aggregate_file(path, &query.filter, &[group_by])?;
        let mut symbols = Symbols::open(&recording, symbol_path);
        let summing = ReportBuilder {
            locations: &ResolvedLocations::resolve(
                &aggregator.locations(),
                &mut symbols,
                &query.filter,
                &[],
            ),
            names: Names::of(&recording, &query.filter)?,
            machine: machine(path, &recording),
            aggregator: &aggregator,
            slices: recording.slices(),
            cores: &recording.metadata.cores,
            query: &query,
        };
        let mut sources = summing.sources(group_by, &recording);
        sources.retain(|source| source.totals.samples != 0);
        sources.sort_by_key(|source| std::cmp::Reverse(source.totals.samples));
        let mut all = Vec::new();
        summing.counted(group_by, |entry, totals| {
            let name = summing.names.source(entry.source);
            let source = sources.iter().position(|source| source.name == name);
            all.extend(source.map(|source| (entry.location(), source, totals)));
        });
        Ok(Self { recording, symbols, sources, all })
    }
}

impl Filter {
    /// What tallies must distinguish for it; time is checked sample by sample.
    fn group_by(&self) -> GroupBy {
        GroupBy {
            location: !self.modules.is_empty() || !self.symbols.is_empty(),
            process: !self.processes.is_empty(),
            thread: false,
            processor: self.processors.is_some(),
        }
    }
}

impl GroupBy {
    /// The same, extended by what these keys need.
    fn with(self, keys: &[Key]) -> Self {
        let has = |key| keys.contains(&key);
        Self {
            location: self.location || keys.iter().any(|key| key.is_location()),
            process: self.process || has(Key::Process),
            thread: self.thread || has(Key::Thread),
            processor: self.processor || has(Key::Processor) || has(Key::Core),
        }
    }
}

/// Reads a recording and sums up its samples within the filter's span of time.
pub(crate) fn aggregate_file(
    path: &Path,
    filter: &Filter,
    group_by: &[GroupBy],
) -> Result<(Recording, Aggregator)> {
    let window = TimeRange::of(path, filter)?;
    let mut aggregator = Aggregator::new(group_by);
    let mut recording = Reader::open(path)?.samples(|samples| {
        aggregator.add(&samples.iter().filter(|sample| window.has(sample)));
    })?;
    if filter.time.is_none() {
        recording.seen_ns = aggregator.seen_ns(recording.metadata.timestamp_frequency);
    }
    Ok((recording, aggregator))
}

/// The span of a recording's time that counts.
pub(crate) struct TimeRange {
    /// The first time stamp, and the ticks per second.
    clock: (u64, u64),
    /// In nanoseconds since the first time stamp.
    range: Option<Range<u64>>,
}

impl TimeRange {
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
    process_ids: ProcessIds,
}

impl Names {
    pub(crate) fn of(recording: &Recording, filter: &Filter) -> Result<Self> {
        let names = recording.metadata.sources.iter().map(|source| source.name.as_str());
        for pattern in &filter.sources {
            if !names.clone().any(|name| matches_source(pattern, name)) {
                let all: Vec<&str> = names.collect();
                return Err(Error::usage(
                    format!("the recording has no source called `{pattern}`"),
                    format!("It has {}.", all.join(", ")),
                ));
            }
        }
        let passes = |name| {
            let patterns = &filter.sources;
            patterns.is_empty() || patterns.iter().any(|pattern| matches_source(pattern, name))
        };
        let processes = recording.processes.iter();
        let process_ids = &recording.process_ids;
        Ok(Self {
            sources: names.map(|name| (name.into(), passes(name))).collect(),
            processes: processes
                .filter(|process| !process.name.is_empty())
                .map(|process| (process_ids.of_process(process), process.name.as_str().into()))
                .collect(),
            process_ids: process_ids.clone(),
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
        let matches_source = |pattern: &Pattern| {
            pattern.matches(&id) || name.as_deref().is_some_and(|name| pattern.matches(name))
        };
        filter.processes.is_empty() || filter.processes.iter().any(matches_source)
    }

    /// The name of a process, if it is known.
    pub(crate) fn process(&self, number: u32) -> Option<Arc<str>> {
        self.processes.get(&self.process_ids.process(number)).cloned()
    }

    /// Its identifier.
    pub(crate) fn id(&self, number: u32) -> u32 {
        self.process_ids.id(number)
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
fn matches_source(pattern: &Pattern, source: &str) -> bool {
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
pub(crate) fn whole_time(slices: &BTreeMap<u16, Slices>, source: u16, totals: Totals) -> Totals {
    let Some(slices) = slices.get(&source) else {
        return totals;
    };
    let factor = slices.enabled as f64 / slices.running.max(1) as f64;
    Totals {
        events: slices.scale(totals.events),
        squares: (totals.squares as f64 * factor * factor) as u128,
        ..totals
    }
}

/// What rows are computed from.
struct ReportBuilder<'a> {
    names: Names,
    machine: Arc<str>,
    aggregator: &'a Aggregator,
    locations: &'a ResolvedLocations,
    query: &'a Query,
    /// The sources that were not on a counter all the time.
    slices: BTreeMap<u16, Slices>,
    cores: &'a [Cores],
}

impl ReportBuilder<'_> {
    /// Each source that passes, with samples or without.
    fn sources(&self, base: GroupBy, recording: &Recording) -> Vec<SourceTotals> {
        let mut sums: FxHashMap<u16, Totals> = FxHashMap::default();
        self.counted(base, |entry, totals| {
            sums.entry(entry.source).or_default().add(totals);
        });
        let named = 0..u16::try_from(self.names.sources.len()).unwrap_or(u16::MAX);
        for index in named.filter(|&index| self.names.source_passes(index)) {
            sums.entry(index).or_default();
        }
        let mut all: Vec<_> = sums.into_iter().collect();
        all.sort_unstable_by_key(|&(index, _)| index);
        let metadata = &recording.metadata.sources;
        let source_totals = |(index, totals): (u16, Totals)| SourceTotals {
            name: self.names.source(index),
            period: metadata.get(usize::from(index)).map(|source| source.period.used),
            totals,
            slices: self.slices.get(&index).cloned(),
            addressed: self.aggregator.addressed.get(&index).copied().unwrap_or(0),
        };
        all.into_iter().map(source_totals).collect()
    }

    /// Passes each entry that the filter accepts to `visit`, with events scaled to the whole time.
    fn counted(&self, group_by: GroupBy, mut visit: impl FnMut(GroupKey, Totals)) {
        self.aggregator.each(group_by, |entry, totals| {
            if self.counts(entry) {
                visit(entry, whole_time(&self.slices, entry.source, totals));
            }
        });
    }

    fn counts(&self, entry: GroupKey) -> bool {
        let filter = &self.query.filter;
        let processor = filter.processors.as_ref();
        let placed = !filter.modules.is_empty() || !filter.symbols.is_empty();
        self.names.source_passes(entry.source)
            && processor.is_none_or(|processors| processors.contains(&entry.processor))
            && self.names.process_passes(entry.process, filter)
            && (!placed || self.locations.passes(entry.location()))
    }

    fn table(&self, by: &[Key], group_by: GroupBy) -> Table {
        let mixed = by.contains(&Key::Source);
        let mut sections: FxHashMap<u16, FxHashMap<Numbers, Totals>> = FxHashMap::default();
        self.counted(group_by, |entry, totals| {
            let section = if mixed { 0 } else { entry.source };
            let rows = sections.entry(section).or_default();
            rows.entry(self.numbers(by, entry)).or_default().add(totals);
        });
        let mut sections: Vec<_> = sections.into_iter().collect();
        sections.sort_unstable_by_key(|&(source, _)| source);
        let sections = sections.into_iter().map(|(source, rows)| {
            let source = (!mixed).then(|| self.names.source(source));
            self.section(by, source, rows)
        });
        Table { by: by.to_vec(), sections: sections.collect() }
    }

    fn numbers(&self, by: &[Key], entry: GroupKey) -> Numbers {
        let mut numbers = Numbers::default();
        for (number, &key) in numbers.iter_mut().zip(by) {
            *number = match key {
                // A recording is of one machine.
                Key::Machine => 0,
                Key::Source => entry.source.into(),
                Key::Process => self.names.process_ids.process(entry.process),
                Key::Thread => entry.thread,
                Key::Processor => entry.processor,
                Key::Core => self.core(entry.processor),
                _ => self.locations.number(entry.location(), key),
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

    fn section(
        &self,
        by: &[Key],
        source: Option<Arc<str>>,
        sums: FxHashMap<Numbers, Totals>,
    ) -> SourceSection {
        let mut all = Totals::default();
        let mut sums: Vec<(Numbers, Totals)> = sums.into_iter().collect();
        for (_, totals) in &sums {
            all.add(*totals);
        }
        let source_of = |(numbers, _): &(Numbers, Totals)| {
            let at = by.iter().position(|&key| key == Key::Source)?;
            Some(self.names.source(*numbers.get(at)? as u16))
        };
        let mixed = differ(sums.iter().map(source_of));
        let keep = self.query.rows.unwrap_or(usize::MAX).min(sums.len());
        let named = |(numbers, totals): &(Numbers, Totals)| GroupTotals {
            values: self.values(by, *numbers),
            totals: *totals,
        };
        let mut rows: Vec<GroupTotals>;
        if self.query.sort == Sort::Name {
            rows = sums.iter().map(named).collect();
            rows.sort_by(|a, b| a.values.cmp(&b.values));
        } else {
            let order = |totals: &Totals| match self.query.sort {
                Sort::Events => (totals.events, totals.samples),
                _ => (totals.samples, totals.events),
            };
            sums.sort_unstable_by(|a, b| order(&b.1).cmp(&order(&a.1)).then(a.0.cmp(&b.0)));
            rows = Self::in_order(&sums, keep, order, named);
        }
        let mut more = all;
        rows.truncate(keep);
        for row in &rows {
            more.subtract(row.totals);
        }
        SourceSection { source, mixed, all, more: (sums.len() - rows.len(), more), rows }
    }

    /// The rows to keep and those that tie with the last of them; equal ones are sorted by name.
    fn in_order(
        sums: &[(Numbers, Totals)],
        keep: usize,
        order: impl Fn(&Totals) -> (u64, u64),
        named: impl Fn(&(Numbers, Totals)) -> GroupTotals,
    ) -> Vec<GroupTotals> {
        let Some((_, last)) = keep.checked_sub(1).and_then(|last| sums.get(last)) else {
            return Vec::new();
        };
        let ties = sums.partition_point(|(_, totals)| order(totals) >= order(last));
        let mut rows: Vec<GroupTotals> = sums.iter().take(ties).map(named).collect();
        rows.sort_by(|a, b| {
            let by_sum = order(&b.totals).cmp(&order(&a.totals));
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
            _ => self.locations.value(key, number),
        });
        values.collect()
    }
}

/// Whether these are not all alike.
fn differ<T: PartialEq>(mut all: impl Iterator<Item = T>) -> bool {
    let first = all.next();
    all.any(|other| first.as_ref() != Some(&other))
}

#[cfg(test)]
mod tests;
