//! What counts threads while they run: a session whose events are delivered in real time, and the
//! scheduler of the threads. Windows implements this, and so do models and test doubles.

use crate::error::Result;
use crate::profile_source::ProfileSource;
use halprof_etw::EventId;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event as a real-time session delivers it (evntcons.h, `EVENT_RECORD`).
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When it was written, by the performance counter.
    pub time: i64,
    /// Where it was written.
    pub processor: u16,
    /// What it is.
    pub id: EventId,
    /// What it says.
    pub payload: &'a [u8],
    /// The counters' values, each of 8 bytes; empty if it has none.
    pub values: &'a [u8],
}

/// What takes the events of a session, on a thread that belongs to the session.
pub trait Consumer: Debug + Send + Sync {
    /// Takes an event. The events of one processor arrive in order.
    fn record(&self, record: &Record<'_>);
    /// Whether it wants more events. This is asked after each buffer, at least once a second; if the
    /// answer is no, [`ended`](Self::ended) follows.
    fn goes_on(&self) -> bool;
    /// Nothing is delivered any more: the consumer wanted no more, or the session has ended.
    fn ended(&self);
}

/// What can be counted.
#[derive(Clone, Debug)]
pub struct Countable {
    /// The sources, in the backend's order.
    pub sources: Vec<ProfileSource>,
    /// How many of them at once; `None` if the backend does not say.
    pub counters: Option<u32>,
}

/// A backend whose context switches arrive while programs run.
pub trait LiveTracing: Debug + Send {
    /// Whether the machine is a model.
    fn is_modelled(&self) -> bool;
    /// What it can count.
    fn countable(&mut self) -> Result<Countable>;
    /// Starts a session whose context switches carry the counts of these sources.
    fn start_live(&mut self, counted: &[u32], consumer: Arc<dyn Consumer>) -> Result<()>;
    /// Has everything delivered that was written before; returns how many events and buffers the
    /// session has lost so far.
    fn flush(&mut self) -> Result<u64>;
    /// Ends the session.
    fn stop_live(&mut self) -> Result<()>;
    /// Lets a model run a workload; a real machine refuses it.
    fn run(&mut self, workload: &str) -> Result<()>;
}

/// What a thread needs of the system that schedules it.
pub trait Scheduler: Debug + Send + Sync {
    /// The clock of the session's events, in ticks.
    fn now(&self) -> i64;
    /// The ticks of that clock in a second.
    fn frequency(&self) -> u64;
    /// What the clock is called.
    fn clock(&self) -> &'static str;
    /// The identifier of the calling thread.
    fn thread(&self) -> u32;
    /// Takes the calling thread off its processor, for a millisecond or until the next tick of the
    /// system's timer. A wait that may return at once, such as `Sleep(0)`, is no switch.
    fn switch(&self);
    /// How long the machine has slept since it started.
    fn slept_ms(&self) -> u64;
}

/// A backend, for all who use it.
#[derive(Clone, Debug)]
pub struct Live {
    /// What traces.
    pub tracing: Arc<Mutex<dyn LiveTracing>>,
    /// What schedules the threads that are traced.
    pub scheduler: Arc<dyn Scheduler>,
}

/// Locks a backend. After a panic its session has to be ended all the same, and its next call finds out
/// in which state it is.
pub(crate) fn locked<L: ?Sized>(mutex: &Mutex<L>) -> MutexGuard<'_, L> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
