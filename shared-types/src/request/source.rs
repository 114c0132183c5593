//! Profile sources: which exist, their attributes, and which sets fit together.

use super::{Access, RequestCode};
use crate::hal::HalProfileSourceInformation;
use crate::{ReplyHeader, RequestHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Lists the sources: [`super::machine::From`] (with [`APPROXIMATE`]) to [`super::machine::Page`]
/// and as many [`Source`]s as fit, including unsupported ones.
pub const ENUMERATE: RequestCode = RequestCode::new(4, Access::Read);
/// One source, as HalQuerySystemInformation(HalProfileSourceInformation) describes it: [`Query`] to
/// [`Information`].
pub const QUERY: RequestCode = RequestCode::new(5, Access::Read);
/// Whether sources fit together: [`super::session::Configure`] and its specs to [`Plan`] and, for
/// each CPU type in turn, one [`Placement`] for each source. Changes nothing.
pub const PLAN: RequestCode = RequestCode::new(6, Access::Read);

/// Flag: sources that only approximate their names count as supported.
pub const APPROXIMATE: u32 = 1 << 0;

/// One profile source, with its attributes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Source {
    /// KPROFILE_SOURCE.
    pub id: u32,
    /// [`Self::SUPPORTED`] and the flags below it.
    pub flags: u32,
    /// What the processor is programmed to count, in the interface's format; 0 if nothing is.
    pub select: u64,
    /// The interval used when none is set.
    pub default_interval: u32,
    /// The shortest interval.
    pub min_interval: u32,
    /// The longest interval.
    pub max_interval: u32,
    /// The CPU types on which it can be counted, as a mask.
    pub cpu_types: u32,
    /// [`crate::SourceTable`]: where its name is looked up, and what it counts on the boot processor.
    pub table: u32,
    /// [`crate::SourceNote`]: what a user should know; if it is not supported, why not.
    pub note: u32,
}

impl Source {
    /// The boot processor can count it.
    pub const SUPPORTED: u32 = 1 << 0;
    /// The table of the HAL's own interface has it.
    pub const HAL: u32 = 1 << 1;
    /// It can be sampled on a CPU type that counts it: an interrupt and an address are available.
    pub const SAMPLING: u32 = 1 << 2;
    /// It is a timer and takes no counter.
    pub const TIMER: u32 = 1 << 3;
    /// Its event is not what its name says: only with [`APPROXIMATE`] is it supported.
    pub const APPROXIMATES: u32 = 1 << 4;
    /// `select` is valid.
    pub const HAS_SELECT: u32 = 1 << 5;
}

/// Request about one source.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Query {
    /// The header; [`APPROXIMATE`] may be set.
    pub header: RequestHeader,
    /// KPROFILE_SOURCE.
    pub source: u32,
    /// The session whose interval is requested, or 0 for the default interval.
    pub session: u32,
}

/// Reply to [`QUERY`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Information {
    /// The header.
    pub header: ReplyHeader,
    /// The HAL's own structure.
    pub information: HalProfileSourceInformation,
    /// 0.
    pub reserved: u32,
}

/// Reply to [`PLAN`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Plan {
    /// The header.
    pub header: ReplyHeader,
    /// 1 if all sources run at once on every processor.
    pub fits: u32,
    /// Number of CPU types that follow.
    pub cpu_types: u32,
    /// Number of sources for each CPU type.
    pub sources: u32,
    /// 0.
    pub reserved: u32,
}

/// Where one source runs on one CPU type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Placement {
    /// The slice in which it runs, or [`Self::EVERY_SLICE`]; 0 if all run at once.
    pub slice: u16,
    /// Its counter: the index of a general counter, [`Self::FIXED`] plus the index of a fixed one,
    /// or [`Self::TIMER`]; with [`Self::PAIR`] if it takes two.
    pub counter: u16,
    /// [`crate::ErrorCode`] if this CPU type cannot count it, otherwise 0.
    pub error: u32,
}

impl Placement {
    /// Fixed-function counters are numbered from here.
    pub const FIXED: u16 = 0x100;
    /// Added to a general counter: the source takes the next one too.
    pub const PAIR: u16 = 0x200;
    /// It has a fixed counter to itself and runs in every slice.
    pub const EVERY_SLICE: u16 = 0xFFFF;
    /// ProfileTime takes no counter.
    pub const TIMER: u16 = 0xFFFF;

    /// Whether it takes two counters.
    pub const fn is_pair(&self) -> bool {
        self.counter != Self::TIMER && self.counter & Self::PAIR != 0
    }
}

const _: () = {
    assert!(size_of::<Source>() == 40);
    assert!(size_of::<Query>() == 24);
    assert!(size_of::<Information>() == 40);
    assert!(size_of::<Plan>() == 40);
    assert!(size_of::<Placement>() == 8);
};
