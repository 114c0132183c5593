//! Branch records: the branches that a processor took before a sample.

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
