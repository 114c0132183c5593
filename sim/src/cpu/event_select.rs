//! The event-select register that Intel and AMD share, from P6 and K7 on.

use crate::cpu::event::{Compare, Event, Feed, Threads};
use bitfield_struct::bitfield;

/// IA32_PERFEVTSELx (SDM vol. 3, "Architectural Performance Monitoring Version 1") and AMD's
/// PERF_CTL (APM vol. 2, "Performance Monitoring Counters").
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub(crate) struct EventSelect {
    /// Event select, bits 7:0.
    pub(crate) event: u8,
    pub(crate) unit_mask: u8,
    /// Counts at CPL 3.
    pub(crate) usr: bool,
    /// Counts at CPL 0.
    pub(crate) os: bool,
    /// Counts rising edges of the condition.
    pub(crate) edge: bool,
    /// Toggles the PMi pin; counts the same.
    pub(crate) pin_control: bool,
    /// Interrupt on overflow.
    pub(crate) int: bool,
    /// Intel version 3: counts for both threads of the core. AMD: reserved.
    pub(crate) any_thread: bool,
    /// Enables the counter.
    pub(crate) en: bool,
    /// Inverts the comparison with CMASK.
    pub(crate) inv: bool,
    /// Counts cycles with at least this many events; 0 counts events.
    pub(crate) cmask: u8,
    /// Specific to each vendor: Intel's TSX, EQ and UMASK2 bits; AMD's event bits 11:8, guest and
    /// host.
    pub(crate) high: u32,
}

impl EventSelect {
    /// What a counter with this select adds up where its event is `event`.
    pub(crate) fn feed(self, event: Event) -> Feed {
        Feed {
            event,
            user: self.usr(),
            kernel: self.os(),
            compare: Compare::new(u64::from(self.cmask()), self.inv(), self.edge()),
            threads: Threads::Own,
        }
    }
}
