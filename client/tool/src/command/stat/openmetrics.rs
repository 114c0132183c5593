//! `--openmetrics FILE`: writes each reading to a file in OpenMetrics 1.0, for the textfile
//! collector of `windows_exporter` or `node_exporter`.
//!
//! Counters are exact: what was read from the registers, and for how long. The scraper computes
//! rates and estimates from them: for sources that take turns, `events / running * enabled`.
//!
//! The collectors read the older Prometheus text format, which accepts everything of the new one
//! that is used here except the type `info`. So constant information is a gauge with the value 1.

use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::select::event_set::EventSet;
use crate::target::context::Context;
use halprof_measure::float::float;
use halprof_measure::rates::{Interval, Rate, Rates};
use halprof_profile::file::write_whole;
use halprof_setup::describe;
use shared_types::request::counts::Count;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The file that each reading replaces.
pub(super) struct Exposition<'a> {
    path: PathBuf,
    event_set: &'a EventSet,
    frequency: u64,
    modelled: bool,
    /// The families that are the same in every reading.
    about: String,
    rates: Rates,
    readings: u64,
    /// Readings that were due but did not take place.
    missed: u64,
    /// The last attempt to replace the file failed.
    failing: bool,
    output: &'a Output,
}

/// One source on one processor.
struct Cell {
    labels: Labels,
    count: Count,
    rate: Option<Rate>,
}

type Labels = Vec<(&'static str, String)>;

/// The name, the type and what it is. A name that ends with `_seconds` has that unit.
type Family = (&'static str, &'static str, &'static str);

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// The value of a cell, if it has one; the frequency is that of its ticks.
type ValueOf = fn(&Cell, u64) -> Option<String>;

/// The families with a metric for each cell.
const FAMILIES: [(Family, ValueOf); 5] = [
    (("events", COUNTER, "Events read from the counters"), |cell, _| {
        Some(cell.count.counted.to_string())
    }),
    (
        ("enabled_seconds", COUNTER, "Time that the session has been running on the processor"),
        |cell, frequency| Some(seconds(cell.count.enabled, frequency)),
    ),
    (
        (
            "running_seconds",
            COUNTER,
            "Time that the source has been on a counter: less than enabled where sources are multiplexed, and events / running * enabled is the estimate",
        ),
        |cell, frequency| Some(seconds(cell.count.running, frequency)),
    ),
    (
        (
            "events_per_second",
            GAUGE,
            "Events a second between the last two readings, an estimate where sources are multiplexed",
        ),
        |cell, _| Some(format!("{:?}", cell.rate?.per_second)),
    ),
    (
        ("events_per_second_error", GAUGE, "The 95 % bound of that where it is an estimate"),
        |cell, _| Some(format!("{:?}", cell.rate?.error?)),
    ),
];

impl<'a> Exposition<'a> {
    pub(super) fn new(
        path: PathBuf,
        ctx: &Context,
        event_set: &'a EventSet,
        output: &'a Output,
    ) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Err(Error::usage(
                "`--openmetrics -` is not a file that can be replaced",
                "Name a file, e.g. halprof.prom in the collector's folder.",
            ));
        }
        Ok(Self {
            path,
            event_set,
            frequency: ctx.machine.frequency(),
            modelled: ctx.machine_info.modelled,
            about: about(ctx, event_set),
            rates: Rates::new(ctx.machine.frequency()),
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
        self.readings += 1;
        let interval = self.rates.take(counts);
        let written = write_whole(&self.path, self.text(&interval).as_bytes());
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

    fn text(&self, interval: &Interval) -> String {
        let mut text = self.about.clone();
        let cells = self.cells(interval);
        for (description, value_of) in FAMILIES {
            let metric = |cell: &Cell| Some((cell.labels.clone(), value_of(cell, self.frequency)?));
            text += &family(description, self.modelled, cells.iter().filter_map(metric));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (name, metric_type, help, value) in [
            (
                "readings",
                COUNTER,
                "How often the counters have been read",
                self.readings.to_string(),
            ),
            (
                "missed_readings",
                COUNTER,
                "Readings that were due and came too late; the counts lose nothing by it",
                self.missed.to_string(),
            ),
            (
                "read_timestamp_seconds",
                GAUGE,
                "When the counters were last read",
                format!("{:?}", now.as_secs_f64()),
            ),
        ] {
            text += &family((name, metric_type, help), self.modelled, [(Labels::new(), value)]);
        }
        text + "# EOF\n"
    }

    fn cells(&self, interval: &Interval) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (source, event) in self.event_set.events.iter().enumerate() {
            let able = self.event_set.selected().filter(|one| self.event_set.counts_on(event, one));
            cells.extend(able.filter_map(|processor| {
                let index = processor.index as usize;
                Some(Cell {
                    labels: vec![
                        ("source", event.label.clone()),
                        ("processor", processor.index.to_string()),
                    ],
                    count: *self.rates.totals().get(index)?.get(source)?,
                    rate: interval.rate(index, source),
                })
            }));
        }
        cells
    }
}

/// A family with its metrics; nothing without any. No query can take a model's counts for those of
/// silicon.
fn family(
    (name, metric_type, help): Family,
    modelled: bool,
    metrics: impl IntoIterator<Item = (Labels, String)>,
) -> String {
    let total = if metric_type == COUNTER { "_total" } else { "" };
    let metrics = metrics.into_iter().map(|(labels, value)| {
        let modelled = modelled.then(|| ("modelled", "true".to_owned()));
        let labels = modelled.into_iter().chain(labels);
        let labels: Vec<String> =
            labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(&value))).collect();
        format!("halprof_{name}{total}{{{}}} {value}\n", labels.join(","))
    });
    let metrics: String = metrics.collect();
    if metrics.is_empty() {
        return metrics;
    }
    let has_unit = name.ends_with("_seconds");
    let unit = if has_unit { format!("# UNIT halprof_{name} seconds\n") } else { String::new() };
    format!("# HELP halprof_{name} {help}\n# TYPE halprof_{name} {metric_type}\n{unit}{metrics}")
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Information about the machine and the processors that are counted on.
fn about(ctx: &Context, event_set: &EventSet) -> String {
    let modelled = ctx.machine_info.modelled;
    let machine = vec![
        ("machine", ctx.machine_info.description.clone()),
        ("interface", describe::interface_name(ctx.machine.interface()).to_owned()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let processors = event_set.selected().map(|processor| {
        let labels = vec![
            ("processor", processor.index.to_string()),
            ("group", processor.group.to_string()),
            ("number", processor.number.to_string()),
            ("core_type", describe::core_type(processor).unwrap_or_default().to_owned()),
        ];
        (labels, "1".to_owned())
    });
    let about = ("machine_info", GAUGE, "What is measured on");
    let machine = family(about, modelled, [(machine, "1".to_owned())]);
    let about = ("processor_info", GAUGE, "The processors that are counted on");
    machine + &family(about, modelled, processors)
}

fn seconds(ticks: u64, frequency: u64) -> String {
    format!("{:?}", float(ticks) / float(frequency.max(1)))
}
