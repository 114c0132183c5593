//! Clocks: the frequency of the time-stamp counter, and the resolution of timers.
#![expect(unsafe_code, reason = "the kernel's clocks")]

use crate::cpu::{masked, timestamp};
use wdk_sys::ntddk::{ExQueryTimerResolution, KeDelayExecutionThread, KeQueryPerformanceCounter};
use wdk_sys::{_MODE, LARGE_INTEGER};

/// The time over which the two clocks are compared, in units of 100 ns: 50 ms.
const COMPARED: i64 = 500_000;
/// Pairs of readings taken at either end.
const PAIRS: u32 = 5;

/// Both clocks, read at one moment.
struct Moment {
    timestamp: u64,
    performance: u64,
    /// How long reading them took, in ticks of the time-stamp counter.
    taken: u64,
}

impl Moment {
    /// The tightest of several pairs. Any IRQL.
    fn now() -> Self {
        // A hypervisor exit, an SMI or a slow read of the performance counter within a pair distorts
        // the measured frequency; the tightest pair was disturbed least.
        let mut tightest = Self::pair();
        for _ in 1..PAIRS {
            let other = Self::pair();
            if other.taken < tightest.taken {
                tightest = other;
            }
        }
        tightest
    }

    fn pair() -> Self {
        // Masked: no interrupt may come between the two.
        masked(|| {
            let before = timestamp();
            // SAFETY: any IRQL; the frequency is not requested.
            let performance = unsafe { KeQueryPerformanceCounter(core::ptr::null_mut()) };
            let taken = timestamp().wrapping_sub(before);
            Self {
                timestamp: before.wrapping_add(taken / 2),
                performance: value(performance),
                taken,
            }
        })
    }
}

fn value(number: LARGE_INTEGER) -> u64 {
    // SAFETY: every bit pattern of the union is a number.
    unsafe { number.QuadPart }.cast_unsigned()
}

/// Frequency of the performance counter, in ticks per second. Any IRQL.
fn performance_frequency() -> u64 {
    let mut frequency = LARGE_INTEGER::default();
    // SAFETY: any IRQL; `frequency` is written.
    let _ = unsafe { KeQueryPerformanceCounter(&raw mut frequency) };
    value(frequency)
}

/// Frequency of the time-stamp counter in ticks per second, measured against the performance
/// counter. PASSIVE_LEVEL; takes 50 ms.
pub(crate) fn timestamp_frequency() -> u64 {
    let began = Moment::now();
    // Measured, not read from CPUID leaf 15h, which AMD's processors and many hypervisors leave
    // empty.
    let mut interval = LARGE_INTEGER { QuadPart: -COMPARED };
    // SAFETY: PASSIVE_LEVEL; the interval is read. The status does not matter: the clocks show how
    // long the wait really was.
    let _ = unsafe { KeDelayExecutionThread(_MODE::KernelMode as i8, 0, &raw mut interval) };
    let ended = Moment::now();
    let ticks = ended.timestamp.wrapping_sub(began.timestamp);
    // At least 1: a broken performance counter must not divide by 0.
    let passed = ended.performance.wrapping_sub(began.performance).max(1);
    (u128::from(ticks) * u128::from(performance_frequency()) / u128::from(passed)) as u64
}

/// The finest period of a high-resolution timer, in units of 100 ns. At most APC_LEVEL.
pub(crate) fn timer_resolution() -> u32 {
    let (mut longest, mut finest, mut current) = (0, 0, 0);
    // SAFETY: three numbers are written.
    unsafe { ExQueryTimerResolution(&raw mut longest, &raw mut finest, &raw mut current) };
    finest.max(1)
}
