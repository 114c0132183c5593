//! How counts become rows, and rows metrics.

use crate::metrics::{Counted, MetricRow, Metrics, Requested};
use crate::results::count_row::{CountRow, complete};
use crate::results::counts::{By, Counts, CpuGroup};
use crate::results::errata::EventErrata;
use crate::select::event_set::EventSet;
use halprof_measure::errata::Erratum;
use halprof_measure::event_counts::EventCounts;
use halprof_measure::selection::{EventSpec, format_processors};
use halprof_measure::statistics::confidence_of_mean;
use shared_types::request::machine::Processor;

/// How counts become rows.
pub(crate) struct RowBuilder<'a> {
    /// What is counted; counts name them by their indexes.
    pub(crate) events: Vec<CountedEvent>,
    /// Where it is counted.
    pub(crate) processors: Vec<Processor>,
    pub(crate) errata: EventErrata,
    pub(crate) metrics: &'a Metrics,
    /// The metrics that were requested; if none was, all that can be computed.
    pub(crate) requested: Vec<Requested<'a>>,
    /// Ticks a second of the clock that estimates are by.
    pub(crate) frequency: u64,
    pub(crate) by: By,
    /// Runs that are outliers are left out of means.
    pub(crate) trim: bool,
}

/// The rows of some runs.
pub(crate) struct RunRows {
    /// The counts of the complete run, or the means of several.
    pub(crate) counts: Vec<CountRow>,
    /// The metrics of the sums over processors, or over the processors of each core type. If each processor
    /// has rows of its own, so have the metrics that were requested.
    pub(crate) metrics: Vec<MetricRow>,
    /// The counts of each run, if there are several.
    pub(crate) each: Vec<Vec<CountRow>>,
}

/// What a row says of an event besides its numbers.
pub(crate) struct CountedEvent {
    pub(crate) label: String,
    /// As the user named it.
    pub(crate) requested: Option<String>,
    /// 0, or the number of the group that it runs in.
    pub(crate) group: u16,
    /// What it counts on this machine, if that is not just what its name says.
    pub(crate) note: Option<String>,
}

impl CountedEvent {
    /// An event of which only the name is known.
    pub(crate) fn named(label: &str) -> Self {
        Self { label: label.to_owned(), requested: None, group: 0, note: None }
    }

    pub(crate) fn all_of(event_set: &EventSet) -> Vec<Self> {
        let event = |event: &EventSpec| Self {
            label: event.label.clone(),
            requested: event.requested.clone(),
            group: event.common().group,
            note: event_set.note(event),
        };
        event_set.events.iter().map(event).collect()
    }
}

impl By {
    /// What has rows of its own. In text, core types are separate by default, because a sum over two
    /// types of core means little; programs get what they request.
    pub(crate) fn new(processors: &[Processor], per_cpu: bool, per_core_type: bool) -> Self {
        if per_cpu {
            Self::Processor
        } else if per_core_type && types_differ(processors) {
            Self::CoreType
        } else {
            Self::Machine
        }
    }
}

/// Whether the measured processors are of different core types.
fn types_differ(processors: &[Processor]) -> bool {
    processors.windows(2).any(|two| two[0].core_type != two[1].core_type)
}

