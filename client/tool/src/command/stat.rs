//! `halprof stat`: counts events.

mod by_process;
mod interval_writer;
mod openmetrics;
mod result;
mod slices;
mod text;
mod topdown;
pub(crate) mod trace;
pub(crate) mod trace_text;
mod traced;

use crate::cli::args::{self, Dividing};
use crate::metrics::{Metrics, Requested};
use crate::output::Output;
use crate::output::changes;
use crate::output::error::{Error, Result};
use crate::output::number::seconds;
use crate::results::count_row::{self, CountRow};
use crate::results::counts::{By, Counts, EventCounts, Pass};
use crate::results::view::View;
use crate::run::interrupt::interrupted;
use crate::run::recorder;
use crate::run::runner::{Every, Runner};
use crate::run::scope::Scope;
use crate::select::errata::EventErrata;
use crate::select::event_set::{EventSet, Purpose};
use crate::select::filters::some_of;
use crate::select::periods;
use crate::select::time::{self, TIME_UNITS_A_SECOND, slice_length};
use crate::select::warnings::warnings;
use crate::target::context::Context;
use by_process::Samples;
use halprof_measure::Session;
use halprof_measure::rates;
use halprof_profile::file::cannot_count;
use halprof_profile::file::inventory::Inventory;
use indicatif::ProgressBar;
use interval_writer::{IntervalWriter, owns_output};
use openmetrics::Exposition;
pub(crate) use result::{Interval, Method, StatResult};
use result::{PassRow, RunRow, StatRows, TopDownRow};
use shared_types::request::counts::Count;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use topdown::TopDown;

/// Everything that a measurement needs.
struct Bench<'a> {
    ctx: &'a mut Context,
    view: &'a View<'a>,
    /// Where the slots went, if requested.
    topdown: Option<&'a TopDown>,
    runner: Runner,
    writer: IntervalWriter<'a>,
    /// The file that each reading replaces, if there is one.
    exposition: Option<Exposition<'a>>,
    interval: Option<u64>,
    progress: ProgressBar,
    /// The samples by which counts are divided, if requested.
    samples: Option<Samples>,
    /// The time of all earlier runs and passes.
    done_ns: u64,
    /// Warnings that others have changed counters.
    changed: Vec<String>,
}

/// Which measurement it is, with the number of the run and of the pass if there are several.
#[derive(Clone, Copy)]
struct PassOf<'a> {
    events: &'a [usize],
    run: Option<u32>,
    pass: Option<u32>,
}

pub(crate) fn run(options: &args::Stat, ctx: &mut Context, output: &Output) -> Result<u32> {
    run_by(options, Method::Vendor, ctx, output)
}

/// The same, with another method of top-down analysis than the vendor's formulas where there are any.
pub(crate) fn run_by(
    options: &args::Stat,
    method: Method,
    ctx: &mut Context,
    output: &Output,
) -> Result<u32> {
    if let Some(mut tracing) = ctx.tracing.take() {
        return traced::run(options, tracing.as_mut(), ctx, output);
    }
    refuse_what_traces_do(options)?;
    let slice_100ns = slice_length(options.work.rotate)?;
    let metrics = Metrics::with_file(options.metric_file.as_deref(), ctx.shares_cores())?;
    let requested = metrics.requested(&options.metrics)?;
    let mut event_set = event_set(options, ctx, &metrics, &requested)?;
    event_set.setup.slice_100ns = slice_100ns;
    let topdown = match options.topdown {
        Some(level) => Some(TopDown::add(&mut event_set, &metrics, level, method, ctx)?),
        None => None,
    };
    let mut warnings = warnings(&options.selection, ctx);
    warnings.extend(event_set.unknown_constraints());
    warnings.extend(partly_counted(&event_set, output, topdown.is_some()));
    output.warn_all(&warnings);
    let sets = event_set.sets(options.passes, false, &mut ctx.connection)?;
    let errata = EventErrata::new(&event_set, &sets, options.by.is_some(), &mut ctx.connection)
        .map_err(|error| event_set.explain(error))?;
    let view = View {
        errata,
        frequency: ctx.machine.frequency(),
        by: By::new(&event_set, options.per_cpu, options.per_core_type || output.is_text()),
        event_set: &event_set,
        metrics: &metrics,
        requested,
        trim: options.trim,
    };
    let machine = ctx.machine_info.description.clone();
    let mut bench = Bench::new(options, (&view, topdown.as_ref()), sets.len(), ctx, output)?;
    let runs = bench.runs(&sets, options.repeat).map_err(|error| event_set.explain(error))?;
    let Bench { runner, writer, samples, changed, .. } = bench;
    let mut later = Vec::new();
    let mut by_process = Vec::new();
    if let Some(samples) = &samples {
        by_process = runs.iter().flat_map(|run| samples.rows(&view, run)).collect();
        later = samples.warnings(&by_process);
        later.extend(by_process::keep_only(&options.process, &mut by_process));
    }
    let mut result = result(&view, topdown.as_ref(), &runs, machine, runner.scope(&event_set));
    result.rows.by_process = by_process;
    // A count that is not known for this cause needs no longer measurement.
    if changed.is_empty() {
        later.extend(never_scheduled(&result.rows.counts));
    }
    later.extend(changed);
    later.extend(of_periods(options.by, &result.periods));
    output.warn_all(&later);
    warnings.extend(later);
    result.warnings = warnings;
    writer.finish(result)?;
    Ok(runner.program_status())
}

