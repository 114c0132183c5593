//! `halprof stat`: counts events.

mod body;
mod by_process;
pub(crate) mod csv;
mod form;
mod measured;
mod openmetrics;
mod repeats;
mod rows;
mod slices;
mod teller;
mod text;
mod topdown;

use crate::cli::args::{self, Dividing};
use crate::metrics::{Metrics, Requested};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::seconds;
use crate::output::style::plain;
use crate::run::interrupt::interrupted;
use crate::run::recorder;
use crate::run::runner::Runner;
use crate::run::scope::Scope;
use crate::select::event_set::{EventSet, Purpose};
use crate::select::filters::some_of;
use crate::select::periods;
use crate::select::time::{self, TIME_UNITS_A_SECOND, rotation};
use crate::target::context::Context;
pub(crate) use body::{Body, Interval};
use body::{Pass, ProcessPart, Row, Run};
use by_process::Samples;
use form::Form;
use halprof_measure::Session;
use halprof_measure::rates;
use halprof_profile::file::inventory::Inventory;
use halprof_profile::file::{cannot_count, write_whole};
use indicatif::ProgressBar;
use measured::{Measured, OnePass};
use openmetrics::Exposition;
use rows::{By, View};
use shared_types::request::counts::Count;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use teller::Teller;
use topdown::TopDown;

/// The length of the first step of modelled time.
const FIRST_STEP_NS: u64 = 1_000_000_000;
/// Later steps grow and shrink so that each takes about this long in real time: then Ctrl-C is
/// noticed quickly, and long workloads still finish.
const STEP_TIME: Duration = Duration::from_millis(50);
/// How often a real machine is checked.
const REAL_STEP_NS: u64 = 50_000_000;

/// Everything that a measurement needs.
struct Bench<'a> {
    ctx: &'a mut Context,
    view: &'a View<'a>,
    runner: Runner,
    teller: Teller<'a>,
    /// The file that each reading replaces, if there is one.
    exposition: Option<Exposition<'a>>,
    interval: Option<u64>,
    progress: ProgressBar,
    /// The samples by which counts are divided, if requested.
    samples: Option<Samples>,
    /// The time of all earlier runs and passes.
    done_ns: u64,
}

pub(crate) fn run(options: &args::Stat, ctx: &mut Context, output: &Output) -> Result<u32> {
    if !options.process.is_empty() && options.by.is_none() {
        return Err(Error::usage(
            "`--process` chooses rows of `--by process`: without it, counts are of whole processors",
            "Add `--by process`, as in `halprof stat --by process --pid 1234`.",
        ));
    }
    let form = Form::of(options, output);
    let interval = options.interval.map(time::interval).transpose()?;
    let rotation = rotation(&options.work, options.passes)?;
    let metrics = metrics(options, ctx)?;
    let wanted = metrics.requested(&options.metrics)?;
    let mut event_set = event_set(options, ctx, &metrics, &wanted)?;
    event_set.setup.slice_100ns = rotation;
    let level = options.topdown;
    let topdown = level.map(|level| TopDown::add(&mut event_set, level, ctx));
    let topdown = topdown.transpose()?;
    let mut warnings: Vec<String> = ctx.only_time(&options.selection).into_iter().collect();
    warnings.extend(ctx.one_list(&options.selection));
    warnings.extend(partly_counted(&event_set, form, topdown.is_some()));
    warn(output, &warnings);
    let view = View {
        frequency: ctx.machine.frequency(),
        by: By::of(options, &event_set, form),
        event_set: &event_set,
        metrics: &metrics,
        wanted,
        topdown,
    };
    let sets = event_set.sets(options.passes, false, &mut ctx.connection)?;
    let runner = Runner::new(&options.work, ctx, &event_set, form.owns_output(options))?;
    if options.by.is_some() {
        runner.check_can_be_sampled()?;
    }
    let told = ctx.told.clone();
    let path = options.openmetrics.clone();
    let exposition = path.map(|path| Exposition::new(path, ctx, &event_set, output));
    let teller = Teller::new(options, form, told.modelled, output);
    let measurements = sets.len() as u64 * u64::from(options.repeat);
    let length = runner.length_ns();
    // No progress bar is drawn among lines that are printed meanwhile, or in a program's output.
    let progress = if teller.is_live() || !options.work.program.is_empty() {
        ProgressBar::hidden()
    } else {
        output.progress(length.map(|length| length.saturating_mul(measurements)))
    };
    let samples = options.by.map(|Dividing::Process| Samples::new(Inventory::new(runner.system())));
    let mut bench = Bench {
        ctx,
        view: &view,
        runner,
        teller,
        exposition: exposition.transpose()?,
        interval,
        progress,
        samples,
        done_ns: 0,
    };
    let mut measured = Vec::new();
    for run in 1..=options.repeat {
        let run = (options.repeat > 1).then_some(run);
        let one = bench.measure(&sets, run);
        measured.push(one.map_err(|error| event_set.explain(error))?);
        if bench.is_over() {
            break;
        }
    }
    bench.progress.finish_and_clear();
    let Bench { runner, teller, samples, .. } = bench;
    let scope = runner.scope(&event_set);
    let passes = measured.iter().flat_map(|one| &one.passes);
    let passes: Vec<_> = passes.map(|pass| (&*pass.sources, &*pass.counts)).collect();
    let slots = view.slots(&passes);
    let (mut by_process, mut of_samples) =
        samples.map(|samples| divided(&samples, &view, &measured)).unwrap_or_default();
    of_samples.extend(by_process::keep_only(&options.process, &mut by_process));
    let mut body = body(&view, told.machine, scope, measured, options.trim, sets.len());
    let topdown = view.topdown.as_ref();
    body.next = topdown.map_or_else(BTreeMap::new, |topdown| topdown.next(&slots));
    body.topdown = slots;
    body.by_process = by_process;
    let told = warnings.len();
    warnings.extend(of_samples);
    warnings.extend(without_turn(&body.counts));
    warnings.extend(of_periods(options.by, &body.periods));
    warn(output, &warnings[told..]);
    body.warnings = warnings;
    let text = teller.whole(body)?;
    print(options, form, output, &text)?;
    Ok(runner.program_status())
}

