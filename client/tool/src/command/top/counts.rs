//! What is counted, as a table of rates: the rows of `stat`, each with its rate.

use super::figures;
use super::state::{Cell, Picture, PictureRow, Table, UNKNOWN};
use crate::metrics::MetricRow;
use crate::output::number::optional;
use crate::output::table::Column;
use crate::results::count_row::CountRow;
use crate::results::counts::Counts;
use crate::results::errata;
use crate::results::view::RowBuilder;
use halprof_measure::event_counts::EventCounts;
use halprof_measure::float::float;
use halprof_measure::rates::{Interval, Rate, Rates};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::counts::Count;
use std::time::Duration;

/// A row as CSV. Counts are text, because their sums may exceed 64 bits.
#[derive(JsonSchema, Serialize)]
pub(super) struct RateRow {
    time_ns: u64,
    source: String,
    processor: Option<u32>,
    value: Option<String>,
    counted: String,
    enabled_ns: String,
    running_ns: String,
    scaled: bool,
    error: Option<f64>,
    per_second: Option<f64>,
    core_type: Option<&'static str>,
}

/// A row as JSON.
#[derive(JsonSchema, Serialize)]
pub(crate) struct RatedCount {
    #[serde(flatten)]
    count: CountRow,
    /// In the interval; null where nothing was measured.
    per_second: Option<f64>,
}

/// The readings, evaluated.
pub(super) struct LiveCounts<'a> {
    /// What these counts of the processors say of each event.
    by_event: &'a dyn Fn(&[Vec<Count>]) -> Vec<EventCounts>,
    view: RowBuilder<'a>,
    rates: Rates,
    interval: Interval,
    elapsed: Duration,
}

impl<'a> LiveCounts<'a> {
    pub(super) fn new(
        by_event: &'a dyn Fn(&[Vec<Count>]) -> Vec<EventCounts>,
        view: RowBuilder<'a>,
    ) -> Self {
        let events = view.events.len();
        let processors = view.processors.iter().map(|one| one.index as usize + 1).max();
        let mut rates = Rates::new(view.frequency);
        // Before the first reading, each row is there with nothing counted.
        let interval = rates.take(vec![vec![Count::default(); events]; processors.unwrap_or(0)]);
        Self { by_event, view, rates, interval, elapsed: Duration::ZERO }
    }

    /// Takes a reading.
    pub(super) fn take(&mut self, elapsed: Duration, counts: Vec<Vec<Count>>) {
        self.interval = self.rates.take(counts);
        self.elapsed = elapsed;
    }

    pub(super) fn picture(&self) -> Picture {
        Picture {
            elapsed: self.elapsed,
            tables: vec![self.table()],
            below: self.below(),
            ..Picture::default()
        }
    }

    pub(super) fn table(&self) -> Table {
        Table {
            title: String::new(),
            columns: vec![
                Column::word("cores"),
                Column::number("processor"),
                Column::number("rate/s"),
                Column::number("95 %"),
                Column::number("total").extra(),
                Column::name("source"),
            ],
            trace_at: 4,
            rows: self.rows().iter().map(|row| self.picture_row(row)).collect(),
        }
    }

    /// What each event has counted since the beginning, where something can count it.
    fn rows(&self) -> Vec<CountRow> {
        let mut rows = self.view.rows(&[self.counts(self.rates.totals())]);
        rows.retain(|row| !row.members.is_empty());
        rows
    }

    fn counts(&self, counts: &[Vec<Count>]) -> Counts {
        let events = (self.by_event)(counts);
        Counts { events, ..Counts::default() }
    }

    fn rate(&self, row: &CountRow) -> Option<Rate> {
        let members: Vec<usize> = row.members.iter().map(|&one| one as usize).collect();
        self.interval.sum_on(&members, row.event)
    }

    fn picture_row(&self, row: &CountRow) -> PictureRow {
        let rate = self.rate(row);
        let core_type = row.core_type.unwrap_or_default();
        let processor = optional(row.processor);
        let per_second = rate.map_or(UNKNOWN, |rate| rate.per_second);
        let error = rate.and_then(|rate| rate.error).unwrap_or(UNKNOWN);
        let total = row.value.map_or(UNKNOWN, float);
        PictureRow {
            key: format!("{}\n{core_type}\n{processor}", row.source),
            value: per_second as f32,
            cells: vec![
                Cell::Name(core_type.to_owned()),
                Cell::Number(processor, row.processor.map_or(UNKNOWN, |one| -f64::from(one))),
                Cell::Number(figures::rate(rate), per_second),
                Cell::Number(figures::bound(rate), error),
                Cell::Number(figures::total(row), total),
                Cell::Name(row.source.clone()),
            ],
            trace: Vec::new(),
        }
    }

    pub(super) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The metrics of the interval, for each type of core.
    pub(super) fn metrics(&self) -> Vec<MetricRow> {
        self.view.rows_with_metrics(&[self.counts(self.interval.counts())]).metrics
    }

    fn metric_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for metric in self.metrics() {
            let cores = metric.core_type.map(|core_type| format!(", {core_type} cores"));
            let cores = cores.unwrap_or_default();
            lines.push(format!("{} {}{cores}", metric.figure(), metric.description()));
        }
        lines
    }

    /// What is said below the table: metrics, and the errata of what is counted.
    pub(super) fn below(&self) -> Vec<String> {
        let rows = self.rows();
        let rows = rows.iter().map(|row| (row.source.as_str(), row.errata.as_slice()));
        let mut lines = self.metric_lines();
        lines.extend(errata::lines(rows));
        lines
    }

    /// The rows of JSON, with what each source counted.
    pub(super) fn rated(&self) -> Vec<RatedCount> {
        let rated =
            |count| RatedCount { per_second: self.rate(&count).map(|rate| rate.per_second), count };
        self.rows().into_iter().map(rated).collect()
    }

    /// The lines of comma-separated values, with what each source counted.
    pub(super) fn rate_rows(&self) -> Vec<RateRow> {
        self.rows().into_iter().map(|row| self.rate_row(row)).collect()
    }

    fn rate_row(&self, row: CountRow) -> RateRow {
        RateRow {
            time_ns: self.elapsed_ns(),
            per_second: self.rate(&row).map(|rate| rate.per_second),
            source: row.source,
            processor: row.processor,
            value: row.value.map(|value| value.to_string()),
            counted: row.counted.to_string(),
            enabled_ns: row.enabled_ns.to_string(),
            running_ns: row.running_ns.to_string(),
            scaled: row.scaled,
            error: row.error,
            core_type: row.core_type,
        }
    }
}
