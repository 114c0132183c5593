//! System events: what happens to processes, images, power and the driver itself while a session
//! runs.

use crate::interface::wire_enum;
use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The most UTF-16 units in an event's name.
pub const EVENT_NAME_UNITS: usize = 236;

/// One system event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SystemEvent {
    /// Time-stamp counter when it happened.
    pub timestamp: u64,
    /// [`EventKind`].
    pub kind: u32,
    /// The process that starts or ends, or into which the image was loaded (0 for a driver's
    /// image); for a session event, the session's client; otherwise 0.
    pub process: u32,
    /// The parent of a process that starts, the `ErrorCode` with which the driver ended a session,
    /// or the index of a processor; otherwise 0.
    pub subject: u32,
    /// Length of the name, in UTF-16 units.
    pub name_units: u16,
    /// [`Self::CUT`].
    pub flags: u16,
    /// The first address of an image; otherwise 0.
    pub start: u64,
    /// The size of an image in bytes, the number of samples lost, or how many times the periods
    /// were lengthened; otherwise 0.
    pub amount: u64,
    /// For an image, the path of its file as the kernel gives it, in UTF-16, padded with zeros.
    pub name: [u16; EVENT_NAME_UNITS],
}

impl SystemEvent {
    /// Flag: the name was too long, and its beginning was cut off.
    pub const CUT: u16 = 1 << 0;
}

const _: () = assert!(size_of::<SystemEvent>() == 512);

wire_enum! {
    /// What happened.
    EventKind {
        /// A process was created; its first image gives its name.
        ProcessStarted = 0 "process-started"
        /// A process has ended, and its images with it.
        ProcessEnded = 1 "process-ended"
        /// An image was mapped, and has not run yet. There is no event when it is unmapped.
        ImageLoaded = 2 "image-loaded"
        /// The session was started.
        SessionStarted = 3 "session-started"
        /// The session was stopped.
        SessionStopped = 4 "session-stopped"
        /// The machine is going to sleep.
        Asleep = 5 "asleep"
        /// The machine is awake again.
        Awake = 6 "awake"
        /// A processor was added.
        ProcessorAdded = 7 "processor-added"
        /// Interrupts took too much time on a processor, and its periods were lengthened; `amount`
        /// is how many times this happened from then on.
        Throttled = 8 "throttled"
        /// The sample ring of a processor was full; `amount` is how many samples were lost from
        /// then on.
        SamplesLost = 9 "samples-lost"
        /// Interrupts without an overflow of the session's counters came one after another on a
        /// processor.
        Storm = 10 "storm"
    }
}
