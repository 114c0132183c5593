//! The report on all threads' counts: rows for a table, for CSV and for JSON.

use super::{Cull, Discard, Distribution, Log, Method, Raw};
use crate::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter, Result as Formatted};

/// What is common to all threads.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) modelled: bool,
    pub(super) method: Method,
    pub(super) rejected: Vec<String>,
    pub(super) ticks_a_second: u64,
    pub(super) clock: String,
    pub(super) sources: Vec<String>,
}

/// The regions of all threads that have ended. Its JSON names its schema, which is a file of the
/// console tool.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "schema", rename = "halprof/regions/2")]
pub struct Report {
    /// Whether the machine is modelled.
    pub modelled: bool,
    /// Where the counts come from.
    pub method: Method,
    /// Why better methods were not used.
    pub rejected: Vec<String>,
    /// How long one reading of all counters takes, in nanoseconds on this computer: the shortest
    /// that a thread measured.
    pub reading_ns: f64,
    /// How time is measured.
    pub clock: String,
    /// Ticks of that clock per second.
    pub ticks_a_second: u64,
    /// The rule by which measurements are left out as anomalous.
    pub rule: String,
    /// One row for each thread, region and source; the first regions show the cost of measuring.
    pub regions: Vec<RegionRow>,
    /// Passages that were not counted.
    pub discarded: Vec<Discarded>,
}

impl RegionRow {
    /// The region whose row shows the cost of measuring: it is empty.
    pub const EMPTY: &str = "(empty region)";
    /// A region that contains an empty one: its row shows what measuring adds to an outer region.
    pub const EMPTY_NESTED: &str = "(empty region in a region)";
    /// The source of the rows of time.
    pub const TICKS: &str = "time-stamp ticks";
}

/// One source in one region of one thread.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RegionRow {
    /// The region.
    pub name: String,
    /// The thread.
    pub thread: String,
    /// The source with its filter, or `time-stamp ticks`.
    pub source: String,
    /// Where the counts come from.
    pub method: Method,
    /// The number of passages, including the culled ones.
    pub n: u64,
    /// See [`Distribution`], as for all fields up to `culled`.
    pub min: u64,
    /// The median.
    pub median: u64,
    /// The mean.
    pub mean: f64,
    /// The most frequent value, if any value occurs twice.
    pub mode: Option<u64>,
    /// The standard deviation.
    pub deviation: Option<f64>,
    /// The mean without the lowest and the highest fifth.
    pub trimmed_mean: f64,
    /// How many passages were left out as anomalous.
    pub culled: u64,
    /// What was subtracted from each passage for entering and leaving this region. For each region
    /// left inside it, the difference between the rows `(empty region in a region)` and
    /// `(empty region)` was subtracted as well.
    pub overhead: u64,
}

/// Passages that were not counted, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Discarded {
    /// The region.
    pub name: String,
    /// The thread.
    pub thread: String,
    /// The cause.
    pub cause: Discard,
    /// The number of passages.
    pub passages: u64,
}

impl Report {
    pub(super) fn of(about: &About, logs: &[Log], cull: Cull) -> Self {
        let mut report = Self {
            modelled: about.modelled,
            method: about.method,
            rejected: about.rejected.clone(),
            reading_ns: logs.iter().map(|log| log.reading_ns).fold(f64::INFINITY, f64::min),
            clock: about.clock.clone(),
            ticks_a_second: about.ticks_a_second,
            rule: cull.to_string(),
            regions: Vec::new(),
            discarded: Vec::new(),
        };
        if logs.is_empty() {
            report.reading_ns = 0.0;
        }
        for log in logs {
            report.add(about, log, cull);
        }
        report
    }

    fn add(&mut self, about: &About, log: &Log, cull: Cull) {
        let sources =
            || std::iter::once(RegionRow::TICKS).chain(about.sources.iter().map(String::as_str));
        let overheads: Vec<Overhead> =
            (0..sources().count()).map(|source| Overhead::of(log, source)).collect();
        for raw in &log.regions {
            for (source, (name, overhead)) in sources().zip(&overheads).enumerate() {
                let overhead = overhead.for_region(&raw.name);
                let values: Vec<u64> = raw.values(source, log.sources, overhead).collect();
                let Some(found) = Distribution::from_values(&values, cull) else {
                    continue;
                };
                self.regions.push(RegionRow {
                    name: raw.name.clone(),
                    thread: log.thread.clone(),
                    source: name.to_owned(),
                    method: about.method,
                    n: found.n,
                    min: found.min,
                    median: found.median,
                    mean: found.mean,
                    mode: found.mode,
                    deviation: found.deviation,
                    trimmed_mean: found.trimmed_mean,
                    culled: found.culled,
                    overhead: overhead.inside,
                });
            }
            let discarded = Discard::ALL.into_iter().zip(raw.discarded);
            self.discarded.extend(discarded.filter(|&(_, passages)| passages != 0).map(
                |(cause, passages)| Discarded {
                    name: raw.name.clone(),
                    thread: log.thread.clone(),
                    cause,
                    passages,
                },
            ));
        }
    }

