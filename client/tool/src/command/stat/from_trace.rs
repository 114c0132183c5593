//! Counts by traces of Windows' own tracing: the slices between context switches are added up by
//! processor, as any backend's counts are, and by thread and process, which only a trace has.

use super::evaluate::{Evaluation, Span};
use super::interval_writer::IntervalWriter;
use super::result::{
    Interval, PartRow, ShareOfCount, StatRows, Switched, ThreadOfProcess, TraceRow,
};
use crate::cli::args::{self, DivideBy, joined};
use crate::metrics::{Metrics, Requested};
use crate::output::error::{Error, Result};
use crate::output::error_codes::INCOMPLETE;
use crate::output::number::{seconds, thousands};
use crate::output::{MachineInfo, Output};
use crate::results::counts::{By, Counts, Pass};
use crate::results::errata::EventErrata;
use crate::results::view::{CountedEvent, RowBuilder};
use crate::run::scope::Scope;
use crate::select::filters::Names;
use crate::select::time;
use crate::target::limits::{self, MeasuredBy};
use halprof_measure::describe;
use halprof_measure::event_counts::EventCounts;
use halprof_measure::float::float;
use halprof_measure::selection;
use halprof_measure::tracing::analysis::counts::{Cell, Query, Sums, TraceCounts};
use halprof_measure::tracing::analysis::lives::Process;
use halprof_measure::tracing::analysis::part::TracePart;
use halprof_measure::tracing::session::plan::TraceEvent;
use halprof_profile::file::{Recording, is_recording};
use shared_types::request::machine::Processor;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::Path;

/// What is true of the counts of any trace.
const INTERRUPTS: &str =
    "counts include interrupts and DPCs that ran on the thread's time, in user and kernel mode";

/// Times of a trace are in nanoseconds.
const FREQUENCY: u64 = 1_000_000_000;

/// Counts by a trace in a file.
pub(crate) fn run(options: &args::Stat, file: &Path, output: &Output) -> Result<u32> {
    // No trace says whether threads shared cores.
    let metrics = Metrics::with_file(options.metric_file.as_deref(), false)?;
    let requested = requested(options, &metrics)?;
    let query = query(options)?;
    let (machine, counts) = if is_recording(file)? {
        refuse_parts(options)?;
        let recording = halprof_profile::file::read(file, |_| {})?;
        (MachineInfo::of_recording(&recording.metadata), recorded(recording)?)
    } else {
        let counts = TraceCounts::read(file, &query)?;
        (MachineInfo::of_trace(counts.is_modelled, &counts.system), counts)
    };
    output.note_model(&machine);
    let scope = Scope { processor_count: counts.processor_count, ..Scope::default() };
    let passes = [counts];
    let errata = EventErrata::default();
    let traces =
        TraceMeasurement::new(options, &passes, (&metrics, requested), (&[], errata), output);
    let mut writer = IntervalWriter::new(options, output, None)?;
    traces.write_intervals(&mut writer)?;
    traces.show(writer, (machine.description, scope), Vec::new(), Some(file))
}

/// Refuses what needs parts of the trace.
fn refuse_parts(options: &args::Stat) -> Result<()> {
    let given = [
        ("--interval", options.interval.is_some()),
        ("--cpu", !options.selection.processors.is_empty()),
        ("--per-cpu", options.per_cpu),
    ];
    limits::refuse(MeasuredBy::Recording, "stat", &given)
}

/// The counts that a recording keeps.
fn recorded(recording: Recording) -> Result<TraceCounts> {
    let is_whole = recording.damage.is_none() && recording.ending.is_some();
    let damaged = recording.damaged().filter(|_| !is_whole);
    let mut counts = recording.counts.ok_or_else(|| halprof_measure::Error::BadFile {
        path: recording.file,
        why: "is a recording without counts of threads".to_owned(),
        hint:
            "`halprof convert` keeps them if the context switches of the trace (.etl) have counter \
               values."
                .into(),
    })?;
    counts.damage.extend(damaged);
    Ok(counts)
}

/// The metrics that the options name, if context switches can count what they need.
pub(super) fn requested<'a>(
    options: &args::Stat,
    metrics: &'a Metrics,
) -> Result<Vec<Requested<'a>>> {
    let requested = metrics.requested(&options.metrics)?;
    match requested.iter().find(|one| !one.filter.is_empty()) {
        Some(Requested { metric, filter }) => Err(Error::usage(
            format!(
                "`{}:{filter}`: context switches count user and kernel mode together",
                metric.id
            ),
            format!("Ask for `{}`.", metric.id),
        )),
        None => Ok(requested),
    }
}

