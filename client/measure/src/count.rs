//! Counts a piece of code: start, run it, stop; and measures the overhead of doing so.
//!
//! ```
//! use halprof_measure::{Connection, Machine, Sources, measure};
//! # fn main() -> halprof_measure::Result<()> {
//! let mut connection = Connection::new(Machine::open(Some("skylake"))?)?; // a modelled machine
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
use crate::connection::{Connection, Setup};
use crate::error::{Error, Result};
use crate::estimate::Estimate;
use crate::live_tracing::{Countable, Live, locked};
use crate::selection::{self, EventSpec, Item};
use crate::session::Session;
use crate::session::SessionConnection;
use crate::tracing::session::plan::{self, COUNTERS, TraceEvent};
use crate::transport::Transport;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use std::collections::BTreeSet;

/// How often an empty region is measured to find the overhead. The least of several is reported, so
/// that an interrupt in one run does not count.
const EMPTY_RUNS: usize = 5;

/// Sources by name, ready to count.
#[derive(Clone, Debug)]
pub struct Sources {
    list: Vec<NamedSource>,
    /// What Windows' own tracing counts in their place, where that measures.
    traced: Vec<TraceEvent>,
    /// The processors to count on; empty for all.
    processors: Vec<u32>,
    /// Every processor of the machine.
    machine: Vec<Processor>,
}

#[derive(Clone, Debug)]
struct NamedSource {
    /// An event with one specification. An event that CPU types count in different ways becomes
    /// several sources.
    event: EventSpec,
    /// The indexes of the processors that can count it.
    counted_on: Vec<usize>,
}

/// Sources that one session of Windows' own tracing counts.
pub(crate) struct TracedSet {
    pub(crate) sources: Sources,
    /// Whether the first source counts instructions, as in every other set.
    pub(crate) has_anchor: bool,
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
        if let Some(live) = connection.live() {
            return Self::traced(&items, &live);
        }
        let catalog = Catalog::read(connection, false)?;
        let machine = connection.processors()?;
        let mut named = Vec::new();
        for event in catalog.resolve(&items)? {
            for &spec in &event.specs {
                let event = EventSpec { specs: vec![spec], ..event.clone() };
                let counted_on = machine
                    .iter()
                    .filter(|processor| catalog.counts_on(&event, processor))
                    .map(|processor| processor.index as usize)
                    .collect();
                named.push(NamedSource { event, counted_on });
            }
        }
        Ok(Self { list: named, traced: Vec::new(), processors: Vec::new(), machine })
    }

    /// All of them have to be counted at once: a region is too short to be scaled.
    fn traced(items: &[Item], live: &Live) -> Result<Self> {
        let Countable { sources, counters } = locked(&*live.tracing).countable()?;
        let mut traced = plan::resolve(items, &sources)?;
        traced.retain(|event| !event.is_time_by_chance());
        plan::sessions(&traced, counters, false)?;
        Ok(Self { list: Vec::new(), traced, processors: Vec::new(), machine: Vec::new() })
    }

    /// The sources of a list in sets of at most so many, each of which one session of Windows' own tracing
    /// counts. Instructions are the first of each set, if Windows lists them and has room for another.
    pub(crate) fn traced_sets(list: &str, live: &Live, most: u32) -> Result<Vec<TracedSet>> {
        let mut items = Vec::new();
        selection::parse_list(list, &mut items)?;
        let Countable { sources, counters } = locked(&*live.tracing).countable()?;
        let mut named = plan::resolve(&items, &sources)?;
        named.retain(|event| !event.is_time_by_chance());
        let most = counters.unwrap_or(COUNTERS).min(most);
        let anchor = plan::find("instructions", &sources).filter(|_| most > 1);
        let own = anchor.and_then(|anchor| named.iter().position(|one| one.source == anchor.id));
        let anchor = match own {
            Some(own) => Some(named.remove(own)),
            None => anchor.map(|anchor| TraceEvent::chosen(anchor, None)),
        };
        let room = most - u32::from(anchor.is_some());
        let sets = plan::sessions(&named, Some(room), true)?;
        let set = |indexes: Vec<usize>| {
            let others = indexes.into_iter().filter_map(|index| named.get(index).cloned());
            let traced = anchor.iter().cloned().chain(others).collect();
            let sources =
                Self { list: Vec::new(), traced, processors: Vec::new(), machine: Vec::new() };
            TracedSet { sources, has_anchor: anchor.is_some() }
        };
        Ok(sets.into_iter().map(set).collect())
    }

    /// These sources on these processors only. A name that none of them counts stays, and the
    /// refusal says where it can be counted.
    pub fn on(mut self, processors: &[u32]) -> Self {
        self.processors = processors.to_vec();
        let cpu_types = self.cpu_types();
        let counted: BTreeSet<String> = self
            .list
            .iter()
            .filter(|source| source.is_counted_by(cpu_types))
            .map(|source| source.event.label.clone())
            .collect();
        self.list.retain(|source| {
            source.is_counted_by(cpu_types) || !counted.contains(&source.event.label)
        });
        self
    }

    /// Their names, each with its filter if it has one, in the order of all counts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let traced = self.traced.iter();
        let traced = traced.map(|event| event.requested.as_deref().unwrap_or(&event.name));
        self.list.iter().map(|source| source.event.label.as_str()).chain(traced)
    }

    /// Windows' numbers of what its own tracing counts.
    pub(crate) fn traced_ids(&self) -> Vec<u32> {
        self.traced.iter().map(|event| event.source).collect()
    }

    pub(crate) fn events(&self) -> Vec<EventSpec> {
        self.list.iter().map(|source| source.event.clone()).collect()
    }

    /// The processors to count on; empty for all.
    pub(crate) fn processors(&self) -> &[u32] {
        &self.processors
    }

    /// The CPU types of the processors that they are counted on, as a mask.
    pub(crate) fn cpu_types(&self) -> u16 {
        types_of(self.machine.iter().filter(|processor| {
            self.processors.is_empty() || self.processors.contains(&processor.index)
        }))
    }

    /// Starts counting them. The session ends when it is dropped.
    pub fn start<'a, T: Transport>(
        &self,
        connection: &'a mut Connection<T>,
    ) -> Result<Session<'a, T>> {
        let mut session = self.open(SessionConnection::Borrowed(connection))?;
        session.configure(&self.setup(), false).map_err(|error| self.named_in(error))?;
        session.start()?;
        Ok(session)
    }

    /// Opens a session that can count them.
    pub(crate) fn open<'a, T: Transport>(
        &self,
        connection: SessionConnection<'a, T>,
    ) -> Result<Session<'a, T>> {
        let sees_kernel = self.setup().specs.iter().any(|spec| spec.filter & Spec::KERNEL != 0);
        Session::open_with(connection, sees_kernel, false)
    }

    /// The setup that a session counts them with.
    pub fn setup(&self) -> Setup {
        Setup {
            specs: self.list.iter().map(|source| source.event.common()).collect(),
            processors: self.processors.clone(),
            ..Setup::default()
        }
    }

    /// The setup for counts by thread, on all processors because a thread runs anywhere.
    pub(crate) fn by_thread(&self) -> Setup {
        Setup { threads: true, processors: Vec::new(), ..self.setup() }
    }

    /// The sources of `first`, followed by these.
    pub(crate) fn prepend(mut self, first: &Self) -> Self {
        self.list.splice(0..0, first.list.iter().cloned());
        self
    }

    /// The subset of these sources at the given indexes.
    pub(crate) fn only(&self, indexes: &[usize]) -> Self {
        let list = indexes.iter().filter_map(|&index| self.list.get(index).cloned());
        Self { list: list.collect(), ..self.clone() }
    }

    /// The error, with the name of the source that it concerns.
    pub(crate) fn named_in(&self, error: Error) -> Error {
        error.about(|id| {
            let mut events = self.list.iter().map(|source| &source.event);
            events.find(|event| event.common().source == id).map(|event| event.label.clone())
        })
    }
}

