//! `stat -I` and `--openmetrics` by Windows' own tracing: the context switches of a session are counted
//! as they are delivered.

use super::evaluate::Span;
use super::from_trace::TraceMeasurement;
use super::interval_writer::IntervalWriter;
use super::openmetrics::Exposition;
use super::result::Interval;
use crate::cli::args;
use crate::metrics::{Metrics, Requested};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::{seconds, thousands};
use crate::results::errata::EventErrata;
use crate::run::runner::{Every, Runner, Tick};
use halprof_measure::tracing::analysis::counts::{Counter, Query, TraceCounts, TraceFacts};
use halprof_measure::tracing::analysis::part::add_to_snapshot;
use halprof_measure::tracing::live::{Delivery, Missing};
use halprof_measure::tracing::session::plan::TraceEvent;
use halprof_measure::tracing::session::{TraceRequest, Tracing};
use indicatif::ProgressBar;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use std::ops::ControlFlow;
use std::slice;

/// The most threads that are told apart. What is kept of each stays until the end.
const MOST_THREADS: usize = 1 << 20;

/// What intervals are made with.
pub(super) struct LiveMeasurement<'a> {
    pub(super) options: &'a args::Stat,
    pub(super) metrics: (&'a Metrics, Vec<Requested<'a>>),
    pub(super) processors: &'a [Processor],
    pub(super) query: Query,
    pub(super) interval_ns: u64,
    pub(super) output: &'a Output,
    pub(super) writer: IntervalWriter<'a>,
    /// The file that each reading replaces, if there is one.
    pub(super) exposition: Option<Exposition<'a>>,
}

/// One session, which is a pass.
pub(super) struct Pass<'a> {
    pub(super) events: &'a [TraceEvent],
    /// Its number, if there are several.
    pub(super) number: Option<u32>,
    pub(super) errata: EventErrata,
}

/// What a session has counted so far.
struct Counting<'a> {
    counter: Counter<'a>,
    delivery: Delivery,
    /// When the last interval ended.
    last_ns: u64,
    /// What each processor has counted, for an exposition.
    totals: Vec<Vec<Count>>,
    has_warned: bool,
    /// Why it ended before.
    ended: Option<String>,
}

