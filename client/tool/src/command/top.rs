//! `halprof top`: a table that is refreshed: rates of what is counted, or with `--by` where samples
//! fall.

mod counts;
mod figures;
mod look;
mod sampled;
mod state;
mod traced;
mod view;

use crate::cli::args::{self, Selection};
use crate::metrics::{MetricRow, Metrics};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::results::counts::By;
use crate::results::errata::EventErrata;
use crate::results::view::{CountedEvent, RowBuilder};
use crate::run::recorder::STEP_NS;
use crate::run::runner::{self, Every, Runner, Tick};
use crate::run::tracing::check_interval;
use crate::select::event_set::{EventSet, Purpose};
use crate::select::time::{self, slice_length};
use crate::select::trace_plan::TraceSources;
use crate::select::warnings::warnings;
use crate::target::context::Context;
use crate::target::limits;
use counts::{LiveCounts, RatedCount};
use halprof_measure::Session;
use halprof_measure::tracing::session::Tracing;
use halprof_measure::tracing::session::plan::sampled_by_default;
use halprof_profile::aggregate::key::Key;
use halprof_profile::file::cannot_count;
use halprof_profile::views::report::Table;
use look::Look;
use ratatui::crossterm::event::{self, Event};
use ratatui::{DefaultTerminal, Frame};
use sampled::Sampling;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use state::{Picture, State};
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;
use traced::{TracedCounts, TracedSamples};

/// One interval.
#[derive(JsonSchema, Serialize)]
pub(crate) struct TopResult<'a> {
    elapsed_ns: u64,
    /// What was counted; empty where samples were taken.
    counts: Vec<RatedCount>,
    metrics: Vec<MetricRow>,
    /// Where samples fell, by the keys of `--by`.
    tables: &'a [Table],
    warnings: Vec<String>,
}

/// The keys of `--by` that need no samples.
const COUNTED: [Key; 3] = [Key::Source, Key::Processor, Key::Core];

pub(crate) fn run(options: &args::Top, ctx: &mut Context, output: &Output) -> Result<u32> {
    limits::refuse(ctx.method, "top", &limited(options))?;
    let tables = sampled::keys(options)?;
    let is_counted = tables.iter().flatten().all(|key| COUNTED.contains(key));
    conflicts(options, is_counted, output)?;
    let interval = Duration::from_nanos(time::interval(options.interval)?);
    let duration_ns = runner::duration(options.duration)?;
    let limit_ns = if options.once { Some(interval.as_nanos() as u64) } else { duration_ns };
    let live = !options.once;
    if let Some(mut tracing) = ctx.tracing.take() {
        let watching = Watching { options, tables, interval, limit_ns };
        return if is_counted {
            count_by_tracing(watching, tracing.as_mut(), ctx, output)
        } else {
            sample_by_tracing(watching, tracing.as_mut(), ctx, output)
        };
    }
    let purpose = if is_counted { Purpose::Count } else { Purpose::Sample };
    let slice_100ns = slice_length(options.rotate)?;
    let event_set = EventSet::new(&options.selection, ctx, purpose)?.in_slices(slice_100ns);
    let mut runner =
        Runner::watching(options.workload.as_deref(), limit_ns, live, ctx, &event_set)?;
    if !is_counted {
        let state = State::new(&ctx.machine_info, interval);
        let sampling = Sampling::start(&event_set, &runner, ctx);
        let mut sampling = sampling.map_err(|error| event_set.explain(error))?;
        output.warn_all(&sampling.warnings);
        if live {
            for (source, processors) in event_set.excluded_cpus() {
                output.warn(&cannot_count(&source, &processors));
            }
        }
        return sampled::run(options, tables, (runner, state, interval), &mut sampling, output);
    }
    let mut warnings = warnings(&options.selection, ctx);
    warnings.extend(event_set.unknown_constraints());
    let excluded = event_set.excluded_cpus().into_iter();
    warnings.extend(excluded.map(|(source, processors)| cannot_count(&source, &processors)));
    output.warn_all(&warnings);
    let per_cpu = tables.iter().flatten().any(|&key| key == Key::Processor);
    let metrics = Metrics::built_in()?;
    let together = [event_set.indexes()];
    let errata = EventErrata::new(&event_set, &together, false, &mut ctx.connection)
        .map_err(|error| event_set.explain(error))?;
    let processors: Vec<Processor> = event_set.selected().copied().collect();
    let indexes = event_set.indexes();
    let by_event = |counts: &[Vec<Count>]| event_set.event_counts(&indexes, None, counts);
    let mut counts = LiveCounts::new(
        &by_event,
        RowBuilder {
            errata,
            events: CountedEvent::all_of(&event_set),
            metrics: &metrics,
            requested: Vec::new(),
            frequency: ctx.machine.frequency(),
            // A sum over two types of core would be the rate of neither.
            by: By::new(&processors, per_cpu, true),
            processors,
            trim: false,
        },
    );
    let state = State::new(&ctx.machine_info, interval);
    let named = |error| event_set.explain(error);
    let setup = event_set.setup();
    let mut session =
        Session::open(&mut ctx.connection, event_set.sees_kernel(), setup.approximate)?;
    session.configure(&setup, false).map_err(named)?;
    session.start().map_err(named)?;
    if options.once {
        runner.begin()?;
        let elapsed_ns = runner.run(Every::LOOK, |_| Ok(ControlFlow::Continue(())))?;
        let snapshot = event_set.counts(&indexes, &session.stop_and_read()?);
        counts.take(Duration::from_nanos(elapsed_ns), snapshot);
        print(&counts, warnings, output)?;
    } else {
        show(&mut runner, interval, state, |tick| {
            if !tick.is_due {
                return Ok((tick.elapsed_ns == 0).then(|| counts.picture()));
            }
            let snapshot = event_set.counts(&indexes, &session.snapshot()?);
            counts.take(Duration::from_nanos(tick.elapsed_ns), snapshot);
            Ok(Some(counts.picture()))
        })?;
    }
    Ok(0)
}

