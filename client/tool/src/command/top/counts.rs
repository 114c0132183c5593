//! What is counted, as a table of rates: a row for each source and type of core, or each processor.

use super::figures;
use super::state::{Cell, Picture, Row, Table};
use crate::output::error::Result;
use crate::output::table::{self, Column};
use crate::select::event_set::EventSet;
use crate::select::time::nanoseconds;
use halprof_measure::estimate::Estimate;
use halprof_measure::rates::{Interval, Rate, Rates};
use halprof_measure::selection::EventSpec;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use std::time::Duration;

/// A row as CSV. Counts are text, because their sums may exceed 64 bits.
#[derive(JsonSchema, Serialize)]
struct RateRow {
    time_ns: u64,
    source: String,
    processor: Option<usize>,
    value: Option<String>,
    counted: String,
    enabled_ns: String,
    running_ns: String,
    scaled: bool,
    error: Option<f64>,
    per_second: Option<f64>,
    core_type: Option<&'static str>,
}

/// What has a row of its own: a source on the processors of one type of core, or on one processor. A
/// sum over two types would be the rate of neither.
struct Line {
    /// Its index among the sources.
    source: usize,
    /// The type of core, empty where there is one kind only.
    core: &'static str,
    processor: Option<usize>,
    /// The indexes of those that count it.
    processors: Vec<usize>,
}

/// The readings, evaluated.
pub(super) struct Counts {
    event_set: EventSet,
    lines: Vec<Line>,
    /// The processors that are counted on, with their types of core.
    processors: Vec<(usize, &'static str)>,
    rates: Rates,
    frequency: u64,
    interval: Interval,
    elapsed: Duration,
}

impl Counts {
    /// `each`: whether each processor has a row of its own.
    pub(super) fn new(event_set: &EventSet, frequency: u64, each: bool) -> Self {
        let selected = event_set.selected();
        let processors = selected.map(|one| (one.index as usize, core(one.core_type)));
        Self {
            event_set: event_set.clone(),
            lines: lines(event_set, each),
            processors: processors.collect(),
            rates: Rates::new(frequency),
            frequency,
            interval: Interval::NOTHING,
            elapsed: Duration::ZERO,
        }
    }

    /// Takes a reading.
    pub(super) fn take(&mut self, elapsed: Duration, snapshot: &[Vec<Count>]) {
        self.interval = self.rates.take(self.event_set.counts(&self.event_set.indexes(), snapshot));
        self.elapsed = elapsed;
    }

    pub(super) fn picture(&self) -> Picture {
        Picture {
            elapsed: self.elapsed,
            tables: vec![self.table()],
            below: self.metrics(),
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
            rows: self.lines.iter().map(|line| self.row(line)).collect(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "rows are sorted by it")]
    fn row(&self, line: &Line) -> Row {
        let (rate, total) = (self.rate(line), self.total(line));
        let name = self.name(line).to_owned();
        let processor = line.processor.map_or_else(String::new, |one| one.to_string());
        let per_second = rate.map_or(f64::NAN, |rate| rate.per_second);
        Row {
            key: format!("{name}\n{}\n{processor}", line.core),
            value: per_second as f32,
            cells: vec![
                Cell::Name(line.core.to_owned()),
                Cell::Number(processor, line.processor.map_or(f64::NAN, |one| -(one as f64))),
                Cell::Number(figures::rate(rate), per_second),
                Cell::Number(
                    figures::bound(rate),
                    rate.and_then(|rate| rate.error).unwrap_or(f64::NAN),
                ),
                Cell::Number(
                    figures::total(&total),
                    total.value.map_or(f64::NAN, |value| value as f64),
                ),
                Cell::Name(name),
            ],
            trace: Vec::new(),
        }
    }

    fn name(&self, line: &Line) -> &str {
        let event = self.event_set.events.get(line.source);
        event.map_or("", |event| event.label.as_str())
    }

    fn rate(&self, line: &Line) -> Option<Rate> {
        self.interval.sum_on(&line.processors, line.source)
    }

    fn total(&self, line: &Line) -> Estimate {
        self.rates.estimate_on(&line.processors, line.source)
    }

    /// The metrics of the interval, for each type of core.
    pub(super) fn metrics(&self) -> Vec<String> {
        let metrics = figures::metrics(&self.event_set.events, &self.interval, &self.processors);
        let metrics = metrics.into_iter();
        metrics.map(|(name, value)| format!("{value} {name}")).collect()
    }

    /// The table as comma-separated values, with what each source counted.
    pub(super) fn csv(&self, modelled: bool) -> Result<String> {
        let rows: Vec<RateRow> = self.lines.iter().map(|line| self.rate_row(line)).collect();
        table::csv(&rows, modelled)
    }

    fn rate_row(&self, line: &Line) -> RateRow {
        let total = self.total(line);
        RateRow {
            time_ns: u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX),
            source: self.name(line).to_owned(),
            processor: line.processor,
            value: total.value.map(|value| value.to_string()),
            counted: total.counted.to_string(),
            enabled_ns: nanoseconds(total.enabled, self.frequency).to_string(),
            running_ns: nanoseconds(total.running, self.frequency).to_string(),
            scaled: total.scaled,
            error: total.error,
            per_second: self.rate(line).map(|rate| rate.per_second),
            core_type: Some(line.core).filter(|core| !core.is_empty()),
        }
    }
}

/// A line for each source and type of core that counts it, or each processor.
fn lines(event_set: &EventSet, each: bool) -> Vec<Line> {
    let mut cores: Vec<u8> = event_set.selected().map(|one| one.core_type).collect();
    cores.sort_unstable_by_key(|&core| std::cmp::Reverse(core));
    cores.dedup();
    let is_one = cores.len() == 1;
    let counting = |event: &EventSpec, of: &dyn Fn(&Processor) -> bool| -> Vec<usize> {
        let all = event_set.selected().filter(|one| of(one));
        let counting = all.filter(|one| event_set.counts_on(event, one));
        counting.map(|one| one.index as usize).collect()
    };
    let line = |source: usize, event: &EventSpec, core_type: u8, processor: Option<u32>| Line {
        source,
        core: if is_one { "" } else { core(core_type) },
        processor: processor.map(|one| one as usize),
        processors: counting(event, &|one| match processor {
            Some(processor) => one.index == processor,
            None => one.core_type == core_type,
        }),
    };
    let parties: Vec<(u8, Option<u32>)> = if each {
        let all = event_set.selected();
        all.map(|one| (one.core_type, Some(one.index))).collect()
    } else {
        cores.iter().map(|&core| (core, None)).collect()
    };
    let events = event_set.events.iter().enumerate();
    let lines = events.flat_map(|(source, event)| {
        let parties = parties.iter();
        parties.map(move |&(core, processor)| line(source, event, core, processor))
    });
    lines.filter(|line| !line.processors.is_empty()).collect()
}

/// Leaf 0x1A's core type, for a column.
const fn core(core_type: u8) -> &'static str {
    match core_type {
        0x20 => "efficiency",
        0x40 => "performance",
        _ => "",
    }
}
