//! Pentium counters (SDM vol. 3, "Performance Monitoring (Pentium Processors)").

use bitfield_struct::bitfield;

/// CESR: control and event select of both counters.
pub const CESR: u32 = 0x11;
/// CTR0; CTR1 follows.
pub const CTR0: u32 = 0x12;
/// Width of both counters.
pub const COUNTER_WIDTH: u8 = 40;
/// Number of counters.
pub const COUNTERS: u8 = 2;
/// CESR has a half for each counter, this many bits apart.
pub const CESR_HALF: u32 = 16;
/// The meaningful bits of one half: ES, CC and PC.
pub const CESR_HALF_MASK: u64 = 0x3FF;

/// One half of CESR.
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct CesrHalf {
    /// ES: event select.
    #[bits(6)]
    pub event: u8,
    /// CC bit 0: count at CPL 0 to 2.
    pub os: bool,
    /// CC bit 1: count at CPL 3.
    pub usr: bool,
    /// CC bit 2: count clocks instead of events.
    pub clocks: bool,
    /// PC: the pin signals overflows instead of increments.
    pub pin: bool,
    #[bits(6)]
    _reserved: u8,
}
