//! Modelled machines to measure, sources as a user names them, workloads as text.
#![expect(clippy::missing_panics_doc, reason = "what a test asks for is there, or the test fails")]

use halprof_measure::Source;
use halprof_measure::catalog::Catalog;
use halprof_measure::selection::parse_list;
use halprof_measure::{Connection, InProcess, Session, Setup};
use shared_types::Sample;
use shared_types::request::counts::Count;
use shared_types::request::samples::Statistics;
use shared_types::request::session::Spec;
use sim::load::workload::{Workload, parse};

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

/// A workload, as `--workload` takes it.
#[must_use]
pub fn workload(text: &str) -> Workload {
    parse(text).expect("a workload")
}

/// The sources that a list, as `-e` takes it, means on this machine.
#[must_use]
pub fn specs(connection: &mut Connection<InProcess>, list: &str) -> Vec<Spec> {
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
pub fn counting(
    connection: &mut Connection<InProcess>,
    specs: Vec<Spec>,
) -> Session<'_, InProcess> {
    let mut session = Session::open(connection, true, true).expect("a session");
    let setup = Setup { specs, approximate: true, ..Setup::default() };
    session.configure(&setup, false).expect("a configuration");
    session
}

/// Counts a whole workload; returns, for each processor, one count per source.
#[must_use]
pub fn count(
    connection: &mut Connection<InProcess>,
    specs: Vec<Spec>,
    workload: &Workload,
) -> Vec<Vec<Count>> {
    count_in_steps(connection, specs, workload, std::iter::repeat(u64::MAX))
}

/// The same, letting time pass in these steps, in nanoseconds.
#[must_use]
pub fn count_in_steps(
    connection: &mut Connection<InProcess>,
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
}

/// Samples a whole workload, in a session that may see kernel mode.
#[must_use]
pub fn sample(
    connection: &mut Connection<InProcess>,
    specs: Vec<Spec>,
    workload: &Workload,
) -> Sampled {
    let session = Session::open(connection, true, true).expect("a session");
    sample_in(session, specs, workload, 20_000_000)
}

/// Samples a whole workload, draining after each `step` nanoseconds.
#[must_use]
pub fn sample_in(
    mut session: Session<'_, InProcess>,
    specs: Vec<Spec>,
    workload: &Workload,
    step: u64,
) -> Sampled {
    let setup = Setup { specs, approximate: true, ..Setup::default() };
    session.configure(&setup, true).expect("a configuration");
    session.start().expect("a start");
    session.transport().begin(workload);
    let mut samples = Vec::new();
    while session.transport().advance(step).expect("no fault") {
        drain(&mut session, &mut samples);
    }
    session.stop().expect("a stop");
    drain(&mut session, &mut samples);
    Sampled {
        samples,
        statistics: session.statistics().expect("statistics"),
        counts: session.snapshot().expect("a snapshot"),
        elapsed: session.transport().elapsed_ns(),
    }
}

fn drain(session: &mut Session<'_, InProcess>, samples: &mut Vec<Sample>) {
    loop {
        let (more, left) = session.drain().expect("samples");
        samples.extend(more);
        if left == 0 {
            return;
        }
    }
}
