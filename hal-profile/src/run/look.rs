//! Looks at the session's registers again: other software with the right to write them may have
//! done so, and what is then counted looks like any other count.
//!
//! A look is made at STOP, at each SNAPSHOT, at the end of a slice and at each tick that reads the
//! counters; not in the overflow handler, whose time is bounded. What it cannot see: a change that
//! was undone between two looks, and a counter that somebody raised by no more than it could have
//! counted, or lowered and that has passed its last value again. In a session that samples, the
//! handler undoes some changes: on versions 2 and 3 what cleared the global control register, as
//! after a freeze, and on AMD the select of a counter that overflows.
//!
//! The session's bits of a control register are set again each time. A select is put back once; if
//! it is changed again, it is left to whoever wants it and its source ends: two drivers that keep
//! overwriting each other would both count nonsense. In either case what was counted since the
//! previous look is dropped, with its time.

use crate::cpu::capabilities::Gate;
use crate::cpu::counter::CounterWidth;
use crate::cpu::machine::Machine;
use crate::cpu::registers::intel;
use crate::plan::counter_config::Active;
use crate::run::host::Local;
use crate::run::pmu;
use crate::run::state::{ProcessorState, Select};
use shared_types::ProfileInterface;
use shared_types::request::counts::{Changes, Count};

/// The most events that a counter can count in a tick of the time-stamp counter: 64 in a cycle (AMD's
/// merged counters, PPR for AMD Family 17h, "Large Increment per Cycle Events"; others take less),
/// and four cycles in a tick, more than any processor's highest frequency is above its nominal one.
const MOST_EVENTS_A_TICK: u64 = 64 * 4;
/// The most events between the reads of the time stamp and of the counters.
const UNTIMED_EVENTS: u64 = 1 << 16;

impl<M: Machine> Local<'_, M> {
    /// Reads each register that makes the running counters count, and puts back what is not as it
    /// was written. Returns the counters for which something was changed, in the layout of the
    /// global registers: [`Self::read_all`] drops what they have counted since the previous look.
    pub(crate) fn look(&mut self) -> u64 {
        let interface = self.state.capabilities.interface();
        // The historic interfaces' selects have bits that the processor changes itself (OVF).
        // mistake: not-looked
        if !matches!(interface, ProfileInterface::Emon | ProfileInterface::Amd64) {
            return 0;
        }
        let changed = self.look_at_selects() | self.look_at_fixed_control();
        // A freeze of the session's own overflow, whose interrupt is pending behind the mask, is no
        // change: the handler or the poll ends it.
        if self.interrupt_is_pending() { changed } else { changed | self.look_at_controls() }
    }

    fn interrupt_is_pending(&mut self) -> bool {
        self.program.settings.samples
            && self.state.active.get().iter().any(|counter| {
                counter.config.interrupts
                    && counter.overflowed(pmu::read(self.machine, self.state.refusals, counter))
            })
    }

    /// What stops all counters at once: their bits in the global control register, and a freeze.
    fn look_at_controls(&mut self) -> u64 {
        let (machine, state) = (&mut *self.machine, &mut *self.state);
        let (global, bits) = (state.capabilities.global, state.active.bits());
        if state.capabilities.gate != Gate::Global || bits == 0 {
            return 0;
        }
        let mut changed = 0;
        if let Some(found) = pmu::put_back(machine, global.control, bits, bits) {
            note(&mut state.changes, global.control, bits, found);
            changed |= bits & !found;
        }
        if global.freeze != 0 {
            let shown = pmu::acknowledge_shown(machine, &state.capabilities, global.freeze);
            if shown & global.freeze != 0 {
                note(&mut state.changes, global.status, 0, global.freeze);
                changed |= bits;
            }
        }
        changed
    }

    fn look_at_fixed_control(&mut self) -> u64 {
        let state = &mut *self.state;
        let (mut mask, mut written) = (0, 0);
        for counter in state.active.get() {
            let (capabilities, shown) = (&state.capabilities, state.active.shown);
            let (bits, value) = pmu::fixed_control(capabilities, shown, &counter.config);
            mask |= bits;
            written |= value;
        }
        if mask == 0 {
            return 0;
        }
        let register = intel::IA32_FIXED_CTR_CTRL;
        let Some(found) = pmu::put_back(self.machine, register, mask, written) else {
            return 0;
        };
        note(&mut state.changes, register, written, found);
        let differs = |counter: &&Active| {
            let config = &counter.config;
            let bits = config.fixed_control() | config.user_disable(&state.capabilities);
            config.counter.is_fixed() && bits & (found ^ written) != 0
        };
        state.active.get().iter().filter(differs).fold(0, |bits, one| bits | one.config.bit())
    }

    fn look_at_selects(&mut self) -> u64 {
        let ProcessorState { capabilities, active, selects, counts, changes, .. } =
            &mut *self.state;
        let (mut changed, mut lost) = (0, 0);
        for counter in active.get() {
            let config = &counter.config;
            let owner = selects[config.source];
            let mut differs = false;
            for (register, written) in pmu::selects(capabilities, active.shown, config) {
                let found = if register == 0 { written } else { self.machine.read_msr(register) };
                if found == written {
                    continue;
                }
                note(changes, register, written, found);
                differs = true;
                if owner.is_put_back() {
                    self.machine.write_msr(register, written);
                }
            }
            if !differs {
                continue;
            }
            changed |= config.bit();
            selects[config.source] = owner.after_a_change();
            if selects[config.source] == Select::Lost {
                counts[config.source] = Count::default();
                lost |= config.bit();
            }
        }
        active.remove(lost);
        self.state.cleared_by_freeze &= self.state.active.bits();
        changed
    }

    /// Reads every counter. What is counted since the previous look is added to the totals; it is
    /// dropped for the counters in `changed`, and for those whose value cannot be theirs. `now`: the
    /// time up to which they have run.
    pub(crate) fn read_all(&mut self, changed: u64, now: u64) {
        let ProcessorState { active, totals, looked, changes, clock, refusals, .. } =
            &mut *self.state;
        let ticks = clock.in_slice(now);
        let since = ticks.saturating_sub(clock.looked);
        clock.looked = ticks;
        for counter in active.get_mut() {
            let value = pmu::read(self.machine, *refusals, counter);
            let total = &mut totals[counter.config.source];
            let looked = &mut looked[counter.config.counter];
            let came = counter.config.width.distance(counter.last, value);
            // This includes what the handler has added since the previous look.
            let all = total.counted.wrapping_add(came).wrapping_sub(looked.total);
            let is_changed = changed & counter.config.bits() != 0;
            let sighting = Sighting::judge(is_changed, came, all, since, counter.config.width);
            if sighting == Sighting::Written {
                note(changes, counter.config.write_msr, counter.last, value);
            }
            // mistake: change-counted
            if sighting == Sighting::Counted {
                total.add_up(counter, value);
                looked.total = total.counted;
            } else {
                counter.last = value;
                total.counted = looked.total;
                // mistake: time-of-a-change
                looked.unknown = looked.unknown.saturating_add(since);
            }
        }
    }
}

