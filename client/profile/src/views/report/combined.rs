//! Several recordings as one report: each is summed up by itself, with its own modules and symbols,
//! and rows with the same values are merged.

use super::{OfSource, Part, Query, Report, Row, Sort, Sum, Table, Value, several};
use crate::file::{Recording, Spaces, Statistics, Turns};
use crate::symbols::SymbolPath;
use halprof_measure::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

impl Report {
    /// Reads and sums up several recordings; a single one as in [`Report::read`].
    pub fn read_all<P: AsRef<Path>>(
        paths: &[P],
        query: &Query,
        symbol_path: &SymbolPath,
    ) -> Result<Self> {
        if let [path] = paths {
            return Self::read(path.as_ref(), query, symbol_path);
        }
        // A row that one recording would leave out may be the largest in the sum.
        let whole = Query { rows: None, ..query.clone() };
        let mut all = Vec::new();
        for path in paths {
            all.push(Self::read(path.as_ref(), &whole, symbol_path)?);
        }
        combined(all, query).ok_or_else(no_recording)
    }
}

/// Sums by the values of rows.
type Rows = BTreeMap<Vec<Value>, Sum>;

pub(crate) fn no_recording() -> Error {
    Error::usage("no recording is named", "`halprof record -o FILE` makes one.")
}

fn combined(reports: Vec<Report>, query: &Query) -> Option<Report> {
    let tables = (0..query.tables.len()).map(|at| {
        let tables = reports.iter().filter_map(|report| report.tables.get(at));
        table(&tables.collect::<Vec<_>>(), query)
    });
    let tables = tables.collect::<Option<Vec<Table>>>()?;
    let sources = sources(reports.iter().flat_map(|report| &report.sources));
    let mut total = Sum::default();
    for report in &reports {
        total.add(report.total);
    }
    let mut symbols = Vec::new();
    for opened in reports.iter().flat_map(|report| &report.symbols) {
        if !symbols.contains(opened) {
            symbols.push(opened.clone());
        }
    }
    let recordings = reports.into_iter().map(|report| report.recording);
    Some(Report {
        recording: Recording::combined(recordings.collect())?,
        sources,
        total,
        tables,
        symbols,
    })
}

/// The sources by name, in order of their first occurrence.
pub(crate) fn sources<'a>(all: impl Iterator<Item = &'a OfSource>) -> Vec<OfSource> {
    let mut sources: Vec<OfSource> = Vec::new();
    for one in all {
        let Some(same) = sources.iter_mut().find(|source| source.name == one.name) else {
            sources.push(one.clone());
            continue;
        };
        same.turns = turns(same.turns.as_ref(), one.turns.as_ref());
        same.sum.add(one.sum);
        same.addressed += one.addressed;
        same.period = same.period.filter(|_| same.period == one.period);
    }
    sources
}

/// How long a source was on a counter on all machines together. The largest error bound is used for
/// the sum; if any bound is unknown, so is that of the sum.
pub(crate) fn turns(one: Option<&Turns>, other: Option<&Turns>) -> Option<Turns> {
    let first = one.or(other)?;
    let ticks = |of: fn(&Turns) -> u64| {
        let each = [one, other].into_iter().flatten().map(of);
        each.fold(0, u64::saturating_add)
    };
    let bounds: Option<Vec<u64>> =
        [one, other].into_iter().flatten().map(|turns| turns.error_ppm).collect();
    Some(Turns {
        source: first.source,
        enabled: ticks(|turns| turns.enabled),
        running: ticks(|turns| turns.running),
        error_ppm: bounds.and_then(|bounds| bounds.into_iter().max()),
        processors: [one, other]
            .into_iter()
            .flatten()
            .fold(0, |sum, turns| sum.saturating_add(turns.processors)),
    })
}

fn table(tables: &[&Table], query: &Query) -> Option<Table> {
    let by = tables.first()?.by.clone();
    let mut parts: Vec<(Option<Arc<str>>, Rows)> = Vec::new();
    for part in tables.iter().flat_map(|table| &table.parts) {
        let at = parts.iter().position(|(source, _)| *source == part.source);
        let at = at.unwrap_or_else(|| {
            parts.push((part.source.clone(), BTreeMap::new()));
            parts.len() - 1
        });
        let rows = parts.get_mut(at).map(|(_, rows)| rows)?;
        for row in &part.rows {
            rows.entry(row.values.clone()).or_default().add(row.sum);
        }
    }
    let parts = parts.into_iter();
    Some(Table { by, parts: parts.map(|(source, rows)| part(source, rows, query)).collect() })
}