fn warn(output: &Output, warnings: &[String]) {
    for warning in warnings {
        output.warn(warning);
    }
}

fn print(options: &args::Stat, form: Form, output: &Output, text: &str) -> Result<()> {
    match options.file() {
        Some(path) => Ok(write_whole(path, plain(text).as_bytes())?),
        None if form == Form::Csv => output.print_data(text),
        None => output.print(text),
    }
}

/// Warnings about the periods of the sources that were sampled.
fn of_periods(by: Option<Dividing>, periods: &[periods::Period]) -> Vec<String> {
    match by {
        Some(Dividing::Process) => periods::notes(periods),
        None => {
            let time = periods.iter().filter(|period| period.time);
            let notes = periods::notes(time);
            let unused = periods::unused(periods);
            notes.into_iter().chain(unused).collect()
        }
    }
}

/// The choice of what to count.
fn event_set(
    options: &args::Stat,
    ctx: &mut Context,
    metrics: &Metrics,
    requested: &[Requested<'_>],
) -> Result<EventSet> {
    let purpose = match options.by {
        Some(Dividing::Process) => Purpose::Divide,
        None if requested.is_empty() && options.topdown.is_none() => Purpose::Count,
        None => Purpose::CountBeside,
    };
    let mut event_set = EventSet::new(&options.selection, ctx, purpose)?;
    event_set.add_metrics(metrics, requested, !options.passes, ctx)?;
    Ok(event_set)
}

/// The metrics that there are, with those of the user's file.
fn metrics(options: &args::Stat, ctx: &mut Context) -> Result<Metrics> {
    let mut metrics = Metrics::built_in()?;
    if let Some(path) = &options.metric_file {
        metrics.add_file(path)?;
    }
    metrics.set_smt(ctx.shares_cores());
    Ok(metrics)
}

/// Warnings about sources that some of the processors cannot count; text has them below its table.
/// Top-down counts each kind of processor by events of its own, which needs no warning.
fn partly_counted(event_set: &EventSet, form: Form, topdown: bool) -> Vec<String> {
    if form == Form::Text {
        return Vec::new();
    }
    let requested = |name: &str| {
        let mut events = event_set.events.iter();
        events.any(|one| one.label == name && one.requested.is_some())
    };
    let left_out = event_set.excluded_cpus().into_iter();
    left_out
        .filter(|(source, _)| !topdown || requested(source))
        .map(|(source, processors)| cannot_count(&source, &processors))
        .collect()
}

/// Warnings about sources that had no turn on a counter on some processors: those whose count is
/// taken from the other processors, and those of which nothing is known.
fn without_turn(rows: &[Row]) -> Vec<String> {
    let names = |known: bool| {
        let rows = rows.iter().filter(|row| row.without_turn.is_some());
        let mut names: Vec<&str> = Vec::new();
        for row in rows.filter(|row| row.value.is_some() == known) {
            if !names.contains(&row.source.as_str()) {
                names.push(&row.source);
            }
        }
        names
    };
    let warnings = [
        (true, "some processors are taken to be like the others, and the bound is unknown"),
        (false, "what there was to count is not known"),
    ];
    let warnings = warnings.into_iter().map(|(known, then)| (names(known), then));
    let warnings = warnings.filter(|(names, _)| !names.is_empty());
    let warning = |(names, then): (Vec<&str>, &str)| {
        format!(
            "no turn on a counter on every processor, so that {then}: {}; measure for longer, or \
             count fewer sources at once",
            some_of(&names)
        )
    };
    warnings.map(warning).collect()
}

impl Bench<'_> {
    /// Whether nothing more is to be measured: the user has asked to stop, or the reader has gone.
    fn is_over(&self) -> bool {
        interrupted() || self.teller.is_closed()
    }

    fn measure(&mut self, sets: &[Vec<usize>], run: Option<u32>) -> Result<Measured> {
        let mut measured = Measured::default();
        for (pass, set) in (1..).zip(sets) {
            let pass = (sets.len() > 1).then_some(pass);
            let told = Told { run, pass };
            let one = self.pass(set, told, &mut measured.intervals)?;
            self.done_ns = self.done_ns.saturating_add(one.elapsed_ns);
            measured.passes.push(one);
            if self.is_over() {
                measured.cut = true;
                break;
            }
        }
        Ok(measured)
    }

    /// Runs everything once, and counts these of the chosen sources.
    fn pass(&mut self, set: &[usize], told: Told, kept: &mut Vec<Interval>) -> Result<OnePass> {
        let event_set = self.view.event_set;
        let setup = event_set.setup_of(set);
        self.runner.prepare()?;
        let mut session =
            Session::open(&mut self.ctx.connection, event_set.sees_kernel(), setup.approximate)?;
        let effective = session.configure(&setup, self.samples.is_some())?;
        if let Some(samples) = &mut self.samples {
            let ticks = u128::from(effective.head.rotation) * u128::from(self.view.frequency);
            let ticks = (ticks / u128::from(TIME_UNITS_A_SECOND)) as u64;
            samples.begin(event_set.owners(set), ticks);
        }
        session.start()?;
        if let Some(exposition) = &mut self.exposition {
            exposition.publish(event_set.counts(set, &session.snapshot()?), 0)?;
        }
        self.runner.begin()?;
        let mut pace = Pace::new(self.runner.is_modelled());
        let mut before = Reading::default();
        loop {
            let until = self.interval.map(|interval| before.next(interval));
            let mut more = true;
            let mut now = self.runner.elapsed_ns();
            while more && until.is_none_or(|until| now < until) {
                let left = until.map_or(u64::MAX, |until| until - now);
                let began = Instant::now();
                let step = match self.samples {
                    Some(_) => pace.step(left).min(recorder::STEP_NS),
                    None => pace.step(left),
                };
                more = self.runner.step(step)?;
                pace.took(began.elapsed());
                now = self.runner.elapsed_ns();
                if let Some(samples) = &mut self.samples {
                    samples.drain(&mut session, now)?;
                }
                self.progress.set_position(self.done_ns.saturating_add(now));
                self.progress.set_message(seconds(now));
            }
            if !more || self.teller.is_closed() {
                break;
            }
            let now = Reading { time_ns: now, counts: event_set.counts(set, &session.snapshot()?) };
            if let Some(exposition) = &mut self.exposition {
                let late = until.map_or(0, |until| now.time_ns.saturating_sub(until));
                let missed = late.checked_div(self.interval.unwrap_or(0)).unwrap_or(0);
                exposition.publish(now.counts.clone(), missed)?;
            }
            let interval = since_reading(self.view, set, told, &before, &now);
            self.teller.tell(interval, kept)?;
            before = now;
        }
        let end = Reading {
            time_ns: self.runner.elapsed_ns(),
            counts: event_set.counts(set, &session.stop_and_read()?),
        };
        if let Some(samples) = &mut self.samples {
            samples.finish(&mut session, end.time_ns)?;
        }
        drop(session);
        self.runner.end()?;
        if let Some(exposition) = &mut self.exposition {
            exposition.publish(end.counts.clone(), 0)?;
        }
        if self.interval.is_some() {
            let mut last = since_reading(self.view, set, told, &before, &end);
            last.last = true;
            self.teller.tell(last, kept)?;
        }
        Ok(OnePass {
            sources: set.to_vec(),
            elapsed_ns: end.time_ns,
            turns: effective.head.turns,
            periods: if self.samples.is_some() {
                periods::of_pass(event_set, set, &effective)
            } else {
                periods::of_counting(event_set, set, &effective)
            },
            counts: end.counts,
        })
    }
}

