//! Counts a piece of code: start, run it, stop, and tell how much of the count is measuring
//! overhead.
//!
//! ```
//! use halprof_measure::{Sources, measure};
//! # fn main() -> halprof_measure::Result<()> {
//! # let leaves = halprof_measure::spec("skylake")?.leaves;
//! # let mut connection = halprof_measure::Connection::new(halprof_measure::InProcess::new(&leaves))?;
//! let sources = Sources::named(&mut connection, "TotalIssues:u,TotalCycles:u")?.on(&[0]);
//! let measured = measure(&mut connection, &sources, |_machine| (1..=20u64).product::<u64>())?;
//! for count in &measured.counts {
//!     let value = count.estimate.value.expect("no sources take turns here");
//!     println!("{value} {} (measuring: {})", count.source, count.overhead);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What is counted is what the chosen *processors* do in the meantime, not what the thread does:
//! other threads, and interrupts unless `:u` excludes them, are in the counts. Pin the thread to a
//! processor ([`Sources::on`] counts on that one alone), measure several times on a quiet system,
//! and take the minimum. A modelled machine does nothing but run its workload: the code makes it
//! run, which is why it is given the machine.

use crate::catalog::{Catalog, types_of};
use crate::estimate::Estimate;
use crate::selection::{self, EventSpec};
use crate::{Connection, Error, Result, Session, Setup, Transport};
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;

/// How often an empty region is measured to find the overhead.
const EMPTY_RUNS: usize = 5;

/// Sources by name, ready to count.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Each has one specification: an event that CPU types count in different ways is several.
    events: Vec<EventSpec>,
    setup: Setup,
    /// For each source, the processors that can count it.
    able: Vec<Vec<usize>>,
    /// Every processor of the machine.
    machine: Vec<Processor>,
}

/// What happened while some code ran.
#[derive(Clone, Debug)]
pub struct Measured<R> {
    /// What the code returned.
    pub result: R,
    /// One count for each source, in the order of their names.
    pub counts: Vec<SourceCount>,
}

/// One source's count on all chosen processors.
#[derive(Clone, Debug)]
pub struct SourceCount {
    /// The source, as it was named.
    pub source: String,
    /// What was counted, measuring overhead included.
    pub estimate: Estimate,
    /// The least that was counted while nothing was measured. It is reported and not subtracted:
    /// what the processors do besides running the code differs from one run to the next.
    pub overhead: u128,
}

impl Sources {
    /// Reads a list of sources such as `TotalIssues,CacheMisses:u` or `{TotalIssues,TotalCycles}`:
    /// see [`selection`]. They are counted on every processor.
    pub fn named<T: Transport>(connection: &mut Connection<T>, list: &str) -> Result<Self> {
        let mut items = Vec::new();
        selection::parse_list(list, &mut items)?;
        let catalog = Catalog::read(connection, false)?;
        let mut events = Vec::new();
        for event in catalog.resolve(&items)? {
            let each =
                event.specs.iter().map(|&spec| EventSpec { specs: vec![spec], ..event.clone() });
            events.extend(each);
        }
        let processors = connection.processors()?;
        let able = |event: &EventSpec| {
            let able = processors.iter();
            let able = able.filter(|processor| catalog.counts_on(event, processor));
            able.map(|processor| processor.index as usize).collect()
        };
        let able = events.iter().map(able).collect();
        let setup =
            Setup { specs: events.iter().map(EventSpec::common).collect(), ..Setup::default() };
        Ok(Self { events, setup, able, machine: processors })
    }

    /// The same sources on these processors only.
    #[must_use]
    pub fn on(mut self, processors: &[u32]) -> Self {
        self.setup.processors = processors.to_vec();
        self.only(&counted_on(&self.events, self.cpu_types()))
    }