impl LiveMeasurement<'_> {
    /// Counts in one session; returns why it ended before, too.
    pub(super) fn count(
        &mut self,
        tracing: &mut dyn Tracing,
        runner: &mut Runner,
        pass: &Pass<'_>,
        progress: &ProgressBar,
    ) -> Result<(TraceCounts, Option<String>)> {
        let counted = pass.events.iter().map(|event| event.source).collect();
        let request = TraceRequest { counted, ..TraceRequest::default() };
        let query = self.query.clone();
        let (delivery, _) = Delivery::start(tracing, &request)?;
        let processors = self.processors.len();
        let mut counting = Counting {
            counter: Counter::new(&query, delivery.clock(), processors as u32),
            delivery,
            last_ns: 0,
            totals: vec![vec![Count::default(); pass.events.len()]; processors],
            has_warned: false,
            ended: None,
        };
        let ran = self.run(tracing, runner, pass, &mut counting, progress);
        let Counting { counter, delivery, .. } = &mut counting;
        let stopped = delivery.stop(tracing, &mut |event| counter.event(event));
        let elapsed_ns = ran?;
        let ended = stopped?.ended.map(|end| end.to_string());
        self.part(pass, &mut counting, elapsed_ns, true)?;
        let Counting { counter, delivery, ended: own, .. } = counting;
        let counts = counter.finish(facts(&delivery.missing()));
        let mut counts = counts.map_err(|why| {
            Error::unavailable(
                format!("the session of Windows' own tracing {why}"),
                "Measure again, or for longer.",
            )
        })?;
        named(&mut counts, pass.events);
        Ok((counts, own.or(ended)))
    }

    /// Runs once, with an interval at each tick.
    fn run(
        &mut self,
        tracing: &mut dyn Tracing,
        runner: &mut Runner,
        pass: &Pass<'_>,
        counting: &mut Counting<'_>,
        progress: &ProgressBar,
    ) -> Result<u64> {
        let is_modelled = runner.is_modelled();
        runner.settle();
        if let Some(exposition) = &mut self.exposition {
            exposition.publish(counting.totals.clone(), 0)?;
        }
        runner.prepare()?;
        runner.begin()?;
        let every = Every::LOOK.reading(Some(self.interval_ns));
        let elapsed_ns = runner.run(every, |tick| {
            progress.set_position(tick.elapsed_ns);
            progress.set_message(seconds(tick.elapsed_ns));
            if tick.is_due {
                self.reading(tracing, pass, counting, tick)?;
            } else if !is_modelled {
                let Counting { counter, delivery, .. } = &mut *counting;
                delivery.read_settled(&mut |event| counter.event(event));
            }
            let is_over = counting.ended.is_some() || self.writer.is_closed();
            Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        runner.end()?;
        Ok(elapsed_ns)
    }

    /// Reads what was counted until now.
    fn reading(
        &mut self,
        tracing: &mut dyn Tracing,
        pass: &Pass<'_>,
        counting: &mut Counting<'_>,
        tick: Tick,
    ) -> Result<()> {
        let Counting { counter, delivery, .. } = counting;
        if let Err(error) = delivery.flush(tracing, &mut |event| counter.event(event)) {
            // A session that is no longer there ends the measurement with what it has counted.
            let state = tracing.state()?;
            counting.ended = Some(state.ended.ok_or(error)?.to_string());
            return Ok(());
        }
        if counter.threads() > MOST_THREADS {
            let most = thousands(MOST_THREADS as u64);
            counting.ended = Some(format!("more than {most} threads ran"));
        }
        if let (false, Some(lost)) = (counting.has_warned, lost(&delivery.missing())) {
            counting.has_warned = true;
            self.output.warn(&lost);
        }
        self.part(pass, counting, tick.elapsed_ns, false)?;
        if let Some(exposition) = &mut self.exposition {
            exposition.publish(counting.totals.clone(), tick.missed)?;
        }
        Ok(())
    }

    /// Writes the interval since the last one.
    fn part(
        &mut self,
        pass: &Pass<'_>,
        counting: &mut Counting<'_>,
        elapsed_ns: u64,
        is_last: bool,
    ) -> Result<()> {
        let mut part = counting.counter.take(facts(&counting.delivery.missing()));
        named(&mut part, pass.events);
        let passes = slice::from_ref(&part);
        let errata = (self.processors, pass.errata.clone());
        let metrics = (self.metrics.0, self.metrics.1.clone());
        let traces = TraceMeasurement::new(self.options, passes, metrics, errata, self.output);
        let traces = traces.requested(pass.events);
        let start_ns = counting.last_ns;
        let span = Span { run: None, pass: pass.number, start_ns, end_ns: elapsed_ns };
        let interval = traces.whole(&span);
        counting.last_ns = elapsed_ns;
        add_to_snapshot(&mut counting.totals, &traces.by_processor(), elapsed_ns);
        self.writer.write(Interval { last: is_last, ..interval })?;
        if let (true, Some(exposition)) = (is_last, &mut self.exposition) {
            exposition.publish(counting.totals.clone(), 0)?;
        }
        Ok(())
    }
}

/// The sources as they were asked for: a part of a session may have no event that names them.
fn named(counts: &mut TraceCounts, events: &[TraceEvent]) {
    if counts.sources.is_empty() || counts.sources.len() == events.len() {
        counts.sources = events.iter().map(|event| event.name.clone()).collect();
    }
}

fn facts(missing: &Missing) -> TraceFacts {
    let damage = missing.damage.counts().map(|(cause, count)| format!("{cause}: {count}"));
    TraceFacts {
        lost_events: missing.lost.saturating_add(missing.dropped),
        damage: damage.collect(),
        ..TraceFacts::default()
    }
}

/// What a user has to know as soon as it happens.
fn lost(missing: &Missing) -> Option<String> {
    let Missing { lost, dropped, .. } = *missing;
    match (lost, dropped) {
        (0, 0) => None,
        (lost, 0) => Some(format!(
            "the session has lost {} events and buffers; counts are at least what is shown",
            thousands(lost)
        )),
        (lost, dropped) => Some(format!(
            "{} events came faster than they were read and were dropped, and the session has lost {}; \
             counts are at least what is shown",
            thousands(dropped),
            thousands(lost)
        )),
    }
}
