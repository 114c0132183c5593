//! `halprof report --diff`: what runs cost after a change, beside what they cost before it.

mod cost;

use crate::cli::args;
use crate::metrics::rows::RowMetrics;
use crate::metrics::sampled::Sampled;
use crate::metrics::{Metrics, Requested};
use crate::output::Output;
use crate::output::csv::Csv;
use crate::output::error::{Error, Result};
use crate::output::escape::Escaped;
use crate::output::number::{seconds, thousands};
use crate::output::table::{Column, Section, Width};
use crate::results::recording_warnings;
use crate::results::sample_rows::{
    SourceRow, absent_beside_source, key_columns, metric_cells, metric_columns,
};
use crate::results::with_metrics::{self, RequestedMetrics, hidden, widened};
use crate::select::filters;
use cost::{Change, RUNS, RUNS_DIFFER, Side};
use halprof_measure::statistics::comparison::Comparison;
use halprof_profile::aggregate::filter::Filter;
use halprof_profile::aggregate::key::{Fields, Key, Process, Value, fields};
use halprof_profile::aggregate::processor_time::UNIT_NS;
use halprof_profile::aggregate::share::Share;
use halprof_profile::aggregate::source_totals::SourceTotals;
use halprof_profile::aggregate::totals::Totals;
use halprof_profile::symbols::SymbolPath;
use halprof_profile::views::report::{Query, Report, RowMetric, SourceSection, Table};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

#[derive(JsonSchema, Serialize)]
pub(crate) struct DiffResult<'a> {
    before: String,
    after: String,
    /// How many recordings there are of each.
    runs: [usize; 2],
    samples: [u64; 2],
    time: Time,
    warnings: Vec<String>,
    /// All events that pass the filters.
    sources: Vec<Whole>,
    tables: Vec<ComparedTable<'a>>,
}

/// How long a run took; of several runs the mean.
#[derive(JsonSchema, Serialize)]
struct Time {
    before_ns: u64,
    after_ns: u64,
    ratio: Option<f64>,
    /// The 95 % bound of the ratio; null if neither side has three runs.
    error: Option<f64>,
}

/// All events of a source, in a run.
#[derive(JsonSchema, Serialize)]
struct Whole {
    source: String,
    /// The source of the recordings after, which counts the same.
    source_after: String,
    samples_before: u64,
    samples_after: u64,
    #[serde(flatten)]
    change: Change,
}

#[derive(JsonSchema, Serialize)]
struct ComparedTable<'a> {
    by: &'a [Key],
    parts: Vec<Compared<'a>>,
}

/// The rows of one source, those that cost most events more first.
#[derive(JsonSchema, Serialize)]
struct Compared<'a> {
    /// Null if `source` is one of the keys.
    source: Option<String>,
    rows: Vec<DiffRow<'a>>,
}

#[derive(JsonSchema, Serialize)]
struct DiffRow<'a> {
    #[serde(flatten, serialize_with = "fields")]
    #[schemars(with = "Fields")]
    values: &'a [Value],
    #[serde(flatten)]
    events: Change,
    /// Of all runs before together.
    before: Totalled,
    /// Of all runs after together.
    after: Totalled,
    /// The change of its share, in percentage points.
    change: f64,
}

#[derive(JsonSchema, Serialize)]
struct Totalled {
    #[serde(flatten)]
    totals: Totals,
    share: Share,
    /// The metrics that were requested; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<RowMetric>,
}

/// All recordings.
struct Runs {
    reports: Vec<Report>,
    /// How many of them are of before; they come first.
    before: usize,
}

impl Runs {
    /// Parts of a list with one item for each run.
    fn sides<'a, T>(&self, all: &'a [T]) -> [&'a [T]; 2] {
        let (before, after) = all.split_at_checked(self.before).unwrap_or((all, &[]));
        [before, after]
    }
}

/// A source that all runs have, or one that counts the same.
struct Source {
    /// Its name in each run.
    names: Vec<Arc<str>>,
    sides: [Side; 2],
    /// All its events in each run that pass the filters.
    totals: Vec<Totals>,
    /// Its events are units of 100 ns.
    is_time: bool,
}

