//! A modelled machine that measures by a trace: its counters count what it runs, and the trace is
//! what Windows' tracing would have written of it.

use crate::generator::{BranchRecording, LiveRun, Program, Run, TracedSource};
use halprof_etw::PointerSize;
use halprof_etw::clock::ClockType;
use halprof_measure::tracing::live::Consumer;
use halprof_measure::tracing::session::{
    DeliverEvents, Flushed, ProfileSource, SampledSource, Started, TIMER, TraceFile, TraceRequest,
    TraceState, Tracing, no_branch_records,
};
use halprof_measure::{Connection, Error, Result, Session, Setup, Transport, listed};
use shared_types::request::counts::Count;
use shared_types::request::session::Spec;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The longest run of which a trace is written, a day: a trace has thousands of slices at most, and
/// in each of them less happens than a counter of 48 bits holds.
const LONGEST_US: u64 = 24 * 3600 * 1_000_000;

/// The real program that a machine runs, which is known when it begins.
pub type SharedProgram = Rc<RefCell<Option<Program>>>;

/// `ERROR_NOT_SUPPORTED`, which Windows is assumed to answer for a processor without branch records. No
/// document says so.
const NOT_SUPPORTED: u32 = 50;

/// A backend that measures a modelled machine by a trace.
#[derive(Debug)]
pub struct ModelledTracing<T: Transport + 'static> {
    /// Counts all that is counted or sampled, and time.
    session: Session<'static, T>,
    /// The session that runs.
    running: Option<TraceRequest>,
    /// Who takes the events of the session, if they are delivered, and the run that they are of. It
    /// begins with the first flush, when its program is known.
    live: Option<(Arc<dyn Consumer>, Option<LiveRun>)>,
    program: SharedProgram,
}

impl<T: Transport + 'static> ModelledTracing<T> {
    /// Measures the machine that this transport leads to.
    pub fn new(machine: T) -> Result<Self> {
        let session = Session::owning(Connection::new(machine)?, true, false)?;
        Ok(Self { session, running: None, live: None, program: SharedProgram::default() })
    }

    /// Shows the real program, when the machine runs one.
    #[must_use]
    pub fn running(mut self, program: SharedProgram) -> Self {
        self.program = program;
        self
    }

    /// How many branches each of its processors records; 0 if one of them records none.
    fn branch_depth(&mut self) -> Result<usize> {
        let processors = self.session.connection().processors()?;
        Ok(processors.iter().map(|processor| processor.branch_depth.into()).min().unwrap_or(0))
    }

    /// The machine that is measured.
    pub fn machine(&mut self) -> &mut T {
        self.session.transport()
    }

    /// Delivers what happened since the last time; returns the clock's time.
    fn deliver(&mut self, counts: &[Vec<Count>], goes_on: bool) -> Result<i64> {
        let no_session = || Error::Internal("no session delivers events".to_owned());
        let request = self.running.clone().ok_or_else(no_session)?;
        let run = self.run(&request, counts)?;
        let (consumer, live) = self.live.as_mut().ok_or_else(no_session)?;
        let live = live.get_or_insert_with(|| LiveRun::new(run.clone()));
        live.until(&run, goes_on, |record| consumer.record(record));
        Ok(live.now())
    }

    fn run(&mut self, request: &TraceRequest, counts: &[Vec<Count>]) -> Result<Run> {
        let ticks = counts.iter().filter_map(|counts| Some(counts.last()?.enabled)).max();
        let frequency = u128::from(self.session.connection().machine()?.timestamp_frequency.max(1));
        let length_us = u128::from(ticks.unwrap_or(0)) * 1_000_000 / frequency;
        let length_us = u64::try_from(length_us).unwrap_or(u64::MAX);
        if length_us > LONGEST_US {
            return Err(Error::unavailable(
                "the modelled run is longer than a day, and no trace is written of it",
                "Give smaller amounts, or a duration.",
            ));
        }
        let listed = self.sources()?;
        let depth = self.branch_depth()?;
        let order = sources_of(request);
        let traced = |source: SampledSource| {
            let index = order.iter().position(|&id| id == source.id);
            let events = |counts: &Vec<Count>| Some(counts.get(index?)?.counted);
            TracedSource {
                name: listed
                    .iter()
                    .find(|one| one.id == source.id)
                    .map_or_else(String::new, |one| one.name.clone()),
                source,
                events: counts.iter().filter_map(events).collect(),
            }
        };
        let counted = request.counted.iter().map(|&id| SampledSource { id, interval: 0 });
        Ok(Run {
            seed: 1,
            processors: counts.len() as u16,
            clock: ClockType::PerformanceCounter,
            pointer_size: PointerSize::Eight,
            length_us,
            counted: counted.map(traced).collect(),
            sampled: request.sampled.iter().copied().map(traced).collect(),
            stacks: request.stacks,
            wakings: request.waits,
            branches: request.branches.map(|filter| BranchRecording { depth, filter }),
            lost_buffers_one_in: 0,
            program: self.program.borrow().clone(),
        })
    }
}

