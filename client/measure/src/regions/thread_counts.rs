//! What a thread has counted so far, for programs that read and subtract.

use super::counters::{Counters, EVENTS_MAX, Reading};
use super::distribution::median_and_spread;
use super::method::{self, Method};
use super::{Regions, lock};
use crate::connection::Connection;
use crate::count::Sources;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::platform::Platform;
use crate::session::SessionConnection;
use crate::transport::Transport;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};

/// What the calling thread counts; that thread can read it at any time.
///
/// ```
/// use halprof_measure::regions::ThreadCounts;
/// # fn main() -> halprof_measure::Result<()> {
/// # let machine = Some("skylake");
/// let counts = ThreadCounts::open(machine, "TotalCycles:u,TotalIssues:u")?;
/// let before = counts.read()?;
/// // What is measured; on a modelled machine, a workload.
/// counts.with_machine(|machine| machine.run("instructions=3000,cycles=2000"))?;
/// let work = counts.read()?.since(&before);
/// assert_eq!(work.expect("nothing was missed").values(), [2000, 3000]);
/// # Ok(())
/// # }
/// ```
///
/// All that a thread opens on one list of events read the same totals, which are never reset, so
/// they do not disturb each other. A process counts a list once, from the first that is opened on
/// any thread to the last that is dropped; to open another in the meantime costs little.
#[derive(Clone)]
pub struct ThreadCounts(Rc<OnThread>);

/// What a thread has counted up to one moment, or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterValues {
    values: [u64; EVENTS_MAX],
    events: usize,
    gaps: u64,
}

impl ThreadCounts {
    /// Opens a list of events, such as `TotalIssues:u,BranchInstructions:u`, for the calling thread
    /// on a machine: see [`Machine::open`]. All must fit on the counters at once. On a real machine
    /// it fails if the counts of a thread alone cannot be read; a modelled machine runs no threads,
    /// and all that it does is counted.
    pub fn open(machine: Option<&str>, list: &str) -> Result<Self> {
        let key = Key { machine: machine.map(str::to_owned), list: list.to_owned() };
        let shared = THREAD.try_with(|thread| {
            thread.borrow().iter().filter_map(Weak::upgrade).find(|one| one.key == key)
        });
        if let Ok(Some(shared)) = shared {
            return Ok(Self(shared));
        }
        let (share, regions) = Share::take(&key)?;
        let reader = RefCell::new(regions.reader()?);
        let opened = Rc::new(OnThread { key, reader, regions, _share: share });
        // While a thread ends, its list may be gone already; then nothing is shared.
        let _ = THREAD.try_with(|thread| {
            let mut thread = thread.borrow_mut();
            thread.retain(|one| one.strong_count() != 0);
            thread.push(Rc::downgrade(&opened));
        });
        Ok(Self(opened))
    }

    /// What the thread has counted so far.
    pub fn read(&self) -> Result<CounterValues> {
        self.0.reader.borrow_mut().read()
    }

    /// What a reading itself adds: the least by which two differ, one right after the other. By
    /// [`Method::Tracing`] it is 0, because the median was [subtracted](Self::subtracted).
    pub fn cost(&self) -> CounterValues {
        self.0.reader.borrow().cost
    }

    /// What was subtracted for each reading: by [`Method::Tracing`] the median of 16 empty regions,
    /// otherwise 0.
    pub fn subtracted(&self) -> CounterValues {
        self.0.reader.borrow().subtracted
    }

    /// The spread of empty regions, as [`RULE`](super::RULE) defines it. A count by
    /// [`Method::Tracing`] that is below 20 spreads says little.
    pub fn spread(&self) -> CounterValues {
        self.0.reader.borrow().spread
    }

    /// Whether the machine is a model.
    pub fn modelled(&self) -> bool {
        self.0.regions.about.modelled
    }

    /// The events' names, in the order of all values.
    pub fn events(&self) -> &[String] {
        &self.0.regions.sources
    }

    /// Where the counts come from: [`Method::Processors`] only on a modelled machine, and
    /// [`Method::Tracing`] only without the driver. With tracing each reading makes two waits
    /// of at least a millisecond, so read around a batch, not around a call.
    pub fn method(&self) -> Method {
        self.0.regions.method()
    }

    /// Lends the machine: a modelled one does only what it is made to do.
    pub fn with_machine<R>(&self, act: impl FnOnce(&mut Machine) -> R) -> R {
        self.0.regions.with_transport(act)
    }
}

impl CounterValues {
    /// One value for each event.
    pub fn values(&self) -> &[u64] {
        self.values.get(..self.events).unwrap_or_default()
    }

    /// How often counts were missed, because the thread was switched ([`Method::Rdpmc`]) or the
    /// machine slept.
    pub const fn gaps(&self) -> u64 {
        self.gaps
    }

    /// What was counted since an earlier reading; `None` if some of it was missed.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut between = Self { gaps: 0, ..*self };
        for (value, before) in between.values.iter_mut().zip(earlier.values) {
            *value = value.wrapping_sub(before);
        }
        (self.gaps == earlier.gaps).then_some(between)
    }
}

