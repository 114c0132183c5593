//! What happened lately: a ring of entries that a debugger shows (`!halprof_trace`), and refusals
//! in the debug output.
//!
//! Atomics alone, so that any IRQL may add an entry.

use crate::cpu::timestamp;
use crate::print;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Entries that are kept; a power of two.
const ENTRIES: usize = 256;
/// Refusals that are printed in one second.
const PRINTED_A_SECOND: u32 = 10;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum What {
    /// The hardware is ready: how many processors, ticks of the time-stamp counter in a second.
    Ready = 1,
    /// The hardware was released.
    Released = 2,
    /// The device has entered D0.
    Awake = 3,
    /// The device is leaving D0: for which power state.
    Asleep = 4,
    /// The device was removed without warning.
    SurpriseRemoved = 5,
    /// A processor was added: its index, and whether there was memory for it.
    ProcessorAdded = 6,
    /// A handle was closed: which.
    Closed = 7,
    /// A request was refused: its code, and status over error code.
    Refused = 8,
    /// The counters were reserved: with which overflows (0 ignored, 1 interrupt, 2 callback), and
    /// the status.
    Reserved = 9,
    /// The counters were given back: the statuses of the interrupt and of the counters.
    GivenBack = 10,
    /// The hardware could not be made ready: the status.
    NotReady = 11,
    /// Windows has refused to remove the overflow interrupt's handler: the status.
    HandlerStuck = 12,
}

/// The ring. Its layout is what `driver/windbg/halprof.js` reads.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Trace {
    /// Entries ever made.
    made: AtomicU64,
    printed_since: AtomicU64,
    printed: AtomicU32,
    reserved: AtomicU32,
    entries: [Entry; ENTRIES],
}

/// One entry.
#[derive(Debug)]
#[repr(C)]
struct Entry {
    timestamp: AtomicU64,
    what: AtomicU32,
    process: AtomicU32,
    first: AtomicU64,
    second: AtomicU64,
}

impl Entry {
    const fn none() -> Self {
        Self {
            timestamp: AtomicU64::new(0),
            what: AtomicU32::new(0),
            process: AtomicU32::new(0),
            first: AtomicU64::new(0),
            second: AtomicU64::new(0),
        }
    }
}

/// The driver's trace.
pub(crate) static TRACE: Trace = Trace {
    made: AtomicU64::new(0),
    printed_since: AtomicU64::new(0),
    printed: AtomicU32::new(0),
    reserved: AtomicU32::new(0),
    entries: [const { Entry::none() }; ENTRIES],
};

/// Adds an entry. Any IRQL.
pub(crate) fn add(what: What, process: u32, first: u64, second: u64) {
    let number = TRACE.made.fetch_add(1, Relaxed) as usize;
    if let Some(entry) = TRACE.entries.get(number % ENTRIES) {
        entry.timestamp.store(timestamp(), Relaxed);
        entry.what.store(what as u32, Relaxed);
        entry.process.store(process, Relaxed);
        entry.first.store(first, Relaxed);
        entry.second.store(second, Relaxed);
    }
}

/// Adds an entry for a refusal, and prints it unless too many were printed in this second of
/// `frequency` ticks. At most DISPATCH_LEVEL.
pub(crate) fn refuse(process: u32, code: u32, status: u32, error: u32, frequency: u64) {
    let second = u64::from(status) << 32 | u64::from(error);
    add(What::Refused, process, code.into(), second);
    let now = timestamp();
    if now.wrapping_sub(TRACE.printed_since.load(Relaxed)) >= frequency {
        TRACE.printed_since.store(now, Relaxed);
        TRACE.printed.store(0, Relaxed);
    }
    if TRACE.printed.fetch_add(1, Relaxed) < PRINTED_A_SECOND {
        print::refusal(process, code, status, error);
    }
}