pub(super) fn run(
    options: &args::Report,
    query: &Query,
    metrics: RequestedMetrics<'_>,
    path: &SymbolPath,
    output: &Output,
) -> Result<u32> {
    check_gate(options)?;
    let requested = query.tables.len();
    let mut query = widened(query);
    let mut named = Filter::default();
    if !metrics.1.is_empty() {
        // A metric in the rows of cycles needs other sources than cycles.
        named.sources = std::mem::take(&mut query.filter.sources);
    }
    let [mut reports, after] =
        [&options.files, &options.diff].map(|files| Report::read_each(files, &query, path));
    let before = reports.as_ref().map_or(0, Vec::len);
    reports = reports.and_then(|before| Ok(before.into_iter().chain(after?).collect()));
    let mut runs = Runs { reports: reports?, before };
    runs.reports.iter_mut().for_each(count_time_alike);
    let (mut warnings, mut status) = (Vec::new(), 0);
    for run in &runs.reports {
        let file = run.recording.file.display();
        let own = recording_warnings::warnings(run)
            .into_iter()
            .map(|warning| format!("{file}: {warning}"));
        let own: Vec<String> = own.collect();
        status = status.max(recording_warnings::print_warnings(&run.recording, &own, &[], output));
        warnings.extend(own);
    }
    let sources = sources(&runs)?;
    let is_shown = |name: &str| named.accepts_source(name);
    let shown: Vec<&Source> =
        sources.iter().filter(|source| source.names.iter().any(|name| is_shown(name))).collect();
    let metrics_of_sides = SideMetrics::new(metrics, &sources, &runs)?;
    let files = [&options.files, &options.diff].into_iter();
    let twice = files.filter_map(|files| filters::given_twice(files));
    let own: Vec<String> = twice.chain(left_out(&runs, &sources)).collect();
    let rough = runs.reports.iter().filter_map(|run| run.tables.get(..requested)).flatten();
    let rough = rough.filter(|_| !metrics.1.is_empty()).find_map(with_metrics::roughness);
    let own: Vec<String> = own.into_iter().chain(rough).collect();
    output.warn_all(&own);
    warnings.extend(own);
    let limit = options.fail_above;
    let tables =
        (0..requested).map(|at| compared_table(at, &runs, &sources, &metrics_of_sides, limit));
    let mut tables: Vec<ComparedTable<'_>> = tables.collect::<Result<_>>()?;
    let serving = metrics_of_sides.serving();
    let hidden = if output.is_text() && named.sources.is_empty() {
        hidden(metrics.0, &serving, sources.iter().filter_map(|source| source.names.first()))
    } else {
        Vec::new()
    };
    for table in &mut tables {
        table.parts.retain(|part| {
            let source = part.source.as_deref().unwrap_or_default();
            is_shown(source) && !hidden.iter().any(|name| **name == *source)
        });
    }
    let totals = runs.reports.iter().map(|run| {
        let shown = run.sources.iter().filter(|source| is_shown(&source.name));
        shown.map(|source| source.totals.samples).sum()
    });
    let totals: Vec<u64> = totals.collect();
    let mut result = DiffResult {
        before: filters::names(&options.files),
        after: filters::names(&options.diff),
        runs: runs.sides(&runs.reports).map(<[Report]>::len),
        samples: runs.sides(&totals).map(|side| side.iter().sum()),
        time: Time::new(&runs),
        warnings,
        sources: shown.iter().map(|source| Whole::new(source, &runs, limit)).collect(),
        tables,
    };
    let failures = result.failures(limit.unwrap_or_default());
    result.warnings.extend(failures.iter().cloned());
    let parts = result.tables.iter().flat_map(|table| &table.parts);
    let rows = parts.flat_map(|part| {
        part.rows.iter().map(|row| SourceRow { source: part.source.as_deref(), row })
    });
    let rows: Vec<SourceRow<'_, &DiffRow<'_>>> = rows.collect();
    let by = result.tables.first().map_or(&[][..], |table| table.by);
    let names: Vec<String> = metrics.1.iter().map(Requested::name).collect();
    let csv = Csv::new::<SourceRow<'_, &DiffRow<'_>>>(&absent_beside_source(by))
        .with_metrics(&["before", "metrics"], &names)
        .with_metrics(&["after", "metrics"], &names);
    output.rows_in(&csv, "diff", (&result, &rows), |result| {
        text(result, &names, options.most_rows(), output.width())
    })?;
    let judged = output.judged(&failures);
    Ok(if status == 0 { judged } else { status })
}

