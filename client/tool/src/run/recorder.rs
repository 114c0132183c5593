//! Moves samples from the rings to a recording: drains them, notes where they come from, and hands
//! them to the thread that writes the file, or to what keeps them in memory.

use crate::output::error::{Error, Result};
use crate::output::number::{seconds, thousands};
use crate::run::interrupt::interrupted;
use crate::run::marking::Marking;
use crate::run::runner::{Every, Runner};
use crate::run::system::System;
use crate::select::event_set::EventSet;
use crate::target::backend::Backend;
use halprof_measure::estimate::Estimate;
use halprof_measure::float::float;
use halprof_measure::processes::{ProcessEvents, ProcessSource};
use halprof_measure::{Connection, Effective, Error as Cause, Refusal, Session, Setup, Transport};
use halprof_profile::aggregate::in_step::InStep;
use halprof_profile::file::inventory::{Changes, Inventory, Missed};
use halprof_profile::file::{Background, Block, Build, RecordedEvent, Sink, Slices, Statistics};
use halprof_profile::symbols;
use indicatif::ProgressBar;
use shared_types::request::counts::{self, Count};
use shared_types::request::samples;
use shared_types::request::session::Spec;
use shared_types::{LossCause, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;

/// The interval between drains. The rings hold two seconds of samples.
pub(crate) const STEP_NS: u64 = 20_000_000;
/// How often statistics are written to the file.
const STATISTICS_NS: u64 = 1_000_000_000;

/// A recording in progress.
pub(crate) struct Recorder<'a, S> {
    event_set: &'a EventSet,
    pub(crate) sink: S,
    pub(crate) inventory: Inventory,
    recorded: Recorded,
    by_processor: BTreeMap<u32, u64>,
    in_step: InStep,
    /// The recorder of marks, if there is one.
    marking: Option<Marking>,
    /// What reports processes and images at the end, if something does.
    source: Option<Box<dyn ProcessSource>>,
    /// The last statistics of the pass that were read.
    read: samples::Statistics,
}

/// Why processes and images were not reported as they came and went.
#[derive(Debug)]
pub(crate) enum SourceError {
    /// They were not at all.
    Refused(Cause),
    /// They were until then.
    Ended(String),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Ended(why) => write!(f, "their session ended early: {why}"),
        }
    }
}

/// What is in a recording, in all passes that have ended.
#[derive(Default)]
pub(crate) struct Recorded {
    /// Samples handed to the writer.
    pub(crate) samples: u64,
    /// Their branch records.
    pub(crate) branches: u64,
    /// The samples of the processor that had most.
    pub(crate) busiest: u64,
    pub(crate) in_step: InStep,
    pub(crate) statistics: Statistics,
    /// The number of marks in the file.
    pub(crate) marks: u64,
    pub(crate) marks_dropped: u64,
    pub(crate) missed: Missed,
    pub(crate) interrupted: bool,
    /// Why it ended early: the driver ended it, or a request failed.
    pub(crate) ended: Option<Error>,
    /// What others have changed, in each pass.
    pub(crate) changes: Vec<counts::Changes>,
    /// Why processes and images were not reported, or not until the end.
    pub(crate) source_error: Option<SourceError>,
}

impl<'a, S: Sink> Recorder<'a, S> {
    /// Begins the recording of what runs on a `system`. What comes and goes between scans is known
    /// at the end, if there is a `source`.
    pub(crate) fn new(
        sink: S,
        event_set: &'a EventSet,
        system: Box<dyn System>,
        mut source: Option<Box<dyn ProcessSource>>,
        marking: Option<Marking>,
    ) -> Result<Self> {
        // Before the first scan, so that nothing comes or goes between the two.
        let source_error = source.as_mut().and_then(|source| source.start().err());
        let source_error = source_error.map(SourceError::Refused);
        let source = source.filter(|_| source_error.is_none());
        let statistics = Statistics {
            lost: by_cause(samples::Statistics::default().lost),
            lost_events: by_cause(samples::Statistics::default().lost_events),
            ..Statistics::default()
        };
        let mut recorder = Self {
            event_set,
            sink,
            inventory: Inventory::new(system),
            recorded: Recorded { statistics, source_error, ..Recorded::default() },
            by_processor: BTreeMap::new(),
            in_step: InStep::default(),
            marking,
            source,
            read: samples::Statistics::default(),
        };
        let running = recorder.inventory.scan(0);
        recorder.put_changes(running)?;
        Ok(recorder)
    }