/// The counts since the last reading.
fn since_reading(
    view: &View<'_>,
    set: &[usize],
    told: Told,
    before: &Reading,
    now: &Reading,
) -> Interval {
    let counted = rates::Interval::between(&before.counts, &now.counts, view.frequency);
    let counts = view.rows(set, counted.counts(), told.pass);
    // A pass has only some of the events.
    let whole = told.pass.is_none();
    let topdown = whole.then(|| view.slots(&[(set, counted.counts())]));
    Interval {
        run: told.run,
        pass: told.pass,
        start_ns: before.time_ns,
        length_ns: now.time_ns.saturating_sub(before.time_ns),
        time_ns: now.time_ns,
        derived: view.figures(&counts),
        topdown: topdown.unwrap_or_default(),
        counts,
        last: false,
    }
}

/// The number of the run and of the pass, if there are several.
#[derive(Clone, Copy)]
struct Told {
    run: Option<u32>,
    pass: Option<u32>,
}

/// All counts at one moment.
#[derive(Default)]
struct Reading {
    time_ns: u64,
    counts: Vec<Vec<Count>>,
}

impl Reading {
    /// When the next reading is due: intervals stay on their grid, and those that are already late
    /// are skipped.
    const fn next(&self, interval: u64) -> u64 {
        (self.time_ns / interval).saturating_add(1).saturating_mul(interval)
    }
}