impl NamedSource {
    fn is_counted_by(&self, cpu_types: u16) -> bool {
        let mask = self.event.common().cpu_types;
        mask == 0 || mask & cpu_types != 0
    }

    /// What it counted on the processors that can count it; `index` is its own in the counts.
    fn sum(&self, counts: &[Vec<Count>], index: usize) -> Estimate {
        let counts = self.counted_on.iter().filter_map(|&cpu| counts.get(cpu)?.get(index));
        Estimate::sum(counts.map(Estimate::new))
    }
}

/// Counts while some code runs. The code is given the transport, because a modelled machine only
/// does something if the code makes it.
pub fn measure<T: Transport, R>(
    connection: &mut Connection<T>,
    sources: &Sources,
    code: impl FnOnce(&mut T) -> R,
) -> Result<Measured<R>> {
    let mut overheads = vec![u128::MAX; sources.list.len()];
    for _ in 0..EMPTY_RUNS {
        let counts = sources.start(connection)?.stop_and_read()?;
        for (index, (source, least)) in sources.list.iter().zip(&mut overheads).enumerate() {
            *least = source.sum(&counts, index).value.unwrap_or(0).min(*least);
        }
    }
    let mut session = sources.start(connection)?;
    let result = code(session.transport());
    let counts = session.stop_and_read()?;
    let mut measured = Measured { result, counts: Vec::new() };
    for (index, (source, overhead)) in sources.list.iter().zip(overheads).enumerate() {
        measured.counts.push(SourceCount {
            source: source.event.label.clone(),
            estimate: source.sum(&counts, index),
            overhead,
        });
    }
    Ok(measured)
}