    /// Moves what has come since the last step to the recording; `elapsed_ns` is the time since the
    /// pass began.
    pub(crate) fn step<T: Transport>(
        &mut self,
        session: &mut Session<T>,
        indexes: &[usize],
        elapsed_ns: u64,
    ) -> Result<()> {
        self.drain(session, indexes)?;
        self.drain_marks()?;
        self.drain_events(session)?;
        let elapsed_ns = self.recorded.statistics.elapsed_ns.saturating_add(elapsed_ns);
        let changes = self.inventory.scan_if_due(elapsed_ns);
        self.put_changes(changes)
    }

    /// Moves pending events of the driver to the recording.
    fn drain_events<T: Transport>(&mut self, session: &mut Session<T>) -> Result<()> {
        let (events, lost) = session.drain_events()?;
        self.recorded.statistics.events_lost =
            self.recorded.statistics.events_lost.saturating_add(lost);
        let events: Vec<RecordedEvent> = events.iter().filter_map(RecordedEvent::new).collect();
        if !events.is_empty() {
            self.sink.put(Block::Events(events))?;
        }
        Ok(())
    }

    /// Moves the contents of the rings to the recording.
    fn drain<T: Transport>(&mut self, session: &mut Session<T>, indexes: &[usize]) -> Result<()> {
        let owners = self.event_set.owners(indexes);
        loop {
            let (mut samples, branches, left) = session.drain_branches()?;
            if samples.is_empty() {
                return Ok(());
            }
            renumber(&mut samples, &owners);
            self.in_step.add(&samples);
            self.inventory.note_samples(&samples);
            self.inventory.note_branches(&samples, &branches);
            self.recorded.samples += samples.len() as u64;
            self.recorded.branches += branches.len() as u64;
            for sample in &samples {
                *self.by_processor.entry(sample.processor).or_default() += 1;
            }
            self.sink.put(if branches.is_empty() {
                Block::Samples(samples)
            } else {
                Block::Branched(samples, branches)
            })?;
            if left == 0 {
                return Ok(());
            }
        }
    }

    fn drain_marks(&mut self) -> Result<()> {
        match &mut self.marking {
            Some(marking) => marking.drain(&mut self.sink),
            None => Ok(()),
        }
    }

    fn put_changes(&mut self, changes: Changes) -> Result<()> {
        if !changes.processes.is_empty() {
            self.sink.put(Block::Processes(changes.processes))?;
        }
        if !changes.threads.is_empty() {
            self.sink.put(Block::Threads(changes.threads))?;
        }
        if !changes.modules.is_empty() {
            self.sink.put(Block::Modules(changes.modules))?;
        }
        Ok(())
    }

    /// The sum over the passes that have ended and this one.
    pub(crate) fn with(&self, pass: &samples::Statistics, elapsed_ns: u64) -> Statistics {
        let before = &self.recorded.statistics;
        Statistics {
            elapsed_ns: before.elapsed_ns.saturating_add(elapsed_ns),
            generated: before.generated.saturating_add(pass.generated),
            lost: added(&before.lost, by_cause(pass.lost)),
            lost_events: added(&before.lost_events, by_cause(pass.lost_events)),
            ended: Refusal::from_statistics(pass).map(|refusal| refusal.code.code().to_owned()),
            slices: before.slices.clone(),
            spurious: before.spurious.saturating_add(pass.spurious),
            throttled: before.throttled.saturating_add(pass.throttled),
            longest_period: before.longest_period.max(pass.longest_period),
            handler_ticks: before.handler_ticks.saturating_add(pass.handler_ticks),
            branches_cleared: before.branches_cleared.saturating_add(pass.branches_cleared),
            events_lost: before.events_lost,
            ..Statistics::default()
        }
    }
}

