//! How much of a processor's time interrupts may take.

use zerocopy::FromZeros;

/// The default share of a processor's time that interrupts may take, in thousandths.
pub(crate) const DEFAULT_BUDGET: u32 = 100;

/// Windows per second.
pub(crate) const WINDOWS_A_SECOND: u64 = 100;
/// The cost of entering and leaving an interrupt, outside the handler, in nanoseconds: an
/// assumption.
const UNSEEN_NS: u64 = 500;
/// The same when a hypervisor injects the interrupt and intercepts its end.
const UNSEEN_VIRTUALIZED_NS: u64 = 5_000;

/// The additional cost of each register access for branch records, in nanoseconds, from the cache
/// lines that the records displace and from exits to a hypervisor: also assumptions.
const UNSEEN_ACCESS_NS: u64 = 5;
const UNSEEN_ACCESS_VIRTUALIZED_NS: u64 = 50;

/// Limits on the time that interrupts may take on a processor, in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub(crate) struct Limits {
    /// Length of a window.
    pub(crate) window: u64,
    /// How much of it interrupts may take.
    pub(crate) allowed: u64,
    /// The cost of an interrupt that the handler does not see.
    pub(crate) unseen: u64,
    /// The same in a virtual machine.
    pub(crate) unseen_virtualized: u64,
    /// The cost of a register access for branch records that the handler does not see.
    pub(crate) access: u64,
    /// The same in a virtual machine.
    pub(crate) access_virtualized: u64,
}

impl Limits {
    /// Limits of `thousandths` of the time, for a time-stamp counter of this frequency.
    pub(crate) const fn new(frequency: u64, thousandths: u32) -> Self {
        let window = frequency / WINDOWS_A_SECOND;
        let thousand = frequency / 1_000;
        Self {
            window,
            allowed: window / 1000 * thousandths as u64,
            unseen: thousand * UNSEEN_NS / 1_000_000,
            unseen_virtualized: thousand * UNSEEN_VIRTUALIZED_NS / 1_000_000,
            access: thousand * UNSEEN_ACCESS_NS / 1_000_000,
            access_virtualized: thousand * UNSEEN_ACCESS_VIRTUALIZED_NS / 1_000_000,
        }
    }
}
