//! Converts events of the timer to processor time.

use crate::aggregate::totals::Totals;
use crate::file::{Period, Source};
use halprof_measure::float::float;

/// The name of ProfileTime, without its filter.
const TIMER: &str = "Timer";

/// Nanoseconds in a unit of ProfileTime's period.
pub const UNIT_NS: u64 = 100;

/// The rate at which events of the timer are processor time: `events` of them in `units` of 100 ns.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorTime {
    units: u64,
    events: u64,
}

impl ProcessorTime {
    /// The rate of a timer that Windows or reference cycles sample; `None` for all other sources,
    /// and for a timer that core cycles sample, because their frequency varies.
    pub fn of(source: &Source) -> Option<Self> {
        let period = &source.period;
        let is_time = source.name.split(':').next() == Some(TIMER) && !period.by_core_cycles;
        is_time.then_some(match *period {
            Period { used, events, .. } if used != 0 && events != 0 => Self { units: used, events },
            _ => Self { units: 1, events: 1 },
        })
    }

    /// The time of so many events, in nanoseconds.
    pub fn nanoseconds(self, events: u64) -> u64 {
        let a_period = u128::from(self.units) * u128::from(UNIT_NS);
        let nanoseconds = u128::from(events).saturating_mul(a_period) / u128::from(self.events);
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    /// The same samples, weighted by units of 100 ns instead of events.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "squares only serve bounds, and casts saturate"
    )]
    pub fn in_units(self, totals: Totals) -> Totals {
        let factor = float(self.units) / float(self.events);
        let squares = (float(totals.squares) * factor * factor) as u128;
        Totals { events: self.nanoseconds(totals.events) / UNIT_NS, squares, ..totals }
    }

    /// The time of so many events, in seconds.
    pub fn seconds(self, events: u64) -> f64 {
        float(self.nanoseconds(events)) / 1e9
    }
}

impl PartialEq for ProcessorTime {
    fn eq(&self, other: &Self) -> bool {
        let crosswise = |a: Self, b: Self| u128::from(a.units) * u128::from(b.events);
        crosswise(*self, *other) == crosswise(*other, *self)
    }
}

impl Eq for ProcessorTime {}

#[cfg(test)]
mod tests {
    use super::*;

    /// ProfileTime's interval is in units of 100 ns (wdm.h, KeSetIntervalProfile): 10,000 are 1 ms.
    #[test]
    fn events_of_the_timer_are_time() {
        let timer = Period { used: 10_000, ..Period::default() };
        let by_cycles = Period { events: 3_000_000, by_reference_cycles: true, ..timer.clone() };
        let by_core = Period { events: 3_000_000, by_core_cycles: true, ..timer.clone() };
        for (name, period, events, expected) in [
            ("Timer", &timer, 62_150_000, Some(6.215)),
            ("Timer:u", &timer, 10_000, Some(0.001)),
            ("Timer", &by_cycles, 3_000_000_000, Some(1.0)),
            ("Timer", &by_core, 3_000_000_000, None),
            ("Timer", &Period::default(), 10_000_000, Some(1.0)),
            ("Timer", &timer, u64::MAX, Some(float(u64::MAX) / 1e9)),
            ("TimerTicks", &timer, 10_000, None),
            ("TotalCycles", &timer, 10_000, None),
        ] {
            let source =
                Source { name: name.to_owned(), period: period.clone(), ..Source::default() };
            let seconds = ProcessorTime::of(&source).map(|time| time.seconds(events));
            assert_eq!(seconds, expected, "{name} {period:?}");
        }
    }

    #[test]
    fn rates_are_alike_whatever_the_period() {
        let of = |units, events| ProcessorTime { units, events };
        assert_eq!(of(1, 1), of(10_000, 10_000));
        assert_ne!(of(10_000, 3_000_000), of(10_000, 3_000_001));
    }
}
