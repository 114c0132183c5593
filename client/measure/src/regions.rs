//! Named regions of code: counts for each passage, by thread, and statistics over them.
//!
//! ```
//! use halprof_measure::regions::Regions;
//! use halprof_measure::{Connection, Machine, Sources};
//! # fn main() -> halprof_measure::Result<()> {
//! let mut connection = Connection::new(Machine::open(Some("skylake"))?)?; // a modelled machine
//! let sources = Sources::named(&mut connection, "TotalIssues:u,BranchInstructions:u")?;
//! let regions = Regions::open(&mut connection, &sources)?;
//!
//! let thread = regions.thread("main")?; // one for each thread, made by the thread itself
//! for _ in 0..100 {
//!     let _parse = thread.enter("parse")?; // until the guard is dropped
//!     let _lex = thread.enter("lex")?; // regions nest
//! }
//! drop(thread);
//!
//! let report = regions.report();
//! print!("{report}"); // the table; `report.csv()`, and serde for JSON
//! for row in &report.regions {
//!     println!("{}: {} {}", row.name, row.median, row.source);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The report's [`Method`] says where the counts come from: from the thread alone if Windows
//! accumulates them for it, otherwise from whole processors. The cost of entering and leaving is
//! measured when a thread begins, subtracted from each passage, nested ones included, and shown in
//! rows of its own. Count `:u` where you can: interrupts run in kernel mode. A thread reads only
//! general counters: an event that only a fixed counter counts is read with whole processors.
//!
//! Programs that keep numbers of their own read and subtract: see [`ThreadCounts`].
//!
//! Only sources that fit at once can be counted; [`sweep`] runs a region repeatedly to count all.

mod counters;
mod distribution;
mod method;
mod report;
mod sweep;
#[cfg(test)]
mod tests;
mod thread_counts;

pub use counters::Discard;
use counters::EVENTS_MAX;
pub use distribution::{Distribution, RULE};
pub use method::Method;
pub use report::{Discarded, RegionRow, Report};
pub use sweep::{Pass, Sweep, sweep};
pub use thread_counts::{CounterValues, ThreadCounts};

use crate::connection::Connection;
use crate::count::Sources;
use crate::error::{Error, Result};
use crate::platform::Platform;
use crate::session::Session;
use crate::session::SessionConnection;
use crate::transport::Transport;
use counters::{Counters, Processors, Reading};
use method::Offer;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The number of passages of one region that a thread keeps; any more are counted as
/// [`Discard::Full`].
const PASSAGES_MAX: usize = 1 << 20;

/// The number of times that an empty region is measured when a thread begins.
const CALIBRATIONS: usize = 64;

/// Sources counted for the regions of any number of threads. Counting ends when this is dropped.
#[derive(Debug)]
pub struct Regions<'a, T: Transport> {
    session: Arc<Mutex<Session<'a, T>>>,
    offer: Offer<'a>,
    sources: Vec<String>,
    /// The report, without any thread's counts.
    about: Report,
    /// The chosen processors; empty for all.
    processors: Vec<u32>,
    logs: Mutex<Vec<Log>>,
}

impl<'a, T: Transport> Regions<'a, T> {
    /// Starts counting by the best available method: see [`Method`]. All sources must fit on the
    /// counters at once.
    pub fn open(connection: &'a mut Connection<T>, sources: &Sources) -> Result<Self> {
        Self::open_by(connection, sources, None)
    }

    /// The same by this method, or not at all.
    pub fn open_by(
        connection: &'a mut Connection<T>,
        sources: &Sources,
        method: Option<Method>,
    ) -> Result<Self> {
        let platform = method::platform(connection.modelled());
        Self::open_on(connection, sources, method, platform)
    }

    fn open_on(
        connection: &'a mut Connection<T>,
        sources: &Sources,
        method: Option<Method>,
        platform: Option<&'a dyn Platform>,
    ) -> Result<Self> {
        Self::open_with(SessionConnection::Borrowed(connection), sources, method, platform)
    }