/// Which slices to count.
pub(super) fn query(options: &args::Stat) -> Result<Query> {
    let interval = options.interval.map(time::interval).transpose()?;
    let processors = joined(&options.selection.processors)
        .map(|list| selection::parse_processors(&list))
        .transpose()?;
    Ok(Query {
        processors: processors.unwrap_or_default(),
        interval_ns: interval.and_then(NonZeroU64::new),
    })
}

/// The traces of a measurement, one for each pass.
pub(super) struct TraceMeasurement<'a> {
    options: &'a args::Stat,
    output: &'a Output,
    evaluation: Evaluation<'a>,
    passes: Vec<TracePass<'a>>,
}

/// The trace of a pass.
struct TracePass<'a> {
    /// What the shown processes did in it.
    shown: TracePart<'a>,
    /// Its number, if there are several.
    number: Option<u32>,
    /// The index of its first event among those of all passes.
    first_event: usize,
}

impl<'a> TraceMeasurement<'a> {
    /// `machine`: the processors on which the traces were made, and the errata of each event; none of
    /// them is known of a file.
    pub(super) fn new(
        options: &'a args::Stat,
        passes: &'a [TraceCounts],
        (metrics, requested): (&'a Metrics, Vec<Requested<'a>>),
        (machine, errata): (&[Processor], EventErrata),
        output: &'a Output,
    ) -> Self {
        let processors = processors(passes, machine);
        let by = By::new(&processors, options.per_cpu, options.per_core_type || output.is_text());
        let sources = passes.iter().flat_map(|counts| &counts.sources);
        let view = RowBuilder {
            events: sources.map(|source| CountedEvent::named(source)).collect(),
            processors,
            errata,
            metrics,
            requested,
            frequency: FREQUENCY,
            by,
            trim: false,
        };
        let shown = Names::new(&options.process);
        let mut first_event = 0;
        let is_shown = |process: &Process| shown.pass_process(process.name.as_deref(), process.id);
        let passes = (1..).zip(passes).map(|(number, counts)| {
            let pass = TracePass {
                shown: counts.of_processes(is_shown),
                number: (passes.len() > 1).then_some(number),
                first_event,
            };
            first_event += counts.sources.len();
            pass
        });
        let passes = passes.collect();
        Self { options, output, evaluation: Evaluation { view, topdown: None }, passes }
    }

    /// Says of each event how it was requested.
    pub(super) fn requested(mut self, requested: &[TraceEvent]) -> Self {
        for event in &mut self.evaluation.view.events {
            if let Some(requested) = requested.iter().find(|one| one.name == event.label) {
                event.requested.clone_from(&requested.requested);
                event.group = requested.group;
            }
        }
        self
    }

    /// Writes the intervals of all passes.
    pub(super) fn write_intervals(&self, writer: &mut IntervalWriter<'_>) -> Result<()> {
        for pass in &self.passes {
            for interval in self.intervals(pass)? {
                writer.write(interval)?;
            }
        }
        Ok(())
    }

    /// Prints the counts.
    pub(super) fn show(
        &self,
        writer: IntervalWriter<'_>,
        (machine, scope): (String, Scope),
        mut warnings: Vec<String>,
        file: Option<&Path>,
    ) -> Result<u32> {
        let mut counts = Counts::default();
        for pass in &self.passes {
            counts.add(pass.summary(), self.events(pass, &pass.shown));
        }
        let traced = self.passes.first().map(|pass| pass.shown.trace.processors.clone());
        let scope = Scope { processors: traced.unwrap_or_default(), ..scope };
        let mut result = self.evaluation.result(&[counts], machine, scope);
        for pass in &self.passes {
            self.divide(pass, &pass.shown, &mut result.rows);
        }
        let trace = TraceRow::new(&self.passes, &self.options.process, file);
        // Machine-wide totals report the time at the edges of the trace separately, so only counts
        // of threads are lower bounds.
        let is_of_threads = self.options.by.is_some() || !self.options.process.is_empty();
        for row in &mut result.rows.counts {
            row.is_at_least = is_of_threads && !trace.complete;
        }
        let mut of_trace = trace.warnings();
        let processes = &self.options.process;
        if !processes.is_empty() && self.passes.iter().all(|pass| pass.shown.is_empty()) {
            of_trace.push(format!("no thread of process {} ran", processes.join(", ")));
        }
        self.output.warn_all(&of_trace);
        warnings.extend(of_trace);
        warnings.extend(trace.notes.clone());
        result.warnings = warnings;
        result.unknown_ns = Some(trace.unknown.total_ns());
        result.trace = Some(trace);
        let status = writer.finish(result)?;
        let is_damaged = self.passes.iter().any(|pass| !pass.shown.trace.damage.is_empty());
        Ok(if is_damaged { INCOMPLETE } else { status })
    }

