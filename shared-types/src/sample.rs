//! What an overflow records, and why a record may be missing.

use crate::interface::wire_enum;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// One sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Sample {
    /// Time-stamp counter of the processor when the interrupt was handled.
    pub timestamp: u64,
    /// Address of the interrupted instruction; 0 if `mode` is [`Mode::Unknown`].
    pub ip: u64,
    /// How many events this sample stands for.
    pub period: u64,
    /// Process that was interrupted.
    pub process: u32,
    /// Thread that was interrupted.
    pub thread: u32,
    /// Index of the processor.
    pub processor: u32,
    /// Index of the source in the session's list.
    pub source: u16,
    /// [`Mode`].
    pub mode: u8,
    /// How many [`crate::Branch`]es of this sample are valid, newest first; 0 in a session that
    /// records none.
    pub branches: u8,
}

const _: () = assert!(size_of::<Sample>() == 40);

wire_enum! {
    /// What was interrupted.
    Mode {
        /// Not known: the overflow came without a trap frame.
        Unknown = 0 "unknown"
        /// CPL 3.
        User = 1 "user"
        /// CPL 0.
        Kernel = 2 "kernel"
    }
}

wire_enum! {
    /// Why a generated sample is not in the ring.
    LossCause {
        /// The ring was full: the client drained too slowly.
        RingFull = 0 "ring-full"
        /// The sample is of kernel mode, which the session may not see.
        KernelHidden = 1 "kernel-hidden"
        /// Several periods elapsed before one interrupt was taken.
        Coalesced = 2 "coalesced"
        /// No interrupt came for the overflow: the check every 250 ms, or the one at the end, found
        /// it.
        Missed = 3 "missed"
    }
}
