//! Metrics: formulas over counts, shown wherever their counts are available.
//!
//! They are data, not code: `metrics.toml` lists them and describes its format, and
//! [`Metrics::add_file`] adds a user's own.

mod architectural;
pub(crate) mod formula;
pub(crate) mod rows;
pub(crate) mod sampled;

use crate::cli::args::joined;
use crate::metrics::formula::{Formula, Value};
use crate::output::error as tool;
use halprof_measure::catalog::Catalog;
use halprof_measure::events::Microarchitecture;
use halprof_measure::float::float;
use halprof_measure::{Error, Result, did_you_mean, text_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

const BUILT_IN: &str = include_str!("metrics/metrics.toml");
/// The largest file of metrics that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most metrics and the most quantities of a file, and the most sources of a quantity: each of one
/// is looked for among the others.
const METRICS_MAX: usize = 1000;
const QUANTITIES_MAX: usize = 1000;
const SOURCES_MAX: usize = 100;
/// The most names of sources and quantities in the formulas of a file: each is looked for among all
/// events of all processors, to say where it can be counted. All of a vendor's metrics have some 600.
const NAMES_MAX: usize = 2000;
/// The longest name of a metric or quantity, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// The name that stands for the measured time.
const SECONDS: &str = "seconds";
const FILTERS: [&str; 3] = ["", "u", "k"];

/// All metrics that can be shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    /// For each quantity, the names of the sources that count it, best first.
    quantities: BTreeMap<String, Vec<String>>,
    all: Vec<Metric>,
    /// The parts of the slots, by microarchitecture.
    topdown: Vec<TopDownMetric>,
    /// The sources whose samples show where a part of the slots comes from, best first, by the part's name
    /// in lower case.
    pub(crate) topdown_causes: BTreeMap<String, Vec<String>>,
    default: Vec<String>,
    /// Whether threads share cores on the machine: the value of `smt_on`.
    smt: bool,
}

/// The direction in which a figure gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WorseWhen {
    More,
    Fewer,
}

/// A figure computed from counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric {
    /// Its name for `-M`.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) unit: String,
    /// How to interpret it, for display.
    pub(crate) note: String,
    /// How it is computed, as the file has it.
    pub(crate) text: String,
    pub(crate) formula: Formula,
    /// Shown only on request.
    pub(crate) on_request: bool,
    /// The direction in which it gets worse, if one is.
    pub(crate) worse: Option<WorseWhen>,
}

impl Metric {
    /// Whether it is one of the parts that `--topdown` has too.
    pub(crate) fn is_of_slots(&self) -> bool {
        const PARTS: [&str; 4] = ["retiring", "bad-speculation", "frontend-bound", "backend-bound"];
        PARTS.contains(&self.id.as_str())
    }

    /// Its parts; `smt`: threads share cores on the machine.
    fn terms(&self, smt: bool) -> Vec<Term> {
        self.formula.names(smt).into_iter().map(Term::of).collect()
    }
}

/// A part of the issue slots of some microarchitectures: the top-down method (Yasin 2014).
#[derive(Clone, Debug)]
pub(crate) struct TopDownMetric {
    /// Its id and name are the vendor's; it is in percent.
    pub(crate) metric: Metric,
    /// The tables of events of those microarchitectures.
    tables: String,
    /// 1 for parts of the whole, 2 for parts of those parts.
    pub(crate) level: u8,
    /// The part that it is a part of.
    pub(crate) parent: Option<String>,
}

/// A metric that was requested, and its mode.
#[derive(Clone, Copy)]
pub(crate) struct Requested<'a> {
    pub(crate) metric: &'a Metric,
    /// `u`, `k`, or empty for both.
    pub(crate) filter: &'static str,
}

