//! Reports on a recording: samples and the events they stand for, summed up by any keys.
//!
//! A first pass over the file sums up. The result has one entry for each address rather than for
//! each sample; its entries are looked up in the symbols and put into tables. Samples of different
//! sources are never added up unless `source` is one of the keys: cycles and cache misses are not
//! comparable.

mod call_tree;
mod combined;
pub mod events;
pub mod metric;
pub mod skid;

use crate::aggregate::aggregator::{Aggregator, GroupBy, GroupKey, Groups, add_up, without_stacks};
use crate::aggregate::filter::Filter;
use crate::aggregate::filtered::TimeRange;
use crate::aggregate::key::{Fields, Key, KeyOf, KeyRow, Value, fields, has_totals};
use crate::aggregate::locations::{ResolvedLocations, StackFunction};
use crate::aggregate::processor_time::ProcessorTime;
use crate::aggregate::share::Share;
use crate::aggregate::{Aggregate, aggregate, aggregate_files};
#[cfg(doc)]
use crate::file::Live;
use crate::file::{Recording, open_waits};
use crate::symbols::{Opened, SymbolPath, Symbols};
use halprof_measure::Result;
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::Sample;
use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use crate::aggregate::source_totals::SourceTotals;
use crate::aggregate::totals::Totals;
pub use call_tree::{Call, CallTree};
pub use metric::RowMetric;

/// A query on a recording.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The keys of each table.
    pub tables: Vec<Vec<Key>>,
    /// Whether the call tree of each source is made.
    pub call_tree: bool,
    /// Which samples count.
    pub filter: Filter,
    pub sort: Sort,
    /// How many rows each part of a table keeps; `None`: all.
    pub rows: Option<usize>,
}

impl Query {
    /// What samples must be grouped by for it.
    fn group_by(&self) -> Vec<GroupBy> {
        let base = self.filter.group_by();
        let tables = self.tables.iter().map(|by| base.with(by));
        let call_tree = self.call_tree.then(|| base.with(&CallTree::KEYS));
        tables.chain(call_tree).chain([base]).collect()
    }

    /// The files of a session, summed up, and their symbols.
    fn aggregate(
        &self,
        session: &[&Path],
        symbol_path: &SymbolPath,
    ) -> Result<(Aggregate, Symbols)> {
        let (recording, groups) = aggregate_files(session, &self.filter, &self.group_by())?;
        let mut symbols = Symbols::open(&recording, symbol_path);
        Ok((self.aggregate_of(recording, groups, &mut symbols)?, symbols))
    }

    fn aggregate_of(
        &self,
        recording: Recording,
        groups: Groups,
        symbols: &mut Symbols,
    ) -> Result<Aggregate> {
        let mut keys: Vec<Key> = self.tables.iter().flatten().copied().collect();
        if self.call_tree {
            keys.extend(CallTree::RESOLVED);
        }
        Aggregate::new(recording, groups, &self.filter, &keys, symbols)
    }

    /// The same query of all sources.
    fn of_all_sources(&self) -> Self {
        let filter = Filter { sources: Vec::new(), ..self.filter.clone() };
        Self { filter, ..self.clone() }
    }

    /// Whether it asks for callers or totals that only call stacks can give. Inlined functions have
    /// callers even without call stacks; `has_inlined` says whether there are any.
    fn lacks_stacks(&self, has_inlined: bool) -> bool {
        let by_inline = |by: &[Key]| has_inlined && by.contains(&Key::Inline);
        let lacks_callers = |by: &Vec<Key>| by.contains(&Key::Caller) && !by_inline(by);
        self.call_tree && !has_inlined
            || self.sort == Sort::Total && !self.tables.iter().any(|by| by_inline(by))
            || self.tables.iter().any(lacks_callers)
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
    /// The most events in its code or in what that called first.
    Total,
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
    /// The call tree of each source, if that was asked for.
    pub call_trees: Vec<CallTree>,
    /// The modules whose symbols were needed.
    pub symbols: Vec<Opened>,
    /// Whether any function was inlined. Always false if neither a key nor the call tree needed that.
    pub has_inlined: bool,
}

/// Samples by one or more keys.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Table {
    /// The keys, in the order of the values of each row.
    pub by: Vec<Key>,
    /// One part for each source; a single part if `source` is a key.
    #[serde(rename = "parts")]
    pub sections: Vec<SourceSection>,
}

