//! The tool on a backend that measures by a trace and runs anywhere: it writes the same few events
//! whatever runs.

use crate::cli::args::{Arguments, Commands};
use crate::output::table::Width;
use crate::output::{Form, Output};
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_etw::clock::ClockType;
use halprof_etw::payload::EventKind;
use halprof_etw::payload::counters::CounterNames;
use halprof_etw::payload::processor::{CounterSample, Sample, Switch};
use halprof_etw::{Clock, PointerSize};
use halprof_measure::tracing::live::{Consumer, Record};
use halprof_measure::tracing::session::{
    DeliverEvents, Flushed, ProfileSource, SampledSource, Started, TraceEnd, TraceFile,
    TraceRequest, TraceState, Tracing,
};
use halprof_measure::{Error, Result};
use sim_etw::write::{Origin, Session, Writer, content};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use tempfile::TempDir;

/// A context whose backend measures by a trace, on a Skylake.
pub(crate) fn context() -> (Context, Rc<RefCell<Log>>) {
    let (scripted, log) = ScriptedTracing::new().expect("a folder");
    let spec = halprof_measure::spec("skylake,processors=2").expect("a model");
    let backend = Backend::tracing(Box::new(scripted), &spec.leaves);
    (Context::open(backend).expect("a machine"), log)
}

/// The command of a command line, and an output in JSON.
pub(crate) fn command(arguments: &[&str]) -> (Commands, Output) {
    let arguments = [&["halprof"], arguments].concat();
    let parsed = Arguments::parse_from(arguments).expect("arguments");
    (parsed.command, Output::new(Form::Json, true, Width::UNLIMITED))
}

/// The samples that each source gets.
pub(crate) const SAMPLES: i64 = 3;

/// What a scripted backend was asked for, and what its sessions meet.
#[derive(Default)]
pub(crate) struct Log {
    /// The sessions that were asked for.
    pub(crate) requests: Vec<TraceRequest>,
    /// Why sessions end by themselves.
    pub(crate) ended: Option<TraceEnd>,
    /// How many counters others hold, of the two that there are.
    pub(crate) taken: usize,
    /// Whether a session runs.
    pub(crate) running: bool,
    /// What a session has lost at each flush.
    pub(crate) lost: u64,
}

/// The backend.
struct ScriptedTracing {
    folder: TempDir,
    log: Rc<RefCell<Log>>,
    consumer: Option<Arc<dyn Consumer>>,
    has_delivered: bool,
}

impl ScriptedTracing {
    /// A backend without sessions, with the log to look at and to change.
    fn new() -> io::Result<(Self, Rc<RefCell<Log>>)> {
        let log = Rc::<RefCell<Log>>::default();
        Ok((
            Self {
                folder: tempfile::tempdir()?,
                log: Rc::clone(&log),
                consumer: None,
                has_delivered: false,
            },
            log,
        ))
    }
}

impl Tracing for ScriptedTracing {
    fn sources(&mut self) -> Result<Vec<ProfileSource>> {
        let listed = [(0, "Timer"), (2, "TotalIssues"), (10, "CacheMisses"), (19, "TotalCycles")];
        let source = |(id, name): (u32, &str)| ProfileSource {
            id,
            name: name.to_owned(),
            min_interval: 4096,
            max_interval: 1 << 30,
            interval: 65_536,
        };
        Ok(listed.map(source).to_vec())
    }

    fn counters(&mut self) -> Result<Option<u32>> {
        Ok(Some(2))
    }

    fn start(&mut self, request: &TraceRequest) -> Result<Vec<SampledSource>> {
        let mut log = self.log.borrow_mut();
        assert!(!log.running, "one at a time");
        log.requests.push(request.clone());
        if request.counted.len() > 2 - log.taken {
            return Err(Error::NoFreeCounters { sources: request.counted.len() });
        }
        log.running = true;
        Ok(request.sampled.clone())
    }

    fn state(&mut self) -> Result<TraceState> {
        Ok(TraceState { ended: self.log.borrow().ended, ..TraceState::default() })
    }

