//! Modelled machines to measure, sources as a user names them, workloads as text.
#![expect(clippy::missing_panics_doc, reason = "what a test asks for is there, or the test fails")]

use crate::backend::{Backend, unbroken};
use crate::wire::RawClient;
use halprof_measure::Source;
use halprof_measure::catalog::Catalog;
use halprof_measure::selection::parse_list;
use halprof_measure::{
    Connection, Error, InProcess, ModelledMachine, Result, Session, Setup, Transport,
};
use shared_types::request::RequestCode;
use shared_types::request::counts::Count;
use shared_types::request::samples::Statistics;
use shared_types::request::session::Spec;
use shared_types::{LossCause, NtStatus, Sample};
use sim::load::workload::{Workload, parse, parse_with};

/// A machine with this many processors of a built-in model; 0: as many as the model has.
#[must_use]
pub fn machine(model: &str, processors: usize) -> Connection<InProcess> {
    let model = sim::machines::models::find(model).expect("a built-in model");
    let leaves = match processors {
        0 => model.processors(),
        n => sim::machines::models::repeat(&model.processors(), n),
    };
    Connection::new(InProcess::new(&leaves)).expect("a greeting")
}

/// A client of a backend, as the library's transport. When it goes, nothing may be left, and no
/// rule broken.
pub struct Client<B: Backend>(pub RawClient<B>);

impl<B: Backend> Transport for Client<B> {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let RawClient { model, handle } = &mut self.0;
        match unbroken(model.request(handle, code, input, output)) {
            (NtStatus::SUCCESS, length) => Ok(length),
            (refused, _) => Err(Error::Status(refused)),
        }
    }
}

impl<B: Backend> ModelledMachine for Client<B> {
    fn begin(&mut self, workload: &Workload) {
        self.0.model.begin(workload);
    }

    fn advance(&mut self, nanoseconds: u64) -> Result<bool> {
        Ok(self.0.advance(nanoseconds))
    }

    fn elapsed_ns(&mut self) -> u64 {
        self.0.model.elapsed_ns()
    }
}

impl<B: Backend> Drop for Client<B> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.finish();
        }
    }
}

/// A machine as `--machine` names it, without a dump, on a backend.
#[must_use]
pub fn on<B: Backend>(spec: &str) -> Connection<Client<B>> {
    let none = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
    let machine = sim::machines::machine(spec, none).expect("a machine");
    Connection::new(Client(RawClient::of(&machine.leaves))).expect("a greeting")
}

