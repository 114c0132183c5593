//! Sessions, which the handle that owns them opens, configures, starts, stops and closes.

use super::{Access, RequestCode};
use crate::hal::HalProfileSourceInterval;
use crate::{ReplyHeader, RequestHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Opens a session: [`super::Plain`] (with the flags [`KERNEL`] and [`super::source::APPROXIMATE`]
/// as required) to [`Opened`]. It ends with [`CLOSE`], or when its handle is closed for whatever
/// reason.
pub const OPEN: RequestCode = RequestCode::new(7, Access::Write);
/// Sets what a stopped session is to count: [`Configure`], followed by its [`Spec`]s, to
/// [`Configured`] followed by one [`UsedInterval`] for each.
pub const CONFIGURE: RequestCode = RequestCode::new(8, Access::Write);
/// Starts counting on all processors of the session: [`Session`] to a bare header.
pub const START: RequestCode = RequestCode::new(9, Access::Write);
/// Stops counting, after a final read of every counter: [`Session`] to the first page of
/// [`super::counts::SNAPSHOT`], or to a bare header if the output cannot hold that.
pub const STOP: RequestCode = RequestCode::new(10, Access::Write);
/// Stops the session if necessary, and ends it: [`Session`] to a bare header.
pub const CLOSE: RequestCode = RequestCode::new(11, Access::Write);
/// Sets the interval of one source of the session: [`SetInterval`] to [`UsedInterval`] after a
/// header ([`IntervalSet`]). ProfileTime's interval is in units of 100 ns.
pub const SET_INTERVAL: RequestCode = RequestCode::new(12, Access::Write);

/// Flag of [`OPEN`]: the session may count and see kernel mode.
pub const KERNEL: u32 = 1 << 1;
/// Flag of [`CONFIGURE`]: every source is sampled at its interval.
pub const SAMPLE: u32 = 1 << 3;
/// Flag of [`CONFIGURE`]: Windows adds up the counters for each thread while the session runs; see
/// [`super::threads`]. Every source takes a general counter, the same one on every processor; all
/// sources run at once, on all processors, and none is sampled.
pub const THREADS: u32 = 1 << 4;
/// Flag of [`CONFIGURE`]: system events are recorded while the session runs; see [`super::events`].
pub const EVENTS: u32 = 1 << 6;

/// Reply to [`OPEN`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Opened {
    /// The header.
    pub header: ReplyHeader,
    /// The session's number, never 0.
    pub session: u32,
    /// 0.
    pub reserved: u32,
}

/// A request about one session.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Session {
    /// The header; no flags.
    pub header: RequestHeader,
    /// The session.
    pub session: u32,
    /// 0.
    pub reserved: u32,
}

/// The most processors in a machine: 32 groups of 64.
pub const MAX_PROCESSORS: usize = 2048;

/// A set of processors, one bit each; empty means all.
pub type ProcessorBits = [u64; MAX_PROCESSORS / 64];

/// Request of [`CONFIGURE`] and [`super::source::PLAN`]; [`Spec`]s follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Configure {
    /// The header; [`SAMPLE`] or [`THREADS`], and [`EVENTS`] as required (in a PLAN also
    /// [`super::source::APPROXIMATE`]).
    pub header: RequestHeader,
    /// The session; 0 in a PLAN.
    pub session: u32,
    /// Number of specs that follow.
    pub sources: u32,
    /// How long each slice of multiplexing runs, in units of 100 ns; 0 for the default.
    pub slice_100ns: u32,
    /// Capacity of each processor's ring, in samples; 0 for the default.
    pub ring_samples: u32,
    /// Seed for shuffling the order of the slices, and for drawing periods.
    pub slice_seed: u32,
    /// Branches recorded for each sample: 0, 8, 16 or 32.
    pub branches: u16,
    /// Which branches are recorded: [`Self::TO_KERNEL`] and the other bits. If no kind is named,
    /// all kinds are recorded; if no mode is named, branches to user mode, and also to kernel mode
    /// if the client may see its addresses.
    pub branch_filter: u16,
    /// Where to count.
    pub processors: ProcessorBits,
}

impl Configure {
    /// In `branch_filter`, with the bit positions of LBR_SELECT and TraceConfigureLastBranchRecord:
    /// branches to kernel mode. The mode is that of the target; a branch from the other mode is
    /// recorded with both addresses, or is [`crate::Branch::HIDDEN`].
    pub const TO_KERNEL: u16 = 1 << 0;
    /// Branches to user mode.
    pub const TO_USER: u16 = 1 << 1;
    /// Conditional jumps.
    pub const CONDITIONAL: u16 = 1 << 2;
    /// Near relative calls.
    pub const CALLS: u16 = 1 << 3;
    /// Near indirect calls.
    pub const INDIRECT_CALLS: u16 = 1 << 4;
    /// Near returns.
    pub const RETURNS: u16 = 1 << 5;
    /// Near indirect jumps.
    pub const INDIRECT_JUMPS: u16 = 1 << 6;
    /// Near relative jumps.
    pub const JUMPS: u16 = 1 << 7;
    /// Far branches: interrupts, exceptions, system calls, and the returns from them.
    pub const FAR: u16 = 1 << 8;
    /// Both modes.
    pub const MODES: u16 = 0b11;
    /// All kinds.
    pub const KINDS: u16 = 0b1_1111_1100;
}

