//! The two sides' versions, the machine, its processors and their registers.

use super::{Access, RequestCode};
use crate::{ReplyHeader, RequestHeader, Text};
use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Who is there: [`super::Plain`] to [`Hello`]. The first request of a client.
pub const HELLO: RequestCode = RequestCode::new(0, Access::Read);
/// The machine as a whole: [`super::Plain`] to [`Machine`].
pub const DESCRIBE: RequestCode = RequestCode::new(1, Access::Read);
/// Its processors: [`From`] to [`Page`] and as many [`Processor`]s as fit.
pub const PROCESSORS: RequestCode = RequestCode::new(2, Access::Read);
/// One processor's performance-monitoring registers, read only: [`From`] (the processor) to
/// [`Page`] and [`Register`]s.
pub const REGISTERS: RequestCode = RequestCode::new(3, Access::Read);

/// Reply to [`HELLO`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Hello {
    /// The header, with the answerer's wire version.
    pub header: ReplyHeader,
    /// The answerer: `halprof.sys 0.1.0`, or what it is a model of.
    pub answerer: Text<96>,
    /// 1 where the machine is modelled and no silicon.
    pub modelled: u32,
    /// 0.
    pub reserved: u32,
}

/// Reply to [`DESCRIBE`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Machine {
    /// The header.
    pub header: ReplyHeader,
    /// [`crate::ProfileInterface`] that Windows 10's HAL would choose, by the boot processor.
    pub hal_interface: u32,
    /// [`crate::Reason`] of that choice.
    pub hal_reason: u32,
    /// [`crate::ProfileInterface`] in use.
    pub interface: u32,
    /// [`crate::Reason`] of that choice.
    pub reason: u32,
    /// [`crate::Delivery`] of overflows.
    pub delivery: u32,
    /// How many processors there are.
    pub processors: u32,
    /// Ticks of the time-stamp counter in a second.
    pub timestamp_frequency: u64,
    /// Most bytes that all sample rings together may take.
    pub ring_bytes_max: u64,
    /// Bytes that they take now.
    pub ring_bytes: u64,
    /// Process that holds the counters, or 0.
    pub holder_process: u32,
    /// Number of the session that holds the counters, or 0.
    pub holder_session: u32,
    /// For how long it has held them, in ticks of the time-stamp counter.
    pub holder_ticks: u64,
    /// Most sources that one session may have.
    pub sources_max: u32,
    /// Most of a processor's time that interrupts may take, in thousandths.
    pub interrupt_budget: u32,
    /// [`Self::HANDLER_STUCK`], [`Self::THREADS_KEPT`].
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

impl Machine {
    /// Windows refused to remove the overflow handler: counters and driver stay until a restart.
    pub const HANDLER_STUCK: u32 = 1 << 0;
    /// A session that counted by thread has ended, and Windows has not taken its counters off its
    /// list, as a thread still profiles itself: they are stopped and stay reserved, and Windows is
    /// asked again and again.
    pub const THREADS_KEPT: u32 = 1 << 1;
}

/// Request for a list from an index on.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct From {
    /// The header; no flags, except as the code says.
    pub header: RequestHeader,
    /// Index of the first element wanted.
    pub first: u32,
    /// 0.
    pub reserved: u32,
}

/// The head of a reply that is a list.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Page {
    /// The header.
    pub header: ReplyHeader,
    /// How many elements follow.
    pub count: u32,
    /// How many there are in all; ask again from `first + count` while it is more.
    pub total: u32,
}

