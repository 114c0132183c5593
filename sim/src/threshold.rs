//! What a counter mask, its inversion and edge detection make of an event.

use crate::event::{Compare, Event, Feed};

/// The comparison before a counter: CMASK, INV and E of a P6 select; THRESHOLD, COMPLEMENT and
/// EDGE of a NetBurst CCCR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Threshold {
    /// One count where at least this many events happened in a cycle; 0 counts each event.
    pub(crate) at_least: u64,
    /// One count where fewer happened; without meaning where `at_least` is 0.
    pub(crate) invert: bool,
    /// One count where the comparison becomes true.
    pub(crate) edge: bool,
}

impl Threshold {
    /// The input that counts `event` in the modes given; `None` if it never counts.
    ///
    /// Edges are a property of the model: a cycle with events follows one without, so that each
    /// such cycle is one edge, and one edge of the inverted comparison too.
    pub(crate) fn feed(self, event: Event, user: bool, kernel: bool) -> Option<Feed> {
        let compare = match event {
            Event::Cycles | Event::RefCycles => self.of_clock()?,
            _ => self.compare(),
        };
        (user || kernel).then_some(Feed {
            event,
            user,
            kernel,
            compare,
        })
    }

    fn compare(self) -> Compare {
        match (self.at_least, self.edge, self.invert) {
            (0, false, _) => Compare::Off,
            (0, true, _) => Compare::AtLeast(1),
            (n, true, _) | (n, false, false) => Compare::AtLeast(n),
            (n, false, true) => Compare::Below(n),
        }
    }

    /// A clock comes once in each cycle that counts at all, and so never makes an edge.
    fn of_clock(self) -> Option<Compare> {
        let counts = match self.compare() {
            _ if self.edge => false,
            Compare::Off => true,
            Compare::AtLeast(n) => n <= 1,
            Compare::Below(n) => n > 1,
        };
        counts.then_some(Compare::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threshold(at_least: u64, invert: bool, edge: bool) -> Threshold {
        Threshold {
            at_least,
            invert,
            edge,
        }
    }

    #[test]
    fn events_compare_as_mask_inversion_and_edge_say() {
        let rows = [
            (threshold(0, false, false), Compare::Off),
            (threshold(0, true, false), Compare::Off),
            (threshold(2, false, false), Compare::AtLeast(2)),
            (threshold(2, true, false), Compare::Below(2)),
            (threshold(0, false, true), Compare::AtLeast(1)),
            (threshold(3, false, true), Compare::AtLeast(3)),
            (threshold(3, true, true), Compare::AtLeast(3)),
        ];
        for (threshold, compare) in rows {
            let feed = threshold.feed(Event::Branches, true, false);
            assert_eq!(
                feed.map(|feed| feed.compare),
                Some(compare),
                "{threshold:?}"
            );
        }
    }

    #[test]
    fn a_clock_comes_once_a_cycle() {
        let rows = [
            (threshold(0, false, false), true),
            (threshold(1, false, false), true),
            (threshold(2, false, false), false),
            (threshold(1, true, false), false),
            (threshold(2, true, false), true),
            (threshold(0, false, true), false),
        ];
        for (threshold, counts) in rows {
            let feed = threshold.feed(Event::Cycles, true, true);
            let all = feed.is_some_and(|feed| feed.compare == Compare::Off);
            assert_eq!((feed.is_some(), all), (counts, counts), "{threshold:?}");
        }
    }

    #[test]
    fn no_mode_counts_nothing() {
        assert_eq!(
            Threshold::default().feed(Event::Branches, false, false),
            None
        );
    }
}
