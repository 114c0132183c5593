//! The periods of one processor's samples: the throttle lengthens them, and those that no one gave
//! are drawn at random.
//!
//! A period that divides what a loop counts in one round, or nearly does, samples the same few
//! instructions again and again. So a period that was not given exactly is drawn from a band around
//! its mean. Source: J. M. Anderson and others, "Continuous Profiling: Where Have All the Cycles
//! Gone?", ACM Transactions on Computer Systems 15, 1997.

use crate::plan::counter_config::CounterConfig;
use zerocopy::FromZeros;

/// The longest mean: what is drawn around it is at most what a sign-extended 32-bit counter write can
/// hold.
pub(crate) const LONGEST: u64 = i32::MAX as u64 / 17 * 16;
/// Further doublings change nothing: by then even the shortest period exceeds the longest.
const MOST_DOUBLINGS: u32 = 31;

/// Makes the periods. All zeros: none is lengthened.
#[derive(Debug, FromZeros)]
pub(crate) struct Periods {
    /// How many times the throttle has doubled them.
    doublings: u32,
    random: u32,
}

impl Periods {
    /// Begins the periods of a new session.
    pub(crate) fn begin(&mut self, seed: u32) {
        *self = Self { doublings: 0, random: seed };
    }

    /// Doubles all periods from the next reload on: presets that are already running stay.
    pub(crate) fn double(&mut self) {
        self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
    }

    /// Halves them again.
    pub(crate) fn halve(&mut self) {
        self.doublings = self.doublings.saturating_sub(1);
    }

    /// A period as the throttle has lengthened it; the mean if periods are drawn.
    #[inline]
    pub(crate) fn lengthened(&self, period: u32) -> u64 {
        match self.doublings {
            0 => period.into(),
            // A period that was given exactly may be longer than LONGEST already.
            doublings => {
                (u64::from(period) << doublings.min(MOST_DOUBLINGS)).min(LONGEST.max(period.into()))
            }
        }
    }

    /// The next period of a source.
    #[inline]
    pub(crate) fn next(&mut self, config: &CounterConfig) -> u64 {
        let period = self.lengthened(config.period);
        if config.drawn { self.draw(period) } else { period }
    }

    /// A period from `mean - mean / 16` to `mean + mean / 16`. It is the sum of two that are equally
    /// likely, one three times as wide as the other. In a loop whose round is between a half and all of
    /// the band, that leaves less correlation between samples than one of the whole band or two of the
    /// same width: 0.06, 0.18 and 0.22 where ten rounds are the mean.
    #[inline]
    fn draw(&mut self, mean: u64) -> u64 {
        // W. H. Press and others, Numerical Recipes in C, 2nd edition, 7.1, "An Even Quicker
        // Generator".
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let each_way = mean / 16;
        let sum = 3 * u64::from(self.random >> 16) + u64::from(self.random & 0xFFFF);
        // Wrapping, so that no check can panic: a mean has 31 bits, so that the product has 45.
        let drawn = sum.wrapping_mul(each_way) >> 17;
        mean.wrapping_sub(each_way).wrapping_add(drawn)
    }
}
