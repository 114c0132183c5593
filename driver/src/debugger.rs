//! The way in for a debugger. No code reads it; `entry` names it, so that the linker keeps it.

use crate::block::{TABLE, Table};
use crate::device::{HARDWARE, Hardware};
use crate::trace::{TRACE, Trace};
use core::sync::atomic::AtomicPtr;

/// Where everything can be reached from. Its name and layout are what
/// `driver/windbg/halprof.js` reads: docs/windbg.md.
#[repr(C)]
pub(crate) struct Global {
    /// `halprof` and a zero, to be found in a dump.
    magic: [u8; 8],
    /// The layout of this structure.
    version: u32,
    reserved: u32,
    /// The processors of the device, while its hardware is ready.
    table: &'static AtomicPtr<Table>,
    /// The device's `Hardware`, while it is ready.
    hardware: &'static AtomicPtr<Hardware>,
    /// What happened lately.
    trace: &'static Trace,
}

/// The symbol that a debugger looks for: `halprof!halprof_driver::debugger::HALPROF`.
pub(crate) static HALPROF: Global = Global {
    magic: *b"halprof\0",
    version: 2,
    reserved: 0,
    table: &TABLE,
    hardware: &HARDWARE,
    trace: &TRACE,
};