/// Refuses what needs the context switches of a trace: counts here are of processors, and samples
/// divide them.
fn refuse_what_traces_do(options: &args::Stat) -> Result<()> {
    if options.by == Some(Dividing::Thread) {
        return Err(Error::usage(
            "`--by thread` needs the context switches of a trace",
            "`--by process` divides counts by samples; `--from FILE.etl` counts each thread.",
        ));
    }
    if !options.process.is_empty() && options.by.is_none() {
        return Err(Error::usage(
            "`--process` chooses rows of `--by process`: without it, counts are of whole processors",
            "Add `--by process`, as in `halprof stat --by process --pid 1234`.",
        ));
    }
    let divides = options.by.is_some();
    let beside = [
        ("--interval", divides && options.interval.is_some()),
        ("--metric", divides && !options.metrics.is_empty()),
    ];
    args::refuse(&beside, |option| {
        Error::usage(
            format!("the argument '--by <WHAT>' cannot be used with '{option}'"),
            "Measure once with each; `--from FILE.etl` takes both.",
        )
    })
}

/// Warnings about the periods of the sources that were sampled.
fn of_periods(by: Option<Dividing>, periods: &[periods::Period]) -> Vec<String> {
    if by.is_some() {
        return periods::notes(periods);
    }
    let time = periods.iter().filter(|period| period.time);
    periods::notes(time).into_iter().chain(periods::unused(periods)).collect()
}

