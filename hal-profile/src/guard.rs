//! The guard of interrupt time: a hung machine is worse than a poor profile.
//!
//! Time spent in the handler is added up over a window. Where it exceeds the budget the periods of
//! all sampled sources are lengthened, at once and not only at the window's end.

/// What the guard decides after an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within the budget.
    Allow,
    /// Above it.
    Lengthen,
}

/// Thousandths of a processor's time that interrupts may take by default.
pub(crate) const DEFAULT_BUDGET: u32 = 100;

/// Windows in a second.
const WINDOWS_A_SECOND: u64 = 100;

/// What interrupts may take of a processor's time, in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Of a window so long
    window: u64,
    /// so much.
    allowed: u64,
}

impl Limits {
    /// Nothing.
    pub(crate) const NONE: Self = Self {
        window: 0,
        allowed: 0,
    };

    /// So many thousandths, where the time-stamp counter has this frequency.
    pub(crate) const fn new(frequency: u64, thousandths: u32) -> Self {
        let window = frequency / WINDOWS_A_SECOND;
        Self {
            window,
            allowed: window / 1000 * thousandths as u64,
        }
    }
}

/// One processor's guard. Times are ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    window_began: Option<u64>,
    spent: u64,
}

impl Guard {
    pub(crate) const NEW: Self = Self {
        window_began: None,
        spent: 0,
    };

    /// Accounts for an interrupt from `entry` to `exit`.
    pub(crate) fn account(&mut self, entry: u64, exit: u64, limits: Limits) -> Verdict {
        let began = *self.window_began.get_or_insert(entry);
        self.spent = self.spent.saturating_add(exit.wrapping_sub(entry));
        let exceeded = self.spent > limits.allowed;
        if exceeded || exit.wrapping_sub(began) >= limits.window {
            *self = Self {
                window_began: Some(exit),
                spent: 0,
            };
        }
        if exceeded {
            Verdict::Lengthen
        } else {
            Verdict::Allow
        }
    }
}
