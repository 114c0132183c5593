//! The guard of interrupt time: a hung machine is worse than a poor profile.
//!
//! What interrupts cost is added up over a window: the time in the handler, and a fixed cost for
//! each interrupt that the handler cannot see. Above the budget the periods of all sampled sources
//! are doubled, at once and not only at the window's end; after a calm second they are halved again.
//! Interrupts without an overflow of ours are counted too: too many in a window are a storm.

use zerocopy::FromZeros;

/// What the guard decides after an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within the budget.
    Allow,
    /// Above it: periods are to be doubled.
    Throttle,
    /// Far below it for a second: periods may be halved again.
    Relax,
    /// One spurious interrupt after the other.
    Storm,
}

/// Thousandths of a processor's time that interrupts may take by default.
pub(crate) const DEFAULT_BUDGET: u32 = 100;

/// Windows in a second.
const WINDOWS_A_SECOND: u64 = 100;
/// Spurious interrupts in a window that are a storm; Linux gives up after as many in a row.
pub(crate) const STORM: u32 = 100;
/// Below this part of the budget a window is calm: a doubled load is still half the budget.
const CALM_PART: u64 = 4;
/// What entering and leaving an interrupt costs besides the handler, in nanoseconds: an assumption.
const UNSEEN_NS: u64 = 500;
/// The same where a hypervisor injects the interrupt and sees its end.
const UNSEEN_VIRTUALIZED_NS: u64 = 5_000;

/// What interrupts may take of a processor's time, in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub(crate) struct Limits {
    /// How long a window is.
    window: u64,
    /// What interrupts may take of it.
    allowed: u64,
    /// What an interrupt costs that the handler does not see, on bare metal and in a virtual
    /// machine.
    unseen: [u64; 2],
}

impl Limits {
    /// So many thousandths, where the time-stamp counter has this frequency.
    pub(crate) const fn new(frequency: u64, thousandths: u32) -> Self {
        let window = frequency / WINDOWS_A_SECOND;
        Self {
            window,
            allowed: window / 1000 * thousandths as u64,
            unseen: [
                frequency / 1_000 * UNSEEN_NS / 1_000_000,
                frequency / 1_000 * UNSEEN_VIRTUALIZED_NS / 1_000_000,
            ],
        }
    }
}

/// One interrupt, as the guard sees it. Times are ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handled {
    pub(crate) entry: u64,
    pub(crate) exit: u64,
    /// No counter of ours had overflowed.
    pub(crate) spurious: bool,
    /// A hypervisor injected it.
    pub(crate) virtualized: bool,
}

/// One processor's guard.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Guard {
    /// Whether a window is open.
    open: bool,
    began: u64,
    spent: u64,
    spurious: u32,
    calm_windows: u64,
}

impl Guard {
    /// Accounts for an interrupt.
    pub(crate) fn account(&mut self, handled: Handled, limits: Limits) -> Verdict {
        if !self.open {
            (self.open, self.began) = (true, handled.entry);
        }
        let [bare, virtualized] = limits.unseen;
        let unseen = if handled.virtualized {
            virtualized
        } else {
            bare
        };
        let cost = handled
            .exit
            .wrapping_sub(handled.entry)
            .wrapping_add(unseen);
        self.spent = self.spent.saturating_add(cost);
        self.spurious += u32::from(handled.spurious);
        if self.spurious >= STORM {
            return Verdict::Storm;
        }
        if self.spent > limits.allowed {
            self.calm_windows = 0;
            self.begin(handled.exit);
            return Verdict::Throttle;
        }
        let elapsed = handled.exit.wrapping_sub(self.began);
        if elapsed < limits.window {
            return Verdict::Allow;
        }
        self.end_window(elapsed, limits);
        self.begin(handled.exit);
        if self.calm_windows >= WINDOWS_A_SECOND {
            self.calm_windows = 0;
            return Verdict::Relax;
        }
        Verdict::Allow
    }

    /// A window is over that took `elapsed`, which is more than one where interrupts are rare.
    fn end_window(&mut self, elapsed: u64, limits: Limits) {
        let windows = elapsed / limits.window.max(1);
        let calm = self.spent / windows.max(1) < limits.allowed / CALM_PART;
        self.calm_windows = if calm {
            self.calm_windows.saturating_add(windows)
        } else {
            0
        };
    }

    fn begin(&mut self, now: u64) {
        self.began = now;
        self.spent = 0;
        self.spurious = 0;
    }
}
