//! The entry point for a debugger. No code reads it; `entry` refers to it so that the linker keeps
//! it.

use crate::device::{HARDWARE, Hardware};
use crate::per_cpu::{TABLE, Table};
use crate::system_events::{SYSTEM_EVENTS, SystemEvents};
use crate::trace::{TRACE, Trace};
use core::sync::atomic::AtomicPtr;
use shared_types::Sample;

/// The global from which everything can be reached. `driver/windbg/halprof.js` relies on its name
/// and layout: see docs/windbg.md.
#[repr(C)]
pub(crate) struct Global {
    /// `halprof` and a zero byte, so that it can be found in a dump.
    magic: [u8; 8],
    /// Version of this structure's layout.
    version: u32,
    reserved: u32,
    /// The processors of the device, while its hardware is ready.
    table: &'static AtomicPtr<Table>,
    /// The device's `Hardware`, while it is ready.
    hardware: &'static AtomicPtr<Hardware>,
    /// What the driver did lately.
    trace: &'static Trace,
    /// The ring of system events.
    events: &'static SystemEvents,
    /// None: so that the symbols have the type, in which the rings' words are shown.
    sample: Option<&'static Sample>,
}

/// The symbol that a debugger looks for: `halprof!halprof_driver::debugger::HALPROF`.
pub(crate) static HALPROF: Global = Global {
    magic: *b"halprof\0",
    version: 4,
    reserved: 0,
    table: &TABLE,
    hardware: &HARDWARE,
    trace: &TRACE,
    events: &SYSTEM_EVENTS,
    sample: None,
};
