//! `halprof list --metrics`: the available metrics, and what each counts here.

use crate::cli::args;
use crate::metrics::{Form, Metric, Metrics, Term, topdown};
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::table::{Column, Width, table};
use crate::select::event_set::countable;
use crate::target::context::Context;
use halprof_measure::catalog::{Catalog, CpuType};
use halprof_profile::aggregate::filter::Pattern;
use halprof_setup::describe;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    interface: &'static str,
    metrics: Vec<Row>,
}

#[derive(JsonSchema, Serialize)]
struct Row {
    /// Whether `--topdown` has it, by the vendor's formulas.
    #[serde(skip)]
    topdown: bool,
    id: String,
    name: String,
    unit: String,
    note: String,
    /// The factor of the ratio; 1 for a formula.
    scale: f64,
    above: Vec<Part>,
    below: Vec<Part>,
    /// The formula, if it is no ratio; its terms are then `parts`.
    formula: Option<String>,
    parts: Vec<Part>,
    /// Shown only on request.
    asked: bool,
    /// Whether this machine can count everything that it needs, on at least one type of core.
    supported: bool,
    /// If types of core differ, those that can count everything that it needs.
    cores: Vec<&'static str>,
}

#[derive(JsonSchema, Serialize)]
struct Part {
    name: String,
    filter: String,
    /// The source that counts it here; null if none does, and for time.
    source: Option<String>,
}

pub(super) fn run(options: &args::List, ctx: &mut Context, output: &Output) -> Result<()> {
    let mut metrics = Metrics::built_in()?;
    if let Some(path) = &options.metric_file {
        metrics.add_file(path)?;
    }
    metrics.set_smt(ctx.shares_cores());
    let catalog = ctx.catalog(options.approximate)?;
    let glob = options.glob.as_deref().map(Pattern::new);
    let named = |metric: &&Metric| {
        let matches = |glob: &Pattern| glob.matches(&metric.id) || glob.matches(&metric.name);
        glob.as_ref().is_none_or(matches)
    };
    let all = metrics.all().iter().filter(named);
    let body = Body {
        interface: describe::interface_name(ctx.machine.interface()),
        metrics: all.map(|metric| row(metric, &metrics, &catalog)).collect(),
    };
    if body.metrics.is_empty()
        && let Some(glob) = &options.glob
    {
        return Err(Error::unavailable(
            format!("no metric matches `{glob}`"),
            "`halprof list --metrics` lists them all, `--metric-file FILE` also those of a file.",
        ));
    }
    let rows = body.metrics.as_slice();
    output.rows("metrics", ctx.told.modelled, (&body, rows), |body| text(body, output.width()))
}

fn row(metric: &Metric, metrics: &Metrics, catalog: &Catalog) -> Row {
    let part = |term: &Term| Part {
        name: term.name.clone(),
        filter: term.filter.clone(),
        source: metrics
            .names(&term.name)
            .into_iter()
            .find(|name| countable(name, catalog).is_some())
            .map(str::to_owned),
    };
    let counted = |term: &Term, kind: &CpuType| {
        let names = metrics.names(&term.name);
        let able = |name: &&str| {
            countable(name, catalog).is_some_and(|event| catalog.counts_on(&event, &kind.processor))
        };
        names.is_empty() || names.iter().any(able)
    };
    let terms = metrics.terms(metric);
    let parts = |terms: &[Term]| terms.iter().map(part).collect::<Vec<Part>>();
    let (scale, above, below, formula) = match &metric.form {
        Form::Ratio { scale, above, below } => (*scale, parts(above), parts(below), None),
        Form::Formula(text) => (1.0, Vec::new(), Vec::new(), Some(text.clone())),
    };
    let able = |kind: &&CpuType| terms.iter().all(|term| counted(term, kind));
    let kinds: Vec<&CpuType> = catalog.cpu_types().iter().filter(able).collect();
    let types = kinds.iter().filter_map(|kind| describe::core_type(&kind.processor));
    Row {
        topdown: metric.is_of_slots() && topdown::is_available(catalog),
        id: metric.id.clone(),
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        note: metric.note.clone(),
        scale,
        above,
        below,
        parts: formula.iter().flat_map(|_| parts(&terms)).collect(),
        formula,
        asked: metric.asked,
        supported: !kinds.is_empty(),
        cores: if catalog.cpu_types().len() > 1 { types.collect() } else { Vec::new() },
    }
}

fn text(body: &Body, width: Width) -> String {
    let cells = |row: &Row| [row.id.clone(), supported(row), name(row), formula(row)];
    let columns = [
        Column::name("metric"),
        Column::prose("supported"),
        Column::prose("is"),
        Column::prose("formula"),
    ];
    table(width, &columns, body.metrics.iter().map(cells))
}

fn supported(row: &Row) -> String {
    match (row.supported, row.cores.as_slice()) {
        (false, _) if row.topdown => "--topdown".to_owned(),
        (false, _) => "no".to_owned(),
        (true, [only]) => format!("{only} cores"),
        (true, _) => "yes".to_owned(),
    }
}

/// `100 x A / (B + C)`.
fn formula(row: &Row) -> String {
    let scale = match row.scale {
        1.0 => String::new(),
        scale if (0.001..1e6).contains(&scale) => format!("{scale} x "),
        scale => format!("{scale:e} x "),
    };
    match &row.formula {
        Some(formula) => formula.clone(),
        None => format!("{scale}{} / {}", sum(&row.above), sum(&row.below)),
    }
}

fn name(row: &Row) -> String {
    if row.unit.is_empty() {
        return row.name.clone();
    }
    format!("{}, {}", row.name, row.unit)
}

fn sum(parts: &[Part]) -> String {
    let part = |part: &Part| {
        let name = part.source.as_ref().unwrap_or(&part.name);
        match part.filter.as_str() {
            "" => name.clone(),
            filter => format!("{name}:{filter}"),
        }
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    match parts.as_slice() {
        [one] => one.clone(),
        several => format!("({})", several.join(" + ")),
    }
}