/// Refuses a gate that cannot tell a change from what runs differ by.
fn check_gate(options: &args::Report) -> Result<()> {
    if options.fail_above.is_none() {
        return Ok(());
    }
    for (side, files) in [("before", &options.files), ("after", &options.diff)] {
        let why = match filters::given_twice(files) {
            Some(_) => format!("one {side} the change is given twice"),
            None if files.len() < 2 => format!("there is one recording {side} the change"),
            None => continue,
        };
        return Err(Error::usage(
            format!("`--fail-above` takes at least two recordings on each side: {why}"),
            "Record several runs of each, for example `report a1.rec a2.rec a3.rec --diff b1.rec b2.rec \
             b3.rec --fail-above 5`.",
        ));
    }
    Ok(())
}

/// The most sentences about what failed.
const FAILURES: usize = 10;

impl DiffResult<'_> {
    /// What got worse by more than the limit, a sentence each.
    fn failures(&self, limit: f64) -> Vec<String> {
        let wholes = self.sources.iter().filter(|whole| whole.change.failed);
        let wholes = wholes.map(|whole| whole.change.failure(&whole.source, limit));
        let parts = self.tables.iter().flat_map(|table| &table.parts);
        let rows = parts.flat_map(|part| {
            let failed = part.rows.iter().filter(|row| row.events.failed);
            failed.map(|row| {
                let names = row.values.iter().map(name_of).filter(|name| !name.is_empty());
                let of = part.source.iter().map(|source| format!("({source})"));
                let what: Vec<String> = names.chain(of).collect();
                row.events.failure(&what.join(" "), limit)
            })
        });
        let mut failures: Vec<String> = wholes.chain(rows).collect();
        let more = failures.len().saturating_sub(FAILURES);
        if more != 0 {
            failures.truncate(FAILURES);
            failures.push(format!("{more} more rows got worse by more than {limit} %"));
        }
        failures
    }
}

/// Counts events of the timer in units of 100 ns, whatever sampled it.
fn count_time_alike(report: &mut Report) {
    let mut times = HashMap::new();
    for source in &mut report.sources {
        let Some(time) = source.time else { continue };
        source.totals = time.in_units(source.totals);
        source.unfiltered = time.in_units(source.unfiltered);
        source.period_events = time.nanoseconds(source.period_events) / UNIT_NS;
        times.insert(Arc::clone(&source.name), time);
    }
    for section in report.tables.iter_mut().flat_map(|table| &mut table.sections) {
        for row in &mut section.rows {
            let own = row.values.iter().find_map(|value| match value {
                Value::Source(name) => Some(name),
                _ => None,
            });
            if let Some(time) = section.source.as_ref().or(own).and_then(|name| times.get(name)) {
                row.totals = time.in_units(row.totals);
            }
        }
    }
}

/// The sources of a report by name, and its sections by source: a file may have thousands.
pub(super) struct BySource<'a> {
    report: &'a Report,
    sources: HashMap<&'a str, &'a SourceTotals>,
    /// How many processors have samples of each.
    processors: HashMap<&'a str, usize>,
}

impl<'a> BySource<'a> {
    fn new(report: &'a Report) -> Self {
        let mut sources = HashMap::new();
        for source in &report.sources {
            sources.entry(&*source.name).or_insert(source);
        }
        let by_processor = report.tables.iter().find(|table| table.by == [Key::Processor]);
        let mut processors = HashMap::new();
        for section in by_processor.into_iter().flat_map(|table| &table.sections) {
            if let Some(name) = section.source.as_deref() {
                processors.entry(name).or_insert(section.rows.len());
            }
        }
        Self { report, sources, processors }
    }

    fn source(&self, name: &str) -> Option<&'a SourceTotals> {
        self.sources.get(name).copied()
    }

    fn sampled(&self, name: &str) -> Sampled {
        let processors = self.processors.get(name).copied().unwrap_or(1);
        Sampled::new(&self.report.recording, self.source(name), processors)
    }
}

/// The sections of a table by source. Those of all sources together have none, and belong to each.
struct Sections<'a>(HashMap<Option<&'a str>, Vec<&'a SourceSection>>);

