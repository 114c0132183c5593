//! `stat` by a trace of Windows' own tracing: exact counts of processes and threads.

use super::interval_writer::IntervalWriter;
use super::result::{
    Interval, PassRow, ProcessRow, StatResult, StatRows, Switched, ThreadRow, TraceRow,
};
use crate::cli::args::{self, Dividing, joined, refuse};
use crate::metrics::{MetricRow, Metrics, Requested};
use crate::output::error::{Error, Result};
use crate::output::error_codes::INCOMPLETE;
use crate::output::number::{seconds, thousands};
use crate::output::{MachineInfo, Output};
use crate::results::count_row::CountRow;
use crate::results::view::metrics_of;
use crate::run::scope::Scope;
use crate::select::filters::Names;
use crate::select::time;
use halprof_measure::float::float;
use halprof_measure::selection;
use halprof_measure::tracing::analysis::counts::{Cell, Query, Sums, TraceCounts};
use halprof_profile::file::{Recording, is_recording};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

/// What is true of the counts of any trace.
const INTERRUPTS: &str = "interrupts and deferred calls are in the counts of the thread that they hit, and user and kernel mode are together";

/// Counts by a trace in a file.
pub(crate) fn run(options: &args::Stat, file: &Path, output: &Output) -> Result<u32> {
    // No trace says whether threads shared cores.
    let metrics = Metrics::with_file(options.metric_file.as_deref(), false)?;
    let presenter = Presenter::new(options, &metrics, output)?;
    let name = |result: &mut StatResult| {
        if let Some(trace) = &mut result.trace {
            trace.file = Some(file.display().to_string());
        }
    };
    if !is_recording(file)? {
        let counts = TraceCounts::read(file, &presenter.query)?;
        let (modelled, description) = (counts.is_modelled, counts.system.clone());
        output.note_model(&MachineInfo { modelled, description, backend: None });
        return presenter.show(&[counts], name);
    }
    refuse_parts(options)?;
    let recording = halprof_profile::file::read(file, |_| {})?;
    let machine = MachineInfo::of_recording(&recording.metadata);
    output.note_model(&machine);
    presenter.show(&[recorded(recording)?], |result| {
        name(result);
        result.machine = machine.description;
    })
}

/// A recording has the sums of the whole trace.
fn refuse_parts(options: &args::Stat) -> Result<()> {
    let given = [
        ("--interval", options.interval.is_some()),
        ("--cpu", !options.selection.processors.is_empty()),
        ("--per-cpu", options.per_cpu),
    ];
    refuse(&given, |option| {
        Error::usage(
            format!("`{option}` with a recording: it keeps the sums of the whole trace"),
            "The trace that it was made of has the parts: `--from FILE.etl`.",
        )
    })
}

/// The counts that a recording keeps.
fn recorded(recording: Recording) -> Result<TraceCounts> {
    let is_whole = recording.damage.is_none() && recording.ending.is_some();
    let damaged = recording.damaged().filter(|_| !is_whole);
    let mut counts = recording.counts.ok_or_else(|| halprof_measure::Error::BadFile {
        path: recording.file,
        why: "is a recording without counts of threads".to_owned(),
        hint: "`halprof convert` keeps those of a trace (.etl) whose context switches have some."
            .to_owned(),
    })?;
    counts.damage.extend(damaged);
    Ok(counts)
}

/// What is shown of counts by traces, and in which form.
pub(super) struct Presenter<'a> {
    options: &'a args::Stat,
    metrics: &'a Metrics,
    requested: Vec<Requested<'a>>,
    processes: Names,
    /// Which slices to count.
    pub(super) query: Query,
    /// The type of core of each processor, by number; empty where they are not known: no trace says.
    pub(super) core_types: Vec<Option<&'static str>>,
    output: &'a Output,
}