    /// What each event counted in a part of a pass.
    fn events(&self, pass: &TracePass<'_>, part: &TracePart<'_>) -> Vec<EventCounts> {
        // A processor on which nothing ran counted nothing, and has no row of its own.
        let idle = match self.evaluation.view.by {
            By::Processor => &[][..],
            By::Machine | By::CoreType => &part.trace.processors,
        };
        let counted = part.events(idle).into_iter();
        let of_pass = |counts: EventCounts| EventCounts {
            event: pass.first_event + counts.event,
            pass: pass.number,
            ..counts
        };
        counted.map(of_pass).collect()
    }

    /// The intervals in which something was switched.
    fn intervals(&self, pass: &TracePass<'_>) -> Result<Vec<Interval>> {
        let Some(length) = query(self.options)?.interval_ns else {
            return Ok(Vec::new());
        };
        let parts = pass.shown.divided(|cell| cell.interval);
        let interval = |(number, part): (&u64, &TracePart<'_>)| {
            let start_ns = number * length.get();
            let end_ns = start_ns.saturating_add(length.get()).min(part.trace.elapsed_ns);
            let span = Span { run: None, pass: pass.number, start_ns, end_ns };
            self.interval(pass, part, &span)
        };
        let mut intervals: Vec<Interval> = parts.iter().map(interval).collect();
        if let Some(last) = intervals.last_mut() {
            last.last = true;
        }
        Ok(intervals)
    }

    fn interval(&self, pass: &TracePass<'_>, part: &TracePart<'_>, span: &Span) -> Interval {
        let counts = Counts { events: self.events(pass, part), ..Counts::default() };
        let mut interval = self.evaluation.interval(span, &counts);
        self.divide(pass, part, &mut interval.rows);
        interval
    }

    /// All that was counted, as one interval.
    pub(super) fn whole(&self, span: &Span) -> Interval {
        self.passes.first().map_or_else(
            || self.evaluation.interval(span, &Counts::default()),
            |pass| self.interval(pass, &pass.shown, span),
        )
    }

    /// What the shown threads did on each processor.
    pub(super) fn by_processor(&self) -> BTreeMap<u32, Sums> {
        self.passes.first().map_or_else(BTreeMap::new, |pass| pass.shown.by_processor())
    }

    /// Adds the rows of the threads or processes, if they are requested.
    fn divide(&self, pass: &TracePass<'_>, part: &TracePart<'_>, rows: &mut StatRows) {
        match self.options.by {
            Some(DivideBy::Thread) => rows.by_thread.extend(self.thread_rows(pass, part)),
            Some(DivideBy::Process) => rows.by_process.extend(self.process_rows(pass, part)),
            None => {}
        }
    }

    /// A row for each thread, type of core and source.
    fn thread_rows(&self, pass: &TracePass<'_>, part: &TracePart<'_>) -> Vec<PartRow> {
        let TraceCounts { threads, .. } = part.trace;
        let core_types: BTreeMap<u32, &str> = self
            .evaluation
            .view
            .processors
            .iter()
            .filter_map(|one| Some((one.index, describe::core_type(one)?)))
            .collect();
        let core_type = |cell: &Cell| core_types.get(&cell.processor.into()).copied();
        let parts = part.divided(|cell| (cell.thread, core_type(cell)));
        let parts = largest_first(parts, |(thread, _)| threads[*thread].thread.id == 0);
        let rows = parts.iter().flat_map(|((index, core_type), part, sums)| {
            let thread = &threads[*index].thread;
            let of_process = ThreadOfProcess {
                id: thread.id,
                name: thread.name.clone(),
                started_ns: thread.started_ns,
                core_type: *core_type,
            };
            self.rows(pass, (part, sums), thread.process, Some(&of_process))
        });
        rows.collect()
    }

    /// A row for each process and source.
    fn process_rows(&self, pass: &TracePass<'_>, part: &TracePart<'_>) -> Vec<PartRow> {
        let TraceCounts { threads, processes, .. } = part.trace;
        let all = part.trace.of_processes(|_| true).sums();
        let parts = part.divided(|cell| threads[cell.thread].thread.process);
        let parts = largest_first(parts, |process| processes[*process].id == Some(0));
        let rows = parts.iter().flat_map(|(process, part, sums)| {
            let rows = self.rows(pass, (part, sums), *process, None).into_iter();
            rows.zip(&all.counts).map(|(row, &total)| {
                let share = float(row.value) / float(total.max(1));
                let of_count = Some(ShareOfCount { error: None, share, samples: None });
                PartRow { of_count, ..row }
            })
        });
        rows.collect()
    }

