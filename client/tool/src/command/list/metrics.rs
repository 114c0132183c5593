//! `halprof list --metrics`: the available metrics, and what each counts here.

use super::search::Search;
use crate::cli::args;
use crate::metrics::{Metric, Metrics, Term};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::table::{Column, Field, Record, records};
use crate::select::event_set::countable;
use crate::target::context::Context;
use halprof_measure::catalog::{Catalog, CpuType};
use halprof_measure::describe;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub(crate) struct MetricsResult {
    interface: &'static str,
    metrics: Vec<ListedMetric>,
}

#[derive(JsonSchema, Serialize)]
struct ListedMetric {
    /// Whether `--topdown` has it, by the vendor's formulas.
    #[serde(skip)]
    topdown: bool,
    /// The formula with the sources that are counted here.
    #[serde(skip)]
    spelled: String,
    id: String,
    name: String,
    unit: String,
    note: String,
    formula: String,
    /// What is counted for it.
    terms: Vec<ListedTerm>,
    /// Shown only on request.
    on_request: bool,
    /// Whether this machine can count everything that it needs, on at least one type of core.
    supported: bool,
    /// If types of core differ, those that can count everything that it needs.
    cores: Vec<&'static str>,
}

#[derive(JsonSchema, Serialize)]
struct ListedTerm {
    name: String,
    filter: String,
    /// The source that counts it here; null if none does, and for time.
    source: Option<String>,
}

pub(super) fn run(options: &args::List, ctx: &mut Context, output: &Output) -> Result<u32> {
    let metrics = Metrics::with_file(options.metric_file.as_deref(), ctx.shares_cores())?;
    let catalog = ctx.catalog(options.approximate)?;
    let search = Search::new(options.pattern.as_deref());
    let all = metrics.all().iter();
    let all = all.filter(|metric| search.finds(&[&metric.id, &metric.name], &[]));
    let result = MetricsResult {
        interface: describe::interface_name(ctx.machine.interface()),
        metrics: all.map(|metric| ListedMetric::new(metric, &metrics, &catalog)).collect(),
    };
    if result.metrics.is_empty()
        && let Some(pattern) = &options.pattern
    {
        return Err(Error::unavailable(
            format!("no metric matches `{pattern}`"),
            "`halprof list --metrics` lists them all, `--metric-file FILE` also those of a file.",
        ));
    }
    let rows = result.metrics.as_slice();
    output.rows("metrics", (&result, rows), |result| records(output.width(), &result.metrics))?;
    Ok(0)
}

impl ListedMetric {
    fn new(metric: &Metric, metrics: &Metrics, catalog: &Catalog) -> Self {
        let terms = metrics.terms(metric);
        let is_supported = |one: &&CpuType| {
            terms.iter().all(|term| is_counted(&metrics.names(&term.name), catalog, one))
        };
        let cpu_types: Vec<&CpuType> = catalog.cpu_types().iter().filter(is_supported).collect();
        let cores = cpu_types.iter().filter_map(|one| describe::core_type(&one.processor));
        Self {
            topdown: metric.is_of_slots() && metrics.has_topdown(catalog),
            spelled: metrics.spelled(metric, |name| source_of(name, metrics, catalog)),
            id: metric.id.clone(),
            name: metric.name.clone(),
            unit: metric.unit.clone(),
            note: metric.note.clone(),
            formula: metric.text.clone(),
            terms: terms.iter().map(|term| ListedTerm::new(term, metrics, catalog)).collect(),
            on_request: metric.on_request,
            supported: !cpu_types.is_empty(),
            cores: if catalog.cpu_types().len() > 1 { cores.collect() } else { Vec::new() },
        }
    }

    fn support(&self) -> String {
        match (self.supported, self.cores.as_slice()) {
            (false, _) if self.topdown => "--topdown".to_owned(),
            (false, _) => "no".to_owned(),
            (true, [only]) => format!("{only} cores"),
            (true, _) => "yes".to_owned(),
        }
    }

    fn name_and_unit(&self) -> String {
        if self.unit.is_empty() {
            return self.name.clone();
        }
        format!("{}, {}", self.name, self.unit)
    }
}

impl Record for ListedMetric {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::name("metric"), |row| row.id.clone()),
        Field::new(Column::prose("supported"), Self::support),
        Field::new(Column::prose("is"), Self::name_and_unit),
        Field::new(Column::prose("formula"), |row| row.spelled.clone()),
    ];
}

impl ListedTerm {
    fn new(term: &Term, metrics: &Metrics, catalog: &Catalog) -> Self {
        Self {
            name: term.name.clone(),
            filter: term.filter.clone(),
            source: source_of(&term.name, metrics, catalog),
        }
    }
}

/// The source that counts a term here.
fn source_of(term: &str, metrics: &Metrics, catalog: &Catalog) -> Option<String> {
    let mut names = metrics.names(term).into_iter();
    names.find(|name| countable(name, catalog).is_some()).map(str::to_owned)
}

/// Whether a CPU type counts one of these; time needs no counter.
fn is_counted(names: &[&str], catalog: &Catalog, cpu_type: &CpuType) -> bool {
    let counts = |name: &&str| {
        countable(name, catalog).is_some_and(|event| catalog.counts_on(&event, &cpu_type.processor))
    };
    names.is_empty() || names.iter().any(counts)
}