fn part(source: Option<Arc<str>>, rows: Rows, query: &Query) -> Part {
    let mut all = Sum::default();
    let mut rows: Vec<Row> = rows.into_iter().map(|(values, sum)| Row { values, sum }).collect();
    for row in &rows {
        all.add(row.sum);
    }
    let source_of = |row: &Row| {
        let is_source = |value: &&Value| matches!(value, Value::Source(_));
        row.values.iter().find(is_source).cloned()
    };
    let mixed = several(rows.iter().map(source_of));
    // They come sorted by name, and the sort is stable.
    match query.sort {
        Sort::Samples => {
            rows.sort_by_key(|row| std::cmp::Reverse((row.sum.samples, row.sum.events)));
        }
        Sort::Events => {
            rows.sort_by_key(|row| std::cmp::Reverse((row.sum.events, row.sum.samples)));
        }
        Sort::Name => {}
    }
    let keep = query.rows.unwrap_or(usize::MAX).min(rows.len());
    let mut more = Sum::default();
    for row in rows.iter().skip(keep) {
        more.add(row.sum);
    }
    let left_out = rows.len() - keep;
    rows.truncate(keep);
    Part { source, mixed, all, rows, more: (left_out, more) }
}

impl Recording {
    /// Several recordings merged: sums, and what is the same in all; `None` if there are none.
    pub(crate) fn combined(recordings: Vec<Self>) -> Option<Self> {
        let count = recordings.len();
        let flaws = recordings.iter().filter_map(|one| {
            let flaw = one.flaw()?;
            Some(format!("{}: {flaw}", one.file.display()))
        });
        let flaws = flaws.collect();
        let mut all = recordings.into_iter();
        let mut sum = all.next()?;
        if count == 1 {
            return Some(sum);
        }
        for one in all {
            let (own, other) = (&mut sum.metadata, one.metadata);
            own.modelled |= other.modelled;
            own.processors = own.processors.saturating_add(other.processors);
            own.began = own.began.min(other.began);
            if own.interface != other.interface {
                own.interface = String::new();
            }
            if own.command != other.command {
                own.command = Vec::new();
            }
            if own.halprof != other.halprof {
                "of several versions".clone_into(&mut own.halprof);
            }
            if own.machine != other.machine {
                "different machines".clone_into(&mut own.machine);
            }
            own.sources.extend(other.sources);
            sum.samples = sum.samples.saturating_add(one.samples);
            sum.branches = sum.branches.saturating_add(one.branches);
            let statistics = sum.statistics.get_or_insert_default();
            add(statistics, one.statistics.unwrap_or_default());
            // One incomplete recording makes the sum incomplete.
            sum.damage = sum.damage.or(one.damage);
            sum.ending = sum.ending.zip(one.ending).map(|(mut own, other)| {
                own.samples = own.samples.saturating_add(other.samples);
                own.interrupted |= other.interrupted;
                own
            });
            for (tag, number) in one.skipped {
                *sum.skipped.entry(tag).or_default() += number;
            }
        }
        sum.flaws = flaws;
        sum.metadata.machine = format!("{count} recordings: {}", sum.metadata.machine);
        sum.processes.clear();
        sum.modules.clear();
        sum.spaces = Spaces::default();
        sum.events.clear();
        Some(sum)
    }
}

fn add(sum: &mut Statistics, other: Statistics) {
    sum.elapsed_ns = sum.elapsed_ns.max(other.elapsed_ns);
    sum.generated = sum.generated.saturating_add(other.generated);
    sum.spurious = sum.spurious.saturating_add(other.spurious);
    sum.throttled = sum.throttled.saturating_add(other.throttled);
    sum.longest_period = sum.longest_period.max(other.longest_period);
    sum.handler_ticks = sum.handler_ticks.saturating_add(other.handler_ticks);
    sum.events_lost = sum.events_lost.saturating_add(other.events_lost);
    sum.ended = sum.ended.take().or(other.ended);
    sum.turns.clear();
    for (lost, more) in [(&mut sum.lost, other.lost), (&mut sum.lost_events, other.lost_events)] {
        for (cause, number) in more {
            let all = lost.entry(cause).or_default();
            *all = all.saturating_add(number);
        }
    }
}