fn event_set(
    options: &args::Stat,
    ctx: &mut Context,
    metrics: &Metrics,
    requested: &[Requested<'_>],
) -> Result<EventSet> {
    let purpose = match options.by {
        Some(_) => Purpose::Divide,
        None if requested.is_empty() && options.topdown.is_none() => Purpose::Count,
        None => Purpose::CountBeside,
    };
    let mut event_set = EventSet::new(&options.selection, ctx, purpose)?;
    event_set.add_metrics(metrics, requested, !options.passes, ctx)?;
    Ok(event_set)
}

/// Warnings about sources that some of the processors cannot count; text has them below its table.
/// Top-down counts each CPU type by events of its own, which needs no warning.
fn partly_counted(event_set: &EventSet, output: &Output, topdown: bool) -> Vec<String> {
    if output.is_text() {
        return Vec::new();
    }
    let requested = |name: &str| {
        let mut events = event_set.events.iter();
        events.any(|one| one.label == name && one.requested.is_some())
    };
    let excluded = event_set.excluded_cpus().into_iter();
    excluded
        .filter(|(source, _)| !topdown || requested(source))
        .map(|(source, processors)| cannot_count(&source, &processors))
        .collect()
}

/// Warnings about sources that were never on a counter on some processors: those whose count is
/// taken from the other processors, and those of which nothing is known.
fn never_scheduled(rows: &[CountRow]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (is_known, then) in [
        (true, "these processors are taken to be like the others, and the bound is unknown"),
        (false, "their counts are not known"),
    ] {
        let rows = rows.iter().filter(|row| row.never_scheduled_cpus.is_some());
        let rows = rows.filter(|row| row.value.is_some() == is_known);
        let mut names: Vec<&str> = rows.map(|row| row.source.as_str()).collect();
        names.dedup();
        if !names.is_empty() {
            warnings.push(format!(
                "never on a counter on some processors, so that {then}: {}; measure for longer, or \
                 count fewer sources at once",
                some_of(&names)
            ));
        }
    }
    warnings
}

impl<'a> Bench<'a> {
    fn new(
        options: &'a args::Stat,
        (view, topdown): (&'a View<'a>, Option<&'a TopDown>),
        passes: usize,
        ctx: &'a mut Context,
        output: &'a Output,
    ) -> Result<Self> {
        let runner = Runner::new(&options.work, ctx, view.event_set, owns_output(options, output))?;
        if options.by.is_some() {
            runner.check_can_be_sampled()?;
        }
        let exposition = match options.openmetrics.clone() {
            Some(path) => Some(Exposition::new(path, ctx, view.event_set, output)?),
            None => None,
        };
        let interval = options.interval.map(time::interval).transpose()?;
        let writer = IntervalWriter::new(options, output, interval);
        // No progress bar is drawn among lines that are printed meanwhile, or in a program's
        // output.
        let progress = if writer.is_live() || !options.work.program.is_empty() {
            ProgressBar::hidden()
        } else {
            let measurements = passes as u64 * u64::from(options.repeat);
            output.progress(runner.length_ns().map(|length| length.saturating_mul(measurements)))
        };
        let samples = options.by.map(|_| Samples::new(Inventory::new(runner.system())));
        Ok(Self {
            ctx,
            view,
            topdown,
            runner,
            writer,
            exposition,
            interval,
            progress,
            samples,
            done_ns: 0,
            changed: Vec::new(),
        })
    }

    /// Whether nothing more is to be measured: the user has asked to stop, or the reader has gone.
    fn is_over(&self) -> bool {
        interrupted() || self.writer.is_closed()
    }

    /// Runs everything so many times, once for each pass.
    fn runs(&mut self, sets: &[Vec<usize>], repeat: u32) -> Result<Vec<Counts>> {
        let mut runs = Vec::new();
        for run in 1..=repeat {
            let mut counts = Counts::default();
            for (pass, events) in (1..).zip(sets) {
                let pass = (sets.len() > 1).then_some(pass);
                let (one, counted) =
                    self.pass(PassOf { events, run: (repeat > 1).then_some(run), pass })?;
                self.done_ns = self.done_ns.saturating_add(one.elapsed_ns);
                counts.add(one, counted);
                if self.is_over() {
                    counts.interrupted = true;
                    break;
                }
            }
            runs.push(counts);
            if self.is_over() {
                break;
            }
        }
        self.progress.finish_and_clear();
        Ok(runs)
    }

    /// Runs everything once, and counts some of the events.
    fn pass(&mut self, of: PassOf<'_>) -> Result<(Pass, Vec<EventCounts>)> {
        let event_set = self.view.event_set;
        let setup = event_set.setup_of(of.events);
        self.runner.prepare()?;
        let mut session =
            Session::open(&mut self.ctx.connection, event_set.sees_kernel(), setup.approximate)?;
        let effective = session.configure(&setup, self.samples.is_some())?;
        if let Some(samples) = &mut self.samples {
            let ticks = u128::from(effective.head.slice_100ns) * u128::from(self.view.frequency);
            let ticks = (ticks / u128::from(TIME_UNITS_A_SECOND)) as u64;
            samples.begin(event_set.owners(of.events), ticks);
        }
        session.start()?;
        if let Some(exposition) = &mut self.exposition {
            exposition.publish(event_set.counts(of.events, &session.snapshot()?), 0)?;
        }
        let every = match self.samples {
            Some(_) => Every::step(recorder::STEP_NS),
            None => Every::LOOK,
        };
        let mut before = Reading::default();
        self.runner.begin()?;
        let time_ns = self.runner.run(every.reading(self.interval), |tick| {
            if let Some(samples) = &mut self.samples {
                samples.drain(&mut session, tick.elapsed_ns)?;
            }
            self.progress.set_position(self.done_ns.saturating_add(tick.elapsed_ns));
            self.progress.set_message(seconds(tick.elapsed_ns));
            if tick.is_due {
                let counts = event_set.counts(of.events, &session.snapshot()?);
                let now = Reading { time_ns: tick.elapsed_ns, counts };
                if let Some(exposition) = &mut self.exposition {
                    exposition.publish(now.counts.clone(), tick.missed)?;
                }
                let interval = since_reading(self.view, self.topdown, of, &before, &now);
                self.writer.write(interval)?;
                before = now;
            }
            Ok(if self.writer.is_closed() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        let counts = event_set.counts(of.events, &session.stop_and_read()?);
        let end = Reading { time_ns, counts };
        if let Some(samples) = &mut self.samples {
            samples.finish(&mut session, end.time_ns)?;
        }
        if let Some(message) = changes::message(&session.changes()) {
            self.changed.push(format!("{}: {message}", changes::CODE));
        }
        drop(session);
        self.runner.end()?;
        if let Some(exposition) = &mut self.exposition {
            exposition.publish(end.counts.clone(), 0)?;
        }
        if self.interval.is_some() {
            let last = since_reading(self.view, self.topdown, of, &before, &end);
            self.writer.write(Interval { last: true, ..last })?;
        }
        let pass = Pass {
            events: of.events.to_vec(),
            elapsed_ns: end.time_ns,
            slices: effective.head.slices,
            periods: if self.samples.is_some() {
                periods::of_pass(event_set, of.events, &effective)
            } else {
                periods::of_counting(event_set, of.events, &effective)
            },
        };
        Ok((pass, EventCounts::new(event_set, of.events, of.pass, &end.counts)))
    }
}

/// The counts since the last reading.
fn since_reading(
    view: &View<'_>,
    topdown: Option<&TopDown>,
    of: PassOf<'_>,
    before: &Reading,
    now: &Reading,
) -> Interval {
    let counted = rates::Interval::between(&before.counts, &now.counts, view.frequency);
    let events = EventCounts::new(view.event_set, of.events, of.pass, counted.counts());
    let counts = [Counts { events, ..Counts::default() }];
    Interval {
        run: of.run,
        pass: of.pass,
        start_ns: before.time_ns,
        length_ns: now.time_ns.saturating_sub(before.time_ns),
        time_ns: now.time_ns,
        rows: StatRows {
            counts: view.rows(&counts),
            derived: view.metric_rows(&counts),
            // A pass has only some of the events.
            topdown: if of.pass.is_none() { slots(view, topdown, &counts) } else { Vec::new() },
            ..StatRows::default()
        },
        last: false,
    }
}

/// All counts at one moment.
#[derive(Default)]
struct Reading {
    time_ns: u64,
    counts: Vec<Vec<Count>>,
}

/// Where the slots went, if requested.
fn slots(view: &View<'_>, topdown: Option<&TopDown>, runs: &[Counts]) -> Vec<TopDownRow> {
    topdown.map_or_else(Vec::new, |topdown| {
        topdown.rows(view.event_set, view.metrics, view.frequency, runs)
    })
}

fn result(
    view: &View<'_>,
    topdown: Option<&TopDown>,
    runs: &[Counts],
    machine: String,
    scope: Scope,
) -> StatResult {
    let passes = || runs.iter().flat_map(|run| &run.passes);
    let first = runs.first().map_or(&[][..], |run| &run.passes);
    let pass_row =
        |pass: &Pass| PassRow { sources: view.labels(&pass.events), elapsed_ns: pass.elapsed_ns };
    let run_row = |run: &Counts| RunRow {
        elapsed_ns: run.elapsed_ns(),
        counts: view.rows(std::slice::from_ref(run)),
        interrupted: run.interrupted,
    };
    let in_passes = runs.iter().flat_map(|run| &run.events).any(|counts| counts.pass.is_some());
    let (elapsed_ns, elapsed_repeats) = count_row::elapsed(runs, view.trim);
    let slots = slots(view, topdown, runs);
    StatResult {
        machine,
        scope,
        elapsed_ns,
        elapsed_repeats,
        interrupted: interrupted(),
        slices: passes().map(|pass| pass.slices).max().unwrap_or(1),
        next: topdown.map_or_else(BTreeMap::new, |topdown| topdown.next(&slots)),
        rows: StatRows {
            counts: view.rows(runs),
            derived: view.metric_rows(runs),
            topdown: slots,
            ..StatRows::default()
        },
        periods: first.iter().flat_map(|pass| pass.periods.clone()).collect(),
        passes: if in_passes { first.iter().map(pass_row).collect() } else { Vec::new() },
        runs: if runs.len() > 1 { runs.iter().map(run_row).collect() } else { Vec::new() },
        ..StatResult::default()
    }
}