/// What a backend may not be able to do.
fn limited(options: &args::Top) -> Vec<(&'static str, bool)> {
    let programs = options.workload.as_deref().is_some_and(args::names_programs);
    let given = [("--rotate", options.rotate.is_some()), ("--workload programs", programs)];
    [&given, &options.selection.limited()[..]].concat()
}

/// What is watched, and for how long.
struct Watching<'a> {
    options: &'a args::Top,
    tables: Vec<Vec<Key>>,
    interval: Duration,
    limit_ns: Option<u64>,
}

/// What both ways by tracing begin with.
struct Begun {
    /// The processors that are watched.
    event_set: EventSet,
    /// Lets time pass.
    runner: Runner,
    offer: TraceSources,
    state: State,
}

impl Watching<'_> {
    fn begin(
        &self,
        tracing: &mut dyn Tracing,
        ctx: &mut Context,
        output: &Output,
    ) -> Result<Begun> {
        let processors = self.options.selection.processors.clone();
        let everything = Selection { processors, ..Selection::default() };
        let event_set = EventSet::new(&everything, ctx, Purpose::CountBeside)?;
        let workload = self.options.workload.as_deref();
        let live = !self.options.once;
        let runner = Runner::watching(workload, self.limit_ns, live, ctx, &event_set)?;
        if !runner.is_modelled() {
            check_interval(self.interval.as_nanos() as u64, output)?;
        }
        let offer = TraceSources::of(tracing)?;
        let state = State::new(&ctx.machine_info, self.interval);
        Ok(Begun { event_set, runner, offer, state })
    }
}

