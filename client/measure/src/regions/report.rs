//! The report on all threads' counts: rows for a table, for CSV and for JSON.

use super::distribution::median_and_spread;
use super::{Discard, Distribution, Log, Method, Passages};
use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter, Result as Formatted};

/// The regions of all threads that have ended. Its JSON names its schema, which is a file of the
/// console tool.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "schema", rename = "halprof/regions/2")]
pub struct Report {
    /// Whether the machine is modelled.
    pub modelled: bool,
    /// The method by which the counts were read.
    pub method: Method,
    /// Why better methods were not used.
    pub rejected: Vec<String>,
    /// The time that one reading of all counters takes, in nanoseconds on this computer: the shortest
    /// that a thread measured.
    pub reading_ns: f64,
    /// The clock by which time is measured.
    pub clock: String,
    /// Ticks of that clock per second.
    pub ticks_a_second: u64,
    /// The rule by which measurements are left out as anomalous.
    pub rule: String,
    /// One row for each thread, region and source; the first regions show the cost of measuring.
    pub regions: Vec<RegionRow>,
    /// Passages that were not counted.
    pub discarded: Vec<Discarded>,
    /// What the counts of this method include, each a sentence.
    pub notes: Vec<String>,
    /// Which counts are too small for their method, each a sentence.
    pub warnings: Vec<String>,
}

