//! `--metric` of samples: rows with their metrics.

use crate::cli::args;
use crate::metrics::rows::{self, RowMetrics};
use crate::metrics::{Metrics, Requested};
use crate::output::error::{Error, Result};
use halprof_profile::aggregate::key::Key;
use halprof_profile::aggregate::totals::Totals;
use halprof_profile::file::sessions;
use halprof_profile::symbols::SymbolPath;
use halprof_profile::views::report::{Query, Report, SourceSection, Table};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// All metrics, and those that were requested.
pub(crate) type RequestedMetrics<'a> = (&'a Metrics, &'a [Requested<'a>]);

/// Refuses metrics, if any were requested.
pub(crate) fn refuse((_, requested): RequestedMetrics<'_>, why: &str) -> Result<()> {
    if requested.is_empty() {
        return Ok(());
    }
    let keys = Key::ALL.into_iter().filter(|&key| rows::refusal(&[key]).is_none());
    let keys: Vec<&str> = keys.map(Key::name).collect();
    Err(Error::usage(
        format!("`--metric` needs rows that have metrics: {why}"),
        format!("Group samples by any of these: {}.", keys.join(", ")),
    ))
}

/// Refuses metrics of rows that no ratio is true of.
pub(crate) fn check(
    metrics: RequestedMetrics<'_>,
    options: &args::Report,
    query: &Query,
) -> Result<()> {
    if query.tables.is_empty() {
        return refuse(metrics, "a call tree has none");
    }
    // Without `--by`, a table whose rows can have no metrics is shown without them.
    let named = query.tables.iter().filter(|_| !options.by.is_empty());
    named.filter_map(|by| rows::refusal(by)).try_for_each(|why| refuse(metrics, why))
}

/// A report whose rows have the metrics that were requested, and the sources that serve these.
pub(crate) fn read(
    (metrics, requested): RequestedMetrics<'_>,
    files: &[PathBuf],
    query: &Query,
    path: &SymbolPath,
) -> Result<(Report, BTreeSet<Arc<str>>)> {
    if requested.is_empty() {
        return Ok((Report::read_all(files, query, path)?, BTreeSet::new()));
    }
    // A metric in the rows of cycles needs other sources than cycles.
    let (mut report, all) = Report::read_all_with_all_sources(files, &widened(query), path)?;
    let all = all.as_ref().unwrap_or(&report);
    let recordings = sessions(files)?.len();
    let metrics = RowMetrics::of_report(metrics, requested, all, recordings)?;
    let found = metrics.of_tables(&all.tables);
    report.tables.truncate(query.tables.len());
    metrics.put(found, &mut report.tables);
    let sections = report.tables.iter_mut().flat_map(|table| &mut table.sections);
    sections.for_each(|section| keep_first(section, query.rows.unwrap_or(usize::MAX)));
    Ok((report, metrics.serving()))
}

/// The same query for all rows, because a row that is left out of one source's table may be in another's,
/// and for a table by processor, which says on how many processors each source has samples.
pub(crate) fn widened(query: &Query) -> Query {
    let mut query = Query { rows: None, ..query.clone() };
    query.tables.push(vec![Key::Processor]);
    query
}

fn keep_first(section: &mut SourceSection, rows: usize) {
    let more = section.rows.split_off(rows.min(section.rows.len()));
    let mut omitted = Totals::default();
    for row in &more {
        omitted.add(row.totals);
    }
    section.more = (more.len(), omitted);
}

/// The warning that metrics of a table's rows are rough, if they are.
pub(crate) fn roughness(table: &Table) -> Option<String> {
    table.by.contains(&Key::Line).then(|| rows::SKID_OF_LINES.to_owned())
}

/// Leaves out of text what only serves the metrics. Returns a note on that.
pub(crate) fn hide(
    metrics: &Metrics,
    serving: &BTreeSet<Arc<str>>,
    options: &args::Report,
    report: &mut Report,
) -> Option<String> {
    if !options.filters.source.is_empty() {
        return None;
    }
    let sampled = report.sources.iter().filter(|source| source.totals.samples != 0);
    let hidden = hidden(metrics, serving, sampled.map(|source| &source.name));
    for table in &mut report.tables {
        let is_shown = |source: &Arc<str>| !hidden.contains(source);
        table.sections.retain(|section| section.source.as_ref().is_none_or(is_shown));
    }
    let names: Vec<&str> = hidden.iter().map(|name| &**name).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("{names}: samples serve the metrics; `--source NAME` shows where their events are")
    })
}

/// The sources that have no table of their own where `--source` names none: those that serve a metric,
/// but for cycles, by which people look for what takes time. Without cycles and other sources, the first
/// has a table.
pub(crate) fn hidden<'a>(
    metrics: &Metrics,
    serving: &BTreeSet<Arc<str>>,
    sampled: impl Iterator<Item = &'a Arc<str>>,
) -> Vec<Arc<str>> {
    let (mut hidden, others): (Vec<&Arc<str>>, Vec<&Arc<str>>) =
        sampled.partition(|name| serving.contains(*name));
    let is_cycles = |name: &&Arc<str>| {
        let name = name.split(':').next().unwrap_or_default();
        metrics.quantity(name) == Some("cycles")
    };
    let first = (others.is_empty() && !hidden.is_empty()).then_some(0);
    if let Some(kept) = hidden.iter().position(is_cycles).or(first) {
        hidden.remove(kept);
    }
    hidden.into_iter().map(Arc::clone).collect()
}
