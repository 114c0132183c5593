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
use crate::cpu::machine::Machine;
use crate::cpu::registers::{amd, intel};
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
            let own = (config.select_msr, pmu::select(capabilities, active.shown, config));
            let next = (
                config.select_msr + capabilities.layout.stride,
                amd::MERGE_SELECT | capabilities.enable,
            );
            let registers = [Some(own), config.pair.then_some(next)];
            let select = &mut selects[config.source];
            let mut differs = false;
            for (register, written) in registers.into_iter().flatten().filter(|one| one.0 != 0) {
                let found = if *select == Select::Ours {
                    pmu::put_back(self.machine, register, u64::MAX, written)
                } else {
                    Some(self.machine.read_msr(register)).filter(|&it| it != written)
                };
                if let Some(found) = found {
                    note(changes, register, written, found);
                    differs = true;
                }
            }
            if differs {
                changed |= config.bit();
                // mistake: select-fought-for
                if *select == Select::PutBack {
                    *select = Select::Lost;
                    counts[config.source] = Count::default();
                    lost |= config.bit();
                } else {
                    *select = Select::PutBack;
                }
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
            let most = since.saturating_mul(MOST_EVENTS_A_TICK).saturating_add(UNTIMED_EVENTS);
            // With what the handler has added since the previous look.
            let all = total.counted.wrapping_add(came).wrapping_sub(looked.total);
            // A counter that has come round is more than half its range below its last value.
            let is_its_own = came <= counter.config.width.mask() / 2 && all <= most;
            if !is_its_own {
                note(changes, counter.config.write_msr, counter.last, value);
            }
            // mistake: change-counted
            if is_its_own && changed & counter.config.bits() == 0 {
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

/// Counts a change, and keeps it if it is the first.
#[cold]
fn note(changes: &mut Changes, register: u32, written: u64, found: u64) {
    if changes.number == 0 {
        *changes = Changes { register, written, found, ..Changes::default() };
    }
    changes.number = changes.number.saturating_add(1);
}
