//! `--openmetrics FILE`: writes each reading to a file in OpenMetrics 1.0, for the textfile
//! collector of `windows_exporter` or `node_exporter`.
//!
//! Counters are exact: what was read from the registers, and for how long. The scraper computes
//! rates and estimates from them: for sources that take turns, `events / running * enabled`.
//!
//! The collectors read the older Prometheus text format, which accepts everything of the new one
//! that is used here except the type `info`. So constant information is a gauge with the value 1.

use crate::output::error::{Error, Result};
use crate::output::{MachineInfo, Output};
use crate::select::event_set::EventSet;
use crate::target::context::Context;
use halprof_measure::describe;
use halprof_measure::float::float;
use halprof_measure::rates::{Interval, Rate, Rates};
use halprof_measure::selection::EventSpec;
use halprof_profile::file::write_whole;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The part that is the same in every reading.
#[derive(Debug)]
pub(super) struct Exposed {
    pub(super) info: MachineInfo,
    /// What counts.
    pub(super) interface: &'static str,
    pub(super) processors: Vec<Processor>,
    /// The sources in their order, each with the processors that count it.
    pub(super) sources: Vec<(String, Vec<u32>)>,
    /// The ticks of the times of counts in a second.
    pub(super) frequency: u64,
}

impl Exposed {
    /// What a session of the driver counts.
    pub(super) fn of_session(ctx: &mut Context, event_set: &EventSet) -> Self {
        let able = |event: &EventSpec| {
            let able = event_set.selected().filter(|one| event_set.counts_on(event, one));
            (event.label.clone(), able.map(|one| one.index).collect())
        };
        Self {
            info: ctx.machine_info.clone(),
            interface: describe::interface_name(ctx.machine.interface()),
            processors: event_set.selected().copied().collect(),
            sources: event_set.events.iter().map(able).collect(),
            frequency: ctx.machine.frequency(),
        }
    }
}

/// The file that each reading replaces.
pub(super) struct Exposition<'a> {
    path: PathBuf,
    machine: Arc<Exposed>,
    rates: Rates,
    readings: u64,
    /// Readings that were due but did not take place.
    missed: u64,
    /// The last attempt to replace the file failed.
    failing: bool,
    output: &'a Output,
}

impl<'a> Exposition<'a> {
    pub(super) fn new(path: PathBuf, exposed: Exposed, output: &'a Output) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Err(Error::usage(
                "`--openmetrics -` is not a file that can be replaced",
                "Name a file, e.g. halprof.prom in the collector's folder.",
            ));
        }
        Ok(Self {
            path,
            rates: Rates::new(exposed.frequency),
            machine: Arc::new(exposed),
            readings: 0,
            missed: 0,
            failing: false,
            output,
        })
    }

    /// Replaces the file with a reading; `missed` readings before it were skipped. The first one
    /// must succeed.
    pub(super) fn publish(&mut self, counts: Vec<Vec<Count>>, missed: u64) -> Result<()> {
        self.missed = self.missed.saturating_add(missed);
        let interval = self.rates.take(counts);
        let text = self.text(&interval)?;
        let written = write_whole(&self.path, text.as_bytes());
        let failing = written.is_err();
        match written {
            Err(error) if self.readings == 1 => return Err(error.into()),
            // On Windows, a program that is reading the file may keep it from being replaced at
            // that moment.
            Err(error) if !self.failing => self
                .output
                .warn(&format!("{error}; the next interval tries again, and no count is lost")),
            _ => {}
        }
        self.failing = failing;
        Ok(())
    }

    /// The text of one reading.
    fn text(&mut self, interval: &Interval) -> Result<String> {
        self.readings += 1;
        let reading = Reading {
            machine: Arc::clone(&self.machine),
            cells: self.cells(interval),
            readings: self.readings,
            missed: self.missed,
            time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |time| time.as_secs_f64()),
        };
        // No query can take a model's counts for those of silicon.
        let modelled = self.machine.info.modelled;
        let label = modelled.then_some((Cow::from("modelled"), Cow::from("true")));
        let mut registry = Registry::with_prefix_and_labels("halprof", label.into_iter());
        registry.register_collector(Box::new(reading));
        let mut text = String::new();
        text::encode(&mut text, &registry).map_err(Error::internal)?;
        Ok(text)
    }

    fn cells(&self, interval: &Interval) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (source, (name, able)) in self.machine.sources.iter().enumerate() {
            cells.extend(able.iter().filter_map(|processor| {
                let index = *processor as usize;
                Some(Cell {
                    labels: [("source", name.clone()), ("processor", processor.to_string())],
                    count: *self.rates.totals().get(index)?.get(source)?,
                    rate: interval.rate(index, source),
                })
            }));
        }
        cells
    }
}

