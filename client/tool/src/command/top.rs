//! `halprof top`: rates, live, or with `--by` where samples fall.

mod choosing;
mod figures;
mod history;
mod log;
mod look;
mod sampled;
mod samples;
mod state;
mod tables;
mod view;

use crate::args;
use crate::by_name::ByName;
use crate::choice::{Choice, NANOSECONDS_MAX, positive};
use crate::output::Output;
use crate::runner::interrupted;
use crate::table::{Column, Width, table};
use crate::watch::{Watch, start};
use crate::{Error, Result};
use crate::{On, place::Place};
use halprof_measure::Error as Cause;
use halprof_measure::Session;
use halprof_measure::rates::{Interval, Rates};
use halprof_profile::recording::cannot_count;
use log::Log;
use look::Look;
use ratatui::crossterm::event::{self, Event};
use ratatui::{DefaultTerminal, Frame};
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use state::{Asked, Line, Party, Row, State};
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often Ctrl-C and the time limit are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &args::Top, on: &mut On, output: &Output) -> Result<u8> {
    if output.is_json() {
        return Err(Error::usage(
            "`top` is for people, and `--json` for programs",
            "`halprof stat -I MS --json` has the counts of each interval; with samples, `halprof report \
             --json` has those of a recording.",
        ));
    }
    if output.is_csv() && !options.once {
        return Err(Error::usage(
            "`--csv` is for one interval, and this is a live picture",
            "Add `--once`; `--log FILE` writes every reading, `halprof stat -I MS --csv` prints them.",
        ));
    }
    if options.by.is_empty() && options.naming.is_given() {
        return Err(Error::usage(
            "`--symbols` and `--download` are for samples",
            "Add `--by`, as in `--by process,symbol`.",
        ));
    }
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !(options.once || is_terminal) {
        return Err(Error::unavailable(
            "`top` needs a terminal for its input and its output",
            "`halprof top --once` prints one interval; `halprof stat -I MS` prints them as they come.",
        ));
    }
    let limit = |value| positive("--duration", value, 1e9, NANOSECONDS_MAX);
    let limit = options.duration.map(limit).transpose()?;
    let limit = limit.map(Duration::from_nanos);
    if !options.by.is_empty() {
        return sampled::run(options, limit, on, output);
    }
    let watch = Watch::new(&options.selection, &options.watching, on, true)?;
    let log = options.log.as_deref();
    let log = log.map(|path| Log::create(path, on.told.modelled, watch.frequency));
    let choosable = watch.choice.choosable();
    let mut top = Top {
        state: State::new(&on.told, watch.interval, choosable, rows(&watch.choice)),
        counted: watch.choice.clone(),
        by_name: ByName::of(&watch.choice),
        watch,
        log: log.transpose()?,
        log_failed: None,
        limit,
    };
    if let Some(warning) = on.only_time(&options.selection) {
        output.warn(&warning);
    }
    for (source, processors) in top.watch.choice.left_out() {
        output.warn(&cannot_count(&source, &processors));
    }
    if options.once {
        top.print(on, output)?;
    } else {
        top.show(on)?;
    }
    match top.log_failed {
        Some(error) => Err(error),
        None => Ok(0),
    }
}

struct Top {
    /// The setup from the command line.
    watch: Watch,
    /// What is currently counted.
    counted: Choice,
    by_name: ByName,
    state: State,
    log: Option<Log>,
    /// Why the log is no longer written.
    log_failed: Option<Error>,
    limit: Option<Duration>,
}

