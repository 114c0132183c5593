//! `halprof top --by KEYS`: where the samples of each interval fall. A recorder drains them into a
//! recording in memory, and what is shown is the report on it.

use super::Screen;
use super::look::Look;
use super::state::{Cell, Picture, Row, State, Table};
use super::view;
use crate::cli::args;
use crate::cli::args::joined;
use crate::command::record::{InPass, UNTOLD, in_pass, metadata};
use crate::command::report::head::head;
use crate::command::report::{self, branches};
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::escape::Shown;
use crate::output::number::thousands;
use crate::output::table::{Column, Width};
use crate::run::recorder::{Recorder, STEP_NS, configured, turns};
use crate::run::runner::interrupted;
use crate::run::watch::{Clock, Watch};
use crate::select::event_set::EventSet;
use crate::select::filters;
use crate::select::periods;
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::rates::Rates;
use halprof_measure::{Refusal, Session};
use halprof_profile::aggregate::filter::{Filter, Pattern};
use halprof_profile::aggregate::key::Key;
use halprof_profile::file::{Live, Recording, Sink, Statistics, cannot_count};
use halprof_profile::symbols::{SymbolPath, Symbols};
use halprof_profile::views::report::share::Share;
use halprof_profile::views::report::{self as reports, Query, Report, SourceSection};
use shared_types::Sample;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// How often the rings are drained.
const STEP: Duration = Duration::from_nanos(STEP_NS);
/// The rows that `--once` prints of each source.
const ROWS: usize = 20;

pub(super) fn run(
    options: &args::Top,
    limit: Option<Duration>,
    ctx: &mut Context,
    output: &Output,
) -> Result<u8> {
    let processes = options.process.iter().map(|text| Pattern::new(text)).collect();
    let query = Query {
        tables: keys(options)?,
        filter: Filter { processes, ..Filter::default() },
        ..Query::default()
    };
    let path = options.naming.path()?.loaded_here();
    let Watch { event_set, interval, clock, .. } =
        Watch::new(&options.selection, &options.watching, ctx, false)?;
    let state = State::new(&ctx.told, interval);
    let sampling = Sampling::start(&event_set, clock, ctx);
    let mut sampling = sampling.map_err(|error| event_set.explain(error))?;
    for warning in &sampling.warnings {
        output.warn(warning);
    }
    if options.once {
        let report = Report::live(sampling.once(interval)?, &query, &mut nothing_open(&path))?;
        return print(&report, output);
    }
    for (source, processors) in event_set.excluded_cpus() {
        output.warn(&cannot_count(&source, &processors));
    }
    sampling.show(state, &mut Sums::begin(query, path), limit)
}

/// The keys of `--by`.
pub(super) fn keys(options: &args::Top) -> Result<Vec<Vec<Key>>> {
    let lists: Vec<String> = joined(&options.by).into_iter().collect();
    if branches::wanted(&lists)?.is_some() {
        return Err(Error::usage(
            "`top` shows no branches",
            "`halprof record --branches` records them, and `halprof report` has tables of them.",
        ));
    }
    filters::tables(&lists)
}

fn print(report: &Report, output: &Output) -> Result<u8> {
    for warning in filters::warnings(report) {
        output.warn(&warning);
    }
    filters::note_symbols(&report.symbols, output);
    if output.is_csv() {
        output.print_data(&report::csv(report)?)?;
    } else {
        output.print(&report::tables(report, ROWS, "--csv", output.width()))?;
    }
    Ok(0)
}

/// A session whose samples go to a recording in memory.
struct Sampling<'a> {
    session: Session<'a, Backend>,
    recorder: Recorder<'a, Live>,
    event_set: &'a EventSet,
    /// All of the chosen sources.
    indexes: Vec<usize>,
    rates: Rates,
    clock: Clock,
    /// When sampling began.
    began: Duration,
    warnings: Vec<String>,
}