#[derive(Debug)]
struct Reading {
    machine: Arc<Exposed>,
    cells: Vec<Cell>,
    readings: u64,
    missed: u64,
    time: f64,
}

/// One source on one processor.
#[derive(Debug)]
struct Cell {
    labels: [(&'static str, String); 2],
    count: Count,
    rate: Option<Rate>,
}

/// The metric of a cell, if it has a value for it; the frequency is that of its ticks.
type MetricOf = fn(&Cell, u64) -> Option<Box<dyn EncodeMetric>>;

/// The families with a metric for each cell: name, help, unit and metric.
const FAMILIES: [(&str, &str, Option<Unit>, MetricOf); 5] = [
    ("events", "Events read from the counters", None, |cell, _| {
        Some(Box::new(ConstCounter::new(cell.count.counted)))
    }),
    (
        "enabled",
        "Time that the session has been running on the processor",
        Some(Unit::Seconds),
        |cell, frequency| Some(Box::new(ConstCounter::new(seconds(cell.count.enabled, frequency)))),
    ),
    (
        "running",
        "Time that the source has been on a counter: less than enabled where sources are multiplexed, and events / running * enabled is the estimate",
        Some(Unit::Seconds),
        |cell, frequency| Some(Box::new(ConstCounter::new(seconds(cell.count.running, frequency)))),
    ),
    (
        "events_per_second",
        "Events a second between the last two readings, an estimate where sources are multiplexed",
        None,
        |cell, _| Some(Box::new(ConstGauge::new(cell.rate?.per_second))),
    ),
    (
        "events_per_second_error",
        "The 95 % bound of the rate, where it is an estimate",
        None,
        |cell, _| Some(Box::new(ConstGauge::new(cell.rate?.error?))),
    ),
];

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.about(&mut encoder)?;
        for (name, help, unit, metric_of) in &FAMILIES {
            let metric_of = |cell| Some((cell, metric_of(cell, self.machine.frequency)?));
            let mut metrics = self.cells.iter().filter_map(metric_of).peekable();
            let Some((_, first)) = metrics.peek() else {
                continue;
            };
            let mut family =
                encoder.encode_descriptor(name, help, unit.as_ref(), first.metric_type())?;
            for (cell, metric) in metrics {
                metric.encode(family.encode_family(&cell.labels)?)?;
            }
        }
        let readings: [(_, _, _, &dyn EncodeMetric); 3] = [
            (
                "readings",
                "How often the counters have been read",
                None,
                &ConstCounter::new(self.readings),
            ),
            (
                "missed_readings",
                "Readings that were skipped because the tool was late; no counts are lost",
                None,
                &ConstCounter::new(self.missed),
            ),
            (
                "read_timestamp",
                "When the counters were last read",
                Some(&Unit::Seconds),
                &ConstGauge::new(self.time),
            ),
        ];
        for (name, help, unit, metric) in readings {
            metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)?;
        }
        Ok(())
    }
}

impl Reading {
    /// Information about the machine and its processors.
    fn about(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let machine = &self.machine;
        let labels = vec![
            ("machine", machine.info.description.as_str()),
            ("interface", machine.interface),
            ("version", env!("CARGO_PKG_VERSION")),
        ];
        let one = ConstGauge::new(1_i64);
        let help = "What is measured on";
        let mut about = encoder.encode_descriptor("machine_info", help, None, MetricType::Gauge)?;
        one.encode(about.encode_family(&labels)?)?;
        let help = "The processors that are counted on";
        let mut processors =
            encoder.encode_descriptor("processor_info", help, None, MetricType::Gauge)?;
        for processor in &machine.processors {
            let core_type = describe::core_type(processor).unwrap_or_default();
            let labels = vec![
                ("processor", processor.index.to_string()),
                ("group", processor.group.to_string()),
                ("number", processor.number.to_string()),
                ("core_type", core_type.to_owned()),
            ];
            one.encode(processors.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn seconds(ticks: u64, frequency: u64) -> f64 {
    float(ticks) / float(frequency.max(1))
}
