//! `stat` by a trace of Windows' own tracing: exact counts of processes and threads.

use super::count_row::CountRow;
use super::interval_writer::{Form, IntervalWriter};
use super::result::{Interval, MetricRow, ProcessRow, StatResult, Switched, ThreadRow, TraceRow};
use super::view::metrics_of;
use crate::cli::args::{self, Dividing, Selection, joined};
use crate::metrics::{Metrics, Requested};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::error_codes::INCOMPLETE;
use crate::output::float::float;
use crate::output::number::{seconds, thousands};
use crate::run::interrupt::interrupted;
use crate::run::runner::Runner;
use crate::run::scope::Scope;
use crate::run::tracing::trace;
use crate::select::event_set::{EventSet, Purpose};
use crate::select::time;
use crate::select::trace_plan::{Offer, refuse_options};
use crate::target::context::Context;
use halprof_measure::selection;
use halprof_measure::tracing::TraceRequest;
use halprof_measure::tracing::counts::{Cell, Query, Sums, TraceCounts};
use halprof_measure::tracing::lives::Process;
use halprof_measure::tracing::plan::{counted_by_default, sessions};
use halprof_profile::aggregate::filter::Pattern;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

/// What is true of the counts of any trace.
const INTERRUPTS: &str = "interrupts and deferred calls are in the counts of the thread that they hit, and user and kernel mode are together";

/// Counts by a trace in a file.
pub(crate) fn run(options: &args::Stat, file: &Path, output: &Output) -> Result<u32> {
    refuse_measuring(options)?;
    show(options, file, output, |result| {
        if let Some(trace) = &mut result.trace {
            trace.file = Some(file.display().to_string());
        }
    })
}

/// Counts by Windows' own tracing: it writes a trace while the program runs, which is read then.
pub(crate) fn measure(options: &args::Stat, ctx: &mut Context, output: &Output) -> Result<u32> {
    refuse_options(&[
        ("--topdown", options.topdown.is_some()),
        ("--passes", options.passes),
        ("--repeat", options.repeat != 1),
        ("--openmetrics", options.openmetrics.is_some()),
        ("--per-core-type", options.per_core_type),
        ("--rotate", options.work.rotate.is_some()),
    ])?;
    let event_set = EventSet::new(&Selection::default(), ctx, Purpose::CountBeside)?;
    let own_output = Form::of(options, output) != Form::Text;
    let mut runner = Runner::new(&options.work, ctx, &event_set, own_output)?;
    let Some(tracing) = &mut ctx.tracing else {
        return Err(Error::internal("counts of a trace without tracing"));
    };
    let offer = Offer::of(tracing.as_mut())?;
    let named = offer.named(&options.selection)?;
    let events = named.unwrap_or_else(|| counted_by_default(&offer.sources, offer.counters));
    if events.is_empty() {
        return Err(Error::unavailable(
            "Windows' own tracing has no source to count here",
            "`halprof record` samples its timer; `halprof doctor` says what takes the counters.",
        ));
    }
    sessions(&events, offer.counters, false)?;
    let request = TraceRequest {
        sampled: Vec::new(),
        counted: events.iter().map(|event| event.source).collect(),
        stacks: false,
    };
    let progress = output.progress(runner.length_ns());
    let traced = trace(tracing.as_mut(), &mut runner, &request, &progress);
    progress.finish_and_clear();
    let traced = traced?;
    // What the session lost is in its trace.
    let warnings = Vec::from_iter(traced.ended_early());
    super::warn(output, &warnings);
    let status = show(options, traced.file.path(), output, |result| {
        let processors = std::mem::take(&mut result.scope.processors);
        result.scope = Scope { processors, ..runner.scope(&event_set) };
        result.machine.clone_from(&ctx.machine_info.description);
        result.interrupted = interrupted();
        result.warnings.splice(..0, warnings);
    })?;
    Ok(if status == 0 { runner.program_status() } else { status })
}