    fn open_with(
        mut connection: SessionConnection<'a, T>,
        sources: &Sources,
        method: Option<Method>,
        platform: Option<&'a dyn Platform>,
    ) -> Result<Self> {
        check_fit(&mut connection, sources)?;
        let modelled = connection.modelled();
        let ticks_a_second = connection.machine()?.timestamp_frequency;
        let (session, offer, rejected) = method::choose(connection, sources, method, platform)?;
        let about = Report {
            modelled,
            method: offer.method(),
            rejected,
            reading_ns: 0.0,
            clock: offer.clock_in_words(),
            ticks_a_second,
            rule: RULE.to_owned(),
            regions: Vec::new(),
            discarded: Vec::new(),
        };
        Ok(Self {
            session: Arc::new(Mutex::new(session)),
            offer,
            sources: sources.names().map(str::to_owned).collect(),
            about,
            processors: sources.processors().to_vec(),
            logs: Mutex::new(Vec::new()),
        })
    }

    /// The method of counting.
    pub const fn method(&self) -> Method {
        self.about.method
    }

    /// The regions of the calling thread, under a name for the report. First measures the cost of
    /// measuring.
    pub fn thread(&self, name: &str) -> Result<Thread<'_>>
    where
        T: Send,
    {
        self.thread_on(name, &[])
    }

    /// The same for a thread that runs on these processors only, where the caller has pinned it. If
    /// whole processors are counted, only these are; the other methods count the thread wherever it
    /// runs.
    pub fn thread_on(&self, name: &str, processors: &[u32]) -> Result<Thread<'_>>
    where
        T: Send,
    {
        let thread = self.uncalibrated_thread(name, processors)?;
        for _ in 0..CALIBRATIONS {
            let _outer = thread.enter(RegionRow::EMPTY_NESTED)?;
            let _inner = thread.enter(RegionRow::EMPTY)?;
        }
        Ok(thread)
    }

    /// The same without measuring the cost of measuring, for a caller whose own call path is
    /// longer: it enters [`RegionRow::EMPTY_NESTED`], and [`RegionRow::EMPTY`] inside it, several
    /// times by that path.
    pub fn uncalibrated_thread(&self, name: &str, processors: &[u32]) -> Result<Thread<'_>>
    where
        T: Send,
    {
        let mut counters = self.offer.counters(&self.session, processors)?;
        let mut log = Log::new(name, self.sources.len());
        log.reading_ns = reading_ns(counters.as_mut())?;
        Ok(Thread {
            counters: RefCell::new(counters),
            log: RefCell::new(log),
            passages: Cell::new(0),
            logs: &self.logs,
        })
    }

    /// What the chosen processors have counted since the start, by any method: one total for each
    /// source.
    pub fn totals(&self) -> Result<Vec<u64>> {
        let processors = Processors {
            session: Arc::clone(&self.session),
            indexes: self.processors.clone(),
            platform: None,
        };
        let reading = processors.read()?;
        Ok(reading.values.into_iter().take(self.sources.len()).collect())
    }

    /// Lends the transport, for a modelled machine, which only runs when it is made to.
    pub fn with_transport<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(lock(&self.session).transport())
    }

    /// The report on the threads that have ended.
    pub fn report(&self) -> Report {
        self.about.clone().with_logs(&self.sources, &lock(&self.logs))
    }
}

/// A measurement is pushed whole or not at all, so another thread's panic does it no harm.
fn lock<L>(mutex: &Mutex<L>) -> MutexGuard<'_, L> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails unless the sources fit at once: a passage is too short to be scaled.
fn check_fit<T: Transport>(connection: &mut Connection<T>, sources: &Sources) -> Result<()> {
    let count = sources.names().count();
    let fit = connection.plan(&sources.setup()).map_err(|error| sources.named_in(error))?;
    if count <= EVENTS_MAX && fit.at_once() {
        return Ok(());
    }
    Err(Error::unavailable(
        format!("{count} sources do not run at once on this machine's counters"),
        "Name fewer sources for a region, or run it through all of them with `sweep`.",
    ))
}

