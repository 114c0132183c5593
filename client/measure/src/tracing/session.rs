//! What a session of tracing is: what it can be asked for, and how Windows runs one.
//!
//! Nothing here calls Windows: [`Tracer`] decides what is called and in which order, and the foreign
//! functions themselves are behind [`Calls`].

mod calls;
mod counter_owners;
pub mod custom;
mod file;
mod layout;
mod note;
pub mod plan;
mod providers;
mod sources;
mod tracer;

pub use calls::{Calls, Class, Control, Folder, Lock};
pub use counter_owners::{CounterOwner, CounterOwners, CounterSession, OwnerKind};
pub use file::TraceFile;
pub use layout::{HEADER_BYTES, NAME_UNITS, Properties, SESSION_GUID, SESSION_NAME};
pub use providers::Provider;
pub use tracer::{Tracer, end_running};

use crate::error::{Error, Result};
use crate::live_tracing::Consumer;
pub use crate::profile_source::{ProfileSource, TIMER};
use halprof_etw::Clock;
use halprof_etw::clock::ClockType;
use std::fmt;
use std::sync::Arc;

/// A source to sample, by its number in the backend's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledSource {
    /// The number in the backend's list.
    pub id: u32,
    /// The interval between samples: in units of 100 ns for the timer, in events for all other
    /// sources.
    pub interval: u32,
}

/// What a session traces. Processes, threads and images always are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceRequest {
    /// The sources to sample.
    pub sampled: Vec<SampledSource>,
    /// The sources whose counts each context switch carries, by their numbers; their order is that
    /// of the counts.
    pub counted: Vec<u32>,
    /// Whether samples have call stacks.
    pub stacks: bool,
    /// Whether samples have the branches before them, and what is left out of these, as bits of
    /// [`filter`](halprof_etw::payload::branches::filter).
    pub branches: Option<u32>,
    /// Whether threads' waits are traced: context switches and who ends the waits, with call stacks if
    /// samples have some.
    pub waits: bool,
    /// Whether the runtimes of .NET and JavaScript report the methods that they compile.
    pub methods: bool,
    /// What the times of events count.
    pub clock: ClockType,
}

/// The status of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceState {
    /// The bytes written to the file.
    pub bytes: u64,
    /// Events that were lost because no buffer had room.
    pub events_lost: u64,
    /// Buffers that could not be written.
    pub buffers_lost: u64,
    /// Why the session ended by itself; `None` while it runs, and where it was stopped.
    pub ended: Option<TraceEnd>,
    /// Why methods that runtimes compiled may be missing, as a Win32 error.
    pub methods_missing: Option<u32>,
}

/// Why a session ended before it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEnd {
    /// The file has reached its largest size, in bytes.
    Full(u64),
    /// Another program has stopped it.
    Stopped,
}

impl fmt::Display for TraceEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(bytes) => write!(
                f,
                "the trace has reached {} MB, the most that it may have of the disk",
                bytes >> 20
            ),
            Self::Stopped => f.write_str("another program stopped the session"),
        }
    }
}

/// Why samples have no branches before them: the Win32 error with which they were refused.
pub fn no_branch_records(error: u32) -> Error {
    Error::unavailable(
        format!("no branch records here: Windows refused them (Win32 error {error})"),
        "They need Windows 10 version 1903 and a processor that records branches; a guest of Hyper-V gets them by `Set-VMProcessor NAME -Perfmon @(\"pmu\",\"lbr\")`. Without branches the same samples can be recorded.",
    )
}

/// What a session that has been started delivers.
#[derive(Clone, Debug)]
pub struct Started {
    /// The sampled sources with the intervals in force.
    pub sampled: Vec<SampledSource>,
    /// The clock of the events; its origin is before the first of them.
    pub clock: Clock,
}

/// A flush.
#[derive(Clone, Copy, Debug)]
pub struct Flushed {
    /// When it was, by the session's clock.
    pub time: i64,
    /// Whether all that was written before has arrived already, as a model's events have.
    pub is_delivered: bool,
    /// Events and buffers that the session has lost so far.
    pub lost: u64,
}

/// A backend that delivers the events of a session while it runs.
pub trait DeliverEvents {
    /// Starts a session that writes no file: its events are delivered while it runs, from a thread of
    /// its own.
    ///
    /// [`crate::error::Error::NoFreeCounters`]: as [`Tracing::start`].
    fn start_delivery(
        &mut self,
        request: &TraceRequest,
        consumer: Arc<dyn Consumer>,
    ) -> Result<Started>;

    /// Has everything delivered that was written before.
    fn flush_delivery(&mut self) -> Result<Flushed>;

    /// Ends a session whose events are delivered; the last of them are, soon after.
    fn stop_delivery(&mut self) -> Result<TraceState>;
}

/// A backend that measures by a trace.
pub trait Tracing: DeliverEvents {
    /// The sources that it can sample and count, in its own order.
    fn sources(&mut self) -> Result<Vec<ProfileSource>>;

    /// How many sources one session can count; `None` if the backend does not say.
    fn counters(&mut self) -> Result<Option<u32>>;

    /// Starts a session; returns the sampled sources with the intervals in force.
    ///
    /// [`crate::error::Error::NoFreeCounters`]: fewer sources may be counted in another session.
    fn start(&mut self, request: &TraceRequest) -> Result<Vec<SampledSource>>;

    /// The status of the session.
    fn state(&mut self) -> Result<TraceState>;

    /// Ends the session; the file is complete then.
    fn stop(&mut self) -> Result<(TraceFile, TraceState)>;
}