/// The samples of one source; if `source` is a key, those of all.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SourceSection {
    /// Their source; null if `source` is a key.
    pub source: Option<Arc<str>>,
    /// All of them.
    pub samples: u64,
    /// All their events; null if they are of several sources, whose events cannot be added up.
    pub events: Option<u64>,
    /// The processor time of the events; absent if their source does not sample time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// One row for each combination of values.
    pub rows: Vec<GroupTotals>,
    /// The sum over all of them.
    #[serde(skip)]
    pub all: Totals,
    /// How many rows were omitted, and their samples.
    #[serde(skip)]
    pub more: (usize, Totals),
}

impl SourceSection {
    /// The rows that a query keeps, in its order; equal ones are sorted by name. `values` is called
    /// only for rows that may be kept: a table can have as many rows as there are addresses.
    fn of_query<K>(
        source: Option<Arc<str>>,
        mixed: bool,
        rows: &[(K, RowTotals)],
        values: impl Fn(&K) -> Vec<Value>,
        query: &Query,
    ) -> Self {
        let limit = query.rows.unwrap_or(usize::MAX);
        let order = |row: &RowTotals| Reverse(row.order(query.sort));
        let mut kept: Vec<(&K, &RowTotals)> = rows.iter().map(|(key, row)| (key, row)).collect();
        let mut smaller = Vec::new();
        if (1..kept.len()).contains(&limit) {
            let (_, &mut (_, last), _) =
                kept.select_nth_unstable_by_key(limit - 1, |(_, row)| order(row));
            // Rows as large as the last are kept too until their names decide which of them stay.
            (kept, smaller) = kept.into_iter().partition(|(_, row)| order(row) <= order(last));
        }
        let named = kept.into_iter().map(|(key, row)| (values(key), row));
        let mut named: Vec<(Vec<Value>, &RowTotals)> = named.collect();
        named.sort_unstable_by(|(a, of_a), (b, of_b)| {
            order(of_a).cmp(&order(of_b)).then_with(|| a.cmp(b))
        });
        let equal = named.split_off(limit.min(named.len()));
        let more = smaller.len() + equal.len();
        let smaller = smaller.into_iter().map(|(_, row)| row);
        let omitted = sum(smaller.chain(equal.into_iter().map(|(_, row)| row)));
        let (all, more) = (sum(rows.iter().map(|(_, row)| row)), (more, omitted));
        let rows = named.into_iter();
        let rows = rows.map(|(values, row)| GroupTotals::new(values, row.own, row.total));
        Self::new(source, mixed, (all, rows.collect(), more))
    }

    /// The rows with the share of each, unless they are of several sources: `mixed`.
    pub fn new(
        source: Option<Arc<str>>,
        mixed: bool,
        (all, mut rows, more): (Totals, Vec<GroupTotals>, (usize, Totals)),
    ) -> Self {
        if !mixed {
            for row in &mut rows {
                row.share = Some(Share::weighted(row.totals, all));
            }
        }
        let events = (!mixed).then_some(all.events);
        Self { source, samples: all.samples, events, seconds: None, rows, all, more }
    }

    /// Whether its rows are of several sources: cycles and misses are not parts of one whole.
    pub const fn is_mixed(&self) -> bool {
        self.events.is_none()
    }
}

