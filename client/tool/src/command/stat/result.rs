//! The result of `stat`, as in JSON, and its rows as in CSV.

use crate::metrics::MetricRow;
use crate::results::count_row::{CountRow, Repeats};
use crate::results::diff::DiffRow;
use crate::run::scope::Scope;
use crate::select::periods::Period;
use halprof_measure::Failure;
use halprof_measure::tracing::analysis::counts::Unknown;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct StatResult {
    pub(super) machine: String,
    pub(super) scope: Scope,
    /// The length of one measurement: the mean over repeated ones, and over passes.
    pub(super) elapsed_ns: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) elapsed_repeats: Option<Repeats>,
    pub(super) interrupted: bool,
    /// The failed request that has ended it early: the counts are the last that were read before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Failure>,
    /// Slices of multiplexing that the busiest processor needs.
    pub(super) slices: u32,
    #[serde(flatten)]
    pub(super) rows: StatRows,
    /// The counts of the whole machine where some processes are chosen.
    #[serde(skip)]
    pub(super) hidden: Vec<CountRow>,
    /// The figures beside those of `--diff` or `--against`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) diff: Vec<DiffRow>,
    /// What ran in turns with what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against: Option<AgainstResult>,
    /// The file of `--diff`, or what `--against` names.
    #[serde(skip)]
    pub(super) earlier: String,
    /// What to look at next on each CPU type.
    #[serde(skip)]
    pub(super) next: BTreeMap<String, String>,
    /// The trace that was counted by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<TraceRow>,
    /// Time of the trace's processors that is unattributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unknown_ns: Option<u64>,
    /// Why figures are worth less than they look.
    pub(super) warnings: Vec<String>,
    /// The periods of ProfileTime, and of sources that were given one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) periods: Vec<Period>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) passes: Vec<PassRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jitter: Option<Jitter>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) intervals: Vec<Interval>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) runs: Vec<RunRow>,
}

impl StatResult {
    /// Hides machine-wide rows.
    pub(super) fn hide_totals(&mut self) {
        self.hidden = std::mem::take(&mut self.rows.counts);
        self.rows.derived.clear();
    }

    /// The counts, whether they are shown or not.
    pub(super) fn all_counts(&self) -> impl Iterator<Item = &CountRow> {
        self.rows.counts.iter().chain(&self.hidden)
    }
}

/// What ran in turns; the other results are of what ran after.
#[derive(JsonSchema, Serialize)]
pub(super) struct AgainstResult {
    pub(super) before: Side,
    pub(super) after: Side,
    /// How many pairs are complete.
    pub(super) pairs: usize,
    /// Which ran, one after the other, in the complete pairs.
    pub(super) order: Vec<Turn>,
    /// The runs of what ran before; `runs` has those after.
    pub(super) runs_before: Vec<RunRow>,
}

#[derive(JsonSchema, Serialize)]
pub(super) struct Side {
    /// The program, as it was called; null on a modelled machine.
    pub(super) program: Option<String>,
    /// The SHA-256 of its file, in hexadecimal digits; null if the file is not known.
    pub(super) sha256: Option<String>,
    /// The workload of a modelled machine; null if it is the default one.
    pub(super) workload: Option<String>,
    /// The first exit status that is not 0, or 0; null on a modelled machine.
    pub(super) exit_status: Option<u32>,
}

/// Which of both runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Turn {
    Before,
    After,
}

/// What was counted, in a whole measurement or an interval.
#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct StatRows {
    pub(super) counts: Vec<CountRow>,
    pub(super) derived: Vec<MetricRow>,
    /// Where the issue slots went, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) topdown: Vec<TopDownRow>,
    /// The counts by process, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) by_process: Vec<PartRow>,
    /// The counts by thread, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) by_thread: Vec<PartRow>,
}

/// One part of the slots of one CPU type.
#[derive(Clone, JsonSchema, Serialize)]
pub(crate) struct TopDownRow {
    pub(super) cpu_type: String,
    pub(super) metric: String,
    pub(super) level: u8,
    /// The part that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<String>,
    /// In percent; null if there is a reason why not.
    pub(super) value: Option<f64>,
    /// Half of the range that follows from the bounds of its events; null if it is exact.
    pub(super) error: Option<f64>,
    pub(super) reason: Option<String>,
    /// Its events were counted at the same time.
    pub(super) together: bool,
    /// By whose formulas; null if there are none.
    pub(super) method: Option<Method>,
}

/// How the parts of the slots are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Method {
    /// By the vendor's formulas for the microarchitecture.
    Vendor,
    /// By the architectural events, four of five of which give level 1.
    Architectural,
}

/// The part of a count that one process, or one thread, has.
#[derive(Clone, JsonSchema, Serialize)]
pub(crate) struct PartRow {
    /// The name of the process; null if no event names it, if it ended before it was seen, and if `id`
    /// is null.
    pub(super) process: Option<String>,
    /// Of the process; null for what was counted on processors without a sample, for a name without a
    /// process, and if no event names it.
    pub(super) id: Option<u32>,
    /// The thread; of a whole process there is none.
    #[serde(flatten)]
    pub(super) thread: Option<ThreadOfProcess>,
    pub(super) source: String,
    pub(super) value: u128,
    /// What it is of the whole count, which threads are not compared with: their rows are by core type
    /// too.
    #[serde(flatten)]
    pub(super) of_count: Option<ShareOfCount>,
    /// What context switches say of it, where they were traced: then the value is exact.
    #[serde(flatten)]
    pub(super) switched: Option<Switched>,
}