/// Reads a trace and prints its counts; `complete` adds what the trace does not know.
fn show(
    options: &args::Stat,
    file: &Path,
    output: &Output,
    complete: impl FnOnce(&mut StatResult),
) -> Result<u32> {
    let mut metrics = Metrics::built_in()?;
    if let Some(path) = &options.metric_file {
        metrics.add_file(path)?;
    }
    let requested = metrics.requested(&options.metrics)?;
    refuse_modes(&requested)?;
    let interval_ns = options.interval.map(time::interval).transpose()?.and_then(NonZeroU64::new);
    let processors = joined(&options.selection.processors);
    let processors = processors.map(|list| selection::parse_processors(&list)).transpose()?;
    let query = Query { processors: processors.unwrap_or_default(), interval_ns };
    let counts = TraceCounts::read(file, &query)?;
    let form = Form::of(options, output);
    let view = TraceView {
        counts: &counts,
        metrics: &metrics,
        requested: &requested,
        by: options.by,
        per_cpu: options.per_cpu,
        processes: &options.process,
        patterns: options.process.iter().map(|text| Pattern::new(text)).collect(),
    };
    let mut writer = IntervalWriter::new(options, form, false, output).exact();
    let mut intervals = Vec::new();
    if let Some(length) = interval_ns {
        for interval in view.intervals(length.get()) {
            writer.write(interval, &mut intervals)?;
        }
    }
    let warnings = view.warnings();
    super::warn(output, &warnings);
    let mut result = view.result(warnings);
    result.intervals = intervals;
    complete(&mut result);
    super::print(options, form, output, &writer.result(result)?)?;
    Ok(if counts.damage.is_empty() { 0 } else { INCOMPLETE.into() })
}

/// Refuses options that say what to measure: a trace has measured.
fn refuse_measuring(options: &args::Stat) -> Result<()> {
    let work = &options.work;
    let given = [
        ("--event", !options.selection.events.is_empty()),
        ("--group", !options.selection.groups.0.is_empty()),
        ("--event-file", options.selection.event_file.is_some()),
        ("--approximate", options.selection.approximate),
        ("--duration", work.duration.is_some()),
        ("--workload", work.workload.is_some()),
        ("--rotate", work.rotate.is_some()),
        ("-- PROGRAM", !work.program.is_empty()),
        ("--topdown", options.topdown.is_some()),
        ("--passes", options.passes),
        ("--repeat", options.repeat != 1),
        ("--openmetrics", options.openmetrics.is_some()),
        ("--per-core-type", options.per_core_type),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Error::usage(
            format!("`{option}` with `--from`: what was measured, and where, is in the trace"),
            "Leave it out; `--cpu`, `--pid`, `--by`, `--interval` and `--metric` choose what to show.",
        )),
        None => Ok(()),
    }
}

fn refuse_modes(requested: &[Requested<'_>]) -> Result<()> {
    match requested.iter().find(|one| !one.filter.is_empty()) {
        Some(Requested { metric, filter }) => Err(Error::usage(
            format!(
                "`{}:{filter}`: context switches count user and kernel mode together",
                metric.id
            ),
            format!("Ask for `{}`.", metric.id),
        )),
        None => Ok(()),
    }
}

/// How the counts of a trace become rows.
struct TraceView<'a> {
    counts: &'a TraceCounts,
    metrics: &'a Metrics,
    requested: &'a [Requested<'a>],
    by: Option<Dividing>,
    per_cpu: bool,
    /// The processes that are shown, by name or identifier; empty for all.
    processes: &'a [String],
    patterns: Vec<Pattern>,
}