impl<'a> Presenter<'a> {
    pub(super) fn new(
        options: &'a args::Stat,
        metrics: &'a Metrics,
        output: &'a Output,
    ) -> Result<Self> {
        let requested = metrics.requested(&options.metrics)?;
        refuse_modes(&requested)?;
        let interval = options.interval.map(time::interval).transpose()?;
        let processors = joined(&options.selection.processors);
        let processors = processors.map(|list| selection::parse_processors(&list)).transpose()?;
        let query = Query {
            processors: processors.unwrap_or_default(),
            interval_ns: interval.and_then(NonZeroU64::new),
        };
        let (processes, core_types) = (Names::new(&options.process), Vec::new());
        Ok(Self { options, metrics, requested, processes, query, core_types, output })
    }

    /// Prints the counts of traces, one for each pass; `complete` adds what they do not know.
    pub(super) fn show(
        &self,
        passes: &[TraceCounts],
        complete: impl FnOnce(&mut StatResult),
    ) -> Result<u32> {
        let views = passes.iter().zip(1..).map(|(counts, number)| TraceView {
            counts,
            pass: (passes.len() > 1).then_some(number),
            presenter: self,
        });
        let views: Vec<TraceView<'_>> = views.collect();
        let mut writer = IntervalWriter::new(self.options, self.output, None);
        if let Some(length) = self.query.interval_ns {
            for interval in views.iter().flat_map(|view| view.intervals(length.get())) {
                writer.write(interval)?;
            }
        }
        let mut result = result(&views, &self.options.process);
        self.output.warn_all(&result.warnings);
        result.warnings.extend(result.trace.iter().flat_map(|trace| trace.notes.clone()));
        complete(&mut result);
        writer.finish(result)?;
        let is_damaged = passes.iter().any(|counts| !counts.damage.is_empty());
        Ok(if is_damaged { INCOMPLETE } else { 0 })
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
    /// The pass that the trace is of, if there are several.
    pass: Option<u32>,
    presenter: &'a Presenter<'a>,
}

impl TraceView<'_> {
    /// The cells of the processes that are shown.
    fn cells(&self) -> Vec<&Cell> {
        let is_shown = |cell: &&Cell| {
            let process = self.counts.process_of(cell);
            self.presenter.processes.pass_process(process.name.as_deref(), process.id)
        };
        self.counts.cells.iter().filter(is_shown).collect()
    }

    /// The counts of each source over some cells; of each processor if each has rows of its own.
    fn count_rows(&self, cells: &[&Cell]) -> Vec<CountRow> {
        let per_cpu = self.presenter.options.per_cpu;
        let mut sums = summed(cells, |cell| per_cpu.then_some(u32::from(cell.processor)));
        if !per_cpu {
            sums.entry(None).or_default();
        }
        let rows = sums.iter().flat_map(|(&processor, sums)| {
            let rows = self.rows_of(sums).into_iter();
            rows.map(move |row| CountRow { processor, ..row })
        });
        let mut rows: Vec<CountRow> = rows.collect();
        rows.sort_by_key(|row| row.event);
        rows
    }

    fn rows_of(&self, sums: &Sums) -> Vec<CountRow> {
        let sources = self.counts.sources.iter().enumerate();
        let row = |(index, source): (usize, &String)| {
            let count = sums.counts.get(index).copied().unwrap_or(0);
            CountRow {
                source: source.clone(),
                value: Some(count),
                counted: count,
                enabled_ns: sums.counted_ns.into(),
                running_ns: sums.counted_ns.into(),
                event: index,
                pass: self.pass,
                ..CountRow::default()
            }
        };
        sources.map(row).collect()
    }

    fn metric_rows(&self, rows: &[CountRow]) -> Vec<MetricRow> {
        let Presenter { metrics, requested, .. } = self.presenter;
        metrics_of(metrics, requested, rows, String::new)
    }

