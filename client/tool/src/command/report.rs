//! `halprof report`: a summary of samples.

pub(crate) mod branches;
pub(crate) mod diff;
pub(crate) mod off_cpu;
pub(crate) mod text;
pub(crate) mod trace_events;

use crate::cli::args;
use crate::metrics::{Metrics, Requested};
use crate::output::Output;
use crate::output::csv::Csv;
use crate::output::error::{Error, Result};
use crate::output::number::thousands;
use crate::output::table::Width;
use crate::results::exported;
use crate::results::head::Header;
use crate::results::recording::ExcludedCpus;
use crate::results::recording_warnings;
use crate::results::report_text::{self, SourceSummary};
use crate::results::sample_rows::{SourceRow, absent_beside_source, source_rows};
use crate::results::simulated;
use crate::results::with_metrics;
use crate::run::browser;
use crate::select::branches::requested as requested_branches;
use crate::select::filters;
use halprof_profile::aggregate::key::{Fields, Key, Value, fields};
use halprof_profile::aggregate::totals::Totals;
use halprof_profile::file::{ContextCounts, Metadata, StackCounts};
use halprof_profile::symbols::SymbolPath;
use halprof_profile::views::report::events::EventSummary;
use halprof_profile::views::report::{Call, CallTree, GroupTotals, Query, Report, Sort, Table};
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The tables of JSON output without `--by`.
const DEFAULT: &[&[Key]] =
    &[&[Key::Module], &[Key::Symbol], &[Key::Process], &[Key::Processor], &[Key::Address]];

#[derive(JsonSchema, Serialize)]
pub(crate) struct ReportResult<'a> {
    #[serde(flatten)]
    header: Header,
    interface: &'a str,
    /// When it was made, in UTC.
    recorded: Option<String>,
    /// The version of halprof that made it.
    halprof: &'a str,
    command: &'a [String],
    processors: u32,
    elapsed_ns: u64,
    /// Samples that the filters accept.
    counted: u64,
    throttled: u64,
    longest_period: u64,
    /// Sources that some of the processors cannot count.
    excluded_cpus: Vec<ExcludedCpus>,
    /// Other events of the system and the driver.
    events: Vec<EventSummary>,
    warnings: Vec<String>,
    /// The page that `--open` wrote.
    page: Option<String>,
    by_source: Vec<SourceSummary>,
    by_processor: Vec<AllSources<'a>>,
    by_process: Vec<AllSources<'a>>,
    by_module: Vec<AllSources<'a>>,
    by_address: Vec<AllSources<'a>>,
    /// How many samples have call stacks; null where none were recorded.
    stacks: Option<StackCounts>,
    /// How many samples of the timer are of threads, deferred calls and interrupts; null where nothing
    /// says it.
    contexts: Option<ContextCounts>,
    /// The tables requested with `--by`.
    tables: Cow<'a, [Table]>,
    /// The call tree of each source, requested with `--stack`: calls with at least 1 % of its events.
    stack: Vec<SourceRow<'a, Call>>,
    symbols: Vec<recording_warnings::OpenedModule>,
}

/// The samples of all sources together.
#[derive(JsonSchema, Serialize)]
struct AllSources<'a> {
    #[serde(flatten, serialize_with = "fields")]
    #[schemars(with = "Fields")]
    values: &'a [Value],
    samples: u64,
    /// Null if there are several sources, whose events cannot be added up.
    events: Option<u64>,
    /// The processor time of the events; absent if their source does not sample time.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