impl<'a> Sections<'a> {
    fn new(table: &'a Table) -> Self {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for section in &table.sections {
            all.entry(section.source.as_deref()).or_default().push(section);
        }
        Self(all)
    }

    fn of<'b>(&'b self, source: &'b str) -> impl Iterator<Item = &'a SourceSection> + 'b {
        let keys = [None, Some(source)];
        keys.into_iter().filter_map(|key| self.0.get(&key)).flatten().copied()
    }
}

/// What sources of several runs have in common that are compared with each other: their name, or what
/// they count and its filter; and whether they are time, which a timer that was sampled by core cycles
/// is not.
type Common<'a> = (&'a str, &'a str, bool);

#[expect(clippy::unnecessary_wraps, reason = "the other way to match has no key for some sources")]
fn same_name<'a>(_: &'a Metrics, source: &'a SourceTotals) -> Option<Common<'a>> {
    Some((&source.name, "", source.time.is_some()))
}

/// By the names that metrics have for what it counts.
fn same_quantity<'a>(metrics: &'a Metrics, source: &'a SourceTotals) -> Option<Common<'a>> {
    let (name, filter) = source.name.split_once(':').unwrap_or((&source.name, ""));
    Some((metrics.quantity(name)?, filter, source.time.is_some()))
}

/// The names of sources by what they may have in common, each once and in their order.
fn names_by<'a>(
    common: fn(&'a Metrics, &'a SourceTotals) -> Option<Common<'a>>,
    metrics: &'a Metrics,
    sources: &'a [SourceTotals],
) -> HashMap<Common<'a>, Vec<&'a Arc<str>>> {
    let mut names: HashMap<_, Vec<_>> = HashMap::new();
    let mut known = HashSet::new();
    for source in sources {
        if let Some(key) = common(metrics, source)
            && known.insert((key, &source.name))
        {
            names.entry(key).or_default().push(&source.name);
        }
    }
    names
}

/// The sources that can be compared: what all runs have, then what counts the same.
fn sources(runs: &Runs) -> Result<Vec<Source>> {
    let metrics = Metrics::built_in()?;
    let all: Vec<&[SourceTotals]> = runs.reports.iter().map(|run| &*run.sources).collect();
    let mut matched: Vec<Vec<Arc<str>>> = Vec::new();
    let mut used: Vec<HashSet<&str>> = vec![HashSet::new(); all.len()];
    for common in [same_name, same_quantity] {
        let each = all.iter().map(|sources| names_by(common, &metrics, sources));
        let each: Vec<_> = each.collect();
        for source in all.first().copied().unwrap_or_default() {
            let Some(key) = common(&metrics, source) else { continue };
            let in_each = each.iter().zip(&used).map(|(named, used)| {
                let mut names = named.get(&key)?.iter();
                names.find(|name| !used.contains(&****name)).copied()
            });
            if let Some(names) = in_each.collect::<Option<Vec<_>>>() {
                for (used, name) in used.iter_mut().zip(&names) {
                    used.insert(name);
                }
                matched.push(names.into_iter().map(Arc::clone).collect());
            }
        }
    }
    if matched.is_empty() {
        let [before, after] = runs
            .sides(&all)
            .map(|all| distinct(all.iter().copied().flatten().map(|source| &source.name)));
        return Err(Error::usage(
            format!("the recordings have no source in common: {before} and {after}"),
            "Compare recordings of the same source.",
        ));
    }
    let each_run: Vec<BySource<'_>> = runs.reports.iter().map(BySource::new).collect();
    let lost = runs.sides(&runs.reports).map(cost::lost);
    let sources = matched.into_iter().map(|names| Source::new(names, &each_run, runs, lost));
    Ok(sources.collect())
}

/// What only some of the recordings have.
fn left_out(runs: &Runs, sources: &[Source]) -> Vec<String> {
    let mut names = BTreeSet::new();
    for (at, run) in runs.reports.iter().enumerate() {
        let compared = sources.iter().filter_map(|source| source.names.get(at));
        let compared: HashSet<&Arc<str>> = compared.collect();
        names.extend(
            run.sources.iter().map(|source| &source.name).filter(|name| !compared.contains(name)),
        );
    }
    let each = names.into_iter();
    each.map(|name| format!("only some of the recordings have {name}: it is left out")).collect()
}

