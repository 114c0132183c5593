//! `top` by Windows' own tracing: samples and context switches as a session delivers them.

use super::sampled::LiveSamples;
use crate::output::error::{Error, Result};
use crate::select::event_set::EventSet;
use crate::target::context::Context;
use crate::target::machine_id;
use halprof_measure::event_counts::EventCounts;
use halprof_measure::tracing::analysis::counts::{Counter, Query, TraceFacts};
use halprof_measure::tracing::analysis::part::add_to_snapshot;
use halprof_measure::tracing::live::{Delivery, Missing};
use halprof_measure::tracing::session::plan::TraceEvent;
use halprof_measure::tracing::session::{SampledSource, TraceRequest, Tracing};
use halprof_profile::file::{DeliveredSamples, Metadata, Period, Recording, Source};
use shared_types::Sample;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;

/// The times of counts are in nanoseconds.
pub(super) const NANOSECONDS: u64 = 1_000_000_000;

/// The most threads that are told apart. What is kept of each stays until the end.
const MOST_THREADS: usize = 1 << 20;

/// The samples of a session.
pub(super) struct TracedSamples<'a> {
    tracing: &'a mut dyn Tracing,
    delivery: Delivery,
    samples: DeliveredSamples,
    is_modelled: bool,
}

impl<'a> TracedSamples<'a> {
    /// Starts a session that samples these events.
    pub(super) fn start(
        tracing: &'a mut dyn Tracing,
        events: &[TraceEvent],
        event_set: &EventSet,
        on_disk: Box<dyn FnMut(&str) -> String>,
        ctx: &Context,
    ) -> Result<Self> {
        let sampled = events.iter();
        let sampled = sampled.map(|one| SampledSource { id: one.source, interval: one.interval });
        let request = TraceRequest { sampled: sampled.collect(), ..TraceRequest::default() };
        let (delivery, sampled) = Delivery::start(tracing, &request)?;
        let metadata = Metadata {
            machine: ctx.machine_info.description.clone(),
            modelled: ctx.machine_info.modelled,
            interface: "ETW".to_owned(),
            timestamp_frequency: delivery.clock().frequency(),
            processors: event_set.processor_count(),
            began: machine_id::unix_seconds(),
            sources: events.iter().map(|event| source(event, &sampled)).collect(),
            passes: 1,
            ..Metadata::default()
        };
        let samples = DeliveredSamples::new(metadata, sampled, on_disk);
        Ok(Self { tracing, delivery, samples, is_modelled: ctx.machine_info.modelled })
    }
}

fn source(event: &TraceEvent, sampled: &[SampledSource]) -> Source {
    let used = sampled.iter().find(|one| one.id == event.source);
    let used = used.map_or(event.interval, |one| one.interval).into();
    let period = Period { requested: event.requested_interval, used, ..Period::default() };
    Source { name: event.name.clone(), period, ..Source::default() }
}

impl LiveSamples for TracedSamples<'_> {
    fn drain(&mut self, _elapsed_ns: u64) -> Result<()> {
        if !self.is_modelled {
            let Self { delivery, samples, .. } = self;
            delivery.read_settled(&mut |event| samples.event(event));
        }
        Ok(())
    }

    fn interval(&mut self, elapsed_ns: u64) -> Result<(Recording, Vec<Sample>)> {
        let Self { tracing, delivery, samples, .. } = self;
        delivery.flush(*tracing, &mut |event| samples.event(event))?;
        check_threads(samples.threads())?;
        let Missing { lost, dropped, .. } = delivery.missing();
        Ok(samples.take(elapsed_ns, lost.saturating_add(dropped))?)
    }
}

impl Drop for TracedSamples<'_> {
    fn drop(&mut self) {
        // Whoever wanted its samples has gone; the note says what could not be undone.
        let _ = self.delivery.stop(self.tracing, &mut |_| {});
    }
}

/// What the context switches of a session count.
pub(super) struct TracedCounts<'a> {
    tracing: &'a mut dyn Tracing,
    delivery: Delivery,
    counter: Counter<'static>,
    totals: Vec<Vec<Count>>,
}

/// All slices.
static EVERYTHING: Query = Query { processors: Vec::new(), interval_ns: None };

impl<'a> TracedCounts<'a> {
    /// Starts a session that counts these events.
    pub(super) fn start(
        tracing: &'a mut dyn Tracing,
        events: &[TraceEvent],
        processors: usize,
    ) -> Result<Self> {
        let counted = events.iter().map(|event| event.source).collect();
        let request = TraceRequest { counted, ..TraceRequest::default() };
        let (delivery, _) = Delivery::start(tracing, &request)?;
        let counter = Counter::new(&EVERYTHING, delivery.clock(), processors as u32);
        let totals = vec![vec![Count::default(); events.len()]; processors];
        Ok(Self { tracing, delivery, counter, totals })
    }

    /// What each processor has counted since the session began.
    pub(super) fn snapshot(&mut self, elapsed_ns: u64) -> Result<Vec<Vec<Count>>> {
        let Self { tracing, delivery, counter, totals } = self;
        delivery.flush(*tracing, &mut |event| counter.event(event))?;
        check_threads(counter.threads())?;
        let part = counter.take(TraceFacts::default());
        add_to_snapshot(totals, &part.by_processor(), elapsed_ns);
        Ok(totals.clone())
    }

    /// What is missing of the counts, as warnings.
    pub(super) fn warnings(&self) -> Vec<String> {
        let Missing { lost, dropped, .. } = self.delivery.missing();
        let lost = lost.saturating_add(dropped);
        let lost = (lost != 0).then(|| {
            format!(
                "the session has lost {lost} events and buffers; counts are at least what is shown"
            )
        });
        lost.into_iter().collect()
    }
}

impl Drop for TracedCounts<'_> {
    fn drop(&mut self) {
        // As above.
        let _ = self.delivery.stop(self.tracing, &mut |_| {});
    }
}

/// The counts of each event on each processor.
pub(super) fn by_event(
    events: usize,
    processors: &[Processor],
    counts: &[Vec<Count>],
) -> Vec<EventCounts> {
    let count_of = |event: usize, processor: &Processor| {
        counts.get(processor.index as usize)?.get(event).copied()
    };
    let counted = |event| EventCounts::new(event, None, processors, |one| count_of(event, one));
    (0..events).map(counted).collect()
}

fn check_threads(threads: usize) -> Result<()> {
    if threads <= MOST_THREADS {
        return Ok(());
    }
    Err(Error::unavailable(
        "more threads have run than `top` tells apart: 1,048,576",
        "Start it again.",
    ))
}
