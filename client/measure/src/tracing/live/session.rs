//! A session that lasts while somebody measures: it starts at the first region, and pauses when
//! there was none for some seconds.

use super::collector::{Collector, Void, Wait};
use crate::error::{Error, Result};
use crate::live_tracing::{Consumer, Live, LiveTracing, Record, Scheduler, locked};
use halprof_etw::Clock;
use halprof_etw::clock::ClockType;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// After this time without a region a session is stopped: every switch of the machine costs a little
/// more while it runs, and others may want the counters.
const IDLE_SECONDS: i64 = 5;
/// How long delivery may take. The flush timer alone delivers within a second.
const PATIENCE_MS: i64 = 2000;
/// The least time between two flushes: each takes a buffer of each processor out of the pool, and
/// without a free buffer events are lost (microsoft/perfview#1600).
const FLUSH_MS: i64 = 10;

/// A session of a backend for the threads of this process.
#[derive(Debug)]
pub struct LiveSession {
    live: Live,
    counted: Vec<u32>,
    collector: Arc<Collector>,
    running: Mutex<Running>,
}

/// Which session runs. The end of one may be told after the next has begun.
#[derive(Debug, Default)]
struct Running {
    /// How many sessions have begun: the number of the newest.
    begun: u64,
    is_running: bool,
}

/// Takes the events of a session. It does not own the session: if it dropped the last owner during a
/// delivery, that would stop the session, and stopping waits for the delivery.
#[derive(Debug)]
struct Events {
    collector: Arc<Collector>,
    scheduler: Arc<dyn Scheduler>,
    session: Weak<LiveSession>,
    number: u64,
}

impl Consumer for Events {
    fn record(&self, record: &Record<'_>) {
        self.collector.record(record);
    }

    fn goes_on(&self) -> bool {
        let ticks = ticks(&*self.scheduler, 1000 * IDLE_SECONDS);
        !self.collector.is_idle(self.scheduler.now(), ticks)
    }

    fn ended(&self) {
        if let Some(session) = self.session.upgrade() {
            session.pause(self.number);
        }
    }
}

fn ticks(scheduler: &dyn Scheduler, milliseconds: i64) -> i64 {
    let frequency = i64::try_from(scheduler.frequency()).unwrap_or(i64::MAX);
    frequency.saturating_mul(milliseconds) / 1000
}

impl LiveSession {
    /// Starts a session that counts these sources, and waits until it does.
    pub fn start(live: &Live, counted: Vec<u32>) -> Result<Arc<Self>> {
        let scheduler = &live.scheduler;
        let clock =
            Clock::new(ClockType::PerformanceCounter, scheduler.frequency(), scheduler.now());
        let clock = clock.ok_or_else(|| Error::Internal("a clock without frequency".to_owned()))?;
        let session = Arc::new(Self {
            live: live.clone(),
            counted,
            collector: Arc::new(Collector::new(clock)),
            running: Mutex::default(),
        });
        session.wake()?;
        Ok(session)
    }

    /// What schedules its threads.
    pub fn scheduler(&self) -> &dyn Scheduler {
        &*self.live.scheduler
    }