/// Names, each once.
fn distinct<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> String {
    let names: BTreeSet<&str> = names.map(AsRef::as_ref).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

impl Source {
    /// `each_run` has all runs, and `lost` which part of the samples of each side was lost.
    fn new(
        names: Vec<Arc<str>>,
        each_run: &[BySource<'_>],
        runs: &Runs,
        lost: [Option<f64>; 2],
    ) -> Self {
        let of_runs: Vec<(&BySource<'_>, &str)> =
            each_run.iter().zip(names.iter().map(AsRef::as_ref)).collect();
        let own: Vec<Option<&SourceTotals>> =
            of_runs.iter().map(|(run, name)| run.source(name)).collect();
        let [before, after] = runs.sides(&of_runs);
        Self {
            totals: own.iter().map(|own| own.map(|own| own.totals).unwrap_or_default()).collect(),
            sides: [Side::new(before, lost[0]), Side::new(after, lost[1])],
            is_time: own.iter().flatten().any(|own| own.time.is_some()),
            names,
        }
    }

    fn compare(&self, runs: &Runs, parts: &[Totals], share: f64) -> Change {
        let change = Change::new(self.sides.each_ref(), runs.sides(parts), share);
        if self.is_time { change.of_time() } else { change }
    }
}

impl Whole {
    fn new(source: &Source, runs: &Runs, limit: Option<f64>) -> Self {
        let [before, after] = runs.sides(&source.names).map(|names| distinct(names.iter()));
        let [samples_before, samples_after] =
            runs.sides(&source.totals).map(|all| sum(all).samples);
        let change = source.compare(runs, &source.totals, 1.0).judged(limit);
        Self { source: before, source_after: after, samples_before, samples_after, change }
    }
}

impl Time {
    fn new(runs: &Runs) -> Self {
        let times = runs.reports.iter().map(|run| Totals::alike(1, run.recording.elapsed_ns()));
        let times: Vec<Totals> = times.collect();
        let sides = runs.sides(&times);
        let [before, after] = sides.map(Side::exact);
        let Change {
            events_before, events_after, compared: Comparison { ratio, error, .. }, ..
        } = Change::new([&before, &after], sides, 1.0);
        let error = error.filter(|&error| error != 0.0);
        Self { before_ns: events_before, after_ns: events_after, ratio, error }
    }
}

fn sum(all: &[Totals]) -> Totals {
    let mut sum = Totals::default();
    for &one in all {
        sum.add(one);
    }
    sum
}

/// The metrics of both sides, if any were requested.
struct SideMetrics<'a>([RowMetrics<'a>; 2]);

impl<'a> SideMetrics<'a> {
    fn new(
        (metrics, requested): RequestedMetrics<'a>,
        sources: &[Source],
        runs: &Runs,
    ) -> Result<Self> {
        let of_side = |side: usize| {
            let sources = sources.iter().map(|source| {
                let name = runs.sides(&source.names)[side].first();
                (name.map_or_else(|| "".into(), Arc::clone), source.sides[side].sum())
            });
            RowMetrics::new(metrics, requested, &sources.collect::<Vec<_>>())
        };
        Ok(Self([of_side(0)?, of_side(1)?]))
    }

    fn serving(&self) -> BTreeSet<Arc<str>> {
        self.0.iter().flat_map(RowMetrics::serving).collect()
    }

    /// The metrics of the row with this name, on each side.
    fn of_row(
        &self,
        runs: &Runs,
        of_sources: &[RowsByName<'_>],
        name: &[String],
    ) -> [Vec<RowMetric>; 2] {
        [0, 1].map(|side| {
            let totals = self.0[side].places().map(|place| {
                let (_, parts) = of_sources.get(place)?.get(name)?;
                Some(sum(runs.sides(parts)[side]))
            });
            self.0[side].row(&totals.map(Option::unwrap_or_default).collect::<Vec<_>>())
        })
    }
}

/// The table at this index of the query.
fn compared_table<'a>(
    at: usize,
    runs: &'a Runs,
    sources: &[Source],
    metrics: &SideMetrics<'_>,
    limit: Option<f64>,
) -> Result<ComparedTable<'a>> {
    let tables: Vec<&Table> = runs.reports.iter().filter_map(|run| run.tables.get(at)).collect();
    if tables.iter().flat_map(|table| &table.sections).any(SourceSection::is_mixed) {
        return Err(Error::usage(
            "`--diff` compares the events of one source, and these rows are of several",
            "Leave `source` out of `--by`: each source has a table of its own.",
        ));
    }
    let sections: Vec<Sections<'_>> = tables.iter().map(|table| Sections::new(table)).collect();
    let of_sources: Vec<RowsByName<'_>> =
        sources.iter().map(|source| rows_by_name(&sections, source)).collect();
    let parts = sources.iter().zip(&of_sources).map(|(source, rows)| Compared {
        source: source.names.first().map(ToString::to_string),
        rows: changes(rows, &of_sources, runs, source, metrics)
            .into_iter()
            .map(|row| DiffRow { events: row.events.judged(limit), ..row })
            .collect(),
    });
    let by = tables.first().map_or(&[][..], |table| &table.by);
    Ok(ComparedTable { by, parts: parts.collect() })
}

