//! Several recordings as one report: each is summed up by itself, with its own modules and symbols,
//! and rows with the same values are merged.

use super::{CallTree, Query, Report, RowTotals, SourceSection, Table, Value, differ};
use crate::aggregate::aggregator::add_up;
use crate::aggregate::source_totals::merge;
use crate::aggregate::totals::Totals;
use crate::file::{ProcessIds, Recording, StackCounts, Statistics};
use crate::symbols::SymbolPath;
use halprof_measure::{Error, Result};
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
            return Self::read(path.as_ref(), query, symbol_path)?.checked(query);
        }
        // A row that one recording would leave out may be the largest in the sum.
        let unlimited = Query { rows: None, ..query.clone() };
        let mut all = Vec::new();
        for path in paths {
            all.push(Self::read(path.as_ref(), &unlimited, symbol_path)?);
        }
        combined(all, query).ok_or_else(no_recording)?.checked(query)
    }

    /// # Errors
    /// Callers are asked for, and there are no call stacks.
    fn checked(self, query: &Query) -> Result<Self> {
        if query.needs_stacks() && self.recording.stack_counts().is_none() {
            return Err(Error::unavailable(
                "the recording has no call stacks",
                "Windows' own tracing records them (an .etl); samples of the driver have none.",
            ));
        }
        Ok(self)
    }
}

pub(crate) fn no_recording() -> Error {
    Error::usage("no recording is named", "Name at least one recording.")
}

fn combined(mut reports: Vec<Report>, query: &Query) -> Option<Report> {
    let tables = (0..query.tables.len()).map(|at| {
        let tables = reports.iter().filter_map(|report| report.tables.get(at));
        table(&tables.collect::<Vec<_>>(), query)
    });
    let tables = tables.collect::<Option<Vec<Table>>>()?;
    let (mut sources, mut total) = (Vec::new(), Totals::default());
    let mut call_trees = Vec::new();
    for report in &mut reports {
        CallTree::merge(&mut call_trees, std::mem::take(&mut report.call_trees));
        merge(&mut sources, &report.sources);
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
        call_trees,
        symbols,
    })
}

fn table(tables: &[&Table], query: &Query) -> Option<Table> {
    let by = tables.first()?.by.clone();
    let mut sections: Vec<(Option<Arc<str>>, Vec<_>)> = Vec::new();
    for section in tables.iter().flat_map(|table| &table.sections) {
        let at = sections.iter().position(|(source, _)| *source == section.source);
        let at = at.unwrap_or_else(|| {
            sections.push((section.source.clone(), Vec::new()));
            sections.len() - 1
        });
        let rows = sections.get_mut(at).map(|(_, rows)| rows)?;
        rows.extend(section.rows.iter().map(|row| (row.values.clone(), row.sums())));
    }
    let sections = sections.into_iter().map(|(source, mut rows)| {
        add_up(&mut rows, RowTotals::add);
        let is_source = |value: &&Value| matches!(value, Value::Source(_));
        let mixed = differ(rows.iter().map(|(values, _)| values.iter().find(is_source)));
        SourceSection::of_query(source, mixed, &rows, Vec::clone, query)
    });
    Some(Table { by, sections: sections.collect() })
}

impl Recording {
    /// Several recordings merged: sums, and what is the same in all; `None` if there are none.
    pub(crate) fn combined(recordings: Vec<Self>) -> Option<Self> {
        let count = recordings.len();
        let damaged_parts = recordings.iter().filter_map(|one| {
            let damaged = one.damaged()?;
            Some(format!("{}: {damaged}", one.file.display()))
        });
        let damaged_parts = damaged_parts.collect();
        let stacks = StackCounts::of_all(&recordings);
        let mut all = recordings.into_iter();
        let mut totals = all.next()?;
        if count == 1 {
            return Some(totals);
        }
        // Threads of several machines are not one list.
        totals.counts = None;
        for one in all {
            let in_step = one.in_step.into_iter();
            let new: Vec<_> = in_step.filter(|name| !totals.in_step.contains(name)).collect();
            totals.in_step.extend(new);
            let (own, other) = (&mut totals.metadata, one.metadata);
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
            totals.samples = totals.samples.saturating_add(one.samples);
            totals.branches = totals.branches.saturating_add(one.branches);
            let statistics = totals.statistics.get_or_insert_default();
            add(statistics, one.statistics.unwrap_or_default());
            // One incomplete recording makes the sum incomplete.
            totals.damage = totals.damage.or(one.damage);
            totals.ending = totals.ending.zip(one.ending).map(|(mut own, other)| {
                own.samples = own.samples.saturating_add(other.samples);
                own.interrupted |= other.interrupted;
                own
            });
            for (tag, number) in one.skipped {
                *totals.skipped.entry(tag).or_default() += number;
            }
        }
        totals.damaged_parts = damaged_parts;
        totals.statistics.get_or_insert_default().stacks = stacks;
        totals.metadata.machine = format!("{count} recordings: {}", totals.metadata.machine);
        totals.processes.clear();
        totals.modules.clear();
        totals.process_ids = ProcessIds::default();
        totals.events.clear();
        Some(totals)
    }
}

fn add(totals: &mut Statistics, other: Statistics) {
    totals.elapsed_ns = totals.elapsed_ns.max(other.elapsed_ns);
    totals.generated = totals.generated.saturating_add(other.generated);
    totals.spurious = totals.spurious.saturating_add(other.spurious);
    totals.throttled = totals.throttled.saturating_add(other.throttled);
    totals.longest_period = totals.longest_period.max(other.longest_period);
    totals.handler_ticks = totals.handler_ticks.saturating_add(other.handler_ticks);
    totals.events_lost = totals.events_lost.saturating_add(other.events_lost);
    totals.idle_samples = totals.idle_samples.saturating_add(other.idle_samples);
    totals.ended = totals.ended.take().or(other.ended);
    totals.slices.clear();
    for (lost, more) in
        [(&mut totals.lost, other.lost), (&mut totals.lost_events, other.lost_events)]
    {
        for (cause, number) in more {
            let all = lost.entry(cause).or_default();
            *all = all.saturating_add(number);
        }
    }
}
