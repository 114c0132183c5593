//! Branch records: the branches that a processor took before a sample.
//!
//! The processor records branches whatever runs on it, and nothing saves or restores the records on
//! a context switch. So the oldest records of a sample can belong to another thread, to an
//! interrupt handler or to the kernel's switch between threads. Records are known to belong to the
//! sampled thread from the newest back to the first that leaves the process's own code. If the
//! kernel's branches are not recorded, or are hidden, a thread switch in between leaves no trace.

use crate::interface::wire_enum;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// The most branches of one sample.
pub const MAX_BRANCHES: usize = 32;

/// One taken branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Branch {
    /// Address of the branch instruction. On AMD it can be the address of a compare that is fused
    /// with it.
    pub from: u64,
    /// Address of the branch target.
    pub to: u64,
    /// Cycles since the previously recorded branch, at most 65,535; valid only with
    /// [`Branch::CYCLES`].
    pub cycles: u16,
    /// [`BranchKind`].
    pub kind: u8,
    /// [`Branch::PREDICTED`] and the other flags.
    pub flags: u8,
    /// 0.
    pub reserved: u32,
}

impl Branch {
    /// Flag: the processor predicted the branch correctly.
    pub const PREDICTED: u8 = 1 << 0;
    /// Flag: the processor mispredicted the branch. If neither flag is set, the processor does not
    /// record this.
    pub const MISPREDICTED: u8 = 1 << 1;
    /// Flag: `cycles` is known.
    pub const CYCLES: u8 = 1 << 2;
    /// Flag: the branch was in a transaction.
    pub const TRANSACTION: u8 = 1 << 3;
    /// Flag: the branch is a transaction abort.
    pub const ABORT: u8 = 1 << 4;
    /// Flag: one of the addresses is in the kernel, which this client may not see; both are given
    /// as 0.
    pub const HIDDEN: u8 = 1 << 5;
}

const _: () = assert!(size_of::<Branch>() == 24);

wire_enum! {
    /// The kind of branch, if the processor records it (Intel's architectural LBR).
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
        /// Interrupt, exception, system call, far transfer or other branch.
        Other = 7 "other"
    }
}

wire_enum! {
    /// How a processor records branches.
    #[derive(FromZeros)]
    BranchRecords {
        /// It does not, or not in a way that can be used here: see [`BranchReason`].
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
    #[derive(FromZeros)]
    BranchReason {
        /// The processor has no branch records of a known kind.
        NoRecords = 0 "no-records"
        /// They can be recorded.
        Available = 1 "available"
        /// Overflows do not interrupt on this processor.
        NoInterrupt = 2 "no-interrupt"
        /// It runs under a hypervisor that does not offer branch records.
        Hypervisor = 3 "hypervisor"
        /// IA32_PERF_CAPABILITIES reports a format without LBR_INFO, or leaf 0x1C reports no
        /// filters.
        Format = 4 "format"
        /// The records cannot be frozen when an overflow interrupts, and the interrupt's own
        /// branches would push them out.
        NoFreeze = 5 "no-freeze"
    }
}