    fn stop(&mut self) -> Result<(TraceFile, TraceState)> {
        let mut log = self.log.borrow_mut();
        log.running = false;
        let path = self.folder.path().join("session.etl");
        write(&path, log.requests.last().expect("it was started"));
        Ok((TraceFile::new(path), TraceState { events_lost: 7, ..TraceState::default() }))
    }
}

impl DeliverEvents for ScriptedTracing {
    fn start_delivery(
        &mut self,
        request: &TraceRequest,
        consumer: Arc<dyn Consumer>,
    ) -> Result<Started> {
        let sampled = self.start(request)?;
        let clock = Clock::new(ClockType::PerformanceCounter, 10_000_000, 1000);
        self.consumer = Some(consumer);
        Ok(Started { sampled, clock: clock.expect("a frequency") })
    }

    fn flush_delivery(&mut self) -> Result<Flushed> {
        let log = self.log.borrow();
        if log.ended.is_some() && self.has_delivered {
            return Err(Error::unavailable("another program stopped the session", "Try again."));
        }
        if let (Some(consumer), false) = (&self.consumer, self.has_delivered) {
            deliver(consumer.as_ref(), log.requests.last().expect("it was started"));
            self.has_delivered = true;
        }
        Ok(Flushed { time: 2000, is_delivered: true, lost: log.lost })
    }

    fn stop_delivery(&mut self) -> Result<TraceState> {
        let mut log = self.log.borrow_mut();
        log.running = false;
        if let Some(consumer) = self.consumer.take() {
            if !self.has_delivered {
                deliver(consumer.as_ref(), log.requests.last().expect("it was started"));
            }
            consumer.ended();
        }
        Ok(TraceState { ended: log.ended, ..TraceState::default() })
    }
}

/// Delivers the slice of [`write`].
fn deliver(consumer: &dyn Consumer, request: &TraceRequest) {
    for (time, old_thread, new_thread) in [(1002i64, 0, 8), (1012, 8, 0)] {
        let values = vec![10 * (time - 1000).cast_unsigned(); request.counted.len()];
        let values: Vec<u8> = values.iter().copied().flat_map(u64::to_le_bytes).collect();
        let kind = EventKind::Switch(Switch { new_thread, old_thread, ..Switch::default() });
        let (id, payload) = content(&kind, PointerSize::Eight).expect("it can be written");
        consumer.record(&Record { time, processor: 0, id, payload: &payload, values: &values });
    }
}

/// A trace in which thread 8 of process 4 gets [`SAMPLES`] of each sampled source, and runs for one
/// slice in which each counted source counts 100.
fn write(path: &Path, request: &TraceRequest) {
    let session = Session { processors: 2, origin: 1000, ..Session::default() };
    let mut writer = Writer::new(File::create(path).expect("a file"), session).expect("begun");
    for source in &request.sampled {
        for time in 0..SAMPLES {
            let origin = Origin { time: 1001 + time, processor: 0, thread: 8, process: 4 };
            let ip = 0x7FF7_0000_1000;
            let kind = match source.id {
                0 => EventKind::Sample(Sample { ip, thread: 8, count: 1, reserved: 0 }),
                id => {
                    let (thread, source) = (8, id as u16);
                    EventKind::CounterSample(CounterSample { ip, thread, source, reserved: 0 })
                }
            };
            writer.event(origin, &kind, &[]).expect("written");
        }
    }
    if !request.counted.is_empty() {
        let names = request.counted.iter().map(|id| format!("source {id}")).collect();
        let origin = |time| Origin { time, processor: 0, thread: 8, process: 4 };
        let names = EventKind::CounterNames(CounterNames { names });
        writer.event(origin(1001), &names, &[]).expect("written");
        for (time, old_thread, new_thread) in [(1002i64, 0, 8), (1012, 8, 0)] {
            let counts = vec![10 * (time - 1000).cast_unsigned(); request.counted.len()];
            let switch = EventKind::Switch(Switch { new_thread, old_thread, ..Switch::default() });
            writer.event(origin(time), &switch, &counts).expect("written");
        }
    }
    writer.finish(133_000_000_010_000_000).expect("finished");
}
