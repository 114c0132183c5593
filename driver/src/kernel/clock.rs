//! Clocks: how fast the time-stamp counter is, how fine timers are.

use crate::machine::timestamp;
use wdk_sys::ntddk::{ExQueryTimerResolution, KeDelayExecutionThread, KeQueryPerformanceCounter};
use wdk_sys::{_MODE, LARGE_INTEGER};

/// How long the two clocks are compared, in units of 100 ns: 20 ms, which settles the frequency to
/// some parts in a million.
const COMPARED: i64 = 200_000;

/// Both clocks at one moment.
struct Moment {
    timestamp: u64,
    performance: u64,
}

impl Moment {
    fn now() -> (Self, u64) {
        let mut frequency = LARGE_INTEGER::default();
        // SAFETY: any IRQL; the frequency is written to.
        let performance = unsafe { KeQueryPerformanceCounter(&raw mut frequency) };
        let timestamp = timestamp();
        let moment = Self {
            timestamp,
            performance: value(performance),
        };
        (moment, value(frequency))
    }
}

fn value(number: LARGE_INTEGER) -> u64 {
    // SAFETY: every bit pattern of the union is a number.
    unsafe { number.QuadPart }.cast_unsigned()
}

/// Ticks of the time-stamp counter in a second, measured against the performance counter.
/// PASSIVE_LEVEL.
#[must_use]
pub(crate) fn timestamp_frequency() -> u64 {
    let (began, frequency) = Moment::now();
    let mut interval = LARGE_INTEGER {
        QuadPart: -COMPARED,
    };
    // SAFETY: PASSIVE_LEVEL; the interval is read. It waits at least so long, or says why not, and
    // the clocks tell how long it was.
    let _ = unsafe { KeDelayExecutionThread(_MODE::KernelMode as i8, 0, &raw mut interval) };
    let (ended, _) = Moment::now();
    let ticks = ended.timestamp.wrapping_sub(began.timestamp);
    let passed = ended.performance.wrapping_sub(began.performance).max(1);
    (u128::from(ticks) * u128::from(frequency) / u128::from(passed)) as u64
}

/// The finest period of a high-resolution timer, in units of 100 ns. At most APC_LEVEL.
#[must_use]
pub(crate) fn timer_resolution() -> u32 {
    let (mut longest, mut finest, mut current) = (0, 0, 0);
    // SAFETY: three numbers are written.
    unsafe { ExQueryTimerResolution(&raw mut longest, &raw mut finest, &raw mut current) };
    finest.max(1)
}
