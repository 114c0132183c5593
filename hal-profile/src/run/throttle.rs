//! Limits the time spent in interrupts: a hung machine is worse than a poor profile.
//!
//! The cost of interrupts is added up over a window: the time in the handler, plus a fixed cost per
//! interrupt that the handler cannot see. When it exceeds the budget, the periods of all sampled
//! sources are doubled, immediately rather than at the end of the window; after a calm second they
//! are halved again. Interrupts without an overflow of the session's counters are counted too, even
//! while nothing runs: too many in a short time are a storm.

use zerocopy::FromZeros;

/// The share of a processor's time that interrupts may take, in thousandths.
pub(crate) const BUDGET: u32 = 100;
const WINDOWS_A_SECOND: u64 = 100;
/// The cost of entering and leaving an interrupt, outside the handler, in nanoseconds, and the
/// additional cost of each register access for branch records, from the cache lines that the records
/// displace. Assumptions; so are the others, where a hypervisor injects the interrupt, intercepts
/// its end, and may intercept the accesses.
const UNSEEN_NS: [u64; 2] = [500, 5];
const UNSEEN_VIRTUALIZED_NS: [u64; 2] = [5_000, 50];

/// What the throttle decides after an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Within the budget.
    Allow,
    /// Above the budget: periods are to be doubled.
    Throttle,
    /// Far below the budget for a second: periods may be halved again.
    Relax,
}

/// This many spurious interrupts within [`STORM_TICKS`] are a storm; Linux gives up after as many
/// in a row.
pub(crate) const STORM: u32 = 100;
/// Ticks of the time-stamp counter: 7 ms at 5 GHz, 34 ms at 1 GHz. A constant, because the length
/// of a window is not known while nothing runs.
const STORM_TICKS: u64 = 1 << 25;
/// A window is calm if its cost is below this fraction of the budget: doubled, it would still be at
/// most half the budget.
const CALM_PART: u64 = 4;

/// One processor's throttle. Times are in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Throttle {
    /// The length of a window, and how much of it interrupts may take.
    window: u64,
    allowed: u64,
    /// When the window began; 0 if none is open.
    began: u64,
    /// The cost of an interrupt that the handler does not see.
    unseen: u64,
    spent: u64,
    /// Spurious interrupts, and the time since which they are counted.
    spurious: u32,
    spurious_since: u64,
    /// The periods that had elapsed at the last of them.
    generated: u64,
    calm_windows: u64,
}

impl Throttle {
    /// A throttle for a new session, on bare metal or in a virtual machine, that makes `accesses`
    /// register accesses for the branches of each sample. `frequency`: the time-stamp counter's.
    pub(crate) fn new(frequency: u64, virtualized: bool, accesses: u64) -> Self {
        let [interrupt, access] = if virtualized { UNSEEN_VIRTUALIZED_NS } else { UNSEEN_NS };
        let window = frequency / WINDOWS_A_SECOND;
        Self {
            window,
            allowed: window / 1_000 * u64::from(BUDGET),
            unseen: frequency / 1_000 * (interrupt + accesses * access) / 1_000_000,
            ..Self::new_zeroed()
        }
    }

    /// Accounts for an interrupt without an overflow of the session's counters; `generated`:
    /// the periods that have elapsed so far. Returns whether such interrupts are now a storm.
    pub(crate) fn spurious(&mut self, now: u64, generated: u64) -> bool {
        // One interrupt may handle the overflows of several counters. Where delivery does not mask
        // LVTPC (AMD), each of these has requested an interrupt of its own, and the local APIC
        // keeps one of them pending, which then finds nothing: this is not part of a storm.
        let handled = generated.wrapping_sub(self.generated);
        self.generated = generated;
        if handled > 1 {
            return false;
        }
        if now.wrapping_sub(self.spurious_since) >= STORM_TICKS {
            (self.spurious, self.spurious_since) = (0, now);
        }
        self.spurious += 1;
        self.spurious >= STORM
    }

    /// Accounts for an interrupt that was handled from `entry` to `exit`, in ticks of the
    /// time-stamp counter.
    #[inline]
    pub(crate) fn account(&mut self, entry: u64, exit: u64) -> Decision {
        // The first interrupt opens the window: opened at START, it would have idle time in it.
        if self.began == 0 {
            self.began = entry;
        }
        let seen = exit.wrapping_sub(entry);
        self.spent = self.spent.wrapping_add(seen).wrapping_add(self.unseen);
        let elapsed = exit.wrapping_sub(self.began);
        // The throttle acts at once when the budget is spent: a source with a very short period
        // would hang the processor before the window ends.
        if self.spent <= self.allowed && elapsed < self.window {
            return Decision::Allow;
        }
        let spent = core::mem::take(&mut self.spent);
        self.began = exit;
        if spent > self.allowed {
            self.calm_windows = 0;
            return Decision::Throttle;
        }
        self.within_budget(spent, elapsed)
    }

    /// Decides at the end of a window that took `elapsed`, of which interrupts took `spent`.
    #[cold]
    fn within_budget(&mut self, spent: u64, elapsed: u64) -> Decision {
        // Only an interrupt comes here, so the windows of a quiet time are counted when it ends. A
        // time that has gone back is taken for a very long one, which at most halves the periods.
        let windows = elapsed / self.window.max(1);
        // Neither wraps: `spent` is at most `allowed`, which is a part of a window.
        let calm = spent.wrapping_mul(CALM_PART) < self.allowed.wrapping_mul(windows);
        self.calm_windows = if calm { self.calm_windows.saturating_add(windows) } else { 0 };
        if self.calm_windows < WINDOWS_A_SECOND {
            return Decision::Allow;
        }
        self.calm_windows = 0;
        Decision::Relax
    }
}