impl<'a> Sampling<'a> {
    fn start(event_set: &'a EventSet, clock: Clock, ctx: &'a mut Context) -> Result<Self> {
        let machine = ctx.machine.description;
        let model = ctx.connection.transport().model();
        let modules = model.map_or_else(Vec::new, |model| model.modules());
        let indexes = event_set.indexes();
        let (mut session, settled) = configured(&mut ctx.connection, event_set, &indexes, true)?;
        let periods = in_pass(event_set, &indexes, &settled, 0);
        let periods: Vec<InPass> = periods.map(|(_, period)| period).collect();
        let live = Live::new(metadata(&machine, &ctx.told, event_set, &periods, Vec::new()));
        let mut recorder = Recorder::new(live, event_set, clock.planned(), &modules, None)?;
        recorder.start(&mut session, &indexes)?;
        let clamped = periods::clamped(periods.iter().map(|row| &row.period));
        let untold = recorder.untold.as_ref().map(|_| UNTOLD.to_owned());
        Ok(Self {
            session,
            event_set,
            indexes,
            rates: Rates::new(machine.timestamp_frequency),
            began: clock.ran(),
            clock,
            warnings: clamped.chain(untold).collect(),
            recorder,
        })
    }

    fn elapsed_ns(&self) -> u64 {
        let elapsed = self.clock.ran().saturating_sub(self.began);
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Samples for one interval.
    fn once(&mut self, interval: Duration) -> Result<(Recording, Vec<Sample>)> {
        let end = self.began + interval;
        while self.clock.ran() < end && !interrupted() {
            let step = STEP.min(end.saturating_sub(self.clock.ran()));
            self.clock.pass(self.session.transport(), step)?;
            self.drain()?;
        }
        self.interval()
    }

    /// Shows the live picture until the user quits.
    fn show(mut self, mut state: State, sums: &mut Sums, limit: Option<Duration>) -> Result<u8> {
        let mut screen = Screen::open()?;
        let look = Look::of_terminal();
        let mut next = Instant::now() + state.every;
        screen.draw(|frame| view::draw(frame, &state, &look))?;
        while !interrupted() && limit.is_none_or(|limit| self.clock.elapsed() < limit) {
            let event = screen.event(STEP)?;
            let mut changed = event.is_some();
            let key = event.and_then(|event| event.as_key_press_event());
            if key.is_some_and(|key| state.key(key)) {
                break;
            }
            self.clock.follow(self.session.transport())?;
            self.drain()?;
            if sums.is_free() && Instant::now() >= next {
                sums.ask(self.interval()?);
                next = (next + state.every).max(Instant::now() + state.every / 2);
            }
            if let Some(report) = sums.answer()? {
                state.take(picture(self.clock.elapsed(), &report));
                changed = true;
            }
            if changed {
                screen.draw(|frame| view::draw(frame, &state, &look))?;
            }
        }
        Ok(0)
    }

    /// Moves the contents of the rings to the recording.
    fn drain(&mut self) -> Result<()> {
        let elapsed_ns = self.elapsed_ns();
        self.recorder.step(&mut self.session, &self.indexes, elapsed_ns)?;
        if self.session.ended().is_none() {
            return Ok(());
        }
        let refusal = Refusal::from_statistics(&self.session.statistics()?);
        refusal.map_or(Ok(()), |refusal| Err(Error::refused(refusal)))
    }

    /// What came since the last interval.
    fn interval(&mut self) -> Result<(Recording, Vec<Sample>)> {
        let statistics = self.session.statistics()?;
        let interval = self.rates.take(self.session.snapshot()?);
        let statistics = Statistics {
            slices: turns(interval.counts(), &self.indexes, self.event_set),
            ..self.recorder.with(&statistics, self.elapsed_ns())
        };
        self.recorder.inventory.forget();
        let live = &mut self.recorder.sink;
        live.put(halprof_profile::file::Block::Statistics(Box::new(statistics)))?;
        Ok(live.take())
    }
}

/// Sums up intervals on a thread of its own: to open symbols may take longer than the rings last.
struct Sums {
    intervals: Sender<(Recording, Vec<Sample>)>,
    reports: Receiver<halprof_measure::Result<Report>>,
    /// Whether an answer is still to come.
    busy: bool,
}

impl Sums {
    fn begin(query: Query, path: SymbolPath) -> Self {
        let (intervals, asked) = mpsc::channel();
        let (answers, reports) = mpsc::channel();
        std::thread::spawn(move || {
            let mut symbols = nothing_open(&path);
            for interval in asked {
                if answers.send(Report::live(interval, &query, &mut symbols)).is_err() {
                    break;
                }
            }
        });
        let busy = false;
        Self { intervals, reports, busy }
    }