/// One combination of values.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct GroupTotals {
    /// The values, in the order of the table's keys.
    #[serde(flatten, serialize_with = "fields")]
    #[schemars(with = "Fields")]
    pub values: Vec<Value>,
    /// Its samples.
    #[serde(flatten)]
    pub totals: Totals,
    /// The processor time of its events; absent if its source does not sample time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Where there are call stacks, the same with what its code called.
    #[serde(flatten)]
    pub with_callees: Option<WithCallees>,
    /// Its share of the events; null if the rows are of several sources.
    pub share: Option<Share>,
    /// The metrics that were requested; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<RowMetric>,
}

/// The events of code and of what it called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct WithCallees {
    /// Events in the code itself.
    #[serde(rename = "self")]
    pub own: u64,
    /// Events with the code anywhere in their stacks.
    pub total: u64,
}

impl GroupTotals {
    /// A row whose share is not known yet.
    pub fn new(values: Vec<Value>, totals: Totals, total: Option<u64>) -> Self {
        let with_callees = total.map(|total| WithCallees { own: totals.events, total });
        Self { values, totals, seconds: None, with_callees, share: None, metrics: Vec::new() }
    }

    fn sums(&self) -> RowTotals {
        RowTotals { own: self.totals, total: self.with_callees.map(|both| both.total) }
    }
}

/// The samples of a row, and the events of all samples with its code in their stacks.
#[derive(Clone, Copy, Debug, Default)]
struct RowTotals {
    own: Totals,
    total: Option<u64>,
}

impl RowTotals {
    fn add(&mut self, other: Self) {
        self.own.add(other.own);
        if let Some(more) = other.total {
            self.total = Some(self.total.unwrap_or(0).saturating_add(more));
        }
    }

    /// What `sort` compares first and second; the largest row comes first.
    fn order(&self, sort: Sort) -> (u64, u64) {
        let Totals { samples, events, .. } = self.own;
        match sort {
            Sort::Total => (self.total.unwrap_or(events), events),
            Sort::Samples => (samples, events),
            Sort::Events => (events, samples),
            Sort::Name => (0, 0),
        }
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a RowTotals>) -> Totals {
    let mut sum = Totals::default();
    rows.for_each(|row| sum.add(row.own));
    sum
}

/// The keys of a row as numbers; at most all of [`Key::ALL`].
type Numbers = [u64; Key::ALL.len()];

impl Report {
    /// Reads and sums up a recording.
    pub fn read(path: &Path, query: &Query, symbol_path: &SymbolPath) -> Result<Self> {
        Self::read_session(&[path], query, symbol_path)
    }

    /// Reads and sums up the files of one of [`sessions`](crate::file::sessions).
    pub fn read_session(
        session: &[&Path],
        query: &Query,
        symbol_path: &SymbolPath,
    ) -> Result<Self> {
        let (aggregate, symbols) = query.aggregate(session, symbol_path)?;
        Ok(Self::of(aggregate, query, &symbols))
    }

    /// Reads and sums up the files of a session once for `query`, and for the same query of all sources.
    fn read_with_all_sources(
        session: &[&Path],
        query: &Query,
        symbol_path: &SymbolPath,
    ) -> Result<[Self; 2]> {
        let (aggregate, symbols) = query.aggregate(session, symbol_path)?;
        let of_all = query.of_all_sources();
        let all = Self::of(aggregate.with_sources_of(&of_all.filter)?, &of_all, &symbols);
        Ok([Self::of(aggregate, query, &symbols), all])
    }

    /// Sums up the waits of a trace, as samples of where each thread went on, with the nanoseconds that
    /// it had waited for their period. The filter has no span of time.
    pub(crate) fn read_waits(path: &Path, query: &Query, symbol_path: &SymbolPath) -> Result<Self> {
        let mut waits = open_waits(path)?;
        let (recording, groups) =
            aggregate(waits.as_mut(), &TimeRange::default(), &query.group_by(), |_| {})?;
        let mut symbols = Symbols::open(&recording, symbol_path);
        let aggregate = query.aggregate_of(recording, groups, &mut symbols)?;
        Ok(Self::of(aggregate, query, &symbols))
    }