/// One source to count or sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Spec {
    /// KPROFILE_SOURCE.
    pub source: u32,
    /// Sources with the same non-zero number run together or not at all.
    pub group: u16,
    /// [`Self::USER`] and [`Self::KERNEL`].
    pub filter: u16,
    /// Events between samples; 0 for the source's default.
    pub interval: u64,
    /// The select, for [`crate::ProfileSource::RAW`]; otherwise 0.
    pub raw: u64,
    /// The general counters that may count it, as a mask or [`Self::ANY_COUNTER`], for
    /// [`crate::ProfileSource::RAW`]; otherwise 0.
    pub counters: u32,
    /// The CPU types that count it, as a mask; 0 for all.
    pub cpu_types: u16,
    /// [`Self::ALONE`] and [`Self::MEAN`].
    pub flags: u16,
}

impl Spec {
    /// Count in user mode.
    pub const USER: u16 = 1 << 0;
    /// Count in kernel mode.
    pub const KERNEL: u16 = 1 << 1;
    /// In `counters`: every general counter that the processor has.
    pub const ANY_COUNTER: u32 = u32::MAX;
    /// A raw select of both modes, on any counter of any CPU type.
    pub const fn of_raw(raw: u64) -> Self {
        Self {
            source: crate::ProfileSource::RAW.0,
            group: 0,
            filter: Self::USER | Self::KERNEL,
            interval: 0,
            raw,
            counters: Self::ANY_COUNTER,
            cpu_types: 0,
            flags: 0,
        }
    }
    /// In `flags`: nothing else may be counted at the same time.
    pub const ALONE: u16 = 1 << 0;
    /// In `flags`: `interval` is a mean, around which each period is drawn, as it is around a
    /// default: see [`UsedInterval::DRAWN`].
    pub const MEAN: u16 = 1 << 1;
}

/// Reply to [`CONFIGURE`]; one [`UsedInterval`] for each spec follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Configured {
    /// The header.
    pub header: ReplyHeader,
    /// Number of slices of the CPU type that needs the most.
    pub slices: u32,
    /// Number of used intervals that follow.
    pub sources: u32,
    /// How long each slice runs, in units of 100 ns.
    pub slice_100ns: u32,
    /// Capacity that each processor's ring will have, in samples.
    pub ring_samples: u32,
}

/// The interval in use for one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct UsedInterval {
    /// KPROFILE_SOURCE.
    pub source: u32,
    /// [`Self::CLAMPED`], [`Self::BY_REFERENCE_CYCLES`] and the other bits.
    pub flags: u32,
    /// The requested interval.
    pub requested: u64,
    /// The interval used.
    pub used: u64,
    /// If `used` is a time, the counter's events between samples; otherwise the same as `used`.
    pub events: u64,
}

impl UsedInterval {
    /// The requested interval was outside the source's limits.
    pub const CLAMPED: u32 = 1 << 0;
    /// Sampling by time, served by reference cycles: halted time is not sampled.
    pub const BY_REFERENCE_CYCLES: u32 = 1 << 1;
    /// Sampling by time, served by core cycles with a period computed from the time-stamp counter's
    /// frequency: halted time is not sampled, and a core that runs faster or slower is sampled more
    /// or less often.
    pub const BY_CORE_CYCLES: u32 = 1 << 2;
    /// Each of its periods is drawn at random, from `events - events / 16` to `events + events / 16`,
    /// so that they are not in step with what runs. A sample has its own.
    pub const DRAWN: u32 = 1 << 3;
}

/// Request of [`SET_INTERVAL`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct SetInterval {
    /// The header; no flags.
    pub header: RequestHeader,
    /// The session, which must be stopped.
    pub session: u32,
    /// 0.
    pub reserved: u32,
    /// The HAL's own structure.
    pub interval: HalProfileSourceInterval,
}

/// Reply to [`SET_INTERVAL`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct IntervalSet {
    /// The header.
    pub header: ReplyHeader,
    /// The interval now in use.
    pub interval: UsedInterval,
}

const _: () = {
    assert!(size_of::<Opened>() == 32);
    assert!(size_of::<Session>() == 24);
    assert!(size_of::<Configure>() == 296);
    assert!(size_of::<Spec>() == 32);
    assert!(size_of::<Configured>() == 40);
    assert!(size_of::<UsedInterval>() == 32);
    assert!(size_of::<SetInterval>() == 40);
    assert!(size_of::<IntervalSet>() == 56);
};
