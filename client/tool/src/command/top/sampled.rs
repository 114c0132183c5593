//! `halprof top --by KEYS`: where the samples of each interval fall. A recorder drains them into a
//! recording in memory, and what is shown is the report on it.

use super::Screen;
use super::look::Look;
use super::samples::{self, State};
use crate::args::joined;
use crate::choice::Choice;
use crate::command::record::{InPass, UNTOLD, in_pass, metadata};
use crate::command::report::{self, branches};
use crate::output::Output;
use crate::place::Place;
use crate::recorder::{Recorder, STEP_NS, configured, ended, turns};
use crate::runner::interrupted;
use crate::watch::{Clock, Watch};
use crate::{Error, On, Result, args, filters, periods};
use halprof_measure::Session;
use halprof_measure::rates::Rates;
use halprof_profile::recording::{Live, Part, Recording, Sink, Statistics, cannot_count};
use halprof_profile::report::{Query, Report};
use halprof_profile::symbols::{SymbolPath, Symbols};
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
    on: &mut On,
    output: &Output,
) -> Result<u8> {
    let query = query(options)?;
    let path = options.naming.path()?.loaded_here();
    let Watch {
        choice,
        interval,
        clock,
        ..
    } = Watch::new(&options.selection, &options.watching, on, false)?;
    let state = State::new(&on.told, interval);
    let sampling = Sampling::start(&choice, clock, on);
    let mut sampling = sampling.map_err(|error| choice.name_source(error))?;
    for warning in &sampling.warnings {
        output.warn(warning);
    }
    if options.once {
        let report = Report::live(sampling.once(interval)?, &query, &mut nothing_open(&path))?;
        return print(&report, output);
    }
    for (source, processors) in choice.left_out() {
        output.warn(&cannot_count(&source, &processors));
    }
    sampling.show(state, &mut Sums::begin(query, path), limit)
}

/// One table of all rows.
fn query(options: &args::Top) -> Result<Query> {
    let lists: Vec<String> = joined(&options.by).into_iter().collect();
    if branches::wanted(&lists)?.is_some() {
        return Err(Error::usage(
            "`top` shows no branches",
            "`halprof record --branches` records them, and `halprof report` has tables of them.",
        ));
    }
    Ok(Query {
        tables: filters::tables(&lists)?,
        ..Query::default()
    })
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
    session: Session<'a, Place>,
    recorder: Recorder<'a, Live>,
    choice: &'a Choice,
    /// All of the chosen sources.
    indexes: Vec<usize>,
    rates: Rates,
    clock: Clock,
    /// When sampling began.
    began: Duration,
    warnings: Vec<String>,
}

impl<'a> Sampling<'a> {
    fn start(choice: &'a Choice, clock: Clock, on: &'a mut On) -> Result<Self> {
        let machine = on.connection.machine()?;
        let model = on.connection.transport().model();
        let modules = model.map_or_else(Vec::new, |model| model.modules());
        let indexes: Vec<usize> = (0..choice.chosen.len()).collect();
        let (mut session, settled) = configured(&mut on.connection, choice, &indexes, true)?;
        let periods = in_pass(choice, &indexes, &settled, 0);
        let periods: Vec<InPass> = periods.map(|(_, period)| period).collect();
        let live = Live::new(metadata(&machine, &on.told, choice, &periods, Vec::new()));
        let mut recorder = Recorder::new(live, choice, clock.planned(), &modules, None)?;
        recorder.start(&mut session, &indexes)?;
        let clamped = periods::clamped(periods.iter().map(|row| &row.period));
        let untold = recorder.untold.as_ref().map(|_| UNTOLD.to_owned());
        Ok(Self {
            session,
            choice,
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
        screen.draw(|frame| samples::draw(frame, &state, &look))?;
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
                state.take(self.clock.elapsed(), report);
                changed = true;
            }
            if changed {
                screen.draw(|frame| samples::draw(frame, &state, &look))?;
            }
        }
        Ok(0)
    }

    /// Moves the contents of the rings to the recording.
    fn drain(&mut self) -> Result<()> {
        let elapsed_ns = self.elapsed_ns();
        self.recorder
            .step(&mut self.session, &self.indexes, elapsed_ns)?;
        if self.session.ended().is_none() {
            return Ok(());
        }
        let refusal = ended(&self.session.statistics()?);
        refusal.map_or(Ok(()), |refusal| Err(Error::refused(refusal)))
    }

    /// What came since the last interval.
    fn interval(&mut self) -> Result<(Recording, Vec<Sample>)> {
        let statistics = self.session.statistics()?;
        let interval = self.rates.take(self.session.snapshot()?);
        let statistics = Statistics {
            turns: turns(interval.counts(), &self.indexes, self.choice),
            ..self.recorder.with(&statistics, self.elapsed_ns())
        };
        self.recorder.inventory.forget();
        let live = &mut self.recorder.sink;
        live.put(Part::Statistics(Box::new(statistics)))?;
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
                if answers
                    .send(Report::live(interval, &query, &mut symbols))
                    .is_err()
                {
                    break;
                }
            }
        });
        let busy = false;
        Self {
            intervals,
            reports,
            busy,
        }
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

fn nothing_open(path: &SymbolPath) -> Symbols {
    Symbols::open(&Recording::default(), path)
}
