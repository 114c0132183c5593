//! Several recordings as one report: each is summed up by itself, with its own modules and symbols,
//! and rows with the same values are merged.

use super::{CallTree, Query, Report, RowTotals, SourceSection, Table, Value, differ};
use crate::aggregate::aggregator::add_up;
use crate::aggregate::source_totals::merge;
use crate::aggregate::totals::Totals;
use crate::file::combined::no_recording;
use crate::file::{Recording, sessions};
use crate::symbols::{Opened, SymbolPath};
use halprof_measure::{Error, Result};
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::path::Path;
use std::sync::Arc;

impl Report {
    /// Reads and sums up several recordings; a single one, or files of one session, as in
    /// [`Report::read_session`].
    pub fn read_all<P: AsRef<Path>>(
        paths: &[P],
        query: &Query,
        symbol_path: &SymbolPath,
    ) -> Result<Self> {
        let sessions = sessions(paths)?;
        if let [session] = sessions.as_slice() {
            return Self::read_session(session, query, symbol_path)?.checked(query);
        }
        // A row that one recording would leave out may be the largest in the sum.
        let unlimited = Query { rows: None, ..query.clone() };
        let mut all = Vec::new();
        for session in sessions {
            all.push(Self::read_session(&session, &unlimited, symbol_path)?);
        }
        combined(all, query).ok_or_else(no_recording)?.checked(query)
    }

    /// Reads the files once for two reports: that of [`Self::read_all`], and that of the same query without
    /// its filter of sources, which is `None` if the query has no such filter.
    pub fn read_all_with_all_sources<P: AsRef<Path>>(
        paths: &[P],
        query: &Query,
        symbol_path: &SymbolPath,
    ) -> Result<(Self, Option<Self>)> {
        if query.filter.sources.is_empty() {
            return Ok((Self::read_all(paths, query, symbol_path)?, None));
        }
        let sessions = sessions(paths)?;
        if let [session] = sessions.as_slice() {
            let [named, all] = Self::read_with_all_sources(session, query, symbol_path)?;
            return Ok((named.checked(query)?, Some(all)));
        }
        let unlimited = Query { rows: None, ..query.clone() };
        let (mut named, mut all) = (Vec::new(), Vec::new());
        for session in sessions {
            let [one, of_all] = Self::read_with_all_sources(&session, &unlimited, symbol_path)?;
            named.push(one);
            all.push(of_all);
        }
        let named = combined(named, query).ok_or_else(no_recording)?.checked(query)?;
        Ok((named, combined(all, &query.of_all_sources())))
    }

    /// Reads and sums up several recordings, each by itself: one report for each of their
    /// [`sessions`].
    pub fn read_each<P: AsRef<Path>>(
        paths: &[P],
        query: &Query,
        symbol_path: &SymbolPath,
    ) -> Result<Vec<Self>> {
        let each = sessions(paths)?.into_iter();
        each.map(|session| Self::read_session(&session, query, symbol_path)?.checked(query))
            .collect()
    }

    /// # Errors
    /// Callers are asked for, and there are no call stacks.
    fn checked(self, query: &Query) -> Result<Self> {
        if query.lacks_stacks(self.has_inlined) && self.recording.stack_counts().is_none() {
            return Err(Error::unavailable(
                "the recording has no call stacks",
                "Windows' own tracing records them (an .etl); samples of the driver have none.",
            ));
        }
        Ok(self)
    }
}

fn combined(mut reports: Vec<Report>, query: &Query) -> Option<Report> {
    let tables = (0..query.tables.len()).map(|at| {
        let tables = reports.iter().filter_map(|report| report.tables.get(at));
        table(&tables.collect::<Vec<_>>(), query)
    });
    let tables = tables.collect::<Option<Vec<Table>>>()?;
    let (mut sources, mut total) = (Vec::new(), Totals::default());
    let mut call_trees = Vec::new();
    let has_inlined = reports.iter().any(|report| report.has_inlined);
    for report in &mut reports {
        CallTree::merge(&mut call_trees, std::mem::take(&mut report.call_trees));
        merge(&mut sources, &report.sources);
        total.add(report.total);
    }
    let mut symbols: Vec<Opened> = Vec::new();
    // Those of one name and place, of which there are as many as builds of a module.
    let mut alike: FxHashMap<(String, u64), Vec<usize>> = FxHashMap::default();
    for opened in reports.iter_mut().flat_map(|report| std::mem::take(&mut report.symbols)) {
        let key = (opened.module.name.clone(), opened.module.start);
        let alike = alike.entry(key).or_default();
        // A module that several recordings have was opened for each, with the samples of that one.
        let alone = |one: &Opened| Opened { samples: 0, ..one.clone() };
        let known = alike
            .iter()
            .find(|&&at| symbols.get(at).is_some_and(|known| alone(known) == alone(&opened)));
        if let Some(known) = known.and_then(|&at| symbols.get_mut(at)) {
            known.samples = known.samples.saturating_add(opened.samples);
        } else {
            alike.push(symbols.len());
            symbols.push(opened);
        }
    }
    let recordings = reports.into_iter().map(|report| report.recording);
    let recording = Recording::combined(recordings.collect())?;
    let report = Report { recording, sources, total, tables, call_trees, symbols, has_inlined };
    Some(report.with_times())
}

fn table(tables: &[&Table], query: &Query) -> Option<Table> {
    let by = tables.first()?.by.clone();
    let mut sections: IndexMap<Option<Arc<str>>, Vec<_>, FxBuildHasher> = IndexMap::default();
    for section in tables.iter().flat_map(|table| &table.sections) {
        let rows = sections.entry(section.source.clone()).or_default();
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
