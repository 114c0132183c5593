//! The guard of interrupt time: a hung machine is worse than a poor profile.
//!
//! What interrupts cost is added up over a window: the time in the handler, and a fixed cost for
//! each interrupt that the handler cannot see. Above the budget the periods of all sampled sources
//! are doubled, at once and not only at the window's end; after a calm second they are halved again.
//! Interrupts without an overflow of ours are counted too, also while nothing runs: too many in a
//! short time are a storm.

use zerocopy::FromZeros;

/// What the guard decides at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within the budget.
    Allow,
    /// Above it: periods are to be doubled.
    Throttle,
    /// Far below it for a second: periods may be halved again.
    Relax,
}

/// Thousandths of a processor's time that interrupts may take by default.
pub(crate) const DEFAULT_BUDGET: u32 = 100;

/// Windows in a second.
const WINDOWS_A_SECOND: u64 = 100;
/// Spurious interrupts in [`STORM_TICKS`] that are a storm; Linux gives up after as many in a row.
pub(crate) const STORM: u32 = 100;
/// Ticks of the time-stamp counter: 7 ms at 5 GHz, 34 ms at 1 GHz. Where nothing runs nobody says
/// what a window is.
const STORM_TICKS: u64 = 1 << 25;
/// Below this part of the budget a window is calm: a doubled load is still half the budget.
const CALM_PART: u64 = 4;
/// What entering and leaving an interrupt costs besides the handler, in nanoseconds: an assumption.
const UNSEEN_NS: u64 = 500;
/// The same where a hypervisor injects the interrupt and sees its end.
const UNSEEN_VIRTUALIZED_NS: u64 = 5_000;

/// What each register access for branch records costs besides, in nanoseconds, by the lines that
/// the records displace and by exits to a hypervisor: assumptions too.
const UNSEEN_ACCESS_NS: u64 = 5;
const UNSEEN_ACCESS_VIRTUALIZED_NS: u64 = 50;

/// What interrupts may take of a processor's time, in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub(crate) struct Limits {
    /// How long a window is.
    window: u64,
    /// What interrupts may take of it.
    allowed: u64,
    /// What an interrupt costs that the handler does not see.
    unseen: u64,
    /// The same in a virtual machine.
    unseen_virtualized: u64,
    /// What a register access for branch records costs that the handler does not see.
    access: u64,
    /// The same in a virtual machine.
    access_virtualized: u64,
}

impl Limits {
    /// So many thousandths, where the time-stamp counter has this frequency.
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

/// How long a window that is over took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elapsed(u64);

/// One processor's guard.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Guard {
    /// When the window began; 0 where none is open.
    began: u64,
    /// What an interrupt costs that the handler does not see.
    unseen: u64,
    spent: u64,
    /// Spurious interrupts, and since when they are counted.
    spurious: u32,
    spurious_since: u64,
    calm_windows: u64,
}

impl Guard {
    /// A guard of a new session, on bare metal or in a virtual machine, which accesses so many
    /// registers for each sample's branches.
    pub(crate) fn new(limits: &Limits, virtualized: bool, accesses: u64) -> Self {
        let (interrupt, access) = if virtualized {
            (limits.unseen_virtualized, limits.access_virtualized)
        } else {
            (limits.unseen, limits.access)
        };
        Self {
            unseen: interrupt + accesses * access,
            ..Self::new_zeroed()
        }
    }

    /// Accounts for an interrupt without an overflow of ours. Answers whether they are a storm.
    pub(crate) fn spurious(&mut self, now: u64) -> bool {
        if now.wrapping_sub(self.spurious_since) >= STORM_TICKS {
            (self.spurious, self.spurious_since) = (0, now);
        }
        self.spurious += 1;
        self.spurious >= STORM
    }

    /// Accounts for an interrupt that was handled from `entry` to `exit`, in ticks of the time-stamp
    /// counter. `None`: the window goes on, within the budget; else [`Self::decide`] decides.
    #[inline]
    pub(crate) fn account(&mut self, entry: u64, exit: u64, limits: &Limits) -> Option<Elapsed> {
        if self.began == 0 {
            self.began = entry;
        }
        let seen = exit.wrapping_sub(entry);
        self.spent = self.spent.wrapping_add(seen).wrapping_add(self.unseen);
        let elapsed = exit.wrapping_sub(self.began);
        let goes_on = self.spent <= limits.allowed && elapsed < limits.window;
        (!goes_on).then_some(Elapsed(elapsed))
    }

    /// What follows of an interrupt that has ended a window.
    #[cold]
    pub(crate) fn decide(
        &mut self,
        now: u64,
        Elapsed(elapsed): Elapsed,
        limits: &Limits,
    ) -> Verdict {
        if self.spent > limits.allowed {
            self.calm_windows = 0;
            self.begin(now);
            return Verdict::Throttle;
        }
        self.end_window(elapsed, limits);
        self.begin(now);
        if self.calm_windows >= WINDOWS_A_SECOND {
            self.calm_windows = 0;
            return Verdict::Relax;
        }
        Verdict::Allow
    }

    /// A window is over that took `elapsed`, which is more than one where interrupts are rare.
    fn end_window(&mut self, elapsed: u64, limits: &Limits) {
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
    }
}