    /// The rows as CSV, with a header line.
    pub fn csv(&self) -> Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in &self.regions {
            let written = writer.serialize(row);
            written.map_err(|error| Error::Internal(error.to_string()))?;
        }
        let bytes = writer.into_inner();
        let bytes = bytes.map_err(|error| Error::Internal(error.to_string()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// What measuring one source costs: the minimum over the empty regions.
#[derive(Clone, Copy, Default)]
struct Overhead {
    /// The cost of a region within itself.
    inside: u64,
    /// The cost of a region within the region around it.
    nested: u64,
}

impl Overhead {
    fn of(log: &Log, source: usize) -> Self {
        let least = |name: &str| {
            let raw = log.regions.iter().find(|raw| raw.name == name);
            let values = raw.map(|raw| raw.values(source, log.sources, Self::default()));
            values.and_then(Iterator::min).unwrap_or(0)
        };
        let inside = least(RegionRow::EMPTY);
        Self { inside, nested: least(RegionRow::EMPTY_NESTED).saturating_sub(inside) }
    }

    /// Nothing is subtracted from the rows that show the cost.
    fn for_region(self, name: &str) -> Self {
        if [RegionRow::EMPTY, RegionRow::EMPTY_NESTED].contains(&name) {
            return Self::default();
        }
        self
    }
}

impl Raw {
    /// The counts of one source, or ticks for 0, without the cost of measuring.
    fn values(
        &self,
        source: usize,
        sources: usize,
        overhead: Overhead,
    ) -> impl Iterator<Item = u64> {
        self.rows.chunks_exact(2 + sources).map(move |row| {
            let at = |place: usize| row.get(place).copied().unwrap_or(0);
            let nested = at(0).saturating_mul(overhead.nested);
            at(1 + source).saturating_sub(overhead.inside.saturating_add(nested))
        })
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        if self.modelled {
            writeln!(f, "modelled machine, not silicon")?;
        }
        for rejected in &self.rejected {
            writeln!(f, "{rejected}")?;
        }
        let method = self.method.in_words();
        writeln!(f, "counts: {method}; one reading takes {:.0} ns here", self.reading_ns)?;
        writeln!(f, "time: {}, {} ticks a second", self.clock, self.ticks_a_second)?;
        writeln!(f, "rule: {}", self.rule)?;
        let width = |of: fn(&RegionRow) -> &str, head: &str| {
            let widths = self.regions.iter().map(|row| of(row).chars().count());
            widths.max().unwrap_or(0).max(head.len())
        };
        let name = width(|row| &row.name, "region");
        let thread = width(|row| &row.thread, "thread");
        let source = width(|row| &row.source, "source");
        writeln!(
            f,
            "{:name$}  {:thread$}  {:source$} {:>7} {:>6} {:>12} {:>12} {:>14} {:>12} {:>11} {:>14} {:>9}",
            "region",
            "thread",
            "source",
            "n",
            "culled",
            "min",
            "median",
            "mean",
            "mode",
            "deviation",
            "trimmed mean",
            "overhead"
        )?;
        for row in &self.regions {
            let mode = row.mode.map_or_else(|| "-".to_owned(), |mode| mode.to_string());
            let deviation = row.deviation.map_or_else(|| "-".to_owned(), |one| format!("{one:.1}"));
            writeln!(
                f,
                "{:name$}  {:thread$}  {:source$} {:>7} {:>6} {:>12} {:>12} {:>14.1} {:>12} {:>11} {:>14.1} {:>9}",
                row.name,
                row.thread,
                row.source,
                row.n,
                row.culled,
                row.min,
                row.median,
                row.mean,
                mode,
                deviation,
                row.trimmed_mean,
                row.overhead
            )?;
        }
        for Discarded { name, thread, cause, passages } in &self.discarded {
            let why = cause.why();
            writeln!(f, "not counted: {passages} passages of {name} ({thread}) {why}")?;
        }
        Ok(())
    }
}
