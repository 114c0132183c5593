//! Limits the time spent in interrupts: a hung machine is worse than a poor profile.
//!
//! The cost of interrupts is added up over a window: the time in the handler, plus a fixed cost per
//! interrupt that the handler cannot see. When it exceeds the budget, the periods of all sampled
//! sources are doubled, immediately rather than at the end of the window; after a calm second they
//! are halved again. Interrupts without an overflow of the session's counters are counted too, even
//! while nothing runs: too many in a short time are a storm.

use crate::plan::limits::{Limits, WINDOWS_A_SECOND};
use zerocopy::FromZeros;

/// What the throttle decides at the end of a window.
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

/// The duration of a window that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elapsed(u64);

/// One processor's guard.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Throttle {
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
    /// register accesses for the branches of each sample.
    pub(crate) fn new(limits: &Limits, virtualized: bool, accesses: u64) -> Self {
        let (interrupt, access) = if virtualized {
            (limits.unseen_virtualized, limits.access_virtualized)
        } else {
            (limits.unseen, limits.access)
        };
        Self { unseen: interrupt + accesses * access, ..Self::new_zeroed() }
    }

    /// Accounts for an interrupt without an overflow of the session's counters; `generated`:
    /// the periods that have elapsed so far. Returns whether such interrupts are now a storm.
    ///
    /// One interrupt may handle the overflows of several counters. Where delivery does not mask
    /// LVTPC (AMD), each of these has requested an interrupt of its own, and the local APIC keeps
    /// one of them pending, which then finds nothing: this is not part of a storm.
    pub(crate) fn spurious(&mut self, now: u64, generated: u64) -> bool {
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
    /// time-stamp counter. `None`: the window continues, within the budget; otherwise call
    /// [`Self::decide`].
    #[inline]
    pub(crate) fn account(&mut self, entry: u64, exit: u64, limits: &Limits) -> Option<Elapsed> {
        // The first interrupt opens the window: opened at START, it would have idle time in it.
        if self.began == 0 {
            self.began = entry;
        }
        let seen = exit.wrapping_sub(entry);
        self.spent = self.spent.wrapping_add(seen).wrapping_add(self.unseen);
        let elapsed = exit.wrapping_sub(self.began);
        // At once when the budget is spent: a source with a very short period would hang the
        // processor before the window ends.
        let goes_on = self.spent <= limits.allowed && elapsed < limits.window;
        (!goes_on).then_some(Elapsed(elapsed))
    }

    /// Decides what to do after an interrupt that ended a window.
    pub(crate) fn decide(
        &mut self,
        now: u64,
        Elapsed(elapsed): Elapsed,
        limits: &Limits,
    ) -> Decision {
        if self.spent > limits.allowed {
            self.calm_windows = 0;
            self.begin(now);
            return Decision::Throttle;
        }
        self.end_window(elapsed, limits);
        self.begin(now);
        if self.calm_windows >= WINDOWS_A_SECOND {
            self.calm_windows = 0;
            return Decision::Relax;
        }
        Decision::Allow
    }

    /// Accounts for the end of a window that took `elapsed`, which spans several windows when
    /// interrupts are rare.
    fn end_window(&mut self, elapsed: u64, limits: &Limits) {
        // Only an interrupt comes here, so the windows of a quiet time are counted when it ends.
        let windows = elapsed / limits.window.max(1);
        let calm = self.spent / windows.max(1) < limits.allowed / CALM_PART;
        self.calm_windows = if calm { self.calm_windows.saturating_add(windows) } else { 0 };
    }

    fn begin(&mut self, now: u64) {
        self.began = now;
        self.spent = 0;
    }
}