/// A recording in a file.
impl Recorder<'_, Background> {
    /// Adds what came and went between scans, and the exact times.
    fn complete(&mut self) -> Result<()> {
        let Some(mut source) = self.source.take() else {
            return Ok(());
        };
        match source.stop() {
            Ok(ProcessEvents { events, lost, ended }) => {
                self.recorded.source_error = ended.map(SourceError::Ended);
                self.recorded.statistics.events_lost =
                    self.recorded.statistics.events_lost.saturating_add(lost);
                let changes = self.inventory.complete(events);
                self.put_changes(changes)?;
            }
            Err(error) => self.recorded.source_error = Some(SourceError::Refused(error)),
        }
        Ok(())
    }

    /// Samples one pass, for one complete run, in a session that is [`configured`] for it.
    pub(crate) fn sample(
        &mut self,
        mut session: Session<'_, Backend>,
        indexes: &[usize],
        runner: &mut Runner,
        progress: &ProgressBar,
    ) -> Result<()> {
        let before = self.recorded.samples;
        self.read = samples::Statistics::default();
        runner.prepare()?;
        session.start()?;
        runner.begin()?;
        match self.sample_until_end(&mut session, indexes, runner, progress) {
            Ok((elapsed_ns, mut slices)) => {
                self.recorded.statistics = self.with(&self.read, elapsed_ns);
                self.recorded.statistics.slices.append(&mut slices);
                self.recorded.ended = Refusal::from_statistics(&self.read).map(Error::from);
            }
            Err(error) => {
                self.read.generated = self.read.generated.max(self.recorded.samples - before);
                let code = error.code().to_owned();
                self.end_early(error)?;
                let statistics = self.with(&self.read, runner.elapsed_ns());
                self.recorded.statistics = Statistics { ended: Some(code), ..statistics };
            }
        }
        self.recorded.changes.push(session.changes());
        drop(session);
        let changes = self.inventory.scan(self.recorded.statistics.elapsed_ns);
        self.put_changes(changes)?;
        runner.end_while(|| self.drain_marks())?;
        self.drain_marks()
    }

    /// Samples until the run is over; returns how long it took, and the sources that took turns.
    fn sample_until_end(
        &mut self,
        session: &mut Session<'_, Backend>,
        indexes: &[usize],
        runner: &mut Runner,
        progress: &ProgressBar,
    ) -> Result<(u64, Vec<Slices>)> {
        let every = Every::step(STEP_NS).reading(Some(STATISTICS_NS));
        let elapsed_ns = runner.run(every, |tick| {
            self.step(session, indexes, tick.elapsed_ns)?;
            if session.ended().is_some() {
                return Ok(ControlFlow::Break(()));
            }
            if tick.is_due {
                self.read = session.statistics()?;
                let now = self.with(&self.read, tick.elapsed_ns);
                self.sink.put(Block::Statistics(Box::new(now)))?;
            }
            let elapsed = seconds(self.recorded.statistics.elapsed_ns + tick.elapsed_ns);
            let samples = thousands(self.recorded.samples);
            progress.set_message(format!("sampling, {elapsed}, {samples} samples"));
            Ok(ControlFlow::Continue(()))
        })?;
        session.stop_sampling()?;
        self.drain(session, indexes)?;
        self.drain_events(session)?;
        self.read = session.statistics()?;
        Ok((elapsed_ns, slices(&session.snapshot()?, indexes, self.event_set)))
    }

    /// Ends the recording because of a request that failed, and keeps what was sampled before; without
    /// a sample, and for all other errors, there is nothing to keep.
    pub(crate) fn end_early(&mut self, error: Error) -> Result<()> {
        if !error.is_of_request() || self.recorded.samples == 0 {
            return Err(error);
        }
        self.recorded.ended = Some(error);
        Ok(())
    }

    /// Whether it has ended early.
    pub(crate) const fn has_ended(&self) -> bool {
        self.recorded.ended.is_some()
    }

    pub(crate) fn finish(mut self) -> Result<Recorded> {
        self.complete()?;
        let mut recorded = self.recorded;
        recorded.missed = self.inventory.missed();
        recorded.busiest = self.by_processor.into_values().max().unwrap_or(0);
        recorded.in_step = self.in_step;
        recorded.interrupted = interrupted();
        self.sink.put(Block::Modules(self.inventory.identified(build)))?;
        if let Some(marking) = &mut self.marking {
            marking.finish(&mut self.sink)?;
            (recorded.marks, recorded.marks_dropped) = (marking.marks(), marking.dropped());
        }
        self.sink.finish(&recorded.statistics, recorded.interrupted)?;
        Ok(recorded)
    }
}