/// Which thread of a process has a part, and where it had it.
#[derive(Clone, JsonSchema, Serialize)]
pub(crate) struct ThreadOfProcess {
    /// 0 for the idle threads of all processors together.
    #[serde(rename = "thread")]
    pub(super) id: u32,
    /// The name that its program gave it; null if it has none.
    #[serde(rename = "thread_name")]
    pub(super) name: Option<String>,
    /// Since the trace began; null if it ran before.
    pub(super) started_ns: Option<u64>,
    pub(super) core_type: Option<&'static str>,
}

/// What a part is of the whole count.
#[derive(Clone, JsonSchema, Serialize)]
pub(crate) struct ShareOfCount {
    /// The 95 % bound of the value; null if it is not known.
    pub(super) error: Option<f64>,
    /// The value as a fraction of the whole count, from 0 to 1.
    pub(super) share: f64,
    /// Those by which it was divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) samples: Option<u64>,
}

impl PartRow {
    /// Its share of the count, from 0 to 1.
    pub(super) fn share(&self) -> f64 {
        self.of_count.as_ref().map_or(0.0, |of_count| of_count.share)
    }

    /// The samples by which it was divided.
    pub(super) fn samples(&self) -> Option<u64> {
        self.of_count.as_ref()?.samples
    }

    /// Whether it is the first row of its thread or process, which has what is the same in all.
    pub(super) fn is_first(&self) -> bool {
        self.switched.as_ref().is_some_and(|switched| switched.is_first)
    }
}

/// A row of a result: the tables of intervals and CSV have all of them below each other.
#[derive(Clone, Copy)]
pub(super) enum Row<'a> {
    Count(&'a CountRow),
    /// A metric, and the process or the thread whose it is; `None` of processors.
    Metric(&'a MetricRow, Option<&'a PartRow>),
    Slots(&'a TopDownRow),
    Part(&'a PartRow),
}

impl<'a> Row<'a> {
    /// The process or the thread whose count or metric it is.
    pub(super) const fn part(&self) -> Option<&'a PartRow> {
        match *self {
            Self::Part(part) => Some(part),
            Self::Metric(_, part) => part,
            Self::Count(_) | Self::Slots(_) => None,
        }
    }
}

impl StatRows {
    /// All rows, in the order in which they are shown; `metrics`: those of metrics too.
    pub(super) fn all(&self, metrics: bool) -> Vec<Row<'_>> {
        let mut all: Vec<Row<'_>> = self.counts.iter().map(Row::Count).collect();
        let derived = self.derived.iter().filter(|_| metrics);
        all.extend(derived.map(|metric| Row::Metric(metric, None)));
        all.extend(self.topdown.iter().map(Row::Slots));
        for part in self.by_process.iter().chain(&self.by_thread) {
            all.push(Row::Part(part));
            let switched = part.switched.iter().filter(|_| metrics && part.is_first());
            let metrics = switched.flat_map(|switched| &switched.metrics);
            all.extend(metrics.map(|metric| Row::Metric(metric, Some(part))));
        }
        all
    }
}

/// What context switches say of a thread or a process besides its counts.
#[derive(Clone, JsonSchema, Serialize)]
pub(crate) struct Switched {
    /// How often it was switched out.
    pub(super) switches: u64,
    /// Its time on processors.
    pub(super) time_ns: u64,
    /// Whether the value has all its time: none was cut off by the ends of the trace, or lost.
    pub(super) complete: bool,
    pub(super) metrics: Vec<MetricRow>,
    /// Its part of the processors' time, from 0 to 1.
    #[serde(skip)]
    pub(super) time_share: f64,
    /// Whether it is the first row of its thread or process, which has what is the same in all.
    #[serde(skip)]
    pub(super) is_first: bool,
}

/// A trace of Windows' own tracing, or those of all passes together.
#[derive(Default, JsonSchema, Serialize)]
pub(super) struct TraceRow {
    /// Null if it was written for this result and is gone.
    pub(super) file: Option<String>,
    /// Context switches that end a slice of those that are counted.
    pub(super) switches: u64,
    /// The parts of `unknown_ns`.
    #[serde(flatten)]
    pub(super) unknown: Unknown,
    /// Whether the shown threads have all their counts: no slice was cut off, lost or not counted.
    pub(super) complete: bool,
    pub(super) lost_events: u64,
    pub(super) lost_buffers: u64,
    /// What could not be read of the file.
    pub(super) damaged: Option<String>,
    /// The processes that were chosen, by name or identifier; empty for all.
    pub(super) processes: Vec<String>,
    /// What is true of all such traces. It is among the warnings, and text has it below the tables.
    #[serde(skip)]
    pub(super) notes: Vec<String>,
    /// Which counts may be wrong. It is among the warnings.
    #[serde(skip)]
    pub(super) doubts: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct Interval {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pass: Option<u32>,
    pub(super) start_ns: u64,
    pub(super) length_ns: u64,
    /// When the interval ended.
    pub(super) time_ns: u64,
    #[serde(flatten)]
    pub(super) rows: StatRows,
    /// The last interval of a measurement, which ends with it.
    #[serde(skip)]
    pub(super) last: bool,
}

/// How far intervals deviated from the requested length; a last one that was cut short does not
/// count.
#[derive(Clone, Copy, Default, JsonSchema, Serialize)]
pub(crate) struct Jitter {
    pub(super) requested_ns: u64,
    pub(super) intervals: u64,
    pub(super) mean_ns: u64,
    pub(super) max_ns: u64,
    #[serde(skip)]
    pub(super) sum_ns: u128,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct PassRow {
    pub(super) sources: Vec<String>,
    pub(super) elapsed_ns: u64,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct RunRow {
    pub(super) elapsed_ns: u64,
    pub(super) counts: Vec<CountRow>,
    /// It was ended early, and is in no mean unless there is no other run.
    pub(super) interrupted: bool,
}
