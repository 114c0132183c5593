//! Metrics of rows of samples: a function's instructions per cycle.
//!
//! A row has the events of each source, estimated from samples. The errors of sources are independent, so
//! each changes the metric by some distance, and the metric's interval is as wide as the root of the sum of
//! the squares of these distances (G. Y. Zou and A. Donner, Construction of confidence limits about effect
//! measures: a general approach, Statistics in Medicine 27, 2008). For a ratio a / b, this is the interval
//! of log(a / b), whose variance is the sum of those of log(a) and log(b). With few samples, an interval
//! around a / b itself would hold the true value less often than it promises.

use super::sampled::{LogBounds, Sampled, effective};
use super::{Metrics, Requested, SECONDS, Term, with_filter};
use crate::metrics::formula::Value;
use crate::output::error::{Error, Result};
use halprof_measure::float::float;
use halprof_measure::statistics::few::ENOUGH;
use halprof_profile::aggregate::key::{self, Key};
use halprof_profile::aggregate::totals::Totals;
use halprof_profile::views::report::{Report, RowMetric, Table};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The warning about metrics of lines.
pub(crate) const SKID_OF_LINES: &str = "metrics of lines are rough: skid books part of a line's samples \
    on lines that ran next, at a distance that differs by source; metrics of functions are less affected";

/// The metrics that were requested for the rows of a report.
pub(crate) struct RowMetrics<'a> {
    requested: Vec<RequestedMetric<'a>>,
    /// The sources that the metrics need. Totals of all sources in each row would be too much: a stranger's
    /// file may have thousands of sources, and as many rows.
    sources: Vec<Serving>,
}

/// A source that serves a metric.
struct Serving {
    /// Its place among all sources.
    place: usize,
    name: Arc<str>,
    sampled: Sampled,
}

struct RequestedMetric<'a> {
    requested: Requested<'a>,
    /// The place of the source that counts each name of the formula.
    places: HashMap<&'a str, usize>,
}

/// The metrics of a table's rows, by their values.
type ByRow = HashMap<Vec<key::Value>, Vec<RowMetric>>;

