//! `halprof top --by KEYS`: where the samples of each interval fall. A recorder drains them into a
//! recording in memory, and what is shown is the report on it.

use super::state::{Cell, Picture, PictureRow, State, Table, UNKNOWN};
use crate::cli::args;
use crate::cli::args::joined;
use crate::command::top::TopResult;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::escape::Escaped;
use crate::output::number::{processor_time, thousands};
use crate::output::table::{Column, Width};
use crate::results::head::head;
use crate::results::recording::{InPass, in_pass, metadata};
use crate::results::recording_warnings;
use crate::results::report_text::{self, period};
use crate::results::sample_rows::{absent_beside_source, source_rows};
use crate::run::recorder::{Recorder, STEP_NS, configured, slices};
use crate::run::runner::{Every, Runner};
use crate::select::branches;
use crate::select::event_set::EventSet;
use crate::select::filters;
use crate::select::periods;
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::float::float;
use halprof_measure::rates::Rates;
use halprof_measure::{Refusal, Session};
use halprof_profile::aggregate::filter::Filter;
use halprof_profile::aggregate::key::Key;
use halprof_profile::aggregate::share::Share;
use halprof_profile::file::{Live, Recording, Sink, Statistics};
use halprof_profile::symbols::{SymbolPath, Symbols};
use halprof_profile::views::report::{self as reports, Query, Report, SourceSection};
use shared_types::Sample;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

/// The rows that `--once` prints of each source.
const ROWS: usize = 20;

/// What is sampled while somebody watches.
pub(super) trait LiveSamples {
    /// Takes over what has come, as often as the run is looked at.
    fn drain(&mut self, elapsed_ns: u64) -> Result<()>;
    /// What came since the last interval.
    fn interval(&mut self, elapsed_ns: u64) -> Result<(Recording, Vec<Sample>)>;
}

pub(super) fn run(
    options: &args::Top,
    tables: Vec<Vec<Key>>,
    (mut runner, state, interval): (Runner, State, Duration),
    sampling: &mut dyn LiveSamples,
    output: &Output,
) -> Result<u32> {
    let processes = filters::patterns(&options.process);
    let filter = Filter { processes, ..Filter::default() };
    let query = Query { tables, filter, ..Query::default() };
    let path = options.naming.path(output)?.loaded_here();
    if options.once {
        runner.begin()?;
        let elapsed_ns = runner.run(Every::step(STEP_NS), |tick| {
            sampling.drain(tick.elapsed_ns)?;
            Ok(ControlFlow::Continue(()))
        })?;
        sampling.drain(elapsed_ns)?;
        let sampled = sampling.interval(elapsed_ns)?;
        let report = Report::live(sampled, &query, &mut nothing_open(&path))?;
        return print(&report, elapsed_ns, output);
    }
    let mut reports = Reports::begin(query, path);
    super::show(&mut runner, interval, state, |tick| {
        sampling.drain(tick.elapsed_ns)?;
        if tick.is_due && !reports.is_busy {
            reports.request(sampling.interval(tick.elapsed_ns)?);
        }
        let report = reports.next()?;
        Ok(report.map(|report| picture(Duration::from_nanos(tick.elapsed_ns), &report)))
    })?;
    Ok(0)
}

pub(super) fn keys(options: &args::Top) -> Result<Vec<Vec<Key>>> {
    let lists: Vec<String> = joined(&options.by).into_iter().collect();
    if branches::requested(&lists)?.is_some() {
        return Err(Error::usage(
            "`top` shows no branches",
            "`halprof record --branches` records them, and `halprof report` has tables of them.",
        ));
    }
    filters::tables(&lists)
}

fn print(report: &Report, elapsed_ns: u64, output: &Output) -> Result<u32> {
    let warnings = recording_warnings::warnings(report);
    output.warn_all(&warnings);
    recording_warnings::note_symbols(&report.symbols, output);
    let by = report.tables.first().map_or(&[][..], |table| &table.by);
    let result = TopResult {
        elapsed_ns,
        counts: Vec::new(),
        metrics: Vec::new(),
        tables: &report.tables,
        warnings,
    };
    let rows = source_rows(&report.tables);
    output.rows_without(&absent_beside_source(by), "top", (&result, &rows), |_| {
        report_text::tables(report, (ROWS, ROWS), "--csv", output.width())
    })?;
    Ok(0)
}

/// A session whose samples go to a recording in memory.
pub(super) struct Sampling<'a> {
    session: Session<'a, Backend>,
    recorder: Recorder<'a, Live>,
    event_set: &'a EventSet,
    /// All sources of the event set.
    indexes: Vec<usize>,
    rates: Rates,
    pub(super) warnings: Vec<String>,
}

impl<'a> Sampling<'a> {
    pub(super) fn start(
        event_set: &'a EventSet,
        runner: &Runner,
        ctx: &'a mut Context,
    ) -> Result<Self> {
        let machine = ctx.machine.description;
        let indexes = event_set.indexes();
        let (mut session, effective) = configured(&mut ctx.connection, event_set, &indexes, true)?;
        let periods = in_pass(event_set, &indexes, &effective, 0);
        let periods: Vec<InPass> = periods.map(|(_, period)| period).collect();
        let live =
            Live::new(metadata(&machine, &ctx.machine_info, event_set, &periods, Vec::new()));
        let recorder = Recorder::new(live, event_set, runner.system(), None, None)?;
        session.start()?;
        let clamped = periods::clamped(periods.iter().map(|row| &row.period));
        Ok(Self {
            session,
            event_set,
            indexes,
            rates: Rates::new(machine.timestamp_frequency),
            warnings: clamped.collect(),
            recorder,
        })
    }
}