    /// Sums up the samples that [`Live::take`] gave, within any span of time. The files that `symbols`
    /// has open stay open.
    pub fn live(
        (recording, samples): (Recording, Vec<Sample>),
        query: &Query,
        symbols: &mut Symbols,
    ) -> Result<Self> {
        let mut aggregator = Aggregator::new(&query.group_by());
        aggregator.add(without_stacks(&samples));
        symbols.renew(&recording);
        let aggregate = query.aggregate_of(recording, aggregator.finish(), symbols)?;
        Ok(Self::of(aggregate, query, symbols))
    }

    fn of(aggregate: Aggregate, query: &Query, symbols: &Symbols) -> Self {
        let base = query.filter.group_by();
        let sources = aggregate.sources(base);
        let builder = ReportBuilder { aggregate: &aggregate, sources: &sources, query };
        let tables = query.tables.iter().map(|by| builder.table(by, base.with(by))).collect();
        let call_trees = if query.call_tree {
            builder.call_trees(base.with(&CallTree::KEYS))
        } else {
            Vec::new()
        };
        let mut total = Totals::default();
        for source in &sources {
            total.add(source.totals);
        }
        let located = query.tables.iter().find(|by| base.with(by).location);
        let symbols = symbols.opened_by(|add| {
            if let Some(by) = located {
                aggregate.each(base.with(by), None, |group, totals| {
                    add(group.location(), totals.samples);
                });
            }
        });
        let has_inlined = aggregate.locations.has_inlined();
        let recording = aggregate.recording;
        let report = Self { recording, sources, total, tables, call_trees, symbols, has_inlined };
        report.with_times()
    }

    /// Says how much processor time the events of rows are.
    fn with_times(mut self) -> Self {
        let mut times: FxHashMap<Arc<str>, Option<ProcessorTime>> = FxHashMap::default();
        for source in &self.sources {
            times.entry(Arc::clone(&source.name)).or_insert(source.time);
        }
        let time = |name: &Arc<str>| times.get(name).copied().flatten();
        for section in self.tables.iter_mut().flat_map(|table| &mut table.sections) {
            let of_all = section.source.as_ref().and_then(time);
            section.seconds = of_all.map(|time| time.seconds(section.all.events));
            for row in &mut section.rows {
                let of_row = row.values.iter().find_map(|value| match value {
                    Value::Source(name) => time(name),
                    _ => None,
                });
                let seconds = |time: ProcessorTime| time.seconds(row.totals.events);
                row.seconds = of_all.or(of_row).map(seconds);
            }
        }
        for tree in &mut self.call_trees {
            tree.time = time(&tree.source);
        }
        self
    }
}

/// Makes tables of an aggregate.
struct ReportBuilder<'a> {
    aggregate: &'a Aggregate,
    sources: &'a [SourceTotals],
    query: &'a Query,
}

