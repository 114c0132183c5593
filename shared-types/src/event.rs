//! System events: what happens to the machine and the driver itself while a session runs.

use crate::interface::wire_enum;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// One system event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct SystemEvent {
    /// Time-stamp counter when it happened.
    pub timestamp: u64,
    /// [`EventKind`].
    pub kind: u32,
    /// For a session event, the session's client; otherwise 0.
    pub process: u32,
    /// The `ErrorCode` with which the driver ended a session, or the index of a processor;
    /// otherwise 0.
    pub subject: u32,
    /// 0.
    pub reserved: u32,
    /// The number of samples lost, or how many times the periods were lengthened; otherwise 0.
    pub amount: u64,
}

const _: () = assert!(size_of::<SystemEvent>() == 32);

wire_enum! {
    /// What happened.
    EventKind {
        /// The session was started.
        SessionStarted = 0 "session-started"
        /// The session was stopped.
        SessionStopped = 1 "session-stopped"
        /// The machine is going to sleep.
        Asleep = 2 "asleep"
        /// The machine is awake again.
        Awake = 3 "awake"
        /// A processor was added.
        ProcessorAdded = 4 "processor-added"
        /// Interrupts took too much time on a processor, and its periods were lengthened; `amount`
        /// is how many times this happened from then on.
        Throttled = 5 "throttled"
        /// The sample ring of a processor was full; `amount` is how many samples were lost from
        /// then on.
        SamplesLost = 6 "samples-lost"
        /// Interrupts without an overflow of the session's counters came one after another on a
        /// processor.
        Storm = 7 "storm"
    }
}
