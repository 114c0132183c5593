//! What errata do to the general counters of a model that has them.

use crate::cpu::counter::Counter;
use crate::cpu::event_select::EventSelect;
use crate::quirks::{Quirk, Quirks};
use std::ops::RangeInclusive;

/// The errata of one logical processor.
#[derive(Clone, Debug)]
pub(super) struct Errata {
    /// The counter that the microcode has taken: [`Quirk::TsxForceAbort`].
    pub(super) taken_counter: Option<usize>,
    /// [`Quirk::BroadwellPeriod`].
    pub(super) loses_low_bits: bool,
    /// [`Quirk::SilentFixed`].
    pub(super) silent_fixed: bool,
    pub(super) reset: Reset,
    /// [`Quirk::ThreadLeak`].
    leaks: bool,
    /// The events that have leaked from each general counter and were not taken yet.
    leaked: Vec<u64>,
}

/// [`Quirk::NehalemReset`]: which counters have been reset. Each is a mask of general counters.
#[derive(Clone, Debug)]
pub(super) struct Reset {
    needed: bool,
    /// Counters that have been reset and have not run since.
    fresh: u32,
    /// Counters whose select was changed after they had run: these count every second event.
    halved: u32,
    /// Whether the reset has begun: the four counters are on with its selects, and began at 0.
    begun: bool,
}

/// The selects of the reset (intel_pmu_nhm_workaround).
const SELECTS: [u64; 4] = [0x43_00B5, 0x43_00D2, 0x43_00B1, 0x43_00B1];
const ALL: u32 = 0xF;
/// The memory events of [`Quirk::ThreadLeak`].
const MEMORY: RangeInclusive<u8> = 0xD0..=0xD3;

impl Errata {
    pub(super) fn new(quirks: Quirks) -> Self {
        Self {
            taken_counter: quirks.has(Quirk::TsxForceAbort).then_some(3),
            loses_low_bits: quirks.has(Quirk::BroadwellPeriod),
            leaks: quirks.has(Quirk::ThreadLeak),
            leaked: Vec::new(),
            silent_fixed: quirks.has(Quirk::SilentFixed),
            reset: Reset {
                needed: quirks.has(Quirk::NehalemReset),
                fresh: 0,
                halved: 0,
                begun: false,
            },
        }
    }

    /// Notes that a general counter has counted events of a select.
    pub(super) fn counted(&mut self, counter: usize, select: EventSelect, events: u64) {
        if self.leaks && MEMORY.contains(&select.event()) {
            self.leaked.resize(self.leaked.len().max(counter + 1), 0);
            self.leaked[counter] += events;
        }
    }

    /// What has leaked from each general counter since the last call.
    pub(super) fn take_leaked(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.leaked)
    }
}

impl Reset {
    /// Whether a counter counts every second event.
    pub(super) fn halves(&self, counter: usize) -> bool {
        self.halved >> counter & 1 == 1
    }

    /// Notes that a counter's select gets another value.
    pub(super) fn select_changed(&mut self, counter: usize) {
        let bit = 1 << counter & ALL;
        if self.needed {
            // A counter that was reset and has not run takes any select.
            self.halved |= bit & !self.fresh;
        }
    }

    /// Notes that the global control register gets this value. The reset is over when the four
    /// counters are stopped again.
    pub(super) fn control_written(
        &mut self,
        value: u64,
        selects: &[EventSelect],
        counters: &[Counter],
    ) {
        // The reset is these four selects on counters at 0, on together and off again; anything
        // less leaves the erratum.
        let on = value as u32 & ALL;
        let is_reset = selects.iter().zip(SELECTS).all(|(one, other)| one.into_bits() == other)
            && counters.iter().take(4).all(|counter| counter.value() == 0);
        if self.begun && on == 0 {
            (self.fresh, self.halved) = (ALL, 0);
        } else {
            for (counter, select) in selects.iter().enumerate().take(4) {
                // It runs from here on, so a later change of its select needs another reset.
                if on >> counter & 1 == 1 && select.en() {
                    self.fresh &= !(1 << counter);
                }
            }
        }
        self.begun = on == ALL && is_reset;
    }
}
