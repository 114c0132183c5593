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
use crate::results::counts::{By, Counts, EventCounts, Pass};
use crate::results::errata::EventErrata;
use crate::results::view::{CountedEvent, RowBuilder};
use crate::run::scope::Scope;
use crate::select::filters::Names;
use crate::select::time;
use crate::target::limits::{self, MeasuredBy};
use halprof_measure::describe;
use halprof_measure::estimate::Estimate;
use halprof_measure::float::float;
use halprof_measure::selection;
use halprof_measure::tracing::analysis::counts::{Cell, Query, Sums, TraceCounts};
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
        let (modelled, description) = (counts.is_modelled, counts.system.clone());
        (MachineInfo { modelled, description, backend: None }, counts)
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
    passes: Vec<TracePassCounts<'a>>,
}

/// The trace of a pass, and which of its cells are shown.
struct TracePassCounts<'a> {
    counts: &'a TraceCounts,
    /// Its number, if there are several.
    number: Option<u32>,
    /// The index of its first event among those of all passes.
    first_event: usize,
    /// The cells of the processes that are shown.
    cells: Vec<&'a Cell>,
}

/// What a thread or a process did.
struct Part<'a, K> {
    key: K,
    cells: Vec<&'a Cell>,
    sums: Sums,
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
        let passes = (1..).zip(passes).map(|(number, counts)| {
            let is_shown = |cell: &&Cell| {
                let process = counts.process_of(cell);
                shown.pass_process(process.name.as_deref(), process.id)
            };
            let pass = TracePassCounts {
                counts,
                number: (passes.len() > 1).then_some(number),
                first_event,
                cells: counts.cells.iter().filter(is_shown).collect(),
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
            counts.add(pass.summary(), self.by_processor(pass, &pass.cells));
        }
        let traced = self.passes.first().map(|pass| pass.counts.processors.clone());
        let scope = Scope { processors: traced.unwrap_or_default(), ..scope };
        let mut result = self.evaluation.result(&[counts], machine, scope);
        for pass in &self.passes {
            self.divide(pass, &pass.cells, &mut result.rows);
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
        if !processes.is_empty() && self.passes.iter().all(|pass| pass.cells.is_empty()) {
            of_trace.push(format!("no thread of process {} ran", processes.join(", ")));
        }
        self.output.warn_all(&of_trace);
        warnings.extend(of_trace);
        warnings.extend(trace.notes.clone());
        result.warnings = warnings;
        result.unknown_ns = Some(trace.unknown.total_ns());
        result.trace = Some(trace);
        let status = writer.finish(result)?;
        let is_damaged = self.passes.iter().any(|pass| !pass.counts.damage.is_empty());
        Ok(if is_damaged { INCOMPLETE } else { status })
    }

    /// What these cells of a pass counted on each processor.
    fn by_processor(&self, pass: &TracePassCounts<'_>, cells: &[&Cell]) -> Vec<EventCounts> {
        let mut sums = summed(cells, |cell| u32::from(cell.processor));
        // A processor on which nothing ran counted nothing, and has no row of its own.
        if self.evaluation.view.by != By::Processor {
            for &processor in &pass.counts.processors {
                sums.entry(processor).or_default();
            }
        }
        pass.events(&sums)
    }

    /// The intervals in which something was switched.
    fn intervals(&self, pass: &TracePassCounts<'_>) -> Result<Vec<Interval>> {
        let Some(length) = query(self.options)?.interval_ns else {
            return Ok(Vec::new());
        };
        let last = pass.cells.last().map(|cell| cell.interval);
        let parts = pass.cells.chunk_by(|one, next| one.interval == next.interval);
        let interval = |cells: &[&Cell]| {
            let number = cells[0].interval;
            let start_ns = number * length.get();
            let end_ns = start_ns.saturating_add(length.get()).min(pass.counts.elapsed_ns);
            let span = Span { run: None, pass: pass.number, start_ns, end_ns };
            let interval = self.interval(pass, cells, &span);
            Interval { last: last == Some(number), ..interval }
        };
        Ok(parts.map(interval).collect())
    }

    fn interval(&self, pass: &TracePassCounts<'_>, cells: &[&Cell], span: &Span) -> Interval {
        let events = self.by_processor(pass, cells);
        let mut interval = self.evaluation.interval(span, &Counts { events, ..Counts::default() });
        self.divide(pass, cells, &mut interval.rows);
        interval
    }

    /// All that was counted, as one interval.
    pub(super) fn whole(&self, span: &Span) -> Interval {
        let cells = |pass: &TracePassCounts<'_>| self.interval(pass, &pass.cells, span);
        self.passes
            .first()
            .map_or_else(|| self.evaluation.interval(span, &Counts::default()), cells)
    }

    /// What the shown threads did on each processor.
    pub(super) fn by_processor_of_all(&self) -> BTreeMap<u32, Sums> {
        let cells: Vec<&Cell> = self.passes.iter().flat_map(|pass| pass.cells.clone()).collect();
        summed(&cells, |cell| u32::from(cell.processor))
    }

    /// Adds the rows of the threads or processes, if they are requested.
    fn divide(&self, pass: &TracePassCounts<'_>, cells: &[&Cell], rows: &mut StatRows) {
        match self.options.by {
            Some(DivideBy::Thread) => rows.by_thread.extend(self.thread_rows(pass, cells)),
            Some(DivideBy::Process) => rows.by_process.extend(self.process_rows(pass, cells)),
            None => {}
        }
    }

    /// A row for each thread, type of core and source.
    fn thread_rows(&self, pass: &TracePassCounts<'_>, cells: &[&Cell]) -> Vec<PartRow> {
        let TraceCounts { threads, .. } = pass.counts;
        let core_types: BTreeMap<u32, &str> = self
            .evaluation
            .view
            .processors
            .iter()
            .filter_map(|one| Some((one.index, describe::core_type(one)?)))
            .collect();
        let core_type = |cell: &Cell| core_types.get(&cell.processor.into()).copied();
        let parts = parts(cells, |cell| (cell.thread, core_type(cell)));
        let parts = largest_first(parts, |(thread, _)| threads[*thread].thread.id == 0);
        let rows = parts.iter().flat_map(|part| {
            let (index, core_type) = part.key;
            let thread = &threads[index].thread;
            let of_process = ThreadOfProcess {
                id: thread.id,
                name: thread.name.clone(),
                started_ns: thread.started_ns,
                core_type,
            };
            self.rows(pass, part, thread.process, Some(&of_process))
        });
        rows.collect()
    }

    /// A row for each process and source.
    fn process_rows(&self, pass: &TracePassCounts<'_>, cells: &[&Cell]) -> Vec<PartRow> {
        let TraceCounts { threads, processes, .. } = pass.counts;
        let mut all = Sums::default();
        pass.counts.cells.iter().for_each(|cell| all.add(&cell.sums));
        let parts = parts(cells, |cell| threads[cell.thread].thread.process);
        let parts = largest_first(parts, |process| processes[*process].id == Some(0));
        let mut rows = Vec::new();
        for part in &parts {
            let of_part = self.rows(pass, part, part.key, None).into_iter();
            rows.extend(of_part.zip(&all.counts).map(|(row, &total)| {
                let share = float(row.value) / float(total.max(1));
                PartRow {
                    of_count: Some(ShareOfCount { error: None, share, samples: None }),
                    ..row
                }
            }));
        }
        rows
    }

    /// A row for each source of a part, with what the switches say besides.
    fn rows<K>(
        &self,
        pass: &TracePassCounts<'_>,
        part: &Part<'_, K>,
        process: usize,
        thread: Option<&ThreadOfProcess>,
    ) -> Vec<PartRow> {
        let Part { cells, sums, .. } = part;
        let events = pass.events(&summed(cells, |cell| u32::from(cell.processor)));
        let processors = pass.counts.processors.len().max(1) as u64;
        let time_ns = pass.counts.elapsed_ns.saturating_mul(processors);
        let complete = cells.iter().all(|cell| pass.counts.threads[cell.thread].complete);
        let switched = Switched {
            switches: sums.switches,
            time_ns: sums.time_ns,
            complete,
            metrics: self.evaluation.view.metrics_of_sums(Counts { events, ..Counts::default() }),
            time_share: float(sums.time_ns) / float(time_ns.max(1)),
            is_first: false,
        };
        let process = &pass.counts.processes[process];
        let counts = pass.counts.sources.iter().zip(&sums.counts).enumerate();
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

impl TracePassCounts<'_> {
    /// Whether all that the shown threads did is in the counts.
    fn is_complete(&self) -> bool {
        let threads = &self.counts.threads;
        self.cells.iter().all(|cell| threads[cell.thread].complete)
    }

    fn summary(&self) -> Pass {
        Pass {
            events: (self.first_event..).take(self.counts.sources.len()).collect(),
            elapsed_ns: self.counts.elapsed_ns,
            slices: 1,
            periods: Vec::new(),
        }
    }

    /// What each event counted, by the sums over each processor.
    fn events(&self, sums: &BTreeMap<u32, Sums>) -> Vec<EventCounts> {
        let estimate = |source: usize, sums: &Sums| {
            let count = sums.counts.get(source).copied().unwrap_or(0);
            Estimate::exact(count, sums.counted_ns.into())
        };
        let events = (0..self.counts.sources.len()).map(|source| EventCounts {
            event: self.first_event + source,
            pass: self.number,
            by_processor: sums
                .iter()
                .map(|(&processor, sums)| (processor, estimate(source, sums)))
                .collect(),
            excluded_cpus: Vec::new(),
        });
        events.collect()
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

fn parts<'a, K: Ord>(cells: &[&'a Cell], key: impl Fn(&Cell) -> K) -> Vec<Part<'a, K>> {
    let mut parts: BTreeMap<K, (Vec<&Cell>, Sums)> = BTreeMap::new();
    for &cell in cells {
        let (cells, sums) = parts.entry(key(cell)).or_default();
        cells.push(cell);
        sums.add(&cell.sums);
    }
    parts.into_iter().map(|(key, (cells, sums))| Part { key, cells, sums }).collect()
}

/// Sorts parts: those with the most time first, the idle ones last.
fn largest_first<K>(mut parts: Vec<Part<'_, K>>, is_idle: impl Fn(&K) -> bool) -> Vec<Part<'_, K>> {
    parts.sort_by_key(|part| (is_idle(&part.key), Reverse(part.sums.time_ns)));
    parts
}

fn summed<K: Ord>(cells: &[&Cell], key: impl Fn(&Cell) -> K) -> BTreeMap<K, Sums> {
    parts(cells, key).into_iter().map(|part| (part.key, part.sums)).collect()
}

impl TraceRow {
    /// What is true of the traces of all passes together: `processes` are those that are shown.
    fn new(passes: &[TracePassCounts<'_>], processes: &[String], file: Option<&Path>) -> Self {
        let mut row = Self {
            file: file.map(|file| file.display().to_string()),
            processes: processes.to_vec(),
            ..Self::default()
        };
        row.complete = passes.iter().all(TracePassCounts::is_complete);
        for TracePassCounts { counts, .. } in passes {
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
        let remarks = passes.iter().flat_map(|pass| pass.counts.remarks.iter().cloned());
        row.notes.extend(remarks);
        row.doubts = passes.iter().flat_map(|pass| pass.counts.doubts.iter().cloned()).collect();
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
