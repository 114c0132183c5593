//! Branch records: the branches that a processor took before a sample.
//!
//! The processor records, whatever runs on it: the oldest records of a sample can be those of
//! another thread, of an interrupt's handler or of the kernel's change from one thread to the next,
//! as nothing is saved and restored there. They are known to be of the sampled thread from the newest
//! back to the first that leaves the process's own code; where the kernel's branches are not
//! recorded, or are hidden, a change of threads in between leaves no mark.

use crate::interface::wire_enum;
use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most branches of one sample.
pub const MAX_BRANCHES: usize = 32;

/// One branch that was taken.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Branch {
    /// Address of the branch instruction. On AMD it can be the compare that is fused with it.
    pub from: u64,
    /// Address that it went to.
    pub to: u64,
    /// Cycles since the branch recorded before it, at most 65,535; with [`Branch::CYCLES`] only.
    pub cycles: u16,
    /// [`BranchKind`].
    pub kind: u8,
    /// [`Branch::PREDICTED`] and the other flags.
    pub flags: u8,
    /// 0.
    pub reserved: u32,
}

impl Branch {
    /// Flag: the processor had predicted it.
    pub const PREDICTED: u8 = 1 << 0;
    /// Flag: the processor had mispredicted it. With neither flag the processor does not tell.
    pub const MISPREDICTED: u8 = 1 << 1;
    /// Flag: `cycles` is known.
    pub const CYCLES: u8 = 1 << 2;
    /// Flag: in a transaction.
    pub const TRANSACTION: u8 = 1 << 3;
    /// Flag: a transaction's abort.
    pub const ABORT: u8 = 1 << 4;
    /// Flag: one side lies in the kernel, which this client may not see; both addresses are 0.
    pub const HIDDEN: u8 = 1 << 5;
}

const _: () = assert!(size_of::<Branch>() == 24);

wire_enum! {
    /// What kind of branch it was, where the processor records that (Intel's architectural LBR).
    BranchKind {
        /// Not recorded.
        Unknown = 0 "unknown"
        /// Conditional jump.
        Conditional = 1 "conditional"
        /// Direct jump.
        Jump = 2 "jump"
        /// Indirect jump.
        IndirectJump = 3 "indirect-jump"
        /// Direct call.
        Call = 4 "call"
        /// Indirect call.
        IndirectCall = 5 "indirect-call"
        /// Near return.
        Return = 6 "return"
        /// Interrupt, exception, system call, far transfer and others.
        Other = 7 "other"
    }
}

wire_enum! {
    /// How a processor records branches.
    BranchRecords {
        /// Not at all, or not so that they can be used here: see [`BranchReason`].
        None = 0 "none"
        /// Intel's model-specific records with LBR_INFO: Skylake to Tiger Lake, Goldmont Plus,
        /// Tremont.
        Info = 1 "lbr-info"
        /// Intel's architectural records (CPUID leaf 0x1C).
        Architectural = 2 "architectural-lbr"
        /// AMD's LbrExtV2 (CPUID leaf 0x80000022).
        AmdV2 = 3 "amd-lbr-v2"
    }
}

wire_enum! {
    /// Why a processor's branches cannot be recorded.
    BranchReason {
        /// The processor has no branch records that are known here.
        NoRecords = 0 "no-records"
        /// They can.
        Available = 1 "available"
        /// Overflows do not interrupt here.
        NoInterrupt = 2 "no-interrupt"
        /// It runs under a hypervisor that does not offer them.
        Hypervisor = 3 "hypervisor"
        /// IA32_PERF_CAPABILITIES tells a format without LBR_INFO, or leaf 0x1C no filters.
        Format = 4 "format"
        /// The records cannot be frozen when an overflow interrupts, and the interrupt's own
        /// branches would push them out.
        NoFreeze = 5 "no-freeze"
    }
}
