//! The versions of both sides, the machine, its processors and their registers.

use super::{Access, RequestCode};
use crate::hal::OverflowStatus;
use crate::{ReplyHeader, RequestHeader, Text};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Identifies the answering side: [`super::Plain`] to [`Hello`]. A client's first request.
pub const HELLO: RequestCode = RequestCode::new(0, Access::Read);
/// The machine as a whole: [`super::Plain`] to [`Machine`].
pub const DESCRIBE: RequestCode = RequestCode::new(1, Access::Read);
/// The machine's processors: [`From`] to [`Page`] and as many [`Processor`]s as fit.
pub const PROCESSORS: RequestCode = RequestCode::new(2, Access::Read);
/// Reads one processor's performance-monitoring registers, without changing them: [`From`] (`first`
/// is the processor's index) to [`Registers`], as many [`Register`]s as it says, and the
/// KPROFILE_SOURCEs of its OVERFLOW_STATUS.
pub const REGISTERS: RequestCode = RequestCode::new(3, Access::Read);

/// Reply to [`HELLO`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Hello {
    /// The header, with the answering side's wire version.
    pub header: ReplyHeader,
    /// The answering side: `halprof.sys 0.1.0`, or a description of the model.
    pub driver_name: Text<96>,
    /// 1 if the machine is modelled, not silicon.
    pub modelled: u32,
    /// 0.
    pub reserved: u32,
}

/// Reply to [`DESCRIBE`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Machine {
    /// The header.
    pub header: ReplyHeader,
    /// [`crate::ProfileInterface`] that Windows 10's HAL would choose for the boot processor.
    pub hal_interface: u32,
    /// [`crate::Reason`] of that choice.
    pub hal_reason: u32,
    /// [`crate::ProfileInterface`] in use.
    pub interface: u32,
    /// [`crate::Reason`] of that choice.
    pub reason: u32,
    /// [`crate::Delivery`] of overflows.
    pub delivery: u32,
    /// Number of processors.
    pub processors: u32,
    /// Frequency of the time-stamp counter, in ticks per second.
    pub timestamp_frequency: u64,
    /// The most bytes that all rings together may take.
    pub ring_bytes_max: u64,
    /// Bytes that the rings take now.
    pub ring_bytes: u64,
    /// Process of the session that has the counters, or 0.
    pub active_process: u32,
    /// Number of the session that has the counters, or 0.
    pub active_session: u32,
    /// How long it has had them, in ticks of the time-stamp counter.
    pub active_ticks: u64,
    /// The most sources that one session may have.
    pub sources_max: u32,
    /// The largest share of a processor's time that interrupts may take, in thousandths.
    pub interrupt_budget: u32,
    /// [`Self::HANDLER_STUCK`], [`Self::THREADS_KEPT`].
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

impl Machine {
    /// Windows refused to remove the overflow handler: the counters stay reserved and the driver
    /// stays loaded until Windows agrees; START asks it again.
    pub const HANDLER_STUCK: u32 = 1 << 0;
    /// A session that counted by thread has ended, but Windows has not released its counters,
    /// because a thread is still profiling itself. They are stopped and stay reserved; START
    /// asks Windows for them again.
    pub const THREADS_KEPT: u32 = 1 << 1;
}

/// Request for a list, starting at an index.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct From {
    /// The header; no flags, except those that the code allows.
    pub header: RequestHeader,
    /// Index of the first element requested.
    pub first: u32,
    /// 0.
    pub reserved: u32,
}

/// The head of a reply that is a list.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Page {
    /// The header.
    pub header: ReplyHeader,
    /// Number of elements that follow.
    pub count: u32,
    /// Total number of elements; while it is above `first + count`, ask again from there.
    pub total: u32,
}