/// A count by context switches is doubtful below this many spreads of empty regions.
const SPREADS_MIN: u64 = 20;

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
    /// The method by which the counts were read.
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
    /// inside it, the difference between the rows `(empty region in a region)` and `(empty region)`
    /// was subtracted as well; half of it for a region that overlaps.
    pub overhead: u64,
    /// The spread of the empty regions, as the rule defines it.
    pub spread: u64,
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
    /// The same with the threads' counts of these sources.
    pub(super) fn with_logs(mut self, sources: &[String], logs: &[Log]) -> Self {
        self.reading_ns = logs.iter().map(|log| log.reading_ns).reduce(f64::min).unwrap_or(0.0);
        for log in logs {
            self.add(sources, log);
        }
        self
    }

    fn add(&mut self, sources: &[String], log: &Log) {
        let ticks = [RegionRow::TICKS].into_iter();
        let sources: Vec<&str> = ticks.chain(sources.iter().map(String::as_str)).collect();
        let overheads: Vec<Overhead> =
            (0..sources.len()).map(|source| Overhead::new(log, source, self.method)).collect();
        for passages in &log.regions {
            for (source, (name, overhead)) in sources.iter().zip(&overheads).enumerate() {
                let overhead = overhead.for_region(&passages.name);
                let values: Vec<u64> = passages.values(source, log.sources, overhead).collect();
                let Some(summary) = Distribution::culled(&values) else {
                    continue;
                };
                self.regions.push(RegionRow {
                    name: passages.name.clone(),
                    thread: log.thread.clone(),
                    source: (*name).to_owned(),
                    method: self.method,
                    n: summary.n,
                    min: summary.min,
                    median: summary.median,
                    mean: summary.mean,
                    mode: summary.mode,
                    deviation: summary.deviation,
                    trimmed_mean: summary.trimmed_mean,
                    culled: summary.culled,
                    overhead: overhead.inside,
                    spread: overhead.spread,
                });
                let least = overhead.spread.saturating_mul(SPREADS_MIN);
                let is_empty =
                    [RegionRow::EMPTY, RegionRow::EMPTY_NESTED].contains(&passages.name.as_str());
                let is_small = source != 0 && !is_empty && summary.median < least;
                if self.method == Method::Tracing && is_small {
                    self.warnings.push(format!(
                        "{} ({}): a median of {} {name} is less than {SPREADS_MIN} times the spread of empty regions, {}: measure more at once",
                        passages.name, log.thread, summary.median, overhead.spread
                    ));
                }
            }
            for (cause, count) in Discard::ALL.into_iter().zip(passages.discarded) {
                if count != 0 {
                    self.discarded.push(Discarded {
                        name: passages.name.clone(),
                        thread: log.thread.clone(),
                        cause,
                        passages: count,
                    });
                }
            }
        }
    }

    /// The rows as CSV, with a header line.
    pub fn csv(&self) -> Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in &self.regions {
            let written = writer.serialize(row);
            written.map_err(|error| Error::Internal(error.to_string()))?;
        }
        let bytes = writer.into_inner().map_err(|error| Error::Internal(error.to_string()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The cost of measuring one source: the minimum over the empty regions or, where the kernel works at
/// either end of each, their median.
#[derive(Clone, Copy, Default)]
struct Overhead {
    /// The cost of a region within itself.
    inside: u64,
    /// The cost of a region within the region around it.
    nested: u64,
    /// The spread of empty regions.
    spread: u64,
}

impl Overhead {
    fn new(log: &Log, source: usize, method: Method) -> Self {
        let cost = |name: &str| {
            let passages = log.regions.iter().find(|passages| passages.name == name)?;
            let values: Vec<u64> = passages.values(source, log.sources, Self::default()).collect();
            let (median, spread) = median_and_spread(&values)?;
            let least = values.into_iter().min()?;
            Some((if method == Method::Tracing { median } else { least }, spread))
        };
        let (inside, spread) = cost(RegionRow::EMPTY).unwrap_or_default();
        let (both, _) = cost(RegionRow::EMPTY_NESTED).unwrap_or_default();
        Self { inside, nested: both.saturating_sub(inside), spread }
    }

    /// Nothing is subtracted from the rows that show the cost.
    fn for_region(self, name: &str) -> Self {
        if [RegionRow::EMPTY, RegionRow::EMPTY_NESTED].contains(&name) {
            return Self { spread: self.spread, ..Self::default() };
        }
        self
    }
}

impl Passages {
    /// The counts of one source, or ticks for 0, without the cost of measuring.
    fn values(
        &self,
        source: usize,
        sources: usize,
        overhead: Overhead,
    ) -> impl Iterator<Item = u64> {
        self.rows.chunks_exact(2 + sources).map(move |row| {
            // A region that overlaps this one has only one of its two readings in it.
            let nested = row.first().copied().unwrap_or(0).saturating_mul(overhead.nested) / 2;
            let value = row.get(1 + source).copied().unwrap_or(0);
            value.saturating_sub(overhead.inside.saturating_add(nested))
        })
    }
}

/// The table's columns and their widths; the first are words, as wide as their longest.
const COLUMNS: [(&str, usize); 12] = [
    ("region", 0),
    ("thread", 0),
    ("source", 0),
    ("n", 7),
    ("culled", 6),
    ("min", 12),
    ("median", 12),
    ("mean", 14),
    ("mode", 12),
    ("deviation", 11),
    ("trimmed mean", 14),
    ("overhead", 9),
];
/// The number of columns of words, to the left of the numbers.
const WORDS: usize = 3;

impl RegionRow {
    fn cells(&self) -> [String; 12] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            self.name.clone(),
            self.thread.clone(),
            self.source.clone(),
            self.n.to_string(),
            self.culled.to_string(),
            self.min.to_string(),
            self.median.to_string(),
            format!("{:.1}", self.mean),
            or_dash(self.mode.map(|mode| mode.to_string())),
            or_dash(self.deviation.map(|deviation| format!("{deviation:.1}"))),
            format!("{:.1}", self.trimmed_mean),
            self.overhead.to_string(),
        ]
    }
}

fn write_row(
    f: &mut Formatter<'_>,
    columns: &[(&str, usize); 12],
    cells: &[String; 12],
) -> Formatted {
    for (index, ((_, width), cell)) in columns.iter().zip(cells).enumerate() {
        match index {
            0 => write!(f, "{cell:width$}")?,
            _ if index < WORDS => write!(f, "  {cell:width$}")?,
            _ => write!(f, " {cell:>width$}")?,
        }
    }
    writeln!(f)
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
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let rows: Vec<[String; 12]> = self.regions.iter().map(RegionRow::cells).collect();
        let mut columns = COLUMNS;
        for (index, (title, width)) in columns.iter_mut().enumerate().take(WORDS) {
            let cells = rows.iter().filter_map(|row| row.get(index));
            *width = cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(title.len());
        }
        write_row(f, &columns, &columns.map(|(title, _)| title.to_owned()))?;
        for row in &rows {
            write_row(f, &columns, row)?;
        }
        for Discarded { name, thread, cause, passages } in &self.discarded {
            let why = cause.why();
            writeln!(f, "not counted: {passages} passages of {name} ({thread}) {why}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}