impl LiveSamples for Sampling<'_> {
    /// Moves the contents of the rings to the recording.
    fn drain(&mut self, elapsed_ns: u64) -> Result<()> {
        self.recorder.step(&mut self.session, &self.indexes, elapsed_ns)?;
        if self.session.ended().is_none() {
            return Ok(());
        }
        let refusal = Refusal::from_statistics(&self.session.statistics()?);
        refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    fn interval(&mut self, elapsed_ns: u64) -> Result<(Recording, Vec<Sample>)> {
        let statistics = self.session.statistics()?;
        let interval = self.rates.take(self.session.snapshot()?);
        let statistics = Statistics {
            slices: slices(interval.counts(), &self.indexes, self.event_set),
            ..self.recorder.with(&statistics, elapsed_ns)
        };
        self.recorder.inventory.forget();
        let live = &mut self.recorder.sink;
        live.put(halprof_profile::file::Block::Statistics(Box::new(statistics)))?;
        Ok(live.take())
    }
}

/// Makes the reports on a thread of its own: to open symbols may take longer than the rings last.
struct Reports {
    requests: Sender<(Recording, Vec<Sample>)>,
    results: Receiver<halprof_measure::Result<Report>>,
    is_busy: bool,
}

impl Reports {
    fn begin(query: Query, path: SymbolPath) -> Self {
        let (requests, requested) = mpsc::channel();
        let (finished, results) = mpsc::channel();
        std::thread::spawn(move || {
            let mut symbols = nothing_open(&path);
            for interval in requested {
                if finished.send(Report::live(interval, &query, &mut symbols)).is_err() {
                    break;
                }
            }
        });
        Self { requests, results, is_busy: false }
    }

    fn request(&mut self, interval: (Recording, Vec<Sample>)) {
        // If the thread has ended, so have the reports.
        let _ = self.requests.send(interval);
        self.is_busy = true;
    }

    fn next(&mut self) -> Result<Option<Report>> {
        match self.results.try_recv() {
            Ok(report) => {
                self.is_busy = false;
                Ok(Some(report?))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(Error::internal("the thread that makes the reports has ended"))
            }
        }
    }
}

/// The report as a picture: a table of each source, named with its period.
pub(super) fn picture(elapsed: Duration, report: &Report) -> Picture {
    let head = head(&report.recording, report.total.samples, Width::UNLIMITED);
    let parts = report
        .tables
        .iter()
        .flat_map(|table| table.sections.iter().map(move |part| (&table.by, part)));
    Picture {
        elapsed,
        notes: head.lines().map(str::to_owned).collect(),
        warnings: recording_warnings::disturbances(report),
        tables: parts.map(|(by, part)| table(by, part, report)).collect(),
        below: Vec::new(),
    }
}

fn table(by: &[Key], part: &SourceSection, report: &Report) -> Table {
    let mut columns = vec![
        Column::number("share"),
        Column::number("95 %"),
        Column::number("samples"),
        Column::number(if part.seconds.is_some() { "time" } else { "events" }).extra(),
    ];
    columns.extend(by.iter().map(|key| Column::name(key.name())));
    let name = part.source.as_deref().unwrap_or_default();
    let mut sources = report.sources.iter();
    let source = sources.find(|source| &*source.name == name);
    Table {
        title: match source.and_then(|source| period(source.period, source.time.is_some())) {
            Some(period) => format!("{}, period {period}", Escaped(name)),
            None => Escaped(name).to_string(),
        },
        columns,
        trace_at: 3,
        rows: part.rows.iter().map(|one| row(name, one)).collect(),
    }
}

fn row(source: &str, row: &reports::GroupTotals) -> PictureRow {
    // A row has no share if the rows are of several sources.
    let share = row.share;
    let shown = |of: fn(&Share) -> f64, text: fn(f64) -> String| {
        share.map_or(Cell::Number("-".to_owned(), UNKNOWN), |share| {
            let value = of(&share);
            Cell::Number(text(value * 100.0), value)
        })
    };
    let names = row.values.iter().map(ToString::to_string);
    let names: Vec<String> = names.collect();
    let mut cells = vec![
        shown(|share| share.value, |value| format!("{value:.2} %")),
        shown(Share::bound, |bound| format!("±{bound:.2}")),
        Cell::Number(thousands(row.totals.samples), float(row.totals.samples)),
        Cell::Number(
            row.seconds
                .map_or_else(|| thousands(row.totals.events), |_| processor_time(row.seconds)),
            float(row.totals.events),
        ),
    ];
    let key = format!("{source}\n{}", names.join("\n"));
    cells.extend(names.into_iter().map(Cell::Name));
    PictureRow {
        key,
        value: share.map_or(0.0, |share| share.value) as f32,
        cells,
        trace: Vec::new(),
    }
}

fn nothing_open(path: &SymbolPath) -> Symbols {
    Symbols::open(&Recording::default(), path)
}
