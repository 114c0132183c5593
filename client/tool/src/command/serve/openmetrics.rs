//! What a reading says, in the words of OpenMetrics 1.0.
//!
//! Counters are exact: what was read from the registers, and for how long. The scraper makes rates
//! and estimates of them: of sources that take turns, `events / running * enabled`.

use crate::{Error, Result};
use halprof_measure::rates::{Interval, Rate, Rates};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What every exposition says, whatever was read.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) description: String,
    pub(super) modelled: bool,
    pub(super) interface: String,
    pub(super) sources: Vec<String>,
    pub(super) processors: Vec<Processor>,
    pub(super) frequency: u64,
}

/// Makes texts of readings.
pub(super) struct Exposition {
    machine: Arc<Machine>,
    readings: u64,
    /// Readings that were due and did not happen.
    pub(super) missed: u64,
}

impl Exposition {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            machine: Arc::new(machine),
            readings: 0,
            missed: 0,
        }
    }

    /// The text of one reading.
    pub(super) fn text(&mut self, rates: &Rates, interval: &Interval) -> Result<String> {
        self.readings += 1;
        let reading = Reading {
            machine: Arc::clone(&self.machine),
            cells: self.cells(rates, interval),
            readings: self.readings,
            missed: self.missed,
            time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |time| time.as_secs_f64()),
        };
        // Nobody takes what a model counts for silicon, in no query.
        let modelled = self.machine.modelled;
        let label = modelled.then_some((Cow::from("modelled"), Cow::from("true")));
        let mut registry = Registry::with_prefix_and_labels("halprof", label.into_iter());
        registry.register_collector(Box::new(reading));
        let mut text = String::new();
        text::encode(&mut text, &registry).map_err(Error::internal)?;
        Ok(text)
    }

    fn cells(&self, rates: &Rates, interval: &Interval) -> Vec<Cell> {
        let machine = &self.machine;
        let of_source = |(source, name): (usize, &String)| {
            let cell = |processor: &Processor| {
                let index = processor.index as usize;
                Some(Cell {
                    labels: [
                        ("source", name.clone()),
                        ("processor", processor.index.to_string()),
                    ],
                    count: *rates.totals().get(index)?.get(source)?,
                    rate: interval.rate(index, source),
                })
            };
            machine
                .processors
                .iter()
                .filter_map(cell)
                .collect::<Vec<_>>()
        };
        let sources = machine.sources.iter().enumerate();
        sources.flat_map(of_source).collect()
    }
}

#[derive(Debug)]
struct Reading {
    machine: Arc<Machine>,
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

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let seconds = |ticks: u64| seconds(ticks, self.machine.frequency);
        self.about(&mut encoder)?;
        self.counters(
            &mut encoder,
            "events",
            "Events read from the counters",
            None,
            |cell| Some(ConstCounter::new(cell.count.counted)),
        )?;
        self.counters(
            &mut encoder,
            "enabled",
            "Time that the session has been running on the processor",
            Some(&Unit::Seconds),
            |cell| Some(ConstCounter::new(seconds(cell.count.enabled))),
        )?;
        self.counters(
            &mut encoder,
            "running",
            "Time that the source has been on a counter: less than enabled where sources take turns, and events / running * enabled is the estimate",
            Some(&Unit::Seconds),
            |cell| Some(ConstCounter::new(seconds(cell.count.running))),
        )?;
        self.counters(
            &mut encoder,
            "events_per_second",
            "Events a second between the last two readings, an estimate where sources take turns",
            None,
            |cell| Some(ConstGauge::new(cell.rate?.per_second)),
        )?;
        self.counters(
            &mut encoder,
            "events_per_second_error",
            "The 95 % bound of that where it is an estimate",
            None,
            |cell| Some(ConstGauge::new(cell.rate?.error?)),
        )?;
        single(
            &mut encoder,
            "readings",
            "How often the counters have been read",
            None,
            &ConstCounter::new(self.readings),
        )?;
        single(
            &mut encoder,
            "missed_readings",
            "Readings that were due and came too late; the counts lose nothing by it",
            None,
            &ConstCounter::new(self.missed),
        )?;
        single(
            &mut encoder,
            "read_timestamp",
            "When the counters were last read",
            Some(&Unit::Seconds),
            &ConstGauge::new(self.time),
        )
    }
}

impl Reading {
    /// The machine and its processors.
    fn about(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let machine = &self.machine;
        let labels = vec![
            ("machine", machine.description.as_str()),
            ("interface", machine.interface.as_str()),
            ("version", env!("CARGO_PKG_VERSION")),
        ];
        let help = "What is measured on";
        encoder
            .encode_descriptor("machine", help, None, MetricType::Info)?
            .encode_info(&labels)?;
        let help = "The processors that are counted on";
        let mut processors =
            encoder.encode_descriptor("processor", help, None, MetricType::Info)?;
        for processor in &machine.processors {
            let labels = vec![
                ("processor", processor.index.to_string()),
                ("group", processor.group.to_string()),
                ("number", processor.number.to_string()),
                ("core_type", core_type(processor.core_type).to_owned()),
            ];
            processors.encode_info(&labels)?;
        }
        Ok(())
    }

    /// One family with a metric for each cell that has one.
    fn counters<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        metric: impl Fn(&Cell) -> Option<M>,
    ) -> fmt::Result {
        let mut metrics = self
            .cells
            .iter()
            .filter_map(|cell| Some((cell, metric(cell)?)));
        let Some(first) = metrics.next() else {
            return Ok(());
        };
        let mut family: MetricEncoder<'_> =
            encoder.encode_descriptor(name, help, unit, first.1.metric_type())?;
        for (cell, metric) in std::iter::once(first).chain(metrics) {
            metric.encode(family.encode_family(&cell.labels)?)?;
        }
        Ok(())
    }
}

fn single(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
}

/// Leaf 0x1A's core type.
const fn core_type(core_type: u8) -> &'static str {
    match core_type {
        0x20 => "efficiency",
        0x40 => "performance",
        _ => "",
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds for a scraper, which has 53 bits"
)]
fn seconds(ticks: u64, frequency: u64) -> f64 {
    ticks as f64 / frequency.max(1) as f64
}
