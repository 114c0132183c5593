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
//! accumulates them for it, otherwise from whole processors; without the driver, from the context
//! switches of the thread, with the kernel's work and interrupts on its time. The cost of entering
//! and leaving is measured when a thread begins, subtracted from each passage, nested ones included,
//! and shown in rows of its own. Count `:u` where you can: interrupts run in kernel mode. A thread
//! reads only general counters: an event that only a fixed counter counts is read with whole
//! processors.
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
mod traced;

pub use counters::Discard;
use counters::EVENTS_MAX;
pub use distribution::{Distribution, RULE};
pub use method::Method;
pub use report::{Discarded, RegionRow, Report};
pub use sweep::{Pass, Sweep, sweep};
pub use thread_counts::{CounterValues, ThreadCounts};

use crate::connection::Connection;
use crate::count::Sources;
use crate::error::{Error, Remedy, Result};
use crate::live_tracing::Live;
use crate::platform::Platform;
use crate::session::Session;
use crate::session::SessionConnection;
use crate::tracing::live::LiveSession;
use crate::transport::Transport;
use counters::{Counters, Processors, Reading};
use method::Offer;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use traced::Traced;

/// The number of passages of one region that a thread keeps; any more are counted as
/// [`Discard::Full`].
const PASSAGES_MAX: usize = 1 << 20;

/// How often a thread tries to calibrate: it tries again only if no empty region could be counted.
pub const CALIBRATION_TRIES: usize = 2;

/// A thread that is in no region settles its passages when this many wait for their counts.
const PENDING_MAX: usize = 1024;

/// The same for a thread that is in a region. The delivery is then part of that region: of half a minute
/// or more, since each passage waits twice.
const PENDING_IN_REGION_MAX: usize = 16 * PENDING_MAX;

/// What counts by context switches include.
const NOTES_OF_TRACING: [&str; 2] = [
    "the counts include the kernel's work for the thread, and the interrupts and deferred calls that hit its time",
    "the median of empty regions is subtracted; the thread waits a millisecond or more at either end of a region",
];

/// Sources counted for the regions of any number of threads. Counting ends when this is dropped.
#[derive(Debug)]
pub struct Regions<'a, T: Transport> {
    counted: Counted<'a, T>,
    sources: Vec<String>,
    /// The report, without any thread's counts.
    about: Report,
    /// The chosen processors; empty for all.
    processors: Vec<u32>,
    logs: Mutex<Vec<Log>>,
}

/// What counts.
#[derive(Debug)]
enum Counted<'a, T: Transport> {
    Session { session: Arc<Mutex<Session<'a, T>>>, offer: Offer<'a> },
    Traced { session: Arc<LiveSession>, connection: Mutex<SessionConnection<'a, T>> },
}

