//! Counts in which each figure identifies its event and its mode.

use crate::cpu::event::{Counts, Event};

/// How often `event` happens in user mode in one round.
pub(crate) fn user(event: Event) -> u64 {
    1_000 + 16 * event.index() as u64
}

/// How often `event` happens in kernel mode in one round.
pub(crate) fn kernel(event: Event) -> u64 {
    100_000 + 16 * event.index() as u64
}

/// How often `event` happens in one round, in both modes together.
pub(crate) fn both_modes(event: Event) -> u64 {
    user(event) + kernel(event)
}

/// All that has happened after this many rounds.
pub(crate) fn after(rounds: u64) -> Counts {
    let mut counts = Counts::default();
    for event in Event::ALL {
        let user = rounds * user(event);
        counts.set(event, user + rounds * kernel(event), user);
    }
    counts
}

/// `event` alone, this often in user mode.
pub(crate) fn only(event: Event, user: u64) -> Counts {
    let mut counts = Counts::default();
    counts.set(event, user, user);
    counts
}