impl Requested<'_> {
    /// Whether a part of it counts user and kernel mode together.
    pub(crate) fn is_of_both_modes(&self, term: &Term) -> bool {
        term.filter_or(self.filter).is_empty()
    }

    /// The label of a source with the filter that it needs for this part.
    pub(crate) fn label(&self, name: &str, term: &Term) -> String {
        with_filter(name, term.filter_or(self.filter))
    }
}

/// A quantity or a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) name: String,
    /// `u` or `k` if it is always of that mode; otherwise empty.
    pub(crate) filter: String,
}

/// The count of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counted<'a> {
    /// The source's name, with its filter if it has one.
    pub(crate) label: &'a str,
    pub(crate) value: u128,
    /// Whether the value is an estimate because the source was on a counter for part of the time.
    pub(crate) scaled: bool,
    /// The 95 % bound of the estimate, if it is known.
    pub(crate) error: Option<f64>,
    /// How long it was measured, in nanoseconds, on all processors together.
    pub(crate) enabled_ns: u128,
    /// The group it ran in, or 0.
    pub(crate) group: u16,
}

/// A metric.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub(crate) struct MetricRow {
    pub(crate) metric: String,
    pub(crate) name: String,
    /// Null with a reason.
    pub(crate) value: Option<f64>,
    pub(crate) unit: String,
    pub(crate) filter: &'static str,
    /// The processor that it is of, if each was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) processor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) core_type: Option<&'static str>,
    pub(crate) scaled: bool,
    pub(crate) error: Option<f64>,
    /// Half of the 95 % confidence interval over repeated measurements (Student's t);
    /// null of one.
    pub(crate) confidence: Option<f64>,
    /// The direction in which it gets worse; null if neither is.
    pub(crate) worse: Option<WorseWhen>,
    /// Why it could not be computed.
    pub(crate) reason: Option<String>,
}

impl MetricRow {
    /// A metric without a value.
    pub(crate) fn new(metric: &Metric, filter: &'static str) -> Self {
        Self {
            metric: metric.id.clone(),
            name: metric.name.clone(),
            unit: metric.unit.clone(),
            filter,
            worse: metric.worse,
            ..Self::default()
        }
    }
}

impl MetricRow {
    /// Whether it is the same metric of the same processors.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let place = |row: &Self| (row.filter, row.processor, row.core_type);
        self.metric == other.metric && place(self) == place(other)
    }
}