pub(crate) fn run(options: &args::Report, output: &Output) -> Result<u32> {
    if options.open {
        check_has_page(options)?;
    }
    if options.off_cpu {
        return off_cpu::run(options, output);
    }
    if options.events {
        return trace_events::run(options, output);
    }
    let metrics = Metrics::with_file(options.metric_file.as_deref(), false)?;
    let metrics = (&metrics, &*metrics.requested(&options.metrics)?);
    if let Some(tables) = requested_branches(&options.by)? {
        with_metrics::refuse(metrics, "branch records have none")?;
        if options.stack {
            return Err(Error::usage(
                "`--stack` shows call stacks, and `--by edge` and `--by path` branches",
                "Give one of them.",
            ));
        }
        return branches::run(options, tables, output);
    }
    let path = options.naming.path(output)?;
    let mut query = query(options, &path, output)?;
    let mut requested = query.tables.len();
    with_metrics::check(metrics, options, &query)?;
    if !options.diff.is_empty() {
        if query.tables.iter().flatten().any(|&key| key == Key::Inline) {
            return Err(Error::usage(
                "`--diff` by `inline`: what a compiler inlines changes from build to build",
                "`--by symbol` compares the functions that exist.",
            ));
        }
        return diff::run(options, &query, metrics, &path.without_inlined(), output);
    }
    if output.is_json() {
        if options.by.is_empty() && !options.stack {
            (query.tables, requested) = (Vec::new(), DEFAULT.len());
        }
        for keys in DEFAULT {
            if !query.tables.iter().any(|by| by == keys) {
                query.tables.push(keys.to_vec());
            }
        }
        query.rows = None;
    }
    let (mut report, serving) = with_metrics::read(metrics, &options.files, &query, &path)?;
    let mut warnings = recording_warnings::warnings(&report);
    let mut tables = report.tables.iter().take(requested).filter(|_| !metrics.1.is_empty());
    warnings.extend(tables.find_map(with_metrics::roughness));
    if output.is_text() {
        let hidden = with_metrics::hide(metrics.0, &serving, options, &mut report);
        if let Some(note) = hidden {
            output.note(&note);
        }
    }
    warnings.extend(filters::given_twice(&options.files));
    if report.total.samples == 0 && report.recording.samples != 0 {
        warnings.extend(filters::explain_empty_result(&options.filters, &options.files, &path));
    }
    let status =
        recording_warnings::print_warnings(&report.recording, &warnings, &report.symbols, output);
    let only_marks = only_marks(options, &report);
    let without_samples = only_marks
        .clone()
        .or_else(|| recording_warnings::without_samples(&report.recording, &options.files));
    if let Some(hint) = without_samples.as_ref().filter(|_| output.is_csv()) {
        output.note(hint);
    }
    warnings.extend(without_samples.clone());
    let page = options.open.then(|| exported::write_page(&options.page(), output)).transpose()?;
    if let Some(page) = &page {
        browser::open(page, output);
    }
    let page = page.map(|page| page.display().to_string());
    let result = ReportResult { page, ..result(options, &report, requested, warnings) };
    if options.stack && output.is_csv() {
        let absent = absent_beside_source(&CallTree::KEYS);
        let rows = (&result, &*result.stack);
        output.rows_without(&absent, "report", rows, |_| String::new())?;
        return Ok(status);
    }
    let rows = if output.is_csv() { source_rows(&report.tables) } else { Vec::new() };
    let absent = query.tables.first().map_or_else(Vec::new, |by| absent_beside_source(by));
    let names: Vec<String> = metrics.1.iter().map(Requested::name).collect();
    let csv = Csv::new::<SourceRow<'_, GroupTotals>>(&absent).with_metrics(&["metrics"], &names);
    output.rows_in(&csv, "report", (&result, &rows), |_| {
        let width = if options.verbose { Width::UNLIMITED } else { output.width() };
        match (without_samples, options.by.as_slice()) {
            (Some(hint), _) if only_marks.is_some() => output.width().fitted(&hint) + "\n",
            (Some(hint), _) => text::without_samples(&report, &hint, width),
            (None, []) if !options.stack => text::overview(&report, options, metrics.0, width),
            (None, _) => {
                let rows = options.most_rows();
                let calls = options.rows.map_or(usize::MAX, |_| rows);
                report_text::tables(&report, (rows, calls), report_text::ALL, width)
            }
        }
    })?;
    note_simulated(&report, options, output);
    Ok(status)
}

/// Says below an overview how to count its first function exactly.
fn note_simulated(report: &Report, options: &args::Report, output: &Output) {
    let is_overview = output.is_text() && options.by.is_empty() && !options.stack;
    if let Some(line) = simulated(report).filter(|_| is_overview) {
        output.note(&line);
    }
}

/// How to count the function with the most samples exactly; nothing where its file is not at hand.
fn simulated(report: &Report) -> Option<String> {
    let mut tables = report.tables.iter().filter(|table| table.by == [Key::Symbol]);
    let hottest = tables.next()?.sections.first()?.rows.first()?;
    let [Value::Symbol { module, symbol: Some(symbol) }] = hottest.values.as_slice() else {
        return None;
    };
    let opened = report.symbols.iter().find(|opened| opened.name == *module)?;
    let function = format!("{module}!{symbol}");
    let command = simulated::command(&function, opened, &report.recording.metadata)?;
    Some(format!("exact counts of {symbol}: `{command}`"))
}

/// Refuses `--open` of what is no sum of samples.
fn check_has_page(options: &args::Report) -> Result<()> {
    let other = [
        ("--off-cpu", options.off_cpu),
        ("--diff", !options.diff.is_empty()),
        ("--by edge` and `--by path", requested_branches(&options.by)?.is_some()),
    ];
    match other.into_iter().find(|&(_, is_given)| is_given) {
        Some((option, _)) => Err(Error::usage(
            format!("`--open` shows samples, and `{option}` something else"),
            "Give one of them.",
        )),
        None => Ok(()),
    }
}

/// A hint where a recording has marks and no samples.
fn only_marks(options: &args::Report, report: &Report) -> Option<String> {
    let [file] = options.files.as_slice() else {
        return None;
    };
    let marks = report.recording.marked.count;
    (marks != 0 && report.recording.samples == 0).then(|| {
        let (marks, file) = (thousands(marks), file.display());
        format!("no samples; {marks} marks: `halprof timeline {file}` shows them")
    })
}