/// The length of the next step.
struct Pace {
    step: u64,
    modelled: bool,
}

impl Pace {
    const fn new(modelled: bool) -> Self {
        let step = if modelled { FIRST_STEP_NS } else { REAL_STEP_NS };
        Self { step, modelled }
    }

    fn step(&self, left: u64) -> u64 {
        self.step.min(left)
    }

    /// Adapts the step: modelled time passes as fast as it can be computed.
    fn took(&mut self, time: Duration) {
        if self.modelled {
            self.step =
                if time < STEP_TIME { self.step.saturating_mul(2) } else { (self.step / 2).max(1) };
        }
    }
}

/// The counts, divided by process, and warnings about what makes the parts less reliable.
fn divided(
    samples: &Samples,
    view: &View<'_>,
    measured: &[Measured],
) -> (Vec<ProcessPart>, Vec<String>) {
    let (mut rows, mut warnings) = (Vec::new(), Vec::new());
    for pass in measured.iter().flat_map(|one| &one.passes) {
        rows.extend(samples.rows(view, &pass.sources, &pass.counts));
        warnings.extend(samples.warnings(&rows, view, pass.elapsed_ns));
    }
    (rows, warnings)
}

/// The result of all measurements.
fn body(
    view: &View<'_>,
    machine: String,
    scope: Scope,
    measured: Vec<Measured>,
    trim: bool,
    passes: usize,
) -> Body {
    let runs: Vec<Run> = measured.iter().map(|one| view.run(one)).collect();
    let turns = measured.iter().flat_map(|one| &one.passes);
    let turns = turns.map(|pass| pass.turns).max().unwrap_or(1);
    let first = measured.first();
    let of_first = |pass: &OnePass| pass.periods.clone();
    let periods = first.map(|one| one.passes.iter().flat_map(of_first).collect());
    let several = |one: &Measured| {
        let of = |pass: &OnePass| Pass {
            sources: view.labels(&pass.sources),
            elapsed_ns: pass.elapsed_ns,
        };
        one.passes.iter().map(of).collect()
    };
    let passes: Option<Vec<Pass>> = first.filter(|_| passes > 1).map(several);
    let intervals = measured.into_iter().flat_map(|one| one.intervals).collect();
    let (elapsed_ns, elapsed_repeats) = repeats::elapsed(&runs, trim);
    let counts = repeats::combined(&runs, trim);
    Body {
        machine,
        scope,
        elapsed_ns,
        elapsed_repeats,
        interrupted: interrupted(),
        turns,
        derived: view.figures(&counts),
        counts,
        topdown: Vec::new(),
        next: BTreeMap::new(),
        by_process: Vec::new(),
        warnings: Vec::new(),
        periods: periods.unwrap_or_default(),
        passes: passes.unwrap_or_default(),
        jitter: None,
        intervals,
        runs: if runs.len() > 1 { runs } else { Vec::new() },
    }
}