/// Rates of what the context switches of a session count.
fn count_by_tracing(
    watching: Watching<'_>,
    tracing: &mut dyn Tracing,
    ctx: &mut Context,
    output: &Output,
) -> Result<u32> {
    let Begun { event_set, mut runner, offer, state } = watching.begin(tracing, ctx, output)?;
    let Watching { options, tables, interval, .. } = watching;
    let events = offer.counted(&options.selection).map_err(|error| ctx.without_counters(error))?;
    if events.is_empty() {
        return Err(ctx.without_counters(Error::unavailable(
            "Windows' own tracing has no source to count here",
            "`halprof top --by symbol` samples its timer.",
        )));
    }
    let per_cpu = tables.iter().flatten().any(|&key| key == Key::Processor);
    let metrics = Metrics::built_in()?;
    let names = events.iter().map(|event| &event.name);
    let errata = EventErrata::traced(&event_set, names.clone(), &mut ctx.connection);
    let processors: Vec<Processor> = event_set.selected().copied().collect();
    let by_event = |counts: &[Vec<Count>]| traced::by_event(events.len(), &processors, counts);
    let mut counts = LiveCounts::new(
        &by_event,
        RowBuilder {
            errata,
            events: names.map(|name| CountedEvent::named(name)).collect(),
            metrics: &metrics,
            requested: Vec::new(),
            frequency: traced::NANOSECONDS,
            by: By::new(&processors, per_cpu, true),
            processors: processors.clone(),
            trim: false,
        },
    );
    let mut session = TracedCounts::start(tracing, &events, event_set.processors().len())?;
    runner.settle();
    if options.once {
        runner.begin()?;
        let elapsed_ns = runner.run(Every::LOOK, |_| Ok(ControlFlow::Continue(())))?;
        counts.take(Duration::from_nanos(elapsed_ns), session.snapshot(elapsed_ns)?);
        let warnings = session.warnings();
        output.warn_all(&warnings);
        print(&counts, warnings, output)?;
    } else {
        show(&mut runner, interval, state, |tick| {
            if !tick.is_due {
                return Ok((tick.elapsed_ns == 0).then(|| counts.picture()));
            }
            let snapshot = session.snapshot(tick.elapsed_ns)?;
            counts.take(Duration::from_nanos(tick.elapsed_ns), snapshot);
            Ok(Some(Picture { warnings: session.warnings(), ..counts.picture() }))
        })?;
    }
    Ok(0)
}

/// Where the samples of a session fall.
fn sample_by_tracing(
    watching: Watching<'_>,
    tracing: &mut dyn Tracing,
    ctx: &mut Context,
    output: &Output,
) -> Result<u32> {
    let Begun { event_set, mut runner, offer, state } = watching.begin(tracing, ctx, output)?;
    let Watching { options, tables, interval, .. } = watching;
    let events = match offer.named(&options.selection)? {
        Some(events) => events,
        None => sampled_by_default(&offer.sources).into_iter().collect(),
    };
    offer.check_sampled(&events)?;
    let mut system = runner.system();
    let on_disk = Box::new(move |path: &str| system.on_disk(path));
    let mut session = TracedSamples::start(tracing, &events, &event_set, on_disk, ctx)?;
    runner.settle();
    sampled::run(options, tables, (runner, state, interval), &mut session, output)
}

/// Refuses what a live picture cannot do.
fn conflicts(options: &args::Top, is_counted: bool, output: &Output) -> Result<()> {
    if !output.is_text() && !options.once {
        return Err(Error::usage(
            "`--csv` and `--json` are for one interval, and this is a live picture",
            "Add `--once`; `halprof stat -I MS --csv` or `--jsonl` prints every reading.",
        ));
    }
    if is_counted && (options.naming.is_given() || !options.process.is_empty()) {
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
    Ok(())
}

/// Prints one interval.
fn print(counts: &LiveCounts<'_>, warnings: Vec<String>, output: &Output) -> Result<()> {
    let result = TopResult {
        elapsed_ns: counts.elapsed_ns(),
        counts: counts.rated(),
        metrics: counts.metrics(),
        tables: &[],
        warnings,
    };
    output.rows("top", (&result, &counts.rate_rows()), |_| {
        let mut text = counts.table().text(output.width());
        for line in counts.below() {
            text += &output.width().fitted(&format!("\n{line}"));
        }
        text + "\n"
    })
}

/// Shows the live picture until the user quits. `measure` has the next one from time to time.
fn show(
    runner: &mut Runner,
    interval: Duration,
    mut state: State,
    mut measure: impl FnMut(Tick) -> Result<Option<Picture>>,
) -> Result<()> {
    let mut screen = Screen::open()?;
    let look = Look::of_terminal();
    let every = Every::step(STEP_NS).reading(Some(interval.as_nanos() as u64));
    runner.begin()?;
    runner.run(every, |tick| {
        let mut changed = tick.elapsed_ns == 0;
        while let Some(event) = screen.event()? {
            changed = true;
            if event.as_key_press_event().is_some_and(|key| state.key(key)) {
                return Ok(ControlFlow::Break(()));
            }
        }
        if let Some(picture) = measure(tick)? {
            changed = true;
            state.take(picture);
        }
        if changed {
            screen.draw(|frame| view::draw(frame, &state, &look))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
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

    /// The user's input, if any.
    fn event(&mut self) -> Result<Option<Event>> {
        match self.events.try_recv() {
            Ok(event) => event.map(Some).map_err(Error::Output),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
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