/// The regions of one thread. It stays on its thread; its counts are in the report once it is
/// dropped.
pub struct Thread<'r> {
    counters: RefCell<Box<dyn Counters + 'r>>,
    log: RefCell<Log>,
    /// The number of regions that have been left so far.
    passages: Cell<u64>,
    logs: &'r Mutex<Vec<Log>>,
}

/// A passage that has begun, for callers that cannot hold a guard.
#[derive(Debug)]
#[must_use = "a passage is counted when it ends"]
pub struct Passage {
    region: usize,
    passages: u64,
    begin: Reading,
}

/// A passage through a region, until it is dropped.
#[must_use = "a region lasts as long as its guard"]
pub struct Region<'t, 'r> {
    thread: &'t Thread<'r>,
    passage: Option<Passage>,
}

impl<'r> Thread<'r> {
    /// Enters a region; it lasts until the guard is dropped. Regions may nest, and overlap.
    pub fn enter(&self, region: &str) -> Result<Region<'_, 'r>> {
        Ok(Region { thread: self, passage: Some(self.begin(region)?) })
    }

    /// Begins a passage without a guard.
    pub fn begin(&self, region: &str) -> Result<Passage> {
        let region = self.log.borrow_mut().region(region);
        let passages = self.passages.get();
        let begin = self.counters.borrow_mut().begin()?;
        Ok(Passage { region, passages, begin })
    }

    /// Ends it. A passage that cannot be counted is discarded, and the report says how many were.
    #[expect(clippy::needless_pass_by_value, reason = "a passage ends once")]
    pub fn end(&self, passage: Passage) {
        let mut counters = self.counters.borrow_mut();
        let counted = match counters.end() {
            Ok(end) => counters.between(&passage.begin, &end),
            Err(_) => Err(Discard::Failed),
        };
        let nested = self.passages.get() - passage.passages;
        self.passages.set(self.passages.get() + 1);
        self.log.borrow_mut().add(passage.region, nested, counted);
    }
}

/// The shortest time that a reading took.
fn reading_ns(counters: &mut dyn Counters) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..CALIBRATIONS {
        let before = Instant::now();
        counters.begin()?;
        least = least.min(before.elapsed().as_secs_f64() * 1e9);
    }
    Ok(least)
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        let log = std::mem::take(self.log.get_mut());
        lock(self.logs).push(log);
    }
}

impl Drop for Region<'_, '_> {
    fn drop(&mut self) {
        if let Some(passage) = self.passage.take() {
            self.thread.end(passage);
        }
    }
}

/// The counts of one thread so far.
#[derive(Debug, Default)]
struct Log {
    thread: String,
    sources: usize,
    reading_ns: f64,
    /// The index of each region, by name.
    indexes: HashMap<String, usize>,
    regions: Vec<Passages>,
}

#[derive(Debug, Default)]
struct Passages {
    name: String,
    /// One row for each passage: regions left in the meantime, ticks, and one count for each
    /// source.
    rows: Vec<u64>,
    discarded: [u64; Discard::ALL.len()],
}

impl Log {
    fn new(thread: &str, sources: usize) -> Self {
        Self { thread: thread.to_owned(), sources, ..Self::default() }
    }

    fn region(&mut self, name: &str) -> usize {
        if let Some(&index) = self.indexes.get(name) {
            return index;
        }
        self.indexes.insert(name.to_owned(), self.regions.len());
        self.regions.push(Passages { name: name.to_owned(), ..Passages::default() });
        self.regions.len() - 1
    }

    fn add(&mut self, region: usize, nested: u64, counted: std::result::Result<Reading, Discard>) {
        let Some(passages) = self.regions.get_mut(region) else {
            return;
        };
        let full = passages.rows.len() >= PASSAGES_MAX * (2 + self.sources);
        match counted {
            Ok(counted) if !full => {
                passages.rows.extend([nested, counted.ticks]);
                passages.rows.extend(counted.values.iter().take(self.sources));
            }
            Ok(_) => passages.discard(Discard::Full),
            Err(cause) => passages.discard(cause),
        }
    }
}

impl Passages {
    fn discard(&mut self, cause: Discard) {
        if let Some(count) = self.discarded.get_mut(cause as usize) {
            *count += 1;
        }
    }
}