fn query(options: &args::Report, path: &SymbolPath, output: &Output) -> Result<Query> {
    let csv = output.is_csv();
    let mut tables = filters::tables(&options.by)?;
    if csv && tables.len() + usize::from(options.stack) > 1 {
        return Err(filters::one_table());
    }
    if tables.is_empty() && !options.stack {
        tables = if csv || !options.diff.is_empty() {
            vec![vec![Key::Symbol]]
        } else {
            // The others are worth a table if no function is known.
            vec![vec![Key::Symbol], text::MODULES.to_vec(), vec![Key::Address]]
        };
    }
    let rows = match options.diff.as_slice() {
        [_, ..] => None,
        [] if csv => options.rows_requested(),
        [] => Some(options.most_rows()),
    };
    let files = [options.files.as_slice(), &options.diff].concat();
    Ok(Query {
        tables,
        call_tree: options.stack,
        filter: filters::settled(&options.filters, &files, path, output)?,
        sort: match options.sort {
            args::Sorting::Samples => Sort::Samples,
            args::Sorting::Events => Sort::Events,
            args::Sorting::Name => Sort::Name,
            args::Sorting::Total => Sort::Total,
            args::Sorting::Mispredicted => {
                return Err(Error::usage(
                    "`--sort mispredicted` is an order of branches",
                    "Use it with `--by edge` or `--by path`.",
                ));
            }
        },
        rows,
    })
}

fn result<'a>(
    options: &args::Report,
    report: &'a Report,
    requested: usize,
    warnings: Vec<String>,
) -> ReportResult<'a> {
    let recording = &report.recording;
    let metadata = &recording.metadata;
    let statistics = recording.statistics.clone().unwrap_or_default();
    let by = |key| {
        let table = report.tables.iter().find(|table| table.by == [key]);
        table.map(all_sources).unwrap_or_default()
    };
    let sources = report.sources.iter().filter(|source| source.totals.samples != 0);
    ReportResult {
        header: Header::new(&options.files, recording),
        interface: &metadata.interface,
        recorded: recorded(metadata),
        halprof: &metadata.halprof,
        command: &metadata.command,
        processors: metadata.processors,
        elapsed_ns: recording.elapsed_ns(),
        counted: report.total.samples,
        throttled: statistics.throttled,
        longest_period: statistics.longest_period,
        excluded_cpus: metadata.excluded_cpus().into_iter().map(Into::into).collect(),
        events: recording.event_summaries(),
        warnings,
        page: None,
        by_source: SourceSummary::of_all(metadata, sources),
        by_processor: by(Key::Processor),
        by_process: by(Key::Process),
        by_module: by(Key::Module),
        by_address: by(Key::Address),
        stacks: recording.stack_counts(),
        contexts: recording.contexts(),
        tables: tables(options, report.tables.get(..requested).unwrap_or(&report.tables)),
        stack: calls(report),
        symbols: report.symbols.iter().map(Into::into).collect(),
    }
}

/// The tables with as many rows as were requested: JSON's other lists are of all rows.
fn tables<'a>(options: &args::Report, all: &'a [Table]) -> Cow<'a, [Table]> {
    let Some(rows) = options.rows_requested() else {
        return all.into();
    };
    let mut tables = all.to_vec();
    let sections = tables.iter_mut().flat_map(|table| &mut table.sections);
    sections.for_each(|section| section.rows.truncate(rows));
    tables.into()
}

fn calls(report: &Report) -> Vec<SourceRow<'_, Call>> {
    let trees = report.call_trees.iter();
    let calls = trees.flat_map(|tree| tree.calls().0.into_iter().map(|row| (&tree.source, row)));
    calls.map(|(source, row)| SourceRow { source: Some(source), row }).collect()
}

/// Rows of all sources together, those with the most events first; of several sources, whose events
/// cannot be added up, those with the most samples.
fn all_sources(table: &Table) -> Vec<AllSources<'_>> {
    let several = table.sections.len() > 1;
    let mut sums: BTreeMap<&[Value], (Totals, Option<f64>)> = BTreeMap::new();
    let rows = table.sections.iter().flat_map(|part| &part.rows);
    // Code that only called what has samples has none of its own.
    for row in rows.filter(|row| row.totals.samples != 0) {
        let (sum, seconds) = sums.entry(&row.values).or_default();
        sum.add(row.totals);
        *seconds = row.seconds;
    }
    let rows = sums.into_iter().map(|(values, (sum, seconds))| AllSources {
        values,
        samples: sum.samples,
        events: (!several).then_some(sum.events),
        seconds: seconds.filter(|_| !several),
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| Reverse((row.events, row.samples)));
    rows
}

/// When a recording began, if the year has four digits.
fn recorded(metadata: &Metadata) -> Option<String> {
    const YEAR_10000: u64 = 253_402_300_800;
    let began = Some(metadata.began).filter(|began| (1..YEAR_10000).contains(began))?;
    let began = SystemTime::UNIX_EPOCH + Duration::from_secs(began);
    Some(humantime::format_rfc3339_seconds(began).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_no_calendar_has_is_left_out() {
        for (began, expected) in [
            (0, None),
            (1_700_000_000, Some("2023-11-14T22:13:20Z")),
            (253_402_300_799, Some("9999-12-31T23:59:59Z")),
            (253_402_300_800, None),
            (u64::MAX, None),
        ] {
            let metadata = Metadata { began, ..Metadata::default() };
            assert_eq!(recorded(&metadata).as_deref(), expected);
        }
    }
}