/// The machine of a dump, with options such as `quirks=late`.
///
/// # Panics
/// If there is no such machine, or the driver does not greet.
#[must_use]
pub fn on_dump<B: Backend>(dump: &str, options: &str) -> Connection<Client<B>> {
    let read = |path: &std::path::Path| match path.to_str() {
        Some("dump") => Ok(dump.as_bytes().to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let machine = sim::machines::machine(&format!("dump,{options}"), read).expect("a machine");
    Connection::new(Client(RawClient::of(&machine.leaves))).expect("a greeting")
}

/// A workload that names the vendor's events of a machine.
///
/// # Panics
/// If it is none.
pub fn workload_of<M: ModelledMachine>(connection: &mut Connection<M>, text: &str) -> Workload {
    let catalog = Catalog::read(connection, true).expect("what it counts");
    parse_with(text, &|name| catalog.modelled(name, None)).expect("a workload")
}

/// A workload, as `--workload` takes it.
#[must_use]
pub fn workload(text: &str) -> Workload {
    parse(text).expect("a workload")
}

/// The sources that a list, as `-e` takes it, means on this machine.
#[must_use]
pub fn specs<M: ModelledMachine>(connection: &mut Connection<M>, list: &str) -> Vec<Spec> {
    let mut items = Vec::new();
    parse_list(list, &mut items).expect("a list");
    let catalog = Catalog::read(connection, true).expect("what it counts");
    let events = catalog.resolve(&items).expect("sources of this machine");
    events.into_iter().flat_map(|event| event.specs).collect()
}

/// A source that counts in these modes, a combination of [`Spec::USER`] and [`Spec::KERNEL`].
#[must_use]
pub fn spec(source: &Source, filter: u16) -> Spec {
    Spec { source: source.id, filter, ..Spec::default() }
}

/// A session that may see kernel mode, configured to count on all processors.
#[must_use]
pub fn counting<M: ModelledMachine>(
    connection: &mut Connection<M>,
    specs: Vec<Spec>,
) -> Session<'_, M> {
    let mut session = Session::open(connection, true, true).expect("a session");
    let setup = Setup { specs, approximate: true, ..Setup::default() };
    session.configure(&setup, false).expect("a configuration");
    session
}

/// Counts a whole workload; returns, for each processor, one count per source.
#[must_use]
pub fn count<M: ModelledMachine>(
    connection: &mut Connection<M>,
    specs: Vec<Spec>,
    workload: &Workload,
) -> Vec<Vec<Count>> {
    count_in_steps(connection, specs, workload, std::iter::repeat(u64::MAX))
}

/// The same, letting time pass in these steps, in nanoseconds.
#[must_use]
pub fn count_in_steps<M: ModelledMachine>(
    connection: &mut Connection<M>,
    specs: Vec<Spec>,
    workload: &Workload,
    steps: impl IntoIterator<Item = u64>,
) -> Vec<Vec<Count>> {
    let mut session = counting(connection, specs);
    session.start().expect("a start");
    session.transport().begin(workload);
    for step in steps {
        if !session.transport().advance(step).expect("no fault") {
            break;
        }
    }
    session.stop().expect("a stop");
    session.snapshot().expect("a snapshot")
}

/// The results of a run that sampled.
#[derive(Debug)]
pub struct Sampled {
    /// All samples, drained while it ran.
    pub samples: Vec<Sample>,
    /// The statistics of all samples.
    pub statistics: Statistics,
    /// The counts of each processor.
    pub counts: Vec<Vec<Count>>,
    /// Modelled time, in nanoseconds.
    pub elapsed: u64,
}

impl Sampled {
    /// The number of samples of one source on one processor.
    #[must_use]
    pub fn of(&self, processor: u32, source: u16) -> usize {
        let is_its = |sample: &&Sample| (sample.processor, sample.source) == (processor, source);
        self.samples.iter().filter(is_its).count()
    }

    /// What is wrong with the report of its only source on one processor, sampled every `period`:
    /// `None` if each period and each event is in a sample or in a loss, and no more than `missed`
    /// periods had no interrupt.
    #[must_use]
    pub fn unaccounted(&self, period: u64, missed: u64) -> Option<String> {
        let statistics = &self.statistics;
        let counted = self.counts[0][0].counted;
        let sampled: u64 = self.samples.iter().map(|sample| sample.period).sum();
        let lost: u64 = statistics.lost_events.iter().sum();
        let generated = statistics.stored + statistics.lost.iter().sum::<u64>();
        let most = statistics.longest_period.max(period);
        let periods = statistics.generated.abs_diff(counted / period);
        let wrong = [
            ("events are in no sample and no loss", (sampled + lost).abs_diff(counted) > most),
            ("generated is not stored and lost", generated != statistics.generated),
            ("periods are missing", statistics.throttled == 0 && periods > 1),
            ("interrupts were lost", statistics.lost[LossCause::Missed as usize] > missed),
            ("the session was ended", statistics.ended != 0),
        ];
        let wrong: Vec<&str> = wrong.iter().filter(|(_, is)| *is).map(|(what, _)| *what).collect();
        (!wrong.is_empty()).then(|| {
            format!(
                "{}: {counted} events, {sampled} in {} samples; {statistics:?}",
                wrong.join(", "),
                self.samples.len()
            )
        })
    }
}

/// Samples a whole workload, in a session that may see kernel mode.
#[must_use]
pub fn sample<M: ModelledMachine>(
    connection: &mut Connection<M>,
    specs: Vec<Spec>,
    workload: &Workload,
) -> Sampled {
    let session = Session::open(connection, true, true).expect("a session");
    sample_in(session, specs, workload, 20_000_000)
}

/// Samples a whole workload, draining after each `step` nanoseconds.
#[must_use]
pub fn sample_in<M: ModelledMachine>(
    session: Session<'_, M>,
    specs: Vec<Spec>,
    workload: &Workload,
    step: u64,
) -> Sampled {
    try_sample_in(session, specs, workload, step).expect("nothing is refused, no rule broken")
}

/// The same; what is refused, and a rule that is broken, is returned.
pub fn try_sample_in<M: ModelledMachine>(
    mut session: Session<'_, M>,
    specs: Vec<Spec>,
    workload: &Workload,
    step: u64,
) -> Result<Sampled> {
    let setup = Setup { specs, approximate: true, ..Setup::default() };
    session.configure(&setup, true)?;
    session.start()?;
    session.transport().begin(workload);
    let mut samples = Vec::new();
    while session.transport().advance(step)? {
        drain(&mut session, &mut samples)?;
    }
    session.stop()?;
    drain(&mut session, &mut samples)?;
    Ok(Sampled {
        samples,
        statistics: session.statistics()?,
        counts: session.snapshot()?,
        elapsed: session.transport().elapsed_ns(),
    })
}

fn drain<M: ModelledMachine>(
    session: &mut Session<'_, M>,
    samples: &mut Vec<Sample>,
) -> Result<()> {
    loop {
        let (more, left) = session.drain()?;
        samples.extend(more);
        if left == 0 {
            return Ok(());
        }
    }
}