impl<'a> RowMetrics<'a> {
    /// # Errors
    /// A metric needs what these sources do not have, or what samples do not say.
    pub(crate) fn new(
        metrics: &'a Metrics,
        requested: &[Requested<'a>],
        sources: &[(Arc<str>, Sampled)],
    ) -> Result<Self> {
        let labels = sources.iter().map(|(name, _)| &**name);
        let requested = requested.iter().map(|&requested| {
            check(&requested)?;
            let names = requested.metric.formula.names(false).into_iter();
            let places = names.map(|name| {
                let term = Term::of(name);
                match metrics.index_of(&term, requested.filter, &labels.clone()) {
                    Some(place) => Ok((name, place)),
                    None => Err(missing(metrics, requested, &term, sources)),
                }
            });
            Ok(RequestedMetric { requested, places: places.collect::<Result<_>>()? })
        });
        let requested: Vec<RequestedMetric<'_>> = requested.collect::<Result<_>>()?;
        let serving: BTreeSet<usize> =
            requested.iter().flat_map(|one| one.places.values()).copied().collect();
        let serving = serving.into_iter().filter_map(|place| {
            let (name, sampled) = sources.get(place)?;
            Some(Serving { place, name: Arc::clone(name), sampled: *sampled })
        });
        let sources = serving.collect();
        Ok(Self { requested, sources })
    }

    /// The same for the sources of a report that was read from this number of recordings, and that has a
    /// table by processor.
    pub(crate) fn of_report(
        metrics: &'a Metrics,
        requested: &[Requested<'a>],
        report: &Report,
        recordings: usize,
    ) -> Result<Self> {
        let by_processor = report.tables.iter().find(|table| table.by == [Key::Processor]);
        let processors: HashMap<&str, usize> = by_processor
            .into_iter()
            .flat_map(|table| &table.sections)
            .filter_map(|section| Some((section.source.as_deref()?, section.rows.len())))
            .collect();
        let sources = report.sources.iter().map(|source| {
            let processors = processors.get(&*source.name).copied().unwrap_or(1);
            let sampled = Sampled::new(&report.recording, Some(source), processors);
            (Arc::clone(&source.name), sampled)
        });
        let all = Self::new(metrics, requested, &sources.collect::<Vec<_>>())?;
        let served = all.serving();
        match report
            .sources
            .iter()
            .find(|one| served.contains(&one.name) && one.recordings < recordings)
        {
            Some(partly) => Err(Error::usage(
                format!(
                    "{} was sampled in {} of {recordings} recordings: its ratio to what was sampled in \
                     all of them would mean nothing",
                    partly.name, partly.recordings
                ),
                "Give recordings of the same sources.",
            )),
            None => Ok(all),
        }
    }

    /// The sources that serve them.
    pub(crate) fn serving(&self) -> BTreeSet<Arc<str>> {
        self.sources.iter().map(|source| Arc::clone(&source.name)).collect()
    }

    /// Their places among the sources that [`Self::new`] had, in the order of [`Self::row`].
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        self.sources.iter().map(|source| source.place)
    }

    /// The metrics of each table's rows; none for the tables that [`refusal`] names.
    pub(crate) fn of_tables(&self, tables: &[Table]) -> Vec<ByRow> {
        let names = self.sources.iter().map(|source| &*source.name);
        let indexes: HashMap<&str, usize> = names.zip(0..).collect();
        let of_table = |table: &Table| {
            let mut rows: HashMap<Vec<key::Value>, Vec<Totals>> = HashMap::new();
            if refusal(&table.by).is_some() {
                return ByRow::new();
            }
            for section in &table.sections {
                let Some(&index) = section.source.as_deref().and_then(|name| indexes.get(name))
                else {
                    continue;
                };
                for row in &section.rows {
                    let none = || vec![Totals::default(); self.sources.len()];
                    let totals = rows.entry(row.values.clone()).or_insert_with(none);
                    totals[index].add(row.totals);
                }
            }
            rows.into_iter().map(|(values, totals)| (values, self.row(&totals))).collect()
        };
        tables.iter().map(of_table).collect()
    }

    /// Gives the rows of tables their metrics.
    pub(crate) fn put(&self, by_table: Vec<ByRow>, tables: &mut [Table]) {
        let none = self.row(&vec![Totals::default(); self.sources.len()]);
        for (rows, table) in by_table.into_iter().zip(tables) {
            if refusal(&table.by).is_some() {
                continue;
            }
            for row in table.sections.iter_mut().flat_map(|section| &mut section.rows) {
                row.metrics = rows.get(&row.values).unwrap_or(&none).clone();
            }
        }
    }

    /// The metrics of a row with these totals, one of each source that serves.
    pub(crate) fn row(&self, totals: &[Totals]) -> Vec<RowMetric> {
        self.requested.iter().map(|one| self.metric(one, totals)).collect()
    }

    fn metric(&self, of: &RequestedMetric<'_>, totals: &[Totals]) -> RowMetric {
        let Requested { metric, .. } = of.requested;
        let mut row = RowMetric { metric: of.requested.name(), ..RowMetric::default() };
        let parts = self.sources.iter().zip(totals);
        let parts: Vec<Part<'_>> = parts
            .filter(|(source, _)| of.places.values().any(|&place| place == source.place))
            .map(|(source, &totals)| Part { source, totals })
            .collect();
        let none: Vec<&str> =
            parts.iter().filter(|part| part.totals.events == 0).map(Part::name).collect();
        if !none.is_empty() {
            row.reason = Some(format!("no sample of {}", none.join(" and ")));
            return row;
        }
        // The value of the formula if one source had `factor` times its events.
        let with = |changed: usize, factor: f64| {
            let value = |name: &str| {
                let place = *of.places.get(name)?;
                let part = parts.iter().find(|part| part.source.place == place)?;
                let factor = if place == changed { factor } else { 1.0 };
                Some(Value::exact(part.events() * factor))
            };
            Some(metric.formula.value(false, &value)?.value)
        };
        let Some(value) = with(usize::MAX, 1.0) else {
            row.reason = Some("division by zero".to_owned());
            return row;
        };
        let few: Vec<&Part<'_>> = parts.iter().filter(|part| part.is_few()).collect();
        if few.is_empty() {
            row.value = Some(value);
        } else {
            let few = few.iter().map(|part| format!("{} of {}", part.totals.samples, part.name()));
            let few: Vec<String> = few.collect();
            row.reason = Some(format!("too few samples: {}", few.join(", ")));
        }
        if let Some(in_step) = parts.iter().find(|part| part.source.sampled.in_step > 1) {
            let reason = format!("the samples of {} are in step with what ran", in_step.name());
            row.reason.get_or_insert(reason);
            return row;
        }
        let mut bounds = Bounds::around(value);
        for part in &parts {
            let Some(own) = part.source.sampled.log_bounds(part.totals) else {
                let reason =
                    format!("{} took turns, and the error of its times is not known", part.name());
                row.reason.get_or_insert(reason);
                return row;
            };
            let ends =
                [own.up.exp(), (-own.down).exp()].map(|factor| with(part.source.place, factor));
            bounds.add(own, ends, part.is_few());
        }
        (row.low, row.high) = if few.is_empty() { bounds.both() } else { bounds.of_few() };
        row
    }
}

/// The events of one source in a row.
struct Part<'a> {
    source: &'a Serving,
    totals: Totals,
}

impl<'a> Part<'a> {
    fn name(&self) -> &'a str {
        &self.source.name
    }

    fn events(&self) -> f64 {
        float(self.totals.events)
    }

    fn is_few(&self) -> bool {
        effective(self.totals) < ENOUGH
    }
}