/// One logical processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
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
    /// Core type from leaf 0x1A EAX bits 31:24: 0x20 efficiency, 0x40 performance, 0 not reported.
    pub core_type: u8,
    /// Version of the performance-monitoring unit: see the tool's `info`.
    pub pmu_version: u8,
    /// Number of general counters that leaf 0x0A or the family declares.
    pub counters: u8,
    /// Their width in bits.
    pub counter_width: u8,
    /// Number of fixed-function counters that leaf 0x0A declares.
    pub fixed_counters: u8,
    /// Their width in bits.
    pub fixed_width: u8,
    /// Its CPU type: processors with the same number have identical capabilities.
    pub cpu_type: u8,
    /// [`crate::ProfileInterface`] that this processor would get on its own.
    pub interface: u32,
    /// [`crate::Reason`] of that choice.
    pub reason: u32,
    /// [`crate::Delivery`].
    pub delivery: u32,
    /// Leaf 0x40000000's vendor string, or zeros if no hypervisor is visible.
    pub hypervisor: [u8; 12],
    /// General counters that exist and are used, as a mask.
    pub counter_mask: u32,
    /// Fixed-function counters that exist and are used, as a mask.
    pub fixed_mask: u32,
    /// General counters of the program that another owner had enabled when counting last began
    /// here, as a mask.
    pub counters_in_use: u32,
    /// Fixed-function counters that another owner had enabled then or, while no session runs, has
    /// enabled now, as a mask. They are left alone.
    pub fixed_in_use: u32,
    /// [`Self::STORM`], `SHARES_CORE`, `TSX_FORCE_ABORT` and what the hypervisor reports about itself.
    pub flags: u32,
    /// The vendor string at leaf 0x40000100 of a hypervisor that presents another's leaves at
    /// 0x40000000 (KVM and Xen with Hyper-V enlightenments), or zeros.
    pub underlying_hypervisor: [u8; 12],
    /// Native model from leaf 0x1A EAX bits 23:0, which distinguishes cores of one type; 0 not
    /// reported.
    pub native_model: u32,
    /// Bits 47:16 of the mask of bits that a raw select may set beyond those of architectural
    /// version 1.
    pub select_bits: u32,
    /// [`crate::BranchRecords`]: how branches are recorded.
    pub branch_records: u16,
    /// [`crate::BranchReason`]: if they cannot be recorded, why not.
    pub branch_reason: u16,
    /// The most branches for each sample, at most 32.
    pub branch_depth: u16,
    /// What a record contains: [`Self::INFO_MISPREDICTED`] and the other `INFO` flags.
    pub branch_info: u16,
}

impl Processor {
    /// An interrupt storm ended a session here, and LVTPC is left masked.
    pub const STORM: u32 = 1 << 0;
    /// The hypervisor's interface is Hv#1.
    pub const HV1: u32 = 1 << 1;
    /// Hv#1: this is the root partition (0x40000003 EBX bits 0 and 12).
    pub const HV1_ROOT: u32 = 1 << 2;
    /// Hv#1: performance monitors are offered (0x40000003 EDX bit 2).
    pub const HV1_COUNTERS: u32 = 1 << 3;
    /// Hv#1: an architectural PMU is available (0x40000003 ECX bit 7).
    pub const HV1_ARCHITECTURAL: u32 = 1 << 4;
    /// Several hardware threads share its core (Intel: CPUID leaf 0x0B).
    pub const SHARES_CORE: u32 = 1 << 5;
    /// Intel: TSX_FORCE_ABORT (CPUID.7.0 EDX bit 13 set, bit 11 clear): general counter 3 counts wrongly
    /// while transactions run.
    pub const TSX_FORCE_ABORT: u32 = 1 << 6;
    /// Hv#1: the hypervisor itself uses performance counters (0x40000006 EAX bit 2).
    pub const HV1_USES_COUNTERS: u32 = 1 << 7;
    /// In `branch_info`: a record says whether the branch was mispredicted.
    pub const INFO_MISPREDICTED: u16 = 1 << 0;
    /// In `branch_info`: cycles since the previous branch.
    pub const INFO_CYCLES: u16 = 1 << 1;
    /// In `branch_info`: the [`crate::BranchKind`].
    pub const INFO_KIND: u16 = 1 << 2;
    /// In `branch_info`: transactions.
    pub const INFO_TRANSACTIONS: u16 = 1 << 3;
}

/// The head of the reply to [`REGISTERS`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Registers {
    /// The header.
    pub header: ReplyHeader,
    /// Number of registers that follow.
    pub count: u32,
    /// 0.
    pub reserved: u32,
    /// The sources whose counters here have overflowed, which an interrupt or the next poll will
    /// find; none while no session runs.
    pub overflow: OverflowStatus,
}

/// One register of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Register {
    /// The value.
    pub value: u64,
    /// The MSR's number; for a register in the local APIC's page, 0xFFFF0000 plus its offset; or
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
    assert!(size_of::<Registers>() == 48);
    assert!(size_of::<Register>() == 16);
};