/// The numbers of all that a session counts: each source that takes a counter, and time.
fn sources_of(request: &TraceRequest) -> Vec<u32> {
    let sampled = request.sampled.iter().map(|source| source.id);
    let sources = request.counted.iter().copied().chain(sampled);
    sources.filter(|&source| source != TIMER).chain([TIMER]).collect()
}

impl<T: Transport + 'static> Tracing for ModelledTracing<T> {
    /// Lists the HAL's sources that this machine's processor counts: Windows lists its HAL's.
    fn sources(&mut self) -> Result<Vec<ProfileSource>> {
        Ok(listed(self.session.connection())?.sources)
    }

    fn counters(&mut self) -> Result<Option<u32>> {
        Ok(listed(self.session.connection())?.counters)
    }

    fn start(&mut self, request: &TraceRequest) -> Result<Vec<SampledSource>> {
        if request.branches.is_some() && self.branch_depth()? == 0 {
            return Err(no_branch_records(NOT_SUPPORTED));
        }
        let specs: Vec<Spec> = sources_of(request)
            .into_iter()
            .map(|source| Spec { source, filter: Spec::USER | Spec::KERNEL, ..Spec::default() })
            .collect();
        let sources = specs.len() - 1;
        let effective = self.session.configure(&Setup { specs, ..Setup::default() }, false)?;
        if effective.head.slices > 1 {
            return Err(Error::NoFreeCounters { sources });
        }
        self.session.start()?;
        self.running = Some(request.clone());
        Ok(request.sampled.clone())
    }

    fn state(&mut self) -> Result<TraceState> {
        Ok(TraceState::default())
    }

    fn stop(&mut self) -> Result<(TraceFile, TraceState)> {
        let Some(request) = self.running.take() else {
            return Err(Error::Internal("no session runs".to_owned()));
        };
        let counts = self.session.stop_and_read()?;
        let run = self.run(&request, &counts)?;
        let folder = std::env::temp_dir();
        let failed = |error| Error::writing(&folder, error);
        let file = tempfile::Builder::new().suffix(".etl").tempfile_in(&folder).map_err(failed)?;
        let (file, path) = file.keep().map_err(|error| failed(error.error))?;
        let trace = TraceFile::new(path);
        let failed = |error| Error::writing(trace.path(), error);
        let (file, _) = run.write(file).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Ok((trace, TraceState { bytes, ..TraceState::default() }))
    }
}

impl<T: Transport + 'static> DeliverEvents for ModelledTracing<T> {
    fn start_delivery(
        &mut self,
        request: &TraceRequest,
        consumer: Arc<dyn Consumer>,
    ) -> Result<Started> {
        let sampled = self.start(request)?;
        let processors = self.session.connection().processors()?.len();
        let nothing = self.run(request, &vec![Vec::new(); processors])?;
        let clock = LiveRun::new(nothing).clock();
        let clock = clock.ok_or_else(|| Error::Internal("a clock without frequency".to_owned()))?;
        self.live = Some((consumer, None));
        Ok(Started { sampled, clock })
    }

    fn flush_delivery(&mut self) -> Result<Flushed> {
        let counts = self.session.snapshot()?;
        let time = self.deliver(&counts, true)?;
        Ok(Flushed { time, is_delivered: true, lost: 0 })
    }

    fn stop_delivery(&mut self) -> Result<TraceState> {
        let counts = self.session.stop_and_read()?;
        let delivered = self.deliver(&counts, false);
        self.running = None;
        if let Some((consumer, _)) = self.live.take() {
            consumer.ended();
        }
        delivered.map(|_| TraceState::default())
    }
}
