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
use halprof_measure::selection::EventSpec;
use schemars::JsonSchema;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

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
    let counted = Counted { metrics: &metrics, catalog: &catalog, known: RefCell::default() };
    let result = MetricsResult {
        interface: describe::interface_name(ctx.machine.interface()),
        metrics: all.map(|metric| ListedMetric::new(metric, &counted)).collect(),
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
    fn new(metric: &Metric, counted: &Counted<'_>) -> Self {
        let Counted { metrics, catalog, .. } = counted;
        let terms: Vec<(Term, Rc<Sources>)> =
            metrics.terms(metric).into_iter().map(|term| counted.with_sources(term)).collect();
        let is_supported = |&(index, _): &(usize, &CpuType)| {
            terms.iter().all(|(_, sources)| sources.is_counted.get(index) == Some(&true))
        };
        let cpu_types: Vec<&CpuType> = catalog
            .cpu_types()
            .iter()
            .enumerate()
            .filter(is_supported)
            .map(|(_, one)| one)
            .collect();
        let cores = cpu_types.iter().filter_map(|one| describe::core_type(&one.processor));
        Self {
            topdown: metric.is_of_slots() && metrics.has_topdown(catalog),
            spelled: metrics.spelled(metric, |name| counted.sources(name).first.clone()),
            id: metric.id.clone(),
            name: metric.name.clone(),
            unit: metric.unit.clone(),
            note: metric.note.clone(),
            formula: metric.text.clone(),
            terms: terms.into_iter().map(ListedTerm::from).collect(),
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

impl From<(Term, Rc<Sources>)> for ListedTerm {
    fn from((Term { name, filter }, sources): (Term, Rc<Sources>)) -> Self {
        Self { name, filter, source: sources.first.clone() }
    }
}

/// What counts the terms of metrics here, each looked up once: a file may name a thing many times.
struct Counted<'a> {
    metrics: &'a Metrics,
    catalog: &'a Catalog,
    known: RefCell<HashMap<String, Rc<Sources>>>,
}

/// What counts a term here.
struct Sources {
    /// The first source of its names that can be counted.
    first: Option<String>,
    /// Whether each CPU type counts one of them; time needs no counter.
    is_counted: Vec<bool>,
}

impl Counted<'_> {
    fn with_sources(&self, term: Term) -> (Term, Rc<Sources>) {
        let sources = self.sources(&term.name);
        (term, sources)
    }

    fn sources(&self, term: &str) -> Rc<Sources> {
        if let Some(known) = self.known.borrow().get(term) {
            return Rc::clone(known);
        }
        let names = self.metrics.names(term);
        let events: Vec<(&str, EventSpec)> =
            names.iter().filter_map(|&name| Some((name, countable(name, self.catalog)?))).collect();
        let is_counted = |cpu_type: &CpuType| {
            let mut events = events.iter();
            names.is_empty()
                || events.any(|(_, event)| self.catalog.counts_on(event, &cpu_type.processor))
        };
        let sources = Rc::new(Sources {
            first: events.first().map(|&(name, _)| name.to_owned()),
            is_counted: self.catalog.cpu_types().iter().map(is_counted).collect(),
        });
        self.known.borrow_mut().insert(term.to_owned(), Rc::clone(&sources));
        sources
    }
}
