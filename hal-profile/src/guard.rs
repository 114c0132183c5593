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
    pub(crate) fn account(
        &mut self,
        entry: u64,
        exit: u64,
        frequency: u64,
        budget: u32,
    ) -> Verdict {
        let window = frequency / WINDOWS_A_SECOND;
        let allowed = window / 1000 * u64::from(budget);
        let began = *self.window_began.get_or_insert(entry);
        self.spent = self.spent.saturating_add(exit.wrapping_sub(entry));
        let exceeded = self.spent > allowed;
        if exceeded || exit.wrapping_sub(began) >= window {
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