impl<'a, T: Transport + Send + 'a> Counted<'a, T> {
    /// The counters of the calling thread.
    fn counters(&self, processors: &[u32]) -> Result<Box<dyn Counters + 'a>> {
        match self {
            Self::Session { session, offer } => offer.counters(session, processors),
            Self::Traced { session, .. } => Ok(Box::new(Traced::new(session))),
        }
    }
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
        if let Some(live) = connection.live() {
            return Self::open_traced(connection, sources, method, &live);
        }
        if method == Some(Method::Tracing) {
            return Err(Error::unavailable(
                "the driver counts here, and not Windows' own tracing",
                "Open the machine by tracing: its name is `etw`.",
            ));
        }
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
            notes: Vec::new(),
            warnings: Vec::new(),
        };
        Ok(Self {
            counted: Counted::Session { session: Arc::new(Mutex::new(session)), offer },
            sources: sources.names().map(str::to_owned).collect(),
            about,
            processors: sources.processors().to_vec(),
            logs: Mutex::new(Vec::new()),
        })
    }

    /// Opens regions without the driver, for which there is one method.
    fn open_traced(
        connection: SessionConnection<'a, T>,
        sources: &Sources,
        method: Option<Method>,
        live: &Live,
    ) -> Result<Self> {
        if let Some(other) = method.filter(|method| *method != Method::Tracing) {
            return Err(Error::unavailable(
                format!("without the driver there are no counts {}", other.in_words()),
                "Install it, or take the best method that works.",
            ));
        }
        let count = sources.names().count();
        if count > EVENTS_MAX {
            return Err(too_many(count));
        }
        let session = LiveSession::start(live, sources.traced_ids())?;
        let scheduler = session.scheduler();
        let about = Report {
            modelled: connection.modelled(),
            method: Method::Tracing,
            rejected: Vec::new(),
            reading_ns: 0.0,
            clock: scheduler.clock().to_owned(),
            ticks_a_second: scheduler.frequency(),
            rule: RULE.to_owned(),
            regions: Vec::new(),
            discarded: Vec::new(),
            notes: NOTES_OF_TRACING.map(str::to_owned).to_vec(),
            warnings: Vec::new(),
        };
        Ok(Self {
            counted: Counted::Traced { session, connection: Mutex::new(connection) },
            sources: sources.names().map(str::to_owned).collect(),
            about,
            processors: Vec::new(),
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
        for _ in 0..CALIBRATION_TRIES {
            for _ in 0..thread.calibrations() {
                let _outer = thread.enter(RegionRow::EMPTY_NESTED)?;
                let _inner = thread.enter(RegionRow::EMPTY)?;
            }
            if thread.is_calibrated() {
                break;
            }
        }
        thread.calibrated()?;
        Ok(thread)
    }

    /// The same without measuring the cost of measuring, for a caller whose own call path is
    /// longer: it enters [`RegionRow::EMPTY_NESTED`], and [`RegionRow::EMPTY`] inside it, several
    /// times by that path.
    pub fn uncalibrated_thread(&self, name: &str, processors: &[u32]) -> Result<Thread<'_>>
    where
        T: Send,
    {
        let mut counters = self.counted.counters(processors)?;
        let mut log = Log::new(name, self.sources.len());
        log.reading_ns = reading_ns(counters.as_mut())?;
        Ok(Thread {
            counters: RefCell::new(counters),
            log: RefCell::new(log),
            readings: Cell::new(0),
            open: Cell::new(0),
            pending: RefCell::default(),
            logs: &self.logs,
        })
    }

    /// What the chosen processors have counted since the start, by any method: one total for each
    /// source.
    pub fn totals(&self) -> Result<Vec<u64>> {
        let Counted::Session { session, .. } = &self.counted else {
            return Err(Error::unavailable(
                "without the driver, whole processors are not counted",
                "Count regions, or install the driver.",
            ));
        };
        let processors = Processors {
            session: Arc::clone(session),
            indexes: self.processors.clone(),
            platform: None,
        };
        let reading = processors.read()?;
        Ok(reading.values.into_iter().take(self.sources.len()).collect())
    }

    /// Lends the transport, for a modelled machine, which only runs when it is made to.
    pub fn with_transport<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        match &self.counted {
            Counted::Session { session, .. } => act(lock(session).transport()),
            Counted::Traced { connection, .. } => act(lock(connection).transport()),
        }
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
    Err(too_many(count))
}

fn too_many(count: usize) -> Error {
    Error::unavailable(
        format!("{count} sources do not run at once on this machine's counters"),
        Remedy::FewerAtOnce,
    )
}

/// The regions of one thread. It stays on its thread; its counts are in the report once it is
/// dropped.
pub struct Thread<'r> {
    counters: RefCell<Box<dyn Counters + 'r>>,
    log: RefCell<Log>,
    /// The number of readings so far that began or ended a passage.
    readings: Cell<u64>,
    /// The number of passages that have begun and not ended.
    open: Cell<u64>,
    /// Passages that have ended, whose counts have not arrived.
    pending: RefCell<Vec<Pending>>,
    logs: &'r Mutex<Vec<Log>>,
}

struct Pending {
    region: usize,
    nested: u64,
    begin: Reading,
    end: Reading,
}

/// A passage that has begun, for callers that cannot hold a guard.
#[derive(Debug)]
#[must_use = "a passage is counted when it ends"]
pub struct Passage {
    region: usize,
    /// The number of readings when it began, its own included.
    readings: u64,
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

    /// How often a caller that calibrates by its own path does so.
    pub fn calibrations(&self) -> usize {
        self.counters.borrow().calibrations()
    }

    /// Whether empty regions have been counted.
    pub fn is_calibrated(&self) -> bool {
        self.settle();
        let log = self.log.borrow();
        let is_counted =
            |passages: &Passages| passages.name == RegionRow::EMPTY && !passages.rows.is_empty();
        log.regions.iter().any(is_counted)
    }

    /// Fails if no empty region could be counted: nothing could be subtracted then.
    pub fn calibrated(&self) -> Result<()> {
        if self.is_calibrated() {
            return Ok(());
        }
        let cause = self.log.borrow().last.map_or("whose counts are not known", Discard::why);
        Err(Error::unavailable(
            format!("no empty region could be counted: they were passages {cause}"),
            "Try again when the machine is quieter.",
        ))
    }