impl TraceView<'_> {
    /// Whether a process is one of those that are shown.
    fn shows(&self, process: &Process) -> bool {
        let id = process.id.map(|id| id.to_string());
        let names = || [&process.name, &id].into_iter().flatten();
        let matches = |pattern: &Pattern| names().any(|name| pattern.matches(name));
        self.patterns.is_empty() || self.patterns.iter().any(matches)
    }

    /// The cells of the processes that are shown.
    fn cells(&self) -> Vec<&Cell> {
        let cells = self.counts.cells.iter();
        cells.filter(|cell| self.shows(self.counts.process_of(cell))).collect()
    }

    /// The counts of each source over some cells; of each processor if each has rows of its own.
    fn count_rows(&self, cells: &[&Cell]) -> Vec<CountRow> {
        let per_cpu = |cell: &Cell| self.per_cpu.then_some(u32::from(cell.processor));
        let mut sums = summed(cells, per_cpu);
        if !self.per_cpu {
            sums.entry(None).or_default();
        }
        let sources = self.counts.sources.iter().enumerate();
        let rows = sources.flat_map(|(index, source)| {
            let row = move |(&processor, sums): (&Option<u32>, &Sums)| CountRow {
                processor,
                ..count_row(source, index, sums)
            };
            sums.iter().map(row).collect::<Vec<_>>()
        });
        rows.collect()
    }

    fn metric_rows(&self, sums: &Sums) -> Vec<MetricRow> {
        let sources = self.counts.sources.iter().enumerate();
        let rows = sources.map(|(index, source)| count_row(source, index, sums));
        metrics_of(self.metrics, self.requested, &rows.collect::<Vec<_>>(), String::new)
    }

    /// A row for each thread and source, those with the most time first and the idle threads last.
    fn thread_rows(&self, cells: &[&Cell]) -> Vec<ThreadRow> {
        if self.by != Some(Dividing::Thread) {
            return Vec::new();
        }
        let sums = summed(cells, |cell| cell.thread);
        let mut sums: Vec<(usize, Sums)> = sums.into_iter().collect();
        let threads = &self.counts.threads;
        sums.sort_by_key(|(thread, sums)| (threads[*thread].thread.id == 0, Reverse(sums.time_ns)));
        let rows = sums.iter().flat_map(|(index, sums)| {
            let thread = &threads[*index].thread;
            let process = &self.counts.processes[thread.process];
            self.switched(sums, threads[*index].complete).map(move |(source, value, switched)| {
                ThreadRow {
                    process: process.name.clone(),
                    id: process.id,
                    thread: thread.id,
                    started_ns: thread.started_ns,
                    core_type: None,
                    source,
                    value,
                    switched,
                }
            })
        });
        rows.collect()
    }

    /// The same for each process.
    fn process_rows(&self, cells: &[&Cell]) -> Vec<ProcessRow> {
        if self.by != Some(Dividing::Process) {
            return Vec::new();
        }
        let all = summed(&self.counts.cells.iter().collect::<Vec<_>>(), |_| ());
        let all = all.into_values().next().unwrap_or_default();
        let process_of = |cell: &Cell| self.counts.threads[cell.thread].thread.process;
        let mut sums: Vec<(usize, Sums)> = summed(cells, process_of).into_iter().collect();
        let processes = &self.counts.processes;
        sums.sort_by_key(|(process, sums)| {
            (processes[*process].id == Some(0), Reverse(sums.time_ns))
        });
        let rows = sums.iter().flat_map(|(index, sums)| {
            let process = &processes[*index];
            let mut own = cells.iter().filter(|cell| process_of(cell) == *index);
            let complete = own.all(|cell| self.counts.threads[cell.thread].complete);
            let totals = all.counts.iter().copied();
            let rows = self.switched(sums, complete).zip(totals);
            rows.map(move |((source, value, switched), total)| ProcessRow {
                process: process.name.clone(),
                id: process.id,
                source,
                value,
                error: None,
                share: float(value) / float(total.max(1)),
                samples: None,
                switched: Some(switched),
            })
        });
        rows.collect()
    }

    /// The count of each source with what the switches say besides.
    fn switched(
        &self,
        sums: &Sums,
        complete: bool,
    ) -> impl Iterator<Item = (String, u128, Switched)> {
        let processors = self.counts.processors.len().max(1) as u64;
        let time_ns = self.counts.elapsed_ns.saturating_mul(processors);
        let switched = Switched {
            switches: sums.switches,
            time_ns: sums.time_ns,
            complete,
            metrics: self.metric_rows(sums),
            time_share: float(sums.time_ns) / float(time_ns.max(1)),
            is_first: false,
        };
        let counts = self.counts.sources.iter().zip(&sums.counts).enumerate();
        let rows = counts.map(|(index, (source, &count))| {
            (source.clone(), count, Switched { is_first: index == 0, ..switched.clone() })
        });
        rows.collect::<Vec<_>>().into_iter()
    }

    /// The intervals in which something was switched.
    fn intervals(&self, length_ns: u64) -> impl Iterator<Item = Interval> {
        let cells = self.cells();
        let last = cells.last().map(|cell| cell.interval);
        let parts = cells.chunk_by(|one, next| one.interval == next.interval);
        let intervals = parts.map(|cells| {
            let number = cells[0].interval;
            let start_ns = number * length_ns;
            let end_ns = start_ns.saturating_add(length_ns).min(self.counts.elapsed_ns);
            let counts = self.count_rows(cells);
            Interval {
                run: None,
                pass: None,
                start_ns,
                length_ns: end_ns.saturating_sub(start_ns),
                time_ns: end_ns,
                derived: self.derived(cells),
                counts,
                topdown: Vec::new(),
                by_process: self.process_rows(cells),
                by_thread: self.thread_rows(cells),
                last: last == Some(number),
            }
        });
        intervals.collect::<Vec<_>>().into_iter()
    }

    fn derived(&self, cells: &[&Cell]) -> Vec<MetricRow> {
        let sums = summed(cells, |_| ());
        sums.values().flat_map(|sums| self.metric_rows(sums)).collect()
    }

    /// What makes the counts less than all that happened.
    fn warnings(&self) -> Vec<String> {
        let TraceCounts { unknown, lost_events, lost_buffers, damage, .. } = self.counts;
        let mut warnings = Vec::new();
        if unknown.lost_switches != 0 {
            warnings.push(format!(
                "{} context switches were lost, and whoever ran in {} of a processor's time is not \
                 known: counts are at least what is shown",
                thousands(unknown.lost_switches),
                seconds(unknown.lost_ns)
            ));
        }
        for (n, what) in [(*lost_events, "events"), (*lost_buffers, "buffers")] {
            if n != 0 {
                warnings.push(format!(
                    "the session lost {} {what}: counts are at least what is shown",
                    thousands(n)
                ));
            }
        }
        if !damage.is_empty() {
            warnings.push(format!("the trace is damaged: {}", damage.join("; ")));
        }
        if !self.patterns.is_empty() && self.cells().is_empty() {
            warnings.push(format!("no thread of process {} ran", self.processes.join(", ")));
        }
        warnings
    }

    fn notes(&self) -> Vec<String> {
        let unknown = &self.counts.unknown;
        let mut notes = vec![INTERRUPTS.to_owned()];
        let edges = unknown.before_first_ns.saturating_add(unknown.after_last_ns);
        if edges != 0 {
            notes.push(format!(
                "{} before the first and after the last switch of the processors belongs to nobody",
                seconds(edges)
            ));
        }
        if unknown.slices_without_counts != 0 {
            notes.push(format!(
                "{} slices have no counts, for want of values at one of their ends",
                thousands(unknown.slices_without_counts)
            ));
        }
        notes
    }

    fn result(&self, mut warnings: Vec<String>) -> StatResult {
        let counts = self.counts;
        let cells = self.cells();
        let (unknown, notes) = (counts.unknown, self.notes());
        warnings.extend(notes.iter().cloned());
        StatResult {
            machine: counts.system.clone(),
            scope: Scope {
                processors: counts.processors.clone(),
                program: None,
                pinned: false,
                exit_status: None,
                left_running: Vec::new(),
                processor_count: counts.processor_count,
                modelled: false,
            },
            elapsed_ns: counts.elapsed_ns.into(),
            elapsed_repeats: None,
            interrupted: false,
            slices: 1,
            counts: self.count_rows(&cells),
            derived: self.derived(&cells),
            topdown: Vec::new(),
            next: BTreeMap::new(),
            by_process: self.process_rows(&cells),
            by_thread: self.thread_rows(&cells),
            trace: Some(TraceRow {
                file: None,
                switches: counts.cells.iter().map(|cell| cell.sums.switches).sum(),
                before_first_ns: unknown.before_first_ns,
                after_last_ns: unknown.after_last_ns,
                lost_ns: unknown.lost_ns,
                lost_switches: unknown.lost_switches,
                slices_without_counts: unknown.slices_without_counts,
                lost_events: counts.lost_events,
                lost_buffers: counts.lost_buffers,
                damaged: (!counts.damage.is_empty()).then(|| counts.damage.join("; ")),
                processes: self.processes.to_vec(),
                notes,
            }),
            unknown_ns: Some(unknown.total_ns()),
            warnings,
            periods: Vec::new(),
            passes: Vec::new(),
            jitter: None,
            intervals: Vec::new(),
            runs: Vec::new(),
        }
    }
}

/// The sums of cells by a key.
fn summed<K: Ord>(cells: &[&Cell], key: impl Fn(&Cell) -> K) -> BTreeMap<K, Sums> {
    let mut sums: BTreeMap<K, Sums> = BTreeMap::new();
    for cell in cells {
        sums.entry(key(cell)).or_default().add(&cell.sums);
    }
    sums
}

fn count_row(source: &str, index: usize, sums: &Sums) -> CountRow {
    let count = sums.counts.get(index).copied().unwrap_or(0);
    CountRow {
        source: source.to_owned(),
        value: Some(count),
        counted: count,
        enabled_ns: sums.counted_ns.into(),
        running_ns: sums.counted_ns.into(),
        event: index,
        ..CountRow::default()
    }
}

#[cfg(test)]
mod tests;