/// The interval of a metric: the squares of what the error of each source does to it.
struct Bounds {
    value: f64,
    /// Distances of the logarithm.
    log: LogBounds,
    /// Distances of the value itself.
    plain: LogBounds,
    /// The metric is a difference, which may change by a larger part than what it is of; or it is not
    /// above 0. Its logarithm says nothing then.
    is_difference: bool,
    /// Whether it is known where one of the sources is at an end of its interval.
    is_known: bool,
    /// Whether it rises and whether it falls with a source that has few samples.
    few: (bool, bool),
}

impl Bounds {
    const fn around(value: f64) -> Self {
        let none = LogBounds { down: 0.0, up: 0.0 };
        Self {
            value,
            log: none,
            plain: none,
            is_difference: value <= 0.0,
            is_known: true,
            few: (false, false),
        }
    }

    /// Adds the error of a source; `ends` is the metric at the upper and at the lower end of its events.
    fn add(&mut self, own: LogBounds, ends: [Option<f64>; 2], is_few: bool) {
        /// For the rounding of numbers.
        const SLACK: f64 = 1e-9;
        let [Some(above), Some(below)] = ends else {
            self.is_known = false;
            return;
        };
        let (rise, fall) = (above - self.value, below - self.value);
        if is_few {
            self.few = (self.few.0 || rise > fall, self.few.1 || rise < fall);
        }
        widen(&mut self.plain, rise, fall);
        let [log_above, log_below] = [above, below].map(|end| (end / self.value).ln());
        let is_part = |log: f64, most: f64| log.abs() <= most + SLACK;
        if is_part(log_above, own.up) && is_part(log_below, own.down) {
            widen(&mut self.log, log_above, log_below);
        } else {
            self.is_difference = true;
        }
    }

    fn both(&self) -> (Option<f64>, Option<f64>) {
        if !self.is_known {
            return (None, None);
        }
        let ends = if self.is_difference {
            (self.value - self.plain.down, self.value + self.plain.up)
        } else {
            (self.value * (-self.log.down).exp(), self.value * self.log.up.exp())
        };
        (Some(ends.0), Some(ends.1))
    }

    /// What can be said where a source has few samples: the limit that more of them would move towards.
    fn of_few(&self) -> (Option<f64>, Option<f64>) {
        if self.is_difference {
            return (None, None);
        }
        match (self.few, self.both()) {
            ((true, false), (_, high)) => (None, high),
            ((false, true), (low, _)) => (low, None),
            _ => (None, None),
        }
    }
}

/// Adds what two ends of a source do, as squares.
fn widen(bounds: &mut LogBounds, one: f64, other: f64) {
    bounds.up = bounds.up.hypot(one.max(other).max(0.0));
    bounds.down = bounds.down.hypot((-one).max(-other).max(0.0));
}

/// Refuses a metric that samples do not give.
pub(crate) fn check(requested: &Requested<'_>) -> Result<()> {
    let label = requested.name();
    let formula = &requested.metric.formula;
    let mut names = formula.names(false).into_iter().map(Term::of);
    let why = if formula.depends_on_threads() {
        "depends on whether threads share cores, which no recording says"
    } else if names.any(|term| term.name == SECONDS) {
        "is per second, and samples do not say how long a row ran"
    } else {
        return Ok(());
    };
    let hint = format!("`halprof stat -M {label}` measures it.");
    Err(Error::unavailable(format!("`{label}` {why}"), hint))
}

/// Why rows by these keys have no metrics.
pub(crate) fn refusal(by: &[Key]) -> Option<&'static str> {
    if by.contains(&Key::Address) {
        return Some(
            "a metric of a single address is an artefact: skid moves the samples of each source to other instructions",
        );
    }
    by.contains(&Key::Source)
        .then_some("a metric needs several sources, and each of these rows is of one")
}

/// The error that nothing was sampled that a metric needs.
fn missing(
    metrics: &Metrics,
    requested: Requested<'_>,
    term: &Term,
    sources: &[(Arc<str>, Sampled)],
) -> Error {
    let label = requested.name();
    let filter = term.filter_or(requested.filter);
    let names: Vec<String> =
        metrics.names(&term.name).iter().map(|name| with_filter(name, filter)).collect();
    let needed = with_filter(&term.name, filter);
    let one_of = match names.as_slice() {
        [one] if *one == needed => String::new(),
        [one] => format!(", as {one}"),
        several => format!(", as one of {}", several.join(", ")),
    };
    let sampled: Vec<&str> = sources.iter().map(|(name, _)| &**name).collect();
    let sampled = if sampled.is_empty() { "nothing".to_owned() } else { sampled.join(", ") };
    Error::unavailable(
        format!("`{label}` needs {needed}{one_of}; what was sampled is {sampled}"),
        format!(
            "`halprof record -M {label}` samples what it needs, with the driver and by tracing."
        ),
    )
}

impl Requested<'_> {
    /// What it is called: its id, with its mode if it has one.
    pub(crate) fn name(&self) -> String {
        with_filter(&self.metric.id, self.filter)
    }
}

#[cfg(test)]
mod tests;