/// Adds up what the counters of one thread count, whatever their width.
pub(super) struct Reader<'a> {
    counters: Box<dyn Counters + 'a>,
    last: Reading,
    total: CounterValues,
    pub(super) cost: CounterValues,
    pub(super) subtracted: CounterValues,
    pub(super) spread: CounterValues,
}

impl<'a> Reader<'a> {
    fn new(mut counters: Box<dyn Counters + 'a>, events: usize) -> Result<Self> {
        let last = counters.now()?;
        let zero = CounterValues { values: [0; EVENTS_MAX], events, gaps: 0 };
        let (total, cost, subtracted, spread) = (zero, zero, zero, zero);
        let mut reader = Self { counters, last, total, cost, subtracted, spread };
        let mut empty: Vec<CounterValues> = Vec::new();
        for _ in 0..reader.counters.calibrations() {
            let before = reader.read()?;
            empty.extend(reader.read()?.since(&before));
        }
        // The kernel's work at either end of a wait varies; an instruction sequence has a least cost.
        let is_traced = reader.counters.is_delivered_later();
        for event in 0..events {
            let values: Vec<u64> = empty.iter().map(|reading| reading.values[event]).collect();
            let least = values.iter().copied().min().unwrap_or(0);
            let (median, spread) = median_and_spread(&values).unwrap_or_default();
            reader.spread.values[event] = spread;
            let cost = if is_traced { (0, median) } else { (least, 0) };
            (reader.cost.values[event], reader.subtracted.values[event]) = cost;
        }
        Ok(reader)
    }

    pub(super) fn read(&mut self) -> Result<CounterValues> {
        let now = self.counters.now()?;
        match self.counters.between(&self.last, &now) {
            Ok(between) => {
                let values = between.values.iter().zip(self.subtracted.values);
                let values = values.map(|(value, subtracted)| value.saturating_sub(subtracted));
                for (total, value) in self.total.values.iter_mut().zip(values) {
                    *total = total.wrapping_add(value);
                }
            }
            Err(_) => self.total.gaps += 1,
        }
        self.last = now;
        Ok(self.total)
    }
}

impl<'a, T: Transport + Send> Regions<'a, T> {
    /// What the calling thread counts, of what is counted here.
    pub(super) fn reader(&self) -> Result<Reader<'a>> {
        let counters = self.counted.counters(&[])?;
        Reader::new(counters, self.sources.len())
    }

    /// Counts threads alone, where there are threads.
    pub(super) fn of_threads(
        mut connection: SessionConnection<'a, T>,
        list: &str,
        platform: Option<&'a dyn Platform>,
    ) -> Result<Self> {
        let sources = Sources::named(&mut connection, list)?;
        let names: Vec<&str> = sources.names().collect();
        if let Some([event, _]) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            return Err(Error::unavailable(
                format!("each type of core counts {event} in its own way, and a thread may move"),
                "Name an event that all of them count alike.",
            ));
        }
        let regions = Self::open_with(connection, &sources, None, platform)?;
        if platform.is_some() && regions.method() == Method::Processors {
            return Err(Error::unavailable(
                regions.about.rejected.join("; "),
                "Count whole processors, or name fewer events.",
            ));
        }
        Ok(regions)
    }
}

/// What the process counts now.
static PROCESS: Mutex<Vec<(Key, Arc<Regions<'static, Machine>>)>> = Mutex::new(Vec::new());

thread_local! {
    /// What the thread reads now, and has read.
    static THREAD: RefCell<Vec<Weak<OnThread>>> = const { RefCell::new(Vec::new()) };
}

/// Where to measure, and the list of events.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    machine: Option<String>,
    list: String,
}

/// What one thread reads, once: Windows profiles a thread once at a time. The fields are dropped in
/// this order, so that profiling ends before the counters are given back.
struct OnThread {
    key: Key,
    reader: RefCell<Reader<'static>>,
    regions: Arc<Regions<'static, Machine>>,
    _share: Share,
}

/// One thread's share in what the process counts, dropped after the thread's regions.
struct Share;

impl Share {
    /// Starts counting, unless another thread has. Start and stop hold the lock, so that nobody
    /// starts while the driver still counts for whoever was last.
    fn take(key: &Key) -> Result<(Self, Arc<Regions<'static, Machine>>)> {
        let mut process = lock(&PROCESS);
        if let Some((_, regions)) = process.iter().find(|(counted, _)| counted == key) {
            return Ok((Self, Arc::clone(regions)));
        }
        let regions = Arc::new(start(key)?);
        process.push((key.clone(), Arc::clone(&regions)));
        Ok((Self, regions))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        lock(&PROCESS).retain(|(_, regions)| Arc::strong_count(regions) > 1);
    }
}

fn start(key: &Key) -> Result<Regions<'static, Machine>> {
    let connection = Connection::new(Machine::open(key.machine.as_deref())?)?;
    let platform = method::platform(connection.modelled());
    Regions::of_threads(SessionConnection::Owned(Box::new(connection)), &key.list, platform)
}