impl RowBuilder<'_> {
    /// The names of these events.
    pub(crate) fn labels(&self, indexes: &[usize]) -> Vec<String> {
        let events = indexes.iter().filter_map(|&index| self.events.get(index));
        events.map(|event| event.label.clone()).collect()
    }

    /// The rows of the complete runs: their means, if there are several.
    pub(crate) fn rows(&self, runs: &[Counts]) -> Vec<CountRow> {
        self.rows_by(runs, self.by)
    }

    /// The same with the rows of metrics and of each run, for which no count is added up again: metrics
    /// are of the sums that the rows show.
    pub(crate) fn rows_with_metrics(&self, runs: &[Counts]) -> RunRows {
        let of_each = |by| -> Vec<Vec<CountRow>> {
            let several = runs.iter().filter(|_| runs.len() > 1);
            several.map(|run| self.rows_by(std::slice::from_ref(run), by)).collect()
        };
        let metrics = |counts: &[CountRow], each: &[Vec<CountRow>]| {
            let complete = complete(runs);
            let several = complete.iter().filter(|_| complete.len() > 1);
            let each: Vec<&[CountRow]> =
                several.map(|(number, _)| each[number - 1].as_slice()).collect();
            self.metric_rows(counts, &each)
        };
        let (counts, each) = (self.rows(runs), of_each(self.by));
        // A metric of each processor is shown only if it was requested.
        let metrics = if self.by == By::Processor && self.requested.is_empty() {
            let by = By::CoreType;
            metrics(&self.rows_by(runs, by), &of_each(by))
        } else {
            metrics(&counts, &each)
        };
        RunRows { counts, metrics, each }
    }

    fn rows_by(&self, runs: &[Counts], by: By) -> Vec<CountRow> {
        let runs = complete(runs);
        let first = runs.first().map_or(&[][..], |(_, run)| &run.events);
        let mut rows = Vec::new();
        for counts in first {
            let mut of_event: Vec<(usize, &EventCounts)> = Vec::new();
            for (number, run) in &runs {
                let counts = run.events.iter().find(|other| other.event == counts.event);
                of_event.extend(counts.map(|counts| (*number, counts)));
            }
            rows.extend(self.rows_of(&of_event, by));
        }
        rows
    }

    fn rows_of(&self, runs: &[(usize, &EventCounts)], by: By) -> Vec<CountRow> {
        let Some((_, counts)) = runs.first() else {
            return Vec::new();
        };
        let Some(event) = self.events.get(counts.event) else {
            return Vec::new();
        };
        let groups = CpuGroup::of(counts, &self.processors, by).into_iter();
        let row = |group: CpuGroup| CountRow {
            source: event.label.clone(),
            event: counts.event,
            requested: event.requested.clone(),
            group: Some(event.group).filter(|&group| group != 0),
            note: event.note.clone(),
            errata: self.errata(counts.event, &group),
            ..CountRow::new(runs, group, self.frequency, self.trim)
        };
        let mut rows: Vec<CountRow> = groups.map(row).collect();
        let excluded = format_processors(counts.excluded_cpus.iter().copied());
        if let Some(first) = rows.first_mut().filter(|_| by != By::Processor) {
            first.excluded_cpus = Some(excluded).filter(|processors| !processors.is_empty());
        }
        rows
    }

    /// The errata that concern an event on a group of processors.
    fn errata(&self, event: usize, group: &CpuGroup) -> Vec<Erratum> {
        let members = self.processors.iter().filter(|one| group.members.contains(&one.index));
        self.errata.of(event, members)
    }

    /// Metrics of the sums over processors.
    pub(crate) fn metrics_of_sums(&self, counts: Counts) -> Vec<MetricRow> {
        self.metric_rows(&self.rows_by(&[counts], By::Machine), &[])
    }

    /// The metrics that rows of counts give; if there are several runs, with the bound that follows from
    /// the rows of `each` of them.
    fn metric_rows(&self, rows: &[CountRow], each: &[&[CountRow]]) -> Vec<MetricRow> {
        let each: Vec<MetricRow> =
            each.iter().flat_map(|rows| self.metrics_by_group(rows)).collect();
        let mut metrics = self.metrics_by_group(rows);
        for row in &mut metrics {
            let values = each.iter().filter(|one| one.is_like(row));
            let values: Vec<f64> = values.filter_map(|one| one.value).collect();
            row.confidence = confidence_of_mean(&values);
        }
        metrics
    }

    fn metrics_by_group(&self, rows: &[CountRow]) -> Vec<MetricRow> {
        let mut groups: Vec<Vec<&CountRow>> = Vec::new();
        for row in rows {
            let is_own = |group: &&mut Vec<&CountRow>| {
                (group[0].processor, group[0].core_type) == (row.processor, row.core_type)
            };
            match groups.iter_mut().find(is_own) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        let metrics_of = |rows: &Vec<&CountRow>| {
            metrics_of(self.metrics, &self.requested, rows, || self.on_different_processors())
        };
        groups.iter().flat_map(metrics_of).collect()
    }

    /// Why a metric has no value whose sources were all counted.
    fn on_different_processors(&self) -> String {
        let hint = if self.by == By::CoreType || !types_differ(&self.processors) {
            "choose processors of one type with -C"
        } else {
            "--per-core-type computes it for each type of core"
        };
        format!("its sources are not counted on the same processors: {hint}")
    }
}

/// The metrics of rows of the same processors: those that were requested, else all that they give.
/// `on_different_processors` says why one has no value whose sources were all counted.
fn metrics_of(
    metrics: &Metrics,
    requested: &[Requested<'_>],
    rows: &[&CountRow],
    on_different_processors: impl Fn() -> String,
) -> Vec<MetricRow> {
    // A metric of counts from different processors would mean nothing.
    let groups = by_processors(rows);
    let all = groups.concat();
    let partly = rows.iter().filter(|row| row.never_scheduled_cpus.is_some());
    let partly: Vec<&str> = partly.map(|row| row.source.as_str()).collect();
    let row = |one: &Requested<'_>| {
        let figure = |counts: &[Counted<'_>]| metrics.figure(one.metric, counts, one.filter);
        groups.iter().find_map(|counts| figure(counts)).unwrap_or_else(|| {
            let reason = if figure(&all).is_some() {
                on_different_processors()
            } else {
                metrics.why_not(one.metric, &all, &partly, one.filter)
            };
            MetricRow { reason: Some(reason), ..MetricRow::new(one.metric, one.filter) }
        })
    };
    let mut figures = match requested {
        [] => all_metrics(metrics, &groups),
        requested => requested.iter().map(row).collect(),
    };
    for figure in &mut figures {
        figure.processor = rows.first().and_then(|row| row.processor);
        figure.core_type = rows.first().and_then(|row| row.core_type);
    }
    figures
}

/// Every metric that can be computed of these counts, once each.
fn all_metrics(metrics: &Metrics, groups: &[Vec<Counted<'_>>]) -> Vec<MetricRow> {
    let mut figures: Vec<MetricRow> = Vec::new();
    for figure in groups.iter().flat_map(|counts| metrics.derive(counts)) {
        let is_same = |earlier: &MetricRow| {
            (&earlier.metric, earlier.filter) == (&figure.metric, figure.filter)
        };
        if !figures.iter().any(is_same) {
            figures.push(figure);
        }
    }
    figures
}

/// The counts of these rows, in groups that were counted on the same processors. A row that was
/// never on a counter on some of them has no count that another can be divided by.
fn by_processors<'a>(rows: &[&'a CountRow]) -> Vec<Vec<Counted<'a>>> {
    let mut groups: Vec<(&[u32], Vec<Counted<'_>>)> = Vec::new();
    for row in rows.iter().filter(|row| row.never_scheduled_cpus.is_none()) {
        let counted = Counted {
            label: &row.source,
            value: row.value.unwrap_or(0),
            scaled: row.scaled,
            error: row.error,
            enabled_ns: row.enabled_ns,
            group: row.group.unwrap_or(0),
        };
        match groups.iter_mut().find(|(members, _)| *members == row.members) {
            Some((_, group)) => group.push(counted),
            None => groups.push((&row.members, vec![counted])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