    /// Counts a passage through `work`. If it could not be counted, because events were lost or the
    /// thread was switched, `work` runs once more; the report has the discarded passage. The wait for
    /// the counts is part of a region around this one.
    ///
    /// # Errors
    /// The second passage could not be counted either, or the thread keeps no more passages of the region.
    pub fn run<R>(&self, region: &str, mut work: impl FnMut() -> R) -> Result<R> {
        let mut is_second = false;
        loop {
            let passage = self.begin(region)?;
            let result = work();
            self.end(passage);
            match self.settle() {
                None => return Ok(result),
                Some(cause) if is_second || cause == Discard::Full => {
                    return Err(Error::unavailable(
                        format!(
                            "the last passage of {region} was not counted: it is one {}",
                            cause.why()
                        ),
                        "Measure when the machine is quieter.",
                    ));
                }
                Some(_) => is_second = true,
            }
        }
    }

    /// Begins a passage without a guard.
    pub fn begin(&self, region: &str) -> Result<Passage> {
        let most = if self.open.get() == 0 { PENDING_MAX } else { PENDING_IN_REGION_MAX };
        if self.pending.borrow().len() >= most {
            self.settle();
        }
        let region = self.log.borrow_mut().region(region);
        // Only now, so that finding the region is not counted.
        let begin = self.counters.borrow_mut().begin()?;
        let readings = self.readings.get() + 1;
        self.readings.set(readings);
        self.open.set(self.open.get() + 1);
        Ok(Passage { region, readings, begin })
    }

    /// Ends it. A passage that cannot be counted is discarded, and the report says how many were.
    #[expect(clippy::needless_pass_by_value, reason = "a passage ends once")]
    pub fn end(&self, passage: Passage) {
        let mut counters = self.counters.borrow_mut();
        // First of all, so that nothing of what follows is counted.
        let end = counters.end();
        let nested = self.readings.get() - passage.readings;
        self.readings.set(self.readings.get() + 1);
        self.open.set(self.open.get().saturating_sub(1));
        let Passage { region, begin, .. } = passage;
        let counted = match end {
            Ok(end) if counters.is_delivered_later() => {
                self.pending.borrow_mut().push(Pending { region, nested, begin, end });
                return;
            }
            Ok(end) => counters.between(&begin, &end),
            Err(_) => Err(Discard::Failed),
        };
        self.log.borrow_mut().add(region, nested, counted);
    }

    /// Waits for the counts of all passages that have ended; returns why the last one was discarded.
    fn settle(&self) -> Option<Discard> {
        let pending = self.pending.take();
        let mut counters = self.counters.borrow_mut();
        let settled = if pending.is_empty() { Ok(()) } else { counters.settle() };
        for Pending { region, nested, begin, end } in pending {
            // This comes before the check, because it also closes what has begun.
            let counted = counters.between(&begin, &end);
            let counted = if settled.is_ok() { counted } else { Err(Discard::Failed) };
            self.log.borrow_mut().add(region, nested, counted);
        }
        self.log.borrow().last
    }
}

/// The shortest time that a reading took.
fn reading_ns(counters: &mut dyn Counters) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..counters.calibrations() {
        let before = Instant::now();
        let begin = counters.begin()?;
        least = least.min(before.elapsed().as_secs_f64() * 1e9);
        // This reading is no passage; `between` only closes what `begin` opened.
        let end = counters.end()?;
        let _ = counters.between(&begin, &end);
    }
    Ok(least)
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        self.settle();
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
    /// Why the last passage was discarded, if it was.
    last: Option<Discard>,
}

#[derive(Debug, Default)]
struct Passages {
    name: String,
    /// One row for each passage: how many regions were entered and left in the meantime, ticks, and one
    /// count for each source.
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
        let kept = counted.and_then(|counted| if full { Err(Discard::Full) } else { Ok(counted) });
        match &kept {
            Ok(counted) => {
                passages.rows.extend([nested, counted.ticks]);
                passages.rows.extend(counted.values.iter().take(self.sources));
            }
            Err(cause) => passages.discard(*cause),
        }
        self.last = kept.err();
    }
}

impl Passages {
    fn discard(&mut self, cause: Discard) {
        if let Some(count) = self.discarded.get_mut(cause as usize) {
            *count += 1;
        }
    }
}
