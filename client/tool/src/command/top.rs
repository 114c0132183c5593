//! `halprof top`: a table that is refreshed: rates of what is counted, or with `--by` where samples
//! fall.

mod counts;
mod figures;
mod look;
mod sampled;
mod state;
mod view;

use crate::cli::args;
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::run::runner::interrupted;
use crate::run::watch::{Watch, start};
use crate::select::time::{NANOSECONDS_MAX, positive};
use crate::target::context::Context;
use counts::Counts;
use halprof_profile::aggregate::key::Key;
use halprof_profile::file::cannot_count;
use look::Look;
use ratatui::crossterm::event::{self, Event};
use ratatui::{DefaultTerminal, Frame};
use state::State;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often Ctrl-C and the time limit are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The keys of `--by` that need no samples.
const COUNTED: [Key; 3] = [Key::Source, Key::Processor, Key::Core];

pub(crate) fn run(options: &args::Top, ctx: &mut Context, output: &Output) -> Result<u8> {
    if output.is_json() {
        return Err(Error::usage(
            "`top` has no JSON output",
            "`halprof stat -I MS --json` has the counts of each interval; with samples, `halprof report \
             --json` has those of a recording.",
        ));
    }
    if output.is_csv() && !options.once {
        return Err(Error::usage(
            "`--csv` is for one interval, and this is a live picture",
            "Add `--once`; `halprof stat -I MS --csv` prints every reading.",
        ));
    }
    let keys = sampled::keys(options)?;
    let keys: Vec<Key> = keys.into_iter().flatten().collect();
    let counted = keys.iter().all(|key| COUNTED.contains(key));
    if counted && (options.naming.is_given() || !options.process.is_empty()) {
        return Err(Error::usage(
            "`--process`, `--symbol-path` and `--download` are for samples",
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
    if !counted {
        return sampled::run(options, limit, ctx, output);
    }
    let watch = Watch::new(&options.selection, &options.watching, ctx, true)?;
    let each = keys.contains(&Key::Processor);
    let counts = Counts::new(&watch.event_set, watch.frequency, each);
    let selection = &options.selection;
    let warnings = [ctx.only_time(selection), ctx.one_list(selection)];
    for warning in warnings.iter().flatten() {
        output.warn(warning);
    }
    for (source, processors) in watch.event_set.excluded_cpus() {
        output.warn(&cannot_count(&source, &processors));
    }
    if options.once {
        print(watch, counts, ctx, output)?;
    } else {
        show(watch, counts, limit, ctx)?;
    }
    Ok(0)
}

/// Prints one interval as plain text.
fn print(mut watch: Watch, mut counts: Counts, ctx: &mut Context, output: &Output) -> Result<()> {
    let mut session = start(&mut ctx.connection, &watch.event_set)?;
    let end = Instant::now() + watch.interval;
    while !interrupted() && Instant::now() < end {
        std::thread::sleep(LOOK_EVERY.min(end.saturating_duration_since(Instant::now())));
    }
    watch.clock.follow(session.transport())?;
    counts.take(watch.clock.elapsed(), &session.stop_and_read()?);
    if output.is_csv() {
        return output.print_data(&counts.csv(ctx.told.modelled)?);
    }
    let mut text = counts.table().text(output.width());
    for metric in counts.metrics() {
        text += &output.width().fitted(&format!("\n{metric}"));
    }
    output.print(&(text + "\n"))
}

/// Shows the live picture until the user quits.
fn show(
    mut watch: Watch,
    mut counts: Counts,
    limit: Option<Duration>,
    ctx: &mut Context,
) -> Result<()> {
    let mut state = State::new(&ctx.told, watch.interval);
    let mut session = start(&mut ctx.connection, &watch.event_set)?;
    let mut screen = Screen::open()?;
    let look = Look::of_terminal();
    let mut next = Instant::now() + watch.interval;
    state.take(counts.picture());
    screen.draw(|frame| view::draw(frame, &state, &look))?;
    while !interrupted() && limit.is_none_or(|limit| watch.clock.elapsed() < limit) {
        let left = next.saturating_duration_since(Instant::now());
        let event = screen.event(left.min(LOOK_EVERY))?;
        let mut changed = event.is_some();
        let key = event.and_then(|event| event.as_key_press_event());
        if key.is_some_and(|key| state.key(key)) {
            break;
        }
        if Instant::now() >= next {
            watch.clock.follow(session.transport())?;
            counts.take(watch.clock.elapsed(), &session.snapshot()?);
            state.take(counts.picture());
            changed = true;
            // A late reading has a longer interval; the next one comes half an interval later at the
            // earliest.
            next = (next + watch.interval).max(Instant::now() + watch.interval / 2);
        }
        if changed {
            screen.draw(|frame| view::draw(frame, &state, &look))?;
        }
    }
    Ok(())
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