/// Replaces each sample's index of its source in the pass by the index in the event set, as in the
/// file.
fn renumber(samples: &mut [Sample], owners: &[usize]) {
    for sample in samples {
        let index = owners.get(usize::from(sample.source)).copied();
        let index = index.and_then(|index| u16::try_from(index).ok());
        sample.source = index.unwrap_or(u16::MAX);
    }
}

/// The build of a module. Nothing is known if the file is gone, is on another machine, or is no
/// executable.
pub(crate) fn build(path: &str) -> Build {
    symbols::build_where_loaded(path).unwrap_or_default()
}

/// Opens a session that samples these sources of the event set, with system events or without.
pub(crate) fn configured<'a>(
    connection: &'a mut Connection<Backend>,
    event_set: &EventSet,
    indexes: &[usize],
    events: bool,
) -> Result<(Session<'a, Backend>, Effective)> {
    let mut setup = event_set.setup_of(indexes);
    setup.events = events;
    let mut session = Session::open(connection, event_set.sees_kernel(), setup.approximate)?;
    let intervals = intervals_by_source(&mut setup);
    let mut effective = session.configure(&setup, true)?;
    for (source, interval) in intervals {
        let set = session.set_interval(source, interval)?;
        effective
            .intervals
            .iter_mut()
            .filter(|one| one.source == source)
            .for_each(|one| *one = set);
    }
    Ok((session, effective))
}

/// Takes out of the specs the intervals that can be set as the HAL does it, which has one for each
/// source. Where a list gives several for the same number, each spec keeps its own.
fn intervals_by_source(setup: &mut Setup) -> BTreeMap<u32, u64> {
    let mut given: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for spec in &setup.specs {
        // What is set as the HAL does it is exact.
        let exact = if spec.flags & Spec::MEAN == 0 { spec.interval } else { 0 };
        given.entry(spec.source).or_default().insert(exact);
    }
    let one = |(source, intervals): (u32, BTreeSet<u64>)| {
        let interval = intervals.first().copied().filter(|&interval| interval != 0)?;
        (intervals.len() == 1).then_some((source, interval))
    };
    let by_source: BTreeMap<u32, u64> = given.into_iter().filter_map(one).collect();
    for spec in setup.specs.iter_mut().filter(|spec| by_source.contains_key(&spec.source)) {
        spec.interval = 0;
    }
    by_source
}

fn by_cause(numbers: [u64; LossCause::ALL.len()]) -> BTreeMap<String, u64> {
    let causes = LossCause::ALL.iter().map(|cause| cause.name().to_owned());
    causes.zip(numbers).collect()
}

fn added(before: &BTreeMap<String, u64>, more: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let sums = more.into_iter().map(|(cause, n)| {
        let before = before.get(&cause).copied().unwrap_or(0);
        (cause, before.saturating_add(n))
    });
    sums.collect()
}

/// The sources of a pass that were on a counter for only part of the time, on the processors that
/// can count them.
pub(crate) fn slices(
    counts: &[Vec<Count>],
    indexes: &[usize],
    event_set: &EventSet,
) -> Vec<Slices> {
    let counts = event_set.counts(indexes, counts);
    let of_source = |(column, &index): (usize, &usize)| {
        let event = event_set.events.get(index)?;
        let able: Vec<_> =
            event_set.selected().filter(|one| event_set.counts_on(event, one)).collect();
        let counts = able.iter().filter_map(|one| counts.get(one.index as usize)?.get(column));
        let estimate = Estimate::sum(counts.map(Estimate::new));
        let narrow = |ticks: u128| u64::try_from(ticks).unwrap_or(u64::MAX);
        estimate.scaled.then(|| Slices {
            source: u32::try_from(index).unwrap_or(u32::MAX),
            enabled: narrow(estimate.enabled),
            running: narrow(estimate.running),
            error_ppm: estimate
                .error
                .zip(estimate.value)
                .map(|(error, value)| millionths(error, value)),
            processors: u32::try_from(able.len()).unwrap_or(u32::MAX),
        })
    };
    indexes.iter().enumerate().filter_map(of_source).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no float is too large for the conversion"
)]
fn millionths(error: f64, value: u128) -> u64 {
    if value == 0 { 0 } else { (error / float(value) * 1e6).ceil() as u64 }
}