impl Top {
    /// Prints one interval as plain text.
    fn print(&mut self, on: &mut On, output: &Output) -> Result<()> {
        self.state
            .count(self.by_name.names().to_vec(), lines(&self.counted));
        let session = start(&mut on.connection, &self.counted)?;
        let end = Instant::now() + self.watch.interval;
        while !interrupted() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY.min(end.saturating_duration_since(Instant::now())));
        }
        self.stop(session, &mut Rates::new(self.watch.frequency))?;
        if output.is_csv() {
            return output.print_data(&log::reading(&self.state, self.watch.frequency)?);
        }
        output.print(&self.text(output.width()))
    }

    fn text(&self, width: Width) -> String {
        let shown = self.state.shown();
        let row = |line: usize| {
            let rate = self.state.rate(line);
            [
                self.state.core(line).to_owned(),
                figures::rate(rate),
                figures::bound(rate),
                shown
                    .totals
                    .get(line)
                    .map(figures::total)
                    .unwrap_or_default(),
                self.state.name(line).to_owned(),
            ]
        };
        let rows = (0..self.state.lines.len()).map(row);
        let columns = [
            Column::word("cores"),
            Column::number("rate/s"),
            Column::number("95 %"),
            Column::number("total").extra(),
            Column::name("source"),
        ];
        let mut text = table(width, &columns, rows);
        for (name, value) in figures::metrics(
            &self.state.sources,
            &shown.interval,
            &self.state.processors,
            Party::All,
        ) {
            text += &width.fitted(&format!("\n{value} {name}"));
        }
        text + "\n"
    }

    /// Shows the live picture until the user quits.
    fn show(&mut self, on: &mut On) -> Result<()> {
        let mut screen = Screen::open()?;
        let look = Look::of_terminal();
        loop {
            self.state
                .count(self.by_name.names().to_vec(), lines(&self.counted));
            let session = start(&mut on.connection, &self.counted)?;
            match self.follow(session, &mut screen, &look)? {
                Asked::Quit => return Ok(()),
                Asked::Count(labels) => self.choose(&labels, on)?,
            }
        }
    }

    /// Counts other sources if possible; otherwise the screen says why not.
    fn choose(&mut self, labels: &[String], on: &mut On) -> Result<()> {
        let tried = self.watch.choice.with_sources(labels).and_then(|choice| {
            start(&mut on.connection, &choice)?;
            Ok(choice)
        });
        match tried {
            Ok(choice) => {
                self.by_name = ByName::of(&choice);
                self.counted = choice;
            }
            Err(
                error @ (Error::OnlyElsewhere { .. }
                | Error::Measure(Cause::Refused(_) | Cause::UnknownName { .. })),
            ) => self.state.message = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads and draws one session until it ends.
    fn follow(
        &mut self,
        mut session: Session<'_, Place>,
        screen: &mut Screen,
        look: &Look,
    ) -> Result<Asked> {
        let mut rates = Rates::new(self.watch.frequency);
        let mut next = Instant::now() + self.watch.interval;
        let asked = loop {
            screen.draw(|frame| view::draw(frame, &self.state, look))?;
            if let Some(asked) = self.wait(screen, next)? {
                break asked;
            }
            if Instant::now() >= next {
                self.watch.clock.follow(session.transport())?;
                self.take(&session.snapshot()?, &mut rates);
                // A late reading has a longer interval; the next one comes half an interval later
                // at the earliest.
                next = (next + self.watch.interval).max(Instant::now() + self.watch.interval / 2);
            }
        };
        self.stop(session, &mut rates)?;
        Ok(asked)
    }

    /// Waits for the next reading, or for a key that changes the picture.
    fn wait(&mut self, screen: &mut Screen, next: Instant) -> Result<Option<Asked>> {
        loop {
            let is_over = |limit| self.watch.clock.elapsed() >= limit;
            if interrupted() || self.limit.is_some_and(is_over) {
                return Ok(Some(Asked::Quit));
            }
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if let Some(event) = screen.event(left.min(LOOK_EVERY))? {
                let key = event.as_key_press_event();
                return Ok(key.and_then(|key| self.state.key(key)));
            }
        }
    }

    /// Ends a session and takes its final counts.
    fn stop(&mut self, mut session: Session<'_, Place>, rates: &mut Rates) -> Result<()> {
        self.watch.clock.follow(session.transport())?;
        self.take(&session.stop_and_read()?, rates);
        Ok(())
    }

    /// Adds a reading to the screen and to the log.
    fn take(&mut self, snapshot: &[Vec<Count>], rates: &mut Rates) {
        let interval = rates.take(self.by_name.counts(snapshot));
        let elapsed = self.watch.clock.elapsed();
        self.write(elapsed, &interval);
        self.state.take(elapsed, interval, rates);
    }

    /// If the log fails, the screen goes on; the error is reported when the command ends.
    fn write(&mut self, elapsed: Duration, interval: &Interval) {
        let Some(log) = &mut self.log else {
            return;
        };
        let state = &mut self.state;
        if let Err(error) = log.take(elapsed, &state.sources, &state.processors, interval) {
            state.message = Some(format!("the log has ended: {error}"));
            self.log = None;
            self.log_failed = Some(error);
        }
    }
}

/// The processors that are counted on.
fn rows(choice: &Choice) -> Vec<Row> {
    let row = |processor: &Processor| Row {
        index: processor.index as usize,
        core: core(processor.core_type),
    };
    choice.selected().map(row).collect()
}

/// A line for each source and type of core that counts it.
fn lines(choice: &Choice) -> Vec<Line> {
    let mut cores: Vec<u8> = choice.selected().map(|one| one.core_type).collect();
    cores.sort_unstable_by_key(|&core| std::cmp::Reverse(core));
    cores.dedup();
    let is_one = cores.len() == 1;
    let names = choice.names();
    let line = |(source, name): (usize, &String), core_type: u8| {
        let alike = choice.selected().filter(|one| one.core_type == core_type);
        let counting = alike.filter(|one| choice.counts_name_on(name, one));
        Line {
            source,
            core: if is_one { "" } else { core(core_type) },
            processors: counting.map(|one| one.index as usize).collect(),
        }
    };
    let sources = names.iter().enumerate();
    let lines = sources.flat_map(|source| cores.iter().map(move |&core| line(source, core)));
    lines.filter(|line| !line.processors.is_empty()).collect()
}

/// Leaf 0x1A's core type, for a column.
const fn core(core_type: u8) -> &'static str {
    match core_type {
        0x20 => "efficiency",
        0x40 => "performance",
        _ => "",
    }
}

/// The terminal while it is drawn on; dropping this restores it.
struct Screen {
    terminal: DefaultTerminal,
    events: Receiver<io::Result<Event>>,
}

impl Screen {
    /// `try_init` sets a hook that restores the terminal after a panic too.
    fn open() -> Result<Self> {
        let terminal = ratatui::try_init().map_err(|error| {
            let _ = ratatui::try_restore();
            Error::Output(error)
        })?;
        let (sender, events) = mpsc::channel();
        let screen = Self { terminal, events };
        // If the terminal goes away, crossterm's poll does not return: it waits in a thread that
        // nobody joins, and ends with the process.
        let read = move || while sender.send(event::read()).is_ok() {};
        let thread = std::thread::Builder::new().spawn(read);
        thread.map_err(Error::Output)?;
        Ok(screen)
    }

    fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        let drawn = self.terminal.draw(draw);
        drawn.map(drop).map_err(Error::Output)
    }

    /// The user's input within `wait`, if any.
    fn event(&mut self, wait: Duration) -> Result<Option<Event>> {
        match self.events.recv_timeout(wait) {
            Ok(event) => event.map(Some).map_err(Error::Output),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::Output(io::ErrorKind::UnexpectedEof.into()))
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = ratatui::try_restore();
    }
}