    /// A row for each source of a part, with what the switches say besides.
    fn rows(
        &self,
        pass: &TracePass<'_>,
        (part, sums): (&TracePart<'_>, &Sums),
        process: usize,
        thread: Option<&ThreadOfProcess>,
    ) -> Vec<PartRow> {
        let counts = Counts { events: self.events(pass, part), ..Counts::default() };
        let processors = part.trace.processors.len().max(1) as u64;
        let time_ns = part.trace.elapsed_ns.saturating_mul(processors);
        let switched = Switched {
            switches: sums.switches,
            time_ns: sums.time_ns,
            complete: part.is_complete(),
            metrics: self.evaluation.view.metrics_of_sums(counts),
            time_share: float(sums.time_ns) / float(time_ns.max(1)),
            is_first: false,
        };
        let process = &part.trace.processes[process];
        let counts = part.trace.sources.iter().zip(&sums.counts).enumerate();
        let rows = counts.map(|(index, (source, &value))| PartRow {
            process: process.name.clone(),
            id: process.id,
            thread: thread.cloned(),
            source: source.clone(),
            value,
            of_count: None,
            switched: Some(Switched { is_first: index == 0, ..switched.clone() }),
        });
        rows.collect()
    }
}

impl TracePass<'_> {
    fn summary(&self) -> Pass {
        let TraceCounts { sources, elapsed_ns, .. } = self.shown.trace;
        Pass {
            events: (self.first_event..).take(sources.len()).collect(),
            elapsed_ns: *elapsed_ns,
            slices: 1,
            periods: Vec::new(),
        }
    }
}

/// The processors of these traces, as the machine describes them.
fn processors(passes: &[TraceCounts], machine: &[Processor]) -> Vec<Processor> {
    let indexes: BTreeSet<u32> =
        passes.iter().flat_map(|counts| counts.processors.iter().copied()).collect();
    let processor = |index: u32| {
        let known = machine.iter().find(|one| one.index == index).copied();
        known.unwrap_or(Processor { index, ..Processor::default() })
    };
    indexes.into_iter().map(processor).collect()
}

/// The parts with their sums: those with the most time first, the idle ones last.
fn largest_first<K>(
    parts: BTreeMap<K, TracePart<'_>>,
    is_idle: impl Fn(&K) -> bool,
) -> Vec<(K, TracePart<'_>, Sums)> {
    let parts = parts.into_iter().map(|(key, part)| {
        let sums = part.sums();
        (key, part, sums)
    });
    let mut parts: Vec<_> = parts.collect();
    parts.sort_by_key(|(key, _, sums)| (is_idle(key), Reverse(sums.time_ns)));
    parts
}

impl TraceRow {
    /// What is true of the traces of all passes together: `processes` are those that are shown.
    fn new(passes: &[TracePass<'_>], processes: &[String], file: Option<&Path>) -> Self {
        let mut row = Self {
            file: file.map(|file| file.display().to_string()),
            processes: processes.to_vec(),
            ..Self::default()
        };
        row.complete = passes.iter().all(|pass| pass.shown.is_complete());
        for counts in passes.iter().map(|pass| pass.shown.trace) {
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
        let remarks = passes.iter().flat_map(|pass| pass.shown.trace.remarks.iter().cloned());
        row.notes.extend(remarks);
        row.doubts =
            passes.iter().flat_map(|pass| pass.shown.trace.doubts.iter().cloned()).collect();
        row
    }

    /// What makes the counts less than all that happened.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.unknown.lost_switches != 0 {
            warnings.push(format!(
                "{} context switches were lost, and {} of processor time is unattributed: counts are \
                 at least what is shown",
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
        warnings.extend(self.doubts.iter().cloned());
        warnings
            .extend(self.damaged.iter().map(|damage| format!("the trace is damaged: {damage}")));
        warnings
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![INTERRUPTS.to_owned()];
        let edges = self.unknown.before_first_ns.saturating_add(self.unknown.after_last_ns);
        if edges != 0 {
            notes.push(format!(
                "{} before the first and after the last switch of the processors is unattributed",
                seconds(edges)
            ));
        }
        if self.unknown.slices_without_counts != 0 {
            notes.push(format!(
                "{} slices have no counts, because a counter value is missing or wrong at one end",
                thousands(self.unknown.slices_without_counts)
            ));
        }
        notes
    }
}
