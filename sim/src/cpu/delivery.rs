//! What happens between an overflow and its interrupt.

use crate::cpu::unit::Watch;
use crate::quirks::{BRANCHES_CHANGED_EACH, LOST_EACH, Quirk, Quirks, SMALLEST_RELOAD};

/// Delivers the interrupts of one processor.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    quirks: Quirks,
    /// Distinguishes the delays of processors.
    seed: u64,
    /// Interrupts requested so far.
    asked: u64,
    /// An interrupt that has been requested and arrives when this watch's amount is reached.
    under_way: Option<Watch>,
    /// Whether the line is held active for good.
    storming: bool,
}

impl Delivery {
    pub(crate) fn new(quirks: Quirks, seed: u32) -> Self {
        Self { quirks, seed: seed.into(), asked: 0, under_way: None, storming: false }
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.quirks, self.seed as u32);
    }

    /// Whether the line is held active although no counter's overflow holds it.
    pub(crate) fn is_storming(&self) -> bool {
        self.storming
    }

    /// Whether someone does this to branch recording with the interrupt requested last.
    pub(crate) fn brings(&self, quirk: Quirk) -> bool {
        self.quirks.has(quirk) && self.asked.is_multiple_of(BRANCHES_CHANGED_EACH)
    }

    pub(crate) fn under_way(&self) -> Option<Watch> {
        self.under_way
    }

    /// The unit requests an interrupt, for this overflow if it is known; returns whether it is
    /// delivered now.
    pub(crate) fn ask(&mut self, overflow: Option<Watch>) -> bool {
        let too_near = overflow.is_some_and(|watch| watch.span < SMALLEST_RELOAD);
        if self.quirks.has(Quirk::SmallestReload) && too_near {
            // This one is not counted as a request: silicon never raises it.
            return false;
        }
        self.asked += 1;
        let lost = self.quirks.has(Quirk::Lost) && self.asked.is_multiple_of(LOST_EACH);
        if lost || self.quirks.has(Quirk::DeadInterrupts) {
            return false;
        }
        match overflow {
            Some(watch) if self.quirks.has(Quirk::Late) => {
                let at = watch.at.saturating_add(self.delay(watch.span));
                // The local APIC holds one request for a vector, however many overflows ask for it.
                self.under_way.get_or_insert(Watch { at, ..watch });
                false
            }
            _ => {
                self.begin_storm();
                true
            }
        }
    }

    /// Whether the interrupt under way arrives, where `amount` returns the current amount of a
    /// watch's feed.
    pub(crate) fn arrives(&mut self, amount: impl Fn(&Watch) -> u64) -> bool {
        let arrives = self.under_way.is_some_and(|watch| amount(&watch) >= watch.at);
        if arrives {
            self.under_way = None;
            self.begin_storm();
        }
        arrives
    }

    /// Rebases the interrupt under way: what has happened was `before` and is `now` from here on.
    pub(crate) fn count_from(
        &mut self,
        before: impl Fn(&Watch) -> u64,
        now: impl Fn(&Watch) -> u64,
    ) {
        if let Some(watch) = &mut self.under_way {
            let left = watch.at.saturating_sub(before(watch));
            watch.at = now(watch).saturating_add(left);
        }
    }

    fn begin_storm(&mut self) {
        self.storming |= self.quirks.has(Quirk::Storm);
    }

    /// 0 to 3 times `span`, in steps of its 64th part (SplitMix64's mixing; Steele, Lea and Flood
    /// 2014).
    fn delay(&self, span: u64) -> u64 {
        // The delay is another for each processor and each interrupt, and the same in every run.
        let state = (self.seed << 32 | self.asked).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let parts = (mixed >> 32) % (3 * 64 + 1);
        (u128::from(span) * u128::from(parts) / 64) as u64
    }
}