impl ReportBuilder<'_> {
    fn table(&self, by: &[Key], group_by: GroupBy) -> Table {
        let section = |source: Option<u16>| {
            let rows = self.rows(by, group_by, source);
            let at = by.iter().position(|&key| key == Key::Source);
            let mixed = at.is_some_and(|at| differ(rows.iter().map(|(row, _)| row.get(at))));
            let source = source.map(|source| self.aggregate.filter.source(source));
            let values = |numbers: &Numbers| self.values(by, numbers);
            (!rows.is_empty())
                .then(|| SourceSection::of_query(source, mixed, &rows, values, self.query))
        };
        // One source after the other, so that only the rows of one are in memory.
        let sections = if by.contains(&Key::Source) {
            section(None).into_iter().collect()
        } else {
            self.sources.iter().filter_map(|source| section(Some(source.index))).collect()
        };
        Table { by: by.to_vec(), sections }
    }

    /// The rows of one source, or of all. Groups come in the order of locations, so those of one row
    /// mostly follow each other, and the list is nearly sorted: 200,000 rows take a quarter of the time
    /// that they take in a map.
    fn rows(
        &self,
        by: &[Key],
        group_by: GroupBy,
        source: Option<u16>,
    ) -> Vec<(Numbers, RowTotals)> {
        let Aggregate { recording, locations, .. } = self.aggregate;
        let key_rows: Vec<&KeyRow> = by.iter().map(|key| key.row()).collect();
        let by_inline = by.contains(&Key::Inline);
        let has_callers = !recording.stacks.is_empty() || by_inline && locations.has_inlined();
        let with_totals = has_totals(by) && has_callers;
        let mut rows: Vec<(Numbers, RowTotals)> = Vec::new();
        let mut near = 0;
        let mut of_callers: FxHashMap<Numbers, u64> = FxHashMap::default();
        let mut counted = FxHashSet::default();
        self.aggregate.each(group_by, source, |entry, totals| {
            let code = locations.get_near(entry.location(), &mut near);
            let callers = entry.callers(&recording.stacks).map(|caller| locations.get(caller));
            let stack = std::iter::once(code).chain(callers);
            // Rows are of functions that exist, unless the innermost function of the source is a key.
            let mut stack = stack.flat_map(|code| locations.functions(code, by_inline));
            let Some(innermost) = stack.next() else { return };
            let mut caller = stack.next();
            let numbers = self.numbers(&key_rows, entry, innermost, caller);
            let row = RowTotals { own: totals, total: with_totals.then_some(totals.events) };
            match rows.last_mut() {
                Some((last, sum)) if *last == numbers => sum.add(row),
                _ => rows.push((numbers, row)),
            }
            if !with_totals {
                return;
            }
            counted.clear();
            counted.insert(numbers);
            while let Some(function) = caller {
                caller = stack.next();
                // The outermost frame has no caller, and so no row.
                if caller.is_none() && by.contains(&Key::Caller) {
                    break;
                }
                let numbers = self.numbers(&key_rows, entry, function, caller);
                // Where code called itself, the sample counts once.
                if counted.insert(numbers) {
                    let total = of_callers.entry(numbers).or_default();
                    *total = total.saturating_add(totals.events);
                }
            }
        });
        let of_callers = of_callers.into_iter();
        rows.extend(of_callers.map(|(numbers, total)| {
            (numbers, RowTotals { own: Totals::default(), total: Some(total) })
        }));
        add_up(&mut rows, RowTotals::add);
        rows
    }

    /// The row of a sample's frame with this code.
    fn numbers(
        &self,
        by: &[&KeyRow],
        entry: GroupKey,
        function: StackFunction,
        caller: Option<StackFunction>,
    ) -> Numbers {
        let mut numbers = Numbers::default();
        for (number, key) in numbers.iter_mut().zip(by) {
            *number = match key.of {
                KeyOf::Group { number, .. } => number(&self.aggregate.recording, entry),
                KeyOf::Code { .. } => function.code.number(key.key).into(),
                KeyOf::Caller => ResolvedLocations::caller_number(caller).into(),
            };
        }
        numbers
    }

    /// The value of a key that is a property of groups.
    fn value_of_group(&self, key: Key, group: GroupKey) -> Option<Value> {
        let Aggregate { recording, filter, .. } = self.aggregate;
        match key.row().of {
            KeyOf::Group { number, value } => {
                Some(value(recording, filter, number(recording, group)))
            }
            KeyOf::Code { .. } | KeyOf::Caller => None,
        }
    }

    fn values(&self, by: &[Key], numbers: &Numbers) -> Vec<Value> {
        let Aggregate { recording, filter, locations, .. } = self.aggregate;
        let values = by.iter().zip(*numbers).filter_map(|(&key, number)| match key.row().of {
            KeyOf::Group { value, .. } => Some(value(recording, filter, number)),
            KeyOf::Code { .. } | KeyOf::Caller => locations.value(key, number as u32),
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
