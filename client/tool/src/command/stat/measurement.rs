//! How a session measures: once for each run and pass, with readings in between.

use super::against::{self, Pairs};
use super::by_process::Samples;
use super::evaluate::{Evaluation, Span};
use super::interval_writer::{IntervalWriter, owns_output};
use super::openmetrics::{Exposed, Exposition};
use super::result::{Interval, Turn};
use crate::cli::args;
use crate::output::error::{Error, Result};
use crate::output::number::seconds;
use crate::output::{Output, changes};
use crate::results::counts::{Counts, Pass};
use crate::run::interrupt::interrupted;
use crate::run::recorder;
use crate::run::runner::{Every, Runner};
use crate::select::event_set::EventSet;
use crate::select::periods;
use crate::select::time::{self, TIME_UNITS_A_SECOND};
use crate::target::context::Context;
use halprof_measure::event_counts::EventCounts;
use halprof_measure::{Session, rates};
use halprof_profile::file::inventory::Inventory;
use indicatif::ProgressBar;
use shared_types::request::counts::Count;
use std::ops::ControlFlow;

/// Everything that a measurement needs.
pub(super) struct Measurement<'a> {
    ctx: &'a mut Context,
    event_set: &'a EventSet,
    evaluation: &'a Evaluation<'a>,
    pub(super) runner: Runner,
    /// What runs in turns with it.
    pub(super) before: Option<Runner>,
    pub(super) writer: IntervalWriter<'a>,
    /// The file that each reading replaces, if there is one.
    exposition: Option<Exposition<'a>>,
    interval: Option<u64>,
    progress: ProgressBar,
    /// Which pair is running.
    pair: String,
    /// The samples by which counts are divided, if requested.
    pub(super) samples: Option<Samples>,
    /// The time of all earlier runs and passes.
    done_ns: u64,
    /// Warnings that others have changed counters.
    pub(super) changed: Vec<String>,
    /// The request whose failure has ended the measurement.
    pub(super) ended: Option<Error>,
}

/// The interval of readings without `--interval`: at most the counts of so long are lost if the driver
/// goes away.
const RESERVE_NS: u64 = 1_000_000_000;

/// Which measurement it is, with the number of the run and of the pass if there are several.
#[derive(Clone, Copy)]
struct PassId<'a> {
    events: &'a [usize],
    run: Option<u32>,
    pass: Option<u32>,
}

/// All counts at one moment.
#[derive(Default)]
struct Reading {
    time_ns: u64,
    counts: Vec<Vec<Count>>,
}

impl PassId<'_> {
    /// What was counted between two readings.
    fn interval(
        self,
        before: &Reading,
        now: &Reading,
        event_set: &EventSet,
        evaluation: &Evaluation<'_>,
    ) -> Interval {
        let counted =
            rates::Interval::between(&before.counts, &now.counts, evaluation.view.frequency);
        let events = event_set.event_counts(self.events, self.pass, counted.counts());
        let span =
            Span { run: self.run, pass: self.pass, start_ns: before.time_ns, end_ns: now.time_ns };
        evaluation.interval(&span, &Counts { events, ..Counts::default() })
    }
}