    const fn is_free(&self) -> bool {
        !self.busy
    }

    fn ask(&mut self, interval: (Recording, Vec<Sample>)) {
        // If the thread has ended, so have the answers.
        let _ = self.intervals.send(interval);
        self.busy = true;
    }

    fn answer(&mut self) -> Result<Option<Report>> {
        match self.reports.try_recv() {
            Ok(report) => {
                self.busy = false;
                Ok(Some(report?))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(Error::internal("the thread that sums up has ended"))
            }
        }
    }
}

/// The report as a picture: a table of each source, named with its period.
pub(super) fn picture(elapsed: Duration, report: &Report) -> Picture {
    let head = head(&report.recording, report.total.samples, Width::WHOLE);
    let parts = report
        .tables
        .iter()
        .flat_map(|table| table.sections.iter().map(move |part| (&table.by, part)));
    Picture {
        elapsed,
        notes: head.lines().map(str::to_owned).collect(),
        warnings: filters::disturbances(report),
        tables: parts.map(|(by, part)| table(by, part, report)).collect(),
        below: Vec::new(),
    }
}

fn table(by: &[Key], part: &SourceSection, report: &Report) -> Table {
    let mut columns = vec![
        Column::number("share"),
        Column::number("95 %"),
        Column::number("samples"),
        Column::number("events").extra(),
    ];
    columns.extend(by.iter().map(|key| Column::name(key.name())));
    let name = part.source.as_deref().unwrap_or_default();
    let mut sources = report.sources.iter();
    let period = sources.find(|source| &*source.name == name);
    let period = period.and_then(|source| source.period).map(thousands);
    Table {
        title: match period {
            Some(period) => format!("{}, period {period}", Shown(name)),
            None => Shown(name).to_string(),
        },
        columns,
        trace_at: 3,
        rows: part.rows.iter().map(|one| row(name, one, part)).collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "rows are sorted by it")]
fn row(source: &str, row: &reports::GroupTotals, part: &SourceSection) -> Row {
    // None where events of several sources are the rows.
    let share = part.share(row.totals);
    let shown = |of: fn(&Share) -> f64, text: fn(f64) -> String| {
        share.map_or(Cell::Number("-".to_owned(), f64::NAN), |share| {
            let value = of(&share);
            Cell::Number(text(value * 100.0), value)
        })
    };
    let names = row.values.iter().map(|value| Shown(value).to_string());
    let names: Vec<String> = names.collect();
    let mut cells = vec![
        shown(|share| share.value, |value| format!("{value:.2} %")),
        shown(Share::bound, |bound| format!("±{bound:.2}")),
        Cell::Number(thousands(row.totals.samples), row.totals.samples as f64),
        Cell::Number(thousands(row.totals.events), row.totals.events as f64),
    ];
    let key = format!("{source}\n{}", names.join("\n"));
    cells.extend(names.into_iter().map(Cell::Name));
    Row { key, value: share.map_or(0.0, |share| share.value) as f32, cells, trace: Vec::new() }
}

fn nothing_open(path: &SymbolPath) -> Symbols {
    Symbols::open(&Recording::default(), path)
}
