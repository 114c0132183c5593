//! The one global: the way in for a debugger, and for the functions that Windows calls without a
//! context.

use crate::kernel::processors::Table;
use crate::trace::Trace;
use core::sync::atomic::AtomicPtr;

/// Where everything can be reached from. Its name and layout are what
/// `driver/windbg/halprof.js` reads: docs/windbg.md.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Global {
    /// `halprof` and a zero, to be found in a dump.
    magic: [u8; 8],
    /// The layout of this structure.
    version: u32,
    reserved: u32,
    /// The processors of the device, while its hardware is ready.
    pub(crate) table: AtomicPtr<Table>,
    /// The device's `Hardware`, while it is ready.
    pub(crate) hardware: AtomicPtr<crate::device::Hardware>,
    /// What happened lately.
    pub(crate) trace: Trace,
}

/// The symbol that a debugger looks for: `halprof!halprof_driver::global::HALPROF`.
#[used]
pub(crate) static HALPROF: Global = Global {
    magic: *b"halprof\0",
    version: 1,
    reserved: 0,
    table: AtomicPtr::new(core::ptr::null_mut()),
    hardware: AtomicPtr::new(core::ptr::null_mut()),
    trace: Trace::empty(),
};