/// The rows of a source with the same text in all runs, with their samples in each. Process identifiers
/// differ from run to run, so a process is matched by name.
type RowsByName<'a> = BTreeMap<Vec<String>, (&'a [Value], Vec<Totals>)>;

fn rows_by_name<'a>(sections: &[Sections<'a>], source: &Source) -> RowsByName<'a> {
    let mut all = RowsByName::new();
    for (run, (sections, name)) in sections.iter().zip(&source.names).enumerate() {
        let own = sections.of(name);
        // Code that only called what has samples has none of its own.
        for row in own.flat_map(|section| &section.rows).filter(|row| row.totals.samples != 0) {
            let (_, parts) = all
                .entry(row.values.iter().map(name_of).collect())
                .or_insert_with(|| (&row.values, vec![Totals::default(); source.names.len()]));
            if let Some(part) = parts.get_mut(run) {
                part.add(row.totals);
            }
        }
    }
    all
}

/// The rows of a source, those that cost most events more first.
fn changes<'a>(
    rows: &RowsByName<'a>,
    of_sources: &[RowsByName<'a>],
    runs: &Runs,
    source: &Source,
    metrics: &SideMetrics<'_>,
) -> Vec<DiffRow<'a>> {
    let rows = rows.iter().map(|(name, (values, parts))| {
        let [parts_before, parts_after] = runs.sides(parts).map(sum);
        let [whole_before, whole_after] = runs.sides(&source.totals).map(sum);
        let [metrics_before, metrics_after] = metrics.of_row(runs, of_sources, name);
        let side = |totals, whole, metrics| Totalled {
            totals,
            share: Share::weighted(totals, whole),
            metrics,
        };
        let before = side(parts_before, whole_before, metrics_before);
        let after = side(parts_after, whole_after, metrics_after);
        let share = f64::midpoint(before.share.value, after.share.value);
        let change = after.share.value - before.share.value;
        DiffRow { values, events: source.compare(runs, parts, share), before, after, change }
    });
    let mut rows: Vec<DiffRow<'_>> = rows.collect();
    rows.sort_by_key(|row| Reverse(row.events.more()));
    rows
}

fn name_of(value: &Value) -> String {
    match value {
        Value::Process(Process { name: Some(name), .. }) => name.to_string(),
        // There is one, which may have several names.
        Value::Source(_) => String::new(),
        other => other.to_string(),
    }
}

fn text(result: &DiffResult<'_>, metrics: &[String], keep: usize, width: Width) -> String {
    let heads = metrics.iter().map(|name| [format!("{name} before"), format!("{name} after")]);
    let heads: Vec<[String; 2]> = heads.collect();
    let mut text = String::new();
    for (label, files, runs) in
        [("before", &result.before, result.runs[0]), ("after", &result.after, result.runs[1])]
    {
        let runs = if runs == 1 { String::new() } else { format!("{runs} runs: ") };
        let files = Escaped(files).to_string();
        text += &format!("{label:<6}  {runs}{}\n", width.left(8 + runs.len(), &files));
    }
    text += "\n";
    text += &whole(result).text(width);
    if let Some(note) = too_few_runs(result.runs) {
        text += &format!("\n{}\n", width.prose(0, &note));
    }
    for table in &result.tables {
        for part in &table.parts {
            let several = result.sources.len() > 1;
            text += &format!("\n{}", section(table.by, part, several, keep, &heads).text(width));
        }
    }
    text
}

