//! A simple predictor of conditional branches.

/// Its description.
pub const NAME: &str = "bimodal: 4,096 two-bit counters chosen by the low bits of a branch's \
                        address, at the start weakly not taken";

const COUNTERS: usize = 4096;

/// A branch is predicted taken from this value on.
const TAKEN: u8 = 2;

/// Two-bit saturating counters (J. E. Smith, "A Study of Branch Prediction Strategies", 1981).
#[derive(Clone, Debug)]
pub struct Bimodal {
    counters: Vec<u8>,
}

impl Default for Bimodal {
    fn default() -> Self {
        Self {
            counters: vec![TAKEN - 1; COUNTERS],
        }
    }
}

impl Bimodal {
    /// Whether a branch goes differently than predicted; updates the predictor.
    pub fn mispredicts(&mut self, address: u64, taken: bool) -> bool {
        let index = (address % COUNTERS as u64) as usize;
        let Some(counter) = self.counters.get_mut(index) else {
            return false;
        };
        let predicted = *counter >= TAKEN;
        *counter = if taken {
            (*counter + 1).min(3)
        } else {
            counter.saturating_sub(1)
        };
        predicted != taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mispredicted(outcomes: impl IntoIterator<Item = bool>) -> usize {
        let mut predictor = Bimodal::default();
        let wrong = outcomes
            .into_iter()
            .filter(|&taken| predictor.mispredicts(0x1000, taken));
        wrong.count()
    }

    #[test]
    fn a_loop_is_mispredicted_when_it_starts_and_when_it_ends() {
        let turns = (0..100).map(|turn| turn != 99);
        assert_eq!(mispredicted(turns), 2);
    }

    #[test]
    fn a_branch_that_alternates_is_always_mispredicted_from_its_weak_start() {
        assert_eq!(mispredicted((0..100).map(|turn| turn % 2 == 0)), 100);
        assert_eq!(mispredicted((0..100).map(|_| false)), 0);
    }

    #[test]
    fn branches_whose_low_bits_agree_share_a_counter() {
        let mut predictor = Bimodal::default();
        assert!(predictor.mispredicts(0x1000, true));
        assert!(!predictor.mispredicts(0x2000, true));
        assert!(predictor.mispredicts(0x1001, true));
    }
}