/// One logical processor.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Processor {
    /// Index over all groups; 0 is the boot processor.
    pub index: u32,
    /// Processor group.
    pub group: u16,
    /// Number in the group.
    pub number: u16,
    /// CPUID leaf 0's vendor string.
    pub vendor: [u8; 12],
    /// Full family.
    pub family: u16,
    /// Full model.
    pub model: u16,
    /// Stepping.
    pub stepping: u8,
    /// Core type of leaf 0x1A EAX bits 31:24: 0x20 efficiency, 0x40 performance, 0 not told.
    pub core_type: u8,
    /// Version of the performance-monitoring unit: see the tool's `info`.
    pub pmu_version: u8,
    /// General counters that leaf 0x0A or the family declares.
    pub counters: u8,
    /// Their width in bits.
    pub counter_width: u8,
    /// Fixed-function counters.
    pub fixed_counters: u8,
    /// Their width in bits.
    pub fixed_width: u8,
    /// Processors with the same number have identical capabilities.
    pub kind: u8,
    /// [`crate::ProfileInterface`] that this processor alone would get.
    pub interface: u32,
    /// [`crate::Reason`] of that.
    pub reason: u32,
    /// [`crate::Delivery`].
    pub delivery: u32,
    /// Leaf 0x40000000's vendor string, or zeros where no hypervisor shows itself.
    pub hypervisor: [u8; 12],
    /// General counters that are really there, as a mask.
    pub counter_mask: u32,
    /// Fixed-function counters that are really there, as a mask.
    pub fixed_mask: u32,
    /// General counters that somebody else had enabled when counting last began here, as a mask.
    pub found_counters: u32,
    /// Fixed-function counters that somebody else had enabled then, or has when no session runs:
    /// they are left alone.
    pub found_fixed: u32,
    /// [`Self::STORM`] and what the hypervisor shows of itself.
    pub flags: u32,
    /// The vendor string at leaf 0x40000100 of a hypervisor that shows another one's face at
    /// 0x40000000 (KVM and Xen with Hyper-V enlightenments), or zeros.
    pub hypervisor_behind: [u8; 12],
    /// Native model of leaf 0x1A EAX bits 23:0, which tells apart cores of one type; 0 not told.
    pub native_model: u32,
    /// Bits 47:16 of a select that may be given beyond those of architectural version 1.
    pub select_bits: u32,
    /// [`crate::BranchRecords`]: how branches are recorded.
    pub branch_records: u16,
    /// [`crate::BranchReason`]: why not, where they cannot be.
    pub branch_reason: u16,
    /// The most for each sample, 32 or less.
    pub branch_depth: u16,
    /// What a record tells: [`Self::TELLS_MISPREDICTED`] and the others.
    pub branch_tells: u16,
}

impl Processor {
    /// A storm of interrupts ended a session here, and LVTPC is left masked.
    pub const STORM: u32 = 1 << 0;
    /// The hypervisor's interface is Hv#1.
    pub const HV1: u32 = 1 << 1;
    /// Hv#1: this is the root partition (0x40000003 EBX bits 0 and 12).
    pub const HV1_ROOT: u32 = 1 << 2;
    /// Hv#1: performance monitors are offered (0x40000003 EDX bit 2).
    pub const HV1_COUNTERS: u32 = 1 << 3;
    /// Hv#1: an architectural PMU is available (0x40000003 ECX bit 7).
    pub const HV1_ARCHITECTURAL: u32 = 1 << 4;
    /// Several threads share its core (Intel: CPUID leaf 0x0B).
    pub const SHARES_CORE: u32 = 1 << 5;
    /// In `branch_tells`: whether the branch was mispredicted.
    pub const TELLS_MISPREDICTED: u16 = 1 << 0;
    /// Cycles since the branch before.
    pub const TELLS_CYCLES: u16 = 1 << 1;
    /// [`crate::BranchKind`].
    pub const TELLS_KIND: u16 = 1 << 2;
    /// Transactions.
    pub const TELLS_TRANSACTIONS: u16 = 1 << 3;
}

/// One register of one processor.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Register {
    /// The value.
    pub value: u64,
    /// The MSR's number, or for the local APIC's page 0xFFFF0000 plus the offset, or
    /// [`Self::CR4`].
    pub number: u32,
    /// 0.
    pub reserved: u32,
}

impl Register {
    /// In `number`: control register 4.
    pub const CR4: u32 = 0xFFFE_0004;
}

const _: () = {
    assert!(size_of::<Hello>() == 128);
    assert!(size_of::<Machine>() == 104);
    assert!(size_of::<From>() == 24);
    assert!(size_of::<Page>() == 32);
    assert!(size_of::<Processor>() == 104);
    assert!(size_of::<Register>() == 16);
};