/// What too few runs on a side leave unknown.
fn too_few_runs(runs: [usize; 2]) -> Option<String> {
    let more = "Three recordings or more on each side show how much runs differ without a change.";
    match runs.into_iter().min() {
        Some(1) => Some(format!(
            "Bounds are of sampling alone. Runs of one program usually differ by about {} %, so one run \
             on a side gives no verdict of the whole, nor of rows with smaller bounds. {more}",
            RUNS_DIFFER * 100.0
        )),
        Some(fewest) if fewest < RUNS => Some(format!("Bounds are of sampling alone. {more}")),
        _ => None,
    }
}

/// The events, samples and time of all.
fn whole(result: &DiffResult<'_>) -> Section<'static> {
    let columns = vec![
        Column::name("whole"),
        Column::number("before"),
        Column::number("after"),
        Column::number("ratio"),
        Column::word("95 %"),
        Column::word("verdict"),
    ];
    let mut rows = Vec::new();
    for whole in &result.sources {
        let Whole { source, source_after, samples_before, samples_after, change } = whole;
        let same = source == source_after;
        let name = if same { source.clone() } else { format!("{source}, {source_after}") };
        let [ratio, bound] = change.ratio_with_bound();
        let (events, verdict) = (change.events(), change.compared.verdict);
        rows.push([vec![name], events.to_vec(), vec![ratio, bound, verdict.to_string()]].concat());
        let samples = [*samples_before, *samples_after].map(thousands);
        rows.push(
            [vec!["  samples".to_owned()], samples.to_vec(), vec![String::new(); 3]].concat(),
        );
    }
    let Time { before_ns, after_ns, ratio, error } = result.time;
    let times = [before_ns, after_ns].map(seconds);
    let [ratio, bound] = cost::ratio_with_bound(ratio, error);
    rows.push(
        [vec!["time".to_owned()], times.to_vec(), vec![ratio, bound, String::new()]].concat(),
    );
    Section { title: String::new(), columns, rows, more: String::new() }
}

fn section<'a>(
    by: &[Key],
    part: &Compared<'_>,
    several: bool,
    keep: usize,
    heads: &'a [[String; 2]],
) -> Section<'a> {
    let mut columns = vec![
        Column::number("change"),
        Column::number("ratio"),
        Column::word("95 %"),
        Column::word("verdict"),
        Column::number("share change").extra(),
        Column::number("before").extra(),
        Column::number("after").extra(),
    ];
    columns.extend(heads.iter().flatten().flat_map(|head| metric_columns(head)));
    columns.extend(key_columns(by));
    let mut least: Vec<u128> =
        part.rows.iter().map(|row| row.events.more().unsigned_abs()).collect();
    least.sort_unstable_by_key(|&change| Reverse(change));
    // Those that change most are shown, whether they cost more or less.
    let least = keep.checked_sub(1).and_then(|last| least.get(last)).copied().unwrap_or(0);
    let shown = part.rows.iter().filter(|row| row.events.more().unsigned_abs() >= least).take(keep);
    let rows: Vec<Vec<String>> = shown.map(cells).collect();
    let more = part.rows.len() - rows.len();
    let source = part.source.as_deref().filter(|_| several);
    Section {
        title: source.unwrap_or_default().to_owned(),
        columns,
        rows,
        more: if more == 0 {
            String::new()
        } else {
            format!(
                "{} more rows, which change less: `--rows 0` prints all",
                thousands(more as u64)
            )
        },
    }
}

fn cells(row: &DiffRow<'_>) -> Vec<String> {
    let sign = if row.events.more() < 0 { '-' } else { '+' };
    let [events_before, events_after] = row.events.events();
    let [ratio, bound] = row.events.ratio_with_bound();
    let mut cells = vec![
        format!("{sign}{}", row.events.amount(row.events.more().unsigned_abs())),
        ratio,
        bound,
        row.events.compared.verdict.to_string(),
        format!("{:+.2}", row.change * 100.0),
        events_before,
        events_after,
    ];
    let metrics = row.before.metrics.iter().zip(&row.after.metrics);
    cells.extend(metrics.flat_map(|(before, after)| [before, after]).flat_map(metric_cells));
    cells.extend(row.values.iter().map(name_of));
    cells
}