impl<'a> Measurement<'a> {
    /// Measures `passes` sets of these events in each run.
    pub(super) fn new(
        options: &'a args::Stat,
        (event_set, passes): (&'a EventSet, usize),
        evaluation: &'a Evaluation<'a>,
        ctx: &'a mut Context,
        output: &'a Output,
    ) -> Result<Self> {
        let runner = Runner::new(&options.work, ctx, event_set, owns_output(options, output))?;
        let before = against::runner(options, ctx, event_set, owns_output(options, output))?;
        if options.by.is_some() {
            runner.check_can_be_sampled()?;
        }
        let exposition = match options.openmetrics.clone() {
            Some(path) => Some(Exposition::new(path, Exposed::of_session(ctx, event_set), output)?),
            None => None,
        };
        let interval = options.interval.map(time::interval).transpose()?;
        let writer = IntervalWriter::new(options, output, interval)?;
        // No progress bar is drawn among lines that are printed meanwhile, or in a program's
        // output.
        let progress = if before.is_some() {
            // It is drawn when a run begins, not while a program may print.
            let progress = output.progress(None);
            progress.disable_steady_tick();
            progress
        } else if writer.is_live() || !options.work.program.is_empty() {
            ProgressBar::hidden()
        } else {
            let measurements = passes as u64 * u64::from(options.repeat);
            output.progress(runner.length_ns().map(|length| length.saturating_mul(measurements)))
        };
        let samples = options.by.map(|_| Samples::new(Inventory::new(runner.system())));
        Ok(Self {
            ctx,
            event_set,
            evaluation,
            runner,
            before,
            writer,
            exposition,
            interval,
            progress,
            pair: String::new(),
            samples,
            done_ns: 0,
            changed: Vec::new(),
            ended: None,
        })
    }

    /// Whether nothing more is to be measured: the user has asked to stop, or the reader or the
    /// driver has gone.
    fn is_over(&self) -> bool {
        interrupted() || self.writer.is_closed() || self.ended.is_some()
    }

    /// Runs everything so many times, once for each pass. If a request fails, what was measured before
    /// is returned.
    pub(super) fn runs(&mut self, sets: &[Vec<usize>], repeat: u32) -> Result<Vec<Counts>> {
        let mut runs: Vec<Counts> = Vec::new();
        for run in 1..=repeat {
            let counts = self.one_run(sets, (repeat > 1).then_some(run))?;
            if !counts.passes.is_empty() {
                runs.push(counts);
            }
            if self.is_over() {
                break;
            }
        }
        self.progress.finish_and_clear();
        Ok(runs)
    }

    /// Runs the old and the new program in turns, `repeat` times each, and returns the complete pairs.
    /// Stops early if a program fails.
    pub(super) fn pairs(&mut self, sets: &[Vec<usize>], repeat: u32) -> Result<Pairs> {
        let mut pairs = Pairs::default();
        let turns =
            (0..repeat as usize).flat_map(|pair| Turn::of_pair(pair).map(|turn| (pair, turn)));
        for (pair, turn) in turns {
            self.pair = format!("pair {} of {repeat}", pair + 1);
            self.progress.set_message(self.pair.clone());
            self.swap_for(turn);
            let counts = self.one_run(sets, None);
            let failed = self.runner.program_status() != 0;
            self.swap_for(turn);
            let counts = counts?;
            if self.is_over() || failed {
                break;
            }
            match turn {
                Turn::Before => pairs.before.push(counts),
                Turn::After => pairs.after.push(counts),
            }
        }
        self.progress.finish_and_clear();
        pairs.keep_complete();
        Ok(pairs)
    }

    /// Puts what runs in this turn into the place of what is measured, or back.
    const fn swap_for(&mut self, turn: Turn) {
        if let (Turn::Before, Some(before)) = (turn, &mut self.before) {
            std::mem::swap(&mut self.runner, before);
        }
    }

    /// Runs everything once for each pass.
    fn one_run(&mut self, sets: &[Vec<usize>], run: Option<u32>) -> Result<Counts> {
        let mut counts = Counts::default();
        for (pass, events) in (1..).zip(sets) {
            let pass = (sets.len() > 1).then_some(pass);
            match self.pass(PassId { events, run, pass }) {
                Ok((one, counted)) => {
                    self.done_ns = self.done_ns.saturating_add(one.elapsed_ns);
                    counts.add(one, counted);
                }
                Err(error) if error.is_of_request() && self.done_ns != 0 => {
                    self.ended = Some(error);
                }
                Err(error) => return Err(error),
            }
            if self.is_over() {
                counts.interrupted = true;
                break;
            }
        }
        Ok(counts)
    }

    /// Runs everything once, and counts some of the events.
    fn pass(&mut self, of: PassId<'_>) -> Result<(Pass, Vec<EventCounts>)> {
        let event_set = self.event_set;
        let setup = event_set.setup_of(of.events);
        self.runner.prepare()?;
        let mut session =
            Session::open(&mut self.ctx.connection, event_set.sees_kernel(), setup.approximate)?;
        let effective = session.configure(&setup, self.samples.is_some())?;
        if let Some(samples) = &mut self.samples {
            let ticks =
                u128::from(effective.head.slice_100ns) * u128::from(self.evaluation.view.frequency);
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
        let reading = self.interval.or_else(|| (!self.runner.is_modelled()).then_some(RESERVE_NS));
        let mut last = Reading::default();
        self.runner.begin()?;
        // Until the end, with readings in between and a last one.
        let mut measure = || {
            let time_ns = self.runner.run(every.reading(reading), |tick| {
                if let Some(samples) = &mut self.samples {
                    samples.drain(&mut session, tick.elapsed_ns)?;
                }
                self.progress.set_position(self.done_ns.saturating_add(tick.elapsed_ns));
                if self.pair.is_empty() {
                    self.progress.set_message(seconds(tick.elapsed_ns));
                }
                if tick.is_due {
                    let counts = event_set.counts(of.events, &session.snapshot()?);
                    let now = Reading { time_ns: tick.elapsed_ns, counts };
                    if let Some(exposition) = &mut self.exposition {
                        exposition.publish(now.counts.clone(), tick.missed)?;
                    }
                    if self.interval.is_some() {
                        self.writer.write(of.interval(&last, &now, event_set, self.evaluation))?;
                    }
                    last = now;
                }
                Ok(if self.writer.is_closed() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            })?;
            let counts = event_set.counts(of.events, &session.stop_and_read()?);
            if let Some(samples) = &mut self.samples {
                samples.finish(&mut session, time_ns)?;
            }
            Ok(Reading { time_ns, counts })
        };
        let measured: Result<Reading> = measure();
        let end = match measured {
            Err(error) if error.is_of_request() && !last.counts.is_empty() => {
                self.ended = Some(error);
                None
            }
            measured => Some(measured?),
        };
        if let Some(message) = changes::message(&session.changes()) {
            self.changed.push(format!("{}: {message}", changes::CODE));
        }
        drop(session);
        self.runner.end()?;
        if let (Some(exposition), Some(end)) = (&mut self.exposition, &end) {
            exposition.publish(end.counts.clone(), 0)?;
        }
        if let (Some(_), Some(end)) = (self.interval, &end) {
            let interval = of.interval(&last, end, event_set, self.evaluation);
            self.writer.write(Interval { last: true, ..interval })?;
        }
        let end = end.unwrap_or(last);
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
        Ok((pass, event_set.event_counts(of.events, of.pass, &end.counts)))
    }
}
