//! System events: what processes, images, power and the driver itself do while a session runs.

use crate::interface::wire_enum;
use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most UTF-16 units of an event's name.
pub const EVENT_NAME_UNITS: usize = 236;

/// One system event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SystemEvent {
    /// Time-stamp counter of the processor when it happened.
    pub timestamp: u64,
    /// [`EventKind`].
    pub kind: u32,
    /// The process: that starts or ends, or that the image was loaded in (0 for a driver's); of a
    /// session its client; else 0.
    pub process: u32,
    /// The process that is the parent of one that starts, the `ErrorCode` for which the driver has
    /// ended a session, or the index of a processor; else 0.
    pub subject: u32,
    /// UTF-16 units of the name.
    pub name_units: u16,
    /// [`Self::CUT`].
    pub flags: u16,
    /// An image's first address; else 0.
    pub start: u64,
    /// Bytes of an image, samples lost, or how often the periods were lengthened; else 0.
    pub amount: u64,
    /// Of an image, the path of its file as the kernel has it, in UTF-16; zeros behind it.
    pub name: [u16; EVENT_NAME_UNITS],
}

impl SystemEvent {
    /// Flag: the name was too long, and has lost its beginning.
    pub const CUT: u16 = 1 << 0;
}

const _: () = assert!(size_of::<SystemEvent>() == 512);

wire_enum! {
    /// What happened.
    EventKind {
        /// A process was created; its first image tells its name.
        ProcessStarted = 0 "process-started"
        /// A process has ended, and its images with it.
        ProcessEnded = 1 "process-ended"
        /// An image was mapped, and has not run yet. Nothing tells when it is unmapped.
        ImageLoaded = 2 "image-loaded"
        /// The session was started.
        SessionStarted = 3 "session-started"
        /// The session was stopped.
        SessionStopped = 4 "session-stopped"
        /// The machine goes to sleep.
        Asleep = 5 "asleep"
        /// The machine is awake again.
        Awake = 6 "awake"
        /// A processor was added.
        ProcessorAdded = 7 "processor-added"
        /// Interrupts took too much time on a processor, and the periods were lengthened there: since
        /// then so often.
        Throttled = 8 "throttled"
        /// The ring of samples of a processor was full: since then so many were lost.
        SamplesLost = 9 "samples-lost"
        /// Interrupts without an overflow of ours came one after the other on a processor.
        Storm = 10 "storm"
    }
}
