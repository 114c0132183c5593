//! A trace's clock: ticks to nanoseconds.

/// What a trace's time stamps count (evntrace.h, `WNODE_HEADER`, `ClientContext`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockType {
    /// The performance counter.
    #[default]
    PerformanceCounter,
    /// The system time, in units of 100 ns.
    SystemTime,
    /// The processor's cycle counter.
    ProcessorCycles,
}

impl ClockType {
    /// From the trace header's field. 0 is what a session gets that asks for none: the performance
    /// counter.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 | 1 => Some(Self::PerformanceCounter),
            2 => Some(Self::SystemTime),
            3 => Some(Self::ProcessorCycles),
            _ => None,
        }
    }

    /// The trace header's field.
    pub const fn number(self) -> u32 {
        match self {
            Self::PerformanceCounter => 1,
            Self::SystemTime => 2,
            Self::ProcessorCycles => 3,
        }
    }
}

/// The clock of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    ticks: ClockType,
    frequency: u64,
    origin: i64,
}

const NANOSECONDS: u64 = 1_000_000_000;
/// Units of 100 ns, in which FILETIMEs count, per second.
const FILETIME_HZ: u64 = 10_000_000;

impl Clock {
    /// A clock of `frequency` ticks per second (of the performance counter, or of the processor's
    /// cycles), which showed `origin` when the trace began. `None` without a frequency that a clock can
    /// have.
    pub fn new(clock_type: ClockType, frequency: u64, origin: i64) -> Option<Self> {
        let frequency = match clock_type {
            ClockType::SystemTime => FILETIME_HZ,
            _ => frequency,
        };
        // Beyond 18 GHz a second's ticks in nanoseconds do not fit 64 bits.
        let valid = (1..u64::MAX / NANOSECONDS).contains(&frequency);
        valid.then_some(Self { ticks: clock_type, frequency, origin })
    }

    /// What the ticks are.
    pub const fn clock_type(&self) -> ClockType {
        self.ticks
    }

    /// Ticks per second. Of the processor's cycles the trace header has only whole MHz.
    pub const fn frequency(&self) -> u64 {
        self.frequency
    }

    /// The ticks at which the trace began.
    pub const fn origin(&self) -> i64 {
        self.origin
    }

    /// Nanoseconds since the trace began; before it negative, and at the limit of the type where a
    /// damaged time is centuries away.
    pub fn ns(&self, time: i64) -> i64 {
        let ticks = time.abs_diff(self.origin);
        let seconds = ticks / self.frequency;
        let rest = ticks % self.frequency * NANOSECONDS / self.frequency;
        let ns = seconds.saturating_mul(NANOSECONDS).saturating_add(rest);
        let ns = i64::try_from(ns).unwrap_or(i64::MAX);
        if time < self.origin { -ns } else { ns }
    }

    /// The ticks in a number of nanoseconds.
    pub fn ticks(&self, ns: u64) -> u64 {
        let seconds = (ns / NANOSECONDS).saturating_mul(self.frequency);
        seconds.saturating_add(ns % NANOSECONDS * self.frequency / NANOSECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clock_is_converted() {
        for (clock_type, frequency, ticks, ns) in [
            (ClockType::PerformanceCounter, 10_000_000, 3, 300),
            (ClockType::PerformanceCounter, 2_337_949, 2_337_949, 1_000_000_000),
            (ClockType::PerformanceCounter, 3, 1, 333_333_333),
            (ClockType::SystemTime, 1, 10_000_000, 1_000_000_000),
            (ClockType::ProcessorCycles, 3_000_000_000, 3, 1),
            (ClockType::ProcessorCycles, 2_808_000_000, 2_808_000_000 * 86_400, 86_400_000_000_000),
        ] {
            let clock = Clock::new(clock_type, frequency, 1000).expect("a clock");
            assert_eq!(clock.ns(1000 + ticks), ns, "{clock_type:?} {frequency}");
            assert_eq!(clock.ns(1000 - ticks), -ns);
        }
    }

    #[test]
    fn no_time_overflows() {
        let clock = Clock::new(ClockType::PerformanceCounter, 1, i64::MIN).expect("a clock");
        assert_eq!(clock.ns(i64::MAX), i64::MAX);
        assert_eq!(clock.ticks(u64::MAX), u64::MAX / NANOSECONDS);
        let clock = Clock::new(ClockType::PerformanceCounter, 1, i64::MAX).expect("a clock");
        assert_eq!(clock.ns(i64::MIN), -i64::MAX);
    }

    #[test]
    fn a_clock_needs_a_frequency() {
        for frequency in [0, u64::MAX] {
            assert_eq!(Clock::new(ClockType::PerformanceCounter, frequency, 0), None);
        }
        assert_eq!(ClockType::from_number(4), None);
    }
}