    fn tracing(&self) -> MutexGuard<'_, dyn LiveTracing> {
        locked(&*self.live.tracing)
    }

    /// Starts it again, if it has paused.
    pub fn wake(self: &Arc<Self>) -> Result<()> {
        let mut running = locked(&self.running);
        if running.is_running {
            return Ok(());
        }
        running.begun += 1;
        self.collector.begin_session(self.scheduler().now());
        let events = Arc::new(Events {
            collector: Arc::clone(&self.collector),
            scheduler: Arc::clone(&self.live.scheduler),
            session: Arc::downgrade(self),
            number: running.begun,
        });
        self.tracing().start_live(&self.counted, events)?;
        if let Err(error) = self.wait_for_counts() {
            // A session without counts is of no use, and the error already says why there are none.
            let _ = self.tracing().stop_live();
            return Err(error);
        }
        running.is_running = true;
        Ok(())
    }

    /// The first switches of a session may have no values, and nothing else tells whether Windows attaches
    /// any at all.
    fn wait_for_counts(&self) -> Result<()> {
        let thread = self.scheduler().thread();
        let deadline = self.scheduler().now() + self.ticks(PATIENCE_MS);
        self.watch(thread);
        let counted = loop {
            let (begin, lost) = self.begin(thread);
            let end = self.end(thread);
            let settled = self.deliver();
            let counted = self.between(thread, (begin, lost), end);
            match (settled, counted) {
                (Ok(()), Ok(counts)) if counts.len() == self.counted.len() => break Ok(()),
                (Err(error), _) => break Err(error),
                _ if self.scheduler().now() > deadline => {
                    break Err(Error::unavailable(
                        "the context switches of a session of Windows' own tracing came without counts",
                        "End other tools that trace, and try again; without the driver, nothing else counts a thread.",
                    ));
                }
                _ => {}
            }
        };
        self.unwatch(thread);
        counted
    }

    fn ticks(&self, milliseconds: i64) -> i64 {
        ticks(self.scheduler(), milliseconds)
    }

    /// Stops the session of this number, if it runs. The next region starts another.
    fn pause(&self, number: u64) {
        let mut running = locked(&self.running);
        // What a thread has begun in this very moment is void: its switches are never seen.
        if running.is_running && running.begun == number {
            running.is_running = false;
            // There is nobody to report an error to; the note says what could not be undone.
            let _ = self.tracing().stop_live();
        }
    }

    /// Keeps the slices of the calling thread, whose identifier it is given, until [`Self::unwatch`].
    pub fn watch(&self, thread: u32) {
        self.collector.watch(thread, self.scheduler().now());
    }

    /// Keeps them no longer.
    pub fn unwatch(&self, thread: u32) {
        self.collector.unwatch(thread);
    }

    /// Makes a switch with which something begins; also returns what the session has lost so far.
    pub fn begin(&self, thread: u32) -> (Wait, u64) {
        let from = self.scheduler().now();
        let lost = self.collector.open(thread, from);
        self.scheduler().switch();
        (Wait { from, until: self.scheduler().now() }, lost)
    }

    /// Makes a switch with which something ends.
    pub fn end(&self, thread: u32) -> Wait {
        let from = self.scheduler().now();
        self.scheduler().switch();
        let until = self.scheduler().now();
        self.collector.leave(thread, until);
        Wait { from, until }
    }

    /// Waits until all earlier events have arrived. If the session has paused, they have.
    pub fn settle(&self) -> Result<()> {
        let is_running = locked(&self.running).is_running;
        if is_running { self.deliver() } else { Ok(()) }
    }

    /// A flush hands over the buffers of all processors. When an event of a later buffer has arrived,
    /// so has all that was in these; which processors are idle, and have none, is not known.
    fn deliver(&self) -> Result<()> {
        let deadline = self.scheduler().now() + self.ticks(PATIENCE_MS);
        self.flush()?;
        let mut flushed = self.scheduler().now();
        let handed_over = flushed;
        loop {
            // This makes events, too.
            self.scheduler().switch();
            let now = self.scheduler().now();
            if now >= flushed + self.ticks(FLUSH_MS) {
                self.flush()?;
                flushed = self.scheduler().now();
            }
            // What has not arrived by then is unseen, and what it belongs to is void.
            if self.collector.newest() > handed_over || now > deadline {
                return Ok(());
            }
        }
    }

    fn flush(&self) -> Result<()> {
        let lost = self.tracing().flush()?;
        self.collector.set_lost(lost);
        Ok(())
    }

    /// What the thread counted between two waits, after [`Self::settle`].
    pub fn between(
        &self,
        thread: u32,
        (begin, lost): (Wait, u64),
        end: Wait,
    ) -> std::result::Result<Vec<u64>, Void> {
        let counts = self.collector.between(thread, (begin, lost), end);
        self.collector.close(thread, begin.from);
        counts
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        let newest = locked(&self.running).begun;
        self.pause(newest);
    }
}