    /// A row for each thread, type of core and source, those with the most time first and the idle
    /// threads last.
    fn thread_rows(&self, cells: &[&Cell]) -> Vec<ThreadRow> {
        if self.presenter.options.by != Some(Dividing::Thread) {
            return Vec::new();
        }
        let core_types = &self.presenter.core_types;
        let core_type = |processor: u16| core_types.get(usize::from(processor)).copied().flatten();
        let sums = summed(cells, |cell| (cell.thread, core_type(cell.processor)));
        let mut sums: Vec<_> = sums.into_iter().collect();
        let threads = &self.counts.threads;
        sums.sort_by_key(|((thread, _), sums)| {
            (threads[*thread].thread.id == 0, Reverse(sums.time_ns))
        });
        let rows = sums.iter().flat_map(|((index, core_type), sums)| {
            let thread = &threads[*index].thread;
            let process = &self.counts.processes[thread.process];
            let rows = self.switched(sums, threads[*index].complete).into_iter();
            rows.map(move |(source, value, switched)| ThreadRow {
                process: process.name.clone(),
                id: process.id,
                thread: thread.id,
                started_ns: thread.started_ns,
                core_type: *core_type,
                source,
                value,
                switched,
            })
        });
        rows.collect()
    }

    /// The same for each process.
    fn process_rows(&self, cells: &[&Cell]) -> Vec<ProcessRow> {
        if self.presenter.options.by != Some(Dividing::Process) {
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
            let rows = self.switched(sums, complete).into_iter().zip(totals);
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
    fn switched(&self, sums: &Sums, complete: bool) -> Vec<(String, u128, Switched)> {
        let processors = self.counts.processors.len().max(1) as u64;
        let time_ns = self.counts.elapsed_ns.saturating_mul(processors);
        let switched = Switched {
            switches: sums.switches,
            time_ns: sums.time_ns,
            complete,
            metrics: self.metric_rows(&self.rows_of(sums)),
            time_share: float(sums.time_ns) / float(time_ns.max(1)),
            is_first: false,
        };
        let counts = self.counts.sources.iter().zip(&sums.counts).enumerate();
        let rows = counts.map(|(index, (source, &count))| {
            (source.clone(), count, Switched { is_first: index == 0, ..switched.clone() })
        });
        rows.collect()
    }

    /// The intervals in which something was switched.
    fn intervals(&self, length_ns: u64) -> Vec<Interval> {
        let cells = self.cells();
        let last = cells.last().map(|cell| cell.interval);
        let parts = cells.chunk_by(|one, next| one.interval == next.interval);
        let intervals = parts.map(|cells| {
            let number = cells[0].interval;
            let start_ns = number * length_ns;
            let end_ns = start_ns.saturating_add(length_ns).min(self.counts.elapsed_ns);
            Interval {
                run: None,
                pass: self.pass,
                start_ns,
                length_ns: end_ns.saturating_sub(start_ns),
                time_ns: end_ns,
                rows: StatRows {
                    counts: self.count_rows(cells),
                    derived: self.metric_rows(&self.totals(cells)),
                    by_process: self.process_rows(cells),
                    by_thread: self.thread_rows(cells),
                    ..StatRows::default()
                },
                last: last == Some(number),
            }
        });
        intervals.collect()
    }

    /// The counts of each source over some cells.
    fn totals(&self, cells: &[&Cell]) -> Vec<CountRow> {
        summed(cells, |_| ()).values().flat_map(|sums| self.rows_of(sums)).collect()
    }
}

/// What the traces of all passes have counted: `processes` are those that are shown.
fn result(views: &[TraceView<'_>], processes: &[String]) -> StatResult {
    let all = views.iter().map(|view| view.counts);
    let trace = TraceRow::of(all.clone(), processes);
    let first = all.clone().next().cloned().unwrap_or_default();
    let cells: Vec<Vec<&Cell>> = views.iter().map(TraceView::cells).collect();
    let each = || views.iter().zip(&cells);
    let elapsed = all.map(|counts| u128::from(counts.elapsed_ns));
    let totals = each().flat_map(|(view, cells)| view.totals(cells)).collect::<Vec<_>>();
    let pass_row = |view: &TraceView<'_>| PassRow {
        sources: view.counts.sources.clone(),
        elapsed_ns: view.counts.elapsed_ns,
    };
    let mut warnings = trace.warnings();
    if !processes.is_empty() && cells.iter().all(Vec::is_empty) {
        warnings.push(format!("no thread of process {} ran", processes.join(", ")));
    }
    StatResult {
        machine: first.system,
        scope: Scope {
            processors: first.processors,
            processor_count: first.processor_count,
            ..Scope::default()
        },
        elapsed_ns: elapsed.sum::<u128>() / views.len().max(1) as u128,
        slices: 1,
        rows: StatRows {
            counts: each().flat_map(|(view, cells)| view.count_rows(cells)).collect(),
            derived: match views.first() {
                Some(view) if !totals.is_empty() => view.metric_rows(&totals),
                _ => Vec::new(),
            },
            by_process: each().flat_map(|(view, cells)| view.process_rows(cells)).collect(),
            by_thread: each().flat_map(|(view, cells)| view.thread_rows(cells)).collect(),
            ..StatRows::default()
        },
        unknown_ns: Some(trace.unknown.total_ns()),
        trace: Some(trace),
        warnings,
        passes: if views.len() > 1 { views.iter().map(pass_row).collect() } else { Vec::new() },
        ..StatResult::default()
    }
}

impl TraceRow {
    /// What is true of all these traces together.
    fn of<'a>(all: impl Iterator<Item = &'a TraceCounts>, processes: &[String]) -> Self {
        let mut row = Self { processes: processes.to_vec(), ..Self::default() };
        for counts in all {
            let switches = counts.cells.iter().map(|cell| cell.sums.switches);
            row.switches = switches.fold(row.switches, u64::saturating_add);
            row.unknown.add(&counts.unknown);
            row.lost_events = row.lost_events.saturating_add(counts.lost_events);
            row.lost_buffers = row.lost_buffers.saturating_add(counts.lost_buffers);
            if !counts.damage.is_empty() {
                row.damaged.get_or_insert_with(|| counts.damage.join("; "));
            }
        }
        row.notes = row.notes();
        row
    }

    /// What makes the counts less than all that happened.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.unknown.lost_switches != 0 {
            warnings.push(format!(
                "{} context switches were lost, and whoever ran in {} of a processor's time is not \
                 known: counts are at least what is shown",
                thousands(self.unknown.lost_switches),
                seconds(self.unknown.lost_ns)
            ));
        }
        for (n, what) in [(self.lost_events, "events"), (self.lost_buffers, "buffers")] {
            if n != 0 {
                warnings.push(format!(
                    "the session lost {} {what}: counts are at least what is shown",
                    thousands(n)
                ));
            }
        }
        warnings
            .extend(self.damaged.iter().map(|damage| format!("the trace is damaged: {damage}")));
        warnings
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![INTERRUPTS.to_owned()];
        let edges = self.unknown.before_first_ns.saturating_add(self.unknown.after_last_ns);
        if edges != 0 {
            notes.push(format!(
                "{} before the first and after the last switch of the processors belongs to nobody",
                seconds(edges)
            ));
        }
        if self.unknown.slices_without_counts != 0 {
            notes.push(format!(
                "{} slices have no counts, for want of values at one of their ends",
                thousands(self.unknown.slices_without_counts)
            ));
        }
        notes
    }
}

fn summed<K: Ord>(cells: &[&Cell], key: impl Fn(&Cell) -> K) -> BTreeMap<K, Sums> {
    let mut sums: BTreeMap<K, Sums> = BTreeMap::new();
    for cell in cells {
        sums.entry(key(cell)).or_default().add(&cell.sums);
    }
    sums
}
