//! What the driver did lately: a ring of entries that a debugger shows (`!halprof_trace`), and
//! refused requests in the debug output.
//!
//! Only atomics are used, so entries can be added at any IRQL.
#![expect(unsafe_code, reason = "a function of C with a variable list of arguments")]

use crate::cpu::timestamp;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use wdk_sys::ntddk::DbgPrintEx;

/// dpfilter.h.
const DPFLTR_IHVDRIVER_ID: u32 = 77;
const DPFLTR_WARNING_LEVEL: u32 = 1;

/// Entries kept; a power of two.
const ENTRIES: usize = 256;
/// The most refusals printed in one window: of 2^32 ticks of the time-stamp counter, one to four
/// seconds.
const PRINTED_A_WINDOW: u32 = 10;
const PRINT_WINDOW: u64 = 1 << 32;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum What {
    /// The hardware is ready: the number of processors, and the frequency of the time-stamp counter
    /// in ticks per second.
    Ready = 1,
    /// The hardware was released.
    Released = 2,
    /// The device has entered D0.
    Awake = 3,
    /// The device is leaving D0: the target power state.
    Asleep = 4,
    /// A processor was added: its index, and the status of making its block.
    ProcessorAdded = 5,
    /// A handle was closed: the handle.
    Closed = 6,
    /// A request was refused: its code, then the status in the high half and the error code in the
    /// low half.
    Refused = 7,
    /// The counters were reserved: how overflows are handled (0 ignored, 1 interrupt),
    /// and the status.
    Reserved = 8,
    /// The counters were given back: the status of removing the interrupt handler, and of freeing
    /// the counters.
    GivenBack = 9,
    /// The hardware could not be made ready: the status.
    NotReady = 10,
    /// Windows refused to remove the overflow interrupt's handler: the status.
    HandlerStuck = 11,
}

/// The ring. `driver/windbg/halprof.js` relies on its layout.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Trace {
    /// Number of entries ever added.
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
    // Relaxed, and no lock, which would bind the IRQL: an entry can be torn only if 256 others
    // are added while it is written.
    let number = TRACE.made.fetch_add(1, Relaxed) as usize;
    if let Some(entry) = TRACE.entries.get(number % ENTRIES) {
        entry.timestamp.store(timestamp(), Relaxed);
        entry.what.store(what as u32, Relaxed);
        entry.process.store(process, Relaxed);
        entry.first.store(first, Relaxed);
        entry.second.store(second, Relaxed);
    }
}

/// Adds an entry for a refusal, and writes it to the debug output; `ed nt!Kd_IHVDRIVER_Mask 0xf` in
/// WinDbg shows that. At most DISPATCH_LEVEL.
pub(crate) fn refuse(process: u32, code: u32, status: u32, error: u32) {
    let second = u64::from(status) << 32 | u64::from(error);
    add(What::Refused, process, code.into(), second);
    let now = timestamp();
    if now.wrapping_sub(TRACE.printed_since.load(Relaxed)) >= PRINT_WINDOW {
        TRACE.printed_since.store(now, Relaxed);
        TRACE.printed.store(0, Relaxed);
    }
    // A client that repeats a bad request must not flood the debug output: over a serial line each
    // text stops the machine for milliseconds.
    if TRACE.printed.fetch_add(1, Relaxed) >= PRINTED_A_WINDOW {
        return;
    }
    // SAFETY: the format takes four 32-bit numbers, and four are passed.
    let _ = unsafe {
        DbgPrintEx(
            DPFLTR_IHVDRIVER_ID,
            DPFLTR_WARNING_LEVEL,
            c"halprof: process %u: request %08x refused, status %08x, error %u\n".as_ptr(),
            process,
            code,
            status,
            error,
        )
    };
}