    /// Their names, each with its filter if it has one, in the order of all counts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.events.iter().map(|event| event.label.as_str())
    }

    pub(crate) fn events(&self) -> &[EventSpec] {
        &self.events
    }

    /// The CPU types of the processors that they are counted on, as a mask.
    pub(crate) fn cpu_types(&self) -> u16 {
        let wanted = &self.setup.processors;
        let measured = |one: &&Processor| wanted.is_empty() || wanted.contains(&one.index);
        types_of(self.machine.iter().filter(measured))
    }

    /// Starts counting them. The session ends when it is dropped.
    pub fn start<'a, T: Transport>(
        &self,
        connection: &'a mut Connection<T>,
    ) -> Result<Session<'a, T>> {
        let mut session = self.open(connection)?;
        let configured = session.configure(&self.setup, false);
        configured.map_err(|error| self.named_in(error))?;
        session.start()?;
        Ok(session)
    }

    /// Opens a session that can count them.
    pub(crate) fn open<'a, T: Transport>(
        &self,
        connection: &'a mut Connection<T>,
    ) -> Result<Session<'a, T>> {
        let kernel = |spec: &Spec| spec.filter & Spec::KERNEL != 0;
        let sees_kernel = self.setup.specs.iter().any(kernel);
        Session::open(connection, sees_kernel, false)
    }

    /// The setup that a session counts them with.
    #[must_use]
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The same setup, counted by thread, on all processors because a thread runs anywhere.
    pub(crate) fn by_thread(&self) -> Setup {
        Setup { threads: true, processors: Vec::new(), ..self.setup.clone() }
    }

    /// The sources of `first`, followed by these.
    pub(crate) fn prepend(mut self, first: &Self) -> Self {
        self.events.splice(0..0, first.events.iter().cloned());
        let specs = &mut self.setup.specs;
        specs.splice(0..0, first.setup.specs.iter().copied());
        self.able.splice(0..0, first.able.iter().cloned());
        self
    }

    /// The subset of these sources at the given indices.
    pub(crate) fn only(&self, places: &[usize]) -> Self {
        let events = places.iter().filter_map(|&place| self.events.get(place));
        Self {
            events: events.cloned().collect(),
            setup: self.setup.only(places),
            able: places.iter().filter_map(|&place| self.able.get(place).cloned()).collect(),
            machine: self.machine.clone(),
        }
    }

    /// What one source counted on the processors that can count it.
    fn sum(&self, counts: &[Vec<Count>], source: usize) -> Estimate {
        let able = self.able.get(source).into_iter().flatten();
        let counts = able.filter_map(|&processor| counts.get(processor)?.get(source));
        Estimate::sum(counts.map(Estimate::new))
    }

    /// The error, with the name of the source that it concerns.
    pub(crate) fn named_in(&self, error: Error) -> Error {
        error.about(|id| self.name(id))
    }

    fn name(&self, id: u32) -> Option<String> {
        let event = self.events.iter().find(|event| event.common().source == id);
        event.map(|event| event.label.clone())
    }
}

/// The indexes of those that these CPU types count. A name that none of them counts stays, and the
/// refusal says where it can be counted.
fn counted_on(events: &[EventSpec], cpu_types: u16) -> Vec<usize> {
    let counts = |event: &EventSpec| {
        let kinds = event.common().kinds;
        kinds == 0 || kinds & cpu_types != 0
    };
    let is_counted = |event: &EventSpec| {
        let mut same = events.iter().filter(|other| other.label == event.label);
        counts(event) || !same.any(counts)
    };
    let indexes = events.iter().enumerate().filter(|(_, event)| is_counted(event));
    indexes.map(|(index, _)| index).collect()
}

/// Counts while some code runs. The code is given the transport, because a modelled machine only
/// does something if the code makes it.
pub fn measure<T: Transport, R>(
    connection: &mut Connection<T>,
    sources: &Sources,
    code: impl FnOnce(&mut T) -> R,
) -> Result<Measured<R>> {
    let mut least = vec![u128::MAX; sources.events.len()];
    for _ in 0..EMPTY_RUNS {
        let counts = sources.start(connection)?.stop_and_read()?;
        for (source, least) in least.iter_mut().enumerate() {
            let value = sources.sum(&counts, source).value;
            *least = value.unwrap_or(0).min(*least);
        }
    }
    let mut session = sources.start(connection)?;
    let result = code(session.transport());
    let counts = session.stop_and_read()?;
    let of_source = |((source, name), overhead): ((usize, &str), u128)| SourceCount {
        source: name.to_owned(),
        estimate: sources.sum(&counts, source),
        overhead,
    };
    let named = sources.names().enumerate().zip(least);
    Ok(Measured { result, counts: named.map(of_source).collect() })
}