/// A file of metrics, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    default: Vec<Spanned<String>>,
    #[serde(default)]
    quantity: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    #[serde(default)]
    metric: Vec<MetricToml>,
    #[serde(default)]
    topdown: Vec<WrittenTopDown>,
    #[serde(default)]
    topdown_cause: BTreeMap<Spanned<String>, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricToml {
    id: Spanned<String>,
    name: Spanned<String>,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    note: String,
    formula: Spanned<String>,
    #[serde(default)]
    on_request: bool,
    worse: Option<WorseWhen>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTopDown {
    tables: String,
    name: Spanned<String>,
    level: u8,
    parent: Option<String>,
    formula: Spanned<String>,
}

/// An error in a file, and where it is.
struct MetricError {
    at: Option<Range<usize>>,
    why: String,
}

impl Metrics {
    pub(crate) fn built_in() -> Result<Self> {
        let mut metrics = Self::default();
        let added = parse(BUILT_IN).and_then(|document| {
            metrics.add_metrics(&document)?;
            for written in &document.topdown {
                let metric = metrics.topdown_metric(written)?;
                metrics.topdown.push(metric);
            }
            let causes = document.topdown_cause.into_iter();
            metrics.topdown_causes =
                causes.map(|(part, sources)| (part.into_inner(), sources)).collect();
            Ok(())
        });
        added.map_err(|wrong| Error::Internal(format!("metrics.toml: {}", wrong.why)))?;
        Ok(metrics)
    }

    /// The built-in metrics and those of a user's file, if one is given. `smt`: threads share cores
    /// on the machine, which is what `smt_on` means in a formula.
    pub(crate) fn with_file(path: Option<&Path>, smt: bool) -> Result<Self> {
        let mut metrics = Self { smt, ..Self::built_in()? };
        if let Some(path) = path {
            metrics.add_file(path)?;
        }
        Ok(metrics)
    }

    /// Adds the metrics of a file; one with an existing name replaces the existing one.
    fn add_file(&mut self, path: &Path) -> Result<()> {
        let text = read(path).map_err(|error| Error::File {
            path: path.to_owned(),
            doing: "read",
            error,
        })?;
        self.add(&text).map_err(|wrong| Error::BadFile {
            path: path.to_owned(),
            why: wrong.in_words(&text),
            hint: "A file of metrics is TOML: `[quantity]` has lists of sources, each `[[metric]]` an `id`, a `name`, and a `formula`, as docs/cli.md shows."
                .into(),
        })
    }

    /// Adds the metrics of a user's text.
    fn add(&mut self, text: &str) -> MetricResult<()> {
        let document = parse(text)?;
        let topdown = document.topdown.first().map(|part| &part.name);
        if let Some(name) = topdown.or_else(|| document.topdown_cause.keys().next()) {
            // Each of these may name others, and only our own are known to end.
            return Err(wrong(name, "parts of the top-down method cannot be added"));
        }
        self.add_metrics(&document)
    }

    fn add_metrics(&mut self, document: &Document) -> MetricResult<()> {
        if let Some(one_more) = document.metric.get(METRICS_MAX) {
            let why = format!("more than {METRICS_MAX} metrics");
            return Err(wrong(&one_more.id, &why));
        }
        if let Some(one_more) = document.quantity.keys().nth(QUANTITIES_MAX) {
            let why = format!("more than {QUANTITIES_MAX} quantities");
            return Err(wrong(one_more, &why));
        }
        for (name, sources) in &document.quantity {
            if let Some(one_more) = sources.get(SOURCES_MAX) {
                let why = format!("more than {SOURCES_MAX} sources of one quantity");
                return Err(wrong(one_more, &why));
            }
            self.quantities.insert(
                id_of(name, "a quantity's name")?,
                sources.iter().map(source_of).collect::<MetricResult<_>>()?,
            );
            if sources.is_empty() {
                return Err(wrong(name, "a quantity without sources"));
            }
        }
        for name in &document.default {
            self.check_term(name)?;
            self.default.push(name.get_ref().clone());
        }
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for sources in document.quantity.values() {
            names.extend(sources.iter().map(|source| source.get_ref().clone()));
        }
        for written in &document.metric {
            let metric = self.metric(written)?;
            for smt in [false, true] {
                names.extend(metric.terms(smt).into_iter().map(|term| term.name));
            }
            if names.len() > NAMES_MAX {
                let why = format!("more than {NAMES_MAX} names of what is counted");
                return Err(wrong(&written.formula, &why));
            }
            if !ids.insert(written.id.get_ref()) {
                return Err(wrong(&written.id, "the same id twice"));
            }
            match self.all.iter_mut().find(|other| other.id == metric.id) {
                Some(other) => *other = metric,
                None => self.all.push(metric),
            }
        }
        Ok(())
    }

    fn metric(&self, written: &MetricToml) -> MetricResult<Metric> {
        if !is_plain(written.name.get_ref()) {
            return Err(wrong(&written.name, "a name that cannot be printed"));
        }
        let metric = Metric {
            id: id_of(&written.id, "an id")?,
            name: written.name.get_ref().clone(),
            unit: written.unit.clone(),
            note: written.note.clone(),
            text: written.formula.get_ref().clone(),
            formula: self.formula(&written.formula)?,
            on_request: written.on_request,
            worse: written.worse,
        };
        for smt in [false, true] {
            if metric.terms(smt).iter().all(|term| term.name == SECONDS) {
                return Err(wrong(&written.id, "a metric that counts nothing"));
            }
        }
        Ok(metric)
    }

    fn topdown_metric(&self, written: &WrittenTopDown) -> MetricResult<TopDownMetric> {
        let name = written.name.get_ref();
        Ok(TopDownMetric {
            tables: written.tables.clone(),
            level: written.level,
            parent: written.parent.clone(),
            metric: Metric {
                id: name.clone(),
                name: name.clone(),
                unit: "%".to_owned(),
                note: String::new(),
                text: written.formula.get_ref().clone(),
                formula: self.formula(&written.formula)?,
                on_request: true,
                worse: None,
            },
        })
    }

    fn formula(&self, text: &Spanned<String>) -> MetricResult<Formula> {
        if !is_plain(text.get_ref()) {
            return Err(wrong(text, "a formula that cannot be printed"));
        }
        let formula = Formula::parse_with(text.get_ref(), &|name| self.is_dashed(name));
        let formula = formula.map_err(|why| wrong(text, &why))?;
        for smt in [false, true] {
            for name in formula.names(smt) {
                if !matches!(Term::of(name).filter.as_str(), "" | "u" | "k") {
                    let why = format!("`{name}` has a filter that is neither `:u` nor `:k`");
                    return Err(wrong(text, &why));
                }
            }
        }
        Ok(formula)
    }

    fn check_term(&self, text: &Spanned<String>) -> MetricResult<()> {
        let (name, filter) = split_filter(text.get_ref());
        if !matches!(filter, "" | "u" | "k") {
            return Err(wrong(text, "a filter that is neither `:u` nor `:k`"));
        }
        if name.contains('-') && !self.quantities.contains_key(name) {
            let known: Vec<&str> = self.quantities.keys().map(String::as_str).collect();
            let why = format!("no quantity; there are {}", known.join(", "));
            return Err(wrong(text, &why));
        }
        if !is_name(name) {
            return Err(wrong(text, "neither a quantity nor a source"));
        }
        Ok(())
    }

    /// The metrics that a list names, each with its mode.
    pub(crate) fn requested(&self, names: &[String]) -> tool::Result<Vec<Requested<'_>>> {
        let Some(list) = joined(names) else {
            return Ok(Vec::new());
        };
        list.split(',').map(|name| self.requested_one(name.trim())).collect()
    }

    fn requested_one(&self, name: &str) -> tool::Result<Requested<'_>> {
        let (id, filter) = name.split_once(':').unwrap_or((name, "uk"));
        let metric = self.named(id).ok_or_else(|| self.no_metric(id))?;
        let filter = match filter {
            "u" => "u",
            "k" => "k",
            "uk" => "",
            _ => {
                return Err(tool::Error::usage(
                    format!("`{name}`: `{filter}` is not a filter"),
                    "A metric is of user mode with `:u`, of kernel mode with `:k`.",
                ));
            }
        };
        let names_modes = self.terms(metric).iter().any(|term| !term.filter.is_empty());
        if !filter.is_empty() && names_modes {
            return Err(tool::Error::usage(
                format!("`{name}`: this metric names its modes itself"),
                format!("Ask for `{id}`."),
            ));
        }
        Ok(Requested { metric, filter })
    }

    fn no_metric(&self, id: &str) -> tool::Error {
        // Linux perf and WindowsPerf have groups of metrics such as TopdownL1.
        let meant = if id.to_ascii_lowercase().starts_with("topdown") {
            Some("`--topdown` is a separate option: `halprof stat --topdown`.".to_owned())
        } else {
            did_you_mean(id, self.all.iter().map(|metric| metric.id.as_str()))
        };
        let hint = format!(
            "{} `halprof list --metrics` shows them all; `--metric-file FILE` adds more.",
            meant.unwrap_or_default()
        );
        tool::Error::usage(format!("no metric is called `{id}`"), hint.trim_start())
    }

    /// The parts of a metric on this machine.
    pub(crate) fn terms(&self, metric: &Metric) -> Vec<Term> {
        metric.terms(self.smt)
    }

    /// Whether threads share cores here and a metric counts them differently because of it.
    pub(crate) fn counts_threads_together(&self, metric: &Metric) -> bool {
        self.smt && metric.terms(true) != metric.terms(false)
    }

    /// The formula of a metric as its file has it, with other names for what it counts.
    pub(crate) fn spelled(
        &self,
        metric: &Metric,
        source: impl Fn(&str) -> Option<String>,
    ) -> String {
        formula::respelled(&metric.text, &|name| self.is_dashed(name), |token| {
            let (name, filter) = split_filter(token);
            Some(with_filter(&source(name)?, filter))
        })
    }

    /// Whether it is a quantity whose name has a dash, which is no minus.
    fn is_dashed(&self, name: &str) -> bool {
        name.contains('-') && self.quantities.contains_key(name)
    }

    /// The parts of a microarchitecture's slots down to a level, each before its own parts; none if
    /// the vendor has no formulas for it.
    pub(crate) fn topdown(&self, of: &Microarchitecture, level: u8) -> Vec<TopDownMetric> {
        let has_table = |row: &&TopDownMetric| row.tables.split(' ').any(|one| one == of.table);
        let rows: Vec<&TopDownMetric> = self.topdown.iter().filter(has_table).collect();
        let named = |name: &str| {
            let row = rows.iter().find(|row| row.metric.id == name);
            row.map(|row| row.metric.formula.clone())
        };
        let mut parts = Vec::new();
        for &row in rows.iter().filter(|row| (1..=level).contains(&row.level)) {
            let mut part = row.clone();
            part.metric.formula = part.metric.formula.replaced(&named);
            parts.push(part);
        }
        parts
    }

    /// Whether there are formulas for `--topdown` on this machine.
    pub(crate) fn has_topdown(&self, catalog: &Catalog) -> bool {
        let mut known =
            catalog.cpu_types().iter().filter_map(|cpu_type| cpu_type.microarchitecture);
        known.any(|one| !self.topdown(one, 1).is_empty())
    }

    /// All metrics, in the order of their files.
    pub(crate) fn all(&self) -> &[Metric] {
        &self.all
    }

    /// The metric with this short name, in any case.
    pub(crate) fn named(&self, id: &str) -> Option<&Metric> {
        let mut all = self.all.iter();
        all.find(|metric| metric.id.eq_ignore_ascii_case(id))
    }

    /// What a default measurement counts: for each quantity, the names of the sources that count
    /// it.
    pub(crate) fn default_quantities(&self) -> impl Iterator<Item = Vec<&str>> {
        self.default.iter().map(|name| self.names(name))
    }

    /// The names of the sources that count it, best first; none for time.
    pub(crate) fn names<'a>(&'a self, term: &'a str) -> Vec<&'a str> {
        match self.quantities.get(term) {
            _ if term == SECONDS => Vec::new(),
            Some(names) => names.iter().map(String::as_str).collect(),
            None => vec![term],
        }
    }

    /// What a source counts, if it is known by which names others count the same.
    pub(crate) fn quantity(&self, source: &str) -> Option<&str> {
        let mut all = self.quantities.iter();
        let (quantity, _) = all.find(|(_, names)| names.iter().any(|name| name == source))?;
        Some(quantity)
    }

    /// Whether two sources, in the same mode, are of one quantity.
    pub(crate) fn count_the_same(&self, one: &str, other: &str) -> bool {
        let ((one, mode), (other, other_mode)) = (split_filter(one), split_filter(other));
        let quantity = self.quantity(one);
        mode == other_mode && quantity.is_some() && quantity == self.quantity(other)
    }

    /// Every figure that can be computed from `counts`, figures for all modes first.
    pub(crate) fn derive(&self, counts: &[Counted<'_>]) -> Vec<MetricRow> {
        let mut figures = Vec::new();
        for filter in FILTERS {
            let unasked = self.all.iter().filter(|metric| !metric.on_request);
            figures.extend(unasked.filter_map(|metric| self.figure(metric, counts, filter)));
        }
        figures
    }

    /// One figure, if it can be computed from `counts`.
    pub(crate) fn figure(
        &self,
        metric: &Metric,
        counts: &[Counted<'_>],
        filter: &'static str,
    ) -> Option<MetricRow> {
        // A metric that names its modes is not computed for others.
        let terms = self.terms(metric);
        if !filter.is_empty() && terms.iter().any(|term| !term.filter.is_empty()) {
            return None;
        }
        // Sources in one group were counted at the same time, which makes a better ratio.
        let groups: BTreeSet<u16> = counts.iter().map(|counted| counted.group).collect();
        let within = |group: u16| {
            let among = counts.iter().filter(|counted| counted.group == group).cloned();
            self.value(metric, &terms, &among.collect::<Vec<_>>(), filter)
        };
        let mut groups = groups.into_iter().filter(|&group| group != 0);
        groups.find_map(within).or_else(|| self.value(metric, &terms, counts, filter))
    }

    /// Why a figure cannot be computed from `counts`. `partly` lists the sources that were never
    /// on a counter on some processor.
    pub(crate) fn why_not(
        &self,
        metric: &Metric,
        counts: &[Counted<'_>],
        partly: &[&str],
        filter: &'static str,
    ) -> String {
        let partly: Vec<Counted<'_>> =
            partly.iter().map(|&label| Counted { label, ..Counted::default() }).collect();
        let terms = self.terms(metric);
        for term in terms.iter().filter(|term| term.name != SECONDS) {
            if self.find(term, counts, filter).is_some() {
                continue;
            }
            if let Some(counted) = self.find(term, &partly, filter) {
                return never_scheduled(counted.label);
            }
            let filter = term.filter_or(filter);
            return format!("`{}` was not counted", with_filter(&term.name, filter));
        }
        let value = |name: &str| {
            let counted = self.find(&Term::of(name), counts, filter)?;
            Some(Value::of_count(counted.value, false, None))
        };
        let divisor = metric.formula.zero_divisor(self.smt, &value);
        let below = divisor.iter().filter_map(|name| self.find(&Term::of(name), counts, filter));
        let below: Vec<&Counted<'_>> = below.collect();
        if below.is_empty() {
            return "the result is no number that can be shown".to_owned();
        }
        if below.iter().any(|counted| counted.value != 0) {
            return "division by zero".to_owned();
        }
        let names: Vec<&str> = below.iter().map(|counted| counted.label).collect();
        format!("division by zero: {} counted 0", names.join(" + "))
    }

    fn value(
        &self,
        metric: &Metric,
        terms: &[Term],
        counts: &[Counted<'_>],
        filter: &'static str,
    ) -> Option<MetricRow> {
        let own = || terms.iter().filter_map(|term| self.find(term, counts, filter));
        let seconds = float(own().next()?.enabled_ns) / 1e9;
        let of = |name: &str| {
            let term = Term::of(name);
            if term.name == SECONDS {
                return Some(Value::exact(seconds));
            }
            let counted = self.find(&term, counts, filter)?;
            Some(Value::of_count(counted.value, counted.scaled, counted.error))
        };
        let value = metric.formula.value(self.smt, &of)?;
        let scaled = own().any(|counted| counted.scaled);
        let error = value.error().unwrap_or(0.0);
        Some(MetricRow {
            value: Some(value.value),
            error: Some(error).filter(|error| scaled && error.is_finite()),
            scaled,
            ..MetricRow::new(metric, filter)
        })
    }

    fn find<'a, 'b>(
        &self,
        term: &Term,
        counts: &'a [Counted<'b>],
        filter: &str,
    ) -> Option<&'a Counted<'b>> {
        let labels = counts.iter().map(|counted| counted.label);
        counts.get(self.index_of(term, filter, &labels)?)
    }

    /// Which of these sources counts a part of a metric: the best that is there.
    fn index_of<'a>(
        &self,
        term: &Term,
        filter: &str,
        labels: &(impl Iterator<Item = &'a str> + Clone),
    ) -> Option<usize> {
        let filter = term.filter_or(filter);
        let is = |label: &str, name: &str| {
            let (base, suffix) = split_filter(label);
            let suffix = if suffix == "uk" { "" } else { suffix };
            base.eq_ignore_ascii_case(name) && suffix == filter
        };
        let named = |name: &str| labels.clone().position(|label| is(label, name));
        self.names(&term.name).into_iter().find_map(named)
    }
}

/// Why a figure has no value though its source was counted, or was to be.
pub(crate) fn never_scheduled(source: &str) -> String {
    format!("{source} was never on a counter on some processors: measure for longer")
}

impl Term {
    /// A name in a formula; its filter follows a colon.
    fn of(name: &str) -> Self {
        let (name, filter) = split_filter(name);
        Self { name: listed(name), filter: filter.to_owned() }
    }

    /// The term's own filter, or `filter` if it has none.
    fn filter_or<'a>(&'a self, filter: &'a str) -> &'a str {
        if self.filter.is_empty() { filter } else { &self.filter }
    }
}

/// An event of a formula, as a list of sources spells it: `NAME.c1` and perf's `cpu@NAME,cmask=1@`
/// are events with another counter mask.
fn listed(name: &str) -> String {
    if let Some(inside) = name.strip_prefix("cpu@") {
        return format!("cpu/{}/", inside.trim_end_matches('@'));
    }
    match name.rsplit_once(".c") {
        Some((event, mask)) if mask.parse::<u8>().is_ok() => format!("cpu/{event},cmask={mask}/"),
        _ => name.to_owned(),
    }
}

type MetricResult<T> = std::result::Result<T, MetricError>;

impl MetricError {
    /// The rest of a sentence that begins with the file's name.
    fn in_words(&self, text: &str) -> String {
        match &self.at {
            Some(at) => {
                let before = text.get(..at.start).unwrap_or_default();
                let line = before.matches('\n').count() + 1;
                format!("is not a valid metric file: line {line}: {}", self.why)
            }
            None => format!("is not a valid metric file: {}", self.why),
        }
    }
}

fn wrong(what: &Spanned<String>, why: &str) -> MetricError {
    const SHOWN_MAX: usize = 100;
    let text = what.get_ref();
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown += "...";
    }
    MetricError { at: Some(what.span()), why: format!("{shown:?}: {why}") }
}

/// Checks a name that `-M` or a metric may use.
fn id_of(text: &Spanned<String>, what: &str) -> MetricResult<String> {
    let name = text.get_ref();
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let has_length = (1..=NAME_BYTES_MAX).contains(&name.len());
    if has_length && name != SECONDS && name.bytes().all(fits) {
        return Ok(name.clone());
    }
    let why = format!(
        "{what} is of at most {NAME_BYTES_MAX} lowercase letters, digits and `-`, and not `{SECONDS}`"
    );
    Err(wrong(text, &why))
}

fn source_of(text: &Spanned<String>) -> MetricResult<String> {
    if is_name(text.get_ref()) {
        return Ok(text.get_ref().clone());
    }
    Err(wrong(text, "no name of a source"))
}

fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !text.is_empty() && text.bytes().all(fits)
}

fn is_plain(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_control)
}

fn with_filter(name: &str, filter: &str) -> String {
    if filter.is_empty() { name.to_owned() } else { format!("{name}:{filter}") }
}

fn split_filter(label: &str) -> (&str, &str) {
    label.split_once(':').unwrap_or((label, ""))
}

fn parse(text: &str) -> MetricResult<Document> {
    toml::from_str(text)
        .map_err(|error| MetricError { at: error.span(), why: error.message().to_owned() })
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    text_file::decode_or_invalid(bytes)
}

#[cfg(test)]
mod tests;