/// What a look shows of the events that a counter has counted since the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sighting {
    /// They are its source's.
    Counted,
    /// What makes the counter count was changed meanwhile, so that nobody knows what it counted.
    Changed,
    /// Somebody has written the counter: no events can have brought it to its value.
    Written,
}

impl Sighting {
    /// `came`: events since the counter was last read; `all`: those since the previous look, which are
    /// more where the handler has read it in between; `since`: ticks since that look.
    fn judge(is_changed: bool, came: u64, all: u64, since: u64, width: CounterWidth) -> Self {
        let most = since.saturating_mul(MOST_EVENTS_A_TICK).saturating_add(UNTIMED_EVENTS);
        // A counter that somebody has lowered looks as if it had wrapped: it is then more than half
        // its range above its last value.
        if came > width.mask() / 2 || all > most {
            Self::Written
        } else if is_changed {
            Self::Changed
        } else {
            Self::Counted
        }
    }
}

impl Select {
    /// Whether a look that finds the select changed writes it again.
    fn is_put_back(self) -> bool {
        self == Self::Ours
    }

    /// Whose it is once a look has found it changed.
    fn after_a_change(self) -> Self {
        match self {
            Self::Ours => Self::PutBack,
            // mistake: select-fought-for
            Self::PutBack | Self::Lost => Self::Lost,
        }
    }
}

/// Counts a change, and keeps it if it is the first.
#[cold]
fn note(changes: &mut Changes, register: u32, written: u64, found: u64) {
    if changes.number == 0 {
        *changes = Changes { register, written, found, ..Changes::default() };
    }
    changes.number = changes.number.saturating_add(1);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_look_tells_whose_the_events_are() {
        const WIDTH: CounterWidth = CounterWidth::new(48).unwrap();
        const HALF: u64 = (1 << 47) - 1;
        // In 1,000 ticks: 64 events in each of four cycles a tick, and those between two reads.
        const MOST: u64 = 256_000 + 65_536;
        for (is_changed, came, all, since, expected) in [
            (false, 0, 0, 0, Sighting::Counted),
            (false, 5, 5, 1_000, Sighting::Counted),
            (false, MOST, MOST, 1_000, Sighting::Counted),
            (false, MOST + 1, MOST + 1, 1_000, Sighting::Written),
            // The handler has read it in between.
            (false, 1, MOST, 1_000, Sighting::Counted),
            (false, 1, MOST + 1, 1_000, Sighting::Written),
            // Lowered, however long ago.
            (false, HALF, HALF, u64::MAX, Sighting::Counted),
            (false, HALF + 1, HALF + 1, u64::MAX, Sighting::Written),
            (true, 5, 5, 1_000, Sighting::Changed),
            (true, 0, 0, 0, Sighting::Changed),
            // A value that nobody can have counted is reported even so.
            (true, MOST + 1, MOST + 1, 1_000, Sighting::Written),
        ] {
            let found = Sighting::judge(is_changed, came, all, since, WIDTH);
            assert_eq!(found, expected, "{is_changed} {came} {all} {since}");
        }
    }

    #[test]
    fn a_select_is_put_back_once() {
        let mut select = Select::Ours;
        for (puts_back, next) in
            [(true, Select::PutBack), (false, Select::Lost), (false, Select::Lost)]
        {
            assert_eq!(select.is_put_back(), puts_back);
            select = select.after_a_change();
            assert_eq!(select, next);
        }
    }
}
